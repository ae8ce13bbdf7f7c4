"""Relaxed densities and nuclear gradients of MP2: the response of the orbitals, and derivatives of the integrals.

Everything is of one spin; a closed shell has one set of orbitals that counts twice. With ``P`` the density that MP2
adds, ``L`` the derivative of the pair energies by the orbitals and ``v(P)`` the Coulomb and exchange matrices of the
mean field, orbitals that are stationary demand ``M_ai = M_ia`` of
``M_rp = L_rp + 2 e_r P_rp + 2 v(P)_rp`` (the last for occupied ``p`` alone): a linear system for ``P_ai``, solved by
conjugate gradients. Between a frozen and an active orbital the same condition is one division.
docs/trnchem/gradients.md derives it.
"""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import trnblas
import trnsolver
from trnchem.budget import SLAB, MP2Plan
from trnchem.density import SpinDensity, contract_amplitudes
from trnchem.integrals import Source, source
from trnchem.metric import fit_matrix
from trnchem.molecules import pyscf
from trnchem.options import Request
from trnchem.orbitals import OrbitalSet, orbital_sets
from trnchem.preparation import prepare_run
from trnchem.references import kind_of
from trnchem.stages import Run, open_store
from trnchem.store import Store
from trnsci import ArgumentError, NotConverged, UnsupportedError, from_device

# Relative residual of the response: the density is first order in it, and the gradient in the density.
RESPONSE = 1e-10
# Hartree between a frozen and an active orbital below which their mixing is not determined.
DEGENERATE = 1e-6


@dataclass(slots=True, kw_only=True, eq=False)
class Relaxed:
    """Additions of MP2 to the densities of a mean field.

    Attributes:
        field: the mean field.
        sets: its orbitals, one set or one of each spin.
        densities: [nmo, nmo] of each set, of one spin, on those orbitals.
        weighted: [nmo, nmo] of each set: the matrix that multiplies derivatives of the overlap.
        explicit: [natm, 3], derivatives of the fitted integrals times their densities.
        iterations: of the response.
        plan: of the calculation.
        scratch: folder for what does not fit into memory.
    """

    field: Any
    sets: list[OrbitalSet]
    densities: list[Any]
    weighted: list[Any]
    explicit: Any
    iterations: int
    plan: MP2Plan
    scratch: str | Path | None

    @property
    def spins(self) -> int:
        """How often a set counts."""
        return 2 // len(self.sets)

    def gradient(self) -> Any:
        """Return derivatives of the total energy by the positions of the nuclei, [natm, 3] in hartree per bohr."""
        field, sets, spins = self.field, self.sets, self.spins
        molecule, slopes = field.mol, field.nuc_grad_method()
        slopes.verbose = 0
        D = self.on_atoms([np.diag(each.occupied.astype(float)) for each in sets])
        P = self.on_atoms(self.densities)
        energies = [np.diag(each.occupied * each.energies) for each in sets]
        W = spins * self.on_atoms([e + 0.5 * m for e, m in zip(energies, self.weighted, strict=True)]).sum(0)
        total = spins * (D + P).sum(0)
        hcore, overlap = slopes.hcore_generator(molecule), slopes.get_ovlp(molecule)
        by_orbital = -np.einsum("xmn,mn->mx", overlap, W + W.T)
        forces = self.explicit + slopes.grad_nuc(molecule)
        forces += np.stack([np.einsum("xmn,mn->x", hcore(atom), total) for atom in range(molecule.natm)])
        if _is_fitted(field):
            forces += _fitted_slopes(self, D, P)
        else:
            vj, vk = slopes.get_jk(molecule, np.concatenate([D, P]))
            v_D, v_P = (spins * vj[part].sum(0) - vk[part] for part in (slice(len(D)), slice(len(D), None)))
            by_orbital += 2 * spins * np.einsum("sxmn,smn->mx", v_D, D + P)
            by_orbital += 2 * spins * np.einsum("sxmn,smn->mx", v_P, D)
        forces += _by_atom(molecule, by_orbital)
        return slopes.symmetrize(forces) if molecule.symmetry else forces

    def on_atoms(self, parts: list[Any]) -> Any:
        """Return matrices of orbitals as [sets, nao, nao] on atomic orbitals."""
        return np.stack([each.C @ part @ each.C.T for each, part in zip(self.sets, parts, strict=True)])


