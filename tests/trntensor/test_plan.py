import pickle

import numpy as np
import pytest
import torch

import trnsci
from trnsci import ArgumentError, DtypeError
from trnsci.neuron import stand_in
from trnsci.testing import assert_within, gaussian
from trntensor import ContractionPlan, plan

F64 = torch.float64
FOUR = "pqrs,pi,qj,rk,sl->ijkl"


def observed_peak(work):
    """Bytes allocated at the worst moment, from the allocator's own events."""
    with torch.profiler.profile(profile_memory=True) as profile:
        kept = work()
    live = peak = 0
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    del kept
    return peak


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(200, 300), (300, 100)]),
        ("ij,jk->ki", [(200, 300), (300, 100)]),
        ("ikj,jl->ilk", [(30, 40, 20), (20, 50)]),
        ("bij,bjk,kl->bil", [(8, 50, 60), (8, 60, 70), (70, 20)]),
        (FOUR, [(12, 13, 14, 15), (12, 8), (13, 9), (14, 10), (15, 11)]),
    ],
)
def test_the_planned_peak_is_the_observed_one(equation, shapes):
    operands = [gaussian(shape, n, F64) for n, shape in enumerate(shapes)]
    scheme = plan(equation, *operands)
    inputs = sum(x.nbytes for x in operands)
    scheme(*operands)
    seen = observed_peak(lambda: scheme(*operands))
    # The allocator rounds sizes up to its alignment.
    assert scheme.peak_bytes - inputs <= seen <= 1.02 * (scheme.peak_bytes - inputs) + 4096


STRATEGIES = [
    ("ij,jk->ik", "gemm"),
    ("bij,bjk->bik", "batched gemm"),
    ("ij,j->i", "gemv"),
    ("i,i->", "dot"),
    ("i,j->ij", "outer"),
    ("ij,ij->ij", "hadamard"),
    ("ij->i", "reduce"),
    ("ii->i", "diagonal"),
    ("ij->ji", "permute"),
    ("ij->ij", "copy"),
]


@pytest.mark.parametrize(("equation", "strategy"), STRATEGIES)
def test_each_step_is_classified(equation, strategy):
    terms = equation.split("->")[0].split(",")
    scheme = plan(equation, *[(4,) * len(term) for term in terms])
    assert [row.strategy for row in scheme.contractions] == [strategy]


def test_costs_count_multiplications_and_additions():
    assert plan("ij,jk->ik", (2, 3), (3, 4)).flops == 2 * 2 * 3 * 4
    assert plan("ij,jk->ik", (2, 3), (3, 4), dtype=torch.complex64).flops == 8 * 2 * 3 * 4
    assert plan("bij,bjk->bik", (5, 2, 3), (5, 3, 4)).flops == 2 * 5 * 2 * 3 * 4
    row = plan("ij,jk->ik", (2, 3), (3, 4)).contractions[0]
    assert row.bytes == 4 * (6 + 12 + 8)


def test_the_order_saves_work():
    scheme = plan("ij,jk,kl->il", (2, 100), (100, 100), (100, 100))
    assert scheme.path == ((0, 1), (0, 1))
    assert scheme.flops == 2 * 2 * 100 * 100 * 2


def test_a_plan_can_be_called_kept_and_pickled():
    a, b = gaussian((3, 4), 1, F64), gaussian((4, 5), 2, F64)
    scheme = plan("ij,jk->ki", a, b)
    assert scheme is plan("ij,jk->ki", (3, 4), (4, 5), dtype=F64)
    again = pickle.loads(pickle.dumps(scheme))
    assert again == scheme
    assert_within(again(a, b), np.einsum("ij,jk->ki", a, b), 1e-13)
    assert isinstance(again(a.numpy(), b.numpy()), np.ndarray)
    out = torch.empty(5, 3, dtype=F64)
    assert scheme(a, b, alpha=2.0, out=out) is out
    assert_within(out, 2 * np.einsum("ij,jk->ki", a, b), 1e-13)
    assert scheme in trnsci.plans()


