"""``torch.compile(backend="trnsci")``: graphs with our operators answer as torch alone does, forward and backward."""

import os
import shutil
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from torch.nn import functional

import trnsci
from benchmarks.ranks import Ranks
from tests.trnsci import test_drop_in as spelled
from trnsci.compiler import compiler

ROOT = Path(__file__).parents[2]
G = torch.Generator().manual_seed(7)


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


def draw(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=G, dtype=dtype)


def compiled(function, **options):
    """Compile, with ``dynamic`` and ``fullgraph`` of torch's and the rest options of ours."""
    own = {name: options.pop(name) for name in ("inner", "random") if name in options}
    return torch.compile(function, backend="trnsci", options=own, **{"fullgraph": True, **options})


def last():
    return trnsci.compiled_graphs()[-1]


def fourier_block(x, weight, skip):
    """A layer of a Fourier neural operator: some modes multiplied by a weight, and a product beside them."""
    spectrum = torch.fft.rfft2(x)
    kept = torch.einsum("bixy,ioxy->boxy", spectrum[..., :4, :3], weight)
    mixed = torch.fft.irfft2(functional.pad(kept, (0, spectrum.shape[-1] - 3, 0, spectrum.shape[-2] - 4)), s=(8, 8))
    return functional.gelu(mixed + torch.einsum("bixy,oi->boxy", x, skip)).square().sum()


def gaussian_process(x, y, scale):
    """The negative log likelihood of a Gaussian process."""
    distances = (x[:, None] - x[None]).square().sum(-1)
    covariance = torch.exp(-distances * scale.square()) + 0.1 * torch.eye(len(x), dtype=x.dtype)
    factor = torch.linalg.cholesky(covariance)
    return (y[:, None] * torch.cholesky_solve(y[:, None], factor)).sum() + 2 * factor.diagonal().log().sum()


def linear_algebra(a, b):
    spd = a @ a.mT + 8 * torch.eye(a.shape[-1], dtype=a.dtype)
    values = torch.linalg.eigvalsh(spd)
    return (
        torch.linalg.solve(spd, b).sum()
        + torch.linalg.slogdet(spd)[1]
        + values.log().sum()
        + torch.linalg.qr(b).R.abs().sum()
    )


def attention_block(q, k, v, weight):
    return functional.linear(functional.scaled_dot_product_attention(q, k, v, is_causal=True), weight).tanh().sum()


PROGRAMS = {
    "fourier": (fourier_block, lambda: (draw(2, 3, 8, 8), draw(3, 3, 4, 3, dtype=torch.complex64), draw(3, 3))),
    "process": (gaussian_process, lambda: (draw(12, 2), draw(12), draw(1))),
    "algebra": (linear_algebra, lambda: (draw(9, 9), draw(9, 4))),
    "attention": (attention_block, lambda: (*(draw(1, 2, 20, 16) for _ in range(3)), draw(5, 16))),
}


COMPILER = pytest.mark.skipif(
    not any(map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))), reason="inductor needs a C++ compiler"
)


@pytest.mark.parametrize("inner", ["eager", pytest.param("inductor", marks=[pytest.mark.slow, COMPILER])])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_and_their_gradients_agree_on_every_backend(name, inner):
    program, operands = PROGRAMS[name]
    given = [x.requires_grad_() for x in operands()]
    want = program(*given)
    gradients = torch.autograd.grad(want, given)
    ours = compiled(program, inner=inner)
    for backend in ("pytorch", "simulator"):
        with trnsci.backend(backend), trnsci.ledger() as book:
            got = ours(*given)
            found = torch.autograd.grad(got, given)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
        for mine, theirs in zip(found, gradients, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-3 * float(theirs.abs().max()))
        assert any(entry.step.backend == backend and entry.step.implementation != "host" for entry in book)
    assert last().substituted
    assert not last().left_alone
    assert not last().fallbacks
    assert last().passes.keys() == {"forward", "backward"}


@pytest.mark.slow
def test_a_fourier_neural_operator_compiles_unmodified():
    models = pytest.importorskip("neuralop.models", reason="needs neuraloperator, of the extra programs")
    torch.manual_seed(0)
    model = models.FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=8, n_layers=2)
    x = draw(2, 1, 16, 16)

    def gradients(run):
        model.zero_grad()
        run(x).square().mean().backward()
        return [p.grad.clone() for p in model.parameters()]

    want = gradients(model)
    earlier = trnsci.compiled_graphs()
    for backend in ("pytorch", "simulator"):
        with trnsci.backend(backend):
            found = gradients(compiled(model, fullgraph=False))
        for got, theirs in zip(found, want, strict=True):
            torch.testing.assert_close(got, theirs, rtol=1e-4, atol=1e-5 * float(theirs.abs().max()))
    graphs = [graph for graph in trnsci.compiled_graphs() if all(graph is not other for other in earlier)]
    became = {ours for graph in graphs for _, ours in graph.substituted}
    assert became == {"trnfft.rfftn", "trnfft.irfftn", "trnblas.gemm"}


