"""SIGTERM as an exception, so that what has to be saved is saved, and moments that no signal interrupts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(SystemExit):
    """SIGTERM has come: like an interrupt from the keyboard, it ends the program after ``finally`` blocks have run."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)

    def __str__(self) -> str:
        return "SIGTERM"


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


def _on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM end the block by `Terminated`, where the program has no handler of its own.

    Python runs handlers on its main thread, between two of its own instructions: in another thread the block changes
    nothing, and a long call into a library ends first.
    """
    if not _on_main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back until the block has ended; they have their effect then."""
    if not _on_main_thread():
        yield
        return
    came: list[int] = []
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in kept.items():
        if handler not in (signal.SIG_DFL, signal.SIG_IGN, None):
            signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in kept.items():
            if handler is not None:
                signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)
