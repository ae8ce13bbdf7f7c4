"""Gamma variates and what is made of them."""

import mpmath
import pytest
import torch
from scipy import stats

import trnrand
import trnsci
from trnrand import Generator
from trnsci import ArgumentError
from trnsci.testing import BACKENDS, assert_within, gamma as roundings

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)


@pytest.mark.parametrize("shape", [0.01, 0.3, 1.0, 1.5, 30.0, 1e6])
def test_law_for_every_shape(shape):
    x = Generator(12).gamma(50_000, shape=shape, dtype=torch.float64)
    assert stats.kstest(x.numpy(), stats.gamma(shape).cdf).pvalue > 1e-4


@on_backends
@pytest.mark.parametrize("engine", ["philox4x32", "threefry4x32"])
def test_every_way_gives_the_same_bits(backend, engine, pure):
    shape = torch.tensor([0.1, 0.7, 1.0, 3.0, 1e4], dtype=torch.float64).repeat(41)
    with backend:
        made = Generator(1, engine=engine).gamma(shape=shape)
    assert torch.equal(made, pure(lambda: Generator(1, engine=engine).gamma(shape=shape)))


def test_gradients_against_the_quantile():
    shape = torch.tensor([0.6, 1.0, 2.5, 9.0], dtype=torch.float64, requires_grad=True)
    x = Generator(5).gamma(shape=shape)
    x.sum().backward()
    for a, value, slope in zip(shape.tolist(), x.tolist(), shape.grad.tolist(), strict=True):
        by_shape = mpmath.diff(lambda s, x=value: mpmath.gammainc(s, 0, x, regularized=True), a)
        expected = -float(by_shape) / stats.gamma.pdf(value, a)
        assert abs(slope - expected) <= 5e-4 * abs(expected)  # as stated


def test_gradients_reach_the_parameters_of_the_family():
    alpha = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    Generator(1).dirichlet(4, alpha=alpha)[:, 0].sum().backward()
    assert torch.isfinite(alpha.grad).all()
    assert (alpha.grad != 0).all()
    for name, arguments in (
        ("beta", ("a", "b")),
        ("chi_squared", ("df",)),
        ("student_t", ("df",)),
        ("f", ("dfnum", "dfden")),
    ):
        values = {k: torch.tensor([3.0], dtype=torch.float64, requires_grad=True) for k in arguments}
        getattr(Generator(1), name)(4, **values).sum().backward()
        assert all(torch.isfinite(v.grad).all() and (v.grad != 0).all() for v in values.values())


def test_tiny_shapes_stay_in_range():
    x = Generator(1).beta(1000, a=1e-8, b=1e-9)
    assert ((x >= 0) & (x <= 1)).all()
    y = Generator(1).dirichlet(100, alpha=torch.full((3,), 1e-8))
    assert_within(y.sum(-1), torch.ones(100), roundings(2 * 3 + 1, y.dtype))


def test_dirichlet():
    alpha = torch.tensor([0.5, 2.0, 4.0], dtype=torch.float64)
    x = Generator(3).dirichlet(40_000, alpha=alpha)
    assert x.shape == (40_000, 3)
    assert_within(x.sum(-1), torch.ones(40_000), roundings(2 * 3 + 1, x.dtype))
    for k in range(3):
        law = stats.beta(alpha[k].item(), (alpha.sum() - alpha[k]).item())
        assert stats.kstest(x[:, k].numpy(), law.cdf).pvalue > 1e-4
    whole = Generator(3).dirichlet(7, alpha=alpha)
    assert torch.equal(torch.cat([Generator(3).partition(r, 2).dirichlet(7, alpha=alpha) for r in range(2)]), whole)
    assert Generator(3).dirichlet(alpha=torch.ones(2, 5)).shape == (2, 5)
    with pytest.raises(ArgumentError) as caught:
        Generator(3).dirichlet(2, alpha=torch.tensor([1.0, 0.0]))
    assert caught.value.argument == "alpha"
    with pytest.raises(ArgumentError, match="K >= 1"):
        Generator(3).dirichlet(2, alpha=torch.tensor(1.0))


def test_a_plan_predicts():
    assert trnsci.plan(Generator(1).gamma, 1000, shape=2.0).predicted["trn2"] > 0


@pytest.mark.parametrize("name", ["gamma", "weibull", "pareto"])
def test_a_shape_given_as_a_tensor_goes_with_out(name):
    shape, out = torch.tensor([0.5, 2.0, 3.0]), torch.empty(3)
    made = getattr(trnrand, name)(shape=shape, generator=trnrand.Generator(3), out=out)
    assert made is out
    assert torch.equal(out, getattr(trnrand, name)(shape=shape, generator=trnrand.Generator(3)))
