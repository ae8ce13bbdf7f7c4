"""The correlation energy of a molecule on the ranks of a launcher, from its checkpoint when it is started again.

Every rank must reach the folder of the checkpoint.
"""

import sys

import trnchem
from trnsci import distributed


def main() -> None:
    """Compute the energy of the molecule that is named first, with the checkpoint that is named second."""
    molecule, checkpoint = sys.argv[1:]
    mesh = distributed.mesh()
    result = trnchem.dfmp2(molecule, checkpoint=checkpoint, options=trnchem.MP2Options(basis="sto-3g", mesh=mesh))
    if mesh.get_rank() == 0:
        print(f"{molecule}: {result.e_corr:.8f} Ha on {mesh.size()} ranks", flush=True)
    distributed.leave()


if __name__ == "__main__":
    main()
