"""trnrand: words against Random123's definition, distributions against SciPy's (Kolmogorov and Smirnov, chi squared).

A test of a distribution fails with a chance below 1e-12 a trial: a campaign that finds one has found something.
"""

import numpy as np
import torch
from scipy import stats

import trnrand
from tests.campaign.draw import HALF, REAL, Draw
from tests.campaign.oracles import narrow, unit, wide
from tests.campaign.trial import EXEMPT, Trial, apart, public, spec

EXEMPT.update(
    {
        "trnrand.get_backend": "a setting",
        "trnrand.set_backend": "a setting",
        "trnrand.probe": "runs on a device only",
        "trnrand.default_generator": "a setting",
        "trnrand.manual_seed": "a setting",
        "trnrand.default_rng": "the functions below by NumPy's names",
        "trnrand.integers": "randint by NumPy's name",
        "trnrand.random": "uniform by NumPy's name",
        "trnrand.standard_normal": "normal by NumPy's name",
    }
)
COUNT, INT = 4096, torch.int32
# 2 exp(-2 n d^2) <= 1e-12, and a margin for numbers rounded to float32
DISTANCE = float(np.sqrt(np.log(2e12) / 2 / COUNT)) + 2e-4
SAME = "the same bits on every backend and in every partition of calls"


def seeded(draw: Draw, function, *args, outs: bool = True, **kwargs):
    """A call with a generator of its own, so that it can be repeated, into memory that is given, too."""
    seed, engine = draw.seedling(), draw.among("philox4x32", "threefry4x32")
    into = outs and draw.chance(0.3)
    kwargs |= draw.among({}, {}, {"device": "cpu"})
    draw.log.append(f"seed {seed} {engine} {kwargs} out {into}")

    def run(*tensors, **more):
        result = function(*args, *tensors, **kwargs, **more, generator=trnrand.Generator(seed, engine=engine))
        if into:
            again, memory = trnrand.Generator(seed, engine=engine), apart(result)
            # a result's memory says its dtype
            rest = {key: value for key, value in kwargs.items() if key != "dtype"} if seed % 2 else kwargs
            made = function(*args, *tensors, **rest, **more, out=memory, generator=again)
            assert made.data_ptr() == memory.data_ptr()
            assert torch.equal(memory, result), "other numbers in given memory"
        return result

    return run


def drawn(run, check, *tensors, **options) -> Trial:
    options = {
        "kernels": "maybe",
        "simulated": 0.05,
        "arrays": False,
        "compiles": False,
        "differentiable": False,
        **options,
    }
    return Trial(run, tensors, check=lambda result, kernel: check(wide(torch.as_tensor(result).double())), **options)


def parameters(draw: Draw, ranges: dict) -> dict:
    """One value of each range: uniform in the logarithm between positive ends; anything else is the value."""
    between = {name: ends for name, ends in ranges.items() if isinstance(ends, tuple)}
    values = {name: float(10.0 ** draw.rng.uniform(*np.log10(ends))) for name, ends in between.items()}
    values |= {name: draw.among(*these) for name, these in ranges.items() if isinstance(these, list)}
    return {**ranges, **values}


