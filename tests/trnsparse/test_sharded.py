"""Sparse times dense with the matrix cut along rows, against SciPy in float64, by the bound of the op."""

import itertools

import numpy as np
import pytest
import scipy.sparse
import torch

import trnsci
import trnsparse
from trnsci import distributed
from trnsci.distributed import Layout
from trnsci.memory import MemoryMeter

# rows, columns, share of entries
SHAPES = ((13, 9, 0.3), (9, 13, 0.2), (2, 5, 0.5), (7, 1, 0.4), (0, 4, 0.0), (6, 6, 0.0), (12, 8, 1.0))


def _matrix(rows, columns, share, seed=0):
    a = scipy.sparse.random(rows, columns, share, "csr", random_state=np.random.default_rng(seed)).tolil()
    # rows without entries in the middle and at the end
    a[rows // 2 : rows // 2 + 2] = 0
    return scipy.sparse.csr_array(a)


def _ours(a, kind):
    made = trnsparse.CSRMatrix.from_scipy(a)
    return made if kind == "csr" else made.to_csc() if kind == "csc" else made.to_bsr(kind)


def _dense(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape)


def _products(mesh_shape, kinds, places):
    """Every product that leaves its bound, of all shapes, formats and placements."""
    mesh, wrong = distributed.mesh(*mesh_shape), []
    for (rows, columns, share), kind, place in itertools.product(SHAPES, kinds, places):
        a, b, x = _matrix(rows, columns, share), _dense(columns, 3), _dense(columns, seed=2)
        cut = trnsparse.shard_rows(_ours(a, kind), mesh)
        bound = (columns + 2) * 2**-53
        made = cut @ distributed.shard(torch.from_numpy(b), mesh, *place)
        got = distributed.gather(made).numpy(force=True)
        if got.shape != (rows, 3) or not np.all(abs(got - a @ b) <= bound * (abs(a) @ abs(b))):
            wrong.append((rows, columns, kind, place))
        vector = cut @ distributed.shard(torch.from_numpy(x), mesh, *[p if p == 0 else None for p in place])
        if not np.all(abs(distributed.gather(vector).numpy(force=True) - a @ x) <= bound * (abs(a) @ abs(x))):
            wrong.append((rows, columns, kind, place, "vector"))
        if made.placements[0] != torch.distributed.tensor.Shard(0):
            wrong.append((rows, columns, kind, place, made.placements))
    return wrong


@pytest.mark.parametrize(
    ("size", "kinds"),
    [
        pytest.param(1, ("csr", 4), marks=pytest.mark.slow),
        (2, ("csc", 4)),
        (3, ("csr", (2, 3))),
        pytest.param(4, ("csr", 4), marks=pytest.mark.slow),
    ],
)
def test_products(ranks, size, kinds):
    assert ranks(size).run(_products, (size,), kinds, ((0,), (1,), (None,))) == [[]] * size


@pytest.mark.slow
def test_products_on_a_grid(ranks):
    assert ranks(4).run(_products, (2, 2), ("csr", 4), ((0, 1), (1, 0), (0, 0))) == [[]] * 4


def _options():
    mesh = distributed.mesh()
    a, b, c = _matrix(11, 8, 0.4), _dense(2, 8, 3), _dense(2, 11, 3, seed=3)
    cut = trnsparse.shard_rows(trnsparse.CSRMatrix.from_scipy(a).to_bsr(4), mesh)
    spread = [distributed.shard(torch.from_numpy(x), mesh, p) for x, p in ((b, 1), (c, 2))]
    out = distributed.shard(torch.zeros(2, 11, 3, dtype=torch.float64), mesh, 2)
    trnsparse.spmm(cut, spread[0], alpha=2.0, beta=-0.5, c=spread[1], out=out)
    exact = 2 * np.stack([a @ x for x in b]) - 0.5 * c
    y = distributed.shard(torch.ones(11, dtype=torch.float64), mesh, None)
    x = distributed.shard(torch.ones(8, dtype=torch.float64), mesh, 0)
    made = trnsparse.spmv(cut, x, beta=3.0, y=y)
    forms = [trnsparse.spmm(cut, spread[0], format=form) for form in ("auto", "dense", "csr")]
    return (
        *(np.abs(distributed.gather(form).numpy(force=True) - (exact + 0.5 * c) / 2).max() for form in forms),
        np.abs(distributed.gather(out).numpy(force=True) - exact).max(),
        np.abs(distributed.gather(made).numpy(force=True) - (a.sum(1) + 3)).max(),
    )


def test_batches_factors_addends_and_out(ranks):
    # entries up to 1 and dense elements up to 4: the bound of ten terms
    for errors in ranks(3).run(_options):
        assert max(errors) <= 10 * 2**-53 * 100


def _dtypes():
    """Rows keep the order of their entries, so that parts are the bits of one rank's product."""
    mesh, same = distributed.mesh(), []
    a, b = _matrix(11, 8, 0.5), _dense(8, 3)
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.complex64):
        whole = trnsparse.CSRMatrix.from_scipy(a * 10).to(dtype)
        dense = torch.from_numpy(b * 10).to(dtype) * (1j if dtype.is_complex else 1)
        made = trnsparse.shard_rows(whole, mesh) @ distributed.shard(dense, mesh, 0)
        same.append(made.dtype == dtype and torch.equal(distributed.gather(made), whole @ dense))
    return same


