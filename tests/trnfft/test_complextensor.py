"""`ComplexTensor` and the layers on it, against torch's complex tensors."""

import operator

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from tests.together import together
from trnfft import ComplexTensor, nn
from trnsci import ArgumentError, DtypeError
from trnsci.testing import gaussian

F64, C128 = torch.float64, torch.complex128


def made(shape=(3, 4), seed=1):
    z = gaussian(shape, seed, C128)
    return ComplexTensor(z.real.clone(), z.imag.clone()), z


def same(got, expected, bound=1e-14):
    got = got.to_torch() if isinstance(got, ComplexTensor) else got
    assert got.shape == expected.shape
    assert torch.allclose(got, expected, rtol=bound, atol=bound)


@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul, operator.truediv], ids=lambda op: op.__name__)
def test_arithmetic_with_everything(op):
    a, x = made()
    others = [made(seed=2), (2.5, 2.5), (1 - 2j, 1 - 2j), (3, 3)]
    others += [(t, t) for t in (gaussian((4,), 3, F64), gaussian((3, 1), 4, C128), gaussian((2, 1, 4), 5, F64))]
    others += [(np.float64(2.0), 2.0), (gaussian((4,), 3, F64).numpy(), gaussian((4,), 3, F64))]
    for b, y in others:
        same(op(a, b), op(x, y))
        if not isinstance(b, np.ndarray):
            same(op(b, a), op(y, x))


def test_matrix_products():
    a, x = made((2, 3, 4))
    b, y = made((4, 5), 2)
    same(a @ b, x @ y)
    same(a @ y.real, x @ y.real.to(C128))
    same(torch.matmul(a, b), torch.matmul(x, y))


@together(
    "name", ["conj", "exp", "log", "sqrt", "abs", "angle", "sum", "mean", "prod", "norm", "flatten", "clone", "detach"]
)
def test_functions(name):
    a, x = made()
    expected = torch.linalg.vector_norm(x) if name == "norm" else getattr(x, name)()
    same(getattr(a, name)(), expected.resolve_conj(), 1e-12)
    if hasattr(torch, name) and name not in ("norm",):
        same(getattr(torch, name)(a), expected.resolve_conj(), 1e-12)


def test_powers():
    a, x = made()
    same(a**2, x**2, 1e-12)
    same(a**-1.5, x**-1.5, 1e-12)


def test_reductions_over_dimensions():
    a, x = made((2, 3, 4))
    same(a.sum(1), x.sum(1))
    same(a.sum((0, 2), keepdim=True), x.sum((0, 2), keepdim=True))
    same(a.mean(-1), x.mean(-1))
    same(a.prod(1), x.prod(1), 1e-12)


def test_views():
    a, x = made((2, 3, 4))
    for got, expected in [
        (a[0], x[0]), (a[..., 1:3], x[..., 1:3]), (a[:, [0, 2]], x[:, [0, 2]]), (a[x.real > 0], x[x.real > 0]),
        (a.reshape(6, 4), x.reshape(6, 4)), (a.view(-1), x.view(-1)), (a.transpose(0, 1), x.transpose(0, 1)),
        (a.permute(2, 0, 1), x.permute(2, 0, 1)), (a.unsqueeze(0), x.unsqueeze(0)), (a.unsqueeze(0).squeeze(0), x),
        (a[:, :1].expand(2, 5, 4), x[:, :1].expand(2, 5, 4)), (a.mT, x.mT), (a.mH, x.mH.resolve_conj()),
        (torch.cat([a, a], 1), torch.cat([x, x], 1)), (torch.stack([a, a]), torch.stack([x, x])),
        (a[0].H, x[0].H.resolve_conj()), (a[0].T, x[0].T),
    ]:  # fmt: skip
        same(got, expected)


def test_assignment():
    a, x = made()
    a[0] = 1 + 2j
    x[0] = 1 + 2j
    a[:, 1] = a[:, 2]
    x[:, 1] = x[:, 2]
    same(a, x)


