"""Formats: constructors, conversions, structure checks, slices, arithmetic, files and pictures, beside SciPy."""

import copy
import inspect
import itertools
import operator
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, strategies as st

import trnsparse as ts
from tests.together import together
from trnsci import ArgumentError
from trnsci.errors import DtypeError
from trnsci.testing import assert_within, gamma, gaussian

DTYPES = [np.float32, np.float64, np.complex64, np.complex128, np.int64]


def random(m, n, density=0.2, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    made = sp.random_array((m, n), density=density, random_state=rng, dtype=np.float64).tocsr()
    made.data = rng.integers(1, 9, made.nnz).astype(dtype)
    if np.issubdtype(dtype, np.complexfloating):
        made.data = made.data + 1j * rng.integers(1, 9, made.nnz).astype(made.data.real.dtype)
    return made


SHAPES = [(7, 5), (1, 9), (9, 1), (0, 4), (4, 0), (0, 0), (130, 70)]
KINDS = [ts.COOMatrix, ts.CSRMatrix, ts.CSCMatrix, ts.BSRMatrix]


@together(("dtype", "shape"), [*zip(DTYPES, SHAPES, strict=False), *((np.float32, s) for s in SHAPES)])
def test_every_format_reaches_every_other_and_keeps_every_entry(shape, dtype):
    source = random(*shape, dtype=dtype)
    dense = torch.from_numpy(source.toarray())
    for kind in KINDS:
        made = kind.from_scipy(source) if kind is not ts.BSRMatrix else kind.from_scipy(source, (3, 4))
        assert made.shape == shape
        assert made.dtype == dense.dtype
        for name in ("coo", "csr", "csc", "bsr"):
            other = made.to_bsr((2, 5)) if name == "bsr" else getattr(made, f"to_{name}")()
            assert other.format == name
            assert torch.equal(other.to_dense(), dense)
        assert torch.equal(made.T.to_dense(), dense.T)
        assert torch.equal(made.H.to_dense(), dense.mH.resolve_conj())
        assert np.array_equal(made.to_scipy().toarray(), source.toarray())


@together("kind", KINDS)
def test_torch_tensors_come_in_and_go_out(kind):
    dense = torch.from_numpy(random(8, 12).toarray())
    for tensor in (dense, dense.to_sparse_coo(), dense.to_sparse_csr(), dense.to_sparse_csc()):
        made = kind.from_torch(tensor) if kind is not ts.BSRMatrix else kind.from_torch(tensor, (4, 3))
        assert torch.equal(made.to_dense(), dense)
        assert torch.equal(made.to_torch().to_dense(), dense)
    assert torch.equal(ts.BSRMatrix.from_torch(dense.to_sparse_bsr((2, 3))).to_dense(), dense)
    blocks = ts.BSRMatrix.from_torch((dense * (1 + 1j)).to_sparse_bsr((2, 3)))
    assert torch.equal(blocks.values.real, blocks.values.imag)


def test_values_of_torchs_matrices_are_conjugated_and_traced_though_torch_refuses():
    dense = torch.from_numpy(random(8, 12).toarray()) * (1 + 1j)
    x, rows, columns = torch.ones(8, 2, dtype=dense.dtype), dense.to_sparse_csr(), dense.to_sparse_csc()
    made = ts.CSRMatrix(rows.crow_indices(), rows.col_indices(), rows.values(), rows.shape)
    other = ts.CSCMatrix(columns.ccol_indices(), columns.row_indices(), columns.values(), columns.shape)
    for matrix in (made, other, made.with_values(rows.values())):
        torch.testing.assert_close(ts.spmm(matrix, x, trans="c"), dense.mH @ x)
    real = made.with_values(dense.real.to_sparse_csr().values())
    program = torch.compile(lambda x: ts.spmm(real, x, trans=True), backend="eager", fullgraph=True, dynamic=True)
    torch.testing.assert_close(program(x.real), dense.real.mT @ x.real)
    # the memory stays that of its owner
    rows.values().mul_(2.0)
    torch.testing.assert_close(ts.spmm(made, x, trans="c"), 2.0 * dense.mH @ x)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(-4, 4)), max_size=30))
def test_duplicates_add_up_in_any_order(entries):
    row, col, values = (np.array([entry[i] for entry in entries], dtype=np.int64) for i in range(3))
    made = ts.COOMatrix(row, col, torch.tensor(values, dtype=torch.float64), (6, 4))
    wanted = sp.coo_array((values.astype(float), (row, col)), shape=(6, 4)).toarray()
    assert np.array_equal(made.to_dense().numpy(), wanted)
    rows = made.to_csr()
    ts.CSRMatrix(rows.indptr, rows.indices, rows.values, rows.shape)


def test_blocks_may_reach_over_the_edge_and_what_lies_outside_is_not_read():
    dense = torch.arange(1.0, 16.0).reshape(3, 5)
    made = ts.BSRMatrix.from_dense(dense, (2, 2))
    assert made.grid == (2, 3)
    blocks = made.values.clone()
    blocks[-1, 1, :] = 99
    assert torch.equal(made.with_values(blocks).to_dense(), dense)
    assert torch.equal(made.with_values(blocks) @ torch.eye(5), dense)


