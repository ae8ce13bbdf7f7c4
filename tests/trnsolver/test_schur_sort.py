"""Schur forms with chosen eigenvalues first: SciPy's answers."""

import numpy as np
import pytest
import scipy.linalg
import torch

from tests.together import together
from trnsci import ArgumentError, NumericalError, UnsupportedError
from trnsci.arrays import to_numpy
from trnsci.testing import gaussian, pairs, unit_roundoff
from trnsolver import SortedSchur, schur

SORTS = {
    "lhp": lambda x: x.real < 0,
    "rhp": lambda x: x.real >= 0,
    "iuc": lambda x: abs(x) <= 1,
    "ouc": lambda x: abs(x) > 1,
}


def _holds(a, t, z):
    n, u = a.shape[-1], unit_roundoff(a.dtype)
    wide = to_numpy(a.to(torch.complex128))
    t, z = (to_numpy(x.to(torch.complex128)) for x in (t, z))
    assert np.linalg.norm(z @ t @ z.conj().T - wide) <= 20 * n * u * np.linalg.norm(wide)
    assert np.linalg.norm(z.conj().T @ z - np.eye(n)) <= 20 * n * u * n**0.5
    assert np.all(np.tril(t, -2) == 0)


@together(
    ("dtype", "output", "n"),
    pairs([torch.float32, torch.float64, torch.complex64, torch.complex128], ["real", "complex"], [1, 2, 3, 9, 20]),
)
def test_the_selected_come_first(dtype, output, n):
    a = gaussian((n, n), 1, dtype) / n**0.5
    for sort, inside in SORTS.items():
        found = schur(a, output, sort=sort)
        assert isinstance(found, SortedSchur)
        t, z, sdim = found
        expected = sum(map(inside, np.linalg.eigvals(a.numpy())))
        assert (int(sdim), sdim.dtype, sdim.shape) == (expected, torch.int64, ())
        _holds(a, t, z)
        first = np.linalg.eigvals(to_numpy(t.to(torch.complex128))[:expected, :expected])
        assert all(map(inside, first))
        if output == "complex" or dtype.is_complex:
            assert float(t.tril(-1).abs().max()) == 0.0


def test_functions_choose():
    a = gaussian((8, 8), 3, torch.float64)
    values = np.linalg.eigvals(a.numpy())
    # of a pair one is enough, and both come first
    t, z, sdim = schur(a, sort=lambda real, imag: imag > 0)
    assert int(sdim) == int(np.sum(np.abs(values.imag) > 1e-12))
    _holds(a, t, z)
    largest = np.sort(np.abs(values))[-3]
    t, z, sdim = schur(a, "complex", sort=lambda x: abs(x) > 0.999 * largest)
    assert int(sdim) == int(np.sum(np.abs(values) > 0.999 * largest))
    _holds(a, t, z)
    assert int(schur(a, sort=lambda *_: False).sdim) == 0
    assert int(schur(a, sort=lambda *_: True).sdim) == 8


def test_batches_and_the_empty():
    a = gaussian((2, 3, 5, 5), 1, torch.float64)
    t, z, sdim = schur(a, sort="lhp")
    assert sdim.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            _holds(a[i, j], t[i, j], z[i, j])
            assert int(sdim[i, j]) == scipy.linalg.schur(a[i, j].numpy(), sort="lhp")[2]
    for shape in ((0, 0), (2, 0, 0), (0, 3, 3)):
        empty = schur(torch.zeros(shape), sort="rhp")
        assert empty.t.shape == shape
        assert empty.sdim.shape == shape[:-2]


def test_blocks_of_every_size_change_places():
    """Pairs before pairs, pairs before single ones, and the reverse."""
    rng = np.random.default_rng(5)
    for order in ("psps", "pp", "sp", "ps", "ssp", "spps"):
        sizes = [2 if kind == "p" else 1 for kind in order]
        n = sum(sizes)
        t, at = np.triu(rng.standard_normal((n, n)), 1), 0
        for number, size in enumerate(sizes):
            block = np.array([[number + 1.0, 2.0], [-0.7, number + 1.0]])
            t[at : at + size, at : at + size] = block[:size, :size]
            at += size
        wanted = [number >= len(sizes) // 2 for number, size in enumerate(sizes) for _ in range(size)]
        border = len(sizes) // 2 + 0.5
        made, z, count = schur(torch.from_numpy(t), sort=lambda re, im, border=border: re > border)
        _holds(torch.from_numpy(t), made, z)
        assert int(count) == sum(wanted)
        assert np.all(np.linalg.eigvals(made.numpy()[:count, :count]).real > border)


def test_errors():
    with pytest.raises(ArgumentError, match="sort is 'left', expected one of 'lhp', 'rhp', 'iuc', 'ouc'"):
        schur(torch.eye(2), sort="left")
    answers = iter([True, False, False, False])
    with pytest.raises(NumericalError, match="rounding moved an eigenvalue across the border of sort"):
        schur(torch.diag(torch.tensor([1.0, 2.0])), "complex", sort=lambda x: next(answers))


def test_traced_programs_have_no_eigenvalues_to_sort():
    a = gaussian((2, 4, 4), dtype=torch.float64)
    with pytest.raises(UnsupportedError, match="sort= looks at eigenvalues"):
        torch.compile(lambda x: schur(x, sort="lhp"), backend="eager")(a)
    program = torch.compile(schur, backend="eager", fullgraph=True)
    torch.testing.assert_close(program(a), schur(a))
