"""Processes that end when the process that started them does, however it ends."""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

# PR_SET_PDEATHSIG of prctl(2), which Linux alone has.
_SET_SIGNAL = 1
# The parent may have died before the request, and then no signal comes. execv keeps the request.
_TIED = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({_SET_SIGNAL}, {int(signal.SIGKILL)}, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit(128 + {int(signal.SIGKILL)})
os.execv(sys.argv[2], sys.argv[2:])
"""


def tie_command(words: Sequence[str]) -> list[str]:
    """Return a command that runs ``words`` and is killed when this process ends; elsewhere than on Linux, ``words``."""
    if sys.platform != "linux":
        return list(words)
    return [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), *words]


def follow_parent() -> None:
    """Let the kernel kill this process when its parent ends, on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
