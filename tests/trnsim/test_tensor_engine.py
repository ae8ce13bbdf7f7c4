"""Tensor Engine: products and transposes against float64 and against bits, PSUM accumulation, and every refusal."""

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
    PsumRule,
    ReadUninitialized,
    WrongArgument,
    WrongBuffer,
    WrongDtype,
    WrongEngine,
    WrongShape,
)
from trnsim.isa.enums import engine, matmul_perf_mode
from trnsim.language import psum

F32 = np.dtype("f4")
BF16 = np.dtype(ml_dtypes.bfloat16)
E4, E4FN, E5 = (np.dtype(getattr(ml_dtypes, n)) for n in ("float8_e4m3", "float8_e4m3fn", "float8_e5m2"))
F16 = np.dtype("f2")
PAIRS = [(F32, F32), (BF16, BF16), (F16, BF16), (E4, E5), (E5, F16), (E4, E4), (BF16, E4)]


def product(a, b, *, target="trn2", dst=F32, **options):
    """``a.T @ b`` by one nc_matmul; a and b may have several free dimensions."""
    k = a.shape[0]
    m, n = a.reshape(k, -1).shape[1], b.reshape(k, -1).shape[1]
    if options.get("perf_mode"):
        m, n = m // 2, n // 2

    def body(x, y, out):
        ps = language.ndarray((m, n), dst, buffer=psum)
        isa.nc_matmul(dst=ps, stationary=x, moving=y, **options)
        isa.tensor_copy(dst=out, src=ps)

    return run(body, a, b, out=[((m, n), dst)], target=target)


def within(got, a, b, extra=0.0):
    """fp32 sums over K: the error is at most K·2⁻²⁴ of the sum of magnitudes."""
    a, b = (x.reshape(x.shape[0], -1).astype(np.float64) for x in (a, b))
    exact = a.T @ b
    bound = (a.shape[0] * 2.0**-24 + extra) * (np.abs(a).T @ np.abs(b)) + 1e-45
    assert got.shape == exact.shape
    assert (np.abs(got.astype(np.float64) - exact) <= bound).all()


def tile(shape, dtype, seed=0):
    return rng(seed).standard_normal(shape).astype(np.float32).astype(dtype)


@pytest.mark.parametrize("target", TARGETS)
@together(("first", "second"), PAIRS)
def test_products_of_every_dtype_mix_stay_within_fp32_bounds(first, second, target):
    for k, m, n in [(128, 128, 512), (1, 1, 1), (127, 3, 511), (32, 128, 2)]:
        a, b = tile((k, m), first, k), tile((k, n), second, n)
        within(product(a, b, target=target), a, b)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 128), st.integers(1, 128), st.integers(1, 512), st.sampled_from([F32, BF16]))
def test_any_shape_within_the_limits(k, m, n, dtype):
    a, b = tile((k, m), dtype, k), tile((k, n), dtype, m)
    within(product(a, b), a, b)


def test_free_dimensions_count_as_one():
    a, b = tile((64, 4, 8), F32, 1), tile((64, 2, 3, 5), F32, 2)

    def body(x, y, out):
        ps = language.ndarray((32, 5, 6), np.float32, buffer=psum)
        isa.nc_matmul(dst=ps, stationary=x, moving=y)
        isa.tensor_copy(dst=out, src=ps)

    within(run(body, a, b, out=[((32, 30), F32)]), a, b)


def test_strided_and_broadcast_views_as_operands_and_result():
    a, b = tile((32, 40), F32, 1), tile((32, 24), F32, 2)

    def body(x, y, out):
        ps = language.ndarray((20, 64), np.float32, buffer=psum)
        left = x[:, 0:40:2]
        right = y.reshape((32, 4, 6)).permute((0, 2, 1))
        isa.nc_matmul(dst=ps[:, 1:49:2], stationary=left, moving=right)
        isa.tensor_copy(dst=out[:, 0:24], src=ps[:, 1:49:2])
        isa.nc_matmul(dst=ps[:, 50:54], stationary=left, moving=y[:, 3:4].broadcast(1, 4))
        isa.tensor_copy(dst=out[:, 24:28], src=ps[:, 50:54])

    out = run(body, a, b, out=[((20, 28), F32)])
    within(out[:, :24], a[:, ::2], b.reshape(32, 4, 6).transpose(0, 2, 1))
    within(out[:, 24:], a[:, ::2], np.repeat(b[:, 3:4], 4, axis=1))


