"""spmm and spmv in compressed formats: SciPy's values within the stated bound, on every backend."""

import copy
import operator
import pickle
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import trnsci
import trnsparse as ts
from tests.together import together
from trnsci import ArgumentError
from trnsci.errors import BackendUnavailable, DtypeError, UnsupportedError
from trnsci.testing import BACKENDS, assert_within, gamma, gaussian, pairs

# What underflow may take away.
TINY = torch.finfo(torch.float32).tiny


def matrix(m, k, density=0.1, seed=0, dtype=torch.float32):
    """Random, with an empty row and a dense one where there is room."""
    rng = np.random.default_rng(seed)
    kept = rng.random((m, k)) < density
    if m > 2:
        kept[0], kept[m // 2] = False, True
    return torch.where(torch.from_numpy(kept), gaussian((m, k), seed, dtype), 0)


def bound(dense, b, extra=2):
    length = int((dense != 0).sum(1).max()) if dense.numel() else 0
    wide = torch.complex128 if dense.is_complex() else torch.float64
    factor = 4 if dense.is_complex() else 1
    return factor * gamma(length + extra, dense.dtype) * (dense.abs().to(wide).abs() @ b.abs().to(wide).abs()) + TINY


CASES = [(1, 1, 1), (129, 127, 3), (300, 130, 65), (5, 200, 1), (130, 5, 513), (3, 0, 4), (0, 3, 4), (3, 4, 0)]


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("shape", CASES, ids=str)
def test_spmm_is_scipys_within_its_bound(backend, shape):
    m, k, n = shape
    dense, b = matrix(m, k), gaussian((k, n), seed=3)
    wanted = torch.from_numpy(sp.csr_array(dense.double().numpy()) @ b.double().numpy())
    for make in (ts.CSRMatrix, ts.CSCMatrix, ts.COOMatrix):
        a = make.from_dense(dense)
        with backend:
            assert_within(ts.spmm(a, b, format="csr"), wanted, bound(dense, b))
            assert_within(a @ b, wanted, bound(dense, b))


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_batches_vectors_and_the_right_side(backend):
    dense = matrix(40, 30, 0.2)
    a = ts.CSRMatrix.from_dense(dense)
    b = gaussian((2, 3, 30, 4), 1)
    with backend:
        x = gaussian((5, 40), 2)
        for name in ("auto", "csr"):
            assert_within(ts.spmm(a, b, format=name), dense.double() @ b.double(), bound(dense, b))
            made = ts.spmv(a, b[..., 0], format=name)
            assert_within(made, (dense.double() @ b[..., :1].double())[..., 0], bound(dense, b)[..., 0])
            made = ts.spmv(a, x, trans=True, format=name)
            assert_within(made, x.double() @ dense.double(), bound(dense.T, x.T).T)
        assert_within(x @ a, x.double() @ dense.double(), bound(dense.T, x.T).T)
        assert_within(x[0] @ a, x[0].double() @ dense.double(), bound(dense.T, x.T)[:, 0])


def test_numpy_in_numpy_out():
    dense = matrix(8, 6, 0.4)
    a = ts.CSRMatrix.from_dense(dense)
    made = ts.spmm(a, np.ones((6, 2), np.float32))
    assert isinstance(made, np.ndarray)
    assert isinstance(np.ones((2, 8), np.float32) @ a, np.ndarray)
    assert_within(a @ np.ones(6, np.float32), dense.double().sum(1), bound(dense, torch.ones(6, 1))[:, 0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64])
def test_other_dtypes(dtype):
    dense = matrix(30, 20, 0.3).mul(4).to(dtype)
    b = gaussian((20, 3), 1).mul(4).to(dtype)
    wanted = dense.double() @ b.double()
    limit = 0 if dtype == torch.int64 else gamma(3, dtype) * (dense.abs().double() @ b.abs().double())
    assert_within(ts.CSRMatrix.from_dense(dense) @ b, wanted, limit)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_kernels(dtype):
    dense, b = matrix(130, 140).to(dtype), gaussian((140, 9), 1).to(dtype)
    with trnsci.backend("simulator"):
        made = ts.spmm(ts.CSRMatrix.from_dense(dense), b, format="csr")
    # Products of halves are exact in float32, where they are summed; the result is rounded once.
    limit = gamma(142, torch.float32) * (dense.abs().double() @ b.abs().double())
    wanted = dense.double() @ b.double()
    assert_within(made, wanted, limit + gamma(1, dtype) * (wanted.abs() + limit) + torch.finfo(dtype).smallest_normal)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("trans", [False, True])
def test_gradients_of_values_and_dense_operand(dtype, trans):
    a = ts.CSRMatrix.from_dense(matrix(6, 5, 0.5, dtype=dtype))
    values = a.values.clone().requires_grad_()
    b = gaussian((6 if trans else 5, 3), 1, dtype).requires_grad_()

    def run(values, b):
        return ts.spmm(a.with_values(values), b, trans=trans)

    assert torch.autograd.gradcheck(run, (values, b))
    assert torch.autograd.gradgradcheck(run, (values, b))


@pytest.mark.sim
def test_kernel_gradients_are_those_of_float64():
    dense = matrix(140, 130)
    a, b = ts.CSRMatrix.from_dense(dense).requires_grad_(), gaussian((130, 5), 1).requires_grad_()
    g = gaussian((140, 5), 2)
    with trnsci.backend("simulator"):
        ts.spmm(a, b, format="csr").backward(g)
    wanted = (g.double() @ b.detach().double().T)[a.to_coo().row, a.to_coo().col]
    limit = gamma(7, torch.float32) * (g.double().abs() @ b.detach().double().abs().T)
    assert_within(a.values.grad, wanted, limit[a.to_coo().row, a.to_coo().col])
    assert_within(b.grad, dense.double().T @ g.double(), bound(dense.T, g))


def test_the_op_is_well_registered_and_compiles():
    a, b = ts.CSRMatrix.from_dense(matrix(9, 8, 0.4)), gaussian((8, 3), 1)
    args = (a.indptr, a.indices, a.values.clone().requires_grad_(), b.clone().requires_grad_(), 8, False, "")
    torch.library.opcheck(torch.ops.trnsparse.spmm.default, args)
    run = torch.compile(lambda values, b: ts.spmm(a.with_values(values), b), backend="aot_eager")
    assert torch.equal(run(a.values, b), a @ b)


def test_torch_func_sees_through():
    a, b = ts.CSRMatrix.from_dense(matrix(9, 8, 0.4)), gaussian((4, 8, 3), 1)
    made = torch.func.vmap(lambda b: ts.spmm(a, b))(b)
    assert_within(made, a.to_dense().double() @ b.double(), bound(a.to_dense(), b))


def test_a_plan_names_the_op_and_predicts():
    a, b = ts.CSRMatrix.from_dense(matrix(300, 200)), gaussian((200, 8))
    plan = trnsci.plan(ts.spmm, a, b)
    assert [step.op for step in plan.steps] == ["trnsparse::spmm"]
    assert plan.flops == 2 * a.nnz * 8
    assert plan.predicted["trn2"] > 0


def test_trn1_is_told_why_not(monkeypatch):
    monkeypatch.setenv("TRNSCI_TARGET", "trn1")
    a, b = ts.CSRMatrix.from_dense(matrix(9, 8, 0.4)), gaussian((8, 3))
    with trnsci.backend("simulator"):
        with pytest.raises(UnsupportedError, match="trn1 cannot gather rows by DMA"):
            ts.spmm(a, b, format="csr")
        # which is why it is not chosen there
        assert "csr no kernel" in trnsci.plan(ts.spmm, a, b).reason
        assert_within(ts.spmm(a, b), a.to_dense().double() @ b.double(), bound(a.to_dense(), b))


def test_results_repeat_bit_for_bit():
    a, b = ts.CSRMatrix.from_dense(matrix(300, 200)), gaussian((200, 33))
    assert torch.equal(a @ b, a @ b)


ERRORS = [
    (lambda a: ts.spmm(a, torch.ones(3, 2)), ArgumentError, "K differs: a has K=5, b has K=3"),
    (lambda a: ts.spmm(a, torch.ones(5, 2).double()), DtypeError, "a has dtype=float32, b has dtype=float64"),
    (lambda a: ts.spmm(torch.ones(2, 2), torch.ones(2, 2)), DtypeError, "expected a matrix of trnsparse"),
    (lambda a: ts.spmm(a, torch.ones(5, 2), beta=1.0), ArgumentError, "because beta is 1.0"),
    (lambda a: ts.spmm(a, torch.ones(5, 2), beta=1.0, c=torch.ones(2, 2)), ArgumentError, "expected (4, 2)"),
    (lambda a: ts.spmm(a, torch.ones(5, 2), trans="x"), ArgumentError, "trans is 'x'"),
    (lambda a: ts.spmm(a, torch.ones(5, 2), alpha=1j), DtypeError, "expected a real number"),
    (lambda a: ts.spmm(a, torch.ones(5, 2), out=torch.empty(3, 2)), ArgumentError, "shape of out is (3, 2)"),
    (lambda a: ts.spmv(a, torch.ones(4)), ArgumentError, "K differs: a has K=5, x has K=4"),
]


@together(("call", "kind", "text"), ERRORS)
def test_mistakes_are_named(call, kind, text):
    with pytest.raises(kind) as caught:
        call(ts.CSRMatrix.from_dense(torch.ones(4, 5)))
    assert text in str(caught.value)


@pytest.mark.grid(1)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(6, 8, 7), (1, 1, 1), (5, 0, 4), (40, 33, 20)], ids=str)
def test_spgemm_is_scipys(shape, dtype):
    m, k, n = shape
    kind = torch.from_numpy(np.zeros(1, dtype)).dtype
    x, y = matrix(m, k, 0.3, 1, kind), matrix(k, n, 0.3, 2, kind)
    wanted = (sp.csr_array(x.numpy()) @ sp.csr_array(y.numpy())).toarray()
    # both answers may be off by the bound; a complex product is four real ones
    limit = 2 * (4 if kind.is_complex else 1) * gamma(k + 1, kind) * (np.abs(x.numpy()) @ np.abs(y.numpy()))
    for a, b in (
        (ts.CSRMatrix.from_dense(x), ts.CSCMatrix.from_dense(y)),
        (ts.BSRMatrix.from_dense(x, (3, 2)), ts.BSRMatrix.from_dense(y, (2, 5))),
    ):
        made = a @ b
        assert made.format == a.format
        assert_within(made.to_dense(), wanted, limit)
    assert_within(ts.spgemm(a.T, b, trans_a=True).to_dense(), wanted, limit)


