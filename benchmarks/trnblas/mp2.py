"""The fused MP2 energy beside torch, and its kernel beside the formulation the project started from.

``_divided`` is that formulation, as its documents describe it: every element of every pair divides by its denominator
on the Vector Engine. It is here as the baseline of the redesign and nowhere else.
"""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.registry import Bench, Case, Kernel, Peer
from trnblas import mp2_energy
from trnblas.kernels import mp2 as kernels
from trnsci.nki import jit, load, nisa, nl, store, tiles
from trnsci.testing import gaussian

_EXPONENTIALS = 45


@jit
def _divided(t_hbm, eps_i_hbm, eps_j_hbm, eps_a_hbm, eps_b_hbm):  # type: ignore[no-untyped-def]
    """Partials [P, I, J]; P divides V. Energies come spread over the partitions, those of b over the columns."""
    P, I, J, V = eps_a_hbm.shape[0], eps_i_hbm.shape[1], eps_j_hbm.shape[1], eps_b_hbm.shape[1]  # noqa: E741
    out_hbm = nl.ndarray((P, I, J), dtype=nl.float32, buffer=nl.shared_hbm)  # [P, I, J]
    eps_i, eps_j, eps_a, eps_b = load(eps_i_hbm), load(eps_j_hbm), load(eps_a_hbm), load(eps_b_hbm)
    for i in range(I):
        sums = nl.ndarray((P, J), dtype=nl.float32, buffer=nl.sbuf)  # [P, J]
        for j in range(J):
            parts = nl.ndarray((P, V // P), dtype=nl.float32, buffer=nl.sbuf)  # [P, V / P]
            pair = []
            for a in tiles(V, P):
                pair.append(load(t_hbm[i * V + a.start : i * V + a.stop, j * V : (j + 1) * V]))  # [a, b]
            for a in tiles(V, P):
                t = pair[a.index]
                turned = nl.ndarray((P, V), dtype=nl.float32, buffer=nl.psum)  # [a, b]
                for b in tiles(V, P):
                    nisa.nc_transpose(dst=turned[:, b.span], data=pair[b.index][:, a.span])
                occupied = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)  # [a, 1]
                nisa.tensor_tensor(dst=occupied, data1=eps_i[:, i : i + 1], data2=eps_j[:, j : j + 1], op=nl.add)
                nisa.tensor_tensor(dst=occupied, data1=occupied, data2=eps_a[:, a.index : a.index + 1], op=nl.subtract)
                below = nl.ndarray((P, V), dtype=nl.float32, buffer=nl.sbuf)  # [a, b]
                nisa.tensor_scalar(dst=below, data=eps_b, op0=nl.subtract, operand0=occupied, reverse0=True)
                nisa.reciprocal(dst=below, data=below)
                value = nl.ndarray((P, V), dtype=nl.float32, buffer=nl.sbuf)  # [a, b]
                nisa.scalar_tensor_tensor(
                    dst=value, data=t, op0=nl.multiply, operand0=2.0, op1=nl.subtract, operand1=turned
                )
                nisa.tensor_tensor(dst=value, data1=value, data2=t, op=nl.multiply)
                nisa.tensor_tensor(dst=value, data1=value, data2=below, op=nl.multiply)
                nisa.tensor_reduce(dst=parts[:, a.index : a.index + 1], op=nl.add, data=value, axis=1)
            nisa.tensor_reduce(dst=sums[:, j : j + 1], op=nl.add, data=parts, axis=1)
        store(out_hbm[0:P, i, 0:J], sums)
    return out_hbm


def _meta(*shapes: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(torch.empty(shape, device="meta") for shape in shapes)


def _after(i: int, o: int, v: int, *, symmetric: bool) -> Kernel:
    q = _EXPONENTIALS
    kind = "pair symmetry" if symmetric else "all pairs"
    return Kernel(
        name=f"{i} of {o} occupied, nvir {v}, {kind}",
        kernel=kernels.mp2,
        inputs=lambda: _meta((i * v, o * v), (v, q), (q, v), (q, i), (q, o)),
        options={"symmetric": symmetric, "first": 0},
        targets=("trn1",) if symmetric else ("trn1", "trn2", "trn3"),
    )


def _before(i: int, o: int, v: int, p: int) -> Kernel:
    return Kernel(
        name=f"{i} of {o} occupied, nvir {v}, before: every element divided",
        kernel=_divided,
        inputs=lambda: _meta((i * v, o * v), (p, i), (p, o), (p, v // p), (p, v)),
        targets=("trn1",),
    )


def _case(o: int, v: int) -> Case:
    def inputs() -> tuple[Any, ...]:
        occupied, virtual = torch.linspace(-20.0, -0.4, o), torch.linspace(0.1, 30.0, v)
        return gaussian((o * v, o * v), 1), occupied, occupied, virtual

    return Case(name=f"nocc {o}, nvir {v} float32", inputs=inputs, flops=8 * (o * v) ** 2, bytes=4 * (o * v) ** 2)


def _torch(t: torch.Tensor, i: torch.Tensor, j: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    t = t.unflatten(0, (len(i), len(v))).unflatten(2, (len(j), len(v))).transpose(1, 2)
    below = i.reshape(-1, 1, 1, 1) + j.reshape(-1, 1, 1) - v.unsqueeze(1) - v
    return (t * (2 * t - t.mT) / below).sum()


BENCH = Bench(
    op="trnblas.mp2",
    run=mp2_energy,
    tests="tests/trnblas/test_mp2.py",
    slower="reads the energies, to refuse a gap of zero, and waits for them",
    cases=(_case(8, 64), _case(16, 112)),
    peers=(Peer(name="torch, whole arrays", run=_torch),),
    kernels=(
        _after(64, 64, 448, symmetric=True),
        _after(4, 64, 448, symmetric=False),
        _before(4, 64, 448, 112),
    ),
    tolerance=1e-4,
    notes="The kernel this project started from was measured at 213.8 ms on trn1 for nocc 64, nvir 448. The sum of "
    "exponentials is within 1e-7 of every denominator's inverse; the number of terms does not change the time.",
)
