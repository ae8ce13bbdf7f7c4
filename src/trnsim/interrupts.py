"""Ctrl-C while a command imports: one line and status 130, at once."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def leaving(command: str) -> Iterator[None]:
    """Let an interrupt end the program here and now. Nothing is lost by it, and half an import would be confusing.

    Python's own exception is no help there: a library may catch it, or stumble over what it has not imported.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(signum: int, frame: FrameType | None) -> None:
        os.write(2, f"{command}: interrupted\n".encode())
        os._exit(130)

    before = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
