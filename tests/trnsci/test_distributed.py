"""Meshes, placements and agreement of trnsci.distributed."""

import inspect
import itertools
import time
import types

import numpy as np
import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Shard

import trnblas
import trnfft
import trnrand
import trnsci
import trnsim
import trnsolver
import trnsparse
import trntensor
from trnsci import distributed
from trnsci.distributed import Layout, RankPlan, Team, chunks, plans
from trnsci.distributed.calls import find, run
from trnsci.distributed.team import Crossing, Moment
from trnsim import collectives as ncc, language as nl
from trnsim.targets import TARGETS


def _moved(mesh_shape, shape, before, after):
    mesh = distributed.mesh(*mesh_shape)
    x = torch.arange(float(np.prod(shape))).reshape(shape)
    start = distributed.shard(x, mesh, *before)
    there = run("move", lambda team, part: part.to(team, after), mesh, (start,), {})
    layout = Layout(tuple(shape), x.dtype, tuple(mesh_shape), after)
    corner = layout.starts(mesh.get_coordinate())
    expected = x[tuple(slice(s, s + n) for s, n in zip(corner, layout.local_shape(mesh.get_coordinate()), strict=True))]
    return torch.equal(there.to_local(), expected) and torch.equal(distributed.gather(there), x)


def _misplaced(mesh_shape, shapes):
    """Moves between any two placements that went wrong."""
    places = list(itertools.product((0, 1, None), repeat=len(mesh_shape)))
    cases = itertools.product(shapes, places, places)
    return [(shape, before, after) for shape, before, after in cases if not _moved(mesh_shape, shape, before, after)]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_placement_becomes_every_other(ranks, size):
    assert ranks(size).run(_misplaced, (size,), ((5, 7), (2, 3), (0, 4))) == [[]] * size


def test_placements_on_a_grid_nest_as_torch_nests_them(ranks):
    assert ranks(4).run(_misplaced, (2, 2), ((5, 7),)) == [[]] * 4


def _torch_agrees(shape, places):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = distributed.mesh(2, 2)
    x = torch.arange(float(np.prod(shape))).reshape(shape)
    ours = distributed.shard(x, mesh, *places)
    theirs = distribute_tensor(x, mesh, [Replicate() if p is None else Shard(p) for p in places])
    return ours.placements == theirs.placements and torch.equal(ours.to_local(), theirs.to_local())


def test_parts_are_those_torch_makes(ranks):
    cases = list(itertools.product(((5, 7), (4, 2), (1, 9)), itertools.product((0, 1, None), repeat=2)))
    for case, agreed in zip(cases, ranks(4).each(_torch_agrees, cases), strict=True):
        assert all(agreed), case


def _terms(after):
    mesh = distributed.mesh()
    mine = torch.full((4, 5), 2.0 ** mesh.get_rank())
    spread = DTensor.from_local(mine, mesh, [Partial("sum")])
    return distributed.gather(run("move", lambda team, part: part.to(team, after), mesh, (spread,), {}))


@pytest.mark.parametrize("after", [(0,), (1,), (None,)])
def test_terms_are_added(ranks, after):
    for result in ranks(3).run(_terms, after):
        assert torch.equal(result, torch.full((4, 5), 7.0))


def _planned():
    mesh = distributed.mesh()
    a = distributed.shard(torch.ones(6, 4), mesh, 0)
    return trnsci.plan(trnblas.gemm, 1.0, a, a, trans_b=True)


def test_a_plan_of_spread_arrays_is_the_sharded_plan(ranks):
    rows = Layout((6, 4), torch.float32, (2,), (0,))
    expected = distributed.plan(trnblas.gemm, 1.0, rows, rows, trans_b=True)
    assert isinstance(expected, distributed.ShardedPlan)
    assert trnsci.plan(trnblas.gemm, 1.0, rows, rows, trans_b=True) == expected
    assert ranks(2).run(_planned) == [expected] * 2


COLLECTIVES = {
    "all_gather": lambda team, x: team.all_gather(0, x, [x.shape] * team.size(0)),
    "all_to_all": lambda team, x: team.all_to_all(0, [x] * team.size(0), [x.shape] * team.size(0)),
    "reduce_scatter": lambda team, x: team.reduce_scatter(0, [x] * team.size(0)),
    "all_reduce": lambda team, x: team.all_reduce(0, x),
}


