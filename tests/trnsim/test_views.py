"""Views of a tensor against NumPy's own views of the same bytes, and everything a view refuses."""

import functools
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.lib.stride_tricks import as_strided

import trnsim
from tests.together import together
from tests.trnsim.kernels import run
from trnsim import isa, language
from trnsim.errors import (
    HardwareLimit,
    OutOfBounds,
    ReadUninitialized,
    WrongArgument,
    WrongBuffer,
    WrongDtype,
    WrongEngine,
    WrongShape,
    WrongType,
)
from trnsim.language import hbm, psum, sbuf, shared_hbm
from trnsim.session import Session, SimParams, activate
from trnsim.targets import TARGETS
from trnsim.tensors.layout import overlaps_itself

MEMORIES = (sbuf, psum, hbm)
F32, I32, U32 = np.dtype("f4"), np.dtype("i4"), np.dtype("u4")
quick = settings(max_examples=120, deadline=None)


def tensor(shape, dtype="float32", buffer=sbuf):
    """A tensor whose elements count from 0 (modulo what the dtype holds), and NumPy's array of the same."""
    t = Session(SimParams(target=TARGETS["trn3"])).allocate(shape, dtype, buffer)
    values = (np.arange(math.prod(shape)) % 127).reshape(shape).astype(t.array.dtype)
    if t.itemsize == 4:
        values = np.arange(math.prod(shape)).reshape(shape).astype(t.array.dtype)
    t.array[...] = values
    return t, values


def agree(t, expected):
    """Same shape, same elements, and the strides of the description are those of NumPy."""
    assert t.shape == expected.shape
    np.testing.assert_array_equal(t.array, expected)
    for n, stride, theirs in zip(t.shape, t.strides, expected.strides, strict=True):
        assert n == 1 or stride * t.itemsize == theirs


shapes = st.lists(st.integers(1, 6), min_size=2, max_size=4).map(tuple)


