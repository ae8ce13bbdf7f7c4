"""Programs written for the earlier public suite: each spelling runs and warns, or gets an error that names ours."""

from pathlib import Path

import pytest
import torch

import trnblas
import trnfft.nn
import trnrand
import trnsolver
import trnsparse
import trntensor
from tests.together import together
from trnchem import cli
from trnsci import ArgumentError, DtypeError, earlier

A = torch.tensor([[4.0, 1.0], [1.0, 3.0]])
B = torch.tensor([[1.0, 2.0], [3.0, 5.0]])


@together(
    ("said", "meant"),
    [
        (
            lambda: trnblas.gemm(2.0, A, B, beta=1.0, C=B, transA=True, transB=True),
            lambda: 2.0 * A.T @ B.T + B,
        ),
        (lambda: trnblas.gemm(1.0, A=A, B=B), lambda: A @ B),
        (lambda: trnblas.gemv(1.0, x=B[0], A=A), lambda: A @ B[0]),
        (lambda: trnblas.syrk(1.0, B, uplo="lower"), lambda: (B @ B.T).tril()),
        (lambda: trnblas.syrk(1.0, B, uplo="U"), lambda: (B @ B.T).triu()),
        (lambda: trnblas.symm(1.0, A, B, side="right", uplo="upper"), lambda: B @ A),
        (lambda: trnblas.symm(1.0, A, B, side="left", uplo="lower"), lambda: A @ B),
        (
            lambda: trnblas.trsm(1.0, A, B, side="left", uplo="upper", diag="unit", transA=True),
            lambda: torch.linalg.solve(A.triu().fill_diagonal_(1.0).T, B),
        ),
        (lambda: trnblas.batched_gemm(1.0, A.expand(3, 2, 2), B), lambda: A.expand(3, 2, 2) @ B),
        (lambda: trnrand.Generator(1).normal(4, mean=3.0, std=2.0), lambda: 3.0 + 2.0 * trnrand.Generator(1).normal(4)),
        (
            lambda: trnrand.truncated_normal(4, mean=3.0, std=2.0, low=0.0, generator=trnrand.Generator(1)),
            lambda: trnrand.truncated_normal(4, loc=3.0, scale=2.0, low=0.0, generator=trnrand.Generator(1)),
        ),
        (lambda: trnrand.Generator(1).poisson(4, lam=5.0), lambda: trnrand.Generator(1).poisson(4, rate=5.0)),
        (
            lambda: trnrand.randperm(6, generator=trnrand.Generator(1)),
            lambda: trnrand.permutation(6, generator=trnrand.Generator(1)),
        ),
        (lambda: trnsparse.bsr_spmm(trnsparse.BSRMatrix.from_dense(A, 2), B), lambda: A @ B),
        (lambda: trntensor.plan_contraction("ij,jk->ik", A, B)(A, B), lambda: A @ B),
        (lambda: trntensor.cp_decompose(A, 2).factors[0], lambda: trntensor.cp(A, 2).factors[0]),
        (lambda: trntensor.tucker_decompose(A, (2, 2)).core, lambda: trntensor.tucker(A, (2, 2)).core),
        (lambda: trntensor.tt_decompose(A, 1).cores[0], lambda: trntensor.tensor_train(A, 1).cores[0]),
    ],
)
def test_a_call_of_the_earlier_suite_runs_and_is_told_our_spelling(said, meant):
    with pytest.warns(DeprecationWarning, match="here") as warned:
        result = said()
    # at the line of the call, or in the generator whose method was called
    assert {Path(each.filename).name for each in warned} <= {"test_earlier.py", "generator.py"}
    torch.testing.assert_close(result, meant())


def test_side_alone_needs_no_other_spelling_and_words_are_letters():
    torch.testing.assert_close(trnblas.symm(1.0, A, B, side="right", lower="lower"), B @ A)


def test_complex_mod_relu_is_mod_relu_and_solutions_unpack():
    with pytest.warns(DeprecationWarning, match=r"trnfft.nn.ComplexModReLU is trnfft.nn.ModReLU here"):
        assert trnfft.nn.ComplexModReLU is trnfft.nn.ModReLU
    x, iterations, residual = trnsolver.cg(A, B[0])
    torch.testing.assert_close(A @ x, B[0])
    assert iterations <= 2
    assert residual < 1e-5
    # as of the solver that runs on chip
    assert len(tuple(trnsparse.cg(trnsparse.CSRMatrix.from_dense(A), B[0]))) == 3


@together(
    ("call", "error", "text"),
    [
        (lambda: trnrand.sobol(10, 2), AttributeError, r"write trnrand.Sobol\(dimensions\).random\(points\)"),
        (lambda: trntensor.estimate_flops("ij->i", A), AttributeError, r"write trntensor.plan\(.*\).flops"),
        (lambda: trnblas.nki_syrk(A), AttributeError, r"write trnblas.syrk, within trnsci.backend\('nki'\)"),
        (lambda: trnsparse.nki_spmm(A), AttributeError, r"write trnsparse.spmm"),
        (lambda: trnblas.what, AttributeError, r"module 'trnblas' has no attribute 'what'$"),
        (
            lambda: trnsparse.CSRMatrix(A[0], [0, 1], [0, 1, 2], (2, 2)),
            DtypeError,
            r"CSRMatrix and BSRMatrix\(indptr, indices",
        ),
        (lambda: trnsparse.COOMatrix(A[0], [0, 1], [0, 1], (2, 2)), DtypeError, r"COOMatrix\(row, col, values"),
        (lambda: trnsparse.BSRMatrix(A[None], [0], [0, 1], (2, 2)), ArgumentError, r"BSRMatrix\(indptr, indices, "),
        (lambda: trnblas.gemm(1.0, A, B, transA=True, trans_a=False), ArgumentError, "transA"),
        # of these loc is no mean
        (lambda: trnrand.gumbel(3, mean=1.0), TypeError, "mean"),
        (lambda: trnrand.laplace(3, std=1.0), TypeError, "std"),
    ],
)
def test_what_cannot_run_names_ours(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_names_given_for_others_exist():
    for module, known in earlier.NAMES.items():
        package = __import__(module, fromlist=["x"])
        assert all(hasattr(package, ours) for ours in known.values())
        assert not set(known) & set(getattr(package, "__all__", ()))
    for function, known in earlier.KEYWORDS.items():
        if "." in function:
            library, _, name = function.partition(".")
            assert earlier.spellings(getattr(__import__(library), name)) == known


def test_the_kernels_of_the_seeds_keep_their_names_and_fused_energy_says_what_it_is(capsys):
    assert {"nki_gemm", "nki_batched_gemm", "nki_mp2_energy"} <= set(dir(trnblas.nki))
    assert cli.main(["no-such-molecule", "--fused-energy"]) == 1
    assert "energies of pairs are always fused" in capsys.readouterr().err
