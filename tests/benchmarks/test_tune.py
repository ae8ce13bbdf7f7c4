"""What kernels leave free: declared, searched, kept beside the kernels, and read when one is launched."""

import json
import math

import pytest
import torch

import trnblas
import trnfft
import trnrand
import trnsci
import trnsim
import trnsolver
import trnsparse
from benchmarks import predictions, registry, tune
from tests.neuronx.machine import Machine
from trnblas.kernels.dot import dot
from trnsci import neuron, tuned
from trnsci.kernel_launcher import Predictor, using
from trnsci.nki import launch
from trnsim import cli
from trnsim.choices import find_choices
from trnsim.targets import TARGETS as MACHINES
from trnsim.timing.profile import record
from trnsparse.kernels.sddmm import sddmm

X = torch.empty(1, 128, 1024, device="meta")
X1 = torch.randn(150_000, generator=torch.Generator().manual_seed(4))


@pytest.fixture
def table(monkeypatch):
    """``table(entries)``: what the tables of all kernels hold."""

    def holds(entries):
        monkeypatch.setattr(tuned, "_table", lambda path: entries)

    return holds


def test_a_class_has_dimensions_of_the_same_powers_of_two_and_short_arguments():
    name = tuned.shape_class(dot, (X, None), {"mode": "asum", "width": 512, "pattern": (1, 2), "blocks": 300})
    assert name == "1x128x1024:float32 - blocks=512 mode=asum"
    smaller = torch.empty(1, 128, 600, device="meta")
    assert tuned.shape_class(dot, (smaller, None), {}) == tuned.shape_class(dot, (X, None), {})
    assert tuned.shape_class(dot, (X.bfloat16(), None), {}) != tuned.shape_class(dot, (X, None), {})


def test_a_default_that_is_spelt_out_is_of_the_same_class():
    assert tuned.shape_class(dot, (X, None), {"mode": "dot"}) == tuned.shape_class(dot, (X, None), {})
    batch = torch.empty(1024, 8, 8, device="meta")
    for function, op in ((trnsolver.lu_factor, "trnsolver.batched_lu"), (trnsolver.qr, "trnsolver.batched_qr")):
        with trnsci.backend("simulator"):
            planned = trnsci.plan(function, batch).predicted["trn2"]
        cycles = predictions.recorded(op)["1024x8x8", "trn2"]["cycles"]
        assert planned == pytest.approx(cycles / (MACHINES["trn2"].clock_ghz["tensor"] * 1e9), rel=1e-4)


def test_the_table_decides_what_the_caller_left_open(table):
    table({"dot": {"trn2": {"1x128x1024:float32 1x128x1024:float32 mode=dot": {"width": 512, "loads": "static"}}}})
    assert tuned.chosen(dot, "trn2", (X, X), {}) == {"width": 512, "loads": "static"}
    assert tuned.chosen(dot, "trn2", (X, X), {"width": 2048}) == {"loads": "static"}
    assert tuned.chosen(dot, "trn1", (X, X), {}) == {}
    assert tuned.chosen(dot, "trn2", (X, None), {}) == {}


def test_a_launch_reads_the_table(table):
    def seconds():
        with using(Predictor("trn2")) as predictor:
            launch(dot, X, X)
        return predictor.seconds

    table({})
    by_hand = seconds()
    table({"dot": {"trn2": {"1x128x1024:float32 1x128x1024:float32 mode=dot": {"loads": "static"}}}})
    assert seconds() < by_hand


def test_choices_change_no_result_beyond_the_order_of_sums():
    x = torch.randn(1, 128, 1024, generator=torch.Generator().manual_seed(1))
    plain = trnsim.simulate(dot)(x, x)
    for queue in ("static", "sync", "scalar"):
        assert torch.equal(trnsim.simulate(dot)(x, x, loads=queue, stores=queue), plain)
    assert torch.allclose(trnsim.simulate(dot)(x, x, width=512), plain)


def _spd(batch, n):
    x = torch.randn(batch, n, n, generator=torch.Generator().manual_seed(2))
    return x @ x.mT / n + torch.eye(n)


