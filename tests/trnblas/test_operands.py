"""Operands of every kind for every function: what is no dense number is refused by name, rows are independent."""

import contextlib
from fractions import Fraction

import numpy as np
import pytest
import torch

import trnblas as B
from tests.samples import arguments, rows
from tests.together import together
from tests.trnblas.oracles import C128, F64
from trnsci import TrnError
from trnsci.testing import BACKENDS, assert_within, gaussian, pairs

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)


def t(*shape, seed=1, dtype=torch.float32):
    return gaussian(shape, seed, dtype) / 8 + 2


STEMS = [name.removeprefix("trnblas.") for name in rows() if name.startswith("trnblas.")]
# what computes nothing from arrays of one kind
OTHERS = (
    "error_bound",
    "get_backend",
    "grouped_gemm",
    "gemm_int",
    "gemm_scaled",
    "matmul",
    "probe",
    "rotmg",
    "set_backend",
)
CALLS = {name: arguments(f"trnblas.{name}") for name in STEMS if name not in OTHERS} | {
    "rotg": (t(3), t(3)),
    "rotm": (t(3), t(3), torch.tensor([-1.0, 1.0, 2.0, 3.0, 4.0])),
    "mp2_energy": (t(6, 6), -t(2), -t(2), t(3)),
    "mp2_pairs": (t(6, 6), -t(2), -t(2), t(3)),
}


def bad(x):
    yield None
    yield x.tolist()
    yield "abc"
    yield x.to_sparse()
    yield torch.nested.nested_tensor([x, x])
    yield x.to(torch.float8_e4m3fn)
    yield x.to(torch.complex32)
    yield x.bool()
    yield torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    yield np.array(["a", "b", "c"])
    yield x.to("meta")
    yield torch.tensor(1.0)


@pytest.mark.filterwarnings("ignore")
@together("name", CALLS)
def test_bad_operands_are_refused_by_errors_of_the_library(name):
    args = CALLS[name]
    tensors = [i for i, x in enumerate(args) if isinstance(x, torch.Tensor)]
    for i in tensors:
        for value in bad(args[i]):
            # Anything else that is raised fails the test.
            with contextlib.suppress(TrnError):
                getattr(B, name)(*args[:i], value, *args[i + 1 :])


@together("name", CALLS)
def test_shapes_alone_give_shapes(name):
    args = CALLS[name]
    expected = getattr(B, name)(*args)
    got = getattr(B, name)(*(x.to("meta") if isinstance(x, torch.Tensor) else x for x in args))
    pairs = zip(got, expected, strict=True) if isinstance(expected, tuple) else [(got, expected)]
    for shape, result in pairs:
        assert (shape.is_meta, shape.shape, shape.dtype) == (True, result.shape, result.dtype)


@together("name", [name for name in CALLS if name != "rotm"])
def test_vmap_is_a_loop(name):
    args = CALLS[name]
    tensors = [x for x in args if isinstance(x, torch.Tensor)]

    def call(*given):
        rest = iter(given)
        result = getattr(B, name)(*(next(rest) if isinstance(x, torch.Tensor) else x for x in args))
        return result[0] if isinstance(result, tuple) else result

    batch = [torch.stack([x, x + 0.25]) for x in tensors]
    # memory that nobody wrote is NaN in this mode
    torch.use_deterministic_algorithms(True)
    try:
        got = torch.func.vmap(call)(*batch)
    finally:
        torch.use_deterministic_algorithms(False)
    for i in range(2):
        torch.testing.assert_close(got[i], call(*(x[i] for x in batch)))


BATCHED = {
    "gemm": ([(4, 5, 6), (4, 6, 3)], lambda a, b, **o: B.gemm(1.0, a, b, **o)),
    "gemm_fp64": ([(4, 5, 6), (4, 6, 3)], lambda a, b: B.gemm(1.0, a, b, precision="fp64")),
    "gemm_compensated": ([(4, 5, 6), (4, 6, 3)], lambda a, b: B.gemm(1.0, a, b, precision="compensated")),
    "gemv": ([(4, 5, 6), (4, 6)], lambda a, x: B.gemv(1.0, a, x)),
    "symm": ([(4, 5, 5), (4, 5, 3)], lambda a, b: B.symm(1.0, a, b)),
    "syrk": ([(4, 5, 6)], lambda a: B.syrk(1.0, a)),
    "trmm": ([(4, 5, 5), (4, 5, 3)], lambda a, b: B.trmm(1.0, a, b)),
    "trsm": ([(4, 5, 5), (4, 5, 3)], lambda a, b: B.trsm(1.0, a, b)),
    "dot": ([(4, 60), (4, 60)], B.dot),
    "dot_compensated": ([(4, 60), (4, 60)], lambda x, y: B.dot(x, y, precision="compensated")),
    "nrm2": ([(4, 60)], B.nrm2),
    "nrm2_compensated": ([(4, 60)], lambda x: B.nrm2(x, precision="compensated")),
    "asum": ([(4, 60)], B.asum),
    "axpy": ([(4, 60), (4, 60)], B.axpy),
    "dgmm": ([(4, 5, 6), (4, 6)], B.dgmm),
    "gbmv": ([(4, 3, 6), (4, 6)], lambda a, x: B.gbmv(6, 6, 1, 1, 1.0, a, x)),
    "tbsv": ([(4, 2, 6), (4, 6)], lambda a, x: B.tbsv(1, a, x)),
    "spmv": ([(4, 15), (4, 5)], lambda a, x: B.spmv(5, 1.0, a, x)),
}


