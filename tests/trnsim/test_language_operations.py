"""Loads, stores, products, transposes, selection, gathers, random tiles and printing."""

import ml_dtypes
import numpy as np
import pytest

import trnsim
from tests.together import together
from tests.trnsim.kernels import TARGETS, refused, rng, run
from tests.trnsim.rounded import rounded, within
from tests.trnsim.test_language_maths import call
from tests.trnsim.test_random import uniform
from trnsim import isa as nisa, language as nl
from trnsim.errors import HardwareLimit, OutOfBounds, WrongArgument, WrongBuffer, WrongShape, WrongType
from trnsim.language.maths import SimulationOnly

pytestmark = pytest.mark.sim

BF16 = ml_dtypes.bfloat16


def simulate(kernel, *arrays, target="trn2", **options):
    return trnsim.simulate(kernel, target=target, lint="off", **options)(*arrays)


def test_load_add_store():
    def kernel(a, b):
        out = nl.ndarray((256, 64), a.dtype, buffer=nl.shared_hbm)
        for i in range(2):
            rows = slice(128 * i, 128 * (i + 1))
            nl.store(out[rows], value=nl.add(nl.load(a[rows]), nl.load(b[rows])))
        return out

    a, b = (rng(i).standard_normal((256, 64)).astype(np.float32) for i in (1, 2))
    np.testing.assert_array_equal(simulate(kernel, a, b), a + b)


def test_load_converts_and_transposes():
    def kernel(x):
        straight = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
        turned = nl.ndarray((x.shape[1], x.shape[0]), nl.float16, buffer=nl.shared_hbm)
        nl.store(straight, nl.load(x, dtype=nl.bfloat16))
        nl.store(turned, nl.load_transpose2d(x, dtype=nl.float16))
        return straight, turned

    x = rng().standard_normal((90, 33)).astype(np.float32)
    straight, turned = simulate(kernel, x)
    np.testing.assert_array_equal(straight, x.astype(BF16))
    np.testing.assert_array_equal(turned, x.T.astype(np.float16))


@together("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int8], ids=lambda d: np.dtype(d).name)
def test_a_transposed_load_is_the_dma_transpose_where_there_is_one(target, dtype):
    def kernel(x):
        turned = nl.ndarray((x.shape[1], x.shape[0]), x.dtype, buffer=nl.shared_hbm)
        nl.store(turned, nl.load_transpose2d(x))
        return turned

    x = (8 * rng().standard_normal((300, 33))).astype(dtype)
    trace = []
    np.testing.assert_array_equal(trnsim.simulate(kernel, target=target, trace=trace)(x), x.T)
    there = target != "trn1" and x.itemsize > 1
    assert trace[0].name == ("dma_transpose" if there else "dma_copy")


@together("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int8], ids=lambda d: np.dtype(d).name)
def test_a_transposed_store_is_transposed_on_an_engine_of_trn1(target, dtype):
    def kernel(x):
        turned = nl.ndarray((x.shape[1], x.shape[0]), x.dtype, buffer=nl.shared_hbm)
        nl.store(turned.permute((1, 0)), nl.load(x))
        return turned

    x = (8 * rng().standard_normal((100, 300))).astype(dtype)
    trace = []
    np.testing.assert_array_equal(trnsim.simulate(kernel, target=target, trace=trace)(x), x.T)
    engine = target == "trn1" and x.itemsize > 1
    assert sum(record.name == "transpose_strip" for record in trace) == (12 if engine else 0)


def test_a_transposed_store_of_trn1_costs_about_a_transposed_load():
    def stores(x):
        turned = nl.ndarray((x.shape[1], x.shape[0]), x.dtype, buffer=nl.shared_hbm)
        nl.store(turned.permute((1, 0)), nl.load(x))
        return turned

    def loads(x):
        turned = nl.ndarray((x.shape[1], x.shape[0]), x.dtype, buffer=nl.shared_hbm)
        nl.store(turned, nl.load_transpose2d(x))
        return turned

    x = np.zeros((128, 128), np.float32)
    there, here = (trnsim.profile(kernel, target="trn1")(x)[1].total_s for kernel in (stores, loads))
    assert there == pytest.approx(here, rel=0.1)


def test_wrong_memories_for_loads_and_stores():
    x = np.ones((4, 4), np.float32)
    refused(WrongBuffer, "buffer", nl.load, x, says=("nl.load reads HBM", "sbuf"))
    refused(WrongBuffer, "buffer", lambda t: nl.store(t, t), x, says="nl.store writes HBM")
    refused(WrongBuffer, "buffer", nl.load_transpose2d, x, says="HBM")

    def kernel(x):
        return nl.load(x)

    with pytest.raises(HardwareLimit, match="partitions"):
        simulate(kernel, np.ones((200, 4), np.float32))

    def cube(x):
        return nl.load_transpose2d(x)

    with pytest.raises(WrongShape, match="two dimensions"):
        simulate(cube, np.ones((4, 4, 4), np.float32))


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.float16], ids=lambda d: np.dtype(d).name)
def test_transpose_goes_to_psum(dtype):
    x = rng().standard_normal((100, 60)).astype(dtype)
    np.testing.assert_array_equal(call(nl.transpose, x, where=nl.psum), x.T)


