import pytest
import torch
from hypothesis import given, strategies as st

from tests.together import together
from trnsci import ArgumentError, DtypeError, check

X = torch.ones(2, 3)


def test_what_is_right_passes():
    check.tensor("op", x=X)
    assert check.floating("op", x=X, y=X) is torch.float32
    check.same_device("op", x=X, y=X)
    check.equal("op", "N", x=3, y=3)
    check.ndim("op", 2, x=X)
    assert check.option("op", "uplo", "l", ("l", "u")) == "l"
    assert check.number("op", "alpha", torch.tensor(2.5)) == 2.5
    assert check.broadcast("op", a=(5, 1), b=(3,)) == (5, 3)
    check.out("op", torch.empty(2, 3), shape=(2, 3), dtype=torch.float32, x=X, y=None)


@together(("kind", "call", "text"), [
        (DtypeError, lambda: check.tensor("op", x=3.0), "op: x is float, expected a tensor or an array. Wrap lists"),
        (DtypeError, lambda: check.floating("op", x=X.bool()), "op: dtype of x is bool, expected a real or complex"),
        (DtypeError, lambda: check.floating("op", x=X, y=X.half()), "x has dtype=float32, y has dtype=float16."),
        (ArgumentError, lambda: check.same_device("op", x=X, y=X.to("meta")), "x has device=cpu, y has device=meta."),
        (ArgumentError, lambda: check.equal("op", "N", x=3, y=4, hint="Slice y"), "x has N=3, y has N=4. Slice y."),
        (ArgumentError, lambda: check.ndim("op", 3, x=X), "shape of x is (2, 3), expected at least 3 dimensions."),
        (ArgumentError, lambda: check.option("op", "side", 1, ("l", "r")), "side is 1, expected one of 'l', 'r'."),
        (DtypeError, lambda: check.number("op", "alpha", X), "alpha is Tensor, expected a number."),
        (ArgumentError, lambda: check.broadcast("op", a=(2,), b=(3,)), "a has batch shape=(2,), b has batch"),
    ])  # fmt: skip
def test_what_is_wrong_is_said_with_both_values(kind, call, text):
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)


@given(st.lists(st.lists(st.sampled_from([1, 2, 3, 0]), max_size=4).map(tuple), max_size=3))
def test_broadcasting_is_torchs(shapes):
    try:
        expected = tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        expected = None
    assert check.broadcast_shape(*shapes) == expected


@together(
    ("x", "y", "meets"),
    [
        (slice(0, 4), slice(4, 8), False),
        (slice(0, 5), slice(4, 8), True),
        (slice(0, 8, 2), slice(1, 8, 2), True),
        (slice(0, 0), slice(0, 8), False),
    ],
)
def test_overlap(x, y, meets):
    memory = torch.ones(8)
    assert check.overlap(memory[x], memory[y]) is meets
    assert check.overlap(memory[y], memory[x]) is meets
