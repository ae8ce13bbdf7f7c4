"""Programs of others run through the suite inside ``drop_in``, and answer as before."""

import gc
import sys
import threading

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import torch
from torch.nn import functional  # noqa: F401

import trnblas
import trnsci
from tests.together import together
from trnsci.analogs import functions, operators

F64 = torch.float64
torch.manual_seed(0)
x = torch.randn(8, 8, dtype=F64)
spd = x @ x.T + 8 * torch.eye(8, dtype=F64)
z = torch.randn(4, 16, dtype=torch.complex128)
upper = x.triu() + 8 * torch.eye(8, dtype=F64)
q = torch.randn(3, 1, 2, 8, 16)
ones = torch.ones(16, dtype=F64)
# the same entry twice, and a row without any
coo = torch.sparse_coo_tensor([[0, 0, 3, 5], [1, 1, 7, 0]], torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=F64), (8, 8))
csr = coo.coalesce().to_sparse_csr()

# a program's spelling, and the operator it arrives as
TORCH = {
    "x @ x": "mm",
    "torch.einsum('bij,bjk->bki', x.reshape(2, 4, 8), x.reshape(2, 8, 4))": "bmm",
    "functional.linear(x, x, x[0])": "addmm",
    "torch.addmm(x, x, x, beta=0)": "addmm",
    "torch.baddbmm(x[None], x[None], x[None], alpha=2)": "baddbmm",
    "torch.mv(x, x[0])": "mv",
    "torch.addmv(x[0], x, x[1])": "addmv",
    "torch.dot(x[0], x[1])": "dot",
    "torch.vdot(z[0], z[1])": "vdot",
    "torch.fft.fft(z)": "_fft_c2c",
    "torch.fft.ifft2(z, norm='ortho')": "_fft_c2c",
    "torch.fft.fft(z.real)": "_fft_r2c",
    "torch.fft.rfftn(z.real, norm='forward')": "_fft_r2c",
    "torch.fft.irfft(z, n=29)": "_fft_c2r",
    "torch.fft.hfft(z)": "_fft_c2r",
    "torch.stft(x.flatten(), 16, window=ones, return_complex=True)": "stft",
    "torch.istft(torch.stft(x.flatten(), 16, window=ones, return_complex=True), 16, window=ones)": "istft",
    "torch.linalg.solve(spd, x[0])": "_linalg_solve_ex",
    "torch.linalg.solve(spd, x, left=False)": "_linalg_solve_ex",
    "torch.linalg.inv(spd)": "linalg_inv_ex",
    "torch.linalg.det(spd)": "_linalg_det",
    "torch.linalg.slogdet(spd)": "_linalg_slogdet",
    "torch.linalg.eigvalsh(spd)": "_linalg_eigh",
    "torch.linalg.eigh(spd)": "_linalg_eigh",
    "torch.linalg.svdvals(x)": "_linalg_svd",
    "torch.linalg.svd(x, full_matrices=False)": "_linalg_svd",
    "torch.linalg.qr(x)": "linalg_qr",
    "torch.linalg.cholesky(spd, upper=True)": "linalg_cholesky_ex",
    "torch.cholesky_inverse(upper.T)": "cholesky_inverse",
    "torch.cholesky_solve(x, upper.T)": "cholesky_solve",
    "torch.linalg.lu_factor(x)": "linalg_lu_factor_ex",
    "torch.linalg.lu(x)": "linalg_lu",
    "torch.linalg.lu_solve(*torch.linalg.lu_factor(x), x)": "linalg_lu_solve",
    "torch.linalg.lstsq(x, x)": "linalg_lstsq",
    "torch.linalg.eigvals(x)": "linalg_eigvals",
    "torch.linalg.eig(x)": "linalg_eig",
    "torch.linalg.matrix_exp(x)": "linalg_matrix_exp",
    "torch.linalg.pinv(x)": "_linalg_svd",
    "torch.geqrf(x)": "geqrf",
    "torch.ormqr(*torch.geqrf(x), x)": "ormqr",
    "torch.linalg.householder_product(*torch.geqrf(x))": "linalg_householder_product",
    "torch.linalg.solve_triangular(upper, x, upper=True)": "linalg_solve_triangular",
    "torch.triangular_solve(x, upper, transpose=True)": "triangular_solve",
    "functional.scaled_dot_product_attention(*q, is_causal=True)": "scaled_dot_product_attention",
    "functional.scaled_dot_product_attention(*q, torch.ones(8, 8).tril(2).bool())": "scaled_dot_product_attention",
    "torch.sparse.mm(coo, x)": "_sparse_addmm (sparse)",
    "csr @ x": "mm (sparse)",
    "torch.addmm(x, csr, x, beta=2, alpha=0.5)": "addmm (sparse)",
    "torch.addmm(x + 0j, csr.to(torch.complex128), x + 0j, alpha=0.5j)": "addmm (sparse)",
    "torch.sparse.addmm(x[0], coo, x)": "_sparse_addmm (sparse)",
    "csr @ x[0]": "mv (sparse)",
    "torch.sparse.sampled_addmm(csr, x, x).to_dense()": "sparse_sampled_addmm (sparse)",
}
a, s, c = x.numpy(), spd.numpy(), z.numpy()
sparse, near = scipy.sparse.csr_array(s), scipy.sparse.diags_array(1 / s.diagonal())
ARRAYS = [
    *(
        f"np.fft.{kind}(c)"
        for kind in ("fft", "ifft", "irfft", "hfft", "fftn", "ifftn", "irfftn", "fft2", "ifft2", "irfft2")
    ),
    *(f"np.fft.{kind}(a)" for kind in ("rfft", "ihfft", "rfft2", "rfftn")),
    *(f"scipy.fft.{kind}(c, workers=2)" for kind in ("fft", "ifft", "irfft", "hfft", "fftn", "ifftn", "irfftn")),
    *(f"scipy.fft.{kind}(c)" for kind in ("fft2", "ifft2", "irfft2")),
    *(f"scipy.fft.{kind}(a)" for kind in ("rfft", "ihfft", "rfft2", "rfftn", "dct", "idct", "dst", "idst")),
    "np.fft.fft([1, 2, 3], norm='ortho')",
    "np.dot(a, a)",
    "np.dot(a, a[0])",
    "np.dot(a[0], a)",
    "np.dot(a[0], a[1])",
    "np.inner(a, a[:3])",
    "np.inner(a[0], a[1])",
    "np.vdot(c[0], c[1])",
    "np.outer(a[0], c[0].real)",
    "np.einsum('ij,jk->ki', a, a)",
    "np.tensordot(a, a, 1)",
    "np.tensordot(a.reshape(2, 4, 8), a.reshape(4, 8, 2), ([1, 2], [0, 1]))",
    "np.linalg.multi_dot([a[0], a, a, a[1]])",
    "np.linalg.multi_dot([a, a[:, :3], a[:3]])",
    "np.linalg.norm(a)",
    "np.linalg.norm(c[0])",
    "np.linalg.pinv(a)",
    "np.linalg.pinv(s, hermitian=True)",
    "np.linalg.cholesky(s)",
    "np.linalg.solve(s, a[0])",
    "np.linalg.inv(s)",
    "np.linalg.det(a)",
    "np.linalg.slogdet(a)",
    "np.linalg.eigh(s)",
    "np.linalg.eigvalsh(s)",
    "np.linalg.qr(a)",
    "np.linalg.svd(a, compute_uv=False)",
    "scipy.linalg.cholesky(s, lower=True)",
    "scipy.linalg.solve(s, a[0], assume_a='pos')",
    "scipy.linalg.solve_triangular(np.triu(s), a)",
    "scipy.linalg.inv(a)",
    "scipy.linalg.norm(a)",
    "scipy.linalg.pinv(a[:5])",
    "scipy.linalg.pinvh(s)",
    "scipy.linalg.cho_factor(s)",
    "scipy.linalg.cho_factor(s, lower=True)",
    "scipy.linalg.cho_solve(scipy.linalg.cho_factor(s), a[0])",
    "scipy.linalg.cho_solve(scipy.linalg.cho_factor(s, lower=True), a)",
    "scipy.linalg.det(a)",
    "scipy.linalg.lu_factor(a)",
    "scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), a)",
    "scipy.linalg.eigh(s, eigvals_only=True)",
    "scipy.linalg.svd(a)",
    "scipy.linalg.svdvals(a)",
    "scipy.linalg.qr(a[:, :4], mode='economic')",
    "scipy.linalg.expm(a)",
    *(f"scipy.sparse.linalg.{name}(sparse, a[0], rtol=1e-12)" for name in ("cg", "bicgstab", "gmres", "minres")),
    *(f"scipy.sparse.linalg.{name}(sparse, a[0], rtol=1e-12, M=near)" for name in ("cg", "bicgstab", "gmres")),
    "scipy.sparse.linalg.spsolve(sparse, a[0])",
    "scipy.sparse.linalg.spsolve(sparse, a)",
    "scipy.sparse.linalg.spsolve(sparse.tocsc(), a[:, :1])",
    "scipy.sparse.linalg.eigsh(sparse, 3)",
    "scipy.sparse.linalg.eigsh(sparse, 3, which='SA')",
    "scipy.sparse.linalg.eigsh(sparse, 2, sigma=9.0)",
]


