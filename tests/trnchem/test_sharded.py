"""``dfmp2`` on several ranks: the energies of one rank, plans that hold, and who computes what."""

import functools
import time

import pytest
import torch

import trnchem
import trnsci
from benchmarks.ranks import RemoteError
from tests.together import together
from tests.trnchem.arguments import arguments
from trnchem import MP2Options, dfmp2
from trnchem.accuracy import FP64
from trnchem.budget import blocks_of, cuts, duty, pairs_of
from trnsci import ArgumentError, CapacityError, distributed
from trnsci.memory import MemoryMeter

# fp64 agrees with one rank to 1e-10 Ha; fp32 and sampled energies round as they do there
CASES = [
    ("water", {"reuse": False, "pairs": True}, 1e-10),
    ("water", {"frozen": "core"}, 1e-10),
    ("ammonia", {"auxbasis": "cc-pvdz-ri", "pairs": True}, 1e-10),
    ("water", {"frozen": 4}, 1e-10),  # one occupied orbital: most ranks hold nothing
    ("water", {"precision": "fp32", "reuse": False}, 2e-7),
    ("water", {"method": "laplace"}, 1e-10),
    ("water", {"method": "stochastic", "samples": 8, "seed": 3}, 1e-10),
    ("water", {"charge": 1, "basis": "6-31g", "pairs": True}, 1e-10),
    ("water", {"charge": 1, "basis": "6-31g", "reference": "rohf", "method": "laplace"}, 1e-10),
    (
        "ammonia",
        {"spin": 2, "basis": "6-31g", "method": "stochastic", "same_spin": True, "samples": 8, "reuse": False},
        1e-10,
    ),
]


@functools.cache
def _field(name, fitted=True):
    """On each rank, computed there."""
    if fitted:
        return trnchem.mean_field(name)
    from pyscf import gto, scf

    made = scf.RHF(gto.M(atom=trnchem.GEOMETRIES[name], basis="cc-pvdz", verbose=0))
    made.chkfile = None
    return made.run()


def _facts(found):
    pairs = None if found.pairs is None else torch.stack(found.pairs)
    return {"energies": (found.e_hf, found.e_os, found.e_ss, found.standard_error), "pairs": pairs, "plan": found.plan}


def _all(cases, shape=()):
    mesh = distributed.mesh(*shape)
    return [_facts(dfmp2(name, **arguments(mesh=mesh, **options))) for name, options, _ in cases]


def _close(mine, theirs, bound):
    for a, b in zip(mine["energies"], (theirs.e_hf, theirs.e_os, theirs.e_ss, theirs.standard_error), strict=True):
        assert (a is None) == (b is None)
        assert a is None or abs(a - b) <= bound
    if mine["pairs"] is not None:
        torch.testing.assert_close(mine["pairs"], torch.stack(theirs.pairs), rtol=0, atol=bound)


@pytest.mark.parametrize("size", [1, 2, *(pytest.param(size, marks=pytest.mark.slow) for size in (3, 4))])
def test_energies_are_those_of_one_rank(ranks, size):
    answers = ranks(size).run(_all, CASES)
    for number, (name, options, bound) in enumerate(CASES):
        _close(answers[0][number], dfmp2(name, **arguments(**options)), bound)
        for other in answers[1:]:
            # to the bit, on every rank
            assert other[number]["energies"] == answers[0][number]["energies"]


def test_energies_are_pyscfs(ranks, reference):
    found = ranks(3).run(_all, [("water", {}, 0)])[2][0]["energies"]
    total, opposite, same = reference("water")
    assert found[1] + found[2] == pytest.approx(total, abs=FP64)
    assert found[1] == pytest.approx(opposite, abs=FP64)
    assert found[2] == pytest.approx(same, abs=FP64)