def test_spgemm_gradients():
    a, b = ts.CSRMatrix.from_dense(matrix(4, 5, 0.5, 1, torch.float64)), ts.eye(5, dtype=torch.float64)
    values = a.values.clone().requires_grad_()
    other = b.values.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v, w: ts.spgemm(a.with_values(v), b.with_values(w)).values, (values, other))
    with pytest.raises(ArgumentError, match="K differs"):
        ts.spgemm(a, a)


FORMATS = ("stored", "auto", "csr", "bsr", "dense", "sell")


@together(
    ("kind", "trans", "dtype"), pairs(["csr", "bsr", "coo", "csc"], ["n", "t", "c"], [torch.float64, torch.complex128])
)
def test_every_format_of_the_product_agrees(kind, trans, dtype):
    generator = torch.Generator().manual_seed(3)
    dense = torch.randn(150, 140, dtype=dtype, generator=generator)
    dense = dense * (torch.rand(150, 140, generator=generator) < 0.1)
    a = getattr(ts.COOMatrix.from_dense(dense), f"to_{kind}")()
    b = torch.randn(2, 140 if trans == "n" else 150, 5, dtype=dtype, generator=generator)
    turned = {"n": dense, "t": dense.T, "c": dense.mH}[trans]
    expected = torch.from_numpy(np.matmul(turned.resolve_conj().numpy(), b.numpy()))
    # both answers may be off by the bound of a whole row of 150; a complex product is four real ones
    limit = 2 * (4 if dtype.is_complex else 1) * gamma(152, dtype) * (turned.abs() @ b.abs())
    for name in FORMATS:
        assert_within(ts.spmm(a, b, trans=trans, format=name), expected, limit)
        assert_within(ts.spmv(a, b[..., 0], trans=trans, format=name), expected[..., 0], limit[..., 0])


