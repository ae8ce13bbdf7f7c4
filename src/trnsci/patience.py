"""Limits to waiting that begin again after a pause: Ctrl-Z, ``docker pause`` or a suspended job is no failure."""

import time
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

# Seconds between two looks at the clock.
_LOOK = 0.2


class Patience:
    """A limit to one wait, which looks at its clock at least every few tenths of a second.

    A look that comes much later shows that this process stood still. Then the others may have as well, and the whole
    time is granted again.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._pause = seconds, max(1.0, seconds / 8)
        self._looked = time.monotonic()
        self._end = self._looked + seconds
        self.has_paused = False

    def left(self) -> float:
        """Return the seconds that are left."""
        now = time.monotonic()
        if now - self._looked > self._pause:
            self._end, self.has_paused = now + self._seconds, True
        self._looked = now
        return max(0.0, self._end - now)

    def is_over(self) -> bool:
        """Return whether the time is over."""
        return self.left() == 0.0

    def shorten(self, seconds: float) -> None:
        """Wait no longer than ``seconds`` from now."""
        self._end = min(self._end, self._looked + seconds)

    def sleep(self, seconds: float) -> None:
        """Sleep for ``seconds``, or until the time is over."""
        until = time.monotonic() + seconds
        while (pause := min(until - time.monotonic(), self.left(), _LOOK)) > 0:
            time.sleep(pause)

    def wait(self, answer: Future[T]) -> T:
        """Return the result of a future, or raise `TimeoutError` when the time is over."""
        while not answer.done() and (left := self.left()):
            try:
                return answer.result(min(left, _LOOK))
            except TimeoutError:
                continue
        return answer.result(0)
