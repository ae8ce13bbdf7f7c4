"""Microscaling: scales and packed bits against a scalar restatement of the rule, products against float64."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.together import together
from tests.trnsim.kernels import refused, rng, run
from trnsim import isa, language
from trnsim.errors import (
    HardwareLimit,
    PsumRule,
    ReadUninitialized,
    WrongArgument,
    WrongBuffer,
    WrongDtype,
    WrongEngine,
    WrongShape,
)
from trnsim.isa.mx import unpack
from trnsim.language import float4_e2m1fn_x4, float8_e4m3fn_x4, float8_e5m2_x4, psum

F32, U8, U16, U32 = (np.dtype(n) for n in ("f4", "u1", "u2", "u4"))
BF16, F16 = np.dtype(ml_dtypes.bfloat16), np.dtype("f2")
E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
ELEMENT = {
    float8_e4m3fn_x4: (np.dtype(ml_dtypes.float8_e4m3fn), 8, 448.0),
    float8_e5m2_x4: (np.dtype(ml_dtypes.float8_e5m2), 15, 57344.0),
}
FP8 = list(ELEMENT)


def expected_scale(group, dtype):
    """The biased exponent of a group's scale, by the documented formula in Python floats."""
    largest = max(abs(float(v)) for v in group)
    if largest == 0:
        return 0
    return max(0, math.floor(math.log2(largest)) - (ELEMENT[dtype][1] - 1) + 127)