@st.composite
def chains(draw):
    """A tensor and a chain of view operations drawn to be legal, with NumPy's result."""
    buffer = draw(st.sampled_from(MEMORIES))
    t, a = tensor(draw(shapes), draw(st.sampled_from(["float32", "bfloat16", "int8"])), buffer)
    least = 0 if buffer is hbm else 1
    for _ in range(draw(st.integers(1, 5))):
        op = draw(st.sampled_from(["slice", "select", "permute", "expand", "squeeze", "split", "broadcast", "index"]))
        dim = draw(st.integers(0, t.ndim - 1))
        n = t.shape[dim]
        if op == "slice":
            start = draw(st.integers(0, n - 1))
            end, step = draw(st.integers(start + 1, n)), draw(st.integers(1, 3))
            t = t.slice(dim, start, end, step)
            a = a[(*[slice(None)] * dim, slice(start, end, step))]
        elif op == "select":
            i = draw(st.integers(0, n - 1))
            keep = (buffer is not hbm and (dim == 0 or t.ndim <= 2)) or t.ndim == 1
            t = t.select(dim, i)
            a = a[(*[slice(None)] * dim, slice(i, i + 1) if keep else i)]
        elif op == "permute":
            order = tuple(range(least)) + tuple(draw(st.permutations(range(least, t.ndim))))
            t, a = t.permute(order), a.transpose(order)
        elif op == "expand":
            at = draw(st.integers(least, t.ndim))
            t, a = t.expand_dim(at), np.expand_dims(a, at)
        elif op == "squeeze" and n == 1 and dim >= least and t.ndim > (1 if buffer is hbm else 2):
            t, a = t.squeeze_dim(dim), a.squeeze(dim)
        elif op == "split" and dim >= least:
            parts = draw(st.sampled_from([(p, n // p) for p in range(1, n + 1) if n % p == 0]))
            t = t.reshape_dim(dim, draw(st.sampled_from([parts, (parts[0], -1), (-1, parts[1])])))
            a = as_strided(
                a,
                (*a.shape[:dim], *parts, *a.shape[dim + 1 :]),
                (*a.strides[:dim], a.strides[dim] * parts[1], a.strides[dim], *a.strides[dim + 1 :]),
            )
        elif op == "broadcast" and n == 1 and dim >= least:
            size = draw(st.integers(1, 4))
            shape = list(a.shape)
            shape[dim] = size
            t, a = t.broadcast(dim, size), np.broadcast_to(a, shape)
        elif op == "index":
            keys = [draw(st.one_of(st.integers(-n, n - 1), st.just(slice(None)))) for n in t.shape]
            t = t[tuple(keys)]
            whole = [slice(k, k + 1 or None) if isinstance(k, int) else k for k in keys]
            drop = [d for d, k in enumerate(keys) if isinstance(k, int) and d >= least]
            a = a[tuple(whole)]
            while drop and a.ndim > (1 if buffer is hbm else 2):
                a = a.squeeze(drop.pop(0))
                drop = [d - 1 for d in drop]
    return t, a


@quick
@given(chains())
def test_a_chain_of_views_shows_what_numpy_shows(case):
    agree(*case)


@quick
@given(chains(), st.data())
def test_reshape_and_flatten_succeed_exactly_when_numpy_needs_no_copy(case, data):
    t, a = case
    if t.buffer is hbm:
        low, head = 0, ()
    else:
        low, head = 1, t.shape[:1]
    free = math.prod(t.shape[low:])
    first = data.draw(st.sampled_from([d for d in range(1, free + 1) if free % d == 0]))
    second = data.draw(st.sampled_from([d for d in range(1, free // first + 1) if (free // first) % d == 0]))
    wanted = (*head, first, second, free // first // second)
    start = data.draw(st.integers(low, t.ndim - 1)) if t.ndim > low else None
    # NumPy merges a partition with the free dimension only in other shapes; the partition stays here
    attempts = [(lambda: t.reshape(wanted), wanted)]
    if start is not None:
        end = data.draw(st.integers(start, t.ndim - 1))
        merged = (*t.shape[:start], math.prod(t.shape[start : end + 1]), *t.shape[end + 1 :])
        attempts.append((lambda: t.flatten_dims(start, end), merged))
    for view, shape in attempts:
        expected = np.reshape(a, shape)
        if a.size and not np.shares_memory(expected, a):
            with pytest.raises(WrongShape) as caught:
                view()
            assert caught.value.rule == "contiguous"
            assert "Copy the tensor first" in str(caught.value)
        else:
            agree(view(), expected)


@quick
@given(
    st.sampled_from(["float32", "bfloat16", "uint8"]),
    st.sampled_from(["int32", "float16", "int8", "uint16"]),
    st.data(),
)
def test_reinterpreting_bits_is_numpys_view(old, new, data):
    p, f = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 6)) * 4
    t, a = tensor((p, f), old, data.draw(st.sampled_from(MEMORIES)))
    start = data.draw(st.integers(0, f - 1))
    end = data.draw(st.integers(start + 1, f))
    t, a = t[:, start:end], a[:, start:end]
    fits = (
        all(n * t.itemsize % np.dtype(new).itemsize == 0 for n in (start, end - start, f))
        or t.itemsize >= np.dtype(new).itemsize
    )
    if fits:
        np.testing.assert_array_equal(t.view(new).array, a.view(new))
        np.testing.assert_array_equal(t.reinterpret_cast(new).array, t.bitcast(new).array)
    else:
        with pytest.raises(WrongShape, match="does not divide"):
            t.view(new)


def test_views_of_extra_dtypes_scale_the_last_dimension():
    t, a = tensor((4, 16), "float8_e4m3fn")
    assert t.view(language.float8_e4m3fn_x4).shape == (4, 4)
    np.testing.assert_array_equal(t.view(language.float8_e4m3fn_x4).array, a.view(np.uint32))
    assert t.view(language.float4_e2m1fn_x4).shape == (4, 8)
    assert tensor((4, 16))[0].view(language.tfloat32).shape == (4, 16)


@quick
@given(st.data())
def test_an_access_pattern_is_as_strided_over_the_storage(data):
    buffer = data.draw(st.sampled_from(MEMORIES))
    p, f = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 12))
    t, a = tensor((p, f), "int32", buffer)
    count = data.draw(st.integers(1, p))
    offset = data.draw(st.integers(0, (p - count) * f))
    dims = [(f, count)]
    # every pattern that stays within the row
    room = f - offset % f - 1
    for _ in range(data.draw(st.integers(1, 3))):
        n = data.draw(st.integers(1, 4))
        step = data.draw(st.integers(0, room // (n - 1))) if n > 1 else data.draw(st.integers(0, 5))
        room -= step * (n - 1)
        dims.append((step, n))
    view = t.ap([list(d) for d in dims], offset=offset)
    expected = as_strided(a.reshape(-1)[offset:], [n for _, n in dims], [4 * s for s, _ in dims])
    agree(view, expected)
    assert view.get_pattern() == [list(d) for d in dims]
    assert view.offset == offset


def test_ap_composes_with_the_offset_of_a_view_and_ignores_its_shape():
    t, a = tensor((8, 16), "int32")
    part = t[2:6, 4:12:2]
    agree(part.ap([[16, 4], [1, 3]]), a[2:6, 4:7])
    agree(part.ap([[16, 4], [1, 3]], offset=1), a[2:6, 5:8])
    agree(part.ap([[32, 4], [1, 3]], dtype="int16"), a.view("i2")[2:6, 8:11])
    agree(part.ap([[16, 2]]), a[2:4, 4:5])
    half = part.ap(pattern=[(16, 4), (2, 4)]).ap([[16, 8], [1, 4]], offset=-36)
    agree(half, a[:, :4])


def test_patterns_describe_views_as_the_reference_does():
    t, _ = tensor((128, 64))
    assert t.strides == (64, 1)
    assert (t.size, t.ndim, t.offset, t.is_contiguous(), t.is_indirect()) == (8192, 2, 0, True, False)
    u = t.slice(dim=1, start=8, end=24)
    assert u.get_pattern() == [[64, 128], [1, 16]]
    assert u.offset == 8
    assert u.is_contiguous()
    assert not t[:, ::2].is_contiguous()
    assert not tensor((4, 64), buffer=hbm)[0][:, :32].is_contiguous()
    assert t[:64].is_contiguous()
    assert len(t) == 128


def test_indexing_keeps_two_dimensions_on_chip_and_one_in_hbm():
    t, a = tensor((64, 64, 64))
    assert t[0, 0, 10].shape == (1, 1)
    assert t[:, 0].shape == (64, 64)
    assert t[:, 0, 10].shape == (64, 1)
    assert t[0, ..., :].shape == (1, 64, 64)
    assert t[..., 3].shape == (64, 64)
    assert t[-1].shape == (1, 64, 64)
    np.testing.assert_array_equal(t[:, 2, 10].array[:, 0], a[:, 2, 10])
    np.testing.assert_array_equal(t[3, None, 5, None].array, a[3:4, None, 5, None])
    h, b = tensor((4, 8, 16), buffer=hbm)
    assert h[1, 2, 3].shape == (1,)
    assert h[1, 2, 3].array[0] == b[1, 2, 3]
    assert h[1].shape == (8, 16)
    agree(h[None, 2], b[None, 2])
    agree(h[language.ds(1, 2), :, language.ds(4, 3)], b[1:3, :, 4:7])
    agree(h[np.int64(2), 1:-2], b[2, 1:-2])


def test_views_share_storage_and_writes_are_seen_through_all_of_them():
    def body(x, out):
        whole = language.ndarray((4, 64), np.float32)
        whole[...] = 0.0
        whole.reshape((4, 8, 8))[:, 2:4, :] = 1.0
        whole[:, 0:64:2][:, 8:12] = x
        out[...] = whole

    x = np.full((4, 4), 7, np.float32)
    expected = np.zeros((4, 64), np.float32)
    expected[:, 16:32] = 1
    expected[:, 16:24:2] = 7
    np.testing.assert_array_equal(run(body, x, out=[((4, 64), F32)]), expected)


@pytest.mark.parametrize("buffer", [sbuf, hbm], ids=str)
def test_rearrange_splits_reorders_and_merges(buffer):
    t, a = tensor((8, 24), "int32", buffer)
    agree(t.rearrange(("b", ("h", "w")), ("b", "w", "h"), {"h": 4}), a.reshape(8, 4, 6).transpose(0, 2, 1))
    agree(t.rearrange(("b", ("h", "w")), ("b", "w", "h"), {"w": 6, "h": -1}), a.reshape(8, 4, 6).transpose(0, 2, 1))
    agree(
        t.rearrange(("b", ("x", "y", "z")), ("b", "z", ("x", "y")), {"x": 2, "y": 3}),
        a.reshape(8, 6, 4).transpose(0, 2, 1),
    )
    u, b = tensor((2, 3, 4, 5), "int32", buffer)
    agree(u.rearrange(("a", "b", "c", "d"), ("a", ("b", "c"), "d")), b.reshape(2, 12, 5))
    agree(u.rearrange(["a", "b", "c", "d"], ["a", "d", "b", "c"]), b.transpose(0, 3, 1, 2))


@quick
@given(
    st.permutations(["a", "b", "c", "d"]), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)
)
def test_rearrange_of_hbm_is_reshape_and_transpose(order, a, b, c, d):
    t, x = tensor((a * b, c * d), "int32", hbm)
    made = t.rearrange((("a", "b"), ("c", "d")), tuple(order), {"a": a, "c": c})
    agree(made, x.reshape(a, b, c, d).transpose(["abcd".index(n) for n in order]))


BAD_REARRANGE = [
    ((("b", "f", "g"), ("b", "f", "g")), WrongShape, "names 3 dimensions"),
    (((("b",), ("h", "w")), ("b", "w", "h")), WrongArgument, "does not say the sizes of h, w"),
    ((("b", ("h", "w")), ("b", "w", "h"), {"h": 5}), WrongShape, "24 elements and fixed_sizes says h=5"),
    ((("b", ("h", "w")), ("b", "w", "h"), {"h": 4, "w": 5}), WrongShape, "h=4, w=5"),
    ((("b", "f"), ("f", "b")), WrongShape, "partition dimension"),
    ((("b", "f"), ("b", "g")), WrongArgument, "f, g is on one side only"),
    ((("b", "b"), ("b", "b")), WrongArgument, "b is named twice"),
    ((("b", "f"), ("b", "f"), {"q": 3}), WrongArgument, "fixed_sizes names q"),
    ((("b", "f"), ("b", "f"), {"f": 3}), WrongShape, "fixed_sizes says f=3"),
    ((("b", 3), ("b", 3)), WrongArgument, "has the entry 3"),
    (("bf", "fb"), WrongArgument, "has the entry 'bf'"),
    ((("b", ("h", "w")), ("b", ("w", "h")), {"h": 4}), WrongShape, "not contiguous"),
]


@together(("arguments", "error", "text"), BAD_REARRANGE)
def test_rearrange_refuses(arguments, error, text):
    t, _ = tensor((8, 24))
    with pytest.raises(error) as caught:
        t.rearrange(*arguments)
    assert text in str(caught.value)
    assert caught.value.rule in ("rearrange", "partition-dim", "contiguous")


REFUSED = [
    (sbuf, lambda t: t.slice(1, 4, 99), OutOfBounds, "bounds", "4:99 leaves dimension 1"),
    (sbuf, lambda t: t.slice(1, 4, 4), OutOfBounds, "bounds", "at least one element"),
    (sbuf, lambda t: t.slice(1, -1, 4), OutOfBounds, "bounds", "-1:4"),
    (sbuf, lambda t: t.slice(1, 0, 4, 0), WrongArgument, "view", "step 0"),
    (sbuf, lambda t: t.slice(5, 0, 4), OutOfBounds, "view", "dimension 5 of a tensor with 3"),
    (sbuf, lambda t: t.slice("x", 0, 4), WrongArgument, "index", "'x' (str) is no index"),
    (sbuf, lambda t: t.select(1, 99), OutOfBounds, "bounds", "index 99 of dimension 1"),
    (sbuf, lambda t: t.select(1, -1), OutOfBounds, "bounds", "index -1"),
    (sbuf, lambda t: t.permute((1, 0, 2)), WrongShape, "partition-dim", "nc_transpose"),
    (hbm, lambda t: t.permute((0, 1)), WrongArgument, "view", "no permutation of 3"),
    (hbm, lambda t: t.permute((0, 1, 1)), WrongArgument, "view", "no permutation"),
    (sbuf, lambda t: t[0:1].broadcast(0, 4), WrongShape, "partition-dim", "matmul or dma_copy"),
    (sbuf, lambda t: t.broadcast(1, 4), WrongShape, "view", "dimension 1 of"),
    (sbuf, lambda t: t[:, 0:1].broadcast(1, 0), WrongArgument, "view", "size 0"),
    (sbuf, lambda t: t.expand_dim(0), WrongShape, "partition-dim", "after the partition dimension"),
    (sbuf, lambda t: t.expand_dim(4), OutOfBounds, "view", "position 4 of 3"),
    (sbuf, lambda t: t[0:1].squeeze_dim(0), WrongShape, "partition-dim", "stays"),
    (sbuf, lambda t: t.squeeze_dim(1), WrongShape, "view", "has 4 elements"),
    (sbuf, lambda t: t[:, 0, 0].squeeze_dim(1), WrongShape, "two-dimensional", "with 1 dimensions"),
    (hbm, lambda t: t[0, 0, 0].squeeze_dim(0), WrongShape, "two-dimensional", "with 0 dimensions"),
    (sbuf, lambda t: t.reshape_dim(0, (2, 4)), WrongShape, "partition-dim", "Only free dimensions split"),
    (sbuf, lambda t: t.reshape_dim(1, (3, -1)), WrongShape, "view", "does not have 4 elements"),
    (sbuf, lambda t: t.reshape_dim(1, (-2, -2)), WrongShape, "view", "entry of -2"),
    (sbuf, lambda t: t.reshape_dim(1, (0, 4)), WrongShape, "view", "entry of 0"),
    (sbuf, lambda t: t.flatten_dims(0, 1), WrongShape, "partition-dim", "Start after"),
    (sbuf, lambda t: t.flatten_dims(2, 1), WrongArgument, "view", "from 2 to 1"),
    (sbuf, lambda t: t.permute((0, 2, 1)).flatten_dims(1, 2), WrongShape, "contiguous", "not contiguous"),
    (sbuf, lambda t: t.reshape((4, 8, 6)), WrongShape, "partition-dim", "is 8 and would become 4"),
    (sbuf, lambda t: t.reshape((8, 25)), WrongShape, "view", "does not have 192 elements"),
    (sbuf, lambda t: t[:, 0, 0].reshape((8,)), WrongShape, "two-dimensional", "with 1 dimensions"),
    (hbm, lambda t: t.permute((2, 1, 0)).reshape((192,)), WrongShape, "contiguous", "Copy the tensor first"),
    (sbuf, lambda t: t[:, :, ::2].view("int16"), WrongShape, "contiguous", "stride 2"),
    (sbuf, lambda t: t.view("float64"), WrongDtype, "dtype", "float64"),
    (sbuf, lambda t: t.ap([[48, 4], [1, 6]]), WrongShape, "partition-step", "its row of 24 elements, not 48"),
    (sbuf, lambda t: t.ap([[24, 9], [1, 6]]), OutOfBounds, "bounds", "elements 0..197"),
    (sbuf, lambda t: t.ap([[24, 7], [5, 6]]), OutOfBounds, "bounds", "element 25 of a partition"),
    (hbm, lambda t: t.ap([[24, 8], [1, 25]]), OutOfBounds, "bounds", "0..192"),
    (hbm, lambda t: t.ap([[24, 8]], offset=-1), OutOfBounds, "bounds", "-1.."),
    (hbm, lambda t: t.ap([]), WrongArgument, "view", "Counts are at least 1"),
    (hbm, lambda t: t.ap([[1, 0]]), WrongArgument, "view", "Counts are at least 1"),
    (hbm, lambda t: t.ap([[-1, 2]]), WrongArgument, "view", "steps at least 0"),
    (hbm, lambda t: t.ap([24, 8]), WrongArgument, "view", "[step, count] pairs"),
    (sbuf, lambda t: t[0, 0, 0, 0], OutOfBounds, "bounds", "4 indices"),
    (sbuf, lambda t: t[8], OutOfBounds, "bounds", "8:9 leaves dimension 0"),
    (sbuf, lambda t: t[:, 0:5], OutOfBounds, "bounds", "min(stop, size)"),
    (sbuf, lambda t: t[:, ::-1], WrongArgument, "view", "step -1"),
    (sbuf, lambda t: t[:, 2:2], OutOfBounds, "bounds", "at least one element"),
    (sbuf, lambda t: t[None], WrongShape, "partition-dim", "after the partition dimension"),
    (sbuf, lambda t: t[..., 0, ...], WrongArgument, "index", "one '...'"),
    (sbuf, lambda t: t[1.5], WrongArgument, "index", "1.5 (float)"),
    (sbuf, lambda t: t[np.array([1, 2])], WrongArgument, "index", "(ndarray) is no index"),
    (sbuf, lambda t: t[:, language.ds(3, 2)], OutOfBounds, "bounds", "3:5"),
    (sbuf, lambda t: list(t), WrongArgument, "iterate", "Loop over range"),
]


@together(("buffer", "view", "error", "rule", "text"), REFUSED)
def test_views_refuse(buffer, view, error, rule, text):
    t, _ = tensor((8, 4, 6), buffer=buffer)
    with pytest.raises(error) as caught:
        # a pattern that leaves its tensor is refused when it is used
        _ = view(t).array
    assert type(caught.value) is error
    assert caught.value.rule == rule
    assert text in str(caught.value)


def test_a_pattern_beyond_its_tensor_is_refused_by_the_instruction_that_uses_it():
    def body(used, x, out):
        beyond = x.ap([[8, 4], [1, 9]])
        assert beyond.shape == (4, 9)
        isa.tensor_copy(dst=out, src=beyond[:, 0:8])
        if used:
            isa.tensor_copy(dst=out, src=beyond)

    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(run(functools.partial(body, False), x, out=[((4, 8), F32)]), x)
    for numerics in (True, False):
        with pytest.raises(OutOfBounds, match=r"elements 0\.\.32 of in0, which has 32"):
            run(functools.partial(body, True), x, out=[((4, 8), F32)], numerics=numerics)


def test_a_view_without_elements_may_be_made_and_written_to_no_effect():
    def body(x, out):
        isa.tensor_copy(dst=out, src=x)
        with pytest.warns(trnsim.EmptyView, match="nothing happens"):
            isa.memset(dst=out[:, language.ds(0, 0)], value=7.0)
        with pytest.warns(trnsim.EmptyView):
            isa.tensor_copy(dst=out.slice(1, 3, 3), src=x[:, 8:8])
        with pytest.raises(OutOfBounds, match="at least one element"):
            isa.tensor_copy(dst=out, src=x[:, 2:2])

    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(run(body, x, out=[((4, 8), F32)]), x)


def test_an_index_tile_may_have_more_dimensions_of_one():
    def body(x, index, out):
        far = language.ndarray((16, 6), np.float32, buffer=hbm)
        isa.dma_copy(dst=far, src=x)
        isa.dma_copy(dst=out, src=far.vector_select(0, index))
        isa.dma_copy(dst=out, src=far.ap([[6, 3], [1, 6]], vector_offset=index, indirect_dim=0))

    x = np.arange(96, dtype=np.float32).reshape(16, 6)
    index = np.array([5, 0, 9], np.int32).reshape(3, 1, 1)
    np.testing.assert_array_equal(run(body, x, index, out=[((3, 6), F32)]), x[[5, 0, 9]])


def test_a_pattern_on_a_view_may_step_by_the_views_own_row():
    def body(x, out):
        middle = x.reshape(4, 2, 8)
        part = middle.ap([[16, 4], [1, 16]]).ap([[16, 4], [2, 8]], offset=1)
        isa.tensor_copy(dst=out, src=part)
        isa.tensor_copy(dst=out, src=x[:, 8:16].ap([[8, 4], [1, 8]]))

    x = np.arange(64, dtype=np.float32).reshape(4, 16)
    np.testing.assert_array_equal(run(body, x, out=[((4, 8), F32)]), x[:, 8:])


INDEX = np.array([[5]], np.int32)


@pytest.mark.parametrize("where", ["sbuf", "hbm"])
def test_a_select_at_run_time_picks_what_the_index_says(where):
    def body(index, x, out):
        if where == "hbm":
            source = language.ndarray((8, 4, 6), np.float32, buffer=hbm)
            isa.dma_copy(dst=source, src=x.reshape((8, 4, 6)))
        register = isa.register_alloc(3)
        if where == "hbm":
            isa.dma_copy(dst=out[0:4, 0:6], src=source.select(0, index))
            isa.dma_copy(dst=out[4:8, 0:6], src=source[register])
            isa.dma_copy(dst=out[4:8, 6:7], src=source.select(0, register)[:, 2])
            isa.dma_copy(dst=out[0:4, 6:7], src=source[index, :, 1])
        else:
            isa.tensor_copy(dst=out[:, 0:1], src=x.select(1, index))
            isa.tensor_copy(dst=out[:, 1:7], src=x.reshape((8, 4, 6))[:, register])

    x = np.arange(192, dtype=np.float32).reshape(8, 24)
    out = run(body, INDEX, x, out=[((8, 7), F32)])
    cube = x.reshape(8, 4, 6)
    if where == "hbm":
        np.testing.assert_array_equal(out[:4, :6], cube[5])
        np.testing.assert_array_equal(out[4:, :6], cube[3])
        np.testing.assert_array_equal(out[4:, 6], cube[3, :, 2])
        np.testing.assert_array_equal(out[:4, 6], cube[5, :, 1])
    else:
        np.testing.assert_array_equal(out[:, 0], x[:, 5])
        np.testing.assert_array_equal(out[:, 1:], cube[:, 3])


def test_a_run_time_index_out_of_bounds_is_refused_on_chip_and_off():
    def one(t):
        def body(index, x, out):
            isa.tensor_copy(dst=out, src=t(x, index))

        return body

    x = np.zeros((8, 24), np.float32)
    for bad in (24, 100, -1):
        with pytest.raises(OutOfBounds) as caught:
            run(one(lambda x, i: x.select(1, i)), np.array([[bad]], np.int32), x, out=[((8, 1), F32)])
        assert caught.value.got == bad
        assert caught.value.limit == 24
        assert f"run-time index {bad} leaves" in str(caught.value)
    # the whole pattern must stay within the partition, not only its first element
    with pytest.raises(OutOfBounds, match="run-time index 20"):
        run(
            one(lambda x, i: x.ap([[24, 8], [1, 6]], scalar_offset=i, indirect_dim=1)),
            np.array([[20]], np.int32),
            x,
            out=[((8, 6), F32)],
        )


def test_scalar_offsets_move_patterns_along_the_dimension_of_the_base():
    def body(index, x, out):
        isa.tensor_copy(dst=out, src=x.ap([[24, 8], [2, 3]], offset=1, scalar_offset=index, indirect_dim=1))

    x = np.arange(192, dtype=np.float32).reshape(8, 24)
    np.testing.assert_array_equal(run(body, INDEX, x, out=[((8, 3), F32)]), x[:, 6:12:2])


def index_tile(shape=(8, 1), dtype="int32", buffer=sbuf):
    return tensor(shape, dtype, buffer)[0]


RUN_TIME = [
    (sbuf, lambda t: t.select(0, index_tile((1, 1))), WrongShape, "partition-dim", "dma_copy"),
    (sbuf, lambda t: t[index_tile((1, 1))], WrongShape, "partition-dim", "dma_copy"),
    (sbuf, lambda t: t.select(1, index_tile((2, 1))), WrongShape, "indirect", "shape (2, 1)"),
    (sbuf, lambda t: t.select(1, index_tile((1, 1), "float32")), WrongDtype, "indirect", "is float32"),
    (sbuf, lambda t: t.select(1, index_tile((1, 1), buffer=hbm)), WrongBuffer, "indirect", "register_load"),
    (hbm, lambda t: t.ap([[1, 4]], scalar_offset=3), WrongType, "indirect", "offset="),
    (
        hbm,
        lambda t: t.ap([[24, 8], [1, 24]], scalar_offset=index_tile((1, 1)), vector_offset=index_tile()),
        WrongArgument,
        "indirect",
        "exclude each other",
    ),
    (
        hbm,
        lambda t: t.ap([[24, 8], [1, 24]], vector_offset=index_tile(), indirect_dim=1),
        WrongBuffer,
        "indirect",
        "first",
    ),
    (sbuf, lambda t: t.ap([[24, 8], [1, 24]], vector_offset=index_tile()), WrongBuffer, "indirect", "in sbuf"),
    (hbm, lambda t: t.vector_select(1, index_tile()), WrongArgument, "indirect", "dimension 0"),
    (sbuf, lambda t: t.vector_select(0, index_tile()), WrongBuffer, "indirect", "nc_n_gather"),
    (hbm, lambda t: t.vector_select(0, index_tile((8, 2))), WrongShape, "indirect", "(8, 2)"),
    (hbm, lambda t: t.vector_select(0, index_tile((8, 1, 2))), WrongShape, "indirect", "[P, n]"),
    (hbm, lambda t: t.vector_select(0, index_tile(dtype="int16")), WrongDtype, "indirect", "32-bit"),
    (hbm, lambda t: t.vector_select(0, index_tile(buffer=hbm)), WrongBuffer, "indirect", "private_hbm"),
    (hbm, lambda t: t.vector_select(0, 3), WrongType, "indirect", "tile of row indices"),
    (hbm, lambda t: t.vector_select(0, index_tile()).slice(0, 0, 4), WrongArgument, "indirect", "already addresses"),
    (hbm, lambda t: t.vector_select(0, index_tile())[2:4], WrongArgument, "indirect", "already addresses"),
    (hbm, lambda t: t.vector_select(0, index_tile())[0], WrongArgument, "indirect", "already addresses"),
    (
        hbm,
        lambda t: t.vector_select(0, index_tile()).select(1, index_tile((1, 1))),
        WrongArgument,
        "indirect",
        "already has",
    ),
    (hbm, lambda t: t.vector_select(0, index_tile())[:, index_tile((1, 1))], WrongArgument, "indirect", "already has"),
    (hbm, lambda t: t[index_tile((1, 1)), index_tile((1, 1))], WrongArgument, "indirect", "already has"),
    (
        hbm,
        lambda t: t.vector_select(0, index_tile()).vector_select(0, index_tile()),
        WrongArgument,
        "indirect",
        "already",
    ),
    (hbm, lambda t: t.vector_select(0, index_tile()).permute((1, 0, 2)), WrongShape, "partition-dim", "(0)"),
    (hbm, lambda t: t.vector_select(0, index_tile()).expand_dim(0), WrongShape, "partition-dim", "(0)"),
    (hbm, lambda t: t.vector_select(0, index_tile((1, 1))).squeeze_dim(0), WrongShape, "partition-dim", "(0)"),
    (hbm, lambda t: t.vector_select(0, index_tile()).reshape_dim(0, (2, 4)), WrongShape, "partition-dim", "(0)"),
    (hbm, lambda t: t.vector_select(0, index_tile()).flatten_dims(0, 1), WrongShape, "partition-dim", "(0)"),
    (hbm, lambda t: t.vector_select(0, index_tile()).reshape((4, 48)), WrongShape, "partition-dim", "would become 4"),
    (hbm, lambda t: t.vector_select(0, index_tile()).view("int16"), WrongArgument, "indirect", "already has"),
    (hbm, lambda t: t.indirect(index_tile()), WrongBuffer, "indirect", "vector_select"),
    (sbuf, lambda t: t.indirect(index_tile((4, 1))), WrongShape, "indirect", "4 partitions"),
    (sbuf, lambda t: t.indirect(index_tile(dtype="float32")), WrongDtype, "indirect", "integers"),
    (sbuf, lambda t: t.indirect(index_tile(buffer=psum)), WrongBuffer, "indirect", "in psum"),
    (sbuf, lambda t: t.indirect(3), WrongType, "indirect", "SBUF tile"),
    (sbuf, lambda t: t.indirect(index_tile(), 9), WrongArgument, "indirect", "num_elem is 9"),
    (sbuf, lambda t: t.permute((0, 2, 1)).indirect(index_tile()), WrongShape, "contiguous", "not contiguous"),
    (sbuf, lambda t: t.indirect(index_tile())[:, 0:2], WrongArgument, "indirect", "already addresses"),
    (sbuf, lambda t: t.indirect(index_tile())[0:4], WrongArgument, "indirect", "already addresses"),
    (sbuf, lambda t: t.indirect(index_tile()).reshape((8, 2, 4)), WrongArgument, "indirect", "already addresses"),
    (sbuf, lambda t: t.indirect(index_tile()).indirect(index_tile()), WrongArgument, "indirect", "already has"),
]


@together(("buffer", "view", "error", "rule", "text"), RUN_TIME)
def test_run_time_views_refuse(buffer, view, error, rule, text):
    t, _ = tensor((8, 4, 6), buffer=buffer)
    with pytest.raises(error) as caught:
        view(t)
    assert type(caught.value) is error
    assert caught.value.rule == rule
    assert text in str(caught.value)


def test_views_after_a_vector_select_keep_the_rows_and_shape_the_rest():
    def body(index, x, out):
        table = language.ndarray((16, 4, 6), np.float32, buffer=hbm)
        isa.dma_copy(dst=table, src=x)
        rows = table.vector_select(0, index)
        assert rows.shape == (5, 4, 6)
        assert rows.is_indirect()
        isa.dma_copy(dst=out[0:5, 0:24], src=rows)
        isa.dma_copy(dst=out[0:5, 24:48], src=rows.permute((0, 2, 1)))
        isa.dma_copy(dst=out[0:5, 48:52], src=rows[:, 1:3, 2:6:2].reshape((5, 2, 2)))
        isa.dma_copy(dst=out[0:5, 52:58], src=rows.reshape((5, 24)).reshape_dim(1, (4, 6)).select(1, 3))
        isa.dma_copy(dst=out[0:5, 58:64], src=rows[:, 2][:, :])

    x = np.arange(16 * 24, dtype=np.float32).reshape(16, 24)
    index = np.array([[3], [0], [15], [3], [7]], np.int32)
    out = run(body, index, x, out=[((5, 64), F32)])
    cube = x[index[:, 0]].reshape(5, 4, 6)
    np.testing.assert_array_equal(out[:, :24], cube.reshape(5, 24))
    np.testing.assert_array_equal(out[:, 24:48], cube.transpose(0, 2, 1).reshape(5, 24))
    np.testing.assert_array_equal(out[:, 48:52], cube[:, 1:3, 2:6:2].reshape(5, 4))
    np.testing.assert_array_equal(out[:, 52:58], cube[:, 3])
    np.testing.assert_array_equal(out[:, 58:], cube[:, 2])


@pytest.mark.parametrize("partitions", [8, 16, 32])
def test_tensor_indirection_reads_offsets_down_the_partitions_of_each_group(partitions):
    k, count = 3, min(16, partitions) * 3 - 2

    def body(x, index, out):
        isa.tensor_copy(dst=out, src=x.indirect(index, count))

    rng = np.random.default_rng(partitions)
    x = rng.standard_normal((partitions, 40)).astype(np.float32)
    index = rng.integers(0, 40, (partitions, k)).astype(np.int32)
    out = run(body, x, index, out=[((partitions, count), F32)], target="trn3")
    for p in range(partitions):
        g = min(16, partitions)
        first = p // g * g
        offsets = [index[first + i % g, i // g] for i in range(count)]
        np.testing.assert_array_equal(out[p], x[p, offsets])


def test_tensor_indirection_scatters_and_follows_strides():
    def body(x, index, out):
        out[...] = 0.0
        isa.tensor_copy(dst=out[:, 1:21:2].indirect(index), src=x)

    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    index = np.array([[9, 3], [1, 4], [0, 8], [5, 7]], np.int32)
    out = run(body, x, index, out=[((4, 24), F32)], target="trn3")
    expected = np.zeros((4, 24), np.float32)
    order = index.T.reshape(-1)
    expected[:, 1 + 2 * order] = x
    np.testing.assert_array_equal(out, expected)


def test_tensor_indirection_is_refused_where_it_cannot_work():
    x, index = np.zeros((32, 40), np.float32), np.zeros((32, 1), np.int32)

    def body(x, index, out):
        isa.tensor_copy(dst=out, src=x.indirect(index, 16))

    with pytest.raises(WrongEngine) as caught:
        run(body, x, index, out=[((32, 16), F32)], target="trn2")
    assert caught.value.limit == "trn3"

    def greedy(x, index, out):
        isa.tensor_copy(dst=out, src=x.indirect(index))

    with pytest.raises(WrongShape) as caught:
        run(greedy, x, index, out=[((32, 32), F32)], target="trn3")
    assert "holds 16" in str(caught.value)
    index[3] = 40
    with pytest.raises(OutOfBounds, match="indirect column 40"):
        run(body, x, index, out=[((32, 16), F32)], target="trn3")


def test_engines_do_not_step_over_partitions_and_dma_does():
    def engine(x, out):
        isa.tensor_copy(dst=out, src=x[0:8:2])

    def dma(x, out):
        isa.dma_copy(dst=out, src=x[0:8:2])

    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    with pytest.raises(HardwareLimit) as caught:
        run(engine, x, out=[((4, 4), F32)])
    assert caught.value.rule == "partition-step"
    assert "2 partitions at a time" in str(caught.value)
    np.testing.assert_array_equal(run(dma, x, out=[((4, 4), F32)]), x[::2])


def test_reading_a_view_of_which_part_was_never_written_names_the_first_element():
    def body(x, out):
        fresh = language.ndarray((4, 8), np.float32, name="fresh")
        isa.tensor_copy(dst=fresh[:, 0:6], src=x)
        isa.tensor_copy(dst=out, src=fresh[:, 2:8])

    with pytest.raises(ReadUninitialized) as caught:
        run(body, np.zeros((4, 6), np.float32), out=[((4, 6), F32)], strict=True)
    assert caught.value.got == (0, 4)
    assert "8 of 24 elements" in str(caught.value)


def test_values_print_with_what_was_not_written_masked():
    with activate(Session(SimParams(target=TARGETS["trn2"]))):
        t = language.ndarray((1, 4), np.float32, name="tile")
        t[:, 0:2] = 3.0
        text = repr(t)
    assert "NkiTensor(tile, shape=(1, 4), dtype=float32, buffer=sbuf)" in text
    assert "3.0" in text
    assert "--" in text


@quick
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), min_size=1, max_size=4))
def test_a_view_overlaps_itself_when_two_elements_share_an_address(dims):
    offsets = [0]
    for stride, n in dims:
        offsets = [o + stride * i for o in offsets for i in range(n)]
    assert overlaps_itself(tuple(n for _, n in dims), tuple(s for s, _ in dims)) == (len(set(offsets)) < len(offsets))


def test_bf16_views_survive_without_precise_fp(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")

    def body(x, out):
        out[...] = x.reshape((4, 2, 4)).permute((0, 2, 1)).reshape_dim(1, (2, 2))

    x = np.arange(32).reshape(4, 8).astype(ml_dtypes.bfloat16)
    out = run(body, x, out=[((4, 8), x.dtype)])
    np.testing.assert_array_equal(
        out.astype(np.float32), x.astype(np.float32).reshape(4, 2, 4).transpose(0, 2, 1).reshape(4, 8)
    )


def test_hbm_outputs_can_be_returned_as_views():
    def kernel(x):
        out = language.ndarray((4, 6), np.float32, buffer=shared_hbm)
        isa.dma_copy(dst=out, src=x)
        return out.permute((1, 0))[1:5]

    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(trnsim.simulate(kernel, lint="off")(x), x.T[1:5])


def test_a_refused_view_says_on_which_line_of_which_kernel():
    def kernel(x):
        tile = language.ndarray((4, 6), np.float32)
        return tile[:, 0:9]

    with pytest.raises(OutOfBounds) as caught:
        trnsim.simulate(kernel, lint="off", target="trn1")(np.zeros((2, 2), np.float32))
    first = kernel.__code__.co_firstlineno
    assert caught.value.line.endswith(f"test_views.py:{first + 2}")
    assert (caught.value.kernel, caught.value.target) == ("kernel", "trn1")


def test_marks_follow_wide_views_at_odd_addresses():
    def body(x, out):
        low = language.ndarray((4, 8), np.uint8, address=(0, 2))
        isa.dma_copy(dst=low.view(np.int32), src=x)
        isa.dma_copy(dst=out, src=low.view(np.int32))
        isa.dma_copy(dst=out[:, 0:1].view(np.uint8), src=language.ndarray((4, 4), np.uint8, address=(0, 8)))

    # bytes 2 to 10 are written, 10 and 11 are not
    with pytest.raises(ReadUninitialized) as caught:
        run(body, np.arange(8, dtype=np.int32).reshape(4, 2), out=[((4, 2), I32)], strict=True)
    assert caught.value.got == (0, 2)
