"""What programs take from outside, change and draw: as the function itself would, call after call."""

import copy
import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import trnrand
import trnsci
from trnsci.testing import gaussian


@pytest.fixture(autouse=True)
def on_the_simulator():
    with trnsci.backend("simulator"):
        yield


RATE = 2.0


def scale(x):
    return x * RATE


def test_numbers_from_outside_may_change(monkeypatch):
    factors, table = [2.0], {"shift": torch.zeros(2)}
    local = trnsci.program(lambda x: x * factors[0] + table["shift"])
    step, x = trnsci.program(scale), torch.ones(2)
    assert (step(x)[0], local(x)[0]) == (2, 2)
    factors[0], table["shift"] = 3.0, torch.ones(2)
    monkeypatch.setitem(globals(), "RATE", 5.0)
    assert (step(x)[0], local(x)[0]) == (5, 4)


def test_numbers_that_compare_equal_compute_different_things():
    step, x = trnsci.program(lambda x, n: x * n), torch.arange(3)
    assert [step(x, n).dtype for n in (2, 2.0, True)] == [torch.int64, torch.float32, torch.int64]


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, 2))


def test_a_module_is_what_it_is_at_the_call():
    ours, theirs, x = model(), model(), gaussian((6, 4), 1)
    step = trnsci.program(ours)

    def compare():
        with torch.no_grad():
            torch.testing.assert_close(step(x), theirs(x), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(ours[1].running_var, theirs[1].running_var)
        assert ours[1].num_batches_tracked == theirs[1].num_batches_tracked

    compare()
    compare()
    for each in (ours, theirs):
        each[3].weight = nn.Parameter(torch.ones(2, 3))
    compare()
    for each in (ours, theirs):
        each.eval()
    compare()


def test_parameters_of_modules_get_their_gradients():
    ours, x, y = model(), gaussian((6, 4), 1), gaussian((6, 2), 2)
    theirs, wide = model().double(), [x.double(), y.double()]
    loss = trnsci.program(lambda x, y: functional.mse_loss(ours(x), y))
    optimizers = [torch.optim.Adam(each.parameters(), lr=0.1) for each in (ours, theirs)]
    for _ in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        got, want = loss(x, y), functional.mse_loss(theirs(wide[0]), wide[1])
        got.backward()
        want.backward()
        assert abs(float(got.detach()) - float(want.detach())) < 1e-5
        # below a batch normalization a bias has no influence
        for mine, other in list(zip(ours.parameters(), theirs.parameters(), strict=True))[2:]:
            assert float((mine.grad - other.grad).abs().max()) < 1e-5
        for optimizer in optimizers:
            optimizer.step()
    bare = torch.full((4,), 3.0, requires_grad=True)
    trnsci.program(lambda x: (x * bare).square().sum())(x).backward()
    torch.testing.assert_close(bare.grad, (x.square() * 6).sum(0))


def test_what_happens_once_when_it_is_traced_is_refused():
    inner, x = nn.Linear(4, 1), gaussian((3, 4), 1)

    def train(x):
        inner(x).square().mean().backward()
        return x

    def seed(x):
        torch.manual_seed(0)
        return x + torch.rand(4)

    def generate(x):
        return x + torch.rand(4, generator=torch.Generator().manual_seed(3))

    for function, why in ((train, "calls backward"), (seed, "seeds torch's generator"), (generate, "torch.Generator")):
        with pytest.raises(trnsci.UnsupportedError, match=why):
            trnsci.program(function)(x)
    assert inner.weight.grad is None


def test_draws_of_our_streams_are_drawn_anew():
    mine, theirs = trnrand.Generator(1), trnrand.Generator(1)

    def noisy(x, generator):
        return x + trnrand.normal(4, generator=generator) * generator.uniform(4)

    step, x = trnsci.program(noisy), torch.zeros(4)
    step.plan(x, mine)
    assert mine.position == 0
    for _ in range(3):
        torch.testing.assert_close(step(x, mine), noisy(x, theirs))
    assert mine.position == theirs.position


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + trnrand.Sobol(4).random(1)[0],
        lambda x: x + trnrand.XORWOW(1).uniform(4),
        lambda x: x + torch.from_numpy(trnrand.default_rng(1).normal(size=4)),
        lambda x: trnsci.repeat(3, lambda x: x + trnrand.normal(4), x)[0],
        lambda x: trnrand.normal(4, loc=x * 2),
    ],
)
def test_draws_that_a_program_could_not_repeat_are_refused(function):
    with pytest.raises(trnsci.UnsupportedError):
        trnsci.program(function)(torch.zeros(4))


