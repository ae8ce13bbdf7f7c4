"""Every public function beside the function of NumPy, SciPy or torch that a reader would take instead.

Each module has ``cases(n)``, calls at one size, and ``ALONE``, functions that nothing is beside, with the reason.
Counterparts get what they want, tensors for torch and arrays for SciPy, so that converting operands counts as ours.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from tests import samples
from trnsci.testing import gaussian

Work = Callable[[], Any]
# ours, the name of the counterpart, theirs
Beside = tuple[Work, str, Work]
Cases = dict[str, Beside]
# rows of a matrix, or the square root of the elements of anything else
SIZES = {"tiny": 8, "small": 64, "middle": 256}
MODULES = {
    "trnblas": ("blas",),
    "trnfft": ("fft",),
    "trnrand": ("rand",),
    "trnsolver": ("dense", "iterations"),
    "trnsparse": ("sparse",),
    "trntensor": ("tensor",),
    "trnchem": ("chem",),
}


def double(*shape: int, seed: int = 1) -> torch.Tensor:
    """Gaussian numbers in float64."""
    return gaussian(shape, seed, torch.float64)


def fortran(x: torch.Tensor) -> np.ndarray:
    """The array that LAPACK and BLAS read as it is."""
    return np.asfortranarray(x.numpy())


def cases(library: str, n: int) -> Cases:
    """All calls of a library at a size, by name; a name after a space tells variants of a function apart."""
    modules = [importlib.import_module(f"benchmarks.counterparts.{name}") for name in MODULES[library]]
    listed = {f"{library}.{name}": case for module in modules for name, case in module.cases(n).items()}
    own = {name.partition(" ")[0] for name in listed}
    rows = [name for name in samples.ORACLES if name.startswith(f"{library}.") and name not in own]
    return listed | {name: _sampled(name, n) for name in rows}


def _sampled(name: str, n: int) -> Beside:
    """Return the sample of a function, every size n, beside the oracle that its row names."""
    operands: list[torch.Tensor] = []

    def make(shape: tuple[int, ...], _: torch.dtype) -> torch.Tensor:
        operands.append(double(*[n] * len(shape), seed=len(operands) + 1))
        return operands[-1]

    function, positional, named = samples.sample(name, make)
    theirs = partial(samples.oracle(name), *(x.numpy() for x in operands))
    return partial(function, *positional, **named), samples.ORACLES[name][0], theirs


def alone(library: str) -> dict[str, str]:
    """Functions without a counterpart, and why."""
    modules = [importlib.import_module(f"benchmarks.counterparts.{name}") for name in MODULES[library]]
    return {f"{library}.{name}": why for module in modules for name, why in module.ALONE.items()}
