"""`program`: a function of torch tensors as one program of the device."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node

from trnsci import config, neuron
from trnsci.backends import library
from trnsci.caches import PROGRAMS
from trnsci.calling_lines import raising_line
from trnsci.check import overlap
from trnsci.errors import ArgumentError, DtypeError, UnsupportedError
from trnsci.graph.compilation import Compiled, Run, compile_graph
from trnsci.graph.draws import UNSEEDED, Captured, refuse_seed
from trnsci.graph.program_plan import ProgramPlan, ProgramStep, plan_program
from trnsci.graph.surroundings import Surroundings, value_key
from trnsci.graph.tracing import FlatFunction, as_planes, keeping_calls, trace
from trnsci.graph.unreadable import UNREADABLE
from trnsci.kernel_launcher import launcher, using
from trnsci.ledger import Entry, listeners, nesting, record
from trnsci.plans import Cost
from trnsci.programs import limits
from trnsci.specs import ResidentTensor, freeze, is_resident
from trnsci.torch_internals import FakeTensor, disable_modes, peek_interpreter_stack, tree_flatten

_TRACING = threading.RLock()


class Program:
    """A function that runs as one program, made by `program`. It is traced once for each kind of arguments."""

    def __init__(self, function: Callable[..., object]) -> None:
        if not isinstance(function, GraphModule):
            functools.update_wrapper(self, function)
        # what runs on PyTorch
        self.plain = function
        # a graph is followed node by node, so that its nodes' source lines are seen
        self.function: Callable[..., Any] = Interpreter(function).run if isinstance(function, GraphModule) else function
        self.name = "graph" if isinstance(function, GraphModule) else getattr(function, "__name__", "program")

    def __repr__(self) -> str:
        return f"<Program {self.name}>"

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Run the program where the backend in force says; on PyTorch the function itself."""
        backend = _backend()
        if backend == "pytorch":
            return self.plain(*args, **kwargs)
        leaves, spec = tree_flatten((args, kwargs))
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        if any(isinstance(x, FakeTensor) for x in tensors):
            # a part of the program in the making
            return self.function(*args, **kwargs)
        _check(self.name, leaves)
        if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
            return self._differentiable(*args, **kwargs)
        used = launcher(backend)
        built = self._find_built(leaves, spec, used.target)
        if built.results.needs_gradient:
            return self._differentiable(*args, **kwargs)
        if not listeners():
            return built.run(tensors, used)
        with nesting() as depth:
            start = time.perf_counter()
            results = built.run(tensors, used)
            used.wait()
            measured = time.perf_counter() - start
        record(Entry(built.step(tensors, used), measured, used.bytes_to_device, used.bytes_from_device, depth))
        return results

    def plan(self, *args: object, **kwargs: object) -> ProgramPlan:
        """Return what a call would launch, and its predicted time on each generation, without running it.

        Args:
            *args: arguments of the function; tensors may be on torch's ``meta`` device.
            **kwargs: likewise.
        """
        leaves, spec = tree_flatten((args, kwargs))
        real = [
            torch.empty(x.shape, dtype=x.dtype, device="cpu") if isinstance(x, Tensor) and x.is_meta else x
            for x in leaves
        ]
        _check(self.name, real)
        return plan_program(self.name, lambda target: self._find_built(real, spec, target))

    def source(self, *args: object, **kwargs: object) -> str:
        """Return the text of the NKI programs that a call runs."""
        leaves, spec = tree_flatten((args, kwargs))
        built = self._find_built(leaves, spec, config.TARGET.get())
        return "\n\n".join(segment.source for segment in built.compiled.segments)

    def _find_built(self, leaves: Sequence[Any], spec: Any, target: config.TargetName) -> Built:
        key = self._key(leaves, spec, target, limits(), neuron.logical_cores(target))
        built = PROGRAMS.get(key, lambda: self._build(leaves, spec, target))
        if built.is_stale:
            PROGRAMS.discard(key)
            built = PROGRAMS.get(key, lambda: self._build(leaves, spec, target))
        return built

    def _key(self, leaves: Sequence[Any], spec: Any, *others: Any) -> tuple[Any, ...]:
        kinds = [
            freeze(torch.empty(x.shape, dtype=x.dtype, device="meta")) if isinstance(x, Tensor) else value_key(x)
            for x in leaves
        ]
        around = Surroundings(self.plain).key
        return ("program", self.function, spec, tuple(kinds), around, torch.is_grad_enabled(), *others)

    def _build(self, leaves: Sequence[Any], spec: Any, target: config.TargetName) -> Built:
        # torch traces one function at a time
        with _TRACING, keeping_calls() as calls:
            built = self._trace(leaves, spec, target)
        built.compiled.calls = calls
        return built

    def _trace(self, leaves: Sequence[Any], spec: Any, target: config.TargetName) -> Built:
        flat = FlatFunction(self.function, leaves, spec)
        tensors = [x.detach() for x in leaves if isinstance(x, Tensor)]
        around = Surroundings(self.plain)
        # tracing draws numbers, too
        with torch.random.fork_rng(devices=[]), around.restoring_numbers(), _readable(self.name):
            traced, captured = trace(flat, tensors)
            _require_sizes(self.name, traced)
            given = [*tensors, *(x.value for x in captured)]
            compiled = compile_graph(traced, given, target, _identifier(self.name))
        fixed = [getattr(traced, node.target) for node in traced.graph.nodes if node.op == "get_attr"]
        watched = tuple((x, x._version) for x in fixed if isinstance(x, Tensor))
        return Built(self.name, traced, compiled, captured, flat, watched, isinstance(self.plain, GraphModule))

    @functools.cached_property
    def _differentiable(self) -> Callable[..., Any]:
        """The function with its forward pass as one program, and its backward pass as another."""
        return torch.compile(self.plain, backend="trnsci", dynamic=False)


