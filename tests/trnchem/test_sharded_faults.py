"""Ranks that disagree, raise, hang, die: everybody hears of it, and finished pairs are there for the next run."""

import functools
import os
import random
import signal
import time

import pytest

import trnchem
from benchmarks.ranks import Ranks
from tests.trnchem.arguments import arguments
from tests.trnchem.checkpoint_files import done_in
from trnchem import MP2Options, checkpoint, dfmp2
from trnchem.accuracy import FP64
from trnsci import ArgumentError, CapacityError, RankFailed, distributed

WATER = -0.203977110


class Stopped(Exception):
    """The user's patience, at an end."""


@functools.cache
def alone(name, basis):
    return dfmp2(name, options=MP2Options(basis=basis)).e_corr


def _outcome(*args, **options):
    """The result of a call, or what it raised, and whether the ranks can go on."""
    mesh = distributed.mesh()
    try:
        found = dfmp2(*args, **arguments(mesh=mesh, **options))
        said = found.e_corr
    except (ArgumentError, CapacityError, RankFailed, Stopped, OSError) as error:
        said = error
    return said, abs(dfmp2("water", options=MP2Options(mesh=mesh)).e_corr - WATER) < 1e-8


def _differing(how):
    rank = distributed.mesh().get_rank()
    second = rank == 1
    if how == "mf":
        return _outcome("ammonia" if second else "water")
    if how == "energy":
        field = trnchem.mean_field("water", basis="sto-3g")
        field.e_tot += 0.01 * second
        return _outcome(field)
    value = {"frozen": "core", "precision": "fp32", "screening": 1e-9, "checkpoint": "x.h5", "auxbasis": "cc-pvdz-ri"}
    return _outcome("water", **({how: value[how]} if second else {}))


@pytest.mark.parametrize("how", ["mf", "energy", "frozen", "precision", "screening", "checkpoint", "auxbasis"])
def test_ranks_that_disagree_are_refused_with_the_argument_and_both_sides(ranks, how):
    for error, goes_on in ranks(3).run(_differing, how):
        assert isinstance(error, ArgumentError), error
        assert error.argument == ("mf" if how == "energy" else how)
        assert list(error.got) == ["rank 0", "rank 1", "rank 2"]
        assert error.got["rank 0"] == error.got["rank 2"] != error.got["rank 1"]
        assert "Every rank makes the same call" in str(error)
        assert goes_on


def _mistaken(rank, options):
    return _outcome("water", **(options if distributed.mesh().get_rank() == rank else {}))


@pytest.mark.parametrize(
    ("rank", "options", "kind", "says"),
    [
        (1, {"memory": "much"}, ArgumentError, "memory"),
        (0, {"samples": 0}, ArgumentError, "samples"),
        (2, {"method": "guess"}, ArgumentError, "method"),
        (1, {"basis": "cc-pvdzz"}, ArgumentError, "basis"),
    ],
    ids=str,
)
def test_a_mistake_on_one_rank_is_told_to_all(ranks, rank, options, kind, says):
    for number, (error, goes_on) in enumerate(ranks(3).run(_mistaken, rank, options)):
        if number == rank:
            assert isinstance(error, kind), error
        else:
            assert isinstance(error, RankFailed), error
            assert (error.failed, error.rank, error.op) == (rank, number, "trnchem.dfmp2")
            assert error.reason.startswith("raised ArgumentError")
            assert says in error.reason
        assert goes_on


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"memory": "1 MB"}, CapacityError, "would do"),
        ({"frozen": 5}, ArgumentError, "at least one occupied"),
        ({"checkpoint": "/nowhere/pairs.h5"}, ArgumentError, "a folder that exists"),
        ({"method": "laplace", "pairs": True}, ArgumentError, "has no pairs"),
    ],
    ids=str,
)
def test_what_is_wrong_everywhere_is_raised_everywhere(ranks, options, kind, says):
    for error, goes_on in ranks(2).run(_outcome, "water", **options):
        assert isinstance(error, kind | RankFailed), error
        assert says in str(error)
        assert goes_on


def _full_disk(path):
    mesh, honest, calls = distributed.mesh(), checkpoint.Slots.put, []

    def refuse(self, *args):
        calls.append(1)
        if mesh.get_rank() == 0 and len(calls) > 2:
            raise CapacityError(where="disk of x", required=1, available=0, hint="Free some space")
        honest(self, *args)

    checkpoint.Slots.put = refuse
    try:
        dfmp2("methane", checkpoint=path, options=MP2Options(basis="sto-3g", mesh=mesh))
    except (CapacityError, RankFailed) as error:
        return error
    finally:
        checkpoint.Slots.put = honest
    return None