def relax(want: Request, scaling: tuple[float, float], forces: bool = True) -> Relaxed:
    """Compute the relaxed density of an MP2 energy with scaled parts and, for ``forces``, all that its gradient needs.

    Raises:
        UnsupportedError: the reference is ROHF, whose response is not implemented.
        ArgumentError: a frozen orbital has the energy of an active one.
        CapacityError: the budget is too small.
        NotConverged: the response does not converge, because the mean field is not stable.
    """
    want = replace(want, method="pairs", pairs=False, device=None, checkpoint=None, reuse=False)
    field, run = prepare_run(want, amplitudes=True)
    if kind_of(field) == "ROHF":
        reason = "the response of restricted open-shell orbitals is not implemented; take a UHF reference"
        raise UnsupportedError("dfmp2 gradients and relaxed densities", [("trnchem", reason)])
    sets = orbital_sets(field)
    nothing = [np.zeros((len(each.energies), len(each.energies))) for each in sets]
    explicit = np.zeros((field.mol.natm, 3))
    result = Relaxed(
        field=field,
        sets=sets,
        densities=nothing,
        weighted=nothing,
        explicit=explicit,
        iterations=0,
        plan=run.plan,
        scratch=want.scratch,
    )
    if not run.plan.stages:
        return result
    parts, orbital_derivatives, result.explicit = _contract(run, want, scaling, forces)
    active = [_active(run, each, spin) for spin, each in enumerate(sets)]
    overlap = field.get_ovlp()
    L = [each.C.T @ A @ (overlap @ each.C) for each, A in zip(sets, orbital_derivatives, strict=True)]
    P = [_unrelaxed_density(want, *each) for each in zip(sets, active, parts, L, strict=True)]
    result.iterations = _respond(field, sets, P, L)
    result.densities = P
    v = _mean_field_matrices(field, sets, P)
    result.weighted = [
        L_s + 2 * each.energies[:, None] * P_s + 2 * v_s * each.occupied
        for each, L_s, P_s, v_s in zip(sets, L, P, v, strict=True)
    ]
    return result


def _contract(
    run: Run, want: Request, scaling: tuple[float, float], forces: bool
) -> tuple[list[SpinDensity], list[Any], Any]:
    """Return densities of orbitals, derivatives of the pair energies by orbitals, and explicit ones by nuclei."""
    plan = run.plan
    n, precision = plan.sizes, plan.precision
    with ExitStack() as stack:
        B, G = (stack.enter_context(open_store(plan, n.nocc, want.scratch)) for _ in range(2))
        X = run.build(B)
        assert X is not None
        N = torch.zeros((X.shape[1], X.shape[1]), dtype=torch.float64, device="cpu")

        def keep(i: int, own: Tensor, image: Tensor) -> None:
            N.add_(from_device(trnblas.gemm(1.0, own, image, trans_a=True, precision=precision)))
            G.put_rows(i, from_device(trnblas.gemm(1.0, image, X, trans_b=True, precision=precision))[None])

        with run.time_stage("amplitudes"):
            parts = contract_amplitudes(run, B, scaling, keep)
        with run.time_stage("response"):
            A, explicit = _integral_derivatives(run, G, forces)
    spins = 2 // n.spins.sets
    if forces:
        metric = (X.double() @ N @ X.double().mT).numpy() * spins
        explicit = spins * explicit + _metric_slopes(run.source.auxiliary, -metric)
    return parts, A, explicit


def _integral_derivatives(run: Run, G: Store, forces: bool) -> tuple[list[Any], Any]:
    """Contract the density of three indices with integrals, for each set, and with their derivatives.

    Moving all three centres together changes nothing, so derivatives by the auxiliary functions follow from the others.
    """
    orbitals, sets = run.orbitals, run.sets
    nao, slopes = run.plan.sizes.nao, _Slopes(run.source)
    A = [np.zeros((nao, nao)) for _ in sets]
    for first, last, packed in run.source.slabs(run.plan.slab):
        integrals = _unpack(packed).transpose(0, 1).reshape(nao, -1)
        columns, total = G.columns(first, last), None  # [nocc, nvir, w]
        for spin, rows in enumerate(sets):
            if not rows:
                continue
            part = columns[rows.start : rows.stop].double().permute(0, 2, 1).reshape(-1, columns.shape[1])
            half = from_device(trnblas.gemm(1.0, part, orbitals.C_vir[spin], trans_b=True))  # [rows w, nao]
            density = from_device(
                trnblas.gemm(1.0, orbitals.C_occ[:, rows.start : rows.stop], half.view(len(rows), -1))
            ).view(nao, last - first, nao)
            density = density + density.permute(2, 1, 0)
            A[spin] += 2 * from_device(trnblas.gemm(1.0, integrals, density.view(nao, -1), trans_b=True)).numpy()
            total = density if total is None else total + density
        if forces and total is not None:
            slopes.add(first, last, total)
    return A, slopes.by_atom()


