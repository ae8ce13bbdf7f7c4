"""Every op with a kernel, called beyond the limit of a program's length: cut into programs within it, or refused."""

import functools

import pytest
import torch

import trnblas
import trnfft
import trnrand
import trnsci
import trnsolver
import trnsparse
import trntensor
from tests.samples import planned
from trnrand.segment import Segment
from trnrand.stream import Stream
from trnsci import UnsupportedError, neuron, ops, predict, programs
from trnsci.specs import freeze

META = torch.device("meta")
# small, so that small operands are beyond it
MATMULS, INSTRUCTIONS = 300, 1500


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setenv("TRNSCI_PROGRAM_MATMULS", str(MATMULS))
    monkeypatch.setenv("TRNSCI_PROGRAM_INSTRUCTIONS", str(INSTRUCTIONS))


def _e(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device=META)


def _int(*shape):
    return _e(*shape, dtype=torch.int64)


def _stream(count):
    return tuple(Segment.of(Stream(1), 0, count))


def _planned(function, *args, **options):
    """The one step of a call of a public function."""
    (step,) = trnsci.plan(function, *args, **options).steps
    return step.call


PRODUCT = {"alpha": 1.0, "beta": 0.0, "precision": "fp32"}
TRIANGLE = {"alpha": 1.0, "lower": True, "unit": False, "precision": "fp32"}
ROWS = {"dims": [1], "scale": "none", "precision": "fp32"}
BLOCKS = {"indptr": _int(33), "indices": _int(512)}
HEADS = {"q": _e(1, 2, 4096, 64), "k": _e(1, 2, 4096, 64), "v": _e(1, 2, 4096, 64), "scale": 1.0}
HEADS |= {"indptr": _int(33), "indices": _int(1024), "slots": _int(1024), "insides": _e(1, 128, 128, dtype=torch.bool)}
STATE = {"x": _e(2048), "r": _e(2048), "p": _e(2048)}
COLUMNS = {"x": _e(1024, 4), "r": _e(1024, 4), "d": _e(1024, 4)}
PAIRS = {"eps_vir": _e(40)}
LONG, SQUARE = 1 << 26, _e(1024, 1024)

