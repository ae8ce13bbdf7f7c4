"""Every public object survives pickle, copies and ``torch.save``, and computes the same afterwards."""

import copy
import dataclasses
import functools
import importlib
import inspect
import io
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import trnblas
import trnchem
import trnfft
import trnrand
import trnsci
import trnsim
import trnsolver as so
import trnsparse as ts
import trntensor as tt
from trnblas.kernels import gemm as kernels
from trnsci import UnsupportedError
from trnsci.testing import gaussian

A = gaussian((6, 6), 1, torch.float64)
S = A @ A.mT + 6 * torch.eye(6, dtype=torch.float64)
B = torch.arange(1.0, 7.0, dtype=torch.float64)
LAPLACIAN = sp.csr_array(sp.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(6, 6)))
C = ts.CSRMatrix.from_scipy(LAPLACIAN)
PLAN = trnfft.plan((8,), torch.complex64)


def _saved(x):
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def _square(x):
    return trnblas.gemm(1.0, x, x)


def _ledger():
    with trnsci.ledger() as noted:
        trnblas.gemm(1.0, A, A)
    return noted


@functools.cache
def _energy():
    options = trnchem.MP2Options(basis="sto-3g", pairs=True)
    return trnchem.dfmp2("hydrogen fluoride", options=options)


@functools.cache
def _correlation():
    return trnchem.rpa("hydrogen fluoride", options=trnchem.MP2Options(basis="sto-3g"))


def _plan():
    return trnchem.plan("hydrogen fluoride", ranks=2, options=trnchem.MP2Options(basis="sto-3g"))


def _probed():
    x = np.ones((1, 2, 2), np.float32)
    with trnsim.probe() as seen:
        trnsim.simulate(kernels.gemm)(x, x)
    return seen


def _differing():
    x = np.ones((1, 2, 2), np.float32)
    return trnsim.compare(kernels.gemm, lambda a, b: a @ b + 1, x, x)


def _profiled():
    x = np.ones((1, 2, 2), np.float32)
    return trnsim.profile(kernels.gemm)(x, x)[1]


