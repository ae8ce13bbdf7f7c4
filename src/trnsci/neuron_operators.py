"""Every op as an operator of torch-neuronx (``nki_op``), so that ``torch.compile(backend="neuron")`` keeps its kernels.

Neuron asks for a typed function that calls kernels, and traces it as its own fake implementation. In a graph that is
compiled there an op is such an operator; called eagerly, nothing changes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from trnsci import neuron, ops
from trnsci.errors import TrnError, UnsupportedError
from trnsci.gradient import Gradient
from trnsci.graph.unreadable import UNREADABLE
from trnsci.kernel_launcher import Launcher, using
from trnsci.schema import schema
from trnsci.specs import tensors_in
from trnsci.torch_internals import FakeTensor

_TYPES: dict[str, Any] = {
    "Tensor": Tensor,
    "SymInt": int,
    "float": float,
    "bool": bool,
    "str": str,
    "Scalar": torch.types.Number,
    "ScalarType": torch.dtype,
    "Device": torch.device,
}


class _Tracer(Launcher):
    """Calls kernels on tensors without data: AWS's ``nki.jit`` makes each a node of the graph."""

    backend = "nki"

    def launch(self, kernel: Any, tensors: tuple[Any, ...], grid: int, static: dict[str, Any]) -> Any:
        if not all(isinstance(t, FakeTensor) and t.device.type == "neuron" for t in tensors_in(tensors)):
            raise UnsupportedError(kernel.__name__, [(self.backend, "a table of numbers is no argument of the graph")])
        return (kernel[grid] if neuron.needs_bracket(grid) else kernel)(*tensors, **static)


def register_compiled_operators() -> int:
    """Register every op that has a kernel with torch-neuronx, where it is there; return how many are registered."""
    nki_op = neuron.operator_decorator()
    if nki_op is None:
        return 0
    for op in ops.all_ops():
        if not op.eager and hasattr(op.kind, "nki") and op.kind._compiled is None:
            op.kind._compiled = _operator(op, nki_op)
    return sum(op.kind._compiled is not None for op in ops.all_ops())


def _operator(op: Any, nki_op: Any) -> Any:
    library, _, stem = op.name.partition("::")
    registered = nki_op(f"{library}_neuron::{stem}", _typed_function(op), mutates_args=())
    if op.differentiable:
        gradient = Gradient(op.kind)
        registered.register_autograd(gradient.backward, setup_context=gradient.setup)
    return registered


def use_compiled_operators(graph: GraphModule) -> GraphModule:
    """Replace the suite's operators in a graph by those that torch-neuronx knows."""
    if register_compiled_operators():
        known = {op.registered: op.kind._compiled._opoverload for op in ops.all_ops() if op.kind._compiled is not None}
        for node in graph.graph.nodes:
            node.target = known.get(node.target, node.target)
        graph.recompile()
    return graph


def _typed_function(op: Any) -> Callable[..., Any]:
    """Return a function with the annotations of an op's schema, which calls its kernels or, run eagerly, the op."""

    def call(*args: Any) -> Any:
        instance = op.kind(*args)
        if any(isinstance(x, FakeTensor) or x.is_meta for x in tensors_in(args)):
            result = _follow_kernels(op, instance)
        else:
            result = op.run_from_torch(*args)
        return tuple(result) if isinstance(result, tuple) else result

    fields, _, results = schema(op.kind).partition(" -> ")
    parameters = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=_type(kind))
        for kind, name in (part.split() for part in fields.strip("()").split(", "))
    ]
    parts = results.strip("()").split(", ")
    returned = tuple[tuple(map(_type, parts))] if results.startswith("(") else _type(results)  # type: ignore[misc]
    call.__name__ = op.name.partition("::")[2]
    call.__signature__ = inspect.Signature(parameters, return_annotation=returned)  # type: ignore[attr-defined]
    return call


def _follow_kernels(op: Any, instance: Any) -> Any:
    """Return the result without data: of the kernels where they are launched on shapes alone, else of the op."""
    device = neuron.device()
    on_device = all(x.device.type == "neuron" for x in tensors_in(tuple(instance)))
    if device is None or not on_device or op.refusal(instance, "nki") is not None:
        return instance.fake()
    try:
        with using(_Tracer(device.target)):
            return instance.nki()
    except (TrnError, *UNREADABLE):
        # it looks at values between its launches, or has tables: one operator, whose kernels the compiler does not see
        return instance.fake()


def _type(kind: str) -> Any:
    """Return the annotation of a type of a schema: ``Tensor?``, ``SymInt[]``."""
    name, *marks = re.findall(r"\w+|\?|\[\]", kind)
    annotation = _TYPES[name]
    for mark in marks:
        annotation = list.__class_getitem__(annotation) if mark == "[]" else annotation | None
    return annotation