def test_dtypes(ranks):
    assert ranks(3).run(_dtypes) == [[True] * 4] * 3


def _banded(n, dtype=torch.float32):
    diagonals = scipy.sparse.diags_array([1.0, 2.0, 3.0], offsets=[-1, 0, 1], shape=(n, n)).tocsr()
    return trnsparse.CSRMatrix.from_scipy(diagonals).to(dtype)


def _observed(kind, n, columns):
    mesh = distributed.mesh()
    matrix = _banded(n) if kind == "csr" else _banded(n).to_bsr(kind)
    a = trnsparse.shard_rows(matrix, mesh)
    b = distributed.shard(torch.ones(n, columns), mesh, 0)
    a @ b
    with trnsci.ledger() as book, MemoryMeter([b.to_local(), *a.held()], "cpu") as meter:
        a @ b
    assert trnsci.plan(trnsparse.spmm, a, b).ranks[mesh.get_rank()].volume == sum(
        exchange.nbytes for exchange in book.exchanges if exchange.kind == "shift"
    )
    # two words per rank to agree on the call
    return sum(exchange.nbytes for exchange in book.exchanges) - 16 * (mesh.size() - 1), meter.peak


def _around(n, reach, k):
    mesh = distributed.mesh()
    matrix = scipy.sparse.diags_array([1.0, 2.0, 3.0, 4.0], offsets=[-1, 0, reach, 1 - n], shape=(n, n)).tocsr()
    b = torch.from_numpy(np.random.default_rng(3).standard_normal((n, k)))
    a = trnsparse.shard_rows(trnsparse.CSRMatrix.from_scipy(matrix), mesh)
    exact = matrix @ b.numpy()
    with trnsci.ledger() as book:
        found = a @ distributed.shard(b, mesh, 0)
    kinds = {exchange.kind for exchange in book.exchanges}
    return kinds, np.allclose(distributed.gather(found).numpy(force=True), exact, rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize("size", [3, pytest.param(4, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_neighbours_pass_rows_to_each_other_round_the_ring(ranks, size):
    cases = [(13, 1, 2), (12, 2, 1), (3, 1, 4), (13, 7, 2), (5, 1, 0)]
    for (n, reach, _), found in zip(cases, ranks(size).each(_around, cases), strict=True):
        for kinds, is_right in found:
            assert is_right
            assert ("shift" in kinds) == (size == 3 or (size == 4 and reach < 7 and n > 5)), (size, n, reach)


@pytest.mark.parametrize("kind", ["csr", 16])
def test_only_what_is_touched_travels_as_planned(ranks, kind):
    n, columns = 400, 50
    matrix = _banded(n) if kind == "csr" else _banded(n).to_bsr(kind)
    a = trnsparse.shard_rows(matrix, (4,))
    plan = distributed.plan(trnsparse.spmm, a, Layout((n, columns), torch.float32, (4,), (0,)))
    found = ranks(4).run(_observed, kind, n, columns)
    assert [rank.volume for rank in plan.ranks] == [volume for volume, _ in found]
    if kind == "csr":
        for rank, (_, peak) in zip(plan.ranks, found, strict=True):
            call = rank.steps[0].call
            # the meter sees torch's functions, so that under it the definition runs, not SciPy
            stated = rank.peak_bytes - call.workspace("host") + call.workspace("pytorch")
            assert peak <= stated <= 1.25 * peak
        # a band reaches one row into each neighbour
        assert [rank.volume for rank in plan.ranks] == [columns * 4 * n for n in (1, 2, 2, 1)]
        assert [rank.messages for rank in plan.ranks] == [1, 2, 2, 1]
        assert plan.flops == 2 * matrix.nnz * columns


def _refused(how):
    mesh = distributed.mesh()
    matrix, b = _banded(6), distributed.shard(torch.ones(6, 2), mesh, 0)
    if how == "whole":
        trnsparse.spmm(matrix, b)
    if how == "trans":
        trnsparse.spmm(trnsparse.shard_rows(matrix, mesh), b, trans=True)
    if how == "K":
        trnsparse.shard_rows(matrix, mesh) @ distributed.shard(torch.ones(5, 2), mesh, 0)
    if how == "dtype":
        trnsparse.shard_rows(matrix, mesh) @ distributed.shard(torch.ones(6, 2).double(), mesh, 0)
    if how == "truth":
        trnsparse.shard_rows(matrix.to(torch.bool), mesh) @ distributed.shard(torch.ones(6, 2).bool(), mesh, 0)
    if how == "format":
        trnsparse.spmm(trnsparse.shard_rows(matrix, mesh), b, format="ell")
    if how == "mesh":
        trnsparse.shard_rows(matrix, distributed.mesh(1, 2)) @ b
    if how == "grad":
        trnsparse.shard_rows(matrix.requires_grad_(), mesh)
    if how == "operand":
        trnsparse.shard_rows(matrix, mesh) @ b.requires_grad_()
    if how == "pattern":
        trnsparse.shard_rows(matrix if mesh.get_rank() else matrix.prune(1.5), mesh) @ b


@pytest.mark.parametrize(
    ("how", "kind", "says"),
    [
        ("whole", trnsci.ArgumentError, "shard_rows(matrix, mesh)"),
        ("trans", trnsci.UnsupportedError, "shard_rows(matrix.T, mesh)"),
        ("K", trnsci.ArgumentError, "K differs: a has K=6, b has K=5"),
        ("dtype", trnsci.DtypeError, "float64"),
        ("truth", trnsci.DtypeError, "numeric"),
        ("format", trnsci.ArgumentError, "ell"),
        ("mesh", trnsci.ArgumentError, "Use one mesh"),
        ("grad", trnsci.ArgumentError, "detach"),
        ("operand", trnsci.UnsupportedError, "no gradient"),
        ("pattern", trnsci.ArgumentError, "nnz=16"),
    ],
)
def test_what_is_refused_says_why(ranks, how, kind, says):
    with pytest.raises(Exception, match="rank") as caught:
        ranks(2).run(_refused, how)
    assert isinstance(caught.value.errors[1], kind)
    assert says in str(caught.value.errors[1])


def _stencil(n):
    """One, minus two, one, shifted: positive definite, and each row touches its neighbours alone."""
    return scipy.sparse.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(n, n), format="csr")


def _solved(n, columns, kind):
    import trnsolver

    mesh = distributed.mesh()
    a = trnsparse.shard_rows(_ours(_stencil(n), kind), mesh)
    b = torch.from_numpy(_dense(n, columns) if columns else _dense(n))
    found = trnsolver.cg(a, distributed.shard(b, mesh, 0), tol=1e-12)
    with trnsci.ledger() as book:
        trnsolver.cg(a, distributed.shard(b, mesh, 0), maxiter=1)
    rows = [exchange.nbytes for exchange in book.exchanges if exchange.kind in ("all_to_all", "shift")]
    return found.converged, distributed.gather(found.x).numpy(force=True), max(rows, default=0)


@pytest.mark.parametrize(
    "size", [1, 2, pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("n", "columns", "kind"), [(50, 3, "csr"), (50, 0, (4, 4)), (3, 1, "csr")])
def test_conjugate_gradients_on_rows(ranks, size, n, columns, kind):
    b = _dense(n, columns) if columns else _dense(n)
    exact = scipy.sparse.linalg.spsolve(_stencil(n).tocsc(), b).reshape(b.shape)
    for converged, x, moved in ranks(size).run(_solved, n, columns, kind):
        assert converged
        # the residual asked for, times a condition number below nine
        assert np.linalg.norm(x - exact) <= 9 * 1e-12 * np.linalg.norm(b)
        # neighbours of a cut travel, or a block of them, and not the vector
        if size > 1 and n == 50:
            # (a block that a cut goes through reaches up to seven rows beyond it)
            assert 0 < moved <= 2 * (1 if kind == "csr" else 7) * max(1, columns) * 8


def _solved_with_a_function():
    import trnsolver

    trnsolver.cg(lambda x: x, distributed.shard(torch.ones(4), distributed.mesh(), 0))


def test_a_function_cannot_be_spread(ranks):
    with pytest.raises(Exception, match="shard_rows") as caught:
        ranks(2).run(_solved_with_a_function)
    assert isinstance(caught.value.errors[0], trnsci.UnsupportedError)


MASKS = {
    "none": (None, lambda q, k: np.ones_like(q + k, dtype=bool)),
    "causal": (trnsparse.causal(), lambda q, k: k <= q),
    "window and sink": (trnsparse.window(3) | trnsparse.sink(2), lambda q, k: (abs(q - k) <= 3) | (k < 2)),
    # the first queries keep no key
    "documents": (
        trnsparse.documents(torch.arange(21) // 8) & trnsparse.causal(-2),
        lambda q, k: (q // 8 == k // 8) & (k <= q - 2),
    ),
}


def _attend(name, places, shapes, dtype):
    mesh = distributed.mesh()
    operands = [torch.from_numpy(_dense(*shape, seed=seed)).to(dtype) for seed, shape in enumerate(shapes)]
    sharded = [distributed.shard(x, mesh, place) for x, place in zip(operands, places, strict=True)]
    made = trnsparse.attention(*sharded, MASKS[name][0], 0.7, block=4)
    assert made.placements[0] == torch.distributed.tensor.Shard(made.ndim - 2)
    return distributed.gather(made).double().numpy(force=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("size", [2, 3, pytest.param(5, marks=pytest.mark.slow)])
def test_attention_in_a_ring_stays_within_the_bound_of_the_op(ranks, size, name, dtype):
    unit, keep = torch.finfo(dtype).eps / 2, MASKS[name][1](np.arange(21)[:, None], np.arange(21))
    for places, shapes in (
        ((0, 0, 0), ((21, 6), (21, 6), (21, 5))),
        ((2, 1, None), ((2, 4, 21, 6), (2, 2, 21, 6), (2, 2, 21, 3))),
    ):
        q, k, v = (
            torch.from_numpy(_dense(*shape, seed=seed)).to(dtype).double().numpy(force=True)
            for seed, shape in enumerate(shapes)
        )
        if q.ndim == 4:
            k, v = (x.repeat(2, 1) for x in (k, v))
        scores = 0.7 * q @ k.swapaxes(-2, -1)
        weights = np.where(keep, np.exp(scores), 0.0)
        expected = weights @ v / np.maximum(weights.sum(-1, keepdims=True), 1e-300)
        # the block of every rank is rounded once more
        terms = 2 * 6 + 2 * 21 + 8 + size
        bound = terms * unit * (1 + 2 * abs(scores).max()) * abs(v).max()
        for made in ranks(size).run(_attend, name, places, shapes, dtype):
            assert np.abs(made - expected).max() <= bound


def _refuse_attention():
    x, short = (distributed.shard(torch.ones(2, n, 4), distributed.mesh(), 1) for n in (4, 2))
    said = []
    for operands, mask in (((x, x, x), lambda b, h, q, k: h <= k), ((x, x, short), None)):
        try:
            trnsparse.attention(*operands, mask)
        except trnsci.TrnError as error:
            said.append(str(error))
    return said


def test_attention_between_ranks_says_what_it_cannot_do(ranks):
    for mask, lengths in ranks(2).run(_refuse_attention):
        assert "reads the index of the batch or of the head" in mask
        assert "K differs: k has K=4, v has K=2" in lengths


def test_a_ring_of_attention_is_as_long_as_the_keys_of_one_rank():
    line = Layout((4096, 64), torch.bfloat16, (16,), (0,))
    ring = distributed.plan(trnsparse.attention, line, line, line)
    assert {x.kind for x in ring.ranks[0].exchanges} == {"shift"}
    assert ring.volume == 15 * 2 * 256 * 64 * 2
    assert ring.peak_bytes < 20 * 256 * 64 * 4
