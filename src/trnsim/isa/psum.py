"""PSUM as the Tensor Engine writes it: one bank, overwriting or accumulating element by element.

What wrote each byte is marked (`UNWRITTEN`, `WRITTEN` by another engine, `MATMUL`), so that a matmul knows whether it
starts an accumulation or continues one, and accumulation that hardware leaves undefined is refused.
"""

from typing import Any

import numpy as np

from trnsim.errors import KernelError
from trnsim.isa.operands import written_once
from trnsim.poison import matmul_codes, origins
from trnsim.refusals import forbid, refuse
from trnsim.session import MATMUL, PSUM, UNWRITTEN, WRITTEN, Session
from trnsim.source_lines import warn
from trnsim.tensors.dtypes import bfloat16, float32, to_f32
from trnsim.tensors.tensor import NkiTensor


class ZerosAccumulated(RuntimeWarning):
    """A matmul adds to zeros that another engine put into PSUM."""


def check_dst(s: Session, dst: NkiTensor, m: int, n: int) -> None:
    """Shape [m, n], the largest n, one bank before trn3, and no element written twice."""
    if dst.shape[0] != m or dst.free_size != n:
        raise refuse("matmul-dst", got=(dst.shape[0], dst.free_size), limit=(m, n), dst=dst, m=m, n=n)
    target = s.target
    most = target.moving_max
    if target.generation >= 4:
        most = target.psum_partition_bytes // (2 if dst.dtype == bfloat16 else 4)
    forbid(n > most, "moving-limit", got=n, limit=most, target=target, dst=dst)
    if target.generation < 4:
        _one_bank(s, dst)
    if dst.ndim > 2 or dst.strides[1] == 0:
        written_once(dst, "the order in which one matmul writes them is not documented: write each element once")


