"""Ranks that raise, hang or die in the middle of a sharded call: everybody hears of it, and goes on where it can."""

import math
import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate

import trnblas
import trnsci
import trnsolver
from benchmarks.ranks import Ranks
from tests.together import together
from trnsci import distributed
from trnsci.distributed.agreement import _fingerprint
from trnsci.distributed.calls import run
from trnsci.distributed.world import World


def _works(*shape):
    """A call of ours and one of torch's own on the same mesh: the sum of a product, and a gathered matrix."""
    mesh = distributed.mesh(*shape)
    a = distributed.shard(torch.ones(4, 4), mesh, 0)
    ours = distributed.gather(trnblas.gemm(1.0, a, a)).sum().item()
    return ours, a.redistribute(mesh, [Replicate()] * mesh.ndim).to_local().sum().item()


class _Broken(Exception):
    """What the tests raise."""


def _fails(team, x, where, who):
    """An algorithm of three exchanges, one rank of which raises before, between or after them."""
    axis = len(team.shape) - 1

    def here(place):
        if place == where and team.world.rank == who:
            raise _Broken(f"rank {who} {where}")

    here("before")
    team.all_gather(axis, x.local, [x.local.shape] * team.size(axis))
    wait = team.broadcast(0, x.local if team.here(0) == 0 else None, x.local.shape, x.dtype, 0)
    here("under way")
    total = team.all_reduce(axis, wait())
    here("after")
    return x.with_local(total)


def _failing(shape, where, who):
    mesh = distributed.mesh(*shape)
    x = distributed.shard(torch.ones(4, 8), mesh, *[None] * mesh.ndim)
    try:
        run("fails", lambda team, x: _fails(team, x, where, who), mesh, (x,), {})
    except _Broken as error:
        return "own", str(error), _works(*shape)
    except trnsci.RankFailed as error:
        return error.failed, f"{error.op}: {error.reason}", error.raised, str(error), _works(*shape)
    return "nothing"


@pytest.mark.parametrize("where", ["before", "under way", "after"])
@pytest.mark.parametrize(("shape", "who"), [((2,), 0), ((3,), 1), ((2, 2), 3)])
def test_a_rank_that_raises_is_named_everywhere_and_all_go_on(ranks, shape, who, where):
    size = torch.Size(shape).numel()
    for rank, found in enumerate(ranks(size).run(_failing, shape, where, who)):
        if rank == who:
            assert found == ("own", f"rank {who} {where}", (64.0, 16.0))
        else:
            assert found[:3] == (who, f"fails: raised _Broken: rank {who} {where}", True)
            assert "The ranks can go on with another call" in found[3]
            assert found[4] == (64.0, 16.0)


def _again_and_again(count):
    """Failures one after the other; messages of one must never be taken for those of the next."""
    mesh = distributed.mesh()
    heard = []
    for number in range(count):
        sent = torch.full((3,), float(number))

        def algorithm(team, number=number, sent=sent):
            wait = team.broadcast(0, sent if team.here(0) == 0 else None, (3,), torch.float32, 0)
            if team.here(0) == number % team.size(0):
                raise _Broken
            wait()
            team.all_gather(0, sent, [(3,)] * team.size(0))

        try:
            run("fails", algorithm, mesh, (), {})
        except (_Broken, trnsci.RankFailed):
            whole = distributed.gather(distributed.shard(sent, mesh, 0))
            heard.append(torch.equal(whole, sent))
    threads = len(list(Path("/proc/self/task").iterdir()))
    return heard, threads


def test_failures_leave_no_messages_and_few_threads_behind(ranks):
    team = ranks(3)
    before = [threads for _, threads in team.run(_again_and_again, 1)]
    for (heard, threads), earlier in zip(team.run(_again_and_again, 6), before, strict=True):
        assert heard == [True] * 6
        # a group that is given up keeps its own: gloo has a loop and two workers
        assert threads <= earlier + 6 * 4