def expected(x, dtype):
    """Packed words [P, F/4] and scales [P/8, F/4], element by element."""
    element, _, _ = ELEMENT[dtype]
    p, f = x.shape
    words, scales = np.zeros((p, f // 4), np.uint32), np.zeros((p // 8, f // 4), np.uint8)
    for i in range(p // 8):
        for j in range(f // 4):
            group = x[8 * i : 8 * i + 8, 4 * j : 4 * j + 4].astype(np.float64)
            scales[i, j] = expected_scale(group.reshape(-1), dtype)
            divided = (group / 2.0 ** (int(scales[i, j]) - 127)).astype(np.float32).astype(element).view(np.uint8)
            for r in range(8):
                words[8 * i + r, j] = sum(int(divided[r, c]) << (8 * c) for c in range(4))
    return words, scales


def quantize(x, dtype, scale=U8, rows=None):
    """Words and scales as quantize_mx leaves them; unwritten scale rows come back as 170."""
    p, f = x.shape

    def body(x, words, scales):
        data = language.ndarray((p, f // 4), dtype)
        exponents = language.ndarray((rows or p, f // 4), scale)
        isa.memset(dst=exponents.view(np.uint8), value=170)
        isa.quantize_mx(dst=data, src=x, dst_scale=exponents)
        isa.dma_copy(dst=words, src=data.view(np.uint32))
        isa.dma_copy(dst=scales, src=exponents.view(np.uint8))

    return run(body, x, out=[((p, f // 4), U32), ((rows or p, f // 4), U8)], target="trn3")


def contiguous(scales, p):
    """The rows of a scale tile that hold scales, quadrant by quadrant."""
    return np.concatenate([scales[32 * q : 32 * q + 4] for q in range(p // 32)])


@pytest.mark.parametrize("scale", [U8, E8M0], ids=str)
@pytest.mark.parametrize("source", [BF16, F16], ids=str)
@pytest.mark.parametrize("dtype", FP8, ids=str)
def test_quantize_writes_the_documented_bits(dtype, source, scale):
    for p, f in [(32, 4), (64, 20), (128, 48)]:
        x = (rng(p).standard_normal((p, f)) * 2.0 ** rng(f).integers(-20, 15, (p, f))).astype(np.float32).astype(source)
        x[8:16, :4] = 0
        words, scales = quantize(x, dtype, scale)
        want_words, want_scales = expected(x, dtype)
        np.testing.assert_array_equal(words, want_words)
        np.testing.assert_array_equal(contiguous(scales, p), want_scales)
        used = [r for r in range(p) if r % 32 < 4]
        assert (np.delete(scales, used, axis=0) == 170).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 65535), min_size=128, max_size=128), st.sampled_from(FP8))
def test_every_finite_bf16_group_quantizes_by_the_rule(bits, dtype):
    x = np.array(bits, np.uint16).view(BF16).reshape(32, 4)
    x[~np.isfinite(x.astype(np.float32))] = 0
    words, scales = quantize(x, dtype)
    want_words, want_scales = expected(x, dtype)
    np.testing.assert_array_equal(contiguous(scales, 32), want_scales)
    np.testing.assert_array_equal(words, want_words)


def test_the_largest_values_round_up_instead_of_saturating():
    """The scale is twice the one of the OCP sample algorithm, which would clamp 1.9·2^e to 1.75·2^e."""
    x = np.full((32, 4), 1.9375, np.float32).astype(BF16)
    words, scales = quantize(x, float8_e4m3fn_x4)
    values = unpack(words[:, :1], float8_e4m3fn_x4)[:, 0] * 2.0 ** (int(scales[0, 0]) - 127)
    assert (values == 2.0).all()
    assert scales[0, 0] == 127 - 7


def test_infinities_saturate_and_nans_stay():
    x = np.ones((32, 4), np.float32)
    x[0, 0], x[9, 1], x[16] = np.inf, np.nan, 3e38
    words, scales = quantize(x.astype(BF16), float8_e5m2_x4)
    values = unpack(words, float8_e5m2_x4)[:, 0]
    assert values[0, 0] == 57344
    assert np.isnan(values[9, 1])
    assert np.isfinite(values[16]).all()
    assert scales[0, 0] == scales[1, 0] == 255 - 14


def test_scales_of_one_quadrant_fit_into_four_partitions():
    x = rng(1).standard_normal((32, 16)).astype(BF16)
    _, scales = quantize(x, float8_e4m3fn_x4, rows=4)
    np.testing.assert_array_equal(scales, expected(x, float8_e4m3fn_x4)[1])


def test_four_scale_tiles_share_the_quadrants_of_one():
    x = rng(1).standard_normal((4, 128, 8)).astype(BF16)

    def body(a, b, c, d, out):
        packed = language.ndarray((128, 2), np.uint8)
        for i, tile in enumerate((a, b, c, d)):
            isa.quantize_mx(dst=language.ndarray((128, 2), float8_e5m2_x4), src=tile, dst_scale=packed[4 * i :, :])
        for q in range(4):
            isa.dma_copy(dst=out[16 * q : 16 * q + 16], src=packed[32 * q : 32 * q + 16])

    out = run(body, *x, out=[((64, 2), U8)], target="trn3")
    for i in range(4):
        want = expected(x[i], float8_e5m2_x4)[1]
        got = np.concatenate([out[16 * q + 4 * i : 16 * q + 4 * i + 4] for q in range(4)])
        np.testing.assert_array_equal(got, want)


# -- products -----------------------------------------------------------------------------------------------------


def packed_tile(k, f, dtype, seed):
    """Random packed words, scales [k/8, f], and the exact values they stand for [k, 4, f]."""
    g = rng(seed)
    if dtype is float4_e2m1fn_x4:
        words = g.integers(0, 65536, (k, f), np.uint16)
        codes = np.stack([(words >> (4 * i)) & 15 for i in range(4)], axis=1).astype(np.uint8)
        values = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    else:
        codes = g.standard_normal((k, 4, f)).astype(np.float32).astype(ELEMENT[dtype][0])
        words = np.ascontiguousarray(codes.transpose(0, 2, 1)).view(np.uint32)[..., 0]
        values = codes.astype(np.float64)
    scales = g.integers(120, 134, (k // 8, f), np.uint8)
    factor = 2.0 ** (np.repeat(scales, 8, axis=0).astype(np.float64) - 127)
    return words, scales, values * factor[:, None, :]


def spread(scales, k, offset=0, columns=None):
    """Scales in the layout of hardware: 4 rows of each quadrant."""
    out = np.zeros((k if k > 32 or offset else 4, columns or scales.shape[1]), np.uint8)
    for q in range(k // 32):
        out[32 * q + offset : 32 * q + offset + 4, : scales.shape[1]] = scales[4 * q : 4 * q + 4]
    return out


MIXES = [
    (float8_e4m3fn_x4, float8_e4m3fn_x4),
    (float8_e5m2_x4, float4_e2m1fn_x4),
    (float4_e2m1fn_x4, float4_e2m1fn_x4),
    (float8_e4m3fn_x4, float8_e5m2_x4),
]


def matmul(a, b, sa, sb, first, second, *, dst=F32, scale=U8, **options):
    m, n = a.shape[1], b.shape[1]

    def body(x, y, sx, sy, out):
        ps = language.ndarray((m, n), dst, buffer=psum)
        isa.nc_matmul_mx(
            dst=ps,
            stationary=x.view(first),
            moving=y.view(second),
            stationary_scale=sx.view(scale),
            moving_scale=sy.view(scale),
            **options,
        )
        isa.tensor_copy(dst=out, src=ps)

    return run(body, a, b, sa, sb, out=[((m, n), dst)], target="trn3")


def exact(x, y):
    """Σ over partitions and packed elements, and the same of magnitudes."""
    total = np.einsum("kqm,kqn->mn", x, y)
    return total, np.einsum("kqm,kqn->mn", np.abs(x), np.abs(y))


@together(("first", "second"), MIXES)
@pytest.mark.parametrize("shape", [(128, 128, 512), (32, 2, 1), (64, 10, 33), (96, 6, 100)])
def test_products_are_exact_up_to_fp32_sums(first, second, shape):
    k, m, n = shape
    a, sa, x = packed_tile(k, m, first, 1)
    b, sb, y = packed_tile(k, n, second, 2)
    total, size = exact(x, y)
    got = matmul(a, b, spread(sa, k), spread(sb, k), first, second)
    assert (np.abs(got - total) <= 4 * k * 2.0**-24 * size + 1e-40).all()
    got = matmul(a, b, spread(sa, k), spread(sb, k), first, second, scale=E8M0, dst=BF16)
    assert (np.abs(got.astype(np.float64) - total) <= (4 * k * 2.0**-24 + 2.0**-8) * size).all()


def test_scale_tiles_may_be_packed_and_wider_than_the_data():
    k, m, n = 128, 8, 16
    a, sa, x = packed_tile(k, m, float8_e4m3fn_x4, 1)
    b, sb, y = packed_tile(k, n, float8_e5m2_x4, 2)
    both = spread(sa, k, 0, 32) + spread(sb, k, 4, 32)
    total, size = exact(x, y)

    def body(x, y, s, out):
        ps = language.ndarray((m, n), np.float32, buffer=psum)
        isa.nc_matmul_mx(ps, x.view(float8_e4m3fn_x4), y.view(float8_e5m2_x4), s[0:, :], s[4:, 0:n])
        isa.tensor_copy(dst=out, src=ps)

    got = run(body, a, b, both, out=[((m, n), F32)], target="trn3")
    assert (np.abs(got - total) <= 4 * k * 2.0**-24 * size).all()


def test_extreme_scales_cancel_and_a_scale_of_nan_spoils_its_group():
    k = 32
    a, sa, _ = packed_tile(k, 2, float8_e4m3fn_x4, 1)
    b, sb, _ = packed_tile(k, 3, float8_e4m3fn_x4, 2)
    sa[...], sb[...] = 254, 0
    plain = matmul(a, b, spread(np.full_like(sa, 127), k), spread(np.full_like(sb, 127), k), *MIXES[0])
    np.testing.assert_array_equal(matmul(a, b, spread(sa, k), spread(sb, k), *MIXES[0]), plain)
    sa[...], sb[...] = 127, 127
    sa[1, 0] = 255
    got = matmul(a, b, spread(sa, k), spread(sb, k), *MIXES[0])
    assert np.isnan(got[0]).all()
    assert np.isfinite(got[1]).all()


def test_accumulation_follows_the_rules_of_psum():
    k = 64
    a, sa, x = packed_tile(k, 4, float8_e4m3fn_x4, 1)
    b, sb, y = packed_tile(k, 6, float8_e4m3fn_x4, 2)
    total, size = exact(x, y)

    def body(x, y, sx, sy, out, flags=(False, True, None)):
        ps = language.ndarray((4, 6), np.float32, buffer=psum)
        operands = (x.view(float8_e4m3fn_x4), y.view(float8_e4m3fn_x4), sx, sy)
        for flag in flags:
            isa.nc_matmul_mx(ps, *operands, accumulate=flag)
        isa.tensor_copy(dst=out, src=ps)

    inputs = (a, b, spread(sa, k), spread(sb, k))
    got = run(body, *inputs, out=[((4, 6), F32)], target="trn3")
    assert (np.abs(got - 3 * total) <= 3 * 4 * k * 2.0**-24 * size).all()
    refused(
        PsumRule,
        "psum-accumulate",
        lambda *t: body(*t, flags=(True,)),
        *inputs,
        out=[((4, 6), F32)],
        target="trn3",
        says="was never written",
    )


def test_quantized_products_approximate_the_unquantized_ones():
    """Both operands quantised on the device, as attention does it."""
    x = rng(1).standard_normal((128, 4 * 16)).astype(BF16)
    y = rng(2).standard_normal((128, 4 * 40)).astype(BF16)

    def body(x, y, out):
        tiles = []
        for t in (x, y):
            data = language.ndarray((128, t.shape[1] // 4), float8_e4m3fn_x4)
            scale = language.ndarray((128, t.shape[1] // 4), language.float8_e8m0fnu)
            isa.quantize_mx(dst=data, src=t, dst_scale=scale)
            tiles += [data, scale]
        ps = language.ndarray((16, 40), np.float32, buffer=psum)
        isa.nc_matmul_mx(ps, tiles[0], tiles[2], tiles[1], tiles[3])
        isa.tensor_copy(dst=out, src=ps)

    got = run(body, x, y, out=[((16, 40), F32)], target="trn3")
    a, b = (t.astype(np.float64).reshape(128, -1, 4) for t in (x, y))
    total = np.einsum("kmq,knq->mn", a, b)
    size = np.einsum("kmq,knq->mn", np.abs(a), np.abs(b))
    # an element is off by 2⁻⁴ of itself, or by half the smallest subnormal of its group
    assert np.abs(got - total).max() <= (2.0**-3 + 2.0**-7) * size.max()
    assert np.abs(got - total).mean() <= 2.0**-6 * size.mean()


def test_rows_of_the_array_can_be_tiled():
    k = 32
    a, sa, x = packed_tile(k, 2, float4_e2m1fn_x4, 1)
    b, sb, y = packed_tile(k, 3, float4_e2m1fn_x4, 2)
    got = matmul(a, b, spread(sa, k), spread(sb, k), *MIXES[2], tile_position=(96, 0), tile_size=(32, 128))
    np.testing.assert_allclose(got, exact(x, y)[0], rtol=1e-5)


def test_indirect_pairs_gather_data_and_scales_alike():
    k = 64
    a, sa, x = packed_tile(k, 20, float8_e4m3fn_x4, 1)
    b, sb, y = packed_tile(k, 6, float8_e4m3fn_x4, 2)
    index = rng(3).integers(0, 20, (k, 1)).astype(np.int32)

    def body(a, b, sa, sb, index, out, other=None):
        ps = language.ndarray((8, 6), np.float32, buffer=psum)
        scale = sa.indirect(index, 8) if other is None else sa[:, 0:8]
        isa.nc_matmul_mx(ps, a.view(float8_e4m3fn_x4).indirect(index, 8), b.view(float8_e4m3fn_x4), scale, sb)
        isa.tensor_copy(dst=out, src=ps)

    inputs = (a, b, spread(sa, k), spread(sb, k), index)
    got = run(body, *inputs, out=[((8, 6), F32)], target="trn3")
    picked = np.concatenate([x[:32][..., index[:8, 0]], x[32:][..., index[32:40, 0]]])
    total, size = exact(picked, y)
    assert (np.abs(got - total) <= 4 * k * 2.0**-24 * size).all()
    refused(
        WrongArgument,
        "indirect-pair",
        lambda *t: body(*t, other=True),
        *inputs,
        out=[((8, 6), F32)],
        target="trn3",
        says="same index tile",
    )


# -- refusals -----------------------------------------------------------------------------------------------------


def mx(k=32, m=2, n=4, first=float8_e4m3fn_x4, second=float8_e4m3fn_x4, scale=U8, rows=None, dst=F32, **options):
    def body():
        operands = [language.ndarray((k, m), first), language.ndarray((k, n), second)]
        operands += [language.ndarray((rows or k, f), scale) for f in (m, options.pop("columns", n))]
        for t in operands:
            isa.memset(dst=t, value=0)
        ps = language.ndarray(options.pop("out", (m, n)), dst, buffer=psum)
        isa.nc_matmul_mx(ps, *operands, **options)

    return body


def quant(p=32, f=8, source=BF16, dtype=float8_e4m3fn_x4, scale=U8, rows=None, into=None, columns=None, start=0):
    def body():
        x = language.ndarray((p, f), source)
        isa.memset(dst=x, value=0)
        data = language.ndarray(into or (p, f // 4), dtype)
        scales = language.ndarray((rows or p + start, columns or f // 4), scale)[start:]
        isa.quantize_mx(dst=data, src=x, dst_scale=scales)

    return body


REFUSED = [
    ("nc_matmul_mx", mx(first=BF16), WrongDtype, "mx-dtype", "stationary (operands[0]) is bfloat16"),
    ("nc_matmul_mx", mx(scale=np.dtype("i4")), WrongDtype, "mx-scale-dtype", "int32"),
    ("nc_matmul_mx", mx(dst=F16), WrongDtype, "matmul-dst-dtype", "float16"),
    ("nc_matmul_mx", mx(k=48), WrongShape, "mx-partitions", "48 partitions"),
    ("nc_matmul_mx", mx(m=3), WrongShape, "mx-even", "3 columns"),
    ("nc_matmul_mx", mx(n=4098, out=(2, 4096)), WrongShape, "matmul-dst", "[2, 4098]"),
    ("nc_matmul_mx", mx(k=128, rows=16), WrongShape, "mx-scale-layout", "16 partitions, and 128 partitions"),
    ("nc_matmul_mx", mx(n=8, columns=4), WrongShape, "mx-scale-layout", "4 scales per partition"),
    ("nc_matmul_mx", mx(tile_position=(0, 64), tile_size=(32, 64)), HardwareLimit, "mx-tiling", "all columns"),
    ("nc_matmul_mx", mx(k=64, tile_position=(0, 0), tile_size=(32, 128)), WrongShape, "contraction-limit", "64"),
    ("quantize_mx", quant(source=F32), WrongDtype, "mx-dtype", "src (x) is float32"),
    ("quantize_mx", quant(dtype=float4_e2m1fn_x4), WrongDtype, "mx-dtype", "float4_e2m1fn_x4"),
    ("quantize_mx", quant(p=48), WrongShape, "mx-partitions", "48 partitions"),
    ("quantize_mx", quant(f=6, into=(32, 1)), WrongShape, "mx-free", "6 elements"),
    ("quantize_mx", quant(into=(32, 3)), WrongShape, "mx-dst", "packs into [32, 2]"),
    ("quantize_mx", quant(p=64, rows=8), WrongShape, "mx-scale-layout", "8 partitions, and 64"),
    ("quantize_mx", quant(columns=3), WrongShape, "mx-scale-layout", "3 scales"),
    ("quantize_mx", quant(scale=F16), WrongDtype, "mx-scale-dtype", "float16"),
    ("quantize_mx", quant(start=2), HardwareLimit, "mx-scale-start", "2 partitions into a quadrant"),
    ("quantize_mx", quant(start=16), HardwareLimit, "mx-scale-start", "0, 4, 8 and 12"),
]


@together(("name", "body", "error", "rule", "says"), REFUSED)
def test_mx_instructions_refuse(name, body, error, rule, says):
    found = refused(error, rule, body, target="trn3", says=says)
    assert found.instruction == name
    assert found.hint


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_mx_came_with_trn3(target):
    x = np.zeros((32, 4), BF16)

    def body(x, out):
        isa.quantize_mx(dst=out, src=x, dst_scale=x)

    refused(WrongEngine, "generation", body, x, out=[((32, 1), U32)], target=target, says="trn3")

    def product(x, out):
        isa.nc_matmul_mx(out, x, x, x, x)

    refused(WrongEngine, "generation", product, x, out=[((4, 4), F32, psum)], target=target, says="trn3")


def test_mx_data_and_scales_live_in_sbuf_in_the_same_quadrants():
    def from_psum(x, out):
        scale = language.ndarray((32, 1), np.uint8)
        isa.quantize_mx(dst=language.ndarray((32, 1), float8_e5m2_x4), src=x, dst_scale=scale)

    x = np.zeros((32, 4), BF16)
    refused(
        WrongBuffer, "buffer", from_psum, x, psum=(0,), out=[((1, 1), U8)], target="trn3", says="src (in0) is in psum"
    )

    def elsewhere(x, out):
        scale = language.ndarray((128, 1), np.uint8)
        data = language.ndarray((128, 1), float8_e5m2_x4)
        isa.quantize_mx(dst=data[32:64], src=x, dst_scale=scale[64:96])
        isa.memset(dst=scale, value=0)
        isa.nc_matmul_mx(out, data[32:64].reshape((32, 1)), data[32:64], scale[32:64], scale[64:96])

    found = refused(
        WrongShape, "mx-even", elsewhere, x, out=[((1, 1), F32, psum)], target="trn3", says="an even number of columns"
    )
    assert found.got == 1

    def quadrants(x, out):
        big = language.ndarray((128, 4), BF16)
        isa.memset(dst=big, value=0)
        scale = language.ndarray((128, 1), np.uint8)
        isa.quantize_mx(dst=language.ndarray((32, 1), float8_e5m2_x4), src=big[32:64], dst_scale=scale[64:96])

    refused(HardwareLimit, "mx-scale-quadrant", quadrants, x, out=[((1, 1), U8)], target="trn3", says="quadrant 2")


def test_only_the_rows_that_hold_scales_must_be_written():
    def body(x, out):
        data = language.ndarray((64, 2), float8_e5m2_x4)
        scale = language.ndarray((64, 2), np.uint8)
        isa.quantize_mx(dst=data, src=x, dst_scale=scale)
        ps = language.ndarray((2, 2), np.float32, buffer=psum)
        isa.nc_matmul_mx(ps, data, data, scale, scale)
        isa.tensor_copy(dst=out, src=ps)

    run(body, np.ones((64, 8), BF16), out=[((2, 2), F32)], target="trn3")

    def half(x, out):
        data = language.ndarray((64, 2), float8_e5m2_x4)
        scale = language.ndarray((64, 2), np.uint8)
        isa.quantize_mx(dst=data, src=x, dst_scale=scale)
        fresh = language.ndarray((64, 2), np.uint8)
        isa.nc_matmul_mx(language.ndarray((2, 2), np.float32, buffer=psum), data, data, scale, fresh)

    refused(
        ReadUninitialized,
        "uninitialized",
        half,
        np.ones((64, 8), BF16),
        out=[((1, 1), F32)],
        target="trn3",
        says="moving_scale",
    )


def test_records_name_the_mode():
    trace = []
    run(mx(), target="trn3", trace=trace)
    assert trace[-1].engine == "tensor"
    assert trace[-1].cost["mx"] is True
    assert (trace[-1].cost["k"], trace[-1].cost["m"], trace[-1].cost["n"]) == (32, 2, 4)
    trace = []
    run(quant(), target="trn3", trace=trace, numerics=False)
    assert (trace[-1].engine, trace[-1].cost) == ("vector", {"n": 8})
