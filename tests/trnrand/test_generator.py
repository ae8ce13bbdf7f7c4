"""Generators: state, seeds, shares, and where torch takes them."""

import copy
import inspect
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from scipy import stats

import trnrand
from tests.together import together
from trnrand import Generator, Stream, bits
from trnsci import ArgumentError, DtypeError
from trnsci.testing import assert_within, gamma


def test_the_seed_is_the_key():
    assert torch.equal(Generator(7).uniform(8), (bits(7, 0, 8).long() >> 8) * 2.0**-24)
    assert Generator(Stream(7).at(4)).uniform(1) == Generator(7).uniform(5)[4]
    threefry = Generator(2**100, engine="threefry4x32")
    assert torch.equal(threefry.uniform(4), (bits(2**100, 0, 4, engine="threefry4x32").long() >> 8) * 2.0**-24)


def test_positions_count_words():
    g = Generator(0)
    g.uniform(3)
    assert g.position == 3
    g.uniform(2, dtype=torch.float64)
    assert g.position == 8
    g.gamma(5, shape=1.0)
    assert g.position == 13


def test_state_goes_there_and_back():
    g = Generator(5, engine="threefry4x32").advance(2**65)
    state = g.get_state()
    first = g.normal(9)
    assert torch.equal(g.set_state(state).normal(9), first)
    for twin in (pickle.loads(pickle.dumps(g)), copy.deepcopy(g), g.clone_state()):
        assert twin.position == g.position
        assert torch.equal(twin.clone_state().normal(3), g.clone_state().normal(3))
    part = Generator(5).partition(1, 3)
    assert pickle.loads(pickle.dumps(part)).rank == 1
    with pytest.raises(ArgumentError, match="from get_state"):
        g.set_state(torch.zeros(3, dtype=torch.uint8))
    with pytest.raises(ArgumentError, match="a state from get_state"):
        g.set_state(torch.full_like(state, 255))


def test_advance_skips_and_returns():
    g = Generator(5)
    whole = g.uniform(10)
    assert torch.equal(g.advance(-10).advance(4).uniform(6), whole[4:])
    with pytest.raises(ArgumentError) as caught:
        g.advance(-11)
    assert caught.value.got == -11
    assert g.position == 10
    with pytest.raises(DtypeError):
        g.advance(1.5)


def test_spawned_generators_differ_and_repeat():
    g = Generator(5)
    first, second = g.spawn(3), g.spawn(3)
    seeds = {child.stream.key for child in (*first, *second)}
    assert len(seeds) == 6
    assert [c.stream for c in Generator(5).spawn(3)] == [c.stream for c in first]
    with pytest.raises(ArgumentError, match="0 to 2"):
        g.spawn(-1)


def test_module_level_functions_share_one_generator():
    kept = trnrand.get_state()
    try:
        trnrand.manual_seed(9)
        assert torch.equal(trnrand.uniform(4), Generator(9).uniform(4))
        state = trnrand.get_state()
        after = trnrand.normal(3)
        trnrand.set_state(state)
        assert torch.equal(trnrand.normal(3), after)
        assert trnrand.advance(2).position == trnrand.default_generator().position == 9
        assert len(trnrand.spawn(2)) == 2
    finally:
        trnrand.set_state(kept)


def test_torch_takes_it_for_its_own():
    assert torch.equal(torch.randperm(9, generator=Generator(3)), torch.randperm(9, generator=Generator(3)))
    loader = torch.utils.data.DataLoader(range(8), shuffle=True, generator=Generator(3))
    again = torch.utils.data.DataLoader(range(8), shuffle=True, generator=Generator(3))
    assert [int(x) for x in loader] == [int(x) for x in again]
    g = Generator(3)
    assert g.initial_seed() == 3
    assert g.manual_seed(4).initial_seed() == 4
    assert g.seed() == g.initial_seed()


def test_partition_errors():
    with pytest.raises(ArgumentError) as caught:
        Generator(1).partition(3, 3)
    assert caught.value.got == {"rank": 3, "size": 3}
    with pytest.raises(ArgumentError, match="not partitioned"):
        Generator(1).partition(0, 2).partition(0, 2)
    with pytest.raises(DtypeError):
        Generator(1).partition(0.5, 2)
    assert "share 1 of 2" in repr(Generator(1).partition(1, 2))


def test_seed_errors():
    with pytest.raises(ArgumentError, match=r"2\*\*64 for philox4x32"):
        Generator(2**64)
    with pytest.raises(ArgumentError):
        Generator(-1)
    with pytest.raises(DtypeError, match="an integer, a Stream or None"):
        Generator("x")
    with pytest.raises(ArgumentError, match="threefry4x32"):
        Generator(1, engine="mt19937")
    assert Generator().stream != Generator().stream