def _raises_in_a_factorisation():
    """A kernel that fails on one rank, in the middle of a public function."""
    from trnsolver.sharded import cholesky

    mesh, calls = distributed.mesh(), []
    a = distributed.shard(4 * torch.eye(40, dtype=torch.float64), mesh, 0)
    kept = cholesky.trsm

    def fragile(*args, **options):
        calls.append(1)
        if len(calls) == 5 and mesh.get_rank() == 1:
            raise MemoryError("no room")
        return kept(*args, **options)

    cholesky.trsm = fragile
    try:
        trnsolver.cholesky(a)
    except (MemoryError, trnsci.RankFailed) as error:
        said = str(error)
    finally:
        cholesky.trsm = kept
    return said, distributed.gather(trnsolver.cholesky(a)).diagonal().unique().tolist()


def test_a_failure_inside_a_public_function(ranks):
    found = ranks(3).run(_raises_in_a_factorisation)
    assert found[1] == ("no room", [2.0])
    for rank in (0, 2):
        said, diagonal = found[rank]
        assert said.startswith("trnsolver.cholesky: rank 1 raised MemoryError: no room")
        assert diagonal == [2.0]


def _interrupted():
    """A rank that is interrupted while ranks agree: the others have agreed, and are in the algorithm."""
    from trnsci.distributed.team import LiveTeam

    mesh, kept = distributed.mesh(), LiveTeam._finish
    a = distributed.shard(torch.ones(4, 4), mesh, 0)

    def interrupted(*args):
        raise KeyboardInterrupt

    if mesh.get_rank() == 1:
        LiveTeam._finish = interrupted
    try:
        trnblas.gemm(1.0, a, a)
    except (KeyboardInterrupt, trnsci.RankFailed) as error:
        said = str(error)
    finally:
        LiveTeam._finish = kept
    return said, _works()


def test_an_interrupt_while_ranks_agree_leaves_them_usable(ranks):
    found = ranks(3).run(_interrupted)
    assert found[1] == ("", (64.0, 16.0))
    for said, works in (found[0], found[2]):
        assert said.startswith("trnblas.gemm: rank 1 raised KeyboardInterrupt")
        assert works == (64.0, 16.0)


def _pair_fails():
    """Two of three ranks fail in a call of their own; the third has had nothing to do with it."""
    mesh, pair = distributed.mesh(), DeviceMesh("cpu", [0, 1])
    said = None
    if mesh.get_rank() < 2:
        x = distributed.shard(torch.ones(4), pair, None)
        try:
            run("fails", lambda team, x: _fails(team, x, "under way", 1), pair, (x,), {})
        except (_Broken, trnsci.RankFailed) as error:
            said = type(error).__name__
        assert distributed.gather(distributed.shard(torch.arange(4.0), pair, 0)).tolist() == [0, 1, 2, 3]
    return said, _works()


def test_a_failure_of_a_few_concerns_nobody_else(ranks):
    works = (64.0, 16.0)
    assert ranks(3).run(_pair_fails) == [("RankFailed", works), ("_Broken", works), (None, works)]


def _backwards():
    """A mesh whose ranks do not stand in the order of their numbers."""
    mesh = DeviceMesh("cpu", [2, 0, 1])
    x = torch.arange(14.0).reshape(7, 2)
    spread = distributed.shard(x, mesh, 0)
    moved = run("move", lambda team, part: part.to(team, 1), mesh, (spread,), {})
    return mesh.get_coordinate(), torch.equal(distributed.gather(spread), x), torch.equal(distributed.gather(moved), x)


def test_ranks_in_any_order(ranks):
    for (coordinate, *right), expected in zip(ranks(3).run(_backwards), (1, 2, 0), strict=True):
        assert list(coordinate) == [expected]
        assert right == [True, True]