def _unpack(packed: Tensor) -> Tensor:
    """Return (mn|P), [w, nao, nao], from triangles."""
    return torch.from_numpy(pyscf().lib.unpack_tril(np.ascontiguousarray(packed)))


class _Slopes:
    """Derivatives of three-index integrals times their density, slab by slab of auxiliary functions."""

    def __init__(self, integrals: Source) -> None:
        self._molecule, self._auxiliary = integrals.molecule, integrals.auxiliary
        self._of_orbitals, self._of_functions = np.zeros((self._molecule.nao, 3)), np.zeros((self._auxiliary.nao, 3))

    def add(self, first: int, last: int, density: Tensor) -> None:
        """Contract the derivatives of a slab with its density [nao, w, nao], symmetric in the first and the last."""
        shells, slab = self._molecule.nbas, np.searchsorted(self._auxiliary.ao_loc_nr(), (first, last))
        where, aux_e2 = (0, shells, 0, shells, *slab), pyscf().df.incore.aux_e2
        slopes = aux_e2(self._molecule, self._auxiliary, "int3c2e_ip1", aosym="s1", comp=3, shls_slice=where)
        parts = np.einsum("xmnp,mpn->xmp", slopes, density.numpy())
        self._of_orbitals += parts.sum(2).T
        self._of_functions[first:last] = parts.sum(1).T

    def by_atom(self) -> Any:
        """Return the derivatives by nuclei, [natm, 3]."""
        return 2 * (_by_atom(self._auxiliary, self._of_functions) - _by_atom(self._molecule, self._of_orbitals))


def _metric_slopes(auxiliary: Any, density: Any) -> Any:
    """Return derivatives of (P|Q) times a density by nuclei, [natm, 3]."""
    slopes = np.einsum("xpq,pq->px", auxiliary.intor("int2c2e_ip1"), density + density.T)
    return -_by_atom(auxiliary, slopes)


def _fitted_slopes(relaxed: Relaxed, D: Any, P: Any) -> Any:
    """Return derivatives of fitted Coulomb and exchange energies, of D with itself halved and of D with P.

    Exchange is ``-(mi|P) (P|Q)^-1 (Q|ni) R_mn`` over occupied orbitals ``i``, with ``R = D / 2 + P``; its density of
    three indices is ``R c`` with ``c = (P|Q)^-1 (Q|ni)``, which has the size of B and lies where B does.
    """
    field, spins = relaxed.field, relaxed.spins
    integrals, occupied = (
        source(field, None, False),
        [torch.from_numpy(each.C[:, each.occupied]) for each in relaxed.sets],
    )
    nao, naux, count = len(D[0]), integrals.naux, sum(C.shape[1] for C in occupied)
    slopes, (X, _) = _Slopes(integrals), fit_matrix(integrals.metric())
    totals = torch.from_numpy(spins * np.stack([D.sum(0), P.sum(0)]))
    R = [torch.from_numpy(0.5 * d + p) for d, p in zip(D, P, strict=True)]
    rho = torch.zeros((2, naux), dtype=torch.float64, device="cpu")
    metric = torch.zeros((naux, naux), dtype=torch.float64, device="cpu")
    plan = replace(relaxed.plan, sizes=replace(relaxed.plan.sizes, nvir=nao, naux=naux), precision="fp64")
    with open_store(plan, count, relaxed.scratch) as store:
        for first, last, packed in integrals.slabs(SLAB):
            square = _unpack(packed)
            rho[:, first:last] = totals.view(2, -1) @ square.view(last - first, -1).mT
            half = from_device(trnblas.gemm(1.0, square.view(-1, nao), torch.cat(occupied, 1)))
            store.put_columns(first, half.view(last - first, nao, count).permute(2, 1, 0))
        d = rho @ X @ X.mT
        start = 0
        for C, R_s in zip(occupied, R, strict=True):
            for i in range(start, start + C.shape[1]):
                c = trnblas.gemm(1.0, trnblas.gemm(1.0, store.rows(i, i + 1)[0], X), X, trans_b=True)
                metric += spins * from_device(trnblas.gemm(1.0, c, trnblas.gemm(1.0, R_s, c), trans_a=True))
                store.put_rows(i, from_device(c)[None])
            start += C.shape[1]
        metric -= torch.outer(0.5 * d[0] + d[1], d[0])
        for first, last in integrals.columns(SLAB):
            columns, start = store.columns(first, last), 0  # [nocc, nao, w]
            (D_t, P_t), (d_D, d_P) = totals, d[:, first:last, None]
            density = d_D * (D_t + P_t)[:, None] + d_P * D_t[:, None]  # [nao, w, nao]
            for C, R_s in zip(occupied, R, strict=True):
                part = columns[start : start + C.shape[1]].permute(1, 2, 0).reshape(nao, -1)
                image = from_device(trnblas.gemm(1.0, R_s, part)).view(-1, C.shape[1])  # [nao w, rows]
                exchange = from_device(trnblas.gemm(1.0, image, C, trans_b=True)).view(nao, last - first, nao)
                density -= spins * (exchange + exchange.permute(2, 1, 0))
                start += C.shape[1]
            slopes.add(first, last, density)
    return slopes.by_atom() + _metric_slopes(integrals.auxiliary, metric.numpy())