@pytest.mark.filterwarnings("ignore:torch.triangular_solve")
def test_every_operator_with_an_analog_is_substituted_in_a_graph():
    # what depends on data, or is sparse, breaks torch's graph or is left alone
    odd = ("lstsq", "istft", "ones(8, 8).tril", "coo", "csr")
    codes = [code for code in spelled.TORCH if not any(word in code for word in odd)]
    names = ("x", "spd", "z", "upper", "q")
    scope = {**vars(spelled)}
    exec(f"def everything({', '.join(names)}):\n    return ({', '.join(codes)},)", scope)
    given = [scope[name] for name in names]
    want = scope["everything"](*given)
    got = compiled(scope["everything"])(*given)
    for code, ours, theirs in zip(codes, got, want, strict=True):
        spelled.same(ours, theirs, magnitudes="eig(" in code or "eigh(" in code or "svd(" in code)
    wanted = {f"torch.{spelled.TORCH[code]}" for code in codes}
    assert wanted == {theirs for theirs, _ in last().substituted}
    assert {ours for theirs, ours in last().substituted if theirs == "torch._fft_c2c"} == {
        "trnfft.fftn",
        "trnfft.ifftn",
    }
    assert not last().left_alone


def test_what_depends_on_values_is_left_alone_with_the_reason():
    q = draw(3, 1, 2, 8, 16)
    mask = torch.ones(8, 8).tril(2).bool()

    def masked(q, mask):
        return functional.scaled_dot_product_attention(*q, mask) + (q.int()[0] @ q.int()[1].mT).sum()

    torch.testing.assert_close(compiled(masked)(q, mask), masked(q, mask))
    reasons = dict(last().left_alone)
    assert "depends on values" in reasons["torch.scaled_dot_product_attention"]
    assert "dtype of a is int32" in reasons["torch.bmm"]
    assert "left alone" in str(last())


def test_a_short_time_transform_left_alone_is_made_of_transforms_that_are_ours():
    x, window = draw(64), torch.hann_window(16)

    def program(x):
        return torch.istft(torch.stft(x, 16, window=window, return_complex=True), 16, window=window)

    torch.testing.assert_close(compiled(program)(x), program(x))
    assert dict(last().substituted) == {"torch.stft": "trnfft.stft", "torch._fft_c2r": "trnfft.irfftn"}
    assert dict(last().left_alone).keys() == {"torch.istft"}


def test_lengths_of_attention_that_are_symbols_are_left_alone():
    q = draw(1, 2, 20, 16)
    got = compiled(lambda q: functional.scaled_dot_product_attention(q, q, q, is_causal=True), dynamic=True)(q)
    torch.testing.assert_close(got, functional.scaled_dot_product_attention(q, q, q, is_causal=True))
    assert "symbols" in dict(last().left_alone)["torch.scaled_dot_product_attention"]


def matrices(*sizes):
    return [draw(*size) for size in sizes]


