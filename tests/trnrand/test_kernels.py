"""Kernels that share helpers, where AWS's package is installed and the simulator runs their twins."""

import sys

from trnrand.kernels import _engines, uniform
from trnsci import kernel_launcher


def test_a_twin_has_twins_of_its_helpers(monkeypatch):
    monkeypatch.setattr(kernel_launcher, "_twins", {})
    twin = kernel_launcher._twin("trnrand.kernels.uniform")
    seam = kernel_launcher._twin("trnsci.nki")
    assert twin.nki is seam.nki
    assert twin._words is not uniform._words
    assert twin._words.__globals__["nisa"] is seam.nisa
    assert sys.modules["trnrand.kernels._engines"] is _engines
    assert sys.modules["trnrand.kernels"].uniform is uniform
    assert sys.modules["trnsci.nki"] is not seam
