"""What NKI 0.7 brought: scalars, tiles and blocks, split collectives, and the Python that tracing allows."""

import contextlib
import functools
import math

import numpy as np
import pytest

import trnsim
from tests.trnsim.items.table import item, numbers
from trnsim import collectives as ncc, isa as nisa, language as nl

F32, I32, U32 = np.float32, np.int32, np.uint32
here = functools.partial(item, since="0.7", target="trn2")
equal = np.testing.assert_array_equal


@here("scalar_load/store arithmetic")
def _(run):
    def kernel(a, out):
        i = nisa.scalar_load(a)
        nisa.scalar_store(out, -(i * 100000 - 7 + i))

    equal(run(kernel, np.array([[100000]], I32), out=[((1, 1), I32)]), [[-(1410065408 - 7 + 100000)]])


@here("NkiScalar as fori bound and scalar_offset")
def _(run):
    x = numbers(8, 4)

    def kernel(x, count):
        out = nl.ndarray((8, 4), nl.float32, buffer=nl.shared_hbm)
        n = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
        row = nl.ndarray((1, 4), nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=n, src=count)

        def body(i):
            nisa.dma_copy(dst=row, src=x.ap([[4, 1], [1, 4]], scalar_offset=7 - i, indirect_dim=0))
            nisa.dma_copy(dst=out.ap([[4, 1], [1, 4]], scalar_offset=i, indirect_dim=0), src=row)

        nl.fori_loop(0, nisa.scalar_load(n) * 2, body)
        return out

    equal(run(kernel, x, np.array([[4]], I32)), x[::-1])


@here("NkiScalar class exported")
def _(run):
    def kernel(a, out):
        i = nisa.scalar_load(a)
        assert isinstance(i, nisa.NkiScalar)
        assert isinstance(i + 1, nisa.NkiScalar)
        assert i.dtype == nl.int32
        for use in (bool, int, range, lambda s: [0, 1][s]):
            with pytest.raises(TypeError, match="device only"):
                use(i)
        nisa.scalar_store(out, i)

    equal(run(kernel, np.array([[3]], I32), out=[((1, 1), I32)]), [[3]])


@here("nl.tiles")
def _(run):
    x = numbers(300, 70)

    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        source, target = nl.tiles(x, tile_shape=(128, 32)), nl.tiles(out, tile_shape=(128, 32))
        assert source.shape == (3, 3)
        for i in range(3):
            for j in range(3):
                tile = nl.ndarray(source[i, j].element_shape, x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=tile.data, src=source[i, j].data)
                nisa.dma_copy(dst=target[i, j].data, src=tile.data)
        return out

    equal(run(kernel, x), x)


@here("nl.blocks")
def _(run):
    x = numbers(150, 70)

    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        source = nl.blocks(x, tile_shape=(32, 16), block_shape=(2, 2))
        target = nl.blocks(out, tile_shape=(32, 16), block_shape=(2, 2))
        assert source.shape == (3, 3)
        assert source.block_shape == (2, 2)
        for i in range(3):
            for j in range(3):
                block = nl.ndarray(source[i, j].element_shape, x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=block, src=source[i, j].data)
                parts, cells = nl.tiles(block, tile_shape=(32, 16)), nl.tiles(target[i, j])
                for p in range(cells.shape[0]):
                    for q in range(cells.shape[1]):
                        nisa.dma_copy(dst=cells[p, q].data, src=parts[p, q].data)
        return out

    equal(run(kernel, x), x)


@here("nl.alloc_tiles")
def _(run):
    x = numbers(100, 70)

    def kernel(x):
        out = nl.alloc_tiles(tile_shape=(32, 16), element_shape=x.shape, buffer=nl.shared_hbm, dtype=x.dtype)
        held = nl.alloc_tiles(tile_shape=(32, 16), element_shape=x.shape, buffer=nl.sbuf, dtype=x.dtype)
        source = nl.tiles(x, tile_shape=(32, 16))
        assert held.shape == source.shape == (4, 5)
        for i in range(4):
            nisa.dma_copy(dst=held[i].data, src=source[i].data)
            for j in range(5):
                nisa.dma_copy(dst=out[i, j].data, src=held[i, j].data)
        return out.data

    equal(run(kernel, x), x)


@here("nl.alloc_blocks")
def _(run):
    def kernel(x):
        held = nl.alloc_blocks(
            tile_shape=(16, 8), block_shape=(1, 2), element_shape=(16, 40), buffer=nl.sbuf, dtype=nl.float32
        )
        assert held.shape == (1, 3)
        assert held[0, 2].element_shape == (16, 8)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=held.data, src=x)
        for j in range(3):
            part = nl.blocks(out, tile_shape=(16, 8), block_shape=(1, 2))[0, j]
            nisa.dma_copy(dst=part.data, src=held[0, j].data)
        return out

    x = numbers(16, 40)
    equal(run(kernel, x), x)


