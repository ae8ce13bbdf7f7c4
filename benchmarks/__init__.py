"""Benchmarks: one file per stem, every op beside its peers, predicted cycles held to recorded baselines."""

import importlib
import sys
from types import TracebackType

from trnsim.interrupts import leaving


def _hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    print("benchmarks: interrupted", file=sys.stderr)
    raise SystemExit(130)


if sys.argv[:1] == ["-m"]:
    # a module of this package is the program, which an interrupt ends with one line
    sys.excepthook = _hook
    with leaving("benchmarks"):
        importlib.import_module("torch")
