import sys

import numpy as np
import pytest
import torch

import trnsci
from tests.together import together
from trnsci import ArgumentError, DtypeError, UnsupportedError
from trnsci.testing import BACKENDS, assert_within, gamma, gaussian, pairs
from trntensor import MP2Energy, ao_to_mo_transform, from_xla, mp2_energy, to_xla
from trntensor.mp2_energy import mp2_blocks

F32, F64 = torch.float32, torch.float64
on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)

CASES = [(1, 1, 1), (3, 5, 7), (2, 127, 128), (2, 129, 130), (4, 20, 300), (5, 19, 72)]
# Two column blocks of virtual orbitals, and more auxiliary functions than stay in SBUF at once.
WIDE = [(2, 520, 40), (1, 400, 7300)]


def inputs(nocc, nvir, naux, dtype=F32):
    B = gaussian((nocc, nvir, naux), 1, dtype) / naux**0.5
    occ = -torch.linspace(0.5, 2.0, nocc, dtype=dtype)
    vir = torch.linspace(0.1, 3.0, nvir, dtype=dtype)
    return B, occ, vir


def oracle(B, occ, vir):
    """Energies, and the sum of absolute values behind each, by NumPy over all pairs in float64."""
    B, occ, vir = (x.detach().double().numpy() for x in (B, occ, vir))
    totals = np.zeros(4)
    for i in range(B.shape[0]):
        T = np.einsum("ap,jbp->jab", B[i], B, optimize=True)
        size = np.einsum("ap,jbp->jab", abs(B[i]), abs(B), optimize=True)
        D = occ[i] + occ[:, None, None] - vir[:, None] - vir
        swapped = T.swapaxes(1, 2)
        totals += ((T * T / D).sum(), (T * (T - swapped) / D).sum(), *(2 * [(size * size / -D).sum()]))
    return totals[0], totals[1], totals[2]


def bound(size, B, dtype):
    # Three roundings of each integral's sum, one per operation of the epilogue, and a sum in blocks of rows.
    terms = 3 * B.shape[2] + 12 + B.shape[1] + B.shape[0] ** 2
    return 6 * gamma(terms, dtype) * size


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (2, 20, 130)])
def test_float64_is_float64_on_every_backend(backend, shape):
    args = inputs(*shape, F64)
    os, ss, size = oracle(*args)
    limit = bound(size, args[0], F64)
    with backend, trnsci.ledger() as book:
        parts = mp2_energy(*args, parts=True)
    assert {entry.step.backend for entry in book} == {backend.name}
    assert parts.total.dtype == F64
    assert_within(parts.opposite_spin, os, limit)
    assert_within(parts.same_spin, ss, limit)


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("shape", CASES)
def test_energy_and_spin_parts_agree_with_numpy(backend, shape):
    args = inputs(*shape)
    os, ss, size = oracle(*args)
    with backend:
        total = mp2_energy(*args)
        parts = mp2_energy(*args, parts=True)
    limit = bound(size, args[0], F32)
    assert isinstance(parts, MP2Energy)
    assert_within(total, os + ss, limit)
    assert_within(parts.total, os + ss, limit)
    assert_within(parts.opposite_spin, os, limit)
    assert_within(parts.same_spin, ss, limit)


@pytest.fixture(params=["host", "pytorch"])
def host_path(request, monkeypatch):
    module, threads = sys.modules["trntensor.mp2_energy"], torch.get_num_threads()
    if request.param == "pytorch":
        monkeypatch.setattr(module, "loop_over_block", lambda: None)
    elif module.loop_over_block() is None:
        pytest.skip("the extension module was not built")
    # with many threads torch is faster
    torch.set_num_threads(1)
    yield request.param
    torch.set_num_threads(threads)


@together(("dtype", "shape"), pairs([F32, F64, torch.bfloat16], [*CASES, (7, 33, 20), (2, 200, 70)]))
def test_every_way_of_the_host(host_path, dtype, shape):
    args = tuple(x.to(dtype) for x in inputs(*shape, F64))
    os, ss, size = oracle(*args)
    with trnsci.ledger() as book:
        parts = mp2_energy(*args, parts=True)
    assert [entry.step.implementation for entry in book] == [host_path]
    work = F32 if dtype is torch.bfloat16 else dtype
    # A result in half precision is rounded once more, and so is each of its parts before they are added.
    limit = bound(size, args[0], work) + (4 * 2.0**-8 * size if dtype is torch.bfloat16 else 0.0)
    assert parts.total.dtype == dtype
    assert_within(parts.opposite_spin, os, limit)
    assert_within(parts.same_spin, ss, limit)


