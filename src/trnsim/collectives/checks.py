"""What the collectives demand of their operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from trnsim.errors import HardwareLimit, WrongArgument, WrongBuffer, WrongDtype, WrongEngine, WrongShape
from trnsim.language.dtypes import PACKED, to_f32, uint32
from trnsim.language.tensor import NkiTensor
from trnsim.session import HBM, SBUF, SHARED_HBM, Session

IN_HBM = (HBM, SHARED_HBM)
_REDUCTIONS = {"add": np.add, "minimum": np.minimum, "maximum": np.maximum}


def reduction(op: Any) -> str:
    """Return the name of a reduction operator: add, minimum or maximum."""
    name = op if isinstance(op, str) else getattr(op, "__name__", None) or getattr(op, "name", None)
    if name not in _REDUCTIONS:
        raise WrongArgument(
            f"op is {name or op!r}",
            rule="collective-op",
            got=str(name or op),
            limit=sorted(_REDUCTIONS),
            hint="use nl.add, nl.minimum or nl.maximum",
        )
    return str(name)


def reduced(values: list[np.ndarray], op: str) -> np.ndarray:
    """Fold arrays in the order of the ranks: floats in fp32, integers exactly."""
    fold = _REDUCTIONS[op]
    exact = values[0].dtype.kind in "iub"
    total = values[0].astype(np.int64) if exact else to_f32(values[0]).copy()
    for v in values[1:]:
        fold(total, v if exact else to_f32(v), out=total)
    return total


def priority_ok(s: Session, priority: Any) -> None:
    """Quality-of-service levels exist from trn3 on."""
    if priority is None:
        return
    if s.target.generation < 4:
        raise WrongEngine(
            f"priority is {priority} and {s.target.name} has no DMA priorities",
            rule="generation",
            got=s.target.name,
            limit="trn3",
            hint="leave priority out",
        )
    if priority not in (0, 1, 2, 3):
        raise WrongArgument(
            f"priority is {priority}", rule="priority", got=priority, limit=(0, 3), hint="levels are 0 (highest) to 3"
        )


def tensors(
    s: Session, srcs: Any, dsts: Any, *, sbuf: bool, most: int | None = None
) -> tuple[list[NkiTensor], list[NkiTensor]]:
    """Source and destination lists that fit each other: one memory, one dtype pair by pair, SBUF alone and 2-D."""
    lists = []
    for role, given in (("srcs", srcs), ("dsts", dsts)):
        if not isinstance(given, (list, tuple)) or not given:
            raise WrongArgument(
                f"{role} is {type(given).__name__}",
                rule="collective-list",
                got=type(given).__name__,
                limit="list of tensors",
                hint=f"write {role}=[tensor]",
            )
        where = (SBUF, *IN_HBM) if sbuf else IN_HBM
        lists.append([s.operand(t, f"{role}[{i}]", where, compute=False) for i, t in enumerate(given)])
    a, b = lists
    if len(a) != len(b):
        raise WrongArgument(
            f"{len(a)} srcs and {len(b)} dsts",
            rule="collective-list",
            got=len(a),
            limit=len(b),
            hint="one destination for each source",
        )
    if most is not None and len(a) > most:
        raise WrongArgument(
            f"{len(a)} tensors, and this collective takes {most}",
            rule="collective-coalesced",
            got=len(a),
            limit=most,
            hint="call it once for each tensor",
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
        raise WrongArgument(
            f"{len(a)} SBUF tensors",
            rule="collective-coalesced",
            got=len(a),
            limit=1,
            hint="several tensors at once are for HBM; call it once for each tile",
        )
    for x, y in zip(a, b, strict=True):
        if x.dtype != y.dtype:
            raise WrongDtype(
                f"src {x.name} is {x.dtype} and dst {y.name} is {y.dtype}",
                rule="collective-dtype",
                got=str(x.dtype),
                limit=str(y.dtype),
                hint="collectives do not convert",
            )
        if x.on_chip and (x.ndim != 2 or y.ndim != 2):
            raise WrongShape(
                f"src has shape {x.shape} and dst {y.shape}",
                rule="collective-2d",
                got=(x.ndim, y.ndim),
                limit=2,
                hint="SBUF collectives take 2-D tiles; reshape the free dimensions into one",
            )
    return a, b


def summable(srcs: list[NkiTensor]) -> None:
    """Packed types cannot be reduced."""
    for t in srcs:
        if t.dtype in PACKED:
            raise WrongDtype(
                f"src {t.name} is {t.dtype}",
                rule="collective-dtype",
                got=str(t.dtype),
                hint="packed types carry no arithmetic; reduce before quantising",
            )


def dimension(dim: Any, srcs: list[NkiTensor], *, sbuf: tuple[int, ...] = (0,)) -> int:
    """Return the ``collective_dim``: 0 in HBM, and what SBUF allows."""
    allowed = sbuf if srcs[0].on_chip else (0,)
    if dim not in allowed:
        raise WrongArgument(
            f"collective_dim is {dim}",
            rule="collective-dim",
            got=dim,
            limit=allowed,
            hint=f"{srcs[0].buffer} tensors are cut along dimension {' or '.join(map(str, allowed))}",
        )
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
            raise WrongShape(
                f"{kind}: src {x.name} has shape {x.shape} and dst {y.name} has {y.shape}",
                rule="collective-shape",
                got=y.shape,
                limit=x.shape,
                hint="what is sent has the shape of what is received",
            )


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
        raise WrongShape(
            f"metadata_tensor has shape {t.shape}",
            rule="metadata-shape",
            got=t.shape,
            limit=wanted,
            hint=f"{rows} rows, one column for each of {n} ranks: {wanted}",
        )
    if t.dtype != uint32:
        raise WrongDtype(
            f"metadata_tensor is {t.dtype}",
            rule="metadata-dtype",
            got=str(t.dtype),
            limit="uint32",
            hint="counts are uint32",
        )
    if not t.is_contiguous():
        raise WrongShape(
            f"metadata_tensor has strides {t.strides}",
            rule="metadata-contiguous",
            got=t.strides,
            hint="its rows lie one after the other in memory",
        )
    return t


def two_cores(s: Session, kind: str) -> None:
    """Refuse a launch on one core."""
    cores = 1 if s.machine is None else s.machine.cores
    if cores != 2:
        raise HardwareLimit(
            f"{kind} needs a kernel on two cores and this one runs on {cores}",
            rule="lnc",
            got=cores,
            limit=2,
            hint="launch it with kernel[2]",
        )
