"""Density-fitted MP2 of molecules with closed and open shells, composed from the libraries of the suite."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from trnchem.accuracy import within
from trnchem.budget import Method, MP2Plan, Options, dtype_of, kept_shape, memory_bytes
from trnchem.checkpoint import Checkpoint, Slots, usable
from trnchem.identity import identity
from trnchem.integrals import Source, source
from trnchem.orbitals import Frozen, Orbitals, orbitals
from trnchem.pairs import PairState
from trnchem.planning import quadrature_points, sharded_plan, single_plan, sizes_of
from trnchem.quadrature import relative_error
from trnchem.references import Reference, Stability, System, built, check_stability, kind_of
from trnchem.result import MP2Result, Progress
from trnchem.stages import Run, open_store, silent
from trnsci import ArgumentError, check
from trnsci.backends import inside
from trnsci.precision import Precision, resolve
from trnsci.signals import terminable
from trntensor.mp2_energy import mp2_blocks

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

METHODS: tuple[Method, ...] = ("pairs", "laplace", "stochastic")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """The arguments of `dfmp2`, with its defaults."""

    mf: Any
    system: System
    frozen: Frozen = None
    auxbasis: Any = None
    precision: Precision | None = None
    method: Method = "pairs"
    samples: int = 64
    same_spin: bool = False
    seed: int = 0
    pairs: bool = False
    screening: float = 1e-12
    reuse: bool = True
    resident: bool = True
    memory: int | str | None = None
    scratch: str | Path | None = None
    checkpoint: str | Path | None = None
    progress: Callable[[Progress], None] | None = None
    stability: Stability | None = None
    quadrature_error: float | None = None
    device: torch.device | str | None = None

    @property
    def by_pair(self) -> bool:
        """Whether energies of single pairs are wanted."""
        return self.pairs or self.checkpoint is not None


@inside("trnchem")
@check.hands_on("mean_field")
def dfmp2(
    mf: Any,
    *,
    basis: str | None = None,
    charge: int | None = None,
    spin: int | None = None,
    reference: Reference | None = None,
    frozen: Frozen = None,
    auxbasis: Any = None,
    precision: Precision | None = None,
    method: Method = "pairs",
    samples: int = 64,
    same_spin: bool = False,
    seed: int = 0,
    pairs: bool = False,
    screening: float = 1e-12,
    reuse: bool = True,
    resident: bool = True,
    memory: int | str | None = None,
    scratch: str | Path | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    stability: Stability | None = None,
    quadrature_error: float | None = None,
    target_error: float | None = None,
    mesh: DeviceMesh | None = None,
    device: torch.device | str | None = None,
) -> MP2Result:
    """Return the second-order correlation energy of a molecule with density fitting.

    Use it for a molecule or a mean field: it builds, fits, screens and checkpoints the integrals. With your own fitted
    integrals call `trntensor.mp2_energy`, with ``(ia|jb)`` themselves `trnblas.mp2_energy`.

    Args:
        mf: a converged PySCF ``RHF``, ``UHF`` or ``ROHF`` object; the path of an xyz file; or a built-in name
            (``trnchem.GEOMETRIES``).
        basis: orbital basis for a file or a name; ``cc-pvdz`` unless given.
        charge: of a file or a name; 0 unless given.
        spin: unpaired electrons of a file or a name; unless given, as few as its electrons allow.
        reference: ``rhf``, ``uhf`` or ``rohf`` for a file or a name; unless given ``uhf`` with unpaired electrons.
        frozen: how many of the lowest orbitals to leave out, their positions (a list for each spin if they differ), or
            ``"core"``.
        auxbasis: auxiliary basis, by name or as PySCF's dictionary. ``None`` is PySCF's choice: the mean field's own,
            or without density fitting the one for MP2.
        precision: ``fp64`` (default), ``fp32``, ``compensated`` or ``fast``. The metric is inverted in float64 always.
        method: ``pairs``; ``laplace`` for the opposite-spin energy without pairs; ``stochastic`` for that from random
            vectors.
        samples: random vectors of ``stochastic``.
        same_spin: let them sample the same-spin energy too, so that ``e_corr`` is all of it; others scale the
            opposite-spin energy. Twice the noise.
        seed: of the random vectors.
        pairs: return the energies of pairs too.
        screening: drop integrals that cannot exceed this, where so many are that a sparse product pays.
        reuse: take integrals the mean field holds fitted in this auxiliary basis, instead of computing them again.
        resident: keep B in device memory where the products run on a device or the simulator.
        memory: budget for everything allocated here, in bytes or as ``"2 GB"``; by default what the machine has free.
        scratch: folder for B when it does not fit into the budget; the system's for temporary files by default.
        checkpoint: file that keeps finished pairs, or quadrature points. If it exists, the calculation goes on from it.
        progress: called with a `Progress` as stages advance.
        stability: refuse a mean field that a rotation of its orbitals would lower: ``internal`` keeps its kind,
            ``external`` tries less restricted kinds too. ``None`` does not look; PySCF's analysis is expensive.
        quadrature_error: relative error of ``1/D`` in the methods without pairs, which is measured; below that of
            ``precision`` unless given.
        target_error: hartree that the energy may be off by, ``result.error``; the cheapest precision, quadrature and
            number of samples that stay below are chosen and verified. Of the auxiliary basis and what is frozen it
            says nothing.
        mesh: ranks that share the work, from `trnsci.distributed.mesh`. All of them make this call, and all get the
            result; the first one's mean field counts, and it alone keeps the checkpoint. ``memory`` is of each.
        device: where the pairs are computed, ``"cuda"`` for one; B stays in host memory or on disk, and blocks of it
            are brought. ``result.plan.blocks`` says how large they are and what they take of its memory at most.

    Returns:
        `MP2Result`: energies, pairs, plan, timings, metric.

    Raises:
        ArgumentError: an argument cannot be right, or the checkpoint is damaged or of another calculation.
        NotConverged: the mean field has not converged.
        NumericalError: ``stability`` is given and the mean field is not stable.
        NumericalError: the metric is not one, or so close to singular that ``precision`` does not survive the fit.
        CapacityError: the budget, or the disk, is too small; the text names one that would do.
        RankFailed: another rank of the mesh raised, died or does not answer.

    Error bound:
        In ``fp64`` 1e-9 Ha against PySCF's DF-MP2 for molecules of up to ten atoms in double-zeta bases. In ``fp32``
        and ``compensated`` ``2**-24 (64 + g)`` of the energy, where ``g`` is ``result.metric.growth``; in ``fast``
        ``2**-7`` of it more. docs/trnchem/dfmp2.md has the measurements and says what limits ``fp32``.

    Cost:
        ``nocc (nocc + 1) nvir**2 naux`` FLOPs for the pairs, ``2 nocc nvir naux**2`` for the fit, where ``nocc`` are
        the occupied orbitals of a closed shell, or of both spins of an open one.

    Example:
        >>> result = dfmp2("water")
        >>> print(f"{result.e_corr:.6f} {result.metric}")
        -0.203977 fitted already, by the mean field; 116 of 116 vectors kept
    """
    want = Request(system=System(basis, charge, spin, reference), **_asked(locals()))
    if mesh is None:
        if target_error is None:
            return calculated(want)
        # one mean field for all attempts
        want = replace(want, mf=built(want.mf, want.system), system=System())
        return within(want, target_error, calculated)
    if device is not None:
        raise ArgumentError("dfmp2", "device", device, "None with a mesh, which has its own")
    from trnchem import sharded

    if target_error is None:
        return sharded.dfmp2(mesh, want)
    return within(want, target_error, lambda chosen: sharded.dfmp2(mesh, chosen))


def _asked(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a function that are fields of a request, by name."""
    return {each.name: arguments[each.name] for each in fields(Request) if each.name in arguments}


