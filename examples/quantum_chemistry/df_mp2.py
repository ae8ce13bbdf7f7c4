"""The MP2 correlation energy of a molecule with density fitting, beside PySCF's.

Mean field and integrals come from PySCF (pip install '.[chem]'); the metric's factor, the fit and the pair energies
are ours. The bound is 1e-9 Ha in fp64 and 2e-6 Ha in fp32.

    python examples/quantum_chemistry/df_mp2.py --molecule benzene
"""

import argparse
import sys

from pyscf import mp

import trnchem
import trnsci

BOUNDS = {"fp64": 1e-9, "fp32": 2e-6}


def both(molecule, basis, precision):
    """Return our result and PySCF's energy, of one mean field."""
    field = trnchem.mean_field(molecule, basis=basis)
    found = trnchem.dfmp2(field, options=trnchem.MP2Options(precision=precision, reuse=False))
    return found, float(mp.dfmp2.DFMP2(field).kernel(with_t2=False)[0])


def main():
    """Compute, compare, and say how far apart."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--molecule", default="water", help=f"an xyz file, or one of {', '.join(trnchem.GEOMETRIES)}")
    parser.add_argument("--basis", default="cc-pvdz")
    parser.add_argument("--precision", choices=BOUNDS, default="fp64")
    parser.add_argument("--backend", choices=("auto", "pytorch", "simulator", "nki"), default="auto")
    parser.add_argument("--fused-energy", action="store_true", help="as always: energies of pairs are fused here")
    args = parser.parse_args()

    with trnsci.backend(args.backend):
        found, expected = both(args.molecule, args.basis, args.precision)
    error, bound = abs(found.e_corr - expected), BOUNDS[args.precision]

    print(f"{args.molecule}, {args.basis}: {found.plan.sizes.nocc} occupied, {found.plan.sizes.nvir} virtual orbitals")
    print(f"metric: {found.metric}")
    print(f"E(corr) = {found.e_corr:.6f} Ha, opposite spin {found.e_os:.6f}, same spin {found.e_ss:.6f}")
    print(f"error {error:.1e} Ha against PySCF, bound {bound:.1e}")
    passed = error <= bound
    print("passed" if passed else "FAILED")
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
