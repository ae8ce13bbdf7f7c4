"""Objects a kernel may hold besides tensors: ``NKIObject``, memory regions, dynamic slices, tile sizes."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable
from dataclasses import InitVar
from enum import Enum
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, ClassVar, get_origin

from trnsim.errors import DeviceValue
from trnsim.refusals import refuse
from trnsim.versions import TRACED

if TYPE_CHECKING:
    from trnsim.targets import Target


def _is_field(cls: type, name: str, value: Any) -> bool:
    if name.startswith("_") or isinstance(value, (property, classmethod, staticmethod)):
        return False
    if isinstance(value, type):
        return not value.__qualname__.startswith(f"{cls.__qualname__}.")
    return not callable(value) or isinstance(value, Enum)


def _kind(annotation: Any) -> str:
    """``class`` for a ``ClassVar``, ``init`` for an ``InitVar``, ``mark`` for ``KW_ONLY``, else ``field``."""
    if isinstance(annotation, str):
        outer = annotation.partition("[")[0].rpartition(".")[2].strip()
        return {"ClassVar": "class", "InitVar": "init", "KW_ONLY": "mark"}.get(outer, "field")
    if annotation is dataclasses.KW_ONLY:
        return "mark"
    if annotation is ClassVar or get_origin(annotation) is ClassVar:
        return "class"
    return "init" if annotation is InitVar or isinstance(annotation, InitVar) else "field"


def _own_fields(cls: type) -> list[str]:
    """Return names of the fields a class declares itself, in order: annotated ones, and plain attributes beside them.

    As in a data class an annotated name is a field whatever its first letter; one without annotation that begins with
    an underscore is the class's own.
    """
    space = vars(cls)
    annotated = inspect.get_annotations(cls)
    skipped = [n for n, a in annotated.items() if _kind(a) in ("class", "mark")]
    plain = [n for n, v in space.items() if _is_field(cls, n, v) and n not in skipped]
    order: list[str] = []
    for name in annotated:
        if name in plain:
            # attributes written above it come before it
            order += [n for n in plain[: plain.index(name)] if n not in order]
        if name not in skipped and name not in order and not name.startswith("__"):
            order.append(name)
    return order + [n for n in plain if n not in order]


class NKIObject:
    """Base of every class a kernel may use.

    Fields are the class's attributes, annotated or not; the initialiser takes them in order or by name, leaves the rest
    at their default (``None`` without one) and calls ``__post_init__``. ``@dataclass``, frozen or not, changes nothing;
    options of its ``field`` and ``InitVar``, ``ClassVar`` and ``KW_ONLY`` mean what they mean there.
    ``==`` is Python's: of the fields for data classes, of identity for others. Where NKI parses kernels, before 0.7, it
    compares classes and fields of all.
    """

    __nki_fields__: ClassVar[dict[str, Any]] = {}
    __nki_init_only__: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = vars(cls)
        fields = dict(cls.__nki_fields__)
        for name in _own_fields(cls):
            if name not in own:
                # a dataclass would insist on a field without a default
                setattr(cls, name, None)
            if not isinstance(own[name], MemberDescriptorType):
                fields[name] = own[name]
        cls.__nki_fields__ = fields
        annotated = inspect.get_annotations(cls)
        cls.__nki_init_only__ = cls.__nki_init_only__ | {n for n, a in annotated.items() if _kind(a) == "init"}
        # the dataclass decorator keeps what the class already has
        for name in ("__init__", "__eq__", "__hash__", "__repr__"):
            if name not in own and getattr(cls, name) is getattr(NKIObject, name):
                setattr(cls, name, getattr(NKIObject, name))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls = type(self)
        fields = cls.__nki_fields__
        wanted = [n for n in fields if _option(cls, n, "init", True)]
        positional = [n for n in wanted if not _option(cls, n, "kw_only", False)]
        if len(args) > len(positional):
            raise TypeError(f"{cls.__name__} has {len(positional)} fields and got {len(args)} values")
        given = dict(zip(positional, args, strict=False))
        for name, value in kwargs.items():
            if name not in wanted:
                raise TypeError(f"{cls.__name__} has no field {name!r}; its fields are {', '.join(wanted)}")
            if name in given:
                raise TypeError(f"{cls.__name__} got two values for {name!r}")
            given[name] = value
        for name, default in fields.items():
            if name not in given:
                given[name] = _default(default)
            if name not in cls.__nki_init_only__:
                # frozen dataclasses refuse plain assignment
                object.__setattr__(self, name, given[name])
        self.__post_init__(*(given[n] for n in fields if n in cls.__nki_init_only__))

    def __post_init__(self, *init_only: Any) -> None:
        """Finish, after the fields are set, with the ``InitVar`` values."""

    def __eq__(self, other: object) -> bool:
        if self is other or not _equal_by_fields(type(self)):
            return self is other
        return type(self) is type(other) and fields_of(self, "compare") == fields_of(other, "compare")

    def __hash__(self) -> int:
        if not _equal_by_fields(type(self)):
            return object.__hash__(self)
        return hash((type(self), tuple(sorted((k, repr(v)) for k, v in fields_of(self, "compare").items()))))

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}={v!r}" for k, v in fields_of(self, "repr").items())
        return f"{type(self).__name__}({inner})"


def _equal_by_fields(cls: type) -> bool:
    """Return whether ``==`` compares the fields of a class: a data class's, and every one's before NKI 0.7."""
    from trnsim.session import current

    options = getattr(cls, "__dataclass_params__", None)
    session = current()
    return bool(options is not None and options.eq) or (session is not None and session.nki < TRACED)


def _option(cls: type, name: str, option: str, default: bool) -> bool:
    """Return what ``dataclasses.field`` or the decorator says of a field."""
    field = getattr(cls, "__dataclass_fields__", {}).get(name, cls.__nki_fields__.get(name))  # type: ignore[attr-defined]
    value = getattr(field, option, default) if isinstance(field, dataclasses.Field) else default
    return default if value is dataclasses.MISSING else bool(value)


def fields_of(obj: Any, use: str = "") -> dict[str, Any]:
    """Return the fields of an object (those with option ``use``) and whatever else it was given."""
    cls = type(obj)
    names = [n for n in cls.__nki_fields__ if n not in cls.__nki_init_only__]
    state = {**{name: getattr(obj, name, None) for name in names}, **getattr(obj, "__dict__", {})}
    return {k: v for k, v in state.items() if not use or _option(cls, k, use, True)}


def _default(default: Any) -> Any:
    if not isinstance(default, dataclasses.Field):
        return default
    if default.default is not dataclasses.MISSING:
        return default.default
    return None if default.default_factory is dataclasses.MISSING else default.default_factory()


_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
_BITWISE = ("and", "or", "xor", "lshift", "rshift")
_OTHER = ("neg", "abs", "invert", "lt", "le", "gt", "ge", "int", "float", "complex")


def without_operators(rule: str, what: str, hint: str) -> Any:
    """Decorate a class whose values exist on the device only: operators it does not define itself raise."""

    def refusing(symbol: str) -> Any:
        def refuse(self: Any, *others: Any) -> Any:
            got = getattr(self, "name", "") or repr(self)
            raise DeviceValue(f"{what}, so {symbol} to it", rule=rule, got=got, hint=hint)

        return refuse

    def decorate(cls: Any) -> Any:
        reflected = {f"r{name}": name for name in _ARITHMETIC + _BITWISE}
        for method in (*_ARITHMETIC, *_BITWISE, *reflected, *_OTHER):
            if f"__{method}__" not in vars(cls):
                setattr(cls, f"__{method}__", refusing(f"Python cannot apply {reflected.get(method, method)}"))
        cls.__array__ = refusing("NumPy cannot be applied")
        return cls

    return decorate


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
    """Return the memory region meant by ``buffer``."""
    if isinstance(buffer, MemoryRegion):
        return buffer
    if buffer is None:
        return sbuf
    region = _REGIONS.get(str(getattr(buffer, "value", buffer)))
    if region is None:
        raise refuse("buffer:as_region", got=str(buffer), limit=sorted(_REGIONS), buffer=buffer)
    return region


def is_hbm(buffer: Any) -> bool:
    """Return whether it is either HBM region."""
    return as_region(buffer) in (private_hbm, shared_hbm)


def is_on_chip(buffer: Any) -> bool:
    """Return whether it is SBUF or PSUM."""
    return as_region(buffer) in (sbuf, psum)


def is_psum(buffer: Any) -> bool:
    """Return whether it is PSUM."""
    return as_region(buffer) is psum


def is_sbuf(buffer: Any) -> bool:
    """Return whether it is SBUF."""
    return as_region(buffer) is sbuf


class DynamicSlice(NKIObject):
    """``nl.ds(start, size)``: ``size`` elements from ``start``, which may be a register."""

    def __init__(self, start: Any, size: int) -> None:
        self.start = start
        self.size = size


def ds(start: Any, size: int) -> DynamicSlice:
    """Return a slice of ``size`` elements that begins at ``start`` (an int or a register)."""
    return DynamicSlice(start, size)


def _size(of: Callable[[Target], int], text: str) -> Any:
    """Return a property that asks the target a kernel runs on, documented by ``text``."""

    def size(self: TileSize) -> int:
        from trnsim.session import current
        from trnsim.targets import target_named

        session = current()
        return of(session.target if session is not None else target_named())

    return property(size, doc=text)


class TileSize(NKIObject):
    """Sizes of the hardware, asked of the target a kernel runs on."""

    def __init__(self) -> None:
        pass

    pmax = _size(lambda t: t.partitions, "Most partitions of a tile.")
    psum_bank_fmax = _size(lambda t: t.psum_bank_bytes // 4, "fp32 elements of a PSUM bank, per partition.")
    psum_bank_fmax_bytes = _size(lambda t: t.psum_bank_bytes, "Bytes of a PSUM bank, per partition.")
    psum_num_banks = _size(lambda t: t.psum_banks, "PSUM banks of a partition.")
    gemm_stationary_fmax = _size(lambda t: t.stationary_max, "Most columns of a matmul's stationary operand.")
    gemm_moving_fmax = _size(lambda t: t.moving_max, "Most columns of a matmul's moving operand.")
    bn_stats_fmax = _size(lambda t: t.bn_stats_max, "Most elements per partition ``bn_stats`` takes.")
    psum_min_align = _size(lambda t: t.psum_align, "Byte alignment of a PSUM address.")
    sbuf_min_align = _size(lambda t: t.sbuf_align, "Byte alignment of an SBUF address.")
    sbuf_size_bytes = _size(lambda t: t.sbuf_partition_bytes * t.partitions, "SBUF bytes, all partitions together.")
    sbuf_fmax = _size(lambda t: t.sbuf_usable_bytes // 4, "fp32 elements of an SBUF partition that a kernel may use.")
    sbuf_fmax_bytes = _size(lambda t: t.sbuf_usable_bytes, "Bytes of an SBUF partition that a kernel may use.")

    @property
    def psum_fmax(self) -> int:
        """Deprecated name of ``psum_bank_fmax``."""
        warnings.warn("nl.tile_size.psum_fmax is now psum_bank_fmax", DeprecationWarning, stacklevel=2)
        return self.psum_bank_fmax

    @property
    def total_available_sbuf_size(self) -> int:
        """Deprecated name of ``sbuf_fmax_bytes``."""
        warnings.warn("nl.tile_size.total_available_sbuf_size is now sbuf_fmax_bytes", DeprecationWarning, stacklevel=2)
        return self.sbuf_fmax_bytes


tile_size = TileSize()
