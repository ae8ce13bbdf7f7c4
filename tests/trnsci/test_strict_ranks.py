"""Every sharded function on the process group of the emulated device: as on gloo, bit by bit where ranks multiply."""

from functools import partial

import pytest
import torch
import torch.distributed as dist

import trnblas
import trnfft
import trnrand
import trnsci
import trnsolver
import trnsparse
import trntensor
from benchmarks.ranks import Ranks
from trnsci import distributed
from trnsci.distributed.calls import _ALGORITHMS, find


def _data(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


A, B, V = _data(13, 11), _data(11, 9, seed=1), _data(11, seed=2)
SQUARE = _data(12, 12, seed=3)
SPD = SQUARE @ SQUARE.mT + 12 * torch.eye(12)
LINE, PLANE = _data(24, seed=4) + 0j, _data(8, 12, 6, seed=5) + 0j
FACTORS, OCC, VIR = _data(6, 5, 7, seed=6), -torch.linspace(1, 2, 6), torch.linspace(1, 2, 5)
Q, K = _data(2, 13, 8, seed=7), _data(2, 13, 8, seed=8)
RATIOS = trntensor.fuse("ik,jk->ij", epilogue=lambda t, d: t * t / d, extras=("j",), reduce="ij->i")
TRANSFORMS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
TRANSFORMS += tuple(back + kind + tail for back in ("", "i") for kind in ("fft", "rfft") for tail in "2n")
FACTOR, BANDED = torch.linalg.cholesky(SPD), trnsparse.CSRMatrix.from_dense(torch.tril(torch.triu(A, -1), 2))


def _spectrum(name, s):
    """A transform of a line, or of an array of three axes that is cut along the first."""
    x = LINE if name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") else PLANE
    real = name in ("rfft", "ihfft", "rfft2", "rfftn")
    return getattr(trnfft, name)(s(x.real.contiguous() if real else x, 0))


def _banded_rows():
    mesh = distributed.mesh()
    return trnsparse.shard_rows(BANDED.to(mesh.device_type), mesh)


# name: function of the mesh's `shard`
CALLS = {
    "gemm rows": lambda s: trnblas.gemm(1.0, s(A, 0), s(B, 0)),
    "gemm sums": lambda s: trnblas.gemm(1.0, s(A, 1), s(B, 0)),
    "gemv": lambda s: trnblas.gemv(1.0, s(A, 1), s(V, 0)),
    "symm": lambda s: trnblas.symm(1.0, s(SPD, 0), s(SPD, 1)),
    "hemm": lambda s: trnblas.hemm(1.0, s(SPD, 0), s(SPD, 1)),
    "trmm": lambda s: trnblas.trmm(1.0, s(SPD, 0), s(SPD, 1)),
    "syrk": lambda s: trnblas.syrk(1.0, s(A, 0)),
    "trsm": lambda s: trnblas.trsm(1.0, s(SPD, 0), s(SPD, 0), lower=True),
    "cholesky": lambda s: trnsolver.cholesky(s(SPD, 0)),
    "cholesky_solve": lambda s: trnsolver.cholesky_solve(s(SQUARE, 0), s(FACTOR, 1)),
    "solve_triangular": lambda s: trnsolver.solve_triangular(s(FACTOR, 0), s(SQUARE, 1), upper=False),
    "inv_spd": lambda s: trnsolver.inv_spd(s(SPD, 0)),
    "solve_spd": lambda s: trnsolver.solve_spd(s(SPD, 0), s(SQUARE, 0)),
    "lu_factor": lambda s: trnsolver.lu_factor(s(SQUARE, 0)).factors,
    "solve": lambda s: trnsolver.solve(s(SQUARE, 0), s(SPD, 0)),
    "lu_solve": lambda s: trnsolver.lu_solve(*trnsolver.lu_factor(s(SQUARE, 0)), s(SPD, 1)),
    "inv": lambda s: trnsolver.inv(s(SQUARE, 1)),
    "qr": lambda s: trnblas.gemm(1.0, *trnsolver.qr(s(A, 0))),
    "lstsq": lambda s: trnsolver.lstsq(s(A, 0), s(A[:, :2].clone(), 0)).solution,
    "eigh": lambda s: trnsolver.eigh(s(SPD, 0)).values,
    "eigvalsh": lambda s: trnsolver.eigvalsh(s(SPD, 1)),
    "eigh_randomized": lambda s: trnsolver.eigh_randomized(s(SPD, 0), 3).s,
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
    "spmm": lambda s: _banded_rows() @ s(B, 0),
    "spmv": lambda s: _banded_rows() @ s(V, 0),
    **{name: partial(_spectrum, name) for name in TRANSFORMS},
    "istft": lambda s: trnfft.istft(s(trnfft.stft(_data(5, 24), 8, return_complex=True), 0), 8),
    "spectrogram": lambda s: trnfft.spectrogram(s(_data(5, 24), 0), 8),
    "stft": lambda s: trnfft.stft(s(LINE.real.contiguous(), 0), 8, return_complex=False),
    "fuse": lambda s: RATIOS(s(A, 0), s(A, 1), s(1 + A[:, 0].abs(), 0)),
    "randint": lambda s: trnrand.Generator(7).randint(10, 6, high=9, out=s(torch.zeros(10, 6, dtype=torch.int64), 0)),
    "uniform": lambda s: trnrand.Generator(7).uniform(10, 6, out=s(torch.zeros(10, 6), 0)),
    "normal": lambda s: trnrand.Generator(7).normal(10, 6, out=s(torch.zeros(10, 6), 1)),
}
# The device solves small systems, transforms and takes logarithms by other libraries than the host.
SOLVED = {"trsm", "cholesky", "solve_spd", "lu_factor", "solve", "inv", "qr", "lstsq", "eigh", "svd_randomized"}
SOLVED |= {"svd", "svdvals", "attention", "stft", "cg", "mp2_energy", "mp2_energy of two", "normal", *TRANSFORMS}
SOLVED |= {"cholesky_solve", "solve_triangular", "inv_spd", "lu_solve", "eigvalsh", "eigh_randomized", "istft"}
SOLVED |= {"spectrogram", "spmm", "spmv"}


def _run(name, backend):
    mesh = distributed.mesh()
    with trnsci.backend(backend):
        result = CALLS[name](lambda x, place: distributed.shard(x.contiguous(), mesh, place))
    return distributed.gather(result).resolve_conj().cpu().contiguous()


def _compare(size, names, backend="pytorch"):
    """Compare a backend on strict ranks with PyTorch on gloo's: on PyTorch itself bit by bit where it can be."""
    strict, gloo = Ranks(size, strict=True), Ranks(size)
    try:
        assert set(strict.run(_kind)) == {"neuron"}
        for name in names:
            there, here = strict.run(_run, name, backend), gloo.run(_run, name, "pytorch")
            for x, y in zip(there, here, strict=True):
                if name in SOLVED or backend != "pytorch":
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


def test_every_sharded_function_is_among_them():
    for function in (trnblas.gemm, trnfft.fft, trnrand.uniform, trnsolver.qr, trnsparse.spmm, trntensor.einsum):
        find(function)
    names = {name.split(".")[1] for name in _ALGORITHMS if not name.startswith("trnrand.")}
    # a program of `fuse` is called by its own name
    assert names - {"call_program"} <= {name.split()[0] for name in CALLS}


def _grid(shape):
    """A product and a solution on a grid whose columns are ranks that lie apart, and what the group itself says."""
    mesh = distributed.mesh(*shape)
    a, b = distributed.shard(A, mesh, 0, 1), distributed.shard(B, mesh, 1, 0)
    apart = dist.new_group(list(range(dist.get_rank() % 2, 8, 2)), use_local_synchronization=True)
    x = torch.ones(4, device="neuron")
    try:
        dist.all_to_all_single(torch.empty_like(x), x, group=apart)
        said = ""
    except RuntimeError as error:
        said = str(error)
    spectrum = trnfft.fftn(distributed.shard(PLANE, mesh, 0, 1))
    return said, distributed.gather(trnblas.gemm(1.0, a, b)).cpu(), distributed.gather(spectrum).cpu()


@pytest.mark.slow
def test_ranks_that_lie_apart_gather_what_they_may_not_exchange():
    strict = Ranks(8, strict=True)
    try:
        for said, product, spectrum in strict.run(_grid, (4, 2)):
            assert "does not support ranks [" in said
            torch.testing.assert_close(product, A @ B)
            torch.testing.assert_close(spectrum, torch.fft.fftn(PLANE))
    finally:
        strict.close()


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3, 8, 32])
def test_some_functions_on_other_numbers_of_strict_ranks(size):
    _compare(size, ["gemm rows", "gemm sums", "cholesky", "solve", "fftn", "mp2_energy", "einsum"], "auto")