def test_transpose_converts():
    x = rng().standard_normal((40, 60)).astype(np.float32)
    got = call(lambda t: nl.transpose(t, dtype=nl.bfloat16), x, where=nl.psum)
    np.testing.assert_array_equal(got, x.T.astype(BF16))
    refused(WrongShape, "two-dimensional", nl.transpose, np.ones((4, 2, 2), np.float32), says="(4, 2, 2)")


@pytest.mark.parametrize("transpose_x", [True, False])
@pytest.mark.parametrize("target", TARGETS)
def test_matmul_in_psum(transpose_x, target):
    x = rng().standard_normal((96, 80)).astype(np.float32)
    y = rng(1).standard_normal((96 if transpose_x else 80, 512)).astype(np.float32)
    got = call(lambda x, y: nl.matmul(x, y, transpose_x=transpose_x), x, y, where=nl.psum, target=target)
    within(got, rounded(x.T if transpose_x else x) @ y)
    assert got.dtype == np.float32


def test_matmul_shapes():
    x, y = np.ones((4, 6), np.float32), np.ones((4, 8), np.float32)
    found = refused(WrongShape, "matmul-shape", nl.matmul, x, y, says=("6", "4", "transpose_x=True"))
    assert (found.got, found.limit) == (6, 4)
    refused(WrongShape, "two-dimensional", nl.matmul, np.ones((4, 2, 3), np.float32), y, says="x has shape")


def test_expand_dims_is_a_view():
    def body(x):
        for axis, shape in ((1, (8, 1, 4)), (2, (8, 4, 1)), (-1, (8, 4, 1)), (-2, (8, 1, 4))):
            view = nl.expand_dims(x, axis)
            assert view.shape == shape
            assert view.storage is x.storage

    x = np.ones((8, 4), np.float32)
    run(body, x)
    refused(WrongShape, "partition-dim", lambda t: nl.expand_dims(t, 0), x, says="partition")
    refused(WrongArgument, "axis", lambda t: nl.expand_dims(t, 4), x, says="4")


@together(
    ("source", "shape"),
    [
        ((1, 64), (128, 64)),
        ((5, 1), (5, 9)),
        ((1, 1), (30, 7)),
        ((3, 1, 4), (3, 6, 4)),
        ((1, 2, 1), (8, 2, 3)),
        ((1, 1100), (128, 1100)),
        ((1, 3, 400), (16, 3, 400)),
    ],
)
@pytest.mark.parametrize("psum", [(), (0,)])
def test_broadcast_to(source, shape, psum):
    x = rng().standard_normal(source).astype(np.float32)
    np.testing.assert_array_equal(call(lambda t: nl.broadcast_to(t, shape), x, psum=psum), np.broadcast_to(x, shape))
    low = call(lambda t: nl.broadcast_to(t, shape, dtype=nl.bfloat16), x, psum=psum)
    np.testing.assert_array_equal(low, np.broadcast_to(x.astype(BF16), shape))


def test_broadcast_to_the_same_shape_and_to_wrong_ones():
    x = np.ones((4, 6), np.float32)

    def body(t):
        assert nl.broadcast_to(t, (4, 6)) is t
        assert nl.broadcast_to(t, (4, 6), dtype=nl.float16).dtype == nl.float16

    run(body, x)
    for shape in ((4, 7), (4, 6, 1), (8, 6)):
        refused(WrongShape, "broadcast", lambda t, shape=shape: nl.broadcast_to(t, shape), x, says=str(shape))


