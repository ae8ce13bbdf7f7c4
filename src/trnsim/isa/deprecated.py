"""Names NKI has retired since 0.3. They work as they did, with a warning that says what replaced them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

from trnsim.calls import unknown_name
from trnsim.isa.enums import engine as eng
from trnsim.isa.vector import tensor_copy
from trnsim.session import NkiInstruction

_ENGINES = {f"{e.name}_engine": e for e in (eng.tensor, eng.vector, eng.scalar, eng.gpsimd, eng.unknown)}


def __getattr__(name: str) -> Any:
    """``vector_engine`` and its siblings, now members of ``nki.isa.engine``."""
    engine = _ENGINES.get(name)
    if engine is None:
        raise unknown_name("nki.isa", name, vars(sys.modules["trnsim.isa"]).get("__all__", ()))
    warnings.warn(f"nki.isa.{name} is now nki.isa.engine.{engine.name}", DeprecationWarning, stacklevel=2)
    return engine


def _dynamic(operand: str) -> Callable[..., NkiInstruction]:
    """Return ``tensor_copy`` under the name it had for a run-time offset of ``operand``."""

    def copy(dst: Any, src: Any, engine: Any = eng.unknown, name: Any = None) -> NkiInstruction:
        instead = f"use tensor_copy with {operand}=tile.ap(…, scalar_offset=…)"
        warnings.warn(f"nki.isa.{copy.__name__} is gone from NKI 0.4 on: {instead}", DeprecationWarning, stacklevel=2)
        instruction: NkiInstruction = tensor_copy(dst=dst, src=src, engine=engine, name=name)
        return instruction

    copy.__name__ = copy.__qualname__ = f"tensor_copy_dynamic_{operand}"
    toward = "from" if operand == "src" else "to"
    copy.__doc__ = f"``tensor_copy`` {toward} a run-time offset within each partition (retired name)."
    return copy


tensor_copy_dynamic_src, tensor_copy_dynamic_dst = _dynamic("src"), _dynamic("dst")
