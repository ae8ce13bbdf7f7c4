"""spmm and spmv in compressed formats: SciPy's values within the stated bound, on every backend."""

import copy
import operator
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import trnsci
import trnsparse as ts
from trnsci import ArgumentError, native
from trnsci.errors import DtypeError, UnsupportedError
from trnsci.predict import Host
from trnsci.testing import BACKENDS, assert_within, gamma, gaussian
from trnsparse.host import MANY

# What underflow may take away.
TINY = torch.finfo(torch.float32).tiny
HOST = [torch.float32, torch.float64, torch.complex64, torch.complex128]


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


@pytest.mark.parametrize("dtype", HOST, ids=str)
@pytest.mark.parametrize("trans", ["n", "t", "c"])
@pytest.mark.parametrize("kind", [ts.CSRMatrix, ts.CSCMatrix, ts.COOMatrix, ts.BSRMatrix])
def test_transposes_scales_and_addends(dtype, trans, kind):
    dense = matrix(20, 13, 0.3, dtype=dtype)
    made = kind.from_dense(dense, 4) if kind is ts.BSRMatrix else kind.from_dense(dense)
    op = {"n": dense, "t": dense.mT, "c": dense.mH}[trans].resolve_conj()
    b, c = gaussian((op.shape[1], 6), 1, dtype), gaussian((op.shape[0], 6), 2, dtype)
    alpha, beta = (2 - 1j, 0.5j) if dtype.is_complex else (-1.5, 0.5)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    wanted = alpha * (op.to(wide) @ b.to(wide)) + beta * c.to(wide)
    limit = abs(alpha) * bound(op, b, 30) + 20 * gamma(4, dtype) * c.abs()
    assert_within(ts.spmm(made, b, alpha=alpha, beta=beta, c=c, trans=trans), wanted, limit)
    out = torch.empty_like(c)
    assert ts.spmm(made, b, trans=trans, out=out) is out
    assert_within(ts.spmv(made, b[:, 0], trans=trans), op.to(wide) @ b[:, 0].to(wide), bound(op, b, 30)[:, 0])


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


def test_without_compiled_loops_the_result_is_the_same(monkeypatch):
    dense, b = matrix(50, 40), gaussian((40, 7), 1)
    a = ts.CSRMatrix.from_dense(dense)
    compiled = a @ b
    monkeypatch.setattr("trnsparse.host.loop", lambda *_: None)
    assert_within(a @ b, compiled, bound(dense, b))
    assert native.why_not() is None or native.why_not()


def test_the_op_is_well_registered_and_compiles():
    a, b = ts.CSRMatrix.from_dense(matrix(9, 8, 0.4)), gaussian((8, 3), 1)
    args = (a.indptr, a.indices, a.values.clone().requires_grad_(), b.clone().requires_grad_(), 8, False)
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
    (lambda a: ts.spmm(torch.ones(2, 2), torch.ones(2, 2)), DtypeError, "expected a COOMatrix, CSRMatrix"),
    (lambda a: ts.spmm(a, torch.ones(5, 2), beta=1.0), ArgumentError, "because beta is 1.0"),
    (lambda a: ts.spmm(a, torch.ones(5, 2), beta=1.0, c=torch.ones(2, 2)), ArgumentError, "expected (4, 2)"),
    (lambda a: ts.spmm(a, torch.ones(5, 2), trans="x"), ArgumentError, "trans is 'x'"),
    (lambda a: ts.spmm(a, torch.ones(5, 2), alpha=1j), DtypeError, "expected a real number"),
    (lambda a: ts.spmm(a, torch.ones(5, 2), out=torch.empty(3, 2)), ArgumentError, "shape of out is (3, 2)"),
    (lambda a: ts.spmv(a, torch.ones(4)), ArgumentError, "K differs: a has K=5, x has K=4"),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS, ids=range(len(ERRORS)))
def test_mistakes_are_named(call, kind, text):
    with pytest.raises(kind) as caught:
        call(ts.CSRMatrix.from_dense(torch.ones(4, 5)))
    assert text in str(caught.value)


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


FORMATS = ("stored", "auto", "csr", "bsr", "dense")