def _collective(kind, count):
    """The same exchange as a kernel: x is 32 x 64 on every rank, or that per part where parts are sent."""

    def kernel(x):
        group, parts = ncc.ReplicaGroup([list(range(count))]), {"all_gather": count, "reduce_scatter": 1 / count}
        out = nl.ndarray((int(x.shape[0] * parts.get(kind, 1)), 64), dtype=x.dtype, buffer=nl.shared_hbm)
        options = {} if kind == "all_reduce" else {"collective_dim": 0}
        if "reduce" in kind:
            options["op"] = nl.add
        getattr(ncc, kind)(srcs=[x], dsts=[out], replica_group=group, **options)
        return out

    return kernel


@pytest.mark.sim
@pytest.mark.parametrize("kind", list(COLLECTIVES))
@pytest.mark.parametrize(("target", "count"), [("trn2", 4), ("trn1", 4), ("trn3", 32)])
def test_messages_are_predicted_as_the_simulator_predicts_collectives(kind, target, count):
    team = Team("test", (count,), (1,), torch.device("meta"))
    COLLECTIVES[kind](team, torch.empty(32, 64, device="meta"))
    rank = RankPlan(
        coordinate=(1,), steps=(), peak_bytes=0, messages=0, volume=0, exchanges=tuple(team.tally.exchanges)
    )
    rows = 32 * count if kind in ("all_to_all", "reduce_scatter") else 32
    made = torch.empty(rows, 64, device="meta")
    _, report = trnsim.profile(
        trnsim.jit(_collective(kind, count)), target=target, numerics=False, ranks=count, lint="off"
    )(made)
    # a sum is added in the order of ranks: an exchange and a gather, each with a start of its own
    starts = 1e-9 * TARGETS[target].timing.collective_start if kind == "all_reduce" else 0.0
    assert rank.predicted_messages(target) - starts == pytest.approx(report.engines["cc"].busy_s / count, rel=1e-9)


@pytest.mark.parametrize("side", [4, pytest.param(8, marks=pytest.mark.slow)])
def test_a_plan_by_classes_is_the_plan_of_every_rank(side):
    grid, row = (side, side), (side * side,)
    vectors = [Layout((count,), torch.float32, row, (None,)) for count in (66, 8)]
    copies = [Layout((count,), torch.float32, grid, (None, None)) for count in (64, 8)]
    cases = {
        trnblas.gemm: [(1.0, *[Layout((96, 96), torch.float32, grid, places)] * 2) for places in ((0, 1), (0, 0))],
        trnblas.trsm: [(1.0, *[Layout((192, 192), torch.float32, row, (0,))] * 2)],
        trnfft.fftn: [(Layout((64, 64, 65), torch.complex64, grid, (0, 1)),)],
        trntensor.mp2_energy: [
            (Layout((66, 8, 9), torch.float32, row, (0,)), *vectors),
            (Layout((64, 8, 9), torch.float32, grid, (0, 2)), *copies),
        ],
        trnsolver.cholesky: [(Layout((64, 64), torch.float32, row, (0,)),)],
        trnsolver.qr: [(Layout((999, 8), torch.float32, row, (0,)),)],
    }
    for function, calls in cases.items():
        for args in calls:
            by_class = distributed.plan(function, *args)
            algorithm = find(function)
            bound = plans.by_name(algorithm, args, {})
            places = itertools.product(*map(range, by_class.mesh))
            every = [plans._play_rank(algorithm, bound, by_class.mesh, at) for at in places]
            assert len(by_class.classes) <= side * side == len(every)
            for name in ("volume", "peak_bytes"):
                assert getattr(by_class, name) == max(getattr(rank, name) for rank in every), (function, name)
            for read in (lambda rank: rank.flops, lambda rank: rank.messages, lambda rank: len(rank.moments)):
                assert max(map(read, by_class.classes)) == max(map(read, every)), function
            if side == 8 and (slowest := by_class.slowest("trn2")) is not None:
                assert slowest.total == pytest.approx(max(rank.predicted("trn2").total for rank in every))


