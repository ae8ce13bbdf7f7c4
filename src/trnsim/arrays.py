"""The door of the simulator: NumPy in, NumPy out; torch in, torch out.

torch is never imported here unless it already is.
"""

import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from trnsim.errors import WrongDtype, WrongVersion
from trnsim.refusals import forbid, refuse
from trnsim.tables import read_table
from trnsim.tensors.dtypes import NAMES, ExtraDtype, as_dtype
from trnsim.versions import Version, check_version

_SAME_SIZE = {1: np.uint8, 2: np.int16}


def is_torch(value: Any) -> bool:
    """Return whether it is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_array(value: Any) -> bool:
    """Return whether it becomes an HBM tensor: NumPy arrays, torch tensors, what has ``__array__`` and a shape."""
    if isinstance(value, np.ndarray) or is_torch(value):
        return True
    if isinstance(value, (type, np.generic)):
        return False
    return hasattr(value, "__array__") and hasattr(value, "shape") and hasattr(value, "dtype")


def dtype_of(value: Any, name: str, nki: Version) -> np.dtype[Any]:
    """NumPy dtype of an array argument; refuses what Trainium has not, or this version of NKI."""
    dtype = value.dtype
    kind = str(dtype).rpartition(".")[2]
    try:
        ours = as_dtype(kind if is_torch(value) else dtype)
        check_version(str(ours), nki)
    except (WrongDtype, WrongVersion):
        wide = read_table("names.toml")["wide"]
        hint = f"pass {wide[kind]}" if kind in wide else "convert it before the call"
        raise refuse("argument-dtype", got=kind, limit=sorted(NAMES), hint=hint, name=name) from None
    return ours.storage if isinstance(ours, ExtraDtype) else ours


def to_numpy(value: Any, name: str = "argument") -> np.ndarray:
    """``value`` as a NumPy array, sharing memory where that is possible."""
    if isinstance(value, np.ndarray):
        return value
    if not is_torch(value):
        return np.asarray(value)
    torch = sys.modules["torch"]
    value = value.detach()
    if value.layout is not torch.strided or value.is_quantized:
        raise refuse("argument:layout", got=str(value.layout), name=name, value=value)
    forbid(value.is_meta, "argument:meta", got="meta", name=name)
    value = value.cpu().resolve_conj().resolve_neg()
    kind = str(value.dtype).rpartition(".")[2]
    foreign = hasattr(ml_dtypes, kind)
    if foreign:
        value = value.view({1: torch.uint8, 2: torch.int16}[value.element_size()])
    array: np.ndarray = value.numpy()
    return array.view(getattr(ml_dtypes, kind)) if foreign else array


def copy_of(value: Any) -> Any:
    """Return a copy of an array, of its own kind."""
    return value.detach().clone() if is_torch(value) else np.array(to_numpy(value), copy=True)


def map_items(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a list, tuple, named tuple or dict with its items changed; any other value as it is."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(change, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(change, value))
    return {k: change(v) for k, v in value.items()} if isinstance(value, dict) else value


def to_torch(array: np.ndarray, device: Any = "cpu") -> Any:
    """Return a torch tensor on ``array``'s memory. ``float8_e4m3``, which torch has not, becomes float32."""
    torch = sys.modules["torch"]
    kind = array.dtype.name
    if not array.flags.writeable:
        array = array.copy()
    if not hasattr(torch, kind):
        return torch.from_numpy(array.astype(np.float32)).to(device)
    if array.dtype.isbuiltin == 1:
        return torch.from_numpy(array).to(device)
    bits = array.view(_SAME_SIZE[array.dtype.itemsize])
    return torch.from_numpy(bits).view(getattr(torch, kind)).to(device)


def without_values(shape: tuple[int, ...], dtype: np.dtype[Any], *, torch: bool = False) -> Any:
    """Return an array of the right kind, shape and dtype that holds no values and takes no memory."""
    if torch:
        kind = dtype.name if hasattr(sys.modules["torch"], dtype.name) else "float32"
        return sys.modules["torch"].empty(shape, dtype=getattr(sys.modules["torch"], kind), device="meta")
    return np.broadcast_to(
        np.full((), -1, np.int64).astype(dtype) if dtype.kind in "iu" else np.array(np.nan).astype(dtype), shape
    )
