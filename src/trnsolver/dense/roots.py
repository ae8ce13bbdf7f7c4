"""Principal square roots and logarithms: SciPy's, of Hermitian matrices by eigenvectors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trnsci import Singular, array_function, op, run
from trnsci.analogs import resembles
from trnsci.gradient import saves
from trnsci.host import unwrap
from trnsolver.arguments import double_dtype, readable, square
from trnsolver.scipy_calls import compute, cubes, in_memory

Apply = Callable[[str, Tensor], Tensor]
Matrix = NDArray[Any]


class Function(NamedTuple):
    """A function of matrices: of one in host memory, and of the eigenvalues of a Hermitian one."""

    op: str
    flops: int  # times N**3
    of_one: Callable[[str, Matrix], Matrix]
    hermitian: Apply


@resembles("scipy.linalg.sqrtm")
@array_function
def sqrtm(a: Tensor) -> Tensor:
    """Principal square root by the Schur form (Björck and Hammarling), of Hermitian matrices by their eigenvectors.

    Args:
        a: [..., N, N] without eigenvalues on the negative real axis; zero at most once per Jordan block of size 1.

    Returns:
        [..., N, N]: real where ``a`` is real and so is the root, complex otherwise and if traced. Gradients flow.

    Raises:
        Singular: the matrix is singular and has no square root.

    Error bound:
        ``norm(x @ x - a) <= 20 N u norm(x)**2``.

    Cost:
        about ``30 N**3`` FLOPs, ``13 N**3`` for a Hermitian matrix, on the host whatever the backend and
        the device of ``a``.

    Example:
        >>> sqrtm(torch.tensor([[4.0, 0.0], [0.0, 9.0]]))
        tensor([[2., 0.],
                [0., 3.]])
    """
    square("sqrtm", a=a)
    return _real_if_so(run(MatrixFunction(a, "sqrtm")), a)


@resembles("scipy.linalg.logm")
@array_function
def logm(a: Tensor) -> Tensor:
    """Return the principal logarithm: square roots until the matrix is near 1, then a Gauss-Legendre (Padé) quotient.

    Args:
        a: [..., N, N], nonsingular.

    Returns:
        [..., N, N]: real for real ``a`` without negative eigenvalues, complex otherwise and if traced. Gradients flow.

    Raises:
        Singular: an eigenvalue is zero.

    Error bound:
        ``norm(expm(x) - a) <= 20 N u cond(z) norm(a)`` for a diagonalisable matrix with eigenvectors ``z``.

    Cost:
        about ``50 N**3`` FLOPs, ``13 N**3`` for a Hermitian matrix, on the host whatever the backend and
        the device of ``a``.

    Example:
        >>> logm(torch.eye(2))
        tensor([[0., 0.],
                [0., 0.]])
    """
    square("logm", a=a)
    return _real_if_so(run(MatrixFunction(a, "logm")), a)


def _apply_function(a: Tensor, fn: Function) -> Tensor:
    """Apply a function on the host, in float64, to a complex result: only the data say whether it is real."""
    here = in_memory(a)
    kind = torch.promote_types(a.dtype, torch.complex64)
    if not a.numel():
        return a.detach().to(kind)
    wide = double_dtype(a.dtype)
    if torch.equal(here, here.mH):
        values, vectors = torch.linalg.eigh(here.to(wide))
        applied = fn.hermitian(fn.op, values)
        vectors = vectors.to(torch.promote_types(applied.dtype, wide))
        result = (vectors * applied.unsqueeze(-2)) @ vectors.mH
    else:
        n = a.shape[-1]
        results = [fn.of_one(fn.op, one) for one in here.to(wide).reshape(-1, n, n).numpy()]
        result = torch.from_numpy(np.stack(results)).reshape(a.shape)
    return _without_noise(result).to(a.device, kind)


def _without_noise(x: Tensor) -> Tensor:
    """Zero the imaginary part of every matrix in which it is nothing but rounding."""
    if not x.is_complex():
        return x
    most = 1e3 * x.shape[-1] * 2.0**-53 * x.abs().amax((-2, -1), keepdim=True)
    return torch.where(x.imag.abs().amax((-2, -1), keepdim=True) <= most, x.real, x)


def _real_if_so(x: Tensor, a: Tensor) -> Tensor:
    """Cast the result to the dtype of a real operand where it is real; a tracer, which cannot know, gets complex."""
    seen = unwrap(x.detach())
    return x.real if not a.is_complex() and readable(seen) and not bool(seen.imag.any()) else x


def _sqrt_hermitian(op: str, values: Tensor) -> Tensor:
    # What rounding made negative is zero.
    noise = values.shape[-1] * 2.0**-53 * values.abs().amax(-1, keepdim=True)
    values = torch.where(values.abs() <= noise, values.clamp_min(0.0), values)
    return values.sqrt() if bool((values >= 0).all()) else values.to(torch.complex128).sqrt()


def _log_hermitian(op: str, values: Tensor) -> Tensor:
    _not_zero(op, values)
    return values.log() if bool((values > 0).all()) else values.to(torch.complex128).log()


def _not_zero(op: str, eigenvalues: Tensor) -> None:
    if bool((eigenvalues == 0).any()):
        index = int((eigenvalues == 0).nonzero()[0, -1])
        raise Singular(op=op, index=index, message=f"eigenvalue {index} is zero, which has no logarithm")


def _sqrt_of_one(op: str, a: Matrix) -> Matrix:
    import scipy.linalg

    with warnings.catch_warnings():
        # whether a singular matrix has a root is seen from its square
        warnings.simplefilter("ignore")
        root = scipy.linalg.sqrtm(a)
        # SciPy before 1.15 may answer in extended precision, which torch has not
        root = root.astype(np.complex128 if np.iscomplexobj(root) else np.float64)
        size = np.abs(root).max(initial=0.0)
        left = np.abs(root @ root - a).max() if np.isfinite(size) else np.inf
    if not left <= 1e-6 * np.abs(a).max():
        raise Singular(
            op=op,
            index=0,
            message="the matrix is singular and has no square root: a Jordan block of zero",
            hint="Add a small multiple of the identity",
        )
    return root


# Terms of the quotient and the norm of ``a - 1`` up to which they suffice for float64 (Higham 2008, table 11.1).
_TERMS = ((5, 0.114), (6, 0.187), (7, 0.264))


def _log_of_one(op: str, a: Matrix) -> Matrix:
    """Square roots of the Schur form until it is near 1, then a Padé quotient.

    SciPy's own estimates norms from random vectors, so that its last bits differ from call to call.
    """
    import scipy.linalg

    t, z = scipy.linalg.schur(a, output="complex", check_finite=False)
    diagonal = t.diagonal()
    _not_zero(op, torch.from_numpy(diagonal.copy()))
    eye, root, halvings = np.eye(len(t)), t, 0
    while np.linalg.norm(root - eye, 1) > _TERMS[-1][1] and halvings < 100:
        root, halvings = _sqrt_of_one(op, root), halvings + 1
    size = np.linalg.norm(root - eye, 1)
    logarithm = _quotients(root - eye, next((terms for terms, reach in _TERMS if size <= reach), _TERMS[-1][0]))
    logarithm *= 2.0**halvings
    # close to 1 the diagonal has lost digits that the eigenvalues themselves still have
    np.fill_diagonal(logarithm, np.log(diagonal))
    return z @ logarithm @ z.conj().T


def _quotients(x: Matrix, terms: int) -> Matrix:
    """Return the logarithm of ``1 + x`` by Gauss and Legendre's rule: partial fractions of its Padé quotient."""
    import scipy.linalg

    total = np.zeros_like(x)
    for node, weight in zip(*np.polynomial.legendre.leggauss(terms), strict=True):
        total += weight / 2 * scipy.linalg.solve_triangular(np.eye(len(x)) + (node + 1) / 2 * x, x)
    return total