def test_a_full_disk_on_the_first_rank_ends_all(ranks, tmp_path):
    first, *others = ranks(3).run(_full_disk, tmp_path / "pairs.h5")
    assert isinstance(first, CapacityError)
    for error in others:
        assert isinstance(error, RankFailed)
        assert (error.failed, error.raised) == (0, True)
        assert "raised CapacityError: disk of x" in error.reason


def _interrupted(path, after, name="methane", basis="sto-3g", alone=False, **options):
    """Stop as soon as some pairs or points are finished; returns what each rank raised, or its result."""

    def progress(now):
        if after is not None and now.stage == options.get("method", "pairs") and now.done >= after:
            raise Stopped

    mesh = None if alone else distributed.mesh()
    try:
        found = dfmp2(name, **arguments(basis=basis, mesh=mesh, checkpoint=path, progress=progress, **options))
    except (Stopped, RankFailed) as error:
        return error
    return found.e_corr, found.resumed


# how many ranks, one run after the other, the last of which finishes; 0 is dfmp2 without a mesh
ORDERS = [(1, 2, 3, 4), (4, 3, 2, 1), (0, 3, 0), (2, 0, 4), (3, 0, 0)]


@pytest.mark.parametrize("sizes", ORDERS, ids=str)
def test_a_run_goes_on_with_any_number_of_ranks(ranks, tmp_path, sizes):
    path = tmp_path / "pairs.h5"
    total, finished = 15, 0  # methane has five occupied orbitals
    for turn, size in enumerate(sizes):
        last = turn == len(sizes) - 1
        after = None if last else 3 * (turn + 1)
        if size:
            answers = ranks(size).run(_interrupted, path, after)
        else:
            answers = [_interrupted(path, after, alone=True)]
        if last:
            for energy, resumed in answers:
                assert resumed == finished > 0
                assert energy == pytest.approx(alone("methane", "sto-3g"), abs=1e-10)
        else:
            assert isinstance(answers[0], Stopped)
            assert all(isinstance(error, RankFailed) and error.failed == 0 for error in answers[1:])
            assert done_in(path) >= max(finished, after)
        finished = done_in(path)
    assert finished == total


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"method": "laplace", "quadrature_error": 1e-6}, {"method": "stochastic", "samples": 4, "same_spin": True}],
    ids=str,
)
def test_methods_without_pairs_go_on_with_other_ranks(ranks, tmp_path, options):
    path = tmp_path / "points.h5"
    for size, after in ((3, 2), (2, 4)):
        assert isinstance(ranks(size).run(_interrupted, path, after, "methyl", **options)[0], Stopped)
    finished = done_in(path)
    assert finished >= 4 * options.get("samples", 1)
    energy, resumed = _interrupted(path, None, "methyl", alone=True, **options)
    assert resumed == finished
    assert energy == pytest.approx(dfmp2("methyl", **arguments(basis="sto-3g", **options)).e_corr, abs=1e-10)


def _counting(path):
    from trnchem.pairs import Workspace

    honest, count = Workspace.energies, []

    def energies(self, one, others, *rest):
        count.append(len(others))
        return honest(self, one, others, *rest)

    Workspace.energies = energies
    try:
        found = dfmp2("benzene", checkpoint=path, options=MP2Options(basis="cc-pvdz", mesh=distributed.mesh()))
    finally:
        Workspace.energies = honest
    return sum(count), found.resumed, found.e_corr, found.timings


def test_finished_pairs_are_not_computed_again(ranks, reference, field, tmp_path):
    path = tmp_path / "pairs.h5"

    def progress(now):
        if now.stage == "pairs" and now.done >= 100:
            raise Stopped

    with pytest.raises(Stopped):
        dfmp2(field("benzene"), checkpoint=path, options=MP2Options(progress=progress))
    finished = done_in(path)
    answers = ranks(2).run(_counting, path)
    assert [resumed for _, resumed, _, _ in answers] == [finished] * 2
    # blocks of several ranks cut groups of pairs elsewhere, so that a few are computed twice
    assert sum(count for count, _, _, _ in answers) <= 231 - finished + 21
    assert answers[1][2] == pytest.approx(reference("benzene")[0], abs=FP64)
    again = ranks(3).run(_counting, path)
    for count, resumed, energy, timings in again:
        assert (count, resumed) == (0, 231)
        assert energy == answers[0][2]
        assert set(timings) == {"pairs"}


