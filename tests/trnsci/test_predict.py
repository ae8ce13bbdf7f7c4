import json
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

import trnblas
import trnsci
from trnsci import Cost, neuron, op, predict
from trnsci.links import LINKS
from trnsci.neuron import StandIn, stand_in
from trnsci.predict import Host, _predict_call, device_seconds, host, offload_seconds
from trnsci.specs import TensorSpec
from trnsci.testing import counting_op

pytestmark = pytest.mark.sim

# Published on trn1.2xlarge: operands of an fp32 product, seconds on its CPU, seconds sent to the device.
PUBLISHED = [
    ((512, 512), (512, 512), 481e-6, 1452e-6),
    ((16, 256, 256), (16, 256, 256), 953e-6, 2162e-6),
    ((1024, 1024), (1024, 1024), 3402e-6, 4022e-6),
    ((2048, 2048), (2048, 2048), 27.4e-3, 16.9e-3),
    ((32, 1024, 1024), (32, 1024, 1024), 126.3e-3, 190.8e-3),
]


def gemm_step(a, b):
    return trnsci.plan(trnblas.gemm, 1.0, torch.empty(a, device="meta"), torch.empty(b, device="meta")).steps[0]


@pytest.mark.parametrize(("a", "b", "cpu", "device"), PUBLISHED)
def test_what_was_worth_sending_to_trn1_is_predicted_to_be(a, b, cpu, device):
    step = gemm_step(a, b)
    assert (offload_seconds(step.call, step.cost, "trn1") < cpu) is (device < cpu)


def test_a_prediction_is_positive_grows_and_is_the_same_every_time():
    small, large = gemm_step((128, 128), (128, 512)), gemm_step((1024, 1024), (1024, 1024))
    for target in ("trn1", "trn2", "trn3"):
        assert 0 < small.predicted(target) < large.predicted(target)
    again = small.predicted("trn2")
    _predict_call.cache_clear()
    assert small.predicted("trn2") == again


def test_a_plan_carries_the_interval_of_its_prediction():
    a = torch.empty(1024, 1024, device="meta")
    plan = trnsci.plan(trnblas.gemm, 1.0, a, a)
    for target, (low, high) in plan.interval.items():
        assert low < plan.predicted[target] < high
        assert plan.steps[0].interval(target) == (low, high)
    assert set(plan.interval) == set(plan.predicted) == {"trn1", "trn2", "trn3"}
    assert " to " in str(plan)


@pytest.mark.parametrize(("part", "within"), [(0.5, False), (0.99, True), (1.01, True), (2.0, False)])
def test_a_choice_within_the_predictions_interval_says_so(monkeypatch, part, within):
    step = gemm_step((4096, 4096), (4096, 4096))
    there = offload_seconds(step.call, step.cost, "trn2")
    # the transfers are no part of the interval
    kernel = step.predicted("trn2")
    here = there - kernel + part * kernel
    monkeypatch.setattr(predict, "host", lambda: Host(here, 1e30, 1e30, 1e30))
    chosen, words = predict.cheaper(step.call, step.cost, "trn2")
    assert chosen == ("nki" if part > 1 else "pytorch")
    assert ("within the prediction's interval" in words) == within


def test_no_kernel_no_prediction():
    plan = trnsci.plan(counting_op().op, torch.ones(2, 2).double())
    assert plan.steps[0].predicted("trn2") is None
    assert plan.steps[0].interval("trn2") is None
    assert plan.predicted == plan.interval == {}


def device_op(stem, **methods):
    class Kind(NamedTuple):
        x: Tensor

        def fake(self) -> Tensor:
            return torch.empty_like(self.x)

        def cost(self) -> int:
            return 1

    for name, fn in methods.items():
        setattr(Kind, name, lambda self, fn=fn: fn(self.x))
    return op(f"trnmock::{stem}")(Kind)


def test_ops_inside_an_ops_kernel_path_are_predicted_too():
    a = torch.ones(64, 64)
    twice = device_op("twice", nki=lambda x: trnblas.gemm(1.0, trnblas.gemm(1.0, x, x), x))
    alone = gemm_step((64, 64), (64, 64)).predicted("trn2")
    spec = TensorSpec((64, 64), torch.float32)
    assert device_seconds(twice(spec), "trn2") == pytest.approx(2 * alone)
    inner = counting_op(limits=lambda x: "never")
    broken = device_op("broken", nki=lambda x: inner(trnblas.gemm(1.0, x, x)))
    assert device_seconds(broken(spec), "trn2") is None
    assert trnblas.gemm(1.0, a, a).shape == (64, 64)


