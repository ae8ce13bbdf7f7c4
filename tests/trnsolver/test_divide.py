"""Spectral divide and conquer on the simulator: its error, what happens when it fails, and its predicted cost."""

import numpy as np
import pytest
import torch

import trnsci
from trnsci import ArgumentError, NotConverged, UnsupportedError
from trnsci.testing import gaussian, unit_roundoff
from trnsolver import eigh, eigvalsh
from trnsolver.eigen import divide, divide_blocks


def _symmetric(shape, seed=0, dtype=torch.float32):
    x = gaussian(shape, seed, dtype)
    return 0.5 * (x + x.mH)


def _spectrum(values, seed=0):
    q = torch.linalg.qr(gaussian((len(values), len(values)), seed, torch.float64)).Q
    a = (q * torch.as_tensor(values, dtype=torch.float64)) @ q.mT
    return (0.5 * (a + a.mT)).float()


def _toeplitz(n):
    return 2.0 * torch.eye(n) - torch.diag(torch.ones(n - 1), 1) - torch.diag(torch.ones(n - 1), -1)


SPECTRA = {
    "identity": lambda n: torch.eye(n),
    "ones": lambda n: torch.ones(n, n),
    "second difference": _toeplitz,
    "two values": lambda n: _spectrum([1.0] * (n // 3) + [-2.0] * (n - n // 3)),
    "three values": lambda n: _spectrum([1.0] * (n // 2) + [0.0] * (n // 4) + [-2.0] * (n - n // 2 - n // 4)),
    "one cluster": lambda n: _spectrum(1 + 1e-5 * np.arange(n) / n),
    "two clusters": lambda n: _spectrum(np.r_[1 + 1e-6 * np.arange(n // 2) / n, 2 + 1e-4 * np.arange(n - n // 2)]),
    "powers of two": lambda n: _spectrum(2.0 ** -np.arange(n)),
    "twenty decades": lambda n: _spectrum(10.0 ** (-20 * np.arange(n) / n)),
    "both signs": lambda n: _spectrum(10.0 ** (-7 * np.arange(n) / n) * (-1.0) ** np.arange(n)),
    "an eigenvalue at the mean": lambda n: _spectrum(np.r_[0.0, np.linspace(-1, 1, n - 1)]),
    "an outlier": lambda n: _spectrum(np.r_[1e4, np.linspace(0, 1, n - 1)]),
    "wide": lambda n: _spectrum(np.random.default_rng(0).standard_normal(n) ** 9),
    "largest floats": lambda n: 1e38 * _symmetric((n, n), 5) / n,
    "smallest floats": lambda n: 1e-36 * _symmetric((n, n), 5),
}
SIZES = [
    16,
    21,
    40,
    *(pytest.param(n, marks=pytest.mark.slow) for n in (100, 128, 130, 200)),
]


def _holds(w, v, a, norm):
    wide = torch.complex128 if a.is_complex() else torch.float64
    v, limit = v.to(wide), 20 * a.shape[-1] * unit_roundoff(a.dtype)
    eye = torch.eye(a.shape[-1], dtype=wide)
    assert bool((w.diff(dim=-1) >= 0).all())
    assert norm(v * w.unsqueeze(-2).to(wide) @ v.mH - a.to(wide)) <= limit * norm(a)
    assert norm(v.mH @ v - eye) <= limit


def _solve(a):
    with trnsci.backend("simulator"):
        return eigh(a, method="divide")


@pytest.mark.grid(1)
@pytest.mark.sim
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("spectrum", sorted(SPECTRA))
def test_spectra_that_are_hard_to_split(spectrum, n, norm):
    a = SPECTRA[spectrum](n)
    _holds(*_solve(a), a, norm)


@pytest.mark.grid(1)
@pytest.mark.sim
@pytest.mark.parametrize("n", SIZES)
def test_hard_matrices(n, family, norm):
    x = torch.from_numpy(family(n)).float()
    a = 0.5 * (x + x.mT)
    _holds(*_solve(a), a, norm)


@pytest.mark.slow
@pytest.mark.sim
def test_the_largest_sizes(norm):
    for n in (257, 512):
        a = _symmetric((n, n), n)
        w, v = _solve(a)
        _holds(w, v, a, norm)
        expected = np.linalg.eigvalsh(a.double().numpy())
        assert np.abs(w.numpy() - expected).max() <= 20 * n * 2.0**-24 * norm(a)


@pytest.mark.sim
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (5, 5), (5, 6, 6), (9, 16, 16), (2, 3, 20, 20), (5, 64, 64)])
def test_batches_that_share_rows_and_few_rows(shape, norm):
    a = _symmetric(shape, 1)
    w, v = _solve(a)
    wide = a.double()
    limit = 20 * shape[-1] * 2.0**-24
    for matrix, values, vectors in zip(
        wide.reshape(-1, *shape[-2:]), w.reshape(-1, shape[-1]), v.reshape(-1, *shape[-2:]), strict=True
    ):
        expected = torch.from_numpy(np.linalg.eigvalsh(matrix.numpy()))
        assert float((values - expected).abs().max()) <= limit * norm(matrix)
        _holds(values, vectors, matrix.float(), norm)


@pytest.mark.sim
def test_scales_and_zeros_in_one_batch(norm):
    a = _symmetric((9, 16, 16), 2)
    a[1], a[4] = 0.0, torch.eye(16)
    a[2], a[3] = 1e-20 * a[2], 1e20 * a[3]
    w, v = _solve(a)
    for matrix, values, vectors in zip(a, w, v, strict=True):
        _holds(values, vectors, matrix, norm)
    assert torch.equal(w[1], torch.zeros(16))


@pytest.mark.sim
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64, torch.complex128], ids=str)
def test_other_dtypes(dtype, norm):
    a = _symmetric((2, 18, 18), 1, dtype)
    _holds(*_solve(a), a, norm)


@pytest.mark.sim
def test_a_target_error_is_met_from_it():
    a = _symmetric((20, 20), 2, torch.float64)
    with trnsci.backend("simulator"):
        found, stated = trnsci.achieved(eigh, a, target_error=1e-13, method="divide")
    assert stated <= 1e-13
    assert np.abs(found.values.numpy() - np.linalg.eigvalsh(a.numpy())).max() <= 1e-13 * np.linalg.norm(a.numpy())


@pytest.mark.sim
def test_gradients():
    narrow = _symmetric((17, 17), 3).requires_grad_()
    with trnsci.backend("simulator"):
        w, v = eigh(0.5 * (narrow + narrow.mT))
        (w.sin().sum() + v.abs()[0].sum()).backward()
    wide = narrow.detach().double().requires_grad_()
    w, v = torch.linalg.eigh(0.5 * (wide + wide.mT))
    (w.sin().sum() + v.abs()[0].sum()).backward()
    gap = float(w.detach().diff().min())
    assert float((narrow.grad - wide.grad).abs().max()) <= 20 * 17 * 2.0**-24 / gap**2 * float(wide.grad.abs().max())


@pytest.fixture
def programs(monkeypatch):
    """What each program started from: the rotation's first entries and the labels."""
    started, launched = [], divide.launch_levels

    def watch(a, start, labels, n):
        started.append((len(a), start, labels))
        return launched(a, start, labels, n)

    monkeypatch.setattr(divide, "launch_levels", watch)
    return started


@pytest.mark.sim
def test_one_program_for_a_spectrum_without_gaps(programs, norm):
    for n in (16, 33, 64):
        _solve(_symmetric((n, n), n))
    assert len(programs) == 3


@pytest.mark.sim
def test_a_second_program_goes_on_where_levels_ran_out(programs, monkeypatch, norm):
    monkeypatch.setattr(divide, "levels", lambda n: 4)
    a = _symmetric((3, 24, 24), 3)
    a[1] = torch.eye(24)
    w, v = _solve(a)
    for matrix, values, vectors in zip(a, w, v, strict=True):
        _holds(values, vectors, matrix, norm)
    # The identity was done; the others go on from their labels and from the vectors they had.
    assert [count for count, _, _ in programs] == [3, 2]
    assert len(programs[1][2][0].unique()) > 8


@pytest.mark.sim
def test_another_rotation_where_the_first_left_no_basis(programs, monkeypatch, norm):
    rotation = divide.rotation
    monkeypatch.setattr(divide, "rotation", lambda n, seed, device: rotation(n, seed, device) * (1.0 if seed else 1.5))
    a = _symmetric((24, 24), 3)
    _holds(*_solve(a), a, norm)
    assert len(programs) == 2
    assert torch.equal(programs[1][1][0], rotation(24, 1, a.device))


@pytest.mark.sim
def test_failure_is_said(monkeypatch, norm):
    monkeypatch.setattr(divide, "levels", lambda n: 0)
    a = _symmetric((2, 20, 20), 3)
    a[1] = 3 * torch.eye(20)
    with trnsci.backend("simulator"):
        with pytest.raises(NotConverged) as caught:
            eigh(a, method="divide")
        assert caught.value.residual > 0.1
        with pytest.warns(RuntimeWarning, match=r"left .* on 1 of 2 matrices after 4 programs.*; Jacobi solves them"):
            w, v = eigh(a)
        with pytest.warns(RuntimeWarning, match="Jacobi"):
            assert torch.allclose(eigvalsh(a), w)
    for matrix, values, vectors in zip(a, w, v, strict=True):
        _holds(values, vectors, matrix, norm)


def test_methods_have_names_and_pytorch_has_one():
    a = _symmetric((4, 4))
    with pytest.raises(ArgumentError, match="'qr'"):
        eigh(a, method="qr")
    for method in ("divide", "jacobi"):
        with trnsci.backend("pytorch"), pytest.raises(UnsupportedError, match=f"method='{method}' names a kernel"):
            eigh(a, method=method)


def _predicted(n, method, target, dtype=torch.float32):
    with trnsci.backend("simulator"):
        return trnsci.plan(eigh, torch.empty((n, n), dtype=dtype, device="meta"), method=method).predicted[target]


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_auto_takes_the_method_predicted_to_be_faster(target):
    # below, a matrix in each partition, even for a single one
    few, many = 13, 24
    for method in ("jacobi", "divide"):
        assert _predicted(few, "auto", target) < _predicted(few, method, target)
    assert _predicted(many, "auto", target) == _predicted(many, "divide", target) < _predicted(many, "jacobi", target)


@pytest.mark.slow
@pytest.mark.parametrize(("launch", "most"), [(0.67e-3, 15e-3), (0.1e-3, 12.5e-3)], ids=["XLA", "native"])
def test_a_thousand_rows_are_a_program_or_two_for_each_level(launch, most):
    with trnsci.backend("simulator"):
        plan = trnsci.plan(eigh, torch.empty((1024, 1024), device="meta"))
    assert plan.programs.launches == 6
    assert plan.predicted["trn2"] + 6 * launch <= most


@pytest.mark.slow
def test_predicted_times():
    assert _predicted(128, "auto", "trn2") <= 0.8e-3
    assert _predicted(256, "auto", "trn2") <= 1.3e-3
    assert _predicted(32, "auto", "trn2", torch.float64) > 1.5 * _predicted(32, "auto", "trn2")


def test_levels_in_several_programs_meet_the_bound(monkeypatch):
    a = gaussian((70, 70), 5)
    a = a + a.mT
    launches = []
    start = divide.launch
    monkeypatch.setattr(divide, "launch", lambda *args, **kw: launches.append(kw["levels"]) or start(*args, **kw))
    monkeypatch.setenv("TRNSCI_PROGRAM_INSTRUCTIONS", "1200")
    with trnsci.backend("simulator"):
        values, vectors = eigh(a)
    assert len(launches) > 1
    assert len(set(launches)) == 1
    limit = 10 * 70 * unit_roundoff(torch.float32) * float(torch.linalg.matrix_norm(a.double(), 2))
    assert float((values - torch.linalg.eigvalsh(a.double())).abs().max()) <= limit
    assert float((vectors * values @ vectors.mT - a).abs().max()) <= limit


@pytest.mark.sim
@pytest.mark.parametrize(("most", "split"), [(512, "_split_by_kernel"), (128, "_split_by_products")])
def test_matrices_of_several_tiles_are_solved_in_pieces(most, split, monkeypatch, norm):
    a, sizes, cut = _symmetric((140, 140), 3), [], getattr(divide_blocks, split)
    q = torch.linalg.qr(a.double()).Q
    # an even spectrum, and three values of which one fills more than a tile
    few = (q * torch.tensor([1.0, -2.0, 3.0]).repeat_interleave(torch.tensor([130, 6, 4]))) @ q.mT
    monkeypatch.setattr(divide_blocks.kernels, "N_MAX", most)
    monkeypatch.setattr(
        divide_blocks, split, lambda blocks, first: sizes.append(len(blocks[0][1])) or cut(blocks, first=first)
    )
    # as a whole it would not be solved
    monkeypatch.setattr(divide, "levels", lambda n: 9 if n <= 128 else 0)
    for matrix in (a, few.float()):
        _holds(*_solve(0.5 * (matrix + matrix.mT)), 0.5 * (matrix + matrix.mT), norm)
    assert sizes[0] == 140


@pytest.mark.sim
@pytest.mark.slow
@pytest.mark.parametrize("spectrum", ["three values", "two clusters", "both signs", "an outlier", "largest floats"])
def test_levels_of_two_programs(spectrum, monkeypatch, norm):
    monkeypatch.setattr(divide_blocks.kernels, "ONE_LEVEL", 128)
    monkeypatch.setenv("TRNSCI_PROGRAM_MATMULS", "700")
    a = SPECTRA[spectrum](300)
    _holds(*_solve(a), a, norm)


@pytest.mark.sim
def test_what_pieces_leave_is_solved_as_a_whole(monkeypatch, norm):
    monkeypatch.setattr(divide_blocks, "_MOST", 0)
    a = _symmetric((132, 132), 3)
    _holds(*_solve(a), a, norm)


def test_products_take_small_couplings_off():
    a = _symmetric((140, 140), 3) / 8
    values, vectors = torch.linalg.eigh(a.double())
    turn = 1e-5 * gaussian((140, 140), 4).double()
    rows = (torch.linalg.matrix_exp(turn - turn.mT) @ vectors.mT).float()

    def left(rows):
        core = rows.double() @ a.double() @ rows.double().mT
        return float(torch.linalg.matrix_norm(core - torch.diag(core.diagonal())) / values.abs().max())

    limit = 10 * 140 * unit_roundoff(torch.float32)
    assert left(divide_blocks.polish_by_products(a, rows)[1]) <= limit < left(rows)