@pytest.mark.parametrize("call", [ts.spmm, operator.matmul], ids=["spmm", "@"])
def test_a_plan_says_which_format_was_chosen_and_what_the_others_would_take(call):
    b = gaussian((256, 300))
    few, full = ts.CSRMatrix.from_dense(torch.eye(256)), ts.CSRMatrix.from_dense(gaussian((256, 256), 1))
    assert [step.op for step in trnsci.plan(call, few, b).steps] == ["trnsparse::spmm"]
    assert ts.choose(few, 300, where="host").reason == "csr, because the host multiplies a matrix as it is stored"
    with trnsci.backend("simulator"):
        plan = trnsci.plan(call, full, b)
    assert plan.remarks == (ts.choose(full, 300).reason,)
    assert plan.steps[0].op in ("trnsparse::bsr_spmm", "trnblas::gemm")
    assert "is predicted fastest on trn2: csr " in plan.reason


# A vector is no columns.
PAIRS = pairs(
    [torch.float32, torch.float64, torch.complex64, torch.complex128],
    ["csr", "csc", "coo", (3, 4), (5, 3)],
    ["n", "t", "c"],
    [None, 1, 5, 17],
)


@together(("dtype", "kind", "trans", "columns"), PAIRS)
def test_products_with_an_addend_and_given_memory(dtype, kind, trans, columns):
    dense = gaussian((23, 18), 1, dtype) * (gaussian((23, 18), 2) > 0.8)
    a = ts.CSRMatrix.from_dense(dense)
    a = a.to_bsr(kind) if isinstance(kind, tuple) else getattr(a, f"to_{kind}")()
    op = {"n": dense, "t": dense.mT, "c": dense.mH}[trans].resolve_conj()
    b = gaussian((op.shape[1],) if columns is None else (op.shape[1], columns), 3, dtype)
    c = gaussian(tuple((op @ b).shape), 4, dtype)
    product = ts.spmv if columns is None else ts.spmm
    wanted, size = op.to(torch.complex128) @ b.to(torch.complex128), op.abs().double() @ b.abs().double()
    exact = torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32
    # a row of at most 23 entries in blocks; a complex product is four real ones
    error = 4 * gamma(23 + 2, exact)
    for _ in range(2):  # SciPy's view is built, then used again
        assert_within(product(a, b, trans=trans).to(torch.complex128), wanted, error * size + 1e-300)
    added = {"y": c} if columns is None else {"c": c}
    alpha, beta = (2 - 1j, 0.5j) if dtype.is_complex else (2, -0.5)
    limit = error * (abs(alpha) * size + abs(beta) * c.abs().double())
    out = torch.full_like(c, float("nan"))
    for into in (None, out):
        result = product(a, b, trans=trans, alpha=alpha, beta=beta, out=into, **added)
        assert_within(result.to(torch.complex128), alpha * wanted + beta * c.to(torch.complex128), limit)
    assert result is out


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_rounded_once_after_alpha_and_beta(dtype):
    """The product alone is beyond float16."""
    a, b = ts.CSRMatrix.from_dense(torch.full((2, 8), 100.0, dtype=dtype)), torch.full((8, 1), 100.0, dtype=dtype)
    c = torch.full((2, 1), 3.0, dtype=dtype)
    assert torch.equal(ts.spmm(a, b, alpha=0.01), torch.full((2, 1), 800.0, dtype=dtype))
    assert torch.equal(ts.spmm(a, b, alpha=0.01, beta=-100.0, c=c), torch.full((2, 1), 500.0, dtype=dtype))
    assert torch.equal(ts.sddmm(a, b.mT.expand(2, 8), b.expand(8, 8), alpha=0.01).values, a.values * 8)


