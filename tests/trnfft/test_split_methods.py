"""Everything a tensor can do, on planes: the same calls on torch's own complex tensor are the oracle."""

import copy
import io
import operator
import pickle

import numpy as np
import pytest
import torch

import trnfft
from tests.together import together
from trnfft import ComplexTensor
from trnfft.device.bounds import guaranteed_error
from trnsci import ArgumentError, DtypeError
from trnsci.testing import gaussian

F = torch.nn.functional
ROWS = torch.tensor([0, 2])
REAL = gaussian((3, 4), 3, torch.float64)
MASK = REAL > 0
WIDE = gaussian((4, 5), 4, torch.complex128)

METHODS = [
    *(("add", 1), ("sub", 2j), ("mul", REAL), ("div", 2), ("pow", 2), ("square",), ("reciprocal",), ("sgn",)),
    *((name,) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "log2", "log10", "rsqrt", "sigmoid")),
    *((name,) for name in ("exp", "log", "sqrt", "abs", "angle", "conj", "isnan", "isinf", "isfinite", "any", "all")),
    *(
        ("var",),
        ("std", 0),
        ("norm",),
        ("norm", 1, 0),
        ("norm", 2, 1, True),
        ("cumsum", 1),
        ("cumprod", 0),
        ("prod", 1),
    ),
    *(
        ("t",),
        ("adjoint",),
        ("movedim", 0, 1),
        ("swapaxes", 0, 1),
        ("ravel",),
        ("unflatten", 1, (2, 2)),
        ("view", -1, 2),
    ),
    *(("repeat", 2, 1), ("tile", (2, 1)), ("roll", 1), ("flip", 0), ("fliplr",), ("rot90",), ("narrow", 1, 1, 2)),
    *(("select", 0, 1), ("index_select", 1, ROWS), ("take", ROWS), ("masked_fill", MASK, 0), ("diagonal",), ("tril",)),
    *(("triu", 1), ("unfold", 1, 2, 1), ("gather", 1, torch.zeros(3, 1, dtype=torch.long)), ("count_nonzero",)),
    *(("mm", WIDE), ("matmul", WIDE), ("mv", WIDE[:, 0]), ("expand", 2, 3, 4), ("broadcast_to", (2, 3, 4))),
    *(
        ("chunk", 2),
        ("split", 2),
        ("unbind", 0),
        ("tensor_split", 2),
        ("tolist",),
        ("size",),
        ("numel",),
        ("nelement",),
    ),
    *(("element_size",), ("is_contiguous",), ("stride",), ("stride", 0), ("is_floating_point",), ("is_complex",)),
    *(("add_", 1j), ("mul_", 2), ("zero_",), ("fill_", 1 + 1j), ("copy_", REAL), ("exp_",)),
]

FUNCTIONS = {
    "sin": torch.sin,
    "real": torch.real,
    "imag": torch.imag,
    "view_as_real": torch.view_as_real,
    "add alpha": lambda z: torch.add(z, z, alpha=2),
    "einsum": lambda z: torch.einsum("ij,kj->ik", z, z),
    "zeros_like": torch.zeros_like,
    "where": lambda z: torch.where(MASK, z, z * 2),
    "norm": torch.linalg.norm,
    "norm dim": lambda z: torch.linalg.norm(z, dim=1),
    "vector_norm": torch.linalg.vector_norm,
    "solve": lambda z: torch.linalg.solve(z[:, :3], z),
    "svdvals": torch.linalg.svdvals,
    "qr": torch.linalg.qr,
    "fft": torch.fft.fft,
    "kron": lambda z: torch.kron(z, z),
    "vdot": lambda z: torch.vdot(z[0], z[1]),
    "outer": lambda z: torch.outer(z[0], z[1]),
    "pad": lambda z: F.pad(z, (1, 1)),
    "roll": lambda z: torch.roll(z, 1, 0),
    "split": lambda z: torch.split(z, 2),
    "cat": lambda z: torch.cat([z, REAL], 1),
    "equal": lambda z: torch.equal(z, z),
    "isclose": lambda z: torch.isclose(z, z),
    "rpow": lambda z: 2**z,
    "iteration": list,
    "augmented": lambda z: operator.iadd(z.clone(), 1),
    "fancy index": lambda z: z[[0, 2]],
    "mask": lambda z: z[MASK],
    "deepcopy": copy.deepcopy,
    "pickle": lambda z: pickle.loads(pickle.dumps(z)),
}


def pair():
    x = gaussian((3, 4), 1, torch.complex128)
    return ComplexTensor(x.real.clone(), x.imag.clone()), x


def same(found, expected):
    if isinstance(expected, torch.Tensor):
        if expected.is_complex():
            assert isinstance(found, ComplexTensor)
            found = found.to_torch()
        torch.testing.assert_close(found, expected.resolve_conj(), rtol=1e-12, atol=1e-12)
    elif isinstance(expected, tuple | list) and any(isinstance(item, torch.Tensor) for item in expected):
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    else:
        assert found == expected


