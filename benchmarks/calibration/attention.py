"""softmax(q.T @ k) @ v.T with q, k, v [d, S], fused and through HBM.

As compiled for the published profiles: row tiles are taken in groups whose maxima, sums and reciprocals are one
instruction each, maxima and exponentials read scores where the product left them, four transposes share a PSUM bank and
one copy, and copies alternate between the Scalar and the Vector Engine.
"""

from trnsci.nki import M_TILE, N_TILE, P_MAX, jit, load, nisa, nl, store, tiles

_COPIERS = (nisa.engine.scalar, nisa.engine.vector)


def _transposes(x_sb, columns, identity_sb, dst_sb):
    """Transpose [P, columns] into dst [P, columns/P, P], four blocks to a bank."""
    for bank in tiles(columns, N_TILE):
        blocks = tiles(bank.size, P_MAX)
        t_ps = nl.ndarray((P_MAX, len(blocks), P_MAX), dtype=x_sb.dtype, buffer=nl.psum)  # [P, 4, P]
        for b in blocks:
            nisa.nc_matmul(
                dst=t_ps[:, b.index, :],
                stationary=x_sb[:, bank.start + b.start : bank.start + b.stop],
                moving=identity_sb,
                is_transpose=True,
            )
        first = bank.start // P_MAX
        nisa.tensor_copy(dst=dst_sb[:, first : first + len(blocks), :], src=t_ps, engine=_COPIERS[bank.index % 2])


