"""torch's operators, with the call of ours that does the same."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from trnsci.analogs.analog import PLAIN, Analog, Different, Given, given
from trnsci.analogs.lapack_info import info
from trnsci.analogs.sparse import SPARSE

# torch's codes of scaling: none, by the root of the length, by the length
_FORWARD = {0: "backward", 1: "ortho", 2: "forward"}
_INVERSE = {0: "forward", 1: "ortho", 2: "backward"}


def _matrix(a: Any, **_: Any) -> Given:
    return given(a)


def _unchecked(*args: Any, check_errors: bool = False, **kwargs: Any) -> Given:
    return given(*args, **kwargs)


def _product(a: Any, b: Any) -> Given:
    return given(1.0, a, b)


def _sum_and_product(c: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Given:
    wanted = (*a.shape[:-1], b.shape[-1]) if b.ndim > 1 else a.shape[:-1]
    if beta == 0:
        return given(_number(alpha), a, b)
    return given(_number(alpha), a, b, _number(beta), c.expand(wanted))


def _number(value: Any) -> complex:
    return value if isinstance(value, complex) else float(value)


def _short_time(
    x: Any,
    n_fft: int,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    normalized: bool = False,
    onesided: Any = None,
    return_complex: Any = None,
    align_to_window: Any = None,
) -> Given:
    if align_to_window or return_complex is None:
        raise Different("its frames lie otherwise, or torch chooses what it returns")
    framing = {"center": False, "normalized": normalized, "onesided": onesided, "return_complex": return_complex}
    return given(x, n_fft, hop_length, win_length, window, **framing)


def _planned_draw(size: Any, *_: Any, **options: Any) -> Given:
    given, named = _draw(tuple(size.shape) if hasattr(size, "shape") else size, dtype=getattr(size, "dtype", None))
    # a plan draws nothing, but asks the generator for its key; the program's own stays as it is
    return given, {**named, "generator": importlib.import_module("trnrand").Generator(0)}


def _draw(size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Given:
    if layout not in (None, torch.strided) or pin_memory:
        raise Different("its layout or memory is special")
    return given(tuple(size), dtype=dtype or torch.get_default_dtype(), device=device)


def _fill_uniform(x: Any, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Given:
    _no_generator(generator)
    return given(tuple(x.shape), low=low, high=high, dtype=x.dtype, device=x.device)


def _fill_normal(x: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Given:
    _no_generator(generator)
    return given(tuple(x.shape), loc=mean, scale=std, dtype=x.dtype, device=x.device)


def _no_generator(generator: Any) -> None:
    if generator is not None:
        raise Different("a generator of torch's has its own numbers")


def _filled(value: Tensor, x: Tensor, *_: Any, **__: Any) -> Tensor:
    return x.copy_(value)


def _attention(q: Any, k: Any, v: Any, dropout: float = 0.0, is_causal: bool = False, **_: Any) -> Given:
    return given(q, k, v, importlib.import_module("trnsparse").causal() if is_causal else None)


def _any_attention(
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Given:
    if dropout_p:
        raise Different("dropout draws torch's random numbers")
    if enable_gqa and k.shape[-3] != q.shape[-3]:
        raise Different("groups of queries share keys")
    mask = importlib.import_module("trnsparse").causal() if is_causal else None
    if attn_mask is not None:
        if attn_mask.dtype != torch.bool or attn_mask.ndim != 2:
            raise Different("its mask is no plain matrix of booleans")
        if type(attn_mask) not in PLAIN:
            raise Different("its mask depends on values, which a compiled graph does not have")
        mask = importlib.import_module("trnsparse").masks.from_dense(attn_mask)
    return given(q, k, v, mask if type(q) in PLAIN or q.is_meta else _constants(mask, q, k), scale)


def _constants(mask: Any, q: Any, k: Any) -> Any:
    """Bind a mask for a tracer's operands: its blocks are constants of the graph."""
    lengths = q.shape[-2], k.shape[-2]
    if any(type(length) is not int for length in lengths):
        raise Different("its mask depends on lengths, which are symbols here")
    names = ("indptr", "indices", "slots", "insides")
    with _disable_current_modes():
        bound = importlib.import_module("trnsparse").masks.as_mask(mask).bind(*lengths)
        blocks = [{name: getattr(pattern, name).numpy() for name in names} for pattern in bound.patterns]
    patterns = [
        replace(pattern, **{name: torch.tensor(array) for name, array in arrays.items()})
        for pattern, arrays in zip(bound.patterns, blocks, strict=True)
    ]
    return replace(bound, patterns=tuple(patterns))


