"""``trnchem.dfmp2`` beside PySCF's DF-MP2, from a converged mean field to the energy."""

from __future__ import annotations

from typing import Any

from benchmarks.registry import Bench, Case, Peer
from benchmarks.trnchem._common import field
from trnchem import MP2Options, dfmp2
from trnsci.precision import Precision


def _run(mean_field: Any, precision: Precision) -> float:
    return dfmp2(mean_field, options=MP2Options(precision=precision)).e_corr


def _case(name: str, basis: str, sizes: tuple[int, int, int], precision: Precision) -> Case:
    nocc, nvir, naux = sizes
    return Case(
        name=f"{name} {basis} {precision}",
        inputs=lambda: (field(name, basis), precision),
        flops=nocc * (nocc + 1) * nvir**2 * naux,
        bytes=nocc * nvir * naux * (8 if precision == "fp64" else 4),
    )


def _default(mean_field: Any, precision: Precision) -> float:
    return float(mean_field.MP2().kernel()[0])


def _energy_only(mean_field: Any, precision: Precision) -> float:
    return float(mean_field.MP2().kernel(with_t2=False)[0])


BENZENE = (21, 243, 654)

BENCH = Bench(
    op="trnchem.dfmp2",
    run=_run,
    tests="tests/trnchem/test_dfmp2.py",
    cases=(
        _case("benzene", "cc-pvtz", BENZENE, "fp64"),
        _case("benzene", "cc-pvtz", BENZENE, "fp32"),
        _case("water", "cc-pvdz", (5, 19, 116), "fp64"),
    ),
    peers=(
        Peer(name="PySCF mf.MP2().kernel()", requires="pyscf", devices=("cpu",), run=_default),
        Peer(name="PySCF without amplitudes", requires="pyscf", devices=("cpu",), run=_energy_only),
    ),
    tolerance=2e-6,
    notes="Both start from the fitted integrals of the mean field. PySCF keeps its amplitudes by default and always"
    " computes in float64. For water, a call is mostly overhead on both sides, and ours plans its memory first.",
    devices=("cpu",),
)
