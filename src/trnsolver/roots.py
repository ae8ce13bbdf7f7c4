"""Principal square roots and logarithms: from the Schur form by ``roots.c``, of Hermitian matrices by eigenvectors."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trnsci import Singular, array_function, native
from trnsolver import francis
from trnsolver.arguments import square, widened
from trnsolver.eig import schur
from trnsolver.on_host import HostOp, cubes

Apply = Callable[[str, Tensor], Tensor]
SOURCE = Path(__file__).with_name("roots.c")
_SIZE, _PLACE = ctypes.c_int64, ctypes.c_void_p
_ARGUMENTS = {
    "sqrt_triangular": (_SIZE, _PLACE, _PLACE, ctypes.c_double, _PLACE),
    "quotients_triangular": (_SIZE, _SIZE, _PLACE, _PLACE, _PLACE, _PLACE),
    "triangularise": (_SIZE, _PLACE, _PLACE),
    "turn_back": (_SIZE, _PLACE, _PLACE),
}


class Function(NamedTuple):
    """A function of matrices: of a triangular one, and of the eigenvalues of a Hermitian one."""

    op: str
    triangular: Apply
    hermitian: Apply


@array_function
def sqrtm(a: Tensor) -> Tensor:
    """Principal square root by the Schur form (Björck and Hammarling), of Hermitian matrices by their eigenvectors.

    Args:
        a: [..., N, N] without eigenvalues on the negative real axis; zero at most once per Jordan block of size 1.

    Returns:
        [..., N, N]: real where ``a`` is real and so is the root, complex otherwise. Gradients flow.

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
    return _applied(a, FUNCTIONS["sqrtm"])


@array_function
def logm(a: Tensor) -> Tensor:
    """Principal logarithm: square roots until the matrix is near 1, then a Gauss-Legendre (Padé) quotient.

    Args:
        a: [..., N, N], nonsingular.

    Returns:
        [..., N, N]: real where ``a`` is real and has no negative eigenvalues, complex otherwise. Gradients flow.

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
    return _applied(a, FUNCTIONS["logm"])


def _applied(a: Tensor, fn: Function) -> Tensor:
    if a.requires_grad and torch.is_grad_enabled():
        made: Tensor = _Differentiable.apply(a, fn)  # type: ignore[no-untyped-call]
        return made
    return _OPS[fn.op](a)


class _Differentiable(torch.autograd.Function):
    """The derivative's adjoint at ``a``, applied to ``g``, is the corner of the function of [[a.mH, g], [0, a.mH]]."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, fn: Function) -> Tensor:
        ctx.save_for_backward(a)
        ctx.fn = fn
        return _computed(a, fn)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (a,) = ctx.saved_tensors
        n = a.shape[-1]
        # in twice the digits: every eigenvalue of the block matrix is there twice
        grad = grad.to(widened(grad.dtype))
        turned = a.mH.to(grad.dtype)
        block = torch.cat([torch.cat([turned, grad], -1), torch.cat([torch.zeros_like(grad), turned], -1)], -2)
        corner = _computed(block, ctx.fn)[..., :n, n:]
        return (corner if a.is_complex() else corner.real).to(a.dtype), None


def _computed(a: Tensor, fn: Function) -> Tensor:
    """Apply a function on the host, in float64 from the Schur form on; return the dtype that holds the result."""
    here = a.detach().cpu()
    if not a.numel():
        return a.detach().clone()
    wide = widened(a.dtype)
    if bool((here == here.mH).all()):
        values, vectors = torch.linalg.eigh(here.to(wide))
        made = fn.hermitian(fn.op, values)
        vectors = vectors.to(torch.promote_types(made.dtype, wide))
        result = (vectors * made.unsqueeze(-2)) @ vectors.mH
    else:
        result = _from_schur(here, wide, fn)
    if a.is_complex() or not result.is_complex():
        return result.to(a.device, a.dtype)
    return result.to(a.device, torch.promote_types(a.dtype, torch.complex64))


def _from_schur(a: Tensor, wide: torch.dtype, fn: Function) -> Tensor:
    n = a.shape[-1]
    parts = schur(a)
    t, z = (part.reshape(-1, n, n).to(wide) for part in parts)
    if a.is_complex():
        return (z @ _each(fn, t) @ z.mH).reshape(a.shape)
    if _loop("triangularise") is None:
        pairs = [francis.real_to_complex(x.numpy(), y.numpy()) for x, y in zip(t, z, strict=True)]
        t, z = (torch.from_numpy(np.stack(each)) for each in zip(*pairs, strict=True))
        return _real_if_so(z @ _each(fn, t) @ z.mH).reshape(a.shape)
    # The blocks of two rows are turned to triangles and back, so that products with z stay real.
    t = t.to(torch.complex128).contiguous()
    turns = torch.empty((len(t), 2, n), dtype=torch.complex128)
    for one, turn in zip(t, turns, strict=True):
        _loop("triangularise")(n, one.data_ptr(), turn.data_ptr())
    made = _each(fn, t)
    for one, turn in zip(made, turns, strict=True):
        _loop("turn_back")(n, one.data_ptr(), turn.data_ptr())
    made = _real_if_so(made)
    z = z.to(made.dtype)
    return (z @ made @ z.mH).reshape(a.shape)


def _each(fn: Function, t: Tensor) -> Tensor:
    return torch.stack([fn.triangular(fn.op, one) for one in t])


