"""Every function takes CUDA tensors and answers on their device, also those whose algorithm runs on the host."""

import numpy as np
import pytest
import torch

import trnsolver as ts
from trnsci.testing import gaussian

N = 12


def _data(dtype):
    x = gaussian((N, N), 1, dtype)
    return {
        "a": x + 4 * torch.eye(N, dtype=dtype),
        "h": 0.5 * (x + x.mH),
        "spd": x @ x.mH / N + torch.eye(N, dtype=dtype),
        "tall": gaussian((2 * N, N), 2, dtype),
        "b": gaussian((N, 2), 3, dtype),
        "c": gaussian((2 * N, 2), 4, dtype),
    }


# Each call reduces its answer to what does not depend on signs, phases or order.
CALLS = {
    "cholesky": lambda d: ts.cholesky(d["spd"]),
    "cholesky_solve": lambda d: ts.cholesky_solve(d["b"], ts.cholesky(d["spd"])),
    "cholesky_inverse": lambda d: ts.cholesky_inverse(ts.cholesky(d["spd"])),
    "lu": lambda d: torch.linalg.multi_dot(list(ts.lu(d["a"]))),
    "lu without exchanges": lambda d: ts.lu(d["spd"], pivot=False)[2],
    "lu_solve": lambda d: ts.lu_solve(*ts.lu_factor(d["a"]), d["b"]),
    "lu_inverse": lambda d: ts.lu_inverse(*ts.lu_factor(d["a"])),
    "ldl": lambda d: ts.ldl(d["h"]).d.det(),
    "ldl_solve": lambda d: ts.ldl_solve(*ts.ldl(d["h"]), d["b"]),
    "ldl_inverse": lambda d: ts.ldl_inverse(*ts.ldl(d["h"])),
    "geqrf": lambda d: ts.geqrf(d["tall"]).factors.abs(),
    "householder_product": lambda d: ts.householder_product(*ts.geqrf(d["tall"])).abs(),
    "ormqr": lambda d: ts.ormqr(*ts.geqrf(d["tall"]), d["c"], transpose=True).abs(),
    "larft": lambda d: ts.larft(*ts.geqrf(d["tall"])).abs(),
    "gebrd": lambda d: ts.gebrd(d["tall"]).d.abs(),
    "orgbr": lambda d: ts.orgbr(ts.gebrd(d["tall"])).abs(),
    "ormbr": lambda d: ts.ormbr(ts.gebrd(d["tall"]), d["c"], transpose=True).abs(),
    "qr": lambda d: ts.qr(d["tall"]).r.abs(),
    "qr_pivoted": lambda d: ts.qr_pivoted(d["tall"]).r.abs(),
    "svd": lambda d: ts.svd(d["tall"]).s,
    "svdvals": lambda d: ts.svdvals(d["tall"]),
    "eigh": lambda d: ts.eigh(d["h"]).values,
    "eigh to a target": lambda d: ts.eigh(d["h"], target_error=1e-10).values,
    "eigvalsh": lambda d: ts.eigvalsh(d["h"]),
    "eigh_generalized": lambda d: ts.eigh_generalized(d["h"], d["spd"]).values,
    "eig": lambda d: ts.eig(d["a"]).values.abs().sort().values,
    "eigvals": lambda d: ts.eigvals(d["a"]).abs().sort().values,
    "schur": lambda d: ts.schur(d["a"]).t.norm(),
    "hessenberg": lambda d: ts.hessenberg(d["a"]).h.abs(),
    "polar": lambda d: ts.polar(d["a"]).p,
    "solve": lambda d: ts.solve(d["a"], d["b"]),
    "solve to a target": lambda d: ts.solve(d["a"], d["b"], target_error=1e-10),
    "lstsq": lambda d: ts.lstsq(d["tall"], d["c"]).solution,
    "lstsq to a target": lambda d: ts.lstsq(d["tall"], d["c"], target_error=1e-10).solution,
    "solve_spd": lambda d: ts.solve_spd(d["spd"], d["b"]),
    "solve_triangular": lambda d: ts.solve_triangular(d["spd"], d["b"], upper=True),
    "solve_banded": lambda d: ts.solve_banded((1, 1), d["spd"][:3], d["b"]),
    "solve_tridiagonal": lambda d: ts.solve_tridiagonal(d["a"][0, 1:], d["a"][1] + 9, d["a"][2, 1:], d["b"]),
    "inv": lambda d: ts.inv(d["a"]),
    "inv_spd": lambda d: ts.inv_spd(d["spd"]),
    "inv_triangular": lambda d: ts.inv_triangular(d["spd"], lower=True),
    "pinv": lambda d: ts.pinv(d["tall"]),
    "det": lambda d: ts.det(d["a"]),
    "slogdet": lambda d: ts.slogdet(d["a"])[1],
    "matrix_rank": lambda d: ts.matrix_rank(d["tall"]).double(),
    "cond": lambda d: ts.cond(d["a"]),
    "cond_estimate": lambda d: ts.cond_estimate(d["a"]),
    "null_space": lambda d: ts.null_space(d["tall"].mH).norm(),
    "orth": lambda d: ts.orth(d["tall"]).norm(),
    "expm": lambda d: ts.expm(d["h"]),
    "logm": lambda d: ts.logm(d["spd"]),
    "sqrtm": lambda d: ts.sqrtm(d["spd"]),
    "inv_sqrt_spd": lambda d: ts.inv_sqrt_spd(d["spd"]),
    "newton_schulz": lambda d: ts.inv_sqrt_spd(d["spd"], method="newton_schulz"),
    "sign": lambda d: ts.sign(d["a"]),
    "svd_randomized": lambda d: ts.svd_randomized(d["tall"], N).s,
    "eigh_randomized": lambda d: ts.eigh_randomized(d["spd"], N).s,
    "factor_sparse": lambda d: ts.factor_sparse(d["a"].to_sparse_csr()).solve(d["b"]),
    "solve_sparse": lambda d: ts.solve_sparse(d["a"].to_sparse_csr(), d["b"]),
    "eigsh": lambda d: ts.eigsh(d["spd"].to_sparse_csr(), 2, sigma=0.5).values,
    "cg": lambda d: ts.cg(d["spd"], d["b"], tol=1e-10).require(),
    "block_cg": lambda d: ts.block_cg(d["spd"], d["b"], tol=1e-10).require(),
    "chebyshev": lambda d: ts.chebyshev(d["spd"], d["b"], low=0.9, high=9.0, tol=1e-10).require(),
    "minres": lambda d: ts.minres(d["spd"], d["b"], tol=1e-10).require(),
    "bicgstab": lambda d: ts.bicgstab(d["spd"], d["b"], tol=1e-10).require(),
    "gmres": lambda d: ts.gmres(d["a"], d["b"], tol=1e-10).require(),
    "lsqr": lambda d: ts.lsqr(d["tall"], d["c"], tol=1e-12).require(),
    "lsmr": lambda d: ts.lsmr(d["tall"], d["c"], tol=1e-12).require(),
    "lanczos": lambda d: ts.lanczos(d["h"], 2).values,
    "arnoldi": lambda d: ts.arnoldi(d["a"], 2).values.abs(),
    "lobpcg": lambda d: ts.lobpcg(d["spd"], d["b"], tol=1e-8).values,
    "davidson": lambda d: ts.davidson(d["spd"], 2, tol=1e-8).values,
    "jacobi": lambda d: ts.jacobi_preconditioner(d["a"])(d["b"]),
    "block_jacobi": lambda d: ts.block_jacobi_preconditioner(d["a"], 5)(d["b"]),
    "ssor": lambda d: ts.ssor_preconditioner(d["spd"])(d["b"]),
    "ic0": lambda d: ts.ic0_preconditioner(d["spd"])(d["b"]),
    "ilu0": lambda d: ts.ilu0_preconditioner(d["a"])(d["b"]),
    "chebyshev_preconditioner": lambda d: ts.chebyshev_preconditioner(d["spd"], 0.9, 9.0)(d["b"]),
    "trace": lambda d: ts.trace(d["a"]).value,
}


def test_every_function_is_called():
    functions = {name for name in ts.__all__ if name.islower() and callable(getattr(ts, name))}
    helpers = {"set_backend", "get_backend", "lu_factor"}
    # of patterns, and a count: numbers on the host
    helpers |= {"count_eigenvalues", "fill_ordering", "zero_free_diagonal"}
    called = {name.split()[0] for name in CALLS} | {f"{name}_preconditioner" for name in CALLS}
    assert sorted(functions - helpers - called) == []


@pytest.mark.grid(1)
@pytest.mark.cuda
@pytest.mark.parametrize("name", sorted(CALLS))
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_the_answer_is_there_and_the_same(name, dtype):
    """The same call on CPU is the reference; its correctness is the other files' business."""
    data = _data(dtype)
    expected = CALLS[name](data)
    found = CALLS[name]({key: value.cuda() for key, value in data.items()})
    assert found.device.type == "cuda"
    assert found.dtype == expected.dtype
    # Condition numbers are below 100; iterations stop at 1e-8 of it.
    gap = np.abs(found.cpu().numpy() - expected.numpy()).max()
    assert gap <= 1e-6 * np.abs(expected.numpy()).max()