def parts(value):
    return value if isinstance(value, tuple) else (value,)


def same(got, want, *, magnitudes=False):
    """Equal in type, dtype and shape, and close; eigenvectors and the like only up to a sign."""
    assert type(got) is type(want)
    for ours, theirs in zip(parts(got), parts(want), strict=True):
        assert type(ours) is type(theirs)
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if magnitudes:
            ours, theirs = abs(ours), abs(theirs)
        if ours.dtype == bool:
            assert ours == theirs
            continue
        tolerance = 1e-5 if ours.dtype in (np.float32, np.complex64) else 1e-9
        assert np.abs(ours - theirs).max(initial=0) <= tolerance * max(1, np.abs(theirs).max(initial=0))


@together("code", TORCH)
@pytest.mark.filterwarnings("ignore:torch.triangular_solve")
def test_torch_is_substituted_however_it_is_spelled(code):
    want = eval(code)
    with trnsci.drop_in(min_size=0) as seen:
        got = eval(code)
    same(got, want, magnitudes="eig(" in code or "eigh(" in code or "svd(" in code)
    assert f"torch.{TORCH[code].removesuffix(' (sparse)')}" in {theirs for theirs, _ in seen.substituted}
    assert not seen.left_alone


@together("code", ARRAYS)
def test_numpy_and_scipy_are_substituted(code):
    want = eval(code)
    with trnsci.drop_in(min_size=0) as seen:
        got = eval(code)
    same(got, want, magnitudes=any(f"{word}(" in code for word in ("eigh", "eigsh", "svd", "qr")))
    function = code.partition("(")[0].replace("np.", "numpy.")
    assert function in {theirs for theirs, _ in seen.substituted}
    assert not seen.left_alone


