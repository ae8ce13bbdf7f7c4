"""Every public function: operands it cannot take, tensors without data, ``torch.func``, and settings of the library."""

import pytest
import torch

import trnsci
import trnsolver as ts
from tests.together import together
from trnsci import TrnError
from trnsci.testing import gaussian

N = 5
A = gaussian((N, N), 1) + 3 * torch.eye(N)
SPD = A @ A.mT + torch.eye(N)
B = gaussian((N, 2), 2)
LU = ts.lu_factor(A)
LDL = ts.ldl(SPD)
Q = ts.geqrf(A)

# functions of one matrix, and one they are defined for
FUNCTIONS = {
    "cholesky": (ts.cholesky, SPD),
    "cholesky_inverse": (ts.cholesky_inverse, ts.cholesky(SPD)),
    "cholesky_solve": (lambda a: ts.cholesky_solve(B.to(a), a), ts.cholesky(SPD)),
    "cond": (ts.cond, A),
    "det": (ts.det, A),
    "eig": (ts.eig, A),
    "eigh": (ts.eigh, SPD),
    "eigh_generalized": (lambda a: ts.eigh_generalized(a, a), SPD),
    "eigh_randomized": (lambda a: ts.eigh_randomized(a, 2).s, SPD),
    "eigvals": (ts.eigvals, A),
    "eigvalsh": (ts.eigvalsh, SPD),
    "expm": (ts.expm, A),
    "geqrf": (ts.geqrf, A),
    "hessenberg": (ts.hessenberg, A),
    "householder_product": (lambda a: ts.householder_product(a, Q.tau.to(a)), Q.factors),
    "inv": (ts.inv, A),
    "inv_spd": (ts.inv_spd, SPD),
    "inv_sqrt_spd": (ts.inv_sqrt_spd, SPD),
    "inv_triangular": (ts.inv_triangular, A),
    "ldl": (ts.ldl, SPD),
    "ldl_inverse": (lambda a: ts.ldl_inverse(a, LDL.d.to(a), LDL.order.to(a.device)), LDL.l),
    "ldl_solve": (lambda a: ts.ldl_solve(a, LDL.d.to(a), LDL.order.to(a.device), B.to(a)), LDL.l),
    "logm": (ts.logm, SPD),
    "lstsq": (lambda a: ts.lstsq(a, B.to(a)), A),
    "lu": (ts.lu, A),
    "lu_factor": (ts.lu_factor, A),
    "lu_inverse": (lambda a: ts.lu_inverse(a, LU.pivots.to(a.device)), LU.factors),
    "lu_solve": (lambda a: ts.lu_solve(a, LU.pivots.to(a.device), B.to(a)), LU.factors),
    "matrix_rank": (ts.matrix_rank, A),
    "null_space": (ts.null_space, A),
    "ormqr": (lambda a: ts.ormqr(a, Q.tau.to(a), B.to(a)), Q.factors),
    "orth": (ts.orth, A),
    "pinv": (ts.pinv, A),
    "polar": (ts.polar, A),
    "qr": (ts.qr, A),
    "qr_pivoted": (ts.qr_pivoted, A),
    "schur": (ts.schur, A),
    "sign": (ts.sign, A),
    "slogdet": (ts.slogdet, A),
    "solve": (lambda a: ts.solve(a, B.to(a)), A),
    "solve_banded": (lambda a: ts.solve_banded((1, 1), a[..., :3, :], B.to(a)), A),
    "solve_spd": (lambda a: ts.solve_spd(a, B.to(a)), SPD),
    "solve_triangular": (lambda a: ts.solve_triangular(a, B.to(a), upper=True), A),
    "sqrtm": (ts.sqrtm, SPD),
    "svd": (ts.svd, A),
    "svd_randomized": (lambda a: ts.svd_randomized(a, 2).s, A),
    "svdvals": (ts.svdvals, A),
}
# of which the shape of the result depends on the data
RANKS = {"null_space", "orth"}
BAD = {
    "nothing": lambda: None,
    "a list": lambda: [[1.0, 2.0], [3.0, 4.0]],
    "a word": lambda: "matrix",
    "sparse": lambda: SPD.to_sparse(),
    "compressed rows": lambda: SPD.to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.eye(2), torch.eye(3)]),
    "float8": lambda: SPD.to(torch.float8_e4m3fn),
    "integers": lambda: SPD.long(),
    "a vector": lambda: torch.ones(4),
    "a number": lambda: torch.tensor(1.0),
}


def _plain(name):
    """The public function itself: what stands above also converts right-hand sides."""
    fn, _ = FUNCTIONS[name]
    return fn if getattr(fn, "__name__", "") != "<lambda>" else None


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@together("name", [name for name in FUNCTIONS if _plain(name)])
def test_what_is_no_dense_matrix_is_refused_by_name(name):
    for make in BAD.values():
        with pytest.raises(TrnError, match=f"^{name}:"):
            _plain(name)(make())


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@together(
    "fn",
    [
        lambda b: ts.solve(A, b),
        lambda b: ts.solve_spd(SPD, b),
        lambda b: ts.solve_triangular(A, b, upper=True),
        lambda b: ts.lstsq(A, b),
        lambda b: ts.lu_solve(*LU, b),
        lambda b: ts.cholesky_solve(b, SPD),
        lambda b: ts.ldl_solve(*LDL, b),
        lambda b: ts.solve_banded((1, 1), A[:3], b),
        lambda b: ts.ormqr(*Q, b),
    ],
)
def test_what_is_no_dense_right_hand_side_is_refused(fn):
    for kind, make in BAD.items():
        if kind not in ("a vector", "a number"):
            with pytest.raises(TrnError):
                fn(make())


