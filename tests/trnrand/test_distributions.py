"""What all element-wise distributions promise: one law, one stream, whatever the shape, split, share, dtype or
backend."""

from collections import Counter

import numpy as np
import pytest
import torch
from scipy import stats
from torch._library.opaque_object import is_opaque_type

import trnrand
from tests.together import together
from tests.trnrand.distributions import ALL, CONTINUOUS, DISCRETE, chi_square
from trnrand import Generator
from trnsci import ArgumentError, CapacityError, DtypeError
from trnsci.testing import BACKENDS

on_kernels = pytest.mark.parametrize("backend", [b for b in BACKENDS if b.runs_kernels], ids=str)
# one seeded draw has one p-value: this is the chance that a correct sampler had been refused when the seed was chosen
LEAST = 1e-4


def draw(name, generator, *size, **more):
    return getattr(generator, name)(*size, **ALL[name][0], **more)


@together("name", CONTINUOUS)
def test_law_of_continuous(name):
    x = draw(name, Generator(20240), 100_000, dtype=torch.float64).numpy()
    assert stats.kstest(x, CONTINUOUS[name][1].cdf).pvalue > LEAST


@pytest.mark.parametrize("name", DISCRETE)
def test_law_of_discrete(name):
    x = draw(name, Generator(20240), 100_000).long().tolist()
    assert chi_square(Counter(x), DISCRETE[name][1]) > LEAST


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["philox4x32", "threefry4x32"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_law_of_continuous_on_ten_million(name, engine):
    law = CONTINUOUS[name][1]
    x = np.sort(draw(name, Generator(7, engine=engine), 10**7, dtype=torch.float64).numpy())
    u = law.cdf(x)
    assert stats.kstest(u, "uniform").pvalue > LEAST
    counts = np.bincount((u * 1000).astype(int).clip(0, 999), minlength=1000)
    assert stats.chisquare(counts).pvalue > LEAST
    # Anderson and Darling's statistic against a law without fitted parameters; 6.0 has p = 0.001
    u, i = u.clip(1e-300, 1 - 2.0**-53), np.arange(1, len(u) + 1)
    statistic = -len(u) - np.mean((2 * i - 1) * (np.log(u) + np.log1p(-u[::-1])))
    assert statistic < 6.0


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["philox4x32", "threefry4x32"])
@pytest.mark.parametrize("name", DISCRETE)
def test_law_of_discrete_on_ten_million(name, engine):
    values, counts = draw(name, Generator(8, engine=engine), 10**7).long().unique(return_counts=True)
    assert chi_square(dict(zip(values.tolist(), counts.tolist(), strict=True)), DISCRETE[name][1]) > LEAST


@together("name", ALL)
def test_the_same_numbers_however_they_are_asked_for(name, pure):
    whole = draw(name, Generator(3).advance(1), 13, 7)
    flat = draw(name, Generator(3).advance(1), 91)
    assert torch.equal(flat.view(13, 7), whole)
    g = Generator(3).advance(1)
    assert torch.equal(torch.cat([draw(name, g, 5, 7), draw(name, g, (0, 7)), draw(name, g, 8, 7)]), whole)
    assert torch.equal(pure(lambda: draw(name, Generator(3).advance(1), 13, 7)), whole)
    again = getattr(trnrand, name)(13, 7, generator=Generator(3).advance(1), **ALL[name][0])
    assert torch.equal(again, whole)


# every distribution with two of four sizes, every size with half of them
@together(("name", "size"), [(n, (1, 2, 3, 20)[(i + j) % 4]) for i, n in enumerate(ALL) for j in (0, 2)])
def test_shares_put_together_are_the_whole(name, size):
    whole, after = Generator(3), []
    expected = draw(name, whole, 13, 7)
    shares = []
    for rank in range(size):
        part = Generator(3).partition(rank, size)
        shares.append(draw(name, part, 13, 7))
        after.append(part.position)
        assert torch.equal(draw(name, part, 5), torch.tensor_split(draw(name, whole.clone_state(), 5), size)[rank])
    assert torch.equal(torch.cat(shares), expected)
    assert set(after) == {whole.position}


