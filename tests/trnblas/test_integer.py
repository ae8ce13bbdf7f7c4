"""8-bit products: integers exactly as NumPy's int64, FP8 with scales within the stated bound of float64."""

import numpy as np
import pytest
import torch

import trnblas
import trnsci
from trnblas.integer import terms
from trnsci import ArgumentError, DtypeError
from trnsci.testing import BACKENDS, gamma

INTEGERS = {torch.int8: (-128, 128), torch.uint8: (0, 256)}


def _random(shape, dtype, seed):
    return torch.from_numpy(np.random.default_rng(seed).integers(*INTEGERS[dtype], shape)).to(dtype)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize(("left", "right"), [(a, b) for a in INTEGERS for b in INTEGERS])
def test_integers_are_exact_whatever_the_backend(backend, left, right):
    for m, k, n in ((5, 7, 3), (1, 1, 1), (3, 1030, 4), (0, 3, 2), (2, 0, 3)):
        a, b = _random((m, k), left, 1), _random((k, n), right, 2)
        exact = a.numpy().astype(np.int64) @ b.numpy().astype(np.int64)
        with backend:
            assert np.array_equal(trnblas.gemm_int(a, b), exact)
    # the largest magnitudes, over more terms than a sum in fp32 holds
    k = 3 * terms(left, right) + 5
    a, b = (torch.full(shape, INTEGERS[d][0] or 255, dtype=d) for shape, d in (((2, k), left), ((k, 2), right)))
    with backend:
        found = trnblas.gemm_int(a, b)
    assert np.array_equal(found, a.numpy().astype(np.int64) @ b.numpy().astype(np.int64))


def test_sums_are_exact_where_the_arithmetic_changes():
    for kind, entry in ((torch.int8, -128), (torch.uint8, 255)):
        most = terms(kind, kind)
        for k in (most, most + 1, (most << 7) - 1, most << 7, (most << 7) + 1):
            a = torch.full((1, k), entry, dtype=kind)
            a[:, ::3] -= 1 if entry > 0 else -1
            exact = int((a.long() * a.long()).sum())
            assert int(trnblas.gemm_int(a, a.T)) == (exact + (1 << 31)) % (1 << 32) - (1 << 31)


def test_zeros_addends_batches_transposes_and_overflow():
    a, b = _random((2, 1, 4, 9), torch.uint8, 1), _random((3, 5, 9), torch.int8, 2)
    c, bias = torch.arange(120, dtype=torch.int32).reshape(2, 3, 4, 5), torch.arange(5, dtype=torch.int32)
    out = torch.empty_like(c)
    found = trnblas.gemm_int(a, b, zero_a=128, zero_b=-3, c=c, bias=bias, trans_b=True, out=out)
    left, right = a.numpy().astype(np.int64) - 128, b.numpy().astype(np.int64) + 3
    assert np.array_equal(found, left @ right.swapaxes(-1, -2) + c.numpy() + bias.numpy())
    assert found is out
    assert np.array_equal(
        trnblas.gemm_int(a[0, 0].numpy().T, b[0].numpy().T, trans_a=True), a[0, 0].int() @ b[0].int().T
    )
    k = (1 << 31) // (255 * 255) + 1
    wide = torch.full((1, k), 255, dtype=torch.uint8)
    assert int(trnblas.gemm_int(wide, wide.T)) == 255 * 255 * k - (1 << 32)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("types", [(torch.float8_e4m3fn, torch.float8_e5m2), (torch.float8_e5m2, torch.float8_e4m3fn)])