def test_every_analog_is_tried():
    for sparse in (False, True):
        known = operators(sparse=sparse).items()
        runs = {name for name, analog in known if analog.arguments and not analog.random}
        tried = {name.removesuffix(" (sparse)") for name in TORCH.values() if name.endswith(" (sparse)") is sparse}
        assert runs == tried
    substituted = {name for name, analog in functions().items() if not analog.left}
    assert {code.partition("(")[0].replace("np.", "numpy.") for code in ARRAYS} == substituted


@together(
    ("code", "why"),
    [
        ("torch.linalg.cholesky_ex(-spd)", "not positive definite"),
        ("torch.linalg.lu_factor_ex(0 * spd)", "singular"),
        ("x.long() @ x.long()", "dtype of a is int64"),
        ("functional.scaled_dot_product_attention(*q, torch.zeros(8, 8))", "no plain matrix of booleans"),
        ("torch.vmap(torch.mm)(x[None], x[None])", "torch.func"),
        ("(coo @ coo).to_dense()", "what a product of sparse matrices stores"),
        ("x @ csr", "layout strided"),
        ("torch.sparse.mm(coo.detach().requires_grad_(), x).detach()", "gradient of a sparse tensor"),
        ("torch.mm(x, x, out=torch.empty(8, 8, dtype=F64))", "memory it is given"),
        ("torch.fft.fft(z, out=torch.empty_like(z))", "memory it is given"),
        ("torch.linalg.inv(spd, out=torch.empty_like(spd))", "memory it is given"),
        ("x.clone().addmm_(x, x)", "memory it is given"),
        ("np.linalg.qr(a, mode='r')", "mode='r'"),
        ("np.linalg.inv(np.eye(3, dtype=int))", "dtype of a is int64"),
        ("scipy.linalg.eigh(s, subset_by_index=[0, 2])", "subset_by_index="),
        ("scipy.linalg.cholesky(s + np.triu(a))", "not Hermitian as stored"),
        ("np.dot(a[None], a)", "no vectors and matrices"),
        ("np.einsum('ii->i', a)", "viewed or summed"),
        ("np.linalg.norm(a, 1)", "another norm"),
        ("scipy.sparse.linalg.lsqr(sparse, a[0])[0]", "does not estimate"),
        ("scipy.sparse.linalg.lsmr(sparse, a[0])[0]", "does not estimate"),
        ("scipy.sparse.linalg.svds(sparse, 2, random_state=0)[1]", "randomised"),
        ("scipy.sparse.linalg.expm_multiply(sparse, a)", "only its product"),
        ("scipy.sparse.linalg.splu(sparse.tocsc()).solve(a[0])", "SuperLU"),
        ("scipy.sparse.linalg.factorized(sparse.tocsc())(a[0])", "SuperLU"),
        ("scipy.sparse.linalg.cg(scipy.sparse.linalg.aslinearoperator(sparse), a[0])", "an operand is a scipy"),
    ],
)
def test_what_would_differ_is_left_alone_with_the_reason(code, why):
    want = eval(code)
    with trnsci.drop_in(min_size=0) as seen:
        got = eval(code)
    same(got, want)
    assert not seen.substituted
    assert any(why in reason for _, reason in seen.left_alone), seen


