"""`dfmp2` on several ranks: they agree on the call, the first one's mean field counts, and B is cut between them."""

import json
import math
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from trnchem import stages
from trnchem.budget import Sizes, cuts, dtype_of, kept_shape, memory_bytes, packed_size
from trnchem.checkpoint import Slots
from trnchem.integrals import Source, source
from trnchem.metric import Metric, fit_matrix
from trnchem.molecules import pyscf
from trnchem.options import Request
from trnchem.orbitals import Orbitals, Spins, orbitals
from trnchem.pairs import PairState
from trnchem.preparation import (
    basis_text,
    complete_plan,
    draft_plan,
    load_state,
    molecule_text,
    products,
    quadrature_points,
)
from trnchem.references import build_field, build_molecule, built, check_stability, is_description, kind_of, solve_field
from trnchem.result import MP2Result, Progress
from trnchem.rounds import Ledger, Rounds
from trnchem.screening import equal_pairs, keep_pairs_above
from trnchem.store import Store
from trnsci import ArgumentError, to_device
from trnsci.distributed.calls import run
from trnsci.distributed.team import LiveTeam, Tally, Wait
from trnsci.patience import Patience
from trnsci.signals import terminable
from trnsim.json_reader import parse_json

# Shells a rank takes at a time when all of them bound the integrals.
SHELLS = 4
# Hartree by which mean fields of different ranks may differ and still be the same.
SAME_FIELD = 1e-4


def dfmp2(want: Request) -> MP2Result:
    """Run the calculation on all ranks of a mesh; every one makes this call."""
    mesh = want.mesh
    if not isinstance(mesh, DeviceMesh):
        raise ArgumentError("dfmp2", "mesh", type(mesh), "a mesh from trnsci.distributed.mesh()")
    # a row of all ranks, in host memory, where integrals come from: the shape of the mesh does not matter
    row = DeviceMesh("cpu", mesh.mesh.flatten(), _init_backend=False)
    return run("trnchem.dfmp2", lambda team: _calculate(team, want), row, (), {})


def _calculate(team: LiveTeam, want: Request) -> MP2Result:
    precision = want.check()
    field, integrals = _agree_on_call(team, want)
    budget = _budget(team, want.memory)
    first = team.here(0) == 0
    with ExitStack() as stack:
        stack.enter_context(terminable())
        slots, chosen, state = None, None, None
        facts: dict[str, Any] = {"e_hf": float(field.e_tot), "heard": bool(want.checkpoint or want.progress)}
        if first:
            check_stability(field, want.stability)
            chosen = orbitals(field, want.frozen)
            draft = draft_plan(want, Sizes.of(chosen, integrals, precision), budget)
            slots, chosen, state = load_state(want, field, integrals, chosen, draft, stack)
            facts |= {"sizes": asdict(draft.sizes), "reference": kind_of(field)}
            facts |= {"points": quadrature_points(chosen, draft), "token": slots.token if slots else ""}
        facts = team.all_gather_json(0, facts)[0]
        sizes = Sizes(**facts["sizes"] | {"spins": Spins(*facts["sizes"]["spins"])})
        plan = complete_plan(draft_plan(want, sizes, budget), integrals, want, team.size(0), facts["points"])
        # what agreeing costs is not the calculation's
        team.tally = Tally()
        chosen, state = _replicate_start(team, sizes, chosen, state, kept_shape(plan, facts["points"]))
        calculation = ShardedRun(
            plan=plan,
            orbitals=chosen,
            source=integrals,
            progress=want.progress if first and want.progress else stages.silent,
            screening=want.screening,
            reference=facts["reference"],
            team=team,
            heard=facts["heard"],
            device=want.resident and bool(plan.stages) and products(sizes, precision)[0] != "pytorch",
        )
        resumed = state.done_count
        store = stack.enter_context(stages.open_store(plan, len(calculation.held), want.scratch))
        if want.method == "pairs" and not first and want.checkpoint is not None:
            slots = Slots.join(want.checkpoint, facts["token"])
            stack.callback(slots.close if slots else lambda: None)
        energies = calculation.energies(store, want.seed, state, slots)
        return calculation.result(facts["e_hf"], energies, state if want.pairs else None, resumed)