@dataclass(eq=False)
class Built:
    """A traced function and its programs, for one kind of arguments.

    Attributes:
        captured: tensors that the function reads or changes besides its arguments, and what it draws.
        results: puts the results together as the function returns them.
        watched: integers that steer the programs, with the versions they had.
        shares: whether a result that is an argument is returned as it is, with its gradient, as torch's graphs want.
    """

    name: str
    traced: GraphModule
    compiled: Compiled
    captured: list[Captured]
    results: FlatFunction
    watched: tuple[tuple[Tensor, int], ...]
    shares: bool

    @property
    def nbytes(self) -> int:
        """Bytes it keeps."""
        return self.compiled.nbytes

    @property
    def is_stale(self) -> bool:
        """Whether integers that the function captured, and that steer its programs, have changed since."""
        return any(x._version != version for x, version in self.watched)

    @functools.cached_property
    def _arguments(self) -> list[Node]:
        return [node for node in self.traced.graph.nodes if node.op == "placeholder"]

    @functools.cached_property
    def changes(self) -> list[int]:
        """Positions of the arguments and captured tensors that a run changes."""
        changes = {x.args[0] for x in self.traced.graph.nodes if x.target is torch.ops.aten.copy_.default}
        return [index for index, node in enumerate(self._arguments) if node in changes]

    def run(self, tensors: Sequence[Tensor], used: Any) -> Any:
        """Run on arguments; results are where the arguments are."""
        given = [*tensors, *(x.now() for x in self.captured)]
        for index in self.changes:
            if any(overlap(given[index], x) for at, x in enumerate(given) if at != index):
                expected, hint = "memory of its own, because the function changes it", "Pass a copy"
                raise ArgumentError(self.name, f"tensor {index}", "memory shared with another", expected, hint=hint)
        planes = [plane for x in given for plane in as_planes(x.detach())]
        resident = any(is_resident(x) for x in tensors)
        with torch.no_grad(), using(used), disable_modes():
            run = Run(self.compiled, used, _as_resident)
            flat = iter(run(planes, self._constants(used)))
            results = []
            for node in _outputs(self.traced):
                kind = node.meta["val"]
                value = torch.complex(next(flat), next(flat)) if kind.is_complex() else next(flat)
                if self.shares and node.op == "placeholder":
                    results.append(tensors[self._arguments.index(node)])
                    continue
                value = _laid_out(value, kind.stride())
                results.append(_as_resident(value) if resident else neuron.from_device(value))
            run.write_changes()
        return self.results.join(results)

    def step(self, tensors: Sequence[Tensor], used: Any) -> ProgramStep:
        """Return a run as a ledger has it."""
        written = sum(node.meta["val"].nbytes for node in _outputs(self.traced))
        return ProgramStep(
            op=f"program {self.name}",
            call=freeze(tuple(tensors)),
            cost=Cost(0, sum(x.nbytes for x in tensors), written),
            backend=used.backend,
            implementation="nki",
            reason=f"{len(self.compiled.segments)} launches, {len(self.compiled.host_calls)} operators left to torch",
            compiled=self.compiled,
            target=used.target,
        )

    def _constants(self, used: Any) -> Any:
        kept = self.compiled.resident
        if used.backend not in kept:
            put = used.device.put if used.backend == "nki" else _as_resident
            kept[used.backend] = {
                buffer: put(buffer.data[0].reshape(buffer.shape)) for buffer in self.compiled.constants
            }
        return kept[used.backend]

    def __repr__(self) -> str:
        return f"<Built {self.name}: {len(self.compiled.segments)} programs>"


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Say of a function that looks at values of tensors where it does; refuse one that seeds or fills gradients."""
    torch.manual_seed(UNSEEDED)
    try:
        yield
        if torch.initial_seed() != UNSEEDED:
            refuse_seed()
    except UNREADABLE as error:
        raise _refuse_values(name, raising_line(error)) from error
    except RuntimeError as error:
        # torch's own code reads numbers without asking
        if "its data is not allocated yet" not in str(error):
            raise
        raise _refuse_values(name, raising_line(error)) from error


def _refuse_values(name: str, line: str) -> UnsupportedError:
    why = f"it looks at values of tensors at {line}, and a program is made without them"
    hint = "Take that out of the function, or call it without trnsci.program"
    return UnsupportedError(f"program {name}", [("nki", why)], hint=hint)


def _require_sizes(name: str, traced: GraphModule) -> None:
    """Raise where the shape of a result depends on values."""
    for node in traced.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, Tensor) and not all(isinstance(n, int) for n in value.shape):
            raise _refuse_values(name, str(node.meta.get("stack_trace", "")).strip())


def _as_resident(x: Tensor) -> Tensor:
    return x if is_resident(x) else x.as_subclass(ResidentTensor)


def _laid_out(x: Tensor, strides: tuple[int, ...]) -> Tensor:
    """Return a result in memory of its own, with the strides torch gave it: traced graphs rely on them."""
    small = x[tuple(slice(0, 1 if stride == 0 else None) for stride in strides)]
    result = torch.empty_strided(small.shape, strides, dtype=x.dtype, device=x.device)
    if result.untyped_storage().nbytes() < small.nbytes:
        # windows that overlap
        return x.clone(memory_format=torch.contiguous_format)
    return result.copy_(small).expand(x.shape)


def _outputs(traced: Any) -> list[Any]:
    (node,) = [node for node in traced.graph.nodes if node.op == "output"]
    return [x for x in node.args[0] if x is not None]


def _identifier(name: str) -> str:
    word = "".join(c if c.isalnum() else "_" for c in name)
    return word if word.isidentifier() else f"program_{word}"


def _backend() -> str:
    """Return where programs run here and now."""
    choice = library("trnsci").choice().name
    return choice if choice != "auto" else "pytorch" if neuron.device() is None else "nki"


def _check(name: str, leaves: Sequence[Any]) -> None:
    if peek_interpreter_stack() is not None:
        hint = "Transform the function: trnsci.program(torch.vmap(function))"
        raise UnsupportedError(f"program {name}", [("nki", "torch.func sees no inside of a program")], hint=hint)
    for index, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor) and leaf.layout is not torch.strided:
            expected = "dense tensors; a sparse matrix is captured by the function"
            raise ArgumentError(name, f"tensor {index}", f"a {leaf.layout} tensor", expected)
        if not isinstance(leaf, Hashable):
            expected, hint = "a tensor, or a value that can be a key", "Convert arrays with torch.from_numpy"
            raise DtypeError(name, f"argument {index}", type(leaf), expected, hint=hint)


def program(function: Callable[..., object]) -> Program:
    """Make a function of torch tensors run as one program of the device.

    The function is traced for each kind of arguments: ops of the suite become their kernels, other operators pointwise
    expressions, reductions, views and copies between them, and all of it one NKI program with intermediates in device
    memory. What programs do not compute stays with torch and splits the graph; `Program.plan` says where and why. The
    function must not look at values of tensors, and what else it does, it does once, when it is traced.

    Example:
        >>> step = trnsci.program(lambda a, b: (a @ b).exp())
        >>> print(step.plan(torch.ones(8, 8), torch.ones(8, 8)))
    """
    return function if isinstance(function, Program) else Program(function)


def clear_programs() -> None:
    """Forget every program built so far."""
    PROGRAMS.clear()


def built_programs() -> tuple[Built, ...]:
    """Return the programs that are kept, least recently used first."""
    return PROGRAMS.list()
