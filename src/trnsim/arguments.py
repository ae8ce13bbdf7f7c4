"""The edge of a kernel: arguments become HBM tensors, results become arrays, written inputs are written back.

A kernel that fails leaves its inputs as they were.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from trnsim.arrays import dtype_of, is_array, is_torch, map_items, to_numpy, to_torch, without_values
from trnsim.coverage import check_written
from trnsim.memory import HBM, WRITTEN, Storage
from trnsim.poison import bits_of, origins
from trnsim.refusals import forbid, refuse
from trnsim.session import Session
from trnsim.source_lines import warn
from trnsim.tensors.dtypes import as_dtype
from trnsim.tensors.grids import NkiGrid
from trnsim.tensors.objects import NKIObject, fields_of
from trnsim.tensors.tensor import NkiTensor


class PrivateOutput(RuntimeWarning):
    """A kernel returned a tensor that is not in ``shared_hbm``, which the NKI compiler refuses since 0.3."""


class LostOutput(RuntimeWarning):
    """A kernel made a tensor in ``shared_hbm``, returned nothing and wrote none of its arguments."""


class Arguments:
    """The arguments of one launch as its cores see them."""

    def __init__(self, session: Session, *, shared: bool) -> None:
        self.session = session
        self.shared = shared
        self.kernel = session.kernel
        self.storages: list[Storage] = []
        self.torch_device: Any = None
        self._known: dict[Any, Any] = {}
        self._kept: list[Any] = []

    # -- in -----------------------------------------------------------------------------------------------------------

    def wrap(self, value: Any, name: str) -> Any:
        """``value`` as the kernel sees it; arrays inside containers and ``NKIObject`` fields too.

        One array is one tensor.
        """
        if is_array(value):
            return self._tensor(value, name)
        if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
            return as_dtype(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self.wrap(v, f"{name}.{f}") for f, v in zip(value._fields, value, strict=True)))
        if isinstance(value, (list, tuple)):
            return type(value)(self.wrap(v, f"{name}[{i}]") for i, v in enumerate(value))
        if isinstance(value, dict):
            return {k: self.wrap(v, f"{name}[{k!r}]") for k, v in value.items()}
        if isinstance(value, NKIObject) and not isinstance(value, NkiTensor):
            # the kernel gets an object of its own, made from the dictionary of the caller's
            return self._once(id(value), value, lambda: copy_object(value, lambda k, v: self.wrap(v, f"{name}.{k}")))
        return value

    def _once(self, key: Any, value: Any, make: Any) -> Any:
        if key not in self._known:
            self._kept.append(value)
            self._known[key] = make()
        return self._known[key]

    def _tensor(self, value: Any, name: str) -> NkiTensor:
        dtype = dtype_of(value, name, self.session.nki)
        forbid(0 in value.shape, "argument-shape", got=tuple(value.shape), name=name)
        if is_torch(value) and self.torch_device is None:
            self.torch_device = value.device
        if not self.session.numerics:
            array = np.broadcast_to(np.zeros((), dtype), tuple(value.shape))
            key: Any = id(value)
        else:
            array = to_numpy(value, name)
            key = (array.ctypes.data, array.shape, array.strides, array.dtype)
        storage: Storage = self._once(key, (value, array), lambda: self._storage(value, array, name))
        return NkiTensor(storage)

    def _storage(self, value: Any, array: np.ndarray, name: str) -> Storage:
        if self.session.numerics and not (array.flags.c_contiguous and array.flags.writeable):
            array = np.array(array, order="C")
        storage: Storage = self.session.wrap(array, name, shared=self.shared).storage
        storage.user = value
        if self.session.checks and self.session.numerics:
            storage.windows = set()
        if self.session.numerics:
            for other in self.storages:
                # a snapshot taken after a write through an overlapping argument would come too late
                if np.may_share_memory(other.arena.data, array):
                    for s in (other, storage):
                        s.snapshot = s.arena.data.copy() if s.snapshot is None else s.snapshot
        self.storages.append(storage)
        return storage

    # -- out ----------------------------------------------------------------------------------------------------------

    def unwrap(self, value: Any) -> Any:
        """Return what the kernel returned, as the caller's kind of array."""
        if isinstance(value, NkiTensor):
            return self._array(value)
        forbid(hasattr(value, "__nki_register__"), "return-register")
        forbid(isinstance(value, NkiGrid), "return-grid", got=type(value).__name__, value=value)
        if isinstance(value, NKIObject):
            return copy_object(value, lambda _, v: self.unwrap(v))
        return map_items(value, self.unwrap)

    def _array(self, t: NkiTensor) -> Any:
        storage = t.storage
        self._check_memory(t)
        if not self.session.numerics:
            return without_values(t.shape, storage.physical, torch=self.torch_device is not None)
        refuse_poison(t, self.session, f"the result {t.name}{list(t.shape)}")
        if storage.user is not None and t._is_whole() and t.shape == storage.shape and _mutable(storage):
            return storage.user
        check_written(t, self.session)
        array = t.array if storage.user is None else t.array.copy()
        return array if self.torch_device is None else to_torch(array, self.torch_device)

    def merge(self, one: NkiTensor, two: NkiTensor, core: int) -> None:
        """Bring what ``core`` wrote of a result in its private HBM to core 0's, as if both had written shared HBM."""
        storage = one.storage
        if storage.buffer != HBM or storage.user is not None or not (self.session.checks and self.session.numerics):
            return
        refuse_poison(two, self.session, f"the result {two.name}{list(two.shape)}")
        mine, theirs = ~one.unwritten(), ~two.unwritten()
        differs = mine & theirs & (bits_of(one.array) != bits_of(two.array))
        if differs.any():
            at = tuple(int(i) for i in np.argwhere(differs)[0])
            values, fields = (one.array[at], two.array[at]), {"line": storage.line}
            raise refuse("return-private", got=str(one.buffer), one=one, at=at, values=values, core=core, fields=fields)
        one.array[~mine & theirs] = two.array[~mine & theirs]
        one.mark_window(one.offset)[~mine & theirs] = WRITTEN

    def _check_memory(self, t: NkiTensor) -> None:
        storage = t.storage
        forbid(t.on_chip, "return-on-chip", got=str(t.buffer), t=t, fields={"line": storage.line})
        if storage.buffer != HBM or storage.user is not None or not self.session.checks:
            return
        warn(
            f"{self.kernel} returns {t.name}, which is in nl.hbm ({storage.line}). The NKI compiler wants results "
            "in nl.shared_hbm.",
            PrivateOutput,
        )

    # -- afterwards ---------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Give the inputs back as they were."""
        for storage in self.storages:
            if storage.snapshot is not None:
                storage.arena.data[...] = storage.snapshot

    def check_write_back(self, returned: Any) -> None:
        """Refuse poison in an input, and a write to one that cannot change, unless the kernel also returns it."""
        for storage in self.storages:
            if storage.snapshot is not None:
                refuse_poison(NkiTensor(storage), self.session, f"the argument {storage.name}{list(storage.shape)}")
            if storage.snapshot is None or _mutable(storage) or _holds(returned, storage):
                continue
            kind = "NumPy array" if isinstance(storage.user, np.ndarray) else type(storage.user).__name__
            raise refuse("read-only", got=storage.name, kind=kind)

    def check_lost(self, returned: Any) -> None:
        """Warn when nothing the kernel computed reaches the caller, though it made a place for results."""
        output = self.session.state.get("shared output")
        if output is None or not self.session.numerics or tensors_in(returned):
            return
        if all(storage.snapshot is None for storage in self.storages):
            warn(f"{self.kernel} makes {output}, and returns nothing. End the kernel with return and it.", LostOutput)

    def write_back(self) -> None:
        """Bring what the kernel wrote into inputs that were copied on the way in."""
        for storage in self.storages:
            if storage.snapshot is None or not _mutable(storage):
                continue
            data, user = storage.arena.data, storage.user
            if isinstance(user, np.ndarray):
                if not np.shares_memory(user, data):
                    user[...] = data.reshape(user.shape)
            else:
                written = to_torch(data.reshape(tuple(user.shape)), "cpu")
                if written.data_ptr() != user.data_ptr():
                    user.detach().copy_(written)