def test_lazy_conjugates_strides_and_copies_are_seen():
    dense = matrix(40, 40, 0.2, dtype=torch.complex64)
    a, b = ts.CSRMatrix.from_dense(dense), gaussian((40, 6), 1, torch.complex64)
    wanted, limit = dense.to(torch.complex128) @ b.conj().to(torch.complex128), bound(dense, b)
    assert_within(a @ b.conj(), wanted, limit)
    assert_within(a @ b.conj()[:, 0], wanted[:, 0], limit[:, 0])
    assert_within(a.with_values(a.values.conj()) @ b, wanted.conj(), limit)
    twice = torch.stack([a.values, 7 * a.values], 1).flatten()
    a @ b, ts.CSRMatrix(a.indptr, a.indices, twice[::2], a.shape) @ b
    assert_within(ts.CSRMatrix(a.indptr, a.indices, twice[::2], a.shape) @ b.conj(), wanted, limit)
    transposed = gaussian((6, 40), 1, torch.complex64).mT
    assert_within(
        a @ transposed, dense.to(torch.complex128) @ transposed.to(torch.complex128), bound(dense, transposed)
    )
    for same in (pickle.loads(pickle.dumps(a)), copy.deepcopy(a)):
        assert torch.equal(same @ b, a @ b)


@pytest.mark.grid(1)
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "unsorted", "bsr"])
@pytest.mark.parametrize("name", ["auto", "csr", "bsr", "dense"])
def test_every_product_reads_the_values_afresh(kind, name):
    """Written by torch or by NumPy, which torch's version counters do not see, or replaced."""
    memory = np.ones(6)
    index = torch.tensor([0, 1, 2, 3, 4, 5])
    row = index.flip(0) if kind == "unsorted" else index
    if kind == "bsr":
        blocks = torch.from_numpy(memory[:, None, None])
        a = ts.BSRMatrix(torch.arange(7), index, blocks, (6, 6))
    else:
        a = ts.COOMatrix(row, row, torch.from_numpy(memory), (6, 6))
        a = (
            a
            if kind in ("coo", "unsorted")
            else getattr(ts, f"{kind.upper()}Matrix")(torch.arange(7), index, a.values, (6, 6))
        )
    x = torch.ones(6, 2, dtype=torch.float64)
    for backend in ("pytorch", "auto"):
        with trnsci.backend(backend):
            for factor in (1, 2, 3):
                memory[:] = factor
                assert torch.equal(ts.spmm(a, x, format=name), factor * x)
    a.values.mul_(2)
    assert torch.equal(ts.spmm(a, x, format=name), 6 * x)
    a.values = torch.full_like(a.values, 5)
    assert torch.equal(ts.spmm(a, x, format=name), 5 * x)
    assert ts.cg(a, x[:, 0]).x[0] == pytest.approx(0.2)