MALFORMED = [
    (lambda: ts.CSRMatrix([0, 2, 1], [0, 1], [1.0, 2.0], (2, 2)), "indptr[2]", 1, "at least indptr[1] = 2"),
    (lambda: ts.CSRMatrix([1, 1, 2], [0, 1], [1.0, 2.0], (2, 2)), "indptr[0]", 1, "0"),
    (lambda: ts.CSRMatrix([0, 1, 1], [0, 1], [1.0, 2.0], (2, 2)), "indptr[2]", 1, "2, the number of indices"),
    (lambda: ts.CSRMatrix([0, 1], [0], [1.0], (2, 2)), "length of indptr", 2, "3: one more than rows"),
    (lambda: ts.CSRMatrix([0, 1, 2], [0, 2], [1.0, 2.0], (2, 2)), "indices[1]", 2, "from 0 to 1"),
    (lambda: ts.CSRMatrix([0, 2, 2], [1, 0], [1.0, 2.0], (2, 2)), "indices[1]", 0, "more than indices[0] = 1"),
    (lambda: ts.CSRMatrix([0, 2, 2], [1, 1], [1.0, 2.0], (2, 2)), "indices[1]", 1, "more than indices[0] = 1"),
    (lambda: ts.CSCMatrix([0, 1, 2], [0, -1], [1.0, 2.0], (2, 2)), "indices[1]", -1, "from 0 to 1"),
    (lambda: ts.COOMatrix([0, 3], [0, 0], [1.0, 2.0], (2, 2)), "row[1]", 3, "from 0 to 1"),
    (lambda: ts.COOMatrix([0, 1], [0, 5], [1.0, 2.0], (2, 2)), "col[1]", 5, "from 0 to 1"),
    (lambda: ts.BSRMatrix([0, 1], [2], torch.ones(1, 2, 2), (2, 4)), "indices[0]", 2, "from 0 to 1"),
    (lambda: ts.BSRMatrix([0, 1], [0], torch.ones(1, 2), (2, 4)), "shape of values", (1, 2), "(blocks, bm, bn)"),
    (lambda: ts.COOMatrix([0], [0], [1.0], (2, -1)), "shape", (2, -1), "not negative"),
]


@together(("build", "argument", "got", "text"), MALFORMED)
def test_malformed_structures_are_refused_at_the_first_offending_position(build, argument, got, text):
    with pytest.raises(ArgumentError) as caught:
        build()
    assert caught.value.argument == argument
    assert caught.value.got == got
    assert text in str(caught.value)


def test_wrong_dtypes_and_lengths_are_refused():
    with pytest.raises(DtypeError, match="dtype of indices is float32, expected an integer dtype"):
        ts.CSRMatrix([0, 1], torch.tensor([0.0]), [1.0], (1, 1))
    with pytest.raises(ArgumentError) as caught:
        ts.CSRMatrix([0, 1], [0, 1], [1.0], (1, 2))
    assert caught.value.got == {"indices": 2, "values": 1}
    with pytest.raises(DtypeError, match="dtype of values is uint8"):
        ts.COOMatrix([0], [0], np.array([1], dtype=np.uint8), (1, 1))


def test_int32_indices_become_int64():
    made = ts.CSRMatrix(torch.tensor([0, 1], dtype=torch.int32), torch.tensor([0], dtype=torch.int32), [2.0], (1, 1))
    assert made.indices.dtype == made.indptr.dtype == torch.int64


KEYS = [
    (slice(1, 6),),
    (slice(None), slice(0, 4, 2)),
    (slice(5, 1, -2), [3, 0, 3]),
    ([4, 4, 0], slice(None)),
    (2,),
    (slice(0, 0), slice(None)),
    (-1, slice(1, 3)),
]


@together("kind", KINDS)
def test_slices_are_those_of_numpy(kind):
    dense = random(8, 6).toarray()
    made = kind.from_dense(dense, 3) if kind is ts.BSRMatrix else kind.from_dense(dense)
    for key in KEYS:
        _is_the_slice(made, dense, key)


def _is_the_slice(made, dense, key):
    found = made[key if len(key) > 1 else key[0]]
    rows = [key[0]] if isinstance(key[0], int) else key[0]
    wanted = dense[rows][:, key[1] if len(key) > 1 else slice(None)]
    assert found.format == made.format
    assert np.array_equal(found.to_dense().numpy(), wanted)


@together("kind", KINDS)
def test_masks_elements_and_bad_indices(kind):
    dense = torch.from_numpy(random(8, 6).toarray())
    made = kind.from_dense(dense, 3) if kind is ts.BSRMatrix else kind.from_dense(dense)
    kept = torch.arange(8) % 3 == 0
    assert torch.equal(made[kept].to_dense(), dense[kept])
    assert all(made[i, j] == dense[i, j] for i in range(8) for j in range(6))
    assert made[-1, -1] == dense[-1, -1]
    with pytest.raises(ArgumentError, match="index of axis 1 is 6, expected below 6"):
        made[:, [0, 6]]


@pytest.mark.grid(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul])
def test_arithmetic_is_that_of_scipy(kind, op):
    x, y = random(9, 7, seed=1), random(9, 7, seed=2)
    a, b = (kind.from_scipy(z, (2, 3)) if kind is ts.BSRMatrix else kind.from_scipy(z) for z in (x, y))
    made = op(a, b)
    assert made.format == a.format
    assert np.array_equal(made.to_dense().numpy(), op(x.toarray(), y.toarray()))
    assert np.array_equal((-a * 3).to_dense().numpy(), -3 * x.toarray())
    assert np.array_equal((2 * a / 4).to_dense().numpy(), x.toarray() / 2)
    assert np.array_equal((a * torch.from_numpy(y.toarray())).to_dense().numpy(), (x.toarray() * y.toarray()))


def test_sums_of_different_shapes_are_refused():
    with pytest.raises(ArgumentError) as caught:
        ts.add(ts.eye(2), ts.eye(3))
    assert caught.value.got == {"a": (2, 2), "b": (3, 3)}