def _sparse():
    dense = torch.randn(40, 40, generator=torch.Generator().manual_seed(3))
    return trnsparse.CSRMatrix.from_dense(dense * (dense > 0.5))


# calls, the kernels they reach, and whether a choice may change the order of their sums
CALLS = {
    "philox": (lambda: trnrand.bits(5, 1, 2500), "bits", False),
    "threefry": (lambda: trnrand.bits(5, 1, 2500, engine="threefry4x32"), "bits", False),
    "halton": (lambda: trnrand.Halton(3).random(300), "halton", False),
    "compensated": (lambda: trnblas.dot(X1, X1, precision="compensated"), "dot", True),
    "cholesky": (lambda: trnsolver.cholesky(_spd(260, 5)), "batched_cholesky", False),
    "qr": (lambda: trnsolver.qr(_spd(260, 4))[1], "batched_qr", False),
    "roots": (lambda: trnsolver.inv_sqrt_spd(_spd(1, 6), method="newton_schulz"), "inv_sqrt_spd", False),
    "spmm": (lambda: trnsparse.spmm(_sparse(), torch.ones(40, 3), format="csr"), "spmm", False),
    "fft": (lambda: trnfft.fft(torch.ones(4, 32, dtype=torch.complex64)), "fft", False),
}


@pytest.mark.parametrize(("call", "kernel", "sums"), CALLS.values(), ids=CALLS)
def test_no_choice_changes_a_result(monkeypatch, call, kernel, sums):
    """Every value of every choice once, on the simulator: the same bits, or the same sums in another order."""
    seen, turn = set(), [0]

    def chosen(kernel, target, tensors, static):
        free = find_choices(kernel)
        if free:
            seen.add(getattr(kernel, "function", kernel).__name__)
        return {name: values[turn[0] % len(values)] for name, values in free.items() if name not in static}

    monkeypatch.setattr(tuned, "chosen", chosen)
    with trnsci.backend("simulator"):
        plain = call()
        for turn[0] in range(1, 4):
            again = call()
            assert torch.allclose(again, plain, rtol=1e-6) if sums else torch.equal(again, plain)
    assert kernel in seen


def test_every_kernel_of_the_benchmarks_declares_choices():
    """Those that run on one rank: what ranks exchange is not searched."""
    for op in registry.names():
        for kernel in registry.load(op).kernels:
            if kernel.ranks is None and tune._owner(kernel) == op:
                assert find_choices(kernel.kernel), kernel.kernel.__name__


def test_a_search_finds_what_is_faster_and_nothing_that_is_worse(monkeypatch):
    (unit,) = tune.units(["trnsparse.sddmm"], ["trn2"])
    found = tune.search(unit)
    assert found.choices.keys() <= find_choices(sddmm).keys()
    assert found.ratio < 0.6
    assert found.tried == math.prod(len(values) for values in find_choices(sddmm).values())
    # where little is gained the hand's choice stays
    monkeypatch.setattr(tune, "GAIN", 0.9)
    kept = tune.search(unit)
    assert (kept.choices, kept.best) == ({}, kept.by_hand)


def test_many_choices_are_searched_one_after_the_other(monkeypatch):
    monkeypatch.setattr("trnsim.timing.tuning.MANY", 1)
    monkeypatch.setattr(registry, "load", lambda op: _small())
    (unit,) = tune.units(["trnblas.dot"], ["trn2"])
    found = tune.search(unit)
    assert found.ratio < 1
    assert found.tried < 80


def _small():
    kernel = registry.Kernel(name="small", kernel=dot, inputs=lambda: (X, X), options={"mode": "dot"})
    return registry.Bench(
        op="trnblas.dot", run=dot, tests="tests/trnblas/test_dot.py", cases=(), peers=(), kernels=(kernel,)
    )


