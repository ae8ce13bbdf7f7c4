"""Quasi-random sequences: a position, points from there on, and randomness of their own."""

from __future__ import annotations

import copy
import threading
from typing import Any, Self

import torch
from torch import Tensor

from trnrand.request import FLOATS
from trnrand.source import Source, default, fits
from trnrand.stream import Stream
from trnsci import ArgumentError, check, figures
from trnsci.graph.draws import refuse_draw
from trnsim import notebook

# held while a position moves, never while points are computed
_MOVING = threading.Lock()


class Sequence:
    """A sequence of points in the unit cube. `random` moves the position; `at` gives a copy that stands elsewhere.

    Threads may share one: every point is handed out once.
    """

    # points there are
    end = 1 << 62

    def __init__(
        self,
        name: str,
        d: int,
        most: int,
        scramble: bool | str | None,
        kinds: tuple[str, ...],
        generator: Source | None,
        seed: int | None = None,
    ) -> None:
        self.name = name
        self.d = check.integer(name, "d", d, 1, most)
        if seed is not None and (generator is not None or scramble is False):
            other = "scramble" if generator is None else "generator"
            raise ArgumentError(name, "seed", seed, f"None with {other}={scramble if generator is None else generator}")
        if scramble is None:
            scramble = seed is not None
        check.kind(name, "scramble", scramble, bool | str, "True, False or a name")
        check.option(name, "scramble", scramble, (False, True, *kinds))
        self.scramble: str | None = kinds[0] if scramble is True else scramble or None
        self.position = 0
        self.stream: Stream | None = None
        if self.scramble is not None:
            source = (default() if seed is None else Source(seed)) if generator is None else generator
            check.kind(name, "generator", source, Source, "a trnrand.Generator")
            self.stream = source.fold()

    def at(self, offset: int) -> Self:
        """Return the same sequence, positioned at a point."""
        moved = copy.copy(self)
        moved.position = check.integer(self.name, "offset", offset, 0, 1 << 62)
        return moved

    def reset(self) -> Self:
        """Go back to the first point."""
        self.position = 0
        return self

    def fast_forward(self, n: int) -> Self:
        """Leave out the next ``n`` points."""
        self._claim(check.integer(self.name, "n", n, 0))
        return self

    def _claim(self, n: int) -> Self:
        """Move by ``n`` points, and return a copy that stands where they begin."""
        refuse_draw(self.name)
        with _MOVING:
            if self.position + n > self.end:
                got = {"position": self.position, "n": n, "points": self.end}
                raise ArgumentError(self.name, "n", got, hint="There are no more points")
            mine = self.at(self.position)
            self.position += n
        return mine

    def random(
        self,
        n: int = 1,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Return the next ``n`` points: [n, d] in [0, 1).

        Args:
            n: how many.
            dtype: float16, bfloat16, float32 or float64; by default torch's default.
            device: where the result goes.
            out: memory for the result.
        """
        n = check.integer(self.name, "n", n, 0)
        if out is not None:
            check.dense(self.name, out=out)
        kind = out.dtype if dtype is None and out is not None else torch.get_default_dtype() if dtype is None else dtype
        check.kind(self.name, "dtype", kind, torch.dtype, "a torch.dtype")
        check.option(self.name, "dtype", kind, FLOATS)
        where = torch.device("cpu") if out is None else out.device
        if device is not None:
            where = check.device(self.name, device)
        fits(self.name, (n, self.d), 8, where)
        if out is not None:
            check.out(self.name, out, shape=(n, self.d), dtype=kind)
        points = self._claim(n)._points(n, kind, where)
        return points if out is None else out.copy_(points)

    def _points(self, n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{self.name}(d={self.d}, scramble={self.scramble!r}, position={self.position})"

    def _repr_html_(self) -> str:
        points = self._preview()
        return notebook.fragment(
            repr(self), notebook.points("first two coordinates", points[:, [0, min(self.d, 2) - 1]])
        )

    def plot(self, n: int = 256, axes: figures.Axes | None = None) -> figures.Axes:
        """Draw the first two coordinates of the next ``n`` points without moving; return Matplotlib's axes."""
        return figures.plot_points(self._preview(n), self.name, axes)

    def _preview(self, n: int = 256) -> Any:
        """Return the next points without moving."""
        return self.at(self.position).random(min(n, self.end - self.position), dtype=torch.float64).numpy()
