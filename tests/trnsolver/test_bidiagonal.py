"""Bidiagonal forms and block reflectors against their own definitions and NumPy's singular values."""

import numpy as np
import pytest
import torch

import trnsci
import trnsolver as ts
from tests.together import together
from trnsci import ArgumentError, UnsupportedError
from trnsci.testing import gaussian, pairs
from trnsolver.arguments import roundoff

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
SHAPES = [(1, 1), (5, 5), (9, 4), (4, 9), (1, 6), (6, 1), (0, 3), (3, 0), (33, 20)]


def _whole(form, vect):
    size = form.factors.shape[-2 if vect == "q" else -1]
    eye = torch.eye(size, dtype=form.factors.dtype).expand(*form.factors.shape[:-2], size, size).contiguous()
    return ts.ormbr(form, eye, vect)


@together("dtype", DTYPES)
@together("shape", SHAPES)
def test_the_form_is_the_matrix_in_other_bases(shape, dtype, norm):
    a = gaussian((2, *shape), 1, dtype=dtype)
    form, (m, n), k = ts.gebrd(a), shape, min(shape)
    assert form.d.dtype == form.e.dtype == a.real.dtype
    bound = 20 * max(1, m, n) * roundoff(dtype)
    q, p = ts.orgbr(form, "q"), ts.orgbr(form, "p")
    assert (q.shape[-2:], p.shape[-2:]) == ((m, k), (k, n))
    assert norm(q @ form.dense().to(dtype) @ p - a) <= bound * max(1.0, norm(a))
    for x in (q, p.mH):
        assert norm(x.mH @ x - torch.eye(k)) <= bound
    for vect, size in (("q", m), ("p", n)):
        assert ts.ormbr(form, a.new_ones(2, 3, size), vect, left=False).shape == (2, 3, size)
    if k:
        exact = np.linalg.svd(a.to(torch.complex128).numpy(), compute_uv=False)
        found = np.linalg.svd(form.dense().double().numpy(), compute_uv=False)
        assert np.abs(found - exact).max() <= bound * max(1.0, norm(a))
        whole_q, whole_p = _whole(form, "q"), _whole(form, "p")
        assert norm(whole_q[..., :k] - q) <= bound
        assert norm(whole_p[..., :k].mH - p) <= bound
        middle = ts.ormbr(form, ts.ormbr(form, a, "q", transpose=True), "p", left=False)
        assert norm(middle[..., :k, :k] - form.dense()) <= bound * max(1.0, norm(a))


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e150])
def test_scales_near_the_ends_of_the_range(scale, norm):
    a = scale * gaussian((6, 4), 1, dtype=torch.float64)
    form = ts.gebrd(a)
    left = (ts.orgbr(form) @ form.dense() @ ts.orgbr(form, "p") - a) / scale
    assert norm(left) <= 20 * 6 * 2.0**-53 * norm(a / scale)
    # of equal elements only subnormal numbers are left after a few reflections
    for dtype in DTYPES:
        equal = ts.gebrd(torch.full((9, 8), complex(100, 1 / 3) if dtype.is_complex else 100.0).to(dtype))
        assert bool(equal.factors.isfinite().all())
        assert bool(ts.gebrd(torch.full((3, 2), 1e-44).to(dtype)).factors.isfinite().all())
    zero = ts.gebrd(torch.zeros(3, 3))
    assert float(zero.factors.abs().max()) == 0


@together(("storev", "direct", "dtype"), pairs(["columns", "rows"], ["forward", "backward"], DTYPES))
def test_block_reflectors_are_products_of_reflections(dtype, direct, storev, norm):
    m, k = 9, 4
    factors, tau = ts.geqrf(gaussian((2, m, k), 1, dtype=dtype))
    # one that does nothing
    tau = torch.cat([tau[..., :2], torch.zeros_like(tau[..., :1]), tau[..., 3:]], -1)
    unit = factors.tril(-1) + torch.eye(m, k)
    if direct == "backward":
        unit, factors = unit.flip((-2, -1)), factors.flip((-2, -1))
    t = ts.larft(factors if storev == "columns" else factors.mH, tau, direct=direct, storev=storev)
    product = torch.eye(m, dtype=dtype)
    for i in range(k) if direct == "forward" else reversed(range(k)):
        v = unit[..., i : i + 1]
        product = product @ (torch.eye(m) - tau[..., i, None, None] * v @ v.mH)
    assert norm(torch.eye(m) - unit @ t @ unit.mH - product) <= 20 * k * 4 * roundoff(dtype)
    assert norm(t - (t.triu() if direct == "forward" else t.tril())) == 0


def test_gradients_out_and_errors():
    a = gaussian((5, 3), 1, dtype=torch.float64)
    factors, tau = ts.geqrf(a)
    assert torch.autograd.gradcheck(ts.larft, (factors.requires_grad_(), tau.requires_grad_()))
    form = ts.gebrd(a)
    out = tuple(torch.empty_like(part) for part in form)
    assert all(one is other for one, other in zip(ts.gebrd(a, out=out), out, strict=True))
    with pytest.raises(UnsupportedError, match="gradient"):
        ts.gebrd(a.clone().requires_grad_())
    with pytest.raises(ArgumentError, match="at least as long"):
        ts.larft(torch.ones(2, 3), torch.ones(3))
    with pytest.raises(ArgumentError, match="shape of tau"):
        ts.larft(torch.ones(3, 2), torch.ones(3))
    with pytest.raises(ArgumentError, match="M"):
        ts.ormbr(ts.gebrd(torch.ones(2, 3)), torch.ones(4, 1))
    with pytest.raises(ArgumentError, match="vect"):
        ts.orgbr(form, "r")
    assert isinstance(ts.gebrd(a.numpy()).d, np.ndarray)
    many = gaussian((2, 5, 3), 1, dtype=torch.float64)
    assert torch.equal(torch.func.vmap(lambda x: ts.gebrd(x).d, in_dims=1)(many.movedim(0, 1)), ts.gebrd(many).d)
    assert "trnsolver::gebrd" in str(trnsci.explain(ts.gebrd, a))
