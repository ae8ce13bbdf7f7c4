"""Results of ``drop_in`` can be used as the library's own: changed in place, owned, hashed, written."""

import contextlib
import subprocess
import sys

import pytest
import torch
from torch.nn import functional

import trnsci
from tests.together import together

torch.manual_seed(0)
a, b = torch.randn(2, 8, 8)
spd = a @ a.T + 8 * torch.eye(8)
factor = torch.linalg.cholesky(spd)
half = torch.randn(4, 5, dtype=torch.cfloat)
heads = torch.randn(3, 1, 2, 8, 4)

# functions of two tensors that may require a gradient
PRODUCTS = {
    "mm": lambda a, b: a @ b,
    "bmm": lambda a, b: torch.bmm(a[None], b[None]),
    "addmm": lambda a, b: torch.addmm(a[0], a, b),
    "baddbmm": lambda a, b: torch.baddbmm(a, a[None], b[None]),
    "linear": lambda a, b: functional.linear(a, b, b[0]),
    "mv": lambda a, b: torch.mv(a, b[0]),
    "addmv": lambda a, b: torch.addmv(a[0], a, b[0]),
    "dot": lambda a, b: torch.dot(a[0], b[0]),
    "fft": lambda a, b: torch.fft.fft(a),
    "irfft": lambda a, b: torch.fft.irfft(a + 1j * b),
    "irfft2": lambda a, b: torch.fft.irfft2(a + 1j * b),
    "stft": lambda a, b: torch.stft(a.flatten(), 16, window=torch.ones(16), return_complex=True),
    "matrix_exp": lambda a, b: torch.linalg.matrix_exp(a),
}
# views in torch too, which may be changed only where they were made
VIEWS = {
    "linear of a stack": lambda a, b: functional.linear(a.reshape(2, 4, 8), b, b[0]),
    "einsum": lambda a, b: torch.einsum("ij,jk->ki", a, b),
}
OTHERS = {
    "attention": lambda a, b: functional.scaled_dot_product_attention(a.reshape(1, 2, 8, 4), *heads[1:]),
    "cholesky": lambda a, b: torch.linalg.cholesky(spd + a @ a.T),
    "inv": lambda a, b: torch.linalg.inv(spd + a),
    "solve": lambda a, b: torch.linalg.solve(spd, a),
    "solve of a vector": lambda a, b: torch.linalg.solve(spd, a[0]),
    "eigvalsh": lambda a, b: torch.linalg.eigvalsh(spd + a),
    "svdvals": lambda a, b: torch.linalg.svdvals(a),
    "solve_triangular": lambda a, b: torch.linalg.solve_triangular(factor, a, upper=False),
    "cholesky_solve": lambda a, b: torch.cholesky_solve(a, factor),
    "cholesky_inverse": lambda a, b: torch.cholesky_inverse(factor + a.tril()),
    "lstsq": lambda a, b: torch.linalg.lstsq(a[:, :3], b).solution,
    "pinv": lambda a, b: torch.linalg.pinv(a),
}


def block(backend):
    return trnsci.backend(backend), trnsci.drop_in(min_size=0)


def changed(function, *, recorded):
    """Change a result in place, twice; return it and the gradients of its sum."""
    inputs = [x.clone().requires_grad_() for x in (a, b)]
    with torch.set_grad_enabled(recorded):
        result = function(*inputs)
    # a number that requires a gradient: a view made without one may not be changed by it
    result.mul_(2).add_(torch.ones((), requires_grad=True))
    return result, inputs


@pytest.mark.parametrize("backend", ["auto", "pytorch", "simulator"])
@together("name", PRODUCTS | VIEWS)
def test_what_torch_changes_in_place_and_differentiates_is_so_here(name, backend):
    function = (PRODUCTS | VIEWS)[name]
    want, theirs = changed(function, recorded=True)
    want.abs().sum().backward()
    where, ours = block(backend)
    with where, ours:
        got, inputs = changed(function, recorded=True)
        got.abs().sum().backward()
    assert torch.allclose(got, want, rtol=1e-4, atol=1e-4)
    for mine, other in zip(inputs, theirs, strict=True):
        assert (mine.grad is None) == (other.grad is None)
        assert mine.grad is None or torch.allclose(mine.grad, other.grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("backend", ["auto", "pytorch", "simulator"])
@together("name", PRODUCTS | OTHERS)
def test_every_result_can_be_changed_in_place_and_is_nobodys_memory(name, backend, recorded):
    function = (PRODUCTS | OTHERS)[name]
    want, _ = changed(function, recorded=recorded)
    where, ours = block(backend)
    with where, ours:
        got, inputs = changed(function, recorded=recorded)
    assert torch.allclose(got, want, rtol=1e-3, atol=1e-3)
    assert got._is_view() == want._is_view()
    assert got.untyped_storage().resizable()
    assert got.untyped_storage().data_ptr() not in {x.untyped_storage().data_ptr() for x in inputs}


@pytest.mark.parametrize("backend", ["pytorch", "simulator"])
def test_a_network_with_activations_in_place_learns_as_before(backend):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(8, 8), torch.nn.ReLU(inplace=True), torch.nn.Linear(8, 2), torch.nn.ELU(inplace=True)]
    model = torch.nn.Sequential(*layers)
    model(a).sum().backward()
    want = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    where, ours = block(backend)
    with where, ours:
        model(a).sum().backward()
    for mine, theirs in zip(model.parameters(), want, strict=True):
        assert torch.allclose(mine.grad, theirs, atol=1e-5)


