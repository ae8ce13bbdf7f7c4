"""``torch.compile(backend="neuron")`` on the emulated device: one launch for each graph, forward and backward."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnsci.emulation.record import Record
from trnsci.torch_internals import aot_autograd, register_backend


def register_compiler(record: Record) -> None:
    """Register the backend, which runs graphs operator by operator and counts one start for each."""

    def build(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        if any(isinstance(x, torch.SymInt) for x in inputs):
            raise RuntimeError("[NCC_EMOD025] dynamic shapes are not supported: compile with dynamic=False")
        record.compilations += 1

        def launch(*args: Any) -> Any:
            if any(isinstance(x, Tensor) and x.device.type == "neuron" for x in args):
                record.graphs += not record.inside
            record.inside += 1
            try:
                return torch.fx.Interpreter(graph).run(*args)
            finally:
                record.inside -= 1

        launch._boxed_call = False  # type: ignore[attr-defined]
        return launch

    def neuron(graph: torch.fx.GraphModule, inputs: list[Any], *, mode: Any = None, options: Any = None) -> Any:
        if mode not in (None, "default"):
            warnings.warn(f"mode={mode!r} is not known to the neuron backend and changes nothing", stacklevel=2)
        # a graph that cannot be compiled raises, or runs operator by operator; here none is refused for its operators
        unknown = set(options or {}) - {"fallback_execution"}
        if unknown:
            raise RuntimeError(f"the neuron backend does not know the options {sorted(unknown)}")
        return aot_autograd(fw_compiler=build)(graph, inputs)

    register_backend(compiler_fn=neuron, name="neuron")