@pytest.mark.grid(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex128])
def test_files_give_back_the_matrix(kind, dtype, tmp_path):
    dense = torch.from_numpy(random(6, 10).toarray()).to(dtype)
    made = kind.from_dense(dense, 4) if kind is ts.BSRMatrix else kind.from_dense(dense)
    made.save(tmp_path / "a.npz")
    back = ts.load(tmp_path / "a.npz")
    assert type(back) is kind
    assert back.dtype == dtype
    assert torch.equal(back.to_dense(), dense)


def test_files_of_something_else_are_refused(tmp_path):
    np.savez(tmp_path / "b.npz", x=np.zeros(3))
    with pytest.raises(ArgumentError, match="expected one of coo, csr, csc, bsr"):
        ts.load(tmp_path / "b.npz")


def test_damaged_files_give_one_error_type(tmp_path):
    path, draw = tmp_path / "a.npz", np.random.default_rng(2)
    made = ts.CSRMatrix.from_dense(torch.from_numpy(random(6, 10).toarray()))
    made.save(path)
    data = path.read_bytes()
    damages = [data[:size] for size in (0, 1, 10, *draw.integers(0, len(data), 40))]
    for bit in draw.integers(0, 8 * len(data), 300):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        damages.append(bytes(flipped))
    damages += [draw.bytes(300), pickle.dumps(print), b"\x93NUMPY" + draw.bytes(90)]
    refused = 0
    for damaged in damages:
        path.write_bytes(damaged)
        try:
            back = ts.load(path)
        except ArgumentError:
            refused += 1
        else:
            # a bit that says nothing of the contents, such as the date of a member
            assert torch.equal(back.to_dense(), made.to_dense())
    assert refused > 200
    with pytest.raises(FileNotFoundError):
        ts.load(tmp_path / "missing.npz")


def test_reductions_norms_and_diagonals_are_those_of_numpy():
    dense = random(9, 6, dtype=np.complex128).toarray()
    made = ts.CSRMatrix.from_dense(dense)
    # sums of 54 squares, or of 9 magnitudes; a singular value within 6 roundings of the norm a row (NumPy's too)
    for kind in ("fro", 1, np.inf, 2):
        wanted = np.linalg.norm(dense, kind)
        assert abs(ts.norm(made, kind).item() - wanted) <= 2 * gamma(58, torch.float64) * wanted
    assert ts.norm(made, "max").item() == np.abs(dense).max()
    assert ts.norm(ts.CSRMatrix.from_dense(torch.zeros(3, 3)), 2).item() == 0
    for offset in (-3, 0, 2, 7):
        assert np.array_equal(made.diagonal(offset).numpy(), np.diagonal(dense, offset))
    # sums of small integers are exact
    assert made.trace().item() == np.trace(dense)
    for axis in (None, 0, 1):
        assert np.array_equal(made.sum(axis).numpy(), dense.sum(axis))
    with pytest.raises(ArgumentError, match="ord is 3"):
        ts.norm(made, 3)


def test_small_helpers():
    x, y = random(3, 4, seed=3), random(2, 5, seed=4)
    a, b = ts.CSRMatrix.from_scipy(x), ts.CSRMatrix.from_scipy(y)
    assert np.array_equal(ts.kron(a, b).to_dense().numpy(), np.kron(x.toarray(), y.toarray()))
    d = torch.arange(1.0, 5.0, dtype=torch.float64)
    assert np.array_equal(ts.scale_columns(a, d).to_dense().numpy(), x.toarray() * d.numpy())
    assert np.array_equal(ts.scale_rows(a, d[:3]).to_dense().numpy(), x.toarray() * d.numpy()[:3, None])
    assert np.array_equal(ts.triangle(a, offset=1).to_dense().numpy(), np.tril(x.toarray(), 1))
    assert np.array_equal(a.prune(4).to_dense().numpy(), np.where(np.abs(x.toarray()) > 4, x.toarray(), 0))


def test_a_matrix_prints_its_kind_and_a_picture():
    made = ts.CSRMatrix.from_dense(torch.tril(torch.ones(4, 4)))
    assert str(made).splitlines() == [
        "CSRMatrix(4x4, nnz=10, float32, density 62.50%)",
        "█···",
        "██··",
        "███·",
        "████",
    ]
    assert "2 blocks of 2x2" in repr(ts.eye(4).to_bsr(2))
    assert str(ts.eye(0)).endswith("(empty)")


def test_gradients_flow_through_conversions():
    dense = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 4.0]], dtype=torch.float64, requires_grad=True)
    for name in ("coo", "csr", "csc", "bsr"):
        made = ts.COOMatrix.from_dense(dense)
        made = made.to_bsr(2) if name == "bsr" else getattr(made, f"to_{name}")()
        (grad,) = torch.autograd.grad((made.T.to_dense() ** 2).sum(), dense)
        assert torch.equal(grad, 2 * dense.detach())


