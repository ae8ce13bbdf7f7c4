"""The function table of the Scalar Engine: what ``op=`` of an activation computes, and where the hardware's fit holds.

Inside its valid range every function here is the mathematical one, rounded to fp32; the engine's own piecewise
polynomials differ from it by their fitting error. Outside the range:

- ``sin`` extrapolates the cubic fitted at ±π: with ``t = |x| - π`` it gives ``sign(x)·(t³/6 - t)``, so that sin(9)
  is 27.65 and not 0.41.
- ``arctan``, ``log``, ``sqrt``, ``rsqrt`` and ``reciprocal`` keep the mathematical function (NaN and infinities
  included) and raise an `OutOfRange` warning, because hardware gives something else there.
"""

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trnsim.isa.alu import name_of
from trnsim.refusals import refuse
from trnsim.tables import read_table

F32 = np.float32
# arithmetic on arrays is Any to a type checker
Array = Any


class OutOfRange(RuntimeWarning):
    """An activation function got values outside the range for which hardware has a fit."""


class Activation(NamedTuple):
    """One function of the table: ``fn`` on fp32 arrays, and the valid range of ``x`` (of ``|x|`` when symmetric).

    ``slack`` is how far outside the range the result is still right to fp32.
    """

    name: str
    fn: Callable[..., Array]
    low: float = -math.inf
    high: float = math.inf
    symmetric: bool = False
    slack: float = 0.0

    @property
    def narrow(self) -> bool:
        """Return whether the hardware's fit does not cover all of fp32."""
        return self.high != math.inf

    def range_text(self) -> str:
        """Return the valid range as the reference writes it."""
        return f"{'±' if self.symmetric else ''}[{self.low:.6g}, {self.high:.6g}]"


