"""trnrand, the rest: cuRAND's streams by their definitions in Python integers, and quasi-random points."""

from collections.abc import Iterator

import numpy as np
import torch
from scipy.stats import qmc

import trnrand
from tests.campaign.draw import Draw
from tests.campaign.trial import Trial, spec

ALONE = {"kernels": False, "arrays": False, "compiles": False, "differentiable": False}
MASK = 2**32 - 1


def xorwow(seed: int) -> Iterator[int]:
    """Marsaglia's recurrence from cuRAND's seeds."""
    t0 = 1099087573 * ((seed & MASK) ^ 0xAAD26B49) & MASK
    t1 = 2591861531 * ((seed >> 32) ^ 0xF7DCEFDD) & MASK
    v = [(x & MASK) for x in (123456789 + t0, 362436069 ^ t0, 521288629 + t1, 88675123 ^ t1, 5783321 + t0)]
    d = (6615241 + t1 + t0) & MASK
    while True:
        t = v[0] ^ (v[0] >> 2)
        last = (v[4] ^ (v[4] << 4) ^ t ^ (t << 1)) & MASK
        v, d = [*v[1:], last], (d + 362437) & MASK
        yield (last + d) & MASK


def mrg(seed: int) -> Iterator[int]:
    """L'Ecuyer's two recurrences and their difference."""
    m1, m2 = 4294967087, 4294944443
    x1, x2 = (seed & MASK) ^ 0x55555555, (seed >> 32) ^ 0xAAAAAAAA
    one = [12345] * 3 if seed == 0 else [x * 12345 % m1 for x in (x1, x2, x1)]
    two = [12345] * 3 if seed == 0 else [x * 12345 % m2 for x in (x2, x1, x2)]
    while True:
        one = [*one[1:], (1403580 * one[1] - 810728 * one[0]) % m1]
        two = [*two[1:], (527612 * two[2] - 1370589 * two[0]) % m2]
        yield (one[2] - two[2] - 1) % m1 + 1


@spec("trnrand.XORWOW", "trnrand.MRG32k3a", "trnrand.MT19937", promise="exact: words by their definition, in any parts")
def chains(draw: Draw, name: str) -> Trial:
    # long draws run in pieces of the chain
    stem, n = name.split(".")[1], draw.size(0, 257) + draw.among(0, 0, 0, 1024, 5000)
    bits = 32 if stem == "MT19937" else 64
    seed = draw.among(0, 1, 2**32 - 1, 2**bits - 1, int(draw.rng.integers(2**31)))
    offset, cut = draw.among(0, 0, 1, 7, 1000), int(draw.rng.integers(0, n + 1))
    double = draw.chance(0.3)
    draw.log.append(f"seed {seed} offset {offset} cut {cut}")

    def run():
        made = getattr(trnrand, stem)(seed, **({} if stem == "MT19937" else {"offset": offset}))
        return torch.cat([made.words(cut).to(torch.int64), made.words(n - cut).to(torch.int64)])

    def check(result, kernel):
        if stem == "MT19937":
            # one word of NumPy's legacy generator at a time
            expected = np.random.RandomState(seed).randint(0, 2**32, size=n, dtype=np.uint64).tolist()
            assert result.tolist() == expected
            return
        source = xorwow(seed) if stem == "XORWOW" else mrg(seed)
        raw = [next(source) for _ in range(offset + n)][offset:]
        words = raw if stem == "XORWOW" else [min(int(x * 1.000000048662), MASK) for x in raw]
        assert result.tolist() == words
        if stem == "MRG32k3a" and double:
            made = trnrand.MRG32k3a(seed, offset=offset).uniform(n, dtype=torch.float64)
            assert made.tolist() == [x * 2.3283065498378288e-10 for x in raw]

    return Trial(run, (), check=check, **ALONE)


@spec(
    "trnrand.Sobol", "trnrand.Halton", "trnrand.LatinHypercube",
    promise="exact: SciPy's points; one point in every cell", when="unscrambled; Latin hypercubes by their cells",
)  # fmt: skip
def points(draw: Draw, name: str) -> Trial:
    stem, d, n = name.split(".")[1], draw.among(1, 2, 3, 17, 40), draw.size(1, 129)
    start = draw.among(0, 0, 1, 5, 64)
    jitter, seed = draw.chance(0.5), draw.seedling()
    draw.log.append(f"d {d} n {n} start {start}")

    def run():
        if stem == "LatinHypercube":
            made = trnrand.LatinHypercube(d, n, jitter=jitter, generator=trnrand.Generator(seed))
            return made.random(n, dtype=torch.float64)
        return getattr(trnrand, stem)(d).at(start).random(n, dtype=torch.float64)

    def check(result, kernel):
        values = result.numpy()
        assert np.all((values >= 0) & (values < 1))
        if stem == "LatinHypercube":
            assert np.array_equal(np.sort(np.floor(values * n).astype(int), 0), np.tile(np.arange(n)[:, None], (1, d)))
            return
        reference = qmc.Sobol(d, scramble=False, bits=32) if stem == "Sobol" else qmc.Halton(d, scramble=False)
        if start:
            reference.fast_forward(start)
        with np.testing.suppress_warnings() as quiet:
            quiet.filter(UserWarning)
            expected = reference.random(n)
        assert np.max(np.abs(values - expected)) <= 2.0**-50, float(np.max(np.abs(values - expected)))

    return Trial(run, (), check=check, **ALONE)