def test_sparse_vectors():
    y = torch.arange(5.0)
    index, x = torch.tensor([3, 1]), torch.tensor([10.0, 20.0])
    assert ts.vectors.gather(y, index).tolist() == [3, 1]
    assert ts.vectors.scatter(x, index, y).tolist() == [0, 20, 2, 10, 4]
    assert ts.vectors.axpby(2.0, x, index, 3.0, y).tolist() == [0, 43, 6, 29, 12]
    assert ts.vectors.dot(x, index, y).item() == 50
    rotated, rest = ts.vectors.rot(x, index, y, 0.6, 0.8)
    # two products of rounded factors and a sum
    assert_within(rotated, [0.6 * 10 + 0.8 * 3, 0.6 * 20 + 0.8 * 1], gamma(3, torch.float32) * 20)
    assert_within(rest, [0, 0.6 * 1 - 0.8 * 20, 2, 0.6 * 3 - 0.8 * 10, 4], gamma(3, torch.float32) * 20)
    with pytest.raises(ArgumentError, match=r"indices\[1\] is 9"):
        ts.vectors.gather(y, torch.tensor([0, 9]))


def test_slices_do_not_share_values_with_the_matrix():
    made = ts.CSRMatrix.from_dense(torch.eye(4))
    for key in (slice(1, 3), slice(None), ([0, 2], slice(None)), (slice(None), slice(0, 2))):
        made[key].values.fill_(7)
    assert torch.equal(made.to_dense(), torch.eye(4))


def test_what_coalesce_keeps_follows_the_values():
    row, col = torch.tensor([1, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
    made = ts.COOMatrix(row, col, torch.tensor([1.0, 2.0, 3.0, 4.0]), (2, 2))
    x = torch.ones(2)
    for _ in range(2):
        assert (made @ x).tolist() == [2, 8]
    made.values.mul_(2)
    assert (made @ x).tolist() == [4, 16]
    assert (made.with_values(torch.ones(4)) @ x).tolist() == [1, 3]
    values = torch.ones(4, requires_grad=True)
    (made.with_values(values) @ x).sum().backward()
    assert values.grad.tolist() == [1, 1, 1, 1]


def test_a_batch_of_matrices_is_one_pattern_with_many_values():
    made = ts.CSRMatrix.from_scipy(random(5, 4))
    values, b = torch.stack([made.values, 2 * made.values]), torch.ones(2, 4, 3, dtype=torch.float64)
    found = torch.func.vmap(lambda v, b: ts.spmm(made.with_values(v), b))(values, b)
    assert torch.equal(found, torch.stack([made @ b[0], 2 * (made @ b[0])]))


@together("kind", ["coo", "csr", "csc", "bsr"])
def test_two_lists_are_places(kind):
    """As in NumPy and SciPy; numbers of NumPy and an ellipsis are understood as well."""
    dense = gaussian((6, 9), 1, torch.float64) * (gaussian((6, 9), 2) > 0)
    a = ts.CSRMatrix.from_dense(dense)
    a = a.to_bsr(4) if kind == "bsr" else getattr(a, f"to_{kind}")()
    n = dense.numpy()
    assert np.array_equal(a[[0, 5, -1], [1, 2, -3]], n[[0, 5, -1], [1, 2, -3]])
    assert np.array_equal(a[[[0], [5]], [1, 2, 3]], n[[[0], [5]], [1, 2, 3]])
    assert np.array_equal(a[np.ix_([0, 5], [1, 2, 8])].to_dense(), n[np.ix_([0, 5], [1, 2, 8])])
    assert np.array_equal(a[..., 2:4].to_dense(), n[..., 2:4])
    assert np.array_equal(a[[], :].to_dense(), n[[], :])
    assert all(float(a[np.int64(i), j]) == n[i, j] for i in range(-6, 6) for j in range(-9, 9))
    element = a[1, 1]
    element += 1
    assert float(a[1, 1]) == n[1, 1]
    with pytest.raises(ArgumentError) as caught:
        a[[0, 1], [0, 1, 2]]
    assert caught.value.got == {"rows": (2,), "columns": (3,)}
    assert "a[rows][:, columns]" in str(caught.value)
    with pytest.raises(ArgumentError) as caught:
        a[6, 0]
    assert caught.value.got == 6
    with pytest.raises(ArgumentError):
        a[0, 0, 0]


@together("kind", ["coo", "csr", "csc", "bsr"])
def test_small_things_that_failed_before(kind):
    dense = torch.tensor([[1, 0, 2], [0, 3, 0]])
    a = ts.CSRMatrix.from_dense(dense)
    a = a.to_bsr(2) if kind == "bsr" else getattr(a, f"to_{kind}")()
    assert a.sum(axis=-1).tolist() == [3, 3]
    assert a.sum(axis=-2).tolist() == [1, 3, 2]
    assert float(ts.norm(a)) == pytest.approx(14**0.5)
    none = ts.CSRMatrix.from_dense(torch.zeros(2, 0))
    assert (none @ torch.zeros(4, 0, 3)).shape == (4, 2, 3)
    assert (torch.zeros(4, 3, 2) @ none).shape == (4, 3, 0)
    b = a.to(torch.float64)
    for _ in range(3):
        b @ torch.ones(3, dtype=torch.float64)
    assert torch.equal(pickle.loads(pickle.dumps(b)).to_dense(), copy.deepcopy(b).to_dense())


@given(st.data())
def test_every_malformed_structure_is_refused(data):
    """Against a plain walk over rows: what is in order is taken, all else is refused."""
    rows, columns = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 6))
    indices = data.draw(st.lists(st.integers(-1, columns), max_size=8))
    inner = data.draw(st.lists(st.integers(0, len(indices)), min_size=max(rows - 1, 0), max_size=max(rows - 1, 0)))
    indptr = [0, *(sorted(inner) if data.draw(st.booleans()) else inner), len(indices)] if rows else [0]
    spans = [indices[lo:hi] for lo, hi in itertools.pairwise(indptr)]
    good = indptr == sorted(indptr) and indptr[-1] == len(indices)
    good = good and all(span == sorted(set(span)) and all(0 <= c < columns for c in span) for span in spans)
    values = torch.ones(len(indices))
    if good:
        assert ts.CSRMatrix(indptr, indices, values, (rows, columns)).nnz == len(indices)
    else:
        with pytest.raises(ArgumentError):
            ts.CSRMatrix(indptr, indices, values, (rows, columns))


