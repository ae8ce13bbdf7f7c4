"""Which way to multiply on a device: by diagonals, gathers, rows, blocks or dense; by predicted time, with the reason.

Patterns are counted, never built: distinct diagonals, entries by partition, blocks that hold an entry.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnsci import check, config, neuron
from trnsci.arrays import to_numpy
from trnsci.backends import library
from trnsci.config import TARGETS, TargetName
from trnsci.ops import find
from trnsci.planning import remark
from trnsci.plans import seconds
from trnsci.predict import device_seconds
from trnsci.specs import freeze
from trnsci.torch_internals import dispatch_modes, peek_interpreter_stack
from trnsparse.arguments import KERNEL_DTYPES, sparse
from trnsparse.bsr import BSRMatrix
from trnsparse.dia_spmm import count_diagonals
from trnsparse.indices import transposition
from trnsparse.matrix import SparseMatrix, SparseMatrixLike
from trnsparse.scipy_views import Beside
from trnsparse.sell_spmm import count_far, count_near

FORMATS = ("auto", "stored", "csr", "bsr", "dense", "dia", "sell")
BLOCK = 128
# Block rows in which blocks are counted.
SAMPLE = 512
# Elements of the largest matrix that is made dense for want of a kernel that reads it as stored: 1 GiB of float64.
LARGEST_DENSE = 2**27
# Seconds of kernels that follow from counts, fitted to the timing model on trn2: a tile of entries and one of rows in
# compressed rows; a block of float32, and a column of its product; a launch.
ENTRIES, ROWS, TILE, COLUMN, LAUNCH = 0.73e-6, 4e-6, 0.17e-6, 1.72e-9, 2e-5


@dataclass(frozen=True)
class Choice:
    """The format chosen for a product, and what each would take.

    Attributes:
        format: ``dia`` (diagonals), ``sell`` (gathers from windows on chip), ``csr`` (rows by DMA), ``bsr``, ``dense``.
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
        assumed = "; the cost of a gather on chip is assumed" if self.seconds.get("sell") is not None else ""
        return f"{self.format} is predicted fastest on {self.where}: " + ", ".join(parts) + assumed

    def __str__(self) -> str:
        return self.reason


