"""A function of torch tensors as a graph of kernel launches and ATen operators on real tensors.

The function is traced twice. The first graph has ops of the suite and ATen operators. In the second every op is what
its ``nki`` method does: launches, and torch functions around them. Complex values are planes there. So an op needs
nothing of its own to be part of a program.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta, set_stack_trace

import trnsim
from trnsci import check, config, ops
from trnsci.analogs import Different, operators
from trnsci.calling_lines import calling_line
from trnsci.drop_in import tracing
from trnsci.errors import ArgumentError, TrnError, UnsupportedError
from trnsci.graph.decompositions import decompositions
from trnsci.graph.draws import UNSEEDED, Captured, collecting_draws, refuse_seed
from trnsci.graph.folding import detach_copies, fold
from trnsci.graph.unreadable import UNREADABLE
from trnsci.kernel_launcher import Launcher, as_simulated, current, using
from trnsci.planar import PlanarTensor
from trnsci.specs import freeze, thaw
from trnsci.substitutions import Substitutions
from trnsci.torch_internals import (
    FakeTensor,
    HigherOrderOperator,
    TorchDispatchMode,
    disable_modes,
    effects,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_unflatten,
)

_aten = torch.ops.aten
_SEEDED = torch.Tag.nondeterministic_seeded
_FRAGMENT: Any = torch.library.Library("trnsci", "FRAGMENT")
_FRAGMENT.define("launch(int index, Tensor?[] tensors) -> Tensor[]")
_FRAGMENT.define("repeat(int index, Tensor[] state, Tensor[] others) -> Tensor[]")
LAUNCH: Any = torch.ops.trnsci.launch.default
REPEAT: Any = torch.ops.trnsci.repeat.default


@dataclass(frozen=True)
class KernelCall:
    """A kernel with its compile-time arguments; ``single`` where it returns one tensor and no tuple."""

    kernel: Any
    static: dict[str, Any]
    results: tuple[Any, ...]
    single: bool


@dataclass(frozen=True)
class Loop:
    """A lowered body that maps its state, and what it only reads, to the next state, and how often it runs.

    Without a count it runs while the last part of the state holds.
    """

    body: GraphModule
    count: int | None


Calls = Mapping[int, Any]
# kernel calls and loops that graphs refer to by index, as long as a program that has such a graph is kept
CALLS: MutableMapping[int, Any] = weakref.WeakValueDictionary()
_indices = itertools.count()
_KEEPING: ContextVar[list[Any] | None] = ContextVar("trnsci.graph.calls", default=None)
# those of graphs that are no program of ours, such as torch's while it compiles
_FOREIGN: list[Any] = []


@contextlib.contextmanager
def keeping_calls() -> Iterator[list[Any]]:
    """Collect the kernel calls and loops of graphs traced in the block: whoever has the graphs keeps the list."""
    kept: list[Any] = []
    token = _KEEPING.set(kept)
    try:
        yield kept
    finally:
        _KEEPING.reset(token)


def _launch_shapes(index: int, tensors: Sequence[Tensor | None]) -> list[Tensor]:
    first = next(x for x in tensors if x is not None)
    return [first.new_empty(spec.shape, dtype=spec.dtype) for spec in CALLS[index].results]


def _repeat_shapes(index: int, state: Sequence[Tensor], others: Sequence[Tensor]) -> list[Tensor]:
    return [torch.empty_like(x, memory_format=torch.contiguous_format) for x in state]


def _launch(index: int, tensors: Sequence[Tensor | None]) -> list[Tensor]:
    """Launch a kernel that is no part of a program."""
    call = CALLS[index]
    result = current().launch(call.kernel, tuple(tensors), 1, call.static)
    return [result] if call.single else list(result)


def _repeat(index: int, state: Sequence[Tensor], others: Sequence[Tensor]) -> list[Tensor]:
    """Run a loop that is no part of a program."""
    loop, values = CALLS[index], list(state)
    for _ in itertools.count() if loop.count is None else range(loop.count):
        if loop.count is None and not values[-1]:
            break
        values = list(loop.body(*values, *others))
    return [x.clone() for x in values]


_FRAGMENT.impl("launch", _launch, "CompositeExplicitAutograd")
torch.library.register_fake("trnsci::launch", _launch_shapes, lib=_FRAGMENT)
torch.library.register_fake("trnsci::repeat", _repeat_shapes, lib=_FRAGMENT)
_FRAGMENT.impl("repeat", _repeat, "CompositeExplicitAutograd")


class _Recorder(Launcher):
    """Makes launches nodes of the graph in the making."""

    backend = "recorder"

    def launch(self, kernel: Any, tensors: tuple[Any, ...], grid: int, static: dict[str, Any]) -> Any:
        with disable_modes():
            results = _results_of(kernel, freeze(tuple(map(_shape_of, tensors))), *static.items())
        single = not isinstance(results, tuple)
        call = KernelCall(kernel, dict(static), (results,) if single else tuple(results), single)
        written = LAUNCH(add_call(call), list(tensors))
        return written[0] if single else tuple(written)


def _shape_of(x: Any) -> Any:
    return torch.empty(x.shape, dtype=x.dtype, device="meta") if isinstance(x, Tensor) else x


@functools.lru_cache(maxsize=1024)
def _results_of(kernel: Any, specs: Any, *options: tuple[str, Any]) -> Any:
    """Return the specs of a kernel's results, by following it on shapes alone."""
    run = trnsim.simulate(as_simulated(kernel)[1], numerics=False, checks=False, lint="off")
    return freeze(run(*thaw(specs), **dict(options)))