@together("kind", KINDS)
@together("other", KINDS)
@together("shape", [(5, 5), (7, 4)])
def test_sums_and_products_of_any_two_formats(kind, other, shape):
    # A second matrix in compressed columns was read as its transpose.
    x, y = random(*shape, density=0.5), random(*shape, density=0.5, seed=1)
    a, b = kind.from_dense(torch.from_numpy(x.toarray())), other.from_dense(torch.from_numpy(y.toarray()))
    assert np.array_equal(ts.add(a, b, alpha=2.0).to_dense().numpy(), 2 * x.toarray() + y.toarray())
    assert np.array_equal(ts.multiply(a, b).to_dense().numpy(), x.toarray() * y.toarray())
    assert np.array_equal(ts.spgemm(a, b, trans_b=True).to_dense().numpy(), x.toarray() @ y.toarray().T)
    assert type(ts.add(a, b)) is kind


def test_blocks_of_products_without_terms_or_columns():
    a = ts.BSRMatrix.from_dense(torch.ones(4, 6), 2)
    assert ts.sddmm(a, torch.empty(4, 0), torch.empty(0, 6)).to_dense().eq(0).all()
    assert ts.spmm(a, torch.empty(6, 0)).shape == (4, 0)


SQUARE = np.array([[4.0, 1, 0, 0], [1, 5, 2, 0], [0, 2, 6, 0], [0, 0, 0, 7]])
SIDE = np.arange(1.0, 5.0)
# every public function of a sparse matrix, called with any kind of one and a dense operand of any kind
CALLS = {
    "add": lambda a, d: ts.add(a, a),
    "bandwidth": lambda a, d: ts.bandwidth(a),
    "cg": lambda a, d: ts.cg(a, d, tol=1e-12).x,
    "chebyshev": lambda a, d: ts.chebyshev(a, d, smallest=1.0, largest=9.0, tol=1e-12).x,
    "choose": lambda a, d: ts.choose(a, 1, where="host").format,
    "coloring": lambda a, d: ts.coloring(a).count,
    "ic0": lambda a, d: ts.ic0(a),
    "ilu0": lambda a, d: ts.ilu0(a)[1],
    "kron": lambda a, d: ts.kron(a, a),
    "multiply": lambda a, d: ts.multiply(a, a),
    "norm": lambda a, d: ts.norm(a),
    "power_iteration": lambda a, d: ts.power_iteration(a, x0=d, tol=1e-9).vector,
    "reverse_cuthill_mckee": lambda a, d: ts.reverse_cuthill_mckee(a),
    "richardson": lambda a, d: ts.richardson(a, d, omega=0.2, tol=1e-12).x,
    "scale_columns": lambda a, d: ts.scale_columns(a, d),
    "scale_rows": lambda a, d: ts.scale_rows(a, d),
    "screened_spmm": lambda a, d: ts.screened_spmm(a, d, d, d[:, None], 2.0),
    "sddmm": lambda a, d: ts.sddmm(a, d[:, None], d[None]),
    "shard_rows": lambda a, d: ts.shard_rows(a, (1,)).local,
    "solve_triangular": lambda a, d: ts.solve_triangular(a, d),
    "spgemm": lambda a, d: ts.spgemm(a, a),
    "spmm": lambda a, d: ts.spmm(a, d[:, None]),
    "spmm_op": lambda a, d: ts.spmm_op(a, d, multiply=torch.add, add="amin"),
    "spmv": lambda a, d: ts.spmv(a, d),
    "triangle": lambda a, d: ts.triangle(a),
}
LAYOUTS = {"coo": torch.sparse_coo, "csr": torch.sparse_csr, "csc": torch.sparse_csc, "bsr": torch.sparse_bsr}
STRANGERS = [(sp.csr_array, name) for name in ("csr", "coo", "bsr", "dia", "dok")]
STRANGERS += [(sp.csr_matrix, name) for name in ("csr", "csc", "lil")] + [(torch, name) for name in LAYOUTS]


def stranger(library, name):
    if library is not torch:
        return library(SQUARE).asformat(name)
    block = (2, 2) if name == "bsr" else None
    return torch.from_numpy(SQUARE).to_sparse(layout=LAYOUTS[name], blocksize=block)


def test_every_function_of_a_sparse_matrix_is_tried_with_those_of_others():
    functions = {name: getattr(ts, name) for name in ts.__all__ if inspect.isroutine(getattr(ts, name))}
    kinds = {name: str(inspect.signature(function).parameters) for name, function in functions.items()}
    assert {name for name, text in kinds.items() if "SparseMatrix" in text} == set(CALLS)
    # whoever takes ours takes the others
    assert not [name for name, text in kinds.items() if "SparseMatrix" in text.replace("SparseMatrixLike", "")]


