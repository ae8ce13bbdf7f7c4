"""trnchem: PySCF's DF-MP2 with the same mean field and auxiliary basis, within the bound of every precision."""

import functools
import tempfile
from pathlib import Path

import numpy as np

import trnchem
from tests.campaign.draw import Draw
from tests.campaign.trial import EXEMPT, Trial, spec
from tests.trnchem.arguments import arguments
from tests.trnchem.conftest import reference_of
from trnsci import NumericalError

EXEMPT.update({"trnchem.plan": "a prediction, not a result"})
CHANCES = {"kernels": "maybe", "simulated": 0.2, "differentiable": False, "compiles": False, "arrays": False}
ATOMS = {"h2": "H 0 0 0; H 0 0 {}", "hf": "H 0 0 0; F 0 0 {}", "n2": "N 0 0 0; N 0 0 {}"}


@functools.lru_cache(maxsize=64)
def field(name: str, length: float, basis: str, kind: str = "RHF"):
    """A mean field with fitted integrals, and PySCF's energy of it; open shells are cations."""
    from pyscf import gto, mp, scf

    spin = int(kind != "RHF")
    molecule = gto.M(atom=ATOMS[name].format(length), basis=basis, charge=spin, spin=spin, verbose=0)
    made = getattr(scf, kind)(molecule).density_fit()
    made.chkfile = None
    made.run()
    return (made, float(mp.MP2(made).kernel(with_t2=False)[0])) if made.converged else (None, 0.0)


@functools.lru_cache(maxsize=64)
def peer(*molecule, frozen: int | None = None, fit: str | None = None) -> tuple[float, float]:
    """PySCF's energy with orbitals left out, in an auxiliary basis, and its part of opposite spins."""
    from pyscf import df, mp

    other = mp.MP2(field(*molecule)[0], frozen=frozen)
    if fit is not None:
        other.with_df = df.DF(other.mol, auxbasis=fit)
    other.run()
    return float(other.e_corr), float(other.e_corr_os)


@spec(
    "trnchem.dfmp2",
    promise="`1e-9` Ha in fp64; `2**-24 (64 + g)` of the energy in fp32; `2**-7` more in fast",
    when="closed and open shells",
)
def energy(draw: Draw) -> Trial:
    name, basis = draw.among(*ATOMS), draw.among("sto-3g", "6-31g", "cc-pvdz")
    kind = draw.among("RHF", "UHF", "ROHF")
    molecule = (name, draw.among(0.7, 0.9, 1.3, 1.7), basis, kind)
    mean, exact = field(*molecule)
    precision, reuse = draw.among(None, "fp64", "fp32", "compensated", "fast"), draw.chance(0.6)
    options = {"precision": precision, "reuse": reuse, "resident": draw.chance(0.5), "pairs": draw.chance(0.3)}
    options |= draw.among({}, {}, {"memory": "300 MB"}, {"screening": 1e-14}, {"frozen": 1 if name != "h2" else 0})
    ways = [{}] * 4 + [{"target_error": draw.among(1e-3, 1e-6)}]
    ways += [{"method": "laplace", "quadrature_error": draw.among(None, 1e-6)}] if precision in (None, "fp64") else []
    sampled = {"method": "stochastic", "samples": draw.among(32, 64), "seed": draw.among(0, 3)}
    ways += [{**sampled, "same_spin": draw.chance(0.5)}]
    options |= draw.among(*ways)
    seen: list = []
    options |= draw.among({}, {"progress": seen.append})
    options |= draw.among({}, {}, {"auxbasis": "weigend"}, {"auxbasis": "cc-pvdz-ri"}, {"stability": "internal"})
    folder = draw.among(None, None, "scratch", "checkpoint")
    if "method" in options:
        options["pairs"] = False
    if "target_error" in options:
        options["precision"] = None
    draw.log.append(f"{molecule} {options}")

    def run():
        if mean is None:
            return None
        with tempfile.TemporaryDirectory() as where:
            there = {"scratch": where, "checkpoint": str(Path(where) / "pairs")}
            given = options | ({} if folder is None else {folder: there[folder]})
            try:
                made = trnchem.dfmp2(mean, **arguments(**given))
            except NumericalError:
                if "stability" in given and not mean.stability(return_status=True)[2]:
                    return None
                raise
            if folder == "checkpoint":
                # what is finished is read, and has the same bits
                assert trnchem.dfmp2(mean, **arguments(**given)).e_corr == made.e_corr, (
                    "a finished checkpoint gives other bits"
                )
            return made

    def check(result, kernel):
        if result is None:
            return
        total, opposite = peer(*molecule, frozen=options.get("frozen"), fit=options.get("auxbasis"))
        assert "progress" not in options or seen or opposite == 0, "no progress was told"
        if "target_error" in options:
            assert abs(result.e_corr - total) <= options["target_error"], (result.e_corr, total, result.error)
            return
        if "method" in options:
            # five decades of roundings, the quadrature that was asked for, and ten standard errors of what is sampled
            limit = 1e-9 + (options.get("quadrature_error") or 1e-7) * 10 * abs(opposite)
            limit += 10 * (result.standard_error or 0.0) + (0 if precision in (None, "fp64") else 1e-2 * abs(opposite))
            assert abs(result.e_os - opposite) <= limit, (result.e_os, opposite, limit)
            if options.get("same_spin"):
                assert abs(result.e_corr - total) <= 2 * limit + 0.01 * abs(total), (result.e_corr, total, limit)
            return
        assert abs(total - exact) <= 1e-9 or options.get("frozen") or options.get("auxbasis")
        growth = result.metric.growth if result.metric is not None else 0.0
        relative = {"fast": 2.0**-7 + 2.0**-24 * (64 + growth)}.get(precision, 2.0**-24 * (64 + growth))
        limit = 1e-9 if precision in (None, "fp64") else relative * abs(total) + 1e-9
        assert abs(result.e_corr - total) <= limit, (result.e_corr, total, limit)

    return Trial(run, (), check=check, view=lambda r: r if r is None else np.array(r.e_corr), **CHANCES)


