"""The library a user calls decides where every step of the call runs, whoever does the work: for every function."""

import contextlib

import pytest
import torch

import trnblas
import trnfft
import trnrand
import trnsci
import trnsolver
import trnsparse
import trntensor
from tests.samples import MASKS
from tests.trnblas.test_operands import CALLS as BLAS
from tests.trnrand.distributions import ALL as DISTRIBUTIONS
from tests.trnsolver.test_devices import CALLS as SOLVER, _data
from tests.trnsparse.test_transforms import CALLS as SPARSE
from tests.trntensor.test_settings import CALLS as TENSOR
from trnsci import UnsupportedError, neuron, predict
from trnsci.ops import Decision, Op
from trnsci.testing import gaussian

DATA = _data(torch.float64)
SIGNAL, SPECTRUM = gaussian((16,), 1), gaussian((4, 16), 2, torch.complex64)
WINDOW = torch.hann_window(8)
FFT = {
    **{
        name: (lambda name=name: getattr(trnfft, name)(SPECTRUM))
        for name in ("fft", "ifft", "fft2", "ifft2", "fftn", "ifftn", "irfft", "irfft2", "irfftn", "hfft")
    },
    **{
        name: (lambda name=name: getattr(trnfft, name)(SPECTRUM.real.clone()))
        for name in ("rfft", "rfft2", "rfftn", "ihfft", "dct", "idct", "dst", "idst", "dctn", "idctn", "dstn", "idstn")
    },
    "hfft2": lambda: trnfft.hfft2(SPECTRUM),
    "hfftn": lambda: trnfft.hfftn(SPECTRUM),
    "ihfft2": lambda: trnfft.ihfft2(SPECTRUM.real.clone()),
    "ihfftn": lambda: trnfft.ihfftn(SPECTRUM.real.clone()),
    "stft": lambda: trnfft.stft(SIGNAL, 8, window=WINDOW),
    "istft": lambda: trnfft.istft(trnfft.stft(SIGNAL, 8, window=WINDOW), 8, window=WINDOW),
    "spectrogram": lambda: trnfft.spectrogram(SIGNAL, 8, window=WINDOW),
    "fftconvolve": lambda: trnfft.fftconvolve(SIGNAL, SIGNAL),
    "oaconvolve": lambda: trnfft.oaconvolve(SIGNAL, SIGNAL[:4]),
    "correlate": lambda: trnfft.correlate(SIGNAL, SIGNAL),
    "chirp_z": lambda: trnfft.chirp_z(SIGNAL),
    "plan": lambda: trnfft.plan((16,), dtype=torch.complex64)(SPECTRUM[0]),
}
RANDOM = {
    **{
        name: (lambda name=name, options=options: getattr(trnrand, name)(5, **options))
        for name, (options, _) in DISTRIBUTIONS.items()
    },
    "bits": lambda: trnrand.bits(1, 0, 3),
    "integers": lambda: trnrand.integers(1, 5, 3),
    "random": lambda: trnrand.random(3),
    "standard_normal": lambda: trnrand.standard_normal(3),
    "philox4x32": lambda: trnrand.philox4x32(torch.zeros(4, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)),
    "threefry4x32": lambda: trnrand.threefry4x32(torch.zeros(4, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)),
    "categorical": lambda: trnrand.categorical(3, probs=torch.ones(3)),
    "multinomial": lambda: trnrand.multinomial(n=3, probs=torch.ones(3) / 3),
    "dirichlet": lambda: trnrand.dirichlet(alpha=torch.ones(3)),
    "multivariate_normal": lambda: trnrand.multivariate_normal(mean=torch.zeros(3), covariance=torch.eye(3)),
    "unit_vector": lambda: trnrand.unit_vector(3, dim=4),
    "orthogonal": lambda: trnrand.orthogonal(n=3),
    "permutation": lambda: trnrand.permutation(5),
    "shuffle": lambda: trnrand.shuffle(torch.arange(5)),
    "choice": lambda: trnrand.choice(5, 2),
    "sketch": lambda: trnrand.sketch(torch.eye(4), 3),
}
CALLS = {
    "trnblas": {
        **{name: (lambda name=name, args=args: getattr(trnblas, name)(*args)) for name, args in BLAS.items()},
        "matmul": lambda: trnblas.matmul(torch.ones(2, 3), torch.ones(3)),
        "gemm_int": lambda: trnblas.gemm_int(torch.ones(2, 3, dtype=torch.int8), torch.ones(3, 2, dtype=torch.int8)),
        "gemm_scaled": lambda: trnblas.gemm_scaled(
            *(torch.ones(shape).to(torch.float8_e4m3fn) for shape in ((2, 3), (3, 2))), *torch.ones(2)
        ),
        "grouped_gemm": lambda: trnblas.grouped_gemm(1.0, [torch.ones(2, 3)], [torch.ones(3, 2)]),
    },
    "trnfft": FFT,
    "trnrand": RANDOM,
    "trnsolver": {name: (lambda call=call: call(DATA)) for name, call in SOLVER.items()},
    "trnsparse": {name: (lambda call=call, x=x: call(x[0])) for name, (call, x) in SPARSE.items()},
    "trntensor": TENSOR,
}
# Nothing is computed: settings, values that are moved or made, formulas of arguments, random state.
NOT_COMPUTED = {
    "trnblas": {"error_bound", "probe", "rotmg"},
    "trnfft": {
        "with_callbacks",
        "fftfreq",
        "rfftfreq",
        "fftshift",
        "ifftshift",
        "next_fast_len",
        "nn",
        "scipy_backend",
    },
    "trnrand": {
        "advance",
        "default_generator",
        "default_rng",
        "get_state",
        "manual_seed",
        "set_state",
        "spawn",
        "probe",
    },
    "trnsolver": {"count_eigenvalues", "fill_ordering", "lu_factor", "zero_free_diagonal"},
    "trnsparse": {
        "bandwidth",
        "blocks",
        "coloring",
        "choose",
        "documents",
        "eye",
        "full",
        "function",
        "load",
        "masks",
    }
    | {"reverse_cuthill_mckee", "shard_rows", "triangle", "scale_columns", "vectors", *MASKS},
    "trntensor": {"block_sparse", "elementwise", "from_xla", "to_xla", "transpose", "permute", "reduce"}
    | {"elementwise_binary", "elementwise_trinary", "block_einsum", "tensor_train"},
}


