"""Objects a kernel may hold besides tensors: ``NKIObject``, memory regions, dynamic slices, tile sizes."""

from __future__ import annotations

import warnings
from enum import Enum
from typing import Any


def _fields(cls: type) -> dict[str, Any]:
    """Field names in order of declaration, with defaults: annotated ones, and plain class attributes beside them."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base in (object, NKIObject):
            continue
        space = vars(base)
        for name in space.get("__annotations__", {}):
            found[name] = space.get(name)
        for name, value in space.items():
            if name.startswith("_") or callable(value) or isinstance(value, (property, classmethod, staticmethod)):
                continue
            found[name] = value
    return found


class NKIObject:
    """Base of every class a kernel may use.

    Fields are the class's attributes, annotated or not; the initialiser takes them in order or by name, leaves the rest
    at their default (``None`` without one) and calls ``__post_init__``. ``@dataclass``, frozen or not, changes nothing.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # a dataclass without defaults would insist on arguments the NKI compiler lets be None
        own = vars(cls)
        for name in own.get("__annotations__", {}):
            if name not in own and not name.startswith("_"):
                setattr(cls, name, None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fields = _fields(type(self))
        if len(args) > len(fields):
            raise TypeError(f"{type(self).__name__} has {len(fields)} fields and got {len(args)} values")
        values = dict(fields)
        values.update(zip(fields, args, strict=False))
        for name, value in kwargs.items():
            if name not in fields:
                raise TypeError(f"{type(self).__name__} has no field {name!r}; its fields are {', '.join(fields)}")
            values[name] = value
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Called after the fields are set."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted((k, repr(v)) for k, v in self.__dict__.items()))))

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}={v!r}" for k, v in self.__dict__.items())
        return f"{type(self).__name__}({inner})"


class MemoryRegion(Enum):
    """The memories a tensor can live in."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    def __str__(self) -> str:
        return self.value


sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
private_hbm = MemoryRegion.private_hbm
hbm = private_hbm
shared_hbm = MemoryRegion.shared_hbm

_REGIONS = {r.value: r for r in MemoryRegion} | {"hbm": private_hbm, "sb": sbuf}


def as_region(buffer: Any) -> MemoryRegion:
    """The memory region meant by ``buffer``."""
    if isinstance(buffer, MemoryRegion):
        return buffer
    if buffer is None:
        return sbuf
    found = _REGIONS.get(str(getattr(buffer, "value", buffer)))
    if found is None:
        from trnsim.errors import WrongBuffer

        raise WrongBuffer(
            f"{buffer!r} is no memory", rule="buffer", got=str(buffer), limit=sorted(_REGIONS), hint="use nl.sbuf, nl.psum, nl.hbm or nl.shared_hbm"
        )
    return found


def is_hbm(buffer: Any) -> bool:
    """True for either HBM region."""
    return as_region(buffer) in (private_hbm, shared_hbm)


def is_on_chip(buffer: Any) -> bool:
    """True for SBUF and PSUM."""
    return as_region(buffer) in (sbuf, psum)


def is_psum(buffer: Any) -> bool:
    """True for PSUM."""
    return as_region(buffer) is psum


def is_sbuf(buffer: Any) -> bool:
    """True for SBUF."""
    return as_region(buffer) is sbuf


class DynamicSlice(NKIObject):
    """``nl.ds(start, size)``: ``size`` elements from ``start``, which may be a register."""

    def __init__(self, start: Any, size: int) -> None:
        self.start = start
        self.size = size


def ds(start: Any, size: int) -> DynamicSlice:
    """A slice of ``size`` elements that begins at ``start`` (an int or a register)."""
    return DynamicSlice(start, size)


class TileSize(NKIObject):
    """Sizes of the hardware, asked of the target a kernel runs on."""

    def __init__(self) -> None:
        pass

    @staticmethod
    def _target() -> Any:
        from trnsim.session import current
        from trnsim.targets import target_named

        session = current()
        return session.target if session is not None else target_named()

    @property
    def pmax(self) -> int:
        """Most partitions of a tile."""
        return self._target().partitions

    @property
    def psum_fmax(self) -> int:
        """Deprecated name of ``psum_bank_fmax``."""
        warnings.warn("nl.tile_size.psum_fmax is now psum_bank_fmax", DeprecationWarning, stacklevel=2)
        return self.psum_bank_fmax

    @property
    def psum_bank_fmax(self) -> int:
        """fp32 elements of a PSUM bank, per partition."""
        return self._target().psum_bank_bytes // 4

    @property
    def psum_bank_fmax_bytes(self) -> int:
        """Bytes of a PSUM bank, per partition."""
        return self._target().psum_bank_bytes

    @property
    def psum_num_banks(self) -> int:
        """PSUM banks of a partition."""
        return self._target().psum_banks

    @property
    def gemm_stationary_fmax(self) -> int:
        """Most columns of a matmul's stationary operand."""
        return self._target().stationary_max

    @property
    def gemm_moving_fmax(self) -> int:
        """Most columns of a matmul's moving operand."""
        return self._target().moving_max

    @property
    def bn_stats_fmax(self) -> int:
        """Most elements per partition ``bn_stats`` takes."""
        return self._target().bn_stats_max

    @property
    def psum_min_align(self) -> int:
        """Byte alignment of a PSUM address."""
        return self._target().psum_align

    @property
    def sbuf_min_align(self) -> int:
        """Byte alignment of an SBUF address."""
        return self._target().sbuf_align

    @property
    def sbuf_size_bytes(self) -> int:
        """SBUF bytes, all partitions together."""
        return self._target().sbuf_partition_bytes * self._target().partitions

    @property
    def sbuf_fmax(self) -> int:
        """fp32 elements of an SBUF partition."""
        return self._target().sbuf_partition_bytes // 4

    @property
    def sbuf_fmax_bytes(self) -> int:
        """Bytes of an SBUF partition."""
        return self._target().sbuf_partition_bytes

    @property
    def total_available_sbuf_size(self) -> int:
        """Deprecated name of ``sbuf_fmax_bytes``."""
        warnings.warn("nl.tile_size.total_available_sbuf_size is now sbuf_fmax_bytes", DeprecationWarning, stacklevel=2)
        return self.sbuf_fmax_bytes


tile_size = TileSize()
