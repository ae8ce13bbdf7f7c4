"""Transforms of split planes, for devices that have no complex dtype."""

from typing import NamedTuple

import torch
from torch import Tensor

from trnfft.arguments import HALF, Scale
from trnfft.device import launch
from trnfft.device.tables import weight_half
from trnfft.ops.fft import C2C, C2R, R2C, bound, flops, half_shape, real_shape
from trnsci import op, run
from trnsci.gradient import saves
from trnsci.precision import Precision


def merge_planes(re: Tensor, im: Tensor) -> Tensor:
    """Return the complex tensor with these planes; no copy where they are halves of interleaved memory."""
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


@op("trnfft::c2c_planes")
class C2CPlanes(NamedTuple):
    """`C2C` of planes."""

    re: Tensor
    im: Tensor
    dims: list[int]
    inverse: bool
    scale: Scale
    precision: Precision

    def fake(self) -> tuple[Tensor, Tensor]:
        return self.re.new_empty(self.re.shape), self.im.new_empty(self.im.shape)

    def cost(self) -> int:
        return flops(self.re.shape, self.dims, False)

    def bound(self, implementation: str) -> float:
        return bound(implementation, self.re.shape, self.dims, self.precision)

    def limits(self, implementation: str) -> str | None:
        return launch.limits(self.re.shape, self.dims) if implementation == "nki" else None

    def pytorch(self) -> tuple[Tensor, Tensor]:
        joined = merge_planes(_wide(self.re), _wide(self.im))
        return _planes(C2C(joined, self.dims, self.inverse, self.scale, self.precision).pytorch(), self.re.dtype)

    def nki(self) -> tuple[Tensor, Tensor]:
        if self.re.numel() == 0:
            return self.fake()
        options = (self.dims, self.inverse, self.scale, self.precision)
        out_re, out_im = launch.c2c(_wide(self.re), _wide(self.im), *options)
        return out_re.to(self.re.dtype), out_im.to(self.re.dtype)

    @saves()
    def vjp(self, grad: tuple[Tensor, Tensor], needs: frozenset[str]) -> dict[str, Tensor]:
        re, im = run(self._replace(re=grad[0], im=grad[1], inverse=not self.inverse))
        return {"re": re, "im": im}


@op("trnfft::r2c_planes")
class R2CPlanes(NamedTuple):
    """`R2C` as planes."""

    x: Tensor
    dims: list[int]
    scale: Scale
    precision: Precision

    def fake(self) -> tuple[Tensor, Tensor]:
        shape = half_shape(self.x.shape, self.dims[-1])
        return self.x.new_empty(shape), self.x.new_empty(shape)

    def cost(self) -> int:
        return flops(self.x.shape, self.dims, True)

    def bound(self, implementation: str) -> float:
        return bound(implementation, self.x.shape, self.dims, self.precision)

    def limits(self, implementation: str) -> str | None:
        return launch.limits(self.x.shape, self.dims) if implementation == "nki" else None

    def pytorch(self) -> tuple[Tensor, Tensor]:
        return _planes(R2C(_wide(self.x), self.dims, self.scale, self.precision).pytorch(), self.x.dtype)

    def nki(self) -> tuple[Tensor, Tensor]:
        if self.x.numel() == 0:
            return self.fake()
        re, im = launch.r2c(_wide(self.x), self.dims, self.scale, self.precision)
        return re.to(self.x.dtype), im.to(self.x.dtype)

    @saves()
    def vjp(self, grad: tuple[Tensor, Tensor], needs: frozenset[str]) -> dict[str, Tensor]:
        axis = self.dims[-1]
        n = self.x.shape[axis]
        re, im = (weight_half(part, axis, n, 0.5) for part in grad)
        return {"x": run(C2RPlanes(re, im, self.dims, n, self.scale, self.precision))}


@op("trnfft::c2r_planes")
class C2RPlanes(NamedTuple):
    """`C2R` of planes."""

    re: Tensor
    im: Tensor
    dims: list[int]
    n: int
    scale: Scale
    precision: Precision

    @property
    def shape(self) -> list[int]:
        """Shape of the result."""
        return real_shape(self.re.shape, self.dims[-1], self.n)

    def fake(self) -> Tensor:
        return self.re.new_empty(self.shape)

    def cost(self) -> int:
        return flops(self.shape, self.dims, True)

    def bound(self, implementation: str) -> float:
        return bound(implementation, self.shape, self.dims, self.precision)

    def limits(self, implementation: str) -> str | None:
        return launch.limits(self.shape, self.dims) if implementation == "nki" else None

    def pytorch(self) -> Tensor:
        joined = merge_planes(_wide(self.re), _wide(self.im))
        return C2R(joined, self.dims, self.n, self.scale, self.precision).pytorch().to(self.re.dtype)

    def nki(self) -> Tensor:
        if self.re.numel() == 0:
            return self.fake()
        options = (self.dims, self.n, self.scale, self.precision)
        return launch.c2r(_wide(self.re), _wide(self.im), *options).to(self.re.dtype)

    @saves()
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        re, im = run(R2CPlanes(grad, self.dims, self.scale, self.precision))
        axis = self.dims[-1]
        return {"re": weight_half(re, axis, self.n, 2.0), "im": weight_half(im, axis, self.n, 2.0)}
