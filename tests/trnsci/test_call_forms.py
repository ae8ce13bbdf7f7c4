"""Calls as NumPy's and SciPy's users write them: they work, or the error shows the spelling."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.stats import qmc

import trnblas
import trnchem
import trnfft
import trnrand
import trnsci
import trnsolver
import trnsparse
from tests.together import together
from trnsci import ArgumentError

A = np.diag([2.0, 3.0, 5.0, 7.0]) + 0.5
b = np.arange(1.0, 5.0)
X = np.linalg.solve(A, b)


@together("name", ["uniform", "normal", "laplace", "gumbel"])
def test_an_empty_draw_that_nobody_asked_for_is_refused(name):
    with pytest.raises(ArgumentError, match=re.escape(f"default_rng().{name}(0, 5, 10)")):
        getattr(trnrand, name)(0, 5, 10)
    assert getattr(trnrand.default_rng(1), name)(1, 5, 10).shape == (10,)


def test_an_empty_draw_is_a_size():
    assert trnrand.uniform(size=(0, 5)).shape == trnrand.normal((0, 5)).shape == (0, 5)
    assert trnrand.uniform(0).shape == (0,)


@together("name", ["cg", "block_cg", "minres", "bicgstab", "gmres"])
def test_solvers_take_functions_of_vectors_and_scipys_names(name):
    solve = getattr(trnsolver, name)
    for operand in (lambda x: A @ x, A, sp.csr_array(A)):
        for M in (np.diag(1 / A.diagonal()), lambda r: r / A.diagonal(), sp.diags_array(1 / A.diagonal())):
            x = solve(operand, b, rtol=1e-10, M=M).require()
            assert isinstance(x, np.ndarray)
            np.testing.assert_allclose(x, X, rtol=1e-8)
    a = torch.from_numpy(A)
    M = trnsolver.jacobi_preconditioner(a)
    np.testing.assert_allclose(solve(lambda x: a @ x, torch.from_numpy(b), rtol=1e-10, M=M).require(), X, rtol=1e-8)
    two = solve(lambda x: A @ x, np.stack([b, b], 1), rtol=1e-10).require()
    np.testing.assert_allclose(two, np.stack([X, X], 1), rtol=1e-8)
    with pytest.raises(TypeError, match="'tol' and 'rtol', which are the same"):
        solve(A, b, rtol=1e-3, tol=1e-3)


@together("name", ["jacobi", "ssor", "ic0", "ilu0"])
def test_preconditioners_take_arrays_and_are_functions_of_them(name):
    build = getattr(trnsolver, f"{name}_preconditioner")
    M = build(A)
    np.testing.assert_allclose(M(b), M(torch.from_numpy(b)).numpy(), rtol=1e-15)
    assert isinstance(M(b), np.ndarray)
    for operand in (A, sp.csr_array(A), torch.from_numpy(A)):
        x = trnsolver.cg(sp.csr_array(A), b, M=build(operand), rtol=1e-10).require()
        np.testing.assert_allclose(x, X, rtol=1e-8)


def test_least_squares_take_pairs_of_functions_of_arrays():
    tall = np.random.default_rng(0).standard_normal((6, 3))
    right = np.arange(6.0)
    for solve in (trnsolver.lsqr, trnsolver.lsmr):
        x = solve((lambda v: tall @ v, lambda v: tall.T @ v), right, tol=1e-12).require()
        np.testing.assert_allclose(x, np.linalg.lstsq(tall, right)[0], rtol=1e-8)


def test_two_of_three_values_are_answered_with_the_spelling():
    with pytest.raises(TypeError, match=r"Write 'x, iterations, residual = cg\(\.\.\.\)'"):
        _x, _info = trnsolver.cg(A, b)
    x, iterations, residual = trnsolver.cg(A, b, tol=1e-10)
    assert (iterations, residual < 1e-10) == (4, True)
    np.testing.assert_allclose(x, X)
    assert len([*trnsolver.cg(A, b)]) == 3


@together("operand", [A, torch.from_numpy(A)])
def test_a_missing_argument_is_answered_with_the_signature_and_an_example(operand):
    with pytest.raises(TypeError, match=r"missing a required argument: 'b'\. Call it as gemm\(alpha, a, b, .*gemm\(2"):
        trnblas.gemm(operand, operand)


@together("kind", ["COO", "CSR", "CSC", "BSR", "DIA"])
def test_formats_are_called_with_a_matrix(kind):
    form = getattr(trnsparse, f"{kind}Matrix")
    dense = sp.random_array((9, 7), density=0.3, random_state=np.random.default_rng(3)).toarray()
    ours = trnsparse.CSRMatrix.from_dense(dense)
    for matrix in (sp.csr_array(dense), sp.coo_matrix(dense), dense, torch.from_numpy(dense).to_sparse_csc(), ours):
        assert type(form(matrix)) is form
        np.testing.assert_array_equal(form(matrix).to_dense().numpy(), dense)


def test_sequences_take_a_seed():
    for first, second in (
        (trnrand.Sobol(3, seed=5), trnrand.Sobol(3, scramble=True, generator=trnrand.Generator(5))),
        (trnrand.Halton(3, seed=5), trnrand.Halton(3, scramble=True, generator=trnrand.Generator(5))),
        (trnrand.LatinHypercube(3, 8, seed=5), trnrand.LatinHypercube(3, 8, generator=trnrand.Generator(5))),
    ):
        assert torch.equal(first.random(8), second.random(8))
    assert qmc.discrepancy(trnrand.Sobol(3, seed=5).random(64).numpy()) < 0.01
    for wrong in ({"scramble": False}, {"generator": trnrand.Generator(0)}):
        with pytest.raises(ArgumentError, match="seed is 1, expected None with"):
            trnrand.Sobol(3, seed=1, **wrong)


@together("name", ["fftfreq", "rfftfreq"])
def test_frequencies_are_arrays_where_numpys_dtype_is_asked_for(name):
    for dtype in (np.float64, np.dtype("float32"), float):
        got = getattr(trnfft, name)(9, 0.1, dtype=dtype)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, getattr(np.fft, name)(9, 0.1), rtol=1e-6)
    with pytest.raises(ArgumentError, match="expected a floating-point dtype"):
        getattr(trnfft, name)(9, dtype=np.int64)


def test_a_result_of_an_iteration_is_one_line():
    text = repr(trnsolver.cg(A, b, tol=1e-10))
    assert re.fullmatch(r"<Result of cg: x float64\[4\], converged after 4 iterations, residual \S+>", text)


@together("package", [trnsci, trnblas, trnfft, trnrand, trnsolver, trnsparse, trnchem])
def test_completion_lists_public_names_alone(package):
    assert set(dir(package)) == set(package.__all__)
    assert all(hasattr(package, name) and name[0] != "_" for name in dir(package))