@together("call", METHODS)
def test_methods_are_those_of_tensors(call):
    name, *arguments = call
    z, x = pair()
    same(getattr(z, name)(*arguments), getattr(x, name)(*arguments))
    if name.endswith("_"):
        same(z, x)


@together("function", FUNCTIONS.values())
def test_functions_are_those_of_torch(function):
    z, x = pair()
    same(function(z), function(x))


def test_operands_of_either_kind_mix():
    z, x = pair()
    same(torch.where(MASK, z, x), torch.where(MASK, x, x))
    same(z.isclose(x), x.isclose(x))
    same(torch.stack([x, z]), torch.stack([x, x]))


def test_gradients_go_through_torch():
    z, x = pair()
    z.requires_grad_()
    x.requires_grad_()
    z.tanh().abs().sum().backward()
    x.tanh().abs().sum().backward()
    same(z.grad, x.grad)


def test_half_planes_stay_half():
    z, x = pair()
    half = z.to(torch.bfloat16)
    assert half.sin().dtype == torch.bfloat16
    exact = torch.sin(half.to_torch())
    # rounded once more, to 8 bits
    assert (half.sin().to_torch() - exact).abs().max() <= 2.0**-8 * exact.abs().max()
    assert x.dtype == torch.complex128


def test_a_complex_dtype_stands_for_that_of_its_parts():
    z, x = pair()
    assert z.to(torch.complex64).dtype == torch.float32
    assert z.to(dtype=torch.complex128).dtype == torch.float64
    assert z.to("cpu", torch.float32).dtype == z.cfloat().dtype == z.float().dtype == torch.float32
    assert z.cfloat().to(z).dtype == z.cfloat().cdouble().dtype == torch.float64
    with pytest.raises(DtypeError) as caught:
        z.to(torch.int32)
    assert caught.value.got == torch.int32
    assert "complex or floating-point" in str(caught.value)
    assert x.dtype == torch.complex128


def test_saved_and_loaded():
    z, x = pair()
    file = io.BytesIO()
    torch.save(z, file)
    file.seek(0)
    same(torch.load(file, weights_only=False), x)


def test_what_planes_cannot_do_is_said():
    z, _ = pair()
    for name in ("data_ptr", "untyped_storage", "resize_", "__dlpack__", "no_such_method"):
        assert not hasattr(z, name)
        with pytest.raises(AttributeError, match=r"a ComplexTensor has no .*; its planes are \.real and \.imag"):
            getattr(z, name)
    with pytest.raises(ArgumentError) as caught:
        torch.kron(z, z, out=z)
    assert (caught.value.argument, caught.value.got) == ("out", "planes")
    assert "copy_" in str(caught.value)


def test_planes_in_device_memory_are_not_joined_behind_the_back(monkeypatch):
    z, _ = pair()
    monkeypatch.setattr("trnfft.split_methods.is_resident", lambda plane: True)
    with pytest.raises(DtypeError) as caught:
        torch.kron(z, z)
    assert caught.value.got == "planes in device memory"
    assert "from_device()" in str(caught.value)
    # what is done to each plane needs no complex numbers
    assert z.roll(1).shape == (3, 4)


@pytest.mark.grid(1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "shape", [(4096,), (64, 64), (5, 1009), (3, 2048), (2, 3, 331), (2, 40, 60), (70000,), (3, 2, 2050)]
)
def test_transforms_read_planes_as_they_are(dtype, shape):
    # every library that may be called keeps this; the oracle has an error of its own
    policies = ("fp32" if dtype == torch.float32 else "fp64", "fp64")
    bound = sum(guaranteed_error("pytorch", [2 * n for n in shape], 1, 1, policy) for policy in policies)
    re, im = gaussian(shape, 1, dtype), gaussian(shape, 2, dtype)
    z = ComplexTensor(re, im)
    wide = re.double().numpy() + 1j * im.double().numpy()
    for axis in range(len(shape)):
        for name in ("fft", "ifft", "irfft", "hfft"):
            exact = getattr(np.fft, name)(wide, axis=axis)
            found = np.asarray(getattr(trnfft, name)(z, axis=axis))
            assert found.shape == exact.shape
            assert np.linalg.norm(found - exact) <= bound * np.linalg.norm(exact)
    for name in ("fftn", "ifftn", "irfftn"):
        exact = getattr(np.fft, name)(wide, axes=range(len(shape)))
        found = np.asarray(getattr(trnfft, name)(z))
        assert np.linalg.norm(found - exact) <= bound * np.linalg.norm(exact)


def test_both_planes_may_be_one():
    x = gaussian((3, 2048), 1, torch.float64)
    found = trnfft.fft(ComplexTensor(x, x))
    exact = np.fft.fft(x.numpy() * (1 + 1j))
    bound = 2 * guaranteed_error("pytorch", [2048], 1, 1, "fp64")
    assert np.linalg.norm(np.asarray(found) - exact) <= bound * np.linalg.norm(exact)
