"""A public function called with sharded arrays: check, agree, run the sharded algorithm, differentiate it."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from trnsci.distributed.agreement import AGREEMENT, RAISED, agree, describe_argument
from trnsci.distributed.arguments import by_name, check_whole, inside, map_values, numbers, one_mesh, out_of_its_own
from trnsci.distributed.parts import Part
from trnsci.distributed.rules import with_batches
from trnsci.distributed.team import LiveTeam, Team
from trnsci.distributed.world import world
from trnsci.errors import ArgumentError, RankFailed, UnsupportedError
from trnsci.libraries import SHARDED, entry_points_of, public_name

Rule = Callable[..., Mapping[str, Any]]

# Seconds a rank that refuses a call waits for the others to hear of it.
_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Algorithm:
    """How a public function runs on sharded arrays, what it is called, and its gradient."""

    name: str
    public: Callable[..., Any]
    fn: Callable[..., Any]
    gradient: Rule | None
    check: Callable[..., Any]
    settle: Callable[[dict[str, Any]], dict[str, Any]]


_ALGORITHMS: dict[str, Algorithm] = {}


def sharded(
    public: Callable[..., Any],
    *,
    gradient: Rule | None = None,
    check: Callable[..., Any] | None = None,
    settle: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    batch: Mapping[str, int] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Attach a sharded algorithm to a public function.

    The algorithm takes a `Team`, then the function's arguments with a `Part` in place of each DTensor, and returns
    parts. It may use the public functions on local tensors, and the team's exchanges. What it returns is copied to
    ``out``, unless it takes that argument itself.

    Args:
        public: the function, as users call it.
        gradient: ``rule(arguments, result, *grads)`` returning, by argument name, functions that make a gradient (or
            lists of them), written with public functions on DTensors; those that are wanted are called. Without a
            rule, operands that require grad are refused.
        check: called with tensors of the whole shapes but without data, on each rank, before anything is sent; by
            default the public function itself, whose argument checks then hold for sharded arrays too.
        settle: takes the arguments by name and puts in what a call would take from its process, a default generator
            for example, so that ranks agree on it.
        batch: axes of a single operand, by name. Where one has more, batches are cut between ranks and each rank calls
            the public function on its own; the algorithm never sees them.
    """

    def attach(fn: Callable[..., Any]) -> Callable[..., Any]:
        name = public_name(public)
        one = fn if batch is None else with_batches(public, fn, batch)
        runs = fn if "out" in inspect.signature(fn).parameters else functools.partial(_into, one)
        _ALGORITHMS[name] = Algorithm(name, public, runs, gradient, check or public, settle)
        return fn

    return attach


def _into(fn: Callable[..., Any], team: Team, *, out: Any = None, **given: Any) -> Any:
    """Run an algorithm, and copy its result, or each of its results, to ``out`` where that is given."""
    result = fn(team, **given)
    if out is None:
        return result
    if isinstance(out, Part):
        return written(team, result, out)
    return type(result)(*(written(team, part, where) for part, where in zip(result, out, strict=True)))


def written(team: Team, result: Part, out: Part | None) -> Part:
    """Return the result, copied into ``out`` where that is given."""
    if out is None:
        return result
    out.local.copy_(result.to(team, out.places).local)
    return out


def refuse_sharded(op: str, reason: str, hint: str = "") -> UnsupportedError:
    """Return the error of a call that a sharded algorithm cannot take."""
    return UnsupportedError(op, [("distributed", reason)], hint=hint)


def find(public: Callable[..., Any]) -> Algorithm:
    """Return the sharded algorithm of a function, or raise with what to do instead."""
    name = public_name(public)
    library = name.partition(".")[0]
    if name not in _ALGORITHMS:
        for entry in entry_points_of(SHARDED).values():
            if entry.module.partition(".")[0] == library:
                entry.load()
    if name not in _ALGORITHMS:
        others = sorted(key.split(".")[1] for key in _ALGORITHMS if key.startswith(f"{library}."))
        listed = f"; {library} has one for {', '.join(others)}" if others else ""
        hint = "Bring the operands together with trnsci.distributed.gather, or work on parts with .to_local()"
        raise refuse_sharded(name, f"it has no sharded algorithm{listed}", hint)
    return _ALGORITHMS[name]


