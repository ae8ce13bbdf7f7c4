"""Random numbers: the algorithms the reference names, states, seeding, and the distributions built on them."""

import numpy as np
import pytest

from tests.together import together
from tests.trnsim.kernels import TARGETS, refused, rng, run
from trnsim import isa as nisa, language as nl
from trnsim.errors import WrongArgument, WrongBuffer, WrongDtype, WrongEngine, WrongShape

pytestmark = pytest.mark.sim

M32 = 2**32 - 1


def xorwow(state, n):
    """Marsaglia's generator (Xorshift RNGs, 2003, section 3.1) in Python integers: numbers and the state after."""
    x, y, z, w, v, d = (int(word) for word in state)
    out = []
    for _ in range(n):
        t = x ^ (x >> 2)
        x, y, z, w = y, z, w, v
        v = (v ^ (v << 4) & M32) ^ (t ^ (t << 1) & M32)
        d = (d + 362437) & M32
        out.append((d + v) & M32)
    return out, [x, y, z, w, v, d]


def shift_register(state, n):
    """A Galois register with taps 32, 22, 2, 1, moved 32 steps for each number, in Python integers."""
    state, out = int(state), []
    for _ in range(n):
        for _ in range(32):
            low = state & 1
            state >>= 1
            if low:
                state ^= 0x80200003
        out.append(state)
    return out


def test_marsaglia_seeds_on_gpsimd():
    start = np.array([123456789, 362436069, 521288629, 88675123, 5783321, 6615241], np.uint32)
    seeds = np.tile(start, (4, 1))
    seeds[1:] += np.arange(1, 4, dtype=np.uint32)[:, None]

    def body(seeds, out, after):
        nisa.rand_set_state(seeds)
        nisa.rng(out, engine=nisa.engine.gpsimd)
        nisa.rand_get_state(after)

    out, after = run(body, seeds, out=[((4, 3, 7), nl.uint32), ((4, 6), nl.uint32)])
    for lane in range(4):
        numbers, state = xorwow(seeds[lane], 21)
        np.testing.assert_array_equal(out[lane].reshape(-1), numbers)
        np.testing.assert_array_equal(after[lane], state)


def test_four_states_take_turns_on_the_vector_engine_of_trn3():
    seeds = rng().integers(1, 2**32, (8, 24), dtype=np.uint32)

    def body(seeds, out, after):
        nisa.rand_set_state(seeds, engine=nisa.engine.vector)
        nisa.rng(out)
        nisa.rand_get_state(after, engine=nisa.engine.vector)

    out, after = run(body, seeds, out=[((8, 10), nl.uint32), ((8, 24), nl.uint32, nl.psum)], target="trn3")
    for lane in range(8):
        for k in range(4):
            numbers, state = xorwow(seeds[lane, 6 * k : 6 * k + 6], 3)
            np.testing.assert_array_equal(out[lane, k::4], numbers[: len(out[lane, k::4])])
            np.testing.assert_array_equal(after[lane, 6 * k : 6 * k + 6], state)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_the_shift_register_of_older_vector_engines(target):
    got = run(lambda out: nisa.rng(dst=out), out=[((128, 33), nl.uint32)], target=target)
    for lane in (0, 1, 127):
        assert shift_register(got[lane, 0], 32) == got[lane, 1:].tolist()
    assert len(np.unique(got)) > 0.99 * got.size


@pytest.mark.parametrize("target", TARGETS)
@together("dtype", [nl.int8, nl.int16, nl.int32, nl.uint8, nl.uint16])
def test_narrow_dtypes_keep_the_low_bits(target, dtype):
    seed = np.array([[99]], np.uint32)

    def body(seed, wide, narrow):
        nisa.set_rng_seed(seed)
        nisa.rng(wide)
        nisa.set_rng_seed(seed)
        nisa.rng(narrow)

    wide, narrow = run(body, seed, out=[((16, 40), nl.uint32), ((16, 40), dtype)], target=target)
    np.testing.assert_array_equal(narrow, wide.astype(f"u{dtype.itemsize}").view(dtype))