@here("NkiGrid/NkiTileGrid/NkiBlockGrid")
def _(run):
    def kernel(x):
        tiles = nl.tiles(x, tile_shape=(8, 16))
        blocks = nl.blocks(tiles, block_shape=(2, 2))
        assert isinstance(tiles, nl.NkiTileGrid)
        assert isinstance(blocks, nl.NkiBlockGrid)
        assert issubclass(nl.NkiTileGrid, nl.NkiGrid)
        assert issubclass(nl.NkiBlockGrid, nl.NkiGrid)
        assert (tiles.shape, tiles[1].shape, tiles[1, 2].shape) == ((3, 3), (3,), ())
        assert (tiles.index_step_elements, blocks.index_step_elements) == ((8, 16), (16, 32))
        assert (tiles.is_remainder, tiles[0, 0].is_remainder, tiles[2, 2].element_shape) == (True, False, (4, 8))
        assert (tiles[::2].is_data_representable, tiles[1:].is_data_representable) == (False, True)
        assert (tiles.dtype, tiles.buffer, tiles.tile_shape) == (x.dtype, x.buffer, (8, 16))
        return x

    run(kernel, numbers(20, 40))


def _split(kind):
    """A collective in two halves: its metadata are read before its sources are there."""

    def check(run):
        ranks, cores = (4, 2) if kind == "all_gather_v" else (2, None)

        def kernel(x, counts, group):
            n = ranks
            out = nl.ndarray((2 * n,), nl.float32, buffer=nl.shared_hbm)
            meta = nl.ndarray((3, n), nl.uint32, buffer=nl.shared_hbm)
            data = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
            first = nl.program_ndim() == 0 or nl.program_id(0) == 0
            if first:
                nisa.dma_copy(dst=meta, src=counts)
            if cores == 2:
                nisa.core_barrier(data=meta, cores=(0, 1))
            ready = getattr(ncc, f"{kind}_prepare")([data], [out], group, meta)
            if first:
                nisa.dma_copy(dst=data, src=x)
            if cores == 2:
                nisa.core_barrier(data=data, cores=(0, 1))
            done = getattr(ncc, f"{kind}_trigger")(ready)
            assert isinstance(ready, nisa.NkiInstruction)
            assert isinstance(done, nisa.NkiInstruction)
            return out

        group = ncc.ReplicaGroup([list(range(ranks))])
        if kind == "all_gather_v":
            shards = [np.full(2, rank, F32) for rank in range(4)]
            counts = np.array([[2] * 4, [0] * 4, [0] * 4], U32)
            expected = [[0, 0, 1, 1, 2, 2, 3, 3]] * 4
        else:
            shards = [np.arange(4, dtype=F32) + 10 * rank for rank in range(2)]
            counts = np.array([[2, 2], [0, 2], [0, 0]], U32)
            expected = [[0, 1, 10, 11], [2, 3, 12, 13]]
        got = run(kernel, trnsim.per_rank(shards), counts, group, ranks=ranks, cores=cores)
        equal(np.stack(got), expected)

    return check


for _kind in ("all_to_all_v", "all_gather_v"):
    here(f"ncc.{_kind}_prepare")(_split(_kind))
    here(f"ncc.{_kind}_trigger")(_split(_kind))


@here("dynamic_range removed (must be refused)", refuse="gone from NKI 0.7")
def _(run):
    def kernel(a, out):
        for _i in nl.dynamic_range(3):
            nisa.tensor_copy(dst=out, src=a)

    run(kernel, numbers(4, 6), out=[((4, 6), F32)])


@here("while reg removed (must be refused)", refuse="gone from NKI 0.7|device only")
def _(run):
    def kernel(a, out):
        left = nisa.register_alloc(1)
        while left:
            nisa.tensor_copy(dst=out, src=a)
            nisa.register_move(left, 0)

    run(kernel, numbers(4, 6), out=[((4, 6), F32)])


# Python, which computes the factor that a kernel multiplies by


def factor_of(compute, expected):
    def check(run):
        def kernel(a, out):
            nisa.tensor_scalar(dst=out, data=a, op0=nl.multiply, operand0=float(compute(a)))

        x = numbers(4, 6)
        equal(run(kernel, x, out=[((4, 6), F32)]), x * F32(expected))

    return check


