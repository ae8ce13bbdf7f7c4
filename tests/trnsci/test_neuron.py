import os
import stat
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

import trnblas
import trnsci
import trnsolver
from trnsci import DtypeError, config, neuron, neuron_host, nki
from trnsci.caches import KERNELS
from trnsci.info import info
from trnsci.neuron import StandIn, XlaDevice, stand_in
from trnsci.testing import assert_within, gaussian, gemm_bound

A, B = gaussian((130, 40), 1), gaussian((40, 20), 2)


@pytest.fixture
def undetected(monkeypatch, tmp_path):
    """A machine on which nothing was looked for yet, with a Neuron driver."""
    monkeypatch.setenv("TRNSCI_CACHE_DIR", str(tmp_path / "cache"))
    for name in config._COMPILE_CACHES:
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(neuron, "_detected", None)
    monkeypatch.setattr(neuron_host, "device_nodes", lambda: ["/dev/neuron0"])
    monkeypatch.setattr(nki, "AWS", nki.nki)
    KERNELS.clear()
    for name in ("torch_xla", "torch_xla.core", "torch_xla.core.xla_model", "torch_neuronx"):
        monkeypatch.setitem(sys.modules, name, None)
    return monkeypatch


def fake_xla(monkeypatch, hardware):
    calls = []
    model = ModuleType("torch_xla.core.xla_model")
    model.xla_device = lambda: torch.device("cpu")
    model.xla_device_hw = lambda device: hardware
    model.mark_step = lambda: calls.append("mark_step")
    model.wait_device_ops = lambda: calls.append("wait_device_ops")
    for name, module in (("torch_xla", ModuleType("torch_xla")), ("torch_xla.core", ModuleType("torch_xla.core"))):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "torch_xla.core.xla_model", model)
    return calls


# Finding the device


def test_no_driver_no_device(monkeypatch):
    monkeypatch.setattr(neuron, "_detected", None)
    monkeypatch.setattr(neuron_host, "device_nodes", list)
    assert neuron.device() is None
    assert neuron.why_no_device() == "no Neuron device"


def test_a_device_without_its_packages_says_which_are_missing(undetected):
    assert neuron.device() is None
    assert "torch_neuronx does not import" in neuron.why_no_device()
    assert "torch_xla does not import" in neuron.why_no_device()


def test_an_xla_device_is_found(undetected):
    calls = fake_xla(undetected, "NEURON")
    device = neuron.device()
    assert isinstance(device, XlaDevice)
    assert neuron.why_no_device() == ""
    assert torch.equal(device.fetch(device.put(A)), A)
    assert device.run(lambda x, k: x * k, A, k=2).equal(A * 2)
    # a barrier after the launch: the next kernel is no part of its graph
    assert calls == ["mark_step"]
    device.synchronize()
    assert calls == ["mark_step", "mark_step", "wait_device_ops"]


def test_todays_names_of_xla_come_first(undetected):
    calls = fake_xla(undetected, "NEURON")
    xla = sys.modules["torch_xla"]
    xla.device = lambda: calls.append("device") or torch.device("cpu")
    xla.sync = lambda: calls.append("sync")
    neuron.device().run(lambda x: x, A)
    assert calls == ["device", "device", "sync"]


def test_without_awss_nki_there_is_no_device_and_no_simulator_in_its_place(undetected):
    fake_xla(undetected, "NEURON")
    undetected.setattr(nki, "AWS", None)
    with trnsci.backend("nki"), pytest.raises(trnsci.BackendUnavailable, match="AWS's nki does not import"):
        trnblas.gemm(1.0, A, B)
    assert "no kernel can be compiled for it" in neuron.why_no_device()


def test_cores_are_settled_before_torch_where_nobody_chose(undetected):
    undetected.setattr(config, "_cores_at_import", "")
    undetected.setenv("NEURON_LOGICAL_NC_CONFIG", "")
    neuron_host.settle()
    assert os.environ["NEURON_LOGICAL_NC_CONFIG"] == "2"
    undetected.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    neuron_host.settle()
    assert os.environ["NEURON_LOGICAL_NC_CONFIG"] == "1"