def test_the_matrix_owns_what_it_was_made_of():
    s = sp.csr_array(np.eye(4))
    x = torch.ones(4, dtype=torch.float64)
    made = [ts.CSRMatrix.from_scipy(s), ts.COOMatrix.from_scipy(s), ts.BSRMatrix.from_scipy(s.tobsr((2, 2)))]
    made.append(ts.CSRMatrix(s.indptr, s.indices, s.data, (4, 4)))
    pointers, columns = torch.arange(5), torch.arange(4)
    made.append(ts.CSRMatrix(pointers, columns, torch.ones(4, dtype=torch.float64), (4, 4)))
    for a in made:
        assert torch.equal(a @ x, x)
    s.data *= 2
    for buffer in (s.indices, s.indptr, columns.numpy(), pointers.numpy()):
        buffer[:] = 10**6
    exported = made[0].to_scipy()
    exported.indices[:] = 10**6
    made[0].to_torch().col_indices().fill_(10**6)
    for a in made:
        assert torch.equal(a @ x, x)
        assert torch.equal(a.T @ x, x)
        assert torch.equal(a[1:3].to_dense(), torch.eye(4, dtype=torch.float64)[1:3])


def test_an_index_tensor_that_was_written_to_is_an_error_and_no_crash():
    a, x = ts.CSRMatrix.from_dense(torch.eye(4)), torch.ones(4)
    assert torch.equal(a @ x, x)
    a.indices[2] = 10**9
    with pytest.raises(ArgumentError, match="indices from 0 to 1000000000") as caught:
        a @ x
    assert "must not be written to" in str(caught.value)
    # NumPy's writes are not counted: the product is that of the pattern as it was
    b = ts.CSRMatrix.from_dense(torch.eye(4))
    assert torch.equal(b @ x, x)
    b.indices.numpy()[2] = 10**9
    assert torch.equal(b @ x, x)
    with pytest.raises(ArgumentError, match="shape of values"):
        b.with_values(torch.ones(3))
    b.values = torch.ones(3)
    with pytest.raises(ArgumentError, match="length differs"):
        b @ x


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("name", ["csr", "bsr", "dense"])
@pytest.mark.parametrize("scale", [1e14, 1e-14])
def test_columns_and_batches_are_independent(backend, name, scale):
    a = ts.CSRMatrix.from_dense(matrix(60, 50))
    b = gaussian((3, 50, 4), 1)
    with backend:
        plain = ts.spmm(a, b, format=name)
        b[1] *= scale
        b[0, :, 2] *= scale
        other = ts.spmm(a, b, format=name)
        assert torch.equal(other[2], plain[2])
        assert torch.equal(other[0][:, [0, 1, 3]], plain[0][:, [0, 1, 3]])
        b[1, 7, 1] = torch.nan
        spoilt = ts.spmm(a, b, format=name)
    kept = torch.ones_like(spoilt, dtype=torch.bool)
    kept[1, :, 1] = False
    assert torch.equal(spoilt[kept], other[kept])
    if backend.name == "pytorch" and name == "csr":
        # docs/trnsparse/spmm.md: entry by entry a NaN reaches only the rows that store its column
        assert torch.equal(spoilt[1, :, 1].isnan(), a.to_dense()[:, 7] != 0)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_a_loud_row_of_the_matrix_leaves_the_others_alone(backend):
    dense, b = matrix(60, 50), gaussian((50, 3), 1)
    loud = dense.clone()
    loud[5] *= 1e14
    others = torch.arange(60) != 5
    for name in ("csr", "bsr"):
        with backend:
            results = [ts.spmm(ts.CSRMatrix.from_dense(x), b, format=name) for x in (dense, loud)]
        assert torch.equal(results[0][others], results[1][others])