def test_a_class_of_a_factor_on_a_grid_nearly_receives_what_its_busiest_rank_does():
    factor, grid = (Layout((64, 64), torch.float32, (4, 4), (0, 1)),), (4, 4)
    by_class, algorithm = distributed.plan(trnsolver.cholesky, *factor), find(trnsolver.cholesky)
    bound = plans.by_name(algorithm, factor, {})
    every = [plans._play_rank(algorithm, bound, grid, at) for at in itertools.product(range(4), range(4))]
    # ranks between the corners own other blocks of the diagonal
    assert by_class.volume == pytest.approx(max(rank.volume for rank in every), rel=0.03)
    assert by_class.peak_bytes == max(rank.peak_bytes for rank in every)
    assert by_class.classes[0].messages == every[-1].messages


def test_thousands_of_ranks_are_planned_by_a_few():
    square = Layout((65536, 65536), torch.bfloat16, (64, 64), (0, 1))
    sharded = distributed.plan(trnblas.gemm, 1.0, square, square)
    assert len(sharded.classes) <= 9
    assert len(sharded.ranks) == 4096
    assert sharded.flops == 2 * 65536**3


def test_an_exchange_travels_while_its_rank_computes():
    steps = [types.SimpleNamespace(predicted=lambda target: 1e-3, cost=types.SimpleNamespace(flops=1))] * 4
    crossing = Crossing("all_gather", 16, 8, 1 << 29, 1 << 29)
    rank = {"coordinate": (0,), "steps": tuple(steps), "peak_bytes": 0, "messages": 0, "volume": 0}
    alone = RankPlan(**rank, exchanges=(crossing,)).predicted_messages("trn2")
    assert alone > 2e-3
    for moments, expected in (
        ((Moment(0, 0, True), Moment(0, 0, False)), 4e-3 + alone),
        ((Moment(0, 0, True), Moment(2, 0, False)), 2e-3 + alone),
        ((Moment(0, 0, True), Moment(4, 0, False)), max(4e-3, alone)),
    ):
        found = RankPlan(**rank, exchanges=(crossing,), moments=moments).predicted("trn2")
        assert found.total == pytest.approx(expected)
        assert found.limit == "links"


def test_parts_are_cut_as_chunk_cuts():
    for extent, count in itertools.product(range(12), range(1, 6)):
        sizes = [size for _, size in chunks(extent, count)]
        theirs = [len(x) for x in torch.chunk(torch.zeros(extent), count)] if extent else [0]
        assert sizes == theirs + [0] * (count - len(theirs))


def test_alone_is_a_world_of_one():
    mesh = distributed.mesh()
    try:
        assert mesh.size() == 1
        a = distributed.shard(torch.ones(3, 2), mesh, 0)
        expected = torch.full((3, 3), 2.0, device=mesh.device_type)
        assert torch.equal(distributed.gather(trnblas.gemm(1.0, a, a, trans_b=True)), expected)
        with pytest.raises(trnsci.ArgumentError, match="product is 1"):
            distributed.mesh(2)
        with pytest.raises(trnsci.ArgumentError, match="axis of the array"):
            distributed.shard(torch.ones(2), mesh, 1)
        with pytest.raises(trnsci.ArgumentError, match="positive number of seconds"):
            distributed.mesh(timeout=0)
    finally:
        distributed.leave()


def _takes_tensors(function):
    """Arguments for a public function, all of its tensors spread; None where it takes none."""
    a = distributed.shard(torch.eye(4), distributed.mesh(), 0)
    values = {"Tensor": a, "complex": 1.0, "float": 1.0, "Sequence[int]": (1, 0), "int": 2}
    args = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not inspect.Parameter.empty:
            continue
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            return None
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            said = "Tensor" if parameter.name in ("a", "x") else str(parameter.annotation)
            args.append(next((value for word, value in values.items() if word in said), None))
    return args if any(x is a for x in args) and all(x is not None for x in args) else None