def test_constants_are_contracted_once():
    operands = [gaussian((4, 5, 6, 7), 1, F64), *(gaussian((n, 3), n, F64) for n in (4, 5, 6, 7))]
    expected = np.einsum(FOUR, *operands, optimize=True)
    scheme = plan(FOUR, *operands, constants=(0, 4))
    assert len(scheme.known) >= 1
    assert_within(scheme(*operands[1:4]), expected, 1e-12 * np.abs(expected).max())
    assert_within(scheme(*operands[1:4], alpha=2.0), 2 * expected, 1e-12 * np.abs(expected).max())
    with pytest.raises(ArgumentError) as caught:
        plan("ij,jk->ik", (2, 3), (3, 4), constants=(1,))
    assert caught.value.argument == "constants"


def test_the_printed_plan_says_what_where_why_and_how_well():
    text = plan("ij,jk,kl->il", (64, 64), (64, 64), (64, 64)).explain()
    assert "gemm" in text
    assert "no Neuron device" in text
    assert "error at most" in text
    assert "predicted: trn1" in text
    assert str(plan("ij->ji", (2, 3))).count("permute") == 1


def test_backends_are_chosen_per_step():
    with trnsci.backend("simulator"):
        scheme = plan("ij,jk,k->ik", (8, 8), (8, 8), (8,))
    assert {row.strategy: row.backend for row in scheme.contractions}.get("gemm") == "simulator"
    assert {row.backend for row in scheme.contractions if row.strategy == "hadamard"} <= {"pytorch"}
    assert scheme.reason == 'trnsci.backend("simulator")'


# Where a published table found Trainium or its host the faster; the rows with a clear verdict.
TABLE = [
    ("ap,bp->ab", [(48, 128), (48, 128)], "pytorch"),
    ("ij,jk->ik", [(512, 512), (512, 512)], "pytorch"),
    ("bij,bjk->bik", [(16, 256, 256), (16, 256, 256)], "pytorch"),
    ("ij,jk->ik", [(2048, 2048), (2048, 2048)], "nki"),
    ("bij,bjk->bik", [(32, 1024, 1024), (32, 1024, 1024)], "pytorch"),
]


@pytest.mark.parametrize(("equation", "shapes", "backend"), TABLE)
def test_the_published_dispatch_table_is_predicted(equation, shapes, backend, monkeypatch):
    from trnsci import predict

    # The rates of the host in that table, 2048**3 in 27.4 ms and 512**3 in 481 us, instead of this machine's.
    host = predict.Host(overhead=15e-6, float32=6.0e11, float64=3.0e11, bandwidth=2e10)
    monkeypatch.setattr(predict, "host", lambda: host)
    from trnsci.neuron import StandIn

    with stand_in(StandIn("trn1")):
        scheme = plan(equation, *shapes)
    assert scheme.backend == backend, scheme.reason
    trnsci.clear_plans()


def test_calls_that_do_not_fit_the_plan_are_refused():
    scheme = plan("ij,jk->ik", (2, 3), (3, 4))
    with pytest.raises(ArgumentError) as caught:
        scheme(torch.ones(2, 3))
    assert caught.value.got == {"plan": 2, "call": 1}
    with pytest.raises(ArgumentError) as caught:
        scheme(torch.ones(2, 3), torch.ones(3, 5))
    assert caught.value.got == (3, 5)
    assert "(3, 4)" in str(caught.value)
    with pytest.raises(DtypeError, match="float64"):
        scheme(torch.ones(2, 3), torch.ones(3, 4, dtype=F64))


def test_integers_are_planned_too():
    scheme = plan("ij,jk->ik", torch.ones(2, 3, dtype=torch.int64), torch.ones(3, 4, dtype=torch.int64))
    assert isinstance(scheme, ContractionPlan)
    assert scheme.precision is None
    assert scheme.error_bound == 0
    assert scheme(torch.ones(2, 3, dtype=torch.int64), torch.ones(3, 4, dtype=torch.int64)).eq(3).all()
