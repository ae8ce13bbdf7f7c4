"""The views of a tensor: other shapes, orders and parts of the same storage. They cost nothing and copy nothing."""

import math
from typing import Any, Self, TypeVar

from trnsim.errors import (
    KernelError,
)
from trnsim.refusals import forbid, refuse
from trnsim.tensors.dtypes import INTEGERS, DType, as_dtype, bool_, int64
from trnsim.tensors.layout import (
    Dynamic,
    Layout,
    as_index,
    infer,
    is_register,
    merge,
    reshape_strides,
    row_major,
    without,
)
from trnsim.tensors.objects import MemoryRegion


class Views(Layout):
    """View methods of ``NkiTensor``."""

    __slots__ = ()

    # -- what a view may not do -----------------------------------------------------------------------------------

    def _dim(self, dim: Any, what: str) -> int:
        n = self.ndim
        at = as_index(dim)
        forbid(not -n <= at < n, "view:dim", got=dim, limit=n, what=what)
        return at % n

    def _keep_partition(self, dim: int, what: str, hint: str) -> None:
        if dim == 0 and (self.on_chip or self.is_addressed("vector")):
            raise refuse("partition-dim:keep_partition", got=0, hint=hint, what=what, t=self)

    def _in_range(self, low: int, high: int, dim: int, n: int) -> None:
        if not 0 <= low < high <= n:
            hint = "make the last tile smaller: its end is min(stop, size)"
            hint = hint if low < high else "a view has at least one element"
            raise refuse("bounds:in_range", got=(low, high), limit=n, hint=hint, dim=dim, t=self)

    def _has_one(self, dim: int, what: str, hint: str) -> None:
        forbid(self.shape[dim] != 1, "view:has_one", got=self.shape[dim], hint=hint, what=what, dim=dim, t=self)

    def _keep_two(self, ndim: int, what: str) -> None:
        least = 2 if self.on_chip else 1
        if ndim < least:
            hint = "on-chip tensors keep a partition and a free dimension"
            hint = hint if self.on_chip else "a tensor has a dimension"
            raise refuse("two-dimensional:keep_two", got=ndim, limit=least, hint=hint, what=what, t=self)

    def _not_dynamic(self, dim: int, what: str) -> None:
        dynamic = self.dynamic
        if dynamic is not None and (dynamic.dim == dim or dynamic.kind == "tensor"):
            raise refuse("indirect:not_dynamic", got=dim, what=what, t=self)

    def _second(self, what: str, first: Dynamic) -> KernelError:
        return refuse("indirect:second", got=first.kind, what=what, t=self)

    def _once(self, what: str) -> None:
        if self.dynamic is not None:
            if self.dynamic.kind == "late":
                raise self.dynamic.index
            raise self._second(what, self.dynamic)

    def _whole_view(self, what: str) -> None:
        if self.is_addressed("tensor"):
            self._not_dynamic(1, what)

    def run_time_scalar(self, index: Any, what: str) -> Any:
        """Check a run-time offset: a register or scalar, or one integer in SBUF."""
        if is_register(index):
            if self.on_chip and getattr(index, "dtype", None) == int64:
                raise refuse("scalar-int64:run_time_scalar", got=str(self.buffer), what=what, t=self)
            return index
        hint = (
            "pass a register (register_load), a scalar (scalar_load) or an integer tile; a constant goes into offset="
        )
        index_tile(index, what, "register, scalar or [1, 1] SBUF tile", hint=hint)
        forbid(index.size != 1, "indirect:run_time_scalar", got=index.shape, limit=(1, 1), what=what, index=index)
        return index

    # -- parts ----------------------------------------------------------------------------------------------------

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> Self:
        """Return elements ``start:end:step`` of dimension ``dim``."""
        dim = self._dim(dim, "slice")
        start, end, step = as_index(start), as_index(end), as_index(step)
        forbid(step < 1, "view:slice", got=step, t=self)
        empty = 0 <= start == end <= self.shape[dim]
        if not empty:
            self._in_range(start, end, dim, self.shape[dim])
        if start or end != self.shape[dim] or step != 1:
            self._not_dynamic(dim, "slice")
        shape = list(self.shape)
        strides = list(self.strides)
        shape[dim] = (end - start + step - 1) // step
        offset = self.offset + start * strides[dim]
        strides[dim] *= step
        view = self._view(shape, strides, offset)
        return view.unusable() if empty else view

    def select(self, dim: int, index: Any) -> Self:
        """One element of dimension ``dim``, which goes away; ``index`` is an int, or a tensor or register for run time.

        On chip the partition dimension stays with size 1, and so does the last free dimension.
        """
        dim = self._dim(dim, "select")
        shape, strides = list(self.shape), list(self.strides)
        keep = (self.on_chip and (dim == 0 or self.ndim <= 2)) or self.ndim == 1
        if isinstance(index, Layout) or is_register(index):
            self._once("select")
            self._keep_partition(dim, "a dynamic select", "copy across partitions with dma_copy")
            dynamic = Dynamic("scalar", self.run_time_scalar(index, "select"), strides[dim], -1, shape[dim])
            shape[dim] = 1
            if not keep:
                del shape[dim], strides[dim]
            return self._view(shape, strides, self.offset, dynamic=dynamic)
        index = as_index(index)
        if not 0 <= index < shape[dim]:
            raise refuse("bounds:select", got=index, limit=shape[dim], dim=dim, t=self, last=shape[dim] - 1)
        self._not_dynamic(dim, "select")
        offset = self.offset + index * strides[dim]
        if keep:
            shape[dim] = 1
            return self._view(shape, strides, offset)
        return self._view(without(shape, dim), without(strides, dim), offset, dynamic=_shift(self.dynamic, dim, -1))

    # -- other orders and shapes ----------------------------------------------------------------------------------

    def permute(self, dims: tuple[int, ...]) -> Self:
        """Return the same elements with dimensions in the order ``dims``."""
        dims = tuple(as_index(d) for d in dims)
        forbid(sorted(dims) != list(range(self.ndim)), "view:permute", got=dims, limit=tuple(range(self.ndim)), t=self)
        self._whole_view("permute")
        if dims[0] != 0:
            self._keep_partition(0, "permute", "transpose across partitions with nc_transpose or dma_transpose")
        dynamic = self.dynamic
        if dynamic is not None and dynamic.dim >= 0:
            dynamic = dynamic.move_to(dims.index(dynamic.dim))
        return self._view([self.shape[d] for d in dims], [self.strides[d] for d in dims], self.offset, dynamic=dynamic)

    def broadcast(self, dim: int, size: int) -> Self:
        """Repeat a dimension of size 1 ``size`` times."""
        dim = self._dim(dim, "broadcast")
        self._keep_partition(dim, "broadcast", "broadcast across partitions with a matmul or dma_copy")
        self._not_dynamic(dim, "broadcast")
        self._has_one(dim, "broadcast", "only a dimension of size 1 can be repeated: insert one with expand_dim")
        forbid(as_index(size) < 1, "view:broadcast", got=size)
        shape, strides = list(self.shape), list(self.strides)
        shape[dim], strides[dim] = as_index(size), 0
        return self._view(shape, strides, self.offset)

    def expand_dim(self, dim: int) -> Self:
        """Return a new dimension of size 1 at ``dim``."""
        dim = as_index(dim)
        forbid(not 0 <= dim <= self.ndim, "view:expand_dim", got=dim, limit=self.ndim)
        self._keep_partition(dim, "expand_dim", "insert it after the partition dimension")
        self._whole_view("expand_dim")
        shape, strides = list(self.shape), list(self.strides)
        stride = shape[dim] * strides[dim] if dim < self.ndim else 1
        shape.insert(dim, 1)
        strides.insert(dim, stride)
        return self._view(shape, strides, self.offset, dynamic=_shift(self.dynamic, dim, 1))

    def squeeze_dim(self, dim: int) -> Self:
        """Without dimension ``dim``, whose size is 1."""
        dim = self._dim(dim, "squeeze_dim")
        self._keep_partition(dim, "squeeze_dim", "the partition dimension stays")
        self._not_dynamic(dim, "squeeze_dim")
        self._has_one(dim, "squeeze_dim", "pick an element with select")
        self._keep_two(self.ndim - 1, "squeeze_dim")
        return self._view(
            without(self.shape, dim), without(self.strides, dim), self.offset, dynamic=_shift(self.dynamic, dim, -1)
        )

    def reshape_dim(self, dim: int, shape: tuple[int, ...]) -> Self:
        """Split dimension ``dim`` into ``shape`` (one entry may be -1)."""
        dim = self._dim(dim, "reshape_dim")
        parts = infer(tuple(as_index(n) for n in shape), self.shape[dim], f"reshape_dim of {self.name}")
        if len(parts) == 1:
            return self
        self._keep_partition(dim, "reshape_dim", "only free dimensions split")
        self._not_dynamic(dim, "reshape_dim")
        self._keep_two(self.ndim - 1 + len(parts), "reshape_dim")
        inner = [self.strides[dim] * n for n in row_major(parts)]
        return self._view(
            (*self.shape[:dim], *parts, *self.shape[dim + 1 :]),
            (*self.strides[:dim], *inner, *self.strides[dim + 1 :]),
            self.offset,
            dynamic=_shift(self.dynamic, dim, len(parts) - 1),
        )

    def flatten_dims(self, start_dim: int, end_dim: int) -> Self:
        """Merge dimensions ``start_dim`` to ``end_dim``, which must be contiguous with each other."""
        start_dim, end_dim = self._dim(start_dim, "flatten_dims"), self._dim(end_dim, "flatten_dims")
        forbid(end_dim < start_dim, "view:flatten_dims", got=(start_dim, end_dim), start_dim=start_dim, end_dim=end_dim)
        if end_dim > start_dim:
            self._keep_partition(start_dim, "flatten_dims", "start after the partition dimension")
            self._whole_view("flatten_dims")
        shape = self.shape[start_dim : end_dim + 1]
        merged = merge(shape, self.strides[start_dim : end_dim + 1])
        if merged is None:
            raise refuse("contiguous:flatten_dims", got=self.strides, start_dim=start_dim, end_dim=end_dim, t=self)
        return self._view(
            (*self.shape[:start_dim], math.prod(shape), *self.shape[end_dim + 1 :]),
            (*self.strides[:start_dim], merged, *self.strides[end_dim + 1 :]),
            self.offset,
        )

    def _move_partitions(self, shape: tuple[int, ...]) -> Self | None:
        from trnsim import isa

        moved: Self | None = isa.dma.move_partitions(self, shape)
        return moved

    def reshape(self, *shape: Any) -> Self:
        """Return the same elements, row-major, in another shape; the layout must allow it without a copy.

        Under NKI 0.3 a change of partitions is a copy by DMA.
        """
        given = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        wanted = infer(tuple(as_index(n) for n in given), self.size, f"reshape of {self.name} {self.shape}")
        self._keep_two(len(wanted), "reshape")
        if wanted != self.shape:
            self._whole_view("reshape")
        if self.on_chip or self.is_addressed("vector"):
            if wanted[0] != self.shape[0]:
                moved = self._move_partitions(wanted)
                if moved is not None:
                    return moved
                raise refuse("partition-dim:reshape", got=wanted[0], limit=self.shape[0], t=self)
            free = reshape_strides(self.shape[1:], self.strides[1:], wanted[1:])
            strides = None if free is None else (self.strides[0], *free)
        else:
            strides = reshape_strides(self.shape, self.strides, wanted)
        if strides is None:
            raise refuse("contiguous:reshape", got=self.shape, limit=wanted, t=self)
        return self._view(wanted, strides, self.offset)

    def rearrange(
        self, src_pattern: tuple[Any, ...], dst_pattern: tuple[Any, ...], fixed_sizes: dict[str, int] | None = None
    ) -> Self:
        """Split, reorder and merge dimensions by name, as einops does."""
        return rearrange(self, src_pattern, dst_pattern, fixed_sizes or {})

    def view(self, dtype: Any) -> Self:
        """Return the same bits read as ``dtype``; the last dimension is scaled by the ratio of sizes."""
        new = as_dtype(dtype)
        self._once("view")
        old_size, new_size = self.itemsize, int(new.itemsize)
        if old_size == new_size:
            return self._view(self.shape, self.strides, self.offset, new)
        forbid(self.strides[-1] != 1 and self.shape[-1] != 1, "contiguous:view", got=self.strides[-1], t=self)
        scaled = [self.offset, *self.strides[:-1], self.shape[-1]]
        if any(n * old_size % new_size for n in scaled):
            raise refuse("view:view", got=self.shape[-1] * old_size, limit=new_size, t=self, new=new)
        offset, *strides, last = (n * old_size // new_size for n in scaled)
        return self._view((*self.shape[:-1], last), (*strides, 1), offset, new)

    reinterpret_cast = bitcast = view


def _shift(dynamic: Dynamic | None, dim: int, by: int) -> Dynamic | None:
    if dynamic is None or dynamic.dim < dim:
        return dynamic
    return dynamic.move_to(dynamic.dim + by)


def index_tile(index: Any, what: str, wanted: str, *, dtypes: tuple[DType, ...] = (), hint: str) -> None:
    """Check a tile of run-time offsets: integers, or those of ``dtypes``, in SBUF."""
    if not isinstance(index, Layout):
        raise refuse(
            "indirect:index_tile-type", got=type(index).__name__, limit=wanted, hint=hint, what=what, value=index
        )
    if index.buffer is not MemoryRegion.sbuf:
        raise refuse("indirect:index_tile-buffer", got=str(index.buffer), hint=hint, what=what, index=index)
    if index.dtype not in (dtypes or INTEGERS - {bool_}):
        limit = tuple(map(str, dtypes)) or "an integer of up to 32 bits"
        raise refuse("indirect:index_tile-dtype", got=str(index.dtype), limit=limit, hint=hint, what=what, index=index)


T = TypeVar("T", bound=Views)


def rearrange(t: T, src_pattern: Any, dst_pattern: Any, fixed_sizes: dict[str, int]) -> T:
    """``t`` with the dimensions named by ``src_pattern`` arranged as ``dst_pattern`` says.

    A pattern is a tuple with one entry per dimension: a name, or a tuple of names whose product is the dimension.
    ``fixed_sizes`` gives the sizes the shape alone does not determine.
    """
    fixed_sizes = {name: int(n) for name, n in fixed_sizes.items() if n != -1}
    source, target = _groups(src_pattern, "src_pattern"), _groups(dst_pattern, "dst_pattern")
    names = [name for group in source for name in group]
    wanted = [name for group in target for name in group]
    _same_names(names, wanted, fixed_sizes)
    forbid(len(source) != t.ndim, "rearrange:rearrange", got=len(source), limit=t.ndim, src_pattern=src_pattern, t=t)
    split = t
    for dim in range(t.ndim - 1, -1, -1):
        group = source[dim]
        if len(group) > 1:
            split = split.reshape_dim(dim, _sizes(t, dim, group, fixed_sizes))
        elif fixed_sizes.get(group[0], t.shape[dim]) != t.shape[dim]:
            raise _disagree(t, dim, group, (fixed_sizes[group[0]],))
    merged = split.permute(tuple(names.index(name) for name in wanted))
    for dim, group in enumerate(target):
        if len(group) > 1:
            merged = merged.flatten_dims(dim, dim + len(group) - 1)
    return merged


def _groups(pattern: Any, role: str) -> list[tuple[str, ...]]:
    groups: list[tuple[str, ...]] = []
    for entry in pattern if isinstance(pattern, (tuple, list)) else (pattern,):
        names = (entry,) if isinstance(entry, str) and pattern is not entry else entry
        if not isinstance(names, (tuple, list)) or not names or not all(isinstance(name, str) for name in names):
            raise refuse("rearrange:groups", got=repr(entry), role=role, entry=entry)
        groups.append(tuple(names))
    return groups


def _same_names(names: list[str], wanted: list[str], fixed_sizes: dict[str, int]) -> None:
    for given in (names, wanted):
        twice = sorted({name for name in given if given.count(name) > 1})
        if twice:
            raise refuse("rearrange:twice", got=twice, names=", ".join(twice))
    missing = sorted(set(names) ^ set(wanted))
    if missing:
        raise refuse("rearrange:one-side", got=missing, lone=", ".join(missing), names=names, wanted=wanted)
    unknown = sorted(set(fixed_sizes) - set(names))
    if unknown:
        raise refuse("rearrange:unknown", got=unknown, limit=names, names=", ".join(unknown))


def _sizes(t: Views, dim: int, group: tuple[str, ...], fixed_sizes: dict[str, int]) -> tuple[int, ...]:
    sizes = tuple(fixed_sizes.get(name, -1) for name in group)
    if sizes.count(-1) > 1:
        open_names = [name for name in group if name not in fixed_sizes]
        raise refuse("rearrange:sizes", got=open_names, dim=dim, t=t, size=t.shape[dim], names=", ".join(open_names))
    known = math.prod(n for n in sizes if n != -1)
    if known < 1 or t.shape[dim] % known or (-1 not in sizes and known != t.shape[dim]):
        raise _disagree(t, dim, group, sizes)
    return sizes


def _disagree(t: Views, dim: int, group: tuple[str, ...], sizes: tuple[int, ...]) -> KernelError:
    told = ", ".join(f"{name}={n}" for name, n in zip(group, sizes, strict=True) if n != -1)
    return refuse("rearrange:disagree", got=sizes, limit=t.shape[dim], dim=dim, t=t, told=told)