@pytest.mark.parametrize("kind", ["csr", "bsr", "coo", "csc"])
@pytest.mark.parametrize("trans", ["n", "t", "c"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
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


def test_the_format_follows_the_prediction_and_sees_new_values():
    a = ts.CSRMatrix.from_dense(torch.eye(256))
    x = torch.ones(256, 3)
    assert ts.choose(a, 3, where="host").format == "csr"
    assert ts.choose(a, 3, where="host").reason.startswith(
        "csr is predicted fastest on host, conversions included: csr"
    )
    assert torch.equal(ts.spmm(a, x, format="bsr"), x)
    a.values.mul_(2)
    assert torch.equal(ts.spmm(a, x, format="bsr"), 2 * x)
    with trnsci.backend("simulator"):
        assert torch.equal(ts.spmm(a, x, format="auto"), 2 * x)
    values = torch.ones(256, requires_grad=True)
    ts.spmm(ts.CSRMatrix(a.indptr, a.indices, values, a.shape), x, format="bsr").sum().backward()
    assert torch.equal(values.grad, torch.full((256,), 3.0))
    with pytest.raises(ArgumentError, match="format") as caught:
        ts.spmm(a, x, format="ell")
    assert caught.value.got == "ell"


@pytest.mark.parametrize("call", [ts.spmm, operator.matmul], ids=["spmm", "@"])
def test_a_plan_says_which_format_was_chosen_and_what_the_others_would_take(call):
    b = gaussian((256, 300))
    few, full = ts.CSRMatrix.from_dense(torch.eye(256)), ts.CSRMatrix.from_dense(gaussian((256, 256), 1))
    plan = trnsci.plan(call, few, b)
    assert [step.op for step in plan.steps] == ["trnsparse::spmm"]
    assert plan.remarks == (ts.choose(few, 300, where="host").reason,)
    assert plan.reason.startswith("csr is predicted fastest on host, conversions included: csr ")
    assert str(plan).count("dense") == 1
    with trnsci.backend("simulator"):
        plan = trnsci.plan(call, full, b)
    assert plan.remarks == (ts.choose(full, 300).reason,)
    assert plan.steps[0].op in ("trnsparse::bsr_spmm", "trnblas::gemm")
    assert "is predicted fastest on trn2: csr " in plan.reason


def test_what_is_decided_once_is_not_decided_again(monkeypatch):
    a, b = ts.COOMatrix.from_dense(matrix(60, 50)), gaussian((50, 4), 1)
    first = a @ b
    assert 4 in a.settled
    monkeypatch.setattr("trnsparse.choice.calibration", lambda: pytest.fail("decided again"))
    assert torch.equal(a @ b, first)
    assert torch.equal(a.with_values(2 * a.values) @ b, 2 * first)
    a.values.mul_(2)
    assert torch.equal(a @ b, 2 * first)


def test_a_full_matrix_is_multiplied_as_a_dense_one_but_infinities_stay_where_they_are(monkeypatch):
    monkeypatch.setattr("trnsparse.choice.calibration", lambda: Host(1e-6, 1e11, 5e10, 1e10))
    dense = torch.where(gaussian((300, 300)) > -0.7, gaussian((300, 300), 1), 0)
    a, b = ts.CSRMatrix.from_dense(dense), gaussian((300, 400), 2)
    assert ts.choose(a, 400, where="host").format == "dense"
    assert trnsci.plan(ts.spmm, a, b).steps[0].op == "trnblas::gemm"
    assert_within(a @ b, dense.double() @ b.double(), bound(dense, b))
    b[7, 3] = torch.inf
    made = (a @ b)[:, 3]
    assert torch.equal(made.isfinite(), dense[:, 7] == 0)
    b[7, 3] = 1.0
    values = a.values.clone().requires_grad_()
    (a.with_values(values) @ b).sum().backward()
    wanted = b.double().sum(1)[a.indices]
    assert_within(values.grad, wanted, gamma(402, torch.float32) * b.double().abs().sum(1)[a.indices])


@pytest.mark.parametrize("dtype", HOST, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 8, 11, 15, 16, 17, 31, 33, 64, 100, 129, 200])
def test_every_width_takes_its_own_way_through_the_loops(dtype, n):
    dense = matrix(23, 19, 0.3, dtype=dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    a = ts.CSRMatrix.from_dense(dense)
    for trans in (False, True):
        op = dense.mT if trans else dense
        b = gaussian((op.shape[1], n), 4, dtype)
        for _ in range(2):  # the long way, then the short one
            assert_within(ts.spmm(a, b, trans=trans), op.to(wide) @ b.to(wide), bound(op, b))
            assert_within(ts.spmm(a.to_csc(), b, trans=trans), op.to(wide) @ b.to(wide), bound(op, b))


def test_the_short_way_is_for_what_is_plain():
    dense = matrix(40, 40, 0.2, dtype=torch.complex64)
    a, b = ts.CSRMatrix.from_dense(dense), gaussian((40, 6), 1, torch.complex64)
    a @ b, a @ b[:, 0]
    wanted, limit = dense.to(torch.complex128) @ b.conj().to(torch.complex128), bound(dense, b)
    assert_within(a @ b.conj(), wanted, limit)
    assert_within(a @ b.conj()[:, 0], wanted[:, 0], limit[:, 0])
    turned = gaussian((6, 40), 1, torch.complex64).mT
    assert_within(a @ turned, dense.to(torch.complex128) @ turned.to(torch.complex128), bound(dense, turned))
    grad = b.clone().requires_grad_()
    (a @ grad).abs().sum().backward()
    assert grad.grad is not None
    copied = pickle.loads(pickle.dumps(a))
    assert torch.equal(copied @ b, a @ b)
    assert torch.equal(copy.deepcopy(a) @ b, a @ b)
    with trnsci.ledger() as book:
        a @ b
    assert [entry.step.op for entry in book.entries] == ["trnsparse::spmm"]
    with pytest.raises(ArgumentError, match="K differs"):
        a @ torch.ones(39, dtype=torch.complex64)


@pytest.mark.parametrize("dtype", HOST, ids=str)
def test_many_entries_are_read_by_narrow_columns(dtype):
    dense = matrix(290, 310, 0.9, dtype=dtype)
    a, wide = ts.CSRMatrix.from_dense(dense), torch.complex128 if dtype.is_complex else torch.float64
    assert a.nnz > MANY
    for op, trans in ((dense, False), (dense.mT, True)):
        x = gaussian((op.shape[1],), 1, dtype)
        for _ in range(2):
            assert_within(ts.spmv(a, x, trans=trans), op.to(wide) @ x.to(wide), bound(op, x[:, None])[:, 0])


def test_threads_share_the_rows_and_change_nothing(monkeypatch):
    a, b, q = ts.CSRMatrix.from_dense(matrix(300, 200)), gaussian((200, 7), 1), gaussian((2, 300, 16), 2)

    def results():
        kept = ts.window(40)
        return a @ b, a.to_bsr(16) @ b, ts.sddmm(a, q[0], q[0, :200].mT).values, ts.attention(q, q, q, kept)

    alone, threads = results(), torch.get_num_threads()
    monkeypatch.setattr("trnsparse.host.SERIAL", 0)
    try:
        torch.set_num_threads(3)
        together = results()
    finally:
        torch.set_num_threads(threads)
    # torch's own dense products inside attention may be cut differently
    for one, other in zip(alone[:3], together[:3], strict=True):
        assert torch.equal(one, other)
    assert_within(together[3], alone[3], 2 * gamma(2 * 16 + 2 * 300 + 8, torch.float32) * (1 + 2 * 64) * q.abs().max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("columns", [None, 1, 2, 3, 5, 8, 17])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", (3, 4), (4, 4), (2, 8), (5, 3)], ids=str)
def test_products_prepared_for_a_shape(dtype, columns, trans, kind):
    """The first call decides, the second prepares, the third is prepared; with an addend and memory given as well."""
    dense = gaussian((23, 18), 1, dtype) * (gaussian((23, 18), 2) > 0.8)
    a = ts.CSRMatrix.from_dense(dense)
    a = a.to_bsr(kind) if isinstance(kind, tuple) else getattr(a, f"to_{kind}")()
    op, sizes = (dense.mT, (23,)) if trans else (dense, (18,))
    b = gaussian(sizes if columns is None else (*sizes, columns), 3, dtype)
    c = gaussian(tuple((op @ b).shape), 4, dtype)
    product = ts.spmv if columns is None else ts.spmm
    wanted, size = op.to(torch.complex128) @ b.to(torch.complex128), op.abs().double() @ b.abs().double()
    exact = torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32
    bound = gamma(4 * 23 + 8, exact)
    for _ in range(3):
        assert_within(product(a, b, trans=trans).to(torch.complex128), wanted, bound * size + 1e-300)
    added = {"y": c} if columns is None else {"c": c}
    out = torch.full_like(c, float("nan"))
    for into in (None, out):
        made = product(a, b, trans=trans, alpha=2, beta=-0.5, out=into, **added)
        assert_within(
            made.to(torch.complex128), 2 * wanted - 0.5 * c.to(torch.complex128), bound * (2 * size + c.abs().double())
        )
    assert made is out


def test_a_prepared_product_sees_what_changes():
    a, x = ts.CSRMatrix.from_dense(torch.eye(3)), torch.ones(3)
    assert [(a @ x).tolist() for _ in range(3)] == [[1.0] * 3] * 3
    a.values.mul_(2)
    assert (a @ x).tolist() == [2.0] * 3
    a.values = torch.full((3,), 5.0)
    assert (a @ x).tolist() == [5.0] * 3
    assert (copy.deepcopy(a) @ x).tolist() == (pickle.loads(pickle.dumps(a)) @ x).tolist() == [5.0] * 3
    with pytest.raises(ArgumentError):
        a @ torch.ones(4)
    with pytest.raises(ArgumentError):
        ts.spmv(a, x, out=a.values)
    with pytest.raises(DtypeError):
        a @ x.double()
    assert ts.spmv(a, x.requires_grad_()).requires_grad
