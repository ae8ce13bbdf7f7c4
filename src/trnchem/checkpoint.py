"""Finished pairs in a file of fixed layout: each is written in its place when it is done, and checked when read.

The file is a head, which says what it is of, the orbitals, and a slot of 32 bytes for every pair, or for every
quadrature point and random vector: rows and columns of a matrix, of which pairs fill the upper triangle. Head and
orbitals are written once, with checksums, under another name, and appear whole. A slot holds two energies with a
checksum of their own, and lies within one sector of a disk: a power cut leaves it as it was or as it should be, and a
kill at worst half written, which the checksum shows. Nothing is ever unpickled, and nothing the file says is believed
before it agrees with the calculation that reads it: sizes are compared before memory is allocated.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import secrets
import socket
import stat
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from trnchem.files import PREFIX, Files, has_name, lock, remove_partials
from trnchem.orbitals import Orbitals
from trnchem.pairs import PairState
from trnchem.store import full_disk
from trnsci import ArgumentError
from trnsci.cache import find_exposure
from trnsci.console import shorter
from trnsim.json_reader import check_fields, parse_json

FORMAT = b"trnchem.dfmp2 4\n"
ARRAYS = ("C_occ", "C_vir", "e_occ", "e_vir")
SLOT = 32
# Seconds between two moments at which the file survives a power cut; it survives a kill at any.
SYNC_EVERY = 2.0
# Format, the process that writes, and the length of the text. The second part changes and has no checksum.
_PREAMBLE = struct.Struct("<16s104sQ")
_HOLDER = slice(16, 120)
_CHECKSUM = 32
# Bytes of text to read at most: a description in words, and the positions of frozen orbitals.
_MOST_TEXT = 1 << 20
# Hartree by which orbital energies of the file and of the mean field may differ.
_SAME_ENERGIES = 1e-4
# How much inner products of orbitals may differ, which a mean field that runs again rotates at most.
_SAME_PRODUCTS = 1e-6
# Hartree that no pair reaches; sums of energies below it are finite.
_MOST_ENERGY = 1e12
# What a folder answers in which this user cannot make or lock files.
_UNREACHABLE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG),
    *(errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP),
)
_SAFE = "The pairs finished before are safe in the file; free some space and run again"
_NOTHING = "Nothing has been computed yet; free some space and run again"

FILES = Files()


class Layout(NamedTuple):
    """Head of a file, and the offsets of the parts after it.

    Attributes:
        identity: of the calculation.
        token: of the file, random.
        shapes: of the orbitals' arrays.
        digest: SHA-256 of those arrays.
        slots: rows and columns.
        arrays: offset of the orbitals.
    """

    identity: dict[str, str]
    token: str
    shapes: list[list[int]]
    digest: str
    slots: list[int]
    arrays: int

    @property
    def end(self) -> int:
        """Offset after the orbitals."""
        return self.arrays + sum(8 * math.prod(shape) for shape in self.shapes)

    @property
    def start(self) -> int:
        """Offset of the slots, a multiple of their size."""
        return _round_up(self.end)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.start + SLOT * math.prod(self.slots)


class Slots:
    """The slots of an open file, which any process that has the file may fill: no two write the same one."""

    def __init__(self, path: Path, descriptor: int, layout: Layout) -> None:
        self._path, self._descriptor, self._layout, self.token = path, descriptor, layout, layout.token
        self._synced = time.monotonic()

    @classmethod
    def join(cls, path: str | Path, token: str) -> Slots | None:
        """Open the file another process of the same calculation wrote, or ``None`` where it cannot be reached."""
        try:
            descriptor = FILES.open(Path(path))
        except OSError:
            return None
        try:
            layout = _read_head(descriptor)
        except (OSError, ValueError):
            layout = None
        if layout is None or layout.token != token:
            os.close(descriptor)
            return None
        return cls(Path(path), descriptor, layout)

    def put(self, i: int, j: int, energies: tuple[Tensor, Tensor]) -> None:
        """Write energies of orbital ``i`` with those from ``j`` on; a kill afterwards does not lose them.

        Every `SYNC_EVERY` seconds a power cut does not either.
        """
        columns = zip(*(part.tolist() for part in energies), strict=True)
        data = b"".join(_slot(self.token, i, j + k, *pair) for k, pair in enumerate(columns))
        offset = self._layout.start + SLOT * (i * self._layout.slots[1] + j)
        with full_disk(self._path, len(data), _SAFE, end=offset + len(data)):
            FILES.write(self._descriptor, data, offset)
        if time.monotonic() - self._synced > SYNC_EVERY:
            self.sync()

    def sync(self) -> None:
        """Return when everything is on the disk; a power cut afterwards does not lose it."""
        with full_disk(self._path, self._layout.size - self._layout.start, _SAFE, end=self._layout.size):
            FILES.sync(self._descriptor)
        self._synced = time.monotonic()

    def write_holder(self, holder: bytes) -> None:
        """Name the process that writes the file, for others that try to."""
        # on a full disk the lock holds without the name
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, holder.ljust(_HOLDER.stop - _HOLDER.start, b"\0"), _HOLDER.start)

    def close(self) -> None:
        """Synchronise and let go of the file."""
        try:
            self.sync()
        finally:
            os.close(self._descriptor)


def usable(path: str | Path) -> Path:
    """Return the path of a checkpoint, which a calculation can write."""
    if not isinstance(path, str | Path) or "\0" in str(path):
        raise ArgumentError("dfmp2", "checkpoint", path, "the path of a file")
    file = Path(path)
    try:
        if file.is_dir() or file.is_symlink() or not file.parent.is_dir():
            raise ArgumentError("dfmp2", "checkpoint", path, "a file in a folder that exists, and not a link")
    except OSError as error:
        raise ArgumentError("dfmp2", "checkpoint", path, f"a file that can be made ({error.strerror})") from None
    if file.name.startswith(PREFIX):
        raise ArgumentError("dfmp2", "checkpoint", path, f"a name that does not begin with {PREFIX!r}")
    return file


class Checkpoint:
    """The file of one calculation: what it is of, its orbitals, and the energies of finished pairs. One process has it.

    The orbitals are kept because a mean field that runs again may rotate degenerate ones or change signs, and pairs of
    different orbitals do not add up to an energy.

    Args:
        path: of the file; its folder must exist, and a link is refused.
        identity: what the calculation is of, by name. A file with other values is refused.
        slots: rows and columns of the energies it keeps.
        pairs: whether only those from the diagonal on are filled.
        overlap: [nao, nao], in which the orbitals are orthonormal.
    """

    def __init__(
        self, path: str | Path, identity: Mapping[str, str], slots: Sequence[int], *, pairs: bool, overlap: Tensor
    ) -> None:
        self.path, self.identity, self._shape, self._pairs = usable(path), dict(identity), list(slots), pairs
        self._overlap = overlap
        self.slots: Slots | None = None
        remove_partials(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.slots is not None:
            if kind is None:
                self.slots.write_holder(b"")
            self.slots.close()

    def load(self, orbitals: Orbitals) -> tuple[Orbitals, PairState] | None:
        """Return the orbitals and finished pairs of the file, or ``None`` where there is no file.

        Raises:
            ArgumentError: the file is damaged, belongs to another calculation or another user, or is being written.
        """
        try:
            descriptor = FILES.open(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreachable(error) from None
        try:
            self._claim(descriptor)
            layout, kept, state, torn = self._read(descriptor, orbitals)
            with full_disk(self.path, SLOT * len(torn), _SAFE, end=layout.size):
                for offset in torn:
                    FILES.write(descriptor, bytes(SLOT), offset)
        except BaseException:
            os.close(descriptor)
            raise
        self.slots = Slots(self.path, descriptor, layout)
        self.slots.write_holder(_holder())
        return kept, state

    def _refusal(self, got: str, expected: str, hint: str = "") -> ArgumentError:
        hint = hint or "Name another file, or delete this one to start again"
        return ArgumentError("dfmp2", f"checkpoint {self.path}", got, expected, hint=hint)

    def _unreachable(self, error: OSError) -> ArgumentError:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            return self._refusal("not a plain file", "the file a calculation wrote")
        got = f"not to be written: {error.strerror or error}"
        return self._refusal(got, "a file this user may write", "Name a file in another folder")

    def _claim(self, descriptor: int) -> None:
        """Become the one writer of an open file, which is this user's own."""
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise self._refusal("not a plain file", "the file a calculation wrote")
        if exposed := find_exposure(about):
            hint = f"Nothing was read from it. If you trust it, copy it: cp {self.path} COPY && chmod 600 COPY"
            raise self._refusal(*exposed, hint)
        wait = "Wait for that calculation, or name another file"
        try:
            free = lock(descriptor)
        except OSError as error:
            got = f"on a file system without locks: {error.strerror or error}"
            raise self._refusal(
                got, "one where two writers can be told apart", "Name a file in another folder"
            ) from None
        if not free:
            said = os.pread(descriptor, _PREAMBLE.size, 0)[_HOLDER].rstrip(b"\0").decode(errors="replace")
            raise self._refusal(f"in use by {said or 'another process'}", "a file that nobody else writes", wait)
        if not has_name(descriptor, self.path):
            raise self._refusal("replaced by another process just now", "a file that nobody else writes", wait)

    def _lost_race(self) -> ArgumentError:
        """Return why another process has the name of the file, which was free a moment ago."""
        with contextlib.suppress(OSError):
            descriptor = FILES.open(self.path)
            try:
                self._claim(descriptor)
            except ArgumentError as error:
                return error
            finally:
                os.close(descriptor)
        hint = "Run again to go on from it, or name another file"
        return self._refusal("made by another process just now", "a file that nobody else writes", hint)

    def _read(self, descriptor: int, orbitals: Orbitals) -> tuple[Layout, Orbitals, PairState, list[int]]:
        """Read the file in the order in which its parts can be believed."""
        try:
            layout = _read_head(descriptor)
            for name in {**self.identity, **layout.identity}:
                mine, other = (words.get(name, "not said") for words in (self.identity, layout.identity))
                if mine != other:
                    got = f"of another calculation: its {shorter(name, 40)} is {shorter(other, 200)}"
                    raise self._refusal(got, f"{shorter(name, 40)} {mine}")
            shapes = [list(getattr(orbitals, name).shape) for name in ARRAYS]
            if layout.shapes != shapes or layout.slots != self._shape:
                got = f"with orbitals {layout.shapes} and slots {layout.slots}"
                raise self._refusal(got, f"orbitals {shapes} and slots {self._shape}")
            arrays = _read_arrays(descriptor, layout)
            for kept, now in zip(arrays[2:], (orbitals.e_occ, orbitals.e_vir), strict=True):
                if now.numel() and not float((kept - now).abs().max()) <= _SAME_ENERGIES:
                    raise self._refusal("of another state of this molecule", "the same orbital energies")
            C_occ, C_vir, e_occ, e_vir = arrays
            restored = replace(orbitals, C_occ=C_occ, C_vir=C_vir, e_occ=e_occ, e_vir=e_vir)
            for theirs, ours in zip(restored.products(self._overlap), orbitals.products(self._overlap), strict=True):
                if ours.numel() and not float((theirs - ours).abs().max()) <= _SAME_PRODUCTS:
                    raise ValueError("its orbitals are not orthonormal")
            return layout, restored, *_read_slots(descriptor, layout, self._pairs)
        except ArgumentError:
            raise
        except ValueError as error:
            raise self._refusal(f"damaged ({error})", "the file a calculation wrote") from None

    def start(self, orbitals: Orbitals) -> Slots:
        """Return the slots of the file; make one where there is none.

        Raises:
            CapacityError: the disk has no room for it.
            ArgumentError: the folder cannot be written, or another process has made the file by now.
        """
        if self.slots is not None:
            return self.slots
        head, layout = _pack(self.identity, [getattr(orbitals, name) for name in ARRAYS], self._shape)
        with full_disk(self.path, layout.size, _NOTHING):
            try:
                descriptor, fresh = FILES.create(self.path)
            except OSError as error:
                if error.errno not in _UNREACHABLE:
                    raise
                raise self._unreachable(error) from None
            try:
                FILES.reserve(descriptor, layout.size)
                FILES.write(descriptor, head, 0)
                FILES.sync(descriptor)
                FILES.publish(fresh, self.path)
            except BaseException as error:
                os.close(descriptor)
                fresh.unlink(missing_ok=True)
                if isinstance(error, FileExistsError):
                    raise self._lost_race() from None
                raise
        self.slots = Slots(self.path, descriptor, layout)
        return self.slots