def test_a_seed_may_be_numpys_integer():
    assert Generator(np.int64(7)).initial_seed() == 7
    assert torch.equal(Generator(np.uint32(7)).uniform(3), Generator(7).uniform(3))


@pytest.mark.parametrize(("engine", "bits"), [("philox4x32", 64), ("threefry4x32", 128)])
def test_keys_are_as_long_as_random123_defines_them(engine, bits):
    assert Generator(2**bits - 1, engine=engine).stream.key == 2**bits - 1
    with pytest.raises(ArgumentError, match=rf"2\*\*{bits}") as caught:
        Generator(2**bits, engine=engine)
    assert caught.value.got == 2**bits


DRAWS = {
    "uniform": lambda g: g.uniform(3, dtype=torch.float64).tolist(),
    "bits": lambda g: g.randint(2, high=2**62).tolist(),
    "gamma": lambda g: g.gamma(3, shape=2.0, dtype=torch.float64).tolist(),
    "permutation": lambda g: [tuple(g.permutation(40).tolist())],
    "spawn": lambda g: [child.stream.key for child in g.spawn(2)],
    "sketch": lambda g: trnrand.sketch(torch.eye(4, dtype=torch.float64), 2, generator=g).flatten().tolist(),
}


def in_threads(work, threads=8, times=40):
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(lambda _: [x for _ in range(times) for x in work()], range(threads)))
    return [x for part in parts for x in part]


@pytest.mark.parametrize("name", DRAWS)
def test_threads_that_share_a_generator_never_draw_a_word_twice(name):
    shared, alone = Generator(5), Generator(5)
    drawn = in_threads(lambda: DRAWS[name](shared))
    expected = [x for _ in range(8 * 40) for x in DRAWS[name](alone)]
    assert sorted(drawn) == sorted(expected)
    assert shared.position == alone.position


def test_threads_share_the_default_generator():
    kept = trnrand.get_state()
    try:
        trnrand.manual_seed(5)
        drawn = in_threads(lambda: trnrand.uniform(1, dtype=torch.float64).tolist())
    finally:
        trnrand.set_state(kept)
    assert sorted(drawn) == sorted(Generator(5).uniform(320, dtype=torch.float64).tolist())


@pytest.mark.parametrize("sequence", [trnrand.Sobol(2), trnrand.Halton(2), trnrand.LatinHypercube(2, 1000)], ids=repr)
def test_threads_share_a_sequence(sequence):
    expected = sequence.at(0).random(640, dtype=torch.float64).tolist()
    drawn = in_threads(lambda: sequence.random(2, dtype=torch.float64).tolist())
    assert sorted(drawn) == sorted(expected)


def test_an_error_in_a_draw_releases_the_generator():
    g = Generator(5)
    with pytest.raises(ArgumentError):
        g.poisson(3, rate=1000.0, dtype=torch.uint8)
    assert in_threads(lambda: g.uniform(1).tolist(), threads=2, times=1)


def _parameters_of_numpy(name):
    """Names of the parameters of NumPy's method, from the first line of its documentation."""
    text = getattr(np.random.Generator, name).__doc__.partition(f"{name}(")[2].partition(")\n")[0]
    return [part.partition("=")[0].strip() for part in text.split(",") if part.strip() != "*"]


# options of NumPy that mean nothing here
OPTIONS = {"shuffle", "check_valid", "tol"}
METHODS = [
    name for name in dir(np.random.Generator) if not name.startswith("_") and name in vars(trnrand.NumpyGenerator)
]


def test_methods_of_default_rng_are_spelt_as_numpys():
    assert len(METHODS) == 33
    for name in METHODS:
        ours = list(inspect.signature(getattr(trnrand.NumpyGenerator, name)).parameters)[1:]
        theirs = [each for each in _parameters_of_numpy(name) if each not in OPTIONS]
        if name == "standard_exponential":
            theirs.remove("method")
        assert ours == theirs, name
    with pytest.raises(AttributeError, match=r"numpy.random.default_rng\(\) has zipf, trnrand has not"):
        trnrand.default_rng(0).zipf(2.0)