def _one_bank(s: Session, dst: NkiTensor) -> None:
    item = int(dst.dtype.itemsize)
    storage = dst.storage
    bank = s.target.psum_bank_bytes
    if storage.address is None and storage.partition_bytes <= bank:
        return
    base = storage.address[1] if storage.address is not None else 0
    first = base + dst.offset % dst.row * item
    last = first + item - 1
    for stride, count in zip(dst.strides[1:], dst.shape[1:], strict=True):
        last += stride * (count - 1) * item
    if first // bank != last // bank:
        banks = first // bank, last // bank
        raise refuse("psum-bank", got=(first, last), limit=bank, dst=dst, banks=banks, s=s, elements=bank // item)


def flag(accumulate: Any) -> bool | None:
    """Return the ``accumulate`` option: True, False or None."""
    if accumulate is None or accumulate is True or accumulate is False:
        return accumulate
    if isinstance(accumulate, (int, np.bool_)) and accumulate in (0, 1):
        return bool(accumulate)
    raise refuse("accumulate", got=accumulate, limit=(True, False, None))


def store(s: Session, dst: NkiTensor, product: Any, accumulate: bool | None) -> bool:
    """Write or add ``product`` [m, n] to ``dst``; True when (part of) it was added.

    Without ``accumulate`` each element is decided by itself: what a matmul wrote before is added to, the rest is
    overwritten. So overlapping destinations, as a convolution has them, accumulate where they overlap. Only what was
    written through the same tensor counts: another one at its address starts anew.
    """
    if not s.numerics:
        s.write(dst, product, "dst", (PSUM,), code=MATMUL)
        # without values there are no marks: a tile that was a destination before is taken for the same sum
        begun = s.state.setdefault("psum begun", set())
        again = (dst.storage.uid, dst.offset) in begun
        begun.add((dst.storage.uid, dst.offset))
        return again if accumulate is None else accumulate
    if accumulate is False:
        s.write(dst, product, "dst", (PSUM,), code=MATMUL)
        return False
    own = accumulate is None and dst.storage.shadow is not None and dst.dynamic is None
    marks = _marks(s, dst._shadow()) if own else matmul_codes(_static(s, dst), _marks(s, dst))
    if type(marks) is int and marks == MATMUL:
        return _add(s, dst, product)
    if accumulate:
        # trn3 accumulates on anything that holds a value; before, only a matmul starts an accumulation
        least = MATMUL if s.target.generation < 4 else WRITTEN
        if s.checks and int(np.min(marks)) < least:
            if int(np.min(marks)) == UNWRITTEN or np.any(_current(s, dst) != 0):
                raise _not_started(s, dst, marks, least)
            warn(
                f"accumulate=True, and dst ({dst.name}) holds zeros another engine wrote: a sum on {s.target.name} "
                "starts with a matmul that has accumulate=False; only trn3 is documented to add to others' values. "
                "Pass accumulate=(k > 0) and leave the zeros out.",
                ZerosAccumulated,
            )
        return _add(s, dst, product)
    return _infer(s, dst, product, marks)


def _marks(s: Session, dst: NkiTensor) -> int | np.ndarray:
    """One code for all of ``dst``, or an array of codes in its shape."""
    if dst.dynamic is not None:
        return _indirect_marks(s, dst)
    marks = dst.storage.arena.marks
    if type(marks) is int:
        return marks
    return _one_code(dst.mark_window(dst.offset), dst.ndim)


def _one_code(codes: np.ndarray, ndim: int) -> int | np.ndarray:
    first = int(codes.flat[0])
    if codes.ndim > ndim:
        # the codes of an element's bytes compared as one word
        per = codes.shape[-1]
        words = codes.view(f"u{per}")[..., 0]
        return first if (words == first * (2 ** (8 * per) // 255)).all() else codes.min(axis=-1)
    return first if (codes == first).all() else codes


def _indirect_marks(s: Session, dst: NkiTensor) -> int | np.ndarray:
    dynamic = dst.dynamic
    assert dynamic is not None
    if dynamic.kind == "tensor":
        base, columns = s._gather_columns(dst, "dst")
        marks = base.marks(base.offset)
        if isinstance(marks, int):
            return marks
        return _one_code(np.take_along_axis(marks.reshape(*base.shape, -1).min(axis=-1), columns, axis=1), 2)
    marks = dst.marks(s.resolve(dst, "dst"))
    return marks if isinstance(marks, int) else _one_code(marks, dst.ndim)


def _infer(s: Session, dst: NkiTensor, product: np.ndarray, marks: int | np.ndarray) -> bool:
    if type(marks) is int:
        if marks == UNWRITTEN or not _holds_values(s, dst, None):
            s.write(dst, product, "dst", (PSUM,), code=MATMUL)
            return False
        return _add(s, dst, product)
    codes = np.asarray(marks)
    added = codes == MATMUL
    others = codes == WRITTEN
    if others.any() and _holds_values(s, dst, others):
        added |= others
    product = product.reshape(dst.shape)
    held = _current(s, dst)
    total = np.add(held, product, out=product.copy(), where=added)
    s.write(dst, total, "dst", (PSUM,), code=MATMUL)
    return bool(added.any())


def _holds_values(s: Session, dst: NkiTensor, where: np.ndarray | None) -> bool:
    """Return whether what another engine put into ``dst`` counts.

    trn3 adds to it. Earlier generations cannot, so zeros (``nl.zeros``, a common way to declare a sum) are overwritten
    and anything else is refused, because it would be lost.
    """
    if s.target.generation >= 4:
        return True
    if s.checks:
        held = _current(s, dst)
        if np.any((held if where is None else held[where]) != 0):
            raise refuse("psum-accumulate:holds_values", got="written by another engine", dst=dst, s=s)
    return False


def _current(s: Session, dst: NkiTensor) -> np.ndarray:
    """Return what ``dst`` holds, in fp32; elements never written are whatever is there, poison is garbage."""
    if dst.is_addressed("tensor"):
        base, columns = s._gather_columns(dst, "dst")
        return to_f32(np.take_along_axis(base.array, columns, axis=1))
    static = _static(s, dst)
    ids = origins(static)
    if ids is not None and ids.any():
        return to_f32(s.poison(static, "dst", static.array, ids > 0))
    return to_f32(static.array)


def _static(s: Session, dst: NkiTensor) -> NkiTensor:
    return dst if dst.dynamic is None or dst.is_addressed("tensor") else dst.at(s.resolve(dst, "dst"))


def _add(s: Session, dst: NkiTensor, product: np.ndarray) -> bool:
    if dst.dynamic is None and dst.array.dtype == float32 and dst.storage.arena.origins is None:
        if s.garbage is not None:
            s.garbage.keep(dst)
        window = dst.array
        np.add(window, product.reshape(window.shape), out=window)
        s.touch(dst)
        s.mark(dst, MATMUL)
        return True
    s.write(dst, _current(s, dst) + product.reshape(dst.shape), "dst", (PSUM,), code=MATMUL)
    return True


def _not_started(s: Session, dst: NkiTensor, marks: int | np.ndarray, least: int) -> KernelError:
    codes = np.broadcast_to(np.asarray(marks), dst.shape)
    at = tuple(int(i) for i in np.argwhere(codes < least)[0])
    count = int((codes < least).sum())
    by_other = int(codes[at]) == WRITTEN
    what = "was written by another engine" if by_other else "was never written"
    why = f"; on {s.target.name} memset and tensor_copy do not start an accumulation" if by_other else ""
    return refuse("psum-accumulate:not_started", got=what, at=at, dst=dst, count=count, why=why)
