"""``torch.compile(model, backend="trnsci")``: the operators that have an analog become ours, another backend the rest.

torch traces a graph to its operators, forward and backward. While it does, the key of `trnsci.drop_in` is on: what has
an analog enters the graph as an operator of the suite, with its gradient. One table serves both, and so do the reasons.
Sizes may be symbols. Where the operators run is decided when the graph runs.
"""

from __future__ import annotations

import functools
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule

from trnsci import ops
from trnsci.drop_in import tracing
from trnsci.errors import ArgumentError, BackendUnavailable, TrnError
from trnsci.graph.unreadable import UNREADABLE
from trnsci.substitutions import Substitutions, outside
from trnsci.torch_internals import (
    aot_autograd,
    aot_config,
    effects,
    list_backends,
    lookup_backend,
    make_boxed_func,
    register_backend,
)

# The operator that raises for singular matrices has no result: torch before 2.13 drops it from graphs as unused.
_RAISES = "aten::_linalg_check_errors"
if effects._get_effect(_RAISES) is None:
    effects._register_effectful_op(_RAISES, effects._EffectType.ORDERED)

INNER = ("eager", "inductor", "neuron")
# modes of torch.compile that tell inductor how to compile, and nothing to others
_INDUCTORS = ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_SEEDED = torch.Tag.nondeterministic_seeded
# records of graphs that are kept
KEPT = 64


@dataclass
class CompiledGraph:
    """Result of compiling one graph of a program.

    Attributes:
        inner: the backend that has the rest.
        substituted: pairs of a torch operator and the function of ours that has its place.
        left_alone: pairs of a torch operator and why it stays one.
        passes: how often each op of the suite stands in ``forward`` or ``inference``, and in ``backward`` once that is
            compiled.
        fallbacks: errors of ours at run time, after which torch ran the graph instead.
        draws: whether it draws torch's random numbers.
    """

    inner: str
    substituted: frozenset[tuple[str, str]] = frozenset()
    left_alone: frozenset[tuple[str, str]] = frozenset()
    passes: dict[str, Counter[str]] = field(default_factory=dict)
    fallbacks: Counter[str] = field(default_factory=Counter)
    draws: bool = False

    def __str__(self) -> str:
        lines = [f"{theirs} -> {ours}" for theirs, ours in sorted(self.substituted)]
        lines += [f"{theirs} left alone: {why}" for theirs, why in sorted(self.left_alone)]
        for name, counts in self.passes.items():
            lines.append(
                f"{name}: " + (", ".join(f"{n} {op}" for op, n in sorted(counts.items())) or "nothing of ours")
            )
        lines += [f"ran on torch instead, {n} times: {why}" for why, n in self.fallbacks.items()]
        return "\n".join([*lines, f"the rest: {self.inner}"])


_graphs: deque[CompiledGraph] = deque(maxlen=KEPT)