def _values(v_sb, S, identity_sb):
    """v.T in fp32: [P, S/P, d]."""
    vT_sb = nl.ndarray((P_MAX, S // P_MAX, P_MAX), dtype=nl.float32, buffer=nl.sbuf)  # [P, S/P, d]
    _transposes(v_sb, S, identity_sb, vT_sb)
    return vT_sb


def _identity(dtype):
    return nl.shared_identity_matrix(P_MAX, dtype=dtype)


def _softmax(group, chunks, scores):
    """exp(scores - row maximum) of a group of row tiles, and 1 / row sums: a list of [P, S] and one [P, group]."""
    maxima_sb = nl.ndarray((P_MAX, len(group), len(chunks)), dtype=nl.float32, buffer=nl.sbuf)  # [P, group, chunks]
    sums_sb = nl.ndarray((P_MAX, len(group), len(chunks)), dtype=nl.float32, buffer=nl.sbuf)  # [P, group, chunks]
    least_sb = nl.ndarray((P_MAX, len(group)), dtype=nl.float32, buffer=nl.sbuf)  # [P, group]
    total_sb = nl.ndarray((P_MAX, len(group)), dtype=nl.float32, buffer=nl.sbuf)  # [P, group]
    inverse_sb = nl.ndarray((P_MAX, len(group)), dtype=nl.float32, buffer=nl.sbuf)  # [P, group]
    for g in range(len(group)):
        for j in chunks:
            nisa.tensor_reduce(
                dst=maxima_sb[:, g, j.index : j.index + 1], op=nl.maximum, data=scores[g][j.index], axis=1
            )
    nisa.tensor_reduce(dst=least_sb, op=nl.maximum, data=maxima_sb, axis=2, negate=True)
    exps = []
    for g in range(len(group)):
        exp_sb = nl.ndarray(
            (P_MAX, len(chunks), chunks[0].size), dtype=nl.float32, buffer=nl.sbuf
        )  # [P, chunks, S/chunks]
        for j in chunks:
            nisa.activation(
                dst=exp_sb[:, j.index, :], op=nl.exp, data=scores[g][j.index], bias=least_sb[:, g : g + 1], scale=1.0
            )
            nisa.tensor_reduce(dst=sums_sb[:, g, j.index : j.index + 1], op=nl.add, data=exp_sb[:, j.index, :], axis=1)
        exps.append(exp_sb.reshape((P_MAX, len(chunks) * chunks[0].size)))
    nisa.tensor_reduce(dst=total_sb, op=nl.add, data=sums_sb, axis=2)
    nisa.reciprocal(dst=inverse_sb, data=total_sb)
    return exps, inverse_sb


def _weighted(weightsT_sb, vT_sb, S, d):
    """weights.T @ v.T in PSUM: [P, d]."""
    out_ps = nl.ndarray((P_MAX, d), dtype=nl.float32, buffer=nl.psum)  # [i, d]
    for j in tiles(S, P_MAX):
        nisa.nc_matmul(
            dst=out_ps, stationary=weightsT_sb[:, j.index, :], moving=vT_sb[:, j.index, :], accumulate=j.index > 0
        )
    return out_ps


def _rows_of(out_hbm, first, count, d):
    """Rows of ``count`` tiles as [P, count, d]."""
    rows = out_hbm[first * P_MAX : (first + count) * P_MAX, :]
    return rows.reshape((count, P_MAX, d)).permute((1, 0, 2))


@jit
def fused(q_hbm, k_hbm, v_hbm, group_tiles=4):
    """Scores never leave the chip; rows are normalised after the second product."""
    d, S = q_hbm.shape
    out_hbm = nl.ndarray((S, d), dtype=q_hbm.dtype, buffer=nl.shared_hbm)  # [S, d]
    q_sb = load(q_hbm, "compiler")  # [d, S]
    k_sb = load(k_hbm, "compiler")  # [d, S]
    v_sb = load(v_hbm, "compiler")  # [d, S]
    identity_sb = _identity(nl.float32)
    vT_sb = _values(v_sb, S, identity_sb if v_hbm.dtype == nl.float32 else _identity(v_hbm.dtype))  # [P, S/P, d]
    chunks = tiles(S, N_TILE)
    rows = tiles(S, M_TILE)
    for first in range(0, len(rows), group_tiles):
        group = rows[first : first + group_tiles]
        scores = []
        for i in group:
            parts = []
            for j in chunks:
                part_ps = nl.ndarray((P_MAX, j.size), dtype=nl.float32, buffer=nl.psum)  # [i, j]
                nisa.nc_matmul(dst=part_ps, stationary=q_sb[:, i.span], moving=k_sb[:, j.span])
                # PSUM holds one chunk of every row tile in the group; the others wait in SBUF
                if j.index > 0:
                    part_sb = nl.ndarray((P_MAX, j.size), dtype=nl.float32, buffer=nl.sbuf)  # [i, j]
                    nisa.tensor_copy(dst=part_sb, src=part_ps, engine=_COPIERS[(i.index + j.index) % 2])
                    parts.append(part_sb)
                else:
                    parts.append(part_ps)
            scores.append(parts)
        exps, inverse_sb = _softmax(group, chunks, scores)
        out_sb = nl.ndarray((P_MAX, len(group), d), dtype=q_hbm.dtype, buffer=nl.sbuf)  # [P, group, d]
        for g in range(len(group)):
            weightsT_sb = nl.ndarray((P_MAX, S // P_MAX, P_MAX), dtype=nl.float32, buffer=nl.sbuf)  # [P, S/P, i]
            _transposes(exps[g], S, identity_sb, weightsT_sb)
            out_ps = _weighted(weightsT_sb, vT_sb, S, d)  # [i, d]
            nisa.tensor_scalar(dst=out_sb[:, g, :], data=out_ps, op0=nl.multiply, operand0=inverse_sb[:, g : g + 1])
        nisa.dma_copy(dst=_rows_of(out_hbm, first, len(group), d), src=out_sb)
    return out_hbm


@jit
def through_hbm(q_hbm, k_hbm, v_hbm):
    """Scores and weights go to HBM and back between the three phases, half a mebibyte or more at a time."""
    d, S = q_hbm.shape
    tiles_per_dma = max(1, 2 * N_TILE // S)
    out_hbm = nl.ndarray((S, d), dtype=q_hbm.dtype, buffer=nl.shared_hbm)  # [S, d]
    scores_hbm = nl.ndarray((P_MAX, S // M_TILE, S), dtype=nl.float32, buffer=nl.private_hbm)  # [P, S/P, S]
    q_sb = load(q_hbm, "compiler")  # [d, S]
    k_sb = load(k_hbm, "compiler")  # [d, S]
    v_sb = load(v_hbm, "compiler")  # [d, S]
    rows = tiles(S, M_TILE)
    chunks = tiles(S, N_TILE)
    for first in range(0, len(rows), tiles_per_dma):
        scores_sb = nl.ndarray((P_MAX, tiles_per_dma, S), dtype=nl.float32, buffer=nl.sbuf)  # [P, tiles, S]
        for i in rows[first : first + tiles_per_dma]:
            for j in chunks:
                part_ps = nl.ndarray((P_MAX, j.size), dtype=nl.float32, buffer=nl.psum)  # [i, j]
                nisa.nc_matmul(dst=part_ps, stationary=q_sb[:, i.span], moving=k_sb[:, j.span])
                nisa.tensor_copy(
                    dst=scores_sb[:, i.index - first, j.span], src=part_ps, engine=_COPIERS[(i.index + j.index) % 2]
                )
        store(scores_hbm[:, first : first + tiles_per_dma, :], scores_sb, "compiler")
    scores = []
    for first in range(0, len(rows), tiles_per_dma):
        scores_sb = load(scores_hbm[:, first : first + tiles_per_dma, :], "compiler")  # [P, tiles, S]
        for t in range(tiles_per_dma):
            parts = []
            for j in chunks:
                parts.append(scores_sb[:, t, j.span])
            scores.append(parts)
    exps, inverse_sb = _softmax(rows, chunks, scores)
    for first in range(0, len(rows), tiles_per_dma):
        weights_sb = nl.ndarray((P_MAX, tiles_per_dma, S), dtype=nl.float32, buffer=nl.sbuf)  # [P, tiles, S]
        for i in rows[first : first + tiles_per_dma]:
            for j in chunks:
                nisa.tensor_scalar(
                    dst=weights_sb[:, i.index - first, j.span],
                    data=exps[i.index][:, j.span],
                    op0=nl.multiply,
                    operand0=inverse_sb[:, i.index : i.index + 1],
                )
        store(scores_hbm[:, first : first + tiles_per_dma, :], weights_sb, "compiler")
    identity_sb = _identity(nl.float32)
    vT_sb = _values(v_sb, S, identity_sb if v_hbm.dtype == nl.float32 else _identity(v_hbm.dtype))  # [P, S/P, d]
    out_sb = nl.ndarray((P_MAX, len(rows), d), dtype=q_hbm.dtype, buffer=nl.sbuf)  # [P, S/P, d]
    for first in range(0, len(rows), tiles_per_dma):
        weights_sb = load(scores_hbm[:, first : first + tiles_per_dma, :], "compiler")  # [P, tiles, S]
        for i in rows[first : first + tiles_per_dma]:
            weightsT_sb = nl.ndarray((P_MAX, S // P_MAX, P_MAX), dtype=nl.float32, buffer=nl.sbuf)  # [P, S/P, i]
            _transposes(weights_sb[:, i.index - first, :], S, identity_sb, weightsT_sb)
            out_ps = _weighted(weightsT_sb, vT_sb, S, d)  # [i, d]
            nisa.tensor_copy(dst=out_sb[:, i.index, :], src=out_ps, engine=_COPIERS[i.index % 2])
    for first in range(0, len(rows), 4):
        nisa.dma_copy(dst=_rows_of(out_hbm, first, 4, d), src=out_sb[:, first : first + 4, :])
    return out_hbm
