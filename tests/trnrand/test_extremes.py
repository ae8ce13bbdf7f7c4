"""Parameters at the ends of their ranges: every distribution stays itself, or the call is refused."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch

import trnrand
from tests.together import together
from trnrand import Generator
from trnsci import ArgumentError
from trnsci.testing import assert_within, gamma

N = 20000
SHAPES = [1e-299, 1e-30, 1e-4, 1e-3, 1e-2, 0.0624, 0.0626, 0.5]
EDGES = np.array([1e-280, 1e-100, 1e-10, 1e-3, 0.5])
WIDE = np.array([1e-140, 1e-50, 1e-10, 1.0, 1e10, 1e50, 1e140])


def agree(x, edges, cdf):
    """Chi-squared over the classes between edges; a class that is never expected must stay empty."""
    counts = np.bincount(np.searchsorted(edges, np.asarray(x, dtype=np.float64).ravel()), minlength=len(edges) + 1)
    chances = np.diff(np.concatenate([[0.0], cdf(edges), [1.0]]))
    expected = chances * counts.sum()
    assert counts[expected < 1e-6].sum() == 0
    some = expected > 5
    if some.sum() > 1:
        chi = ((counts[some] - expected[some]) ** 2 / expected[some]).sum()
        assert scipy.stats.chi2.sf(chi, some.sum() - 1) > 1e-5


def draw(name, *size, **parameters):
    return getattr(Generator(11), name)(*size, dtype=torch.float64, **parameters)


def _betainc(a, b, x):
    """SciPy's, but where both shapes vanish: all is at 0 and 1 then, which SciPy before 1.17 does not know."""
    return np.full_like(x, b / (a + b)) if max(a, b) < 1e-200 else scipy.special.betainc(a, b, x)


@pytest.mark.grid(1)
@pytest.mark.parametrize("a", SHAPES)
@pytest.mark.parametrize("b", [1e-299, 1e-4, 0.03, 2.0])
def test_beta(a, b):
    x = draw("beta", N, a=a, b=b)
    assert x.isfinite().all()
    agree(x, EDGES, lambda edges: _betainc(a, b, edges))
    agree(draw("beta", N, a=b, b=a), EDGES, lambda edges: _betainc(b, a, edges))


def test_beta_of_shapes_near_the_largest_number():
    x = draw("beta", 100, a=1.7e308, b=1.7e308)
    # their deviation is 1e-155: what is left are the roundings of two variates and a ratio
    assert_within(x, torch.full_like(x, 0.5), gamma(16, x.dtype))
    x = draw("dirichlet", 100, alpha=torch.tensor([1.7e308] * 3, dtype=torch.float64))
    assert_within(x, torch.full_like(x, 1 / 3), gamma(16, x.dtype))


@together("shape", SHAPES)
def test_gamma_with_a_scale_that_brings_it_back(shape):
    for scale in (1.0, 1e200, 1e300):
        x = draw("gamma", N, shape=shape, scale=scale)

        def cdf(edges, scale=scale):
            # the leading term of the series where the quotient would underflow
            leading = np.exp(shape * (np.log(edges) - np.log(scale)) - scipy.special.gammaln(shape + 1))
            return np.where(edges < 1e-9 * scale, leading, scipy.special.gammainc(shape, edges / scale))

        agree(x, EDGES * 1e100, cdf)


@together("df", SHAPES[1:])
def test_student_t(df):
    x = draw("student_t", N, df=df)
    assert not x.isnan().any()
    assert abs((x > 0).double().mean() - 0.5) < 5 * 0.5 / N**0.5
    agree(x.abs(), WIDE, lambda edges: scipy.special.betaincc(df / 2, 0.5, df / (df + edges**2)))


@pytest.mark.grid(1)
@pytest.mark.parametrize("above", SHAPES[1:])
@pytest.mark.parametrize("below", [1e-30, 1e-3, 4.0])
def test_f(above, below):
    x = draw("f", N, dfnum=above, dfden=below)
    assert not x.isnan().any()

    def cdf(edges):
        # the complement where the argument is close to 1
        y = above * edges / (above * edges + below)
        rest = below / (above * edges + below)
        return np.where(
            y < 0.5, scipy.special.betainc(above / 2, below / 2, y), scipy.special.betaincc(below / 2, above / 2, rest)
        )

    agree(x, WIDE, cdf)


