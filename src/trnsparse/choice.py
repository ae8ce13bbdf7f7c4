"""Which format to multiply in: compressed rows, blocks or dense, by predicted cost, with the reason in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from trnsci import check, config, neuron
from trnsci.backends import library
from trnsci.config import TARGETS, TargetName
from trnsci.plans import Cost, seconds
from trnsci.predict import device_seconds, host
from trnsci.specs import freeze
from trnsparse.arguments import sparse
from trnsparse.matrix import SparseMatrix


@dataclass(frozen=True)
class Choice:
    """The format chosen for a product, and what each would take.

    Attributes:
        format: ``csr``, ``bsr`` or ``dense``.
        seconds: predicted seconds by format; ``None`` where the target has no kernel for it.
        where: the generation, or ``host``.
    """

    format: str
    seconds: dict[str, float | None]
    where: str

    @property
    def reason(self) -> str:
        """The comparison in words."""
        parts = [f"{name} {'no kernel' if time is None else seconds(time)}" for name, time in self.seconds.items()]
        return f"{self.format} is predicted fastest on {self.where}: " + ", ".join(parts)

    def __str__(self) -> str:
        return self.reason


def choose(a: SparseMatrix, columns: int, *, where: str = "trn2", block: int = 128) -> Choice:
    """Compare ``a @ b`` for b [K, columns] in compressed rows, blocks and dense, without computing it.

    Args:
        a: sparse [M, K]
        columns: N of the dense factor.
        where: ``trn1``, ``trn2``, ``trn3`` or ``host``.
        block: edge of the blocks.
    """
    sparse("choose", a=a)
    check.option("choose", "where", where, (*TARGETS, "host"))
    rows, depth = a.shape
    coo = a.to_coo()
    entries = coo.nnz
    across = max(-(-depth // block), 1)
    stored = int(torch.unique(coo.row // block * across + coo.col // block).numel())
    if where == "host":
        size = a.values.element_size()
        moved = size * (depth + rows) * columns
        costs = {
            "csr": Cost(2 * entries * columns, entries * (size + 8) + size * entries * columns, size * rows * columns),
            "bsr": Cost(2 * stored * block**2 * columns, size * stored * block * (block + columns) + moved, moved),
            "dense": Cost(2 * rows * depth * columns, size * rows * depth + moved, moved),
        }
        times: dict[str, float | None] = {name: host().seconds(cost, a.dtype) for name, cost in costs.items()}
    else:
        times = _on_device(a, rows, depth, columns, entries, stored, block, where)  # type: ignore[arg-type]
    best = min((name for name in times if times[name] is not None), key=lambda name: times[name] or 0.0)
    return Choice(best, times, where)


def _on_device(
    a: SparseMatrix, rows: int, depth: int, columns: int, entries: int, stored: int, block: int, target: TargetName
) -> dict[str, float | None]:
    # Registers trnblas::gemm, whose prediction is the dense one.
    import trnblas  # noqa: F401

    def empty(*shape: int, dtype: torch.dtype = a.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    index = torch.int64
    b = empty(depth, columns)
    csr = (empty(rows + 1, dtype=index), empty(entries, dtype=index), empty(entries), b, depth, False)
    block_rows = -(-rows // block)
    bsr = (empty(block_rows + 1, dtype=index), empty(stored, dtype=index), empty(stored, block, block), b, rows)
    from trnblas import gemm
    from trnsci import plan

    dense = plan(gemm, 1.0, empty(rows, depth), b).predicted
    return {
        "csr": device_seconds("trnsparse::spmm", freeze(csr), target),
        "bsr": device_seconds("trnsparse::bsr_spmm", freeze(bsr), target),
        "dense": dense[target] if dense else None,
    }


def here() -> str:
    """Where a product of this library runs now: a generation, or ``host``."""
    asked, device = library("trnsparse").choice().name, neuron.device()
    if asked == "simulator":
        return config.TARGET.get()
    return device.target if device is not None and asked in ("auto", "nki") else "host"


def arranged(a: SparseMatrix, columns: int, name: str) -> SparseMatrix | Tensor:
    """The matrix in the format asked for; ``auto`` is what `choose` prefers where the product runs now.

    Conversions are kept as long as the matrix lives and its values are not written to, unless they need a gradient.
    """
    if name == "auto":
        name = choose(a, columns, where=here()).format
    if name == a.format:
        return a
    if a.requires_grad and torch.is_grad_enabled():
        return in_format(a, name)
    kept = _ARRANGED.setdefault(a, {})
    version, made = kept.get(name, (-1, None))
    if made is None or version != a.values._version:
        made = in_format(a, name)
        kept[name] = (a.values._version, made)
    return made


_ARRANGED: WeakKeyDictionary[SparseMatrix, dict[str, tuple[int, Any]]] = WeakKeyDictionary()


def in_format(a: SparseMatrix, name: str, block: int = 128) -> SparseMatrix | Tensor:
    """Return the matrix as ``csr``, ``bsr`` or ``dense``."""
    if name == "dense":
        return a.to_dense()
    return a.to_bsr(block) if name == "bsr" else a.to_csr()
