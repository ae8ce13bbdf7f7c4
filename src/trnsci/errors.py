"""The error tree of the suite. Fields are attributes, the text is built from them in one place, and all pickle.

The root and the kernel branch live in ``trnsim.errors``, below this package, and are re-exported: there is one tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trnsim.errors import (
    CapacityError as CapacityError,
    HardwareLimit as HardwareLimit,
    KernelError as KernelError,
    OutOfBounds as OutOfBounds,
    Race as Race,
    ReadUninitialized as ReadUninitialized,
    TrnError as TrnError,
)


class ArgumentError(TrnError, ValueError):
    """An argument cannot be right, whatever the backend.

    Attributes:
        op: the public function.
        argument: the parameter, or the name of the dimension or property on which several parameters disagree.
        got: what was passed; a mapping from parameter to value when several disagree.
        expected: what would have been accepted, in words.
        hint: what to do.
    """

    op: str
    argument: str
    got: Any
    expected: str
    hint: str

    def __init__(self, op: str, argument: str, got: object, expected: str = "", *, hint: str = "") -> None:
        super().__init__(op=op, argument=argument, got=got, expected=expected, hint=hint)

    def _text(self) -> str:
        if isinstance(self.got, Mapping):
            sides = ", ".join(f"{name} has {self.argument}={_show(value)}" for name, value in self.got.items())
            what = f"{self.argument} differs: {sides}"
            what += f"; expected {self.expected}" if self.expected else ""
        else:
            what = f"{self.argument} is {_show(self.got)}, expected {self.expected}"
        return _sentences(f"{self.op}: {what}", self.hint)


class DtypeError(ArgumentError, TypeError):
    """An argument has a type or dtype the operation is not defined for."""


class UnsupportedError(TrnError, NotImplementedError):
    """No implementation the chosen backend admits takes this call; ``reasons`` lists ``(backend, reason)`` pairs."""

    op: str
    reasons: Sequence[tuple[str, str]]
    hint: str

    def __init__(self, op: str, reasons: Sequence[tuple[str, str]], *, hint: str = "") -> None:
        super().__init__(op=op, reasons=tuple(reasons), hint=hint)

    def _text(self) -> str:
        listed = "; ".join(f"{backend}: {reason}" for backend, reason in self.reasons)
        return _sentences(f"{self.op}: no admitted backend takes this call: {listed}", self.hint)


class NumericalError(TrnError, ArithmeticError):
    """The arguments are well formed and the mathematics fails for these values."""

    op: str
    message: str
    hint: str

    def __init__(self, op: str, message: str, hint: str = "", **fields: object) -> None:
        super().__init__(op=op, message=message, hint=hint, **fields)

    def _text(self) -> str:
        return _sentences(f"{self.op}: {self.message}", self.hint)


class _AtPivot(NumericalError):
    """A factorisation fails at pivot ``index``; ``batch`` is the position in a batch, if any."""

    index: int
    batch: tuple[int, ...]
    _words: str

    def __init__(self, *, op: str, index: int, batch: tuple[int, ...] = (), hint: str = "", message: str = "") -> None:
        text = message or self._words.format(f"{index} (batch {batch})" if batch else index)
        super().__init__(op=op, message=text, hint=hint, index=index, batch=batch)


class NotPositiveDefinite(_AtPivot):
    """The leading minor of order ``index + 1`` is not positive; ``batch`` is the position in a batch, if any."""

    _words = "the matrix is not positive definite: pivot {} is not positive"


class Singular(_AtPivot):
    """The diagonal entry ``index`` of a triangular factor is exactly zero."""

    _words = "the matrix is singular: diagonal entry {} is zero"


class NotConverged(NumericalError):
    """An iteration stopped after ``iterations`` steps with ``residual`` above what was asked for."""

    iterations: int
    residual: float

    def __init__(self, op: str, iterations: int, residual: float, hint: str = "", message: str = "") -> None:
        text = message or f"not converged after {iterations} iterations, residual {residual:.3g}"
        super().__init__(op=op, message=text, hint=hint, iterations=iterations, residual=residual)


class BackendUnavailable(TrnError, RuntimeError):
    """This machine cannot run the backend at all: ``backend``, ``reason``, ``how`` to get it."""

    backend: str
    reason: str
    how: str

    def __init__(self, backend: str, reason: str, how: str = "") -> None:
        super().__init__(backend=backend, reason=reason, how=how)

    def _text(self) -> str:
        return _sentences(f"backend {self.backend!r} is not available: {self.reason}", self.how)


class RankFailed(TrnError, RuntimeError):
    """Another rank died, hangs or raised: ``failed``, in ``op``; ``rank`` is the one that says so.

    Ranks can go on with their next call where the other one ``raised``; otherwise start the program again.
    """

    op: str
    failed: int
    reason: str
    rank: int
    waiting_for: str

    def __init__(self, op: str, failed: int, reason: str, rank: int, waiting_for: str) -> None:
        super().__init__(op=op, failed=failed, reason=reason, rank=rank, waiting_for=waiting_for)

    @property
    def raised(self) -> bool:
        """Whether the other rank is alive: it raised, every rank has left the call, and the next one will do."""
        return self.reason.startswith("raised ")

    def _text(self) -> str:
        who = f"rank {self.failed}" if self.failed >= 0 else "the failing rank"
        return _sentences(
            f"{self.op}: {who} {self.reason}",
            f"Rank {self.rank} was waiting for {self.waiting_for}",
            "The ranks can go on with another call"
            if self.raised
            else "Start the program again; what was checkpointed is kept",
        )


def _sentences(*parts: str) -> str:
    ended = (part if part[-1] in ".?!" else part + "." for part in parts if part)
    return " ".join(ended)


def _show(value: Any) -> str:
    """Short and exact: types by name, dtypes as users write them, arrays by shape, everything else by repr."""
    if isinstance(value, type):
        return value.__name__
    if getattr(value, "is_nested", False) is True:
        return "a nested tensor"
    if isinstance(shape := getattr(value, "shape", None), tuple) and len(shape):
        return f"{type(value).__name__}{list(shape)}"
    text = repr(value) if isinstance(value, str) else str(value)
    return text.removeprefix("torch.")
