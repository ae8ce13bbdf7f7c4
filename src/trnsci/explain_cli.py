"""``trnsci explain``: operands for any public function from the words of a command line, and what the call would do."""

from __future__ import annotations

import argparse
import ast
import difflib
import inspect
import itertools
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

import trnsci
from trnsci import config, console, libraries
from trnsci.errors import ArgumentError, TrnError
from trnsci.libraries import operands

# what annotations call an array, besides the words that libraries declare
_ARRAYS = ("Tensor", "Array", "Numbers")
_NUMBERS = ("float", "complex", "Number")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    add = parser.add_argument
    add("op", metavar="FUNCTION", help="a public function, LIBRARY.FUNCTION")
    add("values", metavar="VALUE", nargs="*", help="required arguments that are no arrays, e.g. 'ij,jk->ik'")
    shapes = "shapes of the array arguments in order, e.g. 512x256,256x512 or scalar,64; 64:int32 has its own dtype"
    add("--shapes", default="", help=shapes)
    add("--dtype", default="float32", help="of every array (default float32)")
    add("--density", type=float, default=0.01, help="of sparse matrices: the share of entries stored (default 0.01)")
    add("--backend", choices=config.BACKENDS, help="ask as if this backend had been chosen")
    others = "any other argument, e.g. precision=fast; numbers the function requires count as 1 when left out"
    add("--set", action="append", default=[], metavar="NAME=VALUE", help=others)
    add("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Print which implementations take the call, and its plan; 1 when none takes it."""
    function = _function(args.op)
    operands = Operands(args)
    with trnsci.backend(args.backend) if args.backend else nullcontext():
        positional, named = operands.bind(function, lambda shape, dtype: torch.empty(shape, dtype=dtype, device="meta"))
        try:
            explanation = trnsci.explain(function, *positional, **named)
        except (TrnError, ArithmeticError, NotImplementedError, RuntimeError, TypeError, ValueError) as refusal:
            # values steer this function, so it runs on some
            return _by_running(function, operands, args.json, refusal)
        if not explanation.calls:
            return _nothing(args.op, function, args.json)
        admitted = all(call.chosen != "none" for call in explanation.calls)
        plan = trnsci.plan(function, *positional, **named) if admitted else None
    if args.json:
        calls = [
            {
                "op": call.op,
                "operands": call.operands,
                "chosen": call.chosen,
                "reason": call.reason,
                "backends": {v.backend: {"takes": v.takes, "refusal": v.refusal} for v in call.verdicts},
            }
            for call in explanation.calls
        ]
        console.as_json({"calls": calls, "plan": None if plan is None else _plan_dict(plan)})
    else:
        print(explanation)
        if plan is not None:
            print(f"\n{plan}")
    return 0 if admitted else 1


def _by_running(function: Callable[..., Any], operands: Operands, as_json: bool, refusal: Exception) -> int:
    """Call the function on random values and print what ran."""
    positional, named = operands.bind(function, _random)
    with trnsci.ledger() as book:
        try:
            function(*positional, **named)
        except TrnError:
            raise
        except (TypeError, ValueError, RuntimeError) as error:
            raise _wrong("FUNCTION", operands.op, "arguments it accepts", str(error)) from refusal
    if not len(book):
        return _nothing(operands.op, function, as_json)
    if as_json:
        steps = [entry.step for entry in book if entry.depth == 0]
        calls = [{"op": s.op, "operands": s.operands, "chosen": s.backend, "reason": s.reason} for s in steps]
        console.as_json({"calls": calls, "plan": None, "random_operands": True})
    else:
        print(f"The steps of {operands.op} depend on values; these ran on random operands:\n{book}")
    return 0


def _nothing(op: str, function: Callable[..., Any], as_json: bool) -> int:
    summary = (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")
    if as_json:
        console.as_json({"calls": [], "plan": None})
    else:
        print(f"{op} runs no operation with a kernel: {summary}")
    return 0


def _plan_dict(plan: trnsci.Plan) -> dict[str, Any]:
    return {
        "op": plan.op,
        "backend": plan.backend,
        "reason": plan.reason,
        "flops": plan.flops,
        "bytes_read": plan.bytes_read,
        "bytes_written": plan.bytes_written,
        "peak_bytes": plan.peak_bytes,
        "predicted_seconds": plan.predicted,
        "predicted_interval_seconds": plan.interval,
        "steps": [{"op": step.op, "operands": step.operands, "backend": step.backend} for step in plan.steps],
    }


class Operands:
    """The words of a command line, bound to the parameters of a function."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.op: str = args.op
        self.shapes = _shapes(args.shapes, _dtype(args.dtype))
        self.values = [_literal(text) for text in args.values]
        self.named = dict(_setting(text) for text in args.set)
        self.density: float = args.density

    def bind(
        self, function: Callable[..., Any], make: Callable[[tuple[int, ...], torch.dtype], Tensor]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Give arrays to array parameters in order, values to the other required ones, and 1 to numbers left over."""
        every = inspect.signature(function).parameters
        parameters = {name: p for name, p in every.items() if p.kind is not p.VAR_KEYWORD}
        unknown = sorted(set(self.named) - set(parameters))
        if unknown:
            raise _wrong("--set", unknown[0], f"a parameter of {self.op}: {', '.join(parameters)}")
        shapes, values = iter(self.shapes), list(self.values)
        arrays = (make(shape, dtype) for shape, dtype in shapes)
        positional: list[Any] = []
        named: dict[str, Any] = {}
        variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
        for name, parameter in parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional += self._rest(name, str(parameter.annotation), arrays, values)
                continue
            given, value = self._one(name, parameter, arrays, values)
            if given and variadic and parameter.kind is not parameter.KEYWORD_ONLY:
                positional.append(value)
            elif given:
                named[name] = value
        left = len(list(shapes))
        if left:
            taken = len(self.shapes) - left
            raise _wrong("--shapes", f"{len(self.shapes)} shapes", f"at most {taken}, the arrays {self.op} takes")
        if values:
            raise _wrong("VALUE", values[0], f"no more values than {self.op} requires; others go to --set NAME=VALUE")
        return positional, named

    def _one(
        self, name: str, parameter: inspect.Parameter, arrays: Iterator[Tensor], values: list[Any]
    ) -> tuple[bool, Any]:
        """Return whether a parameter gets a value, and which."""
        kind, required = str(parameter.annotation), parameter.default is parameter.empty
        if name in self.named:
            return True, self.named[name]
        if name == "out":
            return False, None
        if kind.startswith("Sequence[Sequence[str"):
            equations = [values.pop(0) for _ in list(values)]
            return True, [(text, *itertools.islice(arrays, text.count(",") + 1)) for text in equations]
        if "Sequence[Tensor]" in kind and required:
            return True, list(itertools.islice(arrays, len(self.shapes) // 2))
        worded = "str" in kind and values and isinstance(values[0], str)
        is_array = any(word in kind for word in (*_ARRAYS, *operands()))
        if not worded and (kind == "Any" or is_array):
            array = next(arrays, None)
            if array is not None:
                make = next((make for word, make in operands().items() if word in kind), None)
                return True, array if make is None else make(array, self.density)
        if not required:
            return False, None
        if values:
            return True, values.pop(0)
        if "Callable" in kind:
            return True, lambda first, second: first >= second
        if any(word in kind for word in _NUMBERS):
            return True, 1.0
        if is_array:
            got = ",".join("x".join(map(str, shape)) for shape, _ in self.shapes)
            raise _wrong("--shapes", got, f"a shape for every array {self.op} requires", f"{name} has none")
        raise _wrong("--set", "", f"every required argument of {self.op}", f"{name} has no value: --set {name}=...")

    def _rest(self, name: str, kind: str, arrays: Iterator[Tensor], values: list[Any]) -> list[Any]:
        """Return what a parameter such as ``*operands`` or ``*size`` gets."""
        if name in self.named:
            given = self.named[name]
            return list(given) if isinstance(given, (tuple, list)) else [given]
        if name == "size":
            return [size for array in arrays for size in array.shape]
        return [values.pop(0) for _ in list(values)] if kind == "str" else list(arrays)


def _random(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return values most functions accept: square matrices are positive definite, integers count from one."""
    if not (dtype.is_floating_point or dtype.is_complex):
        count = torch.Size(shape).numel()
        return torch.arange(1, count + 1, device="cpu").reshape(shape).to(dtype)
    wide, source = torch.promote_types(dtype, torch.float32), torch.Generator().manual_seed(0)
    x = torch.randn(shape, dtype=wide, generator=source, device="cpu")
    if len(shape) >= 2 and shape[-1] == shape[-2]:
        x = x @ x.mH / max(shape[-1], 1) + torch.eye(shape[-1], dtype=torch.float32, device="cpu")
    return x.to(dtype)


def _wrong(argument: str, got: object, expected: str, hint: str = "") -> ArgumentError:
    return ArgumentError("explain", argument, got, expected, hint=hint)


def _function(name: str) -> Callable[..., Any]:
    library, _, stem = name.partition(".")
    known = {**libraries.load(), "trnsci": trnsci}
    if library not in known or not stem:
        raise _wrong("FUNCTION", name, f"LIBRARY.FUNCTION with one of {', '.join(known)}")
    module = known[library]
    public = [n for n in getattr(module, "__all__", ()) if inspect.isfunction(getattr(module, n))]
    if stem not in public:
        near = difflib.get_close_matches(stem, public, cutoff=0.5)
        shown = ", ".join(f"{library}.{n}" for n in near or public)
        raise _wrong("FUNCTION", name, f"a function of {library}", f"Nearest: {shown}" if near else f"It has {shown}")
    return getattr(module, stem)


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise _wrong("--dtype", name, "a torch dtype such as float32, bfloat16, float64 or complex64")
    return dtype


def _shapes(text: str, default: torch.dtype) -> list[tuple[tuple[int, ...], torch.dtype]]:
    shapes = []
    for part in text.split(",") if text else ():
        shape, _, dtype = part.partition(":")
        sizes = [] if shape in ("scalar", "-") else shape.split("x")
        if not all(size.isdecimal() for size in sizes):
            raise _wrong("--shapes", text, "sizes joined by x, shapes by commas: 512x256,256x512")
        shapes.append((tuple(map(int, sizes)), _dtype(dtype) if dtype else default))
    return shapes


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise _wrong("--set", text, "NAME=VALUE")
    return name, _literal(value)


def _literal(text: str) -> Any:
    """Return a Python literal or dtype; any other word is a string, as in ``precision=fast``."""
    dtype = getattr(torch, text, None)
    if isinstance(dtype, torch.dtype):
        return dtype
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
