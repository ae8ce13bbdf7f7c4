"""AWS's ``nki`` as it is documented for a machine without a device: its simulator, and kernels called with arrays.

Called with NumPy arrays a kernel is compiled, which leaves an executable in ``NKI_ARTIFACTS_DIR``, and then run, which
fails where there is no device. ``WHEELS_FAULT`` lets the compiler refuse, or the simulator be wrong.
"""

import os
import pathlib
import sys

import numpy as np

import trnsim
from trnsim import collectives, isa, language

__version__ = "0.7.0"
for _module in (collectives, isa, language):
    sys.modules[f"nki.{_module.__name__.rpartition('.')[2]}"] = _module


class Jitted:
    """A kernel."""

    def __init__(self, function):
        self.function = function
        self.__name__, self.__module__ = function.__name__, function.__module__

    def __getitem__(self, grid):
        return self

    def __call__(self, *arrays, **constants):
        if not all(isinstance(x, (np.ndarray, type(None))) for x in arrays):
            raise TypeError("kernels take arrays")
        if os.environ.get("WHEELS_FAULT") == "refused":
            raise RuntimeError("[NCC_EXAMPLE] the compiler refuses this kernel")
        assert os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] in ("trn2", "trn3")
        trace = []
        trnsim.simulate(self.function, numerics=False, lint="off", trace=trace)(*arrays, **constants)
        (pathlib.Path(os.environ["NKI_ARTIFACTS_DIR"]) / "kernel.neff").write_bytes(bytes(64 * len(trace)))
        raise RuntimeError("no Neuron device is here")


def jit(function=None, **options):
    """Make a function a kernel."""
    return jit if function is None else Jitted(function)


def simulate(kernel):
    """Return what runs a kernel in the simulator."""

    def run(*arrays, **constants):
        result = trnsim.simulate(kernel.function, lint="off")(*arrays, **constants)
        if os.environ.get("WHEELS_FAULT") == "wrong":
            return tuple(x + 1 for x in result) if isinstance(result, tuple) else result + 1
        return result

    return run