@pytest.mark.parametrize("code", ["torch.linalg.inv(torch.zeros(2, 2))", "x @ x[:3]", "np.linalg.cholesky(-s)"])
def test_errors_stay_the_librarys_own(code):
    with pytest.raises(Exception) as want:
        eval(code)
    with pytest.raises(type(want.value)) as got, trnsci.drop_in(min_size=0):
        eval(code)
    assert str(got.value) == str(want.value)


def test_gradients_go_through_ours_and_agree():
    def loss(w):
        y = torch.fft.rfft(x @ w).abs().sum() + torch.linalg.solve(spd + w @ w.T, x).sum()
        return y + torch.logdet(spd + w @ w.T)

    w = torch.randn(8, 8, dtype=F64, requires_grad=True)
    (want,) = torch.autograd.grad(loss(w), w)
    with trnsci.drop_in(min_size=0) as seen:
        (got,) = torch.autograd.grad(loss(w), w)
    assert torch.allclose(got, want, rtol=1e-9)
    assert {theirs for theirs, _ in seen.substituted} >= {"torch.mm", "torch._fft_r2c", "torch._linalg_solve_ex"}


def test_backends_apply_and_the_ledger_tells():
    y = torch.randn(64, 32)
    with trnsci.ledger() as book, trnsci.backend("simulator"), trnsci.drop_in(min_size=0):
        y @ y.T
        torch.fft.fft(y)
        y.int() @ y.int().T
    assert {(e.step.op, e.step.backend) for e in book if e.depth == 0} == {
        ("trnblas::gemm", "simulator"),
        ("trnfft::c2c", "simulator"),
    }
    assert next((s.theirs, s.ours) for s in book.substitutions) == ("torch.mm", "trnblas.gemm")
    assert "left alone: gemm: dtype of a is int32" in str(book)


def test_nothing_is_changed_outside_the_block_in_other_threads_or_after_an_error():
    original = np.fft.fft
    with trnsci.drop_in(min_size=0) as outer, trnsci.drop_in(min_size=0) as inner:
        np.fft.fft(a)
        x @ x
        other = threading.Thread(target=lambda: (np.fft.fft(a), x @ x))
        other.start()
        other.join()
    assert inner.substituted.total() == 2
    assert outer.substituted.total() == 0
    with pytest.raises(KeyError), trnsci.drop_in(min_size=0):
        raise KeyError
    assert np.fft.fft is original
    x @ x
    assert inner.substituted.total() == 2


def test_the_suites_own_calls_are_not_substituted_again():
    with trnsci.drop_in(min_size=0) as seen:
        trnblas.gemm(1.0, x, x)
    assert not seen.substituted
    assert not seen.left_alone


def test_random_numbers_are_ours_on_request():
    with trnsci.drop_in(min_size=0) as seen:
        torch.rand(3)
    assert not seen.substituted
    with trnsci.drop_in(random=True, min_size=0) as seen:
        first, second = torch.rand(1000), torch.rand(1000)
        torch.randn(3, dtype=F64)
        torch.empty(4).uniform_(2, 3)
        torch.empty(4).normal_(5, 0.1)
    draws = {f"torch.{name}" for name, analog in operators().items() if analog.random}
    assert {theirs for theirs, _ in seen.substituted} == draws
    assert not torch.equal(first, second)
    assert 0.4 < first.mean() < 0.6
    with trnsci.drop_in(min_size=0) as seen:
        torch.rand(3)
    assert list(seen.left_alone) == [("torch.rand", "random numbers stay torch's unless random=True")]