def prepared(want: Request) -> tuple[Any, Run]:
    """Return the mean field, and its calculation about to start."""
    options = check_options(want)
    if want.checkpoint is not None:
        usable(want.checkpoint)
    field = built(want.mf, want.system)
    check_stability(field, want.stability)
    chosen = orbitals(field, want.frozen)
    integrals = source(field, want.auxbasis, want.reuse)
    plan = single_plan(chosen, integrals, options, memory_bytes(want.memory), want.resident, want.by_pair)
    if want.device is not None:
        plan = _brought(plan, want.device)
    plan = replace(plan, quadrature_error=relative_error(plan.precision, want.quadrature_error))
    run = Run(
        plan=plan,
        options=options,
        orbitals=chosen,
        source=integrals,
        progress=want.progress or silent,
        screening=want.screening,
        reference=kind_of(field),
    )
    return field, run


def started(
    want: Request, field: Any, integrals: Source, chosen: Orbitals, options: Options, stack: ExitStack
) -> tuple[Slots | None, Orbitals, PairState]:
    """Return orbitals and what is finished, of the checkpoint where there is one, and its slots."""
    points = quadrature_points(chosen, options, relative_error(options.precision, want.quadrature_error))
    shape = kept_shape(len(chosen.e_occ), options, points)
    state = PairState.empty(*shape)
    if want.checkpoint is None:
        return None, chosen, state
    who = identity(field, integrals.auxiliary, chosen, options.precision, want)
    file = stack.enter_context(Checkpoint(want.checkpoint, who, shape, pairs=options.method == "pairs"))
    chosen, state = file.load(chosen) or (chosen, state)
    return file.start(chosen), chosen, state


