"""Discrete cosine and sine transforms, types 1 to 4, from real and complex transforms of about the same length."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnfft import host, transform
from trnfft.arguments import COMPLEX_OF, axes_of, axis_of, factor, length_of, numeric, resized, scale_of
from trnsci import ArgumentError, array_function, check
from trnsci.precision import Precision, resolve

# The transform that undoes each type, up to a scale.
_INVERSE_TYPE = {1: 1, 2: 3, 3: 2, 4: 4}

_DOC = """{summary}

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

_DOC_ND = """{summary}

    Args:
        x: as for `{one}`.
        type: 1, 2, 3 or 4.
        s: length per axis; -1 keeps a length.
        dim: the axes; by default all, or the last ``len(s)``.
        norm: ``"backward"``, ``"ortho"`` or ``"forward"``.
        axes: NumPy's name for ``dim``.
        orthogonalize: as for `{one}`.
        precision: as for `fft`.
        out: memory for the result, shared with no operand.
    """


def _define(name: str, family: str, inverse: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    kind = "cosine" if family == "dct" else "sine"
    summary = f"Discrete {kind} transform along one axis." if not inverse else f"Inverse of `{family}`."

    def one(
        x: Any,
        type: int = 2,  # noqa: A002
        n: int | None = None,
        dim: int = -1,
        norm: str | None = None,
        *,
        axis: int | None = None,
        orthogonalize: bool | None = None,
        precision: Precision | None = None,
        out: Tensor | None = None,
    ) -> Any:
        x = numeric(name, x)
        dim = axis_of(name, dim, axis, x.ndim)
        length = length_of(name, n, x.shape[dim])
        return _run(name, family, inverse, x, type, [dim], [length], norm, orthogonalize, precision, out)

    many_name = name + "n"

    def many(
        x: Any,
        type: int = 2,  # noqa: A002
        s: int | Sequence[int] | None = None,
        dim: int | Sequence[int] | None = None,
        norm: str | None = None,
        *,
        axes: int | Sequence[int] | None = None,
        orthogonalize: bool | None = None,
        precision: Precision | None = None,
        out: Tensor | None = None,
    ) -> Any:
        x = numeric(many_name, x)
        dims, lengths = axes_of(many_name, s, dim, axes, x.shape)
        return _run(many_name, family, inverse, x, type, dims, lengths, norm, orthogonalize, precision, out)

    one.__name__ = one.__qualname__ = name
    many.__name__ = many.__qualname__ = many_name
    one.__doc__ = _DOC.format(summary=summary)
    many.__doc__ = _DOC_ND.format(
        summary=summary.replace("one axis", "several axes").replace(f"`{family}`", f"`{family}n`"), one=name
    )
    return array_function(one), array_function(many)


def _run(
    op: str,
    family: str,
    inverse: bool,
    x: Tensor,
    kind: int,
    dims: list[int],
    lengths: list[int],
    norm: str | None,
    orthogonalize: bool | None,
    precision: Precision | None,
    out: Tensor | None,
) -> Tensor:
    if kind not in _INVERSE_TYPE:
        check.option(op, "type", kind, (1, 2, 3, 4))
    scale = scale_of(op, norm, inverse)
    ends = norm == "ortho" if orthogonalize is None else bool(orthogonalize)
    policy = resolve(op, precision, x.dtype)
    number = _INVERSE_TYPE[kind] if inverse else kind
    for length in lengths:
        if family == "dct" and number == 1 and length < 2:
            raise ArgumentError(op=op, argument="n", got=length, expected="at least 2 points for type 1")
    if out is not None:
        shape = list(x.shape)
        for dim, length in zip(dims, lengths, strict=True):
            shape[dim] = length
        check.out(op, out, shape=tuple(shape), dtype=x.dtype, x=x)
    for dim, length in zip(dims, lengths, strict=True):
        if x.shape[dim] != length:
            x = resized(x, dim, length)
    result = _along(family, number, x, dims, lengths, scale, ends, policy) if dims and x.numel() else x.clone()
    return result if out is None else out.copy_(result)


def _along(
    family: str, number: int, x: Tensor, dims: list[int], lengths: list[int], scale: str, ends: bool, policy: str
) -> Tensor:
    """All axes. The transform is real: both parts of complex data are rows of one call."""
    more = 0 if number != 1 else -2 if family == "dct" else 2
    factors = [factor(scale, 2 * n + more) for n in lengths]
    split = x.is_complex()
    if split:
        x = torch.view_as_real(x.resolve_conj())
    made = None
    if _plainly(x, policy):
        made = host.trigonometric(number, x, dims, factors, family == "dst", _END_FACTORS[family, number, ends])
    if made is not None:
        return torch.view_as_complex(made.contiguous()) if split else made
    for dim, by in zip(dims, factors, strict=True):
        x = x.movedim(dim, -1)
        if ends:
            x = _ends(family, number, x, math.sqrt(2), before=True)
        x = _blocked(_COSINE[number] if family == "dct" else _SINE[number], x, by, policy)
        if ends:
            x = _ends(family, number, x, 1 / math.sqrt(2), before=False)
        x = x.movedim(-1, dim)
    return torch.view_as_complex(x.contiguous()) if split else x


def _end_factors(family: str, number: int, ends: bool) -> tuple[float, float, float, float]:
    """What `_ends` multiplies first and last terms by, before and after."""
    found = [1.0] * 4
    if ends and number != 4 and (family, number) != ("dst", 1):
        terms = (0, 1) if number == 1 else (0,) if family == "dct" else (1,)
        for term in terms:
            if number != 2:
                found[term] = math.sqrt(2)
            if number != 3:
                found[2 + term] = 1 / math.sqrt(2)
    return found[0], found[1], found[2], found[3]


_END_FACTORS = {
    (family, number, ends): _end_factors(family, number, ends)
    for family in ("dct", "dst")
    for number in (1, 2, 3, 4)
    for ends in (False, True)
}


def _ends(family: str, number: int, x: Tensor, factor: float, *, before: bool) -> Tensor:
    """Scale the first (cosines) or last (sines) term, and both for cosines of type 1."""
    if number == 4 or (family == "dst" and number == 1) or number == (2 if before else 3):
        return x
    weights = torch.ones(x.shape[-1], dtype=x.dtype, device=x.device)
    if not x.is_meta:
        weights[0 if family == "dct" else -1] = factor
        if number == 1:
            weights[-1] = factor
    return x * weights


@functools.lru_cache(maxsize=256)
def _phases(
    numerator: tuple[int, int], denominator: int, count: int, factor: float, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """``factor * exp(-2 pi i (a j + b) / denominator)`` for j < count, from reduced integers."""
    a, b = numerator
    angles = (a * np.arange(count, dtype=np.int64) + b) % denominator * (-2 * math.pi / denominator)
    return torch.from_numpy(factor * np.exp(1j * angles)).to(COMPLEX_OF[dtype]).to(device)


@functools.lru_cache(maxsize=256)
def _order(name: str, n: int, device: torch.device) -> Tensor:
    """The permutations below; one pass over the data each, where slices, reversals and concatenations take several."""
    j = np.arange(n)
    half = n // 2 + 1
    if name == "even":
        found = np.concatenate((j, j[-2:0:-1]))
    elif name == "fold":
        # Even terms forward, odd ones backward, and the whole read backward, which conjugates the spectrum.
        found = np.concatenate((j[::2], j[1::2][::-1]))[-j % n]
    elif name == "unfold":
        found = -np.where(j % 2 == 0, j // 2, n - 1 - j // 2) % n
    elif name == "halves":
        # Positions in [re, im, re, im, ...] of half a spectrum: real parts, then imaginary ones backward.
        found = np.where(j < half, 2 * j, 2 * (n - j) + 1)
    elif name == "pairs":
        k = np.arange(half)
        found = np.stack((k, -k % n), 1).ravel()
    elif name == "ends":
        k = np.arange(n // 2)
        found = np.stack((n - 1 - 2 * k, 2 * k), 1).ravel()
    else:
        found = np.where(j % 2 == 0, j, n - j)
    return torch.from_numpy(np.ascontiguousarray(found)).to(device)


def _ordered(x: Tensor, name: str, n: int, reverse: bool = False) -> Tensor:
    order = _order(name, n, x.device)
    return x.index_select(-1, _reversed(name, n, x.device) if reverse else order)


@functools.lru_cache(maxsize=256)
def _reversed(name: str, n: int, device: torch.device) -> Tensor:
    """The permutation of a reversed operand, or, for ``halves``, with a reversed result."""
    order = _order(name, n, device)
    return order.flip(0) if name == "halves" else n - 1 - order


def _plainly(x: Tensor, policy: str) -> bool:
    """Whether the host's compiled loops do: rows of a plain tensor, in its own precision."""
    same = policy == ("fp64" if x.dtype == torch.float64 else "fp32")
    return same and host.able(x) and transform.in_place(x) and transform.on_host()


def _type1(x: Tensor, factor: float, policy: str) -> Tensor:
    even = _ordered(x, "even", x.shape[-1])
    y = transform.r2c(even, [even.ndim - 1], "none", policy).real
    return y.clone() if factor == 1 else y * factor


def _type2(x: Tensor, factor: float, policy: str, sine: bool = False) -> Tensor:
    n = x.shape[-1]
    if sine:
        x = _alternate(x)
    half = transform.r2c(_ordered(x, "fold", n), [x.ndim - 1], "none", policy)
    turned = half * _phases((-1, 0), 4 * n, n // 2 + 1, 2 * factor, x.dtype, x.device)
    return _ordered(torch.view_as_real(turned).flatten(-2), "halves", n, sine)


def _type3(x: Tensor, factor: float, policy: str, sine: bool = False) -> Tensor:
    n = x.shape[-1]
    # The imaginary part of the first term is not zero, as it should be, but nothing reads it.
    pairs = torch.view_as_complex(_ordered(x, "pairs", n, sine).unflatten(-1, (-1, 2)))
    spectrum = pairs * _phases((1, 0), 4 * n, n // 2 + 1, factor, x.dtype, x.device)
    made = _ordered(transform.c2r(spectrum, [x.ndim - 1], n, "none", policy), "unfold", n)
    return _alternate(made) if sine else made


def _type4(x: Tensor, factor: float, policy: str, sine: bool = False) -> Tensor:
    n = x.shape[-1]
    if n % 2:
        turned = (x.flip(-1) if sine else x) * _phases((1, 0), 4 * n, n, 1.0, x.dtype, x.device)
        spectrum = transform.c2c(torch.nn.functional.pad(turned, (0, n)), [x.ndim - 1], False, "none", policy)[..., :n]
        return (spectrum * _phases((2, 1), 8 * n, n, 2 * factor, x.dtype, x.device)).real.clone()
    # The conjugate of x[2j] + i x[n-1-2j] is -i times the pair the other way round.
    pairs = torch.view_as_complex(_ordered(x, "ends", n, sine).unflatten(-1, (-1, 2)))
    packed = pairs * _phases((-4, 2 * n - 1), 8 * n, n // 2, 1.0, x.dtype, x.device)
    spectrum = transform.c2c(packed, [x.ndim - 1], True, "none", policy)
    spectrum = spectrum * _phases((-1, 0), 2 * n, n // 2, 2 * factor, x.dtype, x.device)
    return _ordered(torch.view_as_real(spectrum).flatten(-2), "weave", n)


_COSINE: dict[int, Callable[[Tensor, float, str], Tensor]] = {1: _type1, 2: _type2, 3: _type3, 4: _type4}


@functools.lru_cache(maxsize=256)
def _signs(n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.from_numpy(1.0 - 2.0 * (np.arange(n) % 2)).to(dtype).to(device)


def _alternate(x: Tensor) -> Tensor:
    return x * _signs(x.shape[-1], x.dtype, x.device)


def _sine1(x: Tensor, factor: float, policy: str) -> Tensor:
    zero = torch.zeros_like(x[..., :1])
    odd = torch.cat((zero, x, zero, -x.flip(-1)), -1)
    return transform.r2c(odd, [x.ndim - 1], "none", policy).imag[..., 1 : x.shape[-1] + 1] * -factor


# Sines from cosines: reversing one side turns one into the other, up to alternating signs.


def _sine2(x: Tensor, factor: float, policy: str) -> Tensor:
    return _type2(x, factor, policy, sine=True)


def _sine3(x: Tensor, factor: float, policy: str) -> Tensor:
    return _type3(x, factor, policy, sine=True)


def _sine4(x: Tensor, factor: float, policy: str) -> Tensor:
    return _alternate(_type4(x, factor, policy, sine=True))


_SINE: dict[int, Callable[[Tensor, float, str], Tensor]] = {1: _sine1, 2: _sine2, 3: _sine3, 4: _sine4}


def _blocked(fn: Callable[[Tensor, float, str], Tensor], x: Tensor, factor: float, policy: str) -> Tensor:
    """Apply row by row in blocks that stay in cache, where that is possible and pays; elsewhere at once."""
    n = x.shape[-1]
    block = 4 * transform.BLOCK // x.element_size()
    rows = max(1, block // n)
    if x.numel() <= 2 * block:
        return fn(x, factor, policy)
    plain = x.is_cpu and transform.in_place(x) and transform.on_host()
    if not plain or rows >= x.numel() // n:
        return fn(x, factor, policy)
    flat = x.reshape(-1, n)
    y = torch.empty(flat.shape, dtype=x.dtype)
    for start in range(0, flat.shape[0], rows):
        y[start : start + rows] = fn(flat[start : start + rows], factor, policy)
    return y.reshape(x.shape)


dct, dctn = _define("dct", "dct", False)
idct, idctn = _define("idct", "dct", True)
dst, dstn = _define("dst", "dst", False)
idst, idstn = _define("idst", "dst", True)
