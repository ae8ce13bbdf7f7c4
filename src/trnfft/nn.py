"""Layers on complex data as split planes. Each takes `ComplexTensor` or torch's complex and answers in kind."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from trnfft.along_axes import Transformable
from trnfft.complextensor import ComplexTensor
from trnsci import ArgumentError, DtypeError, check, earlier

Device = torch.device | str | None

__all__ = ["ComplexBatchNorm1d", "ComplexConv1d", "ComplexLinear", "ModReLU"]

earlier.spell(__name__)


def _planes(op: str, z: Any) -> ComplexTensor:
    if isinstance(z, ComplexTensor):
        return z
    check.tensor(op, z=z)
    if not z.is_complex():
        raise DtypeError(op, "dtype of z", z.dtype, "complex", hint="Wrap real data in ComplexTensor")
    return ComplexTensor(z)


def _kind(result: ComplexTensor, like: Transformable) -> Transformable:
    return result if isinstance(like, ComplexTensor) else result.to_torch()


class ComplexLinear(nn.Module):
    """``z @ weight.T + bias`` with complex weight and bias.

    Args:
        in_features: size of the last axis of the input.
        out_features: size of the last axis of the result.
        bias: whether to add one.
        dtype: of the planes.
        device: of the planes.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: torch.dtype | None = None,
        device: Device = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight_real, self.weight_imag = _weights((out_features, in_features), in_features, dtype, device)
        self.bias_real, self.bias_imag = _biases(out_features, bias, dtype, device)

    @property
    def weight(self) -> ComplexTensor:
        """[out, in]."""
        return ComplexTensor(self.weight_real, self.weight_imag)

    def forward(self, z: Transformable) -> Transformable:
        """Apply to [..., in]."""
        x = _planes("ComplexLinear", z)
        if x.shape[-1] != self.in_features:
            raise ArgumentError("ComplexLinear", "in_features", {"z": x.shape[-1], "layer": self.in_features})
        re = functional.linear(x.real, self.weight_real) - functional.linear(x.imag, self.weight_imag)
        im = functional.linear(x.real, self.weight_imag) + functional.linear(x.imag, self.weight_real)
        if self.bias_real is not None:
            re, im = re + self.bias_real, im + self.bias_imag
        return _kind(ComplexTensor(re, im), z)


