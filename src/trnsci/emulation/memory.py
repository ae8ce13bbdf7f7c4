"""Device memory: torch's tensors of the device are empty shells, and their numbers are host tensors kept here.

A shell has a storage of its own, to which its numbers belong until torch frees it. Views have shells of their own whose
numbers are views, so that what is written to one is seen by the other.
"""

import weakref
from typing import Any

import torch
from torch import Tensor

from trnsci.plans import quantity
from trnsci.torch_internals import create_empty_tensor


class Memory:
    """The numbers of every tensor on the device, by the shell's storage, within a capacity."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.allocated = 0
        self.peak = 0
        self._numbers: dict[int, Tensor] = {}
        # shells that share the memory of one host tensor, and its bytes
        self._shared: dict[int, list[int]] = {}

    def numbers(self, x: Tensor) -> Tensor:
        """Return the host tensor behind one of the device; any other tensor itself."""
        return self._numbers[x.untyped_storage()._cdata] if x.device.type == "neuron" else x

    def shell(self, x: Tensor) -> Tensor:
        """Return a tensor of the device whose numbers are a host tensor's, and count its memory."""
        memory = x.untyped_storage()
        key = memory._cdata
        if key not in self._shared:
            self._reserve(memory.nbytes())
            self._shared[key] = [0, memory.nbytes()]
        self._shared[key][0] += 1
        shell: Tensor = create_empty_tensor(tuple(x.shape), x.dtype)
        storage = shell.untyped_storage()
        self._numbers[storage._cdata] = x
        weakref.finalize(storage, self._free, storage._cdata, key)
        return shell

    def require(self, nbytes: int) -> None:
        """Raise unless ``nbytes`` are free."""
        if self.allocated + nbytes > self.capacity:
            wanted, most, used = (quantity(value, "B") for value in (nbytes, self.capacity, self.allocated))
            raise torch.OutOfMemoryError(
                f"Neuron device out of memory. Tried to allocate {wanted}; {used} of {most} are in use."
            )

    def _reserve(self, nbytes: int) -> None:
        self.require(nbytes)
        self.allocated += nbytes
        self.peak = max(self.peak, self.allocated)

    def _free(self, shell: int, memory: int) -> None:
        del self._numbers[shell]
        entry: Any = self._shared[memory]
        entry[0] -= 1
        if entry[0] == 0:
            self.allocated -= entry[1]
            del self._shared[memory]