def _holder() -> bytes:
    return f"process {os.getpid()} on {socket.gethostname()}".encode()[: _HOLDER.stop - _HOLDER.start]


def _round_up(offset: int) -> int:
    return -(-offset // SLOT) * SLOT


def _slot(token: str, i: int, j: int, opposite: float, same: float) -> bytes:
    energies = struct.pack("<dd", opposite, same)
    return energies + hashlib.blake2b(f"{token} {i} {j}".encode() + energies, digest_size=16).digest()


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(FORMAT + struct.pack("<Q", len(text)) + text).digest()


def _pack(identity: dict[str, str], arrays: list[Tensor], slots: list[int]) -> tuple[bytes, Layout]:
    """Return everything before the slots, and the layout of the file."""
    data = b"".join(np.ascontiguousarray(array.numpy(), "<f8").tobytes() for array in arrays)
    facts: dict[str, Any] = {
        "identity": identity,
        "token": secrets.token_hex(16),
        "shapes": [list(array.shape) for array in arrays],
        "digest": hashlib.sha256(data).hexdigest(),
        "slots": slots,
    }
    text = json.dumps(facts).encode()
    head = _PREAMBLE.pack(FORMAT, _holder(), len(text)) + text + _checksum(text)
    layout = Layout(**facts, arrays=_round_up(len(head)))
    return (head.ljust(layout.arrays, b"\0") + data).ljust(layout.start, b"\0"), layout


def _read_head(descriptor: int) -> Layout:
    """Return what the head of a file says; ``ValueError`` when it is damaged, or could not have been written here."""
    size = os.fstat(descriptor).st_size
    preamble = os.pread(descriptor, _PREAMBLE.size, 0)
    if preamble[:14] == FORMAT[:14] and preamble[14:16] != FORMAT[14:]:
        raise ValueError(f"it is of format {preamble[:16]!r}, and this version reads {FORMAT!r}")
    if len(preamble) < _PREAMBLE.size or preamble[:16] != FORMAT:
        raise ValueError("it is not the file of a calculation, or not all of it")
    length = _PREAMBLE.unpack(preamble)[2]
    if length > min(_MOST_TEXT, size):
        raise ValueError(f"its text has {length} bytes, and the file {size}")
    data = os.pread(descriptor, length + _CHECKSUM, _PREAMBLE.size)
    text = data[:length]
    if len(data) < length + _CHECKSUM or _checksum(text) != data[length:]:
        raise ValueError("its checksum is wrong")
    facts = check_fields(
        parse_json(text, most=_MOST_TEXT), identity=dict, token=str, shapes=list, digest=str, slots=list
    )
    if not all(type(words) is str for words in facts["identity"].values()):
        raise ValueError("its identity is not in words")
    if not re.fullmatch(r"[0-9a-f]{32}", facts["token"]):
        raise ValueError("its token is not 32 hexadecimal digits")
    for shape in (*facts["shapes"], facts["slots"]):
        if type(shape) is not list or not all(type(n) is int and 0 <= n <= 1 << 31 for n in shape):
            raise ValueError("its shapes are not lists of sizes")
    if [len(shape) for shape in (*facts["shapes"], facts["slots"])] != [2, 3, 1, 2, 2]:
        raise ValueError("its shapes are not those of orbitals and slots")
    layout = Layout(**facts, arrays=_round_up(_PREAMBLE.size + length + _CHECKSUM))
    if layout.size != size:
        raise ValueError(f"it has {size} bytes, and its orbitals and slots take {layout.size}")
    for before, after in ((_PREAMBLE.size + length + _CHECKSUM, layout.arrays), (layout.end, layout.start)):
        if any(os.pread(descriptor, after - before, before)):
            raise ValueError(f"the bytes before {after} are not empty")
    return layout


def _read_arrays(descriptor: int, layout: Layout) -> list[Tensor]:
    """Return the orbitals; ``ValueError`` when they are damaged or not finite."""
    counts = [math.prod(shape) for shape in layout.shapes]
    data = os.pread(descriptor, 8 * sum(counts), layout.arrays)
    if hashlib.sha256(data).hexdigest() != layout.digest:
        raise ValueError("the checksum of its orbitals is wrong")
    values = np.frombuffer(data, "<f8")
    if not np.isfinite(values).all():
        raise ValueError("its orbitals are not finite")
    parts = torch.from_numpy(values.astype(np.float64)).split(counts)
    return [part.reshape(shape) for part, shape in zip(parts, layout.shapes, strict=True)]


def _read_slots(descriptor: int, layout: Layout, pairs: bool) -> tuple[PairState, list[int]]:
    """Return the energies of a file and the offsets of half-written slots, which are to be emptied.

    A process that did not end by itself has left its name in the head, and may have written a slot up to any byte.

    Raises:
        ValueError: a slot is neither empty, nor half-written, nor what a calculation writes.
    """
    rows, columns = layout.slots
    killed, torn = any(os.pread(descriptor, _PREAMBLE.size, 0)[_HOLDER]), []
    state = PairState.empty(rows, columns)
    opposite, same, done = state.opposite.numpy(), state.same.numpy(), state.done.numpy()
    empty = bytes(SLOT)
    for i in range(rows):
        row = os.pread(descriptor, SLOT * columns, layout.start + SLOT * columns * i)
        for j in range(columns):
            slot = row[SLOT * j : SLOT * (j + 1)]
            if slot == empty:
                continue
            energies: tuple[Any, ...] = struct.unpack("<dd", slot[:16].ljust(16, b"\0"))
            if slot != _slot(layout.token, i, j, *energies):
                if killed and slot.endswith(b"\0"):
                    torn.append(layout.start + SLOT * (columns * i + j))
                    continue
                raise ValueError(f"the checksum of pair {i}, {j} is wrong")
            if not all(abs(energy) <= _MOST_ENERGY for energy in energies) or (pairs and j < i):
                raise ValueError(f"it has energies {energies} of pair {i}, {j}")
            opposite[i, j], same[i, j], done[i, j] = *energies, True
    return state, torn
