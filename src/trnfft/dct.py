"""Discrete cosine and sine transforms, types 1 to 4: SciPy's on the host, real and complex transforms elsewhere."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, ParamSpec, SupportsIndex

import numpy as np
import torch
from torch import Tensor

from trnfft.arguments import (
    COMPLEX_OF,
    Scale,
    axes_of,
    axis_of,
    factor,
    length_of,
    numeric,
    replaces_transforms,
    resize_axes,
    scale_of,
)
from trnfft.device import launch
from trnfft.ops import C2C, C2R, R2C
from trnfft.ops.fft import by_scipy, flops
from trnsci import array_function, check, neuron, op, run
from trnsci.caches import kept
from trnsci.gradient import saves
from trnsci.precision import Precision, resolve

# The transform that undoes each type, up to a scale; its matrix is the transposed one, up to its end terms.
_INVERSE_TYPE = {1: 1, 2: 3, 3: 2, 4: 4}
# Lengths or axes: one, several, or all.
Axes = int | Sequence[int] | None
_NORMS = {"none": "backward", "root": "ortho", "full": "forward"}


P = ParamSpec("P")


@array_function
def dct(
    x: Tensor,
    type: int = 2,  # noqa: A002
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the discrete cosine transform along one axis.

    Args:
        x: real; the parts of complex data are transformed separately. Halves become float32, integers float64.
        type: 1, 2, 3 or 4, with SciPy's definitions.
        n: length; ``x`` is cut, or padded with zeros at its end.
        dim: the axis.
        norm: ``"backward"``, ``"ortho"`` or ``"forward"``; ``backward`` scales the inverse by about ``1 / (2 n)``.
        axis: NumPy's name for ``dim``.
        orthogonalize: whether the end terms are scaled so that the matrix is orthogonal; by default for ``"ortho"``.
        precision: as for `fft`.
        out: memory for the result, shared with no operand.

    Returns:
        [..., n] in the dtype of ``x``.

    Raises:
        ArgumentError: an argument does not fit; type 1 of cosines needs at least 2 points.

    Cost:
        one real transform of n points (types 2 and 3), of 2n (type 1), one complex one of n / 2 (type 4).
    """
    options = {"orthogonalize": orthogonalize, "precision": precision, "out": out}
    return _along_one("dct", x, type, n, dim, norm, axis=axis, **options)