def test_where_picks_tiles_and_numbers():
    flags = rng().integers(0, 2, (32, 3, 5)).astype(np.float32)
    x, y = (rng(i).standard_normal((32, 3, 5)).astype(np.float32) for i in (1, 2))
    np.testing.assert_array_equal(call(nl.where, flags, x, y), np.where(flags, x, y))
    np.testing.assert_array_equal(call(lambda c, x: nl.where(c, x, -1.0), flags, x), np.where(flags, x, np.float32(-1)))
    np.testing.assert_array_equal(call(lambda c, y: nl.where(c, 2.0, y), flags, y), np.where(flags, np.float32(2), y))
    got = call(lambda c, x, y: nl.where(c, x, y, dtype=nl.bfloat16), flags, x, y)
    np.testing.assert_array_equal(got, np.where(flags, x.astype(BF16), y.astype(BF16)))
    mixed = call(nl.where, flags.astype(np.uint8), x.astype(BF16), y)
    np.testing.assert_array_equal(mixed, np.where(flags, x.astype(BF16).astype(np.float32), y))
    whole = rng(3).integers(-(2**31), 2**31, (32, 3, 5)).astype(np.int32)
    np.testing.assert_array_equal(call(nl.where, flags, whole, whole // 2), np.where(flags, whole, whole // 2))
    refused(WrongShape, "where-shape", nl.where, flags, x, y[:, :1].copy(), says="broadcast_to")


@pytest.mark.parametrize("index_dtype", [np.uint32, np.int32], ids=lambda d: d.__name__)
def test_gather_flattened(index_dtype):
    x = rng().standard_normal((32, 8, 8)).astype(np.float32)
    index = rng(1).integers(0, 64, (32, 2, 5)).astype(index_dtype)
    got = call(nl.gather_flattened, x, index)
    want = np.take_along_axis(x.reshape(32, 64), index.reshape(32, 10).astype(int), axis=1).reshape(32, 2, 5)
    np.testing.assert_array_equal(got, want)
    low = call(lambda x, i: nl.gather_flattened(x, i, dtype=nl.bfloat16), x, index)
    np.testing.assert_array_equal(low, want.astype(BF16))
    refused(WrongArgument, "gather-axis", lambda x, i: nl.gather_flattened(x, i, axis=2), x, index, says="axis is 2")
    if index_dtype is np.int32:
        refused(OutOfBounds, "gather-index", nl.gather_flattened, x, index - np.int32(64), says="64 elements")


@pytest.mark.parametrize("target", TARGETS)
def test_rand_repeats_after_seeding(target):
    def body(seed, a, b, c):
        nl.random_seed(seed)
        nisa.tensor_copy(a, nl.rand((128, 200), nl.float32))
        nisa.tensor_copy(b, nl.rand((128, 200), dtype=nl.float32))
        nl.random_seed(seed)
        nisa.tensor_copy(c, nl.rand((128, 200), nl.float32, buffer=nl.psum))

    a, b, c = run(body, np.array([[42]], np.int32), out=[((128, 200), nl.float32)] * 3, target=target)
    np.testing.assert_array_equal(a, c)
    assert not np.array_equal(a, b)
    uniform(a)
    uniform(b)
    assert a.max() < 1.0


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_rand_fills_hbm_of_any_shape(target):
    def kernel():
        return nl.rand((3, 700, 101), nl.float32, buffer=nl.shared_hbm), nl.rand(
            (5,), nl.bfloat16, buffer=nl.shared_hbm
        )

    big, small = simulate(kernel, target=target)
    assert big.shape == (3, 700, 101)
    uniform(big)
    assert len(np.unique(big)) > 0.98 * big.size
    assert small.shape == (5,)


def test_random_seed_wants_a_tile():
    found = refused(WrongType, "seed", lambda: nl.random_seed(42), says=("42", "nl.full"))
    assert found.instruction == "nl.random_seed"


def test_dropout():
    x = rng().uniform(1, 2, (128, 100)).astype(np.float32)
    rate = np.full((128, 1), 0.5, np.float32)
    got = call(nl.dropout, x, rate)
    assert abs((got == 0).mean() - 0.5) < 5 * np.sqrt(0.25 / x.size)
    assert call(lambda t: nl.dropout(t, 0.1, dtype=nl.bfloat16), x).dtype == BF16


def test_device_print_shows_prefix_and_values(capsys):
    def kernel(x):
        tile = nl.load(x)
        nl.device_print("tile is", tile)
        nl.device_print(print_prefix="row", tensor=x[0])

    simulate(kernel, np.array([[1.5, 2.5]], np.float32))
    text = capsys.readouterr().out
    assert "tile is" in text
    assert text.count("[1.5 2.5]") == 2
    assert "row" in text

    x = np.ones((2, 2), np.float32)
    refused(WrongType, "print-prefix", lambda t: nl.device_print(3, t), x, says="3")
    refused(WrongBuffer, "buffer", lambda t: nl.device_print("x", t), x, psum=(0,), says="psum")


def test_timing_only_mode_runs_every_function():
    def body(x, index, w):
        nl.softmax(nl.sin(x), axis=1)
        nl.where(nl.greater(x, 0.0), x, w)
        nl.rms_norm(x, w, 1, 4)
        nl.copy(nl.matmul(x, w))
        nl.gather_flattened(x, index)
        nl.broadcast_to(x[0:1], (8, 4))
        nl.floor(nl.rsqrt(x))
        nl.dropout(nl.rand((8, 4), nl.float32), 0.5)
        nl.device_print("x", x)
        with pytest.warns(SimulationOnly, match="divide"):
            nl.divide(x, 2.0)

    x = np.ones((4, 4), np.float32)
    trace = []
    run(body, x, np.zeros((4, 4), np.uint32), x, numerics=False, trace=trace)
    assert {r.engine for r in trace} >= {"vector", "scalar", "gpsimd", "tensor", "dma"}


def test_records_carry_the_line_of_the_kernel():
    trace = []

    def body(x):
        nl.softmax(x, axis=1)

    run(body, np.ones((4, 4), np.float32), trace=trace)
    names = [r.name for r in trace if "test_language_operations" in str(r.line)]
    assert names == ["tensor_reduce", "activation", "reciprocal", "tensor_scalar"]