def dispatch(public: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a public function on sharded arrays."""
    algorithm = find(public)
    first = next(x for value in (*args, *kwargs.values()) for x in inside(value) if isinstance(x, DTensor))
    with _call(algorithm.name, first.device_mesh):
        with _before_data(algorithm.name, first.device_mesh):
            bound = numbers(algorithm, by_name(algorithm, args, kwargs))
            mesh = one_mesh(algorithm.name, bound)
            check_whole(algorithm, bound)
            sharded = [(name, x) for name, value in bound.items() for x in inside(value) if isinstance(x, DTensor)]
            wanting = [name for name, x in sharded if x.requires_grad and torch.is_grad_enabled()]
            for out in inside(bound.get("out")):
                if isinstance(out, DTensor):
                    out_of_its_own(algorithm.name, out, sharded, wanting)
            if wanting and algorithm.gradient is None:
                reason = f"its sharded algorithm has no gradient, and {wanting[0]} requires grad"
                raise refuse_sharded(algorithm.name, reason, "Call it under torch.no_grad(), or on gathered operands")
        if not wanting:
            return _on_parts(algorithm.name, algorithm.fn, mesh, (), bound)
        kind: list[Any] = []
        result = _Differentiated.apply(  # type: ignore[no-untyped-call]
            algorithm, mesh, bound, kind, *(x for _, x in sharded)
        )
        return kind[0](*result) if kind else result


def run(op: str, fn: Callable[..., Any], mesh: DeviceMesh, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run an algorithm on this rank's parts; report a failure here to the ranks that wait."""
    with _call(op, mesh):
        return _on_parts(op, fn, mesh, args, kwargs)


def _on_parts(op: str, fn: Callable[..., Any], mesh: DeviceMesh, args: Any, kwargs: Mapping[str, Any]) -> Any:
    team = LiveTeam(op, mesh, world())
    with _before_data(op, mesh):
        parts = map_values(list(args), DTensor, lambda x: Part.of(op, x))
        named = map_values(kwargs, DTensor, lambda x: Part.of(op, x))
    said = {str(i): describe_argument(value) for i, value in enumerate(parts)} | {
        name: describe_argument(value, contents=name != "out") for name, value in named.items()
    }
    try:
        agree(team, f"{op}({', '.join(f'{name}: {value}' for name, value in said.items())})")
    except BaseException as error:
        heard = isinstance(error, RankFailed) and error.waiting_for == AGREEMENT.format(op)
        if not heard and not isinstance(error, ArgumentError):
            # others may have agreed already, and give up their groups
            team.world.groups.give_up()
        raise
    try:
        result = fn(team, *parts, **named)
        team.end()
    except BaseException:
        # no rank passes the end of a call that one has failed in, so that all of them come here
        team.world.groups.give_up()
        raise
    if result is not None and result is named.get("out"):
        # the caller's own array, which now holds the result
        return kwargs["out"]
    return map_values(result, Part, lambda part: part.on(mesh))


@contextmanager
def _call(op: str, mesh: DeviceMesh) -> Iterator[None]:
    """Count a call; when it fails here, tell the ranks that wait in it."""
    here = world()
    if mesh.get_coordinate() is None:
        got = f"ranks {mesh.mesh.flatten().tolist()}, and this is rank {here.rank}"
        raise ArgumentError(op, "mesh", got, "a mesh that this rank is part of")
    here.begin(op, mesh.mesh.flatten().tolist())
    try:
        yield
    except RankFailed:
        raise
    except BaseException as error:
        here.report_error(error)
        raise
    finally:
        here.end()


@contextmanager
def _before_data(op: str, mesh: DeviceMesh) -> Iterator[None]:
    """Announce a refusal where the other ranks expect agreement, so that all leave the call and can continue."""
    try:
        yield
    except Exception as error:
        here = world()
        kept, here.timeout = here.timeout, min(here.timeout, _PATIENCE)
        try:
            with contextlib.suppress(RankFailed, ArgumentError):
                agree(LiveTeam(op, mesh, here), f"{RAISED}{type(error).__name__}: {error}")
        finally:
            here.timeout = kept
        raise


class _Differentiated(torch.autograd.Function):
    """A sharded call that autograd sees as one step."""

    @staticmethod
    def forward(
        ctx: Any, algorithm: Algorithm, mesh: DeviceMesh, bound: Mapping[str, Any], kind: list[Any], *tensors: DTensor
    ) -> Any:
        ctx.algorithm = algorithm
        ctx.bound = map_values(bound, DTensor, lambda _: None)
        ctx.sharded = [name for name, value in bound.items() for x in inside(value) if isinstance(x, DTensor)]
        result = _on_parts(algorithm.name, algorithm.fn, mesh, (), bound)
        ctx.single = isinstance(result, Tensor)
        # what nobody has used has no gradient, rather than zeros that are not sharded
        ctx.set_materialize_grads(False)
        if hasattr(result, "_fields"):
            # autograd makes a plain tuple of it
            kind.append(type(result))
        ctx.save_for_backward(*tensors, *([result] if ctx.single else result))
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        saved = ctx.saved_tensors
        count = len(ctx.sharded)
        operands: dict[str, list[Any]] = {}
        for name, tensor in zip(ctx.sharded, saved[:count], strict=True):
            operands.setdefault(name, []).append(tensor)
        bound = dict(ctx.bound)
        for name, tensors in operands.items():
            bound[name] = tensors if isinstance(ctx.bound[name], list) else tensors[0]
        result = saved[count] if ctx.single else saved[count:]
        gradients = ctx.algorithm.gradient(bound, result, *grads)
        wanted = iter(ctx.needs_input_grad[4:])
        aligned: list[Any] = []
        for name, tensors in operands.items():
            of_name = gradients.get(name)
            each = of_name if isinstance(of_name, list) else [of_name] * len(tensors)
            for make, operand in zip(each, tensors, strict=True):
                grad = make() if next(wanted) and make is not None else None
                aligned.append(None if grad is None else grad.redistribute(operand.device_mesh, operand.placements))
        return (None, None, None, None, *aligned)
