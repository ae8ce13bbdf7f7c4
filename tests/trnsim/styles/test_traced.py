"""Kernels as NKI 0.7 lets them be written: all of Python, tiles and blocks, scalars and loops of the device."""

import collections
import enum
import functools
import itertools
from dataclasses import dataclass

import numpy as np
import pytest

import trnsim
from trnsim import isa as nisa, language as nl

pytestmark = pytest.mark.sim

F32, I32 = np.float32, np.int32


def gaussian(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


def loaded(x):
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def stored(tile):
    out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def evicted(psum):
    tile = nl.ndarray(psum.shape, psum.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=psum)
    return tile


def strictly(kernel, *args, **kwargs):
    return trnsim.simulate(kernel, lint="strict")(*args, **kwargs)


# -- Python ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tiling:
    m: int = 128
    n: int = 512
    k: int = 128

    def corners(self, *, rows, columns):
        yield from itertools.product(range(0, rows, self.m), range(0, columns, self.n))


class Phase:
    """A context manager that counts how often it was entered and left."""

    def __init__(self):
        self.events = collections.Counter()

    def __enter__(self):
        self.events["entered"] += 1
        return self

    def __exit__(self, *error):
        self.events["left"] += 1
        return False


class Plain:
    def finish(self, tile):
        return tile


class Rectified(Plain):
    def finish(self, tile):
        tile = super().finish(tile)
        nisa.activation(dst=tile, op=nl.relu, data=tile)
        return tile


def product(aT, b, *, tiling=None, layer=None):
    tiling = tiling or Tiling()
    layer = layer or Rectified()
    (K, M), N = aT.shape, b.shape[1]
    out = nl.ndarray((M, N), nl.float32, buffer=nl.shared_hbm)
    with Phase() as phase:
        for m, n in tiling.corners(rows=M, columns=N):
            rows, columns = slice(m, min(M, m + tiling.m)), slice(n, min(N, n + tiling.n))
            psum = nl.ndarray((rows.stop - m, columns.stop - n), nl.float32, buffer=nl.psum)
            for i, k in enumerate(range(0, K, tiling.k)):
                part = slice(k, min(K, k + tiling.k))
                nisa.nc_matmul(
                    dst=psum, stationary=loaded(aT[part, rows]), moving=loaded(b[part, columns]), accumulate=i > 0
                )
            nisa.dma_copy(dst=out[rows, columns], src=layer.finish(evicted(psum)))
    assert phase.events == {"entered": 1, "left": 1}
    return out


def test_a_product_of_classes_generators_and_contexts():
    a, b = gaussian(200, 150), gaussian(200, 600, seed=1)
    np.testing.assert_allclose(strictly(product, a, b), np.maximum(a.T @ b, 0), atol=1e-3)
    np.testing.assert_allclose(strictly(product, a, b, layer=Plain()), a.T @ b, atol=1e-3)


class Act(enum.Enum):
    RELU = enum.auto()
    SQUARE = enum.auto()


Config = collections.namedtuple("Config", "act scale")


def summed(x, config, others):
    def tree(tiles):
        if len(tiles) == 1:
            return tiles[0]
        half = len(tiles) // 2
        left, right = tree(tiles[:half]), tree(tiles[half:])
        nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
        return left

    match config.act:
        case Act.RELU:
            op = nl.relu
        case Act.SQUARE:
            op = nl.square
    total = tree([loaded(t) for t in (x, *others)])
    nisa.activation(dst=total, op=op, data=total, scale=config.scale)
    shift = functools.partial(nisa.tensor_scalar, op0=nl.add)
    shift(dst=total, data=total, operand0=float(sum(i for i in range(3))))
    return stored(total)


@pytest.mark.parametrize("kind", [list, tuple])
def test_recursion_named_tuples_and_match(kind):
    x = [gaussian(8, 6, seed=i) for i in range(4)]
    got = strictly(summed, x[0], Config(Act.SQUARE, 2.0), kind(x[1:]))
    np.testing.assert_allclose(got, (2 * sum(x)) ** 2 + 3, rtol=1e-5)


def transformed(x):
    n = x.shape[0]
    angles = 2 * np.pi * np.outer(np.arange(n), np.arange(n)) / n
    psum = nl.ndarray((n, x.shape[1]), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=psum, stationary=loaded(nl.shared_constant(np.cos(angles).astype(F32))), moving=loaded(x))
    return stored(evicted(psum))


def test_tables_that_numpy_computes():
    x = gaussian(64, 32)
    np.testing.assert_allclose(trnsim.simulate(transformed)(x), np.fft.fft(x, axis=0).real, atol=1e-3)


def copies(**named):
    made = {name: stored(loaded(x)) for name, x in named.items()}
    return tuple(made[name] for name in sorted(made, reverse=True))


def test_arguments_of_any_name():
    a, b = gaussian(4, 6), gaussian(4, 6, seed=1)
    got = trnsim.simulate(copies)(a=a, b=b)
    np.testing.assert_array_equal(got[0], b)
    np.testing.assert_array_equal(got[1], a)


# -- tiles and blocks ------------------------------------------------------------------------------------------------


def tiled_product(aT, b):
    """Operands are held on chip as packed grids; the last tiles are as small as they are."""
    out = nl.ndarray((aT.shape[1], b.shape[1]), nl.float32, buffer=nl.shared_hbm)
    held = {}
    for name, source, tile in (("a", aT, (128, 128)), ("b", b, (128, 512))):
        held[name] = nl.alloc_tiles(tile_shape=tile, element_shape=source.shape, buffer=nl.sbuf, dtype=source.dtype)
        from_hbm = nl.tiles(source, tile_shape=tile)
        for i, j in np.ndindex(*from_hbm.shape):
            nisa.dma_copy(dst=held[name][i, j].data, src=from_hbm[i, j].data)
    results = nl.tiles(out, tile_shape=(128, 512))
    for m, n in np.ndindex(*results.shape):
        psum = nl.ndarray(results[m, n].element_shape, nl.float32, buffer=nl.psum)
        for k in range(held["a"].shape[0]):
            nisa.nc_matmul(dst=psum, stationary=held["a"][k, m].data, moving=held["b"][k, n].data, accumulate=k > 0)
        nisa.dma_copy(dst=results[m, n].data, src=evicted(psum))
    return out


def blocked_product(aT, b):
    """Blocks are loaded, tiles computed with; storage for a block is made like the block."""
    left = nl.blocks(aT, tile_shape=(128, 128), block_shape=(2, 1))
    right = nl.blocks(b, tile_shape=(128, 256), block_shape=(2, 2))
    out = nl.alloc_tiles(
        tile_shape=(128, 256), element_shape=(aT.shape[1], b.shape[1]), buffer=nl.shared_hbm, dtype=nl.float32
    )
    targets = nl.blocks(out, block_shape=(1, 2))
    for m, n in np.ndindex(*targets.shape):
        cells = nl.tiles(targets[m, n])
        psums = [nl.ndarray(cells[0, j].element_shape, nl.float32, buffer=nl.psum) for j in range(cells.shape[1])]
        for k in range(left.shape[0]):
            parts = []
            for block in (left[k, m], right[k, n]):
                copy = nl.tiles(nl.empty_like(block, buffer=nl.sbuf))
                for p, q in np.ndindex(*copy.shape):
                    nisa.dma_copy(dst=copy[p, q].data, src=nl.tiles(block)[p, q].data)
                parts.append(copy)
            for p, (j, psum) in itertools.product(range(parts[0].shape[0]), enumerate(psums)):
                nisa.nc_matmul(
                    dst=psum, stationary=parts[0][p, 0].data, moving=parts[1][p, j].data, accumulate=(k, p) != (0, 0)
                )
        for j, psum in enumerate(psums):
            nisa.dma_copy(dst=cells[0, j].data, src=evicted(psum))
    return out.data


@pytest.mark.parametrize("kernel", [tiled_product, blocked_product])
def test_products_on_grids_with_remainders(kernel):
    a, b = gaussian(500, 200), gaussian(500, 900, seed=1)
    np.testing.assert_allclose(strictly(kernel, a, b), a.T @ b, atol=2e-3)


# -- scalars and loops of the device ---------------------------------------------------------------------------------


def softmax_rows(x):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)

    def body(i):
        tile = nl.ndarray((128, columns), x.dtype, buffer=nl.sbuf)
        top, total = (nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf) for _ in range(2))
        pattern = {"pattern": [[columns, 128], [1, columns]], "scalar_offset": i * 128, "indirect_dim": 0}
        nisa.dma_copy(dst=tile, src=x.ap(**pattern))
        nisa.tensor_reduce(dst=top, op=nl.maximum, data=tile, axis=1, negate=True)
        nisa.activation(
            dst=tile,
            op=nl.exp,
            data=tile,
            bias=top,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out.ap(**pattern), src=tile)

    nl.fori_loop(0, rows // 128, body)
    return out


def test_softmax_in_a_loop_of_the_device():
    x = gaussian(384, 300)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(strictly(softmax_rows, x), e / e.sum(axis=1, keepdims=True), rtol=1e-4)


def pages_of(cache, table):
    """A paged cache: pages are addressed by scalars of 64 bits, which reach beyond 4 GB."""
    _, tokens, width = cache.shape
    out = nl.ndarray((table.shape[1] * tokens, width), cache.dtype, buffer=nl.shared_hbm)
    for j, page in enumerate([nisa.scalar_load(table[0:1, j : j + 1]) for j in range(table.shape[1])]):
        source = cache.ap([[width, tokens], [1, width]], scalar_offset=page * (tokens * width), indirect_dim=2)
        nisa.dma_copy(dst=out[j * tokens : (j + 1) * tokens], src=source)
    return out


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_pages_are_addressed_by_scalars(dtype):
    cache, table = gaussian(8, 4, 16), np.array([[5, 0, 7]], dtype)
    np.testing.assert_array_equal(strictly(pages_of, cache, table), cache[table[0]].reshape(12, 16))


def negated_if(x, flag):
    """A branch of the device: a loop of one turn or none."""
    tile = loaded(x)

    def negate(_):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=-1.0)

    nl.fori_loop(0, nisa.scalar_load(loaded(flag)), negate)
    return stored(tile)


