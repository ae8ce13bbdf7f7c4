"""What crosses a kernel's edge: kinds of arrays, dtypes, layouts, aliases, writes to inputs, results."""

import warnings
from collections import namedtuple
from dataclasses import dataclass
from enum import Enum

import ml_dtypes
import numpy as np
import pytest
import torch

import trnsim
from tests.together import together
from trnsim import isa as nisa, language as nl
from trnsim.errors import KernelError, ReadUninitialized, WrongArgument, WrongBuffer, WrongDtype, WrongShape
from trnsim.lint import LintWarning

pytestmark = pytest.mark.sim

DTYPES = [
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int8",
    "int16",
    "int32",
    "uint8",
    "uint16",
    "uint32",
]


def np_dtype(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def load(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def copy_kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=load(x))
    return out


def double_in_place(x):
    tile = load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=x, src=tile)


def run(kernel, *args, **options):
    return trnsim.simulate(kernel, **options)(*args)


# kinds and dtypes


@together("dtype", [*DTYPES, "float8_e4m3", "float8_e8m0fnu", "bool"])
def test_numpy_in_numpy_out(dtype):
    x = np.arange(1, 13).reshape(3, 4).astype(np.float32).astype(np_dtype(dtype))
    made = run(copy_kernel, x)
    assert type(made) is np.ndarray
    assert made.dtype == x.dtype
    assert made.tobytes() == x.tobytes()


@together("dtype", [*DTYPES, "bool", "float8_e8m0fnu"])
def test_torch_in_torch_out(dtype):
    values = torch.arange(1, 13, dtype=torch.float32).reshape(3, 4)
    x = values.to(torch.int32).to(getattr(torch, dtype)) if dtype.startswith("u") else values.to(getattr(torch, dtype))
    made = run(copy_kernel, x)
    assert isinstance(made, torch.Tensor)
    assert made.dtype == x.dtype
    assert torch.equal(made.view(torch.uint8), x.view(torch.uint8))


def test_a_dtype_torch_lacks_comes_back_as_float32():
    def kernel(x):
        out = nl.ndarray(x.shape, nl.float8_e4m3, nl.shared_hbm)
        tile = nl.ndarray(x.shape, nl.float8_e4m3, nl.sbuf)
        nisa.tensor_copy(dst=tile, src=load(x))
        nisa.dma_copy(dst=out, src=tile)
        return out

    made = run(kernel, torch.tensor([[1.0, 1.5, -240.0]]))
    assert made.dtype == torch.float32
    assert made.tolist() == [[1.0, 1.5, -240.0]]


@together(
    ("value", "kind", "hint"),
    [
        (np.zeros((2, 2)), "float64", "float32"),
        (np.zeros((2, 2), np.int64), "int64", "int32"),
        (torch.zeros(2, 2, dtype=torch.int64), "int64", "int32"),
        (torch.zeros(2, 2, dtype=torch.float64), "float64", "float32"),
        (np.zeros((2, 2), np.complex64), "complex64", "two float32 arrays"),
        (torch.zeros(2, 2, dtype=torch.complex64), "complex64", "two float32 arrays"),
        (np.zeros((2, 2), ">f4"), ">f4", "convert"),
        (np.array([["a"]]), "<U1", "convert"),
    ],
)
def test_dtypes_trainium_lacks_are_refused_with_what_to_pass(value, kind, hint):
    # int64 came with NKI 0.7, for scalars
    with pytest.raises(WrongDtype) as caught:
        run(copy_kernel, value, nki="0.6")
    assert (caught.value.rule, caught.value.got) == ("argument-dtype", kind)
    assert "argument x" in str(caught.value)
    assert hint in caught.value.hint


def test_anything_with_an_array_interface_is_taken():
    class Foreign:
        shape, dtype = (2, 3), np.dtype(np.float32)

        def __array__(self, dtype=None, copy=None):
            return np.arange(6, dtype=np.float32).reshape(2, 3)

    assert run(copy_kernel, Foreign()).tolist() == [[0, 1, 2], [3, 4, 5]]

    def returns(x):
        double_in_place(x)
        return x

    assert run(returns, Foreign()).tolist() == [[0, 2, 4], [6, 8, 10]]
    with pytest.raises(WrongArgument, match="Foreign, which cannot change"):
        run(double_in_place, Foreign())