def _wide(fn: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """``fn`` evaluated in float64 and rounded once, for formulas that cancel in fp32."""

    @functools.wraps(fn)
    def evaluate(x: Array) -> Array:
        return fn(x.astype(np.float64)).astype(F32)

    return evaluate


def _special() -> Any:
    """Return SciPy's special functions, imported when one is first asked for."""
    import scipy.special

    return scipy.special


def _sigmoid64(x: Array) -> Array:
    return _special().expit(x)


def _normal_cdf(x: Array) -> Array:
    return _special().ndtr(x)


def _normal_pdf(x: Array) -> Array:
    return np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


# far beyond this every gate is 0 or 1; clipping keeps inf * 0 out of the products
_FAR = 1e4


def _clip_below(x: Array) -> Array:
    return np.maximum(x, -_FAR)


def _clip(x: Array) -> Array:
    return np.clip(x, -_FAR, _FAR)


def _gated_tanh(x: Array) -> Array:
    # (1 + tanh z) / 2 is sigmoid(2z), which keeps its digits for negative z
    return x * _sigmoid64(math.sqrt(8.0 / math.pi) * (x + 0.044715 * x * x * x))


def _sigmoid_gate_dx(x: Array, k: float) -> Array:
    x = _clip(x)
    gate = _sigmoid64(k * x)
    return gate + k * x * gate * _sigmoid64(-k * x)


def _sigmoid(x: Array) -> Array:
    return F32(1) / (F32(1) + np.exp(-x))


def _sin(x: Array) -> Array:
    y = np.sin(x)
    far = np.abs(x) > F32(math.pi)
    if far.any():
        t = np.abs(x.astype(np.float64)) - math.pi
        y = np.where(far, (np.sign(x) * (t * t * t / 6.0 - t)).astype(F32), y)
    return y


def _prelu(x: Array, slope: Any = None) -> Array:
    return _relu(x) if slope is None else np.where(x >= 0, x, x * slope).astype(F32, copy=False)


def _relu(x: Array) -> Array:
    return np.maximum(x, F32(0))


FUNCTIONS: dict[str, Activation] = {
    f.name: f
    for f in (
        Activation("copy", lambda x: x),
        Activation("square", np.square),
        Activation("sigmoid", _sigmoid),
        Activation("relu", _relu),
        Activation("prelu", _prelu),
        Activation("gelu", _wide(lambda x: _clip_below(x) * _normal_cdf(x))),
        Activation("gelu_dx", _wide(lambda x: _normal_cdf(x) + _clip(x) * _normal_pdf(x))),
        Activation("gelu_apprx_tanh", _wide(lambda x: _gated_tanh(_clip_below(x)))),
        Activation("gelu_apprx_sigmoid", _wide(lambda x: _clip_below(x) * _sigmoid64(1.702 * x))),
        Activation("gelu_apprx_sigmoid_dx", _wide(lambda x: _sigmoid_gate_dx(x, 1.702))),
        Activation("silu", lambda x: _clip_below(x) * _sigmoid(x)),
        Activation("silu_dx", _wide(lambda x: _sigmoid_gate_dx(x, 1.0))),
        Activation("tanh", np.tanh),
        Activation("softplus", _wide(lambda x: np.logaddexp(0.0, x))),
        Activation("mish", _wide(lambda x: _clip_below(x) * np.tanh(np.logaddexp(0.0, x)))),
        Activation("erf", _wide(lambda x: _special().erf(x))),
        Activation("erf_dx", _wide(lambda x: 2.0 / math.sqrt(math.pi) * np.exp(-x * x))),
        Activation("exp", np.exp),
        Activation("log", np.log, 2.0**-64, 2.0**64),
        # the cubic's error is t⁵/120, below fp32's rounding up to here
        Activation("sin", _sin, -math.pi, math.pi, slack=0.08),
        Activation("arctan", np.arctan, -math.pi / 2, math.pi / 2),
        Activation("sqrt", np.sqrt, 2.0**-116, 2.0**118),
        Activation("rsqrt", lambda x: F32(1) / np.sqrt(x), 2.0**-87, 2.0**97),
        Activation("reciprocal", lambda x: F32(1) / x, 2.0**-42, 2.0**42, symmetric=True),
        Activation("sign", np.sign),
        Activation("abs", np.abs),
    )
}
_ALIASES: dict[str, str] = read_table("names.toml")["activations"]
_HINTS: dict[str, str] = read_table("names.toml")["activation_hints"]
_seen: dict[Any, Activation] = {}


def activation_named(op: Any) -> Activation:
    """Return the entry meant by ``op``: a function of ``nki.language``, or its name."""
    known = _seen.get(op) if callable(op) else None
    if known is not None:
        return known
    name = name_of(op)
    function = FUNCTIONS.get(_ALIASES.get(name, name))
    if isinstance(op, np.ufunc) or str(getattr(op, "__module__", "")).partition(".")[0] in ("numpy", "math"):
        hint = f"pass nl.{function.name}" if function else _HINTS.get(name, "pass a function of nki.language")
        raise refuse("activation-function:host", got=repr(op), limit=sorted(FUNCTIONS), hint=hint, op=op)
    if function is None:
        hint = _HINTS.get(name, f"use one of {', '.join('nl.' + n for n in FUNCTIONS)}")
        shown = "None" if op is None else name
        raise refuse("activation-function:unknown", got=name, limit=sorted(FUNCTIONS), hint=hint, shown=shown)
    if callable(op):
        _seen[op] = function
    return function


# once for each kernel line, as Python does with warnings of its own
_warned: dict[Any, Any] = {}


def warn_out_of_range(function: Activation, x: Array, line: str) -> None:
    """Warn when ``x`` leaves the range for which hardware has a fit. NaN counts as inside: nothing is lost there."""
    values = np.abs(x) if function.symmetric else x
    if not ((values < F32(function.low - function.slack)) | (values > F32(function.high + function.slack))).any():
        return
    gives = "a cubic" if function.name == "sin" else "invalid results"
    text = f"activation {function.name}: values outside {function.range_text()}, where hardware gives {gives}"
    file, _, lineno = line.rpartition(":")
    warnings.warn_explicit(text, OutOfRange, file or "kernel", int(lineno) if lineno.isdigit() else 1, registry=_warned)