# stands for a tensor among a function's results
_TENSOR = object()


class FlatFunction:
    """A function as one of the tensors among its arguments, to a list of the tensors among its results.

    Args:
        function: any function.
        leaves, spec: its arguments, flat; what is no tensor among them stays as it is.
    """

    def __init__(self, function: Callable[..., Any], leaves: Sequence[Any], spec: Any) -> None:
        self.function = function
        self._leaves = [_TENSOR if isinstance(x, Tensor) else x for x in leaves]
        self._spec = spec
        self._results: tuple[list[Any], Any] = [], None
        # whether results follow gradients of tensors that the function captured
        self.needs_gradient = False

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        """Call the function, and note how its results are put together."""
        args, kwargs = _fill_in(self._leaves, self._spec, tensors)
        values, tree = tree_flatten(self.function(*args, **kwargs))
        if any(isinstance(x, torch.SymFloat | torch.SymInt | torch.SymBool) for x in values):
            raise UnsupportedError("program", [("nki", "a number it returns is a tensor's")], hint="Return the tensor")
        self._results = ([_TENSOR if isinstance(x, Tensor) else x for x in values], tree)
        results = [x for x in values if isinstance(x, Tensor)]
        self.needs_gradient = any(x.requires_grad for x in results)
        return results

    def join(self, tensors: Iterable[Any]) -> Any:
        """Return results as the function returned them when it was called."""
        return _fill_in(*self._results, tensors)


def _fill_in(leaves: Sequence[Any], spec: Any, tensors: Iterable[Any]) -> Any:
    given = iter(tensors)
    return tree_unflatten([next(given) if x is _TENSOR else x for x in leaves], spec)


def trace(function: Callable[..., Any], inputs: Sequence[Tensor]) -> tuple[GraphModule, list[Captured]]:
    """Trace a function of a flat list of tensors; torch's operators that have an analog enter as ops of the suite.

    What it captures becomes its last arguments: floating-point tensors, draws, and all where it changes some.
    """
    with tracing(Substitutions(random=False, min_size=0, unreadable=UNREADABLE)), collecting_draws() as draws:
        traced = _trace_graph(function, inputs)
    detach_copies(traced)
    has_changes = any(_is_mutable(node.target) for node in traced.graph.nodes)
    lifted = _lift(traced, Tensor, lambda x: has_changes or id(x) in draws or _is_lifted(x))
    _require_own_gradients(lifted)
    captured = [draws.get(id(x)) or Captured(x, x.detach) for x in lifted]
    return _without_mutations(traced, [*inputs, *lifted]), captured


