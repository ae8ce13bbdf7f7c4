"""Errors a tracer raises where a function looks at values of tensors."""

from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from trnsci.torch_internals import fake_tensor

UNREADABLE = (
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
    fake_tensor.UnsupportedOperatorException,
    GuardOnDataDependentSymNode,
)