def test_what_is_no_dense_tensor_is_refused():
    a = ts.eye(3)
    bad = {
        "nested": torch.nested.nested_tensor([torch.ones(3)]),
        "sparse": torch.eye(3).to_sparse(),
        "float8": torch.ones(3, 3).to(torch.float8_e4m3fn),
        "bool": torch.ones(3, 3, dtype=torch.bool),
        "None": None,
        "list": [[1.0]] * 3,
        "text": "b",
    }
    calls = {
        "spmm": lambda b: ts.spmm(a, b),
        "spmv": lambda b: ts.spmv(a, b),
        "sddmm": lambda b: ts.sddmm(a, b, b),
        "solve_triangular": lambda b: ts.solve_triangular(a, b),
        "scale_rows": lambda b: ts.scale_rows(a, b),
        "screened_spmm": lambda b: ts.screened_spmm(a, torch.ones(3), torch.ones(3), b, 0.0),
        "screen": lambda b: ts.screened_spmm(a, b, torch.ones(3), torch.ones(3, 1), 0.0),
        "attention": lambda b: ts.attention(b, b, b),
        "cg": lambda b: ts.cg(a, b),
        "power_iteration": lambda b: ts.power_iteration(a, x0=b if b is not None else "none"),
        "schwarz_bounds": ts.schwarz_bounds,
        "screen_quartets": lambda b: ts.screen_quartets(b, 0.1),
        "density_screen": lambda b: ts.density_screen(torch.ones(3, 3), b, 0.1),
        "gather": lambda b: ts.vectors.gather(b, [0]),
        "dot": lambda b: ts.vectors.dot(b, [0], torch.ones(3)),
        "CSRMatrix": lambda b: ts.CSRMatrix([0, 1, 1, 1], [0], b, (3, 3)),
        "indices": lambda b: ts.CSRMatrix([0, 1, 1, 1], b, [1.0], (3, 3)),
        "from_scipy": ts.CSRMatrix.from_scipy,
        "matrix": lambda b: ts.spmm(b, torch.ones(3, 1)),
        "add": lambda b: ts.add(a, b),
        "with_values": a.with_values,
    }
    for kind, b in bad.items():
        for name, call in calls.items():
            # a sparse tensor stands for a matrix
            if kind == "sparse" and name in ("matrix", "add"):
                continue
            try:
                call(b)
            except ArgumentError:
                continue
            except Exception as error:
                raise AssertionError(f"{name} of {kind}: {error!r}") from error
            raise AssertionError(f"{name} took {kind}")


