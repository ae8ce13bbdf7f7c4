import numpy as np
import pytest
import torch

from trnsci import ArgumentError, DtypeError
from trnsci.testing import assert_within, gaussian
from trntensor import elementwise, permute, reduce, tensordot, transpose

F64 = torch.float64


def test_binary_and_trinary_combinations_match_axes_by_label():
    a, b, c = gaussian((2, 3), 1, F64), gaussian((3, 2), 2, F64), gaussian((3,), 3, F64)
    got = elementwise("ij,ji,j->ji", a, b, c, scalars=(2.0, -1.0, 0.5), combine=("add", "multiply"))
    expected = (2 * a.numpy().T - b.numpy()) * (0.5 * c.numpy()[:, None])
    assert_within(got, expected, 1e-14)
    assert_within(elementwise("ij,ji->ij", a, b, combine="maximum"), np.maximum(a.numpy(), b.numpy().T), 0)
    assert_within(elementwise("ij,ji->ij", a, b, combine="minimum"), np.minimum(a.numpy(), b.numpy().T), 0)


@pytest.mark.parametrize(
    ("name", "oracle"),
    [("neg", np.negative), ("abs", np.abs), ("sqrt", np.sqrt), ("rcp", np.reciprocal), ("exp", np.exp), ("log", np.log),
     ("sin", np.sin), ("cos", np.cos), ("tanh", np.tanh), ("relu", lambda x: np.maximum(x, 0)), ("identity", np.array)],
)  # fmt: skip
def test_operators_act_on_operands(name, oracle):
    a = gaussian((3, 4), 1, F64).abs() + 0.1
    assert_within(elementwise("ij->ij", a, operators=(name,)), oracle(a.numpy()), 1e-13)


def test_complex_operands_can_be_conjugated():
    a = gaussian((2, 3), 1, torch.complex128)
    assert_within(permute("ij->ji", a, alpha=2.0, operator="conj"), 2 * a.numpy().conj().T, 1e-14)


def test_labels_an_operand_lacks_broadcast():
    a = gaussian((3,), 1, F64)
    assert elementwise("i,j->ij", a, torch.zeros(2, dtype=F64)).shape == (3, 2)
    with pytest.raises(ArgumentError, match="distinct labels of the result"):
        elementwise("ij->i", torch.ones(2, 3))


def test_results_are_memory_of_their_own():
    a = torch.ones(2, 2)
    permute("ij->ij", a).fill_(5.0)
    assert a.eq(1).all()


@pytest.mark.parametrize(
    ("op", "oracle"), [("add", np.sum), ("multiply", np.prod), ("maximum", np.max), ("minimum", np.min)]
)
def test_reductions_agree_with_numpy(op, oracle):
    a = gaussian((2, 3, 4), 1, F64)
    assert_within(reduce("ijk->j", a, op=op), oracle(a.numpy(), axis=(0, 2)), 1e-13)
    assert_within(reduce("ijk->ki", a, op=op, alpha=2.0), 2 * oracle(a.numpy(), axis=1).T, 1e-13)
    assert_within(reduce("ijk->", a, op=op, operator="abs"), oracle(abs(a.numpy())), 1e-13)
    assert_within(reduce("ijk->ijk", a, op=op), a, 0)


def test_empty_reductions():
    assert reduce("ij->i", torch.ones(2, 0)).tolist() == [0.0, 0.0]
    assert reduce("ij->i", torch.ones(2, 0), op="multiply").tolist() == [1.0, 1.0]
    with pytest.raises(ArgumentError, match="elements for maximum"):
        reduce("ij->i", torch.ones(2, 0), op="maximum")


def test_tensordot_and_transpose_are_numpys():
    a, b = gaussian((2, 3, 4), 1, F64), gaussian((4, 3, 5), 2, F64)
    for axes in (([2], [0]), ([1, 2], [1, 0]), 0):
        assert_within(tensordot(a, b, axes), np.tensordot(a.numpy(), b.numpy(), axes), 1e-13)
    assert_within(transpose(a, (2, 0, 1)), np.transpose(a.numpy(), (2, 0, 1)), 0)


def test_gradients_flow():
    a, b = gaussian((2, 3), 1, F64).requires_grad_(), gaussian((3,), 2, F64).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: elementwise("ij,j->ji", a, b, combine="multiply"), (a, b))


def test_mistakes_are_named():
    a = torch.ones(2, 3)
    for work, argument in (
        (lambda: elementwise("ij->ij", a, operators=("gamma",)), "operators"),
        (lambda: elementwise("ij->ij", a, scalars=(1.0, 2.0)), "length of scalars"),
        (lambda: elementwise("ij,ij->ij", a, a, combine=("add", "add")), "length of combine"),
        (lambda: elementwise("ij,ij->ij", a, a, combine="xor"), "combine"),
        (lambda: reduce("ij->i", a, op="mean"), "op"),
        (lambda: reduce("ii->i", torch.ones(2, 2)), "labels"),
        (lambda: tensordot(a, a, ([0], [0, 1])), "number of axes"),
    ):
        with pytest.raises(ArgumentError) as caught:
            work()
        assert caught.value.argument == argument
    with pytest.raises(DtypeError):
        reduce("ij->i", 3.0)
