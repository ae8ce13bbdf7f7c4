"""The stages of one calculation: metric, integrals, fit, and pairs or what takes their place."""

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

import trnblas
from trnchem.accuracy import arithmetic
from trnchem.budget import MP2Plan, before_fit, dtype_of
from trnchem.checkpoint import Slots
from trnchem.integrals import Source, Transformer
from trnchem.laplace import Energies, average_energies, no_energies, run_laplace
from trnchem.metric import Metric, fit_matrix
from trnchem.orbitals import Orbitals
from trnchem.pairs import PairState, run_pairs
from trnchem.quadrature import Quadrature, quadrature
from trnchem.result import SOS, MP2Result, PairEnergies, Progress
from trnchem.screening import Screen, equal_pairs, keep_pairs_above
from trnchem.store import DeviceStore, HostStore, Store, scratch
from trnsci import from_device, to_device
from trntensor import out_of_core
from trntensor.mp2_energy import mp2_between, mp2_brought, mp2_within


def open_store(plan: MP2Plan, rows: int, folder: str | Path | None) -> AbstractContextManager[Store]:
    """Open where the rows of some occupied orbitals live."""
    shape = (rows, plan.sizes.nvir, plan.sizes.naux)
    if plan.place == "disk" and rows:
        return scratch(shape, plan.slab, dtype_of(plan.precision), folder)
    if plan.place == "device memory":
        return nullcontext(DeviceStore())
    return nullcontext(HostStore(shape, dtype_of(plan.precision)))


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """The stages of one calculation, in order, with their times."""

    plan: MP2Plan
    orbitals: Orbitals
    source: Source
    progress: Callable[[Progress], None]
    screening: float
    reference: str
    metric: Metric = field(init=False)
    screen: Screen | None = None
    timings: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Say that the metric is not needed, until it is."""
        method, functions = "mean field" if self.source.is_fitted else "none", self.source.naux
        self.metric = Metric(method=method, functions=functions, vectors=functions)

    @property
    def held(self) -> range:
        """Occupied orbitals whose rows of B are here."""
        return range(self.plan.sizes.nocc)

    @property
    def sets(self) -> list[range]:
        """Occupied orbitals of both spins at once, or of each."""
        return self.plan.sizes.spins.ranges(self.plan.sizes.nocc)

    def result(self, e_hf: float, energies: Energies, state: PairState | None, resumed: int) -> MP2Result:
        """Return the energies, with how they were computed."""
        e_os, e_ss, sampling = energies
        total = SOS * e_os if e_ss is None else e_os + e_ss
        integrated = 0.0
        if self.plan.method != "pairs" and self.plan.stages:
            # terms of the same-spin energy have both signs: their sizes add up to more than the energy
            whole = abs(total) if e_ss is None else 10 * (abs(e_os) + abs(e_ss))
            integrated = self.quadrature().error * whole
        middle, factor = (e_os, SOS) if e_ss is None else (total, 1.0)
        sampled = 0.0 if sampling is None else factor * max(abs(end - middle) for end in sampling.sure)
        return MP2Result(
            method=self.plan.method,
            reference=self.reference,
            e_hf=e_hf,
            e_os=e_os,
            e_ss=e_ss,
            standard_error=None if sampling is None else sampling.standard_error,
            interval=None if sampling is None else sampling.likely,
            error=arithmetic(self.plan.precision, total, self.metric.growth) + integrated + sampled,
            pairs=None if state is None else _symmetric(state),
            metric=self.metric,
            screen=self.screen,
            plan=self.plan,
            timings=self.timings,
            resumed=resumed,
        )

    def energies(self, store: Store, seed: int, state: PairState, slots: Slots | None) -> Energies:
        """Compute the energies by the method of the plan; what is finished is in the file at once."""
        plan, stage = self.plan, self.plan.method
        if not plan.stages or not len(state.done):
            return no_energies(plan)
        by_pair = stage == "pairs"
        left = state.done_count < state.pairs if by_pair else not bool(state.done.all())
        if left:
            self.build(store)
        with self.time_stage(stage):
            if not by_pair:
                self._points(store, seed, state, slots)
                return average_energies(state, plan)
            self.progress(Progress("pairs", state.done_count, state.pairs))
            return Energies(*(self._pairs(store, state, slots) if left else state.totals()))

    def _pairs(self, store: Store, state: PairState, slots: Slots | None) -> tuple[float, float]:
        plan, done = self.plan, state.done_count

        def report(pairs: int) -> None:
            nonlocal done
            done += pairs
            self.progress(Progress("pairs", done, state.pairs))

        def keep_group(i: int, j: int, energies: tuple[Tensor, Tensor]) -> None:
            if slots is not None:
                slots.put(i, j, energies)
            report(len(energies[0]))

        if plan.fused or plan.blocks is not None:
            return self._together(store, report)
        run_pairs(
            store,
            self.energies_of_orbitals(),
            state,
            rows=plan.rows,
            width=plan.width,
            precision=plan.precision,
            finished=keep_group,
            spins=plan.sizes.spins,
        )
        return state.totals()

    def _together(self, store: Store, report: Callable[[int], None]) -> tuple[float, float]:
        """Compute the pairs within and between spins, each at once: where B is, or on a device it is brought to."""
        sets, blocks = self.sets, self.plan.blocks
        e_occ, e_vir = (self._put(each) if blocks is None else each for each in self.energies_of_orbitals())
        occ = [e_occ[rows.start : rows.stop] for rows in sets]
        opposite = None
        if blocks is None:
            B = [store.rows(rows.start, rows.stop) for rows in sets]
            same = [mp2_within(B[k], occ[k], e_vir[k]) for k in range(len(sets))]
            if len(sets) > 1:
                opposite = mp2_between(*B, *occ, *e_vir)[0]
            report(len(e_occ) * (len(e_occ) + 1) // 2)
        else:
            read = [lambda first, last, at=rows.start: store.rows(at + first, at + last) for rows in sets]
            same = [mp2_brought(read[k], occ[k], e_vir[k], blocks, report) for k in range(len(sets))]
            if len(sets) > 1:
                both = (read[0], read[1]), (occ[0], occ[1]), (e_vir[0], e_vir[1])
                opposite = out_of_core.opposite(*both, chosen=blocks, done=report, between=mp2_between)
        return _by_spin(same, opposite)

    def _points(self, store: Store, seed: int, state: PairState, slots: Slots | None) -> None:
        """Compute the energies of quadrature points."""

        def report() -> None:
            self.progress(Progress(self.plan.method, int(state.done[:, 0].sum()), len(state.done)))

        def keep_point(point: int, energies: tuple[Tensor, Tensor]) -> None:
            if slots is not None:
                slots.put(point, 0, energies)
            report()

        report()
        run_laplace(self, store, state, seed, keep_point)

    def quadrature(self) -> Quadrature:
        """Return exponents and weights of the methods without pairs."""
        return quadrature(self.orbitals, self.plan.quadrature_error, self.plan.same_spin)

    def sum_over_ranks(self, matrix: Tensor) -> Tensor:
        """Return the sum over everybody who has rows of B."""
        return matrix

    def build(self, store: Store) -> Tensor | None:
        """Make B: metric, integrals, fit; return the matrix that fits, where the mean field has not."""
        X: Tensor | None = None
        if not self.source.is_fitted:
            with self.time_stage("metric"):
                self.progress(Progress("metric", 0, 1))
                X = self._invert()
        with self.time_stage("integrals"):
            self.progress(Progress("integrals", 0, self.plan.sizes.naux))
            self._transform(store)
        if X is not None:
            self._fit(store, X)
        return X

    def _invert(self) -> Tensor:
        """Compute the matrix that fits and, on the way, which pairs of atomic orbitals matter."""
        metric = self.source.metric()
        if self.plan.place != "device memory":
            strongest = float(metric.diagonal().abs().max().sqrt())
            self.screen = keep_pairs_above(equal_pairs(self.source.molecule), strongest, self.screening)
        X, self.metric = fit_matrix(metric)
        self.metric.supports(self.plan.precision)
        return self._put(X.to(dtype_of(self.plan.precision)))

    def _transform(self, store: Store) -> None:
        for first, last, block in self._slabs():
            store.put_columns(first, block)
            self.progress(Progress("integrals", last, self.plan.sizes.naux))

    def _slabs(self, turn: int = 0, turns: int = 1) -> Iterator[tuple[int, int, Tensor]]:
        """Yield first and last auxiliary function and integrals [nocc, nvir, last - first]."""
        plan, dtype = self.plan, dtype_of(self.plan.precision)
        C_occ, C_vir = (self._put(C.to(dtype)) for C in (self.orbitals.C_occ, self.orbitals.C_vir))
        there = replace(self.orbitals, C_occ=C_occ, C_vir=C_vir)
        transform = Transformer(there, self.screen, before_fit(plan.precision), self._put, plan.slab)
        for first, last, packed in self.source.slabs(plan.slab, turn, turns):
            yield first, last, transform(packed.to(dtype))

    def _fit(self, store: Store, X: Tensor) -> None:
        nocc = len(self.held)
        # one program for everything in device memory, one orbital at a time where memory is counted
        step = nocc if self.plan.place == "device memory" else 1
        with self.time_stage("fit"):
            for i in range(0, nocc, step):
                rows = store.rows(i, i + step)  # [step, nvir, naux]
                flat = rows.reshape(-1, rows.shape[2])
                fitted = trnblas.gemm(1.0, flat, X, precision=before_fit(self.plan.precision))
                store.put_rows(i, fitted.view(len(rows), -1, X.shape[1]))
                self.progress(Progress("fit", i + step, nocc))
            store.end_fit(X.shape[1])

    def energies_of_orbitals(self) -> tuple[Tensor, Tensor]:
        """Return those of the occupied orbitals and of each set of virtual ones, in B's dtype."""
        dtype = dtype_of(self.plan.precision)
        return self.orbitals.e_occ.to(dtype), self.orbitals.e_vir.to(dtype)

    def _put(self, tensor: Tensor) -> Tensor:
        return to_device(tensor) if self.plan.place == "device memory" else tensor

    @contextmanager
    def time_stage(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        if 2 * self.plan.peak_bytes > self.plan.memory:
            _give_back()
        try:
            yield
        finally:
            self.timings[stage] = time.perf_counter() - start


def _by_spin(same: list[tuple[Tensor, Tensor]], opposite: Tensor | None) -> tuple[float, float]:
    """Return opposite- and same-spin energy from the sums within each set of orbitals and between them."""
    sums = [tuple(float(from_device(part)) for part in each) for each in same]
    if opposite is None:
        ((square, cross),) = sums
        return square, square - cross
    return float(from_device(opposite)), sum(square - cross for square, cross in sums) / 2


def _symmetric(state: PairState) -> PairEnergies:
    parts = (part + part.T - torch.diag(part.diagonal()) for part in (state.opposite, state.same))
    return PairEnergies(*parts)


def _give_back() -> None:
    """Return freed memory to the system where the C library can: arrays of the next stage do not fit into its holes."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def silent(progress: Progress) -> None:
    """Report no progress."""