def test_scalars_and_other_values_pass_through():
    class Mode(Enum):
        a = 1

    seen = []

    def kernel(x, *rest, flag=None):
        seen.extend((*rest, flag))

    given = (3, 2.5, "text", None, True, np.float32(1.5), np.int64(7), Mode.a, nl.float32, np.float32)
    run(lambda x, *rest: kernel(x, *rest, flag=nl.sbuf), np.zeros((1, 1), np.float32), *given, lint="off")
    assert seen == [*given, nl.sbuf]
    assert [type(s) for s in seen[:-1]] == [type(g) for g in given]


def test_torch_dtypes_as_arguments_become_nki_dtypes():
    def kernel(x, dtype):
        out = nl.ndarray(x.shape, dtype, nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype, nl.sbuf)
        assert dtype == nl.bfloat16
        nisa.tensor_copy(dst=tile, src=load(x))
        nisa.dma_copy(dst=out, src=tile)
        return out

    assert run(kernel, torch.ones(2, 2), torch.bfloat16).dtype == torch.bfloat16


# layouts


LAYOUTS = {
    "transposed": lambda a: a.T,
    "strided": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "reversed": lambda a: a[::-1, ::-1],
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "offset": lambda a: np.concatenate([a.ravel()[:1], a.ravel()])[1:].reshape(a.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_is_read(layout):
    x = LAYOUTS[layout](np.arange(16, dtype=np.float32).reshape(4, 4))
    np.testing.assert_array_equal(run(copy_kernel, x), x)


@pytest.mark.parametrize("layout", ["transposed", "strided", "reversed", "offset"])
def test_any_layout_is_written_in_place(layout):
    x = LAYOUTS[layout](np.arange(16, dtype=np.float32).reshape(4, 4).copy())
    want = 2 * x
    assert run(double_in_place, x) is None
    np.testing.assert_array_equal(x, want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e5m2])
def test_torch_layouts_are_written_in_place(dtype):
    base = torch.arange(16, dtype=torch.float32).reshape(4, 4).to(dtype)
    for x in (base.clone(), base.clone().t(), base.clone()[:, ::2]):
        want = (2 * x.float()).to(dtype).float()
        run(double_in_place, x)
        assert torch.equal(x.float(), want)


def test_tensors_that_need_gradients_are_read_and_written():
    x = torch.ones(2, 2, requires_grad=True)
    assert not run(copy_kernel, x).requires_grad
    run(double_in_place, x)
    assert x.detach().tolist() == [[2, 2], [2, 2]]
    assert x.requires_grad


def test_torch_tensors_of_other_kinds_are_refused():
    with pytest.raises(WrongArgument, match="to_dense"):
        run(copy_kernel, torch.eye(3).to_sparse())
    with pytest.raises(WrongArgument, match="numerics=False"):
        run(copy_kernel, torch.empty(2, 2, device="meta"))


def test_conjugate_and_negative_views_are_resolved():
    x = torch.randn(2, 3, dtype=torch.complex64).conj().imag
    assert x.is_neg()
    assert torch.equal(run(copy_kernel, x), x.resolve_neg())


def test_read_only_arrays_are_read_and_not_written():
    x = np.ones((2, 2), np.float32)
    x.flags.writeable = False
    np.testing.assert_array_equal(run(copy_kernel, x), x)
    with pytest.raises(WrongArgument) as caught:
        run(double_in_place, x)
    assert (caught.value.rule, caught.value.got, caught.value.kernel) == ("read-only", "x", "double_in_place")
    assert x.tolist() == [[1, 1], [1, 1]]


def test_no_dimension_is_one_element():
    def kernel(x):
        out = nl.ndarray((1, 1), x.dtype, nl.shared_hbm)
        nisa.dma_copy(dst=out, src=load(x.reshape((1, 1))))
        return out

    for x in (np.array(3.0, np.float32), torch.tensor(3.0)):
        assert run(kernel, x).tolist() == [[3.0]]

    def write(x):
        tile = nl.full((1, 1), 7.0, nl.float32)
        nisa.dma_copy(dst=x.reshape((1, 1)), src=tile)

    x = np.array(3.0, np.float32)
    run(write, x)
    assert x.item() == 7.0
    t = torch.tensor(3.0)
    run(write, t)
    assert t.item() == 7.0


@pytest.mark.parametrize("x", [np.zeros((0, 4), np.float32), torch.zeros(3, 0)])
def test_empty_arrays_are_refused_before_the_kernel_runs(x):
    with pytest.raises(WrongShape) as caught:
        run(copy_kernel, x)
    assert caught.value.rule == "argument-shape"
    assert "argument x" in str(caught.value)


# containers


Pair = namedtuple("Pair", "a b")


@dataclass
class Weights(nl.NKIObject):
    w: object = None
    scale: float = 1.0
    inner: object = None


def test_arrays_inside_containers_are_tensors():
    def kernel(many, table, pair, weights):
        outs = []
        for t in (many[0], many[1][0], table["k"], pair.b, weights.w, weights.inner.w):
            outs.append(copy_kernel(t))
        weights.scale = 5.0
        return outs, {"pair": Pair(outs[0], outs[1])}, Weights(w=outs[2])

    arrays = [np.full((2, 2), i, np.float32) for i in range(6)]
    weights = Weights(w=arrays[4], scale=2.0, inner=Weights(w=arrays[5]))
    outs, table, made = run(
        kernel, [arrays[0], (arrays[1],)], {"k": arrays[2]}, Pair(1, arrays[3]), weights, lint="off"
    )
    assert [o[0, 0] for o in outs] == [0, 1, 2, 3, 4, 5]
    assert isinstance(table["pair"], Pair)
    assert isinstance(made, Weights)
    assert made.w[0, 0] == 2
    # the kernel works on an object of its own
    assert weights.scale == 2.0
    assert weights.w is arrays[4]


def test_writes_to_arrays_inside_containers_come_back():
    def kernel(many, weights):
        double_in_place(many[0])
        double_in_place(weights.w)

    x, w = np.ones((2, 2), np.float32), torch.ones(2, 2).t()
    run(kernel, (x,), Weights(w=w))
    assert x.tolist() == w.tolist() == [[2, 2], [2, 2]]


# aliases and results


def test_one_array_given_twice_is_one_tensor():
    def kernel(a, b):
        double_in_place(a)
        return copy_kernel(b)

    for x in (np.ones((2, 2), np.float32), torch.ones(2, 2)):
        assert run(kernel, x, x).tolist() == [[2, 2], [2, 2]]
    x = np.ones((2, 2), np.float32)
    assert run(kernel, x, x[:]).tolist() == [[2, 2], [2, 2]]
    strided = np.ones((2, 4), np.float32)[:, ::2]
    assert run(kernel, strided, strided).tolist() == [[2, 2], [2, 2]]


def test_overlapping_arrays_are_restored_as_they_were():
    def kernel(a, b):
        double_in_place(a)
        double_in_place(b)
        load(nl.ndarray((2, 2), a.dtype, nl.shared_hbm))

    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    with pytest.raises(ReadUninitialized):
        run(kernel, x, x[2:], strict=True)
    np.testing.assert_array_equal(x, np.arange(16, dtype=np.float32).reshape(4, 4))


def test_a_returned_input_is_the_callers_own_object():
    def kernel(x):
        double_in_place(x)
        return x

    for x in (np.ones((2, 2), np.float32), np.ones((2, 2), np.float32).T, torch.ones(2, 2)):
        assert run(kernel, x) is x
        assert x.tolist() == [[2, 2], [2, 2]]


def test_a_returned_view_of_an_input_is_a_copy():
    def kernel(x):
        return x[0:1], x.reshape((4, 1))

    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    row, column = run(kernel, x)
    x[...] = -1
    assert row.tolist() == [[0, 1]]
    assert column.tolist() == [[0], [1], [2], [3]]


@pytest.mark.parametrize("memory", ["sbuf", "psum"])
def test_on_chip_results_are_refused(memory):
    def kernel(x):
        tile = nl.ndarray(x.shape, x.dtype, getattr(nl, memory))
        nisa.tensor_copy(dst=tile, src=load(x))
        return tile

    with pytest.raises(WrongBuffer) as caught:
        run(kernel, np.ones((2, 2), np.float32), lint="off")
    found = caught.value
    assert (found.rule, found.got, found.kernel, found.target) == ("return-on-chip", memory, "kernel", "trn2")
    assert found.line.endswith(f"test_arrays.py:{kernel.__code__.co_firstlineno + 1}")
    assert "shared_hbm" in found.hint


def test_registers_are_no_result():
    def kernel(x):
        return nisa.register_alloc(3)

    with pytest.raises(WrongArgument, match="register_store"):
        run(kernel, np.ones((2, 2), np.float32))


def test_results_in_private_hbm_are_warned_about():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, nl.hbm)
        nisa.dma_copy(dst=out, src=load(x))
        return out

    with pytest.warns(trnsim.PrivateOutput, match="kernel returns out, which is in nl.hbm"):
        run(kernel, np.ones((2, 2), np.float32))


