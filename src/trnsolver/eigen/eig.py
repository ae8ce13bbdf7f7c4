"""Eigenvalues of general matrices, Hessenberg and Schur forms."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from torch import Tensor

from trnsci import NotConverged, NumericalError, UnsupportedError, array_function, check, host, op, run
from trnsci.analogs import replaces, resembles
from trnsci.arrays import to_numpy
from trnsci.gradient import saves
from trnsci.specs import TensorSpec
from trnsolver.arguments import by_columns, check_result, no_gradient, readable, square, write_results
from trnsolver.scaling import near_one
from trnsolver.scipy_calls import cubes, elsewhere, no_transform

Matrix = NDArray[Any]
Select = Callable[[complex], bool]


class Eig(NamedTuple):
    """``a @ vectors = vectors * values``, complex."""

    values: Tensor
    vectors: Tensor

    @property
    def eigenvalues(self) -> Tensor:
        """Torch's name for ``values``."""
        return self.values

    @property
    def eigenvectors(self) -> Tensor:
        """Torch's name for ``vectors``."""
        return self.vectors


class Schur(NamedTuple):
    """``a = z @ t @ z.mH``."""

    t: Tensor
    z: Tensor


class SortedSchur(NamedTuple):
    """``a = z @ t @ z.mH`` with the ``sdim`` selected eigenvalues first."""

    t: Tensor
    z: Tensor
    sdim: Tensor


class Hessenberg(NamedTuple):
    """``a = q @ h @ q.mH``."""

    h: Tensor
    q: Tensor


