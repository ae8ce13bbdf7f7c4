"""DMA: copies between all memories, conversions, gathers, scatters, sums and transposes, and every refusal."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import trnsim
from tests.together import together
from tests.trnsim.kernels import TARGETS, refused, rng, run
from trnsim import isa, language
from trnsim.errors import (
    HardwareLimit,
    NotModelled,
    OutOfBounds,
    ReadUninitialized,
    WrongArgument,
    WrongBuffer,
    WrongDtype,
    WrongEngine,
    WrongShape,
)
from trnsim.isa.enums import dge_mode, engine, oob_mode
from trnsim.language import hbm, psum, sbuf, shared_hbm

F32, I32, U32, U8, F16 = (np.dtype(n) for n in ("f4", "i4", "u4", "u1", "f2"))
BF16 = np.dtype(ml_dtypes.bfloat16)
NAMES = [
    "float32",
    "bfloat16",
    "float16",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e5m2",
    "int8",
    "int16",
    "int32",
    "uint8",
    "uint16",
    "uint32",
]


def dtype(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def nasty(shape, kind, seed=0):
    """Random bits of a dtype: NaNs with payloads, infinities, subnormals, extreme integers."""
    return rng(seed).integers(0, 256, (*shape, kind.itemsize), np.uint8).view(kind)[..., 0]


def bits(x):
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


# -- copies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@together("name", NAMES)
def test_equal_dtypes_keep_every_bit_through_all_memories(name, target):
    x = nasty((37, 11), dtype(name))

    def kernel(x):
        far = language.ndarray(x.shape, x.dtype, buffer=hbm)
        near, other = (language.ndarray(x.shape, x.dtype, buffer=sbuf) for _ in range(2))
        out = language.ndarray(x.shape, x.dtype, buffer=shared_hbm)
        isa.dma_copy(dst=far, src=x)
        isa.dma_copy(dst=near, src=far)
        isa.dma_copy(dst=other, src=near)
        isa.dma_copy(dst=out, src=other)
        return out

    np.testing.assert_array_equal(bits(trnsim.simulate(kernel, target=target, lint="off")(x)), bits(x))


def through_f32(x, kind):
    """The documented conversion in two steps, with the rounding and saturation of a write."""
    wide = x.astype(np.float32)
    if kind.kind not in "iu":
        with np.errstate(over="ignore"):
            return wide.astype(kind)
    info = np.iinfo(kind)
    nearest = np.rint(wide.astype(np.float64))
    return np.clip(np.nan_to_num(nearest, nan=0, posinf=info.max, neginf=info.min), info.min, info.max).astype(kind)


@together("second", NAMES)
@together("first", NAMES)
def test_different_dtypes_convert_through_fp32(first, second):
    if first == second:
        return
    x = (rng(1).standard_normal((16, 24)) * 300).astype(np.float32)
    x = (np.clip(x, 0, 200) if dtype(first).kind in "iu" else x).astype(dtype(first))

    def body(x, out):
        isa.dma_copy(dst=out, src=x)

    out = run(body, x, out=[((16, 24), dtype(second))])
    np.testing.assert_array_equal(bits(out), bits(through_f32(x, dtype(second))))


def test_integers_are_exact_within_a_dtype_and_rounded_between_dtypes():
    x = np.array([[2**31 - 1, 2**24 + 1, -(2**31), -(2**24) - 1]], np.int32)

    def body(x, same, other):
        isa.dma_copy(dst=same, src=x)
        isa.dma_copy(dst=other, src=x)

    same, other = run(body, x, out=[((1, 4), I32), ((1, 4), U32)])
    np.testing.assert_array_equal(same, x)
    assert other.tolist() == [[2**31, 2**24, 0, 0]]


def test_tfloat32_rounds_from_float32_and_keeps_bits_from_itself():
    x = np.array([[1 + 2.0**-12, np.nan, 1 + 2.0**-10]], np.float32)
    x.view(np.uint32)[0, 1] = 0x7FC12345

    def body(x, rounded, kept):
        t = language.ndarray((1, 3), language.tfloat32)
        isa.dma_copy(dst=t, src=x)
        isa.dma_copy(dst=rounded, src=t.view(np.float32))
        isa.dma_copy(dst=t, src=x.view(language.tfloat32))
        isa.dma_copy(dst=kept, src=t.view(np.float32))

    rounded, kept = run(body, x, out=[((1, 3), F32), ((1, 3), F32)])
    assert rounded[0, 0] == 1
    assert rounded[0, 2] == 1 + 2.0**-10
    np.testing.assert_array_equal(bits(kept), bits(x))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 6), st.integers(1, 6), st.sampled_from([F32, BF16]))
def test_elements_go_in_row_major_order_whatever_the_shapes(p, a, b, kind):
    x = np.arange(p * a * b).astype(kind).reshape(p, a, b)

    def kernel(x):
        out = language.ndarray((a * b, p), x.dtype, buffer=shared_hbm)
        tile = language.ndarray((b, a, p), x.dtype)
        isa.dma_copy(dst=tile, src=x)
        isa.dma_copy(dst=out, src=tile.reshape((b, a * p)))
        moved = language.ndarray((p, b, a), x.dtype, buffer=shared_hbm)
        isa.dma_copy(dst=moved, src=x.permute((0, 2, 1)))
        rows = language.ndarray((a, p, b), x.dtype, buffer=shared_hbm)
        isa.dma_copy(dst=rows.permute((1, 0, 2)), src=x)
        return out, moved, rows

    out, moved, rows = trnsim.simulate(kernel, lint="off")(x)
    np.testing.assert_array_equal(out.reshape(-1), x.reshape(-1))
    np.testing.assert_array_equal(moved, x.transpose(0, 2, 1))
    np.testing.assert_array_equal(rows, x.transpose(1, 0, 2))


def test_any_partition_may_be_the_first():
    def body(x, out):
        out[...] = 0.0
        isa.dma_copy(dst=out[5:12, 1:3], src=x[1:8, 0:2])
        isa.dma_copy(dst=out[100:104:2, 0:1], src=x[6:8, 3:4])

    x = rng(1).standard_normal((8, 4)).astype(np.float32)
    out = run(body, x, out=[((128, 4), F32)])
    np.testing.assert_array_equal(out[5:12, 1:3], x[1:8, :2])
    np.testing.assert_array_equal(out[100:104:2, 0], x[6:8, 3])
    assert np.count_nonzero(out) == 16


def test_inputs_are_changed_in_place_and_restored_when_a_kernel_fails():
    def kernel(x, fail):
        isa.dma_copy(dst=x[0:1], src=x[1:2])
        if fail:
            isa.dma_copy(dst=x[0:1], src=x[1:3])

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    with pytest.raises(WrongShape):
        trnsim.simulate(kernel, lint="off")(x, True)
    assert x[0].tolist() == [0, 1, 2, 3]
    trnsim.simulate(kernel, lint="off")(x, False)
    assert x[0].tolist() == [4, 5, 6, 7]


def test_low_precision_kept_as_fp32_copies_without_rounding(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")

    def kernel(x):
        tile = language.ndarray(x.shape, language.bfloat16)
        isa.dma_copy(dst=tile, src=x)
        out = language.ndarray(x.shape, np.float32, buffer=shared_hbm)
        isa.dma_copy(dst=out, src=tile)
        return out

    x = np.array([[1 + 2.0**-20, 3.0]], np.float32)
    np.testing.assert_array_equal(trnsim.simulate(kernel, lint="off")(x), x)


# -- run-time addresses -------------------------------------------------------------------------------------------


def table(rows=16, columns=6, kind=F32):
    return np.arange(rows * columns).reshape(rows, columns).astype(kind)


def column(values, kind=np.int32):
    return np.array(values, kind).reshape(-1, 1)


@pytest.mark.parametrize("kind", [np.int32, np.uint32])
@pytest.mark.parametrize("form", ["ap", "vector_select"])
def test_gather_takes_a_row_for_each_number(form, kind):
    def kernel(x, index):
        idx = language.ndarray(index.shape, index.dtype)
        isa.dma_copy(dst=idx, src=index)
        n, f = index.shape[0], x.shape[1]
        rows = (
            x.vector_select(0, idx)
            if form == "vector_select"
            else x.ap([[f, n], [1, f]], vector_offset=idx, indirect_dim=0)
        )
        tile = language.ndarray((n, f), x.dtype)
        isa.dma_copy(dst=tile, src=rows)
        out = language.ndarray((n, f), x.dtype, buffer=shared_hbm)
        isa.dma_copy(dst=out, src=tile)
        direct = language.ndarray((f, n), x.dtype, buffer=shared_hbm)
        isa.dma_copy(dst=direct, src=rows, dge_mode=dge_mode.swdge)
        return out, direct

    x, index = table(), column([3, 15, 0, 3, 7], kind)
    out, direct = trnsim.simulate(kernel, lint="off")(x, index)
    np.testing.assert_array_equal(out, x[index[:, 0]])
    np.testing.assert_array_equal(direct.reshape(-1), x[index[:, 0]].reshape(-1))


def test_gather_of_part_of_each_row_from_an_offset():
    def body(x, index, out):
        far = language.ndarray(x.shape, x.dtype, buffer=hbm)
        isa.dma_copy(dst=far, src=x)
        # the step of the first dimension is the row of the base, whatever the pattern says
        isa.dma_copy(dst=out, src=far.ap([[1, 4], [2, 2]], offset=1, vector_offset=index))

    x, index = table(), column([9, 2, 2, 14])
    np.testing.assert_array_equal(run(body, x, index, out=[((4, 2), F32)]), x[index[:, 0]][:, 1:5:2])


def test_scatter_fills_a_row_for_each_number_and_the_last_of_equal_ones_stays():
    def kernel(x, index, out):
        idx, tile = language.ndarray(index.shape, index.dtype), language.ndarray(x.shape, x.dtype)
        isa.dma_copy(dst=idx, src=index)
        isa.dma_copy(dst=tile, src=x)
        isa.dma_copy(dst=out.ap([[6, 4], [1, 6]], vector_offset=idx), src=tile)

    x, index, out = table(4), column([9, 0, 9, 5]), np.full((16, 6), -1, np.float32)
    trnsim.simulate(kernel, lint="off")(x, index, out)
    expected = np.full((16, 6), -1, np.float32)
    for row, values in zip(index[:, 0], x, strict=True):
        expected[row] = values
    np.testing.assert_array_equal(out, expected)


def test_gathering_and_scattering_in_one_transfer():
    def kernel(x, source, into, out):
        a, b = (language.ndarray(t.shape, t.dtype) for t in (source, into))
        isa.dma_copy(dst=a, src=source)
        isa.dma_copy(dst=b, src=into)
        isa.dma_copy(dst=out.vector_select(0, b), src=x.vector_select(0, a), oob_mode=oob_mode.skip)

    x, out = table(), np.zeros((8, 6), np.float32)
    trnsim.simulate(kernel, lint="off")(x, column([1, 99, 5, 7]), column([0, 1, 77, 3]), out)
    expected = np.zeros((8, 6), np.float32)
    expected[0], expected[3] = x[1], x[7]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("kind", [F32, I32, BF16, U8], ids=str)
def test_skipped_rows_stay_as_they_were_and_others_keep_their_bits(kind):
    x = nasty((16, 6), kind)

    def body(x, index, before, out):
        far = language.ndarray(x.shape, x.dtype, buffer=hbm)
        isa.dma_copy(dst=far, src=x)
        isa.dma_copy(dst=out, src=before)
        isa.dma_copy(dst=out, src=far.vector_select(0, index), oob_mode=oob_mode.skip)

    index, before = column([3, 16, -1, 15, 2**31 - 1]), nasty((5, 6), kind, 1)
    out = run(body, x, index, before, out=[((5, 6), kind)])
    expected = before.copy()
    expected[[0, 3]] = x[[3, 15]]
    np.testing.assert_array_equal(bits(out), bits(expected))


def test_skipped_rows_of_a_scatter_and_of_other_shapes():
    def kernel(x, index, out):
        idx, tile = language.ndarray(index.shape, index.dtype), language.ndarray((2, 12), x.dtype)
        isa.dma_copy(dst=idx, src=index)
        isa.dma_copy(dst=tile, src=x)
        isa.dma_copy(dst=out.vector_select(0, idx), src=tile, oob_mode="skip")
        isa.memset(dst=tile, value=0.0)
        isa.dma_copy(dst=tile, src=out.vector_select(0, idx), oob_mode=1)
        back = language.ndarray((2, 12), x.dtype, buffer=shared_hbm)
        isa.dma_copy(dst=back, src=tile)
        return back

    x, out = table(4), np.zeros((8, 6), np.float32)
    back = trnsim.simulate(kernel, lint="off")(x, column([7, 8, 2, 100]), out)
    expected = np.zeros((8, 6), np.float32)
    expected[7], expected[2] = x[0], x[2]
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(back.reshape(4, 6), np.stack([x[0], 0 * x[0], x[2], 0 * x[0]]))


def test_rows_that_were_skipped_still_count_as_unwritten():
    def body(x, index, out):
        far = language.ndarray(x.shape, x.dtype, buffer=hbm)
        isa.dma_copy(dst=far, src=x)
        tile = language.ndarray((3, 6), np.float32)
        isa.dma_copy(dst=tile, src=far.vector_select(0, index), oob_mode=oob_mode.skip)
        isa.dma_copy(dst=out, src=tile)

    found = refused(
        ReadUninitialized,
        "uninitialized",
        body,
        table(),
        column([0, 20, 1]),
        out=[((3, 6), F32)],
        says="6 of 18 elements",
    )
    assert found.got == (1, 0)


def test_gathering_rows_that_were_never_written_is_refused():
    def body(x, index, out):
        far = language.ndarray((16, 6), np.float32, buffer=hbm, name="far")
        isa.dma_copy(dst=far[0:8], src=x)
        isa.dma_copy(dst=out, src=far.vector_select(0, index))

    x = table(8)
    run(body, x, column([0, 7, 3]), out=[((3, 6), F32)])
    refused(ReadUninitialized, "uninitialized", body, x, column([0, 8, 3]), out=[((3, 6), F32)], says="src reads far")


@pytest.mark.parametrize("bad", [16, -1, 2**30])
def test_row_numbers_out_of_bounds_are_refused_by_default(bad):
    def body(x, index, out):
        far = language.ndarray(x.shape, x.dtype, buffer=hbm, name="far")
        isa.dma_copy(dst=far, src=x)
        isa.dma_copy(dst=out, src=far.vector_select(0, index))

    found = refused(
        OutOfBounds,
        "bounds",
        body,
        table(),
        column([0, bad, 1]),
        out=[((3, 6), F32)],
        says=f"run-time index {bad}",
    )
    assert (found.got, found.limit) == (bad, 16)
    assert isinstance(found, IndexError)
    assert "oob_mode.skip" in found.hint


def test_an_offset_shortens_what_row_numbers_may_say():
    def body(x, index, out, offset=3):
        far = language.ndarray(x.shape, x.dtype, buffer=hbm)
        isa.dma_copy(dst=far, src=x)
        isa.dma_copy(dst=out, src=far.ap([[6, 2], [1, 6]], offset=offset, vector_offset=index))

    refused(OutOfBounds, "bounds", body, table(), column([0, 15]), out=[((2, 6), F32)], says="below 15")
    out = run(body, table(), column([0, 14]), out=[((2, 6), F32)])
    assert out[1, 0] == 14 * 6 + 3


@pytest.mark.parametrize("source", ["tile", "register"])
def test_a_scalar_offset_moves_the_whole_transfer(source):
    def kernel(x, index):
        idx = language.ndarray((1, 1), np.int32)
        isa.dma_copy(dst=idx, src=index)
        if source == "register":
            register = isa.register_alloc()
            isa.register_load(register, idx)
            idx = register
        out = language.ndarray((4, 3), x.dtype, buffer=shared_hbm)
        isa.dma_copy(dst=out, src=x.ap([[6, 4], [1, 3]], offset=2, scalar_offset=idx, indirect_dim=0))
        isa.dma_copy(dst=x.ap([[6, 1], [1, 6]], scalar_offset=idx, indirect_dim=0), src=x[0:1])
        return out

    x = table()
    before = x.copy()
    out = trnsim.simulate(kernel, lint="off")(x, np.array([[5]], np.int32))
    np.testing.assert_array_equal(out, before[5:9, 2:5])
    np.testing.assert_array_equal(x[5], before[0])
    np.testing.assert_array_equal(x[6:], before[6:])


def test_a_scalar_offset_out_of_bounds_is_refused_or_skips_the_transfer():
    def kernel(x, out, where, mode):
        register = isa.register_alloc(where)
        isa.dma_copy(dst=out, src=x.ap([[6, 4], [1, 6]], scalar_offset=register), oob_mode=mode)
        isa.dma_copy(dst=out.ap([[6, 1], [1, 6]], scalar_offset=register), src=x[0:1], oob_mode=mode)

    x, out = table(), np.full((4, 6), -1, np.float32)
    go = trnsim.simulate(kernel, lint="off")
    go(x, out, 13, oob_mode.skip)
    assert (out == -1).all()
    with pytest.raises(OutOfBounds) as caught:
        go(x, out, 13, oob_mode.error)
    assert caught.value.got == 13
    go(x, out, 12, oob_mode.skip)
    np.testing.assert_array_equal(out, x[12:])


def test_on_chip_run_time_offsets_stay_within_the_partition():
    def body(x, out, where=20):
        register = isa.register_alloc(where)
        isa.dma_copy(dst=out, src=x.ap([[24, 4], [1, 6]], scalar_offset=register, indirect_dim=1))

    x = table(4, 24)
    np.testing.assert_array_equal(run(lambda *t: body(*t, where=18), x, out=[((4, 6), F32)]), x[:, 18:])
    refused(OutOfBounds, "bounds", body, x, out=[((4, 6), F32)], says="run-time index 20")


# -- who makes descriptors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@together("mode", [None, 0, 3, "swdge", dge_mode.none, dge_mode.swdge])
def test_descriptor_modes_change_no_value(target, mode):
    def body(x, out):
        isa.dma_copy(dst=out, src=x, dge_mode=mode)

    np.testing.assert_array_equal(run(body, table(), out=[((16, 6), F32)], target=target), table())


def copy(**options):
    def body(x, out):
        isa.dma_copy(dst=out, src=x, **options)

    return body


def gather(**options):
    def body(x, index, out):
        far = language.ndarray(x.shape, x.dtype, buffer=hbm)
        isa.dma_copy(dst=far, src=x)
        isa.dma_copy(dst=out, src=far.vector_select(0, index), **options)

    return body


def test_hardware_descriptors_are_asked_for_by_sync_or_scalar():
    for asked in (engine.unknown, engine.sync, engine.scalar, "sync"):
        trace = []
        run(copy(dge_mode=dge_mode.hwdge, engine=asked), table(), out=[((16, 6), F32)], trace=trace)
        assert trace[-1].cost["dge"] == "hwdge"
        assert trace[-1].cost["engine"] == getattr(asked, "name", asked)


MODES = [
    (copy(dge_mode="hwdge"), "trn1", WrongEngine, "generation", "hwdge, which trn1 lacks"),
    (copy(engine=engine.sync), "trn2", WrongEngine, "dge-engine", "engine sync with dge_mode unknown"),
    (copy(dge_mode=2, engine=engine.vector), "trn2", WrongEngine, "dge-engine", "engine.sync or engine.scalar"),
    (copy(priority=1), "trn2", WrongEngine, "generation", "priority 1, which trn2 lacks"),
    (copy(priority=4), "trn3", WrongArgument, "priority", "priority is 4"),
    (copy(priority="high"), "trn3", WrongArgument, "priority", "'high'"),
    (copy(dge_mode="fast"), "trn2", WrongArgument, "dge_mode", "dge_mode.swdge"),
    (copy(oob_mode="wrap"), "trn2", WrongArgument, "oob_mode", "oob_mode.skip"),
]


@together(("body", "target", "error", "rule", "says"), MODES)
def test_modes_a_target_lacks_are_refused(body, target, error, rule, says):
    refused(error, rule, body, table(), out=[((16, 6), F32)], target=target, says=says)


GATHERS = [
    (gather(dge_mode=dge_mode.hwdge), "trn2", WrongArgument, "dge-indirect", "dge_mode hwdge with a vector_offset"),
    (gather(dge_mode=dge_mode.none), "trn3", WrongArgument, "dge-indirect", "written by GpSimd"),
    (gather(), "trn1", WrongEngine, "generation", "vector_offset, which trn1 lacks"),
]


@pytest.mark.parametrize(("body", "target", "error", "rule", "says"), GATHERS)
def test_only_software_descriptors_gather(body, target, error, rule, says):
    refused(error, rule, body, table(), column([0, 1]), out=[((2, 6), F32)], target=target, says=says)


def test_positional_options_of_kernels_older_than_priority():
    """Before NKI 0.4 the third argument of dma_copy was oob_mode, the fourth of dma_transpose dge_mode."""

    def body(x, index, out):
        far = language.ndarray(x.shape, x.dtype, buffer=hbm)
        isa.dma_copy(far, x, oob_mode.error, dge_mode.hwdge, engine.sync)
        isa.dma_copy(out, far.vector_select(0, index), oob_mode.skip, dge_mode=dge_mode.swdge)
        flipped = language.ndarray((6, 16), np.float32)
        isa.dma_transpose(flipped, far, (1, 0), dge_mode.unknown)

    trace = []
    out = run(body, table(), column([5, 2]), out=[((2, 6), F32)], trace=trace)
    np.testing.assert_array_equal(out, table()[[5, 2]])
    assert [(r.cost["dge"], r.cost["engine"], r.cost["priority"]) for r in trace[2:]] == [
        ("hwdge", "sync", None),
        ("swdge", "unknown", None),
        ("unknown", "unknown", None),
    ]


def test_records_say_what_a_cost_law_needs():
    trace = []
    run(gather(priority=2), table(), column([0, 1]), out=[((2, 6), F32)], target="trn3", trace=trace)
    assert trace[-1].engine == "dma"
    assert trace[-1].cost == {
        "bytes": 48,
        "dge": "unknown",
        "engine": "unknown",
        "indirect": True,
        "dynamic": True,
        "transpose": False,
        "priority": 2,
    }
    assert trace[-2].cost["indirect"] is False


def test_timing_only_mode_follows_addresses_without_values():
    trace = []
    run(gather(), table(), column([0, 1]), out=[((2, 6), F32)], trace=trace, numerics=False)
    assert trace[-1].cost["indirect"] is True

    def body(x):
        isa.dma_copy(dst=language.ndarray((16, 5), np.float32), src=x)

    with pytest.raises(WrongShape, match="96 elements"):
        run(body, table(), numerics=False)


# -- refusals of dma_copy -----------------------------------------------------------------------------------------


def into(shape, kind, buffer=sbuf, **options):
    def body(x):
        isa.dma_copy(dst=language.ndarray(shape, kind, buffer=buffer), src=x, **options)

    return body


COPIES = [
    (into((16, 5), F32), {}, WrongShape, "dma-size", "src (in0) has 96 elements (16, 6) and dst"),
    (into((16, 6), F32, psum), {}, WrongBuffer, "buffer", "is in psum, and must be in SBUF"),
    (into((16, 6), F32), {"psum": (0,)}, WrongBuffer, "buffer", "src (in0) is in psum"),
    (into((16, 6), BF16, dge_mode="hwdge"), {}, WrongDtype, "hwdge-dtype", "float32 and dst"),
    (into((16, 6), language.float8_e5m2_x4), {}, WrongDtype, "dma-packed", "does not convert packed and 64-bit types"),
]


@together(("body", "options", "error", "rule", "says"), COPIES)
def test_dma_copy_refuses(body, options, error, rule, says):
    refused(error, rule, body, table(), says=says, **options)


def test_packed_types_move_as_they_are():
    x = nasty((4, 8), U32)

    def body(x, out):
        t = language.ndarray((4, 8), language.float8_e4m3fn_x4)
        isa.dma_copy(dst=t, src=x.view(language.float8_e4m3fn_x4), dge_mode=dge_mode.hwdge)
        far = language.ndarray((8, 8), language.float8_e4m3fn_x4, buffer=hbm)
        isa.dma_copy(dst=far[2:6], src=t)
        index = language.ndarray((4, 1), np.int32)
        isa.iota(dst=index, pattern=[[0, 1]], offset=2, channel_multiplier=1)
        isa.dma_copy(dst=out.view(language.float8_e4m3fn_x4), src=far.vector_select(0, index), oob_mode=oob_mode.skip)

    np.testing.assert_array_equal(run(body, x, out=[((4, 8), U32)]), x)


def test_a_copy_onto_part_of_itself_is_not_modelled():
    def shifted(x):
        far = language.ndarray((16, 6), np.float32, buffer=hbm, name="far")
        isa.dma_copy(dst=far, src=x)
        isa.dma_copy(dst=far[1:9], src=far[0:8])

    refused(NotModelled, "dma-overlap", shifted, table(), says="overlapping parts of far")

    def disjoint(x, out):
        far = language.ndarray((16, 6), np.float32, buffer=hbm)
        isa.dma_copy(dst=far, src=x)
        isa.dma_copy(dst=far[8:16], src=far[0:8])
        isa.dma_copy(dst=far[0:8, 0:6:2], src=far[8:16, 1:6:2])
        isa.dma_copy(dst=far[3:5], src=far[3:5])
        isa.dma_copy(dst=out, src=far)

    expected = table()
    expected[8:] = expected[:8]
    expected[:8, ::2] = expected[8:, 1::2]
    np.testing.assert_array_equal(run(disjoint, table(), out=[((16, 6), F32)]), expected)

    def rows(x, index):
        far = language.ndarray((16, 6), np.float32, buffer=hbm)
        isa.dma_copy(dst=far, src=x)
        isa.dma_copy(dst=far[0:2], src=far.vector_select(0, index))

    run(rows, table(), column([2, 5]))
    refused(NotModelled, "dma-overlap", rows, table(), column([2, 1]), says="copy through another tensor")

    def placed(x):
        one = language.ndarray((16, 6), np.float32, address=(0, 0))
        two = language.ndarray((16, 6), np.float32, address=(0, 8))
        isa.dma_copy(dst=one, src=x)
        isa.dma_copy(dst=two, src=one)

    refused(NotModelled, "dma-overlap", placed, table(), says="overlapping parts")


def test_a_destination_that_repeats_an_address_is_not_modelled():
    def body(x):
        far = language.ndarray((1, 6), np.float32, buffer=hbm)
        isa.dma_copy(dst=far.broadcast(0, 16), src=x)

    refused(NotModelled, "dst-overlap", body, table(), says="write each element once")

    def source(x, out):
        far = language.ndarray((1, 6), np.float32, buffer=hbm)
        isa.dma_copy(dst=far, src=x[0:1])
        isa.dma_copy(dst=out, src=far.broadcast(0, 16))

    out = run(source, table(), out=[((16, 6), F32)])
    np.testing.assert_array_equal(out, np.repeat(table()[:1], 16, axis=0))


def test_engines_indirection_and_too_few_row_numbers_are_refused():
    def ti(x, index, out):
        isa.dma_copy(dst=out, src=x.indirect(index, 2))

    refused(
        WrongArgument,
        "indirect",
        ti,
        table(),
        np.zeros((16, 1), np.int32),
        out=[((16, 2), F32)],
        target="trn3",
        says="vector_select",
    )

    def few(x, index, out):
        far = language.ndarray(x.shape, x.dtype, buffer=hbm)
        isa.dma_copy(dst=far, src=x)
        isa.dma_copy(dst=out, src=far.ap([[6, 4], [1, 6]], vector_offset=index))

    refused(WrongShape, "indirect", few, table(), column([0, 1]), out=[((4, 6), F32)], says="4 rows and its index")
    refused(
        WrongShape,
        "indirect",
        few,
        table(),
        np.zeros((2, 2), np.int32),
        out=[((4, 6), F32)],
        says="one row index per partition",
    )
    np.testing.assert_array_equal(
        run(few, table(), column([3, 2, 1, 0, 9]), out=[((4, 6), F32)]), table()[[3, 2, 1, 0]]
    )


def test_computing_on_gathered_rows_directly_is_refused():
    def body(x, index, out):
        far = language.ndarray(x.shape, x.dtype, buffer=hbm)
        isa.dma_copy(dst=far, src=x)
        isa.tensor_copy(dst=out, src=far.vector_select(0, index))

    refused(WrongBuffer, "buffer", body, table(), column([0, 1]), out=[((2, 6), F32)], says="private_hbm")


# -- sums ---------------------------------------------------------------------------------------------------------


@together("count", [1, 2, 16])
@pytest.mark.parametrize("kind", [F32, BF16, I32], ids=str)
def test_dma_compute_sums_in_fp32(kind, count):
    parts = [(rng(i).standard_normal((8, 6)) * 50).astype(np.float32).astype(kind) for i in range(count)]

    def kernel(*tensors):
        out = language.ndarray((8, 6), kind, buffer=shared_hbm)
        near = language.ndarray((8, 6), kind)
        isa.dma_copy(dst=near, src=tensors[0])
        isa.dma_compute(dst=out, srcs=[near, *tensors[1:]], reduce_op=language.add, scales=[1.0] * count)
        wide = language.ndarray((6, 8), np.float32, buffer=shared_hbm)
        isa.dma_compute(wide, tensors, np.add)
        return out, wide

    out, wide = trnsim.simulate(kernel, lint="off")(*parts)
    total = np.zeros((8, 6), np.float32)
    for i, part in enumerate(parts):
        total = part.astype(np.float32) if i == 0 else total + part.astype(np.float32)
    np.testing.assert_array_equal(wide.reshape(-1), total.reshape(-1))
    np.testing.assert_array_equal(bits(out), bits(through_f32(total, kind)))


@pytest.mark.parametrize("order", [0, 1])
def test_dma_compute_adds_to_rows(order):
    def kernel(x, index, out):
        idx, tile = language.ndarray(index.shape, index.dtype), language.ndarray(x.shape, x.dtype)
        isa.dma_copy(dst=idx, src=index)
        isa.dma_copy(dst=tile, src=x)
        rows = out.ap([[6, 4], [1, 6]], vector_offset=idx)
        srcs = [rows, tile] if order else [tile, out.vector_select(0, idx)]
        isa.dma_compute(dst=rows, srcs=srcs, reduce_op=language.add, oob_mode=oob_mode.skip)

    x, out = table(4), table(8) + 100
    expected = out.copy()
    trnsim.simulate(kernel, lint="off")(x, column([7, 99, 0, 3]), out)
    expected[[7, 0, 3]] += x[[0, 2, 3]]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("order", [0, 1])
def test_dma_compute_adds_from_rows(order):
    def body(x, index, out):
        far = language.ndarray(x.shape, x.dtype, buffer=hbm)
        isa.dma_copy(dst=far, src=x)
        isa.memset(dst=out, value=1.0)
        rows = far.vector_select(0, index)
        isa.dma_compute(dst=out, srcs=[rows, out] if order else [out, rows], reduce_op=language.add, oob_mode="skip")

    # equal numbers are harmless when reading
    out = run(body, table(), column([5, 5, 40, 0]), out=[((4, 6), F32)])
    expected = np.ones((4, 6), np.float32)
    expected[[0, 1, 3]] += table()[[5, 5, 0]]
    np.testing.assert_array_equal(out, expected)


def summing(srcs=None, op=None, **options):
    def body(x, index, out):
        far = language.ndarray((16, 6), np.float32, buffer=hbm, name="far")
        isa.dma_copy(dst=far, src=x)
        isa.memset(dst=out, value=0.0)
        made = srcs(x, index, out, far) if srcs else [x[0:4], out]
        isa.dma_compute(options.pop("dst", lambda *t: t[1])(far, out, index), made, op or language.add, **options)

    return body


SUMS = [
    (summing(op=language.maximum), WrongArgument, "reduction-operator", "nl.maximum"),
    (summing(scales=[1.0, 2.0]), WrongArgument, "dma-scales", "do not scale"),
    (summing(scales=[1.0]), WrongArgument, "dma-scales", "for 2 sources"),
    (summing(scales=1.0), WrongArgument, "dma-scales", "scales is 1.0"),
    (summing(srcs=lambda x, i, o, f: []), WrongArgument, "dma-sources", "of 0"),
    (summing(srcs=lambda x, i, o, f: [o] * 17), WrongArgument, "dma-sources", "of 17"),
    (summing(srcs=lambda x, i, o, f: o), WrongArgument, "dma-sources", "NkiTensor"),
    (summing(srcs=lambda x, i, o, f: [x, o]), WrongShape, "dma-size", "srcs[0] (in0) has 96 elements"),
    (summing(oob_mode="skip"), WrongArgument, "oob-mode", "without a vector_offset"),
    (
        summing(srcs=lambda x, i, o, f: [f.ap([[6, 4], [1, 6]], scalar_offset=isa.register_alloc(1)), o]),
        WrongArgument,
        "dma-static",
        "run-time offset",
    ),
    (summing(srcs=lambda x, i, o, f: [f.vector_select(0, i)]), WrongArgument, "dma-sources", "1 sources"),
    (
        summing(srcs=lambda x, i, o, f: [f.vector_select(0, i), o], unique_indices=False),
        WrongArgument,
        "unique-indices",
        "unique_indices=False",
    ),
    (summing(srcs=lambda x, i, o, f: [f.vector_select(0, i), x[0:4]]), WrongArgument, "dma-update", "repeats dst"),
    (
        summing(srcs=lambda x, i, o, f: [f.vector_select(0, i), f.vector_select(0, i)]),
        WrongArgument,
        "dma-update",
        "repeats dst",
    ),
    (
        summing(srcs=lambda x, i, o, f: [f.vector_select(0, i), f[0:4]], dst=lambda f, o, i: f.vector_select(0, i)),
        WrongBuffer,
        "buffer",
        "the source without vector_offset (far)",
    ),
]


@together(("body", "error", "rule", "says"), SUMS)
def test_dma_compute_refuses(body, error, rule, says):
    refused(error, rule, body, table(), column([0, 1, 2, 3]), out=[((4, 6), F32)], says=says)


def test_dma_compute_refuses_what_needs_values_or_other_targets():
    scatter = summing(srcs=lambda x, i, o, f: [f.vector_select(0, i), o], dst=lambda f, o, i: f.vector_select(0, i))
    found = refused(
        WrongArgument,
        "unique-indices",
        scatter,
        table(),
        column([0, 3, 2, 3]),
        out=[((4, 6), F32)],
        says="row 3 is updated 2 times",
    )
    assert found.got == [3]
    rows = summing(srcs=lambda x, i, o, f: [f.vector_select(0, i), o])
    refused(
        OutOfBounds,
        "bounds",
        rows,
        table(),
        column([0, 3, 2, 16]),
        out=[((4, 6), F32)],
        says="row 3: run-time index",
    )
    refused(
        WrongEngine, "generation", rows, table(), column([0, 1, 2, 3]), out=[((4, 6), F32)], target="trn1", says="trn1"
    )


def test_dma_compute_records_its_sources():
    trace = []
    run(summing(), table(), column([0, 1, 2, 3]), out=[((4, 6), F32)], trace=trace)
    assert trace[-1].cost["dge"] == "none"
    assert (trace[-1].cost["op"], trace[-1].cost["sources"]) == ("add", 2)
    trace = []
    run(
        summing(srcs=lambda x, i, o, f: [f.vector_select(0, i), o]),
        table(),
        column([0, 1, 2, 3]),
        out=[((4, 6), F32)],
        trace=trace,
        numerics=False,
    )
    assert (trace[-1].cost["dge"], trace[-1].cost["indirect"]) == ("swdge", True)


# -- transposes ---------------------------------------------------------------------------------------------------

SHAPES = [(16, 128), (3, 5), (200, 7), (4, 3, 9), (16, 1, 128), (2, 3, 4, 5), (1, 1, 1, 1)]
AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def flip(**options):
    def kernel(x):
        order = AXES[len(x.shape)]
        tile = language.ndarray(tuple(x.shape[d] for d in order), x.dtype)
        isa.dma_transpose(dst=tile, src=x, **options)
        out = language.ndarray(tile.shape, x.dtype, buffer=shared_hbm)
        isa.dma_copy(dst=out, src=tile)
        if x.shape[0] <= 128 and len(x.shape) == 2:
            near = language.ndarray(x.shape, x.dtype)
            isa.dma_copy(dst=near, src=x)
            isa.dma_transpose(tile, near, AXES[2])
            isa.dma_copy(dst=out, src=tile)
        return out

    return kernel


@pytest.mark.parametrize("target", TARGETS)
@together("name", ["float32", "bfloat16", "float16", "int32", "uint16"])
@together("shape", SHAPES)
def test_dma_transpose_moves_every_bit(shape, name, target):
    x = nasty(shape, dtype(name))
    out = trnsim.simulate(flip(), target=target, lint="off")(x)
    np.testing.assert_array_equal(bits(out), bits(x.transpose(AXES[len(shape)])))


@together("shape", [(16, 128), (16, 3), (8, 2, 100), (1, 5, 16, 64), (16, 7, 1, 128)])
def test_hardware_descriptors_transpose_the_shapes_they_know(shape):
    x = nasty(shape, BF16)
    out = trnsim.simulate(flip(dge_mode=dge_mode.hwdge, axes=AXES[len(shape)]), lint="off")(x)
    np.testing.assert_array_equal(bits(out), bits(x.transpose(AXES[len(shape)])))


def gathered(shape, count, **options):
    """Gather ``count`` rows of an HBM table and transpose them into a tile that held zeros."""

    def kernel(x, index):
        idx = language.ndarray(index.shape, index.dtype)
        isa.dma_copy(dst=idx, src=index)
        size = int(np.prod(shape[1:]))
        steps = [size // int(np.prod(shape[1 : i + 1])) for i in range(1, len(shape))]
        rows = x.ap([[size, count], *([s, n] for s, n in zip(steps, shape[1:], strict=True))], vector_offset=idx)
        order = AXES[len(shape)]
        tile = language.ndarray(tuple(rows.shape[d] for d in order), x.dtype)
        isa.memset(dst=tile, value=0)
        isa.dma_transpose(dst=tile, src=rows, axes=order, **options)
        out = language.ndarray(tile.shape, x.dtype, buffer=shared_hbm)
        isa.dma_copy(dst=out, src=tile)
        return out

    return kernel


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@together(
    ("shape", "index", "count"),
    [
        ((300, 100), (128, 1), 128),
        ((300, 128), (128, 3), 384),
        ((300, 20), (128, 2), 144),
        ((50, 4, 30), (32, 1), 32),
        ((50, 3, 1, 30), (16, 1), 16),
        ((300, 1, 5, 128), (128, 2), 256),
    ],
)
def test_rows_are_gathered_column_by_column_of_the_index_and_transposed(shape, index, count, target):
    x = nasty(shape, F16)
    numbers = rng(2).integers(0, shape[0], index).astype(np.uint32)
    out = trnsim.simulate(gathered(shape, count), target=target, lint="off")(x, numbers)
    flat = numbers.T.reshape(-1)[:count]
    np.testing.assert_array_equal(bits(out), bits(x[flat].transpose(AXES[len(shape)])))


def test_skipped_rows_leave_their_columns_alone():
    x = nasty((20, 8), F16)
    numbers = np.arange(16, dtype=np.uint32).reshape(16, 1)
    numbers[[3, 4, 15], 0] = 20, 2**31, 4_000_000_000
    out = trnsim.simulate(gathered((20, 8), 16, oob_mode=oob_mode.skip), lint="off")(x, numbers)
    expected = np.zeros((16, 8), F16)
    inside = numbers[:, 0] < 20
    expected[inside] = x[numbers[inside, 0]]
    np.testing.assert_array_equal(bits(out), bits(expected.T))
    with pytest.raises(OutOfBounds) as caught:
        trnsim.simulate(gathered((20, 8), 16), lint="off")(x, numbers)
    assert caught.value.got == 20


def test_a_run_time_offset_moves_or_skips_a_transpose():
    def kernel(x, where, mode):
        tile = language.ndarray((6, 4), x.dtype)
        isa.memset(dst=tile, value=0)
        rows = x.ap([[6, 4], [1, 6]], scalar_offset=isa.register_alloc(where))
        isa.dma_transpose(dst=tile, src=rows, oob_mode=mode)
        out = language.ndarray((6, 4), x.dtype, buffer=shared_hbm)
        isa.dma_copy(dst=out, src=tile)
        return out

    x = table().astype(F16)
    go = trnsim.simulate(kernel, lint="off")
    np.testing.assert_array_equal(go(x, 5, oob_mode.error), x[5:9].T)
    assert not go(x, 13, oob_mode.skip).any()
    with pytest.raises(OutOfBounds):
        go(x, 13, oob_mode.error)


def transposing(shape, into, kind=F16, kept=None, where=sbuf, **options):
    def body():
        far = language.ndarray(shape, kind, buffer=hbm, name="far")
        isa.dma_transpose(dst=language.ndarray(into, kept or kind, buffer=where), src=far, **options)

    return body


FLIPS = [
    (transposing((4,), (4, 1)), {}, WrongShape, "transpose-rank", "1 dimensions"),
    (transposing((2, 2, 2, 2, 2), (2, 2)), {}, WrongShape, "transpose-rank", "5 dimensions"),
    (transposing((4, 6), (6, 4), axes=(0, 1)), {}, WrongArgument, "transpose-axes", "(0, 1) for a src of 2"),
    (transposing((4, 6, 2), (2, 6, 4), axes=(2, 0, 1)), {}, WrongArgument, "transpose-axes", "(2, 1, 0) only"),
    (transposing((4, 6), (4, 6)), {}, WrongShape, "transpose-shape", "transposes to (6, 4)"),
    (transposing((4, 1, 1, 6), (6, 1, 4)), {}, WrongShape, "transpose-shape", "rank included"),
    (transposing((4, 6), (6, 4), kept=BF16), {}, WrongDtype, "transpose-dtype", "keeps the dtype"),
    (transposing((4, 6), (6, 4), kind=U8), {}, WrongDtype, "transpose-dtype", "2 or 4-byte words"),
    (transposing((4, 6), (6, 4), where=hbm), {}, WrongBuffer, "buffer", "must be in SBUF"),
    (transposing((4, 6), (6, 4), where=psum), {}, WrongBuffer, "buffer", "is in psum"),
    (transposing((4, 6), (6, 4), dge_mode="swdge"), {}, WrongArgument, "dge-transpose", "swdge with a static src"),
    (transposing((4, 6), (6, 4), oob_mode="skip"), {}, WrongArgument, "oob-mode", "static src"),
    (transposing((4, 6), (6, 4), priority=0), {}, WrongEngine, "generation", "priority 0"),
    (transposing((16, 6), (6, 16), dge_mode="hwdge"), {"target": "trn1"}, WrongEngine, "generation", "trn1 lacks"),
    (transposing((16, 6), (6, 16), kind=F32, dge_mode="hwdge"), {}, WrongDtype, "hwdge-transpose", "2-byte"),
    (transposing((8, 6), (6, 8), dge_mode="hwdge"), {}, HardwareLimit, "hwdge-transpose", "8 rows"),
    (transposing((3, 16, 6), (6, 16, 3), dge_mode="hwdge"), {}, HardwareLimit, "hwdge-transpose", "3 rows"),
    (transposing((4, 6, 6), (6, 6, 4), dge_mode="hwdge"), {}, HardwareLimit, "hwdge-transpose", "no multiple of 16"),
]


@together(("body", "options", "error", "rule", "says"), FLIPS)
def test_dma_transpose_refuses(body, options, error, rule, says):
    found = refused(error, rule, body, says=says, **options)
    assert found.instruction == "dma_transpose"
    assert found.hint


def test_a_transpose_in_place_is_not_modelled():
    def body(x):
        isa.dma_transpose(dst=x, src=x)

    refused(NotModelled, "dma-overlap", body, np.zeros((8, 8), F16), says="overlapping parts")


def gather_flip(shape=(64, 8), count=16, index=(16, 1), kind=F16, numbers=U32, **options):
    def body():
        far = language.ndarray(shape, kind, buffer=hbm, name="far")
        idx = language.ndarray(index, numbers, name="idx")
        isa.memset(dst=idx, value=0)
        size = int(np.prod(shape[1:]))
        steps = [size // int(np.prod(shape[1 : i + 1])) for i in range(1, len(shape))]
        rows = far.ap([[size, count], *([s, n] for s, n in zip(steps, shape[1:], strict=True))], vector_offset=idx)
        order = AXES[len(shape)]
        isa.dma_transpose(dst=language.ndarray(tuple(rows.shape[d] for d in order), kind), src=rows, **options)

    return body


GATHER_FLIPS = [
    (gather_flip(), {"target": "trn1"}, WrongEngine, "generation", "trn1"),
    (gather_flip(dge_mode="hwdge"), {}, WrongArgument, "dge-indirect", "hwdge with a vector_offset"),
    (gather_flip(kind=F32), {}, WrongDtype, "gather-transpose", "2-byte words"),
    (gather_flip(numbers=I32), {}, WrongDtype, "gather-transpose", "the index (idx) is int32"),
    (gather_flip(count=17, index=(32, 1)), {}, HardwareLimit, "gather-transpose", "gathers 17 rows"),
    (gather_flip(count=32), {}, HardwareLimit, "gather-transpose", "the index holds 16"),
    (gather_flip(index=(24, 1)), {}, HardwareLimit, "gather-transpose", "24 partitions"),
    (gather_flip(index=(64, 2)), {}, HardwareLimit, "gather-transpose", "2 columns and 64 partitions"),
    (gather_flip(shape=(64, 2, 3, 8)), {}, HardwareLimit, "gather-transpose", "dimensions 1 and 2"),
]


@together(("body", "options", "error", "rule", "says"), GATHER_FLIPS)
def test_gathering_transposes_refuse(body, options, error, rule, says):
    refused(error, rule, body, says=says, **options)


def test_transposes_are_recorded_as_such():
    trace = []

    def body(x):
        isa.dma_transpose(dst=language.ndarray((6, 16), np.float32), src=x, priority=3)

    run(body, table(), target="trn3", trace=trace, numerics=False)
    assert trace[-1].cost["transpose"] is True
    assert trace[-1].cost["bytes"] == 16 * 6 * 4
    assert trace[-1].cost["priority"] == 3


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 10), st.integers(1, 5), st.integers(1, 12), st.sampled_from([F32, BF16, U8]))
def test_gathers_and_scatters_with_any_row_numbers(data, rows, columns, count, kind):
    numbers = data.draw(st.lists(st.integers(-2, rows + 1), min_size=count, max_size=count))
    x, y = nasty((rows, columns), kind), nasty((count, columns), kind, 1)

    def kernel(x, y, index, far):
        idx, tile = language.ndarray(index.shape, index.dtype), language.ndarray(y.shape, y.dtype)
        isa.dma_copy(dst=idx, src=index)
        isa.dma_copy(dst=tile, src=y)
        isa.dma_copy(dst=far.vector_select(0, idx), src=tile, oob_mode=oob_mode.skip)
        isa.dma_copy(dst=tile, src=x.ap([[columns, count], [1, columns]], vector_offset=idx), oob_mode=oob_mode.skip)
        out = language.ndarray(y.shape, y.dtype, buffer=shared_hbm)
        isa.dma_copy(dst=out, src=tile)
        return out

    far = x.copy()
    out = trnsim.simulate(kernel, lint="off")(x, y, column(numbers), far)
    taken, given_ = y.copy(), x.copy()
    for i, row in enumerate(numbers):
        if 0 <= row < rows:
            taken[i] = x[row]
            given_[row] = y[i]
    np.testing.assert_array_equal(bits(out), bits(taken))
    np.testing.assert_array_equal(bits(far), bits(given_))


@pytest.mark.parametrize("outside", [99, -1])
@together("what", ["gather", "scatter", "both", "add_from", "add_to", "transpose", "scalar"])
def test_a_transfer_of_which_every_row_is_skipped_moves_nothing(what, outside):
    skip = isa.oob_mode.skip

    def kernel(x, rows):
        index = language.load(rows)
        out = language.ndarray((16, 8), x.dtype, buffer=language.shared_hbm)
        tile = language.ndarray((16, 8), x.dtype)
        isa.memset(tile, 3.0)
        isa.dma_copy(out, tile)
        if what == "gather":
            isa.dma_copy(tile, x.vector_select(0, index), oob_mode=skip)
        elif what == "scatter":
            isa.dma_copy(out.vector_select(0, index), language.load(x[0:16]), oob_mode=skip)
        elif what == "both":
            isa.dma_copy(out.vector_select(0, index), x.vector_select(0, index), oob_mode=skip)
        elif what == "add_from":
            isa.dma_compute(tile, [x.vector_select(0, index), tile], language.add, oob_mode=skip)
        elif what == "add_to":
            far = out.vector_select(0, index)
            isa.dma_compute(far, [far, tile], language.add, oob_mode=skip)
        elif what == "transpose":
            flipped = language.ndarray((8, 16), x.dtype)
            isa.memset(flipped, 3.0)
            isa.dma_transpose(flipped, x.vector_select(0, index.view(language.uint32)), oob_mode=skip)
            isa.dma_copy(tile[0:8], flipped[:, 0:8])
        else:
            isa.dma_copy(tile[0:1], x.select(0, index[0:1]).reshape(1, 8), oob_mode=skip)
        isa.dma_copy(out[0:8], tile[0:8])
        return out

    x = np.ones((32, 8), ml_dtypes.bfloat16 if what == "transpose" else np.float32)
    assert (trnsim.simulate(kernel)(x, np.full((16, 1), outside, np.int32)) == 3).all()