TRIPS = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "save": _saved,
}
# What makes an object, and what it computes, from which equality is judged where its fields do not say all.
OBJECTS = {
    "trnblas.Achieved": (lambda: trnsci.Achieved(A, 1e-9), None),
    "trnblas.Epilogue": (lambda: trnblas.Epilogue(bias=B), None),
    "trnfft.FFTPlan": (lambda: PLAN, lambda x: x(torch.arange(8.0).to(torch.complex64))),
    "trnfft.CallbackPlan": (
        lambda: trnfft.CallbackPlan((PLAN, trnfft.Scale(0.5))),
        lambda x: x(torch.arange(8.0).to(torch.complex64)),
    ),
    "trnfft.ComplexTensor": (lambda: trnfft.ComplexTensor(A, S), lambda x: (x.real, x.imag)),
    "trnfft.Convert": (lambda: trnfft.Convert(torch.float32), None),
    "trnfft.Multiply": (lambda: trnfft.Multiply(B), None),
    "trnfft.Scale": (lambda: trnfft.Scale(2.0), None),
    "trnfft.Window": (lambda: trnfft.Window(B), None),
    "trnrand.Generator": (lambda: trnrand.Generator(3), lambda x: trnrand.normal(5, generator=x)),
    "trnrand.NumpyGenerator": (lambda: trnrand.NumpyGenerator(3), lambda x: x.random(5)),
    "trnrand.MT19937": (lambda: trnrand.MT19937(3), lambda x: x.words(5)),
    "trnrand.XORWOW": (lambda: trnrand.XORWOW(3), lambda x: x.words(5)),
    "trnrand.MRG32k3a": (lambda: trnrand.MRG32k3a(3), lambda x: x.words(5)),
    "trnrand.Halton": (lambda: trnrand.Halton(3, scramble=True, generator=trnrand.Generator(1)), lambda x: x.random(5)),
    "trnrand.Sobol": (lambda: trnrand.Sobol(3, scramble=True, generator=trnrand.Generator(1)), lambda x: x.random(4)),
    "trnrand.LatinHypercube": (
        lambda: trnrand.LatinHypercube(3, 9, generator=trnrand.Generator(1)),
        lambda x: x.random(4),
    ),
    "trnrand.Stream": (lambda: trnrand.Stream(3), None),
    "trnsolver.LDL": (lambda: so.ldl(S), None),
    "trnsolver.LU": (lambda: so.lu_factor(A), None),
    "trnsolver.PLU": (lambda: so.lu(A), None),
    "trnsolver.QR": (lambda: so.qr(A), None),
    "trnsolver.PivotedQR": (lambda: so.qr_pivoted(A), None),
    "trnsolver.SVD": (lambda: so.svd(A), None),
    "trnsolver.Bidiagonal": (lambda: so.gebrd(A), None),
    "trnsolver.Reflectors": (lambda: so.geqrf(A), None),
    "trnsolver.Count": (lambda: so.count_eigenvalues(C, (0.0, 1.0)), None),
    "trnsolver.Eig": (lambda: so.eig(A), None),
    "trnsolver.Eigh": (lambda: so.eigh(S), None),
    "trnsolver.Hessenberg": (lambda: so.hessenberg(A), None),
    "trnsolver.Schur": (lambda: so.schur(A), None),
    "trnsolver.SortedSchur": (lambda: so.schur(A, sort="lhp"), None),
    "trnsolver.LeastSquares": (lambda: so.lstsq(A, S), None),
    "trnsolver.LowRank": (lambda: so.svd_randomized(A, 2), None),
    "trnsolver.Pairs": (lambda: so.eigsh(C, 2), None),
    "trnsolver.Polar": (lambda: so.polar(A), None),
    "trnsolver.Result": (lambda: so.cg(C, B), None),
    "trnsolver.SlogDet": (lambda: so.slogdet(A), None),
    "trnsolver.TraceEstimate": (lambda: so.trace(A), None),
    "trnsolver.SparseFactor": (lambda: so.factor_sparse(C), lambda x: (x.solve(B), x.order, repr(x))),
    "trnsparse.COOMatrix": (lambda: C.to_coo(), None),
    "trnsparse.CSRMatrix": (lambda: C, lambda x: x @ B),
    "trnsparse.CSCMatrix": (lambda: C.to_csc(), None),
    "trnsparse.BSRMatrix": (lambda: C.to_bsr(4), lambda x: x @ B),
    "trnsparse.DIAMatrix": (lambda: C.to_dia(), lambda x: x @ B),
    "trnsparse.ELL": (lambda: ts.ELL.of(C), lambda x: x.to_csr()),
    "trnsparse.HYB": (lambda: ts.HYB.of(C), lambda x: x.to_csr()),
    "trnsparse.SELLMatrix": (lambda: C.to_sell(2), lambda x: x @ B),
    "trnsparse.BlockedELL": (lambda: ts.BlockedELL.of(C.to_bsr(2), 2), lambda x: x.to_bsr()),
    "trnsparse.Mask": (lambda: ts.causal() & ts.window(3), repr),
    "trnsparse.BoundMask": (lambda: (ts.causal() & ts.window(3)).bind(8, 8), repr),
    "trnsparse.Choice": (lambda: ts.choose(C, 4), None),
    "trnsparse.Coloring": (lambda: ts.coloring(C), None),
    "trnsparse.Eigenpair": (lambda: ts.power_iteration(C, tol=0.1), None),
    "trnsparse.Solution": (lambda: ts.cg(C, B), None),
    "trnsparse.Quartets": (lambda: ts.Quartets(torch.ones(2, 2), torch.ones(2), 3), None),
    "trntensor.CP": (lambda: tt.cp(gaussian((3, 4, 5), 1), 2), None),
    "trntensor.TensorTrain": (lambda: tt.tensor_train(gaussian((3, 4, 5), 1)), None),
    "trntensor.Tucker": (lambda: tt.tucker(gaussian((3, 4, 5), 1), (2, 2, 2)), None),
    "trntensor.BlockSparse": (lambda: tt.block_sparse(torch.eye(4), ((2, 2), (2, 2))), lambda x: x.dense()),
    "trntensor.ContractionPlan": (lambda: tt.plan("ij,jk->ik", A, S), lambda x: x(A, S)),
    "trntensor.Contraction": (
        lambda: tt.Contraction(subscripts="ij,jk->ik", strategy="gemm", backend="pytorch", reason="", flops=2, bytes=3),
        None,
    ),
    "trntensor.Convergence": (lambda: tt.Convergence(iterations=3, converged=True, errors=(0.5, 0.1)), None),
    "trntensor.FusedProgram": (lambda: tt.fuse("ij,jk->ik", epilogue=torch.abs), lambda x: x(A, S)),
    "trntensor.MP2Energy": (lambda: tt.MP2Energy(1.0, 0.5, 0.5), None),
    "trnchem.CompleteBasis": (lambda: trnchem.extrapolate((-1.0, -0.1), (-1.1, -0.2), (2, 3)), None),
    "trnchem.MP2Options": (lambda: trnchem.MP2Options(basis="sto-3g"), None),
    "trnchem.MP2Plan": (_plan, None),
    "trnchem.MP2Result": (_energy, lambda x: (x.to_dict(), x.plan)),
    "trnchem.RPAResult": (_correlation, None),
    "trnchem.Metric": (lambda: _energy().metric, None),
    "trnchem.PairEnergies": (lambda: _energy().pairs, None),
    "trnchem.Progress": (lambda: trnchem.Progress("pairs", 1, 2), None),
    "trnchem.Screen": (lambda: trnchem.Screen(threshold=1e-12, pairs=2, total=3, sparse=False), None),
    "trnchem.Share": (lambda: _plan().shares[0], None),
    "trnchem.Stage": (lambda: _plan().stages[0], None),
    "trnsim.Comparison": (_differing, repr),
    "trnsim.Difference": (lambda: _differing().differences[0], None),
    "trnsim.Kernel": (
        lambda: kernels.gemm,
        lambda x: x(*np.ones((2, 1, 2, 2), np.float32)),
    ),
    "trnsim.Probe": (_probed, lambda x: {name: str(value) for name, value in x.items()}),
    "trnsim.Report": (_profiled, str),
    "trnsim.Target": (lambda: trnsim.TARGETS["trn2"], None),
    "trnsci.Ledger": (_ledger, lambda x: len(x)),
    "trnsci.Plan": (lambda: trnsci.plan(trnblas.gemm, 1.0, A, A), repr),
    "trnsci.Explanation": (lambda: trnsci.explain(trnblas.gemm, 1.0, A, A), repr),
    "trnsci.Cost": (lambda: trnsci.Cost(1, 2, 3), None),
    "trnsci.Program": (lambda: trnsci.program(_square), lambda x: x(A)),
}
# Classes nobody makes by themselves, and objects tied to processes.
ELSEWHERE = {"trnsparse.SparseMatrix", "trnsparse.RowSharded", "trnsci.Call", "trnsci.Step", "trnsci.ProgramPlan"}
VARIANTS = {
    **{f"factor of {kind}": (lambda kind=kind: so.factor_sparse(C, kind=kind)) for kind in ("lu", "cholesky", "qr")},
    "factor by fronts": lambda: so.factor_sparse(C, method="multifrontal"),
    "factor of other values": lambda: so.factor_sparse(C).refactor(2 * C.values),
    "jacobi": lambda: so.jacobi_preconditioner(C),
    "block_jacobi": lambda: so.block_jacobi_preconditioner(C, 2),
    "ssor": lambda: so.ssor_preconditioner(C, omega=1.5),
    "ilu0": lambda: so.ilu0_preconditioner(C),
    "ic0": lambda: so.ic0_preconditioner(C),
    "chebyshev": lambda: so.chebyshev_preconditioner(C, 0.4, 4.6, degree=3),
}


