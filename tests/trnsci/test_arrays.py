from collections import namedtuple

import ml_dtypes
import numpy as np
import pytest
import torch

import trnblas
import trnfft
import trnsolver
from tests.together import together
from trnsci import ArgumentError, DtypeError, array_function, merge_complex, split_complex
from trnsci.arrays import from_numpy, to_numpy

Pair = namedtuple("Pair", ["first", "second"])


@array_function
def twice(x, *, out=None):
    """Double it."""
    if out is not None:
        return torch.mul(x, 2, out=out)
    return x * 2


@array_function
def nested(xs, scale):
    return Pair(xs[0] * scale, [x + scale for x in xs])


def test_torch_in_torch_out_untouched():
    x = torch.ones(2)
    assert isinstance(twice(x), torch.Tensor)
    assert array_function(lambda x: x)(x) is x
    assert twice.__doc__ == "Double it."


def test_numpy_in_numpy_out_nested():
    result = nested([np.ones(2), np.zeros(2)], np.float32(3.0))
    assert isinstance(result, Pair)
    assert isinstance(result.first, np.ndarray)
    assert [x.tolist() for x in result.second] == [[4.0, 4.0], [3.0, 3.0]]


def test_memory_is_shared_where_torch_can():
    x = np.ones(3)
    from_numpy(x)[0] = 7
    assert x[0] == 7


@together(
    "array",
    [
        np.arange(6.0)[::-1],
        np.arange(6.0).astype(">f8"),
        np.broadcast_to(np.float32(2.0), (3, 2)),
        np.arange(4).astype(ml_dtypes.bfloat16),
        np.zeros((2, 0)),
        np.array(3.0),
        np.ndarray(3, np.float32, buffer=np.arange(13, dtype=np.uint8), offset=1),
        np.rec.array([(1.0, 2)], dtype=[("x", "f4"), ("y", "i2")])["x"],
    ],
)
def test_awkward_arrays(array):
    got = twice(array)
    assert got.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(got.astype(float), 2 * array.astype(float))


@pytest.mark.parametrize("view", [slice(None), slice(None, None, -1)])
def test_out_arrays_are_written_whatever_their_strides(view):
    out = np.zeros(3)
    assert np.shares_memory(twice(np.arange(3.0), out=out[view]), out)
    assert out[view].tolist() == [0.0, 2.0, 4.0]
    assert isinstance(twice(torch.arange(3.0).double() * 2, out=out[view]), torch.Tensor)
    assert out[view].tolist() == [0.0, 4.0, 8.0]


@pytest.mark.parametrize("kind", [tuple, list, lambda outs: Pair(*outs)])
def test_every_array_of_several_outs_is_written_whatever_its_memory(kind):
    def both(x, *, out):
        return Pair(torch.mul(x, 2, out=out[0]), torch.add(x, 1, out=out[1]))

    outs = np.zeros(3)[::-1], np.zeros(3, ">f8")
    assert all(a is b for a, b in zip(array_function(both)(np.arange(3.0), out=kind(outs)), outs, strict=True))
    assert [x.tolist() for x in outs] == [[0.0, 2.0, 4.0], [1.0, 2.0, 3.0]]
    outs[1].flags.writeable = False
    with pytest.raises(ArgumentError, match=r"both: out is .*read-only"):
        array_function(both)(np.arange(3.0), out=kind(outs))


def test_a_tensor_wins_over_arrays():
    assert isinstance(array_function(lambda x, y: x + y)(np.ones(2), torch.ones(2)), torch.Tensor)


def test_dlpack_is_taken_as_torch():
    class Foreign:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, **options):
            return self.tensor.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    got = twice(Foreign(torch.ones(2)))
    assert isinstance(got, torch.Tensor)
    assert got.tolist() == [2.0, 2.0]


def test_arrays_torch_has_no_dtype_for():
    with pytest.raises(DtypeError) as caught:
        twice(np.array(["a"]))
    assert str(caught.value) == "twice: dtype is <U1, expected a dtype PyTorch has."


def test_an_array_that_cannot_be_written_is_refused_before_anything_is_computed():
    fixed = np.zeros(2)
    fixed.flags.writeable = False
    with pytest.raises(ArgumentError, match=r"twice: out is .*read-only"):
        twice(np.ones(2), out=fixed)


def test_complex_planes():
    z = torch.tensor([1 + 2j, 3 - 4j])
    real, imag = split_complex(z.conj())
    assert (real.tolist(), imag.tolist()) == ([1.0, 3.0], [-2.0, 4.0])
    assert real.is_contiguous()
    assert torch.equal(merge_complex(real, imag), z.conj().resolve_conj())
    assert to_numpy(z.conj()).tolist() == [1 - 2j, 3 + 4j]


@pytest.mark.parametrize(
    ("function", "inner"),
    [
        (trnblas.hemm, "vector"),
        (trnblas.her2k, "twice"),
        (trnfft.correlate, "correlates"),
        (trnsolver.minres, "adjoint"),
        (trnsolver.lsmr, "look"),
    ],
)
def test_a_function_like_another_takes_that_ones_keywords_and_no_others(function, inner):
    eye = torch.eye(2)
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\) got an unexpected keyword argument '{inner}'"):
        function(*([1.0] if function.__module__.startswith("trnblas") else []), eye, eye, **{inner: False})
