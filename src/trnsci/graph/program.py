"""`program`: a function of torch tensors as one program of the device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter

from trnsci import config, neuron
from trnsci.backends import library
from trnsci.caches import PROGRAMS
from trnsci.calling_lines import raising_line
from trnsci.errors import ArgumentError, UnsupportedError
from trnsci.graph.compilation import Compiled, Run, compile_graph
from trnsci.graph.program_plan import ProgramPlan, plan_program
from trnsci.graph.tracing import FlatFunction, as_planes, keeping_calls, lift_captured, trace
from trnsci.graph.unreadable import UNREADABLE
from trnsci.kernel_launcher import launcher, using
from trnsci.programs import limits
from trnsci.specs import ResidentTensor, freeze, is_resident
from trnsci.torch_internals import disable_modes, tree_flatten


class Program:
    """A function that runs as one program, made by `program`. It is traced once for each kind of arguments."""

    def __init__(self, function: Callable[..., object], plain: Callable[..., object] | None = None) -> None:
        if not isinstance(function, GraphModule):
            functools.update_wrapper(self, function)
        # what runs on PyTorch
        self.plain = plain or function
        # a graph is followed node by node, so that its nodes' source lines are seen
        self.function = Interpreter(function).run if isinstance(function, GraphModule) else function
        self.name = "graph" if isinstance(function, GraphModule) else getattr(function, "__name__", "program")

    def __repr__(self) -> str:
        return f"<Program {self.name}>"

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Run the program where the backend in force says; on PyTorch the function itself."""
        backend, _ = _backend()
        if backend == "pytorch":
            return self.plain(*args, **kwargs)
        leaves, spec = tree_flatten((args, kwargs))
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        _check(self.name, tensors)
        if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
            return self._differentiable(leaves, spec)
        used = launcher(backend)
        built = self._built(leaves, spec, used.target)
        return built.run(tensors, used)

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
        _check(self.name, [x for x in real if isinstance(x, Tensor)])
        return plan_program(self.name, lambda target: self._built(real, spec, target))

    def source(self, *args: object, **kwargs: object) -> str:
        """Return the text of the NKI programs that a call runs."""
        leaves, spec = tree_flatten((args, kwargs))
        built = self._built(leaves, spec, config.TARGET.get())
        return "\n\n".join(segment.source for segment in built.compiled.segments)

    def _built(self, leaves: Sequence[Any], spec: Any, target: config.TargetName) -> Built:
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        static = tuple(None if isinstance(x, Tensor) else x for x in leaves)
        shapes = tuple(freeze(torch.empty(x.shape, dtype=x.dtype, device="meta")) for x in tensors)
        key = ("program", self.function, spec, static, shapes, target, limits(), neuron.logical_cores(target))
        built = PROGRAMS.get(key, lambda: self._build(leaves, spec, target))
        if built.is_stale:
            PROGRAMS.discard(key)
            built = PROGRAMS.get(key, lambda: self._build(leaves, spec, target))
        return built

    def _build(self, leaves: Sequence[Any], spec: Any, target: config.TargetName) -> Built:
        with keeping_calls() as calls:
            built = self._trace(leaves, spec, target)
        built.compiled.calls = calls
        return built

    def _trace(self, leaves: Sequence[Any], spec: Any, target: config.TargetName) -> Built:
        flat = FlatFunction(self.function, leaves, spec)
        tensors = [x.detach() for x in leaves if isinstance(x, Tensor)]
        # tracing draws numbers, too
        with torch.random.fork_rng(devices=[]), _readable(self.name):
            traced = trace(flat, tensors)
        kinds = [node.meta["val"].dtype.is_complex for node in _outputs(traced)]
        strides = [tuple(node.meta["val"].stride()) for node in _outputs(traced)]
        fixed = [getattr(traced, node.target) for node in traced.graph.nodes if node.op == "get_attr"]
        captured = lift_captured(traced)
        with torch.random.fork_rng(devices=[]):
            compiled = compile_graph(traced, [*tensors, *captured], target, _identifier(self.name))
        watched = tuple((x, x._version) for x in fixed if isinstance(x, Tensor) and not x.is_floating_point())
        return Built(self.name, traced, compiled, captured, kinds, strides, flat, watched)

    def _differentiable(self, leaves: Sequence[Any], spec: Any) -> Any:
        """Run forward as one program, and let the backward pass be another."""
        from trnsci.graph.gradients import make_differentiable

        tensors = [x for x in leaves if isinstance(x, Tensor)]
        static = tuple(None if isinstance(x, Tensor) else x for x in leaves)
        key = ("differentiable", self.function, spec, static, tuple(freeze(x.detach()) for x in tensors))
        run = PROGRAMS.get(key, lambda: make_differentiable(FlatFunction(self.function, leaves, spec), Program))
        return run(*tensors)