@pytest.mark.parametrize("flag", [0, 1])
def test_a_loop_of_one_turn_or_none_is_a_branch(flag):
    x = gaussian(4, 6)
    np.testing.assert_array_equal(trnsim.simulate(negated_if)(x, np.array([[flag]], I32)), -x if flag else x)


def row_updated(x, row):
    tile = nl.ndarray((1, x.shape[1]), x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=7.0)
    place = x.ap([[x.shape[1], 1], [1, x.shape[1]]], scalar_offset=nisa.scalar_load(row), indirect_dim=0)
    nisa.dma_copy(dst=place, src=tile)
    return x


def test_an_argument_is_changed_in_place_and_returned():
    x = np.zeros((4, 6), F32)
    got = strictly(row_updated, x, np.array([[2]], I32))
    np.testing.assert_array_equal(got, np.array([0, 0, 7, 0], F32)[:, None] * np.ones(6, F32))


def collatz(n):
    """While the number is not 1, halve it or take three times it plus one; count the turns."""
    value, turns = loaded(n), nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=turns, value=0)
    half, more, rest = (nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf) for _ in range(3))
    odd = nl.ndarray((1, 1), nl.uint8, buffer=nl.sbuf)

    def distance():
        nisa.tensor_scalar(dst=rest, data=value, op0=nl.subtract, operand0=1)
        register = nisa.register_alloc()
        nisa.register_load(register, rest)
        return register

    def body(_):
        nisa.tensor_scalar(dst=half, data=value, op0=nl.bitwise_and, operand0=1)
        nisa.tensor_copy(dst=odd, src=half)
        nisa.tensor_scalar(dst=half, data=value, op0=nl.right_shift, operand0=1)
        nisa.tensor_scalar(dst=more, data=value, op0=nl.multiply, operand0=3, op1=nl.add, operand1=1)
        nisa.tensor_copy(dst=value, src=half)
        nisa.tensor_copy_predicated(dst=value, src=more, predicate=odd)
        nisa.tensor_scalar(dst=turns, data=turns, op0=nl.add, operand0=1)
        return distance()

    nl.while_loop(distance(), body)
    return stored(turns)


@pytest.mark.parametrize(("n", "turns"), [(1, 0), (6, 8), (27, 111)])
def test_a_loop_that_ends_when_the_device_says_so(n, turns):
    assert trnsim.simulate(collatz)(np.array([[n]], I32))[0, 0] == turns
