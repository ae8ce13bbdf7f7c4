"""Overlap of operands against the sets of bytes they touch."""

import itertools

from hypothesis import example, given, settings, strategies as st

from trnsim.records import Operand
from trnsim.timing.regions import Overlaps, covers, dense, overlap, relation

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


@given(st.one_of(st.tuples(blocks, blocks), st.tuples(strided, strided), st.tuples(blocks, strided)))
@example((operand(0, (3, 3), (2, 2)), operand(1, (3, 3), (2, 2))))
def test_overlap_in_hbm_is_exact(pair):
    a, b = pair
    assert overlap(a, b) == bool(touched(a) & touched(b))
    assert overlap(b, a) == overlap(a, b)


def box(o):
    """What lies between the first and the last byte of an operand, in its partitions."""
    rows, columns = range(o.first_partition, o.end_partition), range(o.first_byte // ITEM, o.end_byte // ITEM)
    return set(itertools.product(rows, columns))


@given(chips, chips)
def test_on_chip_everything_between_the_first_and_the_last_byte_counts(a, b):
    assert overlap(a, b) == overlap(b, a) == bool(box(a) & box(b))
    assert covers(a, b) == (box(b) <= box(a))


@settings(max_examples=25)
@given(st.lists(chips, min_size=60, max_size=90))
def test_many_tiles_are_compared_as_few_are(operands):
    known = Overlaps()
    for i, o in enumerate(operands):
        known.add(i, o)
    for i, o in enumerate(operands[:5]):
        assert known.of(i, o) == {j: relation(o, p) for j, p in enumerate(operands) if overlap(o, p)}


@given(st.tuples(blocks, blocks))
def test_covers_never_claims_too_much(pair):
    a, b = pair
    if covers(a, b):
        assert touched(b) <= touched(a)
    assert covers(a, a) == dense(a)


@given(st.lists(st.one_of(blocks, strided), min_size=1, max_size=90), st.integers(1, 90))
def test_the_grid_finds_every_overlap(operands, first):
    known = Overlaps()
    for i, o in enumerate(operands[:first]):
        known.add(i, o)
    known.of(0, operands[0])
    for i, o in enumerate(operands[first:], start=first):
        known.add(i, o)
    for i, o in enumerate(operands):
        expected = {j: relation(o, p) for j, p in enumerate(operands) if overlap(o, p)}
        assert known.of(i, o) == expected


combs = st.builds(
    lambda offset, n, pitch, length: operand(offset, (n, length), (pitch, 1)),
    st.integers(0, 400), st.integers(1, 9), st.sampled_from([12, 16, 24, 48, 96]), st.integers(1, 12),
)  # fmt: skip


@given(combs, combs)
def test_combs_of_different_pitch_are_told_apart_exactly(a, b):
    assert overlap(a, b) == overlap(b, a) == bool(touched(a) & touched(b))


def test_a_place_known_only_at_run_time_is_anywhere_in_its_box():
    row = operand(0, (1, 8), (8, 1))
    anywhere = row._replace(end_byte=64 * ITEM)
    assert overlap(anywhere, operand(40, (1, 8), (8, 1)))
    assert overlap(operand(40, (1, 8), (8, 1)), anywhere)
    assert not covers(anywhere, row)


@settings(max_examples=25)
@given(st.lists(st.one_of(blocks, strided, combs), min_size=70, max_size=90))
def test_many_regions_are_compared_as_few_are(operands):
    known = Overlaps()
    for i, o in enumerate(operands):
        known.add(i, o)
    o = operands[-1]
    assert known.of(len(operands) - 1, o) == {j: relation(o, p) for j, p in enumerate(operands) if overlap(o, p)}