def test_prediction_can_be_given_where_the_implementation_needs_data():
    kind = device_op("data", nki=lambda x: x * float(x.max()), prediction=lambda x: trnblas.gemm(1.0, x, x))
    call = kind(TensorSpec((64, 64), torch.float32))
    assert device_seconds(call, "trn2") == gemm_step((64, 64), (64, 64)).predicted("trn2")


def test_resident_operands_cost_no_transfer():
    far = gemm_step((1024, 1024), (1024, 1024))
    near = far.call._replace(a=replace(far.call.a, resident=True), b=replace(far.call.b, resident=True))
    difference = offload_seconds(far.call, far.cost, "trn1") - offload_seconds(near, far.cost, "trn1")
    assert difference == pytest.approx(LINKS["xla"].transfer(12 << 20))


def test_the_host_is_the_slower_of_arithmetic_and_memory():
    machine = Host(overhead=1.0, float32=100.0, float64=50.0, bandwidth=10.0)
    assert machine.seconds(Cost(1000, 5, 5), torch.float32) == 11.0
    assert machine.seconds(Cost(1000, 5, 5), torch.complex128) == 21.0
    assert machine.seconds(Cost(1000, 500, 500), torch.float32) == 101.0


@pytest.fixture
def cache_dir(monkeypatch, tmp_path):
    monkeypatch.setenv("TRNSCI_CACHE_DIR", str(tmp_path / "cache"))
    host.cache_clear()
    yield tmp_path / "cache"
    host.cache_clear()


def test_the_host_is_calibrated_once_and_kept(cache_dir, monkeypatch):
    first = host()
    assert first.float32 > 1e8
    assert first.bandwidth > 1e7
    monkeypatch.setattr(predict, "_calibrate", pytest.fail)
    host.cache_clear()
    assert host() == first


@pytest.mark.parametrize("text", ["", "{", "{}", '{"machine": "another", "host": {}}'])
def test_a_calibration_of_another_machine_or_none_is_made_anew(cache_dir, text):
    cache_dir.mkdir()
    (cache_dir / "host.json").write_text(text)
    made = host()
    assert json.loads((cache_dir / "host.json").read_text())["host"]["float32"] == made.float32


def test_a_cache_that_cannot_be_written_is_no_obstacle(cache_dir):
    cache_dir.write_text("a file where the directory should be")
    assert host().float32 > 0


@pytest.mark.parametrize(
    ("rate", "backend", "reason"),
    [
        (1e9, "nki", "predicted 4.44 ms on trn1 with transfers, host estimate 2.15 s"),
        (1e12, "pytorch", "host estimate 2.15 ms"),
        (1e15, "pytorch", "starting an op on trn1 takes 670 us (XLA)"),
    ],
)
def test_auto_takes_whichever_is_predicted_to_be_faster_and_says_so(monkeypatch, rate, backend, reason):
    monkeypatch.setattr(predict, "host", lambda: Host(overhead=0.0, float32=rate, float64=rate, bandwidth=1e15))
    a = torch.empty(1024, 1024, device="meta")
    trnsci.clear_plans()
    with stand_in(StandIn("trn1")):
        plan = trnsci.plan(trnblas.gemm, 1.0, a, a)
    assert plan.backend == backend
    assert reason.split("predicted 4.44 ms")[-1] in plan.reason
    assert neuron.device() is None


def test_auto_runs_what_it_chose(monkeypatch):
    a = torch.ones(8, 8)
    for rate, backend in ((1.0, "nki"), (1e15, "pytorch")):
        monkeypatch.setattr(predict, "host", lambda rate=rate: Host(0.0, rate, rate, 1e15))
        with stand_in(StandIn("trn1")), trnsci.ledger() as book:
            assert torch.equal(trnblas.gemm(1.0, a, a), 8 * a)
        assert [entry.step.backend for entry in book] == [backend]