def test_cases_of_one_class_share_what_is_worse_for_none(monkeypatch):
    def pretended(case, target, choices, limit):
        fast = {"a": 0.5, "b": 2.0} if choices.get("loads") == "static" else {"a": 0.9, "b": 0.9}
        return fast[case.name] if choices.get("loads") in ("static", "sync") else 1.0

    kernels = [registry.Kernel(name=name, kernel=sddmm, inputs=lambda: ()) for name in "ab"]
    bench = registry.load("trnsparse.sddmm")
    monkeypatch.setattr(
        registry,
        "load",
        lambda op: registry.Bench(op=op, run=bench.run, tests=bench.tests, cases=(), peers=(), kernels=tuple(kernels)),
    )
    found = tune.search(tune.Unit("trnsparse.sddmm", "trn2", "", ("a", "b")), pretended)
    assert found.choices["loads"] == "sync"
    assert found.best == (0.9, 0.9)


def test_no_schedule_is_below_the_bound_that_prunes():
    for op in ("trnblas.dot", "trnsparse.sddmm", "trntensor.mp2_energy", "trnsolver.batched_lu"):
        kernel = registry.load(op).kernels[-1]
        run = record(kernel.kernel, target="trn2", numerics=False)
        _, recording = run(*kernel.inputs(), **tune._options(kernel))
        assert 0 < recording.least_s() <= recording.report(recording.target).total_s


def test_what_was_found_is_kept_beside_the_kernels_and_the_rest_stays(monkeypatch, tmp_path):
    path = tmp_path / "tuned.json"
    path.write_text(json.dumps({"other": {"trn2": {"x": {"a": 1}}}, "sddmm": {"trn2": {"old": {"loads": "sync"}}}}))
    monkeypatch.setattr(tuned, "table_of", lambda kernel: path)
    found = tune.Found("trnsparse.sddmm", "sddmm", "trn2", "new", (registry.load("trnsparse.sddmm").kernels[0].name,),
                       (1.0,), (0.5,), {"loads": "static"}, 3, 0)  # fmt: skip
    assert tune.keep([found]) == [path]
    kept = json.loads(path.read_text())
    assert kept["sddmm"]["trn2"] == {"new": {"loads": "static"}, "old": {"loads": "sync"}}
    assert kept["other"] == {"trn2": {"x": {"a": 1}}}
    # a class for which the hand's choice is best has no entry
    tune.keep([found._replace(choices={})])
    assert json.loads(path.read_text())["sddmm"]["trn2"] == {"old": {"loads": "sync"}}


def test_with_a_device_its_clock_decides(monkeypatch, tmp_path):
    """A machine whose queue of static descriptors is slow: what the model would choose is not chosen."""
    own = {"format": "trnsim target 1", "target": "trn2", "constants": {"static_issue": 1e6, "static_start": 1e6}}
    (tmp_path / "own.json").write_text(json.dumps(own))
    (tmp_path / "machine.json").write_text(json.dumps({"target": "trn2", "target_file": "own.json"}))
    monkeypatch.setattr(registry, "load", lambda op: _small())
    monkeypatch.setattr(tune, "find_choices", lambda kernel: {"loads": ("compiler", "static", "sync")})
    (unit,) = tune.units(["trnblas.dot"], ["trn2"])
    assert tune.search(unit).choices == {"loads": "static"}
    with neuron.stand_in(Machine(tmp_path / "machine.json")):
        assert tune.measured(unit).choices.get("loads") != "static"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trnblas.gone"], "there is no kernel trnblas.gone"),
        (["trnblas.sharded"], "trnblas.sharded leave nothing free"),
    ],
)
def test_what_cannot_be_tuned_is_refused_by_name(capsys, words, said):
    assert cli.main(["tune", *words]) == 1
    assert said in capsys.readouterr().err


def test_every_choice_kept_is_one_its_kernel_declares():
    for op in registry.names():
        for kernel in registry.load(op).kernels:
            free = find_choices(kernel.kernel)
            known = tuned._table(tuned.table_of(kernel.kernel)).get(kernel.kernel.__name__, {}) if free else {}
            for classes in known.values():
                for entry in classes.values():
                    assert entry.keys() <= free.keys()
                    assert all(value in free[name] for name, value in entry.items())
