"""Which format to multiply in on a device: compressed rows, blocks or dense, by predicted time, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch._C import _len_torch_dispatch_stack as dispatch_modes
from torch.compiler import is_compiling

from trnsci import check, config, neuron
from trnsci.backends import library
from trnsci.config import TARGETS, TargetName
from trnsci.ops import find
from trnsci.planning import remark
from trnsci.plans import seconds
from trnsci.predict import device_seconds
from trnsci.specs import freeze
from trnsparse.arguments import sparse
from trnsparse.bsr import BSRMatrix
from trnsparse.matrix import SparseMatrix, SparseMatrixLike

FORMATS = ("auto", "stored", "csr", "bsr", "dense")
BLOCK = 128
# A prediction walks through a kernel's instructions: of about this many tiles, in rows by steps that every kernel takes
# whole, and of dense products no deeper than this; what is larger takes proportionally longer.
TILES, STEP, DEEP = 512, 1024, 16384


@dataclass(frozen=True)
class Choice:
    """The format chosen for a product, and what each would take.

    Attributes:
        format: ``csr``, ``bsr`` or ``dense``.
        seconds: predicted seconds by format; ``None`` where there is no kernel, and empty for the host.
        where: the generation, or ``host``.
    """

    format: str
    seconds: dict[str, float | None]
    where: str

    @property
    def reason(self) -> str:
        """The comparison in words."""
        parts = [f"{name} {'no kernel' if time is None else seconds(time)}" for name, time in self.seconds.items()]
        if self.where == "host":
            return f"{self.format}, because the host multiplies a matrix as it is stored"
        if all(time is None for time in self.seconds.values()):
            return f"{self.format}, because no format has a kernel on {self.where}"
        return f"{self.format} is predicted fastest on {self.where}: " + ", ".join(parts)

    def __str__(self) -> str:
        return self.reason


@check.hands_on("to_bsr")
def choose(a: SparseMatrixLike, columns: int, *, where: str = "trn2", block: int = BLOCK) -> Choice:
    """Compare ``a @ b`` for b [K, columns] in compressed rows, blocks and dense, without computing it.

    Kernels are compared, without the conversion. The host multiplies a matrix as it is stored.

    Args:
        a: sparse [M, K]
        columns: N of the dense factor.
        where: ``trn1``, ``trn2``, ``trn3`` or ``host``.
        block: edge of the blocks.
    """
    a = sparse("choose", "a", a)
    check.option("choose", "where", where, (*TARGETS, "host"))
    columns, block = check.integer("choose", "columns", columns, 0), check.integer("choose", "block", block, 1)
    if where == "host":
        return Choice(_own(a), {}, where)
    kept = _CHOICES.setdefault(a, {})
    choice = kept.get((columns, where, block))
    if choice is None:
        times = _on_device(a, columns, block, where)  # type: ignore[arg-type]
        known = {name: time for name, time in times.items() if time is not None}
        best = min(known, key=known.__getitem__) if known else _own(a)
        choice = kept[columns, where, block] = Choice(best, times, where)
    return choice


# What was decided holds as long as the matrix: its pattern never changes.
_CHOICES: WeakKeyDictionary[SparseMatrix, dict[tuple[int, str, int], Choice]] = WeakKeyDictionary()


def _on_device(a: SparseMatrix, columns: int, block: int, target: TargetName) -> dict[str, float | None]:
    # Registers trnblas::gemm, whose prediction is the dense one.
    from trnblas import gemm
    from trnsci import plan

    (rows, depth), entries, index = a.shape, a.nnz, torch.int64
    blocks = a if isinstance(a, BSRMatrix) else a.detach().to_bsr(block)
    stored, bm, bn = blocks.values.shape

    def empty(*shape: int, dtype: torch.dtype = a.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    b = empty(depth, columns)

    def csr(part: int) -> float | None:
        own = entries * part // max(rows, 1)
        pattern = {"indptr": empty(part + 1, dtype=index), "indices": empty(own, dtype=index)}
        call = find("trnsparse::spmm").kind(**pattern, values=empty(own), b=b, columns=depth, trans=False)
        return device_seconds(freeze(call), target)

    def bsr(part: int) -> float | None:
        own = stored * part // max(rows, 1)
        pattern = {"indptr": empty(-(-part // bm) + 1, dtype=index), "indices": empty(own, dtype=index)}
        call = find("trnsparse::bsr_spmm").kind(**pattern, blocks=empty(own, bm, bn), b=b, rows=part)
        return device_seconds(freeze(call), target)

    def dense(part: int) -> float | None:
        deep = min(depth, DEEP)
        times = [step.predicted(target) for step in plan(gemm, 1.0, empty(part, deep), b[:deep]).steps]
        return None if None in times else sum(times) * depth / max(deep, 1)  # type: ignore[arg-type]

    return {
        "csr": _from_part(csr, rows, (rows + entries) // BLOCK),
        "bsr": _from_part(bsr, rows, stored),
        "dense": _from_part(dense, rows, rows * depth // BLOCK**2),
    }


def _from_part(predicted: Callable[[int], float | None], rows: int, tiles: int) -> float | None:
    """Return seconds for all rows; for many tiles, from two parts of them: every further row takes as long."""
    part = max(1, rows * TILES // max(tiles, 1) // STEP) * STEP
    if 2 * part >= rows:
        return predicted(rows)
    first, second = predicted(part), predicted(2 * part)
    return None if first is None or second is None else first + (second - first) * (rows - part) / part


_LIBRARY = library("trnsparse")


def here() -> str:
    """Return where a product of this library runs now: a generation, or ``host``."""
    asked, device = _LIBRARY.choice().name, neuron.device()
    if asked == "simulator":
        return config.TARGET.get()
    return device.target if device is not None and asked in ("auto", "nki") else "host"


def arranged(a: SparseMatrix, b: Tensor, name: str) -> SparseMatrix | Tensor:
    """Return the matrix in the format asked for, to multiply b [K, N]; ``auto`` is what `choose` prefers.

    The pattern of a conversion is kept with the matrix; values are read afresh.
    """
    if name == "auto":
        name = _automatic(a, b.shape[1] if b.ndim == 2 else 1)
    if name in ("stored", a.format):
        return a
    if name != "dense":
        return a.to_bsr(BLOCK) if name == "bsr" else a.to_csr()
    return torch.empty(a.shape, dtype=a.dtype, device="meta") if b.is_meta else a.to_dense()


def _automatic(a: SparseMatrix, columns: int) -> str:
    """Return the format `choose` prefers for a product here, or ``stored``, and tell an open plan why."""
    # a tracer cannot ask where this is
    where = "host" if is_compiling() else here()
    if where == "host" or a.values.is_meta or not (a.dtype.is_floating_point or a.dtype.is_complex):
        return "stored"
    if dispatch_modes() or torch._C._functorch.peek_interpreter_stack() is not None:
        return "stored"
    choice = choose(a, columns, where=where)
    remark(choice.reason)
    return "stored" if choice.format == _own(a) else choice.format


def _own(a: SparseMatrix) -> str:
    """Return the choice that leaves a matrix as it is: every format but BSR is multiplied row by row."""
    return "bsr" if a.format == "bsr" else "csr"