def _agree_on_call(team: LiveTeam, want: Request) -> tuple[Any, Source]:
    """Return the mean field, on the first rank, or what stands for it; and the integrals all ranks take."""
    named = is_description(want.mf)
    if want.memory is not None:
        memory_bytes(want.memory)
    field = None if named else built(want.mf, want)
    molecule = build_molecule(want.mf, want) if field is None else field.mol
    _same(team, _options(want, molecule))
    if field is None:
        field = _solve_on_first_rank(team, molecule, want)
    integrals = source(field, want.auxbasis, want.reuse)
    words = {"fitted": integrals.is_fitted, "e_tot": float(field.e_tot)}
    facts = team.all_gather_json(0, words)
    if not all(fact["fitted"] for fact in facts):
        # fitted integrals of the first rank alone are of no use to the others
        integrals = source(field, want.auxbasis, False)
    auxiliary = basis_text(integrals.auxiliary) + f", {integrals.naux} vectors"
    close = named or abs(field.e_tot - facts[0]["e_tot"]) <= SAME_FIELD
    energy = facts[0]["e_tot"] if close else float(field.e_tot)
    _same(team, {"mf": f"a mean field of {energy:.8f} Ha", "auxbasis": auxiliary})
    return field, integrals


def _options(want: Request, molecule: Any) -> dict[str, str]:
    """Return what ranks have to agree on, argument by argument; each has its own scratch folder and progress."""
    facts = molecule_text(molecule)
    names = ("frozen", "auxbasis", "precision", "method", "samples", "same_spin", "seed", "pairs", "screening", "reuse")
    options = {
        name: repr(getattr(want, name))
        for name in (*names, "resident", "memory", "stability", "quadrature_error", "reference")
    }
    return {"mf": ", ".join(facts.values()), **options, "checkpoint": str(want.checkpoint)}


def _same(team: LiveTeam, given: dict[str, str]) -> None:
    """Refuse a call on which ranks disagree, with the argument and what each rank gave."""
    words = team.all_gather_json(0, given)
    numbers = team.mesh.mesh.flatten().tolist()
    for name in given:
        if len({each[name] for each in words}) > 1:
            got = {f"rank {rank}": each[name] for rank, each in zip(numbers, words, strict=True)}
            raise ArgumentError("dfmp2", name, got, hint="Every rank makes the same call with the same options")


def _await_text(team: LiveTeam, key: str, what: str) -> str:
    """Wait for a text of the first rank for as long as it goes on: it may be at a mean field for hours."""
    world, notes = team.world, team.world.notes
    world.waiting, cycles, patience, look, pause = True, 0, Patience(world.patience), 0.0, 1e-4
    while not notes.check([key]):
        time.sleep(pause)
        pause = min(1.2 * pause, 0.02)
        now = time.monotonic()
        if now > look:
            look, seen = now + 0.25, notes.add("cycles", 0)
            if seen > cycles:
                cycles, patience = seen, Patience(world.patience)
            if patience.is_over() or world.fault() is not None:
                raise world.failure(what)
    world.waiting = False
    return notes.get(key).decode()


def _solve_on_first_rank(team: LiveTeam, molecule: Any, want: Request) -> Any:
    """Run the mean field on the first rank; the others get one that has not run, and its energy."""
    field, notes = build_field(molecule, want), team.world.notes
    if team.here(0) == 0:
        if team.size(0) > 1:
            field.callback = lambda _: notes.add("cycles", 1)
        field = solve_field(field, want)
        field.callback = None
        notes.set("mean field", str(float(field.e_tot)))
        return field
    field.e_tot = float(_await_text(team, "mean field", "the mean field of the first rank"))
    # as PySCF chooses it when the mean field runs
    field.with_df.auxmol = pyscf().df.addons.make_auxmol(molecule, field.with_df.auxbasis)
    return field


