"""Every name of the earlier suite that is written otherwise here, or does something else without an error.

A row's ``here`` is the spelling of a name that is not ours, ``spelled`` that of arguments which are refused without
`trnsci.earlier.install`, and ``differs`` says how a call that both suites accept differs.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """How an earlier name or its arguments are written here, and how the same call differs."""

    here: str = ""
    differs: str = ""
    spelled: str = ""


_UPLO = "`uplo=`, `A=`, `B=`, `C=` are `lower=`, `a=`, `b=`, `c=` here"
_TRANS = "`trans=` is `trans_a=` here, `uplo=` is `lower=`"
_COMPLEX = "a `ComplexTensor` was returned for every operand; here for one of that kind, else a complex tensor"
_SINGLE = "float32 whatever torch's default dtype is"

ROWS: dict[str, dict[str, Row]] = {
    "trnblas": {
        "axpy": Row(differs="alpha came first: `axpy(alpha, x, y)`; here `axpy(x, y, alpha)`"),
        "gemm": Row(spelled="`A=`, `B=`, `C=`, `transA=`, `transB=` are `a=`, `b=`, `c=`, `trans_a=`, `trans_b=` here"),
        "batched_gemm": Row("trnblas.gemm: leading axes are batches, and broadcast"),
        "gemv": Row(spelled="`A=` is `a=` here"),
        "ger": Row(spelled="`A=` is `a=` here"),
        "symv": Row(spelled=_UPLO),
        "symm": Row(spelled=_UPLO),
        "trmv": Row(spelled=_UPLO),
        "trmm": Row(spelled=_TRANS),
        "trsm": Row(spelled=_TRANS),
        "syrk": Row(differs="the whole matrix was returned; here one triangle, as in BLAS"),
    },
    "trnblas.nki": {
        "set_backend": Row("trnblas.set_backend"),
        "get_backend": Row("trnblas.get_backend"),
        "nki_syrk": Row("trnblas.syrk"),
        "nki_trsm": Row("trnblas.trsm"),
        "nki_batched_pair_energy": Row("trntensor.mp2_energy, or trnblas.mp2_pairs for the energy of each pair"),
        "nki_fused_gemm_energy": Row("trnblas.mp2_pairs"),
    },
    "trnfft": {
        **{
            name: Row(differs=_COMPLEX)
            for name in ("fft", "ifft", "rfft", "ihfft", "fft2", "fftn", "ifftn", "rfft2", "rfftn")
        },
        "stft": Row(differs="without a window, a Hann window was taken; here none, as in torch"),
        "istft": Row(differs="without a window, a Hann window was taken; here none, as in torch"),
        "complex_matmul": Row("a @ b"),
        "create_plan": Row("trnfft.plan(shape, dtype)"),
        "clear_plan_cache": Row("trnsci.clear_plans()"),
        "FFTPlan": Row(spelled="was `FFTPlan(n, algorithm, inverse)`; here the value `trnfft.plan` returns"),
        "set_precision": Row("precision= of each transform"),
        "get_precision": Row("precision= of each transform"),
        "set_ozaki_product_precision_verified": Row("trnblas.probe(), which verifies it"),
        "ComplexTensor": Row(spelled="`to_torch_complex()` is `to_torch()` here, `from_polar` is `polar`"),
        "complex": Row("trnfft.ComplexTensor"),
        "nki": Row("trnsci.backend('nki')"),
    },
    "trnfft.nn": {
        "ComplexModReLU": Row("trnfft.nn.ModReLU"),
        "ComplexConv1d": Row(differs="the sixth argument was `bias`; here `dilation`, as in torch"),
    },
    "trnrand": {
        "Generator": Row(
            spelled="`position()` was a method and `partition_rank=` an argument; here a property, and `partition`"
        ),
        "get_default_generator": Row("trnrand.default_generator()"),
        "uniform": Row(differs=_SINGLE),
        "normal": Row(differs=_SINGLE, spelled="`mean=`, `std=` are `loc=`, `scale=` here"),
        "standard_normal": Row(differs=_SINGLE),
        "exponential": Row(spelled="`rate=` is `scale=1 / rate` here"),
        "bernoulli": Row(differs="float32 zeros and ones were returned; here booleans"),
        "randint": Row(spelled="`high=1` by default; here it is asked for"),
        "randperm": Row("trnrand.permutation(n)"),
        "truncated_normal": Row(
            differs="cut at two standard deviations, counted from the mean; here not cut by default, and absolute"
        ),
        "beta": Row(spelled="`alpha=`, `beta=` are `a=`, `b=` here"),
        "poisson": Row(differs="`lam=1.0` is `rate=` here, and float32 was returned; here integers"),
        "normal_into": Row("trnrand.normal(..., out=buffer)"),
        "uniform_into": Row("trnrand.uniform(..., out=buffer)"),
        "exponential_into": Row("trnrand.exponential(..., out=buffer)"),
        "sobol": Row("trnrand.Sobol(dimensions).random(points)"),
        "halton": Row("trnrand.Halton(dimensions).random(points)"),
        "latin_hypercube": Row("trnrand.LatinHypercube(dimensions, points).random(points)"),
        "GeneratorProgram": Row("one call with out= for each buffer"),
        "distributions": Row("trnrand"),
        "nki": Row("trnsci.backend('nki')"),
    },
    "trnsolver": {
        "eigh": Row(differs="the second argument was a tolerance; here the triangle, and results are to rounding"),
        "eigh_generalized": Row(spelled="had a tolerance; here results are to rounding"),
        "solve_spd": Row(spelled="`iterative_refinement=True` is `solve(a, b, assume='pos', target_error=...)` here"),
        "inv_sqrt_spd_ns": Row("trnsolver.inv_sqrt_spd(a, method='newton_schulz')"),
        "svd": Row(differs="`full_matrices=False` by default; here True, as in NumPy and torch"),
        "cg": Row(
            differs="tolerance 1e-6 and at most 1000 steps; here 1e-5 and ten for each row",
            spelled="`M=` is `preconditioner=` here, and options are keywords",
        ),
        "gmres": Row(differs="tolerance 1e-6 and at most 100 steps; here 1e-5", spelled="options are keywords here"),
        "block_jacobi_preconditioner": Row(spelled="`block_size=16` is `size` here, and asked for"),
        "nki": Row("trnsci.backend('nki')"),
    },
    "trnsparse": {
        "CSRMatrix": Row(
            spelled="values came first: `(values, col_indices, row_ptrs, shape)`; here "
            "`(indptr, indices, values, shape)`"
        ),
        "COOMatrix": Row(
            spelled="values came first: `(values, row_indices, col_indices, shape)`; here `(row, col, values, shape)`"
        ),
        "BSRMatrix": Row(
            spelled="blocks came first; here `(indptr, indices, values, shape)`; `block_size=` is `block` here"
        ),
        "from_dense": Row("trnsparse.CSRMatrix.from_dense(a)"),
        "from_scipy": Row("trnsparse.CSRMatrix.from_scipy(matrix)"),
        "eye_sparse": Row("trnsparse.eye(n)"),
        "spmv": Row(spelled="alpha, y and beta could be positions; here keywords"),
        "spmm": Row(spelled="alpha, C and beta could be positions; here keywords"),
        "spmv_symmetric": Row("trnsparse.spmv of the whole matrix"),
        "bsr_spmm": Row("trnsparse.spmm, which multiplies in blocks where a is a BSRMatrix"),
        "screened_spmm": Row(spelled="took the diagonal integrals; here their square roots for rows and for columns"),
        "block_sparse_attention_tiled": Row("trnsparse.attention(q, k, v, mask)"),
        "sparse_add": Row("trnsparse.add(a, b, alpha=..., beta=...)"),
        "sparse_scale": Row("alpha * a"),
        "sparse_transpose": Row("a.T"),
        "nnz_per_row": Row("a.to_csr().indptr.diff()"),
        "screen_quartets": Row(spelled="`threshold=1e-10` by default; here it is asked for"),
        "density_screen": Row(spelled="`threshold=1e-10` by default; here it is asked for"),
        "sparsity_stats": Row("trnsparse.screen_quartets(bounds, threshold).fraction"),
        "cg_bsr": Row("trnsparse.cg(a, b)"),
        "chebyshev_bsr": Row("trnsparse.chebyshev(a, b, smallest=..., largest=...)"),
        "chebyshev_coeffs": Row("trnsparse.chebyshev, which computes them"),
        "richardson_bsr": Row("trnsparse.richardson(a, b, omega=...)"),
        "power_iteration_bsr": Row("trnsparse.power_iteration(a)"),
        "jacobi_preconditioner_bsr": Row("trnsolver.jacobi_preconditioner(a)"),
        "bsr_diagonal": Row("a.diagonal()"),
        "nki": Row("trnsci.backend('nki')"),
    },
    "trntensor": {
        "einsum": Row(
            differs="`beta=` with `out=` returned the sum and left `out` alone; here `c=` is the addend and `out` is "
            "written. `precision='fast'` was the default and the plain product; here it rounds to bfloat16"
        ),
        "multi_einsum": Row(spelled="each contraction was an argument; here one list of them"),
        "ContractionPlan": Row(
            differs="had `strategy`, `transA`, `contraction_indices`; here steps, costs and backends"
        ),
        "plan_contraction": Row("trntensor.plan(subscripts, *operands)"),
        "estimate_flops": Row("trntensor.plan(subscripts, *operands).flops"),
        "clear_plan_cache": Row("trnsci.clear_plans()"),
        "plan_cache_info": Row("trnsci.plans()"),
        "cp_decompose": Row("trntensor.cp(x, rank)"),
        "cp_reconstruct": Row("trntensor.cp(...).reconstruct()"),
        "tucker_decompose": Row("trntensor.tucker(x, ranks)"),
        "tucker_reconstruct": Row("trntensor.tucker(...).reconstruct()"),
        "tt_decompose": Row("trntensor.tensor_train(x, rank)"),
        "tensor_train_decompose": Row("trntensor.tensor_train(x, rank)"),
        "tt_reconstruct": Row("trntensor.tensor_train(...).reconstruct()"),
        "nki": Row("trnsci.backend('nki')"),
    },
}