def test_a_captured_tensor_may_be_changed():
    total = torch.zeros(3)
    step = trnsci.program(lambda x: total.add_(x) * 1)
    assert [step(torch.ones(3))[0] for _ in range(2)] == [1, 2]
    assert total.tolist() == [2, 2, 2]


def exchange(x, y):
    before = x.clone()
    x.copy_(y)
    y.copy_(before)
    return before, x - y


def test_results_and_changes_show_what_was_there_before():
    x, y = gaussian((3,), 1), gaussian((3,), 2)
    first, second = x.clone(), y.clone()
    before, difference = trnsci.program(exchange)(first, second)
    assert torch.equal(before, x)
    assert torch.equal(difference, y - x)
    assert torch.equal(first, y)
    assert torch.equal(second, x)


@pytest.mark.parametrize("pair", [lambda x: (x, x), lambda x: (x[1:], x[:-1])])
def test_changed_arguments_have_memory_of_their_own(pair):
    with pytest.raises(trnsci.ArgumentError, match="memory shared with another"):
        trnsci.program(exchange)(*pair(torch.ones(3)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[0].expand(5, 4),
        lambda x: x.unfold(1, 2, 1),
        lambda x: (x * 2).unsqueeze(1).expand(3, 2, 4),
        lambda x: x[:, ::2],
    ],
)
def test_results_may_be_views_that_repeat_elements(function):
    x = gaussian((3, 4), 1)
    assert torch.equal(trnsci.program(function)(x), function(x))


def test_conjugates_and_no_arguments_at_all():
    z = torch.complex(gaussian((4, 4), 1), gaussian((4, 4), 2)).mH
    torch.testing.assert_close(trnsci.program(lambda z: z * 2)(z), z * 2)
    assert trnsci.program(lambda: torch.ones(3) * 2)().tolist() == [2, 2, 2]


def test_programs_may_be_parts_of_programs():
    inner = trnsci.program(lambda x: x * 2)
    outer = trnsci.program(lambda x: inner(x) + 1)
    assert outer(torch.ones(2)).tolist() == [3, 3]
    assert outer.plan(torch.ones(2)).launches == 1


def test_double_precision_inside_an_op_stays_with_torch():
    a = gaussian((8, 8), 1).double()
    error = trnsci.program(torch.linalg.inv)(a) @ a - torch.eye(8)
    assert float(error.abs().max()) < 1e-13


def test_threads_may_share_a_program():
    step, sums = trnsci.program(lambda x: x * 2 + 1), {}

    def work(i):
        with trnsci.backend("simulator"):
            sums[i] = float(step(torch.full((3 + i,), float(i))).sum())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sums == {i: (3 + i) * (2.0 * i + 1) for i in range(4)}


@pytest.mark.parametrize(
    ("function", "args", "error", "text"),
    [
        (lambda x, a: x, (torch.ones(2), np.ones(2)), trnsci.DtypeError, "ndarray"),
        (lambda x: x[x > 0].sum(), (torch.ones(2),), trnsci.UnsupportedError, "test_program_surroundings.py"),
    ],
)
def test_refusals_say_why(function, args, error, text):
    with pytest.raises(error, match=text):
        trnsci.program(function)(*args)


def test_transforms_belong_inside():
    step = trnsci.program(lambda x: x.square().sum())
    with pytest.raises(trnsci.UnsupportedError, match="Transform the function"):
        torch.vmap(step)(torch.ones(2, 3))
    inside = trnsci.program(torch.vmap(lambda x: x.square().sum()))
    assert inside(torch.ones(2, 3)).tolist() == [3, 3]