@together("name", sorted(set(FUNCTIONS) - RANKS))
def test_tensors_without_data_have_results_without_data(name):
    fn, a = FUNCTIONS[name]
    expected, found = fn(a), fn(a.to("meta"))
    if name in ("sqrtm", "logm"):
        assert found.is_meta
        return
    for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (expected, found)), strict=True):
        assert other.is_meta
        assert (one.shape, one.dtype) == (other.shape, other.dtype)


@pytest.mark.parametrize("name", sorted(RANKS))
def test_a_rank_of_tensors_without_data_is_refused(name):
    fn, a = FUNCTIONS[name]
    with pytest.raises(TrnError, match="data"):
        fn(a.to("meta"))


@together("name", FUNCTIONS)
def test_batches_of_torch_func_work_or_are_refused(name):
    fn, a = FUNCTIONS[name]
    batch = torch.stack([a, a])
    try:
        found = torch.func.vmap(lambda x: tuple(y) if isinstance(y := fn(x), tuple) else y)(batch)
    except TrnError:
        return
    expected = fn(a)
    for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (expected, found)), strict=True):
        assert other.shape[1:] == one.shape


KERNELS = ["cholesky", "eigh", "expm", "inv", "lstsq", "lu", "pinv", "polar", "qr", "sign", "solve", "solve_spd", "svd"]


@pytest.mark.parametrize("name", KERNELS)
def test_the_setting_of_the_library_moves_every_step(name):
    fn, a = FUNCTIONS[name]
    with trnsci.backend("simulator", library="trnsolver"), trnsci.ledger() as book:
        fn(a)
    leaves = [entry for entry in book if entry.step.implementation == "nki"]
    assert leaves
    # what runs on the host does so inside a kernel's own call, or by nature
    assert all(entry.step.backend == "simulator" for entry in book if entry.depth == 0)


# what reads one triangle: a function of [N, N], which triangle, and whether its diagonal counts as ones
TRIANGLES = {
    "cholesky": (ts.cholesky, SPD, 0),
    "cholesky of the upper": (lambda a: ts.cholesky(a.mT, upper=True), SPD, 0),
    "count_eigenvalues": (lambda a: torch.tensor(ts.count_eigenvalues(a.to_sparse_csr(), (0.0, 9.0)).count), SPD, 0),
    "eigh": (lambda a: ts.eigh(a).values, SPD, 0),
    "eigh of the upper": (lambda a: ts.eigh(a.mT, UPLO="U").values, SPD, 0),
    "eigh_generalized": (lambda a: ts.eigh_generalized(a, a).values, SPD, 0),
    "eigsh": (lambda a: ts.eigsh(a.to_sparse_csr(), 2).values, SPD, 0),
    "factor_sparse": (lambda a: ts.factor_sparse(a.to_sparse_csr(), kind="cholesky").solve(B), SPD, 0),
    "factor_sparse in fronts": (
        lambda a: ts.factor_sparse(a.to_sparse_csr(), kind="cholesky", method="multifrontal").solve(B), SPD, 0,
    ),
    "inv_spd": (ts.inv_spd, SPD, 0),
    "inv_triangular": (lambda a: ts.inv_triangular(a, lower=True), A, 0),
    "inv_triangular with ones": (lambda a: ts.inv_triangular(a, lower=True, unit=True), A, 1),
    "inv_triangular of the upper": (lambda a: ts.inv_triangular(a.mT, unit=True), A, 1),
    "ldl": (lambda a: ts.ldl(a).l, SPD, 0),
    "matrix_rank": (lambda a: ts.matrix_rank(a, hermitian=True), SPD, 0),
    "pinv": (lambda a: ts.pinv(a, hermitian=True), SPD, 0),
    "solve_sparse": (lambda a: ts.solve_sparse(a.to_sparse_csr(), B, kind="cholesky"), SPD, 0),
    "solve_spd": (lambda a: ts.solve_spd(a, B), SPD, 0),
    "solve_triangular": (lambda a: ts.solve_triangular(a, B, upper=False), A, 0),
    "solve_triangular with ones": (lambda a: ts.solve_triangular(a, B, upper=False, unitriangular=True), A, 1),
}  # fmt: skip
NO_GRADIENT = ("sparse", "eigsh", "count_eigenvalues", "ldl", "matrix_rank")


@pytest.mark.parametrize("name", TRIANGLES)
def test_nan_and_infinity_in_the_other_triangle_change_nothing(name):
    function, a, unit = TRIANGLES[name]
    plain, spoilt = a.clone(), a.clone()
    other = torch.ones(N, N, dtype=torch.bool).triu(1 - unit)
    spoilt[other] = torch.inf
    spoilt[0, N - 1] = torch.nan
    results = []
    for operand in (plain, spoilt):
        operand.requires_grad_(not any(word in name for word in NO_GRADIENT))
        results.append(function(operand))
        if operand.requires_grad:
            results[-1].sum().backward()
    assert torch.equal(*results)
    if spoilt.requires_grad:
        assert torch.equal(plain.grad, spoilt.grad)