def test_what_is_compiled_lies_in_private_folders_by_version_and_a_users_own_stay(undetected, tmp_path):
    undetected.setenv("TORCH_NEURONX_NEFF_CACHE_DIR", "s3://mine/programs")
    packages = tmp_path / "packages"
    for name, version in (("nki", "0.7.0"), ("neuronx_cc", "2.28.7631.0+x")):
        (packages / f"{name}-{version}.dist-info").mkdir(parents=True)
        (packages / f"{name}-{version}.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    undetected.syspath_prepend(packages)
    neuron_host.settle()
    kernels = Path(os.environ["NKI_COMPILE_CACHE_URL"])
    assert kernels.parent.name == "nki-0.7.0_neuronx-cc-2.28.7631.0+x"
    assert kernels.is_relative_to(tmp_path / "cache")
    assert os.environ["TORCH_NEURONX_NEFF_CACHE_DIR"] == "s3://mine/programs"
    assert os.environ["TORCH_NEURONX_HLO_CACHE_DIR"] == str(kernels.parent / "graphs")
    assert [stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "cache", kernels)] == [0o700, 0o700]


def test_a_machine_without_a_device_is_left_alone(monkeypatch):
    monkeypatch.delenv("NEURON_LOGICAL_NC_CONFIG", raising=False)
    monkeypatch.setattr(neuron_host, "device_nodes", list)
    neuron_host.settle()
    assert "NEURON_LOGICAL_NC_CONFIG" not in os.environ


# what was said when torch was imported; nothing is AWS's default, of which the compiler hears by the bracket
@pytest.mark.parametrize(("said", "grid"), [("1", ()), ("2", ()), ("", (2,))])
def test_a_launch_has_the_cores_that_were_said_when_torch_was_imported(undetected, said, grid):
    fake_xla(undetected, "NEURON")
    undetected.setattr(config, "_cores_at_import", said)
    undetected.setenv("NEURON_LOGICAL_NC_CONFIG", said)
    assert neuron.logical_cores("trn2") == int(said or 2)
    assert neuron.logical_cores("trn1") == 1
    launches = []
    undetected.setattr(XlaDevice, "run", lambda self, kernel, *args, **static: launches.append(kernel) or kernel(*args))
    with trnsci.backend("nki"):
        product = trnblas.gemm(1.0, A, B)
        factor = trnsolver.cholesky(torch.eye(4))
    assert [kernel.grid for kernel in launches] == [grid, grid]
    assert_within(product, A.double() @ B.double(), gemm_bound(A, B))
    assert torch.equal(factor, torch.eye(4))


def test_a_variable_that_comes_too_late_is_told_and_not_followed(undetected):
    fake_xla(undetected, "NEURON")
    undetected.setattr(config, "_cores_at_import", "")
    undetected.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    assert neuron.logical_cores("trn2") == 2
    assert "is 1 now and was unset when torch was imported" in config.late_logical_cores()
    (there,) = (backend.detail for backend in info().backends if backend.name == "nki")
    assert "2 cores to a logical core; too late: NEURON_LOGICAL_NC_CONFIG is 1 now" in there
    assert "trnsci run" in there


def test_an_xla_device_of_another_kind_is_not_ours(undetected):
    fake_xla(undetected, "TPU")
    assert neuron.device() is None
    assert "torch_xla reports no Neuron device" in neuron.why_no_device()


@pytest.mark.parametrize(
    ("product", "target"), [("trn1.2xlarge", "trn1"), ("trn3.48xlarge\n", "trn3"), ("m7i", "trn2")]
)
def test_the_generation_is_read_from_the_instance_type(tmp_path, product, target):
    (tmp_path / "product_name").write_text(product)
    assert neuron_host.target(tmp_path / "product_name") == target
    assert neuron_host.target(tmp_path / "missing") == "trn2"


# Residency