@pytest.mark.sim
@pytest.mark.parametrize("shape", WIDE)
def test_any_size_is_tiled(shape):
    args = inputs(*shape)
    os, ss, size = oracle(*args)
    with trnsci.backend("simulator"):
        parts = mp2_energy(*args, parts=True)
    assert_within(parts.opposite_spin, os, bound(size, args[0], F32))
    assert_within(parts.same_spin, ss, bound(size, args[0], F32))


@pytest.mark.parametrize("dtype", [F64, torch.bfloat16, torch.float16], ids=str)
def test_other_dtypes_run_on_pytorch(dtype):
    args = inputs(4, 6, 9, dtype)
    os, ss, size = oracle(*args)
    got = mp2_energy(*args)
    assert got.dtype == dtype
    arithmetic = F64 if dtype == F64 else F32
    assert_within(got, os + ss, bound(size, args[0], arithmetic) + (0 if dtype == F64 else size * gamma(2, dtype)))


def test_pyscf_finds_the_same_correlation_energy():
    from pyscf import gto, scf
    from pyscf.mp import dfmp2

    molecule = gto.M(atom="O 0 0 0; H 0 0.757 0.587; H 0 -0.757 0.587", basis="cc-pvdz", verbose=0)
    field = scf.RHF(molecule).density_fit().run()
    solver = dfmp2.DFMP2(field)
    expected = solver.kernel(with_t2=False)[0]
    nocc = molecule.nelectron // 2
    coefficients = torch.from_numpy(field.mo_coeff)
    packed = np.concatenate(list(solver.with_df.loop()))  # [naux, nao (nao + 1) / 2]
    from pyscf import lib

    eri = torch.from_numpy(lib.unpack_tril(packed).transpose(1, 2, 0).copy())
    B = ao_to_mo_transform(eri, coefficients[:, :nocc].contiguous(), coefficients[:, nocc:].contiguous())
    energies = torch.from_numpy(field.mo_energy)
    got = mp2_energy(B, energies[:nocc], energies[nocc:])
    assert abs(float(got) - expected) < 1e-9


def test_the_gradient_is_right_twice():
    B, occ, vir = (x.requires_grad_() for x in inputs(3, 4, 5, F64))
    assert torch.autograd.gradcheck(lambda *x: tuple(mp2_energy(*x, parts=True)), (B, occ, vir))
    assert torch.autograd.gradgradcheck(mp2_energy, (B, occ, vir))
    # two sets that differ, of one spin and of two
    between = torch.ops.trntensor.mp2_between.default
    other, high = (x.detach().requires_grad_() for x in (B.flip(0) + 0.5, vir.flip(0) + 0.3))
    apart = (B, other, occ, (occ - 0.2).detach().requires_grad_(), vir)
    assert torch.autograd.gradcheck(lambda *x: between(*x, None), apart)
    assert torch.autograd.gradcheck(lambda *x: between(*x)[0], (*apart, high))


@pytest.mark.sim
def test_the_gradient_flows_through_the_kernel():
    B, occ, vir = (x.requires_grad_() for x in inputs(3, 10, 20))
    with trnsci.backend("simulator"):
        mp2_energy(B, occ, vir).backward()
    wide = [x.detach().double().requires_grad_() for x in (B, occ, vir)]
    mp2_energy(*wide).backward()
    # Opposite-spin energies of |B| bound every term; each gradient is a sum over pairs, orbitals and fitting functions.
    sizes = [x.detach().abs().double() for x in (B, occ, vir)]
    sizes = [sizes[0].requires_grad_(), (-sizes[1]).requires_grad_(), sizes[2].requires_grad_()]
    (3 * mp2_energy(*sizes, parts=True).opposite_spin).backward()
    for x, y, size in zip((B, occ, vir), wide, sizes, strict=True):
        assert_within(x.grad, y.grad, 2 * gamma(20 + 10 + 3 * 10 + 20, F32) * size.grad.abs())


def test_the_operator_is_sound_and_compiles():
    args = inputs(2, 3, 4, F64)
    torch.library.opcheck(torch.ops.trntensor.mp2_energy.default, args)
    fast = torch.compile(lambda *x: mp2_energy(*x) * 2, backend="aot_eager")
    assert_within(fast(*args), 2 * mp2_energy(*args), 2 * bound(oracle(*args)[2], args[0], F64))


def test_numpy_in_and_empty_inputs():
    args = inputs(2, 3, 4, F64)
    got = mp2_energy(*(x.numpy() for x in args))
    assert abs(float(got) - float(mp2_energy(*args))) == 0
    assert mp2_energy(torch.ones(0, 3, 4), torch.ones(0), torch.ones(3)) == 0
    assert mp2_energy(torch.ones(2, 0, 4), torch.ones(2), torch.ones(0)) == 0


