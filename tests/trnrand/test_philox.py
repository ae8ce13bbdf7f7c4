"""Philox4x32-10 on counters: Random123's answers, shapes, dtypes, errors."""

from pathlib import Path

import numpy as np
import pytest
import torch

import trnsci
from trnrand import philox4x32
from trnsci import ArgumentError, DtypeError, UnsupportedError
from trnsci.testing import BACKENDS, known_answers

ANSWERS = [
    row for row in known_answers(Path(__file__).parent / "known" / "random123.csv") if row["engine"] == "philox4x32"
]
KEY = 2


def words(text):
    return torch.tensor([int(word, 16) for word in text.split()])


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("row", ANSWERS, ids=lambda row: row["counter"][:8])
def test_random123_known_answers(backend, row):
    with backend:
        made = philox4x32(words(row["counter"]), words(row["key"]))
    assert made.dtype == torch.uint32
    assert made.tolist() == words(row["words"]).tolist()


def test_shapes_broadcast_and_dtypes_hold_the_same_words():
    counter = torch.arange(24).reshape(2, 3, 4)
    keys = torch.arange(3 * KEY).reshape(3, KEY) + 2**32 - 5
    made = philox4x32(counter, keys)
    assert made.shape == (2, 3, 4)
    for i in range(2):
        for j in range(3):
            assert torch.equal(made[i, j], philox4x32(counter[i, j], keys[j]))
    assert philox4x32(counter[0, 0], keys).shape == (3, 4)
    assert philox4x32(counter[:, :0], keys[:1]).shape == (2, 0, 4)
    for dtype in (torch.uint32, torch.int32):
        assert torch.equal(philox4x32(counter, (keys & 0xFFFFFFFF).to(dtype)), made)


def test_numpy_in_numpy_out():
    made = philox4x32(np.zeros(4, np.uint32), np.zeros(KEY, np.uint32))
    assert isinstance(made, np.ndarray)
    assert made.dtype == np.uint32
    assert made[0] == 0x6627E8D5


def test_the_kernel_takes_one_key():
    with trnsci.backend("simulator"), pytest.raises(UnsupportedError, match="one key for all counters"):
        philox4x32(torch.zeros(2, 4, dtype=torch.int64), torch.zeros(2, KEY, dtype=torch.int64))


def test_errors():
    zeros = torch.zeros(4, dtype=torch.int64)
    with pytest.raises(DtypeError, match="uint32 words") as caught:
        philox4x32(torch.zeros(4), zeros[:KEY])
    assert caught.value.argument == "counter"
    with pytest.raises(DtypeError, match="a tensor"):
        philox4x32(zeros, [1] * KEY)
    with pytest.raises(ArgumentError, match=r"\[\.\.\., 2\]"):
        philox4x32(zeros, torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ArgumentError, match="broadcast"):
        philox4x32(zeros.expand(2, 4), torch.zeros((3, KEY), dtype=torch.int64))
    with pytest.raises(ArgumentError, match="device"):
        philox4x32(zeros, torch.zeros(KEY, dtype=torch.int64, device="meta"))
