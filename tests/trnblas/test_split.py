"""Precision: what splitting promises, on data it likes and on data it does not."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import trnblas
import trnsci
from tests.trnblas.oracles import C64, C128, F32, F64, KERNELS
from trnblas import error_bound, gemm, split
from trnsci import ArgumentError, CapacityError
from trnsci.kernel_launcher import launcher, using
from trnsci.testing import BACKENDS, assert_within, exact_dot, gamma, gaussian, ill_scaled

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
on_kernels = pytest.mark.parametrize("backend", KERNELS, ids=str)


def exact(a, b):
    """The product by mpmath, rounded to float64."""
    rows = [[exact_dot(a[i], b[:, j]) for j in range(b.shape[1])] for i in range(a.shape[0])]
    return torch.tensor(rows, dtype=C128 if a.is_complex() else F64)


def size_of(a, b):
    return a.abs().double() @ b.abs().double()


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (3, 7, 2), (2, 129, 3), (4, 1030, 2)])
def test_fp64_meets_the_bound_of_double_precision(backend, dtype, m, k, n):
    a, b = gaussian((m, k), 1, dtype), gaussian((k, n), 2, dtype)
    with backend:
        got = gemm(1.0, a, b)
    terms, factor = (2 * k + 3, 2**0.5) if dtype.is_complex else (k + 2, 1.0)
    assert_within(got, exact(a, b), factor * gamma(terms, F64) * size_of(a, b))


@on_kernels
@pytest.mark.parametrize("decades", [4.0, 16.0, 60.0, 200.0])
def test_ill_scaled_data_gets_more_slices_and_the_same_bound(backend, decades):
    a, b = ill_scaled((3, 40), 1, F64, decades), ill_scaled((40, 3), 2, F64, decades)
    with backend:
        got = gemm(1.0, a, b)
    assert_within(got, exact(a, b), gamma(42, F64) * size_of(a, b))


@on_kernels
def test_rows_and_columns_of_any_scale(backend):
    a = gaussian((5, 30), 1, F64) * torch.tensor([1e-300, 1e-10, 1.0, 1e10, 1e300], dtype=F64).unsqueeze(1)
    b = gaussian((30, 3), 2, F64) * torch.tensor([1e-5, 0.0, 1e5], dtype=F64)
    with backend:
        assert_within(gemm(1.0, a, b), exact(a, b), gamma(32, F64) * size_of(a, b) + 1e-307)


@on_kernels
@pytest.mark.parametrize("shape", [(5, 6, 7, 3), (3, 40, 20, 2)])
def test_small_matrices_share_a_product_and_nothing_else(backend, shape):
    batch, m, k, n = shape
    a, b = gaussian((batch, m, k), 1, F64), gaussian((batch, k, n), 2, F64)
    a[1, 0, 0], b[2] = torch.nan, 1e100 * b[2]
    with backend:
        got = gemm(1.0, a, b)
    assert bool(got[1, 0].isnan().all())
    for i in (0, *range(2, batch)):
        assert_within(got[i], exact(a[i], b[i]), gamma(k + 2, F64) * size_of(a[i], b[i]))


@on_kernels
def test_cancellation_to_the_last_bit(backend):
    a = gaussian((2, 50), 1, F64)
    b = torch.cat([gaussian((50, 2), 2, F64)])
    a, b = torch.cat([a, -a], 1), torch.cat([b, b * (1 + 2.0**-52)])
    with backend:
        assert_within(gemm(1.0, a, b), exact(a, b), gamma(102, F64) * size_of(a, b))


@on_backends
@pytest.mark.parametrize("precision", ["fp64", "compensated"])
def test_nonfinite_values_pass_as_ieee_says_and_nothing_hangs(backend, precision):
    inf, nan = torch.inf, torch.nan
    a = torch.tensor([[inf, 1.0], [nan, 1.0], [1.0, 1.0], [0.0, 0.0]], dtype=F64)
    b = torch.tensor([[1.0, 0.0, inf], [2.0, 3.0, 1.0]], dtype=F64)
    expected = torch.from_numpy(np.array([[inf, nan, inf], [nan, nan, nan], [3.0, 3.0, inf], [0.0, 0.0, nan]]))
    with backend:
        assert_within(gemm(1.0, a, b, precision=precision), expected, 0.0)


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("dtype", [F32, C64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("precision", ["compensated", "fp64"])
def test_narrow_operands_are_rounded_once(backend, dtype, precision):
    a, b = ill_scaled((5, 300), 1, dtype), ill_scaled((300, 4), 2, dtype)
    with backend:
        got = gemm(1.0, a, b, precision=precision)
    wide = C128 if dtype.is_complex else F64
    expected, u = a.to(wide) @ b.to(wide), {torch.bfloat16: 2.0**-8}.get(dtype, 2.0**-24)
    assert_within(got, expected, u * 2**0.5 * expected.abs() + 4 * gamma(605, F64) * size_of(a, b))


@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
def test_compensated_double_is_one_rounding(dtype):
    a, b = ill_scaled((3, 200), 1, dtype), ill_scaled((200, 3), 2, dtype)
    a, b = torch.cat([a, -a], 1), torch.cat([b, b * (1 + 2.0**-40)])
    got, expected = gemm(1.0, a, b, precision="compensated"), exact(a, b)
    # Two parts in the complex case, and what slices below 106 bits leave out.
    assert_within(got, expected, 2**0.5 * 2.0**-53 * expected.abs() + 2.0**-95 * size_of(a, b))


@settings(max_examples=25)
@given(
    m=st.integers(1, 4), k=st.integers(1, 20), n=st.integers(1, 4), decades=st.floats(0, 40), seed=st.integers(0, 99)
)
def test_any_shape_and_scale(m, k, n, decades, seed):
    a, b = ill_scaled((m, k), seed, F64, decades), ill_scaled((k, n), seed + 1, F64, decades)
    with trnsci.backend("simulator"):
        assert_within(gemm(1.0, a, b), exact(a, b), gamma(k + 2, F64) * size_of(a, b))


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("target", [1e-1, 1e-3, 1e-6, 1e-10, 1e-13])
def test_target_error_is_met(backend, target):
    a, b = gaussian((20, 100), 1, F64), gaussian((100, 30), 2, F64)
    with backend, trnsci.ledger() as book:
        got = gemm(1.0, a, b, target_error=target)
    assert_within(got, a @ b, target * size_of(a, b))
    policy = book.entries[0].step.call.precision
    assert error_bound(100, F64, policy) <= target
    # Of float64 operands, float64 is cheaper than error-free transformations.
    assert policy == {1e-1: "fast", 1e-3: "fp32"}.get(target, "fp64")


def test_a_target_nothing_reaches_says_so():
    with pytest.raises(ArgumentError) as caught:
        gemm(1.0, torch.ones(2, 3), torch.ones(3, 2), target_error=1e-12)
    assert caught.value.argument == "target_error"
    assert "at least 5.96e-08" in str(caught.value)
    with pytest.raises(ArgumentError, match="because precision is 'fp32'"):
        gemm(1.0, torch.ones(2, 3), torch.ones(3, 2), target_error=1e-2, precision="fp32")
    with pytest.raises(ArgumentError, match="expected a positive number"):
        gemm(1.0, torch.ones(2, 3), torch.ones(3, 2), target_error=-1.0)


@pytest.mark.sim
def test_the_self_test_chooses_what_the_device_multiplies_exactly(monkeypatch):
    with using(launcher("simulator")):
        assert split.operand_format() == "bfloat16"
        assert "bfloat16 on simulator" in split.probe()["split_gemm"]
        run = split.launch

        def rounding(kernel, a, b, *rest, **options):
            made = run(kernel, a, b, *rest, **options)
            return made.bfloat16().float() if a.dtype == torch.bfloat16 else made

        monkeypatch.setattr(split, "launch", rounding)
        assert split._self_test() == "float16"
        monkeypatch.setattr(split, "launch", lambda *args, **options: run(*args, **options) + 0.5)
        with pytest.raises(ArgumentError, match="sums that are not exact even for fp32"):
            split._self_test()


@pytest.mark.sim
@pytest.mark.parametrize("name", ["float16", "float32"])
def test_every_operand_format_gives_the_same_bits(name, monkeypatch):
    a, b = gaussian((9, 200), 1, F64), gaussian((200, 5), 2, F64)
    with trnsci.backend("simulator"):
        expected = gemm(1.0, a, b)
        monkeypatch.setattr(split, "operand_format", lambda: name)
        assert torch.equal(gemm(1.0, a, b), expected)


def test_slices_add_up_and_groups_cover_every_pair():
    x = gaussian((50,), 1, F64) / 8
    digits = split.slices(x, 20)
    weights = torch.tensor([2.0 ** (-6 - 7 * s) for s in range(len(digits))], dtype=F64)
    assert torch.equal((digits * weights.unsqueeze(-1)).sum(0), x)
    assert float(digits.abs().max()) <= 64
    layout = split.groups(4, 3, 5, 1500)
    pairs = [pair for _, group in layout for pair in group]
    assert sorted(pairs) == sorted((s, t) for s in range(4) for t in range(3) if s + t < 5)
    assert all(len(group) <= 2 and all(s + t == d for s, t in group) for d, group in layout)


def test_predictions_need_no_data():
    plan = trnsci.plan(gemm, 1.0, torch.ones(256, 256, dtype=F64), torch.ones(256, 256, dtype=F64))
    single = trnsci.plan(gemm, 1.0, torch.ones(256, 256), torch.ones(256, 256))
    assert 0 < single.predicted["trn2"] < plan.predicted["trn2"] < 16 * single.predicted["trn2"]


@on_backends
def test_gradients_of_double_precision(backend):
    a, b = gaussian((3, 4), 1, F64).requires_grad_(), gaussian((4, 2), 2, F64).requires_grad_()
    with backend:
        for precision in ("fp64", "compensated"):
            assert torch.autograd.gradcheck(lambda a, b, p=precision: gemm(0.5, a, b, precision=p), (a, b))


def test_probe_is_part_of_the_library():
    assert "split_gemm" in trnblas.probe()


def test_terms_beyond_the_deepest_slices_are_refused_and_never_dropped():
    # One term of 2**-600 beside factors of 1 that meet zeros: 80 slices of either operand do not reach it.
    a = torch.tensor([[1.0, 2.0**-300, 0.0]], dtype=torch.float64)
    b = torch.tensor([[0.0], [2.0**-300], [1.0]], dtype=torch.float64)
    with trnsci.backend("simulator"):
        with pytest.raises(CapacityError, match="560 powers of two"):
            split.split_gemm(a, b)
        # the same span with a sum that is large: what is cut does not matter
        assert split.split_gemm(a, b + torch.tensor([[1.0], [0.0], [0.0]])).item() == 1.0


def test_compensated_products_map_over_any_axis():
    a, b = gaussian((5, 3, 4), 1, F64), gaussian((2, 4, 6), 2, F64)

    def product(x, y):
        return gemm(1.0, x, y, precision="compensated")

    mapped = torch.func.vmap(product, (0, None))(a, b)
    assert_within(mapped, a.unsqueeze(1) @ b, 1e-14)
    last = torch.func.vmap(product, (2, 1))(a.permute(1, 2, 0), b.permute(1, 0, 2).repeat(1, 3, 1)[:, :5])
    assert last.shape == (5, 3, 6)
    slope = torch.func.vmap(torch.func.grad(lambda x, y: product(x, y).sum()), (0, None))(a, b[0])
    assert_within(slope, b[0].sum(1).expand(a.shape), 1e-14)