def _by_atom(molecule: Any, rows: Any) -> Any:
    """Sum rows of basis functions by the atom they belong to."""
    return np.stack([rows[start:stop].sum(0) for start, stop in molecule.aoslice_by_atom()[:, 2:]])


def _active(run: Run, part: OrbitalSet, spin: int) -> Any:
    """Return which orbitals take part in the correlation."""
    frozen = run.orbitals.frozen
    positions = frozen[spin] if frozen and isinstance(frozen[0], tuple) else frozen
    active = np.ones(len(part.occupied), dtype=bool)
    active[list(positions)] = False
    return active


def _unrelaxed_density(want: Request, part: OrbitalSet, active: Any, density: SpinDensity, L: Any) -> Any:
    """Return the density before the response, with what mixes frozen and active orbitals."""
    P = np.zeros_like(L)
    for mask, block in ((part.occupied, density.occupied), (~part.occupied, density.virtual)):
        inside, outside = np.flatnonzero(mask & active), np.flatnonzero(mask & ~active)
        P[np.ix_(inside, inside)] = block[: len(inside), : len(inside)].numpy()
        if not len(outside) or not len(inside):
            continue
        gaps = part.energies[inside][:, None] - part.energies[outside]
        if np.abs(gaps).min() < DEGENERATE:
            i, c = (int(each) for each in np.unravel_index(np.abs(gaps).argmin(), gaps.shape))
            got = f"orbital {outside[c]} without orbital {inside[i]}, {abs(gaps[i, c]):.1e} Ha apart"
            raise ArgumentError("dfmp2", "frozen", got, "degenerate orbitals together, or none of them")
        mixed = L[np.ix_(outside, inside)].T / (2 * gaps)
        P[np.ix_(inside, outside)], P[np.ix_(outside, inside)] = mixed, mixed.T
    return P


def _is_fitted(field: Any) -> bool:
    """Return whether Coulomb and exchange of a mean field are both fitted."""
    return vars(field).get("with_df") is not None and not getattr(field, "only_dfj", False)