# what each op is called with; a call is far longer than the limit
CALLS = {
    "trnblas::gemm": {"a": SQUARE, "b": _e(1024, 4096), "c": None, **PRODUCT},
    "trnblas::mp2": {
        "t_flat": _e(1600, 1600),
        "eps_i": _e(40),
        "eps_j": _e(40),
        "symmetric": True,
        "first": 0,
        **PAIRS,
    },
    "trnblas::combine": {"xs": [_e(4 * LONG), _e(4 * LONG)], "row": [1.0, 2.0]},
    "trnblas::rotate": {"x": _e(LONG), "y": _e(LONG), "matrix": [0.6, 0.8, -0.8, 0.6]},
    "trnblas::trsm": {"a": SQUARE, "b": _e(1024, 4096), **TRIANGLE},
    "trnblas::banded": {"a": _e(3, LONG), "x": _e(LONG), "y": None, "alpha": 1.0, "beta": 0.0, "m": LONG, "ku": 1},
    "trnblas::band_solve": {"a": _e(3, 512), "x": _e(512), "lower": True, "trans": False, "unit": False},
    "trnblas::dot": {"x": _e(2 * LONG), "y": _e(2 * LONG), "precision": "compensated"},
    "trnblas::norm": {"x": _e(4 * LONG), "kind": "nrm2", "precision": "fp32"},
    "trnblas::iamax": {"x": _e(LONG), "largest": True},
    "trnblas::symm": {"a": SQUARE, "b": _e(1024, 4096), "c": None, "lower": True, "hermitian": False, **PRODUCT},
    "trnblas::packed_product": {"ap": _e(1024 * 2049), "x": _e(2048), "y": None, "alpha": 1.0, "beta": 0.0},
    "trnblas::packed_update": {"ap": _e(4096 * 8193), "x": _e(8192), "y": None, "alpha": 1.0, "beta": 1.0},
    "trnfft::c2c": {"x": _e(4096, 1024, dtype=torch.complex64), "inverse": False, **ROWS},
    "trnfft::r2c": {"x": _e(8192, 1024), **ROWS},
    "trnfft::c2r": {"x": _e(8192, 513, dtype=torch.complex64), "n": 1024, **ROWS},
    "trnfft::c2c_planes": {"re": _e(4096, 1024), "im": _e(4096, 1024), "inverse": False, **ROWS},
    "trnfft::r2c_planes": {"x": _e(8192, 1024), **ROWS},
    "trnfft::c2r_planes": {"re": _e(8192, 513), "im": _e(8192, 513), "n": 1024, **ROWS},
    "trnfft::chain": {
        "x": _e(8192, 1024),
        "factors": [_e(1024)],
        "dims": [1],
        "kinds": "times rfft",
        "lengths": [0, 1024],
        "scales": "none none",
        "dtype": torch.complex64,
        "precision": "fp32",
    },
    "trnfft::stft": {"x": _e(8, 1 << 18), "window": None, "n": 1024, "hop": 256, "by": 0, "mode": "reflect"},
    "trnrand::philox": {"counter": _int(1 << 24, 4), "key": _int(2)},
    "trnrand::threefry": {"counter": _int(1 << 24, 4), "key": _int(4)},
    "trnrand::bits": {"segment": _stream(LONG), "dtype": torch.uint32, "device": META},
    "trnrand::uniform": {"segment": _stream(LONG), "dtype": torch.float32, "device": META},
    "trnrand::normal": {"segment": _stream(LONG), "dtype": torch.float32, "device": META},
    "trnrand::halton": {"bases": [2, 3, 5, 7], "first": 0, "points": 1 << 20, "dtype": torch.float32, "device": META},
    "trnrand::sobol": {"table": _int(65, 64), "first": 0, "points": 1 << 20, "kind": "float32"},
    "trnsolver::chebyshev_steps": {"a": SQUARE, **COLUMNS, "weights": _e(50, 2)},
    "trnsolver::cholesky_inverse": {"factor": SQUARE},
    "trnsolver::inv_sqrt_spd": {"a": _e(256, 256)},
    "trnsparse::attention": HEADS,
    "trnsparse::attention_backward": {"grad": HEADS["q"], "lse": _e(1, 2, 4096), "delta": _e(1, 2, 4096), **HEADS},
    "trnsparse::bsr_spmm": {**BLOCKS, "blocks": _e(512, 128, 128), "b": _e(4096, 512), "rows": 4096},
    "trnsparse::bsr_sddmm": {**BLOCKS, "a": _e(4096, 128), "b": _e(4096, 128), "bm": 128, "bn": 128},
    "trnsparse::iterate": {
        "indptr": _int(17),
        "indices": _int(64),
        "blocks": _e(64, 128, 128),
        **STATE,
        "method": "cg",
    },
    "trntensor::fuse": {"a": _e(4, 4096, 256), "b": _e(4, 256, 2048), "extras": [], "keep": "bm"},
    "trntensor::mp2_between": {"left": _e(12, 40, 100), "right": _e(12, 40, 100), "eps_left": _e(12), **PAIRS},
}
MORE = {
    "trnblas::gemm": {"target": None, "bias": None, "activation": "none"},
    "trnblas::mp2": {"target_error": 1e-6},
    "trnblas::banded": {"trans": False, "unit": False, "form": "gb"},
    "trnblas::packed_product": {"routine": "spmv", "lower": True, "trans": False, "unit": False},
    "trnblas::packed_update": {"routine": "spr", "lower": True, "trans": "n", "unit": False},
    "trnfft::stft": {"onesided": True, "scale": "none", "precision": "fp32"},
    "trnsparse::iterate": {"coefficients": _e(0, 2), "steps": 20},
    "trntensor::fuse": {"code": '[["input", 0, 0, ""]]'},
    "trntensor::mp2_between": {"eps_right": _e(12)},
}
PLANNED = {
    "trnsolver::cg": functools.partial(_planned, trnsolver.cg, SQUARE, _e(1024, 4)),
    "trnsolver::chebyshev": functools.partial(_planned, trnsolver.chebyshev, SQUARE, _e(1024, 4), low=1.0, high=2.0),
    "trnrand::binomial": functools.partial(_planned, trnrand.binomial, 1 << 22, n=10),
    "trnrand::gamma": functools.partial(_planned, trnrand.gamma, 1 << 22, shape=2.0),
    "trnrand::inverse": functools.partial(_planned, trnrand.exponential, LONG),
    "trnrand::poisson": functools.partial(_planned, trnrand.poisson, 1 << 22, rate=3.0),
    "trnrand::randint": functools.partial(_planned, trnrand.randint, LONG, high=10),
}
# Steps that depend on each other in one program: a device refuses them beyond the limit, and the plan says so.
WHOLE = {
    "trnblas::packed_product",
    "trnsolver::cg",
    "trnsolver::chebyshev",
    "trnsolver::chebyshev_steps",
    "trnsolver::inv_triangular",
    "trnsolver::cholesky",
    "trnsolver::cholesky_inverse",
    "trnsolver::eigh",
    "trnsolver::eigvalsh",
    "trnsolver::lu",
    "trnsolver::qr",
    "trnsolver::qr_pivoted",
    "trnsolver::inv_sqrt_spd",
    "trnsolver::lstsq",
}
# They are plans of products and solutions, which are here.
COMPOSED = {"trntensor::einsum", "trnblas::gemm_int", "trnsolver::expm", "trnsolver::pinv"}
COMPOSED |= {f"trnsolver::{name}" for name in ("block_cg", "minres", "bicgstab", "gmres", "lsqr", "lsmr")}
COMPOSED |= {f"trnsolver::{name}" for name in ("lanczos", "arnoldi", "lobpcg", "davidson")}