def _with_info(operator: str) -> Callable[..., Any]:
    return lambda value, a, *, upper=False, **_: (value, info(value, a.mH if upper else a, operator))


def _factored(value: Any, a: Tensor, **_: Any) -> tuple[Any, ...]:
    # ours factors singular matrices too, but on the device not to LAPACK's last pivot
    if type(a) in PLAIN and not bool(value[0].diagonal(dim1=-2, dim2=-1).all()):
        raise Different("the matrix is singular")
    return *value, info(value[0], a, "linalg_lu_factor_ex")


def _solved(value: Tensor, a: Tensor, b: Tensor, **_: Any) -> tuple[Tensor, ...]:
    # the factors are for torch's own gradient, and this result has ours
    return value, value.new_empty(0), a.new_empty(0, dtype=torch.int32), info(value, a, "linalg_inv_ex")


def _first(value: Any, a: Tensor) -> tuple[Tensor, ...]:
    values = tuple(value) if isinstance(value, tuple) else (value,)
    return (*values, a.new_empty(0), a.new_empty(0, dtype=torch.int32))


def _plain_tuple(value: Sequence[Tensor], *_: Any, **__: Any) -> tuple[Tensor, ...]:
    return tuple(value)


def _svd(a: Any, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None) -> Given:
    if driver is not None:
        raise Different(f"driver={driver!r} is cuSOLVER's")
    return given(a, full_matrices) if compute_uv else given(a)


def _triples(value: Any, a: Tensor, full: bool = False, compute_uv: bool = True, **_: Any) -> tuple[Tensor, ...]:
    return tuple(value) if compute_uv else (a.new_empty(0), value, a.new_empty(0))