def _one_raises():
    mesh = distributed.mesh()
    a = distributed.shard(torch.ones(4, 4), mesh, 0)
    if mesh.get_rank() == 1:
        trnblas.gemm("one", a, a)
    trnblas.gemm(1.0, a, a)


def _one_hangs(seconds):
    mesh = distributed.mesh()
    a = distributed.shard(torch.ones(4, 4), mesh, 0)
    trnblas.gemm(1.0, a, a)
    if mesh.get_rank() == 1:
        time.sleep(seconds)
        return
    trnblas.syrk(1.0, a)


def _one_dies():
    mesh = distributed.mesh()
    a = distributed.shard(torch.ones(4, 4), mesh, 0)
    trnblas.gemm(1.0, a, a)
    if mesh.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    trnblas.syrk(1.0, a)


def _never_comes(seconds):
    """The first call of all, before there is a group to send in."""
    mesh = distributed.mesh()
    if mesh.get_rank() == 1:
        time.sleep(seconds)
        return
    trnblas.gemm(1.0, *[distributed.shard(torch.ones(4, 4), mesh, 0)] * 2)


@pytest.mark.parametrize(
    ("program", "args", "says"),
    [
        (_one_raises, (), "raised"),
        pytest.param(_one_hangs, (0.0,), "has not reached", marks=pytest.mark.slow),
        pytest.param(_never_comes, (9.0,), "has not reached", marks=pytest.mark.slow),
        pytest.param(_one_dies, (), "died", marks=pytest.mark.slow),
    ],
    ids=["raises", "hangs", "never comes", "dies"],
)
def test_a_failing_rank_makes_every_other_raise_and_is_named(ranks, program, args, says):
    # what a rank says of itself is heard long before the timeout; of the others nothing is heard
    brief = program is not _one_raises
    team = Ranks(3, timeout=7.0) if brief else ranks(3)
    try:
        start = time.monotonic()
        team.start(program, *args)
        answers = team.finish()
        # far from what a rank that is waited for without end would take
        assert time.monotonic() - start < 100
    finally:
        if brief:
            team.close()
    for rank in (0, 2):
        kind, error, _ = answers[rank]
        assert kind == "error"
        assert isinstance(error, trnsci.RankFailed), error
        assert (error.failed, error.rank) == (1, rank)
        assert says in error.reason
        assert error.op.startswith("trnblas.")
        assert error.op in str(error)
        assert error.raised == (says == "raised")
        assert ("Start the program again" in str(error)) != error.raised


def _alive(beat, calls=3, **more):
    return {"beat": beat, "calls": {"team": calls}, "op": "trnblas.gemm", "state": "alive", "waiting": True} | more


def _asked(rank=2, timeout=8.0, **state):
    """A rank in its third call, without a store."""
    here = object.__new__(World)
    here.rank, here.timeout, here.op, here.team, here._calls = rank, timeout, "trnblas.gemm", "team", {"team": 3}
    here._answered, here._lost_at, here._known = time.monotonic(), math.inf, None
    vars(here).update(state)
    return here


@together(
    ("before", "after", "failed", "says"),
    [
        # one that has left, because it knows, is not to blame while another has no pulse
        ({0: _alive(4), 1: _alive(4)}, {0: _alive(5, state="ended"), 1: _alive(4)}, 1, "pulse stopped"),
        ({0: _alive(4), 1: _alive(4)}, {0: _alive(4), 1: _alive(4, calls=2)}, 1, "or rank 0 has: their pulses stopped"),
        ({0: _alive(4), 1: _alive(4)}, {0: _alive(5, state="ended"), 1: _alive(6)}, 0, "has ended"),
        ({0: _alive(4), 1: {}}, {0: _alive(6), 1: {}}, 1, "has said nothing"),
        ({0: _alive(4), 1: _alive(4)}, {0: _alive(6), 1: _alive(6, calls=2)}, 1, "has not reached this call"),
        ({0: _alive(4), 1: _alive(4)}, {0: _alive(6), 1: _alive(6)}, -1, "is not known"),
    ],
)
def test_the_dead_are_blamed_before_those_that_left(before, after, failed, says):
    said = _asked()._behind(before, after)
    assert said["rank"] == failed
    assert says in said["text"]


