"""Arithmetic inside an op is what its plan says, whatever settings of torch and NumPy surround the call.

Four settings reach into their functions. Autocast rounds the operands of products. The precision of float32 products
can be lowered for the whole process. Subnormal numbers can be flushed to zero in one thread, while torch's other
threads keep them. ``np.errstate`` can raise where a number underflows. `isolated` suspends all four for a block;
`is_disturbed` says whether one is in force.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import Context, ContextVar

import torch
from numpy._core.umath import _extobj_contextvar as _numpy_errors

from trnsci.torch_internals import disable_autocast, fp32_precision, is_autocast, set_fp32_precision

# Whether a setting is suspended here, so that gradients have to be computed without it, too.
ISOLATED: ContextVar[bool] = ContextVar("trnsci.isolated", default=False)

_SUBNORMAL = 5e-324
_FULL = ("none", "ieee")
_CUDA = torch.version.cuda is not None
# what NumPy does about errors by itself; np.geterr() would take longer than the rest of an inspection
_NUMPY_DEFAULT = Context().run(_numpy_errors.get)


def is_disturbed() -> bool:
    """Return whether a setting would change arithmetic here. Every call of an op asks: it has to be cheap."""
    return (
        is_autocast()
        or _numpy_errors.get() is not _NUMPY_DEFAULT
        or _SUBNORMAL * 1.0 == 0.0
        or fp32_precision("mkldnn", "matmul") not in _FULL
        or (_CUDA and fp32_precision("cuda", "matmul") not in _FULL)
    )


@contextmanager
def isolating() -> Iterator[None]:
    """Compute without autocast, in full float32 precision, with subnormal numbers and NumPy's own errors."""
    flushes = _SUBNORMAL * 1.0 == 0.0
    with disable_autocast() if is_autocast() else nullcontext(), _PRODUCTS:
        token, errors = ISOLATED.set(True), _numpy_errors.set(_NUMPY_DEFAULT)
        if flushes:
            torch.set_flush_denormal(False)
        try:
            yield
        finally:
            _numpy_errors.reset(errors)
            ISOLATED.reset(token)
            if flushes:
                torch.set_flush_denormal(True)


class _FullProducts:
    """Float32 products of full precision while any thread is inside: the setting belongs to the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: dict[str, str] = {}

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            for backend in ("mkldnn", "cuda"):
                asked = fp32_precision(backend, "matmul")
                if asked not in _FULL:
                    # "none" follows the setting of the process, which may be where the request came from
                    set_fp32_precision(backend, "matmul", "none")
                    follows = fp32_precision(backend, "matmul") == asked
                    self._before[backend] = "none" if follows else asked
                    set_fp32_precision(backend, "matmul", "ieee")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                for backend, asked in self._before.items():
                    set_fp32_precision(backend, "matmul", asked)
                self._before.clear()


_PRODUCTS = _FullProducts()
