"""Which format to multiply in: compressed rows, blocks or dense, by predicted cost, with the reason in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch._C import _len_torch_dispatch_stack as dispatch_modes
from torch.compiler import is_compiling

from trnsci import check, config, neuron
from trnsci.backends import SCOPE, library
from trnsci.config import TARGETS, TargetName
from trnsci.explain import remark
from trnsci.ops import find
from trnsci.plans import seconds
from trnsci.predict import Host, device_seconds
from trnsci.predict import host as calibration
from trnsci.specs import freeze
from trnsparse import host
from trnsparse.arguments import sparse
from trnsparse.bsr import BSRMatrix
from trnsparse.bsr_spmm import LARGE, WIDE
from trnsparse.coo import COOMatrix
from trnsparse.csr import CSCMatrix
from trnsparse.matrix import SparseMatrix

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
        seconds: predicted seconds by format, on the host with the conversion; ``None`` where there is no kernel.
        where: the generation, or ``host``.
    """

    format: str
    seconds: dict[str, float | None]
    where: str

    @property
    def reason(self) -> str:
        """The comparison in words."""
        parts = [f"{name} {'no kernel' if time is None else seconds(time)}" for name, time in self.seconds.items()]
        if all(time is None for time in self.seconds.values()):
            return f"{self.format}, because no format has a kernel on {self.where}"
        where = "host, conversions included" if self.where == "host" else self.where
        return f"{self.format} is predicted fastest on {where}: " + ", ".join(parts)

    def __str__(self) -> str:
        return self.reason


def choose(a: SparseMatrix, columns: int, *, where: str = "trn2", block: int = BLOCK) -> Choice:
    """Compare ``a @ b`` for b [K, columns] in compressed rows, blocks and dense, without computing it.

    On the host a format other than the matrix's own is charged with the conversion, so that it is chosen only where a
    single product pays for it. On a device, where a conversion is kept and used again, kernels alone are compared.

    Args:
        a: sparse [M, K]
        columns: N of the dense factor.
        where: ``trn1``, ``trn2``, ``trn3`` or ``host``.
        block: edge of the blocks.
    """
    sparse("choose", a=a)
    check.option("choose", "where", where, (*TARGETS, "host"))
    kept = _CHOICES.setdefault(a, {})
    found = kept.get((columns, where, block))
    if found is None:
        if where == "host":
            times: dict[str, float | None] = dict(_on_host(a, columns, block, _blocks(a, block)))
        else:
            times = _on_device(a, columns, block, where)  # type: ignore[arg-type]
        known = {name: time for name, time in times.items() if time is not None}
        best = min(known, key=known.__getitem__) if known else _own(a)
        found = kept[columns, where, block] = Choice(best, times, where)
    return found


# What was decided holds as long as the matrix: its pattern never changes.
_CHOICES: WeakKeyDictionary[SparseMatrix, dict[tuple[int, str, int], Choice]] = WeakKeyDictionary()


