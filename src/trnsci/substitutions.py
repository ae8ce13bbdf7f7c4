"""The record of a block of `trnsci.drop_in`, and the size from which a call may be ours.

Both are asked at every call, so the answers that most calls get come first and cost less than a microsecond.
"""

import functools
from collections import Counter
from contextvars import ContextVar
from typing import Any

from trnsci import neuron
from trnsci.backends import SCOPE, Library, library
from trnsci.ledger import EVERYWHERE, Substitution, record
from trnsci.libraries import names
from trnsci.torch_internals import DispatchKeySet, exclude_keys, parse_key

_KERNELS = ("simulator", "nki")
RANDOM = "random numbers stay torch's unless random=True"
SMALL = "too small to pay here: drop_in(min_size=0) takes it"


class Substitutions:
    """Calls that ran here instead, and calls that were left alone and why, with counts."""

    def __init__(
        self, *, random: bool, min_size: int | None = None, unreadable: tuple[type[Exception], ...] = ()
    ) -> None:
        self.random = random
        # with a device, a prediction decides for each call
        self.min_size = 0 if min_size is None and neuron.device() is not None else min_size
        # what a tracer raises where values are looked at; there operands are its own tensors
        self.unreadable = unreadable
        # settings of the process are read once, and those of blocks at every call
        self._looks = any(_asks_for_kernels(library(name)) for name in names())
        self.substituted: Counter[tuple[str, str]] = Counter()
        self.left_alone: Counter[tuple[str, str]] = Counter()

    def __str__(self) -> str:
        lines = [f"{theirs} -> {ours}: {n}" for (theirs, ours), n in sorted(self.substituted.items())]
        lines += [f"{theirs} left alone: {why}: {n}" for (theirs, why), n in sorted(self.left_alone.items())]
        return "\n".join(lines) or "nothing was called that has an analog"

    def least(self, declared: int, ours: Library) -> int:
        """Return the elements of the largest operand from which a call may be ours, where ``declared`` could pay.

        Kernels that were asked for by name run at every size.
        """
        if self.min_size is not None:
            return self.min_size
        scope = SCOPE.get()
        if (self._looks or (scope is not None and scope.choices)) and _asks_for_kernels(ours):
            return 0
        return declared

    def note(self, theirs: str, ours: str, why: str) -> None:
        """Count a call: ours took it, or it was left alone for a reason."""
        (self.substituted if ours else self.left_alone)[theirs, ours or why] += 1
        if EVERYWHERE or SCOPE.get() is not None:
            record(Substitution(theirs, ours, why))


def _asks_for_kernels(ours: Library) -> bool:
    return ours.choice().name in _KERNELS


# the record of the block that is open in this thread; nothing while ours or theirs run for it
ACTIVE: ContextVar[Substitutions | None] = ContextVar("trnsci.drop_in", default=None)


# torch keeps this key for experiments with modes; nothing of its own listens there
KEY = "TESTING_ONLY_GenericMode"


@functools.cache
def dispatch_key() -> Any:
    """Return the key of torch's dispatcher that is on inside a block."""
    return parse_key(KEY)


@functools.cache
def dispatch_keys() -> Any:
    """Return the set of that key alone."""
    return DispatchKeySet(dispatch_key())


def outside() -> Any:
    """Return a block in which nothing of torch's is substituted."""
    return exclude_keys(dispatch_keys())
