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
    from trnchem.budget import MP2Plan as MP2Plan, Share as Share, Stage as Stage
    from trnchem.dfmp2 import dfmp2 as dfmp2, plan as plan
    from trnchem.extrapolation import CompleteBasis as CompleteBasis, extrapolate as extrapolate
    from trnchem.fitting import density_fit as density_fit
    from trnchem.metric import Metric as Metric
    from trnchem.molecules import GEOMETRIES as GEOMETRIES, read_xyz as read_xyz
    from trnchem.options import MP2Options as MP2Options
    from trnchem.references import mean_field as mean_field
    from trnchem.result import MP2Result as MP2Result, PairEnergies as PairEnergies, Progress as Progress
    from trnchem.rpa import RPAResult as RPAResult, rpa as rpa
    from trnchem.screening import Screen as Screen
    from trnchem.solver import DFMP2 as DFMP2

lazily(__name__)
