"""Write ``docs/trnchem/table.md``: energies of 30 molecules beside PySCF, a size series, and Laplace against pairs.

``python -m tools.chemistry_page`` writes the page from the record; ``--record`` with ``table``, ``forces``,
``simulator``, ``series`` or ``crossover`` measures or predicts that part again first. The simulator in float64 and the
series of clusters are slow, and end when their ``--budget`` is spent.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import trnblas
import trnchem
import trnsci
from trnchem.budget import MP2Plan, Sizes, make_plan, orbitals_at_once
from trnsci.errors import CapacityError, NotConverged
from trnsci.plans import seconds as in_words
from trntensor.mp2_energy import mp2_between, mp2_within

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "trnchem" / "table.md"
RECORD = ROOT / "tools" / "chemistry.json"
TARGET = 1e-6
WATERS = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20)
DZ, TZ, AUG, SVP, TZVP = "cc-pvdz", "cc-pvtz", "aug-cc-pvdz", "def2-svp", "def2-tzvp"
HEAD = (
    *("molecule", "reference, basis", "functions", "E(corr), PySCF", "fp64", "simulator, fp64", "fp32", "target"),
    *("Laplace, E(os)", "ours", "PySCF", "memory: ours", "PySCF", "predicted on trn2"),
)
# name: atoms in angstrom, basis, charge, unpaired electrons, reference
MOLECULES: dict[str, tuple[str, str, int, int, str]] = {
    "H2": ("H 0 0 0; H 0 0 .7414", TZ, 0, 0, "RHF"),
    "HF": ("F 0 0 0; H 0 0 .9168", TZ, 0, 0, "RHF"),
    "H2O": ("O 0 0 0; H 0 .757 .587; H 0 -.757 .587", AUG, 0, 0, "RHF"),
    "NH3": ("N 0 0 .1173; H 0 .9377 -.2737; H .8121 -.4689 -.2737; H -.8121 -.4689 -.2737", TZVP, 0, 0, "RHF"),
    "CH4": ("C 0 0 0; H .629 .629 .629; H -.629 -.629 .629; H -.629 .629 -.629; H .629 -.629 -.629", DZ, 0, 0, "RHF"),
    "N2": ("N 0 0 0; N 0 0 1.0977", TZ, 0, 0, "RHF"),
    "CO": ("C 0 0 0; O 0 0 1.1283", AUG, 0, 0, "RHF"),
    "F2": ("F 0 0 0; F 0 0 1.4119", TZVP, 0, 0, "RHF"),
    "HCN": ("H 0 0 -1.0640; C 0 0 0; N 0 0 1.1560", SVP, 0, 0, "RHF"),
    "C2H2": ("C 0 0 .6013; C 0 0 -.6013; H 0 0 1.6644; H 0 0 -1.6644", DZ, 0, 0, "RHF"),
    "C2H4": (
        "C 0 0 .6695; C 0 0 -.6695; H 0 .9289 1.2321; H 0 -.9289 1.2321; H 0 .9289 -1.2321; H 0 -.9289 -1.2321",
        *(SVP, 0, 0, "RHF"),
    ),
    "H2CO": ("C 0 0 0; O 0 0 1.205; H 0 .9429 -.5876; H 0 -.9429 -.5876", TZ, 0, 0, "RHF"),
    "CO2": ("C 0 0 0; O 0 0 1.162; O 0 0 -1.162", DZ, 0, 0, "RHF"),
    "H2O2": ("O 0 .734 -.0528; O 0 -.734 -.0528; H .839 .8806 .4223; H -.839 -.8806 .4223", AUG, 0, 0, "RHF"),
    "HCl": ("Cl 0 0 0; H 0 0 1.2746", TZ, 0, 0, "RHF"),
    "H2S": ("S 0 0 .1030; H 0 .9616 -.8239; H 0 -.9616 -.8239", TZVP, 0, 0, "RHF"),
    "OH-": ("O 0 0 0; H 0 0 .9640", AUG, -1, 0, "RHF"),
    "benzene": ("benzene", DZ, 0, 0, "RHF"),
    "N": ("N 0 0 0", TZ, 0, 3, "UHF"),
    "O": ("O 0 0 0", AUG, 0, 2, "UHF"),
    "OH": ("O 0 0 0; H 0 0 .9697", TZ, 0, 1, "UHF"),
    "NH": ("N 0 0 0; H 0 0 1.0362", TZVP, 0, 2, "ROHF"),
    "CH2": ("C 0 0 .1027; H 0 .9960 -.3080; H 0 -.9960 -.3080", TZ, 0, 2, "UHF"),
    "CH3": ("C 0 0 0; H 1.079 0 0; H -.5395 .93444 0; H -.5395 -.93444 0", AUG, 0, 1, "ROHF"),
    "NH2": ("N 0 0 .1425; H 0 .8036 -.4987; H 0 -.8036 -.4987", DZ, 0, 1, "UHF"),
    "O2": ("O 0 0 0; O 0 0 1.2075", TZ, 0, 2, "UHF"),
    "O2 (ROHF)": ("O 0 0 0; O 0 0 1.2075", DZ, 0, 2, "ROHF"),
    "NO": ("N 0 0 0; O 0 0 1.1508", TZVP, 0, 1, "UHF"),
    "H2O+": ("O 0 0 0; H 0 .8160 .5800; H 0 -.8160 .5800", TZ, 1, 1, "UHF"),
    "N2+": ("N 0 0 0; N 0 0 1.1164", SVP, 1, 1, "ROHF"),
}


def solved(atoms: str, basis: str, charge: int, spin: int, kind: str) -> Any:
    """A converged mean field of PySCF, density fitted."""
    from pyscf import gto, scf

    given = trnchem.GEOMETRIES.get(atoms, atoms)
    mean = getattr(scf, kind)(gto.M(atom=given, basis=basis, charge=charge, spin=spin, verbose=0)).density_fit()
    mean.chkfile, mean.conv_tol = None, 1e-10
    return mean.run()


def timed(function: Callable[[], Any], rounds: int = 10) -> tuple[Any, float]:
    """A result, and the processor seconds of the fastest of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        result = function()
        best = min(best, time.process_time() - start)
    return result, best