@array_function
def dctn(
    x: Tensor,
    type: int = 2,  # noqa: A002
    s: Axes = None,
    dim: Axes = None,
    norm: str | None = None,
    *,
    axes: Axes = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the discrete cosine transform along several axes.

    Args:
        x: as for `dct`.
        type: 1, 2, 3 or 4.
        s: length per axis; -1 keeps a length.
        dim: the axes; by default all, or the last ``len(s)``.
        norm: ``"backward"``, ``"ortho"`` or ``"forward"``.
        axes: NumPy's name for ``dim``.
        orthogonalize: as for `dct`.
        precision: as for `fft`.
        out: memory for the result, shared with no operand.
    """
    options = {"orthogonalize": orthogonalize, "precision": precision, "out": out}
    return _along_several("dctn", x, type, s, dim, norm, axes=axes, **options)


def _along_one(
    op: str,
    x: Any,
    type: Any = 2,  # noqa: A002
    n: Any = None,
    dim: Any = -1,
    norm: Any = None,
    *,
    axis: Any = None,
    **options: Any,
) -> Tensor:
    x = numeric(op, x)
    dim = axis_of(op, dim, axis, x.ndim)
    return _compute(op, x, type, [dim], [length_of(op, n, x.shape[dim])], norm, **options)


def _along_several(
    op: str,
    x: Any,
    type: Any = 2,  # noqa: A002
    s: Any = None,
    dim: Any = None,
    norm: Any = None,
    *,
    axes: Any = None,
    **options: Any,
) -> Tensor:
    x = numeric(op, x)
    dims, lengths = axes_of(op, s, dim, axes, x.shape)
    return _compute(op, x, type, dims, lengths, norm, **options)


def _like(
    model: Callable[P, Tensor],
    along: Callable[..., Tensor],
    name: str,
    summary: str,
    *,
    sine: bool = False,
    inverse: bool = False,
) -> Callable[P, Tensor]:
    """Return another transform of the family, with the arguments of ``model``."""

    @functools.wraps(model)
    def transform(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        return along(name, *args, sine=sine, inverse=inverse, **kwargs)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = summary + (model.__doc__ or "")[(model.__doc__ or "").index("\n") :]
    return array_function(transform)


idct = _like(dct, _along_one, "idct", "Inverse of `dct`.", inverse=True)
dst = _like(dct, _along_one, "dst", "Discrete sine transform along one axis.", sine=True)
idst = _like(dct, _along_one, "idst", "Inverse of `dst`.", sine=True, inverse=True)
for _transform in (dct, idct, dst, idst):
    replaces_transforms("scipy.fft")(_transform)
idctn = _like(dctn, _along_several, "idctn", "Inverse of `dctn`.", inverse=True)
dstn = _like(dctn, _along_several, "dstn", "Discrete sine transform along several axes.", sine=True)
idstn = _like(dctn, _along_several, "idstn", "Inverse of `dstn`.", sine=True, inverse=True)


def _compute(
    op: str,
    x: Tensor,
    kind: int,
    dims: list[int],
    lengths: list[int],
    norm: str | None,
    *,
    sine: bool = False,
    inverse: bool = False,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    if (type(kind) is not int and not isinstance(kind, SupportsIndex)) or kind not in _INVERSE_TYPE:
        check.option(op, "type", kind, (1, 2, 3, 4))
    if neuron.give_planes(x):
        # phases are complex tables
        options: Any = {"sine": sine, "inverse": inverse, "orthogonalize": orthogonalize, "precision": precision}
        result = neuron.to_device(_compute(op, neuron.from_device(x), kind, dims, lengths, norm, **options))
        return result if out is None else out.copy_(result)
    scale = scale_of(op, norm, inverse)
    if orthogonalize is not None:
        check.flag(op, orthogonalize=orthogonalize)
    orthogonal = norm == "ortho" if orthogonalize is None else bool(orthogonalize)
    policy = resolve(op, precision, x.dtype)
    kind = _INVERSE_TYPE[kind] if inverse else kind
    if kind == 1 and not sine:
        shortest = min([2, *lengths])
        check.refuse(shortest < 2, op, "n", shortest, "at least 2 points for type 1")
    given, x = x, resize_axes(x, dims, lengths)
    if out is not None:
        check.out(op, out, shape=tuple(x.shape), dtype=x.dtype, x=given)
    if not dims or not x.numel():
        result = x.clone()
    elif x.is_complex():
        # The transform is real: both parts are rows of one call.
        parts = run(Dct(torch.view_as_real(x.resolve_conj()), kind, dims, sine, orthogonal, scale, policy))
        result = torch.view_as_complex(parts.contiguous())
    else:
        result = run(Dct(x, kind, dims, sine, orthogonal, scale, policy))
    return result if out is None else out.copy_(result)


Via = Literal["pytorch", "nki"]


@op("trnfft::dct")
class Dct(NamedTuple):
    """Cosines or sines of one type along axes of real data."""

    x: Tensor
    kind: int
    dims: list[int]
    sine: bool
    orthogonal: bool
    scale: Scale
    precision: Precision

    def fake(self) -> Tensor:
        return self.x.new_empty(self.x.shape)

    def cost(self) -> int:
        return flops(self.x.shape, self.dims, True)

    def limits(self, implementation: str) -> str | None:
        if implementation != "nki":
            return None
        # Type 4 of odd length is a transform of twice the points, type 1 nearly so.
        longest = [2 * self.x.shape[dim] + 2 for dim in self.dims]
        return launch.limits(longest, range(len(longest)))

    def calls(self, implementation: str) -> str:
        return "scipy.fft." + ("dst" if self.sine else "dct") + ("n" if len(self.dims) > 1 else "")

    def host(self) -> Tensor:
        name, dims = self.calls("host").removeprefix("scipy.fft."), self.dims if len(self.dims) > 1 else self.dims[0]
        options = self.kind, None, dims, _NORMS[self.scale]
        return by_scipy(name, self.x, self.precision, *options, orthogonalize=self.orthogonal)

    def pytorch(self) -> Tensor:
        return self._definition("pytorch").contiguous()

    def nki(self) -> Tensor:
        return self._definition("nki").contiguous()

    def _definition(self, via: Via) -> Tensor:
        """Transform one axis after the other by transforms of one implementation."""
        x, kind, sine = self.x, self.kind, self.sine
        # The period of the cosines or sines.
        more = 0 if kind != 1 else 2 if sine else -2
        for dim in self.dims:
            by = factor(self.scale, 2 * x.shape[dim] + more)
            x = x.movedim(dim, -1)
            if self.orthogonal:
                x = _ends(x, kind, sine, math.sqrt(2), (1, 3))
            x = (_SINE if sine else _COSINE)[kind](x, self.precision, via)
            x = x * by if by != 1 else x
            if self.orthogonal:
                x = _ends(x, kind, sine, math.sqrt(0.5), (1, 2))
            x = x.movedim(-1, dim)
        return x

    @saves()
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        if not self.orthogonal:
            grad = _along(grad, self.dims, lambda x: _ends(x, self.kind, self.sine, 2.0, (1, 2)))
        result = run(self._replace(x=grad, kind=_INVERSE_TYPE[self.kind]))
        if not self.orthogonal:
            result = _along(result, self.dims, lambda x: _ends(x, self.kind, self.sine, 0.5, (1, 3)))
        return {"x": result}


def _along(x: Tensor, dims: list[int], fn: Callable[[Tensor], Tensor]) -> Tensor:
    for dim in dims:
        x = fn(x.movedim(dim, -1)).movedim(-1, dim)
    return x


def _ends(x: Tensor, kind: int, sine: bool, by: float, kinds: tuple[int, ...]) -> Tensor:
    """Scale the first (cosines) or last (sines) term, or both for cosines of type 1, where the type is one of these."""
    if kind not in kinds or (sine and kind == 1):
        return x
    weights = np.ones(x.shape[-1])
    weights[[0, -1] if kind == 1 else -1 if sine else 0] = by
    return x * torch.from_numpy(weights).to(x.dtype).to(x.device)


def _run(kind: Any, x: Tensor, *options: Any, via: Via) -> Tensor:
    """Transform the last axis by one implementation."""
    return getattr(kind(x, [x.ndim - 1], *options), via)()


def _phases(a: int, b: int, period: int, count: int, *, like: Tensor, by: float = 1.0) -> Tensor:
    return _table(a, b, period, count, by, like.dtype, like.device)


@kept
def _table(a: int, b: int, period: int, count: int, by: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return ``by * exp(-2 pi i (a j + b) / period)`` for j < count, from reduced integers."""
    angles = (a * np.arange(count, dtype=np.int64) + b) % period * (-2 * math.pi / period)
    return torch.from_numpy(by * np.exp(1j * angles)).to(COMPLEX_OF[dtype]).to(device)


def _cosine1(x: Tensor, precision: Precision, via: Via) -> Tensor:
    even = torch.cat((x, x[..., 1:-1].flip(-1)), -1)
    return _run(R2C, even, "none", precision, via=via).real


def _sine1(x: Tensor, precision: Precision, via: Via) -> Tensor:
    zero = torch.zeros_like(x[..., :1])
    odd = torch.cat((zero, x, zero, -x.flip(-1)), -1)
    return -_run(R2C, odd, "none", precision, via=via).imag[..., 1 : x.shape[-1] + 1]


def _cosine2(x: Tensor, precision: Precision, via: Via) -> Tensor:
    n = x.shape[-1]
    # Even terms forward, odd ones backward (Makhoul).
    folded = torch.cat((x[..., ::2], x[..., 1::2].flip(-1)), -1)
    half = _run(R2C, folded, "none", precision, via=via)
    half = half * _phases(1, 0, 4 * n, n // 2 + 1, like=x, by=2.0)
    return torch.cat((half.real, -half.imag[..., 1 : (n + 1) // 2].flip(-1)), -1)


def _cosine3(x: Tensor, precision: Precision, via: Via) -> Tensor:
    n = x.shape[-1]
    half = n // 2 + 1
    mirrored = torch.cat((torch.zeros_like(x[..., :1]), x[..., n - half + 1 :].flip(-1)), -1)
    spectrum = torch.complex(x[..., :half], -mirrored) * _phases(-1, 0, 4 * n, half, like=x)
    folded = _run(C2R, spectrum, n, "none", precision, via=via)
    odd = torch.nn.functional.pad(folded[..., (n + 1) // 2 :].flip(-1), (0, n % 2))
    return torch.stack((folded[..., : (n + 1) // 2], odd), -1).flatten(-2)[..., :n]


def _cosine4(x: Tensor, precision: Precision, via: Via) -> Tensor:
    n = x.shape[-1]
    if n % 2:
        padded = torch.nn.functional.pad(x * _phases(1, 0, 4 * n, n, like=x), (0, n))
        spectrum = _run(C2C, padded, False, "none", precision, via=via)[..., :n]
        return (spectrum * _phases(2, 1, 8 * n, n, like=x, by=2.0)).real
    packed = torch.complex(x[..., ::2], x[..., 1::2].flip(-1))
    packed = packed * _phases(4, 1, 8 * n, n // 2, like=x)
    spectrum = _run(C2C, packed, False, "none", precision, via=via)
    spectrum = spectrum * _phases(1, 0, 2 * n, n // 2, like=x, by=2.0)
    return torch.stack((spectrum.real, -spectrum.imag.flip(-1)), -1).flatten(-2)


def _alternate(x: Tensor) -> Tensor:
    signs = torch.from_numpy(1.0 - 2.0 * (np.arange(x.shape[-1]) % 2))
    return x * signs.to(x.dtype).to(x.device)


_Axis = Callable[[Tensor, Precision, Via], Tensor]
_COSINE: dict[int, _Axis] = {1: _cosine1, 2: _cosine2, 3: _cosine3, 4: _cosine4}
# Sines are cosines with one side reversed, up to alternating signs.
_SINE: dict[int, _Axis] = {
    1: _sine1,
    2: lambda x, precision, via: _cosine2(_alternate(x), precision, via).flip(-1),
    3: lambda x, precision, via: _alternate(_cosine3(x.flip(-1), precision, via)),
    4: lambda x, precision, via: _alternate(_cosine4(x.flip(-1), precision, via)),
}
