import numpy as np
import pytest
import torch

import trnsci
from trnsci import ArgumentError
from trnsci.testing import BACKENDS, assert_within, gamma, gaussian
from trntensor import multi_einsum, to_xla

F64 = torch.float64
on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)


@on_backends
def test_results_are_those_of_each_expression(backend):
    a, b, c = gaussian((6, 7), 1), gaussian((7, 8), 2), gaussian((8, 6), 3)
    cases = [
        ("ij,jk->ik", a, b), ("ij,jk->ki", a, b), ("ij,jk,kl->il", a, b, c), ("ij->ji", a), ("ii->", a @ b @ c),
        ("ij,jk->ik", a, b), (a, [0, 1], [1, 0]),
    ]  # fmt: skip
    with backend:
        got = multi_einsum(cases)
    for made, (first, *rest) in zip(got, cases, strict=True):
        wide = [x.double() if isinstance(x, torch.Tensor) else x for x in (first, *rest)]
        expected = np.einsum(*wide)
        size = np.einsum(*(x.abs() if isinstance(x, torch.Tensor) else x for x in wide))
        assert_within(made, expected, gamma(30, torch.float32) * torch.from_numpy(np.asarray(size)))


@pytest.mark.sim
def test_operands_move_once_and_equal_products_are_one_program():
    a, b, c = gaussian((6, 7), 1), gaussian((7, 8), 2), gaussian((6, 7), 3)
    with trnsci.backend("simulator"), trnsci.ledger() as book:
        multi_einsum([("ij,jk->ik", a, b), ("ij,jk->ik", c, b), ("ij,jk->ik", a, b)])
    assert book.bytes_to_device == a.nbytes + b.nbytes + c.nbytes
    gemms = [entry for entry in book.entries if entry.step.op == "trnblas::gemm"]
    assert len(gemms) == 1
    assert "2x6x7" in gemms[0].step.operands


def test_common_parts_run_once():
    a, b, c, d = (gaussian((40, 40), n, F64) for n in range(4))
    with trnsci.ledger() as book:
        first, second = multi_einsum([("ij,jk,kl->il", a, b, c), ("ij,jk,kl->il", a, b, d)], optimize=[(0, 1), (0, 1)])
    # a @ b once; then its two products side by side.
    assert len(book.entries) == 2
    for made, last in ((first, c), (second, d)):
        assert_within(made, a @ b @ last, 2 * gamma(2 * 42, F64) * (a.abs() @ b.abs() @ last.abs()))


@pytest.mark.sim
def test_results_of_resident_operands_stay():
    a, b = gaussian((3, 4), 1), gaussian((4, 5), 2)
    with trnsci.backend("simulator"):
        stays, returns = multi_einsum([("ij,jk->ik", to_xla(a), b), ("ij,jk->ik", a, b)])
    assert trnsci.is_resident(stays)
    assert not trnsci.is_resident(returns)


def test_results_share_no_memory():
    a = torch.ones(2, 2)
    first, second, third = multi_einsum([("ij,jk->ik", a, a), ("ij,jk->ik", a, a), ("ij->ij", a)])
    first.fill_(9.0)
    third.fill_(9.0)
    assert second.eq(2).all()
    assert a.eq(1).all()


def test_gradients_precision_numpy_and_nothing():
    a, b = gaussian((2, 3), 1, F64).requires_grad_(), gaussian((3, 4), 2, F64).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda a, b: tuple(multi_einsum([("ij,jk->ik", a, b), ("ij,kj->ik", a, b.T)])), (a, b)
    )
    x = gaussian((4, 50), 1)
    exact = np.einsum("ij,kj->ik", x.double(), x.double())
    assert_within(
        multi_einsum([("ij,kj->ik", x, x)], precision="compensated")[0], exact, 2.0**-23 * np.abs(exact).max()
    )
    got = multi_einsum([("ij->j", np.ones((2, 3)))])
    assert isinstance(got[0], np.ndarray)
    assert multi_einsum([]) == []


def test_mistakes_are_named():
    with pytest.raises(ArgumentError) as caught:
        multi_einsum([("ij->i", torch.ones(2, 2)), "ij->i"])
    assert caught.value.argument == "expression 1"
    with pytest.raises(ArgumentError, match="size of 'j'"):
        multi_einsum([("ij,jk->ik", torch.ones(2, 3), torch.ones(4, 5))])
