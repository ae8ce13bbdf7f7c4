"""Arithmetic inside an op, whatever surrounds the call."""

import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import scipy.linalg
import torch

import trnblas
import trnfft
import trnrand
import trnsci
import trnsolver
import trnsparse
import trntensor
from tests.campaign.contexts import CONTEXTS, OTHER_BITS, in_fork
from trnsci.isolation import is_disturbed, isolating
from trnsci.testing import BACKENDS, gaussian

A, B = gaussian((40, 40), 1), gaussian((40, 40), 2)
WIDE, SPD = A.double(), A.double() @ A.double().mT + 40 * torch.eye(40, dtype=torch.float64)
SPARSE = trnsparse.CSRMatrix.from_dense(torch.where(SPD.abs() > 8, SPD, 0.0).float())
HEADS = gaussian((2, 8, 16), 3)
CALLS = {
    "gemm": lambda: trnblas.gemm(1.0, A, B),
    "gemm fast": lambda: trnblas.gemm(1.0, A, B, precision="fast"),
    "gemm of float64 to 1e-5": lambda: trnblas.gemm(1.0, WIDE, WIDE, target_error=1e-5),
    "syrk": lambda: trnblas.syrk(1.0, A),
    "spmv": lambda: trnblas.spmv(40, 1.0, A.flatten()[:820], A[0]),
    "rot": lambda: trnblas.rot(A[0], B[0], 0.6, 0.8),
    "einsum": lambda: trntensor.einsum("ij,jk,kl->il", A, B, A),
    "fft": lambda: trnfft.fft(A[0]),
    "normal": lambda: trnrand.normal(5, generator=trnrand.Generator(7), dtype=torch.float32),
    "solve": lambda: trnsolver.solve(A, B),
    "cholesky": lambda: trnsolver.cholesky(SPD.float()),
    "svd": lambda: trnsolver.svd(A[:8, :6]),
    "cg": lambda: trnsolver.cg(SPD.float(), A[0]).x,
    "spmm": lambda: trnsparse.spmm(SPARSE, B),
    "a sparse matrix times a vector": lambda: SPARSE @ A[0],
    "attention": lambda: trnsparse.attention(HEADS, HEADS, HEADS, trnsparse.causal()),
}


def refuses(backend, name):
    """Whether kernels refuse a call: they have no float64, and none for packed matrices."""
    return str(backend) != "pytorch" and name in ("gemm of float64 to 1e-5", "spmv")


def same(one, other):
    if isinstance(one, torch.Tensor):
        assert (one.dtype, one.device) == (other.dtype, other.device)
        return torch.equal(one, other)
    return all(map(same, one, other))


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize(
    "backend", [BACKENDS[0], *(pytest.param(x, marks=pytest.mark.slow) for x in BACKENDS[1:])], ids=str
)
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_no_context_changes_a_bit(backend, context):
    for name, call in CALLS.items():
        if refuses(backend, name):
            continue
        with backend:
            plain = call()
            with CONTEXTS[context]():
                result = call()
        if context in OTHER_BITS:
            for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (plain, result)), strict=True):
                torch.testing.assert_close(one, other)
        else:
            assert same(plain, result), f"{name} in {context}"


def test_autocast_reaches_nothing_inside():
    a = WIDE.numpy()
    with torch.autocast("cpu", torch.bfloat16):
        for result, exact, size in (
            (trnblas.gemm(1.0, WIDE, WIDE, target_error=1e-5), a @ a, abs(a) @ abs(a)),
            (trntensor.einsum("ij,jk->ik", WIDE, WIDE, target_error=1e-5), a @ a, abs(a) @ abs(a)),
            (trnblas.syrk(1.0, WIDE, target_error=1e-5), a @ a.T, abs(a) @ abs(a.T)),
        ):
            assert result.dtype == torch.float64
            assert (np.abs(np.triu(result.numpy() - exact)) <= 1e-5 * size).all()
        assert trnblas.gemm(1.0, A, B, precision="fp32").dtype == torch.float32
        x = trnsolver.cg(SPD.float(), A[0]).x
    exact = scipy.linalg.solve(SPD.float().double().numpy(), A[0].double().numpy())
    assert np.linalg.norm(x.numpy() - exact) <= 1e-4 * np.linalg.norm(exact)