def _triangular(b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Given:
    if transpose:
        return given(a.mT, b, upper=not upper, unitriangular=unitriangular)
    return given(a, b, upper=upper, unitriangular=unitriangular)


ANALOGS = {
    **dict.fromkeys(("mm", "bmm"), Analog("trnblas.gemm", _product)),
    **dict.fromkeys(("addmm", "baddbmm"), Analog("trnblas.gemm", _sum_and_product)),
    "mv": Analog("trnblas.gemv", _product),
    "addmv": Analog("trnblas.gemv", _sum_and_product),
    "dot": Analog("trnblas.dot", given),
    "vdot": Analog("trnblas.dotc", given),
    "linalg_solve_triangular": Analog("trnsolver.solve_triangular", given),
    "triangular_solve": Analog(
        "trnsolver.solve_triangular", _triangular, lambda value, b, a, *_, **__: (value, a.clone())
    ),
    "_fft_c2c": Analog(
        "trnfft.fftn",
        lambda x, dim, by, forward: given(x, dim=tuple(dim), norm=(_FORWARD if forward else _INVERSE)[by]),
        choose=lambda x, dim, by, forward: "trnfft.fftn" if forward else "trnfft.ifftn",
    ),
    "_fft_r2c": Analog(
        "trnfft.rfftn",
        lambda x, dim, by, onesided: given(x, dim=tuple(dim), norm=_FORWARD[by]),
        choose=lambda x, dim, by, onesided: "trnfft.rfftn" if onesided else "trnfft.fftn",
    ),
    "_fft_c2r": Analog(
        "trnfft.irfftn",
        lambda x, dim, by, n: given(x, dim=tuple(dim), s=(*([-1] * (len(dim) - 1)), n), norm=_INVERSE[by]),
    ),
    "stft": Analog("trnfft.stft", _short_time),
    "istft": Analog("trnfft.istft", given),
    "randint": Analog("trnrand.randint"),
    "randperm": Analog("trnrand.permutation"),
    "bernoulli": Analog("trnrand.bernoulli"),
    "exponential_": Analog("trnrand.exponential"),
    "multinomial": Analog("trnrand.categorical"),
    "linalg_cholesky_ex": Analog("trnsolver.cholesky", _unchecked, _with_info("linalg_cholesky_ex")),
    "cholesky_solve": Analog("trnsolver.cholesky_solve", given),
    "cholesky_inverse": Analog("trnsolver.cholesky_inverse", given),
    "linalg_lu_factor_ex": Analog("trnsolver.lu_factor", _unchecked, _factored),
    "linalg_lu": Analog("trnsolver.lu", _unchecked, _plain_tuple),
    "linalg_lu_solve": Analog("trnsolver.lu_solve", given),
    "linalg_qr": Analog("trnsolver.qr", given, _plain_tuple),
    "geqrf": Analog("trnsolver.geqrf", given, _plain_tuple),
    "linalg_householder_product": Analog("trnsolver.householder_product", given),
    "ormqr": Analog("trnsolver.ormqr", given),
    "_linalg_eigh": Analog(
        "trnsolver.eigh",
        lambda a, uplo="L", compute_v=True: given(a, uplo),
        lambda value, a, uplo="L", compute_v=True: tuple(value) if compute_v else (value, a.new_empty(0)),
        lambda a, uplo="L", compute_v=True: "trnsolver.eigh" if compute_v else "trnsolver.eigvalsh",
    ),
    "linalg_eig": Analog("trnsolver.eig", given, _plain_tuple),
    "linalg_eigvals": Analog("trnsolver.eigvals", given),
    "_linalg_svd": Analog(
        "trnsolver.svd",
        _svd,
        _triples,
        lambda a, full=False, compute_uv=True, **_: "trnsolver.svd" if compute_uv else "trnsolver.svdvals",
    ),
    "_linalg_solve_ex": Analog("trnsolver.solve", _unchecked, _solved),
    "_linalg_det": Analog("trnsolver.det", _matrix, _first),
    "_linalg_slogdet": Analog("trnsolver.slogdet", _matrix, _first),
    "linalg_inv_ex": Analog("trnsolver.inv", _matrix, _with_info("linalg_inv_ex")),
    "linalg_lstsq": Analog("trnsolver.lstsq", given, _plain_tuple),
    "linalg_matrix_exp": Analog("trnsolver.expm", given),
    **SPARSE,
    "scaled_dot_product_attention": Analog("trnsparse.attention", _any_attention),
    "_scaled_dot_product_flash_attention_for_cpu": Analog("trnsparse.attention", _attention, runs=False),
    "_scaled_dot_product_flash_attention": Analog("trnsparse.attention", _attention, runs=False),
}
# substituted on request: the numbers are others
RANDOM = {
    "rand": Analog("trnrand.uniform", _draw),
    "uniform_": Analog("trnrand.uniform", _fill_uniform, _filled),
    "randn": Analog("trnrand.normal", _draw),
    "normal_": Analog("trnrand.normal", _fill_normal, _filled),
}
ANALOGS.update({name: Analog(analog.name, _planned_draw, runs=False) for name, analog in RANDOM.items()})

# what AWS's own PyTorch compiles for the device, besides views and everything that goes element by element
_NEURON = frozenset(
    [
        "convolution",
        "conv1d",
        "conv2d",
        "conv3d",
        "native_layer_norm",
        "native_group_norm",
        "native_batch_norm",
        "batch_norm",
        "embedding",
        "_softmax",
        "_log_softmax",
        "max_pool2d_with_indices",
        "avg_pool2d",
        "_adaptive_avg_pool2d",
        "upsample_nearest2d",
        "nll_loss_forward",
        "sum",
        "mean",
        "amax",
        "amin",
        "argmax",
        "max",
        "min",
        "cumsum",
        "prod",
        "var",
        "std",
        "cat",
        "stack",
        "index_select",
        "gather",
        "scatter",
        "where",
        "clone",
        "copy_",
        "_to_copy",
        "_unsafe_view",
        "index",
        "sort",
        "topk",
        "pad",
        "constant_pad_nd",
        "convolution_backward",
        "native_layer_norm_backward",
        "embedding_dense_backward",
        "_softmax_backward_data",
    ]
)


def runs_on_neuron(operator: str) -> bool:
    """Return whether the Neuron SDK's own PyTorch runs an operator of torch's, so that nothing of ours is needed."""
    if operator in _NEURON:
        return True
    overloads = getattr(torch.ops.aten, operator, None)
    if overloads is None:
        return False
    known = [getattr(overloads, name) for name in overloads.overloads()]
    return any(operator.is_view or torch.Tag.pointwise in operator.tags for operator in known)
