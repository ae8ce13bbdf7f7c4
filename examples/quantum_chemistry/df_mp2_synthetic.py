"""The pattern of density-fitted MP2 on random integrals: five libraries on one page, no PySCF needed.

Every step is the call a real calculation makes; trnchem.dfmp2 is the same with molecules, blocks and checkpoints. The
energy is compared with a loop over pairs in NumPy, the sampled one with its own standard error.

    python examples/quantum_chemistry/df_mp2_synthetic.py --backend simulator
"""

import argparse
import sys

import numpy as np
import torch

import trnblas
import trnrand
import trnsci
import trnsolver
import trnsparse
import trntensor

NAO, NOCC, NAUX = 40, 6, 96
SAMPLES = 512


def synthetic(seed):
    """Random integrals (mn|P) that decay with the distance of m and n, a metric, orbitals and their energies."""
    generator = trnrand.Generator(seed)
    place = torch.arange(NAO, dtype=torch.float32)
    decay = torch.exp(-(((place[:, None] - place) / 8) ** 2))  # [nao, nao]
    raw = generator.normal(NAO, NAO, NAUX, dtype=torch.float32) * decay[:, :, None]
    integrals = 0.1 * (raw + raw.transpose(0, 1))  # [nao, nao, naux]
    spread = generator.normal(NAUX, 2 * NAUX, dtype=torch.float32)
    metric = trnblas.gemm(1.0 / NAUX, spread, spread, trans_b=True)  # [naux, naux]
    orbitals = trnsolver.qr(generator.normal(NAO, NAO, dtype=torch.float32)).q
    energies = torch.cat([-torch.linspace(2.0, 0.5, NOCC), torch.linspace(0.2, 3.0, NAO - NOCC)])
    return integrals, metric, orbitals, energies


def screened(integrals, threshold):
    """Integrals of pairs whose Schwarz bound is above a threshold, and the share of pairs that is."""
    bounds = trnsparse.schwarz_bounds((integrals**2).sum(2))  # [nao, nao]
    kept = trnsparse.density_screen(bounds, torch.ones_like(bounds), threshold)
    mask = kept.to_dense() != 0
    return integrals * mask[:, :, None], kept.nnz / NAO**2


def fitted(integrals, metric, orbitals):
    """B [nocc, nvir, naux]."""
    moved = trntensor.ao_to_mo_transform(integrals, orbitals[:, :NOCC].contiguous(), orbitals[:, NOCC:].contiguous())
    inverse = trnsolver.inv_triangular(trnsolver.cholesky(metric), lower=True)
    return trnblas.gemm(1.0, moved.reshape(-1, NAUX), inverse, trans_b=True).view(NOCC, NAO - NOCC, NAUX)


def sampled_norm(B, seed):
    """The squared norm of all integrals (ia|jb), from random signs: mean and standard error."""
    flat = B.reshape(-1, NAUX)
    signs = trnrand.Generator(seed).rademacher(NAUX, SAMPLES, dtype=torch.float32)
    once = trnblas.gemm(1.0, flat, signs)
    twice = trnblas.gemm(1.0, flat, once, trans_a=True)
    each = (twice**2).sum(0).double()
    return float(each.mean()), float(each.std() / SAMPLES**0.5)


def reference(B, energies):
    """The energy and the squared norm, pair by pair in NumPy and float64."""
    B, e = B.double().numpy(), energies.double().numpy()
    occ, vir = e[:NOCC], e[NOCC:]
    total = norm = 0.0
    for i in range(NOCC):
        for j in range(NOCC):
            T = B[i] @ B[j].T
            total += (T * (2 * T - T.T) / (occ[i] + occ[j] - vir[:, None] - vir)).sum()
            norm += (T**2).sum()
    return float(total), float(norm)


def main():
    """Run the pattern and hold both results to their bounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threshold", type=float, default=1e-3)
    parser.add_argument("--backend", choices=("auto", "pytorch", "simulator", "nki"), default="auto")
    args = parser.parse_args()

    with trnsci.backend(args.backend):
        integrals, metric, orbitals, energies = synthetic(args.seed)
        kept, share = screened(integrals, args.threshold)
        B = fitted(kept, metric, orbitals)
        energy = float(trntensor.mp2_energy(B, energies[:NOCC].contiguous(), energies[NOCC:].contiguous()))
        norm, error = sampled_norm(B, args.seed)
    expected, exact = reference(B, energies)
    # float32 sums: a hundred roundings of the energy's own size are generous
    off, bound = abs(energy - expected), 100 * np.finfo(np.float32).eps * abs(expected)
    sigmas = abs(norm - exact) / error

    print(f"screening keeps {share:.0%} of the orbital pairs")
    print(f"energy {energy:.3f}, error {off:.1e}, bound {bound:.1e}")
    print(f"squared norm of the integrals {norm:.2f} +- {error:.2f}, {sigmas:.1f} standard errors from {exact:.2f}")
    passed = off <= bound and sigmas <= 5
    print("passed" if passed else "FAILED")
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
