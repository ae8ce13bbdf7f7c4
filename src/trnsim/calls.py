"""Calls and names a kernel gets wrong, answered in the terms of NKI."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

from trnsim.errors import KernelError
from trnsim.refusals import refuse
from trnsim.source_lines import kernel_line
from trnsim.tables import read_table

_MASK = "NKI has had no masks since 0.2: make the last tile smaller with slices, whose end is min(stop, size)"
_NAMES = read_table("names.toml")
# what other libraries call NKI's functions, besides the spellings of operators
_SHORT: dict[str, str] = _NAMES["short"]
# names of nki.language that are older than NKI 0.3, and what to write instead; likewise of nki.isa, since 0.4
RETIRED: dict[str, str] = _NAMES["retired"]
DYNAMIC_COPIES: dict[str, str] = _NAMES["dynamic_copies"]
_DST = "instructions write the tile passed as dst, and return no tile"


def public_signature(fn: Callable[..., Any], named: bool) -> inspect.Signature:
    """Return the signature kernels see of an instruction: without the session, with the name that most take."""
    whole = inspect.signature(fn)
    _, *own = whole.parameters.values()
    name = inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=Any)
    return whole.replace(parameters=[*own, name] if named else own)


def is_mismatch(error: TypeError) -> bool:
    """Return whether a call failed because its arguments do not fit the signature: nothing of the function has run."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def wrong_call(error: TypeError, fn: Any, label: str, signature: inspect.Signature, session: Any) -> KernelError:
    """Return the error for a call that does not match ``signature``, with the call that would."""
    text = str(error).replace(f"{fn.__name__}() ", "")
    shown = f"{label}({', '.join(map(parameter, signature.parameters.values()))})"
    if "'mask'" in text:
        shown = f"{_MASK}; {shown}"
    elif "missing" in text and next(iter(signature.parameters), "") == "dst":
        shown = f"{shown}; {_DST}"
    return refuse("signature:wrong_call", hint=shown, text=text).locate(session, label, session.line())


def no_tensor(value: Any, role: str, kind: str, hint: str) -> KernelError:
    """Return the error for an operand that is no tensor; an array of the host is recognised by its shape."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    shown = repr(value)
    if hasattr(value, "is_data_representable"):
        hint = f"instructions take tensors: pass {role}=grid.data"
    elif shape is not None and dtype is not None:
        shown = f"an array of shape {tuple(shape)}"
        hint = "the device sees arrays that are arguments of the kernel, and those of nl.shared_constant"
    elif len(shown) > 80:
        shown = f"{shown[:77]}…"
    return refuse("operand:no_tensor", got=type(value).__name__, hint=hint, role=role, shown=shown, kind=kind)


def parameter(p: inspect.Parameter) -> str:
    """Return a parameter as a signature shows it to people."""
    if p.default is p.empty:
        return p.name
    return f"{p.name}={p.default if isinstance(p.default, Enum) else repr(p.default)}"


def unknown_name(
    module: str, name: str, known: Iterable[str], retired: Mapping[str, str] | None = None
) -> AttributeError:
    """Return the error for a name ``module`` lacks: what replaced it, or the names most like it."""
    from trnsim.isa.alu import ALIASES

    text = f"module {module!r} has no attribute {name!r}"
    public = [k for k in known if not k.startswith("_")]
    short = _SHORT.get(name) or ALIASES.get(name)
    near = [short] if short in public else difflib.get_close_matches(name, public, n=2, cutoff=0.7)
    near = near or sorted((k for k in public if len(name) > 2 and k.startswith(name)), key=len)[:2]
    if retired and name in retired:
        text += f", which NKI had once: {retired[name]}"
    elif near:
        text += f"; it has {' and '.join(near)}"
    return AttributeError(f"{text} [{kernel_line()}]", name=name)