def test_every_function_takes_a_spread_tensor_or_says_that_it_cannot():
    libraries = (trnblas, trnfft, trnrand, trnsolver, trnsparse, trntensor)
    taken, refused, strange = [], [], []
    try:
        for library in libraries:
            for name in library.__all__:
                function = getattr(library, name)
                args = _takes_tensors(function) if inspect.isfunction(function) else None
                if args is None:
                    continue
                try:
                    made = function(*args)
                except trnsci.TrnError:
                    refused.append(name)
                else:
                    parts = [made, *(made if isinstance(made, tuple) else ()), *(getattr(made, at, 0) for at in "xu")]
                    (taken if any(isinstance(x, DTensor) for x in parts) else strange).append(name)
        for matrix in (trnsparse.eye(4), trnsparse.eye(4).to_bsr((2, 2))):
            with pytest.raises(trnsci.TrnError, match=r"spread|sharded"):
                matrix @ distributed.shard(torch.eye(4), distributed.mesh(), 0)
        with pytest.raises(trnsci.UnsupportedError, match="values is sharded over ranks"):
            trnsparse.CSRMatrix([0, 1], [0], distributed.shard(torch.ones(1), distributed.mesh(), 0), (1, 1))
    finally:
        distributed.leave()
    assert strange == []
    assert len(refused) > 100
    assert {"gemm", "syrk", "fft", "rfftn", "cholesky", "cg"} <= set(taken)


def _disagreeing(how):
    mesh = distributed.mesh()
    rank = mesh.get_rank()
    shape = (4, 4 + rank) if how == "shape" else (4, 4)
    dtype = torch.float64 if how == "dtype" and rank else torch.float32
    alpha = 1.0 + rank if how == "option" else 1.0
    a = distributed.shard(torch.ones(shape, dtype=dtype), mesh, 0)
    trnblas.gemm(alpha, a, a, trans_b=True)


@pytest.mark.parametrize("how", ["shape", "dtype", "option"])
def test_ranks_that_disagree_are_refused_before_data_moves(ranks, how):
    with pytest.raises(Exception, match="rank 0 has") as caught:
        ranks(2).run(_disagreeing, how)
    for error in caught.value.errors.values():
        assert isinstance(error, trnsci.ArgumentError)
        assert set(error.got) == {"rank 0", "rank 1"}
        assert error.got["rank 0"] != error.got["rank 1"]


def _works():
    mesh = distributed.mesh()
    a = distributed.shard(torch.ones(4, 4), mesh, 0)
    return distributed.gather(trnblas.gemm(1.0, a, a)).sum().item()


def test_a_refused_call_leaves_the_ranks_usable(ranks):
    with pytest.raises(Exception, match="rank 0 has"):
        ranks(2).run(_disagreeing, "option")
    assert ranks(2).run(_works) == [64.0, 64.0]


def _refused(how):
    mesh = distributed.mesh()
    a = distributed.shard(torch.ones(4, 4), mesh, 0)
    if how == "subset":
        pair = DeviceMesh("cpu", [0, 1])
        if mesh.get_rank() < 2:
            return distributed.gather(trnblas.gemm(1.0, *[distributed.shard(torch.ones(4, 4), pair, 0)] * 2))
        distributed.shard(torch.ones(4, 4), pair, 0)
    if how == "outside":
        pair = DeviceMesh("cpu", [0, 1])
        outside = DTensor.from_local(torch.ones(2, 4), pair, [Shard(0)], run_check=False)
        if mesh.get_rank() == 2:
            distributed.gather(outside)
    if how == "other mesh":
        trnblas.gemm(1.0, a, distributed.shard(torch.ones(4, 4), distributed.mesh(1, 3), 0))
    if how == "other mesh in a list":
        trntensor.einsum("ij,jk,kl->il", distributed.shard(torch.ones(4, 4), distributed.mesh(1, 3), 0), a, a)
    if how == "average":
        trnblas.gemm(1.0, DTensor.from_local(torch.ones(4, 4), mesh, [Partial("avg")], run_check=False), a)
    if how == "own cuts":
        size = mesh.get_rank() + 1
        parts = DTensor.from_local(
            torch.ones(size, 4), mesh, [Shard(0)], run_check=False, shape=torch.Size((6, 4)), stride=(4, 1)
        )
        trnblas.gemm(1.0, parts, a)
    if how == "out wants grad":
        trnblas.gemm(1.0, a, a, out=distributed.shard(torch.ones(4, 4), mesh, 0).requires_grad_())
    if how == "operand wants grad":
        operand = distributed.shard(torch.ones(4, 4).requires_grad_(), mesh, 0)
        trnblas.gemm(1.0, operand, a, out=distributed.shard(torch.ones(4, 4), mesh, 0))
    if how == "out is an operand":
        trnblas.gemm(1.0, a, a, out=a)
    if how == "integers":
        trnblas.gemm(1.0, *[distributed.shard(torch.ones(4, 4, dtype=torch.int32), mesh, 0)] * 2)
    if how == "a number":
        trnblas.gemm(1.0, *[distributed.shard(torch.tensor(2.0), mesh, None)] * 2)
    if how == "a number that wants grad":
        trnblas.gemm(distributed.shard(torch.tensor(2.0).requires_grad_(), mesh, None), a, a)
    if how == "shard twice":
        distributed.shard(a, mesh, 0)
    if how == "shard a result":
        distributed.shard(torch.ones(4, 4).requires_grad_() * 2, mesh, 0)
    if how == "shard an array":
        distributed.shard(np.ones((4, 4)), mesh, 0)
    if how == "shard nowhere":
        distributed.shard(torch.ones(4, 4), "cpu", 0)
    return None