def peer(mean: Any) -> Any:
    """PySCF's own density-fitted MP2, without amplitudes."""
    from pyscf import mp

    solver = mp.MP2(mean)
    solver.kernel(with_t2=False)
    return solver


def measured(name: str) -> dict[str, Any]:
    """One row of the table."""
    mean = solved(*MOLECULES[name])
    grown = [_apart(run)["bytes"] for run in (lambda: trnchem.dfmp2(mean).e_corr, lambda: peer(mean).e_corr)]
    (theirs, their_time), (ours, our_time) = timed(lambda: peer(mean)), timed(lambda: trnchem.dfmp2(mean))
    within = trnchem.dfmp2(mean, options=trnchem.MP2Options(target_error=TARGET))
    n = ours.plan.sizes
    single = trnchem.dfmp2(mean, options=trnchem.MP2Options(precision="fp32"))
    return {
        "functions": n.nao,
        "e_corr": float(theirs.e_corr),
        "fp64": ours.e_corr - float(theirs.e_corr),
        "fp32": single.e_corr - float(theirs.e_corr),
        "target": within.e_corr - float(theirs.e_corr),
        "chosen": within.plan.precision,
        "seconds": our_time,
        "pyscf": their_time,
        "bytes": grown[0],
        "pyscf_bytes": grown[1],
        "laplace": trnchem.dfmp2(mean, options=trnchem.MP2Options(method="laplace")).e_os - float(theirs.e_corr_os),
        "predicted": predicted(n),
    }


