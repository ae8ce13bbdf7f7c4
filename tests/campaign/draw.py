"""What a trial draws: sizes with the edges of tiles, dtypes, layouts in memory, and data that finds worst cases."""

from typing import Any

import numpy as np
import torch

REAL = (torch.float64, torch.float32)
COMPLEX = (torch.complex128, torch.complex64)
HALF = (torch.float16, torch.bfloat16)
EDGES = (0, 1, 1, 2, 3, 5, 7, 8, 13, 31, 32, 33, 61, 64, 97, 127, 128, 129, 257, 513)
KINDS = ("gaussian", "gaussian", "constant", "ramp", "alternating", "spike", "graded", "scaled", "integers")


class Draw:
    """A seeded source of choices. ``largest`` bounds every size, which is how a failure is made small.

    Attributes:
        log: what was drawn, in words, for reports.
    """

    def __init__(self, seed: int | tuple[int, ...], largest: int = 10**9) -> None:
        self.rng = np.random.default_rng(seed)
        self.seed, self.largest = seed, largest
        self.log: list[str] = []

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def among(self, *values):
        return values[int(self.rng.integers(len(values)))]

    def size(self, least: int = 0, most: int = 129) -> int:
        """A dimension: often an edge of a tile, sometimes any number."""
        edge, any_size = self.among(*(e for e in EDGES if least <= e <= most)), int(self.rng.integers(least, most + 1))
        return max(least, min(edge if self.chance(0.7) else any_size, self.largest))

    def batch(self, most: int = 2) -> tuple[int, ...]:
        """Leading axes: mostly none."""
        return tuple(self.among(1, 2, 3, 0) for _ in range(self.among(0, 0, 0, 1, 1, most)))

    def broadcastable(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts to ``shape``: axes of one element, or fewer axes."""
        thinned = tuple(1 if self.chance(0.2) else size for size in shape)
        return thinned[self.among(0, 0, 1) :] if thinned and thinned[0] in (1, shape[0]) else thinned

    def dtype(self, *among: torch.dtype) -> torch.dtype:
        return self.among(*(among or (*REAL, *REAL, *COMPLEX)))

    def number(self, dtype: torch.dtype) -> complex:
        """A coefficient: often 0, 1 or -1, which programs treat apart."""
        value = self.among(1.0, 1.0, 0.0, -1.0, 0.5, float(self.rng.normal()))
        return complex(value, self.among(0.0, float(self.rng.normal()))) if dtype.is_complex else value

    def tensor(
        self, shape: tuple[int, ...], dtype: torch.dtype, *, kind: str | None = None, change: Any = None
    ) -> torch.Tensor:
        """Data of some kind, in memory of some layout; ``change`` makes other values of what was drawn."""
        kind = kind or self.among(*KINDS)
        values = self._values(tuple(shape), kind, dtype)
        if dtype.is_complex:
            values = values + 1j * self._values(tuple(shape), self.among(kind, "gaussian"), dtype)
        values = values if change is None else change(values)
        tensor = self.laid_out(torch.from_numpy(np.asarray(values)).to(dtype))
        self.log.append(f"{str(dtype)[6:]}{list(shape)} {kind} strides {tuple(tensor.stride())}")
        return tensor

    def _values(self, shape: tuple[int, ...], kind: str, dtype: torch.dtype) -> np.ndarray:
        rng, index = self.rng, np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape)
        # products of three such numbers stay inside the range
        top = 3.0 if dtype == torch.float16 else 10.0 if dtype in (torch.float32, torch.complex64) else 30.0
        if kind == "constant":
            return np.full(shape, rng.choice([1.0, -1.0, 1 / 3, 100.0]))
        if kind == "ramp":
            return (index + 1) / max(index.size, 1)
        if kind == "alternating":
            return np.where(index % 2, -1.0, 1.0) / 3
        if kind == "spike":
            values = 1e-3 * rng.normal(size=shape)
            if values.size:
                values.flat[rng.integers(values.size)] = 1e3
            return values
        if kind == "graded":
            rows = 10.0 ** np.linspace(-top / 3, top / 3, shape[-2] if len(shape) > 1 else 1)
            return rng.normal(size=shape) * (rows[:, None] if len(shape) > 1 else 1.0)
        if kind == "scaled":
            return rng.normal(size=shape) * 10.0 ** rng.uniform(-top, top)
        if kind == "integers":
            return rng.integers(-3, 4, size=shape).astype(np.float64)
        return rng.normal(size=shape)

    def spectrum(self, n: int) -> np.ndarray:
        """Eigenvalues [N] up to about 3 in magnitude: distinct, repeated, clustered, of both signs, or zero."""
        rng, kind = self.rng, self.among("distinct", "repeated", "integers", "clusters", "signs", "rank", "one", "end")
        self.log.append(f"spectrum {kind}")
        distinct = rng.uniform(-3.0, 3.0, n)
        if kind == "repeated":
            return rng.permutation(np.repeat(distinct, self.among(2, 3, 4))[:n])
        if kind == "integers":
            return rng.integers(-3, 4, n).astype(np.float64)
        if kind == "clusters":
            centres = rng.uniform(-3.0, 3.0, max(1, n // 4))
            return centres[rng.integers(len(centres), size=n)] + rng.normal(size=n) * self.among(1e-9, 1e-12, 1e-15)
        if kind == "signs":
            return np.where(np.arange(n) % 2, -1.0, 1.0) * np.abs(distinct[np.arange(n) // 2])
        if kind == "rank":
            return np.where(np.arange(n) < self.among(0, 1, 2, 5), self.among(distinct, np.full(n, 2.0)), 0.0)
        if kind == "end":
            # a few copies outside, the rest in an interval
            return np.where(np.arange(n) < self.among(2, 3, 5), self.among(3.0, -3.0), rng.uniform(-1.0, 1.0, n))
        return distinct if kind == "distinct" else np.full(n, self.among(1.0, -2.0))

    def laid_out(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same values with other strides: transposed, every second element, offset, or as they are."""
        how = self.among("plain", "plain", "transposed", "stepped", "offset")
        if how == "transposed" and tensor.ndim >= 2:
            return tensor.mT.contiguous().mT
        if how == "stepped" and tensor.ndim >= 1:
            room = torch.full((*tensor.shape[:-1], 2 * tensor.shape[-1]), 7, dtype=tensor.dtype)
            room[..., ::2] = tensor
            return room[..., ::2]
        if how == "offset" and tensor.ndim >= 1:
            room = torch.full((*tensor.shape[:-1], tensor.shape[-1] + 3), 7, dtype=tensor.dtype)
            room[..., 3:] = tensor
            return room[..., 3:]
        return tensor.contiguous()

    def seedling(self) -> int:
        """A seed for a stream."""
        return int(self.rng.integers(2**31))