@pytest.mark.parametrize("name", ["gemm", "einsum", "solve", "attention"])
def test_gradients_under_autocast_are_those_without(name):
    def gradient():
        q = gaussian((1, 12, 12), 5).requires_grad_()
        x, y = q[0], gaussian((12, 12), 6)
        results = {
            "gemm": lambda: trnblas.gemm(1.0, x, y),
            "einsum": lambda: trntensor.einsum("ij,jk->ik", x, y),
            "solve": lambda: trnsolver.solve(x, y),
            "attention": lambda: trnsparse.attention(q, q, q, trnsparse.causal()),
        }
        results[name]().sum().backward()
        return q.grad

    plain = gradient()
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(gradient(), plain, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_compiled_programs_under_autocast_compute_the_same():
    def program(x, y):
        with torch.autocast("cpu", torch.bfloat16):
            return trnblas.gemm(1.0, x, trnsolver.solve(y, x))

    torch.compiler.reset()
    compiled = torch.compile(program, backend="aot_eager")(A, B)
    assert torch.equal(compiled, trnblas.gemm(1.0, A, trnsolver.solve(B, A)))


def test_settings_are_restored_also_after_an_error():
    torch.set_float32_matmul_precision("medium")
    torch.set_flush_denormal(True)
    try:
        with torch.autocast("cpu", torch.bfloat16):
            assert is_disturbed()
            with isolating():
                assert not is_disturbed()
                assert not torch.is_autocast_enabled("cpu")
                assert torch.tensor(1e-310, dtype=torch.float64) / 2 > 0
            with pytest.raises(trnsci.NotPositiveDefinite):
                trnsolver.cholesky(-torch.eye(3))
            assert torch.is_autocast_enabled("cpu")
            assert torch.get_autocast_dtype("cpu") == torch.bfloat16
        assert torch.get_float32_matmul_precision() == "medium"
        assert torch.tensor(1e-310, dtype=torch.float64) / 2 == 0
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.set_flush_denormal(False)
    assert not is_disturbed()


def test_a_precision_of_the_process_returns_when_the_last_thread_leaves():
    precision = torch.backends.mkldnn.matmul
    entered, leave = threading.Barrier(2), threading.Event()

    def stay():
        with isolating():
            entered.wait(60)
            leave.wait(60)

    torch.set_float32_matmul_precision("medium")
    try:
        thread = threading.Thread(target=stay)
        with isolating():
            thread.start()
            entered.wait(60)
        assert precision.fp32_precision == "ieee"
        leave.set()
        thread.join()
        assert precision.fp32_precision == "bf16"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_a_precision_that_follows_the_process_still_does_after():
    torch.backends.fp32_precision = "bf16"
    torch.backends.mkldnn.matmul.fp32_precision = "none"
    try:
        with isolating():
            assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"
        torch.backends.fp32_precision = "tf32"
        assert torch.backends.mkldnn.matmul.fp32_precision == "tf32"
    finally:
        torch.backends.fp32_precision = "none"
        torch.set_float32_matmul_precision("highest")


def test_a_fork_and_six_threads_compute_the_same():
    plain = {name: call() for name, call in CALLS.items()}

    def compare():
        for name, call in CALLS.items():
            assert same(plain[name], call()), name

    in_fork(compare)
    errors = []

    def work():
        try:
            compare()
        except BaseException as error:  # noqa: BLE001  raised below
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


@pytest.mark.slow
@pytest.mark.parametrize("context", ["inference mode", "default dtype float64", "default device meta"])
def test_tables_that_a_context_saw_first_serve_outside(context):
    # in a process of its own: what is computed once must not remember where
    script = f"""
        from tests.campaign.contexts import CONTEXTS, OTHER_BITS
        from tests.trnsci import test_isolation as t

        for backend in t.BACKENDS:
            for name, call in t.CALLS.items():
                if t.refuses(backend, name):
                    continue
                with backend:
                    with CONTEXTS[{context!r}]():
                        first = call()
                    assert t.same(first, call()) or {context!r} in OTHER_BITS, name
            with backend:
                x, y = (z.clone().requires_grad_() for z in (t.A, t.B))
                t.trnblas.gemm(1.0, x, t.trnsolver.solve(y, x)).sum().backward()
                t.trnfft.fft(x).abs().sum().backward()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)


@pytest.mark.parametrize("state", ["raise", "call", "ignore"])
def test_errors_of_numpy_are_raised_for_its_user_and_not_for_ours(state):
    # the reflections of a constant matrix underflow where NumPy rounds them to single precision
    a = torch.full((8, 8), 0.3333 - 1j, dtype=torch.complex64)
    plain = trnsolver.geqrf(a)
    with np.errstate(all=state, call=lambda *_: pytest.fail("called")):
        inside = trnsolver.geqrf(a)
        assert set(np.geterr().values()) == {state}
    assert all(torch.equal(x, y) for x, y in zip(plain, inside, strict=True))


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_torchs_older_vmap_gets_derivatives_or_the_name_of_the_newer_one(strategy):
    a, b = WIDE[:6, :6] + 9 * torch.eye(6, dtype=torch.float64), WIDE[:6, :3].clone()
    rows = trnsparse.CSRMatrix.from_dense(a)
    right = {
        "spmm": lambda b: trnsparse.spmm(rows, b),
        "trmm": lambda b: trnblas.trmm(1.0, a, b),
        "solve": lambda b: trnsolver.solve(a, b),
        "lstsq": lambda b: trnsolver.lstsq(a, b).solution,
        "rfft": lambda b: trnfft.rfft(b, 101, dim=0).real,
    }
    jacobian = torch.autograd.functional.jacobian
    for function in right.values():
        found = jacobian(function, b, vectorize=True, strategy=strategy)
        torch.testing.assert_close(found, jacobian(function, b))
    with pytest.raises(trnsci.UnsupportedError, match=r"older vmap.*Use torch\.func\.jacrev, jacfwd or vmap"):
        jacobian(trnsolver.sqrtm, SPD[:3, :3], vectorize=True, strategy=strategy)