SCALE = (0.1, 9.0)
# name: ranges of parameters, SciPy's distribution of them
CONTINUOUS = {
    "uniform": (
        {"low": -2.5, "high": SCALE, "ends": ["[)", "(]", "()"]},
        lambda low, high, ends: stats.uniform(low, high - low),
    ),
    "normal": (
        {"loc": -1.5, "scale": SCALE, "method": ["box-muller", "inverse"]},
        lambda loc, scale, method: stats.norm(loc, scale),
    ),
    "exponential": ({"scale": SCALE}, lambda scale: stats.expon(scale=scale)),
    "cauchy": ({"loc": 1.0, "scale": SCALE}, lambda loc, scale: stats.cauchy(loc, scale)),
    "gumbel": ({"loc": 1.0, "scale": SCALE}, lambda loc, scale: stats.gumbel_r(loc, scale)),
    "laplace": ({"loc": 1.0, "scale": SCALE}, lambda loc, scale: stats.laplace(loc, scale)),
    "logistic": ({"loc": 1.0, "scale": SCALE}, lambda loc, scale: stats.logistic(loc, scale)),
    "lognormal": ({"loc": 0.5, "scale": (0.1, 2.0)}, lambda loc, scale: stats.lognorm(scale, scale=np.exp(loc))),
    "pareto": ({"shape": (0.5, 9.0), "scale": 2.0}, lambda shape, scale: stats.pareto(shape, scale=scale)),
    "weibull": ({"shape": (0.5, 9.0), "scale": 2.0}, lambda shape, scale: stats.weibull_min(shape, scale=scale)),
    "gamma": ({"shape": (0.05, 1e4), "scale": 2.0}, lambda shape, scale: stats.gamma(shape, scale=scale)),
    "chi_squared": ({"df": (0.1, 1e3)}, lambda df: stats.chi2(df)),
    "beta": ({"a": (0.05, 1e3), "b": (0.05, 1e3)}, lambda a, b: stats.beta(a, b)),
    "f": ({"dfnum": (0.5, 99.0), "dfden": (0.5, 99.0)}, lambda dfnum, dfden: stats.f(dfnum, dfden)),
    "student_t": ({"df": (0.5, 1e3), "loc": [0.0, -2.0], "scale": SCALE}, stats.t),
    "von_mises": (
        {"loc": [0.0, 0.5, -3.0], "concentration": (0.01, 1e3)},
        lambda loc, concentration: stats.vonmises(concentration),
    ),
    "truncated_normal": (
        {"loc": [0.0, 1.5], "scale": SCALE, "low": [-0.7, -np.inf], "high": (0.1, 5.0)},
        lambda loc, scale, low, high: stats.truncnorm((low - loc) / scale, (high - loc) / scale, loc, scale),
    ),
}


@spec(
    *(f"trnrand.{stem}" for stem in CONTINUOUS),
    promise="the distribution; float64 rounded once",
    when="parameters in range",
)
def continuous(draw: Draw, name: str) -> Trial:
    ranges, distribution = CONTINUOUS[name.split(".")[1]]
    options, dtype = parameters(draw, ranges), draw.dtype(*REAL)
    reference = distribution(**options)
    ends = options.get("ends", "")

    def check(values):
        assert values.shape == (COUNT,)
        assert np.all(np.isfinite(values))
        assert not ends or np.all((values >= options["low"]) & (values <= options["high"]))
        if name.endswith("von_mises"):
            assert np.all(np.abs(values) <= np.pi * (1 + unit(dtype)))
            values = (values - options["loc"] + np.pi) % (2 * np.pi) - np.pi
        cdf = reference.cdf(np.sort(narrow(values)))
        # numbers are rounded to the dtype, so ties at the ends of intervals are of either side
        edges = np.arange(COUNT + 1) / COUNT
        below = reference.cdf(np.nextafter(np.sort(narrow(values)).astype(np.float32), -np.inf).astype(float))
        distance = max(np.max(edges[1:] - cdf), np.max(np.minimum(below, cdf) - edges[:-1]))
        assert distance <= DISTANCE, f"distance {distance:.3g} of {DISTANCE:.3g} from {options}"

    return drawn(seeded(draw, public(name), COUNT, dtype=dtype, **options), check)


DISCRETE = {
    "bernoulli": ({"p": (0.01, 1.0)}, lambda p: stats.bernoulli(p)),
    "binomial": ({"n": [1, 7, 50, 1000], "p": (0.01, 1.0)}, lambda n, p: stats.binom(n, p)),
    "poisson": ({"rate": (0.01, 1e3)}, lambda rate: stats.poisson(rate)),
    "geometric": ({"p": (0.01, 0.99)}, lambda p: stats.geom(p)),
    "negative_binomial": ({"n": (0.5, 50.0), "p": (0.05, 0.9)}, lambda n, p: stats.nbinom(n, p)),
    "randint": ({"low": -5, "high": [-4, 3, 100]}, lambda low, high: stats.randint(low, high)),
    "rademacher": ({}, lambda: stats.rv_discrete(values=([-1, 1], [0.5, 0.5]))),
}