def _require_own_gradients(captured: Sequence[Tensor]) -> None:
    """Raise where the function left gradients in tensors it captured: they are no numbers."""
    filled = [x for x in captured if x.is_leaf and isinstance(x.grad, FakeTensor)]
    for x in filled:
        x.grad = None
    if filled:
        why = "it calls backward(), which would fill gradients once, when it is traced"
        hint = (
            "Take torch.autograd.grad inside, and return what changes; or call backward() on what the program returns"
        )
        raise UnsupportedError("program", [("nki", why)], hint=hint)


def _trace_graph(function: Callable[..., Any], inputs: Sequence[Tensor]) -> GraphModule:
    def note_lines(*args: Tensor) -> Any:
        with _Lines():  # type: ignore[no-untyped-call]
            return function(*args)

    with preserve_node_meta():
        return make_fx(note_lines, tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)


class _Lines(TorchDispatchMode):
    """Notes with every operator the line of the traced function that called it; torch's loops become `repeat`'s."""

    supports_higher_order_operators = True

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Return that TorchDynamo, which torch's loops call, need not mind it: it would skip their frames for good."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        line = calling_line()
        if line:
            set_stack_trace([line])
        if _SEEDED in getattr(func, "tags", ()) and torch.initial_seed() != UNSEEDED:
            refuse_seed()
        if func in _CONTROL:
            with self:
                return _CONTROL[func](*args)
        return func(*args, **(kwargs or {}))


def _without_mutations(traced: GraphModule, inputs: Sequence[Tensor]) -> GraphModule:
    """Replace operators in place by functional ones; what changes an input is copied into it at the end."""
    changes = [node for node in traced.graph.nodes if _is_mutable(node.target)]
    if not changes:
        return traced
    # gradients are in the graph already
    with preserve_node_meta(), torch.no_grad():
        functional = torch.func.functionalize(Interpreter(traced).run)
        return make_fx(functional, tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)


def _is_mutable(target: Any) -> bool:
    schema = getattr(target, "_schema", None)
    return schema is not None and schema.is_mutable


