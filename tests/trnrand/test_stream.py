"""Streams as values."""

import pickle

import pytest
import torch

from trnrand import Stream, bits
from trnsci import ArgumentError, DtypeError


def first(stream):
    return bits(stream, 0, 8)


def test_a_stream_is_a_value():
    a = Stream(7)
    assert a == Stream(7)
    assert hash(a) == hash(Stream(7))
    assert pickle.loads(pickle.dumps(a)) == a
    assert torch.equal(bits(a.at(5), 3, 10), bits(a, 8, 10))


def test_children_are_the_same_whatever_their_number():
    a = Stream(7)
    assert a.split(5)[:2] == a.split(2) == a.split()
    assert len({tuple(first(s).tolist()) for s in (a, *a.split(50), *(a.fold_in(i) for i in range(50)))}) == 101


@pytest.mark.parametrize("engine", ["philox4x32", "threefry4x32"])
def test_jump_moves_by_two_to_the_64_blocks(engine):
    a = Stream(9, engine)
    assert torch.equal(first(a.jump(3)), bits(a, 4 * 3 * 2**64, 8))


def test_children_keep_the_engine():
    assert Stream(1, "threefry4x32").split(1)[0].engine == "threefry4x32"
    assert Stream(1, "threefry4x32").split(1)[0].key >= 1 << 64


def test_errors():
    with pytest.raises(ArgumentError) as caught:
        Stream(-1)
    assert (caught.value.argument, caught.value.got) == ("key", -1)
    with pytest.raises(DtypeError, match="an integer"):
        Stream(1.5)
    with pytest.raises(ArgumentError, match="philox4x32"):
        Stream(1, "xorwow")
    with pytest.raises(ArgumentError, match="0 to 2\\*\\*32"):
        Stream(1).split(-1)
    with pytest.raises(ArgumentError, match=r"2\*\*64"):
        Stream(1).fold_in(1 << 64)
