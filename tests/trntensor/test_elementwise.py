import numpy as np
import pytest
import torch

from tests.together import together
from trnsci import ArgumentError, DtypeError
from trnsci.testing import assert_within, gamma, gaussian
from trntensor import elementwise, elementwise_binary, elementwise_trinary, permute, reduce, tensordot, transpose

F64 = torch.float64


def test_binary_and_trinary_combinations_match_axes_by_label():
    a, b, c = gaussian((2, 3), 1, F64), gaussian((3, 2), 2, F64), gaussian((3,), 3, F64)
    got = elementwise("ij,ji,j->ji", a, b, c, scalars=(2.0, -1.0, 0.5), combine=("add", "multiply"))
    expected = (2 * a.numpy().T - b.numpy()) * (0.5 * c.numpy()[:, None])
    size = (2 * np.abs(a.numpy().T) + np.abs(b.numpy())) * np.abs(c.numpy()[:, None])
    assert_within(got, expected, 2 * gamma(4, F64) * size)
    assert_within(elementwise("ij,ji->ij", a, b, combine="maximum"), np.maximum(a.numpy(), b.numpy().T), 0)
    assert_within(elementwise("ij,ji->ij", a, b, combine="minimum"), np.minimum(a.numpy(), b.numpy().T), 0)


@together(
    ("name", "oracle"),
    [
        *((name, getattr(np, name)) for name in ("abs", "sqrt", "exp", "log", "sin", "cos", "tanh")),
        ("neg", np.negative),
        ("rcp", np.reciprocal),
        ("relu", lambda x: np.maximum(x, 0)),
        ("identity", np.array),
    ],
)
def test_operators_act_on_operands(name, oracle):
    a = gaussian((3, 4), 1, F64).abs() + 0.1
    assert_within(elementwise("ij->ij", a, operators=(name,)), oracle(a.numpy()), gamma(100, F64) * 11)


