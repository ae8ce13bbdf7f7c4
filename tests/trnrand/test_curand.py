"""cuRAND's own streams against words that cuRAND 10 drew on a GPU, and NumPy's Mersenne Twister."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import trnrand
from tests.together import together
from trnsci import ArgumentError, DtypeError

KNOWN = json.loads((Path(__file__).parent / "known" / "curand.json").read_text())
ENGINES = {"xorwow": trnrand.XORWOW, "mrg32k3a": trnrand.MRG32k3a}


@together("case", [name for name in KNOWN if "curand" not in name])
def test_words_are_those_of_curand(case):
    engine, seed, order, *offset = case.split()
    if offset:
        found = ENGINES[engine](int(seed), order="default", offset=int(offset[0])).words(16).tolist()
    else:
        v = ENGINES[engine](int(seed), order=order).words(1 << 18).tolist()
        found = v[:8] + v[4096:4104] + v[8192:8196] + v[81920:81924] + v[-4:]
    assert found == KNOWN[case]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_numbers_are_those_of_curand(engine, dtype):
    v = ENGINES[engine](1234, order="default").uniform(1 << 18, dtype=dtype)
    name = "curandGenerateUniform" + ("Double" if dtype == torch.float64 else "")
    found = [x.hex() for x in (v[:6].tolist() + v[4096:4100].tolist() + v[81920:81924].tolist())]
    assert found == KNOWN[f"{engine} {name}"]


@pytest.mark.parametrize("engine", ENGINES.values())
def test_orders_offsets_and_subsequences_agree(engine):
    streams = engine.streams["legacy"]
    dealt = engine(7, order="legacy").words(3 * streams).reshape(3, streams)
    for k in (0, 1, 5):
        assert torch.equal(engine(7, subsequence=k).words(3), dealt[:, k])
    whole = engine(7).words(40)
    assert torch.equal(engine(7, offset=13).words(27), whole[13:])
    parts = engine(7)
    assert torch.equal(torch.cat([parts.words(11), parts.words(0), parts.words(29)]), whole)
    # a long draw runs in pieces side by side, a short one word by word
    long, short = engine(7, offset=3), engine(7, offset=3)
    whole = torch.cat([long.words(5000), long.words(7)])
    assert torch.equal(torch.cat([short.words(n) for n in (1, *[1000] * 5, 6)]), whole)
    # far ahead, where only a power of the matrix leads
    assert engine(7, offset=1 << 63).words(2).shape == (2,)


def test_the_twister_is_that_of_numpy():
    expected = np.random.RandomState(1234).randint(0, 1 << 32, 700, dtype=np.uint32)
    ours = trnrand.MT19937(1234)
    assert np.array_equal(torch.cat([ours.words(3), ours.words(697)]).numpy(), expected)
    # init_genrand(5489), the ten thousandth word: the C++ standard's own check of mt19937
    assert int(trnrand.MT19937(5489).words(10000)[-1]) == 4123659995


def test_errors():
    with pytest.raises(DtypeError, match="integer"):
        trnrand.XORWOW(1.5)
    with pytest.raises(ArgumentError, match="2\\*\\*64"):
        trnrand.MRG32k3a(-1)
    with pytest.raises(ArgumentError, match="takes many"):
        trnrand.XORWOW(0, order="default", subsequence=1)
    with pytest.raises(ArgumentError, match="order"):
        trnrand.XORWOW(0, order="best")
    source = trnrand.XORWOW(0, order="default")
    source.words(3)
    with pytest.raises(ArgumentError, match="inside a round"):
        source.uniform(4, dtype=torch.float64)
    with pytest.raises(DtypeError, match="float32 or float64"):
        trnrand.XORWOW(0).uniform(4, dtype=torch.float16)
    for wrong in (-1, 1.5, None, True):
        for draw in (trnrand.MT19937(0).words, trnrand.XORWOW(0).words, trnrand.MRG32k3a(0).uniform):
            with pytest.raises(ArgumentError, match=r"at least 0|an integer"):
                draw(wrong)


def test_the_largest_output_is_the_last_word():
    raw = np.array([1, 4294967087], np.uint64)
    assert trnrand.MRG32k3a(0)._as_words(raw).tolist() == [1, 2**32 - 1]