@pytest.mark.parametrize(
    ("how", "kind", "says"),
    [
        ("subset", trnsci.ArgumentError, "a mesh that this rank is part of"),
        ("outside", trnsci.ArgumentError, "ranks [0, 1], and this is rank 2"),
        ("other mesh", trnsci.ArgumentError, "Use one mesh"),
        ("other mesh in a list", trnsci.ArgumentError, "Use one mesh"),
        ("average", trnsci.ArgumentError, "Partial('sum')"),
        ("own cuts", trnsci.ArgumentError, "as torch.chunk cuts (6, 4)"),
        ("out wants grad", trnsci.ArgumentError, "cannot be differentiated"),
        ("operand wants grad", trnsci.ArgumentError, "cannot be differentiated"),
        ("out is an operand", trnsci.ArgumentError, "memory shared with a"),
        ("integers", trnsci.DtypeError, "int32"),
        ("a number", trnsci.ArgumentError, "dimension"),
        ("a number that wants grad", trnsci.ArgumentError, "Multiply the result by the tensor"),
        ("shard twice", trnsci.ArgumentError, "redistribute"),
        ("shard a result", trnsci.ArgumentError, "leaf"),
        ("shard an array", trnsci.DtypeError, "ndarray"),
        ("shard nowhere", trnsci.ArgumentError, "distributed.mesh()"),
    ],
)
def test_what_is_refused_says_why(ranks, how, kind, says):
    with pytest.raises(Exception, match="rank") as caught:
        ranks(3).run(_refused, how)
    assert isinstance(caught.value.errors[2], kind), caught.value
    assert says in str(caught.value.errors[2])
    # everybody goes on
    assert ranks(3).run(_works) == [64.0] * 3


def _at_odds_on_a_grid(how):
    mesh = distributed.mesh(2, 2)
    a = distributed.shard(torch.ones(4, 4), mesh, 0, 1)
    # alone in its row and in its column
    last = mesh.get_rank() == 3
    trnblas.gemm({"refuses": "one", "differs": 2.0}[how] if last else 1.0, a, a)


def test_everybody_on_a_grid_learns_of_a_refusal(ranks):
    with pytest.raises(Exception, match="rank 0") as caught:
        ranks(4).run(_at_odds_on_a_grid, "refuses")
    assert isinstance(caught.value.errors[3], trnsci.DtypeError)
    for rank in range(3):
        error = caught.value.errors[rank]
        assert (error.failed, error.rank) == (3, rank)
        assert error.reason == f"raised DtypeError: {caught.value.errors[3]}"
    with pytest.raises(Exception, match="rank 0") as caught:
        ranks(4).run(_at_odds_on_a_grid, "differs")
    for error in caught.value.errors.values():
        assert list(error.got) == ["rank 0", "rank 1", "rank 2", "rank 3"]
        assert error.got["rank 0"] == error.got["rank 2"] != error.got["rank 3"]
    assert ranks(4).run(_works) == [64.0] * 4


