"""Products more accurate than the arithmetic at hand: Ozaki's splitting, and compensated sums.

An operand is cut into slices of a few bits each, so that products of slices and their sums are exact. On the device the
slices are bfloat16 integers and the sums live in fp32 PSUM; on the host they are float64 and so are the sums.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from trnblas.kernels import gemm as gemm_kernels, split as kernels
from trnsci import ArgumentError, CapacityError, host, neuron
from trnsci.kernel_launcher import current
from trnsci.nki import K_TILE, N_TILE, launch

# Balanced digits of 7 bits are integers up to 64. A product has at most 12 bits, so fp32 sums 2**12 of them exactly.
BITS = 7
TERMS = 1 << (24 - 2 * (BITS - 1))
# Bytes of SBUF in each partition for the slices of one operand.
SLICES_BYTES = 80 * 1024
MAX_SLICES = SLICES_BYTES // (2 * N_TILE)

Format = Literal["bfloat16", "float16", "float32"]
_FORMATS: dict[Format, torch.dtype] = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
}
_chosen: dict[str, Format] = {}
# Slices of a float64 operand on the host, beyond which compensated products are cheaper; and memory for those.
_MOST_HOST_SLICES = 24
_DOTS_BYTES = 1 << 24
# Products that Python sums up faster than hundreds of operations on tensors do.
_FEW = 512


def split_gemm(a: Tensor, b: Tensor, target: float = 0.0) -> Tensor:
    """Return ``a @ b`` of real float64 operands [..., M, K] and [..., K, N] from exact products on the device.

    ``target`` is the error to reach, relative to ``|a| @ |b|``; 0 asks for that of float64 arithmetic, ``K 2**-54``.
    """
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    (m, k), n = a.shape[-2:], b.shape[-1]
    a3 = a.expand(*batch, m, k).reshape(-1, m, k)
    b3 = b.expand(*batch, k, n).reshape(-1, k, n)
    if a.is_meta:
        # Nothing but shapes: assume entries of similar size.
        count = diagonals(k, target, 1 / 32)
        left, right = (x.new_empty((count, *x.shape), dtype=torch.float64) for x in (a3.mT, b3))
        return _launch(left, right, count).reshape(*batch, m, n)
    finite = bool(a3.isfinite().all()) and bool(b3.isfinite().all())
    a_finite, b_finite = (a3, b3) if finite else (a3.nan_to_num(0.0, 0.0, 0.0), b3.nan_to_num(0.0, 0.0, 0.0))
    a_unit, a_exponent = normalise(a_finite, -1)
    b_unit, b_exponent = normalise(b_finite, -2)
    count = diagonals(k, target, _smallest_share(a_unit, b_unit))
    left, right = slices(a_unit, count), slices(b_unit, count)
    if count == MAX_SLICES and len(left) + len(right) > count:
        _refuse_what_is_cut(a_unit, b_unit, target)
    product = _launch(left.mT, right, count)
    product = rescale(product, a_exponent + b_exponent)
    if not finite:
        product = torch.where(_find_spoiled(a3, b3), a3 @ b3, product)
    return product.reshape(*batch, m, n)


def _find_spoiled(a: Tensor, b: Tensor) -> Tensor:
    """Return elements of the product that meet an infinity or a NaN, and so follow IEEE arithmetic."""
    return ~a.isfinite().all(-1, keepdim=True) | ~b.isfinite().all(-2, keepdim=True)


def _refuse_what_is_cut(a: Tensor, b: Tensor, target: float) -> None:
    """Raise where the deepest slices the device holds do not reach the smallest element of ``|a| @ |b|``."""
    sizes = (a.abs() @ b.abs())[((a != 0).double() @ (b != 0).double()) > 0]
    share = float(sizes.min()) / a.shape[-1] if sizes.numel() else 1.0
    if not _is_reached(MAX_SLICES, a.shape[-1], target, share):
        raise CapacityError(
            where="SBUF",
            required=2 * MAX_SLICES * 2 * N_TILE,
            available=SLICES_BYTES,
            hint=f"The terms of a sum span more than {BITS * MAX_SLICES} powers of two; scale rows and columns, or use "
            "backend 'pytorch'",
        )


def _is_reached(count: int, k: int, target: float, share: float) -> bool:
    """Return whether ``count`` diagonals reach a relative error; arguments as for `diagonals`."""
    return 2 * (count + 2) * 2.0 ** (-BITS * count) <= (target / 2 if target else k * 2.0**-54) * share


def diagonals(k: int, target: float, share: float) -> int:
    """Return how many diagonals ``s + t`` of slice pairs reach an error in sums of ``k`` terms; 0 is ``k 2**-54``.

    ``share`` is the smallest ``(|a| @ |b|)_ij / k`` of operands scaled to largest entries between 1/2 and 1.
    """
    count = 1
    while count < MAX_SLICES and not _is_reached(count, k, target, share):
        count += 1
    return count


def normalise(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Scale along ``dim`` by powers of two to magnitudes below 1; returns the exponents taken out."""
    largest = x.detach().abs().amax(dim, keepdim=True)
    exponent = torch.frexp(torch.where(largest.isfinite(), largest, 1.0)).exponent
    return rescale(x, -exponent), exponent


