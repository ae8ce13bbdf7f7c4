"""Finished pairs in a file of fixed layout: each is written in its place when it is done, and checked when read.

The file is a head, which says what it is of and holds the orbitals, and a slot of 32 bytes for every pair, or for every
quadrature point and random vector: rows and columns of a matrix, of which pairs fill the upper triangle. The head is
written once, with a checksum, under another name, and appears whole. A slot holds two energies with a checksum of their
own, and lies within one sector of a disk: a crash leaves it as it was or as it should be. Nothing is ever unpickled.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import math
import os
import secrets
import stat
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from trnchem.files import Files, Lock
from trnchem.orbitals import Orbitals
from trnchem.pairs import PairState
from trnchem.store import full_disk
from trnsci import ArgumentError

FORMAT = b"trnchem.dfmp2 3\n"
ARRAYS = ("C_occ", "C_vir", "e_occ", "e_vir")
SLOT = 32
# format, bytes of the head with its checksum, bytes of the file
_PREAMBLE = struct.Struct("<16sQQ")
_HINT = "The pairs finished before are safe in the file; free some space and run again"

FILES = Files()


class Slots:
    """The slots of an open file, which any process that has the file may fill: no two write the same one."""

    def __init__(self, path: Path, descriptor: int, start: int, token: str, columns: int) -> None:
        self._path, self._descriptor, self._start, self.token, self._columns = path, descriptor, start, token, columns

    @classmethod
    def join(cls, path: str | Path, token: str) -> Slots | None:
        """Open the file another process of the same calculation wrote, or ``None`` where it cannot be reached."""
        try:
            descriptor = FILES.open(Path(path))
        except OSError:
            return None
        try:
            data = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
            facts, _, start = _head(data)
        except (OSError, ValueError):
            facts, start = {}, 0
        if facts.get("token") != token:
            os.close(descriptor)
            return None
        return cls(Path(path), descriptor, start, token, facts["slots"][1])

    def put(self, i: int, j: int, energies: tuple[Tensor, Tensor]) -> None:
        """Write energies of orbital ``i`` with those from ``j`` on; a kill afterwards does not lose them."""
        columns = zip(*(part.tolist() for part in energies), strict=True)
        data = b"".join(_slot(self.token, i, j + k, *pair) for k, pair in enumerate(columns))
        with full_disk(self._path, _HINT):
            FILES.write(self._descriptor, data, self._start + SLOT * (i * self._columns + j))

    def sync(self) -> None:
        """Return when everything is on the disk; a power cut afterwards does not lose it."""
        with full_disk(self._path, _HINT):
            FILES.sync(self._descriptor)

    def close(self) -> None:
        """Synchronise and let go of the file."""
        try:
            self.sync()
        finally:
            os.close(self._descriptor)


def usable(path: str | Path) -> Path:
    """Return the path of a checkpoint, which a calculation can write."""
    file = Path(path) if isinstance(path, str | Path) else None
    if file is None or file.is_dir() or file.is_symlink() or not file.parent.is_dir():
        raise ArgumentError("dfmp2", "checkpoint", path, "a file in a folder that exists, and not a link")
    return file


class Checkpoint:
    """The file of one calculation: what it is of, its orbitals, and the energies of finished pairs. One process has it.

    The orbitals are kept because a mean field that runs again may rotate degenerate ones or change signs, and pairs of
    different orbitals do not add up to an energy.

    Args:
        path: of the file; its folder must exist, and a link is refused.
        identity: what the calculation is of, by name. A file with other values is refused.
    """

    def __init__(self, path: str | Path, identity: Mapping[str, str]) -> None:
        self.path = usable(path)
        self.identity = dict(identity)
        self.slots: Slots | None = None
        with full_disk(self.path, "Nothing has been computed yet; free some space and run again"):
            self._lock = Lock(self.path)
        for left in self.path.parent.glob(f"{glob.escape(self.path.name)}.*.new"):
            # of a process that died before its file was whole
            left.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if self.slots is not None:
                self.slots.close()
        finally:
            self._lock.release()

    def load(self, orbitals: Orbitals) -> tuple[Orbitals, PairState] | None:
        """Return the orbitals and finished pairs of the file, or ``None`` where there is no file.

        Raises:
            ArgumentError: the file is damaged, or belongs to another calculation.
        """
        try:
            descriptor = FILES.open(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO):
                raise
            raise self._refused("not a plain file", "the file a calculation wrote") from None
        try:
            facts, arrays, state, start = self._read(descriptor)
            for name, mine in self.identity.items():
                if facts["identity"].get(name) != mine:
                    got = f"of another calculation: its {name} is {facts['identity'].get(name)}"
                    raise self._refused(got, f"{name} {mine}")
            for kept, now in zip(arrays[2:], (orbitals.e_occ, orbitals.e_vir), strict=True):
                if kept.shape != now.shape or float((kept - now).abs().max()) > 1e-4:
                    raise self._refused("of another state of this molecule", "the same orbital energies")
        except BaseException:
            os.close(descriptor)
            raise
        self.slots = Slots(self.path, descriptor, start, facts["token"], state.done.shape[1])
        C_occ, C_vir, e_occ, e_vir = arrays
        return replace(orbitals, C_occ=C_occ, C_vir=C_vir, e_occ=e_occ, e_vir=e_vir), state

    def _refused(self, got: str, expected: str) -> ArgumentError:
        hint = "Name another file, or delete this one to start again"
        return ArgumentError("dfmp2", f"checkpoint {self.path}", got, expected, hint=hint)

    def _read(self, descriptor: int) -> tuple[dict[str, Any], list[Tensor], PairState, int]:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise self._refused("not a plain file", "the file a calculation wrote")
        data = os.pread(descriptor, _PREAMBLE.size, 0)
        if data[:14] == FORMAT[:14] and data[14:16] != FORMAT[14:]:
            raise self._refused(f"of format {data[:16]!r}", repr(FORMAT))
        try:
            if len(data) < _PREAMBLE.size or _PREAMBLE.unpack(data)[::2] != (FORMAT, about.st_size):
                raise ValueError("it is not the file of a calculation, or not all of it")
            data = os.pread(descriptor, about.st_size, 0)
            facts, arrays, start = _head(data)
            state = _energies(data, start, facts["token"], *facts["slots"])
        except ValueError as error:
            raise self._refused(f"damaged ({error})", "the file a calculation wrote") from None
        return facts, arrays, state, start

    def start(self, orbitals: Orbitals, rows: int, columns: int) -> Slots:
        """Return the slots of the file; make one with room for rows and columns of energies, where there is none.

        Raises:
            CapacityError: the disk has no room for it.
        """
        if self.slots is not None:
            return self.slots
        token, size = secrets.token_hex(16), SLOT * rows * columns
        arrays = [getattr(orbitals, name) for name in ARRAYS]
        shapes = [list(array.shape) for array in arrays]
        facts = {"identity": self.identity, "token": token, "shapes": shapes, "slots": [rows, columns]}
        head = _packed(facts, arrays, size)
        with full_disk(self.path, "Nothing has been computed yet; free some space and run again"):
            descriptor, fresh = FILES.create(self.path)
            try:
                FILES.reserve(descriptor, len(head) + size)
                FILES.write(descriptor, head, 0)
                FILES.sync(descriptor)
                FILES.replace(fresh, self.path)
            except BaseException:
                os.close(descriptor)
                fresh.unlink(missing_ok=True)
                raise
        self.slots = Slots(self.path, descriptor, len(head), token, columns)
        return self.slots


def _slot(token: str, i: int, j: int, opposite: float, same: float) -> bytes:
    energies = struct.pack("<dd", opposite, same)
    return energies + hashlib.blake2b(f"{token} {i} {j}".encode() + energies, digest_size=16).digest()


def _packed(facts: dict[str, Any], arrays: list[Tensor], slots: int) -> bytes:
    text = json.dumps(facts).encode()
    body = struct.pack("<Q", len(text)) + text
    body += b"".join(np.ascontiguousarray(array.numpy(), "<f8").tobytes() for array in arrays)
    # slots begin at a multiple of their size
    body += bytes(-(_PREAMBLE.size + len(body) + 32) % SLOT)
    size = _PREAMBLE.size + len(body) + 32
    body = _PREAMBLE.pack(FORMAT, size, size + slots) + body
    return body + hashlib.sha256(body).digest()


def _head(data: bytes) -> tuple[dict[str, Any], list[Tensor], int]:
    """Return what the head of a file says, its orbitals, and where slots begin; ``ValueError`` when it is damaged."""
    if len(data) < _PREAMBLE.size + 40:
        raise ValueError("it is too short")
    _, start, size = _PREAMBLE.unpack_from(data)
    if not _PREAMBLE.size + 40 <= start <= size == len(data):
        raise ValueError("its size is wrong")
    if hashlib.sha256(data[: start - 32]).digest() != data[start - 32 : start]:
        raise ValueError("its checksum is wrong")
    (length,) = struct.unpack_from("<Q", data, _PREAMBLE.size)
    offset = _PREAMBLE.size + 8 + length
    facts: dict[str, Any] = json.loads(data[_PREAMBLE.size + 8 : offset])
    arrays = []
    for shape in facts["shapes"]:
        array = np.frombuffer(data, "<f8", math.prod(shape), offset).reshape(shape)
        arrays.append(torch.from_numpy(array.copy()))
        offset += array.nbytes
    return facts, arrays, start


def _energies(data: bytes, start: int, token: str, rows: int, columns: int) -> PairState:
    """Return the energies of a file; ``ValueError`` when a slot is neither empty nor what was written."""
    state = PairState.empty(rows, columns)
    opposite, same, done = state.opposite.numpy(), state.same.numpy(), state.done.numpy()
    if len(data) != start + SLOT * rows * columns:
        raise ValueError("it has not as many slots as pairs")
    empty = bytes(SLOT)
    for i in range(rows):
        for j in range(columns):
            at = start + SLOT * (i * columns + j)
            slot = data[at : at + SLOT]
            if slot != empty:
                energies = struct.unpack_from("<dd", slot)
                if slot != _slot(token, i, j, *energies):
                    raise ValueError(f"the checksum of pair {i}, {j} is wrong")
                opposite[i, j], same[i, j], done[i, j] = *energies, True
    return state
