"""max8, nc_find_index8 and nc_match_replace8: order, ties, values that are missing."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.together import together
from tests.trnsim.kernels import TARGETS, refused, rng, run
from trnsim import isa, language
from trnsim.errors import HardwareLimit, WrongArgument, WrongDtype, WrongShape

F32, I32, U8, U16, U32 = (np.dtype(d) for d in ("f4", "i4", "u1", "u2", "u4"))
BF16 = np.dtype(ml_dtypes.bfloat16)


def find(row, vals):
    """Equal values take successive places, left to right; nothing found is None."""
    taken, made = set(), []
    for v in vals:
        places = [i for i, x in enumerate(row) if x == v and i not in taken]
        made.append(places[0] if places else None)
        taken.update(places[:1])
    return made


def ones(places, dtype):
    return [np.iinfo(dtype).max if p is None else p for p in places]


@pytest.mark.parametrize("target", TARGETS)
@together("n", [8, 9, 100, 16384])
@pytest.mark.parametrize("dtype", [F32, BF16, I32], ids=str)
def test_max8(n, dtype, target):
    x = rng(n).integers(-500, 500, (3, n)).astype(F32).astype(dtype)
    made = run(lambda a, b: isa.max8(dst=b, src=a), x, out=[((3, 8), dtype)], target=target)
    np.testing.assert_array_equal(made.astype(F32), -np.sort(-x.astype(F32), axis=1)[:, :8])


def test_max8_of_a_three_dimensional_tile_and_another_dtype():
    x = rng(1).normal(size=(4, 3, 5)).astype(F32)
    made = run(lambda a, b: isa.max8(b, a), x, out=[((4, 8), BF16)])
    np.testing.assert_array_equal(
        made.astype(F32), (-np.sort(-x.reshape(4, 15), axis=1)[:, :8]).astype(BF16).astype(F32)
    )


small = st.integers(0, 6)


@settings(max_examples=60, deadline=None)
@given(
    row=st.lists(small, min_size=8, max_size=20),
    vals=st.lists(small, min_size=8, max_size=8),
    dtype=st.sampled_from([U16, U32]),
)
def test_find_index8(row, vals, dtype):
    made = run(
        lambda a, v, b: isa.nc_find_index8(dst=b, data=a, vals=v),
        np.array([row], F32),
        np.array([vals], F32),
        out=[((1, 8), dtype)],
    )
    assert made[0].tolist() == ones(find(row, vals), dtype)


@settings(max_examples=60, deadline=None)
@given(
    row=st.lists(small, min_size=1, max_size=20), vals=st.lists(small, min_size=8, max_size=8), imm=st.integers(-2, 6)
)
def test_match_replace8(row, vals, imm):
    def body(a, v, b, i):
        isa.nc_match_replace8(dst=b, data=a, vals=v, imm=imm, dst_idx=i)

    made, index = run(body, np.array([row], F32), np.array([vals], F32), out=[((1, len(row)), F32), ((1, 8), U32)])
    places = find(row, vals[::-1])[::-1]
    assert index[0].tolist() == ones(places, U32)
    expected = [float(imm) if i in places else float(x) for i, x in enumerate(row)]
    assert made[0].tolist() == expected


def test_ties_run_upwards_in_find_and_downwards_in_match_replace():
    data = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], F32)
    vals = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], F32)

    def body(a, v, found, replaced, places):
        isa.nc_find_index8(found, a, v)
        isa.nc_match_replace8(replaced, a, v, 0.0, places)

    found, replaced, places = run(body, data, vals, out=[((1, 8), U32), ((1, 11), F32), ((1, 8), U32)])
    assert found[0].tolist() == [2, 4, 5, 6, 7, 8, 9, 10]
    assert places[0].tolist() == [2, 10, 9, 8, 7, 6, 5, 4]
    assert replaced[0].tolist() == [1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0]


def test_top_sixteen_by_two_rounds():
    x = rng(2).permutation(200).astype(F32).reshape(2, 100)

    def body(a, top, where):
        for k in (0, 8):
            isa.max8(dst=top[:, k : k + 8], src=a)
            isa.nc_find_index8(dst=where[:, k : k + 8], data=a, vals=top[:, k : k + 8])
            isa.nc_match_replace8(dst=a, data=a, vals=top[:, k : k + 8], imm=float("-inf"))

    top, where = run(body, x, out=[((2, 16), F32), ((2, 16), U32)])
    order = np.argsort(-x, axis=1)[:, :16]
    np.testing.assert_array_equal(where, order)
    np.testing.assert_array_equal(top, np.take_along_axis(x, order, axis=1))


def test_match_replace_keeps_bits_and_shapes():
    data = np.array([[2**24 + 1, 5, 7, 2**31 - 1]], I32)
    vals = np.full((1, 2, 4), 5, I32)

    def body(a, v, b, c, i):
        isa.nc_match_replace8(b, a.reshape((1, 2, 2)), v, -1.0)
        isa.nc_match_replace8(c, a, v, 2.5, i)

    same, other, index = run(body, data, vals, out=[((1, 4), I32), ((1, 4), F32), ((1, 2, 4), U16)])
    assert same.tolist() == [[2**24 + 1, -1, 7, 2**31 - 1]]
    assert other.tolist() == [[2.0**24, 2.5, 7.0, 2.0**31]]
    assert index.reshape(-1).tolist() == [0xFFFF] * 7 + [1]


def test_search_reads_psum():
    x = rng(3).normal(size=(4, 16)).astype(F32)
    made = run(lambda a, b: isa.max8(b, a), x, psum=(0,), out=[((4, 8), F32, language.psum)])
    np.testing.assert_array_equal(made, -np.sort(-x, axis=1)[:, :8])


def test_searches_refuse():
    x, v = np.ones((4, 16), F32), np.ones((4, 8), F32)
    eight = [((4, 8), U32)]
    error = refused(
        HardwareLimit, "search-size", lambda a, b: isa.max8(b, a), x[:, :7], out=[((4, 8), F32)], says=("7", "16384")
    )
    assert (error.got, error.limit) == (7, (8, 16384))
    refused(HardwareLimit, "search-size", lambda a, b: isa.max8(b, a), np.ones((1, 16385), F32), out=[((1, 8), F32)])
    refused(
        HardwareLimit, "search-size", lambda a, w, b: isa.nc_find_index8(b, a, w), x[:, :4], v, out=eight, says="data"
    )
    refused(
        HardwareLimit,
        "search-size",
        lambda a, w, b: isa.nc_match_replace8(b, a, w, 0.0),
        np.ones((1, 16385), F32),
        v[:1],
        out=[((1, 16385), F32)],
    )
    error = refused(
        HardwareLimit, "search-rank", lambda a, b: isa.max8(b, a.reshape((4, 2, 2, 4))), x, out=[((4, 8), F32)]
    )
    assert (error.got, error.limit) == (4, 3)
    error = refused(WrongShape, "eight", lambda a, b: isa.max8(b, a), x, out=[((4, 9), F32)], says="dst")
    assert error.limit == (4, 8)
    refused(WrongShape, "eight", lambda a, b: isa.max8(b, a), x, out=[((4, 2, 4), F32)], says="2 dimensions")
    refused(WrongShape, "eight", lambda a, w, b: isa.nc_find_index8(b, a, w), x, v[:, :7], out=eight, says="vals")
    refused(
        WrongShape, "partition-mismatch", lambda a, w, b: isa.nc_find_index8(b, a, w), x, v[:2], out=eight, says="vals"
    )
    error = refused(
        WrongDtype, "index-dtype", lambda a, w, b: isa.nc_find_index8(b, a, w), x, v, out=[((4, 8), I32)], says="int32"
    )
    assert error.limit == ["uint16", "uint32"]
    refused(
        WrongDtype,
        "index-dtype",
        lambda a, w, b, i: isa.nc_match_replace8(b, a, w, 0.0, i),
        x,
        v,
        out=[((4, 16), F32), ((4, 8), U8)],
        says="dst_idx",
    )
    refused(
        WrongShape,
        "eight",
        lambda a, w, b, i: isa.nc_match_replace8(b, a, w, 0.0, i),
        x,
        v,
        out=[((4, 16), F32), ((4, 9), U32)],
        says="dst_idx",
    )
    refused(
        WrongShape,
        "free-size-mismatch",
        lambda a, w, b: isa.nc_match_replace8(b, a, w, 0.0),
        x,
        v,
        out=[((4, 15), F32)],
    )
    refused(
        WrongArgument,
        "scalar-operand",
        lambda a, w, b: isa.nc_match_replace8(b, a, w, "0"),
        x,
        v,
        out=[((4, 16), F32)],
        says="imm",
    )


def test_without_values_the_rules_still_hold():
    x, v = np.ones((4, 16), F32), np.ones((4, 8), F32)

    def body(a, w, top, index, b):
        isa.max8(top, a)
        isa.nc_find_index8(index, a, w)
        isa.nc_match_replace8(b, a, w, 0.0, index)

    run(body, x, v, out=[((4, 8), F32), ((4, 8), U32), ((4, 16), F32)], numerics=False)
    refused(HardwareLimit, "search-size", lambda a, b: isa.max8(b, a), x[:, :7], out=[((4, 8), F32)], numerics=False)
