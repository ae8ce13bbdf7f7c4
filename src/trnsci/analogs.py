"""Who does here what torch and NumPy do there: torch's operators with the call of ours, NumPy's functions by name."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trnsci.errors import TrnError
from trnsci.explain import plan
from trnsci.plans import Plan
from trnsci.specs import thaw

Given = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Analog:
    """A public function of ours, and how torch's arguments become its own; without that, only its name is known."""

    name: str
    arguments: Callable[..., Given] | None = None

    def plan(self, args: Any, kwargs: dict[str, Any]) -> Plan | None:
        """Plan the same work here, from frozen arguments of torch's; ``None`` where nothing of ours takes them."""
        if self.arguments is None:
            return None
        library, _, function = self.name.partition(".")
        given, named = self.arguments(*thaw(args), **{name: thaw(value) for name, value in kwargs.items()})
        try:
            made = plan(getattr(importlib.import_module(library), function), *given, **named)
        except TrnError:
            # integers, mixed dtypes: torch computes them, ours would say why not
            return None
        return made if made.steps else None


def _given(*args: Any, **kwargs: Any) -> Given:
    return args, kwargs


def _matrix(first: Any, *rest: Any, **_: Any) -> Given:
    return _given(first)


def _product(a: Any, b: Any) -> Given:
    return _given(1.0, a, b)


def _sum_and_product(c: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Given:
    wanted = (*a.shape[:-1], b.shape[-1]) if b.ndim > 1 else a.shape[:-1]
    return _given(float(alpha), a, b, float(beta), c.expand(wanted))


def _complex_transform(x: Any, dim: Any, norm: int, forward: bool) -> Given:
    return _given(x, dim=tuple(dim))


def _inverse_transform(x: Any, dim: Any, norm: int, last: int) -> Given:
    return _given(x, dim=tuple(dim), s=(*([-1] * (len(dim) - 1)), last))


def _drawn(size: Any, **options: Any) -> Given:
    from_size = tuple(size.shape) if hasattr(size, "shape") else tuple(size)
    dtype = getattr(size, "dtype", None) or options.get("dtype")
    return _given(from_size, dtype=dtype, generator=_generator())


def _drawn_in_place(x: Any, *_: Any, **__: Any) -> Given:
    return _drawn(x)


def _generator() -> Any:
    # a plan draws nothing, but asks the generator for its key; the program's own stays as it is
    return importlib.import_module("trnrand").Generator(0)


def _attention(q: Any, k: Any, v: Any, dropout: float = 0.0, is_causal: bool = False, **_: Any) -> Given:
    return _given(q, k, v, importlib.import_module("trnsparse").causal() if is_causal else None)


ANALOGS = {
    "mm": Analog("trnblas.gemm", _product),
    "bmm": Analog("trnblas.gemm", _product),
    "addmm": Analog("trnblas.gemm", _sum_and_product),
    "baddbmm": Analog("trnblas.gemm", _sum_and_product),
    "mv": Analog("trnblas.gemv", _product),
    "addmv": Analog("trnblas.gemv", _sum_and_product),
    "dot": Analog("trnblas.dot", _given),
    "vdot": Analog("trnblas.dotc", _given),
    "linalg_solve_triangular": Analog("trnsolver.solve_triangular", _given),
    "_fft_c2c": Analog("trnfft.fftn", _complex_transform),
    "_fft_r2c": Analog("trnfft.rfftn", _complex_transform),
    "_fft_c2r": Analog("trnfft.irfftn", _inverse_transform),
    "rand": Analog("trnrand.uniform", _drawn),
    "uniform_": Analog("trnrand.uniform", _drawn_in_place),
    "randn": Analog("trnrand.normal", _drawn),
    "normal_": Analog("trnrand.normal", _drawn_in_place),
    "randint": Analog("trnrand.randint"),
    "randperm": Analog("trnrand.permutation"),
    "bernoulli": Analog("trnrand.bernoulli"),
    "exponential_": Analog("trnrand.exponential"),
    "multinomial": Analog("trnrand.categorical"),
    "linalg_cholesky_ex": Analog("trnsolver.cholesky", _matrix),
    "cholesky_solve": Analog("trnsolver.cholesky_solve", _given),
    "linalg_lu_factor_ex": Analog("trnsolver.lu_factor", _matrix),
    "linalg_qr": Analog("trnsolver.qr", _matrix),
    "_linalg_eigh": Analog("trnsolver.eigh", _matrix),
    "linalg_eig": Analog("trnsolver.eig"),
    "_linalg_svd": Analog("trnsolver.svd", _matrix),
    "_linalg_solve_ex": Analog("trnsolver.solve", lambda a, b, **_: _given(a, b)),
    "_linalg_det": Analog("trnsolver.det", _matrix),
    "_linalg_slogdet": Analog("trnsolver.slogdet", _matrix),
    "linalg_inv_ex": Analog("trnsolver.inv", _matrix),
    "linalg_lstsq": Analog("trnsolver.lstsq", lambda a, b, *_, **__: _given(a, b)),
    "linalg_matrix_exp": Analog("trnsolver.expm"),
    "_sparse_addmm (sparse)": Analog("trnsparse.spmm"),
    "_sparse_sparse_matmul (sparse)": Analog("trnsparse.spgemm"),
    "mm (sparse)": Analog("trnsparse.spmm"),
    "addmm (sparse)": Analog("trnsparse.spmm"),
    "mv (sparse)": Analog("trnsparse.spmv"),
    "sparse_sampled_addmm (sparse)": Analog("trnsparse.sddmm"),
    "_scaled_dot_product_flash_attention_for_cpu": Analog("trnsparse.attention", _attention),
    "_scaled_dot_product_flash_attention": Analog("trnsparse.attention", _attention),
}

# Last part of a NumPy or SciPy name, and who does it here. NumPy cannot be watched, so its lines are read instead.
NUMPY = {
    **dict.fromkeys(("dot", "matmul", "inner"), "trnblas.gemm"),
    **dict.fromkeys(("einsum", "tensordot"), "trntensor.einsum"),
    **{name: f"trnsolver.{name}" for name in ("cholesky", "eigh", "eigvalsh", "eig", "svd", "qr", "solve", "inv")},
    **{name: f"trnsolver.{name}" for name in ("lstsq", "pinv", "det", "slogdet", "expm", "logm", "sqrtm")},
    **{f"{kind}fft{n}": f"trnfft.{kind}fft{n}" for kind in ("", "i", "r", "ir") for n in ("", "2", "n")},
    **{name: f"trnfft.{name}" for name in ("fftconvolve", "oaconvolve", "dct", "idct", "stft", "istft")},
    **{name: f"trnrand.{name}" for name in ("normal", "uniform", "gamma", "poisson", "binomial", "exponential")},
    **dict.fromkeys(("standard_normal", "randn"), "trnrand.normal"),
    "solve_triangular": "trnsolver.solve_triangular",
}
_CALLED = re.compile(r"\b(?:np|numpy|sp|scipy|linalg|fft|signal|rng)\.(?:\w+\.)*(\w+)\(")
_PRODUCT = re.compile(r"[\w)\]] @ [\w(]")


def looks_like(source: str) -> str:
    """Guess from a line of source which function of ours would do its work, or return nothing."""
    for name in _CALLED.findall(source):
        if name in NUMPY:
            return NUMPY[name]
    return "trnblas.gemm" if _PRODUCT.search(source) else ""