@together(("library", "name"), STRANGERS)
def test_functions_take_matrices_of_scipy_and_torch(library, name):
    matrix, ours = stranger(library, name), ts.CSRMatrix.from_dense(SQUARE)
    if name in LAYOUTS:
        block = {"block": getattr(matrix, "blocksize", (2, 2))} if name == "bsr" else {}
        ours = getattr(ours, f"to_{name}")(**block)
    side = torch.from_numpy(SIDE)
    for call in CALLS.values():
        want, got = call(ours, side), call(matrix, side if library is torch else SIDE)
        if isinstance(want, torch.Tensor):
            # dense results are in kind
            assert type(got) is (torch.Tensor if library is torch else np.ndarray)
            np.testing.assert_array_equal(np.asarray(got), want.numpy())
        elif isinstance(want, ts.SparseMatrix):
            # sparse results are ours
            assert isinstance(got, ts.SparseMatrix)
            np.testing.assert_array_equal(got.to_dense().numpy(), want.to_dense().numpy())
        else:
            assert got == want
    assert ts.add(matrix, matrix).format == ours.format
    for result in (ours @ matrix, ours + matrix, ours * matrix, ours - matrix):
        assert isinstance(result, ts.SparseMatrix)
    np.testing.assert_array_equal((ours @ matrix).to_dense().numpy(), SQUARE @ SQUARE)


def test_gradients_reach_the_matrix_of_torch_and_dense_ones_are_refused_by_name():
    matrix = stranger(torch, "csr").requires_grad_()
    ts.spmv(matrix, torch.from_numpy(SIDE)).sum().backward()
    np.testing.assert_array_equal(matrix.grad.to_dense().numpy(), (SQUARE != 0) * SIDE)
    for dense in (SQUARE, torch.from_numpy(SQUARE)):
        with pytest.raises(DtypeError, match=r"a is 'a dense tensor', expected .* of SciPy or torch.*from_dense"):
            ts.norm(dense)


@together("shape", SHAPES)
def test_formats_of_other_libraries_keep_every_entry(shape):
    dense = torch.from_numpy(random(*shape).toarray())
    a = ts.CSRMatrix.from_dense(dense)
    longest = int(a.indptr.diff().max()) if shape[0] else 0
    written = [ts.ELL.of(a), ts.ELL.of(a, width=longest + 2), *(ts.HYB.of(a, width=w) for w in ("auto", "max", 0, 1))]
    written += [ts.BlockedELL.of(a, b) for b in (1, 3)] + [a.to_sell(s) for s in (1, 4)]
    for made in written:
        assert made.shape == shape
        assert torch.equal(made.to_csr().to_dense(), dense)
    # columns in any order are read
    turned = ts.ELL(written[0].columns.flip(1), written[0].values.flip(1), shape)
    assert torch.equal(turned.to_csr().to_dense(), dense)
    blocks = written[6]
    turned = ts.BlockedELL(blocks.columns.flip(1), blocks.values.flip(1), shape)
    assert torch.equal(turned.to_csr().to_dense(), dense)


def test_the_automatic_width_stores_the_fewest_numbers():
    a = ts.CSRMatrix.from_dense(torch.from_numpy(random(40, 30).toarray()))
    lengths = a.indptr.diff()
    stored = {w: 2 * 40 * w + 3 * int((lengths - w).clamp_min(0).sum()) for w in range(int(lengths.max()) + 1)}
    made = ts.HYB.of(a)
    assert 2 * made.ell.values.numel() + 3 * made.coo.nnz == min(stored.values())


def test_gradients_flow_through_foreign_formats_and_errors_name_the_cause():
    a = ts.CSRMatrix.from_dense(torch.from_numpy(random(6, 5).toarray()))
    values = a.values.clone().requires_grad_()

    def there_and_back(v):
        b = a.with_values(v)
        made = [ts.ELL.of(b), ts.HYB.of(b, width=1), ts.BlockedELL.of(b, 2), b.to_sell(4)]
        return torch.stack([ts.spmv(each.to_csr(), torch.arange(5.0, dtype=torch.float64)) for each in made])

    assert torch.autograd.gradcheck(there_and_back, (values,))
    longest = int(a.indptr.diff().max())
    with pytest.raises(ArgumentError, match=f"at least {longest}"):
        ts.ELL.of(a, width=longest - 1)
    with pytest.raises(ArgumentError, match="-1 to 4"):
        ts.ELL(torch.full((6, 1), 5), torch.ones(6, 1), (6, 5))
    with pytest.raises(ArgumentError, match="columns"):
        ts.ELL(torch.zeros(6, 1, dtype=torch.int64), torch.ones(6, 2), (6, 5))
    with pytest.raises(ArgumentError, match="shape of values"):
        ts.BlockedELL(torch.zeros(3, 1, dtype=torch.int64), torch.ones(6, 3), (6, 5))
    with pytest.raises(ArgumentError, match="offsets"):
        ts.SELLMatrix(2, torch.tensor([0, 2]), torch.zeros(2, dtype=torch.int64), torch.ones(2), (6, 5))
    for offsets in ([0, 4, 2, 2], [2, 2, 2, 2]):
        with pytest.raises(ArgumentError, match="grow from 0 to 2"):
            ts.SELLMatrix(2, torch.tensor(offsets), torch.zeros(2, dtype=torch.int64), torch.ones(2), (6, 5))
    for made, count in ((ts.ELL, 2), (ts.BlockedELL, 2)):
        with pytest.raises(DtypeError, match="is ndarray, expected a tensor"):
            made(*[np.zeros((6, 1))] * count, (6, 5))
    assert torch.equal(a.with_values(values.detach().numpy()).values, values)
    with pytest.raises(ArgumentError, match="width"):
        ts.HYB.of(a, width=-1)


