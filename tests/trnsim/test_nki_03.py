"""Kernels of NKI 0.3, whose front end moved data across partitions by itself."""

import numpy as np
import pytest

import trnsim
import trnsim.isa as nisa
import trnsim.language as nl
from trnsim.errors import WrongShape

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::trnsim.ZerosAccumulated")


def mp2_energy_kernel(B, eps_occ, eps_vir):
    NOCC, NVIR, NAUX = B.shape
    partial = nl.ndarray((NOCC, NOCC), dtype=nl.float32, buffer=nl.shared_hbm)
    ev = nl.load(eps_vir[0:NVIR, 0:1])
    for i in nl.affine_range(NOCC):
        Bi_t = nl.load_transpose2d(B[i, 0:NVIR, 0:NAUX])
        eo_i = nl.load(eps_occ[i : i + 1, 0:1])
        for j in nl.affine_range(NOCC):
            Bj_t = nl.load_transpose2d(B[j, 0:NVIR, 0:NAUX])
            eo_sum = nl.add(eo_i, nl.load(eps_occ[j : j + 1, 0:1]))
            # Two nc_matmul in PSUM: T = Bi @ Bj.T and T^T = Bj @ Bi.T
            psum_T = nl.zeros((NVIR, NVIR), dtype=nl.float32, buffer=nl.psum)
            psum_Tt = nl.zeros((NVIR, NVIR), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=psum_T, stationary=Bi_t, moving=Bj_t, accumulate=True)
            nisa.nc_matmul(dst=psum_Tt, stationary=Bj_t, moving=Bi_t, accumulate=True)
            t = nl.ndarray((NVIR, NVIR), dtype=B.dtype, buffer=nl.sbuf)
            t_T = nl.ndarray((NVIR, NVIR), dtype=B.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(src=psum_T, dst=t)
            nisa.tensor_copy(src=psum_Tt, dst=t_T)
            denom = nl.subtract(nl.subtract(eo_sum, ev), ev.reshape((1, NVIR)))
            # term = T * (2T - T^T) / Δ (divide-as-reciprocal for 0.3.0)
            term = nl.multiply(
                nl.multiply(t, nl.subtract(nl.multiply(t, 2.0), t_T)),
                nl.reciprocal(denom),
            )
            # Scalar accumulator — avoids 0-D SBUF allocation
            acc = nl.zeros((1, 1), dtype=nl.float32, buffer=nl.sbuf)
            acc[...] = nl.add(acc, nl.sum(term, axis=(0, 1)))
            nl.store(partial[i : i + 1, j : j + 1], value=acc)
    return partial


def _pairs(B, eps_occ, eps_vir):
    T = np.einsum("iap,jbp->ijab", B, B, dtype=np.float64)
    o, v = eps_occ[:, 0], eps_vir[:, 0]
    denominator = o[:, None, None, None] + o[:, None, None] - v[:, None] - v
    return (T * (2 * T - T.swapaxes(2, 3)) / denominator).sum((2, 3))


def test_the_first_mp2_kernel_runs_as_it_was_printed():
    rng = np.random.default_rng(0)
    B = rng.standard_normal((5, 19, 72)).astype(np.float32)
    eps_occ = -rng.random((5, 1)).astype(np.float32) - 0.5
    eps_vir = rng.random((19, 1)).astype(np.float32) + 0.5
    energies = trnsim.simulate(mp2_energy_kernel, nki="0.3")(B, eps_occ, eps_vir)
    np.testing.assert_allclose(energies, _pairs(B, eps_occ, eps_vir), rtol=1e-4)
    # later versions take a reshape as a view, which this one cannot be
    with pytest.raises(WrongShape, match=r"NKI 0\.3 did it by itself"):
        trnsim.simulate(mp2_energy_kernel)(B, eps_occ, eps_vir)


@pytest.mark.parametrize("shapes", [((8, 4), (1, 4)), ((1, 4), (8, 4)), ((1, 1), (8, 4)), ((8, 1), (1, 4))])
def test_one_partition_broadcasts_over_all_in_every_version(shapes):
    def kernel(x, y):
        out = nl.ndarray((8, 4), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.subtract(nl.load(x), nl.load(y)))
        return out

    x, y = (np.random.default_rng(i).standard_normal(shape).astype(np.float32) for i, shape in enumerate(shapes))
    np.testing.assert_array_equal(trnsim.simulate(kernel)(x, y), x - y)
