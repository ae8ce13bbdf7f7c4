"""``trnsci explain`` takes every public function of every library."""

import importlib
import inspect

import pytest

import trnrand
from trnsci import cli, libraries

# the words after the function's name, and the functions they suit
WORDS = {
    "trnblas": {
        "": "get_backend probe rotmg",
        "auto": "set_backend",
        "8 float32": "error_bound",
        "--shapes 8": "asum copy iamax iamin nrm2 scal her syr",
        "--shapes 8,8": "axpy dot dotc dotu ger gerc geru her2 rot swap syr2",
        "--shapes 8,8,5": "rotm",
        "--shapes 1,1": "rotg",
        "--shapes 8x8": "herk syrk",
        "--shapes 8x8,8": "dgmm gemv hemv symv trmv trsv",
        "--shapes 8x8,8x8": "geam gemm grouped_gemm hemm her2k matmul symm syr2k syrkx trmm trsm",
        "8 --shapes 36,8": "hpmv spmv tpmv tpsv",
        "8 --shapes 8,36": "hpr spr",
        "8 --shapes 8,8,36": "hpr2 spr2",
        "1 --shapes 2x8,8": "hbmv sbmv tbmv tbsv",
        "8 8 1 1 --shapes 3x8,8": "gbmv",
        "--shapes 16x16,4,4,4": "mp2_energy mp2_pairs",
        "--shapes 8x8:int8,8x8:int8": "gemm_int",
        "--shapes 8x8:float8_e4m3fn,8x8:float8_e4m3fn": "gemm_scaled",
    },
    "trnfft": {
        "": "get_backend",
        "auto": "set_backend",
        "64": "fftfreq next_fast_len rfftfreq",
        "(8,64) complex64": "plan",
        "8": "with_callbacks",
        "--shapes 8x64": "chirp_z dct dctn dst dstn fftshift idct idctn idst idstn ifftshift ihfft ihfft2 "
        "ihfftn rfft rfft2 rfftn",
        "--shapes 8x64 --dtype complex64": "fft fft2 fftn hfft hfft2 hfftn ifft ifft2 ifftn irfft irfft2 irfftn",
        "--shapes 64,8": "correlate fftconvolve oaconvolve",
        "16 --shapes 256": "spectrogram",
        "16 --shapes 256 --set return_complex=True": "stft",
        "16 --shapes 9x17:complex64": "istft",
    },
    "trnrand": {
        "": "default_generator default_rng get_backend get_state probe",
        "auto": "set_backend",
        "7": "advance manual_seed spawn",
        "1 0 8": "bits",
        "9 --set size=100": "choice integers",
        "9": "permutation",
        "--set size=100": "bernoulli beta cauchy chi_squared exponential f gamma geometric gumbel laplace logistic "
        "lognormal normal pareto poisson rademacher random standard_normal student_t uniform unit_vector von_mises "
        "weibull",
        "8 --set size=100": "binomial negative_binomial",
        "--set size=100 --set high=9": "randint",
        "--set size=100 --set low=-2 --set high=2": "truncated_normal",
        "--set size=100 --shapes 4": "dirichlet categorical",
        "8 --set size=100 --shapes 4": "multinomial",
        "4 --set size=100": "orthogonal",
        "--set size=100 --shapes 4,4x4": "multivariate_normal",
        "--shapes 4:int64,2:int64": "philox4x32",
        "--shapes 4:int64,4:int64": "threefry4x32",
        "--shapes 100": "shuffle",
        "--shapes 3:uint8": "set_state",
        "8 --shapes 64x16": "sketch",
    },
    "trnsolver": {
        "": "get_backend",
        "auto": "set_backend",
        "--shapes 8x8": "cholesky cholesky_inverse cond cond_estimate det eig eigh eigvals eigvalsh expm geqrf "
        "hessenberg ic0_preconditioner ilu0_preconditioner inv inv_spd inv_sqrt_spd inv_triangular "
        "jacobi_preconditioner ldl logm lu lu_factor matrix_rank null_space orth pinv polar qr qr_pivoted "
        "schur sign slogdet sqrtm ssor_preconditioner svd svdvals trace",
        "--shapes 8x8,8": "bicgstab block_cg cg gmres lsmr lsqr minres solve solve_spd householder_product",
        "--shapes 8x8,8x2": "lobpcg lstsq",
        "--shapes 8x2,8x8": "cholesky_solve",
        "--shapes 8x8,8x8": "eigh_generalized",
        "3 --shapes 16x16": "arnoldi davidson eigh_randomized lanczos svd_randomized block_jacobi_preconditioner",
        "1 9 --shapes 8x8": "chebyshev_preconditioner",
        "1 9 --shapes 8x8,8": "chebyshev",
        "--shapes 8x8,8:int32": "lu_inverse",
        "--shapes 8x8,8:int32,8x2": "lu_solve",
        "--shapes 8x8,8x8,8:int64": "ldl_inverse",
        "--shapes 8x8,8x8,8:int64,8x2": "ldl_solve",
        "--shapes 8x8,8,8x8": "ormqr",
        "(1,1) --shapes 3x8,8": "solve_banded",
        "--shapes 8x4": "gebrd orgbr",
        "--shapes 8x4,8": "ormbr",
        "--shapes 8x4,4": "larft",
        "True --shapes 8x8,8x2": "solve_triangular",
        "--shapes 7,8,7,8": "solve_tridiagonal",
        "--shapes 16x16": "factor_sparse fill_ordering zero_free_diagonal",
        "--shapes 16x16,16": "solve_sparse",
        "--shapes 16x16 --set k=2": "eigsh",
        "(0.0,9.0) --shapes 16x16": "count_eigenvalues",
    },
    "trnsparse": {
        "": "causal full function get_backend",
        "auto": "set_backend",
        "3": "eye sink window",
        "--shapes 8x8:bool": "blocks",
        "--shapes 8:int64": "documents",
        "--shapes 16x16": "bandwidth ic0 ilu0 norm power_iteration reverse_cuthill_mckee triangle coloring",
        "--shapes 16x16,16": "cg scale_columns scale_rows solve_triangular spmv",
        "--shapes 16x16,16 --set omega=0.1": "richardson",
        "--shapes 16x16,16 --set smallest=1 --set largest=9": "chebyshev",
        "--shapes 16x16,16x16": "add kron multiply spgemm",
        "--shapes 16x16,16x4": "spmm spmm_op",
        "--shapes 16x16,16x4,4x16": "sddmm",
        "--shapes 1x2x64x16,1x2x64x16,1x2x64x16": "attention",
        "4 --shapes 16x16": "choose",
        "(2,) --shapes 16x16": "shard_rows",
        "--shapes 1x1x1x1": "schwarz_bounds",
        "0.1 --shapes 4x4:int64": "screen_quartets",
        "0.1 --shapes 4x4:int64,4x4": "density_screen",
        "0.1 --shapes 16x16,16:int64,16:int64,16x4": "screened_spmm",
        "absent.npz": "load",
    },
    "trntensor": {
        "": "get_backend",
        "auto": "set_backend",
        "ij,jk->ik --shapes 8x8,8x8": "einsum plan block_einsum",
        "ij,ij->ij --shapes 8x8,8x8": "elementwise elementwise_binary",
        "ij,ij,ij->ij --shapes 8x8,8x8,8x8": "elementwise_trinary",
        "ij->ji --shapes 8x8": "permute",
        "ij->i --shapes 8x8": "reduce",
        "ij,jk->ik ik,kl->il --shapes 8x8,8x8,8x8,8x8": "multi_einsum",
        "ij,jk->ik": "fuse",
        "(1,0) --shapes 8x8": "transpose",
        "((4,4),(4,4)) --shapes 8x8": "block_sparse",
        "2 --shapes 8x8x8": "cp tucker",
        "--shapes 8x8x8": "tensor_train",
        "--shapes 8x8,8x8": "tensordot",
        "--shapes 4x4x4x4,4x2,4x2": "ao_to_mo_transform",
        "--shapes 3x5x8,3,5": "mp2_energy",
        "--shapes 8": "from_xla to_xla",
    },
    "trnchem": {
        "water": "DFMP2 density_fit dfmp2 mean_field plan rpa",
        "absent.xyz": "read_xyz",
        "2 3 4": "extrapolate",
    },
}
# what ends with a sentence for want of a file, a state or an object
REFUSED = ("trnsparse.load", "trnchem.extrapolate", "trnchem.read_xyz", "trnrand.set_state")
REFUSED += ("trnfft.with_callbacks", "trnsolver.orgbr", "trnsolver.ormbr")
CASES = [
    (f"{library}.{name}", words)
    for library, table in WORDS.items()
    for words, names in table.items()
    for name in names.split()
]


def test_the_table_has_every_public_function():
    public = {
        f"{library}.{name}"
        for library in WORDS
        for name in importlib.import_module(library).__all__
        if inspect.isfunction(getattr(importlib.import_module(library), name))
    }
    assert public == {name for name, _ in CASES}


@pytest.fixture(autouse=True)
def state():
    """Functions that set something are explained by calling them."""
    kept = trnrand.get_state()
    yield
    trnrand.set_state(kept)
    for library in set(libraries.names()) - {"trnchem"}:
        importlib.import_module(library).set_backend(None)


@pytest.mark.parametrize(
    "library",
    [pytest.param(name, marks=pytest.mark.slow if name in ("trnrand", "trnsolver") else ()) for name in WORDS],
)
def test_every_public_function_is_explained(library, capsys):
    failed = []
    for name, words in CASES:
        if name.partition(".")[0] != library:
            continue
        status = cli.main(["explain", name, *words.split()])
        out, err = capsys.readouterr()
        if (status, bool(out), bool(err)) != ((1, False, True) if name in REFUSED else (0, True, False)):
            failed.append((name, status, (err or out)[:300]))
    assert not failed, failed