def test_what_it_says_of_itself():
    a, x = made()
    assert (a.shape, a.ndim, a.numel(), len(a), a.size(1), a.dim()) == (x.shape, 2, 12, 3, 4, 2)
    assert a.dtype == F64
    assert a.is_complex()
    assert "ComplexTensor" in repr(a)
    assert complex(a[0, 0].sum()) == complex(x[0, 0])
    assert a[0, 0].tolist() == x[0, 0].tolist()
    assert bool((a == a).all())
    assert not bool((a != a).any())
    assert (a == None, a != None, a == "a", a in ["a"]) == (x == None, x != None, x == "a", False)  # noqa: E711
    assert a.allclose(x)
    # by identity, as tensors
    assert len({a, a, a.clone()}) == 2


def test_conversions():
    a, x = made()
    same(ComplexTensor(x), x)
    same(ComplexTensor(x.conj()), x.conj().resolve_conj())
    same(ComplexTensor(x.numpy()), x)
    assert np.array_equal(np.asarray(a), x.numpy())
    assert np.array_equal(a.numpy(), x.numpy())
    assert a.to(torch.float32).dtype == torch.float32
    assert a.to(torch.bfloat16).to_torch().dtype == torch.complex64
    same(ComplexTensor.polar(x.abs(), x.angle()), x, 1e-12)
    same(ComplexTensor(x.real), x.real.to(C128))


def test_planes_of_interleaved_memory_are_joined_without_a_copy():
    x = gaussian((3, 4), 1, C128)
    assert ComplexTensor(x).to_torch().data_ptr() == x.data_ptr()
    # One element further, the planes are not the halves of a number.
    line = gaussian((9,), 2, F64)
    same(ComplexTensor(line[1:7:2], line[2:8:2]), torch.complex(line[1:7:2], line[2:8:2]))


@given(st.integers(0, 1000))
def test_gradients_are_those_of_torch(seed):
    x = gaussian((4,), seed, C128).requires_grad_()
    a = ComplexTensor(x.detach().real.clone(), x.detach().imag.clone()).requires_grad_()
    ((x * x.conj() + 2 * x) / (x + 3)).abs().sum().backward()
    ((a * a.conj() + 2 * a) / (a + 3)).abs().sum().backward()
    same(a.grad, x.grad, 1e-10)
    assert a.requires_grad
    assert not a.detach().requires_grad


def test_backward_takes_a_complex_gradient():
    a, x = made()
    a, x = a.requires_grad_(), x.requires_grad_()
    g, h = made(seed=3)
    assert a.grad is None
    (a * a).backward(g)
    (x * x).backward(h)
    same(a.grad, x.grad)
    with pytest.raises(ArgumentError, match="no default"):
        (a * a).backward()


