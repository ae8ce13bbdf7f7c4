"""Eigenvalues of general matrices, Hessenberg and Schur forms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from torch import Tensor

from trnsci import NotConverged, NumericalError, array_function, check
from trnsci.arrays import to_numpy
from trnsolver.arguments import no_gradient, readable, settled, square, written
from trnsolver.on_host import HostOp, cubes

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


@array_function
def eig(a: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> Eig:
    """Eigenvalues and right eigenvectors, of unit length, of a general matrix; always complex.

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
    made = Eig(*_eig(a))
    settled("eig", made.values)
    return written("eig", out, made, a=a)


@array_function
def eigvals(a: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Eigenvalues [..., N] of a general matrix [..., N, N], complex, on the host like `eig`.

    Example:
        >>> eigvals(torch.tensor([[2.0, 0.0], [0.0, 3.0]])).real.sort().values
        tensor([2., 3.])
    """
    square("eigvals", a=a)
    values = _eigvals(a)
    settled("eigvals", values)
    return written("eigvals", out, values, a=a)


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
    made = Hessenberg(*_hessenberg(a))
    settled("hessenberg", made.h)
    return made


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
    """Schur form ``a = z @ t @ z.mH``.

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
    if sort is not None and not callable(sort):
        check.option("schur", "sort", sort, tuple(_SORTS))
    no_gradient("schur", a)
    triangular = a.is_complex() or output == "complex"
    t, z = _schur(a, triangular)
    settled("schur", t)
    return Schur(t, z) if sort is None else _sorted(t, z, _selector(sort, triangular))


def _selector(sort: str | Callable[..., bool], triangular: bool) -> Select:
    if isinstance(sort, str):
        return _SORTS[sort]
    return sort if triangular else lambda x: sort(x.real, x.imag)


def _sorted(t: Tensor, z: Tensor, select: Select) -> SortedSchur:
    """Each form with the selected eigenvalues first."""
    n, device, batch = t.shape[-1], t.device, t.shape[:-2]
    if not readable(t):
        return SortedSchur(t, z, t.new_empty(batch, dtype=torch.int64))
    if not t.numel():
        return SortedSchur(t, z, torch.zeros(batch, dtype=torch.int64, device=device))
    made: list[tuple[Any, Any, int]] = []
    for one, basis in zip(*(to_numpy(x).reshape(-1, n, n) for x in (t, z)), strict=True):
        wanted = _chosen(one, select)
        try:
            one, basis = _reordered(one, basis, wanted)
        except ArithmeticError:
            message = "eigenvalues lie too close to be exchanged"
            raise NumericalError(op="schur", message=message, hint="Sort by what does not part them") from None
        count = sum(wanted)
        if _chosen(one, select) != [True] * count + [False] * (n - count):
            message = "rounding moved an eigenvalue across the border of sort"
            raise NumericalError(op="schur", message=message, hint="Move the border away from the eigenvalues")
        made.append((one, basis, count))
    forms, bases, counts = zip(*made, strict=True)
    first, second = (torch.from_numpy(np.stack(each)).reshape(t.shape).to(device, t.dtype) for each in (forms, bases))
    return SortedSchur(first, second, torch.tensor(counts, device=device).reshape(batch))


def _chosen(t: Matrix, select: Select) -> list[bool]:
    """For each row, whether its eigenvalue is selected; of a pair both are where one is."""
    found: list[bool] = []
    while (at := len(found)) < len(t):
        if at + 1 == len(t) or t[at + 1, at] == 0:
            found.append(bool(select(complex(t[at, at]))))
            continue
        inner = (t[at, at] - t[at + 1, at + 1]) / 2
        middle, width = (t[at, at] + t[at + 1, at + 1]) / 2, -t[at, at + 1] * t[at + 1, at] - inner * inner
        value = complex(middle, np.sqrt(max(float(width), 0.0)))
        found += [bool(select(value)) or bool(select(value.conjugate()))] * 2
    return found


def _reordered(t: Matrix, z: Matrix, wanted: list[bool]) -> tuple[Matrix, Matrix]:
    """A Schur form, wanted rows' eigenvalues first. Raise ``ArithmeticError`` where two cannot be parted."""
    trsen = scipy.linalg.get_lapack_funcs("trsen", (t,))
    form, basis, *_, info = trsen(np.array(wanted, dtype=np.int32), t, z, job="N")
    if info:
        raise ArithmeticError(0.0)
    return form, basis


_CHAIN = "the QR algorithm is a chain of small dependent steps"


def _fake_eig(a: Tensor) -> tuple[Tensor, Tensor]:
    wide = torch.promote_types(a.dtype, torch.complex64)
    return a.new_empty(a.shape[:-1], dtype=wide), a.new_empty(a.shape, dtype=wide)


def _fake_eigvals(a: Tensor) -> Tensor:
    return _fake_eig(a)[0]


def _fake_pair(a: Tensor) -> tuple[Tensor, Tensor]:
    return a.new_empty(a.shape), a.new_empty(a.shape)


def _fake_schur(a: Tensor, triangular: bool) -> tuple[Tensor, Tensor]:
    kind = torch.promote_types(a.dtype, torch.complex64) if triangular else a.dtype
    return a.new_empty(a.shape, dtype=kind), a.new_empty(a.shape, dtype=kind)


_eig = HostOp("trnsolver::eig", fake=_fake_eig, cost=lambda a: cubes(a, 25), why=_CHAIN, traceable=True)
_eigvals = HostOp("trnsolver::eigvals", fake=_fake_eigvals, cost=lambda a: cubes(a, 10), why=_CHAIN, traceable=True)
_hessenberg = HostOp(
    "trnsolver::hessenberg",
    fake=_fake_pair,
    cost=lambda a: cubes(a, 14 / 3),
    why="half of its work is products of a matrix with a vector",
)
_schur = HostOp("trnsolver::schur", fake=_fake_schur, cost=lambda a, triangular: cubes(a, 25), why=_CHAIN)


@_eig.impl("pytorch")
def _pairs(a: Tensor) -> tuple[Tensor, Tensor]:
    values, vectors = torch.linalg.eig(a.cpu())
    return values.to(a.device), vectors.to(a.device)


@_eigvals.impl("pytorch")
def _values(a: Tensor) -> Tensor:
    return torch.linalg.eigvals(a.cpu()).to(a.device)


@_hessenberg.impl("pytorch")
def _reduced(a: Tensor) -> tuple[Tensor, Tensor]:
    return _each("hessenberg", a, partial(scipy.linalg.hessenberg, calc_q=True, check_finite=False))


@_schur.impl("pytorch")
def _split(a: Tensor, triangular: bool) -> tuple[Tensor, Tensor]:
    kind = torch.promote_types(a.dtype, torch.complex64) if triangular else a.dtype
    output = "complex" if triangular else "real"
    return _each("schur", a, partial(scipy.linalg.schur, output=output, check_finite=False), kind)


def _each(op: str, a: Tensor, fn: Callable[[Any], Any], dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
    """Apply a NumPy function to every matrix."""
    n, kind = a.shape[-1], dtype or a.dtype
    first, second = [], []
    for matrix in to_numpy(a).reshape(-1, n, n) if a.numel() else ():
        try:
            one, two = fn(np.ascontiguousarray(matrix))
        except np.linalg.LinAlgError:
            raise NotConverged(op=op, iterations=30 * n, residual=float("nan")) from None
        first.append(torch.from_numpy(one))
        second.append(torch.from_numpy(two))
    if not first:
        return a.new_zeros(a.shape, dtype=kind), a.new_zeros(a.shape, dtype=kind)
    made = [torch.stack(each).reshape(a.shape).to(a.device, kind) for each in (first, second)]
    return made[0], made[1]