@replaces("aten::linalg_eig")
@resembles("numpy.linalg.eig")
@array_function
def eig(a: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> Eig:
    """Return eigenvalues and right eigenvectors, of unit length, of a general matrix; always complex.

    Args:
        a: [..., N, N]. Gradients flow where eigenvalues are distinct.
        out: where the results go, one tensor for each; they must fit and share no memory with an operand.

    Returns:
        `Eig`: values [..., N] in no particular order, vectors [..., N, N].

    Error bound:
        ``norm(a @ v - v * w) <= 20 N u norm(a)``, for a matrix whose rows and columns are of similar norms. Others are
        balanced by a diagonal first, as LAPACK does, and the bound is that of the balanced matrix.

    Cost:
        about ``25 N**3`` FLOPs, on the host whatever the backend and the device of ``a``: the QR algorithm is a chain
        of small dependent steps.

    Example:
        >>> eig(torch.tensor([[0.0, 1.0], [-1.0, 0.0]])).values.imag.sort().values
        tensor([-1.,  1.])
    """
    square("eig", a=a)
    result = Eig(*run(EigCall(a)))
    check_result("eig", result.values)
    return write_results("eig", out, result, a=a)


@replaces("aten::linalg_eigvals")
@array_function
def eigvals(a: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return eigenvalues [..., N] of a general matrix [..., N, N], complex, on the host like `eig`.

    Example:
        >>> eigvals(torch.tensor([[2.0, 0.0], [0.0, 3.0]])).real.sort().values
        tensor([2., 3.])
    """
    square("eigvals", a=a)
    values = run(EigValues(a))
    check_result("eigvals", values)
    return write_results("eigvals", out, values, a=a)


@array_function
def hessenberg(a: Tensor) -> Hessenberg:
    """Reduce ``a = q @ h @ q.mH`` with ``q`` unitary and ``h`` zero below its first subdiagonal.

    Args:
        a: [..., N, N].

    Error bound:
        ``norm(q @ h @ q.mH - a) <= 20 N u norm(a)``.

    Cost:
        ``14 N**3 / 3`` FLOPs, on the host whatever the backend. No gradient.

    Example:
        >>> hessenberg(torch.eye(2)).h
        tensor([[1., 0.],
                [0., 1.]])
    """
    square("hessenberg", a=a)
    no_gradient("hessenberg", a)
    result = Hessenberg(*run(HessenbergCall(a)))
    check_result("hessenberg", result.h)
    return result


Sort = Literal["lhp", "rhp", "iuc", "ouc"]
_SORTS: dict[str, Select] = {
    "lhp": lambda x: x.real < 0.0,
    "rhp": lambda x: x.real >= 0.0,
    "iuc": lambda x: abs(x) <= 1.0,
    "ouc": lambda x: abs(x) > 1.0,
}


@overload
def schur(a: Tensor, output: Literal["real", "complex"] = ..., *, sort: None = ...) -> Schur: ...
@overload
def schur(a: Tensor, output: Literal["real", "complex"] = ..., *, sort: Sort | Callable[..., bool]) -> SortedSchur: ...
@array_function
def schur(
    a: Tensor, output: Literal["real", "complex"] = "real", *, sort: Sort | Callable[..., bool] | None = None
) -> Schur | SortedSchur:
    """Return the Schur form ``a = z @ t @ z.mH``.

    Args:
        a: [..., N, N].
        output: ``real``: for real ``a``, ``t`` has blocks of 2 rows on its diagonal for complex pairs; ``complex``:
            ``t`` is upper triangular. Complex matrices always give the latter.
        sort: which eigenvalues come first, as in SciPy: of the left (``lhp``) or right (``rhp``) half-plane, in
            (``iuc``) or outside (``ouc``) the unit circle; or a function of an eigenvalue that says so. For a real form
            the function takes real and imaginary part, and a pair comes first where one of the two is selected.

    Returns:
        `Schur`, or `SortedSchur` with ``sort``; its ``sdim`` [...], int64, is how many eigenvalues were selected.

    Raises:
        NotConverged: the QR algorithm met a block it could not split.
        NumericalError: eigenvalues lie too close to be exchanged, or rounding moved one across the border of ``sort``.

    Error bound:
        ``norm(z @ t @ z.mH - a) <= 20 N u norm(a)``.

    Cost:
        about ``25 N**3`` FLOPs, on the host whatever the backend. No gradient.

    Example:
        >>> schur(torch.tensor([[1.0, 2.0], [0.0, 3.0]])).t.diagonal()
        tensor([1., 3.])
        >>> t, z, sdim = schur(torch.tensor([[1.0, 2.0], [0.0, -3.0]]), sort="lhp")
        >>> t.diagonal().round(decimals=4), sdim
        (tensor([-3.,  1.]), tensor(1))
    """
    square("schur", a=a)
    check.option("schur", "output", output, ("real", "complex"))
    if sort is not None:
        if not callable(sort):
            check.option("schur", "sort", sort, tuple(_SORTS))
        if not (a.is_meta or readable(a)):
            reason = "sort= looks at eigenvalues, which torch.compile hides"
            raise UnsupportedError("schur", [("any", reason)], hint="Call it outside, or without sort=")
    no_gradient("schur", a)
    triangular = a.is_complex() or output == "complex"
    t, z = run(SchurCall(a, triangular))
    check_result("schur", t)
    return Schur(t, z) if sort is None else _sort_forms(t, z, _selector(sort, triangular))


def _selector(sort: str | Callable[..., bool], triangular: bool) -> Select:
    if isinstance(sort, str):
        return _SORTS[sort]
    return sort if triangular else lambda x: sort(x.real, x.imag)


def _sort_forms(t: Tensor, z: Tensor, select: Select) -> SortedSchur:
    """Reorder each form, selected eigenvalues first."""
    n, device, batch = t.shape[-1], t.device, t.shape[:-2]
    if t.is_meta:
        return SortedSchur(t, z, t.new_empty(batch, dtype=torch.int64))
    if not t.numel():
        return SortedSchur(t, z, torch.zeros(batch, dtype=torch.int64, device=device))
    decompositions: list[tuple[Any, Any, int]] = []
    for one, basis in zip(*(to_numpy(x).reshape(-1, n, n) for x in (t, z)), strict=True):
        wanted = _select_rows(one, select)
        try:
            one, basis = _reorder_form(one, basis, wanted)
        except ArithmeticError:
            message = "eigenvalues lie too close to be exchanged"
            raise NumericalError(op="schur", message=message, hint="Sort by what does not part them") from None
        count = sum(wanted)
        if _select_rows(one, select) != [True] * count + [False] * (n - count):
            message = "rounding moved an eigenvalue across the border of sort"
            raise NumericalError(op="schur", message=message, hint="Move the border away from the eigenvalues")
        decompositions.append((one, basis, count))
    forms, bases, counts = zip(*decompositions, strict=True)
    first, second = (torch.from_numpy(np.stack(each)).reshape(t.shape).to(device, t.dtype) for each in (forms, bases))
    return SortedSchur(first, second, torch.tensor(counts, device=device).reshape(batch))


def _select_rows(t: Matrix, select: Select) -> list[bool]:
    """For each row, whether its eigenvalue is selected; of a pair both are where one is."""
    selected: list[bool] = []
    while (at := len(selected)) < len(t):
        if at + 1 == len(t) or t[at + 1, at] == 0:
            selected.append(bool(select(complex(t[at, at]))))
            continue
        inner = (t[at, at] - t[at + 1, at + 1]) / 2
        middle, width = (t[at, at] + t[at + 1, at + 1]) / 2, -t[at, at + 1] * t[at + 1, at] - inner * inner
        value = complex(middle, np.sqrt(max(float(width), 0.0)))
        selected += [bool(select(value)) or bool(select(value.conjugate()))] * 2
    return selected


def _reorder_form(t: Matrix, z: Matrix, wanted: list[bool]) -> tuple[Matrix, Matrix]:
    """Reorder a Schur form, wanted rows' eigenvalues first. Raise ``ArithmeticError`` where two cannot be separated."""
    trsen = scipy.linalg.get_lapack_funcs("trsen", (t,))
    form, basis, *_, info = trsen(np.array(wanted, dtype=np.int32), t, z, job="N")
    if info:
        raise ArithmeticError(0.0)
    return form, basis


_CHAIN = "the QR algorithm is a chain of small dependent steps"


def _within_range(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return matrices far from 1 times powers of two, and those powers [..., 1].

    LAPACK scales such matrices itself, and MKL writes beyond its workspace where it does.
    """
    power = near_one(a, (-2, -1), beyond=2.0**30)
    return a * power, power.squeeze(-1)


@op("trnsolver::eig", host_only=_CHAIN, traceable=True)
class EigCall(NamedTuple):
    """Values and vectors."""

    a: Tensor  # [..., N, N]

    def fake(self) -> tuple[Tensor, Tensor]:
        a, wide = self.a, torch.promote_types(self.a.dtype, torch.complex64)
        return a.new_empty(a.shape[:-1], dtype=wide), by_columns(a.new_empty(a.shape, dtype=wide))

    def cost(self) -> int:
        return cubes(self.a, 25)

    def pytorch(self) -> tuple[Tensor, Tensor]:
        a, power = _within_range(self.a.cpu())
        values, vectors = host.lapack("eig", a, torch.linalg.eig, scipy.linalg.eig)
        # SciPy's vectors are real where all values are
        return (values / power).to(self.a.device), vectors.to(self.a.device, values.dtype)

    @saves()
    def vjp(
        self, grad: tuple[Tensor, Tensor], needs: frozenset[str], result: tuple[Tensor, Tensor]
    ) -> dict[str, Tensor]:
        (values, v), (grad_values, grad_vectors) = result, grad
        inner = v.mH @ grad_vectors
        # vectors keep their length
        inner = inner - v.mH @ v * inner.diagonal(dim1=-2, dim2=-1).real.unsqueeze(-2)
        gaps = (values.unsqueeze(-2) - values.unsqueeze(-1)).conj()
        same = torch.eye(v.shape[-1], dtype=torch.bool, device=v.device)
        inner = torch.where(same, grad_values.unsqueeze(-1), inner / torch.where(same, 1.0, gaps))
        return {"a": _similar(v, inner, self.a)}


@op("trnsolver::eigvals", host_only=_CHAIN, traceable=True)
class EigValues(NamedTuple):
    """The eigenvalues alone."""

    a: Tensor  # [..., N, N]

    def fake(self) -> Tensor:
        return EigCall(self.a).fake()[0]

    def cost(self) -> int:
        return cubes(self.a, 10)

    def pytorch(self) -> Tensor:
        first, second = (lambda a: (torch.linalg.eigvals(a),)), (lambda a: (scipy.linalg.eigvals(a),))
        a, power = _within_range(self.a.cpu())
        return (host.lapack("eigvals", a, first, second)[0] / power).to(self.a.device)

    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        return {"a": _similar(eig(self.a).vectors, torch.diag_embed(grad), self.a)}


def _similar(v: Tensor, inner: Tensor, like: Tensor | TensorSpec) -> Tensor:
    """``inv(v.mH) @ inner @ v.mH``, in the dtype of an operand."""
    whole = torch.linalg.solve(v.mH, inner @ v.mH)
    return (whole if like.dtype.is_complex else whole.real).to(like.dtype)


@op(
    "trnsolver::hessenberg",
    host_only="half of its work is products of a matrix with a vector",
    calls="scipy.linalg.hessenberg",
)
class HessenbergCall(NamedTuple):
    """``h`` and ``q``."""

    a: Tensor  # [..., N, N]

    def fake(self) -> tuple[Tensor, Tensor]:
        return by_columns(self.a), by_columns(self.a)

    def cost(self) -> int:
        return cubes(self.a, 14 / 3)

    def limits(self, implementation: str) -> str | None:
        return no_transform()

    def host(self) -> tuple[Tensor, Tensor]:
        reduce = functools.partial(scipy.linalg.hessenberg, calc_q=True, check_finite=False)
        return _each("hessenberg", self.a, reduce, self.a.dtype)

    def pytorch(self) -> tuple[Tensor, Tensor]:
        result: tuple[Tensor, Tensor] = elsewhere(self)
        return result


@op("trnsolver::schur", host_only=_CHAIN, calls="scipy.linalg.schur")
class SchurCall(NamedTuple):
    """``t`` and ``z``; ``t`` is triangular, or has blocks of two rows for pairs."""

    a: Tensor  # [..., N, N]
    triangular: bool

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the result."""
        return torch.promote_types(self.a.dtype, torch.complex64) if self.triangular else self.a.dtype

    def fake(self) -> tuple[Tensor, Tensor]:
        like = self.a.new_empty(self.a.shape, dtype=self.dtype)
        return by_columns(like), by_columns(like)

    def cost(self) -> int:
        return cubes(self.a, 25)

    def limits(self, implementation: str) -> str | None:
        return no_transform()

    def host(self) -> tuple[Tensor, Tensor]:
        output = "complex" if self.triangular else "real"
        split = functools.partial(scipy.linalg.schur, output=output, check_finite=False)
        a, power = _within_range(self.a)
        t, z = _each("schur", a, split, self.dtype)
        return t / power.unsqueeze(-1), z

    def pytorch(self) -> tuple[Tensor, Tensor]:
        result: tuple[Tensor, Tensor] = elsewhere(self)
        return result


def _each(op: str, a: Tensor, fn: Callable[[Matrix], Any], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Apply a function of SciPy to every matrix in host memory."""
    n = a.shape[-1]
    if not a.numel():
        return a.new_zeros(a.shape, dtype=dtype), a.new_zeros(a.shape, dtype=dtype)
    try:
        forms, bases = zip(*map(fn, a.reshape(-1, n, n).numpy()), strict=True)
    except np.linalg.LinAlgError:
        raise NotConverged(op=op, iterations=30 * n, residual=float("nan")) from None
    # stored by columns, as LAPACK leaves them
    rows = (each[0].T if a.ndim == 2 else np.stack([x.T for x in each]) for each in (forms, bases))
    one, other = (torch.from_numpy(each).reshape(a.shape).mT.to(dtype) for each in rows)
    return one, other
