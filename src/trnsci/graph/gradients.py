"""Programs that are differentiated: torch splits what it traced into a forward and a backward graph, a program each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.aot_autograd import aot_function
from torch.utils._pytree import tree_flatten, tree_unflatten

from trnsci.drop_in import tracing
from trnsci.graph.tracing import UNREADABLE
from trnsci.substitutions import Substitutions, outside


def make_differentiable(
    function: Callable[..., Any], leaves: Sequence[Any], spec: Any, make: Callable[[Any], Callable[..., Any]]
) -> Callable[..., Any]:
    """Return a function of the tensors among the leaves; ``make`` compiles the graph of either pass."""
    where = [index for index, x in enumerate(leaves) if isinstance(x, Tensor)]
    results: list[Any] = []

    def flat(*tensors: Tensor) -> list[Any]:
        filled = list(leaves)
        for index, tensor in zip(where, tensors, strict=True):
            filled[index] = tensor
        args, kwargs = tree_unflatten(filled, spec)
        values, tree = tree_flatten(function(*args, **kwargs))
        results.append((tree, [None if isinstance(x, Tensor) else x for x in values]))
        return [x for x in values if isinstance(x, Tensor)]

    def compile_pass(graph: Any, _: Any) -> Any:
        with outside():
            return make_boxed_func(make(graph))

    compiler: Any = compile_pass
    compiled = aot_function(flat, fw_compiler=compiler, bw_compiler=compiler)

    def run(*tensors: Tensor) -> Any:
        with tracing(Substitutions(random=False, min_size=0, unreadable=UNREADABLE)):
            values = iter(compiled(*tensors))
        tree, static = results[0]
        return tree_unflatten([next(values) if x is None else x for x in static], tree)

    return run
