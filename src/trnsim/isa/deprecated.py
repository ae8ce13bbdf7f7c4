"""Names NKI has retired since 0.3. They work as they did, with a warning that says what replaced them."""

from __future__ import annotations

import sys
import warnings
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


def _renamed(old: str, operand: str) -> None:
    warnings.warn(
        f"nki.isa.{old} is gone from NKI 0.4 on: use tensor_copy with {operand}=tile.ap(…, scalar_offset=…)",
        DeprecationWarning,
        stacklevel=3,
    )


def tensor_copy_dynamic_src(dst: Any, src: Any, engine: Any = eng.unknown, name: Any = None) -> NkiInstruction:
    """``tensor_copy`` from a run-time offset within each partition (retired name)."""
    _renamed("tensor_copy_dynamic_src", "src")
    instruction: NkiInstruction = tensor_copy(dst=dst, src=src, engine=engine, name=name)
    return instruction


def tensor_copy_dynamic_dst(dst: Any, src: Any, engine: Any = eng.unknown, name: Any = None) -> NkiInstruction:
    """``tensor_copy`` to a run-time offset within each partition (retired name)."""
    _renamed("tensor_copy_dynamic_dst", "dst")
    instruction: NkiInstruction = tensor_copy(dst=dst, src=src, engine=engine, name=name)
    return instruction
