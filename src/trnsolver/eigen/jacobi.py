"""One-sided Jacobi on the device: which rows meet in a step, where they go after it, and eigenpairs from it."""

from typing import Any

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import programs
from trnsci.caches import kept
from trnsci.nki import P_MAX, launch
from trnsolver.arguments import readable, roundoff
from trnsolver.eigen.divide_blocks import polish_by_products
from trnsolver.kernels import svd as kernels

PROGRAMS = 4


def sweeps(n: int) -> int:
    """Return sweeps after which single precision gains nothing more, with one to spare."""
    return 6 if n <= 8 else 8 if n <= 32 else 9 if n <= P_MAX else 11


def programs_of(kernel: Any, x: Tensor) -> list[int]:
    """Return sweeps of each program that matrices [B, N, N] are launched on, so that none is too long to compile."""
    n = x.shape[-1]
    one = programs.size_of(kernel, (x[:1], *masks(n, x.device)), {"sweeps": 1})
    times = -(-sweeps(n) // programs.limits().holds(one))
    return [-(-sweeps(n) // times)] * times


def orthogonalize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Make rows of matrices [B, N, N] orthogonal by rotations; return them and the rotation."""
    w = None
    for count in programs_of(kernels.svd, x):
        x, further = launch(kernels.svd, x.contiguous(), *masks(x.shape[-1], x.device), sweeps=count)
        w = further if w is None else gemm(1.0, further, w)
    assert w is not None
    return x, w


def jacobi(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Eigenvalues, eigenvectors as rows, and the error left, of symmetric matrices [B, N, N] with entries up to 1.

    Rotations that make the rows of ``a + shift`` orthogonal, with a shift that makes it positive definite and well
    conditioned, are its eigenvectors. The error is the part off the diagonal relative to the largest value. Sweeps are
    fixed. Where they do not suffice, the programs run again on what they left.
    """
    n = a.shape[-1]
    # no eigenvalue is larger than the sum of a row's magnitudes, nor than the norm
    size = torch.minimum(a.abs().sum(-1).amax(-1), torch.linalg.matrix_norm(a))[..., None, None]
    shifted = a + 1.2 * torch.where(size > 0, size, 1.0) * torch.eye(n, device=a.device, dtype=a.dtype)
    _, rows = orthogonalize_rows(shifted)
    for again in range(PROGRAMS):
        if again:
            rows = gemm(1.0, orthogonalize_rows(gemm(1.0, rows, shifted))[1], rows)
        polished = [polish_by_products(*each) for each in zip(a, rows, strict=True)]
        values, rows, residual = (torch.stack(same) for same in zip(*polished, strict=True))
        if not readable(residual) or float(residual.max()) <= 20 * n * roundoff(a.dtype):
            break
    return values, rows, residual


@kept
def masks(n: int, device: torch.device) -> tuple[Tensor]:
    """Eight matrices of an even size: identity, pairs, difference, rotation patterns of both kinds of step, average.

    Position ``i`` of the upper half meets ``i`` of the lower half. A full step then moves everybody one seat on, as in
    a tournament, so that all have met after ``size - 1``; a crossing step moves only the lower half.
    """
    size = P_MAX if n > P_MAX else max(2, n + n % 2)
    half = size // 2
    i = torch.arange(size, device="cpu")
    partner = (i + half) % size
    eye = torch.eye(size, dtype=torch.float32, device="cpu")
    pair = 2.0 * eye[partner]
    top = (i < half).float()
    # Column p of the difference sums to (lower minus upper) of p's pair.
    difference = (eye[half + i % half] - eye[i % half]).T
    patterns = [eye, pair, difference]
    for cross in (False, True):
        seats = torch.tensor(_seats(size, cross), device="cpu")
        cosine, sine = torch.zeros_like(eye), torch.zeros_like(eye)
        cosine[i, seats[i]] = 1.0
        sine[i, seats[partner]] = 2.0 * top - 1.0
        patterns += [cosine, sine]
    patterns.append(0.5 * (eye + eye[partner]))
    return (torch.stack(patterns).contiguous().to(device),)


def _seats(size: int, cross: bool) -> list[int]:
    """Where each position goes after a step."""
    half = size // 2
    if cross:
        return [*range(half), *(half + (i + 1) % half for i in range(half))]
    if half == 1:
        return [0, 1]
    return [0, *range(2, half), size - 1, 1, *range(half, size - 1)]