def copy_object(value: Any, change: Any) -> Any:
    """Return a copy of an ``NKIObject`` with every field changed by ``change(name, value)``."""
    copy = object.__new__(type(value))
    for k, v in fields_of(value).items():
        object.__setattr__(copy, k, change(k, v))
    return copy


def tensors_in(value: Any) -> list[NkiTensor]:
    """Return every tensor of a result, in order."""
    if isinstance(value, NkiTensor):
        return [value]
    if isinstance(value, NKIObject):
        value = fields_of(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [t for part in parts for t in tensors_in(part)]


def _mutable(storage: Storage) -> bool:
    user = storage.user
    return bool(user.flags.writeable) if isinstance(user, np.ndarray) else is_torch(user)


def _holds(returned: Any, storage: Storage) -> bool:
    return any(t.storage is storage for t in tensors_in(returned))


def refuse_poison(t: NkiTensor, session: Session, what: str) -> None:
    """Refuse an element of ``what`` that depends on memory nothing has written."""
    ids = origins(t) if session.checks and session.numerics else None
    if ids is None or not ids.any():
        return
    at = tuple(int(i) for i in np.argwhere(ids)[0])
    origin = session.origins[int(ids[at]) - 1]
    raise origin.error(f"{what} at {at}")


def check_arguments(function: Callable[..., Any], kernel: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Refuse arguments that do not fit the kernel's signature."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        got, limit, fields = (len(args), sorted(kwargs)), list(signature.parameters), {"kernel": kernel}
        raise refuse(
            "arguments", got=got, limit=limit, kernel=kernel, signature=signature, error=error, fields=fields
        ) from None


def same_results(first: Any, core: int, other: Any) -> None:
    """Refuse cores that do not return the same tensors."""

    def address(t: NkiTensor) -> tuple[Any, ...]:
        return (
            id(t.storage) if not t.on_chip and t.buffer.value == "shared_hbm" else None,
            t.offset,
            t.shape,
            t.strides,
        )

    one, two = tensors_in(first), tensors_in(other)
    if [address(t) for t in one] == [address(t) for t in two]:
        return
    shown = [", ".join(f"{t.name}{list(t.shape)}" for t in tensors) or "nothing" for tensors in (one, two)]
    raise refuse("core-results", got=shown, shown=shown, core=core)