@spec("trnchem.DFMP2", promise="`1e-9` Ha of PySCF's object: energies, their parts, unrelaxed densities")
def as_object(draw: Draw) -> Trial:
    from pyscf import mp

    name, basis, kind = draw.among(*ATOMS), draw.among("sto-3g", "6-31g"), draw.among("RHF", "UHF")
    mean, _ = field(name, draw.among(0.7, 0.9, 1.3), basis, kind)
    frozen = draw.among(None, None, 0, 1) if name != "h2" else None
    draw.log.append(f"{name} {basis} {kind} {frozen}")

    def run():
        return None if mean is None else trnchem.DFMP2(mean, frozen=frozen).run()

    def check(result, kernel):
        if result is None:
            return
        peer = mp.MP2(mean, frozen=frozen).run()
        assert abs(result.e_corr - peer.e_corr) <= 1e-9, (result.e_corr, peer.e_corr)
        assert abs(result.e_tot - peer.e_tot) <= 1e-9
        assert abs(result.e_corr_ss + result.e_corr_os - result.e_corr) <= 1e-12 + 1e-9 * abs(result.e_corr)
        ours, theirs = (np.asarray(x.make_rdm1()) for x in (result, peer))
        assert np.abs(ours - theirs).max() <= 1e-8, float(np.abs(ours - theirs).max())

    return Trial(run, (), check=check, repeats=False, **{**CHANCES, "kernels": False})


@spec("trnchem.rpa", promise="`2e-9` of PySCF's energy: `1e-9` of either quadrature")
def rpa(draw: Draw) -> Trial:
    from pyscf.gw import rpa, urpa

    name, basis, kind = draw.among(*ATOMS), draw.among("sto-3g", "6-31g"), draw.among("RHF", "UHF")
    mean, _ = field(name, draw.among(0.7, 0.9, 1.3), basis, kind)
    draw.log.append(f"{name} {basis} {kind}")

    def run():
        return None if mean is None else trnchem.rpa(mean)

    def check(result, kernel):
        if result is not None:
            peer = (urpa.URPA if kind == "UHF" else rpa.RPA)(mean)
            peer.verbose = 0
            peer.kernel(nw=100)
            assert abs(result.e_corr - peer.e_corr) <= 2e-9 * max(1.0, abs(peer.e_corr)), (result.e_corr, peer.e_corr)

    return Trial(run, (), check=check, repeats=False, **{**CHANCES, "kernels": False})


@spec("trnchem.density_fit", promise="`1e-9` relative to the largest element of PySCF's matrices")
def matrices(draw: Draw) -> Trial:
    name, basis = draw.among(*ATOMS), draw.among("sto-3g", "6-31g")
    mean, _ = field(name, draw.among(0.7, 1.3), basis)
    nao = mean.mol.nao_nr()
    density = draw.rng.normal(size=(draw.among(1, 2, 3), nao, nao))
    draw.log.append(f"{name} {basis} {density.shape}")

    def run():
        return np.stack(trnchem.density_fit(mean).with_df.get_jk(density, hermi=0))

    def check(result, kernel):
        expected = np.stack(mean.with_df.get_jk(density, hermi=0))
        assert np.abs(result - expected).max() <= 1e-9 * np.abs(expected).max()

    return Trial(run, (), check=check, **{**CHANCES, "kernels": False})


@spec("trnchem.extrapolate", promise="`16 u` of the energies and of what they change by")
def limit(draw: Draw) -> Trial:
    x = draw.among(2, 3, 4)
    hf, corr, a, b = (float(value) for value in draw.rng.normal(size=4))
    made = [(hf + a * (n + 1) * np.exp(-9 * np.sqrt(n)), corr + b * float(n) ** -3) for n in (x, x + 1)]

    def run():
        return trnchem.extrapolate(*((float(p), float(q)) for p, q in made), (x, x + 1))

    def check(result, kernel):
        assert abs(result.e_hf - hf) <= 16 * 2**-52 * (abs(hf) + abs(a))
        assert abs(result.e_corr - corr) <= 16 * 2**-52 * (abs(corr) + abs(b))

    return Trial(run, (), check=check, view=np.array, **{**CHANCES, "kernels": False})


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
