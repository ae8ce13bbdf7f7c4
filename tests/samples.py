"""One sample call of every public function, in the words of ``trnsci explain``: the row every walking test reads.

The command line, settings, operands of every kind, torch's rules, limits of programs and counterparts read it. A table
elsewhere has what a row cannot say: values that matter, variants, operands that belong to each other.
"""

import argparse
import functools
import importlib

import torch

import trnsci
from trnsci import explain_cli
from trnsci.specs import TensorSpec
from trnsci.testing import gaussian

# masks made from one integer, and the pairs of positions they keep; attention takes them, and nothing computes them
MASKS = {
    "causal": lambda q, k, offset: k <= q + offset,
    "window": lambda q, k, width: abs(q - k) <= width,
    "sink": lambda q, k, count: (k < count) & (q >= 0),
}
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
        "3": " ".join(["eye", *MASKS]).replace(" causal", ""),
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
# NumPy's function of the same arrays, and the roundings of a result: the campaign and the counterparts read it where
# neither has a table of its own
ORACLES = {
    "trnblas.copy": ("numpy.copy", 0),
}


def _values(shape, dtype):
    floating = dtype.is_floating_point or dtype.is_complex
    return (gaussian(shape, 1, dtype) / 8 + 2).to(dtype) if floating else torch.ones(shape, dtype=dtype)


def _shapes_alone(shape, dtype):
    return torch.empty(shape, dtype=dtype, device="meta")


@functools.cache
def rows():
    """Return the words of every function, by its full name."""
    tables = [(library, words, names) for library, table in WORDS.items() for words, names in table.items()]
    return {f"{library}.{name}": words for library, words, names in tables for name in names.split()}


def sample(name, make=_values, scale=1):
    """Return a public function with the positional and named arguments of its row, every size times ``scale``."""
    parser = argparse.ArgumentParser()
    explain_cli.arguments(parser)
    operands = explain_cli.Operands(parser.parse_args([name, *rows()[name].split()]))
    operands.shapes = [(tuple(scale * size for size in shape), dtype) for shape, dtype in operands.shapes]
    library, _, stem = name.partition(".")
    function = getattr(importlib.import_module(library), stem)
    return function, *operands.bind(function, make)


def oracle(name):
    """Return the function a result is compared with."""
    module, _, stem = ORACLES[name][0].rpartition(".")
    return getattr(importlib.import_module(module), stem)


def arguments(name):
    """Return the arguments of a row as a tuple, those up to the last that is given, in the order of the signature."""
    _, positional, named = sample(name)
    return (*positional, *named.values())


def planned(op, dtype=None, scale=1):
    """Return the call of an op that the function of its name plans, of shapes alone and ``scale`` times as large."""
    function, positional, named = sample(op.replace("::", "."), _shapes_alone, scale)
    if dtype is not None:
        positional = [x.to(dtype) if isinstance(x, torch.Tensor) else x for x in positional]
        named = {key: x.to(dtype) if isinstance(x, torch.Tensor) else x for key, x in named.items()}
    return next(step.call for step in trnsci.plan(function, *positional, **named).steps if step.op == op)


def operands(call):
    """Return the fields of a planned call, with numbers in its tensors."""
    return tuple(_values(x.shape, x.dtype) if isinstance(x, TensorSpec) else x for x in call)