@together(
    ("code", "ours"),
    [
        ("torch.fft.ifft(z)", "trnfft.ifftn"),
        ("torch.fft.fft(x)", "trnfft.fftn"),
        ("torch.linalg.eigvalsh(spd)", "trnsolver.eigvalsh"),
        ("torch.linalg.svdvals(x)", "trnsolver.svdvals"),
        ("np.dot(a, a[0])", "trnblas.gemv"),
        ("scipy.linalg.eigh(s, eigvals_only=True)", "trnsolver.eigvalsh"),
        ("np.linalg.svd(a, compute_uv=False)", "trnsolver.svdvals"),
    ],
)
def test_the_record_names_the_function_that_ran(code, ours):
    with trnsci.drop_in(min_size=0) as seen, trnsci.ledger() as book:
        eval(code)
    assert {name for _, name in seen.substituted} == {ours}
    assert {substitution.ours for substitution in book.substitutions} == {ours}


def test_names_imported_before_the_block_are_torchs_operators_or_left_alone():
    from numpy.fft import fft as numpy_fft
    from torch.fft import fft as torch_fft

    with trnsci.drop_in(min_size=0) as seen:
        same(torch_fft(z), torch.from_numpy(np.fft.fft(c)))
        same(numpy_fft(c), np.fft.fft(c))
    # NumPy's function is not called through its module, and nobody sees it
    assert seen.substituted == {("torch._fft_c2c", "trnfft.fftn"): 1, ("numpy.fft.fft", "trnfft.fft"): 2}


def test_threads_have_blocks_of_their_own_and_errors_end_only_their_own():
    together = threading.Barrier(2)
    counts = {}

    def work(name, calls):
        try:
            with trnsci.drop_in(min_size=0) as seen:
                counts[name] = seen
                together.wait(600)
                for _ in range(calls):
                    x @ x
                    np.fft.fft(a)
                if name == "failing":
                    raise KeyError
        except KeyError:
            x @ x

    threads = [threading.Thread(target=work, args=given) for given in (("failing", 3), ("other", 5))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: seen.substituted.total() for name, seen in counts.items()} == {"failing": 6, "other": 10}
    assert np.fft.fft.__module__.startswith("numpy")


def test_an_error_inside_an_inner_block_leaves_the_outer_one_as_it_was():
    with trnsci.drop_in(min_size=0) as outer:
        with pytest.raises(RuntimeError), trnsci.drop_in(min_size=0):
            x @ x[:3]
        x @ x
    assert dict(outer.substituted) == {("torch.mm", "trnblas.gemm"): 1}


def test_in_place_and_given_memory_are_written_whole_and_once():
    want = x + x @ x
    with trnsci.drop_in(min_size=0):
        changed = x.clone()
        assert changed.addmm_(x, x) is changed
        given = torch.empty(0, dtype=F64)
        assert torch.addmm(x, x, x, out=given) is given
        with pytest.raises(RuntimeError):
            changed.addmm_(x[:3], x)
    same(changed, want)
    same(given, want)


def test_transformations_of_torch_func_see_torchs_own_operators():
    w = x.clone()

    def loss(w):
        return torch.linalg.inv(spd + w @ w.T).sum()

    want = torch.func.grad(loss)(w), torch.vmap(lambda row: spd @ row)(x), torch.func.jvp(loss, (w,), (x,))[1]
    with trnsci.drop_in(min_size=0) as seen:
        got = torch.func.grad(loss)(w), torch.vmap(lambda row: spd @ row)(x), torch.func.jvp(loss, (w,), (x,))[1]
    for ours, theirs in zip(got, want, strict=True):
        same(ours, theirs)
    assert {reason for _, reason in seen.left_alone} == {"inside a transformation of torch.func"}


def test_operators_without_an_analog_cost_nothing_inside_the_block():
    def calls():
        seen = []
        # collecting garbage calls what it likes
        gc.disable()
        sys.setprofile(lambda frame, event, arg: seen.append((event, frame.f_code.co_name)))
        small + small
        sys.setprofile(None)
        gc.enable()
        return seen

    small = torch.ones(8)
    with trnsci.drop_in(min_size=0):
        inside = calls()
    # below 3 microseconds is promised, nothing is what it is
    assert inside == calls()


def test_autocast_and_no_grad_mean_what_they_mean():
    with trnsci.drop_in(min_size=0) as seen, torch.autocast("cpu", torch.bfloat16):
        assert (x.float() @ x.float()).dtype == torch.bfloat16
    assert list(seen.substituted) == [("torch.mm", "trnblas.gemm")]
    w = x.clone().requires_grad_()
    with trnsci.drop_in(min_size=0), torch.no_grad():
        assert not (w @ w).requires_grad
