"""NKI 0.7 as far as kernels call it, on the simulator, with a ``jit`` as strict as AWS's is documented to be.

Its tensors are torch's, on the device; its other arguments are constants of a program. A program is compiled once for
shapes, dtypes, constants and cores, and refused where kernel and compiler disagree on the cores of a logical core.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
from neuronx_faults import break_off, spoil

import trnsim
import trnsim.collectives as collectives
import trnsim.isa as isa
import trnsim.language as language

__version__ = "0.7.0"
for _name, _module in (("collectives", collectives), ("isa", isa), ("language", language)):
    sys.modules[f"nki.{_name}"] = _module

# what was compiled, in order
COMPILED = []
# kernels that were followed on tensors without data
TRACED = []


class Jitted:
    """A kernel: called with tensors of the device; ``kernel[2]`` says its cores."""

    def __init__(self, function, grid=None):
        self.function = function
        self.bracket = grid
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.__doc__ = function.__doc__

    def __getitem__(self, grid):
        return Jitted(self.function, grid)

    def __call__(self, *args, **kwargs):
        import torch_neuronx

        machine, switches = torch_neuronx.MACHINE, torch_neuronx.SWITCHES
        fault = switches.get("faults", {}).get(self.__name__, {})
        cores = self.bracket or torch_neuronx.KERNEL_CORES
        _agree(self.__name__, cores, torch_neuronx.COMPILER_CORES)
        if any(isinstance(x, np.ndarray) for x in args):
            return self._compiled_alone(cores, args, kwargs)
        constants = {name: _constant(value, name) for name, value in kwargs.items() if not _is_tensor(value)}
        key = (self.__name__, cores, tuple(map(_kind, args)), tuple(sorted(constants.items(), key=str)))
        if key not in COMPILED:
            self.held = break_off(fault)
            COMPILED.append(key)
        if any(type(value).__name__ == "FakeTensor" for value in args):
            return self._traced(cores, args, kwargs)
        if "fail" in fault:
            raise RuntimeError(fault["fail"])
        results = machine.run(trnsim.kernel.as_kernel(self.function)[cores], args, kwargs)
        if "wrong" not in fault:
            return results
        wrong = [machine.memory.shell(spoil(machine.memory.numbers(x), fault["wrong"])) for x in _listed(results)]
        return wrong[0] if not isinstance(results, tuple) else tuple(wrong)

    def _compiled_alone(self, cores, arrays, constants):
        """Run a kernel that is called with arrays, and keep its program where that was asked for."""
        import torch_neuronx

        run = trnsim.profile(trnsim.kernel.as_kernel(self.function)[cores], target=torch_neuronx.TARGET)
        results, report = run(*arrays, **constants)
        if "NKI_ARTIFACTS_DIR" in os.environ:
            inputs = [list(x.shape) for x in arrays if isinstance(x, np.ndarray)]
            program = json.dumps({"seconds": report.total_s, "inputs": inputs})
            (Path(os.environ["NKI_ARTIFACTS_DIR"]) / "kernel.neff").write_text(program)
        return results

    def _traced(self, cores, args, kwargs):
        """Return results without data, as a compiler that follows an operator asks for them."""
        from torch.utils._python_dispatch import _disable_current_modes

        TRACED.append(self.__name__)
        fake = next(value for value in args if _is_tensor(value))
        with _disable_current_modes():
            shapes = [_shape(x) for x in args]
            run = trnsim.simulate(trnsim.kernel.as_kernel(self.function)[cores], numerics=False, checks=False)
            results = run(*shapes, **kwargs)
        made = [fake.new_empty(x.shape, dtype=x.dtype) for x in _listed(results)]
        return made[0] if not isinstance(results, tuple) else tuple(made)


def _shape(value):
    import torch

    return torch.empty(value.shape, dtype=value.dtype, device="meta") if _is_tensor(value) else value


def _agree(name, kernel, compiler):
    if kernel != compiler:
        raise RuntimeError(
            f"[NCC_EVRF066] kernel {name} was specialised for LNC={kernel} and the graph is compiled for LNC={compiler}"
        )


def _is_tensor(value):
    return hasattr(value, "untyped_storage")


def _listed(results):
    return list(results) if isinstance(results, tuple) else [results]


def _constant(value, name):
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, tuple):
        return tuple(_constant(item, name) for item in value)
    raise TypeError(f"argument {name} is {type(value).__name__}: neither a tensor nor a constant")


def _kind(value):
    if not _is_tensor(value):
        return _constant(value, "of the kernel")
    if value.device.type != "neuron":
        raise ValueError(f"a kernel takes tensors of the Neuron device, and one is on {value.device}")
    if value.dtype.itemsize == 8:
        raise TypeError(f"NKI has no {value.dtype}")
    return tuple(value.shape), value.dtype


def jit(function=None, **options):
    """Make a function a kernel."""
    return jit if function is None else Jitted(function)