def test_tfloat32_rounds_operands_also_when_only_viewed_so():
    a, b = tile((128, 16), F32, 1), tile((128, 32), F32, 2)

    def tf32(x):
        bits = x.view(np.uint32)
        return ((bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32)

    def body(x, y, out):
        ps = language.ndarray((16, 32), np.float32, buffer=psum)
        isa.nc_matmul(dst=ps, stationary=x.view(language.tfloat32), moving=y)
        isa.tensor_copy(dst=out, src=ps)

    within(run(body, a, b, out=[((16, 32), F32)]), tf32(a), b)
    assert np.abs(tf32(a) - a).max() > 0


@pytest.mark.filterwarnings("error")
def test_nan_and_infinity_go_where_ieee_sends_them():
    a, b = np.zeros((4, 3), np.float32), np.ones((4, 2), np.float32)
    a[0] = [np.nan, np.inf, 1]
    b[0] = [1, 0]
    got = product(a, b)
    assert np.isnan(got[0]).all()
    assert got[1, 0] == np.inf
    assert np.isnan(got[1, 1])
    assert got[2].tolist() == [1, 0]
    big = np.full((2, 1), 3e38, np.float32)
    assert product(big, big)[0, 0] == np.inf


# -- accumulation -------------------------------------------------------------------------------------------------


def sums(steps, *, target="trn2", before=None, shape=(4, 8), dtype=F32, **options):
    """Run matmuls with the flags ``steps`` into one PSUM tile; product i is 2^i everywhere."""

    def body(ones, y, out):
        ps = language.ndarray(shape, dtype, buffer=psum, name="acc")
        if before is not None:
            before(ps)
        for i, flag in enumerate(steps):
            isa.nc_matmul(dst=ps, stationary=ones, moving=y[:, i * shape[1] : (i + 1) * shape[1]], accumulate=flag)
        isa.tensor_copy(dst=out, src=ps)

    y = np.repeat(2.0 ** np.arange(len(steps)), shape[1])[None, :].astype(np.float32)
    return run(body, np.ones((1, shape[0]), np.float32), y, out=[(shape, dtype)], target=target, **options)


FLAGS = [
    ([False, True, True], 7),
    ([None, None, None], 7),
    ([False, None, True], 7),
    ([None, None, False], 4),
    ([False, False, True], 6),
    ([np.bool_(False), 1, 0], 4),
]


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("target", TARGETS)
@together(("steps", "total"), FLAGS)
def test_accumulate_flags_mean_what_they_say(steps, total, target, checks):
    assert (sums(steps, target=target, checks=checks) == total).all()


@pytest.mark.parametrize("target", TARGETS)
def test_zeros_declare_a_sum_that_the_first_matmul_overwrites(target):
    zero = lambda ps: isa.memset(dst=ps, value=0.0)  # noqa: E731
    assert (sums([None, None], target=target, before=zero) == 3).all()


@pytest.mark.parametrize("target", TARGETS)
def test_accumulating_on_zeros_warns_before_trn3(target):
    zero = lambda ps: isa.memset(dst=ps, value=0.0)  # noqa: E731
    if target == "trn3":
        assert (sums([True, True], target=target, before=zero) == 3).all()
        return
    with pytest.warns(trnsim.ZerosAccumulated, match=f"acc.*on {target} starts with .*accumulate=False") as caught:
        assert (sums([True, True], target=target, before=zero) == 3).all()
    assert len(caught) == 1


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_accumulating_on_zeros_and_one_other_value_is_refused(target):
    def almost(ps):
        isa.memset(dst=ps, value=0.0)
        isa.memset(dst=ps[:, 7:8], value=1.0)

    with pytest.raises(PsumRule, match="was written by another engine"):
        sums([True], target=target, before=almost)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize("flag", [True, None])
def test_values_of_other_engines_are_not_accumulated_on_before_trn3(target, flag):
    with pytest.raises(PsumRule) as caught:
        sums([flag], target=target, before=lambda ps: isa.memset(dst=ps, value=5.0))
    assert caught.value.rule == "psum-accumulate"
    assert caught.value.limit
    assert target in str(caught.value)


def test_trn3_accumulates_on_what_other_engines_wrote():
    five = lambda ps: isa.memset(dst=ps, value=5.0)  # noqa: E731
    assert (sums([True, True], target="trn3", before=five) == 8).all()
    assert (sums([None, True], target="trn3", before=five) == 8).all()
    assert (sums([False, True], target="trn3", before=five) == 3).all()


@pytest.mark.parametrize("target", TARGETS)
def test_accumulating_on_memory_nobody_wrote_is_refused_everywhere(target):
    with pytest.raises(PsumRule) as caught:
        sums([True], target=target)
    assert "was never written (32 of 32 such)" in str(caught.value)
    assert "accumulate=(k > 0)" in caught.value.hint
    with pytest.raises(PsumRule, match=r"element \(0, 4\) .* \(16 of 32 such\)"):
        sums([True], target=target, before=lambda ps: _one(ps[:, 0:4]))


def _one(ps):
    x = language.ndarray((1, ps.shape[0]), np.float32)
    y = language.ndarray((1, ps.free_size), np.float32)
    isa.memset(dst=x, value=1.0)
    isa.memset(dst=y, value=1.0)
    isa.nc_matmul(dst=ps, stationary=x, moving=y, accumulate=False)


def test_a_memset_in_the_middle_ends_a_sum():
    with pytest.raises(PsumRule, match="written by another engine"):
        sums([True], before=lambda ps: (_one(ps), isa.memset(dst=ps[:, 3:4], value=0.0)))
    assert (sums([None], before=lambda ps: (_one(ps), isa.memset(dst=ps, value=0.0))) == 1).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("address", [None, (0, 2048)])
def test_overlapping_destinations_accumulate_element_by_element(target, address):
    """A convolution: each tap adds to a shifted window of the output."""
    x, w = tile((8, 20), F32, 1), tile((8, 3, 5), F32, 2)

    def body(x, w, out):
        ps = language.ndarray((5, 18), np.float32, buffer=psum, address=address)
        for tap in range(3):
            isa.nc_matmul(dst=ps, stationary=w[:, tap], moving=x[:, tap : tap + 18])
        full = language.ndarray((5, 22), np.float32, buffer=psum, address=None if address is None else (0, 4096))
        for tap in range(3):
            isa.nc_matmul(dst=full[:, tap : tap + 20], stationary=w[:, tap], moving=x)
        isa.tensor_copy(dst=out[:, 0:18], src=ps)
        isa.tensor_copy(dst=out[:, 18:40], src=full)

    out = run(body, x, w, out=[((5, 40), F32)], target=target)
    valid, full = np.zeros((5, 18)), np.zeros((5, 22))
    for tap in range(3):
        part = w[:, tap].astype(np.float64).T @ x
        valid += part[:, tap : tap + 18]
        full[:, tap : tap + 20] += part
    np.testing.assert_allclose(out[:, :18], valid, atol=24 * 2.0**-24 * 30)
    np.testing.assert_allclose(out[:, 18:], full, atol=24 * 2.0**-24 * 30)


def test_bf16_psum_adds_in_fp32_and_rounds_each_time_on_trn3():
    def bf16(x):
        return np.float32(x).astype(BF16).astype(np.float32)

    def body(ones, y, out):
        ps = language.ndarray((2, 1), BF16, buffer=psum)
        for i in range(4):
            isa.nc_matmul(dst=ps, stationary=ones, moving=y[:, i : i + 1], accumulate=i > 0)
        isa.tensor_copy(dst=out, src=ps)

    y = np.array([[256.0, 1.0, 1.0, 0.7]], np.float32)
    expected = bf16(y[0, 0])
    for value in y[0, 1:]:
        expected = bf16(expected + value)
    out = run(body, np.ones((1, 2), np.float32), y, out=[((2, 1), BF16)], target="trn3")
    assert (out.astype(np.float32) == expected).all()


@pytest.mark.parametrize(("dst", "n"), [(F32, 4096), (BF16, 8192)])
def test_trn3_fills_all_of_psum_with_one_matmul(dst, n):
    a, b = tile((4, 2), BF16, 1), tile((4, n), BF16, 2)
    got = product(a, b, target="trn3", dst=dst)
    within(got, a, b, extra=2.0**-8 if dst == BF16 else 0.0)


# -- tiles of the array, double rows, promises --------------------------------------------------------------------

TILES = [
    ("trn1", (0, 0), (64, 64)),
    ("trn1", (64, 0), (64, 128)),
    ("trn2", (96, 32), (32, 32)),
    ("trn3", (64, 96), (64, 32)),
]


@pytest.mark.parametrize(("target", "position", "size"), TILES)
def test_tiles_of_the_array_change_no_value(target, position, size):
    a, b = tile((size[0], size[1]), BF16, 1), tile((size[0], 100), BF16, 2)
    within(product(a, b, target=target, tile_position=position, tile_size=size), a, b)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("mode", ["double_row", matmul_perf_mode.double_row])
def test_double_row_contracts_twice_the_rows(target, mode):
    for k, m, n in [(128, 128, 512), (1, 1, 3), (77, 9, 100)]:
        a, b = tile((k, 2, m), E4, k), tile((k, 2, n), E5, n)
        got = product(a, b, target=target, perf_mode=mode)
        within(got, a.reshape(2 * k, m), b.reshape(2 * k, n))
    assert product(
        tile((64, 2, 4), E5), tile((64, 2, 4), E5), perf_mode=mode, tile_position=(64, 0), tile_size=(64, 128)
    ).any()


def test_onezero_is_a_promise_that_is_kept_or_refused():
    ones, b = (rng(1).random((16, 8)) > 0.5).astype(np.float32), tile((16, 32), F32, 2)
    within(product(ones, b, is_stationary_onezero=True), ones, b)
    within(product(b, ones, is_moving_onezero=True), b, ones)
    with pytest.raises(WrongArgument) as caught:
        product(b, ones, is_stationary_onezero=True)
    assert caught.value.rule == "onezero"
    assert "element (0, 0) of stationary" in str(caught.value)
    # without effect on other dtypes
    half = b.astype(BF16)
    within(product(half, half, is_stationary_onezero=True, is_moving_onezero=True), half, half)


# -- transposes ---------------------------------------------------------------------------------------------------


def nasty(shape, dtype, seed=0):
    """Random bits: NaNs with payloads, infinities, subnormals."""
    width = np.dtype(dtype).itemsize
    return rng(seed).integers(0, 256, (*shape, width), np.uint8).view(dtype)[..., 0]


def same_bits(a, b):
    width = a.dtype.itemsize
    np.testing.assert_array_equal(a.view(f"u{width}"), np.ascontiguousarray(b).view(f"u{width}"))


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@together("dtype", [F32, BF16, F16, E4, E5])
def test_transpose_mode_moves_every_bit_pattern(dtype, target):
    x = nasty((100, 60), dtype)

    def body(x, eye, out):
        ps = language.ndarray((60, 100), dtype, buffer=psum)
        isa.nc_matmul(dst=ps, stationary=x, moving=eye, is_transpose=True)
        isa.tensor_copy(dst=out, src=ps)

    out = run(body, x, np.eye(100, dtype=dtype), out=[((60, 100), dtype)], target=target)
    same_bits(out, x.T)


def test_transpose_mode_selects_rows_by_ones():
    x = nasty((6, 5), F32)
    pick = np.zeros((6, 4), np.float32)
    pick[[3, 0, 3], [0, 1, 3]] = 1

    def body(x, pick, out):
        ps = language.ndarray((5, 4), np.float32, buffer=psum)
        isa.nc_matmul(dst=ps, stationary=x, moving=pick, is_transpose=True)
        isa.tensor_copy(dst=out, src=ps)

    expected = np.zeros((5, 4), np.float32)
    expected[:, [0, 1, 3]] = x[[3, 0, 3]].T
    same_bits(run(body, x, pick, out=[((5, 4), F32)]), expected)
    with pytest.raises(NotModelled, match="no identity"):
        run(body, x, np.ones((6, 4), np.float32), out=[((5, 4), F32)])


def test_trn1_transposes_by_multiplying():
    x = tile((8, 6), F32)
    x[2, 3] = np.inf

    def body(x, eye, out):
        for ps, dtype in ((language.ndarray((6, 8), np.float32, buffer=psum), F32),):
            isa.nc_matmul(dst=ps, stationary=x, moving=eye, is_transpose=True)
            isa.tensor_copy(dst=out[:, 0:8], src=ps)
            isa.nc_transpose(dst=ps, data=x)
            isa.tensor_copy(dst=out[:, 8:16], src=ps)
            assert dtype == ps.dtype

    out = run(body, x, np.eye(8, dtype=np.float32), out=[((6, 16), F32)], target="trn1")
    for got in (out[:, :8], out[:, 8:]):
        rows = [0, 1, 2, 4, 5]
        np.testing.assert_array_equal(got[rows], x.T[rows])
        assert got[3, 2] == np.inf
        assert np.isnan(np.delete(got[3], 2)).all()


ALL = [
    "float32",
    "bfloat16",
    "float16",
    "float8_e4m3",
    "float8_e5m2",
    "int8",
    "int16",
    "int32",
    "uint8",
    "uint16",
    "uint32",
]


@together("name", ALL)
@pytest.mark.parametrize("target", TARGETS)
def test_nc_transpose_of_every_dtype(name, target):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    x = rng(1).integers(0, 100, (96, 70)).astype(np.float32).astype(dtype)

    def body(x, out, small):
        ps = language.ndarray((70, 96), dtype, buffer=psum)
        isa.nc_transpose(dst=ps, data=x.reshape((96, 7, 10)))
        isa.tensor_copy(dst=out, src=ps)
        isa.nc_transpose(small, x[0:32, 5:14], engine.vector)

    out, small = run(body, x, out=[((70, 96), dtype), ((9, 32), dtype)], target=target)
    same_bits(out, x.T)
    same_bits(small, x[:32, 5:14].T)


def test_nc_transpose_keeps_bits_from_trn2_on_and_on_the_vector_engine():
    for dtype in (F32, BF16, E5):
        x = nasty((32, 31), dtype)

        def body(x, out, small, dtype=dtype):
            ps = language.ndarray((31, 32), dtype, buffer=psum)
            isa.nc_transpose(dst=ps, data=x)
            isa.tensor_copy(dst=out, src=ps)
            isa.nc_transpose(dst=small, data=x)

        out, small = run(body, x, out=[((31, 32), dtype), ((31, 32), dtype)])
        same_bits(out, x.T)
        same_bits(small, x.T)


def records(body, *inputs, **options):
    trace = []
    run(body, *inputs, trace=trace, **options)
    return trace


def test_records_say_what_a_cost_law_needs():
    def body(x, y, eye):
        ps = language.ndarray((16, 32), np.float32, buffer=psum)
        isa.nc_matmul(
            dst=ps, stationary=x, moving=y, tile_position=(0, 0), tile_size=(64, 128), is_moving_onezero=False
        )
        isa.nc_matmul(ps, x, y, False, False)
        ts = language.ndarray((16, 8), np.float32, buffer=psum)
        isa.nc_matmul(dst=ts, stationary=x, moving=eye, is_transpose=True)
        isa.nc_transpose(dst=ts, data=x)
        isa.nc_transpose(dst=language.ndarray((16, 8), np.float32), data=x)

    trace = records(body, tile((8, 16), F32), tile((8, 32), F32), np.eye(8, dtype=np.float32))
    first, second, third, fourth, fifth = trace[3:]
    assert (first.engine, first.name) == ("tensor", "nc_matmul")
    assert first.cost == {
        "k": 8,
        "m": 16,
        "n": 32,
        "is_transpose": False,
        "accumulate": False,
        "perf_mode": "none",
        "tile_position": (0, 0),
        "tile_size": (64, 128),
        "onezero": (False, False),
    }
    assert second.cost["accumulate"] is True
    assert second.cost["tile_size"] is None
    assert third.cost["is_transpose"] is True
    assert (fourth.engine, fifth.engine) == ("tensor", "vector")
    assert [o.buffer for o in first.reads] == ["sbuf", "sbuf"]
    assert [o.buffer for o in first.writes] == ["psum"]


def test_timing_only_mode_checks_shapes_and_touches_no_values():
    def body(x, y):
        ps = language.ndarray((16, 32), np.float32, buffer=psum)
        isa.nc_matmul(dst=ps, stationary=x, moving=y)
        isa.nc_matmul(dst=ps, stationary=x, moving=y, accumulate=True)
        isa.nc_matmul(dst=ps, stationary=x, moving=y)

    for numerics in (True, False):
        trace = records(body, tile((8, 16), F32), tile((8, 32), F32), numerics=numerics)
        assert [r.name for r in trace[2:]] == ["nc_matmul"] * 3
        assert [r.cost["accumulate"] for r in trace[2:]] == [False, True, True]

    def bad(x, y):
        isa.nc_matmul(dst=language.ndarray((16, 31), np.float32, buffer=psum), stationary=x, moving=y)

    with pytest.raises(WrongShape, match=r"the product is \[16, 32\]"):
        records(bad, tile((8, 16), F32), tile((8, 32), F32), numerics=False)


# -- refusals -----------------------------------------------------------------------------------------------------


def mm(k=8, m=4, n=6, *, first=F32, second=F32, dst=F32, shape=None, cut=None, **options):
    """A body that makes its own operands, for refusals that depend on their shapes and dtypes."""

    def body():
        shapes = [(k, *(m if isinstance(m, tuple) else (m,))), (k, *(n if isinstance(n, tuple) else (n,)))]
        operands = []
        for size, dtype in zip(shapes, (first, second), strict=True):
            t = language.ndarray(size, dtype)
            isa.memset(dst=t, value=0)
            operands.append(t)
        if cut:
            operands[1] = operands[1][0:cut]
        out = shape or (np.prod(shapes[0][1:]), np.prod(shapes[1][1:]))
        ps = language.ndarray(tuple(int(x) for x in out), dst, buffer=psum)
        isa.nc_matmul(dst=ps, stationary=operands[0], moving=operands[1], **options)

    return body


REFUSED = [
    (mm(cut=7), {}, WrongShape, "contraction", "moving has 7 partitions and stationary has 8"),
    (mm(m=129, shape=(128, 6)), {}, WrongShape, "stationary-limit", "129 columns, and the tile of the array has 128"),
    (mm(n=513), {}, WrongShape, "moving-limit", "513 columns, and trn2 takes 512"),
    (mm(n=513), {"target": "trn1"}, WrongShape, "moving-limit", "trn1 takes 512"),
    (mm(n=4097, shape=(4, 4096)), {"target": "trn3"}, WrongShape, "matmul-dst", "[4, 4097]"),
    (mm(shape=(4, 5)), {}, WrongShape, "matmul-dst", "dst (ps) has shape (4, 5), and the product is [4, 6]"),
    (mm(shape=(6, 4)), {}, WrongShape, "matmul-dst", "partition for each column of stationary"),
    (mm(first=F32, second=BF16), {}, WrongDtype, "matmul-mix", "float32 and moving is bfloat16"),
    (mm(first=E4, second=E4FN), {"target": "trn3"}, WrongDtype, "matmul-mix", "two e4m3 formats"),
    (mm(first=np.dtype("i4")), {}, WrongDtype, "matmul-dtype", "stationary (t) is int32"),
    (mm(second=np.dtype("u1")), {}, WrongDtype, "matmul-dtype", "moving (t) is uint8"),
    (mm(first=E4FN, second=E4FN), {"target": "trn2"}, WrongEngine, "generation", "float8_e4m3fn, which trn2 lacks"),
    (mm(dst=BF16), {}, WrongDtype, "matmul-dst-dtype", "bfloat16, and trn2 writes float32"),
    (mm(dst=F16), {"target": "trn3"}, WrongDtype, "matmul-dst-dtype", "float32 or bfloat16"),
    (mm(dst=language.tfloat32), {}, WrongDtype, "matmul-dst-dtype", "tfloat32"),
    (mm(k=64, tile_position=(0, 0), tile_size=(32, 128)), {}, WrongShape, "contraction-limit", "64 partitions"),
    (mm(m=64, tile_position=(0, 0), tile_size=(128, 32)), {}, WrongShape, "stationary-limit", "64 columns"),
    (mm(tile_position=(0, 0), tile_size=(32, 64)), {"target": "trn1"}, HardwareLimit, "tile-size", "32 rows, and trn1"),
    (mm(tile_position=(0, 0), tile_size=(64, 48)), {}, HardwareLimit, "tile-size", "48 columns"),
    (mm(tile_position=(32, 0), tile_size=(64, 128)), {}, HardwareLimit, "tile-position", "row 32 with a tile of 64"),
    (mm(tile_position=(0, 128), tile_size=(64, 64)), {}, HardwareLimit, "tile-position", "column 128"),
    (mm(tile_position=(0, 0)), {}, WrongArgument, "tiling", "tile_size is missing"),
    (mm(tile_size=(64, 64)), {}, WrongArgument, "tiling", "tile_position is missing"),
    (mm(tile_position=(0,), tile_size=(64, 64)), {}, WrongArgument, "tiling", "tile_position is missing or no pair"),
    (mm(perf_mode="triple"), {}, WrongArgument, "perf_mode", "double_row"),
    (mm(accumulate="yes"), {}, WrongArgument, "accumulate", "'yes'"),
    (mm(perf_mode="double_row"), {}, WrongDtype, "double-row-dtype", "float32, and double_row takes fp8"),
    (
        mm(m=(2, 3), n=(2, 3), first=E4, second=E4, shape=(3, 3), perf_mode="double_row"),
        {"target": "trn1"},
        WrongEngine,
        "generation",
        "which trn1 lacks",
    ),
    (
        mm(m=(4, 3), n=(2, 3), first=E4, second=E4, shape=(6, 3), perf_mode="double_row"),
        {},
        WrongShape,
        "double-row-shape",
        "(8, 4, 3), and double_row takes [K, 2, …]",
    ),
    (
        mm(
            m=(2, 3),
            n=(2, 3),
            first=E4,
            second=E4,
            shape=(3, 3),
            perf_mode="double_row",
            tile_position=(0, 0),
            tile_size=(128, 64),
        ),
        {},
        HardwareLimit,
        "double-row-tiling",
        "column tiles of 64",
    ),
    (
        mm(m=(2, 3), n=(2, 3), first=E4, second=E4, shape=(3, 3), dst=E4, perf_mode="double_row", is_transpose=True),
        {},
        WrongArgument,
        "double-row-transpose",
        "is_transpose=True",
    ),
    (mm(m=4, n=8, first=BF16, second=BF16, is_transpose=True), {}, WrongDtype, "transpose-dtype", "a transpose keeps"),
    (mm(n=8, is_transpose=True, accumulate=True), {}, WrongArgument, "transpose-accumulate", "adds nothing"),
]


@together(("body", "options", "error", "rule", "says"), REFUSED)
def test_nc_matmul_refuses(body, options, error, rule, says):
    found = refused(error, rule, body, says=says, **options)
    assert found.instruction == "nc_matmul"
    assert found.hint


def test_operands_come_from_sbuf_and_products_go_to_psum():
    x = np.zeros((8, 4), np.float32)

    def from_psum(x, out):
        isa.nc_matmul(dst=out, stationary=x, moving=x)

    refused(WrongBuffer, "buffer", from_psum, x, psum=(0,), out=[((4, 4), F32, psum)], says="must be in SBUF")

    def to_sbuf(x, out):
        isa.nc_matmul(dst=out, stationary=x, moving=x)

    refused(WrongBuffer, "buffer", to_sbuf, x, out=[((4, 4), F32)], says="dst (out0) is in sbuf, and must be in PSUM")

    def from_hbm(x, out):
        far = language.ndarray((8, 4), np.float32, buffer=language.hbm)
        isa.nc_matmul(dst=out, stationary=x, moving=far)

    refused(WrongBuffer, "buffer", from_hbm, x, out=[((4, 4), F32, psum)], says="moving (far) is in private_hbm")


def test_operands_start_at_quadrants_and_are_written_before():
    x = np.zeros((64, 4), np.float32)

    def low(x, out):
        isa.nc_matmul(dst=out, stationary=x[16:48], moving=x[16:48])

    refused(HardwareLimit, "start-partition", low, x, out=[((4, 4), F32, psum)], says="16..48")

    def fresh(x, out):
        isa.nc_matmul(dst=out, stationary=x, moving=language.ndarray((64, 4), np.float32))

    refused(ReadUninitialized, "uninitialized", fresh, x, out=[((4, 4), F32, psum)], says="moving reads")


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_a_product_stays_in_one_psum_bank_before_trn3(target):
    def body(x, y):
        ps = language.ndarray((4, 2048), np.float32, buffer=psum, name="four_banks")
        isa.nc_matmul(dst=ps[:, 512:1024], stationary=x, moving=y)
        isa.nc_matmul(dst=ps[:, 300:812], stationary=x, moving=y)

    x, y = np.ones((8, 4), np.float32), np.ones((8, 512), np.float32)
    found = refused(PsumRule, "psum-bank", body, x, y, target=target, says=("banks 0 and 1", "multiples of 512"))
    assert found.got == (1200, 3247)

    def placed(x, y):
        ps = language.ndarray((4, 1024), np.float32, buffer=psum, address=(0, 2048))
        isa.nc_matmul(dst=ps[:, 256:768], stationary=x, moving=y)

    refused(PsumRule, "psum-bank", placed, x, y, target=target, says="3072..5119")
    run(body, x, y, target="trn3")
    run(placed, x, y, target="trn3")


def test_a_destination_that_repeats_an_address_is_not_modelled():
    def body(x, y):
        ps = language.ndarray((4, 8), np.float32, buffer=psum)
        isa.nc_matmul(dst=ps.ap([[8, 4], [0, 2], [1, 3]]), stationary=x, moving=y)

    refused(NotModelled, "dst-overlap", body, np.ones((8, 4), np.float32), np.ones((8, 6), np.float32), says="twice")


TRANSPOSES = [
    ((32, 32), F32, (32, 32), BF16, psum, "unknown", WrongDtype, "transpose-dtype", "keeps the dtype"),
    ((32, 16), F32, (32, 16), F32, psum, "unknown", WrongShape, "transpose-shape", "[32, 16]"),
    ((64, 32), F32, (32, 64), F32, language.sbuf, "unknown", WrongShape, "transpose-limit", "up to 32×32"),
    (
        (64, 32),
        F32,
        (32, 64),
        F32,
        psum,
        "vector",
        WrongShape,
        "transpose-limit",
        "Vector Engine transposes up to 32×32",
    ),
    ((64, 32), F32, (32, 64), F32, language.sbuf, "tensor", WrongBuffer, "buffer", "writes PSUM"),
    ((32, 32), F32, (32, 32), F32, psum, "gpsimd", WrongEngine, "engine", "engine.gpsimd"),
]


@together(("shape", "dtype", "into", "kept", "where", "name", "error", "rule", "says"), TRANSPOSES)
def test_nc_transpose_refuses(shape, dtype, into, kept, where, name, error, rule, says):
    def body(x, out):
        isa.nc_transpose(dst=out, data=x, engine=engine[name])

    refused(error, rule, body, np.zeros(shape, dtype), out=[(into, kept, where)], says=says)


def test_nc_transpose_limits_of_the_tensor_engine():
    def wide(x):
        isa.nc_transpose(dst=language.ndarray((128, 64), np.float32, buffer=psum), data=x)

    refused(WrongShape, "transpose-shape", wide, np.zeros((64, 200), np.float32), says="[64, 200]")

    def from_psum(x, out):
        isa.nc_transpose(dst=out, data=x, engine=engine.tensor)

    refused(
        WrongBuffer,
        "buffer",
        from_psum,
        np.zeros((8, 8), np.float32),
        psum=(0,),
        out=[((8, 8), F32, psum)],
        says="reads SBUF",
    )


# -- tensor indirection on trn3 -----------------------------------------------------------------------------------


def test_indirect_operands_pick_columns_by_groups_of_32():
    x, y = tile((64, 40), BF16, 1), tile((64, 50), BF16, 2)
    index = rng(3).integers(0, 40, (64, 1)).astype(np.int32)

    def body(x, y, index, out, spread):
        ps = language.ndarray((20, 50), np.float32, buffer=psum)
        isa.nc_matmul(dst=ps, stationary=x.indirect(index, 20), moving=y)
        isa.tensor_copy(dst=out, src=ps)
        wide = language.ndarray((32, 60), np.float32, buffer=psum)
        zeros = language.ndarray((64, 60), BF16)
        isa.memset(dst=zeros, value=0)
        isa.nc_matmul(dst=wide, stationary=x[:, 0:32], moving=zeros)
        into = language.ndarray((32, 1), np.int32)
        isa.iota(dst=into, pattern=[[0, 1]], offset=7, channel_multiplier=1)
        isa.nc_matmul(dst=wide.indirect(into, 30), stationary=x[:, 0:32], moving=y[:, 0:30])
        isa.tensor_copy(dst=spread, src=wide)

    out, spread = run(body, x, y, index, out=[((20, 50), F32), ((32, 60), F32)], target="trn3")
    picked = np.concatenate([x[:32, index[:20, 0]], x[32:, index[32:52, 0]]])
    within(out, picked, y)
    within(spread[:, 7:37], x[:, :32], y[:, :30])
    assert not spread[:, :7].any()
    assert not spread[:, 37:].any()


def test_rules_of_indirect_operands():
    x, index = np.zeros((32, 16), np.float32), np.zeros((32, 1), np.int32)

    def body(x, index, out, dtype=BF16, **options):
        t = language.ndarray((32, 16), dtype)
        isa.memset(dst=t, value=0)
        isa.nc_matmul(dst=out, stationary=t.indirect(index, 16), moving=t, **options)

    out = [((16, 16), F32, psum)]
    refused(WrongEngine, "generation", body, x, index, out=out, target="trn2", says=".indirect()")
    refused(
        WrongDtype,
        "indirect-dtype",
        lambda *a: body(*a, dtype=F32),
        x,
        index,
        out=out,
        target="trn3",
        says="is float32",
    )
    refused(
        HardwareLimit,
        "indirect-tiling",
        lambda *a: body(*a, tile_position=(32, 0), tile_size=(32, 128)),
        x,
        index,
        out=out,
        target="trn3",
        says="tile_position is (32, 0)",
    )

    def moving(x, index, out):
        eye = language.ndarray((32, 32), BF16)
        isa.memset(dst=eye, value=0)
        ps = language.ndarray((32, 16), BF16, buffer=psum)
        isa.nc_matmul(dst=ps, stationary=eye, moving=eye.indirect(index, 16), is_transpose=True)

    refused(WrongArgument, "indirect-transpose", moving, x, index, out=out, target="trn3", says="stationary operand")

    def placed(x, index, out):
        data = language.ndarray((32, 16), BF16, address=(0, 0))
        isa.memset(dst=data, value=0)
        far = language.ndarray((32, 1), np.int32, address=(32, 512))
        isa.memset(dst=far, value=0)
        isa.nc_matmul(dst=out, stationary=data.indirect(far, 16), moving=data)

    refused(
        HardwareLimit,
        "indirect-start",
        placed,
        x,
        index,
        out=out,
        target="trn3",
        says="partition 32, stationary (data) at 0",
    )


# -- the documented example, in our own words ---------------------------------------------------------------------


def tiled(aT, b):
    """A product whose contraction is four times as long as the array is high."""
    k, m = aT.shape
    _, n = b.shape
    ps = language.ndarray((m, n), np.float32, buffer=psum)
    for i in range(k // 128):
        a_sb = language.ndarray((128, m), aT.dtype)
        b_sb = language.ndarray((128, n), b.dtype)
        isa.dma_copy(dst=a_sb, src=aT[i * 128 : (i + 1) * 128])
        isa.dma_copy(dst=b_sb, src=b[i * 128 : (i + 1) * 128])
        isa.nc_matmul(dst=ps, stationary=a_sb, moving=b_sb, accumulate=(i > 0))
    out_sb = language.ndarray((m, n), np.float32)
    isa.tensor_copy(dst=out_sb, src=ps)
    out = language.ndarray((m, n), np.float32, buffer=language.shared_hbm)
    isa.dma_copy(dst=out, src=out_sb)
    return out


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("checks", [True, False])
def test_a_contraction_of_512_in_four_tiles(target, checks):
    a, b = tile((512, 96), BF16, 1), tile((512, 200), BF16, 2)
    within(trnsim.simulate(tiled, target=target, checks=checks, lint="off")(a, b), a, b)


def test_products_are_the_same_bits_every_time():
    a, b = tile((512, 96), F32, 1), tile((512, 200), F32, 2)
    once, again = (trnsim.simulate(tiled, lint="off")(a, b) for _ in range(2))
    same_bits(once, again)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("checks", [True, False])
def test_a_new_tensor_at_an_old_psum_address_starts_a_new_sum(target, checks):
    """Rotating through banks by hand: the address has a history, the tensor has none."""

    def body(x, y, out):
        for i in range(3):
            ps = language.ndarray((4, 2, 8), np.float32, buffer=psum, address=(0, 2048))
            for half in range(2):
                for _ in range(2):
                    isa.nc_matmul(dst=ps[:, half], stationary=x, moving=y[:, 8 * half : 8 * half + 8])
            isa.tensor_copy(dst=out[:, 16 * i : 16 * i + 16], src=ps)

    x, y = tile((8, 4), F32, 1), tile((8, 16), F32, 2)
    out = run(body, x, y, out=[((4, 48), F32)], target=target, checks=checks)
    for i in range(3):
        within(out[:, 16 * i : 16 * i + 16] / 2, x, y)


def test_tensors_that_share_an_address_share_an_explicit_sum():
    def body(x, y, out):
        for i in range(3):
            ps = language.ndarray((4, 16), np.float32, buffer=psum, address=(0, 0))
            isa.nc_matmul(dst=ps, stationary=x, moving=y, accumulate=i > 0)
        isa.tensor_copy(dst=out, src=ps)

    x, y = tile((8, 4), F32, 1), tile((8, 16), F32, 2)
    within(run(body, x, y, out=[((4, 16), F32)]) / 3, x, y, extra=2.0**-22)


def test_a_broadcast_destination_is_not_modelled():
    def body(x, y):
        ps = language.ndarray((4, 1), np.float32, buffer=psum)
        isa.nc_matmul(dst=ps.broadcast(1, 6), stationary=x, moving=y)

    refused(NotModelled, "dst-overlap", body, np.ones((8, 4), np.float32), np.ones((8, 6), np.float32), says="twice")


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 11), st.integers(1, 12), st.sampled_from([None, True, False, "memset"])), max_size=7
    ),
    st.sampled_from([None, (0, 4096)]),
    st.sampled_from(["trn2", "trn3"]),
)
@pytest.mark.filterwarnings("ignore::trnsim.ZerosAccumulated")
def test_any_sequence_of_flags_and_windows_follows_the_element_rule(steps, address, target):
    """One element at a time: unwritten, written by another engine, or started by a matmul."""
    steps = [(start, min(width, 12 - start), flag) for start, width, flag in steps]
    values, state, legal = np.full(12, np.nan), ["unwritten"] * 12, True
    for i, (start, width, flag) in enumerate(steps):
        window = range(start, start + width)
        # zeros may be added to, with a warning
        zeros = all(values[e] == 0 for e in window)
        for e in window:
            holds = state[e] == "matmul" or (state[e] == "other" and target == "trn3")
            if flag == "memset":
                values[e], state[e] = 0, "other"
                continue
            if flag is True and not holds and not zeros:
                legal = False
            values[e] = values[e] + 2.0**i if (flag is True or (flag is None and holds)) else 2.0**i
            state[e] = "matmul"
        if not legal:
            break

    def body(ones, y, out):
        ps = language.ndarray((2, 12), np.float32, buffer=psum, address=address)
        for i, (start, width, flag) in enumerate(steps):
            part = ps[:, start : start + width]
            if flag == "memset":
                isa.memset(dst=part, value=0.0)
            else:
                isa.nc_matmul(dst=part, stationary=ones, moving=y[:, i : i + 1].broadcast(1, width), accumulate=flag)
        for e in range(12):
            if state[e] != "unwritten":
                isa.tensor_copy(dst=out[:, e : e + 1], src=ps[:, e : e + 1])
            else:
                isa.memset(dst=out[:, e : e + 1], value=float("nan"))

    y = 2.0 ** np.arange(8, dtype=np.float32)[None, :]
    inputs = (np.ones((1, 2), np.float32), y)
    if not legal:
        with pytest.raises(PsumRule):
            run(body, *inputs, out=[((2, 12), F32)], target=target)
    else:
        out = run(body, *inputs, out=[((2, 12), F32)], target=target)
        np.testing.assert_array_equal(out, np.stack([values, values]).astype(np.float32))
