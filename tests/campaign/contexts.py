"""Settings of torch, NumPy and Python that may surround a call, none of which may change what it computes."""

import contextlib
import os
import select
import signal
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

SECONDS = 120


class Functions(TorchFunctionMode):
    """A mode that watches torch's functions."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):
    """A mode that watches torch's operators."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _during(begin: Callable[[], Any], end: Callable[[], Any]) -> Iterator[None]:
    begin()
    try:
        yield
    finally:
        end()


def _default_dtype(dtype: torch.dtype) -> Any:
    before = torch.get_default_dtype()
    return _during(lambda: torch.set_default_dtype(dtype), lambda: torch.set_default_dtype(before))


def _precision(name: str) -> Any:
    put = torch.set_float32_matmul_precision
    return _during(lambda: put(name), lambda: put("highest"))


def _deterministic() -> Any:
    put = torch.use_deterministic_algorithms
    return _during(lambda: put(True), lambda: put(False))


def _flushing() -> Any:
    put = torch.set_flush_denormal
    return _during(lambda: put(True), lambda: put(False))


@contextlib.contextmanager
def _strict_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


CONTEXTS: dict[str, Callable[[], Any]] = {
    "autocast to bfloat16": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast to float16": lambda: torch.autocast("cpu", torch.float16),
    "inference mode": torch.inference_mode,
    "no-grad mode": torch.no_grad,
    "deterministic algorithms": _deterministic,
    "default dtype float64": lambda: _default_dtype(torch.float64),
    "default dtype bfloat16": lambda: _default_dtype(torch.bfloat16),
    "default device meta": lambda: torch.device("meta"),
    "flushed subnormal numbers": _flushing,
    "NumPy's errors raised": lambda: np.errstate(all="raise"),
    "warnings raised": _strict_warnings,
    "matmul precision high": lambda: _precision("high"),
    "matmul precision medium": lambda: _precision("medium"),
    "a function mode": Functions,
    "a dispatch mode": Operators,
    "anomaly detection": lambda: torch.autograd.detect_anomaly(check_nan=False),
}
# A dispatch mode sees torch's own operators only: what SciPy would compute, torch does. In inference mode torch itself
# multiplies conjugates in another order.
OTHER_BITS = {"a dispatch mode", "inference mode"}
# Functions without operands follow these, as torch's own do.
DEFAULTS = {"default dtype float64", "default dtype bfloat16", "default device meta"}


def in_fork(work: Callable[[], None]) -> None:
    """Run ``work`` in a child process; raise what it raised there as an AssertionError."""
    there, here = os.pipe()
    child = os.fork()
    if child == 0:
        text = b""
        try:
            work()
        except BaseException as error:  # noqa: BLE001  the parent raises it
            text = f"{type(error).__name__}: {error}".encode()
        with contextlib.suppress(OSError):
            os.write(here, text[:60000])
        os._exit(0)
    os.close(here)
    try:
        ready, _, _ = select.select([there], [], [], SECONDS)
        if not ready:
            os.kill(child, signal.SIGKILL)
        text = os.read(there, 60000) if ready else f"not finished after {SECONDS} s".encode()
    finally:
        os.close(there)
        os.waitpid(child, 0)
    assert not text, text.decode()
