"""Transforms of complex tensors: torch's and SciPy's libraries, and the kernel ``fft`` on Trainium.

SciPy transforms tensors in host memory that have a large prime factor in a length, and few rows, torch all others.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnfft.arguments import COMPLEX_OF, REAL_OF, Scale
from trnfft.device import launch
from trnfft.device.bounds import LARGE_PRIME, guaranteed_error, largest_prime
from trnfft.device.tables import weight_half
from trnsci import op, run
from trnsci.gradient import saves
from trnsci.host import processor
from trnsci.precision import DEFAULT, Precision, to_bfloat16_values

# How torch.fft spells a scale in each direction.
_FORWARD_NORM = {"none": "backward", "root": "ortho", "full": "forward"}
_INVERSE_NORM = {"none": "forward", "root": "ortho", "full": "backward"}

# The same kind of numbers in the other precision.
_OTHER = {
    torch.float32: torch.float64,
    torch.float64: torch.float32,
    torch.complex64: torch.complex128,
    torch.complex128: torch.complex64,
}
_DOUBLE = (torch.float64, torch.complex128)

# Rows along one axis up to which SciPy takes less time than torch, and their lengths, by processor and kind of data;
# `python -m benchmarks.fft_libraries` measures it. torch calls MKL, which makes a plan in every call, as long as a few
# short transforms on Intel, and divides long rows of real data badly on AMD.
FEW_ROWS = {
    "GenuineIntel": dict.fromkeys(COMPLEX_OF | REAL_OF, (4, range(256, (1 << 16) + 1))),
    "AuthenticAMD": {torch.float32: (1, range(8193, 1 << 48)), torch.float64: (2, range(4097, 1 << 48))},
}

# Elements from which SciPy shares a transform among threads.
_MANY = 1 << 17


def flops(shape: Sequence[int], dims: Sequence[int], real: bool) -> int:
    """Return the customary count, ``5 N log2 N`` for complex data and half of it for real."""
    points = math.prod(shape[dim] for dim in dims)
    count = 5 * math.prod(shape) * max(1, math.ceil(math.log2(max(points, 2))))
    return count // 2 if real else count


def half_shape(shape: Sequence[int], axis: int) -> list[int]:
    """Return the shape of a real transform's result."""
    return real_shape(shape, axis, shape[axis] // 2 + 1)


def real_shape(shape: Sequence[int], axis: int, n: int) -> list[int]:
    """Return the shape of real data of n points along an axis of half a spectrum."""
    whole = list(shape)
    whole[axis] = n
    return whole


def bound(implementation: str, shape: Sequence[int], dims: Sequence[int], precision: str) -> float:
    """Return the guaranteed error of a transform of data of this shape."""
    before, after = math.prod(shape[: dims[-1]]), math.prod(shape[dims[-1] + 1 :])
    return guaranteed_error(implementation, [shape[dim] for dim in dims], before, after, precision)


def limits(implementation: str, shape: Sequence[int], dims: Sequence[int], dtype: torch.dtype) -> str | None:
    """Return why an implementation does not transform data of this shape, or ``None``; real data has a real dtype."""
    if implementation == "nki":
        return launch.limits(shape, dims)
    if implementation == "pytorch":
        return None
    if 0 in shape:
        return "there is nothing to transform"
    n, vendor = shape[dims[0]], processor("vendor_id")
    rows, lengths = FEW_ROWS.get(vendor, {}).get(dtype, (0, range(0)))
    if len(dims) == 1 and n in lengths and math.prod(shape) <= rows * n:
        return None
    for dim in dims:
        if largest_prime(shape[dim]) >= LARGE_PRIME:
            return None
    return f"torch.fft takes less time for rows like these on {vendor or 'this processor'}, and is as exact: no length \
has a prime factor of {LARGE_PRIME} or more"


def by_scipy(name: str, x: Tensor, precision: str, *options: Any, **named: Any) -> Tensor:
    """Return ``scipy.fft.name(x, *options)`` of a tensor in host memory, in the arithmetic of a policy."""
    # Imported where it is called: importing the library must stay fast.
    import scipy.fft

    fn = getattr(scipy.fft, name)
    workers = torch.get_num_threads() if x.numel() >= _MANY else None
    return in_policy(lambda data: torch.from_numpy(fn(data.numpy(), *options, workers=workers, **named)), x, precision)


def in_policy(fn: Callable[..., Tensor], x: Tensor, precision: str, *options: Any) -> Tensor:
    """Return ``fn(x, *options)`` in the arithmetic of a policy, contiguous and in the precision of ``x``."""
    if precision == DEFAULT[x.dtype]:
        return fn(x, *options).contiguous()
    double = x.dtype in _DOUBLE
    if precision == "fast":
        x = to_bfloat16_values(x)
    if (precision in ("compensated", "fp64")) != double:
        x = x.to(_OTHER[x.dtype])
    result = fn(x, *options)
    return result.to(_OTHER[result.dtype] if (result.dtype in _DOUBLE) != double else result.dtype).contiguous()


def _of_nothing(x: Tensor, shape: list[int], axis: int) -> Tensor:
    """Return an empty result that keeps the graph; FFT libraries refuse empty batches."""
    return x.sum(axis, keepdim=True).expand(shape).clone()


@op("trnfft::c2c")
class C2C(NamedTuple):
    """All terms of complex or real data."""

    x: Tensor
    dims: list[int]
    inverse: bool
    scale: Scale
    precision: Precision

    def fake(self) -> Tensor:
        return self.x.new_empty(self.x.shape, dtype=COMPLEX_OF.get(self.x.dtype, self.x.dtype))

    def cost(self) -> int:
        return flops(self.x.shape, self.dims, not self.x.is_complex())

    def bound(self, implementation: str) -> float:
        return bound(implementation, self.x.shape, self.dims, self.precision)

    def limits(self, implementation: str) -> str | None:
        return limits(implementation, self.x.shape, self.dims, self.x.dtype)

    def calls(self, implementation: str) -> str:
        return "scipy.fft.ifftn" if self.inverse else "scipy.fft.fftn"

    def host(self) -> Tensor:
        norm = (_INVERSE_NORM if self.inverse else _FORWARD_NORM)[self.scale]
        return by_scipy("ifftn" if self.inverse else "fftn", self.x, self.precision, None, self.dims, norm)

    def pytorch(self) -> Tensor:
        x, dims = self.x, self.dims
        if x.numel() == 0:
            return x.to(COMPLEX_OF.get(x.dtype, x.dtype), copy=True)
        norm = (_INVERSE_NORM if self.inverse else _FORWARD_NORM)[self.scale]
        if len(dims) == 1:
            # Of real data half is computed, which torch does along one axis alone.
            one = torch.fft.ifft if self.inverse else torch.fft.fft
            return in_policy(one, x, self.precision, None, dims[0], norm)
        many = torch.fft.ifftn if self.inverse else torch.fft.fftn
        return in_policy(many, x, self.precision, None, dims, norm)

    def nki(self) -> Tensor:
        x = self.x
        if x.numel() == 0:
            return self.fake()
        re, im = (x.real, x.imag) if x.is_complex() else (x, None)
        return torch.complex(*launch.c2c(re, im, self.dims, self.inverse, self.scale, self.precision))

    @saves()
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        result = run(self._replace(x=grad, inverse=not self.inverse))
        return {"x": result if self.x.is_complex() else result.real}


@op("trnfft::r2c", calls="scipy.fft.rfftn")
class R2C(NamedTuple):
    """The half of the spectrum of real data that is not redundant, along the last of the axes."""

    x: Tensor
    dims: list[int]
    scale: Scale
    precision: Precision

    def fake(self) -> Tensor:
        return self.x.new_empty(half_shape(self.x.shape, self.dims[-1]), dtype=COMPLEX_OF[self.x.dtype])

    def cost(self) -> int:
        return flops(self.x.shape, self.dims, True)

    def bound(self, implementation: str) -> float:
        return bound(implementation, self.x.shape, self.dims, self.precision)

    def limits(self, implementation: str) -> str | None:
        return limits(implementation, self.x.shape, self.dims, self.x.dtype)

    def host(self) -> Tensor:
        return by_scipy("rfftn", self.x, self.precision, None, self.dims, _FORWARD_NORM[self.scale])

    def pytorch(self) -> Tensor:
        x, dims, norm = self.x, self.dims, _FORWARD_NORM[self.scale]
        if x.numel() == 0:
            return _of_nothing(x, half_shape(x.shape, dims[-1]), dims[-1]).to(COMPLEX_OF[x.dtype])
        return in_policy(torch.fft.rfftn, x, self.precision, None, dims, norm)

    def nki(self) -> Tensor:
        if self.x.numel() == 0:
            return self.fake()
        return torch.complex(*launch.r2c(self.x, self.dims, self.scale, self.precision))

    @saves()
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        axis = self.dims[-1]
        n = self.x.shape[axis]
        return {"x": run(C2R(weight_half(grad, axis, n, 0.5), self.dims, n, self.scale, self.precision))}


@op("trnfft::c2r", calls="scipy.fft.irfftn")
class C2R(NamedTuple):
    """Real data, n points along the last axis, of half spectra: always inverse; the forward one is of the conjugate."""

    x: Tensor
    dims: list[int]
    n: int
    scale: Scale
    precision: Precision

    @property
    def shape(self) -> list[int]:
        """Shape of the result."""
        return real_shape(self.x.shape, self.dims[-1], self.n)

    def fake(self) -> Tensor:
        return self.x.new_empty(self.shape, dtype=REAL_OF[self.x.dtype])

    def cost(self) -> int:
        return flops(self.shape, self.dims, True)

    def bound(self, implementation: str) -> float:
        return bound(implementation, self.shape, self.dims, self.precision)

    def limits(self, implementation: str) -> str | None:
        return limits(implementation, self.shape, self.dims, REAL_OF[self.x.dtype])

    def host(self) -> Tensor:
        points = [self.shape[dim] for dim in self.dims]
        return by_scipy("irfftn", self.x, self.precision, points, self.dims, _INVERSE_NORM[self.scale])

    def pytorch(self) -> Tensor:
        dims, norm, shape = self.dims, _INVERSE_NORM[self.scale], self.shape
        if self.x.numel() == 0:
            return _of_nothing(self.x.real, shape, dims[-1])
        return in_policy(torch.fft.irfftn, self.x, self.precision, [shape[dim] for dim in dims], dims, norm)

    def nki(self) -> Tensor:
        if self.x.numel() == 0:
            return self.fake()
        return launch.c2r(self.x.real, self.x.imag, self.dims, self.n, self.scale, self.precision)

    @saves()
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        result = run(R2C(grad, self.dims, self.scale, self.precision))
        return {"x": weight_half(result, self.dims[-1], self.n, 2.0)}