def test_shapes_and_options_that_do_not_fit_are_refused():
    a = ts.eye(3)
    for call in (
        lambda: ts.spmm(a, torch.tensor(1.0)),
        lambda: ts.spmv(a, torch.tensor(1.0)),
        lambda: ts.scale_rows(a, torch.ones(3, 1)),
        lambda: ts.vectors.dot(torch.tensor(1.0), [0], torch.ones(3)),
        lambda: ts.CSRMatrix([0, 1], [0], [1.0], (1.5, 1)),
        lambda: ts.CSRMatrix([0, 1], [0], [1.0], None),
        lambda: ts.CSRMatrix(None, [0], [1.0], (1, 1)),
        lambda: a.to_bsr("4"),
        lambda: a.to_bsr((1, 2, 3)),
        lambda: a["row"],
        lambda: a[1.5],
        lambda: ts.spmm(a, torch.ones(3, 1), trans=None),
        lambda: ts.spmm(a, torch.ones(3, 1), trans=[]),
        lambda: ts.spmm(a.to(torch.int64), torch.ones(3, 1, dtype=torch.int64), alpha=0.5),
        lambda: ts.spmm(a, torch.ones(3, 1), alpha="2"),
    ):
        with pytest.raises(ArgumentError):
            call()


def test_more_elements_than_integers():
    """rows * columns is beyond 2**63."""
    wide = ts.CSRMatrix([0, 1, 2, 2, 3], [2**62 - 1, 5, 7], torch.tensor([1.0, 2.0, 3.0]), (4, 2**62))
    assert wide[0, 2**62 - 1] == 1
    assert wide[0, 2**62 - 2] == 0
    assert wide[[0, 1, 3, 3], [5, 5, 7, 8]].tolist() == [0, 2, 3, 0]
    assert wide[:, [5, 7]].to_dense().tolist() == [[0, 0], [2, 0], [0, 0], [0, 3]]
    assert (wide + wide).values.tolist() == [2, 4, 6]
    assert (wide * wide).values.tolist() == [1, 4, 9]
    entries = ([2**40, 1, 2**40, 0], [3, 2**40, 3, 2**61])
    huge = ts.COOMatrix(*entries, torch.tensor([1.0, 2.0, 4.0, 8.0]), (2**62, 2**62))
    assert huge[2**40, 3] == 5
    assert huge[[1, 2**40, 0], [2**40, 2, 2**61]].tolist() == [2, 0, 8]
    assert huge.coalesce().row.tolist() == [0, 1, 2**40]
    with pytest.raises(ArgumentError, match=r"below 2\*\*63"):
        ts.kron(huge, huge)


def test_operands_without_data_give_results_without_data():
    a, b = ts.CSRMatrix.from_dense(matrix(9, 8, 0.4)), torch.empty(8, 3, device="meta")
    assert ts.spmm(a.to("meta"), b).shape == (9, 3)
    assert ts.spmm(a.to("meta").to_csc(), b).device.type == "meta"
    assert ts.sddmm(a.to("meta"), torch.empty(9, 2, device="meta"), torch.empty(2, 8, device="meta")).nnz == a.nnz


