"""SBUF and PSUM are finite: who is alive, how large, made where, and what would fit."""

import pickle
import re

import numpy as np
import pytest

import trnsim
from tests.together import together
from trnsim import isa as nisa, language as nl
from trnsim.errors import CapacityError
from trnsim.targets import TARGETS

pytestmark = pytest.mark.sim

X = np.zeros((128, 4), np.float32)
KIB = 1024
SBUF = {name: target.sbuf_usable_bytes for name, target in TARGETS.items()}


def overflow(kernel, *args, target="trn2"):
    with pytest.raises(CapacityError) as caught:
        trnsim.simulate(kernel, target=target, lint="off")(*args)
    return caught.value


def pair(x, first, second, dtype="float32"):
    small = nl.zeros((128, first), dtype, nl.sbuf)
    large = nl.zeros((128, second), dtype, nl.sbuf)
    both = nl.ndarray((128, 1), nl.float32, nl.sbuf)
    nisa.tensor_tensor(dst=both, data1=small[:, 0:1], data2=large[:, 0:1], op=nl.add)


@pytest.mark.parametrize("target", SBUF)
def test_sbuf_is_full_exactly_at_its_size(target):
    words = SBUF[target] // 4
    # 4 bytes hold the sum
    trnsim.simulate(pair, target=target)(X, 1000, words - 1001)
    found = overflow(pair, X, 1000, words - 1000, target=target)
    assert (found.where, found.required, found.available, found.target) == (
        "SBUF",
        SBUF[target] + 4,
        SBUF[target],
        target,
    )


def test_the_error_names_live_tensors_sizes_lines_and_what_would_fit():
    found = overflow(pair, X, 20000, 40000)
    text = str(found)
    first = pair.__code__.co_firstlineno
    assert "3 tensors are alive together" in text
    assert re.search(rf"large\[128, 40000\] float32: 160000 bytes \(.*test_capacity.py:{first + 2}\)", text)
    assert re.search(rf"small\[128, 20000\] float32: 80000 bytes \(.*test_capacity.py:{first + 1}\)", text)
    assert "A large of at most 33181 elements per partition would fit" in text
    assert (212728 - 80000 - 4) // 4 == 33181
    trnsim.simulate(pair)(X, 20000, 33181)
    assert [name for name, *_ in found.live] == ["large", "small", "both"]
    assert found.live[0][1:4] == ((128, 40000), "float32", 160000)


def test_what_fits_is_counted_in_elements_of_the_tensor():
    found = overflow(pair, X, 60000, 65000, "bfloat16")
    assert f"A large of at most {(212728 - 120000 - 4) // 2} elements" in str(found)


def test_many_small_tensors_are_told_to_shrink_together():
    def kernel(x):
        tiles = []
        for _ in range(12):
            tiles.append(nl.zeros((128, 10000), nl.float32))
        for t in tiles:
            nisa.memset(t, 1.0)

    text = str(overflow(kernel, X))
    assert "12 tensors are alive together" in text
    assert "and 4 more" in text
    assert "Tiles with 1/3 of the free size would fit" in text
    assert "tiles[128, 10000]" in text


def test_one_tensor_larger_than_the_memory_is_refused_when_it_is_made():
    def kernel(x):
        huge = nl.ndarray((128, 60000), nl.float32, nl.sbuf)
        nisa.memset(huge, 0.0)

    found = overflow(kernel, X)
    assert (found.where, found.required, found.available) == ("SBUF", 240000, 212728)
    assert "huge[128, 60000] alone is too large for trn2" in str(found)
    assert f"test_capacity.py:{kernel.__code__.co_firstlineno + 1}" in str(found)


def test_psum_is_finite_too():
    def kernel(x, banks):
        tiles = []
        for _ in range(banks):
            tiles.append(nl.zeros((128, 512), nl.float32, nl.psum))
        for t in tiles:
            nisa.memset(t, 1.0)

    trnsim.simulate(kernel, lint="off")(X, 8)
    found = overflow(kernel, X, 9)
    assert (found.where, found.required, found.available) == ("PSUM", 18 * KIB, 16 * KIB)


def test_explicit_addresses_leave_less_for_the_rest():
    def kernel(x, columns):
        fixed = nl.ndarray((128, 30000), nl.float32, nl.sbuf, address=(0, 0))
        nisa.memset(fixed, 0.0)
        loose = nl.zeros((128, columns), nl.float32)
        nisa.tensor_copy(dst=loose[:, 0:4], src=fixed[:, 0:4])

    trnsim.simulate(kernel)(X, 23182)
    assert overflow(kernel, X, 23183).required == 212728 + 4


def test_without_checks_there_is_room():
    trnsim.simulate(pair, checks=False)(X, 40000, 40000)


def test_capacity_is_checked_without_values():
    with pytest.raises(CapacityError):
        trnsim.simulate(pair, numerics=False)(X, 40000, 40000)


def test_a_kernel_out_of_room_leaves_its_inputs():
    def kernel(x):
        pair(x, 40000, 40000)
        tile = nl.zeros((128, 4), nl.float32)
        nisa.dma_copy(dst=x, src=tile)

    x = np.ones((128, 4), np.float32)
    overflow(kernel, x)
    assert (x == 1).all()


def test_the_error_is_a_memory_error_and_pickles():
    found = overflow(pair, X, 40000, 40000)
    assert isinstance(found, MemoryError)
    again = pickle.loads(pickle.dumps(found))
    assert (str(again), again.live) == (str(found), found.live)


# rows, elements of bf16 a partition, number of them, does it fit the usable 212728 bytes
SIDE_BY_SIDE = [
    (64, 65535, 2, True),
    (64, 65535, 3, False),
    (65, 65535, 2, False),
    (32, 65535, 4, True),
    (32, 65535, 5, False),
    (33, 65535, 3, False),
    (32, 53182, 8, True),
    (32, 53183, 8, False),
]


@together(("rows", "elements", "count", "fits"), SIDE_BY_SIDE)
def test_small_tensors_lie_side_by_side_in_halves_and_quadrants(rows, elements, count, fits):
    def kernel(x):
        tiles = []
        for _ in range(count):
            tile = nl.ndarray((rows, elements), nl.bfloat16)
            nisa.memset(tile, 0.0)
            tiles.append(tile)
        for tile in tiles:
            nisa.memset(tile[:, 0:1], 1.0)

    if fits:
        trnsim.simulate(kernel, lint="off")(X)
    else:
        assert overflow(kernel, X).required > SBUF["trn2"]


def test_a_wide_tensor_and_two_halves_share_what_is_left():
    def kernel(x, wide):
        whole = nl.zeros((128, wide), nl.bfloat16)
        low = nl.zeros((64, 60000), nl.bfloat16)
        high = nl.zeros((64, 60000), nl.bfloat16)
        for tile in (whole, low, high):
            nisa.memset(tile[:, 0:1], 1.0)

    trnsim.simulate(kernel, lint="off")(X, 46364)
    assert overflow(kernel, X, 46365).required == SBUF["trn2"] + 2


def test_the_strict_profile_keeps_a_psum_tile_within_a_bank():
    trnsim.simulate(strict_tile, lint="off")(X, 513)
    with pytest.raises(CapacityError, match="PSUM: 2052 bytes per partition are needed and 2048 are available"):
        trnsim.simulate(strict_tile, lint="strict")(X, 513)
    trnsim.simulate(strict_tile, lint="strict")(X, 512)


def strict_tile(x, columns):
    tile = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(dst=tile, value=0.0)