@together(
    ("name", "oracle"),
    [
        *((name, getattr(np, name)) for name in ("tan", "sinh", "cosh", "ceil", "floor")),
        *((name, getattr(np, f"arc{name[1:]}")) for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")),
        ("swish", lambda x: x / (1 + np.exp(-x))),
        ("softplus", lambda x: np.log1p(np.exp(x))),
        ("mish", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
        ("softsign", lambda x: x / (1 + np.abs(x))),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    ],
)
def test_every_operator_of_cutensor(name, oracle):
    a = torch.linspace(0.1, 0.9, 12, dtype=F64).reshape(3, 4) + (1 if name == "acosh" else 0)
    # A few roundings each; the conditions of these functions are below 20 on these intervals.
    assert_within(elementwise("ij->ij", a, operators=(name,)), oracle(a.numpy()), gamma(100, F64) * 3)


def test_the_names_of_cutensor():
    a, b, c = gaussian((2, 3), 1, F64), gaussian((3, 2), 2, F64), gaussian((3,), 3, F64)
    out = torch.empty(3, 2, dtype=F64)
    x, y, z = 2 * a.numpy().T, -b.numpy(), 0.5 * c.numpy()[:, None]
    made = elementwise_binary("ij,ji->ji", a, b, alpha=2.0, gamma=-1.0, out=out)
    assert made is out
    assert_within(made, x + y, gamma(3, F64) * (abs(x) + abs(y)))
    made = elementwise_trinary(
        "ij,ji,j->ji",
        a,
        b,
        c,
        alpha=2.0,
        beta=-1.0,
        gamma=0.5,
        combine=("multiply", "add"),
        operators=("abs", "neg", "relu"),
    )
    expected = np.abs(x) * b.numpy() + np.maximum(z, 0)
    assert_within(made, expected, gamma(4, F64) * (abs(x * y) + abs(z)))
    with pytest.raises(ArgumentError, match="shape of out"):
        permute("ij->ji", a, out=torch.empty(2, 3, dtype=F64))


def test_reductions_add_and_write():
    a, c, out = gaussian((2, 3), 1, F64), gaussian((3,), 2, F64), torch.empty(3, dtype=F64)
    assert reduce("ij->j", a, alpha=2.0, beta=-0.5, c=c, out=out) is out
    expected = 2 * a.numpy().sum(0) - 0.5 * c.numpy()
    assert_within(out, expected, gamma(5, F64) * (2 * np.abs(a.numpy()).sum(0) + np.abs(c.numpy())))
    with pytest.raises(ArgumentError, match=r"because beta is 1\.0"):
        reduce("ij->j", a, beta=1.0)
    with pytest.raises(ArgumentError, match="shape differs"):
        reduce("ij->j", a, beta=1.0, c=torch.ones(2, dtype=F64))


def test_complex_operands_can_be_conjugated():
    a = gaussian((2, 3), 1, torch.complex128)
    assert_within(permute("ij->ji", a, alpha=2.0, operator="conj"), 2 * a.numpy().conj().T, 0)


def test_labels_an_operand_lacks_broadcast():
    a = gaussian((3,), 1, F64)
    assert elementwise("i,j->ij", a, torch.zeros(2, dtype=F64)).shape == (3, 2)
    with pytest.raises(ArgumentError, match="distinct labels of the result"):
        elementwise("ij->i", torch.ones(2, 3))


def test_results_are_memory_of_their_own():
    a = torch.ones(2, 2)
    permute("ij->ij", a).fill_(5.0)
    assert a.eq(1).all()


@together(("op", "oracle"), [("add", np.sum), ("multiply", np.prod), ("maximum", np.max), ("minimum", np.min)])
def test_reductions_agree_with_numpy(op, oracle):
    a = gaussian((2, 3, 4), 1, F64)
    assert_within(
        reduce("ijk->j", a, op=op), oracle(a.numpy(), axis=(0, 2)), gamma(16, F64) * oracle(abs(a.numpy()), axis=(0, 2))
    )
    assert_within(
        reduce("ijk->ki", a, op=op, alpha=2.0),
        2 * oracle(a.numpy(), axis=1).T,
        gamma(8, F64) * 2 * oracle(abs(a.numpy()), axis=1).T,
    )
    assert_within(
        reduce("ijk->", a, op=op, operator="abs"), oracle(abs(a.numpy())), gamma(48, F64) * oracle(abs(a.numpy()))
    )
    assert_within(reduce("ijk->ijk", a, op=op), a, 0)


def test_empty_reductions():
    assert reduce("ij->i", torch.ones(2, 0)).tolist() == [0.0, 0.0]
    assert reduce("ij->i", torch.ones(2, 0), op="multiply").tolist() == [1.0, 1.0]
    with pytest.raises(ArgumentError, match="elements for maximum"):
        reduce("ij->i", torch.ones(2, 0), op="maximum")


def test_tensordot_and_transpose_are_numpys():
    a, b = gaussian((2, 3, 4), 1, F64), gaussian((4, 3, 5), 2, F64)
    for axes in (([2], [0]), ([1, 2], [1, 0]), 0):
        size = np.tensordot(a.abs().numpy(), b.abs().numpy(), axes)
        assert_within(tensordot(a, b, axes), np.tensordot(a.numpy(), b.numpy(), axes), 2 * gamma(30, F64) * size)
        assert torch.equal(tensordot(a, b, dims=axes), tensordot(a, b, axes))
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
        (lambda: tensordot(a, a, 5), "axes"),
        (lambda: tensordot(a, a, -1), "axes"),
        (lambda: tensordot(a, a, dims=([0, 0], [0, 1])), "axes of a"),
        (lambda: tensordot(a, a, ([0], [7])), "axes of b"),
        (lambda: tensordot(a, a, 1, dims=2), "axes and dims"),
        (lambda: tensordot(a, torch.ones(1, 3), 1), "length of axes 1 and 0"),
        (lambda: transpose(a, (0,)), "number of axes"),
    ):
        with pytest.raises(ArgumentError) as caught:
            work()
        assert caught.value.argument == argument
    with pytest.raises(DtypeError):
        reduce("ij->i", 3.0)
