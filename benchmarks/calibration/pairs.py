"""The MP2 energy as the project's first kernel had it: every element divided, the exchanged block loaded transposed."""

from __future__ import annotations

from trnsci.nki import jit, load, nisa, nl, store, tiles


@jit
def divided(t_hbm, eps_i_hbm, eps_j_hbm, eps_a_hbm, eps_b_hbm):  # type: ignore[no-untyped-def]
    """Partials [P, I, J]; P divides V. Energies come spread over the partitions, those of b over the columns."""
    P, I, J, V = eps_a_hbm.shape[0], eps_i_hbm.shape[1], eps_j_hbm.shape[1], eps_b_hbm.shape[1]  # noqa: E741
    out_hbm = nl.ndarray((P, I, J), dtype=nl.float32, buffer=nl.shared_hbm)  # [P, I, J]
    eps_i, eps_j, eps_a, eps_b = (
        load(eps_i_hbm, "compiler"),
        load(eps_j_hbm, "compiler"),
        load(eps_a_hbm, "compiler"),
        load(eps_b_hbm, "compiler"),
    )
    for i in range(I):
        sums = nl.ndarray((P, J), dtype=nl.float32, buffer=nl.sbuf)  # [P, J]
        for j in range(J):
            parts = nl.ndarray((P, V // P), dtype=nl.float32, buffer=nl.sbuf)  # [P, V / P]
            for a in tiles(V, P):
                t = load(t_hbm[i * V + a.start : i * V + a.stop, j * V : (j + 1) * V], "compiler")  # [a, b]
                swapped = nl.load_transpose2d(t_hbm[i * V : (i + 1) * V, j * V + a.start : j * V + a.stop])  # [a, b]
                occupied = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)  # [a, 1]
                nisa.tensor_tensor(dst=occupied, data1=eps_i[:, i : i + 1], data2=eps_j[:, j : j + 1], op=nl.add)
                nisa.tensor_tensor(dst=occupied, data1=occupied, data2=eps_a[:, a.index : a.index + 1], op=nl.subtract)
                below = nl.ndarray((P, V), dtype=nl.float32, buffer=nl.sbuf)  # [a, b]
                nisa.tensor_scalar(
                    dst=below, data=eps_b, op0=nl.subtract, operand0=occupied, reverse0=True, engine=nisa.engine.vector
                )
                nisa.reciprocal(dst=below, data=below)
                value = nl.ndarray((P, V), dtype=nl.float32, buffer=nl.sbuf)  # [a, b]
                nisa.tensor_scalar(dst=value, data=t, op0=nl.multiply, operand0=2.0, engine=nisa.engine.vector)
                nisa.tensor_tensor(dst=value, data1=value, data2=swapped, op=nl.subtract)
                nisa.tensor_tensor(dst=value, data1=value, data2=t, op=nl.multiply)
                nisa.tensor_tensor(dst=value, data1=value, data2=below, op=nl.multiply)
                nisa.tensor_reduce(dst=parts[:, a.index : a.index + 1], op=nl.add, data=value, axis=1)
            nisa.tensor_reduce(dst=sums[:, j : j + 1], op=nl.add, data=parts, axis=1)
        store(out_hbm[0:P, i, 0:J], sums, "compiler")
    return out_hbm