@together("scale", [1e-100, 1e-30, 1e-4, 0.01, 1.0])
def test_dirichlet(scale):
    weights = np.array([1.0, 2.0, 5.0])
    x = draw("dirichlet", N, alpha=torch.tensor(scale * weights))
    assert_within(x.sum(-1), torch.ones(N), gamma(2 * 3 + 1, x.dtype))
    for k, weight in enumerate(weights):
        agree(x[:, k], EDGES, lambda edges, w=weight: scipy.special.betainc(scale * w, scale * (8 - w), edges))


def test_what_is_tiny_is_drawn_as_in_a_call_of_its_own():
    shapes = torch.tensor([1e-4, 0.3, 1e-2, 5.0], dtype=torch.float64)
    together = draw("beta", a=shapes, b=2.0)
    generator = Generator(11)
    alone = [generator.beta(a=a, b=2.0, dtype=torch.float64) for a in shapes]
    assert torch.equal(together, torch.stack(alone))


@pytest.mark.parametrize(
    ("name", "parameters"), [("beta", ("a", "b")), ("f", ("dfnum", "dfden")), ("gamma", ("shape",))]
)
def test_gradients_of_tiny_shapes_are_no_nan(name, parameters):
    given = {key: torch.tensor([1e-3, 0.05, 0.07, 3.0], dtype=torch.float64, requires_grad=True) for key in parameters}
    x = draw(name, **given)
    x[x.isfinite()].sum().backward()
    assert all(not value.grad.isnan().any() for value in given.values())


@pytest.mark.parametrize("shape", [1e-3, 1e-2, 0.1])
def test_heavy_tails_reach_infinity_and_not_a_large_number(shape):
    edges = np.array([1e10, 1e100, 1e300, 1.7e308])
    agree(draw("pareto", N, shape=shape), edges, lambda t: -np.expm1(-shape * np.log(t)))
    agree(draw("weibull", N, shape=shape), edges, lambda t: -np.expm1(-np.exp(shape * np.log(t))))


