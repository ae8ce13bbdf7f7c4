"""The earlier `trnrand`: float32 by default, ``mean`` and ``std``, and generators with a rank of their own."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

import trnrand
from trnsci import ArgumentError
from trnsci.earlier.calls import Function, read_calls

_SINGLE = torch.float32
_ours = {
    name: getattr(trnrand, name)
    for name in (
        "Generator", "Sobol", "Halton", "LatinHypercube", "exponential", "permutation", "default_generator",
    )
}  # fmt: skip


class Generator:
    """Random numbers from a seed; ranks of one seed draw from independent streams.

    Args:
        seed: an integer, or ``None`` for a seed of the operating system.
        device: where results go.
        partition_rank: which of ``partition_size`` streams this is.
        partition_size: the number of streams.
    """

    def __init__(
        self, seed: int | None = None, device: Any = "cpu", partition_rank: int = 0, partition_size: int = 1
    ) -> None:
        if not 0 <= partition_rank < partition_size:
            limits = f"0 <= partition_rank < partition_size, which is {partition_size}"
            raise ArgumentError("Generator", "partition_rank", partition_rank, limits)
        self.device = torch.device(device)
        self.partition_rank, self.partition_size = partition_rank, partition_size
        self.torch_generator = torch.Generator()
        self._begin(seed)

    def _begin(self, seed: int | None) -> None:
        source = _ours["Generator"](seed)
        self.seed = source.initial_seed()
        # for draws of torch's own; those of this suite have a stream of their own
        self.torch_generator.manual_seed(self.seed)
        size = self.partition_size
        self._numbers = source if size == 1 else _ours["Generator"](source.stream.split(size)[self.partition_rank])

    def manual_seed(self, seed: int) -> Self:
        """Begin again from a seed."""
        self._begin(seed)
        return self

    def position(self) -> int:
        """Return the number of 32-bit words drawn so far."""
        return int(self._numbers.position)

    def advance(self, n_samples: int) -> Self:
        """Skip samples of 32 bits."""
        self._numbers.advance(n_samples)
        return self

    def advance_to(self, position: int) -> Self:
        """Move to a position."""
        return self.advance(position - self.position())

    def get_state(self) -> Tensor:
        """Return all that decides future draws."""
        state: Tensor = self._numbers.get_state()
        return state

    def set_state(self, state: Tensor) -> Self:
        """Return to a state."""
        self._numbers.set_state(state)
        return self

    def __reduce__(self) -> Any:
        return Generator, (self.seed, self.device, self.partition_rank, self.partition_size), self.get_state()

    __setstate__ = set_state

    def new_program(self) -> ProgramBuilder:
        """Begin a list of draws that `GeneratorProgram.stream_into` makes from this generator's seed and position."""
        return ProgramBuilder(self)


@functools.cache
def get_default_generator() -> Generator:
    """Return the generator of module-level functions."""
    shared = Generator(0)
    shared._numbers = _ours["default_generator"]()
    return shared


def manual_seed(seed: int) -> Generator:
    """Seed the default generator, and return it."""
    shared = get_default_generator()
    shared._numbers.manual_seed(seed)
    shared.torch_generator.manual_seed(seed)
    shared.seed = seed
    return shared


def _source(generator: Any) -> dict[str, Any]:
    """Return the arguments that name a generator of ours and the device of its results."""
    if generator is None:
        return {}
    if isinstance(generator, Generator):
        return {"generator": generator._numbers, "device": generator.device}
    if isinstance(generator, torch.Generator):
        seed = torch.randint(1 << 62, (), generator=generator, device=generator.device)
        return {"generator": _ours["Generator"](int(seed)), "device": generator.device}
    return {"generator": generator}


def _draw(function: Function) -> Function:
    """Decorate a function of ours: it draws from an earlier generator, on the device of that."""
    return lambda *size, generator, **parameters: function(*size, **parameters, **_source(generator))


def _fill(function: Function) -> Function:
    """Decorate a function of ours: it writes a draw of the shape and dtype of a buffer into it, and returns it."""
    return lambda buf, **parameters: buf.copy_(_draw(function)(*buf.shape, dtype=buf.dtype, **parameters))


_PLAIN = read_calls("trnrand", {"draw": _draw, "fill": _fill})["trnrand"]


def exponential(*size: Any, rate: float = 1.0, dtype: Any = _SINGLE, generator: Any = None) -> Tensor:
    """Draw from an exponential distribution of a rate."""
    if not rate > 0:
        raise ArgumentError("exponential", "rate", rate, "a positive rate")
    return _ours["exponential"](*size, scale=1.0 / rate, dtype=dtype, **_source(generator))


def randperm(n: int, dtype: Any = torch.int64, generator: Any = None) -> Tensor:
    """Draw a random order of ``n`` integers."""
    return _ours["permutation"](n, **_source(generator)).to(dtype)


