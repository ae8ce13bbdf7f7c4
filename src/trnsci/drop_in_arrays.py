"""Calls of NumPy and SciPy inside `trnsci.drop_in`: made here, or left alone with the reason."""

import functools
import sys
from typing import Any

from trnsci.analogs import LEAST_READ_ONCE, Different, functions
from trnsci.analogs.operands import largest_operand, why_foreign
from trnsci.analogs.replacing import IS_PROGRAM, Function, Replacement
from trnsci.backends import library
from trnsci.errors import TrnError
from trnsci.substitutions import ACTIVE, SMALL, Substitutions, outside

# what fails here is theirs to do, or to refuse in the words that a program expects
_FAILURES = (Different, TrnError, TypeError, ValueError, AttributeError, LookupError, RuntimeError)


class _Call(Replacement):
    """Stand-in for a function of NumPy or SciPy while blocks are open."""

    def __init__(self, name: str, function: Function) -> None:
        super().__init__(name, function)
        self._analog = functions()[name]
        self._library = library(self._analog.name.partition(".")[0])
        self._small = name, SMALL

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self.attempt(args, kwargs)
        return self._function(*args, **kwargs) if result is NotImplemented else result

    # frames of this name are passed over where a warning looks for the line that caused it, as those of an import are
    __call__.__code__ = __call__.__code__.replace(co_filename="<importlib._bootstrap: trnsci.drop_in>")

    def attempt(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a program's call, made two frames above; ``NotImplemented`` leaves it alone."""
        seen = ACTIVE.get()
        if seen is not None and IS_PROGRAM[sys._getframe(2).f_globals.get("__name__", "")]:
            size = largest_operand(args)
            if kwargs:
                size = max(size, largest_operand(kwargs.values()))
            if size >= seen.least(self._analog.least, self._library):
                return self._take(seen, size, args, kwargs)
            seen.left_alone[self._small] += 1
        return NotImplemented

    def _take(self, seen: Substitutions, size: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a program's call here, or leave it alone."""
        why = self._analog.left or why_foreign(args) or (why_foreign(kwargs.values()) if kwargs else "")
        if not why and size < LEAST_READ_ONCE and self._reads_once(seen, args, kwargs):
            why = SMALL
        if not why:
            # what runs in here, ours or theirs, calls NumPy itself
            token = ACTIVE.set(None)
            try:
                with outside():
                    result, ours = self._analog.run(args, kwargs)
                seen.note(self._name, ours, "")
                return result
            except _FAILURES as error:
                why = str(error)
            finally:
                ACTIVE.reset(token)
        seen.note(self._name, "", why)
        return NotImplemented

    def _reads_once(self, seen: Substitutions, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if self._analog.reads_once is None or seen.least(LEAST_READ_ONCE, self._library) == 0:
            return False
        try:
            return self._analog.reads_once(*args, **kwargs)
        except (TypeError, ValueError):
            # no call of theirs, which says so itself
            return False


_TRANSFORMS: dict[Function, _Call] = {}


@functools.cache
def make_call(name: str, function: Function) -> Function:
    """Return what stands for a function inside a block; those of ``scipy.fft`` stay, and ask `Transforms`."""
    call = _Call(name, function)
    if not name.startswith("scipy.fft."):
        return call
    _TRANSFORMS[function] = call
    return function


class Transforms:
    """A backend of ``scipy.fft``, whose functions ask for one however a program came by them.

    A backend that the program sets inside the block is asked first.
    """

    __ua_domain__ = "numpy.scipy.fft"

    @staticmethod
    def __ua_function__(method: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call here, or return ``NotImplemented``."""
        call = _TRANSFORMS.get(method)
        return NotImplemented if call is None else call.attempt(args, kwargs)
