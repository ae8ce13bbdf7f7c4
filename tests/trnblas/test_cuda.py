"""Every function on tensors of an NVIDIA GPU, beside SciPy in double precision; the CPU runs the same table."""

import numpy as np
import pytest
import torch

import trnblas
from tests.trnblas.oracles import F32, F64, double, scipy_blas, sum_bound
from trnsci.testing import assert_within, gaussian

N, K = 17, 3
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def operands(dtype):
    eye = torch.eye(N, dtype=dtype)
    made = {"x": gaussian((N,), 1, dtype), "y": gaussian((N,), 2, dtype), "ap": gaussian((N * (N + 1) // 2,), 3, dtype)}
    made |= {"a": gaussian((N, N), 4, dtype), "b": gaussian((N, N), 5, dtype), "c": gaussian((N, N), 6, dtype)}
    # Triangles whose inverses are no larger than they are.
    made["t"] = gaussian((N, N), 7, dtype) / (4 * N) + eye
    made["tp"] = torch.cat([made["t"][j, : j + 1] for j in range(N)])
    made["band"] = gaussian((2 * K + 1, N), 8, dtype)
    made["half"] = gaussian((K + 1, N), 9, dtype)
    made["tb"] = torch.cat([gaussian((K, N), 10, dtype) / (8 * K), torch.ones(1, N, dtype=dtype)])
    return made


# Function, our arguments, SciPy's name and arguments where they differ. Letters name operands.
TABLE = [
    ("axpy", ["x", "y", 2.0], "axpy", ["x", "y", N, 2.0]),
    ("scal", [2.0, "x"], None, None),
    ("rot", ["x", "y", 0.6, 0.8], None, None),
    ("dot", ["x", "y"], None, None),
    ("nrm2", ["x"], None, None),
    ("asum", ["x"], None, None),
    ("gemv", [1.5, "a", "x", 0.5, "y", 1], "gemv", [1.5, "a", "x", 0.5, "y", 0, 1, 0, 1, 1]),
    ("ger", [1.5, "x", "y", "a"], "ger", [1.5, "x", "y", 1, 1, "a"]),
    ("symv", [1.5, "a", "x", 0.5, "y"], None, None),
    ("trmv", ["a", "x"], None, None),
    ("trsv", ["t", "x"], None, None),
    ("syr", [1.5, "x", 1, "a"], "syr", [1.5, "x", 1, 1, 0, N, "a"]),
    ("syr2", [1.5, "x", "y", 1, "a"], "syr2", [1.5, "x", "y", 1, 1, 0, 1, 0, N, "a"]),
    ("gbmv", [N, N, K, K, 1.5, "band", "x"], None, None),
    ("sbmv", [K, 1.5, "half", "x"], None, None),
    ("tbmv", [K, "half", "x"], None, None),
    ("tbsv", [K, "tb", "x"], None, None),
    ("spmv", [N, 1.5, "ap", "x"], None, None),
    ("spr", [N, 1.5, "x", "ap"], None, None),
    ("spr2", [N, 1.5, "x", "y", "ap"], None, None),
    ("tpmv", [N, "ap", "x"], None, None),
    ("tpsv", [N, "tp", "x"], None, None),
    ("gemm", [1.5, "a", "b", 0.5, "c", 0, 1], None, None),
    ("symm", [1.5, "a", "b", 0.5, "c"], None, None),
    ("syrk", [1.5, "a", 0.5, "c"], None, None),
    ("syr2k", [1.5, "a", "b", 0.5, "c"], None, None),
    ("trmm", [1.5, "a", "b"], None, None),
    ("trsm", [1.5, "t", "b"], None, None),
]


def filled(arguments, table, change=lambda x: x):
    return [change(table[value]) if isinstance(value, str) else value for value in arguments]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize(("name", "ours", "theirs", "arguments"), TABLE, ids=[row[0] for row in TABLE])
def test_every_function(name, ours, theirs, arguments, dtype, device):
    table = operands(dtype)
    got = getattr(trnblas, name)(*filled(ours, table, lambda x: x.to(device)))
    got = got if isinstance(got, tuple) else (got,)
    arguments = arguments or ours
    expected = scipy_blas(theirs or name, *filled(arguments, table, torch.clone))
    sizes = scipy_blas(theirs or name, *(abs(v) if isinstance(v, float) else v for v in filled(arguments, table, abs)))
    if name in ("trsv", "tbsv", "tpsv", "trsm"):
        # |inv(a)| |a| |inv(a)| |b| of triangles with small elements off a diagonal near one.
        sizes = 8 * sizes.abs().max().expand_as(sizes)
    for part, exact, size in zip(got, *((expected, sizes) if len(got) > 1 else ([expected], [sizes])), strict=True):
        assert part.device.type == device
        assert part.dtype == dtype
        assert_within(part, exact, 2 * sum_bound(2 * N + 4, size, dtype))


@pytest.mark.parametrize("device", DEVICES)
def test_positions_rotations_and_diagonals(device):
    x, a = gaussian((N,), 1), gaussian((N, N), 2)
    on = x.to(device), a.to(device)
    assert int(trnblas.iamax(on[0])) == int(np.abs(double(x)).argmax())
    assert int(trnblas.iamin(on[0])) == int(np.abs(double(x)).argmin())
    assert torch.equal(trnblas.copy(on[0]).cpu(), x)
    assert torch.equal(trnblas.swap(on[0], 2 * on[0])[0].cpu(), 2 * x)
    assert_within(trnblas.dgmm(on[1], on[0]), double(a) * double(x), sum_bound(1, a.abs() * x.abs(), F32))
    both = trnblas.geam(2.0, on[1], -1.0, on[1], "t")
    assert_within(both, 2 * double(a).T - double(a), sum_bound(2, 2 * a.abs().mT + a.abs(), F32))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("gemm", [1.5, "a", "b"]),
        ("hemm", [1.5, "a", "b"]),
        ("herk", [1.5, "a"]),
        ("gerc", [1.5j, "x", "y"]),
        ("hemv", [1.5, "a", "x"]),
        ("trmm", [1.5, "a", "b"]),
        ("dotc", ["x", "y"]),
    ],
)
def test_complex_functions(name, arguments, device):
    dtype = torch.complex64
    table = operands(dtype)
    got = getattr(trnblas, name)(*filled(arguments, table, lambda x: x.to(device)))
    expected = scipy_blas(name, *filled(arguments, table), complex_valued=True)
    largest = [table[v].abs().double().max() if isinstance(v, str) else abs(v) for v in arguments]
    size = N * torch.tensor([float(v) for v in largest]).prod() * (1 if name != "herk" else float(largest[-1]))
    assert got.device.type == device
    assert_within(got, expected, 2 * sum_bound(2 * N + 4, size.expand(expected.shape), dtype))


@pytest.mark.cuda
def test_gradients_flow_on_the_gpu():
    a, b = gaussian((5, 4), 1, F64).cuda().requires_grad_(), gaussian((4, 3), 2, F64).cuda().requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: trnblas.gemm(1.5, a, b), (a, b))
    assert torch.autograd.gradcheck(lambda a: trnblas.syrk(1.5, a, lower=1), (a,))
