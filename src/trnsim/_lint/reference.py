"""The NKI reference: every name, its parameters, and the version (0.3 to 0.6) that introduced it.

Names and parameters of functions are those of the simulator's own, which a test compares with the API stubs of the four
releases; what is here is when each came, and, for the attributes of a 0.3 tensor, that release's language guide.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from types import ModuleType

Version = tuple[int, int]
FIRST: Version = (0, 3)

# names that came later
LATER = {
    (0, 4): "abs_max abs_min activate2 bypass prelu",
    (0, 5): "average float8_e8m0fnu get_nc_sub_version",
    (0, 6): "DType NkiInstruction _TileSize all_gather_v fori_loop topk while_loop",
}
# parameters that came after their function, which the collectives gained all at once
LATER_PARAMETERS: dict[str, dict[str, Version]] = {
    "dma_compute": {"oob_mode": (0, 4)},
    "dma_copy": {"priority": (0, 4)},
    "dma_transpose": {"priority": (0, 4)},
    "tensor_scalar_reduce": {"reduce_cmd": (0, 4), "reduce_init": (0, 4), "reduce_res_negate": (0, 6)},
}
LATER_COLLECTIVES = {"priority": (0, 4), "name": (0, 5)}
# what the simulator takes besides: spellings older than 0.3, and what its own functions need
OURS = frozenset({"DynamicSlice", "bool", "tensor_copy_dynamic_dst", "tensor_copy_dynamic_src"})
OUR_PARAMETERS = frozenset({("register_move", "imm"), ("shared_constant", "dtype")})
# constants of nki.isa that warn when they are read
ENGINES = "gpsimd_engine scalar_engine tensor_engine unknown_engine vector_engine"
# methods and attributes of a tensor
TENSOR = {
    (0, 3): "__getitem__ reshape ap view get_pattern shape offset dtype buffer ndim size address",
    (0, 5): "broadcast expand_dim flatten_dims indirect is_contiguous is_indirect permute rearrange reinterpret_cast"
    " reshape_dim select slice squeeze_dim vector_select",
    (0, 6): "strides name",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One documented name: the version it came with, and of a function its parameters with theirs."""

    name: str
    since: Version
    parameters: dict[str, Version] | None = None


def shown(version: Version) -> str:
    """Return a version as it is written: ``"0.4"``."""
    return f"{version[0]}.{version[1]}"


def _entries(module: ModuleType, later: dict[str, Version]) -> dict[str, Entry]:
    came = {name: version for version, names in LATER.items() for name in names.split()}
    entries = {}
    for name in sorted({*module.__all__, *(ENGINES.split() if module.__name__ == "trnsim.isa" else ())} - OURS):
        since, ages = came.get(name, FIRST), later | LATER_PARAMETERS.get(name, {})
        thing = vars(module).get(name)
        parameters = None
        if inspect.isfunction(thing):
            own = [p for p in inspect.signature(thing).parameters if (name, p) not in OUR_PARAMETERS]
            parameters = {p: max(since, ages.get(p, since)) for p in own}
        entries[name] = Entry(name, since, parameters)
    return entries


@functools.cache
def reference() -> dict[str, dict[str, Entry]]:
    """Return the documented names of ``nki.language``, ``isa``, ``collectives`` and tensors."""
    from trnsim import collectives, isa, language

    return {
        "language": _entries(language, {}),
        "isa": _entries(isa, {}),
        "collectives": _entries(collectives, LATER_COLLECTIVES),
        "tensor": {name: Entry(name, since) for since, names in TENSOR.items() for name in names.split()},
    }
