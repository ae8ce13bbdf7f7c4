import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import trnsci
from tests.trnblas.oracles import F64, KERNELS
from trnblas import iamax, iamin
from trnsci import ArgumentError, UnsupportedError
from trnsci.testing import BACKENDS, gaussian

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("n", [1, 5, 130, 3000])
def test_positions_of_extremes(backend, n):
    x = gaussian((3, n), 1)
    with backend:
        largest, smallest = iamax(x), iamin(x)
    size = np.abs(x.numpy())
    assert largest.tolist() == size.argmax(-1).tolist()
    assert smallest.tolist() == size.argmin(-1).tolist()


@on_backends
def test_the_first_of_equals_and_nan_win(backend):
    x = torch.tensor([[1.0, -2.0, 2.0, 0.5, -0.5], [1.0, torch.nan, torch.inf, torch.nan, 0.0]])
    with backend:
        assert iamax(x).tolist() == [1, 1]
        assert iamin(x).tolist() == [3, 1]
        assert [int(iamax(row)) for row in (*x, -x[0], torch.tensor([0.0, -torch.inf, torch.inf]))] == [1, 1, 1, 1]


def test_complex_extremes_go_by_the_sum_of_parts():
    x = torch.tensor([3 + 0j, 2 + 2j, 0.1j])
    assert int(iamax(x)) == 1
    assert int(iamin(x)) == 2


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=40))
def test_any_vector(values):
    size = np.abs(np.array(values, np.float32))
    assert int(iamax(torch.tensor(values))) == int(size.argmax())
    assert int(iamin(torch.tensor(values))) == int(size.argmin())


@on_backends
def test_batches_and_strides(backend):
    x = gaussian((2, 40, 3), 1)
    with backend:
        assert torch.equal(iamax(x.mT), x.abs().argmax(1))
        assert iamax(x[:0]).shape == (0, 40)


def test_opcheck_and_plan():
    torch.library.opcheck(torch.ops.trnblas.iamax.default, (gaussian((3,), 1, F64), True))
    assert trnsci.plan(iamax, torch.ones(4, 5)).flops == 20


@pytest.mark.parametrize("backend", KERNELS, ids=str)
def test_a_kernel_that_would_round_refuses(backend):
    for x in (torch.ones(3, dtype=F64), torch.ones(3, dtype=torch.complex64)):
        with backend, pytest.raises(UnsupportedError) as caught:
            iamax(x)
        assert dict(caught.value.reasons)["pytorch"] == "takes it"


@pytest.mark.parametrize("function", [iamax, iamin])
def test_an_empty_vector_has_no_extreme(function):
    with pytest.raises(ArgumentError, match=r"shape of x is \(0,\), expected at least one element") as caught:
        function(torch.ones(0))
    assert caught.value.op == function.__name__