def _real_if_so(x: Tensor) -> Tensor:
    """The real part where nothing but rounding is left of the imaginary one."""
    noise = 1e3 * x.shape[-1] * 2.0**-53 * float(x.abs().max())
    return x.real if float(x.imag.abs().max()) <= noise else x


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


def _sqrt_triangular(op: str, t: Tensor) -> Tensor:
    values = t.numpy()
    diagonal = np.sqrt(np.diag(values))
    # On the cut, rounding must not decide between i and -i.
    diagonal = np.where((diagonal.real == 0) & (diagonal.imag < 0), -diagonal, diagonal)
    tiny = float(np.linalg.norm(values)) * np.finfo(np.float64).tiny
    loop = _loop("sqrt_triangular")
    root = torch.diag(torch.from_numpy(diagonal))
    if loop is None:
        failed = _by_columns(t, root, tiny)
    else:
        t = t.contiguous()
        failed = _called(loop, len(t), t.data_ptr(), diagonal.ctypes.data, tiny, root.data_ptr())
    if failed:
        raise Singular(
            op=op,
            index=failed - 1,
            message="the matrix is singular and has no square root: a Jordan block of zero",
            hint="Add a small multiple of the identity",
        )
    return root


def _by_columns(t: Tensor, root: Tensor, tiny: float) -> int:
    """With r the root of what lies left, ``(r + r_jj) x = t_j``; the column, from 1, that has no solution, or 0."""
    for j in range(1, len(t)):
        shifted = root[:j, :j].clone()
        sums = shifted.diagonal().add_(root[j, j])
        none = sums == 0
        stuck = bool(none.any())
        if stuck:
            sums[none] = 1.0
        x = torch.linalg.solve_triangular(shifted, t[:j, j : j + 1], upper=True)[:, 0]
        if stuck:
            if bool((x[none].abs() > tiny).any()):
                return j + 1
            x = torch.where(none, 0.0, x)
        root[:j, j] = x
    return 0


# Terms of the quotient and the norm of ``a - 1`` up to which they suffice for float64 (Higham 2008, table 11.1).
_TERMS = ((5, 0.114), (6, 0.187), (7, 0.264))


def _log_triangular(op: str, t: Tensor) -> Tensor:
    diagonal = t.diagonal()
    _not_zero(op, diagonal)
    eye = torch.eye(len(t), dtype=t.dtype)
    root, halvings = t, 0
    size = float(torch.linalg.matrix_norm(root - eye, 1))
    while size > _TERMS[-1][1] and halvings < 100:
        root = _sqrt_triangular(op, root)
        size = float(torch.linalg.matrix_norm(root - eye, 1))
        halvings += 1
    terms = next((terms for terms, reach in _TERMS if size <= reach), _TERMS[-1][0])
    made = _quotients(root - eye, terms) * 2.0**halvings
    # Close to 1 the diagonal has lost digits that the eigenvalues themselves still have.
    made.diagonal().copy_(diagonal.log())
    return made


def _quotients(x: Tensor, terms: int) -> Tensor:
    """The logarithm of ``1 + x`` by Gauss and Legendre's rule: partial fractions of its Padé quotient."""
    nodes, weights = np.polynomial.legendre.leggauss(terms)
    nodes, weights = (nodes + 1) / 2, weights / 2
    loop = _loop("quotients_triangular")
    total = torch.zeros_like(x)
    if loop is not None:
        x = x.contiguous()
        _called(loop, len(x), terms, nodes.ctypes.data, weights.ctypes.data, x.data_ptr(), total.data_ptr())
        return total
    eye = torch.eye(len(x), dtype=x.dtype)
    for node, weight in zip(nodes, weights, strict=True):
        total += weight * torch.linalg.solve_triangular(eye + node * x, x, upper=True)
    return total


@functools.cache
def _loop(name: str) -> Any:
    library = native.load(SOURCE)
    if library is None:
        return None
    found = getattr(library, name)
    found.argtypes = _ARGUMENTS[name]
    found.restype = ctypes.c_int64 if name.endswith("_triangular") else None
    return found


def _called(loop: Any, n: int, *args: Any) -> int:
    code = int(loop(n, *args))
    if code < 0:
        raise MemoryError(f"no room for the planes of a matrix of {n} rows")
    return code


def _fake(a: Tensor) -> Tensor:
    return a.new_empty(a.shape)


_WHY = "it starts from a Schur form"
# traced: whether the result is real is seen in the data
_sqrtm = HostOp("trnsolver::sqrtm", fake=_fake, cost=lambda a: cubes(a, 30), why=_WHY, traceable=True)
_logm = HostOp("trnsolver::logm", fake=_fake, cost=lambda a: cubes(a, 50), why=_WHY, traceable=True)


@_sqrtm.impl("pytorch")
def _sqrt(a: Tensor) -> Tensor:
    return _computed(a, FUNCTIONS["sqrtm"])


@_logm.impl("pytorch")
def _log(a: Tensor) -> Tensor:
    return _computed(a, FUNCTIONS["logm"])


_OPS = {"sqrtm": _sqrtm, "logm": _logm}
FUNCTIONS = {
    "sqrtm": Function("sqrtm", _sqrt_triangular, _sqrt_hermitian),
    "logm": Function("logm", _log_triangular, _log_hermitian),
}