def test_the_shape_of_the_mesh_does_not_matter(ranks):
    case = [("water", {"pairs": True}, 1e-10)]
    _close(ranks(4).run(_all, case, (2, 2))[3][0], dfmp2("water", options=MP2Options(pairs=True)), 1e-10)


def _with_fields(fitted, options):
    found = dfmp2(_field("water", fitted), **arguments(mesh=distributed.mesh(), **options))
    return found.metric.method, found.e_corr


@pytest.mark.parametrize(("fitted", "reuse", "method"), [(True, True, "mean field"), (True, False, "cholesky")])
def test_every_rank_may_bring_the_mean_field(ranks, reference, fitted, reuse, method):
    for how, energy in ranks(3).run(_with_fields, fitted, {"reuse": reuse}):
        assert how == method
        assert energy == pytest.approx(reference("water")[0], abs=FP64)


def test_a_mean_field_without_density_fitting(ranks, reference):
    for how, energy in ranks(2).run(_with_fields, False, {}):
        assert how == "cholesky"
        assert energy == pytest.approx(reference("water", fitted=False)[0], abs=FP64)


def _helium(method):
    from pyscf import gto, scf

    mean = scf.RHF(gto.M(atom="He 0 0 0", basis="sto-3g", verbose=0)).density_fit()
    mean.chkfile = None
    found = dfmp2(mean.run(), options=MP2Options(mesh=distributed.mesh(), method=method))
    return found.e_corr, found.e_tot - mean.e_tot


def test_a_basis_without_virtual_orbitals(ranks):
    for method in ("pairs", "stochastic"):
        assert ranks(2).run(_helium, method) == [(0.0, 0.0)] * 2


def _thin():
    from pyscf import df

    mean = _field("water", True)
    dfmp2(mean, options=MP2Options(auxbasis=df.aug_etb(mean.mol, beta=1.4), precision="fp32", mesh=distributed.mesh()))


def test_a_fit_that_single_precision_does_not_survive(ranks):
    with pytest.raises(RemoteError, match="precision='fp64'"):
        ranks(2).run(_thin)


def _dependent():
    """An auxiliary basis with the same functions twice, so that fewer vectors than functions are left."""
    from pyscf import df, gto

    mol = gto.M(atom=trnchem.GEOMETRIES["water"], basis="sto-3g", verbose=0)
    basis = {atom: 2 * shells for atom, shells in df.make_auxmol(mol, "weigend")._basis.items()}
    found = dfmp2("water", options=MP2Options(basis="sto-3g", auxbasis=basis, mesh=distributed.mesh()))
    return found.e_corr, found.metric, dfmp2("water", options=MP2Options(basis="sto-3g", auxbasis=basis)).e_corr


def test_a_dependent_auxiliary_basis(ranks):
    for mine, metric, alone in ranks(2).run(_dependent):
        assert metric.method == "eigenvalues"
        assert metric.vectors < metric.functions
        assert mine == pytest.approx(alone, abs=1e-10)


def _on_disk(folder):
    mesh = distributed.mesh()
    with pytest.raises(CapacityError) as small:
        dfmp2("ammonia", memory=1, options=MP2Options(mesh=mesh))
    found = dfmp2("ammonia", memory=small.value.required, options=MP2Options(mesh=mesh, scratch=folder))
    return str(small.value), small.value.required, found.plan, found.e_corr


def test_a_small_budget_moves_rows_to_disk(ranks, reference, tmp_path):
    answers = ranks(2).run(_on_disk, tmp_path)
    for text, required, plan, energy in answers:
        assert "would do" in text
        assert plan.place == "disk"
        assert plan.rows == 1
        assert plan.peak_bytes <= plan.memory == required
        assert energy == pytest.approx(reference("ammonia")[0], abs=FP64)
    assert list(tmp_path.iterdir()) == []


def _told():
    told = []
    dfmp2("water", options=MP2Options(mesh=distributed.mesh(), progress=told.append))
    return told


