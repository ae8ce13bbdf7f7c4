"""Density-fitted MP2 of closed-shell molecules, composed from the libraries of the suite."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import trnblas
import trnsci
import trntensor
from trnchem import checkpoint as checkpoints
from trnchem.budget import Method, MP2Plan, Sizes, dtype_of, make_plan, memory_bytes
from trnchem.integrals import Source, Transformer, source
from trnchem.laplace import run_laplace
from trnchem.metric import Metric, fit_matrix
from trnchem.molecules import mean_field
from trnchem.orbitals import Frozen, Orbitals, orbitals
from trnchem.pairs import PairState, run_pairs
from trnchem.result import MP2Result, PairEnergies, Progress
from trnchem.screening import Screen, screen
from trnchem.store import DeviceStore, HostStore, Store, scratch
from trnsci import ArgumentError, check, from_device, to_device
from trnsci.precision import Precision, resolve

METHODS: tuple[Method, ...] = ("pairs", "laplace", "stochastic")
# seconds between two writings of the checkpoint
CHECKPOINT_EVERY = 2.0


def dfmp2(
    mf: Any,
    *,
    basis: str | None = None,
    frozen: Frozen = None,
    auxbasis: Any = None,
    precision: Precision | None = None,
    method: Method = "pairs",
    samples: int = 64,
    seed: int = 0,
    pairs: bool = False,
    screening: float = 1e-12,
    reuse: bool = True,
    resident: bool = True,
    memory: int | str | None = None,
    scratch: str | Path | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> MP2Result:
    """Second-order correlation energy of a closed-shell molecule with density fitting.

    Args:
        mf: a converged PySCF ``RHF`` object; the path of an xyz file; or a built-in name (``trnchem.GEOMETRIES``).
        basis: orbital basis for a file or a name; ``cc-pvdz`` unless given.
        frozen: how many of the lowest orbitals to leave out, their positions, or ``"core"``.
        auxbasis: auxiliary basis, by name or as PySCF's dictionary. ``None`` is PySCF's choice: the mean field's own,
            or without density fitting the one made for MP2.
        precision: ``fp64`` (default), ``fp32``, ``compensated`` or ``fast``. The metric is inverted in float64 always.
        method: ``pairs``; ``laplace`` for the opposite-spin energy without pairs; ``stochastic`` for that from random
            vectors.
        samples: random vectors of ``stochastic``.
        seed: of the random vectors.
        pairs: return the energies of pairs too.
        screening: drop integrals that cannot exceed this, where so many are that a sparse product pays.
        reuse: take integrals the mean field holds fitted in this auxiliary basis, instead of computing them again.
        resident: keep B in device memory where the products run on a device or the simulator.
        memory: budget for everything allocated here, in bytes or as ``"2 GB"``; by default what the machine has free.
        scratch: folder for B when it does not fit into the budget; the system's for temporary files by default.
        checkpoint: file that keeps finished pairs. If it exists, the calculation goes on from it.
        progress: called with a `Progress` as stages advance.

    Returns:
        `MP2Result`: energies, pairs, plan, timings, metric.

    Raises:
        ArgumentError: an argument cannot be right, or the checkpoint is damaged or of another calculation.
        NotConverged: the mean field has not converged.
        NumericalError: the metric is not one.
        CapacityError: the budget, or the disk, is too small; the text names one that would do.

    Error bound:
        In ``fp64`` 1e-9 Ha against PySCF's DF-MP2, in ``fp32`` 2e-6 Ha, for molecules of up to ten atoms in double-zeta
        bases; docs/trnchem/dfmp2.md has the measurements and says what limits ``fp32``.

    Cost:
        ``nocc (nocc + 1) nvir**2 naux`` FLOPs for the pairs, ``2 nocc nvir naux**2`` for the fit.

    Example:
        >>> result = dfmp2("water")
        >>> print(f"{result.e_corr:.6f} {result.metric}")
        -0.203977 fitted already, by the mean field; 116 of 116 vectors kept
    """
    with_pairs = {"pairs": pairs, "checkpoint": checkpoint is not None}
    options = _options(precision, method, samples, screening, with_pairs)
    field_ = mean_field(mf, basis=basis)
    chosen = orbitals(field_, frozen)
    integrals = source(field_, auxbasis, reuse)
    plan = _plan(chosen, integrals, options, memory_bytes(memory), resident, any(with_pairs.values()), samples)
    run = _Run(
        plan=plan,
        orbitals=chosen,
        source=integrals,
        progress=progress or _silent,
        screening=screening,
        metric=Metric(
            method="mean field" if integrals.fitted else "none", functions=integrals.naux, vectors=integrals.naux
        ),
    )
    state = PairState.empty(plan.sizes.nocc)
    file = None
    if checkpoint is not None:
        who = checkpoints.identity(field_.mol, integrals.auxiliary, chosen, plan.precision)
        file = checkpoints.Checkpoint(checkpoint, who)
        run.orbitals, state = file.load(chosen) or (chosen, state)
    resumed = state.finished
    with _store(plan, scratch) as store:
        if method == "pairs":
            e_os, e_ss = run.pair_energies(store, state, file)
            error = None
        else:
            e_ss = None
            e_os, error = run.without_pairs(store, samples if method == "stochastic" else None, seed)
    return MP2Result(
        method=method,
        e_hf=float(field_.e_tot),
        e_os=e_os,
        e_ss=e_ss,
        standard_error=error,
        pairs=_symmetric(state) if pairs else None,
        metric=run.metric,
        screen=run.screen,
        plan=plan,
        timings=run.timings,
        resumed=resumed,
    )


def plan(
    mf: Any,
    *,
    basis: str | None = None,
    frozen: Frozen = None,
    auxbasis: Any = None,
    precision: Precision | None = None,
    method: Method = "pairs",
    samples: int = 64,
    reuse: bool = True,
    resident: bool = True,
    memory: int | str | None = None,
) -> MP2Plan:
    """Return what `dfmp2` would do with these arguments: its stages, their memory, and whether they fit.

    Example:
        >>> plan("water", basis="sto-3g", memory="1 GB").place
        'host memory'
    """
    options = _options(precision, method, samples, 0.0, {})
    found = mean_field(mf, basis=basis)
    chosen, integrals = orbitals(found, frozen), source(found, auxbasis, reuse)
    return _plan(chosen, integrals, options, memory_bytes(memory), resident, False, samples)


def _options(
    precision: str | None, method: Method, samples: int, screening: float, with_pairs: dict[str, bool]
) -> tuple[Precision, Method]:
    check.option("dfmp2", "method", method, METHODS)
    for name, given in with_pairs.items():
        if given and method != "pairs":
            raise ArgumentError(
                op="dfmp2", argument=name, got="given", expected=f"left out, because {method!r} has no pairs"
            )
    if not isinstance(samples, int) or samples < 1:
        raise ArgumentError(op="dfmp2", argument="samples", got=samples, expected="a number of vectors, at least 1")
    if not float(screening) >= 0:
        raise ArgumentError(op="dfmp2", argument="screening", got=screening, expected="a threshold, not negative")
    return resolve("dfmp2", precision, torch.float64), method


def _plan(
    chosen: Orbitals,
    integrals: Source,
    options: tuple[Precision, Method],
    memory: int,
    resident: bool,
    by_pair: bool,
    samples: int,
) -> MP2Plan:
    precision, method = options
    dtype = dtype_of(precision)
    nocc, nvir, naux = len(chosen.e_occ), len(chosen.e_vir), integrals.naux
    rows = torch.empty((nvir, naux), dtype=dtype, device="meta")
    product = trnsci.plan(trnblas.gemm, 1.0, rows, rows, trans_b=True, precision=precision)
    why, fused = f"Products on {product.backend}: {product.reason}.", False
    if precision == "fp32" and method == "pairs" and not by_pair:
        shapes = ((nocc, nvir, naux), (nocc,), (nvir,))
        whole = trnsci.plan(trntensor.mp2_energy, *(torch.empty(s, dtype=dtype, device="meta") for s in shapes))
        fused = whole.backend != "pytorch"
        why = f"Energy on {whole.backend}: {whole.reason}." if fused else why
    device = fused or product.backend != "pytorch"
    sizes = Sizes(
        nao=len(chosen.C_occ), nocc=nocc, nvir=nvir, naux=naux, widest=integrals.widest, itemsize=dtype.itemsize
    )
    return make_plan(
        sizes,
        method=method,
        samples=samples,
        precision=precision,
        memory=memory,
        device=device and resident,
        fused=fused,
        fitted=integrals.fitted,
        why=why,
    )


def _store(plan: MP2Plan, folder: str | Path | None) -> AbstractContextManager[Store]:
    n = plan.sizes
    shape = (n.nocc, n.nvir, n.naux)
    if plan.place == "disk":
        return scratch(shape, plan.slab, dtype_of(plan.precision), folder)
    if plan.place == "device memory":
        return nullcontext(DeviceStore())
    return nullcontext(HostStore(shape, dtype_of(plan.precision)))


@dataclass(slots=True, kw_only=True, eq=False)
class _Run:
    """The stages of one calculation, in order, with their times."""

    plan: MP2Plan
    orbitals: Orbitals
    source: Source
    progress: Callable[[Progress], None]
    screening: float
    metric: Metric
    screen: Screen | None = None
    timings: dict[str, float] = field(default_factory=dict)

    def pair_energies(self, store: Store, state: PairState, file: checkpoints.Checkpoint | None) -> tuple[float, float]:
        """Opposite- and same-spin energy; finished pairs are in the file whatever ends the loop."""
        total = len(state.done) * (len(state.done) + 1) // 2
        if state.finished < total:
            self._build(store)
        with self._timed("pairs"):
            self.progress(Progress("pairs", state.finished, total))
            if self.plan.fused:
                return self._fused(store, total)
            saved = time.monotonic()

            def finished(now: PairState) -> None:
                nonlocal saved
                self.progress(Progress("pairs", now.finished, total))
                if file is not None and time.monotonic() - saved > CHECKPOINT_EVERY:
                    file.save(self.orbitals, now)
                    saved = time.monotonic()

            plan = self.plan
            try:
                run_pairs(
                    store,
                    self._energies(),
                    state,
                    rows=plan.rows,
                    width=plan.width,
                    precision=plan.precision,
                    finished=finished,
                )
            finally:
                if file is not None:
                    file.save(self.orbitals, state)
            return state.totals()

    def _fused(self, store: Store, total: int) -> tuple[float, float]:
        B = store.rows(0, self.plan.sizes.nocc)
        parts = trntensor.mp2_energy(B, *map(self._put, self._energies()), parts=True)
        assert isinstance(parts, trntensor.MP2Energy)
        self.progress(Progress("pairs", total, total))
        return float(from_device(parts.opposite_spin)), float(from_device(parts.same_spin))

    def without_pairs(self, store: Store, samples: int | None, seed: int) -> tuple[float, float | None]:
        """Opposite-spin energy by quadrature, and its standard error."""
        self._build(store)
        stage = self.plan.method
        with self._timed(stage):
            return run_laplace(
                store,
                (self.orbitals.e_occ, self.orbitals.e_vir),
                precision=self.plan.precision,
                samples=samples,
                seed=seed,
                finished=lambda done, total: self.progress(Progress(stage, done, total)),
            )

    def _build(self, store: Store) -> None:
        """Make B: metric, integrals, fit."""
        X: Tensor | None = None
        if not self.source.fitted:
            with self._timed("metric"):
                self.progress(Progress("metric", 0, 1))
                metric = self.source.metric()
                if self.plan.place != "device memory":
                    self.screen = screen(self.source.molecule, metric, self.screening)
                X, self.metric = fit_matrix(metric)
                X = self._put(X.to(dtype_of(self.plan.precision)))
                del metric
        self._transform(store)
        if X is not None:
            self._fit(store, X)

    def _transform(self, store: Store) -> None:
        plan, dtype = self.plan, dtype_of(self.plan.precision)
        C_occ, C_vir = (self._put(C.to(dtype)) for C in (self.orbitals.C_occ, self.orbitals.C_vir))
        there = replace(self.orbitals, C_occ=C_occ, C_vir=C_vir)
        with self._timed("integrals"):
            self.progress(Progress("integrals", 0, plan.sizes.naux))
            transform = Transformer(there, self.screen, plan.precision, self._put, plan.slab)
            for first, last, packed in self.source.slabs(plan.slab):
                store.put_columns(first, transform(packed.to(dtype)))
                self.progress(Progress("integrals", last, plan.sizes.naux))

    def _fit(self, store: Store, X: Tensor) -> None:
        nocc = self.plan.sizes.nocc
        # one program for everything in device memory, one orbital at a time where memory is counted
        step = nocc if self.plan.place == "device memory" else 1
        with self._timed("fit"):
            for i in range(0, nocc, step):
                rows = store.rows(i, i + step)  # [step, nvir, naux]
                flat = rows.reshape(-1, rows.shape[2])
                made = trnblas.gemm(1.0, flat, X, precision=self.plan.precision)
                store.put_rows(i, made.view(len(rows), -1, X.shape[1]))
                self.progress(Progress("fit", i + step, nocc))
            store.fitted(X.shape[1])

    def _energies(self) -> tuple[Tensor, Tensor]:
        dtype = dtype_of(self.plan.precision)
        return self.orbitals.e_occ.to(dtype), self.orbitals.e_vir.to(dtype)

    def _put(self, tensor: Tensor) -> Tensor:
        return to_device(tensor) if self.plan.place == "device memory" else tensor

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.timings[stage] = time.perf_counter() - start


def _symmetric(state: PairState) -> PairEnergies:
    parts = (part + part.T - torch.diag(part.diagonal()) for part in (state.opposite, state.same))
    return PairEnergies(*parts)


def _silent(progress: Progress) -> None:
    """Tell nobody."""