@together("n", [0, 1, 9, 60])
def test_rows_of_one_colour_share_no_entry(n):
    a = ts.CSRMatrix.from_scipy(random(n, n, 0.1))
    made = ts.coloring(a)
    dense = a.to_dense()
    joined = ((dense != 0) | (dense.T != 0)) & ~torch.eye(n, dtype=torch.bool)
    same = made.colors[:, None] == made.colors[None, :]
    assert not bool((joined & same).any())
    assert made.count == len(made.colors.unique()) <= int(joined.sum(1).max()) + 1 if n else made.count == 0
    assert torch.equal(made.colors[made.order], made.colors.sort().values)
    part = ts.coloring(a, fraction=0.5)
    assert not bool((joined & (part.colors[:, None] == part.colors[None, :])).any())
    with pytest.raises(ArgumentError, match="0 to 1"):
        ts.coloring(a, fraction=2.0)


@pytest.mark.parametrize("vector", [False, True])
def test_products_over_semirings_are_those_of_dense_loops(vector):
    source = random(7, 9)
    a, dense = ts.CSRMatrix.from_scipy(source), torch.from_numpy(source.toarray())
    b = gaussian((9,) if vector else (9, 3), 1, dtype=torch.float64)
    wide = b.reshape(9, -1)
    absent = dense == 0
    for multiply, add, neutral in ((torch.add, "amin", float("inf")), (torch.maximum, "amax", -float("inf"))):
        terms = multiply(dense.unsqueeze(-1), wide.unsqueeze(0))
        exact = getattr(torch.where(absent.unsqueeze(-1), neutral, terms), add)(1).reshape(-1, *b.shape[1:])
        assert torch.equal(ts.spmm_op(a, b, multiply=multiply, add=add), exact)
    torch.testing.assert_close(ts.spmm_op(a, b, epilogue=torch.relu), torch.relu(dense @ b))
    torch.testing.assert_close(ts.spmm_op(a.T, b, trans=True), dense @ b)
    zero = ts.CSRMatrix.from_dense(torch.zeros(2, 9, dtype=torch.float64))
    assert (ts.spmm_op(zero, b, add="amin", empty=-1.0) == -1).all()
    values, right = a.values.clone().requires_grad_(), b.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v, r: ts.spmm_op(a.with_values(v), r, epilogue=torch.tanh), (values, right))
    with pytest.raises(ArgumentError, match="multiply"):
        ts.spmm_op(a, b, multiply=lambda x, y: y.sum())
    with pytest.raises(ArgumentError, match="'sum'"):
        ts.spmm_op(a.to(torch.complex128), b.to(torch.complex128), add="amin")


def test_epilogues_follow_products():
    import trnblas

    a = ts.CSRMatrix.from_scipy(random(7, 9))
    b, bias = gaussian((9, 3), 1, dtype=torch.float64), gaussian((3,), 2, dtype=torch.float64)
    after = trnblas.Epilogue(bias=bias, scale=2.0, activation="gelu")
    out = torch.empty(7, 3, dtype=torch.float64)
    exact = torch.nn.functional.gelu(2 * (a.to_dense() @ b) + bias)
    torch.testing.assert_close(ts.spmm(a, b, epilogue=after, out=out), exact)
    torch.testing.assert_close(out, exact)
    torch.testing.assert_close(ts.spmv(a, b[:, 0], epilogue=torch.relu), torch.relu(a.to_dense() @ b[:, 0]))
    for pattern in (a, a.to_bsr(2)):
        made = ts.sddmm(pattern, gaussian((7, 4), 3, dtype=torch.float64), gaussian((4, 9), 4, dtype=torch.float64))
        ended = ts.sddmm(
            pattern,
            gaussian((7, 4), 3, dtype=torch.float64),
            gaussian((4, 9), 4, dtype=torch.float64),
            epilogue=torch.exp,
        )
        assert torch.equal(ended.to_coo().values, made.to_coo().values.exp())
    with pytest.raises(ArgumentError, match="epilogue"):
        ts.spmm(a, b, epilogue=lambda x: x.sum())


@together("kind", ["coo", "csr", "csc", "bsr"])
def test_values_that_their_owner_resized_are_refused_and_never_read(kind):
    a = getattr(ts.CSRMatrix.from_scipy(random(8, 8)), f"to_{kind}")(*([2] if kind == "bsr" else []))
    b = torch.ones(8, 2, dtype=torch.float64)
    ts.spmm(a, b)
    a.values.resize_(0)
    calls = (lambda: ts.spmm(a, b), lambda: ts.norm(a), lambda: a.to_scipy(), lambda: a.to_torch(), lambda: a.T, repr)
    for call in calls:
        with pytest.raises(ArgumentError, match=r"values has length=\(0,\).*resized"):
            call(a) if call is repr else call()


@together(("kind", "part", "value"), itertools.product(["csr", "csc"], ["indptr", "indices"], [10**6, -4]))
def test_patterns_of_scipy_that_leave_their_arrays_are_refused(kind, part, value):
    a = random(8, 8).asformat(kind)
    getattr(a, part)[3] = value
    for call in (lambda: ts.spmv(a, np.ones(8)), lambda: ts.BSRMatrix.from_scipy(a, 2), lambda: ts.add(a, a)):
        with pytest.raises(ArgumentError, match=r"pattern is .* pointers that rise from 0"):
            call()


def test_indices_written_behind_torchs_back_never_reach_scipy():
    for a in (ts.CSRMatrix.from_scipy(random(8, 8)), ts.BSRMatrix.from_scipy(random(8, 8), 2)):
        before = a.to_scipy()
        a.indices.numpy()[:] = 10**6
        assert np.array_equal(a.to_scipy().toarray(), before.toarray())