def test_progress_is_told_on_the_first_rank(ranks):
    first, *others = ranks(3).run(_told)
    assert others == [[], []]
    assert list(dict.fromkeys(now.stage for now in first)) == ["metric", "integrals", "fit", "pairs"]
    for stage in ("integrals", "pairs"):
        done = [now.done for now in first if now.stage == stage]
        assert done == sorted(done)
    assert (first[-1].done, first[-1].total) == (15, 15)


def _behind(late, folder):
    """Pairs each rank computed, and those it took of others; one rank begins when the others can do nothing more."""
    from trnchem.pairs import Workspace
    from trnchem.rounds import Rounds

    mesh, honest, honest_help, count, taken = distributed.mesh(), Workspace.energies, Rounds._help, [], []
    rank, others_wait = mesh.get_rank(), mesh.size() - 1

    def energies(self, one, others, *rest):
        if rank == late and not count:
            end = time.monotonic() + 100
            while len(list(folder.iterdir())) < others_wait and time.monotonic() < end:
                time.sleep(0.005)
        count.append(len(others))
        return honest(self, one, others, *rest)

    def helped(self):
        before = sum(count)
        found = honest_help(self)
        taken.append(sum(count) - before)
        if not found:
            (folder / str(rank)).touch()
        return found

    Workspace.energies, Rounds._help = energies, helped
    try:
        found = dfmp2("benzene", options=MP2Options(basis="sto-3g", mesh=mesh))
    finally:
        Workspace.energies, Rounds._help = honest, honest_help
    return sum(count), sum(taken), found.plan.rows, found.e_corr


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_rank_that_is_free_takes_pairs_of_one_that_is_behind(ranks, tmp_path, size):
    computed, taken, rows, energies = zip(*ranks(size).run(_behind, 1, tmp_path), strict=True)
    planned = [pairs_of(21, size, rows[0], rank) for rank in range(size)]
    assert sum(computed) == sum(planned) == 231
    assert all(taken[rank] for rank in range(size) if rank != 1)
    assert computed[1] - taken[1] < planned[1]
    assert energies[0] == pytest.approx(dfmp2("benzene", options=MP2Options(basis="sto-3g")).e_corr, abs=1e-10)