class _Lowering(TorchDispatchMode):
    """Runs every op of the suite as its kernels, and begins planes where complex values begin."""

    supports_higher_order_operators = True

    def __init__(self, left: dict[str, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.left = left
        self.running: list[Any] = []
        self.known = {op.registered: op for op in ops.all_ops()}
        self.analogs = {name: each for name, each in operators().items() if each.arguments and not each.random}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            return self._higher(func, args, kwargs)
        if func in self.known:
            return self._op(self.known[func], args, kwargs)
        if func.namespace == "aten" and (analog := self.analogs.get(_name(func))):
            # products of planes come to light here
            with self, contextlib.suppress(Different, TrnError, *UNREADABLE):
                return analog.run(args, kwargs)[0]
        if func is REPEAT:
            return self._repeat(*args)
        if func is _aten.complex.default:
            return PlanarTensor(*torch.broadcast_tensors(*args))
        if func is _aten.view_as_complex.default:
            return PlanarTensor(args[0].select(-1, 0), args[0].select(-1, 1))
        if func is _aten._to_copy.default and _is_complex(kwargs.get("dtype")) and not args[0].is_complex():
            return _with_plane(args[0].to(kwargs["dtype"].to_real()))
        if any(isinstance(x, complex) for x in args) and not any(isinstance(x, PlanarTensor) for x in args):
            args = tuple(_with_plane(x) if isinstance(x, Tensor) else x for x in args)
        return func(*args, **kwargs)

    def _op(self, op: Any, args: Any, kwargs: Any) -> Any:
        call = op.kind(*args, **kwargs)
        key = op.name, freeze(call)
        # what a step of it leaves to torch may be the op again
        refused = "it is a step of itself" if key in self.running else op.refusal(call, "nki")
        if refused is None:
            self.running.append(key)
            try:
                with self:
                    return call.nki()
            except (TrnError, *UNREADABLE) as error:
                refused = str(error).splitlines()[0]
            finally:
                self.running.pop()
        self.left[op.name] = refused
        return _on_planes(op.registered, args, kwargs)

    def _higher(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func is effects.with_effects:
            # programs run operators without results in order: the token says no more
            token, target, *operands = args
            token = torch.empty(0, dtype=torch.float32, device="cpu") if token is None else token
            with self:
                result = target(*operands, **kwargs)
            return (token, *result) if isinstance(result, tuple) else (token, result)
        return func(*args, **kwargs)

    def _repeat(self, index: int, state: Sequence[Tensor], others: Sequence[Tensor]) -> list[Tensor]:
        loop = CALLS[index]
        target = current().target
        with disable_modes():
            # values of a trace in the making stand for the operands of the body
            body, left = lower(loop.body, [*map(_without_planes, state), *map(_without_planes, others)], target)
            fold(body)
        self.left.update(left)
        flat = [plane for x in state for plane in as_planes(x)]
        results = iter(REPEAT(add_call(Loop(body, loop.count)), flat, [p for x in others for p in as_planes(x)]))
        return [PlanarTensor(next(results), next(results)) if x.is_complex() else next(results) for x in state]


def _counts(x: Tensor) -> bool:
    """Return whether a tensor is one integer."""
    return x.ndim == 0 and x.dtype in (torch.int32, torch.int64)


def _without_planes(x: Tensor) -> Tensor:
    """Return a tensor of the shape and dtype of another, without data."""
    return torch.empty(x.shape, dtype=x.dtype, device="cpu")


def add_call(call: Any) -> int:
    """Note a kernel call or a loop, and return the index that nodes refer to it by."""
    kept = _KEEPING.get()
    (_FOREIGN if kept is None else kept).append(call)
    index = next(_indices)
    CALLS[index] = call
    return index


def repeat(
    count: int, body: Callable[..., object], *state: Tensor, others: Sequence[Tensor] = ()
) -> tuple[Tensor, ...]:
    """Apply ``state = body(*state, *others)`` a number of times, and return the last state.

    In a `program` it is a loop of the device: the body is compiled once, and the state stays in device memory. Where it
    is differentiated it is written out, one turn after the other; outside of programs it is a loop of Python.

    Args:
        count: how often.
        body: a function of the state's tensors, and of ``others``. It returns as many tensors as ``state`` has, of the
            same shapes and dtypes.
        state: the first state.
        others: tensors that the body reads and does not change. What it takes from outside is found without them.

    Example:
        >>> x, = trnsci.repeat(3, lambda x: (x * 2,), torch.ones(2))
        >>> x
        tensor([8., 8.])
    """
    count = check.integer("repeat", "count", count, 0)
    if count == 0:
        return tuple(state)
    differentiated = torch.is_grad_enabled() and any(x.requires_grad for x in (*state, *others))
    if not any(isinstance(x, FakeTensor) for x in (*state, *others)) or differentiated:
        for _ in range(count):
            state = _turn(body, state, others)
        return state
    return _trace_loop(lambda *args: _turn(body, args[: len(state)], args[len(state) :]), count, state, others)


def _trace_loop(
    body: Callable[..., Any], count: int | None, state: Sequence[Tensor], others: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Make a function of the state, and of what it only reads, a loop of the graph in the making."""
    with disable_modes():
        # one tensor may stand for two parts of the state
        given = [x.clone() for x in (*state, *others)]
        with collecting_draws() as draws:
            traced = _trace_graph(body, given)
        if draws:
            raise UnsupportedError("program", [("nki", "a loop would draw the same numbers in every turn")])
    captured = [*_lift(traced, FakeTensor), *_lift(traced, Tensor, _is_lifted)]
    return tuple(REPEAT(add_call(Loop(traced, count)), list(state), [*others, *captured]))


def _with_numbers(function: Callable[..., Any], others: Sequence[Any]) -> Callable[..., Any]:
    """Return a function without those of its last arguments that are numbers, such as sizes."""
    tensors = sum(isinstance(x, Tensor) for x in others)

    def call(*args: Tensor) -> Any:
        given = iter(args[len(args) - tensors :])
        rest = [next(given) if isinstance(x, Tensor) else x for x in others]
        return function(*args[: len(args) - tensors], *rest)

    return call


def _trace_while(
    condition: Callable[..., Tensor], body: Callable[..., Any], carried: Sequence[Any], others: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Trace ``torch.while_loop``. Integers that count turns are float32 here, which is exact up to 2**24."""
    condition, body = _with_numbers(condition, others), _with_numbers(body, others)
    others = [x for x in others if isinstance(x, Tensor)]
    kinds = [x.dtype for x in carried]
    state = [x.float() if _counts(x) else x for x in carried]

    def turn(*given: Tensor) -> list[Tensor]:
        rest = given[len(state) + 1 :]
        after = body(*given[: len(state)], *rest)
        return [*after, condition(*after, *rest).reshape(1)]

    *results, _ = _trace_loop(turn, None, [*state, condition(*state, *others).reshape(1)], others)
    return tuple(x.to(kind) for x, kind in zip(results, kinds, strict=True))


def _trace_scan(
    combine: Callable[..., Any], init: Sequence[Tensor], xs: Sequence[Tensor], others: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Trace ``scan``: the slice of a turn is chosen by comparison, and its results are put in place likewise."""
    combine, others = _with_numbers(combine, others), [x for x in others if isinstance(x, Tensor)]
    length, kept, many = int(xs[0].shape[0]), len(init), len(xs)
    stacks = [y.new_zeros((length, *y.shape)) for y in combine(*init, *(x[0] for x in xs), *others)[kept:]]
    first = 1 + kept + len(stacks)

    def turn(*given: Tensor) -> list[Tensor]:
        at, carry, ys, rest = given[0], given[1 : 1 + kept], given[1 + kept : first], given[first:]
        place = torch.arange(length, dtype=torch.float32, device=at.device)
        here = [(place == at).reshape(-1, *(1,) * (x.ndim - 1)) for x in (*rest[:many], *ys)]
        slices = [torch.where(h, x, 0).sum(0) for h, x in zip(here, rest[:many], strict=False)]
        after = combine(*carry, *slices, *rest[many:])
        stacked = [torch.where(h, y, old) for h, y, old in zip(here[many:], after[kept:], ys, strict=True)]
        return [at + 1, *after[:kept], *stacked]

    at = torch.zeros(1, dtype=torch.float32, device=xs[0].device)
    return _trace_loop(turn, length, [at, *init, *stacks], [*xs, *others])[1:]


def _choose_branch(
    condition: Tensor, left: Callable[..., Any], right: Callable[..., Any], operands: Sequence[Tensor] = ()
) -> tuple[Tensor, ...]:
    """Trace ``torch.cond``: both branches are computed, and the condition chooses."""
    pairs = zip(left(*operands), right(*operands), strict=True)
    return tuple(torch.where(condition, *pair) for pair in pairs)


_CONTROL: dict[Any, Callable[..., Any]] = {
    torch.ops.higher_order.while_loop: _trace_while,
    torch.ops.higher_order.scan: _trace_scan,
    torch.ops.higher_order.cond: _choose_branch,
}


def _turn(body: Callable[..., Any], state: Sequence[Tensor], others: Sequence[Tensor]) -> tuple[Tensor, ...]:
    result = body(*state, *others)
    result = (result,) if isinstance(result, Tensor) else tuple(result)
    shapes = [[(tuple(x.shape), x.dtype) for x in tensors] for tensors in (state, result)]
    if shapes[0] != shapes[1]:
        raise ArgumentError("repeat", "result of body", shapes[1], f"the state's shapes and dtypes, {shapes[0]}")
    return result


def _lift(graph: GraphModule, kind: Any, wanted: Callable[[Any], bool] = lambda x: True) -> list[Tensor]:
    """Make tensors that a graph holds its last arguments; return them in order."""
    lifted: dict[int, tuple[Tensor, Node]] = {}
    given = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for node in list(graph.graph.nodes):
        value: Any = getattr(graph, node.target, None) if node.op == "get_attr" else None
        if not isinstance(value, kind) or not wanted(value):
            continue
        if id(value) not in lifted:
            first = next(iter(graph.graph.nodes))
            with graph.graph.inserting_after(given[-1]) if given else graph.graph.inserting_before(first):
                given.append(graph.graph.placeholder(f"captured_{len(lifted)}"))
            given[-1].meta = dict(node.meta)
            lifted[id(value)] = value, given[-1]
        node.replace_all_uses_with(lifted[id(value)][1])
        graph.graph.erase_node(node)
    graph.recompile()
    return [value for value, _ in lifted.values()]


def _is_lifted(x: Tensor) -> bool:
    """Return whether the values of a captured tensor may change between calls without a new trace."""
    return x.is_floating_point() or x.is_complex()


def _name(func: Any) -> str:
    """Return an operator's name as analogs know it: with its overload unless that is the default."""
    name = str(func._schema.name).removeprefix("aten::")
    return name if func._overloadname == "default" else f"{name}.{func._overloadname}"


def _is_complex(dtype: torch.dtype | None) -> bool:
    return dtype is not None and dtype.is_complex


def _with_plane(x: Tensor) -> Tensor:
    return x if x.is_complex() else PlanarTensor(x, torch.zeros_like(x))


def _on_planes(target: Any, args: Any, kwargs: Any) -> Any:
    """Call an operator that has no planes with complex tensors, and return planes again."""
    whole = tree_map(lambda x: torch.complex(x.real_plane, x.imag_plane) if isinstance(x, PlanarTensor) else x, args)
    result = target(*whole, **kwargs)
    return tree_map(lambda x: PlanarTensor(x.real, x.imag) if isinstance(x, Tensor) and x.is_complex() else x, result)


def as_planes(x: Tensor) -> list[Tensor]:
    """Return a tensor as the real tensors that stand for it: one, or two planes."""
    if isinstance(x, PlanarTensor):
        return [x.real_plane, x.imag_plane]
    if not x.is_complex():
        return [x]
    x = x.resolve_conj()
    return [x.real, x.imag]


def lower(
    traced: GraphModule, inputs: Sequence[Tensor], target: config.TargetName
) -> tuple[GraphModule, dict[str, str]]:
    """Lower a traced graph to launches and ATen operators on real tensors; ops that no kernel takes stay, with why."""
    left: dict[str, str] = {}
    kinds = [x.is_complex() for x in inputs]
    planes = [plane for x in inputs for plane in as_planes(x)]

    def run(*given: Tensor) -> Any:
        flat = iter(given)
        args = [PlanarTensor(next(flat), next(flat)) if is_complex else next(flat) for is_complex in kinds]
        with _Lowering(left):
            results = Interpreter(traced).run(*args)
        return [plane for x in tree_leaves(results) if isinstance(x, Tensor) for plane in as_planes(x)]

    with preserve_node_meta(), torch.no_grad(), using(_Recorder(target)):
        lowered = make_fx(run, decomposition_table=decompositions(), tracing_mode="fake", _allow_non_fake_inputs=True)(
            *planes
        )
    return _without_mutations(lowered, planes), left
