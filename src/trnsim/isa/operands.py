"""Rules several engines share: who may run an instruction, which tiles fit together, scalar operands, indirection."""

import math
from typing import Any

import numpy as np

from trnsim.errors import (
    KernelError,
    WrongDtype,
    WrongShape,
    lacking,
)
from trnsim.isa.alu import refuse_packed
from trnsim.isa.enums import engine as eng, member
from trnsim.refusals import forbid, refuse
from trnsim.session import PSUM, SBUF, Session
from trnsim.source_lines import warn
from trnsim.tensors.dtypes import PACKED, float32, same_dtype, to_f32
from trnsim.tensors.layout import overlaps_itself, runs_of
from trnsim.tensors.objects import MemoryRegion
from trnsim.tensors.tensor import NkiTensor

Named = tuple[Any, str]
F32 = np.float32
SBUF_ELEMENTS = 65536
PSUM_ELEMENTS = 4096


def pick(s: Session, engine: Any, allowed: tuple[str, ...], default: str) -> str:
    """Name of the engine that runs this instruction: the kernel's choice, or ``default`` when it leaves it open."""
    if engine is eng.unknown:
        return default
    name = member(eng, engine, "engine").name
    if name == "unknown":
        return default
    if name not in allowed and s.checks:
        hint = f"use {' or '.join('nisa.engine.' + a for a in allowed)}, or leave the choice to the compiler"
        raise not_run(name, f"{s.instr} on {s.target.name}", allowed, hint)
    return name


def not_run(engine: str, what: str, allowed: tuple[str, ...], hint: str) -> KernelError:
    """Return the error for ``what`` an engine does not run and the ``allowed`` ones do."""
    return refuse("engine", got=engine, limit=list(allowed), hint=hint, what=what)


def needs(s: Session, generation: int, what: str, hint: str = "") -> None:
    """Refuse an instruction the target is too old for."""
    if s.target.generation < generation and s.checks:
        raise lacking(what, s.target, generation, hint)


def no_psum(engine: str, *tensors: Named) -> None:
    """GpSimd cannot reach PSUM."""
    if engine != "gpsimd":
        return
    for t, role in tensors:
        if type(t) is NkiTensor and t.buffer is MemoryRegion.psum:
            raise refuse("gpsimd-psum", got=PSUM, limit=SBUF, role=role, t=t)


def one_psum(a: NkiTensor, a_role: str, b: Any, b_role: str) -> None:
    """Two tile inputs of one instruction cannot both come from PSUM."""
    if a.buffer is MemoryRegion.psum and type(b) is NkiTensor and b.buffer is MemoryRegion.psum:
        raise refuse(
            "psum-inputs",
            got=(PSUM, PSUM),
            limit=[(SBUF, SBUF), (SBUF, PSUM), (PSUM, SBUF)],
            a_role=a_role,
            a=a,
            b_role=b_role,
            b=b,
        )


