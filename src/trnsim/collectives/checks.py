"""Checks of the operands of collectives."""

from typing import Any

import numpy as np

from trnsim.isa.alu import as_operator
from trnsim.isa.operands import has_dtype, one_dtype
from trnsim.refusals import forbid, refuse
from trnsim.session import HBM, SBUF, SHARED_HBM, Session
from trnsim.tensors.dtypes import DTYPES, PACKED, int64, to_f32, uint32
from trnsim.tensors.tensor import NkiTensor

IN_HBM = (HBM, SHARED_HBM)
_REDUCTIONS = {"add": np.add, "minimum": np.minimum, "maximum": np.maximum}


def reduction(op: Any) -> str:
    """Return the name of a reduction operator: add, minimum or maximum."""
    return as_operator(op, "op", tuple(_REDUCTIONS), rule="collective-op").name


def fold_ranks(values: list[np.ndarray], op: str) -> np.ndarray:
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
            raise refuse("collective-list:form", got=type(given).__name__, role=role)
        where = (SBUF, *IN_HBM) if sbuf else IN_HBM
        lists.append([s.operand(t, f"{role}[{i}]", where, compute=False) for i, t in enumerate(given)])
    a, b = lists
    forbid(len(a) != len(b), "collective-list:count", got=len(a), limit=len(b))
    forbid(most is not None and len(a) > most, "collective-coalesced:most", got=len(a), limit=most)
    on_chip = [t.on_chip for t in (*a, *b)]
    if any(on_chip) and not all(on_chip):
        raise refuse(
            "collective-memory",
            got=[str(t.buffer) for t in (*a, *b)],
            names=", ".join(str(t.buffer) for t in a),
            memories=", ".join(str(t.buffer) for t in b),
        )
    forbid(any(on_chip) and len(a) > 1, "collective-coalesced:sbuf", got=len(a))
    for x, y in zip(a, b, strict=True):
        one_dtype(x, "src", y, "dst", rule="collective-dtype", hint="collectives do not convert")
        forbid(x.on_chip and (x.ndim != 2 or y.ndim != 2), "collective-2d", got=(x.ndim, y.ndim), x=x, y=y)
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
        raise refuse("collective-dim", got=dim, limit=allowed, srcs=srcs, names=" or ".join(map(str, allowed)))
    return int(dim)


def check_result_shape(kind: str, wanted: tuple[int, ...], src: NkiTensor, dst: NkiTensor, n: int) -> None:
    """Refuse a destination of the wrong shape."""
    forbid(dst.shape != wanted, "collective-shape:sized", got=dst.shape, limit=wanted, kind=kind, src=src, n=n, dst=dst)


def alike(kind: str, srcs: list[NkiTensor], dsts: list[NkiTensor]) -> None:
    """Refuse a destination whose shape is not its source's."""
    for x, y in zip(srcs, dsts, strict=True):
        if x.shape != y.shape:
            one, two, hint = f"{kind}: dst {y.name}", f"src {x.name}", "what is sent has the shape of what is received"
            raise refuse("collective-shape:alike", got=y.shape, limit=x.shape, hint=hint, one=one, two=two)


def divides(kind: str, t: NkiTensor, dim: int, n: int) -> None:
    """Refuse a dimension that does not split evenly."""
    forbid(t.shape[dim] % n, "collective-split:divides", got=t.shape[dim], limit=n, kind=kind, dim=dim, t=t)


def metadata(s: Session, t: Any, n: int, has_rdispls: bool) -> NkiTensor:
    """Return the counts and displacements of a variable-length collective."""
    rows = 4 if has_rdispls else 3
    s.operand(t, "metadata_tensor", (SBUF, *IN_HBM), compute=False)
    wanted = (1, rows, n) if t.on_chip else (rows, n)
    forbid(t.shape != wanted, "metadata-shape", got=t.shape, limit=wanted, rows=rows, n=n)
    has_dtype(t, "metadata_tensor", frozenset({uint32}), rule="metadata-dtype", hint="counts are uint32")
    forbid(not t.is_contiguous(), "metadata-contiguous", got=t.strides)
    return t
