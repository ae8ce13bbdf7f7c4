"""Uniform numbers, bit by bit."""

import pytest
import torch

import trnsci
from tests.together import together
from trnrand import Generator, bits, uniform
from trnsci.testing import BACKENDS

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
BITS = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24}


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("dtype", BITS, ids=str)
@pytest.mark.parametrize("engine", ["philox4x32", "threefry4x32"])
def test_narrow_dtypes_are_the_upper_bits_of_a_word(backend, dtype, engine, loops):
    words = bits(3, 5, 700, engine=engine).long() >> 32 - BITS[dtype]
    with backend:
        made = uniform(700, dtype=dtype, generator=Generator(3, engine=engine).advance(5))
    assert torch.equal(made.double(), words.double() * 2.0 ** -BITS[dtype])


@on_backends
def test_float64_is_53_bits_of_two_words(backend, loops):
    words = bits(3, 6, 1400).long()
    expected = [
        ((h << 32 | low) >> 11) * 2.0**-53 for low, h in zip(words[0::2].tolist(), words[1::2].tolist(), strict=True)
    ]
    with backend:
        made = uniform(700, dtype=torch.float64, generator=Generator(3).advance(5))
    assert made.tolist() == expected


@together("dtype", [*BITS, torch.float64])
def test_ends(dtype):
    for ends in ("[)", "(]", "()"):
        x = uniform(200_000, ends=ends, dtype=dtype, generator=Generator(1)).double()
        assert x.min() > 0 if ends[0] == "(" else x.min() >= 0
        assert x.max() < 1 if ends[1] == ")" else x.max() <= 1
        assert abs(x.mean() - 0.5) < 4 * (1 / 12 / 200_000) ** 0.5 + (
            0 if ends == "()" else 2.0 ** -BITS.get(dtype, 53)
        )


def test_an_excluded_end_is_never_reached_by_rounding():
    x = uniform(100_000, low=1.0, high=1.0 + 2.0**-22, generator=Generator(1))
    assert x.min() == 1.0
    assert x.max() < 1.0 + 2.0**-22
    x = uniform(100_000, low=1.0, high=1.0 + 2.0**-22, ends="()", generator=Generator(1))
    assert x.min() > 1.0
    assert x.max() < 1.0 + 2.0**-22


def test_a_plan_predicts():
    assert trnsci.plan(uniform, 5000).predicted["trn2"] > 0
    assert "simulator  yes" in str(trnsci.explain(uniform, 5000))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [*BITS, torch.float64], ids=str)
def test_the_same_bits_on_a_gpu(dtype):
    made = uniform(100_003, dtype=dtype, device="cuda", generator=Generator(3).advance(5))
    assert torch.equal(made.cpu(), uniform(100_003, dtype=dtype, generator=Generator(3).advance(5)))
