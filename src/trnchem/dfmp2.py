"""Density-fitted MP2 of molecules with closed and open shells, composed from the libraries of the suite."""

from __future__ import annotations

import functools
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from trnchem import sharded
from trnchem.accuracy import within
from trnchem.budget import MP2Plan, Sizes, memory_bytes
from trnchem.integrals import source
from trnchem.options import DEFAULTS, MP2Options, Request
from trnchem.orbitals import orbitals
from trnchem.preparation import complete_plan, draft_plan, load_state, prepare_run, quadrature_points
from trnchem.references import built, is_description
from trnchem.relaxation import Relaxed, relax
from trnchem.result import SCALINGS, EnergyName, MP2Result
from trnchem.stages import open_store
from trnsci import check
from trnsci.backends import inside
from trnsci.signals import terminable


@inside("trnchem")
@check.hands_on("mean_field")
def dfmp2(
    mf: Any,
    *,
    checkpoint: str | Path | None = None,
    memory: int | str | None = None,
    options: MP2Options = DEFAULTS,
) -> MP2Result:
    """Return the second-order correlation energy of a molecule with density fitting.

    Use it for a molecule or a mean field: it builds, fits, screens and checkpoints the integrals. With your own fitted
    integrals call `trntensor.mp2_energy`, with ``(ia|jb)`` themselves `trnblas.mp2_energy`.

    Args:
        mf: a converged PySCF ``RHF``, ``UHF`` or ``ROHF`` object; a molecule of PySCF; the path of an xyz file; or a
            built-in name (``trnchem.GEOMETRIES``). Of the last three Hartree-Fock is computed first.
        checkpoint: file that keeps finished pairs, or quadrature points. If it exists, the calculation goes on from it.
        memory: budget for everything allocated here, in bytes or as ``"2 GB"``; by default what the machine has free.
        options: everything else: `MP2Options`.

    Returns:
        `MP2Result`: energies, pairs, plan, timings, metric; and ``gradient()``, ``density()``, ``dipole()``.

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
    want = Request.of("dfmp2", mf, options, checkpoint=checkpoint, memory=memory)
    if want.mesh is not None:
        return within(want, sharded.dfmp2)
    if want.target_error is not None:
        # one mean field for all attempts
        want = with_mean_field(want, built(mf, want))
    return within(want, calculate)


def with_mean_field(want: Request, field: Any) -> Request:
    """Return the request for the mean field of the molecule that it describes."""
    return replace(want, mf=field, basis=None, charge=None, spin=None, reference=None)


def calculate(want: Request) -> MP2Result:
    """`dfmp2` with its arguments in one value, on one rank."""
    field, run = prepare_run(want)
    with ExitStack() as stack:
        if want.checkpoint is not None:
            stack.enter_context(terminable())
        slots, run.orbitals, state = load_state(want, field, run.source, run.orbitals, run.plan, stack)
        resumed = state.done_count
        store = stack.enter_context(open_store(run.plan, run.plan.sizes.nocc, want.scratch))
        energies = run.energies(store, want.seed, state, slots)
    result = run.result(float(field.e_tot), energies, state if want.pairs else None, resumed)
    return replace(result, response=functools.partial(_respond, with_mean_field(want, field)))


def _respond(want: Request, energy: EnergyName, forces: bool) -> Relaxed:
    """Compute the relaxed density of an energy; a function of the module, so that results can be copied."""
    return relax(want, SCALINGS[energy], forces)


@inside("trnchem")
@check.hands_on("dfmp2", "mean_field")
def plan(mf: Any, *, memory: int | str | None = None, ranks: int = 1, options: MP2Options = DEFAULTS) -> MP2Plan:
    """Return what `dfmp2` would do with these arguments: its stages, their memory, and whether they fit.

    ``ranks`` plans for a mesh of that many, without starting any; ``shares`` says what each computes, holds and
    receives.

    Example:
        >>> plan("water", memory="1 GB").place
        'host memory'
    """
    ranks = check.integer("plan", "ranks", ranks, 1)
    want = Request.of("plan", mf, options, memory=memory)
    precision, field = want.check(), built(mf, want)
    # of a name, the first rank alone has a mean field
    shared = want.reuse and (ranks == 1 or not is_description(mf))
    chosen, integrals = orbitals(field, want.frozen), source(field, want.auxbasis, shared)
    draft = draft_plan(want, Sizes.of(chosen, integrals, precision), memory_bytes(memory))
    if ranks == 1:
        return complete_plan(draft, integrals, want)
    return complete_plan(draft, integrals, want, ranks, quadrature_points(chosen, draft))
