import numpy as np
import pytest
import torch

import trnsci
from trnsci import ArgumentError, DtypeError, UnsupportedError
from trnsci.testing import BACKENDS, assert_within, gamma, gaussian
from trntensor import ao_to_mo_transform
from trntensor.contraction import peak_allocation

F32, F64 = torch.float32, torch.float64
on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)

CASES = [
    (1, 1, 1, 1),
    (5, 7, 2, 3),
    (127, 3, 2, 129),
    (130, 129, 3, 5),
    (20, 300, 5, 4),
    (260, 2, 3, 2),
    (3, 4, 600, 2),
]


def inputs(nao, naux, nocc, nvir, dtype=F32):
    return gaussian((nao, nao, naux), 1, dtype), gaussian((nao, nocc), 2, dtype), gaussian((nao, nvir), 3, dtype)


def oracle(eri, left, right):
    wide = [x.detach().to(torch.complex128 if x.is_complex() else F64).numpy() for x in (eri, left, right)]
    if eri.ndim == 3:
        return torch.from_numpy(np.einsum("mnx,mi,na->iax", *wide, optimize=True))
    e, i, a = wide
    return torch.from_numpy(np.einsum("mnls,mi,na,lj,sb->iajb", e, i, a, i, a, optimize=True))


def bound(eri, left, right, dtype, times=1):
    return gamma(times * (2 * eri.shape[0] + 4), dtype) * oracle(eri.abs(), left.abs(), right.abs())


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("shape", CASES)
def test_three_indices_agree_with_numpy(backend, shape):
    args = inputs(*shape)
    with backend:
        got = ao_to_mo_transform(*args)
    assert_within(got, oracle(*args), bound(*args, F32))


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize(("nao", "nocc", "nvir"), [(1, 1, 1), (6, 2, 3), (9, 4, 5)])
def test_four_indices_agree_with_numpy(backend, nao, nocc, nvir):
    eri = gaussian((nao,) * 4, 1)
    left, right = gaussian((nao, nocc), 2), gaussian((nao, nvir), 3)
    with backend:
        got = ao_to_mo_transform(eri, left, right)
    assert_within(got, oracle(eri, left, right), bound(eri, left, right, F32, 2))


@pytest.mark.parametrize("dtype", [F64, torch.complex128, torch.complex64], ids=str)
def test_other_dtypes_run_on_pytorch(dtype):
    args = inputs(6, 5, 2, 3, dtype)
    assert_within(ao_to_mo_transform(*args), oracle(*args), 8 * bound(*args, dtype))


def test_gradients_are_right():
    args = [x.requires_grad_() for x in inputs(4, 3, 2, 3, F64)]
    assert torch.autograd.gradcheck(ao_to_mo_transform, args)
    four = [gaussian((3, 3, 3, 3), 1, F64).requires_grad_(), *(x.requires_grad_() for x in inputs(3, 1, 2, 2, F64)[1:])]
    assert torch.autograd.gradcheck(ao_to_mo_transform, four)


@pytest.mark.sim
def test_gradients_flow_through_the_kernel():
    args = [x.requires_grad_() for x in inputs(6, 5, 2, 3)]
    with trnsci.backend("simulator"):
        ao_to_mo_transform(*args).square().sum().backward()
    wide = [x.detach().double().requires_grad_() for x in args]
    ao_to_mo_transform(*wide).square().sum().backward()
    # Gradients at absolute values, where nothing cancels; sums of 6, 6, then of 2, 3 and 5 orbitals, six times over.
    sizes = [x.detach().abs().double().requires_grad_() for x in args]
    ao_to_mo_transform(*sizes).square().sum().backward()
    for x, y, size in zip(args, wide, sizes, strict=True):
        assert_within(x.grad, y.grad, gamma(12 + 30 * 6 + 8, F32) * size.grad)


def test_the_operator_is_sound_and_compiles():
    args = inputs(4, 3, 2, 3, F64)
    torch.library.opcheck(torch.ops.trntensor.ao_to_mo_transform.default, args)
    fast = torch.compile(ao_to_mo_transform, backend="aot_eager")
    size = ao_to_mo_transform(*(x.abs() for x in args))
    assert_within(fast(*args), ao_to_mo_transform(*args), 2 * gamma(2 * 4 + 4, F64) * size)


def test_half_transformed_integrals_exist_in_blocks(monkeypatch):
    from trntensor import ao_to_mo_transform as function
    from trntensor.ao_to_mo_transform import _width

    args = inputs(16, 64, 4, 5)
    monkeypatch.setitem(_width.__globals__, "_BLOCK_BYTES", 4 * 16 * 4 * 8)
    result = 4 * 5 * 64 * 4
    used = peak_allocation(lambda: function(*args))
    # Blocks of eight columns, one beside the next: a copy of the integrals, the half-transformed ones, the product.
    assert used <= result + 2 * 4 * 8 * (16 * 16 + 4 * 16 + 4 * 5) + 1000
    assert_within(function(*args), oracle(*args), bound(*args, F32))


def test_empty_inputs_and_numpy():
    assert ao_to_mo_transform(torch.ones(2, 2, 0), torch.ones(2, 1), torch.ones(2, 3)).shape == (1, 3, 0)
    assert ao_to_mo_transform(torch.ones(0, 0, 2), torch.ones(0, 1), torch.ones(0, 3)).eq(0).all()
    args = inputs(3, 2, 1, 2, F64)
    assert isinstance(ao_to_mo_transform(*(x.numpy() for x in args)), np.ndarray)


def test_mistakes_are_named():
    eri, left, right = inputs(4, 3, 2, 3)
    with pytest.raises(ArgumentError) as caught:
        ao_to_mo_transform(eri, left[:3], right)
    assert caught.value.got == {"eri": 4, "C_occ": 3}
    with pytest.raises(ArgumentError) as caught:
        ao_to_mo_transform(eri, left, right[:3])
    assert caught.value.got == {"eri": 4, "C_vir": 3}
    with pytest.raises(ArgumentError, match="naux"):
        ao_to_mo_transform(eri[0], left, right)
    with pytest.raises(ArgumentError, match="two axes"):
        ao_to_mo_transform(eri, left[0], right)
    with pytest.raises(DtypeError):
        ao_to_mo_transform(eri, left.double(), right)
    with trnsci.backend("simulator"), pytest.raises(UnsupportedError, match="float64"):
        ao_to_mo_transform(eri.double(), left.double(), right.double())
    with trnsci.backend("simulator"), pytest.raises(UnsupportedError, match="bytes"):
        ao_to_mo_transform(torch.ones(2, 2, 1), torch.ones(2, 7000), torch.ones(2, 1))