class ComplexConv1d(nn.Module):
    """Convolution along one axis (torch's cross-correlation) with complex weight and bias; options as ``nn.Conv1d``."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int | str = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        dtype: torch.dtype | None = None,
        device: Device = None,
    ) -> None:
        super().__init__()
        if in_channels % groups or out_channels % groups:
            got = {"in_channels": in_channels, "out_channels": out_channels, "groups": groups}
            raise ArgumentError("ComplexConv1d", "groups", got, "a divisor of both channel counts")
        self.in_channels = in_channels
        self.options: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        shape = (out_channels, in_channels // groups, kernel_size)
        self.weight_real, self.weight_imag = _weights(shape, shape[1] * kernel_size, dtype, device)
        self.bias_real, self.bias_imag = _biases(out_channels, bias, dtype, device)

    def forward(self, z: Transformable) -> Transformable:
        """Apply to [batch, in, length] or [in, length]."""
        x = _planes("ComplexConv1d", z)
        if x.ndim not in (2, 3) or x.shape[-2] != self.in_channels:
            expected = f"[batch, {self.in_channels}, length] or [{self.in_channels}, length]"
            raise ArgumentError("ComplexConv1d", "shape of z", tuple(x.shape), expected)

        def conv(plane: Tensor, weight: Tensor) -> Tensor:
            return functional.conv1d(plane, weight, **self.options)

        re = conv(x.real, self.weight_real) - conv(x.imag, self.weight_imag)
        im = conv(x.real, self.weight_imag) + conv(x.imag, self.weight_real)
        if self.bias_real is not None:
            re, im = re + self.bias_real[:, None], im + self.bias_imag[:, None]
        return _kind(ComplexTensor(re, im), z)


class ComplexBatchNorm1d(nn.Module):
    """Whiten each feature: subtract the mean, multiply by the inverse square root of the 2x2 covariance of its parts.

    Args:
        num_features: C of [batch, C] or [batch, C, length].
        eps: added to both variances.
        momentum: share of a new batch in the running statistics; ``None`` averages all batches equally.
        affine: whether to multiply by a learned symmetric 2x2 matrix and add a learned complex shift.
        track_running_stats: whether evaluation uses running statistics.
        dtype: of the planes.
        device: of the planes.
    """

    running_mean: Tensor
    running_cov: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: torch.dtype | None = None,
        device: Device = None,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        factory: dict[str, Any] = {"dtype": dtype, "device": device}
        if affine:
            # Rows: the weights of (re, re), (im, im) and (re, im); parts of unit total variance have 1/2 each.
            start = torch.zeros(3, num_features, **factory)
            start[:2] = math.sqrt(0.5)
            self.weight = nn.Parameter(start)
            self.bias = nn.Parameter(torch.zeros(2, num_features, **factory))
        if track_running_stats:
            covariance = torch.zeros(3, num_features, **factory)
            covariance[:2] = 0.5
            self.register_buffer("running_mean", torch.zeros(2, num_features, **factory))
            self.register_buffer("running_cov", covariance)
            self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long, device=device))

    def forward(self, z: Transformable) -> Transformable:
        """Apply to [batch, C] or [batch, C, length]."""
        x = _planes("ComplexBatchNorm1d", z)
        if x.ndim not in (2, 3) or x.shape[1] != self.num_features:
            expected = f"[batch, {self.num_features}] or [batch, {self.num_features}, length]"
            raise ArgumentError("ComplexBatchNorm1d", "shape of z", tuple(x.shape), expected)
        if self.training or not self.track_running_stats:
            mean, covariance = self._statistics(x)
        else:
            mean, covariance = self.running_mean, self.running_cov
        re, im = x.real - _column(mean[0], x), x.imag - _column(mean[1], x)
        w_rr, w_ii, w_ri = _inverse_root(covariance, self.eps)
        re, im = (
            _column(w_rr, x) * re + _column(w_ri, x) * im,
            _column(w_ri, x) * re + _column(w_ii, x) * im,
        )
        if self.affine:
            g_rr, g_ii, g_ri = (_column(row, x) for row in self.weight)
            b_re, b_im = (_column(row, x) for row in self.bias)
            re, im = g_rr * re + g_ri * im + b_re, g_ri * re + g_ii * im + b_im
        return _kind(ComplexTensor(re, im), z)

    def _statistics(self, x: ComplexTensor) -> tuple[Tensor, Tensor]:
        count = x.numel() // self.num_features
        check.refuse(count < 2, "ComplexBatchNorm1d", "shape of z", tuple(x.shape), "more than 1 value per feature")
        over = [d for d in range(x.ndim) if d != 1]
        mean = torch.stack((x.real.mean(over), x.imag.mean(over)))
        re, im = x.real - _column(mean[0], x), x.imag - _column(mean[1], x)
        covariance = torch.stack(((re * re).mean(over), (im * im).mean(over), (re * im).mean(over)))
        if self.training and self.track_running_stats:
            with torch.no_grad():
                self.num_batches_tracked += 1
                share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
                self.running_mean.lerp_(mean, share)
                # Running statistics estimate the population's, as torch's do.
                self.running_cov.lerp_(covariance * (count / (count - 1)), share)
        return mean, covariance


class ModReLU(nn.Module):
    """Shrink magnitudes and keep phases: ``relu(|z| + bias) * z / |z|``, and 0 at 0.

    Args:
        num_features: size of axis 1 (of the only axis of a vector), one bias each.
        dtype: of the bias.
        device: of the bias.
    """

    def __init__(self, num_features: int, *, dtype: torch.dtype | None = None, device: Device = None) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(num_features, dtype=dtype, device=device))

    def forward(self, z: Transformable) -> Transformable:
        """Apply to [batch, features, ...] or [features]."""
        x = _planes("ModReLU", z)
        axis = min(1, x.ndim - 1)
        if x.ndim == 0 or x.shape[axis] != self.bias.shape[0]:
            raise ArgumentError("ModReLU", "shape of z", tuple(x.shape), f"[batch, {self.bias.shape[0]}, ...]")
        magnitude = x.abs()
        bias = self.bias if x.ndim == 1 else _column(self.bias, x)
        zero = magnitude == 0
        factor = functional.relu(magnitude + bias) / torch.where(zero, 1.0, magnitude)
        return _kind(x * torch.where(zero, torch.zeros_like(factor), factor), z)


def _weights(
    shape: tuple[int, ...], fan_in: int, dtype: torch.dtype | None, device: Device
) -> tuple[nn.Parameter, nn.Parameter]:
    """Draw parts uniform within ``1 / sqrt(2 fan_in)``, so that magnitudes are as large as a real layer's."""
    bound = 1 / math.sqrt(2 * max(1, fan_in))
    re, im = (nn.Parameter(torch.empty(shape, dtype=dtype, device=device).uniform_(-bound, bound)) for _ in range(2))
    return re, im


def _biases(size: int, wanted: bool, dtype: torch.dtype | None, device: Device) -> tuple[Any, Any]:
    if not wanted:
        return None, None
    return tuple(nn.Parameter(torch.zeros(size, dtype=dtype, device=device)) for _ in range(2))  # type: ignore[return-value]


def _column(values: Tensor, x: ComplexTensor) -> Tensor:
    """Return one value per feature, shaped to broadcast along axis 1."""
    return values.reshape(1, -1, *[1] * (x.ndim - 2))


def _inverse_root(covariance: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return entries of the inverse square root of ``[[rr, ri], [ri, ii]] + eps``, in closed form."""
    rr, ii, ri = covariance[0] + eps, covariance[1] + eps, covariance[2]
    root = torch.sqrt(rr * ii - ri * ri)
    scale = 1 / (root * torch.sqrt(rr + ii + 2 * root))
    return (ii + root) * scale, (rr + root) * scale, -ri * scale
