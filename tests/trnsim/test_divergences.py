"""Where the simulator differs from hardware: one test for each line of the table in docs/concepts/simulator.md."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import trnsim
from tests.together import together
from trnsim import collectives as ncc, isa as nisa, language as nl
from trnsim.errors import Race
from trnsim.isa.activations import OutOfRange
from trnsim.language.maths import SimulationOnly
from trnsim.lint import LintWarning

pytestmark = pytest.mark.sim

PAGE = Path(__file__).resolve().parents[2] / "docs" / "concepts" / "simulator.md"
X = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)


def load(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def both_write(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0 * nl.program_id(0))
    nisa.dma_copy(dst=out, src=tile)
    return out


def summed(x, group):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ncc.all_reduce([x], [out], group, nl.add)
    return out


def run(kernel, *args, **options):
    return trnsim.simulate(kernel, lint="off", **options)(*args)


def program_order():
    seen = []

    def kernel(x):
        tile = load(x)
        other = nl.zeros(x.shape, x.dtype)
        nisa.memset(other, 1.0)
        seen.append(other.array[0, 0])
        nisa.tensor_copy(dst=other, src=tile)
        seen.append(other.array[0, 1])

    run(kernel, X)
    assert seen == [1.0, 1.0 * X[0, 1]]


def dma_at_once():
    seen = []

    def kernel(x):
        seen.append(load(x).array.copy())

    run(kernel, X)
    np.testing.assert_array_equal(seen[0], X)


def accumulation_order():
    def kernel(a, b):
        product = nl.ndarray((64, 64), nl.float32, nl.psum)
        nisa.nc_matmul(dst=product, stationary=load(a), moving=load(b))
        tile = nl.ndarray((64, 64), nl.float32, nl.sbuf)
        nisa.tensor_copy(dst=tile, src=product)
        return store(tile)

    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 128, 64)).astype(np.float32)
    np.testing.assert_array_equal(run(kernel, a, b), a.T @ b)


def placement():
    def kernel(x):
        # two halves freed on either side of a tensor that stays: no hole of an address space would take the last one
        words = (224 * 1024 - 16648) // 4
        parts = [nl.ndarray((128, words // 4), nl.float32, nl.sbuf) for _ in range(4)]
        for t in parts:
            nisa.memset(t, 0.0)
        big = nl.ndarray((128, words // 2), nl.float32, nl.sbuf)
        nisa.memset(big, 0.0)
        nisa.tensor_copy(dst=big[:, 0:4], src=parts[1][:, 0:4])
        nisa.tensor_copy(dst=big[:, 0:4], src=parts[3][:, 0:4])

    run(kernel, X)


def psum_banks_shared():
    def kernel(x):
        # twelve tensors of two thirds of a bank fit into the bytes of eight banks, and not into eight banks
        tiles = [nl.zeros((128, 341), nl.float32, nl.psum) for _ in range(12)]
        for t in tiles:
            nisa.memset(t, 1.0)

    run(kernel, X)


def hbm_capacity():
    def kernel(x):
        nl.ndarray((1 << 20, 1 << 20), nl.float32, nl.shared_hbm)

    run(kernel, X, numerics=False)


def private_results():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, nl.hbm)
        nisa.dma_copy(dst=out, src=load(x))
        return out

    with pytest.warns(trnsim.PrivateOutput):
        np.testing.assert_array_equal(run(kernel, X), X)


def list_arguments():
    def kernel(x, sizes):
        return x

    with pytest.warns(LintWarning, match="takes tuples"):
        trnsim.simulate(kernel, nki="0.6")(X, [1, 2])


def lnc_setting():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        rows = nl.program_id(0) * 64
        nisa.dma_copy(dst=out[rows : rows + 64], src=load(x[rows : rows + 64]))
        return out

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
        with pytest.warns(trnsim.GridMismatch, match="NCC_EVRF066"):
            np.testing.assert_array_equal(trnsim.jit(kernel)[2](X), X)


def loop_turns():
    turns = []

    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nl.fori_loop(0, 3, lambda i: turns.append(nisa.dma_copy(dst=out, src=load(x))))
        return out

    np.testing.assert_array_equal(run(kernel, X), X)
    assert len(turns) == 3


def race_timing_only():
    run(trnsim.jit(both_write)[2], X, numerics=False)
    with pytest.raises(Race):
        run(trnsim.jit(both_write)[2], X)


def sendrecv_order():
    def kernel(x):
        i = nl.program_id(0)
        data = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        tile, got = load(x), nl.ndarray(x.shape, x.dtype, nl.sbuf)
        if i == 0:
            nisa.dma_copy(dst=data, src=tile)
        nisa.sendrecv(tile, got, 1 - i, 1 - i, 0)
        if i == 1:
            load(data)
        return data

    with pytest.warns(trnsim.RaceWarning):
        run(trnsim.jit(kernel)[2], X)


def reduction_order():
    # in fp32 the order shows: (1 + 2**24) - 2**24 is 0 one way and 1 the other
    values = [np.full((1, 1), v, np.float32) for v in (1.0, 2.0**24, -(2.0**24))]
    for order, want in ([0, 1, 2], 0.0), ([1, 2, 0], 1.0):
        made = trnsim.simulate_ranks(summed, 3)(trnsim.per_rank(values), ncc.ReplicaGroup([order]))
        assert [m.item() for m in made] == [want] * 3


def ring_order():
    def kernel(x, group):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        ncc.collective_permute_implicit([[x]], [[out]], group)
        return out

    values = [np.full((1, 1), r, np.float32) for r in range(4)]
    made = trnsim.simulate_ranks(kernel, 4)(trnsim.per_rank(values), ncc.ReplicaGroup([[2, 0, 3, 1]]))
    assert [m.item() for m in made] == [2, 3, 1, 0]


def topology():
    values = [np.full((1, 1), 1.0, np.float32)] * 5
    made = trnsim.simulate_ranks(summed, 5)(trnsim.per_rank(values), ncc.ReplicaGroup([[0, 2, 4], [1, 3]]))
    assert [m.item() for m in made] == [3, 2, 3, 2, 3]


def compile_time_print(capsys):
    def kernel(x):
        print(x[0:1, 5:6])

    run(kernel, X)
    assert "[[5.]]" in capsys.readouterr().out


def missing_torch_dtype():
    def kernel(x):
        tile = nl.ndarray(x.shape, nl.float8_e4m3, nl.sbuf)
        nisa.tensor_copy(dst=tile, src=load(x))
        return store(tile)

    assert run(kernel, torch.ones(2, 2)).dtype == torch.float32


def computed(function, values, **options):
    def kernel(x):
        return store(function(load(x)))

    return run(kernel, np.asarray(values, np.float32), **options)


def activation_fit():
    x = np.linspace(-4, 4, 200, dtype=np.float32)[None]
    np.testing.assert_allclose(computed(nl.tanh, x), np.tanh(x.astype(np.float64)), rtol=2.0**-21)


def activation_range():
    with pytest.warns(OutOfRange, match="log"):
        assert np.isnan(computed(nl.log, [[-1.0]])[0, 0])
    with pytest.warns(OutOfRange, match="sin"):
        assert computed(_raw_sine, [[9.0]])[0, 0] == pytest.approx(27.65, abs=0.01)


def _raw_sine(tile):
    out = nl.ndarray(tile.shape, nl.float32)
    nisa.activation(dst=out, op=nl.sin, data=tile)
    return out


def random_bits():
    first = np.array([[123456789, 362436069, 521288629, 88675123, 5783321, 6615241]], np.uint32)

    def kernel(seeds):
        nisa.rand_set_state(load(seeds))
        bits = nl.ndarray((1, 1), nl.uint32)
        nisa.rng(bits, engine=nisa.engine.gpsimd)
        return store(bits)

    x, _, _, _, v, d = (int(word) for word in first[0])
    t = x ^ (x >> 2)
    v = (v ^ (v << 4)) ^ (t ^ (t << 1))
    assert run(kernel, first).item() == (v + d + 362437) % 2**32


def topk_ties():
    def kernel(x):
        values = nl.ndarray((16, 2), nl.bfloat16)
        indices = nl.ndarray((16, 2), nl.uint32)
        nisa.topk(values, indices, nl.load(x, dtype=nl.bfloat16), 16)
        return store(indices)

    np.testing.assert_array_equal(run(kernel, np.ones((16, 1), np.float32)), np.tile([1, 0], (16, 1)))


def language_limits():
    with pytest.warns(SimulationOnly, match="divide"):
        assert computed(lambda t: nl.divide(t, 2.0), [[3.0]]).item() == 1.5
    assert computed(lambda t: nl.copy(nl.matmul(t, t)), np.eye(4)).trace() == 4
    np.testing.assert_array_equal(computed(lambda t: nl.add(t, t[:, 0:1]), [[1.0, 2.0]]), [[2.0, 3.0]])


def sine_reach():
    near, far = (np.linspace(low, 2 * low, 500, dtype=np.float32)[None] for low in (2e5, 2e9))
    assert np.abs(computed(nl.sin, near) - np.sin(near.astype(np.float64))).max() < 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutOfRange)
        assert np.abs(computed(nl.sin, far) - np.sin(far.astype(np.float64))).max() > 1e-3


LISTED = re.findall(r"^\| `([\w-]+)` \|", PAGE.read_text(), re.M)


@together("name", LISTED)
def test_the_page_tells_the_truth(name, capsys):
    shown = globals()[name.replace("-", "_")]
    with warnings.catch_warnings():
        warnings.simplefilter("error", trnsim.UnwrittenOutput)
        shown(capsys) if "capsys" in shown.__code__.co_varnames else shown()


def test_the_page_lists_something():
    assert len(LISTED) == len(set(LISTED)) >= 15