def _same(x, y):
    """Whether two values are equal, tensors by their bits."""
    if type(x) is not type(y):
        return False
    if isinstance(x, torch.Tensor):
        return x.dtype == y.dtype and torch.equal(x, y)
    if isinstance(x, np.ndarray):
        return np.array_equal(x, y)
    if isinstance(x, ts.SparseMatrix):
        return x.shape == y.shape and _same(x.to_coo().values, y.to_coo().values)
    if isinstance(x, tuple | list):
        return len(x) == len(y) and all(map(_same, x, y))
    if dataclasses.is_dataclass(x):
        return all(_same(getattr(x, f.name), getattr(y, f.name)) for f in dataclasses.fields(x) if f.compare)
    return x == y or type(x).__eq__ is object.__eq__


def test_a_plan_of_a_program_says_why_it_stays():
    plan = trnsci.program(_square).plan(A)
    assert copy.deepcopy(plan) is plan
    with pytest.raises(UnsupportedError, match="code generated in this process"):
        pickle.dumps(plan)


def test_kernels_keep_their_launch_and_those_without_a_module_say_why_they_stay():
    for trip in TRIPS.values():
        assert trip(kernels.gemm[2]).grid == (2,)
        assert trip(kernels.gemm) is kernels.gemm
    with pytest.raises(TypeError, match=r"is not this kernel\. Define it in a module"):
        pickle.dumps(trnsim.jit(lambda x: x))