# Values are moved, and no step computes.
MOVED = {"diagonal", "element", "from_dense", "slice", "to_bsr", "to_dense"}


@pytest.mark.parametrize("library", CALLS)
def test_every_function_is_called(library):
    package = {"trnblas": trnblas, "trnfft": trnfft, "trnrand": trnrand}.get(library) or {
        "trnsolver": trnsolver,
        "trnsparse": trnsparse,
        "trntensor": trntensor,
    }[library]
    public = {name for name in package.__all__ if name.islower() and name not in ("nki", "get_backend", "set_backend")}
    called = {name.split()[0] for name in CALLS[library]}
    called |= {f"{name}_preconditioner" for name in called}
    assert sorted(public - called - NOT_COMPUTED[library]) == []


class _Pretended:
    """A device nothing is sent to."""

    kind, target, cores = "pretended", "trn2", 1

    def put(self, tensor):
        return tensor

    fetch = put


@pytest.fixture
def decisions(monkeypatch):
    """What every op of a call was asked to run on; whatever that is, PyTorch runs it, which is cheap."""
    seen = []
    decide = Op.decide

    def noted(self, call):
        choice = self.library.choice()
        seen.append((self.name, choice))
        if choice.required:
            # raises where the step has no kernel
            assert decide(self, call).implementation == "nki"
        chosen, _ = self._on_pytorch(call)
        return Decision("pytorch", chosen or "nki", "as a test wants it")

    monkeypatch.setattr(Op, "decide", noted)
    return seen


@pytest.mark.parametrize("library", CALLS)
def test_the_library_that_was_called_decides(library, decisions):
    wrong = []
    for name, call in CALLS[library].items():
        decisions.clear()
        # not strict: what belongs on the host runs there, and says so
        with trnsci.backend("simulator", library=library, strict=False), contextlib.suppress(UnsupportedError):
            call()
        others = {op for op, choice in decisions if choice.name != "simulator"}
        if others:
            wrong.append((name, others))
    assert wrong == []


@pytest.mark.parametrize("library", CALLS)
def test_required_kernels_run_or_the_step_without_one_is_named(library, decisions, monkeypatch):
    monkeypatch.setattr(neuron, "_detected", (_Pretended(), ""))
    # test_program_limits has the lengths of programs, which take a prediction of every step
    monkeypatch.setattr(predict, "obstacle", lambda call, target: None)
    silent = []
    for name, call in CALLS[library].items():
        decisions.clear()
        with monkeypatch.context() as environment:
            environment.setenv(f"{library.upper()}_REQUIRE_NKI", "1")
            try:
                call()
            except UnsupportedError as error:
                decisions.append(error.op)
        if not decisions or not all(decisions):
            silent.append(name)
    assert sorted(set(silent) - MOVED) == []


@pytest.mark.parametrize("library", CALLS)
def test_modes_that_users_of_torch_set_change_nothing(library):
    for call in CALLS[library].values():
        with torch.inference_mode():
            call()
        # a default device elsewhere is for what users create: operands say where a call computes
        with torch.device("meta"), contextlib.suppress(trnsci.TrnError):
            call()


def test_what_a_call_in_inference_mode_keeps_serves_later_gradients():
    trnsci.clear_plans()
    stored = trnsparse.CSRMatrix.from_dense(torch.eye(6))
    calls = {
        "chirp_z": lambda x: trnfft.chirp_z(x, 11),
        "attention": lambda x: trnsparse.attention(x, x, x, trnsparse.causal(3), block=2),
        "spmm": lambda x: trnsparse.spmm(stored.to_bsr(2), x),
        "tpmv": lambda x: trnblas.tpmv(6, x.flatten()[:21], x[:, 0]),
    }
    for name, call in calls.items():
        with trnsci.backend("simulator") if name == "tpmv" else contextlib.nullcontext():
            with torch.inference_mode():
                call(gaussian((6, 5), 1))
            x = gaussian((6, 5), 1).requires_grad_()
            call(x).abs().sum().backward()
            assert x.grad is not None, name
    # and what a transform of torch.func bound first serves calls without one
    mask, x = trnsparse.causal(4), gaussian((6, 5), 1)
    value, _ = torch.func.jvp(lambda x: trnsparse.attention(x, x, x, mask, block=2), (x,), (x,))
    assert torch.equal(trnsparse.attention(x, x, x, mask, block=2), value)