def _strange_arrays():
    """Every dtype, views whose numbers are not what memory says, no axes, and a mesh with three axes."""
    mesh, cube = distributed.mesh(), distributed.mesh(1, 3, 1)
    found = []
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float16, torch.complex64, torch.float8_e5m2):
        x = torch.arange(10).remainder(2).to(torch.float32).to(dtype).reshape(5, 2)
        spread = distributed.shard(x, mesh, 0)
        moved = run("move", lambda team, part: part.to(team, 1), mesh, (spread,), {})
        found.append(torch.equal(distributed.gather(moved).to(torch.complex64), x.to(torch.complex64)))
    wave = torch.complex(torch.arange(6.0), torch.ones(6)).reshape(3, 2)
    found.append(torch.equal(distributed.gather(distributed.shard(wave, mesh, 0).conj()), wave.conj()))
    found.append(torch.equal(distributed.gather(distributed.shard(wave.conj().imag, mesh, 0)), -wave.imag))
    # one element of a transposed matrix: contiguous, with a stride of its own
    one = distributed.shard(wave[:, :1].mH[:, :1], mesh, 0)
    found.append(distributed.gather(run("move", lambda team, part: part.to(team, 1), mesh, (one,), {})).item() == -1j)
    number = distributed.shard(torch.tensor(2.0), mesh, None)
    found.append(distributed.gather(number).item() == 2)
    a = distributed.shard(torch.eye(4), mesh, 0)
    found.append(torch.equal(distributed.gather(trnblas.gemm(number, a, a)), 2 * torch.eye(4)))
    found.append(torch.equal(distributed.gather(trntensor.einsum(",ij->ji", number, a)), 2 * torch.eye(4)))
    b = torch.arange(20.0).reshape(4, 5)
    for places in ((0, 1, None), (None, 0, 1), (1, 1, 0)):
        left, right = distributed.shard(b.T, cube, *places), distributed.shard(b, cube, *places)
        found.append(torch.equal(distributed.gather(trnblas.gemm(1.0, left, right)), b.T @ b))
        found.append(torch.equal(distributed.gather(trntensor.einsum("ij,jk->ik", left, right)), b.T @ b))
    out = distributed.shard(torch.zeros(4, 4), mesh, 1)
    found.append(trnblas.gemm(1.0, a, a, out=out) is out and torch.equal(distributed.gather(out), torch.eye(4)))
    return found


def test_strange_arrays(ranks):
    for found in ranks(3).run(_strange_arrays):
        assert all(found), found


def _gathered_gradient():
    mesh = distributed.mesh()
    x = distributed.shard(torch.arange(10.0).requires_grad_(), mesh, 0)
    (distributed.gather(x) ** 2).sum().backward()
    copies = distributed.gather(distributed.shard(torch.ones(2), mesh, None))
    copies += 1
    return distributed.gather(x.grad)


def test_gradients_pass_gather(ranks):
    for grad in ranks(3).run(_gathered_gradient):
        assert torch.equal(grad, 2 * torch.arange(10.0))


def _subset_then_all():
    """Ranks that have made calls of their own are still found in a call of everybody."""
    mesh, pair = distributed.mesh(), DeviceMesh("cpu", [0, 1])
    if mesh.get_rank() < 2:
        a = distributed.shard(torch.ones(4, 4), pair, 0)
        for _ in range(3):
            trnblas.gemm(1.0, a, a)
    a = distributed.shard(torch.ones(4, 4), mesh, 0)
    trnblas.gemm("one" if mesh.get_rank() == 2 else 1.0, a, a)


def test_a_fault_is_found_after_calls_of_a_few(ranks):
    team, start = ranks(3), time.monotonic()
    with pytest.raises(Exception, match="rank 0") as caught:
        team.run(_subset_then_all)
    # less than the timeout of 120 s: what the rank said was found
    assert time.monotonic() - start < 100
    for rank in (0, 1):
        assert caught.value.errors[rank].failed == 2
        assert "raised DtypeError" in caught.value.errors[rank].reason


def test_layouts_are_checked():
    with pytest.raises(trnsci.ArgumentError, match="one per axis of the mesh"):
        Layout((4, 4), torch.float32, (2, 2), (0,))
    with pytest.raises(trnsci.ArgumentError, match="axis of the array, which has 2"):
        Layout((4, 4), torch.float32, (2,), (2,))