@pytest.mark.grid(1)
@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (torch.float64, -1.7e308, 1.7e308),
        (torch.float32, -3.4e38, 3.4e38),
        (torch.bfloat16, -3.3e38, 3.3e38),
        (torch.float16, -65504.0, 65504.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("ends", ["[)", "(]", "()"])
def test_uniform_over_a_range_wider_than_its_dtype(dtype, low, high, ends):
    # few enough for bfloat16's 256 steps not to be seen
    x = Generator(1).uniform(1000, low=low, high=high, ends=ends, dtype=dtype)
    assert x.isfinite().all()
    assert x.min() < 0.97 * low
    assert scipy.stats.kstest(x.double().numpy() / high, scipy.stats.uniform(-1, 2).cdf).pvalue > 1e-5


@together(
    ("dtype", "low", "high", "ends"),
    [
        (torch.float32, 0.0, 1e60, "[)"),
        (torch.float16, -1e6, 0.0, "[)"),
        (torch.float32, 1.0, 1.0 + 1e-12, "[)"),
        (torch.float32, 1.0, 1.0 + 2.0**-23, "()"),
        (torch.float16, 0.0, 1e-9, "[)"),
    ],
)
def test_uniform_refuses_ends_its_dtype_cannot_hold(dtype, low, high, ends):
    generator = Generator(1)
    with pytest.raises(ArgumentError, match=str(dtype).removeprefix("torch.")) as caught:
        generator.uniform(3, low=low, high=high, ends=ends, dtype=dtype)
    assert caught.value.op == "uniform"
    assert set(caught.value.got) == {"low", "high"}
    assert generator.position == 0


@together("power", [-1060, -500, 0, 500, 1020])
def test_weights_count_relative_to_each_other(power):
    # the last two numbers are the smallest and largest that stay exact
    weights = torch.tensor([[0.0, 3.0, 0.0, 2.0, 7.0, 0.0], [1.0, 0.0, 0.0, 0.0, 4.0, 0.0]], dtype=torch.float64)
    scaled = torch.from_numpy(np.ldexp(weights.numpy(), power))
    assert scaled.isfinite().all()
    for row in (weights, weights[0]):
        other = scaled if row.ndim == 2 else scaled[0]
        ours, theirs = Generator(5), Generator(5)
        assert torch.equal(ours.categorical(500, 2, probs=row), theirs.categorical(500, 2, probs=other))
        assert torch.equal(ours.multinomial(50, 2, n=1000, probs=row), theirs.multinomial(50, 2, n=1000, probs=other))
    assert torch.equal(Generator(5).choice(6, 500, p=weights[0]), Generator(5).choice(6, 500, p=scaled[0]))
    for seed in range(20):
        order = Generator(seed).choice(6, 3, replace=False, p=scaled[0])
        assert torch.equal(order, Generator(seed).choice(6, 3, replace=False, p=weights[0]))
        assert set(order.tolist()) == {1, 3, 4}


def test_weights_of_every_size_in_one_row():
    weights = torch.tensor([0.0, 1e308, 1e-308, 5e-324, 0.0], dtype=torch.float64)
    assert set(Generator(1).categorical(1000, probs=weights).tolist()) == {1}
    assert Generator(1).multinomial(n=1000, probs=weights).tolist() == [0, 1000, 0, 0, 0]
    orders = [tuple(Generator(s).choice(5, 3, replace=False, p=weights).tolist()) for s in range(50)]
    assert set(orders) == {(1, 2, 3)}


COUNTS = {
    "poisson": {"rate": 120.0},
    "binomial": {"n": 300, "p": 0.5},
    "geometric": {"p": 0.01},
    "negative_binomial": {"n": 40.0, "p": 0.25},
    "multinomial": {"n": 300, "probs": torch.tensor([1.0, 1.0])},
}


@pytest.mark.grid(1)
@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.float16], ids=str)
def test_counts_fit_their_dtype_or_the_call_is_refused(name, dtype):
    given = ("dtype", "out")[(list(COUNTS).index(name) + dtype.itemsize) % 2]
    wide = getattr(Generator(3), name)(200, **COUNTS[name])
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    generator = Generator(3)
    more = {"dtype": dtype} if given == "dtype" else {"out": torch.empty(wide.shape, dtype=dtype)}
    if wide.max() > limits.max:
        with pytest.raises(ArgumentError, match=f"a count is {wide.max()}"):
            getattr(generator, name)(200, **COUNTS[name], **more)
        assert generator.position == 0
    else:
        assert torch.equal(getattr(generator, name)(200, **COUNTS[name], **more).long(), wide)


def test_counts_in_float16_are_finite():
    with pytest.raises(ArgumentError, match="float16"):
        trnrand.Generator(1).poisson(3, rate=1e5, dtype=torch.float16)
    with pytest.raises(ArgumentError, match=r"at most 256 for uint8"):
        Generator(1).categorical(3, probs=torch.ones(257), dtype=torch.uint8)
    assert Generator(1).categorical(3, probs=torch.ones(256), dtype=torch.uint8).dtype == torch.uint8


def test_a_negative_binomial_beyond_its_rates_is_refused():
    generator = Generator(1)
    with pytest.raises(ArgumentError, match=r"2\*\*62"):
        generator.negative_binomial(3, n=3.0, p=1e-300)
    assert generator.position == 0
    assert generator.negative_binomial(3, n=1e-4, p=1e-12).max() >= 0
    assert generator.negative_binomial(3, n=5.0, p=1.0).tolist() == [0, 0, 0]


@together("name", ["gamma", "beta", "chi_squared", "student_t", "f", "dirichlet", "negative_binomial"])
def test_shapes_beyond_logarithms_are_refused(name):
    names = {"gamma": "shape", "chi_squared": "df", "student_t": "df", "dirichlet": "alpha", "negative_binomial": "n"}
    given = (
        {names[name]: 5e-324}
        if name in names
        else {"beta": {"a": 5e-324, "b": 1.0}}.get(name, {"dfnum": 1.0, "dfden": 5e-324})
    )
    if name == "dirichlet":
        given = {"alpha": torch.tensor([5e-324, 1.0], dtype=torch.float64)}
    with pytest.raises(ArgumentError, match="1e-299"):
        getattr(Generator(1), name)(3, **given)