def _failing(how, rank, path):
    """A rank that stops in the middle of its pairs."""
    from trnchem.pairs import Workspace

    mesh, honest, calls = distributed.mesh(), Workspace.energies, []

    def energies(self, *args):
        calls.append(1)
        if mesh.get_rank() == rank and len(calls) == 6:
            if how == "raises":
                raise ZeroDivisionError("no reason")
            if how == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "stands still":
                os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(30)
        return honest(self, *args)

    Workspace.energies = energies
    try:
        dfmp2("benzene", checkpoint=path, options=MP2Options(basis="sto-3g", mesh=mesh))
    finally:
        Workspace.energies = honest


@pytest.mark.parametrize(
    ("how", "rank", "says"),
    [
        ("raises", 1, "raised ZeroDivisionError: no reason"),
        pytest.param("hangs", 1, "alive in this call", marks=pytest.mark.slow),
        pytest.param("dies", 2, "died", marks=pytest.mark.slow),
        pytest.param("stands still", 1, "pulse stopped", marks=pytest.mark.slow),
    ],
)
def test_a_rank_that_fails_among_its_pairs_is_named_by_all_others(ranks, tmp_path, how, rank, says):
    # what a rank says of itself is heard long before the timeout; of the others nothing is heard
    path, brief = tmp_path / "pairs.h5", how != "raises"
    team = Ranks(3, timeout=6.5) if brief else ranks(3)
    try:
        team.start(_failing, how, rank, path)
        start, answers = time.monotonic(), {}
        for number, pipe in enumerate(team._pipes):
            if number != rank:
                assert pipe.poll(100)
                answers[number] = pipe.recv()
        took = time.monotonic() - start
        if not brief:
            team._pipes[rank].recv()
    finally:
        if how == "stands still":
            team.kill(rank)
        if brief:
            team.close()
    # waiting for the message, looking at the pulses, and a machine that does other things
    assert took < (40 if brief else 100)
    for number, (kind, error, text) in answers.items():
        assert kind == "error"
        assert isinstance(error, RankFailed), text
        assert (error.failed, error.rank) == (rank, number)
        assert error.op == "trnchem.dfmp2"
        assert says in error.reason
    finished = done_in(path)
    assert finished >= 1
    for energy, resumed in ranks(2).run(_interrupted, path, None, "benzene"):
        assert resumed == finished
        assert energy == pytest.approx(alone("benzene", "sto-3g"), abs=1e-10)


def _slowly(path, seconds):
    from trnchem.pairs import Workspace

    honest = Workspace.energies

    def energies(self, *args):
        time.sleep(seconds)
        return honest(self, *args)

    Workspace.energies = energies
    return dfmp2("ammonia", checkpoint=path, options=MP2Options(mesh=distributed.mesh())).e_corr


def killed_at_random(ranks, tmp_path, seed):
    """Kill a rank of a calculation at some moment; go on with another number of ranks until it is done."""
    draw = random.Random(seed)
    path = tmp_path / "pairs.h5"
    size = draw.choice([2, 3, 4])
    victim = draw.randrange(size)
    team = Ranks(size, timeout=6.5)
    try:
        team.start(_slowly, path, 0.04)
        if draw.random() < 0.75:
            # among the pairs: at this many in the file
            wanted, deadline = draw.randrange(1, 14), time.monotonic() + 60
            while not (path.exists() and done_in(path) >= wanted) and time.monotonic() < deadline:
                time.sleep(0.005)
        else:
            time.sleep(2 * draw.random())
        team.kill(victim)
        answers = team.finish()
    finally:
        team.close()
    assert answers[victim][0] in ("died", "value")
    for rank, (kind, error, text) in enumerate(answers):
        if rank != victim and kind == "error":
            assert isinstance(error, RankFailed), text
            assert error.failed in (victim, 0)
    finished = done_in(path) if path.exists() else 0
    others = draw.choice([n for n in (1, 2, 3, 4) if n != size])
    for energy, resumed in ranks(others).run(_interrupted, path, None, "ammonia", "cc-pvdz"):
        assert resumed == finished
        assert energy == pytest.approx(alone("ammonia", "cc-pvdz"), abs=1e-10)
    return finished


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_random_a_run_goes_on_to_the_same_energy(ranks, tmp_path, seed):
    killed_at_random(ranks, tmp_path, seed)


@pytest.mark.slow
def test_twenty_random_kills(ranks, tmp_path):
    finished = []
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        finished.append(killed_at_random(ranks, folder, seed))
    # most were killed among their pairs
    assert sum(0 < pairs < 15 for pairs in finished) >= 10
