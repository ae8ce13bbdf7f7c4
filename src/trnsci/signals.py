"""SIGTERM as an exception, so that what has to be saved is saved."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(SystemExit):
    """Raised at SIGTERM. Like an interrupt from the keyboard it ends the program after ``finally`` blocks have run."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)

    def __str__(self) -> str:
        return "SIGTERM"


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM end the block by `Terminated`, where the program has no handler of its own.

    Python runs handlers on its main thread, between two of its own instructions: in another thread the block changes
    nothing, and a long call into a library ends first.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