@pytest.mark.parametrize("backend", ["pytorch", "simulator"])
@together(
    "code",
    [
        "torch.cholesky_solve(a, w)",
        "torch.cholesky_solve(a, w, upper=True)",
        "torch.cholesky_inverse(w)",
        "torch.cholesky_inverse(w, upper=True)",
        "torch.linalg.cholesky(w @ w.mT)",
        "torch.linalg.solve_triangular(w, a, upper=False)",
        "torch.linalg.eigvalsh(w)",
        "torch.linalg.det(w)",
    ],
)
def test_gradients_follow_torchs_conventions(code, backend):
    def gradient():
        w = (spd + a).requires_grad_()
        if "cholesky_" in code:
            w = (w.detach().triu() if "upper" in code else w.detach().tril()).requires_grad_()
        result = eval(code, globals(), {"w": w})
        return torch.autograd.grad((result * torch.arange(result.numel()).reshape(result.shape)).sum(), w)[0]

    want = gradient()
    where, ours = block(backend)
    with where, ours as seen:
        got = gradient()
    assert seen.substituted
    assert torch.allclose(got, want, rtol=1e-3, atol=1e-3 * float(want.abs().max()))


@pytest.mark.parametrize("driver", [None, "gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(8, 4), (4, 8), (6, 6)])
def test_least_squares_return_what_the_driver_returns(driver, shape):
    left, right = torch.randn(shape, dtype=torch.float64), torch.randn(shape[0], 2, dtype=torch.float64)
    want = torch.linalg.lstsq(left, right, driver=driver)
    with trnsci.drop_in(min_size=0) as seen:
        got = torch.linalg.lstsq(left, right, driver=driver)
    assert seen.substituted
    assert type(got) is type(want)
    for ours, theirs in zip(got, want, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        assert torch.allclose(ours, theirs)


def test_gradients_of_complex_upper_factors_are_those_of_torch():
    spd = torch.eye(3, dtype=torch.complex128) * 4 + torch.tensor([[0, 1j, 0], [-1j, 0, 1], [0, 1, 0]])
    gradients = []
    for block in (contextlib.nullcontext(), trnsci.drop_in(min_size=0)):
        a = spd.clone().requires_grad_()
        with block:
            torch.linalg.cholesky(a, upper=True).real.sum().backward()
        gradients.append(a.grad)
    assert torch.allclose(*gradients)


def test_singular_values_of_least_squares_have_no_gradient_as_in_torch():
    a, b = (torch.randn(2, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    with trnsci.drop_in(min_size=0) as seen:
        found = torch.linalg.lstsq(a, b, driver="gelss")
    assert seen.substituted
    assert found.solution.requires_grad
    assert not found.singular_values.requires_grad


@pytest.mark.parametrize("mode", ["complete", "r"])
def test_factors_without_a_gradient_have_the_error_of_torch(mode):
    def gradient():
        x = a[:, :3].clone().requires_grad_()
        with pytest.raises(RuntimeError) as caught:
            torch.linalg.qr(x, mode)[1].sum().backward()
        return type(caught.value), str(caught.value)

    want = gradient()
    with trnsci.drop_in(min_size=0) as seen:
        assert gradient() == want
        torch.linalg.qr(a, mode)
    assert seen.substituted["torch.linalg_qr", "trnsolver.qr"] == 1


def test_sampled_products_say_nothing_of_invariants():
    # torch warns once in a process
    source = (
        "import torch, warnings; a = torch.eye(3).to_sparse_csr(); import trnsci; warnings.simplefilter('error')\n"
        "with trnsci.drop_in(min_size=0) as seen: torch.sparse.sampled_addmm(a, torch.eye(3), torch.eye(3))\n"
        "assert seen.substituted"
    )
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("backend", ["auto", "simulator"])
@together(
    "name", PRODUCTS | VIEWS | OTHERS | {"attention of heads": None, "upper factor": None, "from the right": None}
)
def test_a_result_changed_in_place_has_the_right_gradient_or_an_error(name, backend):
    more = {
        "attention of heads": lambda a, b: functional.scaled_dot_product_attention(a[None], b[None], b[None]),
        "upper factor": lambda a, b: torch.linalg.cholesky(spd + a @ a.T, upper=True),
        "from the right": lambda a, b: torch.linalg.solve_triangular(factor, a, upper=False, left=False),
    }
    function = (PRODUCTS | VIEWS | OTHERS | more)[name]

    def gradient(change):
        x = a.clone().requires_grad_()
        return torch.autograd.grad((change(function(x, b)).abs() ** 2).sum(), x)[0]

    want = gradient(lambda result: result * 2)
    where, ours = block(backend)
    with where, ours, contextlib.suppress(RuntimeError):  # "modified by an inplace operation"
        got = gradient(lambda result: result.mul_(2))
        assert torch.allclose(got, want, rtol=1e-2, atol=1e-2 * float(want.abs().max()))


@together("dtype", [torch.float16, torch.bfloat16])
def test_torch_refuses_half_precision_where_it_has_none(dtype):
    x = torch.eye(4, dtype=dtype)
    with trnsci.drop_in(min_size=0) as seen:
        assert (x @ x).dtype == torch.linalg.matrix_exp(x).dtype == dtype
        for function in (torch.linalg.inv, torch.linalg.det, torch.linalg.cholesky, torch.linalg.qr, torch.fft.fft):
            with pytest.raises(RuntimeError):
                function(x)
        with pytest.raises(RuntimeError, match="size mismatch"):
            torch.addmv(torch.ones(3), torch.ones(2, 3), torch.ones(2))
    assert sum(seen.substituted.values()) == 2
