import pytest
import torch

import trnblas
import trnsci
from trnsci import UnsupportedError
from trnsci.accuracy import state_error


def test_the_bound_of_the_one_op_that_ran():
    a = torch.eye(8)
    result, error = trnsci.achieved(trnblas.gemm, 1.0, a, a)
    assert torch.equal(result, a)
    assert error == trnblas.error_bound(8, torch.float32)


def test_what_a_function_verified_itself_counts_more():
    def verified():
        state_error(1e-3)
        return trnblas.gemm(1.0, torch.eye(2), torch.eye(2))

    assert trnsci.achieved(verified).error == 1e-3
    # nobody asks: nothing is kept
    verified()


def test_a_function_that_states_none_is_refused():
    with pytest.raises(UnsupportedError, match="states no error for this call, which ran 0 ops"):
        trnsci.achieved(torch.add, torch.ones(1), 1)
