"""Programs that go on after a restart."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from trnsci import config
from trnsci.distributed.world import leave
from trnsci.errors import ArgumentError
from trnsci.signals import terminable

T = TypeVar("T")


def restartable(function: Callable[..., T], *args: Any, **options: Any) -> T:
    """Call ``function(*args, resume=n, **options)``, where n is how often `trnsci launch --restarts` started again.

    The function keeps what it has finished in a file, and with ``resume`` above 0 goes on from there, possibly on fewer
    ranks than before. SIGTERM ends it by an exception, so that its ``finally`` blocks run.

    Example:
        >>> def work(name, *, resume):
        ...     return f"{name} goes on" if resume else f"{name} starts"
        >>> restartable(work, "sum")
        'sum starts'
    """
    parameters = inspect.signature(function).parameters.values()
    if not any(p.name == "resume" or p.kind is p.VAR_KEYWORD for p in parameters):
        raise ArgumentError("restartable", "function", function, "a function that takes resume=")
    with terminable():
        result = function(*args, resume=config.restarts(), **options)
    leave()
    return result