def python(title, expected):
    return lambda compute: here(f"Python: {title}")(factor_of(compute, expected))


@python("generator function", 12)
def _(a):
    def rows():
        for i in range(4):
            yield 2 * i

    return sum(rows())


python("generator expression / sum()", 14)(lambda a: sum(i * i for i in range(a.shape[0])))
python("dict with int keys", 7)(lambda a: {0: 3, (1, 2): 7}[1, 2])
python("set literal", 2)(lambda a: len({1, 2}))


@python("try/except", 4)
def _(a):
    try:
        return {}["missing"]
    except KeyError:
        return a.shape[0]
    finally:
        assert a is not None


python("lambda", 8)(lambda a: (lambda n: 2 * n)(a.shape[0]))
python("list comprehension", 3)(lambda a: len([i for i in range(a.shape[0]) if i]))
python("dict comprehension", 3)(lambda a: {i: i for i in range(a.shape[0])}[3])


@python("*args/**kw helper", 15)
def _(a):
    def helper(*args, **kw):
        return sum(args) + sum(kw.values())

    return helper(*(1, 2), *[3], x=4, y=5)


python("is / is not on tensors", 1)(lambda a: (a is a) and (a is not a[0:2]) and (a is not None))


@contextlib.contextmanager
def _doubled(n):
    yield 2 * n


@python("with / context manager, import in body", 8)
def _(a):
    from operator import mul

    with _doubled(a.shape[0]) as n, contextlib.suppress(ValueError):
        return mul(n, 1)


python("walrus", 16)(lambda a: (n := a.shape[0]) * n)


@python("enumerate/zip, nested targets", 8)
def _(a):
    total = 0
    for i, (p, (q, *rest)) in enumerate(zip((1, 2), ((3, 4), (1,)), strict=True)):
        total += i * p + q + len(rest)
    return total + 1


@python("match statement", 24)
def _(a):
    match a.shape:
        case (rows, columns) if rows > 1:
            return rows * columns
        case _:
            return 0


@python("closures with nonlocal", 3)
def _(a):
    count = 0

    def step():
        nonlocal count
        count += 1

    for _i in range(3):
        step()
    return count


@here("Python: raise")
def _(run):
    def kernel(a, out):
        if a.shape[0] != 128:
            raise ValueError(f"{a.shape[0]} rows")

    with pytest.raises(ValueError, match="4 rows"):
        run(kernel, numbers(4, 6), out=[((4, 6), F32)])


python("numpy/math meta-programming", 10)(
    lambda a: np.arange(a.shape[0] + 1).sum() * math.gcd(3, 5) * np.float32(math.cos(0.0))
)


@python("del", 6)
def _(a):
    sizes = [4, 6]
    del sizes[0]
    return sizes[0]


python("f-string with format spec", 4)(lambda a: float(f"{a.shape[0]:08.3f}"))


class Base:
    def __init__(self, n):
        self.n = n

    def size(self):
        return self.n


class Twice(Base):
    def __init__(self, n):
        super().__init__(2 * n)

    def size(self):
        return super().size() + 1


python("plain class with inheritance and super()", 9)(lambda a: Twice(a.shape[0]).size())
python("== on user class is Python's (identity)", 1)(lambda a: Base(1) != Base(1))


class Shape(nl.NKIObject):
    n: int = 1


python("== on NKIObject is Python's (identity)", 1)(lambda a: Shape(1) != Shape(1))


@here("Python: keyword-only * in kernel signature")
def _(run):
    def kernel(x, *, factor):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), factor))
        return out

    x = numbers(4, 6)
    equal(trnsim.simulate(kernel)(x, factor=3.0), 3 * x)


@here("Python: list argument")
def _(run):
    def kernel(x, factors):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), factors[1]))
        return out

    x = numbers(4, 6)
    equal(run(kernel, x, [2.0, 3.0]), 3 * x)


@here("LNC from NEURON_LOGICAL_NC_CONFIG, no grid")
def _(run):
    def kernel(x):
        out = nl.ndarray((2, 1), nl.float32, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        tile = nl.ndarray((1, 1), nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=10.0 * nl.num_programs() + core)
        nisa.dma_copy(dst=out[core : core + 1], src=tile)
        if nl.num_programs() == 1:
            nisa.dma_copy(dst=out[1:2], src=tile)
        return out

    for cores, expected in (("2", [20, 21]), ("1", [10, 10])):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NEURON_LOGICAL_NC_CONFIG", cores)
            equal(run(kernel, np.zeros((1, 1), F32))[:, 0], expected)
