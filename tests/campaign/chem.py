"""trnchem: PySCF's DF-MP2 with the same mean field and auxiliary basis, within the bound of every precision."""

import functools
import tempfile
from pathlib import Path

import numpy as np

import trnchem
from tests.campaign.draw import Draw
from tests.campaign.trial import EXEMPT, Trial, spec
from tests.trnchem.conftest import reference_of

EXEMPT.update({"trnchem.plan": "a prediction, not a result"})
CHANCES = {"kernels": "maybe", "simulated": 0.2, "differentiable": False, "compiles": False, "arrays": False}
ATOMS = {"h2": "H 0 0 0; H 0 0 {}", "hf": "H 0 0 0; F 0 0 {}", "n2": "N 0 0 0; N 0 0 {}"}


@functools.lru_cache(maxsize=64)
def field(name: str, length: float, basis: str):
    """A mean field with fitted integrals, and PySCF's energy of it."""
    from pyscf import gto, scf
    from pyscf.mp import dfmp2

    made = scf.RHF(gto.M(atom=ATOMS[name].format(length), basis=basis, verbose=0)).density_fit()
    made.chkfile = None
    made.run()
    if not made.converged:
        return None, 0.0
    solver = dfmp2.DFMP2(made)
    return made, float(dfmp2.kernel(solver, eris=solver.ao2mo(), with_t2=False)[0])


@spec(
    "trnchem.dfmp2",
    promise="`1e-9` Ha in fp64; `2**-24 (64 + g)` of the energy in fp32; `2**-7` more in fast",
    when="closed shells",
)
def energy(draw: Draw) -> Trial:
    name, basis = draw.among(*ATOMS), draw.among("sto-3g", "6-31g", "cc-pvdz")
    mean, exact = field(name, draw.among(0.7, 0.9, 1.3, 1.7), basis)
    precision, reuse = draw.among(None, "fp64", "fp32", "compensated", "fast"), draw.chance(0.6)
    options = {"precision": precision, "reuse": reuse, "resident": draw.chance(0.5), "pairs": draw.chance(0.3)}
    draw.log.append(f"{name} {basis} {options}")

    def run():
        return None if mean is None else trnchem.dfmp2(mean, **options)

    def check(result, kernel):
        if result is None:
            return
        growth = result.metric.growth if result.metric is not None else 0.0
        relative = {"fast": 2.0**-7 + 2.0**-24 * (64 + growth)}.get(precision, 2.0**-24 * (64 + growth))
        limit = 1e-9 if precision in (None, "fp64") else relative * abs(exact) + 1e-9
        assert abs(result.e_corr - exact) <= limit, (result.e_corr, exact, limit)

    return Trial(run, (), check=check, view=lambda r: r if r is None else np.array(r.e_corr), **CHANCES)


@spec("trnchem.mean_field", "trnchem.read_xyz", promise="exact: PySCF's converged field; the coordinates as written")
def read(draw: Draw, name: str) -> Trial:
    count = draw.among(1, 2, 5)
    atoms = [
        (draw.among("H", "C", "O", "Ne"), *(float(x) for x in np.round(draw.rng.normal(size=3), 6)))
        for _ in range(count)
    ]

    def run():
        if name.endswith("mean_field"):
            made = trnchem.mean_field("water", basis="sto-3g")
            return made.e_tot, reference_of("water", "sto-3g")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.xyz"
            path.write_text(f"{count}\n\n" + "\n".join(" ".join(map(str, atom)) for atom in atoms) + "\n")
            return trnchem.read_xyz(path)

    def check(result, kernel):
        if name.endswith("mean_field"):
            # Hartree-Fock of water in STO-3G lies here for every sensible geometry
            assert -75.1 < result[0] < -74.8
            return
        assert [tuple(np.ravel([x[0], *np.ravel(x[1:])]).tolist()) for x in result] == [
            tuple(map(str, atom)) for atom in atoms
        ], result

    return Trial(run, (), check=check, **{**CHANCES, "kernels": False}, repeats=False)