DISTRIBUTIONS = {
    "random": ((), stats.uniform()),
    "uniform": ((2.0, 5.0), stats.uniform(2, 3)),
    "standard_normal": ((), stats.norm()),
    "normal": ((3.0, 2.0), stats.norm(3, 2)),
    "lognormal": ((0.5, 0.3), stats.lognorm(0.3, scale=np.exp(0.5))),
    "standard_exponential": ((), stats.expon()),
    "exponential": ((2.0,), stats.expon(scale=2)),
    "standard_gamma": ((2.5,), stats.gamma(2.5)),
    "gamma": ((2.5, 3.0), stats.gamma(2.5, scale=3)),
    "laplace": ((1.0, 2.0), stats.laplace(1, 2)),
    "logistic": ((1.0, 2.0), stats.logistic(1, 2)),
    "gumbel": ((1.0, 2.0), stats.gumbel_r(1, 2)),
    "standard_cauchy": ((), stats.cauchy()),
    "weibull": ((1.5,), stats.weibull_min(1.5)),
    "rayleigh": ((2.0,), stats.rayleigh(scale=2)),
    "pareto": ((3.0,), stats.lomax(3.0)),
    "vonmises": ((0.5, 2.0), stats.vonmises(2.0, loc=0.5)),
    "beta": ((2.0, 3.0), stats.beta(2, 3)),
    "chisquare": ((4.0,), stats.chi2(4)),
    "standard_t": ((5.0,), stats.t(5)),
    "f": ((4.0, 7.0), stats.f(4, 7)),
    "integers": ((3, 9), stats.randint(3, 9)),
    "poisson": ((4.0,), stats.poisson(4)),
    "binomial": ((12, 0.3), stats.binom(12, 0.3)),
    "negative_binomial": ((5, 0.4), stats.nbinom(5, 0.4)),
    "geometric": ((0.3,), stats.geom(0.3)),
}


@together("name", DISTRIBUTIONS)
def test_numbers_of_default_rng_have_numpys_distribution(name):
    parameters, want = DISTRIBUTIONS[name]
    draw = getattr(trnrand.default_rng(11), name)
    made = draw(*parameters, size=(40, 50))
    whole = hasattr(want.dist, "pmf")
    assert made.shape == (40, 50)
    assert made.dtype == (np.int64 if whole else np.float64)
    low, high = (want.cdf(made - 1), want.cdf(made)) if whole else (want.cdf(made), want.cdf(made))
    # whole numbers are spread over the step of their distribution function
    spread = low + (high - low) * np.random.default_rng(1).random(made.shape)
    assert stats.kstest(spread.ravel(), "uniform").pvalue > 1e-4
    assert np.ndim(draw(*parameters)) == 0


def test_default_rng_draws_the_numbers_of_its_seed_as_arrays():
    rng, same = trnrand.default_rng(7), trnrand.Generator(7)
    assert trnrand.default_rng(rng) is rng
    np.testing.assert_array_equal(rng.normal(1.0, 2.0, 5), same.normal(5, loc=1.0, scale=2.0, dtype=torch.float64))
    np.testing.assert_array_equal(rng.integers(6, size=(2, 3), endpoint=True), same.randint(2, 3, high=7))
    np.testing.assert_array_equal(rng.random(4, dtype=np.float32), same.uniform(4, dtype=torch.float32))
    out = np.empty(3)
    assert rng.standard_normal(out=out) is out
    np.testing.assert_array_equal(out, same.normal(3, dtype=torch.float64))
    assert rng.normal([0.0, 100.0], [1.0, 2.0]).shape == (2,)
    assert rng.integers(0, 256, 4, np.uint8).dtype == np.uint8
    assert rng.multivariate_normal([0.0, 1.0], np.eye(2), 3).shape == (3, 2)
    assert rng.multinomial(10, [0.2, 0.8], 2).sum() == 20
    assert_within(rng.dirichlet([1.0, 2.0, 3.0], 4).sum(1), np.ones(4), gamma(2 * 3 + 1, torch.float64))
    assert len(rng.bytes(5)) == 5
    assert sorted(rng.permutation(5)) == sorted(rng.choice(5, 5, replace=False)) == [0, 1, 2, 3, 4]
    table = np.arange(6).reshape(2, 3)
    assert rng.choice(table, 7, axis=1).shape == (2, 7)
    np.testing.assert_array_equal(np.sort(rng.permutation(table, axis=1)), table)
    rng.shuffle(items := [1, 2, 3, 4])
    assert sorted(items) == [1, 2, 3, 4]
    assert set(rng.choice(["a", "b"], 20, p=[1.0, 0.0])) == {"a"}
    assert [type(each) for each in rng.spawn(2)] == [trnrand.NumpyGenerator] * 2


def test_size_is_taken_by_name_and_integers_by_numpys_order():
    one, two = trnrand.Generator(3), trnrand.Generator(3)
    for name, given in (("normal", {}), ("gamma", {"shape": 2.0}), ("random", {}), ("standard_normal", {})):
        assert torch.equal(getattr(one, name)(size=(2, 3), **given), getattr(two, name)(2, 3, **given))
    assert one.uniform(size=None).shape == one.integers(4).shape == ()
    assert one.choice(5, size=3).shape == one.integers(1, 5, 3).shape == (3,)
    with pytest.raises(ArgumentError, match=r"normal: size is 4, expected none by name, because \(3,\) has it"):
        one.normal(3, size=4)
    for bad in ({"high": 2.5}, {"high": True}, {"endpoint": 1, "high": 2}):
        with pytest.raises(DtypeError, match="integers: "):
            trnrand.integers(0, **bad)
