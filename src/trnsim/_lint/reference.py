"""The NKI reference: every name, its parameters, and the version that introduced it.

Names and parameters of functions are those of the simulator's own, which a test compares with the API stubs of the
releases; when each came is in `trnsim.versions`.
"""

import functools
import inspect
from dataclasses import dataclass
from types import ModuleType

from trnsim.versions import COLLECTIVE_PARAMETERS, FIRST, PARAMETERS, SINCE, TENSOR, Version

# what the simulator takes besides: spellings older than 0.3, and what its own functions need
OURS = frozenset({"DynamicSlice", "bool"})
OUR_PARAMETERS = frozenset({("register_move", "imm"), ("shared_constant", "dtype")})
# constants of nki.isa that warn when they are read
ENGINES = "gpsimd_engine scalar_engine tensor_engine unknown_engine vector_engine"


@dataclass(frozen=True, slots=True)
class Entry:
    """One documented name: the version it came with, and of a function its parameters with theirs."""

    name: str
    since: Version
    parameters: dict[str, Version] | None = None


def _entries(module: ModuleType, later: dict[str, Version]) -> dict[str, Entry]:
    entries = {}
    for name in sorted({*module.__all__, *(ENGINES.split() if module.__name__ == "trnsim.isa" else ())} - OURS):
        since, ages = SINCE.get(name, FIRST), later | PARAMETERS.get(name, {})
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
        "collectives": _entries(collectives, COLLECTIVE_PARAMETERS),
        "tensor": {name: Entry(name, since) for since, names in TENSOR.items() for name in names.split()},
    }
