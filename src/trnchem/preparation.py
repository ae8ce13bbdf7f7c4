"""A calculation before it starts: options, mean field, orbitals, integrals, plan, checkpoint and its identity."""

import hashlib
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import trnblas
import trnsci
from trnchem.budget import MP2Plan, Sizes, dtype_of, kept_shape, make_plan, memory_bytes
from trnchem.checkpoint import Checkpoint, Slots, usable
from trnchem.integrals import Source, source
from trnchem.options import Request
from trnchem.orbitals import Orbitals, orbitals
from trnchem.pairs import PairState
from trnchem.quadrature import quadrature, relative_error
from trnchem.references import built, check_stability, kind_of
from trnchem.stages import Run, silent
from trnsci import ArgumentError, check
from trnsci.precision import Precision
from trntensor.mp2_energy import mp2_blocks, mp2_within


def prepare_run(want: Request, **changes: Any) -> tuple[Any, Run]:
    """Return the mean field, and its calculation about to start, with ``changes`` of what is computed."""
    precision = want.check()
    if want.checkpoint is not None:
        usable(want.checkpoint)
    field = built(want.mf, want)
    check_stability(field, want.stability)
    chosen = orbitals(field, want.frozen)
    integrals = source(field, want.auxbasis, want.reuse)
    draft = draft_plan(want, Sizes.of(chosen, integrals, precision), memory_bytes(want.memory), **changes)
    plan = complete_plan(draft, integrals, want)
    if want.device is not None:
        plan = _bring(plan, want.device)
    run = Run(
        plan=plan,
        orbitals=chosen,
        source=integrals,
        progress=want.progress or silent,
        screening=want.screening,
        reference=kind_of(field),
    )
    return field, run


def draft_plan(want: Request, sizes: Sizes, memory: int, **changes: Any) -> MP2Plan:
    """Return a plan that says what is computed, with ``changes`` of it, and not yet how."""
    precision = want.check()
    draft = MP2Plan(
        method=want.method,
        precision=precision,
        sizes=sizes,
        memory=memory,
        quadrature_error=relative_error(precision, want.quadrature_error),
        samples=want.samples if want.method == "stochastic" else None,
        same_spin=want.same_spin,
    )
    return replace(draft, **changes)


def complete_plan(
    draft: MP2Plan, integrals: Source, want: Request, ranks: int | None = None, points: int = 0
) -> MP2Plan:
    """Decide where products run and choose blocks that fit, on one rank or on ``ranks``; each makes the same plan."""
    n, precision = draft.sizes, draft.precision
    if not n.nocc or not n.nvir:
        return replace(draft, why=f"Nothing to correlate: {n.nocc} occupied and {n.nvir} virtual orbitals.")
    (backend, why), fused = products(n, precision), False
    by_pair = want.by_pair or draft.amplitudes or ranks is not None
    if precision == "fp32" and draft.method == "pairs" and not by_pair:
        # in an open shell the larger of its three calls stands for them
        most = n.spins.most(n.nocc)
        shapes = ((most, n.nvir, n.naux), (most,), (n.nvir,))
        # the op itself: the function adds its sums up, and torch loads its compiler (67 MB) to add without data
        whole = trnsci.plan(mp2_within, *(torch.empty(x, dtype=dtype_of(precision), device="meta") for x in shapes))
        fused = whole.backend != "pytorch"
        why = f"Energy on {whole.backend}: {whole.reason}." if fused else why
    resident = want.resident and not draft.amplitudes and ranks is None
    return make_plan(
        replace(draft, why=why),
        ranks=ranks,
        device=(fused or backend != "pytorch") and resident,
        fused=fused,
        fitted=integrals.is_fitted,
        columns=integrals.columns,
        points=points,
    )


def products(n: Sizes, precision: Precision) -> tuple[str, str]:
    """Return where the products run, and why."""
    rows = torch.empty((n.nvir, n.naux), dtype=dtype_of(precision), device="meta")
    product = trnsci.plan(trnblas.gemm, 1.0, rows, rows, trans_b=True, precision=precision)
    return product.backend, f"Products on {product.backend}: {product.reason}."


def quadrature_points(chosen: Orbitals, plan: MP2Plan) -> int:
    """Return points that the methods without pairs take."""
    return 0 if plan.method == "pairs" else len(quadrature(chosen, plan.quadrature_error, plan.same_spin).t)


def load_state(
    want: Request, field: Any, integrals: Source, chosen: Orbitals, plan: MP2Plan, stack: ExitStack
) -> tuple[Slots | None, Orbitals, PairState]:
    """Return orbitals and what is finished, of the checkpoint where there is one, and its slots."""
    shape = kept_shape(plan, quadrature_points(chosen, plan))
    state = PairState.empty(*shape)
    if want.checkpoint is None:
        return None, chosen, state
    who = identity(field, integrals.auxiliary, chosen, plan.precision, want)
    overlap, pairs = torch.as_tensor(field.get_ovlp(), dtype=torch.float64, device="cpu"), plan.method == "pairs"
    file = stack.enter_context(Checkpoint(want.checkpoint, who, shape, pairs=pairs, overlap=overlap))
    chosen, state = file.load(chosen) or (chosen, state)
    return file.start(chosen), chosen, state


def _bring(plan: MP2Plan, device: torch.device | str) -> MP2Plan:
    """Return the plan with its pairs on a device that B is brought to."""
    if plan.precision not in ("fp64", "fp32"):
        raise ArgumentError("dfmp2", "precision", plan.precision, "'fp64' or 'fp32' with device")
    n, there = plan.sizes, check.device("dfmp2", device)
    if not n.nocc or not n.nvir:
        return plan
    most, two = n.spins.most(n.nocc), n.spins.sets > 1
    chosen = mp2_blocks(most, n.nvir, n.naux, dtype=dtype_of(plan.precision), device=there, two=two)
    return replace(plan, fused=False, blocks=chosen, why=f"{plan.why} Pairs in {chosen}.")


def identity(field: Any, auxiliary: Any, orbitals: Orbitals, precision: str, want: Request) -> dict[str, str]:
    """Return what makes two calculations the same."""
    sampled = {} if want.method == "pairs" else {"quadrature error": str(want.quadrature_error)}
    if want.method == "stochastic":
        sampled |= {"samples": str(want.samples), "seed": str(want.seed)}
        sampled |= {"spins": "both"} if want.same_spin else {}
    return {
        **molecule_text(field.mol),
        "mean field": kind_of(field),
        "auxbasis": basis_text(auxiliary),
        "frozen": str(list(orbitals.frozen)),
        "precision": precision,
        "screening": str(float(want.screening)),
        "method": want.method,
        **sampled,
    }


def molecule_text(molecule: Any) -> dict[str, str]:
    """Describe a molecule."""
    atoms = [molecule.atom_pure_symbol(k) for k in range(molecule.natm)]
    formula = "".join(f"{a}{atoms.count(a) if atoms.count(a) > 1 else ''}" for a in dict.fromkeys(atoms))
    coordinates = np.round(molecule.atom_coords(), 8) + 0.0
    return {
        "molecule": f"{formula} charge {molecule.charge}" + (f" spin {molecule.spin}" if molecule.spin else ""),
        "geometry": _digest(repr(atoms).encode() + coordinates.tobytes()),
        "basis": basis_text(molecule),
    }


def basis_text(molecule: Any) -> str:
    """Return how many functions a molecule or an auxiliary one has, and which."""
    return f"{molecule.nao_nr()} functions, {_digest(repr(sorted(molecule._basis.items())).encode())}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