@check.hands_on("to_bsr")
def choose(a: SparseMatrixLike, columns: int, *, where: str = "trn2", block: int = BLOCK) -> Choice:
    """Compare ``a @ b`` for b [K, columns] by diagonals, gathers, rows, blocks and dense, without computing it.

    Kernels are compared, from counts of the pattern, without the conversion. The host multiplies a matrix as stored.

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
    (rows, depth), down = a.shape, -(-a.shape[0] // BLOCK)
    stored, bm, bn = a.values.shape if isinstance(a, BSRMatrix) else (count_blocks(a, block), block, block)
    # a column of a product streams through the array in a cycle, four for float32
    tile = max(TILE, COLUMN * columns) * (a.dtype.itemsize / 4)
    times: dict[str, float | None] = dict.fromkeys(("csr", "bsr", "dense", "dia", "sell"))
    if a.dtype not in KERNEL_DTYPES:
        times["dense"] = _predict_dense(a, columns, target)
        return times
    pattern, wide = a.detach().to_csr(), -(-columns // 2048)
    if target != "trn1":
        times["csr"] = LAUNCH + (ENTRIES * -(-pattern.nnz // BLOCK) + ROWS * down) * wide
    times["bsr"] = LAUNCH + tile * stored * -(-bm // BLOCK) * -(-bn // BLOCK)
    times["dense"] = LAUNCH + tile * down * -(-depth // BLOCK)
    for name, route in count_routes(pattern.indptr, pattern.indices, depth).items():
        times[name] = _predict_route(route, pattern.values, (rows, depth, columns), target)
    return times


def _predict_dense(a: SparseMatrix, columns: int, target: TargetName) -> float | None:
    """Predict the dense product of a dtype that only dense products have kernels for, from a corner of the matrix."""
    # Registers trnblas::gemm, whose prediction it is.
    from trnblas.gemm import gemm
    from trnsci import plan

    (rows, depth), corner = a.shape, 4 * BLOCK
    if rows * depth > LARGEST_DENSE:
        return None
    part = torch.empty((min(rows, corner), min(depth, corner)), dtype=a.dtype, device="meta")
    times = [step.predicted(target) for step in plan(gemm, 1.0, part, part.new_empty((part.shape[1], columns))).steps]
    return None if None in times else sum(times) * rows * depth / max(part.numel(), 1)  # type: ignore[arg-type]


def _predict_route(route: str, values: Tensor, sizes: tuple[int, int, int], target: TargetName) -> float | None:
    rows, depth, columns = sizes
    index = torch.empty(rows + 1, dtype=torch.int64, device="meta")
    values = values.to("meta")
    call = find("trnsparse::spmm").kind(
        indptr=index,
        indices=torch.empty(values.shape[0], dtype=torch.int64, device="meta"),
        values=values,
        b=values.new_empty((depth, columns)),
        columns=depth,
        trans=False,
        route=route,
    )
    return device_seconds(freeze(call), target)


_ROUTES: Beside[dict[str, str]] = Beside()


def count_routes(indptr: Tensor, indices: Tensor, columns: int, trans: bool = False) -> dict[str, str]:
    """Return the routes of `Spmm` by diagonals (``dia``) and gathers (``sell``), as far as a pattern allows them."""

    def count() -> dict[str, str]:
        rows, entries, across = indptr, indices, columns
        if trans:
            (rows, entries, _), across = transposition(indptr, indices, columns), indptr.shape[0] - 1
        routes = {}
        if (offsets := count_diagonals(rows, entries, across)) is not None:
            routes["dia"] = json.dumps(["dia", offsets])
        pattern = to_numpy(rows), to_numpy(entries)
        if (layout := count_near(*pattern) or count_far(*pattern, across)) is not None:
            routes["sell"] = json.dumps(["sell", asdict(layout)])
        return routes

    return _ROUTES.get(indptr, indices, (columns, trans), count)


def count_blocks(a: SparseMatrix, block: int) -> int:
    """Return how many square blocks hold an entry: of every block row, or estimated from `SAMPLE` of them."""
    pattern, rows = a.detach().to_csr(), a.shape[0]
    down = -(-rows // block)
    counted = range(0, down, max(1, -(-down // SAMPLE)))
    bounds = [pattern.indptr[[i * block, min((i + 1) * block, rows)]].tolist() for i in counted]
    distinct = sum(torch.unique(pattern.indices[lo:hi] // block).numel() for lo, hi in bounds)
    return round(distinct * down / max(len(counted), 1))


_LIBRARY = library("trnsparse")


def here() -> str:
    """Return where a product of this library runs now: a generation, or ``host``."""
    asked, device = _LIBRARY.choice().name, neuron.device()
    if asked == "simulator":
        return config.TARGET.get()
    return device.target if device is not None and asked in ("auto", "nki") else "host"


def arrange_operand(a: SparseMatrix, b: Tensor, name: str) -> tuple[SparseMatrix | Tensor, str]:
    """Return the matrix in the format asked for, to multiply b [K, N], and its name; ``auto`` is what `choose` prefers.

    The pattern of a conversion is kept with the matrix; values are read afresh.
    """
    if name == "auto":
        name = _automatic(a, b.shape[1] if b.ndim == 2 else 1)
    if name in ("stored", a.format):
        return a, name
    if name != "dense":
        return a.to_bsr(BLOCK) if name == "bsr" else a.to_csr(), name
    return torch.empty(a.shape, dtype=a.dtype, device="meta") if b.is_meta else a.to_dense(), name


def _automatic(a: SparseMatrix, columns: int) -> str:
    """Return the format `choose` prefers for a product here, or ``stored``, and tell an open plan why."""
    # a tracer cannot ask where this is
    where = "host" if is_compiling() else here()
    if where == "host" or a.values.is_meta or not (a.dtype.is_floating_point or a.dtype.is_complex):
        return "stored"
    if dispatch_modes() or peek_interpreter_stack() is not None:
        return "stored"
    choice = choose(a, columns, where=where)
    remark(choice.reason)
    return "stored" if choice.format == _own(a) else choice.format


def _own(a: SparseMatrix) -> str:
    """Return the choice that leaves a matrix as it is: every format but BSR is multiplied row by row."""
    return "bsr" if a.format == "bsr" else "csr"
