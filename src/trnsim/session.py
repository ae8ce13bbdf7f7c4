"""A session: one core running one kernel. It owns memory, the instruction counter and the instruction stream.

Instructions are functions decorated with `instruction`; they get the session first, read operands with `Session.read`,
write results with `Session.write` and end with `Session.done`, which appends to the stream when somebody listens.
Two sessions never share anything except what the launch hands to both (shared HBM); an exception leaves nothing to reset.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from trnsim.errors import (
    CapacityError,
    HardwareLimit,
    KernelError,
    OutOfBounds,
    ReadUninitialized,
    WrongArgument,
    WrongBuffer,
    WrongEngine,
    WrongShape,
)
from trnsim.language.dtypes import LOW_PRECISION, DType, ExtraDtype, as_dtype, cast, float32
from trnsim.language.objects import MemoryRegion, as_region
from trnsim.language.tensor import Dynamic, NkiTensor
from trnsim.memory import HBM, MATMUL, PSUM, SBUF, SHARED_HBM, UNWRITTEN, WRITTEN, Arena, Lifetimes, Storage
from trnsim.targets import Target, target_named

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_local = threading.local()
# source positions are asked for at every instruction, and code objects hash by content: weak keys would not pay
_INSIDE: dict[Any, bool] = {}
_LINES: dict[tuple[Any, int], str] = {}


def current() -> Session | None:
    """The session this thread runs in, or ``None`` outside kernels."""
    return getattr(_local, "session", None)


def require_session(what: str) -> Session:
    """The running session; an error that says how to get one otherwise."""
    session = getattr(_local, "session", None)
    if session is None:
        raise WrongArgument(
            f"{what} was called outside a kernel", rule="no-session", hint="decorate the function with nki.jit and call it, or use nki.simulate(kernel)(…)"
        )
    return session


class activated:
    """``with activated(session):`` makes it this thread's session and restores the previous one."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def __enter__(self) -> Session:
        self.outer = getattr(_local, "session", None)
        _local.session = self.session
        return self.session

    def __exit__(self, *exc: object) -> None:
        _local.session = self.outer


@dataclass(frozen=True, slots=True, kw_only=True)
class SimParams:
    """How a kernel is simulated. The defaults are hostile on purpose.

    Attributes:
        target: hardware generation.
        checks: enforce rules, poison, bounds and capacity.
        numerics: compute values; ``False`` follows the control flow and records instructions only.
        precise: keep low precision in its own dtype (``NKI_PRECISE_FP=0`` keeps fp32).
        lint: ``"error"``, ``"warn"`` or ``"off"``.
        seed: of the random number instructions' initial state.
    """

    target: Target = field(default_factory=target_named)
    checks: bool = True
    numerics: bool = True
    precise: bool = field(default_factory=lambda: os.environ.get("NKI_PRECISE_FP", "1") != "0")
    lint: str = "error"
    seed: int = 0


class Record:
    """One instruction of the stream, as the timing model and the debugger read it.

    Attributes:
        index: position in this core's program order.
        name, engine: instruction and the engine that runs it (``tensor vector scalar gpsimd sync dma``).
        reads, writes: the operands (`Operand`: memory region, buffer, dtype, shape, strides).
        line: ``file:number`` of the kernel source.
        cost: what the cost law needs beyond the operands (operators, flags, modes). Instructions that meet others carry
            ``sync``, equal for all that take part.
        core, rank: who runs it.
        after: indices of instructions this one must follow besides its data (``depends_on``, barriers).
    """

    __slots__ = ("after", "core", "cost", "engine", "index", "line", "name", "rank", "reads", "writes")

    def __init__(
        self, index: int, name: str, engine: str, reads: Any, writes: Any, line: Any, cost: dict[str, Any], core: int = 0, rank: int = 0
    ) -> None:
        self.index = index
        self.name = name
        self.engine = engine
        self.reads = reads
        self.writes = writes
        self.line = line
        self.cost = cost
        self.core = core
        self.rank = rank
        self.after: list[int] = []

    def __repr__(self) -> str:
        return f"{self.index}: {self.engine}.{self.name} {self.cost} @ {self.line}"