def element_limit(s: Session, t: NkiTensor) -> int:
    """Return the most elements of a partition one instruction streams from ``t``'s memory."""
    if t.buffer is not MemoryRegion.psum:
        return SBUF_ELEMENTS
    return PSUM_ELEMENTS if s.target.generation < 4 else max(PSUM_ELEMENTS, s.target.psum_partition_bytes // t.itemsize)


def reachable(s: Session, t: NkiTensor, role: str, n: int) -> None:
    """Check that an access pattern of ``n`` elements a partition is one the engines can stream."""
    limit = element_limit(s, t)
    forbid(n > limit, "free-size", got=n, limit=limit, role=role, t=t)


def scratch(s: Session, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return memory for an intermediate of one instruction: fresh pages cost as much as a small product."""
    size = math.prod(shape)
    held = s.state.get(name)
    if held is None or held.size < size:
        held = s.state[name] = np.empty(max(size, 65536), np.float32)
    memory: np.ndarray = held[:size].reshape(shape)
    return memory


class OverlappingOperands(RuntimeWarning):
    """An instruction writes elements that it reads as others."""


def overlap(dst: NkiTensor, src: NkiTensor, *, moves: bool = False) -> bool:
    """Return whether two views share memory; the same elements in the same order do only where elements move."""
    if dst.storage.arena is not src.storage.arena or dst.dynamic is not None or src.dynamic is not None:
        return False
    first = (dst.storage.base, dst.offset, dst.itemsize) == (src.storage.base, src.offset, src.itemsize)
    congruent = dst.shape == src.shape and dst.strides == src.strides
    if first and (congruent or runs_of(dst.shape, dst.strides) == runs_of(src.shape, src.strides)):
        return moves
    try:
        return np.shares_memory(dst.array, src.array, max_work=10**5)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def alike(s: Session, dst: NkiTensor, dst_role: str, *others: Named) -> None:
    """Check ``dst``, and that tiles have its partitions and its number of elements in each; ranks may differ."""
    shape = s.operand(dst, dst_role).shape
    n = math.prod(shape[1:])
    if n > PSUM_ELEMENTS or len(shape) > 5:
        reachable(s, dst, dst_role, n)
    for t, role in others:
        if t.shape == shape:
            if n > PSUM_ELEMENTS or len(shape) > 5:
                reachable(s, t, role, n)
            continue
        partitions(t, role, dst, dst_role)
        size = t.free_size
        if size != n:
            one, two = f"{role} ({t.name}) {t.shape}", f"{dst_role} ({dst.name}) {shape}"
            broadcast = "broadcast a [P, 1] tile with tensor_scalar, or a view with .broadcast()"
            hint = broadcast if 1 in (size, n) else "slice both to the same extent"
            raise refuse("free-size-mismatch", got=size, limit=n, hint=hint, one=one, two=two)
        reachable(s, t, role, size)
    for t, role in others:
        if t.storage is dst.storage and s.numerics and overlap(dst, t):
            warn(
                f"{s.instr} writes {dst_role} over other elements of {role}, both parts of {dst.name}: the result "
                "depends on the order in which the engine reads and writes, which is not documented. Write to another "
                "tile.",
                OverlappingOperands,
            )


def partitions(a: NkiTensor, a_role: str, b: NkiTensor, b_role: str) -> None:
    """Check that two tiles have the same number of partitions."""
    if a.shape[0] != b.shape[0]:
        one, two = f"{a_role} ({a.name})", f"{b_role} ({b.name})"
        raise refuse("partition-mismatch", got=a.shape[0], limit=b.shape[0], one=one, two=two)


def column(t: NkiTensor, role: str, like: NkiTensor, like_role: str) -> None:
    """Check that ``t`` has one element for each partition of ``like``."""
    partitions(t, role, like, like_role)
    forbid(t.free_size != 1, "vector-operand", got=t.shape, limit=(like.shape[0], 1), role=role, t=t, like=like)


def elements(t: NkiTensor, role: str, n: int, what: str, *, rule: str = "result-size", hint: str = "") -> None:
    """Check that ``t`` has ``n`` elements per partition; ``what`` says why it should."""
    if t.free_size != n:
        raise WrongShape(
            f"{role} ({t.name}) has {t.free_size} elements per partition {t.shape}, and {what} {n}",
            rule=rule,
            got=t.free_size,
            limit=n,
            hint=hint or f"make {role} [P, {n}]",
        )


def has_dtype(
    t: NkiTensor, role: str, allowed: frozenset[Any], *, rule: str = "operand-dtype", why: str = "", hint: str = ""
) -> None:
    """Check that ``t`` has one of the ``allowed`` dtypes; ``why`` continues the sentence that names its own."""
    if t.dtype not in allowed:
        names = sorted(str(d) for d in allowed)
        raise WrongDtype(
            f"{role} ({t.name}) is {t.dtype}{why}", rule, str(t.dtype), names, hint or f"use {' or '.join(names)}"
        )


def one_dtype(
    a: NkiTensor, a_role: str, b: NkiTensor, b_role: str, *, rule: str = "same-dtype", why: str = "", hint: str
) -> None:
    """Check that two tensors have the same dtype; ``why`` continues the sentence that names both."""
    if not same_dtype(a.dtype, b.dtype):
        raise WrongDtype(
            f"{a_role} ({a.name}) is {a.dtype} and {b_role} ({b.name}) is {b.dtype}{why}",
            rule=rule,
            got=str(a.dtype),
            limit=str(b.dtype),
            hint=hint,
        )


def only_f32(t: NkiTensor, role: str) -> None:
    """Check that a per-partition operand is float32."""
    why, hint = ", and a per-partition operand must be float32", "convert it first: tensor_copy into a float32 tile"
    has_dtype(t, role, frozenset({float32}), why=why, hint=hint)


def no_packed(*tensors: Named) -> None:
    """Refuse arithmetic on x4 types."""
    for t, role in tensors:
        if t.dtype in PACKED:
            raise refuse_packed(t, role)


def plain(*tensors: Named) -> None:
    """Refuse x4 types and tensor indirection."""
    no_packed(*tensors)
    direct(*tensors)


def as_fp32(value: Any, role: str) -> Any:
    """Return a compile-time constant as fp32."""
    if isinstance(value, (int, float, np.number, np.bool_)):
        return F32(value)
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iufb":
        return F32(value)
    hint = "pass a Python number or a [P, 1] tile"
    if hasattr(value, "__nki_register__"):
        hint = "a register is no operand: store it into a [1, 1] tile with register_store"
    limit = ("number", "NkiTensor")
    raise refuse("scalar-operand:as_fp32", got=type(value).__name__, limit=limit, hint=hint, role=role, value=value)


def scalar(s: Session, value: Any, role: str, like: NkiTensor, like_role: str, *, f32: bool = True) -> Any:
    """Return a scalar operand in fp32: a number, or a [P, 1] tile (of float32 when ``f32``) read as a column."""
    if type(value) is not NkiTensor:
        return as_fp32(value, role)
    read = s.read(value, role)
    if s.checks:
        column(value, role, like, like_role)
        if f32:
            only_f32(value, role)
        elif value.dtype in PACKED:
            raise refuse_packed(value, role)
        direct((value, role))
    if not s.numerics:
        return read
    return to_f32(read).reshape(read.shape[0], 1)


def direct(*tensors: Named) -> None:
    """Refuse tensor indirection on operands that have none."""
    for t, role in tensors:
        forbid(type(t) is NkiTensor and t.is_addressed("tensor"), "indirect-operand", got=role, t=t)


def indirect(s: Session, dst: NkiTensor, data: NkiTensor, data_role: str, engine: str = "vector") -> None:
    """Rules of tensor indirection (trn3) for the output and the main input of an instruction."""
    into, out_of = dst.is_addressed("tensor"), data.is_addressed("tensor")
    if not (into or out_of):
        return
    needs(s, 4, ".indirect()", "gather with nc_n_gather or dma_copy instead")
    if into and engine == "scalar" and dst.buffer is MemoryRegion.psum:
        raise refuse("indirect-scalar-psum", got=PSUM, limit=SBUF, dst=dst)
    if into:
        to = index_of(dst, "dst")
        if data.buffer is MemoryRegion.sbuf:
            same_start(to, "dst's index", data, data_role)
        elif out_of:
            same_start(to, "dst's index", index_of(data, data_role), f"{data_role}'s index")
    if out_of:
        same_start(data, data_role, index_of(data, data_role), f"{data_role}'s index")


def index_of(t: NkiTensor, role: str) -> NkiTensor:
    """Return the index tile of an indirect view, which starts on a quadrant."""
    assert t.dynamic is not None
    index: NkiTensor = t.dynamic.index
    if index.partition_start % 32:
        raise refuse(
            "indirect-start:index_of", got=index.partition_start, limit=(0, 32, 64, 96), role=role, index=index
        )
    return index


def same_start(a: NkiTensor, a_role: str, b: NkiTensor, b_role: str) -> None:
    """Check that two tiles start at the same partition; the compiler aligns those it places itself."""
    if a.storage.address is None or b.storage.address is None:
        return
    if a.partition_start != b.partition_start:
        one, two = f"{a_role} ({a.name})", f"{b_role} ({b.name})"
        raise refuse("indirect-start:same_start", got=a.partition_start, limit=b.partition_start, one=one, two=two)


def written_once(dst: NkiTensor, hint: str) -> None:
    """Refuse a destination that names an address twice."""
    forbid(overlaps_itself(dst.shape, dst.strides), "dst-overlap", got=dst.strides, hint=hint, dst=dst)


def flat(x: np.ndarray) -> np.ndarray:
    """Return ``x`` as [partitions, elements]."""
    return x if x.ndim == 2 else x.reshape(x.shape[0], -1)