def compiled_graphs() -> tuple[CompiledGraph, ...]:
    """Return what became of the graphs compiled last in this process, the latest last."""
    return tuple(_graphs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    inner: str = "eager"
    random: bool = False


def compiler(
    graph: GraphModule, inputs: Sequence[Any], *, mode: str | None = None, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Compile a graph of TorchDynamo's: the backend ``trnsci`` of ``torch.compile``.

    Args:
        graph: what TorchDynamo followed of the program.
        inputs: operands without data.
        mode: the inner backend, as ``options["inner"]``.
        options: ``inner``: ``eager`` (the default: a pass runs as a `trnsci.program` where the backend in force has
            kernels, and on torch elsewhere), or what compiles the rest: ``inductor``, or ``neuron``, AWS's own, in
            whose graphs the suite's kernels are operators; ``random``, to draw from our streams as `drop_in` does.

    Raises:
        ArgumentError: there is no such option, or no such value of it.
        BackendUnavailable: the inner backend is not installed.
    """
    chosen = _read(mode, options)
    record = CompiledGraph(chosen.inner)
    inner, decompositions = _inner(chosen.inner)

    def compile_pass(name: str) -> Callable[..., Any]:
        def compile_graph(traced: GraphModule, given: Sequence[Any]) -> Any:
            known = {op.registered: op.name for op in ops.all_ops()}
            record.passes[name] = Counter(known[node.target] for node in traced.graph.nodes if node.target in known)
            record.draws |= any(_SEEDED in getattr(node.target, "tags", ()) for node in traced.graph.nodes)
            with outside():
                return inner(traced, given)

        return compile_graph

    seen = Substitutions(random=chosen.random, min_size=0, unreadable=UNREADABLE)
    aot = aot_autograd(
        fw_compiler=compile_pass("forward"),
        bw_compiler=compile_pass("backward"),
        inference_compiler=compile_pass("inference"),
        decompositions=decompositions,
        keep_inference_input_mutations=False,
    )
    # torch's cache would answer for the same graph without our operators; inductor orders operators that only raise
    how = {"enable_autograd_cache": False, "unlift_effect_tokens": chosen.inner == "inductor"}
    with tracing(seen), aot_config.patch(how):
        compiled = aot(graph, inputs)
    record.substituted, record.left_alone = frozenset(seen.substituted), frozenset(seen.left_alone)
    _graphs.append(record)
    return _or_plain(compiled, graph, record)


def _read(mode: str | None, options: Mapping[str, Any] | None) -> _Options:
    given = dict(options or {})
    if mode in _INDUCTORS:
        how = 'Leave mode= out, and take options={"inner": "inductor"} to have inductor compile the rest'
        raise ArgumentError("compile", "mode", mode, f"one of {', '.join(INNER)}: that one is inductor's", hint=how)
    if mode not in (None, "default"):
        given.setdefault("inner", mode)
    known: dict[str, tuple[Any, ...]] = {"inner": INNER, "random": (False, True)}
    for name, value in given.items():
        if name not in known:
            raise ArgumentError("compile", "options", name, f"one of {', '.join(known)}")
        if not any(value is one or (isinstance(value, str) and value == one) for one in known[name]):
            raise ArgumentError("compile", name, value, f"one of {', '.join(map(repr, known[name]))}")
    return _Options(**given)


def _inner(name: str) -> tuple[Callable[..., Any], Any]:
    """Return the function that compiles a pass, and the decompositions it wants torch to make while tracing."""
    if name == "inductor":
        from trnsci.torch_internals import inductor, select_decomp_table

        return inductor.compile_fx_inner, select_decomp_table
    if name == "neuron":
        return _neuron, None
    return _as_program, None


def _neuron(traced: GraphModule, given: Sequence[Any]) -> Any:
    from trnsci.neuron_operators import use_compiled_operators

    if "neuron" not in list_backends(exclude_tags=None):
        how = "Install torch-neuronx 2.13 or later, or emulate the device first (trnsci.emulate)"
        raise BackendUnavailable(backend="neuron", reason="torch has no compile backend of that name", how=how)
    compile_graph: Any = lookup_backend("neuron")
    return make_boxed_func(compile_graph(use_compiled_operators(traced), list(given)))


def _as_program(traced: GraphModule, given: Sequence[Any]) -> Any:
    """Run a pass as programs where its backend has kernels, with what they leave to torch in between."""
    from trnsci.graph.program import Program

    return make_boxed_func(Program(traced))


def _or_plain(compiled: Callable[..., Any], graph: GraphModule, record: CompiledGraph) -> Callable[..., Any]:
    """Run torch's own operators where ours refuse their operands: the error a program catches is the one it expects.

    A pass changes its operands after its last operator, so that nothing is half done; random numbers are drawn again.
    """

    @functools.wraps(compiled)
    def run(*args: Any) -> Any:
        before = torch.get_rng_state() if record.draws else None
        try:
            return compiled(*args)
        except TrnError as error:
            record.fallbacks[str(error)] += 1
            if before is not None:
                torch.set_rng_state(before)
            return graph(*args)

    return run


# torch registers what it loads from an entry point; without an installed package there is none
if "trnsci" not in list_backends(exclude_tags=None):
    register_backend(compiler, name="trnsci")
