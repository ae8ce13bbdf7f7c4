import numpy as np
import pytest
import torch

import trnsci
from trnsci import ArgumentError, DtypeError, Singular
from trnsci.testing import BACKENDS, gaussian, pairs, unit_roundoff
from trnsolver import solve_triangular


def _kept(a, upper, unit):
    kept = a.triu() if upper else a.tril()
    return (
        kept - torch.diag_embed(kept.diagonal(dim1=-2, dim2=-1)) + torch.eye(a.shape[-1], dtype=a.dtype)
        if unit
        else kept
    )


@pytest.mark.parametrize(
    ("backend", "dtype", "upper", "left", "unit"),
    pairs(
        BACKENDS,
        [torch.float32, torch.float64, torch.complex64, torch.complex128],
        [False, True],
        [False, True],
        [False, True],
    ),
    ids=str,
)
def test_every_side(backend, dtype, upper, left, unit, norm):
    a, b = gaussian((9, 9), 1, dtype) / 9 + torch.eye(9, dtype=dtype), gaussian((3, 9, 4), 2, dtype)
    b = b if left else b.mT.contiguous()
    with backend:
        x = solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)
    wide, kept = torch.complex128, _kept(a, upper, unit).to(torch.complex128)
    residual = (kept @ x.to(wide) if left else x.to(wide) @ kept) - b.to(wide)
    assert x.dtype == dtype
    assert norm(residual) <= 20 * 9 * unit_roundoff(dtype) * norm(kept) * norm(x)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("n", [60, 130])
def test_matrices_near_singular_to_the_last_digit(backend, n, norm):
    """Inverses of diagonal tiles alone miss the bound here by a factor of five."""
    hilbert = torch.from_numpy(1.0 / (np.arange(n)[:, None] + np.arange(n) + 1.0)).float()
    upper = torch.linalg.lu(hilbert).U
    b = gaussian((n, 2), 1)
    with backend:
        x = solve_triangular(upper, b, upper=True)
    residual = upper.double() @ x.double() - b.double()
    assert norm(residual) <= 20 * n * 2.0**-24 * (norm(upper) * norm(x) + norm(b))


def test_a_zero_on_the_diagonal():
    with pytest.raises(Singular) as caught:
        solve_triangular(torch.zeros(3, 3), torch.ones(3, 1), upper=True)
    assert caught.value.index == 0


def test_what_lies_beyond_the_diagonal_is_not_read():
    a = torch.tensor([[2.0, 0.0], [float("nan"), 4.0]])
    assert torch.equal(solve_triangular(a, torch.ones(2, 1), upper=True), torch.tensor([[0.5], [0.25]]))
    with pytest.raises(ArgumentError, match=r"a\[1, 0\] is nan"):
        solve_triangular(a, torch.ones(2, 1), upper=False)


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty(backend, shape):
    with backend:
        assert solve_triangular(torch.eye(shape[0]), torch.ones(shape), upper=True).shape == shape


def test_mistakes():
    with pytest.raises(ArgumentError) as caught:
        solve_triangular(torch.eye(3), torch.ones(4, 1), upper=True)
    assert caught.value.got == {"a": 3, "b": 4}
    with pytest.raises(DtypeError, match="a has dtype=float32, b has dtype=float64"):
        solve_triangular(torch.eye(3), torch.ones(3, 1, dtype=torch.float64), upper=True)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_gradients(backend):
    a = (gaussian((2, 3, 3), 1, torch.float64) + 4 * torch.eye(3)).requires_grad_()
    b = gaussian((3, 2), 2, torch.float64).requires_grad_()
    with backend:
        for upper, unit in ((False, True), (True, False))[: 1 if backend.runs_kernels else 2]:
            assert torch.autograd.gradcheck(
                lambda a, b, up=upper, one=unit: solve_triangular(a, b, upper=up, unitriangular=one),
                (a, b),
                fast_mode=backend.runs_kernels,
            )


def test_registered():
    torch.library.opcheck(
        torch.ops.trnsolver.solve_triangular.default,
        (torch.eye(3), torch.ones(3, 2), True, False),
        test_utils="test_faketensor",
    )
    assert trnsci.plan(solve_triangular, torch.eye(3), torch.ones(3, 2), upper=True).op


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("value", [float("inf"), float("nan")], ids=str)
def test_what_is_not_finite_is_named_where_it_is_read(upper, value):
    n = 40
    a, b = gaussian((n, n), 1) + 40 * torch.eye(n), gaussian((n, 8), 2)
    read, unread = ((3, 30), (30, 3)) if upper else ((30, 3), (3, 30))

    def spoilt(x, place):
        bad = x.clone()
        bad[place] = value
        return bad

    for place in (read, (9, 9)):
        with pytest.raises(ArgumentError, match=rf"a\[{place[0]}, {place[1]}\]"):
            solve_triangular(spoilt(a, place), b, upper=upper)
    assert torch.isfinite(solve_triangular(spoilt(a, unread), b, upper=upper)).all()
    assert torch.equal(solve_triangular(spoilt(torch.eye(n), (9, 9)), b, upper=upper, unitriangular=True), b)
    with pytest.raises(ArgumentError, match=r"b\[7, 2\]"):
        solve_triangular(a, spoilt(b, (7, 2)), upper=upper)
    a[9, 9] = 0.0
    with pytest.raises(Singular) as caught:
        solve_triangular(a, torch.zeros_like(b), upper=upper)
    assert caught.value.index == 9
