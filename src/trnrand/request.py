"""One draw from check to result: size, parameters, the share of this process, the words it may read, where it goes.

Nothing moves before `Request.finish`, so an error anywhere leaves the generator as it was.
"""

import functools
import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence as SequenceOf
from typing import Any, ParamSpec, SupportsIndex, TypedDict

import torch
from torch import Tensor

from trnrand.bits import block_words, stream_words
from trnrand.source import Source, default, fits, rows, shape_of
from trnrand.stream import SUBSTREAM, Stream
from trnsci import ArgumentError, DtypeError, UnsupportedError, array_function, check
from trnsci.arrays import spelt_out
from trnsci.graph.draws import draw_each_time, is_drawing, refuse_draw
from trnsci.torch_internals import TransformType, disable_dynamo, peek_interpreter_stack

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
Number = float | int | Tensor
# How a caller gives sizes: numbers one after the other, or all of them at once.
Size = SupportsIndex | SequenceOf[SupportsIndex]
_CPU = torch.device("cpu")

# what a parameter must be: the words of the error, and the test, which takes a float as well as a tensor
RULES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "finite": ("a finite number", lambda x: abs(x) < math.inf),
    "positive": ("a positive finite number", lambda x: (x > 0) & (x < math.inf)),
    # of gamma variates, whose logarithm is a logarithm of a uniform over it
    "shape": ("a positive finite number, at least 1e-299", lambda x: (x >= 1e-299) & (x < math.inf)),
    "non-negative": ("a non-negative finite number", lambda x: (x >= 0) & (x < math.inf)),
    "probability": ("0 <= p <= 1", lambda x: (x >= 0) & (x <= 1)),
    "positive probability": ("0 < p <= 1", lambda x: (x > 0) & (x <= 1)),
    "rate": ("0 <= rate <= 2**62", lambda x: (x >= 0) & (x <= 2.0**62)),
    "count": ("a whole number from 0 to 2**53", lambda x: (x >= 0) & (x <= 2.0**53) & (x % 1 == 0)),
    "any but NaN": ("a number", lambda x: x == x),
}

_PLAIN = frozenset({int, float, bool, str, type(None), torch.dtype, Tensor})

_VMAP = TransformType.Vmap

P = ParamSpec("P")


class Options(TypedDict, total=False):
    """Keywords of every distribution, in addition to its own parameters."""

    dtype: torch.dtype | None
    device: torch.device | str | None
    out: Tensor | None
    generator: Source | None


# What distributions say of the arguments they share, unless their own docstring says more.
_SHARED = {
    "size": "the shape; without one, the shape the parameters broadcast to.",
    "dtype": "float16, bfloat16, float32 or float64; computed in float64 and rounded once.",
    "device": "where the result goes.",
    "out": "memory for the result.",
    "generator": "a `Generator`; by default the one `manual_seed` seeds.",
}
_RAISES = "\n\nRaises:\n    ArgumentError: a parameter is out of range. Nothing was drawn."


def _complete_docstring(function: Callable[..., Any]) -> None:
    """Complete the docstring of a distribution by what it shares with the others."""
    summary, section, rest = inspect.cleandoc(function.__doc__ or "").partition("Args:\n")
    if not section:
        return
    own, _, rest = rest.partition("\n\n")
    said = set(re.findall(r"^ {4}(\w+):", own, re.M))
    taken = inspect.signature(function).parameters
    size, *others = [f"    {x}: {text}\n" if x in taken.keys() - said else "" for x, text in _SHARED.items()]
    function.__doc__ = f"{summary}{section}{size}{own}\n{''.join(others)}\n{rest}"
    if "Raises:" not in rest and said - _SHARED.keys():
        function.__doc__ += _RAISES