class NkiInstruction:
    """Handle of an issued instruction; ``depends_on`` orders it after others."""

    __slots__ = ("handle", "index", "record")

    def __init__(self, handle: Any = None, index: int = -1, record: Record | None = None) -> None:
        self.handle = handle
        self.index = index
        self.record = record

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """Run after every producer; returns self."""
        for p in producers:
            if not isinstance(p, NkiInstruction):
                raise WrongArgument(f"depends_on takes instructions, got {type(p).__name__}", rule="depends-on", got=repr(p))
            if p.index >= self.index:
                raise WrongArgument(
                    f"instruction {self.index} cannot depend on {p.index}, which is issued no earlier", rule="depends-on", got=p.index, limit=self.index
                )
            if self.record is not None:
                self.record.after.append(p.index)
        return self


class Session:
    """See the module text."""

    def __init__(
        self,
        params: SimParams,
        *,
        kernel: str = "kernel",
        core: int = 0,
        rank: int = 0,
        grid: tuple[int, ...] = (),
        program: tuple[int, ...] = (),
        trace: list[Record] | None = None,
    ) -> None:
        self.params = params
        self.target = params.target
        self.checks = params.checks
        self.numerics = params.numerics
        self.kernel = kernel
        self.core = core
        self.rank = rank
        self.grid = grid
        self.program = program
        self.trace = trace
        self.clock = 0
        self.instr: str | None = None
        self.lifetimes = Lifetimes()
        self.state: dict[str, Any] = {}
        self.machine: Any = None
        self.probes: list[Any] | None = None
        self.named: Any = None
        self._arenas: dict[str, Arena] = {}
        self._names: dict[str, int] = {}
        self.hooks: list[Any] = []

    # -- where are we ---------------------------------------------------------------------------------------------

    def line(self) -> str:
        """``file:number`` of the kernel line being executed: the innermost frame outside the simulator and its helpers."""
        frame = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            inside = _INSIDE.get(code)
            if inside is None:
                inside = _INSIDE[code] = code.co_filename.startswith(_HERE) or "__trnsim_helper__" in frame.f_globals
            if not inside:
                number = frame.f_lineno
                text = _LINES.get((code, number))
                if text is None:
                    text = _LINES[code, number] = f"{code.co_filename}:{number}"
                return text
            frame = frame.f_back  # type: ignore[assignment]
        return "?"

    def line_of(self, error: BaseException) -> str | None:
        """``file:number`` of the kernel line an error came from, once it has left the kernel (views are no instructions)."""
        trace, found = error.__traceback__, None
        while trace is not None:
            code = trace.tb_frame.f_code
            if not code.co_filename.startswith(_HERE) and "__trnsim_helper__" not in trace.tb_frame.f_globals:
                found = f"{code.co_filename}:{trace.tb_lineno}"
            trace = trace.tb_next
        return found

    # -- allocation -----------------------------------------------------------------------------------------------

    def allocate(self, shape: Any, dtype: Any, buffer: Any = None, name: str = "", address: Any = None) -> NkiTensor:
        """Fresh memory: nothing in it may be read before it is written."""
        if isinstance(shape, int):
            shape = (shape,)
        shape = tuple(int(n) for n in shape)
        dtype = as_dtype(dtype)
        region = as_region(buffer)
        on_chip = region is MemoryRegion.sbuf or region is MemoryRegion.psum
        if min(shape, default=1) < 1:
            raise WrongShape(f"a tensor of shape {shape} has no elements", rule="shape", got=shape, hint="every dimension is at least 1")
        physical = self.physical(dtype)
        row = 1
        for n in shape[1:]:
            row *= n
        if on_chip:
            self._check_on_chip(shape, row * dtype.itemsize, region, name)
        where: tuple[int, int] | None = None
        line = self.line() if self.checks or self.trace is not None or self.probes is not None else None
        label = name
        if not name and line is not None:
            label = variable_name()
        if address is not None and on_chip:
            where = self._check_address(address, shape, row * dtype.itemsize, region, dtype)
        # with low precision kept as fp32 the bytes of two tensors no longer line up, so addresses cannot alias
        if where is not None and self.params.precise:
            arena, pitch = self._fixed(region)
            base = where[0] * pitch + where[1]
        else:
            arena = self._fresh(shape[0] * row, physical, dtype)
            pitch, base = row * physical.itemsize, 0
        storage = Storage(
            name=label,
            shape=shape,
            dtype=dtype,
            physical=physical,
            buffer=region.value,
            arena=arena,
            pitch=pitch,
            base=base,
            partition=where[0] if where else 0,
            address=where,
            line=line,
        )
        if arena is self._arenas.get(PSUM):
            # a matmul infers whether it starts a sum from this tensor's own history, not from that of its address
            private = Arena(shape[0] * row * int(dtype.itemsize), unit=int(dtype.itemsize))
            storage.shadow = Storage(
                name=label, shape=shape, dtype=dtype, physical=physical, buffer=region.value, arena=private, pitch=row * physical.itemsize
            )
        if on_chip:
            self.lifetimes.add(storage)
        elif self.machine is not None and region is MemoryRegion.shared_hbm:
            storage = self.machine.share(self, storage, name)
        made = NkiTensor.__new__(NkiTensor)
        made.shape = shape
        made.dtype = dtype
        made.storage = storage
        made.buffer = region
        strides, step = [], 1
        for n in reversed(shape):
            strides.append(step)
            step *= n
        made.strides = tuple(reversed(strides))
        made.offset = 0
        made.dynamic = None
        made._array = None
        if self.probes is not None:
            for probe in self.probes:
                probe.follow(self, made)
        return made

    def physical(self, dtype: DType) -> np.dtype[Any]:
        """NumPy type the bits of ``dtype`` are kept in."""
        if not self.params.precise and dtype in LOW_PRECISION:
            return float32
        return dtype.storage if isinstance(dtype, ExtraDtype) else dtype

    def _fresh(self, elements: int, physical: np.dtype[Any], dtype: DType) -> Arena:
        nbytes = elements * int(dtype.itemsize)
        if not self.numerics:
            return Arena(nbytes, marks=WRITTEN)
        data = np.empty(elements, physical)
        if not self.checks:
            data.view(np.uint8).fill(0xFF)
        return Arena(nbytes, data=data, unit=int(dtype.itemsize))

    def _fixed(self, region: MemoryRegion) -> tuple[Arena, int]:
        """The core's own SBUF or PSUM, for tensors with an address."""
        # partitions a multiple of 4 KiB apart would fight for the same cache lines of the host
        pitch = 128 + (self.target.sbuf_partition_bytes if region is MemoryRegion.sbuf else self.target.psum_partition_bytes)
        arena = self._arenas.get(region.value)
        if arena is None:
            nbytes = pitch * self.target.partitions
            data = np.zeros(nbytes, np.uint8) if self.numerics else None
            arena = Arena(nbytes, data=data, marks=UNWRITTEN if self.numerics else WRITTEN, unit=4)
            self._arenas[region.value] = arena
        return arena, pitch

    def _check_on_chip(self, shape: tuple[int, ...], row_bytes: int, region: MemoryRegion, name: str) -> None:
        limit = self.target.sbuf_partition_bytes if region is MemoryRegion.sbuf else self.target.psum_partition_bytes
        if len(shape) > 1 and shape[0] <= self.target.partitions and row_bytes <= limit:
            return
        label = name or variable_name() or "tensor"
        if len(shape) < 2:
            raise WrongShape(
                f"{label} in {region} has shape {shape}", rule="two-dimensional", got=len(shape), limit=2, hint=f"on-chip tensors have a partition and a free dimension: use {(shape or (1,))[0], 1}"
            )
        if shape[0] > self.target.partitions:
            raise HardwareLimit(
                f"{label} has {shape[0]} partitions in {region}, which has {self.target.partitions}",
                rule="partition-limit",
                got=shape[0],
                limit=self.target.partitions,
                target=self.target.name,
                hint="put the first 128 rows in one tile and loop, or fold rows into the free dimension: (128, n, …)",
            )
        raise CapacityError(
            where=region.value.upper(),
            required=row_bytes,
            available=limit,
            hint=f"{label}{list(shape)} alone is too large for {self.target.name} ({self.line()}); split its free dimension",
            target=self.target.name,
            live=[(label, shape, "", row_bytes, self.line())],
        )

    def _check_address(self, address: Any, shape: tuple[int, ...], row_bytes: int, region: MemoryRegion, dtype: DType) -> tuple[int, int]:
        try:
            partition, free = (int(a) for a in address)
        except (TypeError, ValueError):
            raise WrongArgument(f"address {address!r}", rule="address", got=address, limit="(partition, byte)", hint="give (partition_offset, free_offset)") from None
        limit = self.target.sbuf_partition_bytes if region is MemoryRegion.sbuf else self.target.psum_partition_bytes
        align = self.target.sbuf_align if region is MemoryRegion.sbuf else self.target.psum_align
        if partition < 0 or partition + shape[0] > self.target.partitions:
            raise OutOfBounds(
                f"address {address}: partitions {partition}..{partition + shape[0]} of {self.target.partitions}", rule="address", got=partition + shape[0], limit=self.target.partitions
            )
        if free < 0 or free + row_bytes > limit:
            raise OutOfBounds(
                f"address {address}: bytes {free}..{free + row_bytes} of a {region.value.upper()} partition of {limit}", rule="address", got=free + row_bytes, limit=limit, target=self.target.name
            )
        step = max(align, min(int(dtype.itemsize), 4))
        if free % step:
            raise HardwareLimit(f"address {address}: byte {free} is not a multiple of {step}", rule="alignment", got=free, limit=step)
        return partition, free

    def wrap(self, array: np.ndarray, name: str, *, shared: bool = False, dtype: Any = None) -> NkiTensor:
        """An HBM tensor on a contiguous NumPy array the caller owns; all of it counts as written."""
        logical = as_dtype(array.dtype if dtype is None else dtype)
        shape = array.shape if array.ndim else (1,)
        arena = Arena(array.size * int(logical.itemsize), data=array if self.numerics else None, marks=WRITTEN, unit=int(logical.itemsize))
        region = MemoryRegion.shared_hbm if shared else MemoryRegion.private_hbm
        storage = Storage(
            name=name,
            shape=shape,
            dtype=logical,
            physical=array.dtype,
            buffer=region.value,
            arena=arena,
            pitch=array.nbytes,
            line=None,
        )
        storage.shared = shared
        return NkiTensor(shape, logical, storage, region)

    # -- operands -------------------------------------------------------------------------------------------------

    def operand(self, t: Any, role: str, where: tuple[str, ...] = (SBUF, PSUM), *, compute: bool = True) -> NkiTensor:
        """Check that ``t`` is a tensor this instruction can reach; ``compute`` adds the engines' partition rules."""
        if type(t) is not NkiTensor:
            raise WrongArgument(f"{role} is {t!r} ({type(t).__name__}), not a tensor", rule="operand", got=type(t).__name__, limit="NkiTensor", hint=f"pass a tile as {role}=")
        if not self.checks:
            return t
        if t.buffer.value not in where:
            raise WrongBuffer(
                f"{role} ({t.name}) is in {t.buffer}, and must be in {' or '.join(w.upper() for w in where)}",
                rule="buffer",
                got=str(t.buffer),
                limit=where,
                hint="copy it with dma_copy" if t.buffer.value in (HBM, SHARED_HBM) else "copy it with tensor_copy",
            )
        if compute and t.on_chip:
            self.partitions_ok(t, role)
        return t

    def partitions_ok(self, t: NkiTensor, role: str) -> None:
        """Compute engines start at partition 0, 32, 64 or 96 and reach 128, 32, 64 and 32 partitions from there."""
        storage = t.storage
        assert storage is not None
        row = storage.row * storage.itemsize // t.dtype.itemsize
        start = storage.partition + t.offset // row
        count = t.shape[0]
        if count > 1 and t.strides[0] != row:
            raise HardwareLimit(
                f"{role} ({t.name}) steps {t.strides[0] / row:g} partitions at a time, and engines access consecutive ones",
                rule="partition-step",
                got=t.strides[0],
                limit=row,
                hint="gather the rows into consecutive partitions with dma_copy",
            )
        if start == 0:
            if count <= 128:
                return
        elif start % 32 == 0 and count <= (64 if start == 64 else 32):
            return
        reach = {0: 128, 32: 32, 64: 64, 96: 32}.get(start)
        raise HardwareLimit(
            f"{role} ({t.name}) covers partitions {start}..{start + count}" + ("" if reach is None else f", but from {start} an engine reaches {reach}"),
            rule="start-partition",
            got=(start, count),
            limit={0: 128, 32: 32, 64: 64, 96: 32},
            hint="start at 0, 32, 64 or 96; move other rows there with dma_copy",
        )

    def read(self, t: Any, role: str, where: tuple[str, ...] = (SBUF, PSUM), *, compute: bool = True) -> np.ndarray:
        """The elements of operand ``t`` (its own dtype). In timing-only mode an empty array stands in; do not use it."""
        t = self.operand(t, role, where, compute=compute)
        storage = t.storage
        clock = self.clock
        if storage.first < 0:
            storage.first = clock
        storage.last = clock
        if storage.shared and self.machine is not None:
            self.machine.note(self, t, False)
        if not self.numerics:
            if t.dynamic is not None:
                self.resolve(t, role)
            return _NOTHING
        if t.dynamic is not None:
            return self._read_dynamic(t, role)
        if self.checks:
            marks = storage.arena.marks
            if type(marks) is not int:
                if not t.mark_window(t.offset).all():
                    self._unwritten(t, role, t.mark_window(t.offset))
            elif marks == UNWRITTEN:
                self._unwritten(t, role, None)
        return t.array

    def _unwritten(self, t: NkiTensor, role: str, marks: np.ndarray | None) -> None:
        at = tuple(0 for _ in t.shape) if marks is None else tuple(int(i) for i in np.argwhere(marks == 0)[0][: t.ndim])
        missing = t.size if marks is None else int((marks == 0).reshape(t.size, -1).any(axis=1).sum())
        storage = t.storage
        assert storage is not None
        made = f", allocated at {storage.line}" if storage.line else ""
        raise ReadUninitialized(
            f"{role} reads {t.name}{list(storage.shape)} ({storage.buffer}{made}), of which {missing} of {t.size} elements were never written; the first is {at}",
            rule="uninitialized",
            got=at,
            limit=None,
            tensor=t.name,
            hint="write it first (dma_copy, memset, or a compute instruction)",
        )

    def write(self, t: Any, values: Any, role: str = "dst", where: tuple[str, ...] = (SBUF, PSUM), *, compute: bool = True, code: int = WRITTEN) -> None:
        """Store ``values`` (broadcast to ``t``) with the conversion a write makes, and mark the elements written."""
        t = self.operand(t, role, where, compute=compute)
        storage = t.storage
        clock = self.clock
        if storage.first < 0:
            storage.first = clock
        storage.last = clock
        if storage.shared and self.machine is not None:
            self.machine.note(self, t, True)
        if not self.numerics:
            if t.dynamic is not None:
                self.resolve(t, role)
            return
        if storage.user is not None and storage.snapshot is None:
            storage.snapshot = storage.arena.data.copy()
        if t.dynamic is not None:
            self._write_dynamic(t, values, role, code)
            return
        window = t.array
        if values.dtype != window.dtype or isinstance(t.dtype, ExtraDtype):
            values = cast(values, t.dtype if storage.physical.itemsize == storage.itemsize else float32)
        if values.shape != window.shape:
            values = _fit(values, window.shape, role, t)
        window[...] = values
        # matmuls read the marks of PSUM to know whether they start or continue an accumulation
        if self.checks or storage.buffer == PSUM:
            self.mark(t, code)

    def mark(self, t: NkiTensor, code: int = WRITTEN) -> None:
        """Note that ``t`` has been written."""
        storage = t.storage
        if storage.shadow is not None:
            self.mark(shadow_of(t), code)
        arena = storage.arena
        if arena.marks is code or (type(arena.marks) is int and arena.marks == code):
            return
        size = 1
        for n in t.shape:
            size *= n
        # every element of a tensor that owns its arena
        if storage.address is None and size * int(t.dtype.itemsize) == arena.nbytes and 0 not in t.strides:
            arena.marks = code
            return
        t.mark_window(t.offset)[...] = code
        marks = arena.marks
        if marks[-1] == code and marks[0] == code and storage.address is None and (marks == code).all():
            arena.marks = code

    def touch(self, t: NkiTensor) -> None:
        """Count ``t`` as used now without reading its values."""
        storage = t.storage
        if storage.first < 0:
            storage.first = self.clock
        storage.last = self.clock

    # -- run-time addressing --------------------------------------------------------------------------------------

    def resolve(self, t: NkiTensor, role: str) -> int:
        """Element offset of a view with a scalar run-time index."""
        dynamic = t.dynamic
        assert dynamic is not None
        value = self.scalar(dynamic.index, f"{role}'s index")
        if dynamic.kind == "scalar" and self.outside(t, value):
            raise OutOfBounds(
                f"{role}: run-time index {value} leaves {t.name}{list(t.storage.shape)}, where it must stay below {dynamic.bound}",
                rule="bounds",
                got=value,
                limit=dynamic.bound,
                hint="check the index, or pass oob_mode.skip to a DMA",
            )
        return t.offset + value * dynamic.stride

    def scalar(self, index: Any, role: str) -> int:
        """A run-time scalar: a register, or a 1x1 tensor in SBUF."""
        if hasattr(index, "__nki_register__"):
            return int(index.value)
        if not self.numerics:
            self.operand(index, role, (SBUF, PSUM), compute=False)
            return 0
        values = self.read(index, role, (SBUF, PSUM, HBM, SHARED_HBM), compute=False)
        if values.size != 1:
            raise WrongShape(f"{role} has shape {index.shape}", rule="indirect", got=index.shape, limit=(1, 1))
        return int(values.reshape(-1)[0])

    def outside(self, t: NkiTensor, value: int) -> bool:
        """True when a scalar run-time index of ``value`` moves the view ``t`` out of its tensor or its partitions."""
        dynamic = t.dynamic
        assert dynamic is not None
        reach = [s * (n - 1) for s, n in zip(t.strides, t.shape, strict=True)]
        row, step = t.row, value * dynamic.stride
        if not 0 <= value < dynamic.bound or t.offset + step + sum(reach) >= t.storage.rows * row:
            return True
        return t.on_chip and dynamic.stride % row != 0 and t.offset % row + step + sum(reach[1:]) >= row

    def _gather_columns(self, t: NkiTensor, role: str) -> tuple[NkiTensor, np.ndarray]:
        """Base window and column numbers of a trn3 tensor-indirect view."""
        dynamic = t.dynamic
        assert dynamic is not None
        if self.target.generation < 4:
            raise WrongEngine(
                f"{role} uses .indirect(), which {self.target.name} lacks", rule="generation", got=self.target.name, limit="trn3", hint="gather with dma_copy and vector_offset, or with nc_n_gather"
            )
        index = self.read(dynamic.index, f"{role}'s index", (SBUF,), compute=False)
        group = 32 if self.instr in ("nc_matmul", "nc_matmul_mx") else 16
        flat = index.reshape(index.shape[0], -1)
        base = t._view((t.shape[0], dynamic.bound), (t.strides[0], dynamic.stride), t.offset)
        base.dynamic = None
        held = min(group, t.shape[0]) * flat.shape[1]
        if dynamic.count > held:
            raise WrongShape(
                f"{role}: {dynamic.count} offsets are wanted and each group of {group} partitions of the index {list(index.shape)} holds {held}",
                rule="indirect",
                got=dynamic.count,
                limit=held,
                hint=f"pass num_elem={held} or less to .indirect(), or more columns of offsets",
            )
        columns = np.empty((t.shape[0], dynamic.count), np.int64)
        i = np.arange(dynamic.count)
        for start in range(0, t.shape[0], group):
            rows = flat[start : start + group]
            g = rows.shape[0]
            columns[start : start + group] = rows[i % g, i // g].astype(np.int64)
        if columns.size and (columns.min() < 0 or columns.max() >= dynamic.bound):
            bad = int(columns.max()) if columns.max() >= dynamic.bound else int(columns.min())
            raise OutOfBounds(f"{role}: indirect column {bad} of {t.name}, which has {dynamic.bound}", rule="bounds", got=bad, limit=dynamic.bound)
        return base, columns

    def _read_dynamic(self, t: NkiTensor, role: str) -> np.ndarray:
        dynamic = t.dynamic
        assert dynamic is not None
        if dynamic.kind == "tensor":
            base, columns = self._gather_columns(t, role)
            values = np.take_along_axis(base.array, columns, axis=1)
            if self.checks:
                marks = base.marks(base.offset)
                written = marks if isinstance(marks, int) else np.take_along_axis(marks.reshape(*base.shape, -1).min(axis=-1), columns, axis=1)
                if np.any(np.asarray(written) == UNWRITTEN):
                    self._unwritten(t, role, None)
            return values
        if dynamic.kind == "vector":
            raise WrongArgument(f"{role}: only DMA can gather by vector_offset", rule="indirect", hint="use dma_copy, or .indirect() on trn3")
        offset = self.resolve(t, role)
        if self.checks:
            marks = t.marks(offset)
            if (marks == UNWRITTEN) if isinstance(marks, int) else not marks.all():
                self._unwritten(t, role, None if isinstance(marks, int) else marks)
        return t.window(offset)

    def _write_dynamic(self, t: NkiTensor, values: np.ndarray, role: str, code: int) -> None:
        dynamic = t.dynamic
        assert dynamic is not None
        values = cast(np.asarray(values), t.dtype if t.storage.physical.itemsize == t.storage.itemsize else float32)
        if dynamic.kind == "tensor":
            base, columns = self._gather_columns(t, role)
            np.put_along_axis(base.array, columns, np.broadcast_to(values.reshape(-1, t.shape[1]), t.shape), axis=1)
            if self.checks or t.storage.buffer == PSUM:
                marks = base.mark_window(base.offset).reshape(*base.shape, -1)
                for unit in range(marks.shape[-1]):
                    np.put_along_axis(marks[..., unit], columns, np.uint8(code), axis=1)
            return
        if dynamic.kind == "vector":
            raise WrongArgument(f"{role}: only DMA can scatter by vector_offset", rule="indirect", hint="use dma_copy, or .indirect() on trn3")
        offset = self.resolve(t, role)
        window = t.window(offset)
        window[...] = _fit(values, window.shape, role, t)
        if self.checks or t.storage.buffer == PSUM:
            t.mark_window(offset)[...] = code

    # -- the stream -----------------------------------------------------------------------------------------------

    def done(self, engine: str, writes: tuple[Any, ...], reads: tuple[Any, ...], /, **cost: Any) -> NkiInstruction:
        """Finish an instruction: append it to the stream when somebody listens, and return its handle."""
        index = self.clock
        record = None
        if self.trace is not None:
            record = Record(
                index,
                self.instr or "?",
                engine,
                tuple(operand_of(t) for t in reads if type(t) is NkiTensor),
                tuple(operand_of(t) for t in writes if type(t) is NkiTensor),
                self.line(),
                cost,
                self.core,
                self.rank,
            )
            self.trace.append(record)
        return NkiInstruction(None, index, record)


_NOTHING = np.zeros((1, 1), np.float32)


def shadow_of(t: NkiTensor) -> NkiTensor:
    """The same view of the tensor's own marks (see `Storage`)."""
    made = t._view(t.shape, t.strides, t.offset)
    made.storage = t.storage.shadow
    return made
_ASSIGNMENT = re.compile(r"\s*(?:\w+\.)*([A-Za-z_]\w*)\s*(?::[^=]+)?(?:=(?!=)|\.append\()")


@functools.lru_cache(maxsize=4096)
def assigned_name(path: str, number: int) -> str | None:
    """The variable a source line assigns; ``None`` for a ``return``, whose caller may."""
    text = linecache.getline(path, number)
    if text.lstrip().startswith("return "):
        return None
    match = _ASSIGNMENT.match(text)
    return match[1] if match else ""


def variable_name() -> str:
    """The variable that gets the tensor being made, which names it when nothing else does."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_HERE):
            name = assigned_name(code.co_filename, frame.f_lineno)
            if name is not None:
                return name
        frame = frame.f_back
    return ""


def _fit(values: np.ndarray, shape: tuple[int, ...], role: str, t: NkiTensor) -> np.ndarray:
    """``values`` in ``shape``: equal element counts reshape (rows stay rows), the rest broadcasts."""
    if values.size == t.size:
        return values.reshape(shape)
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise WrongShape(f"{role} ({t.name}) has shape {shape} and the result has shape {values.shape}", rule="shape", got=shape, limit=values.shape) from None


class Operand(NamedTuple):
    """A tensor as an instruction used it: the bounding box of its bytes, and its layout.

    ``key`` names the memory the box lies in: the storage's uid, or ``"sbuf"``/``"psum"`` of the core for tensors with an
    explicit address, which may overlap. ``room`` is what the whole tensor takes, in bytes of a partition.
    """

    key: Any
    first_partition: int
    end_partition: int
    first_byte: int
    end_byte: int
    buffer: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    uid: int
    room: int

    @property
    def n(self) -> int:
        """Elements per partition (on chip)."""
        size = 1
        for extent in self.shape[1:]:
            size *= extent
        return size


def operand_of(t: NkiTensor) -> Operand:
    """The operand record of a view."""
    storage: Any = t.storage
    dtype, shape, strides = t.dtype, t.shape, t.strides
    named = _DTYPES.get(dtype)
    if named is None:
        named = _DTYPES[dtype] = (str(dtype), int(dtype.itemsize))
    name, item = named
    extent = 1
    for k in range(1, len(shape)):
        extent += strides[k] * (shape[k] - 1)
    key: Any = storage.uid
    room = storage.row * storage.itemsize
    if storage.buffer == SBUF or storage.buffer == PSUM:
        row = room // item
        start, free = divmod(t.offset, row)
        low = free * item
        if storage.address is not None:
            key = storage.buffer
            low += storage.address[1]
        first = storage.partition + start
        end = first + (strides[0] // row) * (shape[0] - 1) + 1
        high = low + extent * item
    elif t.dynamic is not None:
        first, end, low, high = 0, 1, 0, storage.nbytes
    else:
        if shape:
            extent += strides[0] * (shape[0] - 1)
        first, end, low, high = 0, 1, t.offset * item, (t.offset + extent) * item
    return Operand(key, first, end, low, high, storage.buffer, name, shape, strides, storage.uid, room)


_DTYPES: dict[Any, tuple[str, int]] = {}


def instruction(fn: Callable[..., Any] | None = None, *, since: int = 2, hint: str = "") -> Callable[..., Any]:
    """Make ``fn(session, …)`` an instruction: counted, located, with the session supplied.

    ``since`` is the first generation that has it (2 is trn1, 3 trn2, 4 trn3); on older targets it raises with ``hint``.
    """
    if fn is None:
        return functools.partial(instruction, since=since, hint=hint)
    name = fn.__name__

    @functools.wraps(fn)
    def issue(*args: Any, **kwargs: Any) -> Any:
        session = getattr(_local, "session", None)
        if session is None:
            session = require_session(f"nki.isa.{name}")
        outer = session.instr
        if outer is None:
            session.instr = name
        session.clock += 1
        try:
            if session.target.generation < since and session.checks:
                raise _too_old(name, since, hint, session.target)
            if session.named is not None and "name" in kwargs:
                session.named.name = kwargs["name"]
            return fn(session, *args, **kwargs)
        except KernelError as error:
            error.locate(kernel=session.kernel, instruction=session.instr, line=session.line(), target=session.target.name)
            raise
        except TypeError as error:
            # a call that does not match the signature, told in the caller's terms
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise WrongArgument(
                    str(error).replace(f"{name}() ", ""),
                    rule="signature",
                    hint=f"{name}{public_signature(fn)}",
                    kernel=session.kernel,
                    instruction=name,
                    line=session.line(),
                    target=session.target.name,
                ) from None
            raise
        finally:
            session.instr = outer

    issue.__signature__ = public_signature(fn)  # type: ignore[attr-defined]
    issue.__nki_instruction__ = True  # type: ignore[attr-defined]
    issue.__nki_since__ = since  # type: ignore[attr-defined]
    return issue


def _too_old(name: str, since: int, hint: str, target: Target) -> WrongEngine:
    first = {3: "trn2", 4: "trn3"}[since]
    return WrongEngine(f"{target.name} has no {name}; it exists from {first} on", rule="generation", got=target.name, limit=first, hint=hint)


def public_signature(fn: Callable[..., Any]) -> inspect.Signature:
    """The signature kernels see: without the session."""
    signature = inspect.signature(fn)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


__all__ = [
    "HBM",
    "MATMUL",
    "PSUM",
    "SBUF",
    "SHARED_HBM",
    "UNWRITTEN",
    "WRITTEN",
    "NkiInstruction",
    "Operand",
    "Record",
    "Session",
    "SimParams",
    "activated",
    "current",
    "instruction",
    "operand_of",
    "require_session",
    "shadow_of",
]
