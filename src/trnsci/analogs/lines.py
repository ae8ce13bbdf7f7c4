"""Guesses from a line of source, for what is neither watched nor substituted."""

from __future__ import annotations

import re

# Last part of a NumPy or SciPy name, and who does it here.
NUMPY = {
    **dict.fromkeys(("dot", "matmul", "inner"), "trnblas.gemm"),
    **dict.fromkeys(("einsum", "tensordot"), "trntensor.einsum"),
    **{name: f"trnsolver.{name}" for name in ("cholesky", "eigh", "eigvalsh", "eig", "svd", "qr", "solve", "inv")},
    **{name: f"trnsolver.{name}" for name in ("lstsq", "pinv", "det", "slogdet", "expm", "logm", "sqrtm")},
    **{f"{kind}fft{n}": f"trnfft.{kind}fft{n}" for kind in ("", "i", "r", "ir") for n in ("", "2", "n")},
    **{name: f"trnfft.{name}" for name in ("fftconvolve", "oaconvolve", "dct", "idct", "stft", "istft")},
    **{name: f"trnrand.{name}" for name in ("normal", "uniform", "gamma", "poisson", "binomial", "exponential")},
    **dict.fromkeys(("standard_normal", "randn"), "trnrand.normal"),
    **dict.fromkeys(("rand", "random", "random_sample"), "trnrand.uniform"),
    **dict.fromkeys(("integers", "randint"), "trnrand.randint"),
    "solve_triangular": "trnsolver.solve_triangular",
}
_CALLED = re.compile(r"\b(?:np|numpy|cp|cupy|jnp|sp|scipy|linalg|fft|signal|rng)\.(?:\w+\.)*(\w+)\(")
PRODUCT = re.compile(r"[\w)\]] @ [\w(]")


def looks_like(source: str) -> str:
    """Guess from a line of source which function of ours would do its work."""
    for name in _CALLED.findall(source):
        if name in NUMPY:
            return NUMPY[name]
    return "trnblas.gemm" if PRODUCT.search(source) else ""