def forces(name: str) -> dict[str, Any]:
    """How far forces are from central differences of PySCF's energies, dipoles from fields, and RPA from PySCF's."""
    from pyscf import scf
    from pyscf.gw import rpa, urpa

    atoms, _, charge, spin, kind = MOLECULES[name]
    mean = _tight(solved(atoms, SVP, charge, spin, kind))
    result = trnchem.dfmp2(mean)
    slope, moment = result.gradient(), result.dipole(unit="au")
    along = np.random.default_rng(52).standard_normal(slope.shape)
    along /= np.linalg.norm(along)
    where, core, position = mean.mol.atom_coords(), mean.get_hcore(), mean.mol.intor("int1e_r")[2]

    def moved(step: float) -> float:
        geometry = mean.mol.set_geom_(where + step * along, unit="Bohr", inplace=False)
        there = _tight(getattr(scf, kind)(geometry).density_fit(), mean.make_rdm1())
        return float(there.e_tot + peer(there).e_corr)

    def bent(strength: float) -> float:
        there = mean.copy()
        there.get_hcore = lambda *_: core + strength * position
        _tight(there, mean.make_rdm1())
        return float(there.e_tot + peer(there).e_corr)

    theirs = (urpa.URPA if spin else rpa.RPA)(mean)
    theirs.verbose = 0
    theirs.kernel(nw=100)
    nuclear = float(mean.mol.atom_charges() @ where[:, 2])
    return {
        "force": float(np.abs(slope).max()),
        "force_off": float((slope * along).sum()) - _slope(moved, 2e-3),
        "dipole": float(np.linalg.norm(moment)),
        "dipole_off": float(moment[2]) - (nuclear - _slope(bent, 1e-3)),
        "rpa": float(theirs.e_corr),
        "rpa_off": trnchem.rpa(mean).e_corr - float(theirs.e_corr),
    }


def _tight(mean: Any, density: Any = None) -> Any:
    """Converge a mean field far enough for differences of its energies."""
    mean.conv_tol, mean.conv_tol_grad, mean.max_cycle = 1e-11, 1e-9, 200
    mean.kernel(density)
    if not mean.converged:
        raise NotConverged("mean field", mean.max_cycle, math.nan)
    return mean


def _slope(function: Callable[[float], float], step: float) -> float:
    """The derivative at zero from four values."""
    values = [function(factor * step) for factor in (1, -1, 2, -2)]
    return (8 * (values[0] - values[1]) - (values[2] - values[3])) / (12 * step)


def simulated(name: str) -> float:
    """How far the simulator is off in float64, with integrals that PySCF fitted."""
    mean = solved(*MOLECULES[name])
    with trnsci.backend("simulator"):
        return float(trnchem.dfmp2(mean).e_corr - float(peer(mean).e_corr))