def test_every_public_class_is_here():
    public = set()
    for library in (
        "trnblas",
        "trnfft",
        "trnrand",
        "trnsolver",
        "trnsparse",
        "trntensor",
        "trnchem",
        "trnsim",
        "trnsci",
    ):
        module = importlib.import_module(library)
        classes = [name for name in module.__all__ if inspect.isclass(getattr(module, name))]
        public |= {f"{library}.{name}" for name in classes if not issubclass(getattr(module, name), Exception)}
    assert public - {"trnsci.Achieved"} == set(OBJECTS) | ELSEWHERE


@pytest.mark.parametrize("trip", TRIPS)
@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_the_same_after_the_trip(name, trip):
    make, compute = OBJECTS[name]
    before = make()
    library, stem = name.split(".")
    assert isinstance(before, getattr(importlib.import_module(library), stem))
    after = TRIPS[trip](before)
    assert type(after) is type(before)
    if compute is not None:
        # a copy of a generator that was copied without its state would draw what the other draws
        assert _same(compute(after), compute(before if trip != "copy" else make()))
    else:
        assert _same(after, before)


@pytest.mark.parametrize("trip", TRIPS)
@pytest.mark.parametrize("name", VARIANTS)
def test_factors_and_preconditioners_apply_the_same(name, trip):
    before = VARIANTS[name]()
    after = TRIPS[trip](before)
    for right in (B, torch.stack([B, 2 * B], 1)):
        assert torch.equal(*(x.solve(right) if isinstance(x, so.SparseFactor) else x(right) for x in (before, after)))


@pytest.mark.parametrize(
    "error",
    [
        trnsci.ArgumentError("gemm", "a", 3, "a tensor", hint="Give one"),
        trnsci.DtypeError("gemm", "a", torch.int8, "a float"),
        trnsci.NotConverged(op="cg", iterations=3, residual=0.5),
        trnsci.Singular(op="solve", index=2, batch=(1,)),
        trnsci.NotPositiveDefinite(op="cholesky", index=2),
        trnsci.NumericalError("lu", "it overflows", "Scale it"),
        trnsci.UnsupportedError("gemm", [("nki", "no float64")], hint="Use pytorch"),
        trnsci.CapacityError("SBUF", 3, 2, "Use less"),
        trnsci.BackendUnavailable("cuda", "no device"),
        trnsci.KernelError("a rule", rule="partitions", got=129, limit=128),
        trnsci.RankFailed("gemm", 1, "it ended", 0, "a message"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_travel_between_processes(error):
    for trip in (TRIPS["pickle"], TRIPS["deepcopy"], _saved):
        after = trip(error)
        assert type(after) is type(error)
        assert str(after) == str(error)
        assert after.__dict__ == error.__dict__