@op("trnsolver::matrix_function", host_only="it starts from a Schur form")
class MatrixFunction(NamedTuple):
    """A function by name; its result is complex where it is, which only the data tell."""

    a: Tensor  # [..., N, N]
    name: str

    def fake(self) -> Tensor:
        return self.a.new_empty(self.a.shape, dtype=torch.promote_types(self.a.dtype, torch.complex64))

    def cost(self) -> int:
        return cubes(self.a, FUNCTIONS[self.name].flops)

    def pytorch(self) -> Tensor:
        result: Tensor = compute(self, lambda call: _apply_function(call.a, FUNCTIONS[call.name]))
        return result

    @saves("a", pytorch=True)
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        a = self.a
        corner = _derivative(a.mH, grad, self.name)
        return {"a": (corner if a.is_complex() else corner.real).to(a.dtype)}

    def tangent(self, of_a: Tensor, result: Tensor) -> Tensor:
        """Return the change of the result."""
        return _derivative(self.a, of_a, self.name).to(result.dtype)


def _derivative(a: Tensor, direction: Tensor, name: str) -> Tensor:
    """Take the corner of the function of [[a, e], [0, a]]: its derivative in the direction ``e``.

    In twice the digits: every eigenvalue of the block matrix is there twice.
    """
    n, direction = a.shape[-1], direction.to(torch.complex128)
    a = a.to(direction.dtype)
    block = torch.cat([torch.cat([a, direction], -1), torch.cat([torch.zeros_like(direction), a], -1)], -2)
    return run(MatrixFunction(block, name))[..., :n, n:]


FUNCTIONS = {
    "sqrtm": Function("sqrtm", 30, _sqrt_of_one, _sqrt_hermitian),
    "logm": Function("logm", 50, _log_of_one, _log_hermitian),
}
