"""The three transforms everything is made of: complex to complex, real to complex, complex to real, over any axes.

Each exists twice: on complex tensors, and on split planes for devices that have no complex dtype. All four functions of
a direction are linear, so the gradient of one is another: the adjoint transform.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from trnfft import bounds, device
from trnfft.arguments import COMPLEX_OF, HALF, REAL_OF
from trnsci import Op, get_backend, neuron
from trnsci.backends import SCOPE
from trnsci.gradient import Saved
from trnsci.precision import to_bfloat16_values

# How torch.fft spells a scale in each direction.
_FORWARD_NORM = {"none": "backward", "root": "ortho", "full": "forward"}
_INVERSE_NORM = {"none": "forward", "root": "ortho", "full": "backward"}


# The policy that computes in the dtype itself.
_OWN = {torch.float32: "fp32", torch.complex64: "fp32", torch.float64: "fp64", torch.complex128: "fp64"}


def points(shape: torch.Size | tuple[int, ...], dims: list[int]) -> int:
    """Points of one transform."""
    return math.prod(shape[dim] for dim in dims)


def _sizes(shape: Sequence[int], dims: list[int]) -> tuple[list[int], int, int]:
    """Lengths of the axes, and what is before and after the last of them."""
    return [shape[dim] for dim in dims], math.prod(shape[: dims[-1]]), math.prod(shape[dims[-1] + 1 :])


def flops(total: int, length: int, real: bool) -> int:
    """The customary count, ``5 N log2 N`` for complex data and half of it for real."""
    count = 5 * total * max(1, math.ceil(math.log2(max(length, 2))))
    return count // 2 if real else count


def _of_nothing(x: Tensor, shape: list[int], axis: int) -> Tensor:
    """An empty result that keeps the graph; FFT libraries refuse empty batches."""
    return x.sum(axis, keepdim=True).expand(shape).clone()


def plain(x: Tensor) -> bool:
    """Whether code outside torch may read a tensor: nothing differentiates, transforms or traces the call."""
    if type(x) is not Tensor or not x.is_cpu or x.is_neg() or x.is_conj():
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None or is_compiling() or forward_ad._current_level >= 0:
        return False
    return not (torch.is_grad_enabled() and x.requires_grad)


def in_policy(fn: Callable[[Tensor], Tensor], x: Tensor, precision: str) -> Tensor:
    """Apply ``fn`` in the arithmetic of a policy and return in the precision of ``x``."""
    if precision == _OWN[x.dtype]:
        return fn(x)
    double = x.dtype in (torch.float64, torch.complex128)
    if precision == "fast":
        x = to_bfloat16_values(x)
    if (precision in ("compensated", "fp64")) == double:
        return fn(x)
    if double:
        result = fn(x.to(torch.complex64 if x.is_complex() else torch.float32))
        return result.to(torch.complex128 if result.is_complex() else torch.float64)
    result = fn(x.to(torch.complex128 if x.is_complex() else torch.float64))
    return result.to(torch.complex64 if result.is_complex() else torch.float32)


# Complex to complex


def _fake_c2c(x: Tensor, dims: list[int], inverse: bool, scale: str, precision: str) -> Tensor:
    return x.new_empty(x.shape, dtype=COMPLEX_OF.get(x.dtype, x.dtype))


def _cost_c2c(x: Tensor, dims: list[int], inverse: bool, scale: str, precision: str) -> int:
    return flops(x.numel(), points(x.shape, dims), not x.is_complex())


c2c = Op("trnfft::c2c", fake=_fake_c2c, cost=_cost_c2c)


@c2c.impl("pytorch")
def c2c_pytorch(x: Tensor, dims: list[int], inverse: bool, scale: str, precision: str) -> Tensor:
    """`c2c` by PyTorch."""
    if x.numel() == 0:
        return x.to(COMPLEX_OF.get(x.dtype, x.dtype), copy=True)
    norm = (_INVERSE_NORM if inverse else _FORWARD_NORM)[scale]
    if len(dims) == 1:
        # Of real data half is computed, which torch does along one axis alone.
        one = torch.fft.ifft if inverse else torch.fft.fft
        return in_policy(lambda y: one(y, dim=dims[0], norm=norm), x, precision).contiguous()
    many = torch.fft.ifftn if inverse else torch.fft.fftn
    return in_policy(lambda y: many(y, dim=dims, norm=norm), x, precision).contiguous()


@c2c.into
def _c2c_into(out: Tensor, x: Tensor, dims: list[int], inverse: bool, scale: str, precision: str) -> None:
    out.copy_(c2c_pytorch(x, dims, inverse, scale, precision))


@c2c.impl("nki", limits=device.c2c_limits)
def _c2c_nki(x: Tensor, dims: list[int], inverse: bool, scale: str, precision: str) -> Tensor:
    if x.numel() == 0:
        return _fake_c2c(x, dims, inverse, scale, precision)
    re, im = (x.real, x.imag) if x.is_complex() else (x, None)
    return torch.complex(*device.c2c(re, im, dims, inverse, scale, precision))


@c2c.bound
def _c2c_bound(backend: str, x: Tensor, dims: list[int], inverse: bool, scale: str, precision: str) -> float:
    return bounds.guaranteed(backend, *_sizes(x.shape, dims), precision)


@c2c.vjp(saves=())
def _c2c_gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    found = c2c(grad, saved.dims, not saved.inverse, saved.scale, saved.precision)
    return {"x": found if saved.x.dtype.is_complex else found.real}


# Real to complex: the half of the spectrum that is not redundant


def half(shape: torch.Size | tuple[int, ...], axis: int) -> list[int]:
    """The shape of a real transform's result."""
    found = list(shape)
    found[axis] = found[axis] // 2 + 1
    return found


