"""trnchem: density-fitted MP2 on real molecules, composed from the libraries of the suite.

| name | what it is |
|---|---|
| `dfmp2` | the correlation energy of a PySCF mean field or molecule, an xyz file or a built-in molecule |
| `MP2Options` | everything a calculation may be told beyond memory and checkpoint |
| `DFMP2` | the same as an object with PySCF's manners: `run()`, `e_corr`, `make_rdm1()` |
| `rpa`, `RPAResult` | the correlation energy of the random-phase approximation |
| `plan`, `MP2Plan` | what that will do, what each stage and rank needs, and whether it fits |
| `MP2Result`, `PairEnergies`, `Metric`, `Screen` | results, and how they were computed |
| `density_fit` | a mean field of PySCF with Coulomb and exchange from the suite |
| `extrapolate`, `CompleteBasis` | the limit of a complete basis from two |
| `Progress` | what a progress callback receives |
| `mean_field`, `read_xyz`, `GEOMETRIES` | molecules |
"""

from typing import TYPE_CHECKING

from trnsim.lazy import lazily

if TYPE_CHECKING:
    from trnchem.budget import MP2Plan, Share, Stage
    from trnchem.dfmp2 import dfmp2, plan
    from trnchem.extrapolation import CompleteBasis, extrapolate
    from trnchem.fitting import density_fit
    from trnchem.metric import Metric
    from trnchem.molecules import GEOMETRIES, read_xyz
    from trnchem.options import MP2Options
    from trnchem.references import mean_field
    from trnchem.result import MP2Result, PairEnergies, Progress
    from trnchem.rpa import RPAResult, rpa
    from trnchem.screening import Screen
    from trnchem.solver import DFMP2

__all__ = [
    "DFMP2",
    "GEOMETRIES",
    "CompleteBasis",
    "MP2Options",
    "MP2Plan",
    "MP2Result",
    "Metric",
    "PairEnergies",
    "Progress",
    "RPAResult",
    "Screen",
    "Share",
    "Stage",
    "density_fit",
    "dfmp2",
    "extrapolate",
    "mean_field",
    "plan",
    "read_xyz",
    "rpa",
]

lazily(__name__)
