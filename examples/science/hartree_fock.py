"""Restricted Hartree-Fock: a self-consistent field around a generalized eigenproblem.

Integrals come from PySCF (pip install '.[chem]'); everything after them is ours: Coulomb and exchange by
trntensor.einsum, F C = S C E by trnsolver.eigh_generalized, in float64. The energy is compared with PySCF's own.

    python examples/science/hartree_fock.py --molecule water
"""

import argparse
import sys

import torch
from pyscf import gto, scf

import trnsci
import trnsolver
import trntensor

MOLECULES = {
    "hydrogen": "H 0 0 0; H 0 0 0.74",
    "water": "O 0 0 0; H 0 0.757 0.587; H 0 -0.757 0.587",
}


def field(density, core, repulsion):
    """Return the Fock matrix: core, Coulomb and half of exchange."""
    coulomb = trntensor.einsum("pqrs,rs->pq", repulsion, density)
    exchange = trntensor.einsum("prqs,rs->pq", repulsion, density)
    return core + coulomb - 0.5 * exchange


def energy(density, core, fock):
    """Return the electronic energy: half the trace of the density with core and Fock matrices."""
    return 0.5 * float(trntensor.einsum("pq,pq->", density, core + fock))


def self_consistent(core, overlap, repulsion, pairs, tol):
    """Iterate until the commutator of Fock matrix and density, which vanishes at the solution, is small."""
    fock, history = core, []
    for _ in range(100):
        orbitals = trnsolver.eigh_generalized(fock, overlap).vectors[:, :pairs]  # [ao, pairs], lowest first
        density = 2 * trntensor.einsum("pi,qi->pq", orbitals, orbitals)
        fock = field(density, core, repulsion)
        gradient = trntensor.einsum("pq,qr,rs->ps", fock, density, overlap)
        gradient = gradient - gradient.mT
        total = energy(density, core, fock)
        history.append((fock, gradient))
        if float(gradient.abs().max()) < tol:
            return total, len(history)
        fock = extrapolated(history[-8:])
    raise trnsci.NotConverged(op="hartree_fock", iterations=100, residual=float(gradient.abs().max()))


def extrapolated(history):
    """Mix the last Fock matrices so that their gradients cancel best (Pulay's DIIS)."""
    gradients = torch.stack([gradient.flatten() for _, gradient in history])
    count = len(history)
    system = torch.ones(count + 1, count + 1, dtype=torch.float64)
    system[:count, :count] = trntensor.einsum("ix,jx->ij", gradients, gradients)
    system[count, count] = 0
    wanted = torch.zeros(count + 1, dtype=torch.float64)
    wanted[count] = 1
    weights = trnsolver.solve(system, wanted)[:count]
    return trntensor.einsum("i,ipq->pq", weights, torch.stack([fock for fock, _ in history]))


def main(argv=None):
    """Solve, compare, and return 0 when the energy agrees with PySCF's."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("auto", "nki", "simulator", "pytorch"), default="auto")
    parser.add_argument("--molecule", choices=sorted(MOLECULES), default="water")
    parser.add_argument("--basis", default="sto-3g")
    args = parser.parse_args(argv)

    molecule = gto.M(atom=MOLECULES[args.molecule], basis=args.basis, verbose=0)
    names = ("int1e_kin", "int1e_nuc", "int1e_ovlp", "int2e")
    kinetic, nuclear, overlap, repulsion = (torch.from_numpy(molecule.intor(name)) for name in names)
    with trnsci.backend(args.backend):
        electronic, steps = self_consistent(kinetic + nuclear, overlap, repulsion, molecule.nelectron // 2, tol=1e-7)
    total = electronic + molecule.energy_nuc()
    oracle = scf.RHF(molecule).run(conv_tol=1e-12, conv_tol_grad=1e-8).e_tot
    error, bound = abs(total - oracle), 1e-9
    # the energy is stationary: an orbital gradient of 1e-7 leaves an error of its square; 1e-9 is room for rounding
    passed = error <= bound
    print(f"{args.molecule} in {args.basis}, {len(overlap)} functions: {steps} steps")
    print(f"energy {total:.8f} Ha, PySCF {oracle:.8f} Ha: error {error:.1e}, bound {bound:.0e}")
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