def test_results_nobody_gets_are_warned_about():
    def kernel(x, write):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(dst=out, src=load(x))
        if write:
            nisa.dma_copy(dst=x, src=load(out))

    with pytest.warns(trnsim.LostOutput, match=r"kernel makes out\[2, 2\] .*test_arrays.py:\d+\), and returns") as seen:
        run(kernel, np.ones((2, 2), np.float32), False)
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(kernel, np.ones((2, 2), np.float32), True)


def test_lists_as_arguments_are_warned_about_where_the_parser_takes_none():
    def kernel(x, sizes):
        assert sizes == [1, 2]
        return x

    x = np.ones((2, 2), np.float32)
    with pytest.warns(LintWarning, match="gets a list as sizes, and the NKI compiler takes tuples"):
        trnsim.simulate(kernel, nki="0.6")(x, [1, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trnsim.simulate(kernel)(x, [1, 2])
        trnsim.simulate(kernel, nki="0.6", lint="off")(x, [1, 2])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int16", "bool"])
def test_elements_a_scatter_never_wrote_come_back_as_poison(dtype):
    def kernel(x, rows):
        out = nl.ndarray((4, 2), x.dtype, nl.shared_hbm)
        nisa.dma_copy(dst=out.vector_select(0, load(rows)), src=load(x))
        return out

    x = np.ones((2, 2), np_dtype(dtype))
    with pytest.warns(
        trnsim.UnwrittenOutput, match=r"kernel returns out\[4, 2\], of which 4 of 8 elements .* first is \(2, 0\)"
    ):
        made = run(kernel, x, np.array([[1], [0]], np.int32))
    assert (made[:2] == 1).all()
    if x.dtype.kind in "ib":
        assert (made[2:] == (-1 if x.dtype.kind == "i" else True)).all()
    else:
        assert np.isnan(made[2:].astype(np.float32)).all()


# failures


@pytest.mark.parametrize("make", [np.ones, torch.ones])
def test_a_failing_kernel_leaves_its_inputs_as_they_were(make):
    def kernel(x, y):
        double_in_place(x)
        double_in_place(y)
        double_in_place(x)
        raise ValueError("stop")

    dtype = np.float32 if make is np.ones else torch.float32
    x, y = make((3, 3), dtype=dtype), make((4, 4), dtype=dtype).T
    with pytest.raises(ValueError, match="stop"):
        run(kernel, x, y, lint="off")
    assert (x == 1).all()
    assert (y == 1).all()


def test_errors_outside_instructions_know_their_kernel():
    def kernel(x):
        return x[5:9]

    with pytest.raises(KernelError) as caught:
        run(kernel, np.ones((2, 2), np.float32))
    assert (caught.value.kernel, caught.value.target) == ("kernel", "trn2")


# without values


def test_without_values_shapes_go_through_and_nothing_is_held():
    def kernel(x):
        out = nl.ndarray(x.shape, nl.bfloat16, nl.shared_hbm)
        tile = nl.ndarray((128, 512), nl.bfloat16, nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[0:128, 0:512])
        nisa.dma_copy(dst=out[0:128, 0:512], src=tile)
        return out

    side = 1 << 20
    meta = torch.empty(side, side, dtype=torch.bfloat16, device="meta")
    made = run(kernel, meta, numerics=False)
    assert made.is_meta
    assert (made.shape, made.dtype) == ((side, side), torch.bfloat16)
    thin = np.broadcast_to(np.zeros((), ml_dtypes.bfloat16), (side, side))
    made = run(kernel, thin, numerics=False)
    assert (made.shape, made.dtype) == ((side, side), thin.dtype)
    assert np.isnan(made[0, 0].astype(np.float32))
    with pytest.raises(ValueError, match="read-only"):
        made[0, 0] = 1


@pytest.mark.parametrize("name", ["tfloat32", "float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4"])
def test_types_numpy_lacks_behave_as_its_own_and_are_never_taken_for_another(name):
    kind = getattr(nl, name)
    assert (str(kind), kind.name) == (name, name)
    assert kind == name
    assert np.dtype(kind).itemsize == kind.itemsize == np.dtype(kind)[name].itemsize
    assert np.dtype(kind) == kind
    for other in (nl.float32, nl.uint32, nl.uint16, nl.bfloat16):
        assert other != kind
        assert kind != other


def test_an_array_of_a_type_numpy_lacks_goes_in():
    values = np.zeros((128, 8), nl.tfloat32)
    values["tfloat32"] = 1.5
    result = trnsim.simulate(trnsim.jit(copy_kernel), target="trn2", lint="off")(values)
    np.testing.assert_array_equal(result, np.full((128, 8), 1.5, np.float32))
