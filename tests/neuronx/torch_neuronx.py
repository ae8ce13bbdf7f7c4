"""torch-neuronx 2.14 as it is documented, on an emulated device: loaded by torch itself, with switches for a test.

``TORCH_NEURONX_IMITATION`` holds JSON: ``target``; ``faults`` by kernel; ``reports`` (false: no list of fallbacks);
``has_complex``, ``casts``, ``fallback`` and ``has_send`` of `trnsci.emulation.Rules`, which nobody outside AWS knows.
"""

import json
import os

SWITCHES = json.loads(os.environ.get("TORCH_NEURONX_IMITATION", "{}"))
TARGET = SWITCHES.get("target", "trn2")
_SAID = os.environ.get("NEURON_LOGICAL_NC_CONFIG", "")
# a kernel without a bracket is for one core where nothing was said, and the compiler takes two: the trap of 2.33
KERNEL_CORES = int(_SAID or 1)
COMPILER_CORES = int(_SAID or (1 if TARGET == "trn1" else 2))
MACHINE = None
__version__ = "2.14.3.0"


def _autoload():
    """Register the device; torch calls it at the end of its own import."""
    global MACHINE
    import nki  # noqa: F401

    from trnsci.emulation.device import Machine
    from trnsci.emulation.rules import Rules

    limits = {name: SWITCHES[name] for name in ("has_complex", "casts", "fallback", "has_send") if name in SWITCHES}
    MACHINE = Machine(TARGET, Rules(**limits), COMPILER_CORES)
    MACHINE.install()


if SWITCHES.get("reports", True):

    def get_fallback_ops():
        """Return the operators that ran on the host."""
        return sorted(f"aten::{name}" for name in MACHINE.record.fallbacks)

    def clear_op_tracking():
        """Forget them."""
        MACHINE.record.fallbacks.clear()


def nki_op(name, fn=None, mutates_args=()):
    """Register a typed function as an operator; traced, the function is its own fake."""
    import torch

    def decorate(function):
        operator = torch.library.custom_op(name, function, mutates_args=mutates_args)
        operator.register_fake(function)
        return operator

    return decorate if fn is None else decorate(fn)