@together("nocc", [1, 2, 5, 21, 64])
@together("size", [1, 2, 3, 4, 7])
def test_every_pair_is_somebodys_to_do(nocc, size):
    rows = -(-nocc // (4 * size))
    blocks = blocks_of(nocc, size, rows)
    assert sorted(i for block in blocks for i in range(block.first, block.last)) == list(range(nocc))
    assert all(cuts(nocc, size)[block.owner].start <= block.first for block in blocks)
    shares = [pairs_of(nocc, size, rows, rank) for rank in range(size)]
    assert sum(shares) == nocc * (nocc + 1) // 2
    assert all(duty(a, b) == duty(b, a) for a in blocks for b in blocks if a.owner != b.owner)
    if nocc >= 16 * size:
        # the squares of the chequerboard are of one size, give or take a row
        assert max(shares) <= 1.15 * min(shares)


def _observed(name, options):
    """What a rank receives, the tensors it holds, and those it holds in the pair stage."""
    from trnchem.rounds import Rounds

    mesh, field, honest, peaks = distributed.mesh(), _field(name), Rounds.run, []

    def metered(self):
        work = self._work
        with MemoryMeter([self._store._array, *work._sums.values(), *work._memory], "cpu") as meter:
            honest(self)
        peaks.append(meter.peak)

    Rounds.run = metered
    try:
        with trnsci.ledger() as book, MemoryMeter(device="cpu") as meter:
            found = dfmp2(field, **arguments(mesh=mesh, **options))
    finally:
        Rounds.run = honest
    exchanged = sum(x.nbytes for x in book.exchanges if x.kind in ("broadcast", "all_to_all"))
    return exchanged, meter.peak, peaks[0], found.plan


def _apart(share, kind):
    return sum(crossing.nbytes for crossing in share.exchanges if crossing.kind == kind)


@pytest.mark.parametrize("size", [3, *(pytest.param(size, marks=pytest.mark.slow) for size in (2, 4))])
@pytest.mark.parametrize("reuse", [True, False], ids=["reused", "computed"])
def test_plans_say_what_is_sent_and_held(ranks, field, size, reuse):
    from trnchem.budget import overhead

    planned = trnchem.plan(field("benzene"), ranks=size, options=trnchem.MP2Options(reuse=reuse))
    for rank, (received, peak, pairs, plan) in enumerate(ranks(size).run(_observed, "benzene", {"reuse": reuse})):
        share = plan.shares[rank]
        assert share == planned.shares[rank]
        # gathered parts of sums travel padded: they are counted, and the rest is exact
        gathered = _apart(share, "all_gather")
        assert received == share.volume - gathered
        assert peak <= share.peak_bytes - overhead()
        stage = share.stages[-1].nbytes - overhead()
        # how many visiting blocks are there at once depends on who waits for whom
        assert 0.6 * stage <= pairs <= stage


def _received(method):
    with trnsci.ledger() as book:
        found = dfmp2("water", options=MP2Options(method=method, samples=8, mesh=distributed.mesh()))
    return sum(x.nbytes for x in book.exchanges if x.kind == "all_to_all"), found.plan


@pytest.mark.parametrize("method", ["laplace", "stochastic"])
def test_plans_of_the_methods_without_pairs(ranks, method):
    planned = trnchem.plan("water", ranks=3, options=trnchem.MP2Options(method=method, samples=8))
    for rank, (received, plan) in enumerate(ranks(3).run(_received, method)):
        assert plan.shares == planned.shares
        gone = [crossing for crossing in plan.shares[rank].exchanges if crossing.kind == "all_to_all"]
        assert 0.9 * sum(crossing.nbytes for crossing in gone) <= received <= sum(crossing.nbytes for crossing in gone)


def test_no_rank_holds_all_of_b():
    one = trnchem.plan("benzene", memory="2 GB", options=trnchem.MP2Options(basis="sto-3g", reuse=False))
    B = one.sizes.nocc * one.sizes.nvir * one.sizes.naux * 8
    for size in (4, 8, 16):
        plan = trnchem.plan("benzene", memory="2 GB", ranks=size, options=trnchem.MP2Options(basis="sto-3g"))
        assert sum(share.rows for share in plan.shares) == 21
        assert plan.stages[-1].name == "pairs"
        visiting = 4 * plan.rows
        assert (max(share.rows for share in plan.shares) + visiting) * B // 21 <= 0.6 * B
        # whatever the ranks, one receives the others' rows once
        assert all(share.volume < 1.5 * B + 8 * one.sizes.naux**2 + 16 * one.sizes.nao**2 for share in plan.shares)
        assert plan.flops == pytest.approx(one.flops, rel=0.02)


def test_a_plan_prints_its_ranks():
    text = str(trnchem.plan("water", ranks=3, memory="1 GB", options=trnchem.MP2Options(basis="sto-3g")))
    for word in ("3 ranks", "messages", "received", "orbitals"):
        assert word in text
    with pytest.raises(ArgumentError, match="ranks"):
        trnchem.plan("water", ranks=0)


def test_a_mesh_is_a_mesh(water):
    with pytest.raises(ArgumentError) as caught:
        dfmp2(water, options=MP2Options(mesh=2))
    assert caught.value.argument == "mesh"
    assert "trnsci.distributed.mesh()" in str(caught.value)


def test_alone_in_the_world(water, reference):
    mesh = distributed.mesh()
    try:
        assert dfmp2(water, options=MP2Options(mesh=mesh)).e_corr == pytest.approx(reference("water")[0], abs=FP64)
    finally:
        distributed.leave()