@pytest.mark.parametrize("target", TARGETS)
def test_seeds_repeat_and_differ(target):
    def body(a, b, first, second, third):
        nisa.set_rng_seed(a)
        nisa.rng(first)
        nisa.set_rng_seed(b)
        nisa.rng(second)
        nisa.set_rng_seed(src_seeds=a)
        nisa.rng(third[:, :10])
        nisa.rng(third[:, 10:])

    seeds = [np.array([[v]], np.int32) for v in (7, 8)]
    # ten and thirty are no multiples of four, so that on trn3 two instructions end a turn early
    out = [((128, 40), nl.uint32)] * 3
    first, second, third = run(body, *seeds, out=out, target=target)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first[:, :10], third[:, :10])
    if target != "trn3":
        np.testing.assert_array_equal(first, third)
    for lane in (1, 64):
        assert not np.array_equal(first[0], first[lane])


def test_the_seed_option_of_the_simulator():
    draws = [run(lambda out: nisa.rng(out), out=[((2, 8), nl.uint32)], seed=seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


def test_lanes_that_draw_nothing_keep_their_state():
    def body(before, after, out):
        nisa.rand_get_state(before)
        nisa.rng(out, engine=nisa.engine.gpsimd)
        nisa.rand_get_state(after)

    before, after, _ = run(body, out=[((128, 6), nl.uint32)] * 2 + [((32, 5), nl.uint32)])
    np.testing.assert_array_equal(before[32:], after[32:])
    assert (before[:32] != after[:32]).any(axis=1).all()


def uniform(values, low=0.0, high=1.0):
    """Mean, variance and a histogram of 16 bins within five standard deviations of the uniform distribution's."""
    n = values.size
    assert values.min() >= low
    assert values.max() <= high
    unit = (values.astype(np.float64) - low) / (high - low)
    assert abs(unit.mean() - 0.5) < 5 * np.sqrt(1 / 12 / n)
    assert abs(unit.var() - 1 / 12) < 5 * np.sqrt(1 / 180 / n)
    counts = np.histogram(unit, 16, (0, 1))[0]
    assert np.abs(counts - n / 16).max() < 5 * np.sqrt(n / 16)


def test_rand2_is_uniform_between_its_bounds():
    low = np.linspace(-4, 0, 128, dtype=np.float32)[:, None]

    def body(low, plain, shifted, halves):
        nisa.rand2(plain, 0.0, 1.0)
        nisa.rand2(dst=shifted, min=low, max=8.0)
        nisa.rand2(halves, -1, 1)

    out = [((128, 256), nl.float32)] * 2 + [((128, 256), nl.bfloat16)]
    plain, shifted, halves = run(body, low, out=out, target="trn3")
    uniform(plain)
    assert plain.max() < 1.0
    uniform((shifted - low) / (8 - low))
    assert np.abs(halves.astype(np.float32)).max() <= 1


@together("target", TARGETS)
@pytest.mark.parametrize("prob", [0.0, 0.25, 1.0])
def test_dropout_zeroes_with_the_given_probability(target, prob):
    x = rng().uniform(1, 2, (128, 300)).astype(np.float32)
    got = run(lambda x, out: nisa.dropout(dst=out, data=x, prob=prob), x, out=[(x.shape, nl.float32)], target=target)
    dropped = got == 0
    assert abs(dropped.mean() - prob) <= 5 * np.sqrt(prob * (1 - prob) / x.size)
    np.testing.assert_array_equal(got[~dropped], x[~dropped])


def test_dropout_probability_of_each_partition():
    x = np.ones((128, 400), np.int32)
    prob = np.repeat(np.array([0.0, 1.0, 0.5, 0.5], np.float32), 32)[:, None]

    def body(x, prob, out):
        nisa.dropout(out, x, prob)

    got = run(body, x, prob, out=[(x.shape, nl.int32)])
    assert got[:32].all()
    assert not got[32:64].any()
    assert abs(got[64:].mean() - 0.5) < 5 * np.sqrt(0.25 / (64 * 400))


def test_constraints_of_rng():
    def body(**more):
        return lambda out: nisa.rng(out, **more)

    gpsimd = {"engine": nisa.engine.gpsimd}
    refused(WrongDtype, "operand-dtype", body(), out=[((4, 4), nl.float32)], says=("float32", "rand2"))
    refused(WrongEngine, "engine", body(**gpsimd), out=[((4, 4), nl.uint32)], target="trn1", says="gpsimd")
    refused(WrongEngine, "engine", body(engine=nisa.engine.scalar), out=[((4, 4), nl.uint32)], says="scalar")
    refused(WrongBuffer, "gpsimd-psum", body(**gpsimd), out=[((4, 4), nl.uint32, nl.psum)], says="psum")
    run(body(), out=[((4, 4), nl.uint32, nl.psum)])


def test_constraints_of_seeds_and_states():
    def seed(t):
        nisa.set_rng_seed(t)

    refused(WrongShape, "seed", seed, np.ones((1, 2), np.int32), says="(1, 2)")
    refused(WrongDtype, "seed", seed, np.ones((1, 1), np.int16), says="int16")

    def load(**more):
        return lambda t: nisa.rand_set_state(t, **more)

    vector = {"engine": nisa.engine.vector}
    six = np.ones((4, 6), np.uint32)
    refused(WrongEngine, "generation", load(), six, target="trn1", says=("trn2", "set_rng_seed"))
    refused(WrongEngine, "engine", load(**vector), np.ones((4, 24), np.uint32), says="vector")
    refused(WrongShape, "rand-state", load(), np.ones((4, 24), np.uint32), says=("(4, 24)", "6 words"))
    refused(WrongShape, "rand-state", load(**vector), six, target="trn3", says="24 words")
    refused(WrongDtype, "rand-state", load(), six.astype(np.int32), says="uint32")
    refused(WrongBuffer, "buffer", load(), six, psum=(0,), says="psum")

    def read(**more):
        return lambda out: nisa.rand_get_state(out, **more)

    refused(WrongEngine, "generation", read(), out=[((4, 6), nl.uint32)], target="trn1", says="trn2")
    refused(WrongBuffer, "buffer", read(), out=[((4, 6), nl.uint32, nl.psum)], says="psum")
    refused(WrongBuffer, "gpsimd-psum", read(), out=[((4, 6), nl.uint32, nl.psum)], target="trn3", says="GpSimd")


def test_constraints_of_rand2_and_dropout():
    def draw(low, high):
        return lambda out: nisa.rand2(out, low, high)

    out = [((4, 4), nl.float32)]
    refused(WrongEngine, "generation", draw(0.0, 1.0), out=out, says=("trn3", "nl.rand"))
    found = refused(WrongArgument, "rand-range", draw(1.0, 1.0), out=out, target="trn3", says=("1.0", "Swap"))
    assert found.got == (1.0, 1.0)
    refused(WrongDtype, "operand-dtype", draw(0.0, 1.0), out=[((4, 4), nl.float8_e4m3fn)], target="trn3", says="e4m3fn")

    x = np.ones((4, 4), np.float32)
    half = np.full((4, 1), 0.5, np.float16)

    def drop(prob):
        return lambda x, out: nisa.dropout(out, x, prob)

    def drop_by(x, prob, out):
        nisa.dropout(out, x, prob)

    refused(WrongArgument, "probability", drop(1.5), x, out=out, says="1.5")
    refused(WrongDtype, "same-dtype", drop(0.5), x, out=[((4, 4), nl.float16)], says=("float16", "float32"))
    refused(WrongDtype, "operand-dtype", drop_by, x.astype(np.int32), half, out=[((4, 4), nl.int32)], says="float16")
    refused(WrongShape, "vector-operand", drop_by, x, x, out=out, says="prob")
    run(drop_by, x, half, out=out)