def _functions(call):
    """What runs of this library and of SciPy, in order."""
    seen = []

    def watch(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and ("trnsparse" in name or "scipy" in name):
            seen.append(frame.f_code.co_qualname)

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


@pytest.mark.parametrize("call", ["spmv", "spmm", "bsr", "sddmm", "cg"])
def test_a_ledger_changes_what_is_recorded_and_nothing_else(call):
    a, b, x = ts.CSRMatrix.from_dense(matrix(20, 20, 0.3)), gaussian((20, 3), 1), gaussian((20,), 2)
    blocks, spd = a.to_bsr(4), ts.eye(20)
    run = {
        "spmv": lambda: a @ x,
        "spmm": lambda: ts.spmm(a, b, alpha=2.0),
        "bsr": lambda: blocks @ b,
        "sddmm": lambda: ts.sddmm(a, b, b.mT),
        "cg": lambda: ts.cg(spd, x),
    }[call]
    run()
    alone = _functions(run)
    with trnsci.ledger() as book:
        heard = _functions(run)
    # the ledger describes the call; it does not run anything else
    describing = {"cost", "fake", "height", "width", "workspace", "calls", "multiplies"}
    assert [name for name in heard if name.rpartition(".")[2] not in describing] == [
        name for name in alone if name.rpartition(".")[2] not in describing
    ]
    ran = [entry.step for entry in book.entries]
    assert {step.implementation for step in ran} <= {"host", "pytorch"}
    if call in ("spmv", "spmm"):
        mkl = torch.backends.mkl.is_available()
        called = "mkl by torch.sparse_csr_tensor" if mkl else "scipy.sparse.csr_array.__matmul__"
        assert [(step.op, step.calls) for step in ran] == [("trnsparse::spmm", called)]
        planned = trnsci.plan(ts.spmm, a, b) if call == "spmm" else trnsci.plan(ts.spmv, a, x)
        assert [(s.implementation, s.calls) for s in planned.steps] == [(s.implementation, s.calls) for s in ran]


@pytest.mark.sim
def test_the_settings_of_the_library_reach_the_products_others_do_for_it():
    a, b = ts.CSRMatrix.from_dense(matrix(40, 30, 0.5)), gaussian((30, 4), 1)

    def backends():
        with trnsci.ledger() as book:
            ts.spmm(a, b, format="dense")
        return {(entry.step.op, entry.step.backend) for entry in book.entries}

    assert backends() == {("trnblas::gemm", "pytorch")}
    with trnsci.backend("simulator", library="trnsparse"):
        assert backends() == {("trnblas::gemm", "simulator")}
        with trnsci.backend("pytorch", library="trnblas"):
            assert backends() == {("trnblas::gemm", "pytorch")}
    ts.set_backend("simulator")
    try:
        assert backends() == {("trnblas::gemm", "simulator")}
    finally:
        ts.set_backend(None)


def test_where_only_kernels_are_admitted_functions_without_one_say_so(monkeypatch):
    a, x = ts.eye(3), torch.ones(3)
    calls = {
        "add": lambda: a + a,
        "multiply": lambda: a * a,
        "spgemm": lambda: a @ a,
        "kron": lambda: ts.kron(a, a),
        "norm": lambda: ts.norm(a),
        "scale_rows": lambda: ts.scale_rows(a, x),
        "scale_columns": lambda: ts.scale_columns(a, x),
        "solve_triangular": lambda: ts.solve_triangular(a, x),
        "ilu0": lambda: ts.ilu0(a),
        "ic0": lambda: ts.ic0(a),
        "schwarz_bounds": lambda: ts.schwarz_bounds(torch.ones(2, 2)),
        "screen_quartets": lambda: ts.screen_quartets(torch.ones(2, 2), 0.1),
        "density_screen": lambda: ts.density_screen(torch.ones(2, 2), torch.ones(2, 2), 0.1),
        "vectors.dot": lambda: ts.vectors.dot(x, [0, 1, 2], x),
    }
    for call in calls.values():
        call()
    monkeypatch.setenv("TRNSPARSE_REQUIRE_NKI", "1")
    for name, call in calls.items():
        with pytest.raises(UnsupportedError, match="TRNSPARSE_REQUIRE_NKI=1 admits kernels only") as caught:
            call()
        assert f"trnsparse.{name}" in str(caught.value)
    for call in (lambda: a @ x, lambda: ts.cg(a, x), lambda: ts.sddmm(a, torch.ones(3, 1), torch.ones(1, 3))):
        with pytest.raises(BackendUnavailable):
            call()
