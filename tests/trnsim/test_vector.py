"""Vector Engine moves: copies, constants, predicated copies."""

import warnings

import ml_dtypes
import numpy as np
import pytest

import trnsim
from tests.together import together
from tests.trnsim.kernels import TARGETS, refused, rng, run
from trnsim import isa, language
from trnsim.errors import (
    HardwareLimit,
    ReadUninitialized,
    WrongArgument,
    WrongBuffer,
    WrongCall,
    WrongDtype,
    WrongEngine,
    WrongShape,
    WrongType,
)
from trnsim.isa.enums import engine

F32, I32, U8 = np.dtype("f4"), np.dtype("i4"), np.dtype("u1")
BF16 = np.dtype(ml_dtypes.bfloat16)
NAMES = ["float32", "bfloat16", "float16", "float8_e4m3", "int8", "int16", "int32", "uint8", "uint16", "uint32"]


def dtype(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def values(name, shape, seed=0):
    """Values of a dtype, small enough that every float dtype holds them exactly where integers do."""
    made = rng(seed).integers(0, 13, shape)
    return made.astype(np.float32).astype(dtype(name))


# tensor_copy


@pytest.mark.parametrize("target", TARGETS)
@together("source", NAMES)
def test_copy_converts_between_all_dtypes(source, target):
    x = values(source, (3, 7))

    def body(src, *outputs):
        for dst in outputs:
            isa.tensor_copy(dst=dst, src=src)

    for name, made in zip(NAMES, run(body, x, out=[((3, 7), dtype(n)) for n in NAMES], target=target), strict=True):
        assert made.dtype == dtype(name)
        np.testing.assert_array_equal(made.astype(np.float32), x.astype(np.float32))


def test_copy_of_one_dtype_is_bit_exact_and_of_two_goes_through_fp32():
    x = np.array([[2**24 + 1, -(2**31), 2**31 - 1]], np.int32)
    same, other = run(
        lambda a, b, c: (isa.tensor_copy(b, a), isa.tensor_copy(c, a)), x, out=[((1, 3), I32), ((1, 3), np.dtype("u4"))]
    )
    np.testing.assert_array_equal(same, x)
    # rounded to fp32 (ties to even), then clipped to the unsigned range
    assert other.tolist() == [[2**24, 0, 2**31]]


def test_copy_rounds_to_nearest_even_and_saturates():
    x = np.array([[0.5, 1.5, 2.5, -0.5, 300.0, -3.0, np.inf, np.nan]], np.float32)
    made = run(lambda a, b: isa.tensor_copy(b, a), x, out=[((1, 8), U8)])
    assert made.tolist() == [[0, 2, 2, 0, 255, 0, 255, 0]]


@pytest.mark.parametrize("buffers", [(language.sbuf, language.psum), (language.psum, language.sbuf)])
def test_copy_between_sbuf_and_psum(buffers):
    x = rng().normal(size=(5, 9)).astype(F32)
    made = run(
        lambda a, b: isa.tensor_copy(dst=b, src=a),
        x,
        psum=(0,) if buffers[0] is language.psum else (),
        out=[((5, 9), F32, buffers[1])],
    )
    np.testing.assert_array_equal(made, x)


def test_copy_takes_views_of_other_ranks_and_overlapping_ones_with_a_warning():
    x = rng().normal(size=(4, 12)).astype(F32)

    def body(a, b):
        isa.tensor_copy(dst=b, src=a.reshape((4, 3, 4)).permute((0, 2, 1)))
        isa.tensor_copy(dst=b[:, 1:12], src=b[:, 0:11])

    with pytest.warns(trnsim.OverlappingOperands, match="tensor_copy writes dst over other elements of src"):
        made = run(body, x, out=[((4, 12), F32)])
    turned = x.reshape(4, 3, 4).transpose(0, 2, 1).reshape(4, 12)
    expected = turned.copy()
    expected[:, 1:] = turned[:, :-1]
    np.testing.assert_array_equal(made, expected)


def test_only_views_that_share_other_elements_are_warned_about():
    def apart(a, b):
        isa.tensor_copy(dst=b, src=a)
        # itself, the same elements in another shape, other columns, and columns between its own
        isa.tensor_scalar(b, b, "add", 1.0)
        isa.tensor_scalar(b, b.reshape((4, 3, 4)), "add", 1.0)
        isa.tensor_tensor(b[:, 0:4], b[:, 4:8], b[:, 8:12], "add")
        isa.tensor_copy(dst=b[:, 0:12:2], src=b[:, 1:12:2])

    x = rng().normal(size=(4, 12)).astype(F32)
    with warnings.catch_warnings():
        warnings.simplefilter("error", trnsim.OverlappingOperands)
        run(apart, x, out=[((4, 12), F32)])

    def shifted(a, b):
        isa.tensor_copy(dst=b, src=a)
        isa.activation(b[:, 0:6], language.exp, b[:, 0:12:2])

    with pytest.warns(trnsim.OverlappingOperands, match="activation writes dst over other elements of data"):
        run(shifted, x, out=[((4, 12), F32)])


def test_copy_reads_a_broadcast_view():
    x = rng().normal(size=(4, 1)).astype(F32)
    made = run(lambda a, b: isa.tensor_copy(dst=b, src=a.broadcast(1, 6)), x, out=[((4, 6), F32)])
    np.testing.assert_array_equal(made, np.repeat(x, 6, axis=1))


def test_copy_runs_where_the_kernel_says():
    x = np.ones((2, 2), F32)
    for name in ("vector", "scalar", "gpsimd"):
        seen = []
        run(
            lambda a, b, name=name, seen=seen: seen.append(isa.tensor_copy(b, a, engine=engine[name])),
            x,
            out=[((2, 2), F32)],
            trace=(stream := []),
        )
        assert [r.engine for r in stream if r.name == "tensor_copy"] == [name]


def test_copy_refuses():
    x = np.ones((4, 6), F32)
    out = [((4, 6), F32)]
    error = refused(
        WrongEngine,
        "engine",
        lambda a, b: isa.tensor_copy(b, a, engine=engine.scalar),
        x,
        out=out,
        target="trn1",
        says=("activation", "trn1"),
    )
    assert (error.got, error.limit) == ("scalar", ["vector", "gpsimd"])
    error = refused(
        WrongEngine,
        "engine",
        lambda a, b: isa.tensor_copy(b, a, engine=engine.tensor),
        x,
        out=out,
        says="engine.tensor",
    )
    assert error.limit == ["vector", "scalar", "gpsimd"]
    refused(
        WrongBuffer,
        "gpsimd-psum",
        lambda a, b: isa.tensor_copy(b, a, engine="gpsimd"),
        x,
        psum=(0,),
        out=out,
        says=("in0", "GpSimd"),
    )
    refused(
        WrongBuffer,
        "gpsimd-psum",
        lambda a, b: isa.tensor_copy(b, a, engine="gpsimd"),
        x,
        out=[((4, 6), F32, language.psum)],
        says="out0",
    )
    error = refused(
        WrongShape, "partition-mismatch", lambda a, b: isa.tensor_copy(b, a), x, out=[((3, 6), F32)], says=("4", "3")
    )
    assert (error.got, error.limit) == (4, 3)
    error = refused(WrongShape, "free-size-mismatch", lambda a, b: isa.tensor_copy(b, a), x, out=[((4, 7), F32)])
    assert (error.got, error.limit) == (6, 7)
    refused(ReadUninitialized, "uninitialized", lambda b, c: isa.tensor_copy(c, b), out=[((4, 6), F32), ((4, 6), F32)])
    refused(WrongType, "operand", lambda a, b: isa.tensor_copy(b, 3.0), x, out=out, says="src")
    refused(WrongCall, "signature", lambda a, b: isa.tensor_copy(b, source=a), x, out=out, says="source")
    refused(WrongArgument, "engine", lambda a, b: isa.tensor_copy(b, a, engine="turbo"), x, out=out, says="turbo")
    refused(
        WrongDtype,
        "packed-dtype",
        lambda a, b: isa.tensor_copy(b, a),
        x,
        out=[((4, 6), language.float8_e5m2_x4)],
        says="float8_e5m2_x4",
    )


def test_copy_cannot_touch_hbm():
    import trnsim

    def kernel(a):
        tile = language.ndarray(a.shape, a.dtype)
        isa.tensor_copy(dst=tile, src=a)

    with pytest.raises(WrongBuffer) as caught:
        trnsim.simulate(kernel, lint="off")(np.ones((2, 2), F32))
    assert (caught.value.rule, caught.value.got) == ("buffer", "private_hbm")
    assert "dma_copy" in str(caught.value)


def test_engines_stream_at_most_64k_elements_of_sbuf_and_4k_of_psum():
    x = np.ones((1, 300), U8)

    def wide(a, b):
        view = a.reshape((1, 1, 300)).broadcast(1, 300)
        isa.tensor_copy(dst=b, src=view)

    error = refused(HardwareLimit, "free-size", wide, x, out=[((1, 90000), U8)], says=("90000", "65536"))
    assert (error.got, error.limit) == (90000, 65536)
    error = refused(
        HardwareLimit, "free-size", lambda a, b: isa.memset(b, 0), x, out=[((1, 8192), BF16, language.psum)]
    )
    assert (error.got, error.limit) == (8192, 4096)
    run(lambda b: isa.memset(b, 0), out=[((1, 8192), BF16, language.psum)], target="trn3")


def test_an_access_pattern_has_at_most_four_free_strides():
    def body(b):
        isa.memset(b, 0)
        view = b[:, 0:1, 0:1, 0:1, 0:1, 0:2]
        isa.tensor_copy(dst=view, src=view)
        isa.tensor_copy(dst=b[:, :, 0:2, 0:2, 0:2, 0:2], src=b[:, :, 0:2, 0:2, 0:2, 0:2])

    error = refused(HardwareLimit, "access-pattern", body, out=[((1, 2, 3, 3, 3, 3), F32)])
    assert (error.got, error.limit) == (5, 4)


# memset


@together("name", [*NAMES, "bool"])
def test_memset_fills_every_dtype(name):
    kind = np.dtype(bool) if name == "bool" else dtype(name)
    made = run(lambda b: isa.memset(dst=b, value=1), out=[((3, 5), kind)])
    assert made.dtype == kind
    np.testing.assert_array_equal(made.astype(np.float32), np.ones((3, 5)))


def test_memset_of_a_float_zero_into_integers_and_of_parts():
    def body(b):
        isa.memset(dst=b, value=0.0)
        isa.memset(dst=b[:, 2:4], value=-7)

    assert run(body, out=[((2, 5), I32)]).tolist() == [[0, 0, -7, -7, 0]] * 2


def test_memset_of_special_values():
    made = run(lambda a, b: (isa.memset(a, float("-inf")), isa.memset(b, 1e39)), out=[((1, 2), BF16), ((1, 2), F32)])
    assert np.all(np.isneginf(made[0].astype(F32)))
    assert np.all(np.isposinf(made[1]))


def test_memset_refuses():
    out = [((2, 4), I32)]
    error = refused(
        WrongDtype, "constant-dtype", lambda b: isa.memset(b, 2.0), out=out, says=("2.0", "int32", "Write 2")
    )
    assert error.limit == "int32"
    refused(WrongDtype, "constant-dtype", lambda b: isa.memset(b, 2.5), out=out)
    refused(WrongDtype, "constant-dtype", lambda b: isa.memset(b, float("nan")), out=out)
    error = refused(
        WrongArgument, "constant-range", lambda b: isa.memset(b, 300), out=[((2, 4), U8)], says=("300", "255")
    )
    assert (error.got, error.limit) == (300, (0, 255))
    refused(WrongArgument, "constant-range", lambda b: isa.memset(b, -1), out=[((2, 4), U8)], says="write 255")
    refused(WrongArgument, "packed-constant", lambda b: isa.memset(b, 1), out=[((2, 4), language.float4_e2m1fn_x4)])
    run(lambda b: isa.memset(b, 0), out=[((2, 4), language.float4_e2m1fn_x4)], target="trn3")
    refused(WrongArgument, "constant", lambda b: isa.memset(b, b), out=out, says="tensor_copy")
    refused(WrongEngine, "engine", lambda b: isa.memset(b, 0, engine=engine.scalar), out=out, says="vector")
    refused(WrongBuffer, "gpsimd-psum", lambda b: isa.memset(b, 0, engine="gpsimd"), out=[((2, 4), F32, language.psum)])


def test_compute_instructions_start_at_a_quadrant():
    def body(b):
        isa.memset(b, 0)
        isa.memset(b[16:32, :], 1)

    error = refused(HardwareLimit, "start-partition", body, out=[((64, 4), F32)])
    assert error.got == (16, 16)


# tensor_copy_predicated


@together("predicate", ["uint8", "uint16", "uint32", "bool"])
@together("reverse", [False, True])
def test_predicated_copy_keeps_the_rest(predicate, reverse):
    r = rng(3)
    src, dst = r.normal(size=(2, 6, 10)).astype(F32)
    mask = r.integers(0, 3, (6, 10)).astype(predicate)

    def body(a, d, m, b):
        isa.tensor_copy(b, d)
        isa.tensor_copy_predicated(dst=b, src=a, predicate=m, reverse_pred=reverse)

    made = run(body, src, dst, mask, out=[((6, 10), F32)])
    chosen = (mask == 0) if reverse else (mask != 0)
    np.testing.assert_array_equal(made, np.where(chosen, src, dst))


def test_predicated_copy_of_a_number_and_ranks_that_differ():
    mask = rng(1).integers(0, 2, (4, 6)).astype(U8)
    src = np.arange(24, dtype=I32).reshape(4, 6)

    def body(m, a, b, c):
        isa.memset(b, 5)
        isa.tensor_copy_predicated(dst=b, src=-3, predicate=m)
        isa.memset(c, 5)
        isa.tensor_copy_predicated(dst=c, src=a, predicate=m.reshape((4, 2, 3)))

    number, ranks = run(body, mask, src, out=[((4, 6), I32), ((4, 3, 2), I32)])
    np.testing.assert_array_equal(number, np.where(mask, -3, 5))
    np.testing.assert_array_equal(ranks.reshape(4, 6), np.where(mask, src, 5))


def test_predicated_copy_writes_only_what_it_chooses():
    mask = np.array([[1, 0, 1]], U8)
    src = np.array([[1.0, 2.0, 3.0]], F32)

    def body(a, m, b, c):
        isa.tensor_copy_predicated(dst=b, src=a, predicate=m)
        isa.tensor_copy(dst=c[:, 0:1], src=b[:, 0:1])
        isa.tensor_copy(dst=c[:, 0:1], src=b[:, 1:2])

    error = refused(ReadUninitialized, "uninitialized", body, src, mask, out=[((1, 3), F32), ((1, 3), F32)])
    assert "1 of 1" in str(error)

    def complete(a, m, b):
        isa.tensor_copy_predicated(dst=b, src=a, predicate=m)
        isa.tensor_copy_predicated(dst=b, src=9.0, predicate=m, reverse_pred=True)
        isa.tensor_copy(dst=b, src=b)

    assert run(complete, src, mask, out=[((1, 3), F32)]).tolist() == [[1.0, 9.0, 3.0]]


def test_predicated_copy_refuses():
    src, mask = np.ones((4, 6), F32), np.ones((4, 6), U8)
    out = [((4, 6), F32)]
    copy = isa.tensor_copy_predicated
    error = refused(
        WrongDtype, "predicate-dtype", lambda a, m, b: copy(b, a, m), src, mask.astype(I32), out=out, says="int32"
    )
    assert error.limit == ["bool", "uint16", "uint32", "uint8"]
    refused(
        WrongDtype,
        "same-dtype",
        lambda a, m, b: copy(b, a, m),
        src,
        mask,
        out=[((4, 6), BF16)],
        says=("float32", "bfloat16"),
    )
    refused(
        WrongShape, "free-size-mismatch", lambda a, m, b: copy(b, a, m), src, mask[:, :5], out=out, says="predicate"
    )
    refused(WrongShape, "partition-mismatch", lambda a, m, b: copy(b, a, m), src[:3], mask, out=out, says="src")
    refused(
        WrongBuffer,
        "psum-inputs",
        lambda a, m, b: copy(b, a, m),
        src,
        mask,
        psum=(0, 1),
        out=out,
        says=("src", "predicate"),
    )
    refused(WrongDtype, "constant-dtype", lambda m, b: copy(b, 2.5, m), mask, out=[((4, 6), I32)])


# timing only


def test_without_values_the_rules_still_hold():
    x = np.ones((4, 6), F32)
    run(
        lambda a, b: (isa.tensor_copy(b, a), isa.memset(b, 0), isa.nc_stream_shuffle(b, a, [0] * 32)),
        x,
        out=[((4, 6), F32)],
        numerics=False,
    )
    refused(
        WrongShape, "free-size-mismatch", lambda a, b: isa.tensor_copy(b, a), x, out=[((4, 7), F32)], numerics=False
    )