def test_fp8_products_stay_within_the_stated_bound(backend, types):
    rng = np.random.default_rng(0)
    m, k, n = 5, 256, 6
    a, b = (torch.from_numpy(rng.standard_normal(s)).to(t) for s, t in zip(((m, k), (k, n)), types, strict=True))
    wide_a, wide_b = a.double().numpy(), b.double().numpy()
    bias = torch.from_numpy(rng.standard_normal(n)).float()
    for left, right in (((), ()), ((m, 1), (1, n)), ((m, 2), (2, n)), ((m, 4), ()), ((1, 2), (1, n))):
        x, y = (torch.from_numpy(np.asarray(np.exp(rng.standard_normal(s)))).float() for s in (left, right))
        full_x = np.repeat(x.double().numpy(), k // x.shape[1], 1) if left else x.double().numpy()
        full_y = np.repeat(y.double().numpy(), k // y.shape[0], 0) if right else y.double().numpy()
        exact = (wide_a * full_x) @ (wide_b * full_y) + bias.double().numpy()
        size = np.abs(wide_a * full_x) @ np.abs(wide_b * full_y) + np.abs(bias.double().numpy())
        with backend:
            found = trnblas.gemm_scaled(a, b, x, y, bias=bias)
            half = trnblas.gemm_scaled(a, b, x, y, bias=bias, dtype=torch.bfloat16)
        assert (np.abs(found.double().numpy() - exact) <= gamma(k + 4, torch.float32) * size).all()
        assert torch.equal(half, found.bfloat16())


def test_scales_may_leave_the_range_that_the_result_keeps():
    a = torch.full((3, 4), 400.0).to(torch.float8_e5m2)
    exact = 4 * float(a[0, 0].float()) ** 2
    for left, right in ((1e34, 1e-34), (1e-38, 1e38), (1e-40, 1e36)):
        x, y = (float(torch.tensor(scale)) for scale in (left, right))
        for scales in ((x, y), (torch.full((3, 2), x), torch.full((2, 3), y))):
            found = trnblas.gemm_scaled(a, a.T, *scales)
            assert (found.double() - exact * x * y).abs().max() <= gamma(8, torch.float32) * exact * x * y
    zero = torch.zeros_like(a)
    assert not trnblas.gemm_scaled(zero, a.T, 3e38, 3e38).any()


def test_errors():
    a, f = torch.ones(2, 3, dtype=torch.int8), torch.ones(2, 4).to(torch.float8_e4m3fn)
    with pytest.raises(DtypeError, match="int8 or uint8"):
        trnblas.gemm_int(a.float(), a.T)
    with pytest.raises(ArgumentError, match="K"):
        trnblas.gemm_int(a, a)
    with pytest.raises(DtypeError, match="int32"):
        trnblas.gemm_int(a, a.T, bias=torch.ones(2))
    with pytest.raises(ArgumentError, match="shape of c"):
        trnblas.gemm_int(a, a.T, c=torch.ones(3, 2, dtype=torch.int32))
    with pytest.raises(ArgumentError, match="zero_a"):
        trnblas.gemm_int(a, a.T, zero_a=1000)
    with pytest.raises(DtypeError, match="float8"):
        trnblas.gemm_scaled(a, a.T)
    with pytest.raises(ArgumentError, match="dividing K"):
        trnblas.gemm_scaled(f, f.T, torch.ones(2, 3))
    for name in ("scale_a", "scale_b"):
        for wrong in (1j, None, "2", torch.ones(2, 1, dtype=torch.complex64)):
            with pytest.raises(DtypeError, match=f"{name} is .*real"):
                trnblas.gemm_scaled(f, f.T, **{name: wrong})
        with pytest.raises(ArgumentError, match=f"shape of {name}"):
            trnblas.gemm_scaled(f, f.T, **{name: torch.ones(2)})
    with pytest.raises(DtypeError, match="dtype of bias"):
        trnblas.gemm_scaled(f, f.T, bias=torch.ones(2, dtype=torch.complex64))
    with pytest.raises(ArgumentError, match="groups"):
        trnblas.gemm_scaled(f, f.T, torch.ones(2, 2), torch.ones(4, 2))
    with pytest.raises(DtypeError, match="bfloat16"):
        trnblas.gemm_scaled(f, f.T, dtype=torch.float64)
    assert trnsci.plan(trnblas.gemm_int, a, a.T).steps[0].error_bound == 0.0
    assert "trn2" in trnsci.plan(trnblas.gemm_int, a, a.T).predicted
