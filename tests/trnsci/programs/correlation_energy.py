"""The density-fitted MP2 energy of water, with PySCF."""

import json

from pyscf import gto, scf
from pyscf.mp.dfmp2 import DFMP2

molecule = gto.M(atom="O 0 0 0; H 0 0.757 0.587; H 0 -0.757 0.587", basis="cc-pvdz", verbose=0)
energy = scf.RHF(molecule).density_fit().run()
print(json.dumps([energy.e_tot, DFMP2(energy).run().e_corr]))
