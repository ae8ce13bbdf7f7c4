"""Arguments of a call on sharded arrays: by name, checked as the function checks whole ones, on one mesh."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from trnsci.check import overlap
from trnsci.distributed.parts import Layout, Part
from trnsci.errors import ArgumentError

if TYPE_CHECKING:
    from trnsci.distributed.calls import Algorithm


def by_name(algorithm: Algorithm, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with defaults, by name; those of a star are a list."""
    try:
        bound = inspect.signature(algorithm.public).bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(algorithm.name, "arguments", str(error), "those of its signature") from None
    bound.apply_defaults()
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = inspect.signature(algorithm.public).parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        else:
            named[name] = list(value) if kind is inspect.Parameter.VAR_POSITIONAL else value
    return algorithm.settle(named)


def numbers(algorithm: Algorithm, bound: dict[str, Any]) -> dict[str, Any]:
    """Replace sharded numbers (no axes, a copy on every rank) by plain ones, where another argument is sharded too.

    What is a tensor by its annotation, an addend or ``out``, stays one.
    """
    kinds = {name: str(one.annotation) for name, one in inspect.signature(algorithm.public).parameters.items()}
    numbers = {
        name: value
        for name, value in bound.items()
        if isinstance(value, DTensor) and value.ndim == 0 and all(p.is_replicate() for p in value.placements)
        if "Tensor" not in kinds.get(name, "")
    }
    if not any(isinstance(x, DTensor) for name, value in bound.items() if name not in numbers for x in inside(value)):
        return bound
    for name, value in numbers.items():
        if value.requires_grad and torch.is_grad_enabled():
            hint = "Multiply the result by the tensor to differentiate with respect to it"
            raise ArgumentError(algorithm.name, name, "a tensor that requires grad", "a number", hint=hint)
    return bound | {name: value.to_local().item() for name, value in numbers.items()}


def out_of_its_own(op: str, out: DTensor, sharded: list[tuple[str, DTensor]], wanting: list[str]) -> None:
    """Refuse an ``out`` that a gradient passes, that is an operand, or that holds terms of a sum."""
    if wanting:
        got = f"a tensor while {wanting[0]} requires grad"
        hint = "Writing into out= cannot be differentiated; omit it or use torch.no_grad()"
        raise ArgumentError(op, "out", got, "None", hint=hint)
    if any(place.is_partial() for place in out.placements):
        expected = "axes and copies"
        hint = "A result is not taken apart into terms: make out with Shard or Replicate"
        raise ArgumentError(op, "placements of out", out.placements, expected, hint=hint)
    for name, x in sharded:
        if name != "out" and (x is out or overlap(out.to_local(), x.to_local())):
            got = f"memory shared with {name}"
            raise ArgumentError(op, "out", got, "memory of its own", hint=f"Omit out=, or pass a copy of {name}")


def one_mesh(op: str, bound: Mapping[str, Any]) -> DeviceMesh:
    """Return the mesh that all arguments are sharded over."""
    meshes = [(name, x.device_mesh) for name, value in bound.items() for x in inside(value) if isinstance(x, DTensor)]
    first_name, mesh = meshes[0]
    for name, other in meshes:
        if other != mesh:
            raise ArgumentError(op, "mesh", [(first_name, mesh), (name, other)], hint="Use one mesh")
    for name, value in bound.items():
        if any(isinstance(x, Tensor) and not isinstance(x, DTensor) and x.ndim for x in inside(value)):
            expected = f"a DTensor, because {first_name} is one"
            hint = "Shard it with trnsci.distributed.shard(tensor, mesh, ...)"
            raise ArgumentError(op, name, "a tensor of this rank alone", expected, hint=hint)
    return mesh


def check_whole(algorithm: Algorithm, bound: Mapping[str, Any]) -> None:
    """Let the function itself look at the whole shapes: its own errors, before anything is sent."""
    from trnsci.planning import Undecided, trace

    def whole(x: Any) -> Tensor:
        return torch.empty(x.shape, dtype=x.dtype, device="meta")

    shapes = map_values(bound, (DTensor, Layout), whole)
    args, kwargs = [], {}
    for name, parameter in inspect.signature(algorithm.public).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            args += shapes.pop(name)
        elif parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            args.append(shapes.pop(name))
    kwargs.update(shapes)
    trace(algorithm.check, tuple(args), kwargs, recorder=Undecided)


def map_values(value: Any, kind: Any, fn: Callable[[Any], Any]) -> Any:
    """Return the value with ``fn`` of everything of a kind in it, through dicts, lists, tuples and dataclasses."""
    if isinstance(value, kind):
        return fn(value)
    if isinstance(value, dict):
        return {key: map_values(item, kind, fn) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [map_values(item, kind, fn) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if dataclasses.is_dataclass(value) and not isinstance(value, type | Part | Layout):
        changed = {field.name: map_values(getattr(value, field.name), kind, fn) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **changed)
    return value


def inside(value: Any) -> Iterator[Any]:
    """Yield what is in lists and tuples, or the value itself."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from inside(item)
    else:
        yield value