@together(
    ("call", "error", "words"),
    [
        (lambda: ComplexTensor(torch.ones(3), torch.ones(4)), ArgumentError, "(4,)"),
        (lambda: ComplexTensor(torch.ones(3), torch.ones(3, dtype=F64)), DtypeError, "float64"),
        (lambda: ComplexTensor(torch.ones(3, dtype=torch.int32)), DtypeError, "int32"),
        (lambda: ComplexTensor(torch.ones(3, dtype=C128), torch.ones(3)), ArgumentError, "imag"),
        (lambda: ComplexTensor([1, 2]), DtypeError, "a tensor"),
        (lambda: ComplexTensor(torch.ones(3)) + "x", DtypeError, "a number or a tensor"),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


# Layers


def test_linear_is_a_complex_product():
    layer = nn.ComplexLinear(4, 3, dtype=F64)
    torch.nn.init.normal_(layer.bias_real)
    a, x = made((5, 4))
    bias = torch.complex(layer.bias_real, layer.bias_imag)
    expected = x @ layer.weight.to_torch().T + bias
    same(layer(a), expected)
    assert torch.allclose(layer(x), expected)
    assert nn.ComplexLinear(4, 3, bias=False).bias_real is None
    with pytest.raises(ArgumentError) as caught:
        layer(a[:, :3])
    assert caught.value.got == {"z": 3, "layer": 4}


@together("options", [{}, {"stride": 2, "padding": 1}, {"dilation": 2}, {"groups": 2}, {"padding": "same"}])
def test_conv_is_a_complex_convolution(options):
    layer = nn.ComplexConv1d(4, 6, 3, dtype=F64, **options)
    a, x = made((2, 4, 11))
    weight = torch.complex(layer.weight_real, layer.weight_imag)
    bias = torch.complex(layer.bias_real, layer.bias_imag)
    same(layer(a), torch.nn.functional.conv1d(x, weight, bias, **options), 1e-12)
    same(layer(a[0]), torch.nn.functional.conv1d(x[0], weight, bias, **options), 1e-12)
    with pytest.raises(ArgumentError, match="4"):
        layer(a[:, :3])
    with pytest.raises(ArgumentError, match="divisor"):
        nn.ComplexConv1d(3, 4, 1, groups=2)


@pytest.mark.parametrize("shape", [(50, 3), (20, 3, 7)], ids=str)
def test_batch_norm_whitens(shape):
    x = gaussian(shape, 1, F64)
    z = ComplexTensor(3 * x + 1, 2 * x + gaussian(shape, 2, F64) - 4)
    layer = nn.ComplexBatchNorm1d(3, eps=0.0, dtype=F64)
    white = layer(z)
    over = [d for d in range(z.ndim) if d != 1]
    half = torch.full((3,), 0.5, dtype=F64)
    assert torch.allclose(white.real.mean(over), torch.zeros(3, dtype=F64), atol=1e-12)
    assert torch.allclose(white.real.square().mean(over), half)
    assert torch.allclose(white.imag.square().mean(over), half)
    assert torch.allclose((white.real * white.imag).mean(over), 0 * half, atol=1e-12)


def test_batch_norm_runs_on_what_it_learned():
    layer = nn.ComplexBatchNorm1d(3, momentum=None, dtype=F64)
    z = ComplexTensor(gaussian((400, 3), 1, F64) + 1, 2 * gaussian((400, 3), 2, F64))
    layer(z)
    assert int(layer.num_batches_tracked) == 1
    mean = torch.stack((z.real.mean(0), z.imag.mean(0)))
    assert torch.allclose(layer.running_mean, mean)
    assert torch.allclose(layer.running_cov[0], z.real.var(0))
    layer.eval()
    # Statistics of a population and of a sample differ by 1 in 400.
    trained = nn.ComplexBatchNorm1d(3, dtype=F64)(z)
    assert torch.allclose(layer(z).to_torch(), trained.to_torch(), rtol=2e-3, atol=1e-3)
    with pytest.raises(ArgumentError, match="more than 1 value"):
        nn.ComplexBatchNorm1d(3)(z[:1].to(torch.float32))
    with pytest.raises(ArgumentError, match="3"):
        layer(z[:, :2])


def test_batch_norm_is_differentiable():
    layer = nn.ComplexBatchNorm1d(2, dtype=F64)

    def run(re, im):
        out = layer(ComplexTensor(re, im))
        return out.real, out.imag

    assert torch.autograd.gradcheck(
        run, (gaussian((6, 2), 1, F64).requires_grad_(), gaussian((6, 2), 2, F64).requires_grad_())
    )


def test_modrelu_shrinks_magnitudes_and_keeps_phases():
    layer = nn.ModReLU(3, dtype=F64)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([-0.5, 0.0, 0.5]))
    a, x = made((6, 3))
    a[0, 0] = 0.0
    x[0, 0] = 0.0
    expected = torch.polar(torch.relu(x.abs() + layer.bias), x.angle())
    expected[0, 0] = 0.0
    same(layer(a), expected.detach(), 1e-12)
    assert torch.allclose(layer(x), expected)
    # The corner at 0 has a gradient, and it is finite.
    a = a.detach().requires_grad_()
    layer(a).abs().sum().backward()
    assert bool(torch.isfinite(a.grad.to_torch().abs()).all())
    with pytest.raises(ArgumentError, match="3"):
        layer(made((2, 2))[0])
    with pytest.raises(DtypeError, match="complex"):
        layer(torch.ones(2, 3))
