"""The data types of NKI, and the two conversions hardware makes: to fp32 on the way in, rounding on the way out.

Types NumPy knows (through ``ml_dtypes``) *are* NumPy dtypes, so ``np.dtype(nl.bfloat16)``, ``nl.float32.itemsize`` and
``str(nl.float32) == "float32"`` work. ``tfloat32`` and the packed x4 types have no NumPy twin and are `ExtraDtype`;
``np.dtype`` of one is a record of one field that carries its name.
"""

from typing import Any

import ml_dtypes
import numpy as np

from trnsim.refusals import refuse


class ExtraDtype:
    """A hardware type that NumPy lacks; ``storage`` is the NumPy type its bits are kept in.

    ``dtype`` is what ``np.dtype`` makes of it: a record, for with ``storage`` NumPy would call ``float32 == tfloat32``
    true.
    """

    __slots__ = ("dtype", "element", "name", "storage")

    def __init__(self, name: str, storage: Any, element: Any = None) -> None:
        self.name = name
        self.storage = np.dtype(storage)
        self.dtype = np.dtype([(name, self.storage)])
        self.element = None if element is None else np.dtype(element)

    @property
    def itemsize(self) -> int:
        return self.storage.itemsize

    @property
    def kind(self) -> str:
        return self.storage.kind

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, str) and other == self.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> str:
        return self.name


DType = np.dtype[Any] | ExtraDtype

bool_ = np.dtype(np.bool_)
int8, int16, int32 = np.dtype(np.int8), np.dtype(np.int16), np.dtype(np.int32)
# of scalars alone: no engine computes with it
int64 = np.dtype(np.int64)
uint8, uint16, uint32 = np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32)
float16, float32 = np.dtype(np.float16), np.dtype(np.float32)
bfloat16 = np.dtype(ml_dtypes.bfloat16)
float8_e4m3 = np.dtype(ml_dtypes.float8_e4m3)
float8_e4m3fn = np.dtype(ml_dtypes.float8_e4m3fn)
float8_e5m2 = np.dtype(ml_dtypes.float8_e5m2)
float8_e8m0fnu = np.dtype(ml_dtypes.float8_e8m0fnu)
tfloat32 = ExtraDtype("tfloat32", np.float32)
float8_e5m2_x4 = ExtraDtype("float8_e5m2_x4", np.uint32, ml_dtypes.float8_e5m2)
float8_e4m3fn_x4 = ExtraDtype("float8_e4m3fn_x4", np.uint32, ml_dtypes.float8_e4m3fn)
float4_e2m1fn_x4 = ExtraDtype("float4_e2m1fn_x4", np.uint16, ml_dtypes.float4_e2m1fn)

FP8 = frozenset({float8_e4m3, float8_e4m3fn, float8_e5m2})
LOW_PRECISION = FP8 | {float16, bfloat16}
FLOATS = LOW_PRECISION | {float32, tfloat32}
INTEGERS: frozenset[Any] = frozenset({int8, int16, int32, uint8, uint16, uint32, bool_})
PACKED = frozenset({float8_e5m2_x4, float8_e4m3fn_x4, float4_e2m1fn_x4})
DTYPES: frozenset[Any] = FLOATS | INTEGERS | PACKED | {float8_e8m0fnu, int64}
NAMES: dict[str, DType] = {str(d): d for d in DTYPES} | {"bool_": bool_}


def as_dtype(dtype: Any) -> DType:
    """Return the NKI dtype meant by ``dtype``: one of ours, a name, a NumPy or ml_dtypes type, a torch dtype."""
    if isinstance(dtype, ExtraDtype):
        return dtype
    if isinstance(dtype, str):
        named = NAMES.get(dtype.rpartition(".")[2])
        if named is not None:
            return named
    elif type(dtype).__module__ == "torch":
        return as_dtype(str(dtype))
    try:
        plain = np.dtype(dtype)
    except (TypeError, ValueError, KeyError, SyntaxError):
        plain = None
    if plain is not None and plain.names:
        extra = NAMES.get(plain.names[0])
        if isinstance(extra, ExtraDtype) and extra.dtype == plain:
            return extra
    if plain is None or plain not in DTYPES:
        wide = plain is not None and plain.itemsize == 8
        hint = "Trainium computes with no 64-bit type: pass float32 or int32, or split the value into two words"
        raise refuse("dtype", got=str(dtype), limit=sorted(NAMES), hint=hint if wide else "", dtype=dtype)
    return plain


def same_dtype(a: Any, b: Any) -> bool:
    """Return whether these are one dtype (a float32 is no tfloat32, although NumPy can take one for the other)."""
    return a is b or (type(a) is type(b) and bool(a == b))


def to_f32(x: np.ndarray) -> np.ndarray:
    """Return what the engines compute on: ``x`` in float32 (no copy when it is already)."""
    dtype = x.dtype
    if dtype == float32:
        return x
    if dtype == bfloat16:
        # ml_dtypes converts dense arrays at memory speed and strided ones twenty times slower
        dense = x if x.flags.c_contiguous else np.ascontiguousarray(x.view(np.uint16)).view(dtype)
        return dense.astype(np.float32)
    table = _WIDE.get(dtype)
    if table is not None:
        # a table of all bit patterns beats the conversion of 8-bit floats tenfold, of float16 twofold
        return table.take(x.view(_BITS[dtype.itemsize]))
    return x.astype(np.float32)


_BITS: dict[int, Any] = {1: np.uint8, 2: np.uint16}
_WIDE = {
    d: np.arange(256**d.itemsize, dtype=_BITS[d.itemsize]).view(d).astype(np.float32)
    for d in (float16, float8_e4m3, float8_e4m3fn, float8_e5m2)
}
INT_RANGE = {d: (int(np.iinfo(d).min), int(np.iinfo(d).max)) for d in (INTEGERS - {bool_}) | {int64}}


def round_tf32(x: np.ndarray) -> np.ndarray:
    """Round fp32 to the 10 mantissa bits of tfloat32, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    rounded &= np.uint32(0xFFFFE000)
    return np.where(np.isfinite(x), rounded.view(np.float32), x)


def cast(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Convert a result to ``dtype`` as a write does: nearest even, integers saturate, NaN becomes integer 0."""
    if dtype is tfloat32:
        return round_tf32(x)
    target = dtype.storage if isinstance(dtype, ExtraDtype) else dtype
    if x.dtype == target:
        return x
    if target == bool_:
        return x != 0
    if target.kind in "iu":
        low, high = INT_RANGE[target]
        if x.dtype.kind in "iub":
            return np.clip(x.astype(np.int64, copy=False), low, high).astype(target)
        wide = np.rint(x.astype(np.float64))
        return np.clip(np.nan_to_num(wide, nan=0.0, posinf=high, neginf=low), low, high).astype(target)
    with np.errstate(over="ignore", invalid="ignore"):
        if x.dtype.kind in "iub" and target != float32:
            x = x.astype(np.float32)
        return x.astype(target)
