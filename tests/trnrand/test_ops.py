"""Every op of the library: registered as torch wants it, planned, named, and the same without the compiled loops."""

import re

import pytest
import torch

import trnrand
import trnsci
from trnrand.binomial import Binomial
from trnrand.bits import Bits
from trnrand.gamma import Gamma
from trnrand.halton import HaltonPoints
from trnrand.inverse import Inverse
from trnrand.normal import Normal
from trnrand.philox import Philox
from trnrand.poisson import Poisson
from trnrand.randint import Randint
from trnrand.segment import Segment
from trnrand.sketch import Sketch
from trnrand.sobol import SobolPoints, table
from trnrand.stream import Stream
from trnrand.threefry import Threefry
from trnrand.uniform import Uniform
from trnsci import loops, ops
from trnsci.testing import BACKENDS

CPU = torch.device("cpu")
F64 = torch.float64


def segment(first=5, count=9, per_block=4, engine="philox4x32"):
    return Segment.of(Stream(2**60 + 3, engine, 2**100 - 2), first, count, per_block)


def calls(engine):
    zeros, half = torch.zeros((3, 4), dtype=torch.int64), torch.tensor([0.5], dtype=F64)
    parts = {per: segment(5, 9, per, engine) for per in (1, 2, 4)}
    return {
        "philox": Philox(zeros, zeros[0, :2]),
        "threefry": Threefry(zeros, zeros[0]),
        "bits": Bits(parts[4], torch.uint32, CPU),
        "uniform": Uniform(parts[4], torch.float32, CPU),
        "uniform, wide": Uniform(parts[2], F64, CPU),
        "normal": Normal(parts[4], torch.float32, CPU),
        "normal, wide": Normal(parts[2], F64, CPU),
        "inverse": Inverse("laplace", (0.5, 2.0), parts[2], torch.float32, CPU),
        "inverse, counts": Inverse("geometric", (-0.3,), parts[2], torch.int64, CPU),
        "gamma": Gamma([half], parts[1]),
        "gamma, each": Gamma([half.repeat(9)], parts[1]),
        "poisson": Poisson([40 * half], parts[1]),
        "poisson, few": Poisson([half.repeat(9)], parts[1]),
        "binomial": Binomial([90 * half, half], parts[1], 2),
        "binomial, each": Binomial([(90 * half).repeat(9), half.repeat(9)], parts[1]),
        "randint": Randint(parts[4], segment(4, 10, 1, engine), -3, 12, CPU),
        "randint, wide": Randint(parts[4], segment(4, 10, 1, engine), -(2**63), 2**63 - 1, CPU),
        "sobol": SobolPoints(table(3), 2, 5, "float64"),
        "halton": HaltonPoints((2, 3), 1, 5, F64, CPU),
        "sketch": Sketch(torch.ones(3, 2), segment(8, 12, 4, engine), 4),
    }


NAMES = list(calls("philox4x32"))
every = pytest.mark.parametrize("name", NAMES)
engines = pytest.mark.parametrize("engine", ["philox4x32", "threefry4x32"])


def test_no_op_is_forgotten():
    registered = {name for name in ops._OPS if name.startswith("trnrand::")}
    assert registered == {call._op.name for call in calls("philox4x32").values()}


@pytest.mark.grid(1)
@every
@pytest.mark.parametrize("built", [True, False], ids=["compiled", "pure"])
def test_registration(name, built, monkeypatch):
    if not built:
        monkeypatch.setattr(loops, "compiled", None)
    call = calls("threefry4x32")[name]
    torch.library.opcheck(call._op.registered, tuple(call))


@pytest.mark.grid(1)
@every
@engines
def test_implementations_agree(name, engine):
    call = calls(engine)[name]
    expected = call.pytorch()
    assert expected.shape == call.fake().shape
    assert expected.dtype == call.fake().dtype
    if hasattr(call, "host") and loops.compiled is not None:
        assert torch.equal(call.host(), expected)
    if hasattr(call, "host_into") and loops.compiled is not None:
        assert torch.equal(trnsci.run(call, torch.empty_like(expected)), expected)


@every
def test_a_plan_names_what_runs(name, monkeypatch):
    call = calls("philox4x32")[name]
    decision = call._op.decide(call)
    expected = "host" if hasattr(call, "host") and loops.compiled is not None else "pytorch"
    assert decision.implementation == expected
    step = call._op.plan(call).steps[0]
    assert (step.implementation, step.call) == (expected, ops.freeze(call))
    assert step.calls.startswith("trnsci._loops.") if expected == "host" else step.calls == "torch"
    monkeypatch.setattr(loops, "compiled", None)
    assert call._op.decide(call).implementation == "pytorch"


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b.runs_kernels], ids=str)
@every
def test_a_forced_backend_runs_every_step_or_says_why_not(name, backend):
    call = calls("philox4x32")[name]
    if why := call._op.refusal(call, "nki"):
        with backend, pytest.raises(trnsci.UnsupportedError, match=re.escape(why)):
            trnsci.run(call)
        return
    with backend, trnsci.ledger() as ledger:
        trnsci.run(call)
    assert {entry.step.implementation for entry in ledger.entries if entry.depth == 0} == {"nki"}


def test_results_without_data():
    for draw in (lambda **kw: trnrand.uniform(3, **kw), lambda **kw: trnrand.normal(3, dtype=F64, **kw)):
        made = draw(device="meta", generator=trnrand.Generator(1))
        assert made.is_meta
        assert made.shape == (3,)