def _bands(rows, columns, dtype=torch.float32):
    dense = torch.zeros(rows, columns, dtype=dtype)
    for offset in (-3, 0, 1, 4):
        line = torch.diagonal(dense, offset) if -rows < offset < columns else None
        if line is not None:
            line.copy_(gaussian(tuple(line.shape), 5 + offset, dtype))
    return dense


@pytest.mark.parametrize("shape", [(9, 9), (5, 12), (12, 5), (1, 1), (0, 4), (4, 0)], ids=str)
def test_diagonals_are_scipys(shape, tmp_path):
    dense = _bands(*shape)
    a = ts.DIAMatrix.from_dense(dense)
    assert torch.equal(a.to_dense(), dense)
    assert torch.equal(a.T.to_dense(), dense.T)
    wanted = sp.dia_array(dense.numpy())
    assert (a.to_scipy() != wanted).nnz == 0
    assert torch.equal(ts.DIAMatrix.from_scipy(wanted).to_dense(), dense)
    assert torch.equal(ts.DIAMatrix.from_torch(a.to_torch()).to_dense(), dense)
    assert a.nnz == a.to_csr().nnz == a.to_coo().to_dia().nnz
    for dtype in (torch.float32, torch.bfloat16):
        path = tmp_path / f"{dtype}.npz"
        a.to(dtype).save(path)
        read = ts.load(path)
        assert read.format == "dia"
        assert torch.equal(read.to_dense(), dense.to(dtype))
    x = gaussian((shape[1],), 9)
    assert torch.equal(a @ x, a.to_csr() @ x)
    assert torch.equal((2 * a).to_dense(), 2 * dense)
    assert (a + a).format == "dia"


@pytest.mark.parametrize("kind", [ts.DIAMatrix, ts.SELLMatrix])
def test_gradients_flow_through_diagonals_and_slices(kind):
    values = _bands(7, 7, torch.float64)
    a = kind.from_dense(values)
    x = gaussian((7, 2), 1, torch.float64).requires_grad_()

    def product(values, x):
        return ts.spmm(a.with_values(values), x, trans=True) + a.with_values(values).T @ x

    assert torch.autograd.gradcheck(product, (a.values.clone().requires_grad_(), x))


@pytest.mark.parametrize("size", [1, 3, 32])
@pytest.mark.parametrize("shape", [(9, 9), (5, 12), (12, 5), (1, 1), (0, 4), (4, 0)], ids=str)
def test_slices_are_scipys(shape, size, tmp_path):
    dense = _bands(*shape)
    a = ts.CSRMatrix.from_dense(dense).to_sell(size)
    assert torch.equal(a.to_dense(), dense)
    assert a.T.format == a[1:].format == (a + a).format == "sell"
    assert torch.equal(a.T.to_dense(), dense.T)
    assert torch.equal(a[:, ::2].to_dense(), dense[:, ::2])
    assert (a.to_scipy() != sp.csr_array(dense.numpy())).nnz == 0
    assert torch.equal(ts.SELLMatrix.from_scipy(sp.coo_array(dense.numpy())).to_dense(), dense)
    assert torch.equal(ts.SELLMatrix.from_torch(dense.to_sparse_csr()).to_dense(), dense)
    assert a.nnz == a.to_csr().nnz == int((dense != 0).sum())
    for dtype in (torch.float32, torch.bfloat16):
        path = tmp_path / f"{dtype}.npz"
        a.to(dtype).save(path)
        read = ts.load(path)
        assert (read.format, int(read.size)) == ("sell", size)
        assert torch.equal(read.to_dense(), dense.to(dtype))
    x = gaussian((shape[1], 2), 9)
    assert torch.equal(a @ x, a.to_csr() @ x)
    left, right = gaussian((shape[0], 3), 1), gaussian((3, shape[1]), 2)
    sampled = ts.sddmm(a, left, right)
    assert sampled.format == "sell"
    assert torch.equal(sampled.to_dense(), ts.sddmm(a.to_csr(), left, right).to_dense())


def test_slices_in_any_order_and_what_pads_them():
    columns, values = [2, 0, 0, -1], torch.tensor([1.0, 2.0, 3.0, torch.nan])
    a = ts.SELLMatrix(2, [0, 4], columns, values, (2, 3))
    assert torch.equal(a.to_dense(), torch.tensor([[3.0, 0.0, 1.0], [2.0, 0.0, 0.0]]))
    assert torch.equal(a @ torch.ones(3), torch.tensor([4.0, 2.0]))
    assert torch.equal(a.with_values(2 * values) @ torch.ones(3), torch.tensor([8.0, 4.0]))


@pytest.mark.parametrize(("kind", "size"), [("to_dia", ()), ("to_sell", (3,))])
def test_conversions_keep_their_pattern_for_the_next_product(kind, size):
    a = getattr(ts.CSRMatrix.from_dense(_bands(7, 7)), kind)(*size)
    first, second = a.to_csr(), a.with_values(2 * a.values).to_csr()
    assert first.indptr is second.indptr
    assert first.indices is second.indices


@pytest.mark.parametrize(
    ("offsets", "values", "text"),
    [
        ([1, 0], torch.ones(2, 3), "rising offsets between -2 and 2"),
        ([3], torch.ones(1, 3), "rising offsets between -2 and 2"),
        ([0], torch.ones(1, 4), "shape of values is (1, 4)"),
        ([0, 1], torch.ones(1, 3), "length"),
    ],
)
def test_malformed_diagonals_are_refused(offsets, values, text):
    with pytest.raises(ArgumentError) as caught:
        ts.DIAMatrix(offsets, values, (3, 3))
    assert text in str(caught.value)