def _blocks(a: SparseMatrix, block: int) -> int:
    """How many blocks of an edge hold an entry; of a matrix of blocks, how many it has."""
    if isinstance(a, BSRMatrix):
        return a.blocks
    rows = a.transpose() if isinstance(a, CSCMatrix) else a.to_csr()
    indptr, indices, across = rows.indptr, rows.indices, max(-(-rows.shape[1] // block), 1)
    found = host.over_indices("blocks", indptr, indices)
    if found is None:
        return int(torch.unique(rows.majors // block * across + indices // block).numel())
    seen = indices.new_full((across,), -1)
    return int(found(rows.shape[0], block, block, *host.at(indptr, indices, seen), None, None, None))


def _on_host(a: SparseMatrix, columns: int, block: int, stored: int) -> dict[str, float]:
    """Seconds of one product in each format, the conversion included.

    The rates are those of dense products and of copies here. Measured beside them, entries of compressed rows run at a
    quarter of the rate and each costs as much as four columns to find; blocks walked row by row at half of it; a dense
    product of few columns does not reach it, and one for each block costs its call.
    """
    this, (rows, depth), entries = calibration(), a.shape, a.nnz
    rate = _rate(this, a.dtype)
    size, width = a.values.element_size(), max(columns, min(8 * columns, 64))
    own, area = _own(a), stored * block**2
    if isinstance(a, BSRMatrix):
        stored, area = a.blocks, entries
    calls = area >= LARGE * stored and columns >= WIDE
    work = {
        "csr": 8 * entries * (columns + 4) / rate,
        "bsr": 4 * this.overhead * stored + 2 * area * width / rate if calls else 4 * area * (columns + 1) / rate,
        "dense": 2 * rows * depth * width / rate,
    }
    moved = {
        "csr": entries * (24 + size),
        "bsr": entries * (32 + size) + area * size,
        "dense": entries * (16 + size) + rows * depth * size,
    }
    return {
        name: this.overhead + time + (0.0 if name == own else moved[name] / this.bandwidth)
        for name, time in work.items()
    }


def _rate(this: Host, dtype: torch.dtype) -> float:
    rate = this.float64 if dtype in (torch.float64, torch.complex128) else this.float32
    return rate / 4 if dtype.is_complex else rate


def _on_device(a: SparseMatrix, columns: int, block: int, target: TargetName) -> dict[str, float | None]:
    # Registers trnblas::gemm, whose prediction is the dense one.
    from trnblas import gemm
    from trnsci import plan

    (rows, depth), entries, index = a.shape, a.nnz, torch.int64
    # a matrix of blocks is taken as it is
    stored, bm, bn = a.values.shape if isinstance(a, BSRMatrix) else (_blocks(a, block), block, block)

    def empty(*shape: int, dtype: torch.dtype = a.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    b = empty(depth, columns)

    def csr(part: int) -> float | None:
        own = entries * part // max(rows, 1)
        args = (empty(part + 1, dtype=index), empty(own, dtype=index), empty(own), b, depth, False)
        return device_seconds(find("trnsparse::spmm").kind(*freeze(args)), target)

    def bsr(part: int) -> float | None:
        own = stored * part // max(rows, 1)
        args = (empty(-(-part // bm) + 1, dtype=index), empty(own, dtype=index), empty(own, bm, bn), b, part)
        return device_seconds(find("trnsparse::bsr_spmm").kind(*freeze(args)), target)

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
    """Seconds for all rows; where they are many tiles, from two parts of them, because each more row takes as long."""
    part = max(1, rows * TILES // max(tiles, 1) // STEP) * STEP
    if 2 * part >= rows:
        return predicted(rows)
    first, second = predicted(part), predicted(2 * part)
    return None if first is None or second is None else first + (second - first) * (rows - part) / part


def here() -> str:
    """Where a product of this library runs now: a generation, or ``host``."""
    own = library("trnsparse")
    if own.direct and SCOPE.get() is None:
        return "host"
    asked, device = own.choice().name, neuron.device()
    if asked == "simulator":
        return config.TARGET.get()
    return device.target if device is not None and asked in ("auto", "nki") else "host"


def arranged(a: SparseMatrix, b: Tensor, name: str) -> SparseMatrix | Tensor:
    """The matrix in the format asked for, to multiply b [K, N]; ``auto`` is what `choose` prefers where that runs.

    Conversions are kept as long as the matrix lives and its values are not written to, unless they need a gradient.
    """
    if name == "auto":
        name = _automatic(a, b)
    if name in ("stored", a.format):
        return a
    if name == "dense" and b.is_meta:
        return torch.empty(a.shape, dtype=a.dtype, device="meta")
    if a.requires_grad and torch.is_grad_enabled():
        return in_format(a, name)
    kept = _ARRANGED.setdefault(a, {})
    version, made = kept.get(name, (-1, None))
    if made is None or version != a.values._version:
        made = in_format(a, name)
        kept[name] = (a.values._version, made)
    return made


_ARRANGED: WeakKeyDictionary[SparseMatrix, dict[str, tuple[int, Any]]] = WeakKeyDictionary()


def _automatic(a: SparseMatrix, b: Tensor) -> str:
    """The format `choose` prefers for a product here and now, or ``stored``; a plan in the making is told why."""
    own, columns, where = _own(a), b.shape[1], here()
    if not _open(a, where):
        return "stored"
    if where == "host":
        if not b.is_meta and columns in a.settled:
            return "stored"
        # Where even the fewest blocks that could hold the entries would take longer, there is nothing to count.
        least = _on_host(a, columns, BLOCK, -(-a.nnz // BLOCK**2))
        if not b.is_meta and min(least, key=least.__getitem__) == own:
            return _settled(a, columns)
    found = choose(a, columns, where=where)
    remark(found.reason)
    if found.format == own:
        return _settled(a, columns) if where == "host" else "stored"
    # Zeros that a matrix does not store meet nothing; in blocks they would make NaN of an infinity.
    if where == "host" and not b.is_meta and not bool(torch.isfinite(b).all()):
        return "stored"
    return found.format


def _own(a: SparseMatrix) -> str:
    """The choice that leaves a matrix as it is: every format but BSR is multiplied row by row."""
    return "bsr" if a.format == "bsr" else "csr"


def _open(a: SparseMatrix, where: str) -> bool:
    """Whether there is a choice: of floating-point numbers with data, in a call that nobody traces."""
    if a.values.is_meta or not (a.dtype.is_floating_point or a.dtype.is_complex):
        return False
    if where == "host" and a.device.type != "cpu":
        return False
    return not is_compiling() and not dispatch_modes() and torch._C._functorch.peek_interpreter_stack() is None


def _settled(a: SparseMatrix, columns: int) -> str:
    a.settled = a.settled | {columns}
    if isinstance(a, COOMatrix):
        a.to_csr().settled = a.settled
    return "stored"


def in_format(a: SparseMatrix, name: str, block: int = BLOCK) -> SparseMatrix | Tensor:
    """Return the matrix as ``csr``, ``bsr`` or ``dense``."""
    if name == "dense":
        return a.to_dense()
    return a.to_bsr(block) if name == "bsr" else a.to_csr()