def test_the_gradient_of_a_gradient_is_refused_and_not_zero():
    step = torch.compile(lambda x: (x**3).sum(), backend="trnsci")
    x = torch.full((3,), 2.0, requires_grad=True)
    (gradient,) = torch.autograd.grad(step(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        torch.autograd.grad(gradient.sum(), x)


EDGES = torch.tensor([0.5, -0.5, 1.5, 2.5, -2.5, 0.0, 8388609.0, 3e9, -3e38, float("inf"), float("nan")])


@pytest.mark.parametrize("name", ["round", "floor", "ceil", "trunc", "sign"])
def test_whole_numbers_have_no_limits(name):
    function = getattr(torch, name)
    got = trnsci.program(function)(EDGES)
    assert torch.equal(got.nan_to_num(7.0, 8.0, 9.0), function(EDGES).nan_to_num(7.0, 8.0, 9.0))


@pytest.mark.parametrize("shape", [(5,), (300,), (130, 3)])
@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan"), 3e38])
def test_extremes_of_what_is_not_finite(shape, number):
    x = torch.full(shape, number)
    step = trnsci.program(lambda x: (x.amax(), x.amin(), x.amax(0), x.amin(-1), x.softmax(0), x.mean()))
    for got, want in zip(step(x), step.plain(x), strict=True):
        assert torch.equal(got.nan_to_num(1.5, 2.5, -2.5), want.nan_to_num(1.5, 2.5, -2.5))


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_are_right_or_not_a_number(name):
    x = torch.tensor([1e3, -1e5, 3.9e5, 1e6, 3e38, float("inf")])
    got = trnsci.program(getattr(torch, name))(x).double().numpy()
    exact = getattr(np, name)(x[:3].double().numpy())
    # three roundings of the angle's rest, and the table's
    assert np.abs(got[:3] - exact).max() < 2e-6
    assert np.isnan(got[3:]).all()


ROWS = torch.tensor([[3.0, 1.0, 3.0, float("nan")], [float("-inf"), 0.0, -0.0, 0.0], [2.0, 2.0, 1.0, 2.0]])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x > 0).sum(),
        lambda x: (x > 0).sum(0),
        lambda x: (x > 0).tril(),
        lambda x: torch.ones(3, 3, dtype=torch.bool).triu(1) & (x[:, :3] > 0),
    ],
)
def test_counts_and_triangles_of_truth_values_are_inside(function):
    step, given = trnsci.program(function), copy.deepcopy(ROWS)
    got, want = step(given), function(given)
    for mine, other in zip(*((x,) if isinstance(x, torch.Tensor) else x for x in (got, want)), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0, equal_nan=True)
    assert step.plan(given).launches <= 2


FRACTIONS = torch.tensor([[-0.3, 0.2, 0.0], [0.0, float("nan"), 5.0]])
TRUTHS = torch.tensor([[True, True, False], [False, True, False]])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.bool(),
        lambda x: x.to(torch.bool).float(),
        lambda x: torch.where(x.bool(), x, 7.0),
        lambda x: x.any(1),
        lambda x: x.all(0),
        lambda x: x.any(),
        lambda x: torch.logical_and(x, x > 0),
        lambda x: (TRUTHS + (x > 0)).float(),
        lambda x: torch.add(TRUTHS, x < 0).sum(0),
        lambda x: torch.count_nonzero(x),
    ],
)
def test_what_is_not_zero_is_true(function):
    torch.testing.assert_close(trnsci.program(function)(FRACTIONS), function(FRACTIONS), rtol=0, atol=0, equal_nan=True)


def test_quotients_of_tiny_numbers_are_finite():
    x = torch.tensor([0.0, 1e-38, -1e-39, 1.0])
    function = lambda x: (x / 1e-38, x / 1e-39, x / -2e-39)  # noqa: E731
    for got, want in zip(trnsci.program(function)(x), function(x), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:0] + 1,
        lambda x: (x[:0].sum(0), torch.cat([x[:0], x * 2, x[:0]])),
        lambda x: (torch.cat([x[:0], x[:0]]), torch.stack([x[:0], x[:0]])),
        lambda x: x[:0].mT @ x[:0] + x.mT @ x,
        lambda x: (x[:, :0] @ x.mT[:0]).exp(),
        lambda x: torch.softmax(x[:0], 1),
        lambda x: (torch.zeros_like(x[:0]), x.new_ones(0, 3), torch.nn.functional.pad(x[:0], (1, 1))),
        lambda x: torch.nn.functional.linear(x[:0], x),
        lambda x: torch.index_select(x.sum(), 0, torch.tensor([0])),
    ],
)
def test_tensors_without_elements_stay_with_torch(function):
    x = gaussian((4, 3), 1)
    got, want = (
        results if isinstance(results, tuple) else (results,) for results in (trnsci.program(function)(x), function(x))
    )
    for mine, other in zip(got, want, strict=True):
        assert mine.shape == other.shape
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