def rescale(x: Tensor, exponent: Tensor) -> Tensor:
    """Return ``x * 2**exponent`` in two factors, each within the range of the dtype."""
    half = torch.div(exponent, 2, rounding_mode="floor")
    return x * torch.exp2(half.to(x.dtype)) * torch.exp2((exponent - half).to(x.dtype))


def _smallest_share(a: Tensor, b: Tensor) -> float:
    """Return the smallest nonzero entry of ``|a| @ |b|`` over K, or 0 where entries are too small to tell."""
    sizes = a.abs(), b.abs()
    if any(bool(((x > 0) & (x < 2.0**-60)).any()) for x in sizes):
        return 0.0
    low = [x.to(torch.bfloat16) for x in (sizes[0].mT, sizes[1])]
    total: Tensor = launch(gemm_kernels.gemm, low[0].contiguous(), low[1].contiguous())
    positive = total[total > 0]
    return float(positive.min()) / a.shape[-1] * 0.98 if positive.numel() else 1.0


def slices(x: Tensor, count: int) -> Tensor:
    """Cut numbers below 1 into at most ``count`` integer digits: ``x = sum over s of digit_s 2**(1 - 7 (s + 1))``.

    Returns:
        [S, ...] in float64, S at least 1; fewer than ``count`` when nothing is left to cut.
    """
    digits: list[Tensor] = []
    rest = x * 2.0 ** (BITS - 1)
    while not digits or (len(digits) < count and bool(rest.any())):
        digit = rest.round()
        digits.append(digit)
        rest = (rest - digit) * 2.0**BITS
    return torch.stack(digits)


