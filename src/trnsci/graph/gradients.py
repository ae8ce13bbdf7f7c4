"""Programs that are differentiated: torch splits what it traced into a forward and a backward graph, a program each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from trnsci.drop_in import tracing
from trnsci.graph.tracing import FlatFunction
from trnsci.graph.unreadable import UNREADABLE
from trnsci.substitutions import Substitutions, outside
from trnsci.torch_internals import aot_function, make_boxed_func


def make_differentiable(flat: FlatFunction, make: Callable[[Any], Callable[..., Any]]) -> Callable[..., Any]:
    """Return a function of the tensors among the arguments; ``make`` compiles the graph of either pass."""

    def compile_pass(graph: Any, _: Any) -> Any:
        with outside():
            return make_boxed_func(make(graph))

    compiler: Any = compile_pass
    compiled = aot_function(flat, fw_compiler=compiler, bw_compiler=compiler)

    def run(*tensors: Tensor) -> Any:
        with tracing(Substitutions(random=False, min_size=0, unreadable=UNREADABLE)):
            return flat.join(compiled(*tensors))

    return run
