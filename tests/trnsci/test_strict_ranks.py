"""Every sharded function on the process group of the emulated device: as on gloo, bit by bit where ranks multiply."""

import pytest
import torch

import trnblas
import trnfft
import trnrand
import trnsolver
import trnsparse
import trntensor
from benchmarks.ranks import Ranks
from trnsci import distributed


def _data(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


A, B, V = _data(13, 11), _data(11, 9, seed=1), _data(11, seed=2)
SQUARE = _data(12, 12, seed=3)
SPD = SQUARE @ SQUARE.mT + 12 * torch.eye(12)
LINE, PLANE = _data(24, seed=4) + 0j, _data(8, 12, 6, seed=5) + 0j
FACTORS, OCC, VIR = _data(6, 5, 7, seed=6), -torch.linspace(1, 2, 6), torch.linspace(1, 2, 5)
Q, K = _data(2, 13, 8, seed=7), _data(2, 13, 8, seed=8)
RATIOS = trntensor.fuse("ik,jk->ij", epilogue=lambda t, d: t * t / d, extras=("j",), reduce="ij->i")
# name: function of the mesh's `shard`
CALLS = {
    "gemm rows": lambda s: trnblas.gemm(1.0, s(A, 0), s(B, 0)),
    "gemm sums": lambda s: trnblas.gemm(1.0, s(A, 1), s(B, 0)),
    "gemv": lambda s: trnblas.gemv(1.0, s(A, 1), s(V, 0)),
    "symm": lambda s: trnblas.symm(1.0, s(SPD, 0), s(SPD, 1)),
    "trmm": lambda s: trnblas.trmm(1.0, s(SPD, 0), s(SPD, 1)),
    "syrk": lambda s: trnblas.syrk(1.0, s(A, 0)),
    "trsm": lambda s: trnblas.trsm(1.0, s(SPD, 0), s(SPD, 0), lower=True),
    "cholesky": lambda s: trnsolver.cholesky(s(SPD, 0)),
    "solve_spd": lambda s: trnsolver.solve_spd(s(SPD, 0), s(SQUARE, 0)),
    "lu_factor": lambda s: trnsolver.lu_factor(s(SQUARE, 0)).factors,
    "solve": lambda s: trnsolver.solve(s(SQUARE, 0), s(SPD, 0)),
    "inv": lambda s: trnsolver.inv(s(SQUARE, 1)),
    "qr": lambda s: trnblas.gemm(1.0, *trnsolver.qr(s(A, 0))),
    "lstsq": lambda s: trnsolver.lstsq(s(A, 0), s(A[:, :2].clone(), 0)).solution,
    "eigh": lambda s: trnsolver.eigh(s(SPD, 0)).values,
    "svd": lambda s: trnsolver.svd(s(A, 0), full_matrices=False).s,
    "svdvals": lambda s: trnsolver.svdvals(s(A, 1)),
    "svd_randomized": lambda s: trnsolver.svd_randomized(s(A, 0), 3).s,
    "attention": lambda s: trnsparse.attention(s(Q, 1), s(K, 1), s(K, 0), trnsparse.causal(), block=4),
    "cg": lambda s: trnsolver.cg(s(SPD, 0), s(SPD[:, 0].clone(), 0)).x,
    "einsum": lambda s: trntensor.einsum("ij,jk->ik", s(A, 0), s(B, 1)),
    "ao_to_mo_transform": lambda s: trntensor.ao_to_mo_transform(
        s(_data(6, 6, 5), 0), s(SQUARE[:6, :3], 0), s(SQUARE[:6, :2], None)
    ),
    "mp2_energy": lambda s: trntensor.mp2_energy(s(FACTORS, 0), s(OCC, None), s(VIR, None)),
    # ranks beyond the second have nothing, and pass it on
    "mp2_energy of two": lambda s: trntensor.mp2_energy(s(FACTORS[:2], 0), s(OCC[:2], None), s(VIR, None)),
    "fft": lambda s: trnfft.fft(s(LINE, 0)),
    "fftn": lambda s: trnfft.fftn(s(PLANE, 0)),
    "stft": lambda s: trnfft.stft(s(LINE.real.contiguous(), 0), 8, return_complex=False),
    "fuse": lambda s: RATIOS(s(A, 0), s(A, 1), s(1 + A[:, 0].abs(), 0)),
    "normal": lambda s: trnrand.Generator(7).normal(10, 6, out=s(torch.zeros(10, 6), 1)),
}
# The device solves small systems, transforms and takes logarithms by other libraries than the host.
SOLVED = {"trsm", "cholesky", "solve_spd", "lu_factor", "solve", "inv", "qr", "lstsq", "eigh", "svd_randomized"}
SOLVED |= {"svd", "svdvals", "attention", "stft", "cg", "fft", "fftn", "mp2_energy", "mp2_energy of two", "normal"}


def _run(name):
    mesh = distributed.mesh()
    result = CALLS[name](lambda x, place: distributed.shard(x.contiguous(), mesh, place))
    return distributed.gather(result).resolve_conj().cpu().contiguous()


def _compare(size, names):
    strict, gloo = Ranks(size, strict=True), Ranks(size)
    try:
        assert set(strict.run(_kind)) == {"neuron"}
        for name in names:
            there, here = strict.run(_run, name), gloo.run(_run, name)
            for x, y in zip(there, here, strict=True):
                if name in SOLVED:
                    torch.testing.assert_close(x, y, msg=name)
                else:
                    assert torch.equal(x, y), name
    finally:
        strict.close()
        gloo.close()


def _kind():
    return distributed.mesh().device_type


def test_every_function_on_four_strict_ranks():
    _compare(4, CALLS)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3, 8, 32])
def test_some_functions_on_other_numbers_of_strict_ranks(size):
    _compare(size, ["gemm rows", "gemm sums", "cholesky", "solve", "fftn", "mp2_energy", "einsum"])
