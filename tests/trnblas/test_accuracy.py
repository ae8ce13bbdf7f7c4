"""``target_error`` takes the cheapest policy that meets it, and `trnsci.achieved` says what was."""

import mpmath
import numpy as np
import pytest
import torch

import trnsci
from tests.trnblas.oracles import C64, F32, F64
from trnblas import Achieved, asum, dot, dotc, error_bound, gemm, her2k, herk, nrm2, syr2k, syrk, trsm
from trnblas.accuracy import dot_bound
from trnsci import ArgumentError
from trnsci.testing import BACKENDS, assert_within, gaussian

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
TARGETS = [1e-1, 1e-3, 1e-10]


def policies(book):
    return {value for entry in book for value in entry.step.call if isinstance(value, str)}


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("target", TARGETS)
def test_gemm_and_rank_k_updates(backend, target):
    a, b = gaussian((9, 40), 1, F64), gaussian((9, 40), 2, F64)
    one, two = np.abs(a.numpy()) @ np.abs(a.numpy()).T, np.abs(a.numpy()) @ np.abs(b.numpy()).T
    with backend:
        for made, expected, size in (
            (trnsci.achieved(gemm, 1.0, a, b, trans_b=1, target_error=target), a.numpy() @ b.numpy().T, two),
            (trnsci.achieved(syrk, 1.0, a, lower=1, target_error=target), np.tril(a.numpy() @ a.numpy().T), one),
            (
                trnsci.achieved(syr2k, 1.0, a, b, lower=1, target_error=target),
                np.tril(a.numpy() @ b.numpy().T + b.numpy() @ a.numpy().T),
                two + two.T,
            ),
        ):
            assert isinstance(made, Achieved)
            assert made.error <= target
            assert_within(made.result, expected, made.error * torch.from_numpy(size))


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("target", TARGETS)
def test_triangular_solves(backend, target):
    n = 30
    a = (gaussian((n, n), 1, F64) / (2 * n**0.5)).tril() + 2 * torch.eye(n, dtype=F64)
    b = gaussian((n, 4), 2, F64)
    with backend:
        made, reached = trnsci.achieved(trsm, 1.0, a, b, lower=1, target_error=target)
    inverse = np.abs(np.linalg.inv(a.numpy()))
    size = inverse @ np.abs(a.numpy()) @ inverse @ np.abs(b.numpy())
    assert reached <= target
    assert_within(made, np.linalg.solve(a.numpy(), b.numpy()), reached * torch.from_numpy(size))


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("target", [1e-1, 1e-3, 3e-7])
@pytest.mark.parametrize("dtype", [F32, C64], ids=str)
def test_reductions(backend, target, dtype):
    x, y = gaussian((3, 50), 1, dtype), gaussian((3, 50), 2, dtype)
    wide, other = (t.numpy().astype(np.complex128 if dtype.is_complex else np.float64) for t in (x, y))
    size = (np.abs(wide) * np.abs(other)).sum(-1)
    parts = np.abs(wide.real) + np.abs(wide.imag)
    with backend:
        for call, expected, scale in (
            (lambda **o: dot(x, y, **o), (wide * other).sum(-1), size),
            (lambda **o: dotc(x, y, **o), (wide.conj() * other).sum(-1), size),
            (lambda **o: asum(x, **o), parts.sum(-1), parts.sum(-1)),
            (lambda **o: nrm2(x, **o), np.linalg.norm(wide, axis=-1), np.linalg.norm(wide, axis=-1)),
        ):
            made, reached = trnsci.achieved(call, target_error=target)
            assert reached <= target
            assert_within(made, expected, reached * torch.from_numpy(scale))


def test_the_cheapest_policy_is_taken():
    a, x = gaussian((4, 4), 1, F64), gaussian((100,), 2)
    for target, expected in ((1e-1, "fast"), (1e-3, "fp32"), (1e-10, "fp64")):
        for call in (
            lambda t: gemm(1.0, a, a, target_error=t),
            lambda t: syrk(1.0, a, target_error=t),
        ):
            with trnsci.ledger() as book:
                call(target)
            assert expected in policies(book)
    for target, expected in ((1e-1, "fast"), (1e-3, "fp32"), (1e-10, "fp64")):
        # How far a solution grows is not known beforehand: float64 keeps its range.
        for operand, policy in ((a, "fp64"), (a.float(), expected)):
            if target > 1e-6 or operand is a:
                with trnsci.ledger() as book:
                    trsm(1.0, operand, operand, target_error=target)
                assert policies(book) == {policy}
    with trnsci.ledger() as book:
        dot(x, x, target_error=1e-7)
    assert "compensated" in policies(book)


def test_plans_and_the_ledger_say_what_is_guaranteed():
    a, b = gaussian((3, 50), 1, F64), gaussian((50, 3), 2, F64)
    plan = trnsci.plan(gemm, 1.0, a.float(), b.float(), target_error=1e-3)
    assert plan.error_bound == error_bound(50, F32, "fp32")
    # A plan sees shapes: float64 may hold what float32 does not.
    assert trnsci.plan(gemm, 1.0, a, b, target_error=1e-3).error_bound == error_bound(50, F64, "fp64")
    with trnsci.ledger() as book:
        _, reached = trnsci.achieved(gemm, 1.0, a, b, target_error=1e-3)
        dot(a[0], a[1])
    assert [entry.error_bound for entry in book] == [reached, dot_bound(50, F64)]
    with trnsci.backend("simulator"):
        assert trnsci.achieved(gemm, 1.0, a, b, target_error=1e-10).error == 1e-10


def test_without_a_target_the_default_is_reported():
    x = gaussian((20,), 1)
    assert trnsci.achieved(nrm2, x).error < 20 * 2.0**-24
    assert trnsci.achieved(herk, 1.0, gaussian((3, 4), 1, C64)).error == error_bound(4, C64)
    made = trnsci.achieved(her2k, 1.0, gaussian((3, 4), 1, C64), gaussian((3, 4), 2, C64))
    assert made.error == error_bound(8, C64)


def test_numpy_in_numpy_out():
    made = trnsci.achieved(gemm, 1.0, np.ones((2, 2)), np.ones((2, 2)))
    assert isinstance(made.result, np.ndarray)
    assert made.error == error_bound(2, F64)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_the_bound_of_compensated_sums_against_mpmath(dtype):
    x, y = gaussian((400,), 1, dtype), gaussian((400,), 2, dtype)
    x, y = torch.cat([x, -x]), torch.cat([y, y * (1 + 2.0**-20)])
    with mpmath.workprec(300):
        exact = mpmath.fdot(x.tolist(), y.tolist())
        error = abs(mpmath.mpf(dot(x, y, precision="compensated").item()) - exact)
        size = mpmath.fdot(x.abs().tolist(), y.abs().tolist())
        assert error <= dot_bound(800, dtype, "compensated") * size


@pytest.mark.parametrize(
    "call",
    [
        lambda **o: syrk(1.0, torch.ones(2, 2), **o),
        lambda **o: trsm(1.0, torch.ones(2, 2), torch.ones(2, 2), **o),
        lambda **o: dot(torch.ones(2), torch.ones(2), **o),
        lambda **o: nrm2(torch.ones(2), **o),
    ],
    ids=["syrk", "trsm", "dot", "nrm2"],
)
def test_targets_that_make_no_sense(call):
    with pytest.raises(ArgumentError, match="because precision is 'fp32'"):
        call(target_error=1e-2, precision="fp32")
    with pytest.raises(ArgumentError, match="expected a positive number"):
        call(target_error=0)
    with pytest.raises(ArgumentError, match="wider dtype"):
        call(target_error=1e-12)
