"""A library that the suite has never heard of."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnsci import array_function, check, library_functions, op, run
from trnsci.analogs import Given, given, refuse_options, replaces

__all__ = ["bessel", "get_backend", "set_backend"]

set_backend, get_backend = library_functions("astro")


@replaces("aten::special_modified_bessel_i0")
@array_function
def bessel(x: Tensor) -> Tensor:
    """Return the modified Bessel function of order 0."""
    check.floating("bessel", x=x)
    return run(Bessel(x))


@replaces("numpy.i0", by=bessel)
def _read_numpy(x: Any, **options: Any) -> Given:
    refuse_options(**options)
    return given(bessel, np.asarray(x))


@op("astro::bessel")
class Bessel(NamedTuple):
    """The function of each element."""

    x: Tensor

    def fake(self) -> Tensor:
        return torch.empty_like(self.x)

    def cost(self) -> int:
        return 20 * self.x.numel()

    def pytorch(self) -> Tensor:
        return torch.special.modified_bessel_i0(self.x)