@spec(
    *(f"trnrand.{stem}" for stem in DISCRETE),
    promise="the distribution, probabilities to 1e-13",
    when="parameters in range",
)
def discrete(draw: Draw, name: str) -> Trial:
    ranges, distribution = DISCRETE[name.split(".")[1]]
    options = parameters(draw, ranges)
    reference = distribution(**options)
    real = () if name.endswith("randint") else REAL
    dtype = draw.among(None, None, torch.int64, torch.int32, *real)

    def check(values):
        present, counts = np.unique(narrow(values), return_counts=True)
        assert np.all(reference.pmf(present) > 0), "a value of probability zero"
        share = np.cumsum(counts) / COUNT
        distance = np.max(np.abs(share - reference.cdf(present)))
        assert distance <= DISTANCE, f"distance {distance:.3g} of {DISTANCE:.3g} from {options}"

    return drawn(seeded(draw, public(name), COUNT, dtype=dtype, **options), check)


@spec(
    "trnrand.categorical",
    "trnrand.multinomial",
    "trnrand.choice",
    promise="shares of the weights; zero never",
    when="a positive sum",
)
def weighted(draw: Draw, name: str) -> Trial:
    stem, k = name.split(".")[1], draw.among(1, 2, 5, 33)
    scale = draw.among(1.0, 1e-300, 1e300, 1e-30)
    weights = draw.tensor((k,), torch.float64, kind="gaussian", change=lambda v: np.abs(v) * scale)
    weights[draw.among(0, k - 1)] = 0.0 if k > 1 else scale
    share = narrow(wide(weights) / wide(weights).sum())
    if stem == "categorical":
        run = seeded(draw, lambda p, **more: trnrand.categorical(COUNT, probs=p, **more), dtype=draw.among(None, INT))
    elif stem == "choice":
        run = seeded(draw, lambda p, **more: trnrand.choice(k, COUNT, p=p, **more), outs=False)
    else:
        run = seeded(draw, lambda p, **more: trnrand.multinomial(n=COUNT, probs=p, **more), dtype=draw.among(None, INT))

    def check(values):
        counts = narrow(values) if stem == "multinomial" else np.bincount(narrow(values).astype(int), minlength=k)
        assert counts.sum() == COUNT
        assert np.all(counts[share == 0] == 0), "an element of weight zero was drawn"
        # Bernstein: 1e-13 for each of up to 33 counts
        spread = 8 * np.sqrt(COUNT * share * (1 - share)) + 24
        assert np.all(np.abs(counts - COUNT * share) <= spread), (counts, COUNT * share)

    return drawn(run, check, weights)


@spec(
    "trnrand.dirichlet", "trnrand.unit_vector", "trnrand.orthogonal", "trnrand.multivariate_normal",
    promise="the distribution; unit sums and lengths to roundings", when="parameters in range",
)  # fmt: skip
def vectors(draw: Draw, name: str) -> Trial:
    stem, dtype, k = name.split(".")[1], draw.dtype(*REAL), draw.among(1, 2, 3, 7)
    u = unit(dtype)
    if stem == "dirichlet":
        alpha = draw.tensor((k,), torch.float64, kind="gaussian", change=lambda v: np.abs(v) + 0.05)
        run = seeded(draw, lambda a, **more: trnrand.dirichlet(COUNT, alpha=a, **more), dtype=dtype)

        def check(values):
            assert np.all(np.abs(values.sum(-1) - 1) <= 4 * k * u)
            mean = narrow(wide(alpha) / wide(alpha).sum())
            spread = 8 * np.sqrt(mean * (1 - mean) / COUNT) + 1e-3
            assert np.all(np.abs(narrow(values.mean(0)) - mean) <= spread), (values.mean(0), mean)

        return drawn(run, check, alpha)
    if stem == "unit_vector":
        run = seeded(draw, trnrand.unit_vector, COUNT, dim=k, dtype=dtype)

        def check(values):
            assert np.all(np.abs(np.sum(values**2, -1) - 1) <= 8 * (k + 2) * u)
            assert np.all(np.abs(values.mean(0)) <= 8 / np.sqrt(COUNT))

        return drawn(run, check)
    if stem == "orthogonal":
        run = seeded(draw, trnrand.orthogonal, 5, n=k, dtype=dtype, outs=False)

        def check(values):
            error = np.swapaxes(values, -1, -2) @ values - np.eye(k)
            assert np.all(np.abs(error) <= 40 * k * u), float(np.max(np.abs(error)))

        return drawn(run, check)
    covariance = draw.tensor((k, k), torch.float64, kind="gaussian", change=lambda v: v @ v.T + np.eye(k))
    mean = draw.tensor((k,), torch.float64, kind="gaussian")
    options = {"method": draw.among("cholesky", "eigh"), "dtype": draw.among(None, torch.float64)}

    def run(mean, covariance, generator=trnrand.Generator(draw.seedling())):  # noqa: B008
        source = generator.clone_state()
        return trnrand.multivariate_normal(COUNT, mean=mean, covariance=covariance, generator=source, **options)

    def check(values):
        whitened = np.linalg.solve(np.linalg.cholesky(narrow(wide(covariance))), narrow((values - wide(mean)).T))
        for row in whitened:
            distance = stats.kstest(row, "norm").statistic
            assert distance <= DISTANCE, distance

    return drawn(run, check, mean, covariance)


