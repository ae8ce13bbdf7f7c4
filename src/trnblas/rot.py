"""Plane rotations: rot and rotm apply one to two vectors, rotg and rotmg make one."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trnblas.arguments import has_data, real, vectors
from trnblas.axpy import Rotate, same_shape
from trnsci import ArgumentError, DtypeError, UnsupportedError, array_function, check, run
from trnsci.backends import on_host


@array_function
def rot(x: Tensor, y: Tensor, c: float, s: complex) -> tuple[Tensor, Tensor]:
    """Apply a plane rotation: ``(c x + s y, c y - conj(s) x)``.

    Args:
        x: [..., N]
        y: [..., N]
        c: a real number.
        s: a number; complex only for complex vectors.

    Error bound:
        ``g(2) (|c x| + |s y|)`` elementwise for the first result, likewise for the second.

    Example:
        >>> rot(torch.ones(1), torch.zeros(1), 0.0, 1.0)
        (tensor([0.]), tensor([-1.]))
    """
    dtype = vectors("rot", x, y)
    same_shape("rot", x, y)
    c = real("rot", "c", c)
    s = check.coefficient("rot", "s", s, dtype)
    return run(Rotate(x, y, [c, s, -s.conjugate(), c]))


@array_function
def rotm(x: Tensor, y: Tensor, param: Tensor) -> tuple[Tensor, Tensor]:
    """Apply a modified Givens rotation ``H = [[h11, h12], [h21, h22]]``: ``(h11 x + h12 y, h21 x + h22 y)``.

    Args:
        x: [..., N], real.
        y: [..., N], real.
        param: [5]: flag, h11, h21, h12, h22. Flag -1 takes all four; 0 means ``h11 = h22 = 1``; 1 means ``h12 = 1``
            and ``h21 = -1``; -2 is the identity.

    Example:
        >>> rotm(torch.ones(1), torch.zeros(1), torch.tensor([-1.0, 2.0, 3.0, 0.0, 1.0]))
        (tensor([2.]), tensor([3.]))
    """
    dtype = vectors("rotm", x, y)
    same_shape("rotm", x, y)
    check.dense("rotm", param=param)
    if dtype.is_complex:
        raise ArgumentError("rotm", "x", "complex", "real vectors: BLAS has no complex rotm")
    if tuple(param.shape) != (5,):
        raise ArgumentError("rotm", "shape of param", tuple(param.shape), "(5,)")
    if not param.is_meta and not has_data(param):
        reason = "it reads the flag and the factors of param, which torch.func and torch.compile hide"
        raise UnsupportedError("rotm", [("pytorch", reason)], hint="Call it outside, or use rot")
    if not param.dtype.is_floating_point or param.dtype not in check.FLOATING:
        raise DtypeError("rotm", "dtype of param", param.dtype, "a real floating-point dtype")
    flag, h11, h21, h12, h22 = [0.0] * 5 if param.is_meta else param.detach().double().tolist()
    if flag not in (-2, -1, 0, 1):
        raise ArgumentError("rotm", "param[0]", flag, "one of -2, -1, 0, 1")
    if flag == -2:
        h11, h12, h21, h22 = 1.0, 0.0, 0.0, 1.0
    elif flag == 0:
        h11 = h22 = 1.0
    elif flag == 1:
        h12, h21 = 1.0, -1.0
    return run(Rotate(x, y, [h11, h12, h21, h22]))


@array_function
def rotg(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Make the plane rotation that zeroes ``b``: ``[[c, s], [-conj(s), c]] @ [a, b] = [r, 0]``.

    Args:
        a: [...], a number or a batch of them; Python numbers count as float64.
        b: [...]

    Returns:
        ``c`` (real) and ``s``, of the operands' shape. ``a = 0`` gives ``c = 0`` and ``|s| = 1``, except that two zeros
        give ``c = 1, s = 0``. Computed without overflow, as BLAS does. It runs on the host: there is nothing to gain
        from a device for one rotation.

    Example:
        >>> rotg(torch.tensor(3.0), torch.tensor(4.0))
        (tensor(0.6000), tensor(0.8000))
    """
    on_host("trnblas.rotg")
    a, b = _scalars("rotg", a, b)
    scale = torch.maximum(a.abs(), b.abs())
    nothing = scale == 0
    # Everything over the larger magnitude, so that neither overflow nor a subnormal norm costs accuracy.
    safe = scale.masked_fill(nothing, 1.0)
    a, b = a / safe, b / safe
    size = a.abs()
    norm = torch.hypot(size, b.abs()).masked_fill(nothing, 1.0)
    if a.is_complex():
        phase = torch.where(size == 0, 1.0, a / size)
        return (size / norm).masked_fill(nothing, 1.0), phase * b.conj() / norm
    norm = torch.where(torch.where(size > b.abs(), a, b) < 0, -norm, norm)
    return (a / norm).masked_fill(nothing, 1.0), b / norm


