"""Files of SciPy's and of Matrix Market, read and written."""

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import torch

import trnsparse as ts
from trnsci import ArgumentError, DtypeError

DTYPES = ("float32", "float64", "complex64", "complex128", "int32", "int64", "bool")


def _random(dtype, shape=(6, 8)):
    rng = np.random.default_rng(1)
    dense = np.where(rng.random(shape) < 0.4, rng.standard_normal(shape) * 3, 0)
    return (dense + 1j * dense[::-1] if dtype.startswith("complex") else dense).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_files_of_scipy_are_read(kind, form, dtype, tmp_path):
    dense = _random(dtype)
    sp.save_npz(tmp_path / "a.npz", getattr(sp, f"{form}_{kind}")(dense))
    made = ts.load(tmp_path / "a.npz")
    assert made.format == form
    assert made.values.numpy().dtype == dense.dtype
    assert np.array_equal(made.to_dense().numpy(), dense)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
def test_scipy_reads_our_files(form, dtype, tmp_path):
    dense = _random(dtype)
    made = ts.CSRMatrix.from_dense(torch.from_numpy(dense))
    made = made.to_bsr(2) if form == "bsr" else getattr(made, f"to_{form}")()
    made.save(tmp_path / "a.npz")
    theirs = sp.load_npz(tmp_path / "a.npz")
    assert theirs.format == form
    assert np.array_equal(theirs.toarray(), dense)
    assert type(ts.load(tmp_path / "a.npz")) is type(made)


@pytest.mark.parametrize("name", ["a.mtx", "a.mtx.gz"])
@pytest.mark.parametrize("dtype", DTYPES[:6])
def test_matrix_market_is_read_and_written(dtype, name, tmp_path):
    dense = _random(dtype)
    ts.CSCMatrix.from_dense(torch.from_numpy(dense)).save(tmp_path / name)
    # as many digits as the dtype needs are written, and read as float64
    assert np.array_equal(scipy.io.mmread(tmp_path / name).toarray().astype(dtype), dense)
    back = ts.load(tmp_path / name)
    assert back.format == "coo"
    assert np.array_equal(back.to_dense().numpy().astype(dtype), dense)


@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric", "hermitian"])
def test_symmetries_of_matrix_market_are_filled(symmetry, tmp_path):
    a = _random("complex128", (6, 6))
    sign = {"skew-symmetric": -1}.get(symmetry, 1)
    dense = a if symmetry == "general" else a + sign * (a.conj().T if symmetry == "hermitian" else a.T)
    scipy.io.mmwrite(tmp_path / "a.mtx", sp.coo_array(dense), symmetry=symmetry)
    assert np.array_equal(ts.load(tmp_path / "a.mtx").to_dense().numpy(), dense)


def test_matrix_market_by_hand(tmp_path):
    path = tmp_path / "any name"
    path.write_text("%%MatrixMarket matrix coordinate pattern symmetric\n% a comment\n3 3 2\n2 1\n3 3\n")
    assert ts.load(path).to_dense().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    path.write_text("%%MatrixMarket matrix array real general\n2 2\n1.5\n0\n2\n3\n")
    assert ts.load(str(path)).to_dense().tolist() == [[1.5, 2], [0, 3]]


@pytest.mark.parametrize(
    "text",
    [
        "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.0\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 1\n5 1 1.0\n",
        "%%MatrixMarket matrix coordinate real general\n",
        "%%MatrixMarket vector nothing\n",
        "%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 99999999999999999999999\n",
    ],
)
def test_damaged_matrix_market_files_are_refused(text, tmp_path):
    (tmp_path / "a.mtx").write_text(text)
    with pytest.raises(ArgumentError, match="damaged"):
        ts.load(tmp_path / "a.mtx")


def test_what_a_format_lacks_is_said_or_kept_in_our_own(tmp_path):
    half = ts.CSRMatrix.from_dense(torch.eye(3, dtype=torch.bfloat16))
    with pytest.raises(DtypeError, match=r"one that Matrix Market has.*float32"):
        half.save(tmp_path / "a.mtx")
    assert not (tmp_path / "a.mtx").exists()
    half.save(tmp_path / "a.npz")
    with pytest.raises(ValueError, match="Unknown format"):
        sp.load_npz(tmp_path / "a.npz")
    over = ts.BSRMatrix.from_dense(torch.ones(3, 5), 2)
    over.save(tmp_path / "b.npz")
    back = ts.load(tmp_path / "b.npz")
    assert back.block == (2, 2)
    assert torch.equal(back.to_dense(), torch.ones(3, 5))
