"""One function, one program: against NumPy and torch in float64, on the simulator."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
import scipy.special
import torch

import trnblas
import trnfft
import trnsci
import trnsolver
import trnsparse
from trnsci import config
from trnsci.testing import gaussian

SIZES = [(1,), (127,), (997,), (128, 129), (3, 5, 40), (2, 1, 300)]


@pytest.fixture(autouse=True)
def on_the_simulator():
    with trnsci.backend("simulator"):
        yield


def assert_same(function, *args, launches=1, rtol=2e-6):
    """Compare with the function itself in float64, relative to the largest result."""
    step = trnsci.program(function)
    results = step(*args)
    with trnsci.backend("pytorch"):
        wide = [x.to(torch.complex128 if x.is_complex() else torch.float64) if _real(x) else x for x in args]
        expected = function(*wide)
    pairs = [(results, expected)] if isinstance(results, torch.Tensor) else list(zip(results, expected, strict=True))
    for got, want in pairs:
        assert got.shape == want.shape
        largest = float(want.abs().max()) if want.numel() and want.dtype != torch.bool else 1.0
        assert (
            float((got.to(want.dtype) ^ want if want.dtype == torch.bool else got - want).abs().max()) <= rtol * largest
        )
    plan = step.plan(*args)
    assert plan.launches == launches, plan.splits
    return plan


def _real(x):
    return isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())


@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_expressions_of_any_shape_are_one_step(shape):
    x, y = gaussian(shape, 1), gaussian(shape, 2)
    plan = assert_same(lambda x, y: torch.tanh(x * y + 0.5) / (1 + x.square()) - torch.exp(-y.abs()), x, y)
    assert not plan.splits


FUNCTIONS = {
    "exp": np.exp,
    "log": lambda x: np.log(np.abs(x) + 0.1),
    "sin": lambda x: np.sin(30 * x),
    "cos": lambda x: np.cos(30 * x),
    "erf": scipy.special.erf,
    "sqrt": lambda x: np.sqrt(np.abs(x)),
    "rsqrt": lambda x: 1 / np.sqrt(np.abs(x) + 0.1),
    "sigmoid": scipy.special.expit,
    "gelu": lambda x: x * scipy.special.ndtr(x),
    "silu": lambda x: x * scipy.special.expit(x),
    "round": lambda x: np.round(5 * x),
    "cube": lambda x: x**3,
    "softplus": lambda x: np.logaddexp(0, x),
}
IN_TORCH = {
    "log": lambda x: torch.log(x.abs() + 0.1),
    "sin": lambda x: torch.sin(30 * x),
    "cos": lambda x: torch.cos(30 * x),
    "sqrt": lambda x: x.abs().sqrt(),
    "rsqrt": lambda x: (x.abs() + 0.1).rsqrt(),
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    "round": lambda x: torch.round(5 * x),
    "cube": lambda x: x**3,
    "softplus": torch.nn.functional.softplus,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_agree_with_numpy(name):
    x = gaussian((300,), 3)
    got = trnsci.program(IN_TORCH.get(name) or getattr(torch, name))(x)
    expected = FUNCTIONS[name](x.double().numpy())
    assert np.abs(got.numpy() - expected).max() <= 4e-6 * np.abs(expected).max()


def test_operands_broadcast_and_may_be_transposed():
    x, row, column = gaussian((70, 90), 1), gaussian((90,), 2), gaussian((70, 1), 3)
    assert_same(lambda x, row, column: (x - row) * column + 2 * x.mT.contiguous().mT, x, row, column)
    square = gaussian((80, 80), 4)
    assert_same(lambda a: a * a.mT + a.diagonal(), square)


@pytest.mark.parametrize("dims", [None, 0, 1, -1, (0, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin"])
def test_reductions_along_every_axis(name, dims):
    x = gaussian((5, 130, 33), 1)
    reduce = getattr(torch, name)
    assert_same(lambda x: reduce(x) if dims is None and "a" not in name[0] else reduce(x, dims or (0, 1, 2)), x)


def test_softmax_and_normalization():
    x, weight, bias = gaussian((20, 48), 1), gaussian((48,), 2), gaussian((48,), 3)
    assert_same(lambda x: torch.softmax(x, -1), x)
    assert_same(lambda x: torch.log_softmax(x, 0), x)
    assert_same(lambda x, w, b: torch.nn.functional.layer_norm(x, (48,), w, b), x, weight, bias)


def test_elements_move():
    x, y = gaussian((6, 40, 50), 1), gaussian((6, 10, 50), 2)
    assert_same(lambda x, y: torch.cat([x, y], 1), x, y)
    assert_same(lambda x: torch.stack([x[0], x[3]], -1), x)
    # a large operand that is broadcast is written by an expression, into its own part of the result alone
    assert_same(lambda x, y: torch.cat([x[0, :, :1].expand(40, 60), y[0].expand(4, 10, 50).reshape(40, 50)], 1), x, y)
    assert_same(lambda x: torch.nn.functional.pad(x, (3, -2, 1, 0), value=2.0), x)
    assert_same(lambda x: (x.permute(2, 0, 1).reshape(50, -1), x[:, 5:30:3, -7:], x.flip(-1), x.flip(0, 1)), x)
    assert_same(lambda x: (x.tril(2), x.triu(-1), x.roll(3, 1)), x)
    assert_same(lambda x: torch.diag_embed(x[0, 0]) + torch.eye(50), x)
    index = torch.tensor([3, 0, 3, 5])
    assert_same(lambda x: x.index_select(0, index), x)


def test_a_result_need_not_depend_on_the_operands():
    assert_same(lambda x: torch.zeros_like(x) + x.new_full((30, 1), 2.0), gaussian((30, 20), 1))


def test_bits_read_as_another_dtype_stay_with_torch():
    x = gaussian((30, 20), 1)
    got = trnsci.program(lambda x: x.view(torch.int32))(x)
    assert got.dtype is torch.int32
    assert torch.equal(got, x.view(torch.int32))


def test_choices_do_not_multiply_what_is_not_chosen():
    x = torch.tensor([1.0, math.inf, -2.0, math.nan, 0.0])
    result = trnsci.program(lambda x: torch.where((x > 0) & (x < 1e9), x, 0.0))(x)
    assert result.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert trnsci.program(lambda x: (x > 0) | (x != x))(x).tolist() == [True, True, False, True, False]


def test_complex_values_are_planes():
    x, y = gaussian((300,), 1, torch.complex64), gaussian((300,), 2, torch.complex64)
    assert_same(lambda x, y: (x * y.conj() / (1 + y.abs()), torch.exp(1j * x.real), (x - 2j * y).imag), x, y)


def test_ops_and_what_is_between_them_are_one_program():
    def power_spectrum(x, window):
        spectrum = trnfft.rfft(x * window)
        return (spectrum * spectrum.conj()).real.mean(0).log()

    plan = assert_same(power_spectrum, gaussian((4, 256), 1) + 1, gaussian((256,), 2))
    assert plan.predict_calls("trn2").launches + plan.predict_calls("trn2").hosted >= 5


def test_products_of_torch_become_ours():
    assert_same(lambda a, b: torch.relu(a @ b + 1) @ b.mT, gaussian((60, 40), 1), gaussian((40, 60), 2))


def test_one_op_alone_has_the_same_bits():
    a, b = gaussian((130, 70), 1), gaussian((70, 200), 2)
    assert torch.equal(trnsci.program(lambda a, b: trnblas.gemm(1.0, a, b))(a, b), trnblas.gemm(1.0, a, b))


def test_loops_are_inside():
    def swap(a, b):
        return trnsci.repeat(7, lambda a, b: (b, 0.5 * a + b), a, b)

    plan = assert_same(swap, gaussian((65,), 1), gaussian((65,), 2))
    assert plan.compiled.segments[0].loops == (7,)


def conjugate_gradients(matrix, b, steps):
    def step(x, r, d, rr):
        q = trnsparse.spmv(matrix, d)
        alpha = rr / (d * q).sum()
        x, r = x + alpha * d, r - alpha * q
        after = (r * r).sum()
        return x, r, r + (after / rr) * d, after

    # residual and direction begin as the same tensor
    return trnsci.repeat(steps, step, torch.zeros_like(b), b, b, (b * b).sum())[0]


def test_a_conjugate_gradient_solve_is_one_launch():
    one = scipy.sparse.diags([-1.0, 2.1, -1.0], [-1, 0, 1], shape=(12, 12))
    laplacian = scipy.sparse.kronsum(one, one).tocsr().astype(np.float32)
    matrix, b = trnsparse.CSRMatrix.from_scipy(laplacian), gaussian((144,), 1)
    solve = trnsci.program(lambda b: conjugate_gradients(matrix, b, 50))
    expected = scipy.sparse.linalg.spsolve(laplacian.astype(np.float64).tocsc(), b.double().numpy())
    assert np.abs(solve(b).numpy() - expected).max() <= 1e-4 * np.abs(expected).max()
    plan = solve.plan(b)
    assert plan.launches == 1
    assert plan.predict("trn2").total < plan.predict_calls("trn2").total / 2.5


def test_the_state_keeps_its_shape():
    with pytest.raises(trnsci.ArgumentError, match="the state's shapes and dtypes"):
        trnsci.repeat(2, lambda x: x[:1], torch.ones(3))
    with pytest.raises(trnsci.ArgumentError, match="count"):
        trnsci.repeat(-1, lambda x: x, torch.ones(3))


def test_one_tensor_may_be_two_arguments():
    x = gaussian((40,), 1)
    assert torch.equal(trnsci.program(lambda a, b: a - 2 * b)(x, x), x - 2 * x)


def test_what_programs_lack_splits_the_graph_and_is_said():
    def middle(x):
        return torch.exp(torch.cumsum(x * 2, 0)) + 1

    plan = assert_same(middle, gaussian((50,), 1), launches=2)
    assert len(plan.splits) >= 1
    assert "cumsum at" in plan.splits[0]
    assert "test_program.py:" in plan.splits[0]
    assert "split at cumsum" in str(plan)


def test_what_torch_alone_computes_does_not_split_the_rest():
    plan = assert_same(lambda x: (torch.cumsum(x * 1.0, 0), (x * 2).sum() + x.exp().sum()), gaussian((50,), 1))
    assert any("cumsum" in split for split in plan.splits)


def test_double_precision_stays_with_torch():
    x = gaussian((20,), 1, torch.float64)
    step = trnsci.program(lambda x: x.sin() * 2)
    assert torch.equal(step(x), x.sin() * 2)
    assert "torch.float64 has no arithmetic on the device" in step.plan(x).splits[0]


def test_random_numbers_are_those_of_torch():
    step = trnsci.program(lambda x: x + torch.randn(30))
    torch.manual_seed(5)
    got = step(torch.ones(30))
    torch.manual_seed(5)
    assert torch.allclose(got, 1 + torch.randn(30))
    torch.manual_seed(6)
    assert not torch.equal(got, step(torch.ones(30)))


def test_captured_tensors_may_change_between_calls():
    weight = torch.ones(4)
    step = trnsci.program(lambda x: x * weight)
    assert step(torch.ones(4)).tolist() == [1.0] * 4
    weight.mul_(3)
    assert step(torch.ones(4)).tolist() == [3.0] * 4
    index = torch.tensor([0, 1])
    pick = trnsci.program(lambda x: x.index_select(0, index) * 2)
    assert pick(torch.arange(4.0)).tolist() == [0.0, 2.0]
    index.add_(2)
    assert pick(torch.arange(4.0)).tolist() == [4.0, 6.0]


def test_arguments_changed_in_place_are_changed():
    x = torch.ones(3, 4).mT
    result = trnsci.program(lambda x: x.add_(2) * 2)(x)
    assert torch.equal(x, torch.full((4, 3), 3.0))
    assert torch.equal(result, torch.full((4, 3), 6.0))


def test_results_are_memory_of_their_own_and_keep_their_strides():
    x = gaussian((6, 7), 1)
    same, turned = trnsci.program(lambda x: (x, (x + 1).mT))(x)
    assert same.data_ptr() != x.data_ptr()
    assert turned.stride() == (1, 7)


def test_programs_are_kept_listed_and_forgotten():
    trnsci.clear_programs()
    step = trnsci.program(lambda x, power=2: x**power)
    x = gaussian((8,), 1)
    assert torch.allclose(step(x), x**2)
    assert torch.allclose(step(x), x**2)
    assert len(trnsci.built_programs()) == 1
    assert torch.allclose(step(x, power=3), x**3)
    step(gaussian((9,), 1))
    assert len(trnsci.built_programs()) == 3
    trnsci.clear_programs()
    assert trnsci.built_programs() == ()


def test_plans_outlive_the_cache():
    plan = trnsci.program(lambda x: trnsci.repeat(3, lambda x: trnfft.fft(x).real, x)[0]).plan(torch.ones(16))
    trnsci.clear_programs()
    assert plan.predict_calls("trn2").launches == 3
    assert plan.predict("trn2").launches == 1


def test_long_programs_are_cut(monkeypatch):
    def chain(x):
        for _ in range(6):
            x = trnfft.ifft(trnfft.fft(x) * 1.01)
        return x

    x = gaussian((512,), 1, torch.complex64)
    whole = trnsci.program(chain).plan(x)
    assert whole.launches == 1
    monkeypatch.setenv(config.PROGRAM_INSTRUCTIONS.name, str(whole.instructions // 3))
    trnsci.clear_programs()
    plan = assert_same(chain, x, launches=3)
    assert plan.instructions <= whole.instructions // 3


def test_gradients_run_as_programs():
    def loss(a, b):
        return (torch.tanh(a @ b) * a.mT).square().sum()

    a, b = gaussian((30, 30), 1).requires_grad_(), gaussian((30, 30), 2).requires_grad_()
    value = trnsci.program(loss)(a, b)
    got = torch.autograd.grad(value, (a, b))
    wide = [x.detach().double().requires_grad_() for x in (a, b)]
    with trnsci.backend("pytorch"):
        expected = torch.autograd.grad(loss(*wide), wide)
    for one, two in zip(got, expected, strict=True):
        assert (one - two).abs().max() <= 1e-5 * two.abs().max()


def gaussian_process(x, y, length, noise):
    """Return the negative log likelihood and its gradient, all in one function."""
    inputs = [p.detach().requires_grad_() for p in (length, noise)]
    with torch.enable_grad():
        distance = (x[:, None] - x[None]) / inputs[0]
        factor = trnsolver.cholesky(
            torch.exp(-0.5 * distance * distance) + inputs[1] * torch.eye(len(x), dtype=x.dtype)
        )
        z = trnsolver.solve_triangular(factor, y[:, None], upper=False)
        loss = 0.5 * (z * z).sum() + factor.diagonal().log().sum()
        return loss.detach(), *torch.autograd.grad(loss, inputs)


def test_a_step_with_its_gradient_is_one_launch():
    x = torch.linspace(0, 1, 40)
    args = x, torch.sin(6 * x), torch.tensor(0.3), torch.tensor(0.1)
    plan = assert_same(gaussian_process, *args, rtol=1e-4)
    before = plan.predict_calls("trn2")
    assert plan.launches * 10 <= before.launches + before.hosted


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_graphs_may_be_programs(dynamic):
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
    )
    run = torch.compile(model, backend="trnsci", dynamic=dynamic)
    for rows in (9, 12):
        x = gaussian((rows, 16), rows)
        got, expected = run(x), model(x)
        assert torch.allclose(got, expected, atol=1e-5)
        weights = list(model.parameters())
        for one, two in zip(
            torch.autograd.grad(got.square().sum(), weights),
            torch.autograd.grad(expected.square().sum(), weights),
            strict=True,
        ):
            assert torch.allclose(one, two, atol=1e-4)


def test_errors_name_the_line_of_the_function():
    def beyond(x, index):
        return x.index_select(0, index) * 2

    with pytest.raises(trnsci.KernelError) as caught:
        trnsci.program(beyond)(torch.ones(4, 2), torch.tensor([9]))
    assert any("test_program.py:" in note for note in caught.value.__notes__)


def test_functions_that_look_at_values_are_refused_with_the_line():
    def steered(x):
        return x * 2 if float(x.sum()) > 0 else x

    with pytest.raises(trnsci.UnsupportedError, match=r"looks at values of tensors at .*test_program.py:\d+"):
        trnsci.program(steered)(torch.ones(3))


def test_plans_say_what_and_how_long():
    step = trnsci.program(lambda a, b: (a @ b).exp().sum())
    meta = torch.empty(64, 64, device="meta")
    plan = step.plan(meta, meta)
    time = plan.predict("trn1")
    assert time.launches == 1
    assert time.low < time.kernels < time.high
    assert time.total == pytest.approx(time.kernels + 0.67e-3)
    assert plan.hbm_bytes >= 3 * 64 * 64 * 4
    for word in ("1 launch", "trn1", "trn2", "trn3", "PSUM", "one by one"):
        assert word in str(plan)


def test_programs_follow_the_backend_and_need_dense_tensors():
    step = trnsci.program(lambda x: x + 1)
    assert trnsci.program(step) is step
    with trnsci.backend("pytorch"):
        assert step(np.float64(2)) == 3
    with pytest.raises(trnsci.ArgumentError, match="dense tensors"):
        step(torch.eye(3).to_sparse())


@pytest.mark.slow
def test_programs_run_on_the_cores_of_a_pair(tmp_path):
    """All the tests of this file but this, with logical cores of two, and warnings of races as errors."""
    words = [sys.executable, "-m", "pytest", __file__, "-n", "0", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    words += ["-W", "error::trnsim.RaceWarning"]
    own = {"NEURON_LOGICAL_NC_CONFIG": "2"}
    done = subprocess.run(words, env=os.environ | own, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", [(1,), (37,), (3, 64), (2, 3, 9)])
def test_sorting_is_inside(shape, descending):
    x = gaussian(shape, 1).round(decimals=1)
    x.view(-1)[-1] = float("nan")
    x.view(-1)[0] = -float("inf")
    for dim in range(-1, len(shape) - 1):
        sort = trnsci.program(lambda x, dim=dim: torch.sort(x, dim=dim, descending=descending, stable=True))
        assert sort.plan(x).launches == 1
        assert not sort.plan(x).splits
        # NumPy sorts NaN last as well; of equals the first comes first
        keys = -x.numpy() if descending else x.numpy()
        if descending:
            keys = np.where(np.isnan(keys), -np.inf, np.where(keys == np.inf, np.inf, keys))
        order = np.argsort(keys, axis=dim, kind="stable")
        values, indices = sort(x)
        np.testing.assert_array_equal(indices.numpy(), order)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x.numpy(), order, dim))


def test_gathers_and_conversions_to_integers_are_inside():
    x, order = gaussian((3, 5, 7), 1), torch.arange(7).flip(0).expand(3, 5, 7)
    x[0, 0, 0], x[0, 0, 1] = math.inf, math.nan
    gather = trnsci.program(lambda x: torch.gather(x, -1, (order * 1).to(torch.int64)))
    np.testing.assert_array_equal(gather(x).numpy(), x.numpy()[..., ::-1])
    numbers = torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1e6 + 0.5, -7.0])
    cast = trnsci.program(lambda x: (x.to(torch.int64), x.to(torch.int32).float() * 2))
    assert not cast.plan(numbers).splits
    whole, twice = cast(numbers)
    np.testing.assert_array_equal(whole.numpy(), np.trunc(numbers.numpy()))
    np.testing.assert_array_equal(twice.numpy(), 2 * np.trunc(numbers.numpy()))


def test_an_eigenvalue_problem_is_one_program():
    a = gaussian((24, 24), 1)
    a = a + a.mT
    solve = trnsci.program(trnsolver.eigh)
    assert solve.plan(a).launches == 1
    assert not solve.plan(a).splits
    values, vectors = solve(a)
    np.testing.assert_allclose(values.numpy(), np.linalg.eigvalsh(a.double().numpy()), atol=24 * 2.0**-23 * 10)
    assert (a @ vectors - vectors * values).abs().max() < 24 * 2.0**-23 * 10


def while_solve(a, b):
    def goes_on(turns, x, r, d, rr):
        return (turns < 50) & (rr > 1e-9)

    def step(turns, x, r, d, rr):
        q = a @ d
        alpha = rr / (d * q).sum()
        x, r = x + alpha * d, r - alpha * q
        after = (r * r).sum()
        return turns + 1, x, r, r + (after / rr) * d, after

    start = torch.zeros((), dtype=torch.int64), torch.zeros_like(b), b.clone(), b.clone(), (b * b).sum()
    return torch.while_loop(goes_on, step, start)[:2]


def test_a_solve_that_ends_by_its_residual_is_one_launch():
    a, b = gaussian((64, 64), 1), gaussian((64,), 2)
    a = a @ a.mT / 64 + torch.eye(64)
    solve = trnsci.program(while_solve)
    assert solve.plan(a, b).launches == 1
    assert not solve.plan(a, b).splits
    turns, x = solve(a, b)
    assert turns.dtype is torch.int64
    assert 5 < int(turns) < 30
    exact = np.linalg.solve(a.double().numpy(), b.double().numpy())
    # all eigenvalues of a are above 1, so that the error is below the residual
    assert np.linalg.norm(x.double().numpy() - exact) < 1e-4
    # torch's own loop runs as before
    assert int(while_solve(a, b)[0]) == int(turns)


def test_a_loop_that_never_begins_keeps_its_state():
    run = trnsci.program(lambda x: torch.while_loop(lambda x: x.sum() < 0, lambda x: (x * 2,), (x,)))
    torch.testing.assert_close(run(torch.ones(5))[0], torch.ones(5), rtol=0, atol=0)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_is_one_launch(reverse):
    from torch._higher_order_ops.scan import scan

    xs, start, weight = gaussian((9, 5), 1), gaussian((5,), 2), gaussian((5,), 3)

    def run(xs, start):
        return scan(lambda c, x: (0.5 * c + weight * x, (c * x).sum()), start, xs, reverse=reverse)

    step = trnsci.program(run)
    assert step.plan(xs, start).launches == 1
    carry, sums = start.double().numpy(), np.zeros(9)
    for i in range(9)[:: -1 if reverse else 1]:
        sums[i] = carry @ xs[i].double().numpy()
        carry = 0.5 * carry + weight.double().numpy() * xs[i].double().numpy()
    last, got = step(xs, start)
    bound = 40 * 2.0**-24 * 9
    np.testing.assert_allclose(last.numpy(), carry, atol=bound, rtol=0)
    np.testing.assert_allclose(got.numpy(), sums, atol=bound, rtol=0)