def predicted(n: Sizes) -> list[float]:
    """Seconds on one core of trn2 in float32 from fitted integrals, with the interval: transformation and pairs."""
    steps = [
        (-(-n.naux // 64), _gemm((n.nocc, n.nao), (n.nao, 64 * n.nao))),
        (-(-n.naux // 64), _gemm((64 * n.nocc, n.nao), (n.nao, n.nvir))),
    ]
    sets, vir = [len(rows) for rows in n.spins.ranges(n.nocc)], _meta(n.nvir)
    steps += [(1, _of(trnsci.plan(mp2_within, _meta(rows, n.nvir, n.naux), _meta(rows), vir))) for rows in sets if rows]
    if len(sets) == 2 and sets[1]:
        both = [_meta(rows, n.nvir, n.naux) for rows in sets]
        steps.append((1, _of(trnsci.plan(mp2_between, *both, *map(_meta, sets), vir, vir))))
    return [sum(count * part[k] for count, part in steps) for k in range(3)]


def _meta(*shape: int) -> torch.Tensor:
    return torch.empty(shape, device="meta")


def _gemm(*shapes: tuple[int, int]) -> tuple[float, float, float]:
    return _of(trnsci.plan(trnblas.gemm, 1.0, *(_meta(*shape) for shape in shapes)))


def _of(plan: Any) -> tuple[float, float, float]:
    steps = [(step.predicted("trn2"), step.interval("trn2")) for step in plan.steps]
    assert all(seconds is not None and interval is not None for seconds, interval in steps)
    return sum(s for s, _ in steps), sum(i[0] for _, i in steps), sum(i[1] for _, i in steps)


def waters(count: int) -> list[tuple[str, tuple[float, float, float]]]:
    """Molecules on a cubic lattice of 3 angstrom, all of one orientation."""
    side = next(k for k in range(1, 9) if k**3 >= count)
    places = [(3.0 * (k % side), 3.0 * (k // side % side), 3.0 * (k // side**2)) for k in range(count)]
    one = trnchem.GEOMETRIES["water"]
    return [(a, (x + p, y + q, z + r)) for p, q, r in places for a, (x, y, z) in one]


def plain(mean: Any) -> float:
    """What a user of torch would write: integrals of all pairs, one occupied orbital at a time."""
    from pyscf.mp import dfmp2

    solver = dfmp2.DFMP2(mean)
    eris = solver.ao2mo()
    e_occ, e_vir = (torch.from_numpy(np.array(e)) for e in solver.split_mo_energy()[1:3])
    B = torch.from_numpy(np.asarray(eris.ovL)).view(len(e_occ), len(e_vir), -1)
    total = 0.0
    for i in range(len(e_occ)):
        T = torch.einsum("ap,jbp->jab", B[i], B)
        D = e_occ[i] + e_occ[:, None, None] - e_vir[:, None] - e_vir
        total += float((T * (2 * T - T.mT) / D).sum())
    return total


def _apart(function: Callable[[], Any]) -> dict[str, float]:
    """Energy, processor seconds, and by how much memory grew at most, as the system counts them, in a fresh process."""

    def status(name: str) -> int:
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
        return int(line.split()[1]) * 1024

    # otherwise the collector of garbage copies the memory of the parent by touching it, and what the parent has freed
    # is used again without being counted
    gc.freeze()
    ctypes.CDLL(None).malloc_trim(0)
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        try:
            Path("/proc/self/clear_refs").write_text("5")
            before, start = status("VmRSS"), time.process_time()
            energy = float(function())
            facts = {"energy": energy, "seconds": time.process_time() - start}
            os.write(send, json.dumps({**facts, "bytes": max(0, status("VmHWM") - before)}).encode())
        finally:
            os._exit(0)
    os.close(send)
    with os.fdopen(receive) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    found: dict[str, float] = json.loads(told)
    return found


def series(rows: list[dict[str, Any]], budget: float) -> Iterator[None]:
    """Clusters of water in cc-pVDZ, nothing frozen: the next ones of the series until the time is spent."""
    from pyscf import gto, scf

    start = time.monotonic()
    # what programs load when first used is loaded here, once for all processes
    warm = solved("water", "sto-3g", 0, 0, "RHF")
    for options in ({}, {"precision": "fp32"}, {"method": "laplace", "quadrature_error": 1e-6}):
        trnchem.dfmp2(warm, options=trnchem.MP2Options(**options))  # type: ignore[arg-type]
    peer(warm), plain(warm)
    for count in WATERS[len(rows) :]:
        if time.monotonic() - start > budget:
            return
        mean = scf.RHF(gto.M(atom=waters(count), basis=DZ, verbose=0)).density_fit()
        mean.chkfile = None
        mean.run()
        row: dict[str, Any] = {"waters": count, "functions": mean.mol.nao_nr()}
        runs: dict[str, Callable[[], Any]] = {
            "pyscf": lambda mean=mean: peer(mean).e_corr,
            "torch": lambda mean=mean: plain(mean),
            "pairs": lambda mean=mean: trnchem.dfmp2(mean).e_corr,
            "fp32": lambda mean=mean: trnchem.dfmp2(mean, options=trnchem.MP2Options(precision="fp32")).e_corr,
            "laplace": lambda mean=mean: (
                trnchem.dfmp2(mean, options=trnchem.MP2Options(method="laplace", quadrature_error=1e-6)).e_os
            ),
        }
        for name, function in runs.items():
            tries = [_apart(function) for _ in range(1 if count > 6 else 3)]
            row[name] = min(tries, key=lambda each: each["seconds"])
        rows.append(row)
        print(count, {name: round(row[name]["seconds"], 3) for name in runs}, flush=True)
        yield


def crossover() -> list[dict[str, Any]]:
    """Pairs and Laplace on trn2 for water clusters in cc-pVTZ with frozen core: 58 functions and 141 auxiliary each."""
    rows, points = [], 10
    hbm = 12_900_000_000
    for count in (1, 2, 4, 9, 17, 34, 52, 69):
        n = Sizes(nao=58 * count, nocc=4 * count, nvir=53 * count, naux=141 * count, widest=9, itemsize=4)
        pair, some = _gemm((n.nvir, n.naux), (n.naux, n.nvir)), orbitals_at_once(n)
        one = _of(trnsci.plan(trnblas.syrk, 1.0, _meta(some * n.nvir, n.naux), trans=True))
        pairs = n.nocc * (n.nocc + 1) // 2
        ranks = {}
        for method in ("pairs", "laplace"):
            for size in (1, 2, 4, 8, 16, 32, 64):
                try:
                    draft = MP2Plan(method=method, precision="fp32", sizes=n, memory=hbm)  # type: ignore[arg-type]
                    plan = make_plan(draft, ranks=size, points=points)
                except CapacityError:
                    continue
                if plan.place == "host memory":
                    ranks[method] = (size, plan.peak_bytes)
                    break
        times = {"pairs": [pairs * part for part in pair], "laplace": [points * n.nocc / some * part for part in one]}
        rows.append({"waters": count, "functions": n.nao, **times, "ranks": ranks})
    return rows


def exponent(rows: list[dict[str, Any]], name: str) -> float:
    """The slope of log seconds over log functions, of the larger half of a series."""
    far = rows[len(rows) // 2 :]
    x, y = np.log([row["functions"] for row in far]), np.log([row[name]["seconds"] for row in far])
    return float(np.polyfit(x, y, 1)[0])


def page(record: dict[str, Any]) -> str:
    """The page from the record."""
    parts = (_table(record["table"]), _forces(record["forces"]), _series(record["series"]))
    return "\n".join([line for part in (*parts, _crossover(record["crossover"])) for line in part]) + "\n"


def _off(value: float | None) -> str:
    return "" if value is None else "below 1e-12" if abs(value) < 1e-12 else f"{value:.0e}"


def _table(rows: dict[str, Any]) -> list[str]:
    worst = max(abs(row["fp64"]) for row in rows.values())
    simulated = [abs(row["simulator"]) for row in rows.values() if "simulator" in row]
    lines = [
        "# Energies beside PySCF",
        "",
        "Written by `python -m tools.chemistry_page` from what it measured. Nothing is frozen; mean fields are",
        "PySCF's, density fitted; the fitted integrals are taken over. Differences are in hartree against PySCF's",
        f"density-fitted MP2 of the same mean field. *Target* asks for {TARGET:g} Ha and says what precision it took.",
        "Times are processor time of one thread on a shared machine, the fastest of ten: read them as ratios.",
        "Memory is by how much a process grew at most, as the operating system counts it. *Predicted* is one core of",
        "trn2 in float32 from fitted integrals, with the interval of the [time model](../concepts/timing.md).",
        "",
        f"Largest difference in float64: {worst:.0e} Ha on PyTorch ({len(rows)} molecules)"
        + (f", {max(simulated):.0e} Ha on the simulator ({len(simulated)})." if simulated else "."),
        "",
        "| " + " | ".join(HEAD) + " |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, row in rows.items():
        _, basis, _, _, kind = MOLECULES[name]
        low, high = (in_words(part) for part in row["predicted"][1:])
        lines.append(
            f"| {name} | {kind}, {basis} | {row['functions']} | {row['e_corr']:.9f} | {_off(row['fp64'])} |"
            f" {_off(row.get('simulator'))} | {_off(row['fp32'])} | {_off(row['target'])} ({row['chosen']}) |"
            f" {_off(row['laplace'])} | {in_words(row['seconds'])} | {in_words(row['pyscf'])} |"
            f" {row['bytes'] / 1e6:.1f} MB | {row['pyscf_bytes'] / 1e6:.1f} MB |"
            f" {in_words(row['predicted'][0])} ({low} to {high}) |"
        )
    return lines


def _forces(rows: dict[str, Any]) -> list[str]:
    worst = {name: max(abs(row[name]) for row in rows.values()) for name in ("force_off", "dipole_off", "rpa_off")}
    lines = [
        "",
        "## Forces, dipoles and RPA",
        "",
        "The same molecules but those with ROHF references, which have no forces here, and those whose mean field",
        "does not converge to 1e-9 in its gradient; def2-SVP, fitted references, nothing frozen. Forces are compared",
        "with the central difference of PySCF's DF-MP2 energies along one random direction (four energies, 2e-3 bohr),",
        "the dipole along z with that of energies in a field (four, 1e-3 a.u.), RPA with `pyscf.gw.rpa` and 100",
        "frequencies.",
        "",
        f"Largest differences: forces {worst['force_off']:.0e} Ha/bohr, dipoles {worst['dipole_off']:.0e} a.u.,"
        f" RPA {worst['rpa_off']:.0e} Ha ({len(rows)} molecules).",
        "",
        "| molecule | largest force, Ha/bohr | off | dipole, a.u. | off | E(RPA), PySCF | off |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    return lines + [
        f"| {name} | {row['force']:.6f} | {_off(row['force_off'])} | {row['dipole']:.6f} | {_off(row['dipole_off'])} |"
        f" {row['rpa']:.9f} | {_off(row['rpa_off'])} |"
        for name, row in rows.items()
    ]


def _series(rows: list[dict[str, Any]]) -> list[str]:
    names, last = ("pyscf", "torch", "pairs", "fp32", "laplace"), rows[-1]["waters"]
    lines = [
        "",
        "## Clusters of water",
        "",
        "On a lattice of 3 Å, cc-pVDZ, from fitted integrals to the energy: processor time of one thread, one program",
        "after the other, each in a fresh process. *torch* is a loop over occupied orbitals with `torch.einsum`.",
        "*Laplace* is the opposite-spin energy alone, quadrature to 1e-6. Memory is by how much the process grew at",
        "most, as the operating system counts it. The machine had other work, which costs the large ones some cache.",
    ]
    if last < WATERS[-1]:
        lines.append(
            f"Measured up to {last} molecules, where the time given to it was spent; beyond, by the exponents."
        )
    lines += [
        "",
        "| molecules | functions | PySCF | torch | fp64 | fp32 | Laplace |"
        " memory: PySCF | torch | fp64 | fp32 | Laplace |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        times = " | ".join(in_words(row[name]["seconds"]) for name in names)
        memory = " | ".join(f"{row[name]['bytes'] / 1e6:.0f} MB" for name in names)
        lines.append(f"| {row['waters']} | {row['functions']} | {times} | {memory} |")
    slopes = {name: exponent(rows, name) for name in names}
    for count in WATERS[len(rows) :]:
        grown = [in_words(rows[-1][name]["seconds"] * (count / last) ** slopes[name]) for name in names]
        lines.append(f"| {count}, predicted | {24 * count} | {' | '.join(grown)} | | | | | |")
    lines += [
        f"| exponent of the larger half | | {' | '.join(f'{slopes[name]:.1f}' for name in names)} | | | | | |",
        "",
    ]
    worst = max(abs(row[name]["energy"] - row["pyscf"]["energy"]) for row in rows for name in ("pairs", "torch"))
    faster = [row["functions"] for row in rows if row["laplace"]["seconds"] < row["pairs"]["seconds"]]
    where = (
        f"Laplace is faster than pairs in float64 from {faster[0]} functions on" if faster else "Laplace is not faster"
    )
    end = {name: rows[-1][name]["seconds"] for name in names}
    return [
        *lines,
        f"Energies of all in float64 agree to {worst:.0e} Ha. {where}; at {last} molecules pairs take",
        f"{end['pairs'] / end['laplace']:.2f} times its time, and PySCF {end['pyscf'] / end['pairs']:.2f} times that of"
        " pairs.",
    ]


def _crossover(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "",
        "## Laplace against pairs on trn2, predicted",
        "",
        "Clusters of water in cc-pVTZ with cc-pVTZ-RI and frozen core, float32, ten exponents (quadrature to 1e-6).",
        "Times are the products of one core alone, pair by pair, with intervals; *ranks* is the smallest power of two",
        "whose cores hold their share of B in 12.9 GB of memory, with what each needs.",
        "",
        "| molecules | functions | pairs | Laplace | pairs ÷ Laplace | ranks, pairs | ranks, Laplace |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        times = [f"{in_words(t[0])} ({in_words(t[1])} to {in_words(t[2])})" for t in (row["pairs"], row["laplace"])]
        held = [
            f"{row['ranks'][m][0]} × {row['ranks'][m][1] / 1e9:.1f} GB" if m in row["ranks"] else "more than 64"
            for m in ("pairs", "laplace")
        ]
        ratio = row["pairs"][0] / row["laplace"][0]
        lines.append(
            f"| {row['waters']} | {row['functions']} | {times[0]} | {times[1]} | {ratio:.2f} | {held[0]} | {held[1]} |"
        )
    first = next((row for row in rows if row["pairs"][0] > row["laplace"][0]), None)
    where = f"at {first['functions']} functions" if first else "beyond 4000 functions"
    return [*lines, "", f"Laplace is predicted to be faster {where} of this table and above."]


def main() -> None:
    """Measure what is asked for and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--record", nargs="*", default=[], choices=("table", "forces", "simulator", "series", "crossover")
    )
    parser.add_argument("--budget", type=float, default=120.0, help="seconds for the series, and for the simulator")
    args = parser.parse_args()
    torch.set_num_threads(1)
    record: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if "table" in args.record:
        trnchem.dfmp2(solved("water", "sto-3g", 0, 0, "RHF"))
        for name in MOLECULES:
            record["table"][name] = record["table"].get(name, {}) | measured(name)
            print(name, record["table"][name]["fp64"], flush=True)
    for name in (each for each in MOLECULES if "forces" in args.record and MOLECULES[each][4] != "ROHF"):
        try:
            row = forces(name)
        except NotConverged as error:
            print(name, error, flush=True)
            continue
        record.setdefault("forces", {})[name] = row
        print(name, row["force_off"], row["dipole_off"], row["rpa_off"], flush=True)
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    if "simulator" in args.record:
        start = time.monotonic()
        for name, row in sorted(record["table"].items(), key=lambda each: each[1]["functions"]):
            if "simulator" not in row and time.monotonic() - start < args.budget:
                row["simulator"] = simulated(name)
                print(name, row["simulator"], round(time.monotonic() - start, 1), flush=True)
    if "series" in args.record:
        # a series that has ended is measured again, one that has not goes on
        if len(record.get("series", ())) == len(WATERS):
            record["series"] = []
        for _ in series(record.setdefault("series", []), args.budget):
            RECORD.write_text(json.dumps(record, indent=1) + "\n")
    if "crossover" in args.record:
        record["crossover"] = crossover()
    if args.record:
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.write_text(page(record))


if __name__ == "__main__":
    main()