@on_kernels
@pytest.mark.parametrize("name", [n for n in ALL if n not in ("normal", "lognormal")])
def test_kernels_give_the_same_bits(name, backend):
    # each engine with half of them: what follows the words is the same
    engine = ("philox4x32", "threefry4x32")[list(ALL).index(name) % 2]
    expected = draw(name, Generator(5, engine=engine), 11)
    with backend:
        assert torch.equal(draw(name, Generator(5, engine=engine), 11), expected)


@together("name", ALL)
def test_dtypes_and_out(name):
    dtypes = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
    dtypes = [torch.int64, torch.int32] if name == "randint" else dtypes
    for dtype in dtypes:
        made = draw(name, Generator(1), 6, 5, dtype=dtype)
        assert made.dtype == dtype
        assert made.shape == (6, 5)
        assert torch.isfinite(made).all()
        out = torch.full((5, 6), 9, dtype=dtype).T
        assert draw(name, Generator(1), 6, 5, out=out) is out
        assert torch.equal(out, made)
        assert torch.equal(draw(name, Generator(1), 6, 5, out=torch.empty(6, 5, dtype=dtype)), made)
    if name not in ("uniform", "normal", "lognormal", "randint"):
        wide, narrow = (draw(name, Generator(1), 50, dtype=d) for d in (torch.float64, torch.float32))
        assert torch.equal(wide.float(), narrow)


@together("name", ALL)
def test_sizes(name):
    assert draw(name, Generator(1)).shape == ()
    assert draw(name, Generator(1), (2, 3)).shape == (2, 3)
    g = Generator(1)
    assert draw(name, g, (0, 4)).shape == (0, 4)
    assert g.position == 0


@together("name", [n for n in ALL if n not in ("rademacher", "randint")])
def test_parameters_broadcast(name):
    arguments = ALL[name][0]
    for varied in arguments:
        value = arguments[varied]
        values = torch.tensor([[value], [value]], dtype=torch.float64)
        made = getattr(Generator(2), name)(2, 3, **{**arguments, varied: values})
        assert torch.equal(made.double(), draw(name, Generator(2), 2, 3, dtype=made.dtype).double())
        alone = getattr(Generator(2), name)(**{**arguments, varied: values})
        assert alone.shape == (2, 1)
        as_numpy = getattr(Generator(2), name)(2, 3, **{**arguments, varied: values.numpy()})
        assert isinstance(as_numpy, np.ndarray)
        assert np.array_equal(as_numpy, made.numpy())
        with pytest.raises(ArgumentError, match="broadcast"):
            getattr(Generator(2), name)(3, 3, **{**arguments, varied: values})


BAD = [
    ("uniform", {"low": 1.0, "high": 1.0}, "low"),
    ("uniform", {"low": float("nan")}, "low"),
    ("uniform", {"high": float("inf")}, "high"),
    ("uniform", {"low": torch.tensor([0.0, 2.0])}, "low"),
    ("uniform", {"ends": "[]"}, "ends"),
    ("normal", {"scale": -1.0}, "scale"),
    ("normal", {"scale": float("nan")}, "scale"),
    ("normal", {"method": "ziggurat"}, "method"),
    ("lognormal", {"scale": -1.0}, "scale"),
    ("exponential", {"scale": 0.0}, "scale"),
    ("laplace", {"scale": -1.0}, "scale"),
    ("cauchy", {"scale": 0}, "scale"),
    ("gumbel", {"loc": float("inf")}, "loc"),
    ("logistic", {"scale": -0.1}, "scale"),
    ("weibull", {"shape": 0.0}, "shape"),
    ("pareto", {"shape": -2.0}, "shape"),
    ("truncated_normal", {"low": 1.0, "high": 0.0}, "low"),
    ("truncated_normal", {"low": 40.0, "high": 50.0}, "low"),
    ("von_mises", {"concentration": -1.0}, "concentration"),
    ("gamma", {"shape": 0.0}, "shape"),
    ("gamma", {"shape": torch.tensor([1.0, float("nan")])}, "shape"),
    ("beta", {"a": -1.0, "b": 1.0}, "a"),
    ("chi_squared", {"df": 0.0}, "df"),
    ("student_t", {"df": -3.0}, "df"),
    ("f", {"dfnum": 1.0, "dfden": 0.0}, "dfden"),
    ("poisson", {"rate": -1.0}, "rate"),
    ("poisson", {"rate": 2.0**63}, "rate"),
    ("bernoulli", {"p": 1.5}, "p"),
    ("geometric", {"p": 0.0}, "p"),
    ("binomial", {"n": -1, "p": 0.5}, "n"),
    ("binomial", {"n": 2.5, "p": 0.5}, "n"),
    ("binomial", {"n": 2, "p": float("nan")}, "p"),
    ("negative_binomial", {"n": 0.0, "p": 0.5}, "n"),
    ("randint", {"low": 3, "high": 3}, "low"),
    ("randint", {"low": 0, "high": 300, "dtype": torch.uint8}, "high"),
]