def test_marks_survive_torch_and_views_and_end_with_from_device():
    x = trnsci.to_device(A)
    assert trnsci.is_resident(x)
    assert not trnsci.is_resident(A)
    assert trnsci.is_resident(x.mT[:3] * 2 + A.mT[:3])
    back = trnsci.from_device(x)
    assert type(back) is torch.Tensor
    assert torch.equal(back, A)
    assert trnsci.to_device(x) is x
    assert trnsci.from_device(A) is A


def test_a_copy_is_made_as_a_device_would():
    host = torch.ones(2)
    x = trnsci.to_device(host)
    host.zero_()
    assert trnsci.from_device(x).tolist() == [1.0, 1.0]


def test_gradients_flow_through_transfers():
    x = A.clone().requires_grad_()
    trnsci.from_device(trnsci.to_device(x) * 2).sum().backward()
    assert torch.equal(x.grad, torch.full_like(A, 2.0))


def test_seed_names():
    assert trnsci.to_xla is trnsci.to_device
    assert trnsci.from_xla is trnsci.from_device


def test_complex_tensors_cannot_be_resident():
    with pytest.raises(DtypeError) as caught:
        trnsci.to_device(torch.ones(2, dtype=torch.complex64))
    assert "split_complex" in str(caught.value)


def test_not_a_tensor():
    with pytest.raises(DtypeError, match="to_device: tensor is int, expected a tensor"):
        trnsci.to_device(3)


# The device path, on a stand-in


@pytest.mark.sim
def test_the_device_path_moves_operands_and_results():
    with stand_in(), trnsci.backend("nki"), trnsci.ledger() as book:
        result = trnblas.gemm(1.0, A, B)
    assert type(result) is torch.Tensor
    assert_within(result, A.double() @ B.double(), gemm_bound(A, B))
    (entry,) = book
    assert entry.step.backend == "nki"
    assert (entry.bytes_to_device, entry.bytes_from_device) == (A.nbytes + B.nbytes, result.nbytes)


@pytest.mark.sim
def test_a_resident_operand_skips_its_transfer_and_the_result_stays():
    with stand_in(), trnsci.backend("nki"), trnsci.ledger() as book:
        a = trnsci.to_device(A)
        once = trnblas.gemm(1.0, a, B)
        twice = trnblas.gemm(1.0, once, B.mT.contiguous())
    assert trnsci.is_resident(twice)
    assert [(e.bytes_to_device, e.bytes_from_device) for e in book] == [(B.nbytes, 0), (B.nbytes, 0)]
    assert book.bytes_to_device == A.nbytes + 2 * B.nbytes


@pytest.mark.sim
def test_gradients_on_the_device_path():
    a = A.clone().requires_grad_()
    with stand_in(), trnsci.backend("nki"):
        trnblas.gemm(1.0, a, B).sum().backward()
    assert_within(a.grad, torch.ones(130, 20).double() @ B.mT.double(), gemm_bound(torch.ones(130, 20), B.mT))


def test_the_stand_in_ends_with_its_block():
    with stand_in(StandIn("trn1")) as device:
        assert neuron.device() is device
        assert device.target == "trn1"
        device.synchronize()
    assert neuron.device() is None


# Kernels kept


@pytest.mark.sim
def test_kernels_are_kept_by_shape_and_dtype():
    KERNELS.clear()
    with stand_in(), trnsci.backend("nki"):
        for a, b in [(A, B), (A + 1, B), (A[:3], B)]:
            trnblas.gemm(1.0, a, b)
    assert len(KERNELS.list()) == 2


def test_the_kernel_cache_is_bounded(monkeypatch):
    monkeypatch.setenv("TRNSCI_KERNEL_CACHE_COUNT", "2")
    KERNELS.clear()
    prepared = []
    for key in "abcaa":
        KERNELS.get(key, lambda key=key: prepared.append(key) or print)
    assert (len(KERNELS.list()), prepared) == (2, ["a", "b", "c", "a"])
    KERNELS.clear()
    assert KERNELS.list() == ()
