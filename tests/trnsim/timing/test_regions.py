"""Overlap of operands against the sets of bytes they touch."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from trnsim.records import Operand
from trnsim.timing.regions import Overlaps, covers, dense, overlap

ITEM = 4


def operand(offset, shape, strides, buffer="private_hbm", partition=0):
    extent = sum(s * (n - 1) for s, n in zip(strides, shape, strict=True)) + 1
    if buffer == "sbuf":
        extent = sum(s * (n - 1) for s, n in zip(strides[1:], shape[1:], strict=True)) + 1
        return Operand(
            "sbuf",
            partition,
            partition + shape[0],
            offset * ITEM,
            (offset + extent) * ITEM,
            buffer,
            "float32",
            shape,
            strides,
            0,
            1 << 16,
        )
    return Operand(0, 0, 1, offset * ITEM, (offset + extent) * ITEM, buffer, "float32", shape, strides, 0, 1 << 16)


def touched(o):
    low = 1 if o.buffer == "sbuf" else 0
    axes = [range(n) for n in o.shape[low:]]
    first = o.first_byte // ITEM
    free = {
        first + sum(i * s for i, s in zip(index, o.strides[low:], strict=True)) for index in itertools.product(*axes)
    }
    rows = range(o.first_partition, o.end_partition)
    return set(itertools.product(rows, free))


blocks = st.builds(
    lambda row, rows, column, columns, pitch: operand(row * pitch + column, (rows, columns), (pitch, 1)),
    st.integers(0, 6), st.integers(1, 5), st.integers(0, 12), st.integers(1, 8), st.sampled_from([16, 20, 32]),
)  # fmt: skip
strided = st.builds(
    lambda offset, a, b, s, t: operand(offset, (a, b), (s, t)),
    st.integers(0, 40), st.integers(1, 4), st.integers(1, 6), st.integers(1, 24), st.integers(1, 7),
)  # fmt: skip
chips = st.builds(
    lambda p, rows, offset, n, step: operand(offset, (rows, n), (4096, step), "sbuf", p),
    st.integers(0, 6), st.integers(1, 4), st.integers(0, 30), st.integers(1, 8), st.integers(1, 5),
)  # fmt: skip


@given(
    st.one_of(
        st.tuples(blocks, blocks), st.tuples(strided, strided), st.tuples(chips, chips), st.tuples(blocks, strided)
    )
)
def test_overlap_is_exact(pair):
    a, b = pair
    assert overlap(a, b) == bool(touched(a) & touched(b))
    assert overlap(b, a) == overlap(a, b)


@given(st.tuples(blocks, blocks))
def test_covers_never_claims_too_much(pair):
    a, b = pair
    if covers(a, b):
        assert touched(b) <= touched(a)
    assert covers(a, a) == dense(a)


@given(st.lists(st.one_of(blocks, strided), min_size=1, max_size=60))
def test_the_grid_finds_every_overlap(operands):
    known = Overlaps()
    for i, o in enumerate(operands):
        known.of(i, o)
    for i, o in enumerate(operands):
        found = dict(known.of(i, o))
        assert set(found) == {j for j, p in enumerate(operands) if i == j or overlap(o, p)}
        assert all(covered == (i == j or covers(o, operands[j])) for j, covered in found.items())