def _fitted_matrices(field: Any, sets: list[OrbitalSet], halves: list[Any]) -> list[Any]:
    """Return Coulomb less exchange matrices of ``C_vir z C_occ.T`` and its transpose, [nvir, nocc], by density fitting.

    ``halves`` are the factors ``C_vir z``, [nao, nocc] of each set: products are with occupied orbitals, never with a
    whole density.
    """
    lib, nao = pyscf().lib, len(sets[0].C)
    occupied = [torch.from_numpy(np.ascontiguousarray(each.C[:, each.occupied])) for each in sets]
    factors = [torch.from_numpy(half) for half in halves]
    total = torch.stack([C @ F.mT for C, F in zip(occupied, factors, strict=True)]).sum(0) * (2 // len(sets))
    coulomb = torch.zeros((nao, nao), dtype=torch.float64, device="cpu")
    exchange = [torch.zeros_like(coulomb) for _ in sets]
    for part in field.with_df.loop(SLAB):
        square = torch.from_numpy(lib.unpack_tril(part))  # [w, nao, nao]
        flat = square.view(-1, nao)
        rho = 2 * (square.view(len(square), -1) @ total.reshape(-1))
        coulomb += (rho @ square.view(len(square), -1)).view(nao, nao)
        for C, F, K in zip(occupied, factors, exchange, strict=True):
            one, other = (
                from_device(trnblas.gemm(1.0, flat, right)).view(len(square), nao, -1).transpose(0, 1).reshape(nao, -1)
                for right in (C, F)
            )
            K += from_device(trnblas.gemm(1.0, one, other, trans_b=True))
    results = []
    for each, K in zip(sets, exchange, strict=True):
        matrix = (coulomb - K - K.mT).numpy()
        results.append(each.C[:, ~each.occupied].T @ matrix @ each.C[:, each.occupied])
    return results


def _mean_field_matrices(field: Any, sets: list[OrbitalSet], P: list[Any]) -> list[Any]:
    """Return Coulomb less exchange matrices of densities, on the orbitals of each set."""
    densities = np.stack([each.C @ part @ each.C.T for each, part in zip(sets, P, strict=True)])
    vj, vk = field.get_jk(field.mol, densities, hermi=1)
    coulomb = 2 // len(sets) * vj.sum(0)
    return [each.C.T @ (coulomb - exchange) @ each.C for each, exchange in zip(sets, vk, strict=True)]


def _respond(field: Any, sets: list[OrbitalSet], P: list[Any], L: list[Any]) -> int:
    """Add the blocks of occupied with virtual orbitals to the densities; return the iterations they took."""
    pairs = [(each.occupied, ~each.occupied) for each in sets]
    gaps = np.concatenate(
        [(e.energies[vir][:, None] - e.energies[occ]).ravel() for e, (occ, vir) in zip(sets, pairs, strict=True)]
    )
    sizes = [int(vir.sum()) * int(occ.sum()) for occ, vir in pairs]

    def blocks(matrices: list[Any]) -> Any:
        return np.concatenate([m[np.ix_(vir, occ)].ravel() for m, (occ, vir) in zip(matrices, pairs, strict=True)])

    def parts(vector: Any) -> list[Any]:
        split = np.split(vector, np.cumsum(sizes)[:-1])
        return [z.reshape(int(vir.sum()), int(occ.sum())) for (occ, vir), z in zip(pairs, split, strict=True)]

    def matrices(vector: Any) -> list[Any]:
        symmetric = []
        for each, (occ, vir), z in zip(sets, pairs, parts(vector), strict=True):
            m = np.zeros((len(each.energies), len(each.energies)))
            m[np.ix_(vir, occ)] = z
            symmetric.append(m + m.T)
        return symmetric

    def respond(vector: Any) -> Any:
        if not _is_fitted(field):
            return blocks(_mean_field_matrices(field, sets, matrices(vector)))
        halves = [each.C[:, vir] @ z for each, (_, vir), z in zip(sets, pairs, parts(vector), strict=True)]
        return np.concatenate([image.ravel() for image in _fitted_matrices(field, sets, halves)])

    def apply(vectors: Tensor) -> Tensor:
        columns = vectors.reshape(len(gaps), -1).numpy().T
        return torch.from_numpy(np.stack([gaps * z + respond(z) for z in columns], 1)).reshape(vectors.shape)

    right = -0.5 * blocks([m - m.T for m in L]) - blocks(_mean_field_matrices(field, sets, P))
    inverse = torch.from_numpy(1 / gaps)
    solution = trnsolver.cg(
        apply,
        torch.from_numpy(right),
        tol=RESPONSE,
        maxiter=200,
        preconditioner=lambda r: inverse.view(-1, *[1] * (r.ndim - 1)) * r,
    )
    if not solution.converged:
        raise NotConverged("dfmp2 response", solution.iterations, solution.residuals[-1])
    for P_s, z in zip(P, matrices(solution.x.numpy()), strict=True):
        P_s += z
    return int(solution.iterations)