def _scalars(op: str, a: Tensor | complex, b: Tensor | complex) -> tuple[Tensor, Tensor]:
    x, y = (
        torch.tensor(v, dtype=torch.complex128 if isinstance(v, complex) else torch.float64, device="cpu")
        if isinstance(v, int | float | complex)
        else v
        for v in (a, b)
    )
    check.floating(op, a=x, b=y)
    check.same_device(op, a=x, b=y)
    check.broadcast(op, a=x.shape, b=y.shape)
    x, y = torch.broadcast_tensors(x, y)
    return x, y


_GAM = 4096.0


@array_function
def rotmg(d1: float, d2: float, x1: float, y1: float) -> Tensor:
    """Make the modified Givens rotation that zeroes the second component of ``(sqrt(d1) x1, sqrt(d2) y1)``.

    Args:
        d1: a real number.
        d2: a real number.
        x1: a real number.
        y1: a real number.

    Returns:
        [5], float64: flag, h11, h21, h12, h22, as `rotm` takes them.

    Example:
        >>> rotmg(1.0, 1.0, 1.0, 0.0)
        tensor([-2.,  0.,  0.,  0.,  0.], dtype=torch.float64)
    """
    d1, d2, x1, y1 = (real("rotmg", n, v) for n, v in (("d1", d1), ("d2", d2), ("x1", x1), ("y1", y1)))
    p2 = d2 * y1
    if p2 == 0:
        return _param(-2.0, 0.0, 0.0, 0.0, 0.0)
    if d1 < 0:
        return _param(-1.0, 0.0, 0.0, 0.0, 0.0)
    p1 = d1 * x1
    q1, q2 = p1 * x1, p2 * y1
    if abs(q1) > abs(q2):
        h21, h12 = -y1 / x1, p2 / p1
        u = 1 - h12 * h21
        if u <= 0:
            return _param(-1.0, 0.0, 0.0, 0.0, 0.0)
        flag, h11, h22 = 0.0, 1.0, 1.0
        d1, d2, x1 = d1 / u, d2 / u, x1 * u
    else:
        if q2 < 0:
            return _param(-1.0, 0.0, 0.0, 0.0, 0.0)
        flag, h11, h22 = 1.0, p1 / p2, x1 / y1
        h12, h21 = 1.0, -1.0
        u = 1 + h11 * h22
        d1, d2, x1 = d2 / u, d1 / u, y1 * u
    # BLAS keeps the scale factors within [gamma**-2, gamma**2] by powers of two moved into H.
    while d1 != 0 and math.isfinite(d1) and not _GAM**-2 < abs(d1) < _GAM**2:
        factor = _GAM if abs(d1) <= _GAM**-2 else 1 / _GAM
        flag, d1, h11, h12 = -1.0, d1 * factor**2, h11 / factor, h12 / factor
    while d2 != 0 and math.isfinite(d2) and not _GAM**-2 < abs(d2) < _GAM**2:
        factor = _GAM if abs(d2) <= _GAM**-2 else 1 / _GAM
        flag, d2, h21, h22 = -1.0, d2 * factor**2, h21 / factor, h22 / factor
    if flag == 0:
        return _param(0.0, 0.0, h21, h12, 0.0)
    return _param(flag, h11, h21 if flag < 0 else 0.0, h12 if flag < 0 else 0.0, h22)


def _param(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, device="cpu")