def _budget(team: LiveTeam, memory: int | str | None) -> int:
    """Return bytes of each rank: as given, or an even share of what its machine has free, the smallest there is."""
    if memory is not None:
        return memory_bytes(memory)
    facts = team.all_gather_json(0, [socket.gethostname(), memory_bytes(None)])
    hosts = [host for host, _ in facts]
    return min(free // hosts.count(host) for host, free in facts)


def _replicate_start(
    team: LiveTeam, n: Sizes, chosen: Orbitals | None, state: PairState | None, kept: tuple[int, int]
) -> tuple[Orbitals, PairState]:
    """Give every rank the first one's orbitals and finished pairs, to the bit."""
    packed = None
    if chosen is not None and state is not None:
        parts = (chosen.C_occ, chosen.C_vir, chosen.e_occ, chosen.e_vir, state.opposite, state.same, state.done)
        packed = torch.cat([part.double().flatten() for part in parts])
    packed = team.broadcast(0, packed, (packed_size(n, kept),), torch.float64, 0)()
    sets = n.spins.sets
    shapes = ((n.nao, n.nocc), (sets, n.nao, n.nvir), (n.nocc,), (sets, n.nvir), kept, kept, kept)
    split = packed.split([math.prod(shape) for shape in shapes])
    C_occ, C_vir, e_occ, e_vir, opposite, same, done = (
        part.clone().view(shape) for part, shape in zip(split, shapes, strict=True)
    )
    frozen = () if chosen is None else chosen.frozen
    return Orbitals(C_occ, C_vir, e_occ, e_vir, frozen, n.spins), PairState(opposite, same, done > 0)


@dataclass(slots=True, kw_only=True, eq=False)
class ShardedRun(stages.Run):
    """The stages of one rank.

    Attributes:
        team: the ranks.
        heard: whether the first rank wants to know of finished pairs before the end.
        device: rows move to the device once, rather than with every product.
    """

    team: LiveTeam
    heard: bool
    device: bool

    @property
    def held(self) -> range:
        """Occupied orbitals whose rows of B are here."""
        return cuts(self.plan.sizes.nocc, self.team.size(0))[self.team.here(0)]

    def _pairs(self, store: Store, state: PairState, slots: Slots | None) -> tuple[float, float]:
        """Compute the pairs of all ranks; what a rank cannot write into the file itself the first one writes."""
        before = PairState(state.opposite, state.same, state.done.clone())
        book = Ledger(self.team, state, self.heard, slots)

        def keep_group(i: int, j: int, energies: tuple[Tensor, Tensor]) -> None:
            book.keep(i, j, energies)
            self.progress(Progress("pairs", state.done_count, state.pairs))

        put = to_device if self.device else lambda rows: rows
        rounds = Rounds(self, store, before, put, keep_group)
        try:
            rounds.run()
            book.close()
        finally:
            book.hear()
        self.progress(Progress("pairs", state.pairs, state.pairs))
        return state.totals()

    def sum_over_ranks(self, matrix: Tensor) -> Tensor:
        """Return the sum over ranks."""
        return self.team.all_reduce(0, matrix)

    def _invert(self) -> Tensor:
        """Return the matrix that fits, from the first rank, while the others begin to bound the integrals."""
        team, notes, X = self.team, self.team.world.notes, None
        if team.here(0) == 0:
            metric = self.source.metric()
            X, self.metric = fit_matrix(metric)
            self.metric.supports(self.plan.precision)
            X = X.to(dtype_of(self.plan.precision))
            strongest = float(metric.diagonal().abs().max().sqrt())
            notes.set("metric", json.dumps([strongest, asdict(self.metric)]))
        equal = team.all_reduce(0, equal_pairs(self.source.molecule, self._shells()))
        strongest, metric = parse_json(_await_text(team, "metric", "the metric of the first rank"))
        self.metric = Metric(**metric)
        self.screen = keep_pairs_above(equal, strongest, self.screening)
        shape = (self.metric.functions, self.metric.vectors)
        return team.broadcast(0, X, shape, dtype_of(self.plan.precision), 0)()

    def _shells(self) -> Iterator[int]:
        """Yield shells for this rank, a few at a time, as it becomes free; the long rows come first."""
        count = self.source.molecule.nbas
        while (start := self.team.world.notes.add("shells", SHELLS) - SHELLS) < count:
            yield from (count - 1 - shell for shell in range(start, min(count, start + SHELLS)))

    def _transform(self, store: Store) -> None:
        """Transform slabs in turn, and send every rank the rows it holds; one exchange is always under way."""
        team, n = self.team, self.plan.sizes
        ranks, here = team.size(0), team.here(0)
        columns, mine = self.source.columns(self.plan.slab), self._slabs(here, ranks)
        owners = cuts(n.nocc, ranks)
        under_way: deque[tuple[list[tuple[int, int]], Wait]] = deque()
        for start in range(0, len(columns), ranks):
            turn = columns[start : start + ranks]
            widths = [last - first for first, last in turn] + [0] * (ranks - len(turn))
            if here < len(turn):
                block = next(mine)[2].mT  # [nocc, w, nvir]
            else:
                block = torch.empty((n.nocc, 0, n.nvir), dtype=dtype_of(self.plan.precision), device="cpu")
            pieces = [block[rows.start : rows.stop] for rows in owners]
            shapes = [(len(owners[here]), width, n.nvir) for width in widths]
            under_way.append((turn, team.start_all_to_all(0, pieces, shapes)))
            if len(under_way) > 1:
                self._receive(store, *under_way.popleft())
        for turn, wait in under_way:
            self._receive(store, turn, wait)

    def _receive(self, store: Store, turn: list[tuple[int, int]], wait: Wait) -> None:
        received = wait()
        if self.held:
            for (first, _), piece in zip(turn, received, strict=False):
                store.put_columns(first, piece.mT)
        self.progress(Progress("integrals", turn[-1][1], self.plan.sizes.naux))