def calculated(want: Request) -> MP2Result:
    """`dfmp2` with its arguments in one value, on one rank."""
    field, run = prepared(want)
    with ExitStack() as stack:
        if want.checkpoint is not None:
            stack.enter_context(terminable())
        slots, run.orbitals, state = started(want, field, run.source, run.orbitals, run.options, stack)
        resumed = state.finished
        store = stack.enter_context(open_store(run.plan, run.plan.sizes.nocc, want.scratch))
        energies = run.energies(store, want.seed, state, slots)
    return run.result(float(field.e_tot), energies, state if want.pairs else None, resumed)


def _brought(plan: MP2Plan, device: torch.device | str) -> MP2Plan:
    """Return the plan with its pairs on a device that B is brought to."""
    if plan.precision not in ("fp64", "fp32"):
        raise ArgumentError("dfmp2", "precision", plan.precision, "'fp64' or 'fp32' with device")
    n, there = plan.sizes, check.device("dfmp2", device)
    if not n.nocc or not n.nvir:
        return plan
    most, two = n.spins.most(n.nocc), n.spins.sets > 1
    chosen = mp2_blocks(most, n.nvir, n.naux, dtype=dtype_of(plan.precision), device=there, two=two)
    return replace(plan, fused=False, blocks=chosen, why=f"{plan.why} Pairs in {chosen}.")


@inside("trnchem")
@check.hands_on("dfmp2", "mean_field")
def plan(
    mf: Any,
    *,
    basis: str | None = None,
    charge: int | None = None,
    spin: int | None = None,
    reference: Reference | None = None,
    frozen: Frozen = None,
    auxbasis: Any = None,
    precision: Precision | None = None,
    method: Method = "pairs",
    samples: int = 64,
    same_spin: bool = False,
    reuse: bool = True,
    resident: bool = True,
    memory: int | str | None = None,
    ranks: int = 1,
) -> MP2Plan:
    """Return what `dfmp2` would do with these arguments: its stages, their memory, and whether they fit.

    ``ranks`` plans for a mesh of that many, without starting any; ``shares`` says what each computes, holds and
    receives.

    Example:
        >>> plan("water", basis="sto-3g", memory="1 GB").place
        'host memory'
    """
    ranks = check.integer("plan", "ranks", ranks, 1)
    want = Request(system=System(basis, charge, spin, reference), **_asked(locals()))
    options, field = check_options(want), built(mf, want.system)
    # of a name, the first rank alone has a mean field
    shared = reuse and (ranks == 1 or not isinstance(mf, str | Path))
    chosen, integrals = orbitals(field, frozen), source(field, auxbasis, shared)
    if ranks == 1:
        return single_plan(chosen, integrals, options, memory_bytes(memory), resident, False)
    sizes = sizes_of(chosen, integrals, options.precision)
    points = quadrature_points(chosen, options, relative_error(options.precision, None))
    return sharded_plan(sizes, integrals, options, memory_bytes(memory), ranks, points)


def check_options(want: Request) -> Options:
    """Refuse options that cannot be right; return those that decide what is computed."""
    method = want.method
    check.option("dfmp2", "method", method, METHODS)
    check.option("dfmp2", "stability", want.stability, (None, "internal", "external"))
    check.flag("dfmp2", same_spin=want.same_spin, pairs=want.pairs, reuse=want.reuse, resident=want.resident)
    what = "energies of single pairs" if want.by_pair else f"method {method!r}"
    screens = isinstance(want.screening, int | float) and want.screening >= 0
    has = "computes it always" if method == "pairs" else "has none: with 1/D factored it is as expensive as pairs"
    for name, refused, expected in (
        ("screening", not screens, "a threshold, not negative"),
        ("same_spin", want.same_spin and method != "stochastic", f"False, because {method!r} {has}"),
        ("device", want.device is not None and (want.by_pair or method != "pairs"), f"None with {what}"),
        ("progress", want.progress is not None and not callable(want.progress), "a function or None"),
        ("scratch", not _folder(want.scratch), "a folder that exists"),
        ("pairs", want.pairs and method != "pairs", f"left out, because {method!r} has no pairs"),
    ):
        if refused:
            raise ArgumentError("dfmp2", name, getattr(want, name), expected)
    check.integer("dfmp2", "seed", want.seed, 0)
    samples = check.integer("dfmp2", "samples", want.samples, 1)
    return Options(resolve("dfmp2", want.precision, torch.float64), method, samples, want.same_spin)


def _folder(value: object) -> bool:
    return value is None or (isinstance(value, str | Path) and Path(value).is_dir())
