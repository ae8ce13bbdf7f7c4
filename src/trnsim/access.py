"""How instructions reach memory: operands are checked, read, written and marked; run-time addresses are resolved."""

from typing import Any

import numpy as np

from trnsim.calls import no_tensor
from trnsim.errors import KernelError, ReadUninitialized, lacking
from trnsim.memory import HBM, PSUM, SBUF, SHARED_HBM, UNWRITTEN, WRITTEN
from trnsim.poison import Poisoned, new_origin, origins
from trnsim.refusals import forbid, refuse
from trnsim.source_lines import kernel_line
from trnsim.state import State
from trnsim.tensors.dtypes import ExtraDtype, cast, float32
from trnsim.tensors.layout import runs_of
from trnsim.tensors.tensor import NkiTensor


class Nothing(BaseException):
    """An operand has no elements; an instruction whose ``dst`` has none does nothing."""


# the ISA keeps a stride as a signed 16-bit number of elements
STRIDE_MAX = 2**15 - 1
_REACH = {0: 128, 32: 32, 64: 64, 96: 32}
_NOTHING = np.zeros((1, 1), np.float32)


class Access(State):
    """The part of a session that reads and writes operands, and meets unwritten elements (`trnsim.poison`)."""

    def operand(self, t: Any, role: str, where: tuple[str, ...] = (SBUF, PSUM), *, compute: bool = True) -> NkiTensor:
        """Check that ``t`` is a tensor this instruction can reach; ``compute`` adds the engines' partition rules."""
        if type(t) is not NkiTensor:
            raise no_tensor(t, role, "tensor", f"pass a tile as {role}=")
        if t.dynamic is not None and t.dynamic.kind == "late":
            raise Nothing if not t.size and self.instr is not None else t.dynamic.index
        if not self.checks:
            return t
        if t.buffer._value_ not in where:
            far = t.buffer.value in (HBM, SHARED_HBM) or not {SBUF, PSUM} & set(where)
            hint = f"copy it with {'dma_copy' if far else 'tensor_copy'}"
            names = _join_names(where)
            raise refuse("buffer:operand", got=str(t.buffer), limit=where, hint=hint, role=role, t=t, memories=names)
        scope = t.storage.scope
        forbid(scope is not None and scope.ended, "loop-scope", got=t.name, role=role, scope=scope, t=t)
        if compute and t.on_chip:
            self.partitions_ok(t, role)
        return t

    def partitions_ok(self, t: NkiTensor, role: str) -> None:
        """Compute engines start at partition 0, 32, 64 or 96 and reach 128, 32, 64 and 32 partitions from there."""
        storage = t.storage
        forbid(t.dtype.itemsize > 4, "int64-operand", got=str(t.dtype), role=role, t=t)
        row = storage.row * storage.itemsize // t.dtype.itemsize
        start = storage.partition + t.offset // row
        count = t.shape[0]
        if count > 1 and t.strides[0] != row:
            raise refuse(
                "partition-step:partitions_ok", got=t.strides[0], limit=row, role=role, t=t, step=t.strides[0] / row
            )
        if len(t.shape) > 5:
            rank = len(runs_of(t.shape[1:], t.strides[1:]))
            forbid(rank > 4, "access-pattern", got=rank, role=role, t=t)
        if row > STRIDE_MAX:
            step = max((stride for _, stride in runs_of(t.shape[1:], t.strides[1:])), default=0)
            forbid(step > STRIDE_MAX, "access-stride", got=step, limit=STRIDE_MAX, role=role, t=t)
        if start == 0:
            if count <= 128:
                return
        elif start % 32 == 0 and count <= (64 if start == 64 else 32):
            return
        reach = _REACH.get(start)
        but = "" if reach is None else f", but from {start} an engine reaches {reach}"
        got, end = (start, count), start + count
        raise refuse("start-partition:partitions_ok", got=got, limit=_REACH, role=role, t=t, end=end, but=but)

    def read(
        self, t: Any, role: str, where: tuple[str, ...] = (SBUF, PSUM), *, compute: bool = True, exact: bool = False
    ) -> np.ndarray:
        """Return the elements of operand ``t`` (its own dtype). In timing-only mode an empty array stands in.

        Unwritten elements are poison: they propagate, unless an ``exact`` value is needed (an index, an address).
        """
        t = self.operand(t, role, where, compute=compute)
        storage = t.storage
        self.use(t, False)
        if storage.windows is not None:
            if t.dynamic is not None or t.dtype is not storage.dtype:
                storage.windows = None
            else:
                storage.windows.add((t.offset, t.shape, t.strides))
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
                    return self.poison(t, role, t.array, t.unwritten(), exact=exact)
            elif marks == UNWRITTEN:
                return self.poison(t, role, t.array, None, exact=exact)
        return t.array

    def write(
        self,
        t: Any,
        values: Any,
        role: str = "dst",
        where: tuple[str, ...] = (SBUF, PSUM),
        *,
        compute: bool = True,
        code: int = WRITTEN,
    ) -> None:
        """Store ``values`` (broadcast to ``t``) with the conversion a write makes, and mark the elements written."""
        t = self.operand(t, role, where, compute=compute)
        storage = t.storage
        self.use(t, True)
        if not self.numerics:
            if t.dynamic is not None:
                self.resolve(t, role)
            return
        if storage.user is not None and storage.snapshot is None:
            storage.snapshot = storage.arena.data.copy()
        if t.dynamic is not None:
            self._write_dynamic(t, values, role, code)
            return
        if self.garbage is not None:
            self.garbage.keep(t)
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
            self.mark(t._shadow(), code)
        arena = storage.arena
        if arena.marks is code or (type(arena.marks) is int and arena.marks == code):
            return
        # every element of a tensor that owns its arena
        if storage.address is None and t.size * int(t.dtype.itemsize) == arena.nbytes and 0 not in t.strides:
            arena.marks = code
            return
        t.mark_window(t.offset)[...] = code
        marks = arena.marks_for(arena.unit)
        if marks[-1] == code and marks[0] == code and storage.address is None and (marks == code).all():
            arena.marks = code

    def touch(self, t: NkiTensor) -> None:
        """Count ``t`` as used now without reading its values."""
        storage = t.storage
        if storage.first < 0:
            storage.first = self.clock
        storage.last = self.clock

    def use(self, t: NkiTensor, write: bool, rows: np.ndarray | None = None) -> None:
        """Count ``t``, or ``rows`` of it, as read or written now; the other core may have something to say."""
        self.touch(t)
        if t.storage.shared and self.machine is not None:
            self.machine.note(self, t, write, rows)

    def resolve(self, t: NkiTensor, role: str) -> int:
        """Return the element offset of a view with a scalar run-time index."""
        dynamic = t.dynamic
        assert dynamic is not None
        value = self.scalar(dynamic.index, f"{role}'s index")
        if dynamic.kind == "scalar" and self.outside(t, value):
            raise index_error(t, role, value, dynamic.bound)
        return t.offset + value * dynamic.stride

    def scalar(self, index: Any, role: str) -> int:
        """Return a run-time scalar: a register, or a 1x1 tensor in SBUF."""
        if hasattr(index, "__nki_register__"):
            return int(index.value)
        if not self.numerics:
            self.operand(index, role, (SBUF, PSUM), compute=False)
            return 0
        values = self.read(index, role, (SBUF, PSUM, HBM, SHARED_HBM), compute=False, exact=True)
        forbid(values.size != 1, "indirect:scalar", got=index.shape, limit=(1, 1), role=role)
        return int(values.reshape(-1)[0])

    def outside(self, t: NkiTensor, value: int) -> bool:
        """Return whether a run-time index ``value`` moves the view ``t`` out of its tensor or its partitions."""
        dynamic = t.dynamic
        assert dynamic is not None
        reach = [s * (n - 1) for s, n in zip(t.strides, t.shape, strict=True)]
        row, step = t.row, value * dynamic.stride
        if not 0 <= value < dynamic.bound or t.offset + step + sum(reach) >= t.storage.rows * row:
            return True
        return t.on_chip and dynamic.stride % row != 0 and t.offset % row + step + sum(reach[1:]) >= row

    def _gather_columns(self, t: NkiTensor, role: str) -> tuple[NkiTensor, np.ndarray]:
        """Return the base window and column numbers of a trn3 tensor-indirect view."""
        dynamic = t.dynamic
        assert dynamic is not None
        if self.target.generation < 4:
            hint = "gather with dma_copy and vector_offset, or with nc_n_gather"
            raise lacking(f"{role} uses .indirect()", self.target, 4, hint)
        index = self.read(dynamic.index, f"{role}'s index", (SBUF,), compute=False, exact=True)
        group = 32 if self.instr in ("nc_matmul", "nc_matmul_mx") else 16
        flat = index.reshape(index.shape[0], -1)
        base = t._view((t.shape[0], dynamic.bound), (t.strides[0], dynamic.stride), t.offset)
        base.dynamic = None
        held = min(group, t.shape[0]) * flat.shape[1]
        if dynamic.count > held:
            raise refuse("indirect:gather_columns", got=dynamic.count, limit=held, role=role, group=group, index=index)
        columns = np.empty((t.shape[0], dynamic.count), np.int64)
        i = np.arange(dynamic.count)
        for start in range(0, t.shape[0], group):
            rows = flat[start : start + group]
            g = rows.shape[0]
            columns[start : start + group] = rows[i % g, i // g].astype(np.int64)
        if columns.size and (columns.min() < 0 or columns.max() >= dynamic.bound):
            bad = int(columns.max()) if columns.max() >= dynamic.bound else int(columns.min())
            raise refuse("bounds:gather_columns", got=bad, limit=dynamic.bound, role=role, t=t)
        return base, columns

    def _read_dynamic(self, t: NkiTensor, role: str) -> np.ndarray:
        dynamic = t.dynamic
        assert dynamic is not None
        if dynamic.kind == "tensor":
            base, columns = self._gather_columns(t, role)
            values = np.take_along_axis(base.array, columns, axis=1)
            if self.checks:
                missing = np.take_along_axis(base.unwritten(), columns, axis=1)
                if missing.any():
                    return self.poison(base, role, values, missing)
            return values
        static = self._apply_index(t, role)
        if self.checks:
            missing = static.unwritten()
            if missing.any():
                return self.poison(static, role, static.array, missing)
        return static.array

    def _apply_index(self, t: NkiTensor, role: str) -> NkiTensor:
        """Return the view a scalar run-time index leads to."""
        forbid(t.is_addressed("vector"), "indirect:settled", role=role)
        return t.at(self.resolve(t, role))

    def _write_dynamic(self, t: NkiTensor, values: np.ndarray, role: str, code: int) -> None:
        dynamic = t.dynamic
        assert dynamic is not None
        values = cast(np.asarray(values), t.dtype if t.storage.physical.itemsize == t.storage.itemsize else float32)
        if dynamic.kind == "tensor":
            base, columns = self._gather_columns(t, role)
            if self.garbage is not None:
                self.garbage.keep(base)
            np.put_along_axis(base.array, columns, np.broadcast_to(values.reshape(-1, t.shape[1]), t.shape), axis=1)
            if self.checks or t.storage.buffer == PSUM:
                marks = base.mark_window(base.offset).reshape(*base.shape, -1)
                for unit in range(marks.shape[-1]):
                    np.put_along_axis(marks[..., unit], columns, np.uint8(code), axis=1)
            return
        static = self._apply_index(t, role)
        t.storage.runtime = True
        if self.garbage is not None:
            self.garbage.keep(static)
        static.array[...] = _fit(values, static.shape, role, t)
        if self.checks or t.storage.buffer == PSUM:
            static.mark_window(static.offset)[...] = code

    def poison(
        self, t: NkiTensor, role: str, values: np.ndarray, missing: np.ndarray | None, *, exact: bool = False
    ) -> np.ndarray:
        """``values`` with garbage where ``missing`` (everywhere when ``None``); ``t`` is the static view they are of.

        The first such read of an instruction raises `Poisoned`, upon which the instruction is run with garbage.
        """
        ids = origins(t)
        earliest = 0 if ids is None or not ids.any() else int(ids[ids > 0].min())
        if exact or self.params.strict or self.instr is None:
            if earliest:
                raise self.origins[earliest - 1].error(f"{role} of {self.instr} ({kernel_line()})")
            raise ReadUninitialized(rule="uninitialized", limit=None, **self._unwritten(t, role, missing))
        if self.garbage is None:
            raise Poisoned
        if not earliest:
            key = (t.storage.uid, role, kernel_line())
            earliest = new_origin(self, key, lambda: self._unwritten(t, role, missing))
        return self.garbage.fill_missing(values, missing, earliest)

    def take_elements(self, t: NkiTensor, role: str, where: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the elements of ``t`` as they are, and what the poison among them depends on; ``None`` without any."""
        try:
            return self.read(t, role, where, compute=False), None
        except Poisoned:
            missing, ids = t.unwritten(), origins(t)
            fresh = new_origin(self, (t.storage.uid, role, kernel_line()), lambda: self._unwritten(t, role, missing))
            known = np.zeros(t.shape, np.int64) if ids is None else ids
            return t.array, np.where(missing & (known == 0), fresh, known)

    def lanes(self, values: np.ndarray, origin: np.ndarray) -> np.ndarray:
        """Return the accumulators of an engine, with garbage where they depend on unwritten memory."""
        if not origin.any():
            return values
        if self.garbage is None:
            raise Poisoned
        return self.garbage.fill_missing(values, origin > 0, int(origin[origin > 0].min()))

    def _unwritten(self, t: NkiTensor, role: str, missing: np.ndarray | None) -> dict[str, Any]:
        at = tuple(0 for _ in t.shape) if missing is None else tuple(int(i) for i in np.argwhere(missing)[0])
        count = t.size if missing is None else int(missing.sum())
        storage = t.storage
        origin = f", allocated at {storage.line}" if storage.line else ""
        return {
            "message": f"{role} reads {t.name}{list(storage.shape)} ({storage.buffer}{origin}), of which {count} of"
            f" {t.size} elements were never written; the first is {at}",
            "got": at,
            "tensor": t.name,
            "hint": f"if the other core writes it, call nisa.core_barrier(data={t.name}, cores=(0, 1)) on both cores "
            "between the two"
            if storage.shared
            else "write it first (dma_copy, memset, or a compute instruction)",
        }


def index_error(t: NkiTensor, role: str, value: int, bound: int) -> KernelError:
    """Return the error for a run-time index that leads out of its tensor."""
    shape = list(t.storage.shape)
    return refuse("bounds:left", got=value, limit=bound, role=role, t=t, shape=shape)


def _join_names(where: tuple[str, ...]) -> str:
    """Memories in words; the two kinds of HBM together are HBM."""
    both = {HBM, SHARED_HBM} <= set(where)
    names = ["HBM" if both and w in (HBM, SHARED_HBM) else w if w == SHARED_HBM else w.upper() for w in where]
    return " or ".join(dict.fromkeys(names))


def _fit(values: np.ndarray, shape: tuple[int, ...], role: str, t: NkiTensor) -> np.ndarray:
    """Return ``values`` in ``shape``: equal element counts reshape (rows stay rows), the rest broadcasts."""
    if values.size == t.size:
        return values.reshape(shape)
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise refuse("shape:fit", got=shape, limit=values.shape, role=role, t=t) from None