@pytest.mark.parametrize(
    ("backend", "name", "factor"), pairs(BACKENDS, list(BATCHED), [1e14, 1e-14, float("nan")]), ids=str
)
def test_rows_of_a_batch_never_touch_each_other(backend, name, factor):
    shapes, call = BATCHED[name]
    operands = [t(*shape, seed=n) for n, shape in enumerate(shapes)]
    with backend:
        expected = call(*operands)
        # One element of one matrix is enough for a NaN; a scale is of all of it.
        changed = [x.clone() for x in operands]
        changed[0][2] *= factor
        got = call(*changed)
    others = [0, 1, 3]
    assert torch.equal(got[others], expected[others])


@on_backends
@pytest.mark.parametrize("kind", ["rows and columns", "inside", "everywhere"])
def test_compensated_products_of_badly_scaled_operands(backend, kind):
    n = 12
    generator = torch.Generator().manual_seed(3)

    def powers(*shape, reach=15):
        return 10.0 ** torch.randint(-reach, reach + 1, shape, generator=generator).double()

    a, b = gaussian((n, n), 1, F64), gaussian((n, n), 2, F64)
    if kind == "rows and columns":
        a, b = a * powers(n, 1) * powers(n), b * powers(n)
    elif kind == "inside":
        scale = powers(n)
        a, b = a * scale, b / scale.unsqueeze(1) * powers(n)
    else:
        a, b = a * powers(n, n, reach=60), b * powers(n, n, reach=60)
    exact = [[Fraction(0)] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            exact[i][j] = sum(Fraction(a[i, k].item()) * Fraction(b[k, j].item()) for k in range(n))
    expected = torch.tensor([[float(x) for x in row] for row in exact], dtype=F64)
    with backend:
        got = B.gemm(1.0, a, b, precision="compensated")
    assert_within(got, expected, B.error_bound(n, F64, "compensated") * (a.abs() @ b.abs()))


def _compiled():
    a, b, x = gaussian((4, 4), 1, C128), gaussian((4, 3), 2, C128), gaussian((4,), 3, C128)
    ap, band = gaussian((10,), 4, C128), gaussian((2, 4), 5, C128) + 3
    yield "gemm", lambda: B.gemm(1j, a, b, trans_a="c")
    yield "hemm", lambda: B.hemm(1j, a, b)
    yield "hemm right", lambda: B.hemm(1j, a, b.mT, side=1)
    yield "hemv", lambda: B.hemv(1j, a, x)
    yield "hpmv", lambda: B.hpmv(4, 1j, ap, x)
    yield "herk", lambda: B.herk(1.0, b, trans="c")
    yield "her2k", lambda: B.her2k(1j, b, b.flip(0))
    yield "trsm", lambda: B.trsm(1j, a + 4 * torch.eye(4), b, trans_a="c")
    yield "gemv", lambda: B.gemv(1j, a, x, trans="c")
    yield "gerc", lambda: B.gerc(1j, x, x.flip(0))
    yield "dotc", lambda: B.dotc(x, x.flip(0))
    yield "hpr2", lambda: B.hpr2(4, 1j, x, x.flip(0), ap)
    yield "hbmv", lambda: B.hbmv(1, 1j, band, x)
    yield "tbsv", lambda: B.tbsv(1, band, x, trans="c")
    yield "geam", lambda: B.geam(1j, a, 2j, a, trans_a="c")
    yield "dgmm", lambda: B.dgmm(a.mH, x.conj())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "call"), list(_compiled()), ids=lambda value: value if isinstance(value, str) else "")
def test_compiled_functions_conjugate_as_eager_ones_do(name, call):
    torch._dynamo.reset()
    assert_within(torch.compile(call, backend="aot_eager")(), call(), 1e-13)


def test_an_empty_band_system_has_the_shape_of_its_batch():
    assert B.tbsv(1, torch.ones(3, 2, 0), torch.ones(2, 1, 0)).shape == (2, 3, 0)