def _fake_r2c(x: Tensor, dims: list[int], scale: str, precision: str) -> Tensor:
    return x.new_empty(half(x.shape, dims[-1]), dtype=COMPLEX_OF[x.dtype])


def _cost_r2c(x: Tensor, dims: list[int], scale: str, precision: str) -> int:
    return flops(x.numel(), points(x.shape, dims), True)


r2c = Op("trnfft::r2c", fake=_fake_r2c, cost=_cost_r2c)


@r2c.impl("pytorch")
def r2c_pytorch(x: Tensor, dims: list[int], scale: str, precision: str) -> Tensor:
    """`r2c` by PyTorch."""
    if x.numel() == 0:
        return _of_nothing(x, half(x.shape, dims[-1]), dims[-1]).to(COMPLEX_OF[x.dtype])
    return in_policy(lambda y: torch.fft.rfftn(y, dim=dims, norm=_FORWARD_NORM[scale]), x, precision).contiguous()


@r2c.impl("nki", limits=device.r2c_limits)
def _r2c_nki(x: Tensor, dims: list[int], scale: str, precision: str) -> Tensor:
    if x.numel() == 0:
        return _fake_r2c(x, dims, scale, precision)
    return torch.complex(*device.r2c(x, dims, scale, precision))


@r2c.bound
def _r2c_bound(backend: str, x: Tensor, dims: list[int], scale: str, precision: str) -> float:
    return bounds.guaranteed(backend, *_sizes(x.shape, dims), precision)


@r2c.vjp(saves=())
def _r2c_gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    axis = saved.dims[-1]
    n = saved.x.shape[axis]
    return {"x": c2r(weighted(grad, axis, n, 0.5), saved.dims, n, saved.scale, saved.precision)}


