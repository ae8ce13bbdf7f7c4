"""What the collectives demand of their operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from trnsim.errors import WrongArgument, WrongBuffer, WrongShape, wrong_pair, wrong_shape, wrong_value
from trnsim.isa.alu import named
from trnsim.isa.operands import has_dtype, one_dtype
from trnsim.session import HBM, SBUF, SHARED_HBM, Session
from trnsim.tensors.dtypes import DTYPES, PACKED, int64, to_f32, uint32
from trnsim.tensors.tensor import NkiTensor

IN_HBM = (HBM, SHARED_HBM)
_REDUCTIONS = {"add": np.add, "minimum": np.minimum, "maximum": np.maximum}


def reduction(op: Any) -> str:
    """Return the name of a reduction operator: add, minimum or maximum."""
    return named(op, "op", tuple(_REDUCTIONS), rule="collective-op").name


def reduced(values: list[np.ndarray], op: str) -> np.ndarray:
    """Fold arrays in the order of the ranks: floats in fp32, integers exactly."""
    fold = _REDUCTIONS[op]
    exact = values[0].dtype.kind in "iub"
    total = values[0].astype(np.int64) if exact else to_f32(values[0]).copy()
    for v in values[1:]:
        fold(total, v if exact else to_f32(v), out=total)
    return total


def tensors(
    s: Session, srcs: Any, dsts: Any, *, sbuf: bool, most: int | None = None
) -> tuple[list[NkiTensor], list[NkiTensor]]:
    """Source and destination lists that fit each other: one memory, one dtype pair by pair, SBUF alone and 2-D."""
    lists = []
    for role, given in (("srcs", srcs), ("dsts", dsts)):
        if not isinstance(given, (list, tuple)) or not given:
            hint = f"write {role}=[tensor]"
            raise WrongArgument(
                f"{role} is {type(given).__name__}", "collective-list", type(given).__name__, "list of tensors", hint
            )
        where = (SBUF, *IN_HBM) if sbuf else IN_HBM
        lists.append([s.operand(t, f"{role}[{i}]", where, compute=False) for i, t in enumerate(given)])
    a, b = lists
    if len(a) != len(b):
        raise WrongArgument(
            f"{len(a)} srcs and {len(b)} dsts", "collective-list", len(a), len(b), "one destination for each source"
        )
    if most is not None and len(a) > most:
        hint = "call it once for each tensor"
        raise WrongArgument(
            f"{len(a)} tensors, and this collective takes {most}", "collective-coalesced", len(a), most, hint
        )
    on_chip = [t.on_chip for t in (*a, *b)]
    if any(on_chip) and not all(on_chip):
        raise WrongBuffer(
            f"srcs are in {', '.join(str(t.buffer) for t in a)} and dsts in {', '.join(str(t.buffer) for t in b)}",
            rule="collective-memory",
            got=[str(t.buffer) for t in (*a, *b)],
            hint="all tensors are in HBM, or all in SBUF",
        )
    if any(on_chip) and len(a) > 1:
        hint = "several tensors at once are for HBM; call it once for each tile"
        raise WrongArgument(f"{len(a)} SBUF tensors", "collective-coalesced", len(a), 1, hint)
    for x, y in zip(a, b, strict=True):
        one_dtype(x, "src", y, "dst", rule="collective-dtype", hint="collectives do not convert")
        if x.on_chip and (x.ndim != 2 or y.ndim != 2):
            hint = "SBUF collectives take 2-D tiles; reshape the free dimensions into one"
            raise WrongShape(f"src has shape {x.shape} and dst {y.shape}", "collective-2d", (x.ndim, y.ndim), 2, hint)
    return a, b


def summable(srcs: list[NkiTensor]) -> None:
    """Refuse to reduce packed types."""
    for t in srcs:
        hint = "packed types carry no arithmetic; reduce before quantising"
        has_dtype(t, "src", DTYPES - PACKED - {int64}, rule="collective-dtype", hint=hint)


def dimension(dim: Any, srcs: list[NkiTensor], *, sbuf: tuple[int, ...] = (0,)) -> int:
    """Return the ``collective_dim``: 0 in HBM, and what SBUF allows."""
    allowed = sbuf if srcs[0].on_chip else (0,)
    if dim not in allowed:
        hint = f"{srcs[0].buffer} tensors are cut along dimension {' or '.join(map(str, allowed))}"
        raise wrong_value("collective-dim", "collective_dim", dim, allowed, hint)
    return int(dim)


def sized(kind: str, wanted: tuple[int, ...], src: NkiTensor, dst: NkiTensor, n: int) -> None:
    """Refuse a destination of the wrong shape."""
    if dst.shape != wanted:
        raise WrongShape(
            f"{kind} of {src.name}{list(src.shape)} over {n} ranks gives {list(wanted)}, and dst {dst.name} has "
            f"{list(dst.shape)}",
            rule="collective-shape",
            got=dst.shape,
            limit=wanted,
            hint=f"make dst with shape {wanted}",
        )


def alike(kind: str, srcs: list[NkiTensor], dsts: list[NkiTensor]) -> None:
    """Refuse a destination whose shape is not its source's."""
    for x, y in zip(srcs, dsts, strict=True):
        if x.shape != y.shape:
            one, two, hint = f"{kind}: dst {y.name}", f"src {x.name}", "what is sent has the shape of what is received"
            raise wrong_pair("collective-shape", one, y.shape, two, x.shape, hint)


def divides(kind: str, t: NkiTensor, dim: int, n: int) -> None:
    """Refuse a dimension that does not split evenly."""
    if t.shape[dim] % n:
        raise WrongShape(
            f"{kind}: dimension {dim} of {t.name} has {t.shape[dim]} elements for {n} ranks",
            rule="collective-split",
            got=t.shape[dim],
            limit=n,
            hint=f"its size is a multiple of {n}",
        )


def metadata(s: Session, t: Any, n: int, has_rdispls: bool) -> NkiTensor:
    """Return the counts and displacements of a variable-length collective."""
    rows = 4 if has_rdispls else 3
    s.operand(t, "metadata_tensor", (SBUF, *IN_HBM), compute=False)
    wanted = (1, rows, n) if t.on_chip else (rows, n)
    if t.shape != wanted:
        raise wrong_shape(
            "metadata-shape", "metadata_tensor", t.shape, wanted, f"{rows} rows, a column for each of {n} ranks"
        )
    has_dtype(t, "metadata_tensor", frozenset({uint32}), rule="metadata-dtype", hint="counts are uint32")
    if not t.is_contiguous():
        hint = "its rows lie one after the other in memory"
        raise WrongShape(f"metadata_tensor has strides {t.strides}", "metadata-contiguous", t.strides, hint=hint)
    return t
