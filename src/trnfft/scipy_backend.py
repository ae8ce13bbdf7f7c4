"""This library behind ``scipy.fft``: ``scipy.fft.set_backend(trnfft.scipy_backend)``.

The module is the backend: SciPy reads ``__ua_domain__`` and calls ``__ua_function__``. Arrays of extended precision and
functions this library has not (the fast Hankel transforms) are left to SciPy.
"""

import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from trnfft.dct import dct, dctn, dst, dstn, idct, idctn, idst, idstn
from trnfft.plan import MANY, ONE
from trnsci import ArgumentError

__all__ = ["__ua_domain__", "__ua_function__"]

__ua_domain__ = "numpy.scipy.fft"

_Functions = dict[str, Callable[..., Any]]

_TRIG: _Functions = {f.__name__: f for f in (dct, idct, dst, idst, dctn, idctn, dstn, idstn)}
_FUNCTIONS: _Functions = ONE | MANY | _TRIG


def __ua_function__(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: N807
    """Serve one call of ``scipy.fft``, or return ``NotImplemented``."""
    # SciPy is loaded: it called this.
    from scipy.fft import skip_backend

    name = method.__name__
    function = _FUNCTIONS.get(name)
    if function is None:
        return NotImplemented
    given = inspect.signature(method).bind(*args, **kwargs).arguments
    x = given.pop("x")
    # Permissions SciPy's callers give; nothing here overwrites an operand, and threads are torch's.
    given.pop("overwrite_x", None)
    workers, cpus = given.pop("workers", None), os.cpu_count() or 1
    if workers is not None and (workers == 0 or workers < -cpus):
        expected = f"a number of threads, or -1 to -{cpus} counted back from all of them"
        hint = "workers must not be zero" if workers == 0 else "workers value out of range"
        raise ArgumentError(name, "workers", workers, expected, hint=hint)
    if given.get("plan") is None:
        given.pop("plan", None)
    elif name in _TRIG:
        raise ArgumentError(name, "plan", given["plan"], "None")
    x = x if hasattr(x, "__dlpack__") else np.asarray(x)
    if isinstance(x, np.ndarray) and x.dtype in (np.longdouble, np.clongdouble):
        return NotImplemented
    # What the library itself asks of SciPy is SciPy's to do.
    with skip_backend(sys.modules[__name__]):
        return function(x, **given)