_TOLD = {"rank": 1, "op": "trnblas.gemm", "text": "has died or hangs: its pulse stopped", "started": 0}


@together(
    ("error", "rank", "silent", "known", "failed"),
    [
        # killed: the store went between two beats
        (RuntimeError(), 2, 1.0, None, 0),
        # stopped: it has not answered for some beats
        (TimeoutError(), 2, 4.0, None, 0),
        # rank 0 may have blamed another and left while this one had no processor time
        (RuntimeError(), 2, 9.0, None, -1),
        # its holder may be alive on a busy machine, and a rank never blames itself
        (TimeoutError(), 2, 1.0, None, -1),
        (TimeoutError(), 0, 4.0, None, -1),
        # what was heard before the store went stays true
        (RuntimeError(), 2, 1.0, _TOLD, 1),
        (TimeoutError(), 2, 9.0, _TOLD, 1),
    ],
)
def test_a_store_that_has_gone_is_blamed_on_its_holder_only_when_that_is_sure(error, rank, silent, known, failed):
    now = time.monotonic()
    said = _asked(rank, _answered=now - silent, _lost_at=now, _known=known)._lost(error)
    assert said["rank"] == failed
    assert ("is not known" in said["text"]) == (failed < 0)


def _copies_differ(shape):
    """A copy on every rank that is not one."""
    mesh = distributed.mesh(*shape)
    a = distributed.shard(torch.ones(4, 4), mesh, 0)
    b = torch.ones(4, 4)
    b[3, 2] += 1e-7 * (mesh.get_rank() == 1)
    try:
        trnblas.gemm(1.0, a, distributed.shard(b, mesh, *[None] * mesh.ndim))
    except trnsci.ArgumentError as error:
        return error.got, str(error), _works(*shape)
    return None


@pytest.mark.parametrize("first", range(4))
def test_a_copy_is_compared_wherever_it_lies_in_memory(first):
    x = torch.arange(20, dtype=torch.float32)[first : first + 13]
    assert _fingerprint(x) == _fingerprint(x.clone())
    assert _fingerprint(x) != _fingerprint(x + (torch.arange(13) == 12))


def test_a_copy_that_differs_is_caught_before_data_moves(ranks):
    for got, text, works in ranks(2).run(_copies_differ, (2,)):
        assert got["rank 0"] != got["rank 1"]
        assert "copies on every rank hold the same" in text
        assert works == (64.0, 16.0)


def _two_threads():
    """A second thread that makes a call while the first is in one."""
    mesh = distributed.mesh()
    entered, leave, heard = threading.Event(), threading.Event(), []

    def algorithm(team):
        entered.set()
        leave.wait(100)

    first = threading.Thread(target=lambda: run("slow", algorithm, mesh, (), {}))
    first.start()
    entered.wait(100)
    try:
        distributed.gather(distributed.shard(torch.ones(4), mesh, 0))
    except trnsci.ArgumentError as error:
        heard.append(str(error))
    leave.set()
    first.join(100)
    return heard, _works()


def test_two_threads_cannot_mix_their_calls(ranks):
    for heard, works in ranks(2).run(_two_threads):
        assert len(heard) == 1
        assert "thread is 'a call while another thread is in slow', expected one call after the other" in heard[0]
        assert works == (64.0, 16.0)


def _forked():
    """A fork of a rank asks for the ranks of its parent."""
    distributed.mesh()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            distributed.mesh()
        except trnsci.ArgumentError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    return os.read(reader, 1000).decode(), _works()


def test_a_fork_of_a_rank_is_refused(ranks):
    for said, works in ranks(2).run(_forked):
        assert "a fork of rank" in said
        assert works == (64.0, 16.0)
