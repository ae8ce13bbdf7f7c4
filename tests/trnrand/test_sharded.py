"""Draws into spread arrays: the bits of one rank, for every function, placement, mesh and number of ranks."""

import pytest
import torch
from torch.distributed.tensor import DTensor, Partial, Shard, empty as spread_empty

import trnrand
import trnsci
from trnrand.sharded import _ELEMENTWISE
from trnsci import distributed
from trnsci.distributed import Layout

OPTIONS = {
    "weibull": {"shape": 1.5},
    "pareto": {"shape": 2.0},
    "truncated_normal": {"low": -1.0, "high": 1.5},
    "gamma": {"shape": 0.7},
    "beta": {"a": 0.5, "b": 2.0},
    "chi_squared": {"df": 3.0},
    "student_t": {"df": 3.0},
    "f": {"dfnum": 2.0, "dfden": 3.0},
    "poisson": {"rate": 30.0},
    "geometric": {"p": 0.3},
    "binomial": {"n": 50, "p": 0.3},
    "negative_binomial": {"n": 4.0, "p": 0.3},
    "randint": {"low": -3, "high": 3 << 30},
}
FOUR = ("uniform", "normal", "gamma", "randint")


def _drawn(mesh, name, shape, places, position, options):
    """A spread draw, brought together, and where the generator stands after it."""
    function = getattr(trnrand, name)
    dtype = options.get("dtype") or function(1, generator=trnrand.Generator(0), **options).dtype
    local = distributed.shard(torch.zeros(shape, dtype=dtype), mesh, *places)
    generator = trnrand.Generator(11).advance(position)
    made = function(shape, out=local, generator=generator, **options)
    assert made.placements == local.placements
    return distributed.gather(made), generator.position


def _wrong(mesh_shape, cases):
    """The cases that differ from the draw of one rank."""
    mesh, found = distributed.mesh(*mesh_shape), []
    for name, shape, places, position, options in cases:
        generator = trnrand.Generator(11).advance(position)
        alone = getattr(trnrand, name)(shape, generator=generator, **options)
        made, end = _drawn(mesh, name, shape, places, position, options)
        if not torch.equal(made, alone) or end != generator.position:
            found.append((name, shape, places, position, options))
    return found


@pytest.mark.parametrize("size", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 4)), 3])
def test_parts_are_the_bits_of_the_single_draw(ranks, size):
    cases = [
        (name, shape, (place,), position, OPTIONS.get(name, {}))
        for name in FOUR
        for shape, place in (((7, 5), 0), ((7, 5), 1), ((2, 3), 0), ((6,), None), ((3, 1, 9), 2), ((0, 4), 1))
        for position in (0, 5)
    ]
    assert ranks(size).run(_wrong, (size,), cases) == [[]] * size


def test_every_elementwise_function_on_a_grid(ranks):
    cases = [
        (name, (5, 7), places, 3, OPTIONS.get(name, {})) for name in _ELEMENTWISE for places in ((0, 1), (1, None))
    ]
    cases += [("uniform", (6, 7), (0, 0), 1, {"dtype": torch.float64}), ("normal", (9,), (0, 0), 1, {"scale": 3.0})]
    cases += [("uniform", (4, 5), (1, 0), 1, {"dtype": torch.bfloat16, "low": 1.0, "high": 2.0, "ends": "()"})]
    assert ranks(4).run(_wrong, (2, 2), cases) == [[]] * 4


def test_parts_larger_than_a_span(ranks):
    cases = [
        ("uniform", (300, 400), (1,), 2, {}),
        ("normal", (3, 50_000), (1,), 2, {"dtype": torch.float64}),
        ("uniform", (2, 3, 40_000), (1,), 2, {}),
        ("gamma", (100, 700), (0,), 2, {"shape": 2.0}),
    ]
    assert ranks(2).run(_wrong, (2,), cases) == [[]] * 2


def _spread_parameters():
    mesh, found = distributed.mesh(), []
    rate, scale = torch.arange(1.0, 64.0).reshape(9, 7), torch.arange(1.0, 8.0)
    for place in (0, 1, None):
        alone = trnrand.Generator(3).gamma(shape=rate, scale=scale)
        spread = [distributed.shard(rate, mesh, place), distributed.shard(scale, mesh, 0)]
        made = trnrand.Generator(3).gamma(shape=spread[0], scale=spread[1])
        found.append(torch.equal(distributed.gather(made), alone) and made.placements == spread[0].placements)
        low = distributed.shard(rate, mesh, place)
        alone = trnrand.Generator(3).uniform(2, 9, 7, low=rate, high=70.0)
        found.append(torch.equal(distributed.gather(trnrand.Generator(3).uniform(2, 9, 7, low=low, high=70.0)), alone))
    return found


def test_parameters_may_be_spread(ranks):
    for found in ranks(3).run(_spread_parameters):
        assert all(found), found


def _no_memory_of_the_whole():
    mesh = distributed.mesh()
    out = spread_empty(1 << 20, 3, device_mesh=mesh, placements=[Shard(1)])
    with trnsci.ledger() as book:
        trnrand.Generator(1).normal(1 << 20, 3, out=out)
    alone = trnrand.Generator(1).normal(1 << 20, 3)[:, mesh.get_rank()]
    return torch.equal(out.to_local()[:, 0], alone), sum(exchange.nbytes for exchange in book.exchanges)


def test_nothing_moves_but_the_agreement(ranks):
    assert ranks(3).run(_no_memory_of_the_whole) == [(True, 2 * 16)] * 3
    layout = Layout((1 << 16, 64), torch.float32, (4,), (0,))
    plan = distributed.plan(trnrand.uniform, 1 << 16, 64, out=layout)
    assert plan.volume == 0
    assert plan.ranks[0].flops * 4 == plan.flops > 0


def _refused(how):
    mesh = distributed.mesh()
    out = distributed.shard(torch.zeros(4, 4), mesh, 0)
    generator = trnrand.Generator(0)
    if how == "share":
        generator.partition(0, 2).normal(4, 4, out=out)
    if how == "device":
        generator.normal(4, 4, out=out, device="cpu")
    if how == "shape":
        generator.normal(4, 5, out=out)
    if how == "dtype":
        generator.normal(4, 4, out=out, dtype=torch.float64)
    if how == "value":
        generator.gamma(4, 4, shape=-1.0, out=out)
    if how == "terms":
        generator.normal(4, 4, out=DTensor.from_local(torch.zeros(4, 4), mesh, [Partial("sum")]))
    if how == "position":
        generator.advance(mesh.get_rank()).normal(4, 4, out=out)
    if how == "default":
        trnrand.manual_seed(mesh.get_rank())
        trnrand.normal(4, 4, out=out)
    if how == "vectors":
        generator.dirichlet(4, alpha=out)


@pytest.mark.parametrize(
    ("how", "argument", "says"),
    [
        ("share", "generator", "placements say who draws what"),
        ("device", "device", "the mesh says where parts live"),
        ("shape", "out", "(4, 5)"),
        ("dtype", "dtype", "float64"),
        ("value", "shape", "positive"),
        ("terms", "placements of out", "terms"),
        ("position", "the call", "position=1"),
        ("default", "the call", "seed=1"),
        ("vectors", None, "no sharded algorithm"),
    ],
)
def test_what_is_refused_says_why(ranks, how, argument, says):
    with pytest.raises(Exception, match="rank") as caught:
        ranks(2).run(_refused, how)
    error = caught.value.errors[1]
    assert isinstance(error, trnsci.ArgumentError if argument else trnsci.UnsupportedError)
    assert argument is None or argument in error.argument
    assert says in str(error)
