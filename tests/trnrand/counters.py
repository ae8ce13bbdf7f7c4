"""What either engine does with counters: Random123's answers, shapes, dtypes, errors."""

from pathlib import Path

import numpy as np
import pytest
import torch

import trnsci
from trnsci import ArgumentError, DtypeError, UnsupportedError
from trnsci.testing import BACKENDS, known_answers

ANSWERS = list(known_answers(Path(__file__).parent / "known" / "random123.csv"))


def words(text):
    return torch.tensor([int(word, 16) for word in text.split()])


class CounterCases:
    """Cases of the class that derives from it: ``engine``, ``function``, ``key`` words and the ``first`` word of 0."""

    @pytest.mark.parametrize("backend", BACKENDS, ids=str)
    def test_random123_known_answers(self, backend):
        answers = [row for row in ANSWERS if row["engine"] == self.engine]
        assert len(answers) >= 3
        for row in answers:
            with backend:
                made = self.function(words(row["counter"]), words(row["key"]))
            assert made.dtype == torch.uint32
            assert made.tolist() == words(row["words"]).tolist()

    def test_shapes_broadcast_and_dtypes_hold_the_same_words(self):
        counter = torch.arange(24).reshape(2, 3, 4)
        keys = torch.arange(3 * self.key).reshape(3, self.key) + 2**32 - 5
        made = self.function(counter, keys)
        assert made.shape == (2, 3, 4)
        for i in range(2):
            for j in range(3):
                assert torch.equal(made[i, j], self.function(counter[i, j], keys[j]))
        assert self.function(counter[0, 0], keys).shape == (3, 4)
        assert self.function(counter[:, :0], keys[:1]).shape == (2, 0, 4)
        for dtype in (torch.uint32, torch.int32):
            assert torch.equal(self.function(counter, (keys & 0xFFFFFFFF).to(dtype)), made)

    def test_numpy_in_numpy_out(self):
        made = self.function(np.zeros(4, np.uint32), np.zeros(self.key, np.uint32))
        assert isinstance(made, np.ndarray)
        assert made.dtype == np.uint32
        assert made[0] == self.first

    def test_the_kernel_takes_one_key(self):
        with trnsci.backend("simulator"), pytest.raises(UnsupportedError, match="one key for all counters"):
            self.function(torch.zeros(2, 4, dtype=torch.int64), torch.zeros(2, self.key, dtype=torch.int64))

    def test_errors(self):
        zeros = torch.zeros(4, dtype=torch.int64)
        with pytest.raises(DtypeError, match="uint32 words") as caught:
            self.function(torch.zeros(4), zeros[: self.key])
        assert caught.value.argument == "counter"
        with pytest.raises(DtypeError, match="a tensor"):
            self.function(zeros, [1] * self.key)
        with pytest.raises(ArgumentError, match=rf"\[\.\.\., {self.key}\]"):
            self.function(zeros, torch.zeros(3, dtype=torch.int64))
        with pytest.raises(ArgumentError, match="broadcast"):
            self.function(zeros.expand(2, 4), torch.zeros((3, self.key), dtype=torch.int64))
        with pytest.raises(ArgumentError, match="device"):
            self.function(zeros, torch.zeros(self.key, dtype=torch.int64, device="meta"))
