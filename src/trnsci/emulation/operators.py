"""Every operator of torch's on the emulated device: computed on the host, behind the device's rules, and counted."""

import functools
import math
import warnings
from typing import Any

import torch
from torch import Tensor

from trnsci.emulation import rules
from trnsci.emulation.memory import Memory
from trnsci.emulation.record import Record
from trnsci.emulation.rules import REFUSED, Rules
from trnsci.specs import tensors_in
from trnsci.torch_internals import has_kernel, operator_names, tree_map

# torch makes these of others, or must keep them for shells
_OWN = ("_to_copy", "copy_", "_copy_from", "detach", "alias", "set_")
_CHOICES = frozenset((torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape))
_SILENT = ("empty", "empty_strided", "_local_scalar_dense", "resize_", "record_stream")


class Operators:
    """The kernels of one device, for torch's dispatcher."""

    def __init__(self, memory: Memory, record: Record, limits: Rules) -> None:
        self.memory = memory
        self.record = record
        self.limits = limits
        # whether the device belongs to the process this one was forked from
        self.is_lost = False
        self._libraries: list[Any] = []

    def register(self) -> None:
        """Register a kernel for every operator that torch does not make of others."""
        everything = torch.library.Library("_", "IMPL", "PrivateUse1")
        everything.fallback(self.compute)
        own = torch.library.Library("aten", "IMPL", "PrivateUse1")
        for name in operator_names():
            packet, _, overload = name.removeprefix("aten::").partition(".")
            explicit = any(has_kernel(name, f"CompositeExplicitAutograd{kind}") for kind in ("", "NonFunctional"))
            creates = packet in ("empty", "empty_strided") and overload in ("memory_format", "")
            implicit = has_kernel(name, "CompositeImplicitAutograd")
            if name.startswith("aten::") and (explicit or creates) and not implicit and packet not in _OWN:
                op = getattr(getattr(torch.ops.aten, packet), overload or "default")
                own.impl(name.removeprefix("aten::"), functools.partial(self.compute, op))
        own.impl("_copy_from", self.copy)
        self._libraries = [everything, own]

    def copy(self, source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
        """Copy between host and device, or on the device."""
        if source.device.type != target.device.type:
            self.record.transfer("to" if target.device.type == "neuron" else "from", target.nbytes)
        else:
            self.record.dispatch("copy_", True, source.nbytes + target.nbytes)
        self._refuse_complex(target)
        numbers = self.memory.numbers(source)
        if self.limits.casts and target.device.type == "neuron":
            numbers = rules.narrow_result(rules.lower_precision(numbers), numbers.dtype)
        self.memory.numbers(target).copy_(numbers)
        return target

    def compute(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """Run any operator on the numbers of its operands."""
        packet = op._schema.name.removeprefix("aten::")
        _refuse_layout(kwargs)
        self._refuse_device(kwargs.get("device"))
        if op._schema.arguments and op._schema.arguments[0].name == "size":
            # before the host tries to find room for it
            dtype = kwargs.get("dtype") or torch.get_default_dtype()
            self.memory.require(math.prod(args[0]) * dtype.itemsize)
        view = rules.is_view(op)
        self._count(packet, view, args)
        args = tuple(_as_tensors(op, args))
        if packet in ("view", "_unsafe_view") and op._overloadname != "dtype":
            # a shell calls itself contiguous, whatever its numbers are
            op = torch.ops.aten.reshape.default
        operands: dict[int, Tensor] = {}
        # neither views nor choices of elements compute, and the shapes of choices are unknown without the numbers
        exact = view or not self.limits.casts or bool(_CHOICES.intersection(op.tags))

        def on_host(x: Any) -> Any:
            if isinstance(x, Tensor):
                numbers = self.memory.numbers(x)
                operands[id(x)] = numbers if exact else rules.lower_precision(numbers)
                return operands[id(x)]
            return torch.device("cpu") if isinstance(x, torch.device) else x

        out = op(*(tree_map(on_host, x) for x in args), **tree_map(on_host, kwargs))
        written = self._changed_operands(op, args, kwargs)
        if written:
            self._write_back(written, operands)
            if not op._schema.returns:
                return None
            return written[0] if isinstance(out, Tensor) else tuple(written)
        if exact:
            return tree_map(functools.partial(self._result, packet), out)
        wide = {x.dtype for x in tensors_in([*args, *kwargs.values()])} & {torch.float64, torch.complex128}
        claimed = _promise_results(op, args, kwargs) if wide else out
        return tree_map(functools.partial(self._result, packet), out, claimed)

    def _changed_operands(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return the operands an operator changes."""
        named = dict(zip((s.name for s in op._schema.arguments), args, strict=False)) | kwargs
        changes = [s.name for s in op._schema.arguments if s.alias_info is not None and s.alias_info.is_write]
        return [named[name] for name in changes if name in named]

    def _count(self, packet: str, view: bool, args: tuple[Any, ...]) -> None:
        """Count the operator where it runs, or raise where it does not."""
        if packet == "_local_scalar_dense":
            self.record.transfer("from", args[0].nbytes)
        if view or packet in _SILENT:
            return
        nbytes = sum(x.nbytes for x in tensors_in(list(args)))
        where = rules.ending(packet)
        if where == "host":
            if not self.limits.fallback:
                self.record.refused[packet] += 1
                raise NotImplementedError(f"aten::{packet} is not implemented for the Neuron device")
            self.record.fall_back(packet, nbytes)
        else:
            self.record.dispatch(packet, where == "device", nbytes)
        if self.limits.casts and any(x.dtype == torch.float64 for x in tensors_in(list(args))):
            self.record.casts[packet] += 1

    def _write_back(self, written: list[Any], operands: dict[int, Tensor]) -> None:
        """Give operands that were changed their new numbers, and their new shape."""
        for x in written:
            for each in tensors_in(x):
                numbers, new = self.memory.numbers(each), operands[id(each)]
                if new is not numbers:
                    numbers.resize_(new.shape).copy_(rules.narrow_result(new, numbers.dtype))
                if each.device.type == "neuron" and numbers.shape != each.shape:
                    each.data = self.memory.shell(numbers)

    def _result(self, packet: str, x: Any, claimed: Any = None) -> Any:
        """Return a result on the device, of the dtype it claims."""
        if not isinstance(x, Tensor):
            return x
        if claimed is not None:
            x = rules.narrow_result(rules.lower_precision(x), claimed.dtype)
        self._refuse_complex(x, packet)
        return self.memory.shell(x)

    def _refuse_device(self, device: Any) -> None:
        if self.is_lost:
            raise RuntimeError("cannot start the Neuron runtime again in a forked process: use the start method spawn")
        if isinstance(device, torch.device) and device.type == "neuron" and device.index not in (None, 0):
            raise RuntimeError(f"invalid device {device}: this process has one logical core, the device neuron")

    def _refuse_complex(self, x: Tensor, packet: str = "to") -> None:
        if x.is_complex() and not self.limits.has_complex and x.device.type != "meta":
            self.record.refused[packet] += 1
            raise RuntimeError(REFUSED)


def _refuse_layout(kwargs: dict[str, Any]) -> None:
    if kwargs.get("memory_format") in (torch.channels_last, torch.channels_last_3d):
        raise RuntimeError("the Neuron device has no memory format channels_last")


def _as_tensors(op: Any, args: tuple[Any, ...]) -> Any:
    """Yield the arguments, numbers as tensors where the operator wants some."""
    for x, s in zip(args, op._schema.arguments, strict=False):
        wants = isinstance(x, int | float) and str(s.type) == "Tensor"
        yield torch.tensor(x, device="cpu") if wants else x  # the operand decides the dtype


def _promise_results(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the results of an operator without numbers, with the dtypes torch promises."""

    def without_numbers(x: Any) -> Any:
        if isinstance(x, Tensor):
            return torch.empty(x.shape, dtype=x.dtype, device="meta")
        return torch.device("meta") if isinstance(x, torch.device) else x

    return op(*tree_map(without_numbers, args), **tree_map(without_numbers, kwargs))


def quietly(register: Any) -> None:
    """Register operators without torch's warning that some replace its own."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
        register()
