"""Tiles and blocks: selections against NumPy's, storage made of tiles, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import trnsim
from tests.together import together
from trnsim import isa, language
from trnsim.errors import NotModelled, OutOfBounds, WrongArgument, WrongShape, WrongType
from trnsim.language import hbm, sbuf, shared_hbm

pytestmark = pytest.mark.sim

F32 = np.float32


def inside(body, *arrays):
    """Run ``body`` in a kernel and return what it returns."""
    seen = []
    trnsim.simulate(lambda *tensors: seen.append(body(*tensors)), lint="off")(*arrays)
    return seen[0]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_selections_are_those_of_numpy(data):
    """A selection of tiles is the same elements of the array, whatever is sliced, picked and regrouped."""
    shape = tuple(data.draw(st.integers(1, 12)) for _ in range(data.draw(st.integers(2, 3))))
    tile = tuple(data.draw(st.integers(1, 5)) for _ in range(2))
    block = tuple(data.draw(st.integers(1, 3)) for _ in range(2)) if data.draw(st.booleans()) else None
    units = (1,) * (len(shape) - 2) + tuple(t * b for t, b in zip(tile, block or (1, 1), strict=True))
    keys, window = [], []
    for n, unit in zip(shape, units, strict=True):
        cells = -(-n // unit)
        low = data.draw(st.integers(0, cells - 1))
        high = data.draw(st.integers(low + 1, cells))
        single = data.draw(st.booleans())
        keys.append(low if single else slice(low, high))
        window.append(slice(low * unit, min(n, (low + 1 if single else high) * unit)))
    dropped = tuple(d for d in range(len(shape) - 2) if isinstance(keys[d], int))
    x = np.arange(np.prod(shape), dtype=F32).reshape(shape)

    def body(t):
        grid = language.tiles(t, tile_shape=tile)
        if block:
            grid = language.blocks(t, tile_shape=tile, block_shape=block)
        part = grid[tuple(keys)]
        again = language.tiles(part)
        assert again.element_shape == part.element_shape == part.data.shape
        assert part.shape == tuple(k.stop - k.start for k in keys if isinstance(k, slice))
        np.testing.assert_array_equal(again.data.array, part.data.array)
        return part.data.array.copy()

    np.testing.assert_array_equal(inside(body, x), np.squeeze(x[tuple(window)], axis=dropped))


@pytest.mark.parametrize("buffer", [sbuf, hbm])
@pytest.mark.parametrize("extent", [(100, 70), (32, 16), (2, 40, 33)])
def test_storage_made_of_tiles_holds_every_element(buffer, extent):
    x = np.random.default_rng(0).standard_normal(extent).astype(F32)

    def body(t):
        out = language.ndarray(t.shape, t.dtype, buffer=shared_hbm)
        held = language.alloc_blocks(
            tile_shape=(32, 16), block_shape=(2, 1), element_shape=extent, buffer=buffer, dtype=t.dtype
        )
        source, target, cells = (language.tiles(g, tile_shape=(32, 16)) for g in (t, out, held))
        for index in np.ndindex(source.shape):
            staged = language.ndarray(source[index].element_shape, t.dtype)
            isa.dma_copy(dst=staged, src=source[index].data)
            isa.dma_copy(dst=cells[index].data, src=staged)
        for index in np.ndindex(source.shape):
            staged = language.ndarray(source[index].element_shape, t.dtype)
            isa.dma_copy(dst=staged, src=cells[index].data)
            isa.dma_copy(dst=target[index].data, src=staged)
        return out

    np.testing.assert_array_equal(trnsim.simulate(body, lint="off")(x), x)


def test_packed_storage_is_one_allocation_of_two_dimensions():
    def body():
        whole = language.alloc_tiles(tile_shape=(64, 8), element_shape=(128, 24), buffer=sbuf, dtype=language.float32)
        ragged = language.alloc_tiles(tile_shape=(64, 8), element_shape=(100, 20), buffer=sbuf, dtype=language.float32)
        isa.memset(dst=whole.data, value=1.0)
        return (
            whole.data.shape,
            whole.is_data_representable,
            ragged.is_data_representable,
            ragged[0].data.shape,
            ragged[1].data.shape,
            ragged[1, 1:].data.shape,
            ragged[:, 0].is_data_representable,
        )

    assert inside(body) == ((64, 48), True, False, (64, 20), (36, 20), (36, 12), False)


def test_empty_like_keeps_the_geometry_and_packs():
    def body(t):
        grid = language.blocks(t, tile_shape=(8, 4), block_shape=(1, 2))[::2, 1:]
        like = language.empty_like(grid, buffer=sbuf)
        one = language.empty_like(language.tiles(t, tile_shape=(8, 4))[0, 0], dtype=language.bfloat16)
        turned = language.empty_like(t[0:8, 0:20], buffer=sbuf, transpose_axes=(1, 0))
        tiles = language.empty_like(language.tiles(t, tile_shape=(8, 4)), buffer=sbuf, transpose_axes=(1, 0))
        assert type(like) is type(grid)
        assert (like.shape, like.element_shape) == (grid.shape, grid.element_shape)
        assert (like.tile_shape, like.block_shape, like.is_data_representable) == ((8, 4), (1, 2), True)
        assert (one.shape, one.element_shape, one.dtype, one.buffer) == ((), (8, 4), language.bfloat16, t.buffer)
        assert (tiles.tile_shape, tiles.element_shape, tiles.shape) == ((4, 8), (20, 24), (5, 3))
        return turned.shape

    assert inside(body, np.zeros((24, 20), F32)) == (20, 8)


def test_grids_can_be_placed_by_hand():
    def body():
        tiles = {"tile_shape": (32, 16), "buffer": sbuf, "dtype": language.float32}
        one = language.alloc_tiles(element_shape=(32, 64), address=(0, 1024), name="one", **tiles)
        two = language.alloc_tiles(element_shape=(32, 16), address=(0, 1024 + 2 * 64), **tiles)
        isa.memset(dst=one.data, value=3.0)
        return two.data.array.copy(), one.data.name

    values, name = inside(body)
    assert (values == 3).all()
    assert name == "one"


def test_data_of_a_tensor_is_itself():
    assert inside(lambda t: t.data is t, np.zeros((2, 2), F32))
    with pytest.raises(AttributeError, match=r"NkiTensor\.data came with NKI 0\.7"):
        trnsim.simulate(lambda t: t.data, nki="0.6")(np.zeros((2, 2), F32))


SPEC = {"tile_shape": (2, 2), "element_shape": (4, 4), "buffer": sbuf, "dtype": language.float32}


@together(
    ("error", "rule", "body"),
    [
        (WrongShape, "tile-shape", lambda t: language.tiles(t)),
        (WrongType, "tile-shape", lambda t: language.tiles(t, tile_shape=[2, 2])),
        (WrongType, "tile-shape", lambda t: language.tiles(t, tile_shape=(2.0, 2))),
        (WrongShape, "tile-shape", lambda t: language.tiles(t, tile_shape=(0, 2))),
        (WrongShape, "tile-shape", lambda t: language.tiles(t, tile_shape=(2, 2, 2))),
        (WrongShape, "tile-shape", lambda t: language.blocks(t, tile_shape=(2, 2), block_shape=(2,))),
        (WrongShape, "tile-shape", lambda t: language.tiles(language.load(t), tile_shape=(2,))),
        (WrongType, "grid-source", lambda t: language.tiles(3, tile_shape=(2, 2))),
        (WrongShape, "tile-shape", lambda t: language.alloc_tiles(**{**SPEC, "tile_shape": (2,)})),
        (WrongType, "tile-shape", lambda t: language.alloc_tiles(**{**SPEC, "tile_shape": None})),
        (WrongType, "tile-shape", lambda t: language.alloc_tiles(**{**SPEC, "element_shape": None})),
        (WrongType, "tile-shape", lambda t: language.alloc_blocks(**SPEC, block_shape=None)),
        (WrongType, "tile-shape", lambda t: language.blocks(t, tile_shape=(2, 2), block_shape=None)),
        (WrongType, "transpose-axes", lambda t: language.empty_like(t, buffer=sbuf, transpose_axes=[1, 0])),
        (WrongType, "tile-shape", lambda t: language.alloc_tiles(**{**SPEC, "element_shape": 4})),
        (WrongType, "buffer", lambda t: language.alloc_tiles(**{**SPEC, "buffer": "sbuf"})),
        (OutOfBounds, "grid-index", lambda t: language.tiles(t, tile_shape=(2, 2))[2]),
        (OutOfBounds, "grid-index", lambda t: language.tiles(t, tile_shape=(2, 2))[0, 0, 0]),
        (OutOfBounds, "grid-index", lambda t: language.tiles(t, tile_shape=(2, 2))[1:1]),
        (WrongType, "grid-index", lambda t: language.tiles(t, tile_shape=(2, 2))["a"]),
        (WrongType, "grid-index", lambda t: language.tiles(t, tile_shape=(2, 2))[::-1]),
        (WrongShape, "grid-data", lambda t: language.tiles(t, tile_shape=(1, 1))[::2].data),
        (WrongShape, "grid-data", lambda t: language.tiles(language.tiles(t, tile_shape=(1, 1))[::2])),
        (WrongShape, "grid-data", lambda t: language.alloc_tiles(**SPEC)[:, 0].data),
        (WrongArgument, "transpose-axes", lambda t: language.empty_like(t, buffer=sbuf, transpose_axes=(0, 1))),
    ],
)
def test_what_is_no_grid_is_refused(error, rule, body):
    with pytest.raises(error) as caught:
        inside(body, np.zeros((4, 4), F32))
    assert caught.value.rule == rule
    assert isinstance(caught.value, TypeError if error is WrongType else (ValueError, IndexError))


def test_instructions_and_results_are_tensors():
    def passed(t):
        isa.dma_copy(dst=language.ndarray((4, 4), language.float32), src=language.tiles(t, tile_shape=(2, 2)))

    with pytest.raises(WrongType, match=r"pass src=grid\.data"):
        inside(passed, np.zeros((4, 4), F32))
    with pytest.raises(WrongType, match=r"return grid\.data") as caught:
        trnsim.simulate(lambda t: language.tiles(t, tile_shape=(2, 2)), lint="off")(np.zeros((4, 4), F32))
    assert caught.value.rule == "return-grid"


def test_a_scalar_is_no_index_of_a_grid():
    def body(t):
        return language.tiles(t, tile_shape=(1, 1))[isa.scalar_load(t)]

    with pytest.raises(TypeError, match="index_step_elements"):
        inside(body, np.zeros((1, 1), np.int32))


def test_tensors_in_hbm_may_lie_in_others():
    def kernel(x):
        out = language.ndarray((2, 8), F32, buffer=shared_hbm)
        outer = language.ndarray((4, 8), F32, buffer=hbm, address=(4096,))
        inner = language.ndarray((2, 8), F32, buffer=hbm, address=(4096 + 64,))
        assert (outer.address, inner.address) == ((4096,), (4160,))
        isa.dma_copy(dst=outer, src=x)
        isa.dma_copy(dst=out, src=inner)
        return out

    x = np.arange(32, dtype=F32).reshape(4, 8)
    np.testing.assert_array_equal(trnsim.simulate(kernel)(x), x[2:])


@together(
    ("error", "rule", "address", "nki"),
    [
        (WrongArgument, "address", (0, 0), "0.7"),
        (WrongArgument, "address", (64,), "0.6"),
        (OutOfBounds, "address", (2**60,), "0.7"),
        (OutOfBounds, "address", (-4,), "0.7"),
        (NotModelled, "hbm-overlap", (4,), "0.7"),
    ],
)
def test_other_addresses_in_hbm_are_refused(error, rule, address, nki):
    def kernel():
        if nki == "0.7":
            language.ndarray((4, 8), F32, buffer=hbm, address=(0,))
        language.ndarray((4, 8), F32, buffer=hbm, address=address)

    with pytest.raises(error) as caught:
        trnsim.simulate(kernel, nki=nki, lint="off")()
    assert caught.value.rule == rule