@spec("trnrand.permutation", "trnrand.shuffle", promise="every row once, uniform orders")
def orders(draw: Draw, name: str) -> Trial:
    n = draw.size(0, 513)
    x = draw.tensor((n, 2), torch.float64, kind="ramp")
    seed, alone = draw.seedling(), draw.chance(0.5) and name.endswith("permutation")

    def run(x):
        more = {"device": "cpu"} if name.endswith("permutation") else {}
        made = public(name)(n if alone else x.clone(), generator=trnrand.Generator(seed), **more)
        some = trnrand.choice(x, n // 2, replace=False, generator=trnrand.Generator(seed))
        assert len(some.unique(dim=0)) == n // 2, "a row twice, without replacement"
        return x[made] if alone else made

    def check(values):
        assert sorted(map(tuple, narrow(values))) == sorted(map(tuple, narrow(wide(x))))
        assert n < 20 or not np.array_equal(values, wide(x)), "nothing was moved"

    return drawn(run, check, x)


def philox(counter: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Salmon and others' definition, in Python integers."""
    c, k = [int(x) for x in counter], [int(x) for x in key]
    for _ in range(10):
        low, high = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(high >> 32) ^ c[1] ^ k[0], high & 0xFFFFFFFF, (low >> 32) ^ c[3] ^ k[1], low & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.array(c, dtype=np.int64)


def threefry(counter: np.ndarray, key: np.ndarray) -> np.ndarray:
    rotations = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
    k = [int(x) for x in key]
    k.append(0x1BD11BDA ^ k[0] ^ k[1] ^ k[2] ^ k[3])
    x = [(int(c) + k[i]) & 0xFFFFFFFF for i, c in enumerate(counter)]
    for turn in range(20):
        pairs = ((0, 1), (2, 3)) if turn % 2 == 0 else ((0, 3), (2, 1))
        for (i, j), bits in zip(pairs, rotations[turn % 8], strict=True):
            x[i] = (x[i] + x[j]) & 0xFFFFFFFF
            x[j] = ((x[j] << bits) | (x[j] >> (32 - bits))) & 0xFFFFFFFF
            x[j] ^= x[i]
        if turn % 4 == 3:
            s = turn // 4 + 1
            x = [(x[i] + k[(s + i) % 5] + (s if i == 3 else 0)) & 0xFFFFFFFF for i in range(4)]
    return np.array(x, dtype=np.int64)


@spec("trnrand.philox4x32", "trnrand.threefry4x32", "trnrand.bits", promise="exact: Random123's words", when=SAME)
def words(draw: Draw, name: str) -> Trial:
    stem, extremes = name.split(".")[1], (0, 1, 2**31, 2**32 - 1)

    def some(count):
        return [int(draw.rng.integers(2**32)) if draw.chance(0.7) else draw.among(*extremes) for _ in range(count)]

    def exactly(expected, kernel_options):
        return dict(kernels="maybe", simulated=0.05, differentiable=False, compiles=False, **kernel_options)

    if stem == "bits":
        key, offset, n = int(draw.rng.integers(2**63)), draw.among(0, 1, 3, 2**32 - 2, 2**40 + 1), draw.size(0, 33)
        first, engine = offset // 4, draw.among("philox4x32", "threefry4x32")
        halves = [key & 0xFFFFFFFF, key >> 32]
        blocks = []
        for block in range(first, first + n // 4 + 2):
            counter = [block & 0xFFFFFFFF, block >> 32 & 0xFFFFFFFF, 0, 0]
            blocks.append(philox(counter, halves) if engine[0] == "p" else threefry(counter, [*halves, 0, 0]))
        exact = np.concatenate(blocks)[offset % 4 : offset % 4 + n]
        return Trial(
            *(trnrand.bits, (key, offset, n), {"engine": engine, "device": "cpu"}),
            *(lambda: exact.astype(float), lambda e: np.zeros(e.shape)),
            view=lambda r: torch.as_tensor(r).to(torch.int64), **exactly(exact, {"arrays": False}),
        )  # fmt: skip
    size, definition = (2, philox) if stem.startswith("philox") else (4, threefry)
    counter, key = torch.tensor([some(4) for _ in range(3)]), torch.tensor(some(size))
    exact = np.stack([definition(c, key.tolist()) for c in counter.tolist()])
    return Trial(
        *(public(name), (counter, key), {}, lambda: exact.astype(float), lambda e: np.zeros(e.shape)),
        view=lambda r: torch.as_tensor(r).to(torch.int64), **exactly(exact, {"arrays": False}),
    )  # fmt: skip


@spec("trnrand.sketch", promise="`g(M + 2) |normals|.T |a|` and the normals' own", when="finite data")
def sketch(draw: Draw) -> Trial:
    dtype, m, n, size = draw.dtype(*REAL), draw.size(1, 65), draw.size(1, 33), draw.size(1, 17)
    a = draw.tensor((m, n), dtype, kind=draw.among("gaussian", "constant", "ramp", "spike"))
    seed = draw.seedling()
    normals = wide(trnrand.normal(m, size, dtype=dtype, generator=trnrand.Generator(seed)))
    exact, size_of = normals.T @ wide(a), np.abs(normals).T @ np.abs(wide(a))
    u = unit(dtype)
    # the kernel's normals are its own, 2**-20 (1 + |z|) away
    own = (2.0**-19 if dtype == torch.float32 else 2.0**-48) * ((1 + np.abs(normals)).T @ np.abs(wide(a)))
    bound = narrow((m + 4) * u * 1.01 * size_of + own + 1e-300)
    run = lambda a: trnrand.sketch(a, size, generator=trnrand.Generator(seed))  # noqa: E731
    options = {"kernels": "maybe", "simulated": 0.1, "arrays": False, "compiles": False}
    return Trial(run, (a,), {}, lambda: narrow(exact), lambda _: bound, **options)


@spec("trnrand.advance", "trnrand.get_state", "trnrand.set_state", "trnrand.spawn", promise=SAME)
def streams(draw: Draw, name: str) -> Trial:
    seed, n, stem, dtype = draw.seedling(), draw.size(1, 65), name.split(".")[1], draw.dtype(*REAL, *HALF)

    def check(result, kernel):
        before, default = trnrand.default_generator(), torch.random.get_rng_state()
        state = trnrand.get_state()
        try:
            trnrand.manual_seed(seed)
            if stem == "advance":
                first = trnrand.uniform(n, dtype=torch.float32)
                rest = trnrand.uniform(n, dtype=torch.float32)
                trnrand.manual_seed(seed)
                trnrand.advance(n)
                assert torch.equal(trnrand.uniform(n, dtype=torch.float32), rest), "an advance is no draw"
                assert n < 8 or not torch.equal(first, rest)
            elif stem == "spawn":
                one, two = trnrand.spawn(2)
                assert n < 8 or not torch.equal(one.uniform(n), two.uniform(n))
            else:
                kept = trnrand.get_state()
                first = trnrand.normal(n, dtype=dtype)
                trnrand.set_state(kept)
                assert torch.equal(trnrand.normal(n, dtype=dtype), first)
        finally:
            trnrand.set_state(state)
        assert before is trnrand.default_generator() or default is not None

    return Trial(
        lambda: None, (), check=check, kernels=False, differentiable=False, compiles=False, arrays=False, repeats=False
    )
