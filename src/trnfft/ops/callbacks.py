"""Transforms and factors in a row as one op: on Trainium one program, elsewhere the functions one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnfft.arguments import Scale
from trnfft.device import chains, launch
from trnfft.device.tables import weight_half
from trnfft.ops.fft import C2C, C2R, R2C, bound, flops, real_shape
from trnsci import op, run
from trnsci.precision import Precision

# A transform's name on the device, its sign, and its adjoint.
_KINDS = {
    "fft": ("c2c", -1, "ifft"),
    "ifft": ("c2c", 1, "fft"),
    "rfft": ("r2c", -1, "irfft"),
    "irfft": ("c2r", 1, "rfft"),
}
_TIMES: tuple[str, int, Scale] = ("times", 0, "none")
_UNIT = 2.0**-24


@op("trnfft::chain")
class Chain(NamedTuple):
    """Multiply, transform, multiply again, in float32, and convert to ``dtype`` in the end.

    ``kinds`` are words with spaces between: ``times``, which takes the next factor, or transforms; ``lengths`` and the
    words of ``scales`` are those of the transforms.
    """

    x: Tensor
    factors: list[Tensor]
    dims: list[int]
    kinds: str
    lengths: list[int]
    scales: str
    dtype: torch.dtype
    precision: Precision

    @property
    def steps(self) -> list[tuple[str, int, Any]]:
        """Kind, points and scale of each step."""
        return list(zip(self.kinds.split(), self.lengths, self.scales.split(), strict=True))

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of the data before each step, and after the last one."""
        shapes = [tuple(self.x.shape)]
        for kind, n, _ in self.steps:
            size = {"rfft": n // 2 + 1, "irfft": n}.get(kind, shapes[-1][self.dims[-1]])
            shapes.append(tuple(real_shape(shapes[-1], self.dims[-1], size)))
        return shapes

    @property
    def _points(self) -> list[tuple[str, tuple[int, ...]]]:
        """The transforms and the shapes of all their points."""
        shapes = self.shapes
        return [(kind, shapes[i + (kind == "irfft")]) for i, (kind, *_) in enumerate(self.steps) if kind != "times"]

    def fake(self) -> Tensor:
        return self.x.new_empty(self.shapes[-1], dtype=self.dtype)

    def cost(self) -> int:
        transforms = sum(flops(shape, self.dims, kind in ("rfft", "irfft")) for kind, shape in self._points)
        return transforms + 6 * len(self.factors) * math.prod(self.x.shape)

    def bound(self, implementation: str) -> float:
        # Relative to the norm of the data times the largest magnitudes of the factors.
        transforms = sum(bound(implementation, shape, self.dims, self.precision) for _, shape in self._points)
        return transforms + 3 * _UNIT * len(self.factors)

    def limits(self, implementation: str) -> str | None:
        if implementation != "nki":
            return None
        reasons = (launch.limits(shape, self.dims) for _, shape in self._points)
        return next((reason for reason in reasons if reason is not None), None)

    def pytorch(self) -> Tensor:
        # Each transform decides for itself: some lengths go to SciPy.
        return self._in_turn(run)

    def _in_turn(self, transform: Callable[[Any], Tensor]) -> Tensor:
        """Take one step after the other."""
        x = self.x if self.x.is_complex() else self.x.float()
        left = iter(self.factors)
        for kind, n, scale in self.steps:
            if kind == "times":
                x = x * next(left)
            else:
                x = transform(_transform(kind, x, self.dims, n, scale, self.precision))
        return x.to(self.dtype)

    def program(self) -> chains.Chain | None:
        """Return the one program of it on Trainium; ``None`` where that would be too long."""
        shape, real = tuple(self.x.shape), not self.x.is_complex()
        steps = tuple(chains.Step(*_KINDS.get(kind, _TIMES)[:2], n, scale) for kind, n, scale in self.steps)
        factors = tuple(chains.varies(factor, len(shape)) for factor in self.factors)
        dtype = torch.bfloat16 if self.precision == "fast" else torch.float32
        chain = chains.chain(shape, tuple(self.dims), steps, factors, real, dtype, self.x.dtype in chains.CONVERTED)
        return chain if chains.fits(chain, shape, real) else None

    def nki(self) -> Tensor:
        if 0 in self.x.shape:
            return self.fake()
        chain = self.program()
        if chain is None:
            return self._in_turn(lambda call: call.nki())
        planes = chains.run(chain, self.x, self.factors, self.dtype)
        last, size = self.dims[-1], self.shapes[-1][self.dims[-1]]
        parts = [plane.narrow(last, 0, size) for plane in planes]
        return (parts[0] if len(parts) == 1 else torch.complex(*parts)).to(self.dtype)

    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Any]:
        gradients: dict[str, Any] = {}
        if "x" in needs:
            result = run(
                self._adjoint(grad, 0, self.x.is_complex() or any(kind in ("fft", "ifft") for kind, *_ in self.steps))
            )
            gradients["x"] = (result if self.x.is_complex() else result.real).to(self.x.dtype)
        if "factors" in needs:
            gradients["factors"] = self._of_factors(grad)
        return gradients

    def _of_factors(self, grad: Tensor) -> list[Tensor]:
        """Return gradients of the factors: what reaches each from either side, multiplied and summed up."""
        gradients: list[Tensor] = []
        is_complex = self.x.is_complex()
        for i, (kind, *_) in enumerate(self.steps):
            if kind == "times":
                factor = self.factors[len(gradients)]
                before = self._replace(
                    factors=self.factors[: len(gradients)],
                    **join_steps(self.steps[:i]),
                    dtype=torch.complex64 if is_complex else torch.float32,
                )
                product = _run(before).conj() * _run(self._adjoint(grad, i + 1, is_complex))
                whole = product.sum_to_size(factor.shape)
                gradients.append(whole if factor.is_complex() else whole.real)
            else:
                is_complex = kind != "irfft"
        return gradients

    def _adjoint(self, grad: Tensor, first: int, is_complex: bool) -> Chain:
        """Return the adjoints of the steps from ``first`` on, in reverse."""
        last, left = self.dims[-1], list(self.factors)
        steps: list[tuple[str, int, Any]] = []
        factors: list[Tensor] = []
        for kind, n, scale in reversed(self.steps[first:]):
            if kind == "times":
                factors.append(left.pop().conj())
                steps.append(_TIMES)
                continue
            one = (_KINDS[kind][2], n, scale)
            if kind in ("rfft", "irfft"):
                ones = torch.ones(n // 2 + 1, device=grad.device, dtype=torch.float32)
                weights = weight_half(ones, 0, n, 0.5 if kind == "rfft" else 2.0)
                factors.append(weights.reshape(-1, *[1] * (grad.ndim - last - 1)))
            steps += {"rfft": [_TIMES, one], "irfft": [one, _TIMES]}.get(kind, [one])
        dtype = torch.complex64 if is_complex else torch.float32
        return self._replace(x=grad, factors=factors, **join_steps(steps), dtype=dtype)


def join_steps(steps: list[tuple[str, int, Any]]) -> dict[str, Any]:
    """Return the fields of a chain's steps."""
    kinds, lengths, scales = zip(*steps, strict=True) if steps else ((), (), ())
    return {"kinds": " ".join(kinds), "lengths": list(lengths), "scales": " ".join(scales)}


def _run(chain: Chain) -> Tensor:
    """Run a chain, which may have no steps."""
    return run(chain) if chain.kinds else chain.x


def _transform(kind: str, x: Tensor, dims: list[int], n: int, scale: Scale, precision: Precision) -> Any:
    """Return the call of a transform."""
    if kind == "rfft":
        return R2C(x, dims, scale, precision)
    if kind == "irfft":
        return C2R(x, dims, n, scale, precision)
    return C2C(x, dims, kind == "ifft", scale, precision)