def drawing(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Decorate a function that draws: NumPy in, NumPy out, and ``torch.compile`` leaves it to eager mode.

    A draw moves a generator, which is Python's state and no tensor's, so a compiled region is cut around it. It holds
    the generator's lock, so threads that share one draw one after the other.
    """
    keywords = spelt_out(function)
    parameters = inspect.signature(function).parameters.values()
    kinds = [x.kind for x in parameters]
    sized, before = inspect.Parameter.VAR_POSITIONAL in kinds, kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = keywords or frozenset(x.name for x in parameters if x.kind is not x.VAR_POSITIONAL)
    _complete_docstring(function)

    @functools.wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        if (level := peek_interpreter_stack()) is not None and level.key() == _VMAP:
            reasons = [("vmap", "a draw moves a generator once, not once for every element of a batch")]
            hint = "Parameters broadcast: draw the whole batch in one call, outside vmap"
            raise UnsupportedError(function.__name__, reasons, hint=hint)
        given = kwargs.get("generator")
        with (given if isinstance(given, Source) else default()).lock:
            return function(*args, **kwargs)

    eager = array_function(alone)
    # torch.compiler.disable would import the compiler, a second that few programs need, here and now
    outside = disable_dynamo(eager)

    @functools.wraps(function)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        if kwargs and not known.issuperset(kwargs):
            sizes = _with_size(function.__name__, args, kwargs, before) if sized else args
            if unknown := kwargs.keys() - known:
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {min(unknown)!r}")
            return drawn(*sizes, **kwargs)
        if torch.compiler.is_compiling():
            return outside(*args, **kwargs)
        if is_drawing():
            return _draw_each_time(function.__name__, eager, args, kwargs)
        # a generator is no array; what has none at all skips the door
        if _PLAIN.issuperset(map(type, args)):
            for name, value in kwargs.items():
                if type(value) not in _PLAIN and name != "generator":
                    break
            else:
                return alone(*args, **kwargs)
        return eager(*args, **kwargs)

    return drawn


def _draw_each_time(op: str, call: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
    """Draw inside a traced function; the generator stays where it was until the program runs."""
    given = kwargs.get("generator")
    source = given if isinstance(given, Source) else default()
    if source.gives_arrays:
        refuse_draw(op)
    before = source.stream
    return draw_each_time(op, call, args, kwargs, undo=lambda: setattr(source, "stream", before))


def _with_size(op: str, args: tuple[Any, ...], kwargs: dict[str, Any], before: int) -> tuple[Any, ...]:
    """Move NumPy's ``size=`` from the keywords to the positional arguments; ``None`` stands for none given."""
    size = kwargs.pop("size", None)
    if size is None:
        return args
    if len(args) > before:
        raise ArgumentError(op, "size", size, f"none by name, because {args} has it already")
    return (*args, size)


class Request:
    """A checked call.

    Args:
        op: name of the function, for errors.
        size: what the caller gave as ``*size``; empty means the parameters' own shape.
        generator: the source, or ``None`` for the default one.
        dtype, device, out: as the caller gave them.
        dtypes: the dtypes a result may have; the first is the default of integer results.
        event: trailing axes of one draw that parameters do not have (a vector of categories, of coordinates).
        whole: draw everything in every process, and take this one's rows of the result in `finish`.
        parameters: each a value and its rule of `RULES`.
    """

    def __init__(
        self,
        op: str,
        size: tuple[Any, ...],
        /,
        generator: Source | None = None,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        out: Tensor | None = None,
        dtypes: tuple[torch.dtype, ...] = FLOATS,
        event: tuple[int, ...] = (),
        whole: bool = False,
        **parameters: tuple[Any, str],
    ) -> None:
        self.op = op
        if generator is not None and not isinstance(generator, Source):
            hint = "torch's own generators have another engine; make one with trnrand.Generator(seed)"
            raise DtypeError(op, "generator", type(generator), "a trnrand.Generator", hint=hint)
        self.source = generator or default()
        self._parameters: dict[str, Any] = {}
        tensors: dict[str, Tensor] = {}
        given: dict[str, Tensor] = {}
        for name, (value, rule) in parameters.items():
            self._parameters[name] = parameter = check_parameter(op, name, value, rule)
            if isinstance(parameter, Tensor):
                tensors[name], given[name] = parameter, value
        if out is not None:
            check.dense(op, out=out)
        self.device = _device(op, device, out, tensors)
        self.dtype = _dtype(op, dtype, out, given, dtypes)
        self._whole_numbers = dtypes[0] == torch.int64 and self.dtype != torch.bool
        batch = check.broadcast(op, **{name: tuple(value.shape) for name, value in tensors.items()}) if tensors else ()
        if size:
            shape = shape_of(op, size)
            if tensors:
                holds(op, shape, batch)
        else:
            shape = batch
        self.shape = (*shape, *event)
        # the stream's words and one intermediate of 8 bytes come with every element
        fits(op, self.shape, 8, self.device)
        start, stop = rows(self.source, op, self.shape)
        inner = math.prod(self.shape[1:]) if self.shape else 1
        self.local = (stop - start, *self.shape[1:]) if self.shape else ()
        self._taken = slice(start, stop) if whole and self.shape else None
        if whole:
            start, stop = 0, self.shape[0] if self.shape else 1
        self.first, self.count, self.total = start * inner, (stop - start) * inner, math.prod(self.shape)
        self._rows = slice(start, stop)
        self.out = out
        if out is not None:
            # a parameter may be called shape, as check.out's own argument is
            operands = {f"parameter {name}": tensor for name, tensor in tensors.items()}
            check.out(op, out, shape=self.local, dtype=self.dtype, **operands)
        self._begin = self._end = self.source.position

    def parameter(self, name: str) -> Any:
        """Return the parameter of each element drawn here: a number, or float64 [count]."""
        value = self._parameters[name]
        if not isinstance(value, Tensor):
            return value
        whole = value.expand(self.shape) if value.ndim <= len(self.shape) else value
        return (whole[self._rows] if self.shape else whole).reshape(-1)

    def tensor(self, name: str) -> Tensor:
        """Return the parameter as float64 of one element, or of [count]."""
        value = self.parameter(name)
        if isinstance(value, Tensor):
            return value
        # filled where it is: a copy from the host would wait for the device
        return torch.full((1,), value, dtype=torch.float64, device=self.device)

    def claim(self, words: int) -> tuple[Stream, int]:
        """Return the stream and the element where this share begins, if an element is ``words`` (1 or 2) words."""
        self._begin = -(-self.source.position // words) * words
        self._end = self._begin + words * self.total
        return self.source.stream, self._begin // words + self.first

    def open_unit(self) -> Tensor:
        """Return uniform float64 numbers in (0, 1), two words each."""
        stream, first = self.claim(2)
        words = stream_words(stream, 2 * first, 2 * self.count, self.device).view(-1, 2)
        return open_unit(words[:, 0], words[:, 1])

    def blocks(self, slot: int = 0, attempt: int = 0, chosen: Tensor | None = None) -> Tensor:
        """Return four words (int64 [n, 4]) of each element's own substream, or of the ``chosen`` elements'."""
        stream, first = self.claim(1)
        base = substream(stream, slot, attempt)
        if chosen is None:
            return stream_words(base, 4 * first, 4 * self.count, self.device).view(-1, 4)
        return block_words(base, first, chosen)

    def finish(self, values: Tensor) -> Tensor:
        """Give the result its shape and dtype, and move the generator."""
        if self._taken is not None:
            values = values.reshape(self.shape)[self._taken]
        result = values.reshape(self.local)
        if result.dtype != self.dtype:
            if self._whole_numbers:
                self._holds(result)
            result = result.to(self.dtype)
        if self.out is not None:
            result = self.out.copy_(result)
        self.commit()
        return result

    def _holds(self, counts: Tensor) -> None:
        """Check that the result's dtype holds every count."""
        floating = self.dtype.is_floating_point
        limits = torch.finfo(self.dtype) if floating else torch.iinfo(self.dtype)
        if self.dtype in (torch.int64, torch.float32, torch.float64) or counts.is_meta or not counts.numel():
            return
        low, high = (x.item() for x in counts.detach().aminmax())
        if low < limits.min or high > limits.max:
            name = str(self.dtype).removeprefix("torch.")
            got = f"{name}, and a count is {int(high if high > limits.max else low)}"
            raise ArgumentError(self.op, "dtype", got, "a dtype that holds every count", hint="int64 holds them")

    def commit(self) -> None:
        """Move the generator past what was claimed."""
        self.source.stream = self.source.stream.at(self._end)


def substream(stream: Stream, slot: int, attempt: int) -> Stream:
    """Return the stream whose block ``i`` is element ``i``'s: ``slot`` separates parts of a draw, then attempts."""
    return Stream(
        stream.key, stream.engine, (stream.base ^ SUBSTREAM) + (slot << 116) + (attempt << 96) & (1 << 128) - 1
    )


def holds(op: str, size: tuple[int, ...], batch: tuple[int, ...]) -> None:
    """Check that parameters of a shape broadcast to the size asked for."""
    if check.broadcast_shape(size, batch) != size:
        raise ArgumentError(op, "size", {"size": size, "parameters": batch}, hint="Parameters must broadcast to size")


def half_open(low: Tensor, high: Tensor) -> Tensor:
    """Return a number in [0, 1) with 53 bits from two words."""
    return (high << 21 | low >> 11).double() * 2.0**-53


def open_unit(low: Tensor, high: Tensor) -> Tensor:
    """Return uniform float64 numbers in (0, 1), two words each."""
    return ((high << 20 | low >> 12).double() + 0.5) * 2.0**-52


def as_tensor(op: str, name: str, value: Any, dtype: torch.dtype | None = None) -> Tensor:
    """Return a tensor, or nested numbers as one: of ``dtype``, or of the dtype torch gives them."""
    try:
        tensor = value if isinstance(value, Tensor) else torch.as_tensor(value, dtype=dtype, device="cpu")
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise DtypeError(op, name, type(value), "a tensor of numbers") from None
    check.dense(op, **{name: tensor})
    return tensor


def check_parameter(op: str, name: str, value: Any, rule: str) -> Any:
    """Check a parameter against its rule, and return it as float or float64 tensor."""
    words, test = RULES[rule]
    if isinstance(value, Tensor):
        check.dense(op, **{name: value})
        if value.is_complex() or value.is_quantized:
            raise DtypeError(op, name, value.dtype, "a real tensor")
        wide = value.double()
        if not wide.is_meta:
            good = test(wide.detach())
            if not bool(good.all()):
                raise ArgumentError(op, name, value.detach()[~good].flatten()[0].item(), words)
        return wide
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DtypeError(op, name, type(value), "a number or a tensor")
    # an integer beyond float64 is infinite to every rule
    fits = isinstance(value, float) or abs(value) < 1 << 1024
    scalar = float(value) if fits else math.inf if value > 0 else -math.inf
    check.refuse(not test(scalar), op, name, value, words)
    return scalar


def _device(op: str, device: Any, out: Tensor | None, tensors: Mapping[str, Tensor]) -> torch.device:
    if out is None and not tensors:
        return _CPU if device is None else _add_index(check.device(op, device))
    devices = {name: value.device for name, value in tensors.items()}
    if out is not None:
        devices["out"] = out.device
    if device is not None:
        devices["device"] = _add_index(check.device(op, device))
    check.refuse(len(set(devices.values())) > 1, op, "device", devices, hint="Move one side with .to(device)")
    return next(iter(devices.values()))


def _add_index(device: torch.device) -> torch.device:
    """Return the device that a tensor there would have."""
    current = device.index is None and device.type == "cuda"
    return torch.device("cuda", torch.cuda.current_device()) if current else device


def _dtype(
    op: str, dtype: Any, out: Tensor | None, tensors: Mapping[str, Tensor], dtypes: tuple[torch.dtype, ...]
) -> torch.dtype:
    if dtype is not None and out is not None and out.dtype != dtype:
        raise DtypeError(op, "dtype", {"dtype": dtype, "out": out.dtype})
    chosen = dtype if dtype is not None else out.dtype if out is not None else None
    if chosen is None and dtypes[0].is_floating_point:
        floating = [t.dtype for t in tensors.values() if t.is_floating_point()]
        chosen = floating[0] if floating else torch.get_default_dtype()
        for other in floating:
            chosen = torch.promote_types(chosen, other)
    elif chosen is None:
        chosen = dtypes[0]
    if chosen not in dtypes:
        raise DtypeError(op, "dtype", chosen, "one of " + ", ".join(str(d).removeprefix("torch.") for d in dtypes))
    return chosen