def test_memory_is_a_few_blocks_not_all_integrals():
    from trntensor.contraction import peak_allocation

    nocc, nvir, naux = 12, 40, 60
    args = inputs(nocc, nvir, naux)
    used = peak_allocation(lambda: mp2_energy(*args))
    assert used <= 4 * (8 * nvir * max(naux, nvir) + 1000)
    assert used < 4 * nocc**2 * nvir**2 / 10


def test_a_pipeline_moves_its_inputs_once_and_one_scalar_back():
    nao, nocc, nvir, naux = 9, 2, 5, 11
    eri = gaussian((nao, nao, naux), 1)
    left, right = gaussian((nao, nocc), 2), gaussian((nao, nvir), 3)
    _, occ, vir = inputs(nocc, nvir, naux)
    inside = [eri, left, right, occ, vir]
    with trnsci.backend("simulator"), trnsci.ledger() as book:
        moved = [to_xla(x) for x in inside]
        B = ao_to_mo_transform(*moved[:3])
        energy = from_xla(mp2_energy(B, *moved[3:]))
    assert trnsci.is_resident(B)
    assert book.bytes_to_device == sum(x.nbytes for x in inside)
    assert book.bytes_from_device == 4
    os, ss, _ = oracle(np_transform(eri, left, right), occ, vir)
    # The energy of integrals whose absolute values bound those computed, with the roundings of both steps.
    B_size = np_transform(eri.abs(), left.abs(), right.abs())
    assert_within(
        energy,
        os + ss,
        2 * gamma(2 * (2 * nao + 4) + 3 * naux + nvir + nocc**2 + 12, F32) * 3 * oracle(B_size, occ, vir)[2],
    )


def np_transform(eri, left, right):
    return torch.from_numpy(np.einsum("mnp,mi,na->iap", eri.double(), left.double(), right.double(), optimize=True))


def test_results_repeat_bit_for_bit():
    args = inputs(4, 30, 50)
    assert mp2_energy(*args).equal(mp2_energy(*args))


def test_mistakes_are_named():
    B, occ, vir = inputs(2, 3, 4)
    with pytest.raises(ArgumentError) as caught:
        mp2_energy(B, vir, occ)
    assert caught.value.got == {"B": 2, "eps_occ": 3}
    with pytest.raises(ArgumentError, match="below the lowest of eps_vir"):
        mp2_energy(B, occ + 10, vir)
    with pytest.raises(ArgumentError, match="nocc, nvir, naux"):
        mp2_energy(B[0], occ, vir)
    with pytest.raises(ArgumentError, match="one axis"):
        mp2_energy(B, occ[None], vir)
    with pytest.raises(DtypeError, match="real"):
        mp2_energy(B + 0j, occ + 0j, vir + 0j)
    with pytest.raises(DtypeError, match="nothing is promoted"):
        mp2_energy(B, occ.double(), vir)
    with trnsci.backend("simulator"), pytest.raises(UnsupportedError, match="takes float32, and float64 in slices"):
        mp2_energy(*inputs(2, 3, 4, torch.bfloat16))


@pytest.mark.parametrize("orbitals", [1, 2])
def test_blocks_brought_to_a_device_give_the_same_energy(orbitals):
    B, occ, vir = gaussian((7, 9, 11), 1, torch.float64), -torch.linspace(0.5, 2, 7).double(), torch.linspace(0.1, 3, 9)
    whole = mp2_energy(B, occ, vir.double(), parts=True)
    cpu = torch.device("cpu")
    chosen = [mp2_blocks(7, 9, 11, dtype=torch.float64, device=cpu, memory=memory) for memory in (None, 1 << 30)]
    assert {each.rows for each in chosen} == {7}
    # two blocks of so many orbitals, their products and the energies
    memory = 2 * orbitals * 9 * 11 * 8 + 3 * 81 * 8 * orbitals + (1 << 16) + 128
    assert mp2_blocks(7, 9, 11, dtype=torch.float64, device=cpu, memory=memory).rows < 7
    parts = mp2_energy(B, occ, vir.double(), parts=True, device="cpu", memory=memory)
    for x, y in zip(parts, whole, strict=True):
        assert abs(float(x - y)) <= 1e-13 * abs(float(y))


def test_blocks_are_stated_and_too_little_memory_is_refused():
    B, occ, vir = torch.ones(4, 3, 5), -torch.ones(4), torch.ones(3)
    assert "blocks of 4 orbitals on cpu, at most" in trnsci.plan(mp2_energy, B, occ, vir, device="cpu").reason
    with pytest.raises(trnsci.CapacityError) as caught:
        mp2_energy(B, occ, vir, device="cpu", memory=100)
    assert caught.value.available == 100
    with pytest.raises(trnsci.ArgumentError, match="memory is 100, expected None without device"):
        mp2_energy(B, occ, vir, memory=100)
    with pytest.raises(trnsci.ArgumentError, match="device is 'no such'"):
        mp2_energy(B, occ, vir, device="no such")