@dataclass(eq=False)
class Built:
    """A traced function and its programs, for one kind of arguments.

    Attributes:
        captured: floating-point tensors that the function reads besides its arguments.
        kinds, strides: of each result: whether it is complex, and its strides.
        results: puts the results together as the function returns them.
        watched: integers that steer the programs, with the versions they had.
    """

    name: str
    traced: GraphModule
    compiled: Compiled
    captured: list[Tensor]
    kinds: list[bool]
    strides: list[tuple[int, ...]]
    results: FlatFunction
    watched: tuple[tuple[Tensor, int], ...]

    @property
    def nbytes(self) -> int:
        """Bytes it keeps."""
        return self.compiled.nbytes

    @property
    def is_stale(self) -> bool:
        """Whether integers that the function captured, and that steer its programs, have changed since."""
        return any(x._version != version for x, version in self.watched)

    def run(self, tensors: Sequence[Tensor], used: Any) -> Any:
        """Run on arguments; results are where the arguments are."""
        given = [*tensors, *self.captured]
        planes = [plane for x in given for plane in as_planes(x.detach())]
        resident = any(is_resident(x) for x in tensors)
        with torch.no_grad(), using(used), disable_modes():
            run = Run(self.compiled, used, _as_resident)
            flat = iter(run(planes, self._constants(used)))
            results = [
                _laid_out(torch.complex(next(flat), next(flat)) if kind else next(flat), strides)
                for kind, strides in zip(self.kinds, self.strides, strict=True)
            ]
        results = [_as_resident(x) if resident else neuron.from_device(x) for x in results]
        return self.results.join(results)

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
    """Say of a function that looks at values of tensors where it does."""
    try:
        yield
    except UNREADABLE as error:
        line = raising_line(error)
        why = f"it looks at values of tensors at {line}, and a program is made without them"
        hint = "Take that out of the function, or call it without trnsci.program"
        raise UnsupportedError(f"program {name}", [("nki", why)], hint=hint) from error


def _as_resident(x: Tensor) -> Tensor:
    return x if is_resident(x) else x.as_subclass(ResidentTensor)


def _laid_out(x: Tensor, strides: tuple[int, ...]) -> Tensor:
    """Return a result in memory of its own, with the strides torch gave it: traced graphs rely on them."""
    return torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device).copy_(x)


def _outputs(traced: Any) -> list[Any]:
    (node,) = [node for node in traced.graph.nodes if node.op == "output"]
    return [x for x in node.args[0] if x is not None]


def _identifier(name: str) -> str:
    word = "".join(c if c.isalnum() else "_" for c in name)
    return word if word.isidentifier() else f"program_{word}"


def _backend() -> tuple[str, str]:
    """Return where programs run here and now, and why."""
    choice = library("trnsci").choice()
    if choice.name != "auto":
        return choice.name, choice.source
    device, reason = neuron.find_device()
    return ("nki", reason) if device is not None else ("pytorch", reason)


def _check(name: str, tensors: Sequence[Tensor]) -> None:
    for index, tensor in enumerate(tensors):
        if tensor.layout is not torch.strided:
            expected = "dense tensors; a sparse matrix is captured by the function"
            raise ArgumentError(name, f"tensor {index}", f"a {tensor.layout} tensor", expected)


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
