"""The energy step alone: pair energies from B, beside PySCF's, which has its integrals too."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.registry import Bench, Case, Peer
from benchmarks.trnchem._common import field
from trnchem.pairs import PairState, run_pairs


class Rows:
    """B in host memory."""

    def __init__(self, B: torch.Tensor) -> None:
        self._B = B

    def rows(self, first: int, last: int) -> torch.Tensor:
        """Return a view."""
        return self._B[first:last]


def _inputs(name: str, basis: str, dtype: torch.dtype) -> tuple[Any, ...]:
    from pyscf.mp import dfmp2

    solver = dfmp2.DFMP2(field(name, basis))
    integrals = solver.ao2mo()
    occ, vir = (torch.tensor(e, dtype=dtype) for e in solver.split_mo_energy()[1:3])
    B = torch.tensor(integrals.ovL, dtype=dtype).view(len(occ), len(vir), -1)
    return solver, integrals, B, occ, vir


def _run(solver: Any, integrals: Any, B: torch.Tensor, occ: torch.Tensor, vir: torch.Tensor) -> float:
    state = PairState.empty(len(occ))
    run_pairs(
        Rows(B),  # type: ignore[arg-type]
        (occ, vir[None]),
        state,
        rows=len(occ),
        width=1,
        precision="fp64" if B.dtype == torch.float64 else "fp32",
        finished=lambda *pair: None,
    )
    return sum(state.totals())


def _pyscf(with_t2: bool) -> Any:
    def run(solver: Any, integrals: Any, *arrays: torch.Tensor) -> float:
        from pyscf.mp import dfmp2

        return float(dfmp2.kernel(solver, eris=integrals, with_t2=with_t2)[0])

    return run


def _case(dtype: torch.dtype) -> Case:
    return Case(
        name=f"benzene cc-pvtz {str(dtype).removeprefix('torch.')}",
        inputs=lambda: _inputs("benzene", "cc-pvtz", dtype),
        flops=21 * 22 * 243**2 * 654,
        bytes=21 * 243 * 654 * dtype.itemsize,
    )


BENCH = Bench(
    op="trnchem.pairs",
    run=_run,
    tests="tests/trnchem/test_dfmp2.py",
    cases=(_case(torch.float64), _case(torch.float32)),
    peers=(
        Peer(name="PySCF, as it runs by default", requires="pyscf", devices=("cpu",), run=_pyscf(True)),
        Peer(name="PySCF without amplitudes", requires="pyscf", devices=("cpu",), run=_pyscf(False)),
    ),
    tolerance=2e-6,
    notes="PySCF always computes in float64; both compute every pair once.",
    devices=("cpu",),
)
