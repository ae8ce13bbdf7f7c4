"""Write ``docs/from-numpy.md``: names of NumPy, SciPy and torch beside ours: ``python -m tools.names_page``.

What `trnsci.drop_in` substitutes is what the libraries declare; the rest is listed here.
"""

from __future__ import annotations

from pathlib import Path

from trnsci.analogs import functions

PAGE = Path(__file__).resolve().parents[1] / "docs" / "from-numpy.md"
PACKAGES = ("numpy", "scipy", "torch")

# ours: theirs, besides what is declared beside ours
ALSO: dict[str, dict[str, str]] = {
    "Products and vectors": {
        "trnblas.gemm": "numpy.matmul numpy.dot scipy.linalg.blas.dgemm torch.mm torch.bmm torch.addmm torch.matmul",
        "trnblas.gemv": "scipy.linalg.blas.dgemv torch.mv torch.addmv",
        "trnblas.dot": "numpy.vdot scipy.linalg.blas.ddot torch.dot torch.vdot",
        "trnblas.ger": "numpy.outer scipy.linalg.blas.dger torch.outer torch.addr",
        "trnblas.axpy": "scipy.linalg.blas.daxpy torch.add",
        "trnblas.scal": "scipy.linalg.blas.dscal torch.mul",
        "trnblas.nrm2": "numpy.linalg.norm scipy.linalg.blas.dnrm2 torch.linalg.vector_norm",
        "trnblas.asum": "scipy.linalg.blas.dasum",
        "trnblas.iamax": "scipy.linalg.blas.idamax",
        "trnblas.syrk": "scipy.linalg.blas.dsyrk",
        "trnblas.herk": "scipy.linalg.blas.zherk",
        "trnblas.symm": "scipy.linalg.blas.dsymm",
        "trnblas.trmm": "scipy.linalg.blas.dtrmm",
        "trnblas.trsm": "scipy.linalg.blas.dtrsm torch.linalg.solve_triangular",
        "trnblas.rot": "scipy.linalg.blas.drot",
        "trnblas.gbmv": "scipy.linalg.blas.dgbmv",
    },
    "Transforms and signals": {
        **{f"trnfft.{kind}": f"torch.fft.{kind}" for kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
        **{f"trnfft.{kind}2": f"torch.fft.{kind}2" for kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
        **{f"trnfft.{kind}n": f"torch.fft.{kind}n" for kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
        **{f"trnfft.{kind}": f"scipy.fft.{kind}" for kind in ("dctn", "idctn", "dstn", "idstn", "next_fast_len")},
        **{f"trnfft.{n}": f"numpy.fft.{n} torch.fft.{n}" for n in ("fftfreq", "rfftfreq", "fftshift", "ifftshift")},
        "trnfft.stft": "scipy.signal.ShortTimeFFT.stft torch.stft",
        "trnfft.istft": "scipy.signal.ShortTimeFFT.istft torch.istft",
        "trnfft.spectrogram": "scipy.signal.ShortTimeFFT.spectrogram",
        "trnfft.fftconvolve": "numpy.convolve scipy.signal.fftconvolve",
        "trnfft.oaconvolve": "scipy.signal.oaconvolve",
        "trnfft.correlate": "numpy.correlate scipy.signal.correlate",
        "trnfft.chirp_z": "scipy.signal.czt",
    },
    "Random numbers": {
        "trnrand.Generator": "numpy.random.Generator torch.Generator",
        "trnrand.manual_seed": "torch.manual_seed",
        "trnrand.spawn": "numpy.random.Generator.spawn",
        "trnrand.bits": "numpy.random.Philox.random_raw",
        "trnrand.uniform": "numpy.random.Generator.random numpy.random.Generator.uniform torch.rand",
        "trnrand.normal": "numpy.random.Generator.normal numpy.random.Generator.standard_normal torch.randn",
        "trnrand.randint": "numpy.random.Generator.integers torch.randint",
        "trnrand.permutation": "numpy.random.Generator.permutation torch.randperm",
        "trnrand.shuffle": "numpy.random.Generator.shuffle",
        "trnrand.choice": "numpy.random.Generator.choice",
        "trnrand.bernoulli": "torch.bernoulli",
        "trnrand.categorical": "torch.multinomial",
        "trnrand.chi_squared": "numpy.random.Generator.chisquare",
        "trnrand.student_t": "numpy.random.Generator.standard_t torch.distributions.StudentT",
        "trnrand.von_mises": "numpy.random.Generator.vonmises torch.distributions.VonMises",
        "trnrand.truncated_normal": "scipy.stats.truncnorm.rvs torch.nn.init.trunc_normal_",
        "trnrand.unit_vector": "scipy.stats.uniform_direction.rvs",
        "trnrand.orthogonal": "scipy.stats.ortho_group.rvs torch.nn.init.orthogonal_",
        **{
            f"trnrand.{name}": f"numpy.random.Generator.{name}"
            for name in (
                *("exponential", "gamma", "beta", "poisson", "binomial", "negative_binomial", "geometric", "gumbel"),
                *("laplace", "logistic", "lognormal", "multinomial", "multivariate_normal", "dirichlet", "pareto"),
                *("weibull", "f"),
            )
        },
        "trnrand.cauchy": "numpy.random.Generator.standard_cauchy torch.distributions.Cauchy",
        "trnrand.Sobol": "scipy.stats.qmc.Sobol torch.quasirandom.SobolEngine",
        "trnrand.Halton": "scipy.stats.qmc.Halton",
        "trnrand.LatinHypercube": "scipy.stats.qmc.LatinHypercube",
    },
    "Factorisations, equations, eigenproblems": {
        "trnsolver.cholesky": "torch.linalg.cholesky",
        "trnsolver.cholesky_solve": "scipy.linalg.cho_solve torch.cholesky_solve",
        "trnsolver.cholesky_inverse": "torch.cholesky_inverse",
        "trnsolver.lu": "scipy.linalg.lu torch.linalg.lu",
        "trnsolver.lu_factor": "torch.linalg.lu_factor",
        "trnsolver.lu_solve": "torch.linalg.lu_solve",
        "trnsolver.ldl": "scipy.linalg.ldl",
        "trnsolver.qr": "torch.linalg.qr",
        "trnsolver.geqrf": "torch.geqrf",
        "trnsolver.ormqr": "torch.ormqr",
        "trnsolver.householder_product": "torch.linalg.householder_product",
        "trnsolver.solve": "torch.linalg.solve",
        "trnsolver.solve_triangular": "torch.linalg.solve_triangular",
        "trnsolver.solve_banded": "scipy.linalg.solve_banded",
        "trnsolver.lstsq": "numpy.linalg.lstsq scipy.linalg.lstsq torch.linalg.lstsq",
        "trnsolver.inv": "torch.linalg.inv",
        "trnsolver.pinv": "numpy.linalg.pinv scipy.linalg.pinv torch.linalg.pinv",
        "trnsolver.det": "torch.linalg.det",
        "trnsolver.slogdet": "torch.linalg.slogdet",
        "trnsolver.cond": "numpy.linalg.cond torch.linalg.cond",
        "trnsolver.matrix_rank": "numpy.linalg.matrix_rank torch.linalg.matrix_rank",
        "trnsolver.eig": "numpy.linalg.eig scipy.linalg.eig torch.linalg.eig",
        "trnsolver.eigvals": "numpy.linalg.eigvals scipy.linalg.eigvals torch.linalg.eigvals",
        "trnsolver.eigh": "torch.linalg.eigh",
        "trnsolver.eigvalsh": "scipy.linalg.eigvalsh torch.linalg.eigvalsh",
        "trnsolver.svd": "torch.linalg.svd",
        "trnsolver.svdvals": "numpy.linalg.svdvals torch.linalg.svdvals",
        "trnsolver.svd_randomized": "torch.svd_lowrank",
        "trnsolver.schur": "scipy.linalg.schur",
        "trnsolver.hessenberg": "scipy.linalg.hessenberg",
        "trnsolver.polar": "scipy.linalg.polar",
        "trnsolver.orth": "scipy.linalg.orth",
        "trnsolver.null_space": "scipy.linalg.null_space",
        "trnsolver.expm": "torch.linalg.matrix_exp",
        "trnsolver.logm": "scipy.linalg.logm",
        "trnsolver.sqrtm": "scipy.linalg.sqrtm",
        "trnsolver.sign": "scipy.linalg.signm",
        "trnsolver.lobpcg": "scipy.sparse.linalg.lobpcg torch.lobpcg",
        "trnsolver.lanczos": "scipy.sparse.linalg.eigsh",
        "trnsolver.arnoldi": "scipy.sparse.linalg.eigs",
        "trnsolver.lsqr": "scipy.sparse.linalg.lsqr",
        "trnsolver.lsmr": "scipy.sparse.linalg.lsmr",
        "trnsolver.ilu0_preconditioner": "scipy.sparse.linalg.spilu",
    },
    "Sparse matrices and attention": {
        "trnsparse.CSRMatrix": "scipy.sparse.csr_array torch.sparse_csr_tensor",
        "trnsparse.CSCMatrix": "scipy.sparse.csc_array torch.sparse_csc_tensor",
        "trnsparse.COOMatrix": "scipy.sparse.coo_array torch.sparse_coo_tensor",
        "trnsparse.BSRMatrix": "scipy.sparse.bsr_array torch.sparse_bsr_tensor",
        "trnsparse.eye": "scipy.sparse.eye_array",
        "trnsparse.kron": "scipy.sparse.kron",
        "trnsparse.load": "scipy.sparse.load_npz",
        "trnsparse.spmm": "torch.sparse.mm torch.sparse.addmm",
        "trnsparse.sddmm": "torch.sparse.sampled_addmm",
        "trnsparse.norm": "scipy.sparse.linalg.norm",
        "trnsparse.solve_triangular": "scipy.sparse.linalg.spsolve_triangular",
        "trnsparse.reverse_cuthill_mckee": "scipy.sparse.csgraph.reverse_cuthill_mckee",
        "trnsparse.attention": "torch.nn.functional.scaled_dot_product_attention",
    },
    "Tensors": {
        "trntensor.einsum": "torch.einsum",
        "trntensor.plan": "numpy.einsum_path",
        "trntensor.tensordot": "numpy.tensordot torch.tensordot",
        "trntensor.permute": "numpy.transpose torch.permute",
        "trntensor.reduce": "numpy.sum torch.sum",
    },
}

HEAD = """\
# From NumPy, SciPy and torch

Functions you know, and the ones that stand in for them. Arguments follow torch where torch has the function, else
NumPy or SciPy; what differs is on the function's page and, for linear algebra, [on one page](trnsolver/conventions.md).
`trnblas` follows BLAS: `alpha` comes first. Operands are tensors or NumPy arrays, and the result is of the same kind.

Names in **bold** need no change at all: [`trnsci.drop_in()`](how-to/unmodified-programs.md) and `trnsci run PROGRAM`
redirect these calls, and torch's operators as well. [`trnsci fit`](how-to/is-it-a-fit.md) tells you first whether that
would pay. CUDA's names are [on a page of their own](rosetta.md).

```pycon
>>> import numpy as np, trnsolver
>>> w, v = trnsolver.eigh(np.array([[2.0, 1.0], [1.0, 2.0]]))
>>> type(w).__name__, w.round(6).tolist()
('ndarray', [1.0, 3.0])
```
"""


def table() -> dict[str, dict[str, list[str]]]:
    """Theirs by heading and by ours, substituted ones first."""
    rows = {heading: {ours: theirs.split() for ours, theirs in group.items()} for heading, group in ALSO.items()}
    heading_of = {"trnblas": 0, "trnfft": 1, "trnrand": 2, "trnsolver": 3, "trnsparse": 4, "trntensor": 5}
    headings = list(rows)
    for theirs, analog in functions().items():
        group = rows[headings[heading_of[analog.name.partition(".")[0]]]]
        group.setdefault(analog.name, []).append(theirs)
    return {
        heading: {ours: sorted(set(theirs), key=lambda n: (n not in functions(), n)) for ours, theirs in group.items()}
        for heading, group in rows.items()
    }


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for heading, group in table().items():
        lines = ["| here | NumPy | SciPy | torch |", "|---|---|---|---|"]
        for ours in sorted(group, key=lambda name: (name.partition(".")[0], name.lower())):
            cells = [", ".join(_shown(n) for n in group[ours] if n.startswith(f"{p}.")) for p in PACKAGES]
            lines.append(f"| `{ours}` | {' | '.join(cells)} |")
        parts.append(f"## {heading}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _shown(name: str) -> str:
    text = f"`{name.partition('.')[2]}`"
    known = functions().get(name)
    return f"**{text}**" if known is not None and not known.left else text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