def groups(s_a: int, s_b: int, count: int, k: int) -> tuple[tuple[int, tuple[tuple[int, int], ...]], ...]:
    """Return pairs of slices that may share one exact sum: ``(diagonal, ((s, t), ...))``, most significant first."""
    room = max(1, TERMS // k)
    shared = []
    for d in range(min(count, s_a + s_b - 1)):
        pairs = [(s, d - s) for s in range(s_a) if 0 <= d - s < s_b]
        shared += [(d, tuple(pairs[i : i + room])) for i in range(0, len(pairs), room)]
    return tuple(shared)


def _launch(aT: Tensor, b: Tensor, count: int) -> Tensor:
    """Multiply slices [S, B, K, M] and [S, B, K, N] on the device and add up the planes in float64."""
    operand = _FORMATS[operand_format()]
    aT, b = aT.to(operand), b.to(operand)
    batch, k, m = aT.shape[1:]
    share = min(batch, K_TILE // max(k, m))
    if share > 1:
        # small matrices of a batch are blocks of one: digits are finite, so that zeros keep them apart
        groups_of = -(-batch // share)
        spare = [0, 0, 0, 0, 0, groups_of * share - batch]
        aT, b = (torch.nn.functional.pad(x, spare).unflatten(1, (groups_of, share)) for x in (aT, b))
        blocks = torch.diag_embed(aT.movedim(2, -1), dim1=2, dim2=4).flatten(4, 5).flatten(2, 3)
        return _products(blocks, b.flatten(2, 3), count).unflatten(1, (share, m)).flatten(0, 1)[:batch]
    return _products(aT, b, count)


def _products(aT: Tensor, b: Tensor, count: int) -> Tensor:
    operand = b.dtype
    k, deepest = b.shape[-2], max(aT.shape[0], b.shape[0])
    chunk = max(1, SLICES_BYTES // (deepest * N_TILE * operand.itemsize)) * K_TILE
    if deepest * N_TILE * operand.itemsize > SLICES_BYTES:
        raise CapacityError(
            where="SBUF",
            required=deepest * N_TILE * operand.itemsize,
            available=SLICES_BYTES,
            hint="The operands span too many powers of two; scale rows and columns, or use backend 'pytorch'",
        )
    chunk = min(chunk, TERMS)
    total = torch.zeros((), dtype=torch.float64, device=b.device)
    for start in range(0, k, chunk):
        part = slice(start, min(k, start + chunk))
        layout = groups(aT.shape[0], b.shape[0], count, part.stop - part.start)
        # Later diagonals are so small that fp32 sums of them are accurate enough.
        exact = max(1, count - 24 // BITS)
        planes: Tensor = launch(
            kernels.split, aT[..., part, :].contiguous(), b[..., part, :].contiguous(), layout=layout, exact=exact
        )  # [G, B, M, N]
        weights = [d for d, _ in layout if d < exact]
        if len(planes) > len(weights):
            weights.append(exact)
        for plane, d in zip(reversed(planes.unbind(0)), reversed(weights), strict=True):
            total = total + plane.double() * 2.0 ** (2 - 2 * BITS - BITS * d)
    return total


def operand_format() -> Format:
    """Return the narrowest operand format whose products are summed exactly, by a self-test run once."""
    launcher = current()
    if launcher.backend == "predictor":
        return "bfloat16"
    device = neuron.device() if launcher.backend == "nki" else None
    key = f"{launcher.backend} {launcher.target} {device.kind if device else ''}"
    if key not in _chosen:
        _chosen[key] = _self_test()
    return _chosen[key]


def _self_test() -> Format:
    """Multiply digits whose products need every bit, and compare with integer arithmetic."""
    i = torch.arange(K_TILE, device="cpu")
    a = (64 - 2 * (i.unsqueeze(1) + i) % 3).double()  # [k, m]
    b = (63 - 2 * (i.unsqueeze(1) * 3 + i) % 5).double()  # [k, n]
    expected = a.mT @ b
    for name, operand in _FORMATS.items():
        got: Tensor = launch(gemm_kernels.gemm, a.to(operand).unsqueeze(0), b.to(operand).unsqueeze(0))
        if torch.equal(got[0].double(), expected):
            return name
    raise ArgumentError(
        op="split_gemm",
        argument="device",
        got="sums that are not exact even for fp32 operands",
        expected="exact fp32 sums of small integers",
        hint="Use backend 'pytorch' for precision 'fp64'",
    )


def probe() -> dict[str, str]:
    """Run the self-test of the kernels' arithmetic, for ``trnsci info --probe``."""
    launcher = current()
    return {
        "split_gemm": f"slices travel as {operand_format()} on {launcher.backend} ({launcher.target}): "
        "products of 7-bit digits are exact in PSUM"
    }


def exact_matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b`` as if computed in twice the precision and rounded once, with PyTorch alone."""
    return _Exact.apply(a, b) if host.is_differentiated(a, b) else _Exact.forward(a, b)  # type: ignore[no-untyped-call]


class _Exact(torch.autograd.Function):
    @staticmethod
    def forward(a: Tensor, b: Tensor) -> Tensor:
        dtype = a.dtype
        if dtype not in (torch.float64, torch.complex128):
            wide = torch.complex128 if dtype.is_complex else torch.float64
            return (a.to(wide) @ b.to(wide)).to(dtype)
        if dtype.is_complex:
            rows = torch.cat([torch.cat([a.real, -a.imag], -1), torch.cat([a.imag, a.real], -1)], -2)
            real, imag = _double_double(rows, torch.cat([b.real, b.imag], -2)).chunk(2, -2)
            return torch.complex(real, imag)
        return _double_double(a, b)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], a: Tensor, b: Tensor) -> tuple[Tensor, int]:
        first = [x.unsqueeze(0) if d is None else x.movedim(d, 0) for x, d in zip((a, b), in_dims, strict=True)]
        ndim = max(x.ndim for x in first)
        lined_up = (x.reshape(x.shape[0], *[1] * (ndim - x.ndim), *x.shape[1:]) for x in first)
        return exact_matmul(*lined_up), 0

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, b = ctx.saved_tensors
        needs_a, needs_b = ctx.needs_input_grad
        return (
            exact_matmul(grad, b.mH).sum_to_size(a.shape) if needs_a else None,
            exact_matmul(a.mH, grad).sum_to_size(b.shape) if needs_b else None,
        )


def _double_double(a: Tensor, b: Tensor) -> Tensor:
    """Multiply float64 operands in slices that float64 sums exactly, added up in pairs of float64.

    Twice the precision is 106 bits below ``|a| @ |b|``, and that may lie far below the largest entries: where columns
    of ``a`` and rows of ``b`` are scaled against each other, more slices are cut. Where it takes too many, products
    are compensated one by one.
    """
    k = a.shape[-1]
    if k == 0 or a.numel() == 0 or b.numel() == 0 or a.is_meta:
        return a @ b
    if a.numel() * b.shape[-1] <= _FEW:
        return _by_dots(a, b)
    if not (a.isfinite().all() and b.isfinite().all()):
        finite = _double_double(a.nan_to_num(0.0, 0.0, 0.0), b.nan_to_num(0.0, 0.0, 0.0))
        return torch.where(_find_spoiled(a, b), a @ b, finite)
    a_unit, a_exponent = normalise(a, -1)
    b_unit, b_exponent = normalise(b, -2)
    bits = (53 - math.ceil(math.log2(k + 1))) // 2 - 1
    sums = a_unit.abs() @ b_unit.abs()
    used = sums[sums > 0]
    depth = -math.log2(float(used.min())) if used.numel() else 0.0
    count = math.ceil((106 + depth) / bits)
    if count > _MOST_HOST_SLICES:
        return _by_dots(a, b)
    parts_a, parts_b = _host_slices(a_unit, bits, count), _host_slices(b_unit, bits, count)
    total = error = torch.zeros((), dtype=torch.float64, device=a.device)
    for d in range(min(count, len(parts_a) + len(parts_b) - 1)):
        for s in range(len(parts_a)):
            if 0 <= d - s < len(parts_b):
                term = parts_a[s] @ parts_b[d - s]
                total, lost = two_sum(total, term)
                error = error + lost
    return rescale(total + error, a_exponent + b_exponent)


def _by_dots(a: Tensor, b: Tensor) -> Tensor:
    """Compute every element as a compensated dot product, some rows at a time."""
    rows = max(1, _DOTS_BYTES // (8 * max(1, b.numel())))
    parts = [compensated_dot(part.unsqueeze(-2), b.mT.unsqueeze(-3)) for part in a.split(rows, -2)]
    return torch.cat(parts, -2)


def _host_slices(x: Tensor, bits: int, count: int) -> list[Tensor]:
    parts: list[Tensor] = []
    rest, unit = x, 1.0
    while not parts or (len(parts) < count and bool(rest.any())):
        unit *= 2.0**-bits
        part = (rest / unit).round() * unit
        parts.append(part)
        rest = rest - part
    return parts


def _summed_exactly(x: Tensor, y: Tensor) -> Tensor | None:
    """Return the sums of a few products rounded once, by Python's exact sum; ``None`` where it may not look."""
    if host.refusal((x, y)) is not None:
        return None
    with np.errstate(all="ignore"):
        (left, up), (right, more) = (_normalise_rows(part.numpy()) for part in (x, y))
        products, lost = two_product(left, right)
        terms = np.concatenate((products, lost), -1)
        if terms.size > 2 * _FEW or not np.isfinite(terms).all():
            return None
        sums = np.array([math.fsum(row) for row in terms.reshape(-1, terms.shape[-1]).tolist()])
        return torch.from_numpy(np.asarray(np.ldexp(sums.reshape(terms.shape[:-1]), up + more)))


def _normalise_rows(x: Any) -> tuple[Any, Any]:
    """Scale rows by powers of two to magnitudes below 1; returns the exponents taken out."""
    exponent = np.frexp(np.abs(x).max(-1))[1]
    return np.ldexp(x, -exponent[..., None]), exponent


def two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rounded sum and exactly what rounding lost (Knuth)."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def two_product(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the rounded product of tensors or arrays and exactly what rounding lost (Dekker)."""
    splitter = 2.0 ** (12 if x.dtype.itemsize == 4 else 27) + 1
    product = x * y
    (x_high, x_low), (y_high, y_low) = ((h := c - (c - v), v - h) for v in (x, y) for c in (splitter * v,))
    return product, ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low


def compensated_dot(x: Tensor, y: Tensor) -> Tensor:
    """Return ``sum(x * y)`` over the last axis as if in twice the precision.

    Sums of float32 are those of float64, rounded once. Of float64 they are Ogita, Rump and Oishi's Dot2 as a tree, on
    vectors scaled by powers of two, so that no product overflows and none is lost that matters.
    """
    dtype = x.dtype
    if dtype.is_complex:
        # vmap has no rule for the imaginary part of a lazy conjugate
        x, y = x.resolve_conj(), y.resolve_conj()
        real = compensated_dot(torch.cat([x.real, -x.imag], -1), torch.cat([y.real, y.imag], -1))
        return torch.complex(real, compensated_dot(torch.cat([x.real, x.imag], -1), torch.cat([y.imag, y.real], -1)))
    if dtype != torch.float64:
        return (x.double() * y.double()).sum(-1).to(dtype)
    if x.shape[-1] == 0 or y.shape[-1] == 0:
        return (x * y).sum(-1)
    if (few := _summed_exactly(x, y)) is not None:
        return few
    plain = (x * y).sum(-1)
    (x, x_exponent), (y, y_exponent) = normalise(x, -1), normalise(y, -1)
    total, error = two_product(x, y)
    while total.shape[-1] > 1:
        half = total.shape[-1] // 2
        odd = total[..., 2 * half :], error[..., 2 * half :]
        errors = error[..., :half] + error[..., half : 2 * half]
        total, lost = two_sum(total[..., :half], total[..., half : 2 * half])
        total, error = torch.cat([total, odd[0]], -1), torch.cat([errors + lost, odd[1]], -1)
    result = rescale((total + error)[..., 0], (x_exponent + y_exponent).squeeze(-1))
    # Operands that are not finite leave NaN in the error terms; IEEE's answer is the plain sum.
    return torch.where(result.isfinite(), result, plain)