@together(("name", "arguments", "argument"), BAD)
def test_bad_parameters_are_refused_before_any_draw(name, arguments, argument):
    g = Generator(1).advance(7)
    with pytest.raises(ArgumentError) as caught:
        getattr(g, name)(2, **arguments)
    assert (caught.value.op, caught.value.argument) == (name, argument)
    assert name in str(caught.value)
    assert argument in str(caught.value)
    assert g.position == 7


@together("name", ALL)
def test_bad_calls_are_refused_before_any_draw(name):
    g = Generator(1)
    with pytest.raises(ArgumentError, match="non-negative integers"):
        draw(name, g, -1)
    with pytest.raises(DtypeError, match="integers"):
        draw(name, g, 2.5)
    with pytest.raises(DtypeError) as caught:
        draw(name, g, 2, dtype=torch.complex64)
    assert caught.value.got == torch.complex64
    with pytest.raises(CapacityError) as full:
        draw(name, g, 2**50)
    assert full.value.required == 2**53
    assert full.value.available < 2**50
    with pytest.raises(ArgumentError, match="shape of out"):
        draw(name, g, 2, out=torch.empty(3, dtype=torch.int64 if name == "randint" else torch.float32))
    with pytest.raises(DtypeError, match=r"trnrand\.Generator"):
        getattr(trnrand, name)(2, generator=torch.Generator(), **ALL[name][0])
    with pytest.raises(ArgumentError, match="partitioned"):
        draw(name, g.partition(0, 2))
    assert g.position == 0


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("normal", {"loc": 1.0, "scale": 2.0}),
        ("lognormal", {"loc": 0.5, "scale": 0.7}),
        ("exponential", {"scale": 3.0}),
        ("laplace", {"loc": 1.0, "scale": 2.0}),
        ("cauchy", {"loc": 1.0, "scale": 2.0}),
        ("gumbel", {"loc": 1.0, "scale": 2.0}),
        ("logistic", {"loc": 1.0, "scale": 2.0}),
        ("weibull", {"shape": 1.7, "scale": 2.0}),
        ("pareto", {"shape": 2.5, "scale": 2.0}),
        ("uniform", {"low": -1.0, "high": 2.0}),
    ],
)
def test_reparameterised_gradients(name, parameters):
    values = [torch.tensor([v], dtype=torch.float64, requires_grad=True) for v in parameters.values()]

    def drawn(*given):
        return getattr(Generator(4), name)(5, **dict(zip(parameters, given, strict=True)))

    assert torch.autograd.gradcheck(drawn, values)


def test_compiled_regions_are_cut_around_draws():
    g = Generator(1)
    compiled = torch.compile(lambda x: 2 * (x + trnrand.uniform(3, generator=g)), backend="eager")
    assert torch.equal(compiled(torch.ones(3)), 2 * (1 + Generator(1).uniform(3)))


def test_methods_of_a_generator_are_refused_in_compiled_regions_or_draw_the_same():
    # docs/trnrand/overview.md says so: torch 2.13 takes subclasses of its Generator as opaque, earlier ones do not
    g = Generator(1)
    draw = torch.compile(lambda x: x + g.uniform(3), backend="eager")
    if is_opaque_type(Generator):
        with pytest.raises(RuntimeError, match="unregistered member"):
            draw(torch.ones(3))
        assert g.position == 0
    else:
        assert torch.equal(draw(torch.ones(3)), 1 + Generator(1).uniform(3))


@pytest.mark.parametrize("options", [{}, {"high": 0.5}, {"low": -1.0}])
def test_a_normal_is_truncated_on_the_sides_that_are_given(options):
    values = trnrand.truncated_normal(4096, **options, dtype=torch.float64, generator=trnrand.Generator(7))
    reference = stats.truncnorm(options.get("low", -np.inf), options.get("high", np.inf))
    assert stats.kstest(values.numpy(), reference.cdf).pvalue > 1e-6