def test_a_seed_inside_is_refused_also_where_it_is_taken_back():
    def draw(x):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            return x + torch.rand(2)

    with pytest.raises(trnsci.UnsupportedError, match="it seeds torch's generator"):
        trnsci.program(draw)(torch.zeros(2))


@pytest.mark.parametrize("function", [lambda x: x.sum().item(), lambda x: torch.tensor_split(x, torch.tensor([1]))])
def test_numbers_that_only_a_run_knows_are_refused(function):
    with pytest.raises(trnsci.UnsupportedError, match=r"values of tensors|Return the tensor"):
        trnsci.program(function)(torch.ones(3))


def test_parameters_of_spectra_that_are_filled_in_place_have_gradients():
    weight = nn.Parameter(gaussian((2, 3, 3, 2), 1))

    def mix(x):
        spectrum = torch.fft.rfft2(x)
        filled = torch.zeros_like(spectrum)
        filled[:, :3, :3] = spectrum[:, :3, :3] * torch.view_as_complex(weight)
        return torch.fft.irfft2(filled, s=x.shape[1:])

    x, grads = gaussian((2, 8, 8), 2), []
    for function in (trnsci.program(mix), mix):
        (function(x) ** 2).sum().backward()
        grads.append(weight.grad)
        weight.grad = None
    torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.nn.functional.pixel_shuffle(x, 2),
        lambda x: x.reshape(1, 2, 4, 2, 2, 2, 2).permute(0, 3, 5, 1, 2, 4, 6).exp().reshape(4, 32).sum(1),
        lambda x: torch.ones(1, 2, 1, 2, 1, 2, 1) * x.reshape(1, 2, 4, 2, 2, 2, 2),
    ],
)
def test_tensors_may_have_more_axes_than_views_on_the_device(function):
    x = gaussian((1, 8, 4, 4), 1)
    step = trnsci.program(function)
    torch.testing.assert_close(step(x), function(x), rtol=1e-6, atol=1e-6)
    assert step.plan(x).launches == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_programs_may_read_nothing(dtype):
    x = torch.ones(3, dtype=dtype)
    assert torch.equal(trnsci.program(lambda x: torch.zeros_like(x) + 2)(x), 2 * x)


def test_a_condition_chooses_a_branch_and_its_gradient():
    function = lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.log(), (x,))  # noqa: E731
    for run in (trnsci.program(function), torch.compile(function, backend="trnsci")):
        x = torch.tensor([-1.0, 3.0], requires_grad=True)
        result = run(x)
        result.sum().backward()
        torch.testing.assert_close(result, x.sin(), rtol=0, atol=1e-6)
        torch.testing.assert_close(x.grad, x.detach().cos(), rtol=0, atol=1e-6)


def test_what_holds_a_new_tensor_is_refused_and_left_as_it_was():
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("state", torch.ones(2))
            self.past = []

        def forward(self, x):
            self.past.append(x)
            self.state = self.state * 0.5 + x
            return self.state

    cell, x = Cell(), torch.ones(2)
    with pytest.raises(trnsci.UnsupportedError, match="puts a new tensor"):
        trnsci.program(cell)(x)
    assert cell.past == []
    assert torch.equal(cell(x), torch.tensor([1.5, 1.5]))


@pytest.mark.parametrize(
    "function",
    [
        lambda z: z.bool(),
        lambda z: z.var(0),
        lambda z: torch.var_mean(z, 1, correction=0),
        lambda z: z.std(),
        lambda z: (z.any(1), z.all(0), torch.count_nonzero(z)),
    ],
)
def test_complex_numbers_have_a_truth_and_a_variance(function):
    z = torch.tensor([[0, 1j, 0.3], [2 - 1j, 0, -1j]], dtype=torch.complex64)
    got, want = (x if isinstance(x, tuple) else (x,) for x in (trnsci.program(function)(z), function(z)))
    for mine, other in zip(got, want, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-6)


def test_constants_keep_the_sign_of_zero():
    def function(x):
        return torch.where(x > 0, torch.full_like(x, 0.0), torch.full_like(x, -0.0)), x * 0.0, x.abs() * -0.0

    x = torch.tensor([1.0, -1.0])
    with trnsci.backend("simulator"):
        results = trnsci.program(function)(x)
    for got, want in zip(results, function(x), strict=True):
        assert got.signbit().tolist() == want.signbit().tolist()
