"""Citations for a calculation: the method, the programs, and the scalings that were used."""

import trnsci
from trnchem.molecules import pyscf
from trnchem.result import MP2Result

MP2 = "C. Møller, M. S. Plesset, Phys. Rev. 46, 618 (1934): MP2"
FITTED = "M. Feyereisen, G. Fitzgerald, A. Komornicki, Chem. Phys. Lett. 208, 359 (1993): density-fitted MP2"
PYSCF = "Q. Sun et al., J. Chem. Phys. 153, 024109 (2020): PySCF {version}, mean field and integrals"
SOS = "Y. Jung, R. C. Lochan, A. D. Dutoi, M. Head-Gordon, J. Chem. Phys. 121, 9793 (2004): scaled opposite spin"
LAPLACE = "M. Häser, J. Almlöf, J. Chem. Phys. 96, 489 (1992): Laplace transform of the denominator"
STOCHASTIC = "T. Y. Takeshita et al., J. Chem. Theory Comput. 13, 4605 (2017): stochastic density-fitted MP2"
SCS = "S. Grimme, J. Chem. Phys. 118, 9095 (2003): spin-component scaling, for E(SCS)"
SUITE = "The trnsci authors, trnsci {version}, scientific computing on AWS Trainium (CITATION.cff)"


def references(result: MP2Result) -> list[str]:
    """Return what to cite for a result, in the order in which a text would name them."""
    how = {"pairs": [], "laplace": [LAPLACE], "stochastic": [LAPLACE, STOCHASTIC]}[result.method]
    return [
        MP2,
        FITTED,
        *how,
        SOS if result.e_ss is None else SCS,
        PYSCF.format(version=pyscf().__version__),
        SUITE.format(version=trnsci.__version__),
    ]