def weighted(x: Tensor, axis: int, n: int, weight: float) -> Tensor:
    """Multiply the frequencies that a half spectrum stands for twice."""
    weights = torch.full((x.shape[axis],), weight, dtype=REAL_OF.get(x.dtype, x.dtype), device=x.device)
    if n and not x.is_meta:
        weights[0] = 1.0
        if n % 2 == 0:
            weights[n // 2] = 1.0
    return x * weights.reshape(-1, *[1] * (x.ndim - axis - 1))


# Complex to real, always in the inverse direction; the forward one is that of the conjugate


def _fake_c2r(x: Tensor, dims: list[int], n: int, scale: str, precision: str) -> Tensor:
    shape = list(x.shape)
    shape[dims[-1]] = n
    return x.new_empty(shape, dtype=REAL_OF[x.dtype])


def _cost_c2r(x: Tensor, dims: list[int], n: int, scale: str, precision: str) -> int:
    shape = list(x.shape)
    shape[dims[-1]] = n
    return flops(math.prod(shape), points(tuple(shape), dims), True)


c2r = Op("trnfft::c2r", fake=_fake_c2r, cost=_cost_c2r)


@c2r.impl("pytorch")
def _c2r(x: Tensor, dims: list[int], n: int, scale: str, precision: str) -> Tensor:
    if x.numel() == 0:
        shape = list(x.shape)
        shape[dims[-1]] = n
        return _of_nothing(x.real, shape, dims[-1])
    lengths = [x.shape[dim] for dim in dims[:-1]] + [n]
    result = in_policy(lambda y: torch.fft.irfftn(y, s=lengths, dim=dims, norm=_INVERSE_NORM[scale]), x, precision)
    return result.contiguous()


@c2r.impl("nki", limits=device.c2r_limits)
def _c2r_nki(x: Tensor, dims: list[int], n: int, scale: str, precision: str) -> Tensor:
    if x.numel() == 0:
        return _fake_c2r(x, dims, n, scale, precision)
    return device.c2r(x.real, x.imag, dims, n, scale, precision)


@c2r.bound
def _c2r_bound(backend: str, x: Tensor, dims: list[int], n: int, scale: str, precision: str) -> float:
    shape = [n if dim == dims[-1] else size for dim, size in enumerate(x.shape)]
    return bounds.guaranteed(backend, *_sizes(shape, dims), precision)


@c2r.vjp(saves=())
def _c2r_gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    found = r2c(grad, saved.dims, saved.scale, saved.precision)
    return {"x": weighted(found, saved.dims[-1], saved.n, 2.0)}


# The same on split planes


def on_host() -> bool:
    """Whether calls run on PyTorch here, whatever their arguments."""
    if c2c.library.direct is not None and SCOPE.get() is None:
        return c2c.library.direct
    name = get_backend("trnfft")
    return name == "pytorch" or (name == "auto" and neuron.device() is None)


def merged(re: Tensor, im: Tensor | None) -> Tensor:
    """The complex tensor with these planes; no copy where they are the two halves of interleaved memory."""
    if im is None:
        return re
    if (
        not (re.requires_grad or im.requires_grad)
        and re.stride() == im.stride()
        and not re.is_meta
        and im.data_ptr() == re.data_ptr() + re.element_size()
        and re.untyped_storage().data_ptr() == im.untyped_storage().data_ptr()
        and re.storage_offset() % 2 == 0
        and all(stride % 2 == 0 for stride in re.stride())
    ):
        pairs = re.as_strided((*re.shape, 2), (*re.stride(), 1))
        return torch.view_as_complex(pairs)
    return torch.complex(re, im)


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in HALF else x


def _planes(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    # Results of an op share no memory, so parts are copied out of the interleaved result.
    return x.real.to(dtype).contiguous(), x.imag.to(dtype).contiguous()


def _fake_c2c_planes(
    re: Tensor, im: Tensor, dims: list[int], inverse: bool, scale: str, precision: str
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(re), torch.empty_like(im)


def _cost_c2c_planes(re: Tensor, im: Tensor, dims: list[int], inverse: bool, scale: str, precision: str) -> int:
    return flops(re.numel(), points(re.shape, dims), False)


c2c_planes = Op("trnfft::c2c_planes", fake=_fake_c2c_planes, cost=_cost_c2c_planes)


@c2c_planes.impl("pytorch")
def _c2c_planes(
    re: Tensor, im: Tensor, dims: list[int], inverse: bool, scale: str, precision: str
) -> tuple[Tensor, Tensor]:
    return _planes(c2c_pytorch(merged(_wide(re), _wide(im)), dims, inverse, scale, precision), re.dtype)


@c2c_planes.impl("nki", limits=device.c2c_planes_limits)
def _c2c_planes_nki(
    re: Tensor, im: Tensor, dims: list[int], inverse: bool, scale: str, precision: str
) -> tuple[Tensor, Tensor]:
    if re.numel() == 0:
        return _fake_c2c_planes(re, im, dims, inverse, scale, precision)
    out_re, out_im = device.c2c(_wide(re), _wide(im), dims, inverse, scale, precision)
    return out_re.to(re.dtype), out_im.to(re.dtype)


@c2c_planes.vjp(saves=())
def _c2c_planes_gradient(saved: Saved, grad_re: Tensor, grad_im: Tensor) -> Mapping[str, Any]:
    re, im = c2c_planes(grad_re, grad_im, saved.dims, not saved.inverse, saved.scale, saved.precision)
    return {"re": re, "im": im}


def _fake_r2c_planes(x: Tensor, dims: list[int], scale: str, precision: str) -> tuple[Tensor, Tensor]:
    shape = half(x.shape, dims[-1])
    return x.new_empty(shape), x.new_empty(shape)


r2c_planes = Op("trnfft::r2c_planes", fake=_fake_r2c_planes, cost=_cost_r2c)


@r2c_planes.impl("pytorch")
def _r2c_planes(x: Tensor, dims: list[int], scale: str, precision: str) -> tuple[Tensor, Tensor]:
    return _planes(r2c_pytorch(_wide(x), dims, scale, precision), x.dtype)


@r2c_planes.impl("nki", limits=device.r2c_limits)
def _r2c_planes_nki(x: Tensor, dims: list[int], scale: str, precision: str) -> tuple[Tensor, Tensor]:
    if x.numel() == 0:
        return _fake_r2c_planes(x, dims, scale, precision)
    re, im = device.r2c(_wide(x), dims, scale, precision)
    return re.to(x.dtype), im.to(x.dtype)


@r2c_planes.vjp(saves=())
def _r2c_planes_gradient(saved: Saved, grad_re: Tensor, grad_im: Tensor) -> Mapping[str, Any]:
    axis = saved.dims[-1]
    n = saved.x.shape[axis]
    re, im = weighted(grad_re, axis, n, 0.5), weighted(grad_im, axis, n, 0.5)
    return {"x": c2r_planes(re, im, saved.dims, n, saved.scale, saved.precision)}


def _fake_c2r_planes(re: Tensor, im: Tensor, dims: list[int], n: int, scale: str, precision: str) -> Tensor:
    shape = list(re.shape)
    shape[dims[-1]] = n
    return re.new_empty(shape)


def _cost_c2r_planes(re: Tensor, im: Tensor, dims: list[int], n: int, scale: str, precision: str) -> int:
    return _cost_c2r(re, dims, n, scale, precision)


c2r_planes = Op("trnfft::c2r_planes", fake=_fake_c2r_planes, cost=_cost_c2r_planes)


@c2r_planes.impl("pytorch")
def _c2r_planes(re: Tensor, im: Tensor, dims: list[int], n: int, scale: str, precision: str) -> Tensor:
    return _c2r(merged(_wide(re), _wide(im)), dims, n, scale, precision).to(re.dtype)


@c2r_planes.impl("nki", limits=device.c2r_planes_limits)
def _c2r_planes_nki(re: Tensor, im: Tensor, dims: list[int], n: int, scale: str, precision: str) -> Tensor:
    if re.numel() == 0:
        return _fake_c2r_planes(re, im, dims, n, scale, precision)
    return device.c2r(_wide(re), _wide(im), dims, n, scale, precision).to(re.dtype)


@c2r_planes.vjp(saves=())
def _c2r_planes_gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    axis = saved.dims[-1]
    re, im = r2c_planes(grad, saved.dims, saved.scale, saved.precision)
    return {"re": weighted(re, axis, saved.n, 2.0), "im": weighted(im, axis, saved.n, 2.0)}