def exponential_into(buf: Tensor, rate: float = 1.0, generator: Any = None) -> Tensor:
    """Fill a buffer with exponential numbers, and return it."""
    return buf.copy_(exponential(*buf.shape, rate=rate, dtype=buf.dtype, generator=generator))


def sobol(n_points: int, n_dims: int, seed: int | None = None, scramble: bool = True, dtype: Any = _SINGLE) -> Tensor:
    """Return the first points of a Sobol sequence, scrambled by a seed."""
    generator = {"generator": _ours["Generator"](seed)} if scramble else {}
    return _ours["Sobol"](n_dims, scramble=scramble, **generator).random(n_points, dtype=dtype)


def halton(n_points: int, n_dims: int, dtype: Any = _SINGLE) -> Tensor:
    """Return the first points of a Halton sequence."""
    return _ours["Halton"](n_dims).random(n_points, dtype=dtype)


def latin_hypercube(n_points: int, n_dims: int, dtype: Any = _SINGLE, generator: Any = None) -> Tensor:
    """Return a Latin hypercube: one point in each of ``n_points`` cells of every axis."""
    source = {key: value for key, value in _source(generator).items() if key == "generator"}
    return _ours["LatinHypercube"](n_dims, n_points, **source).random(n_points, dtype=dtype)


_FILLS = {name: _PLAIN[f"{name}_into"] for name in ("normal", "uniform")} | {"exponential": exponential_into}


class GeneratorProgram:
    """A list of draws, made one after another from one stream.

    Args:
        steps: for each buffer the name of a distribution (``normal``, ``uniform``, ``exponential``), alone or with its
            parameters: ``("normal", {"mean": 1.0})`` or ``("normal", 1.0, 2.0)``.
        seed: of the stream.
        partition_rank: which of ``partition_size`` streams to draw from.
        partition_size: the number of streams.
        counter_start: the position of the first draw.
    """

    def __init__(
        self,
        steps: Sequence[Any],
        seed: int = 0,
        partition_rank: int = 0,
        partition_size: int = 1,
        counter_start: int = 0,
    ) -> None:
        self.steps = [_read_step(step) for step in steps]
        self._generator = Generator(seed, partition_rank=partition_rank, partition_size=partition_size)
        self._generator.advance_to(counter_start)

    def stream_into(self, buffers: Sequence[Tensor]) -> Sequence[Tensor]:
        """Fill one buffer for each step, and return them."""
        if len(buffers) != len(self.steps):
            raise ArgumentError(
                "stream_into", "number of buffers", len(buffers), f"{len(self.steps)}, one for each step"
            )
        for (name, args, keywords), buf in zip(self.steps, buffers, strict=True):
            _FILLS[name](buf, *args, **keywords, generator=self._generator)
        return buffers


def _read_step(step: Any) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    name, *args = (step,) if isinstance(step, str) else tuple(step)
    if name not in _FILLS:
        raise ArgumentError("GeneratorProgram", "step", name, f"one of {', '.join(_FILLS)}")
    keywords = dict(args.pop()) if args and isinstance(args[-1], dict) else {}
    return name, tuple(args), keywords


class ProgramBuilder:
    """Steps of a program in the making: each method adds one and returns the builder."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self.steps: list[Any] = []

    def _add(self, name: str, **parameters: float) -> Self:
        self.steps.append((name, parameters))
        return self

    def normal(self, mean: float = 0.0, std: float = 1.0) -> Self:
        """Add normal numbers."""
        return self._add("normal", mean=mean, std=std)

    def uniform(self, low: float = 0.0, high: float = 1.0) -> Self:
        """Add uniform numbers."""
        return self._add("uniform", low=low, high=high)

    def exponential(self, rate: float = 1.0) -> Self:
        """Add exponential numbers."""
        return self._add("exponential", rate=rate)

    def build(self) -> GeneratorProgram:
        """Return the program, which draws from where the generator stands."""
        owner = self._generator
        return GeneratorProgram(self.steps, owner.seed, owner.partition_rank, owner.partition_size, owner.position())

    def stream_into(self, buffers: Sequence[Tensor]) -> Sequence[Tensor]:
        """Build the program and fill one buffer for each step."""
        return self.build().stream_into(buffers)


_DRAWS = (exponential, randperm, exponential_into)
_DISTRIBUTIONS = _PLAIN | {f.__name__: f for f in _DRAWS}
_QUASI = {f.__name__: f for f in (sobol, halton, latin_hypercube)}
_GENERATORS = {x.__name__: x for x in (Generator, GeneratorProgram, get_default_generator, manual_seed)}
MODULES: dict[str, dict[str, Any]] = {
    "trnrand": {**_DISTRIBUTIONS, **_QUASI, **_GENERATORS},
    "trnrand.distributions": _DISTRIBUTIONS,
    "trnrand.quasi": _QUASI,
    "trnrand.generator": _GENERATORS,
}