LIBRARIES = {module.__name__ for module in (trnblas, trnfft, trnrand, trnsolver, trnsparse, trntensor)}
KERNELS = {name for name, op in ops._OPS.items() if hasattr(op.kind, "nki") and name.split("::")[0] in LIBRARIES}


def _is_beyond(result):
    """Return whether a prediction is of a call beyond the limit."""
    return result.instructions > INSTRUCTIONS or programs.Size(*result.longest).matmuls > MATMULS or result.programs > 1


def _call(name):
    if name in PLANNED:
        return PLANNED[name]()
    if name in CALLS:
        return freeze(ops._OPS[name].kind(**CALLS[name], **MORE.get(name, {})))
    # the sample of the function with the op's name, enlarged until it is beyond the limit
    calls = (planned(name, scale=scale) for scale in (16, 64, 256, 1024, 4096))
    return next(call for call in calls if _is_beyond(predict.prediction(call, "trn2")))


@pytest.mark.parametrize("name", sorted(KERNELS - COMPOSED))
def test_a_call_beyond_the_limit_is_cut_or_refused(name):
    call = _call(name)
    result = predict.prediction(call, "trn2")
    longest = programs.Size(*result.longest)
    assert _is_beyond(result), "the call is not beyond the limit"
    with neuron.stand_in():
        refused = ops._OPS[name]._refusal_here(call, "nki", "nki")
    assert longest.fits or name in WHOLE
    assert (refused is None) == longest.fits
    if refused is not None:
        assert "are the most that are compiled (TRNSCI_PROGRAM_" in refused


def test_a_plan_says_what_does_not_compile_and_nothing_is_launched():
    a = torch.eye(256)
    assert "nki refuses it: a program of it would have" in str(trnsci.plan(trnsolver.cholesky, a))
    with neuron.stand_in(), trnsci.backend("nki", strict=True), pytest.raises(UnsupportedError, match="the most that"):
        trnsolver.cholesky(a)
    with neuron.stand_in(), trnsci.backend("nki", strict=False):
        assert "nki refuses" in trnsci.plan(trnsolver.cholesky, a).reason
    # whoever launches a kernel without an op is refused as well
    from trnblas.kernels import gemm as kernels

    with neuron.stand_in(), pytest.raises(UnsupportedError, match="kernel gemm"):
        trnsci.nki.launch(kernels.gemm, torch.empty(1, 128 * 301, 64), torch.empty(1, 128 * 301, 64))


def test_einsum_plans_products_that_are_cut():
    plan = trnsci.plan(trntensor.einsum, "ij,jk->ik", _e(2048, 1024), _e(1024, 2048))
    assert plan.programs.most_matmuls <= MATMULS
    assert trnblas.gemm.__name__ in plan.steps[0].op
