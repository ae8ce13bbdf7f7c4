"""The error of a result, asked for beside any call, so that no option changes what a function returns."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Generic, NamedTuple, ParamSpec, TypeVar

from trnsci.errors import UnsupportedError
from trnsci.ledger import ledger

P = ParamSpec("P")
R = TypeVar("R")


class Achieved(NamedTuple, Generic[R]):
    """A result, and the relative error it is within; the function's page says relative to what."""

    result: R
    error: float


_STATED: ContextVar[list[float] | None] = ContextVar("trnsci.stated", default=None)


def achieved(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Achieved[R]:
    """Call a function, and return with its result the error guaranteed where it was computed.

    The error is what the function itself verified, or the stated bound of the one op it ran.

    Raises:
        UnsupportedError: the function states no error for this call. Its result is not lost by asking first:
            `trnsci.plan` says which steps state one.

    Example:
        >>> result, error = trnsci.achieved(trnblas.gemm, 1.0, a, b, target_error=1e-10)
    """
    stated: list[float] = []
    token = _STATED.set(stated)
    try:
        with ledger() as book:
            result = function(*args, **kwargs)
    finally:
        _STATED.reset(token)
    if not stated:
        bounds = [entry.error_bound for entry in book if entry.depth == 0]
        stated = [bound for bound in bounds if bound is not None] if len(bounds) == 1 else []
    if not stated:
        name = getattr(function, "__name__", repr(function))
        reason = f"it states no error for this call, which ran {len(book)} ops"
        raise UnsupportedError(name, [("achieved", reason)], hint="Compare with a call in a wider dtype")
    return Achieved(result, stated[-1])


def state_error(error: float) -> None:
    """Report to `achieved` the error that a function has verified of its result."""
    stated = _STATED.get()
    if stated is not None:
        stated.append(error)