CHAINS = {
    "bias and relu": (lambda x, w, b: functional.linear(x, w, b).relu(), [(64, 32), (48, 32), (48,)]),
    "constants and a sum": (
        lambda x, w, b: (torch.tanh(x @ w.T * 0.5 - b) ** 2 / (1 + b * b)).sum(-1), [(64, 32), (48, 32), (48,)]
    ),
    "all of it": (lambda x, w: torch.sigmoid(x @ w.T).sum(), [(64, 32), (48, 32)]),
    "columns": (lambda x, w, b: (x @ w.T + b).abs(), [(64, 32), (48, 32), (64, 1)]),
    "batch": (lambda x, w: torch.relu(torch.bmm(x, w)).sum((0, 1)), [(3, 9, 8), (3, 8, 7)]),
    "product of a product": (lambda x, w, v: (x @ w.T) @ v, [(64, 32), (48, 32), (48, 20)]),
    "product with a product": (lambda x, w, v: v.T @ (w @ x.T), [(64, 32), (48, 32), (48, 20)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_a_pass_is_one_program_where_kernels_run(name):
    function, sizes = CHAINS[name]
    operands = matrices(*sizes)
    trnsci.clear_programs()
    with trnsci.backend("simulator"), trnsci.ledger() as book:
        got = compiled(function)(*operands)
    torch.testing.assert_close(got, function(*operands), rtol=1e-5, atol=1e-4)
    (entry,) = book
    assert entry.step.op == "program graph"
    assert entry.predicted("trn2") > 0
    assert "program graph" in str(book)
    (built,) = trnsci.built_programs()
    assert len(built.compiled.segments) == 1
    assert not built.compiled.host_calls


def test_passes_run_on_torch_where_there_are_no_kernels():
    function, sizes = CHAINS["bias and relu"]
    trnsci.clear_programs()
    compiled(function)(*matrices(*sizes))
    assert not trnsci.built_programs()


def test_sizes_may_change_and_nothing_is_compiled_twice():
    function = compiled(lambda x, w: torch.fft.rfft(x @ w).abs().sum(), dynamic=True)
    w = draw(6, 8)
    before = []
    for rows in (3, 4, 9):
        x = draw(rows, 6)
        torch.testing.assert_close(function(x, w), torch.fft.rfft(x @ w).abs().sum())
        before.append(last())
    assert before[0] is before[1] is before[2]
    assert last().substituted == {("torch.mm", "trnblas.gemm"), ("torch._fft_r2c", "trnfft.rfftn")}


def test_a_training_step_changes_weights_and_statistics_as_torch_does():
    def trained(wrap):
        torch.manual_seed(0)
        layers = (torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Dropout(0.5), torch.nn.Linear(5, 1))
        model = torch.nn.Sequential(*layers)
        optimizer, run = torch.optim.SGD(model.parameters(), 0.1), wrap(model)
        for _ in range(3):
            optimizer.zero_grad()
            run(torch.ones(4, 6)).square().sum().backward()
            optimizer.step()
        return model.state_dict()

    want, got = trained(lambda model: model), trained(compiled)
    for name, value in want.items():
        torch.testing.assert_close(got[name], value)


def test_graphs_break_where_a_program_looks_at_values():
    def program(a):
        factor, info = torch.linalg.cholesky_ex(a)
        return factor if not info.any() else torch.linalg.cholesky(a + 3 * torch.eye(2))

    run = compiled(program, fullgraph=False)
    for a in (torch.eye(2), -torch.eye(2)):
        torch.testing.assert_close(run(a), program(a))


@pytest.mark.parametrize(
    "program",
    [
        torch.linalg.cholesky,
        torch.linalg.inv,
        lambda a: torch.linalg.solve(a, a),
        lambda a: torch.linalg.lu_factor(a - a),
    ],
)
def test_errors_are_torchs_own(program):
    a = torch.diag(torch.tensor([1.0, 2.0, 0.0, 3.0]))
    with pytest.raises(RuntimeError) as want:
        program(a)
    with pytest.raises(RuntimeError) as got:
        compiled(program)(a)
    assert str(want.value).partition("\n")[0].removeprefix("linalg.") in str(got.value)


@pytest.mark.usefixtures("ranks")
def test_a_program_names_the_backend_and_errors_are_raised_where_torch_would_drop_them():
    """In a process that has not imported it; torch before 2.13 knew no effect of the operator that raises."""
    text = """
import sys
import torch
import trnsci
assert "trnsci.compiler" not in sys.modules
from torch._higher_order_ops import effects
torch._library.simple_registry.singleton.find("aten::_linalg_check_errors").effect._effect = None
try:
    torch.compile(torch.linalg.cholesky, backend="trnsci")(-torch.eye(3))
except RuntimeError as error:
    assert type(error).__name__ == "_LinAlgError"
else:
    raise AssertionError("nothing was raised")
"""
    alone = Ranks(1)
    try:
        alone.run(exec, text, {})
    finally:
        alone.close()


def test_info_of_singular_matrices_is_lapacks():
    a = torch.eye(4).repeat(3, 1, 1)
    a[1, 2, 2] = 0
    a[2, 0, 0] = float("nan")

    def program(a):
        return torch.linalg.cholesky_ex(a).info, torch.linalg.lu_factor_ex(a).info, torch.linalg.inv_ex(a).info

    for got, want in zip(compiled(program)(a), program(a), strict=True):
        assert torch.equal(got, want)


def test_what_ours_refuses_when_it_runs_is_done_by_torch_and_counted():
    q = draw(1, 2, 8, 16, dtype=torch.float64)

    def program(q):
        noise = torch.rand(16, dtype=q.dtype)
        return functional.scaled_dot_product_attention(q, q, q) * noise

    run = compiled(program)
    torch.manual_seed(3)
    want = program(q)
    torch.manual_seed(3)
    with trnsci.backend("simulator"):
        torch.testing.assert_close(run(q), want)
    (reason,) = last().fallbacks
    assert "float64" in reason
    assert "ran on torch instead, 1 times" in str(last())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"iner": "eager"}, "options is 'iner', expected one of inner, random"),
        ({"inner": "tvm"}, "inner is 'tvm', expected one of 'eager', 'inductor', 'neuron'"),
        ({"random": 1}, "random is 1, expected one of False, True"),
        ({"inner": "neuron"}, "backend 'neuron' is not available"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, text):
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        torch.compile(lambda x: x @ x, backend="trnsci", options=options)(torch.eye(2))
    assert text in str(caught.value)


def test_a_mode_names_the_inner_backend():
    torch.compile(lambda x: x @ x, backend="trnsci", mode="default")(torch.eye(2))
    assert last().inner == "eager"
    for mode in ("reduce-overhead", "max-autotune"):
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=r"mode is .*Leave mode= out"):
            torch.compile(lambda x: x @ x, backend="trnsci", mode=mode)(torch.eye(3))


def test_random_numbers_are_ours_on_request():
    def program():
        return torch.rand(1000) + 0

    assert compiled(program)().mean() != compiled(program, random=True)().mean()
    assert dict(last().substituted) == {"torch.rand": "trnrand.uniform"}


def test_the_backend_is_found_by_name():
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["torch_dynamo_backends"]
    assert EntryPoint("trnsci", points["trnsci"], "torch_dynamo_backends").load() is compiler
    assert torch._dynamo.lookup_backend("trnsci") is compiler
