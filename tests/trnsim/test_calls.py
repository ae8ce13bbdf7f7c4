"""Calls and names a kernel gets wrong, and tensors handed to Python or NumPy: what the errors say."""

import numpy as np
import pytest

import trnsim
from tests.together import together
from trnsim import isa, language
from trnsim.errors import WrongArgument

pytestmark = pytest.mark.sim

X = np.ones((4, 8), np.float32)


def told(use, error=WrongArgument):
    def kernel(x):
        use(x, language.load(x))

    with pytest.raises(error) as caught:
        trnsim.simulate(kernel, lint="off")(X)
    return caught.value


@together(
    ("use", "label", "parts"),
    [
        (
            lambda x, t: language.load(x, mask=None),
            "nl.load",
            ("no masks since 0.2", "min(stop, size)", "nl.load(src,"),
        ),
        (lambda x, t: isa.tensor_copy(t, t, mask=None), "tensor_copy", ("no masks since 0.2", "tensor_copy(dst, src,")),
        (lambda x, t: isa.reciprocal(t), "reciprocal", ("missing", "'data'", "write the tile passed as dst")),
        (lambda x, t: language.exp(), "nl.exp", ("missing", "nl.exp(x, dtype=None)")),
        (lambda x, t: language.add(t, t, None, 3), "nl.add", ("but 4 were given", "nl.add(x, y, dtype=None)")),
        (lambda x, t: language.zeros((4, 4)), "nl.zeros", ("'dtype'", "nl.zeros(shape, dtype, buffer=sbuf, name='')")),
    ],
)
def test_a_call_that_does_not_fit_is_answered_with_one_that_does(use, label, parts):
    error = told(use)
    assert (error.rule, error.instruction, error.kernel) == ("signature", label, "kernel")
    assert "test_calls.py:" in error.line
    for part in parts:
        assert part in str(error)


def test_a_type_error_of_the_kernels_own_passes_through():
    def own():
        return len(3)

    assert "len()" in str(told(lambda x, t: own(), TypeError))


@together(
    ("module", "name", "says"),
    [
        (language, "loda", "'nki.language' has no attribute 'loda'; it has load"),
        (isa, "tensor_cpy", "'nki.isa' has no attribute 'tensor_cpy'; it has tensor_copy"),
        (language, "arange", "'arange', which NKI had once: index with slices"),
        (language, "xyzzy", "has no attribute 'xyzzy' ["),
    ],
)
def test_unknown_names_say_what_there_is(module, name, says):
    error = told(lambda x, t: getattr(module, name), AttributeError)
    assert says in str(error)
    assert "test_calls.py:" in str(error)


@together(
    "use",
    [
        np.exp,
        np.asarray,
        float,
        int,
        lambda t: np.add(t, 1),
        lambda t: np.float32(2) * t,
        lambda t: t * np.float32(2),
    ],
)
def test_numpy_and_python_cannot_compute_with_a_tensor(use):
    error = told(lambda x, t: use(t))
    assert error.rule == "tensor-operator"
    assert "exist on the device only" in str(error)
    assert "nl.add" in str(error)
    assert "test_calls.py:" in error.line


@together(
    ("name", "says"),
    [("T", "nl.transpose"), ("astype", "nl.copy(t, dtype=…)"), ("sum", "nl.sum(t, axis=…)"), ("item", "trnsim.probe")],
)
def test_what_arrays_have_and_tensors_lack(name, says):
    error = told(lambda x, t: getattr(t, name), AttributeError)
    assert f"a tensor has no {name!r}; " in str(error)
    assert says in str(error)
    told(lambda x, t: t.nonsense, AttributeError)


@pytest.mark.parametrize(
    "use",
    [lambda t: language.add(t, language.load(X)), lambda t: isa.tensor_copy(dst=t, src=X)],
    ids=["function", "instruction"],
)
def test_arrays_of_the_host_are_no_operands(use):
    error = told(lambda x, t: use(t))
    assert (error.rule, error.got, error.limit) == ("operand", "ndarray", "NkiTensor")
    assert "src is an array of shape (4, 8) (ndarray), not a t" in str(error)
    assert "nl.shared_constant" in str(error)


def test_long_operands_are_cut():
    error = told(lambda x, t: isa.tensor_copy(dst=t, src=list(range(1000))))
    assert "src is [0, 1, 2" in str(error)
    assert len(str(error)) < 300


def test_functions_of_the_language_need_a_kernel():
    with pytest.raises(WrongArgument, match="outside a kernel") as caught:
        language.load(X)
    assert caught.value.rule == "no-session"


@together(("name", "meant"), [("mul", "multiply"), ("sub", "subtract"), ("pow", "power"), ("recip", "reciprocal")])
def test_names_of_other_libraries_are_answered_with_nkis(name, meant):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; it has {meant}"):
        getattr(language, name)


@together("op", [np.exp, np.tanh, np.sqrt, np.sin])
def test_functions_of_numpy_are_no_activations(op):
    error = told(lambda x, t: isa.activation(dst=t, data=t, op=op))
    assert error.rule == "activation-function"
    assert f"pass nl.{op.__name__}" in error.hint


def test_tiles_made_on_one_line_have_names_of_their_own():
    names = []

    def pair():
        return language.ndarray((4, 4), language.float32), language.ndarray((4, 4), language.float32)

    def kernel(x):
        a, b = language.ndarray((4, 4), language.float32), language.ndarray((4, 4), language.float32)
        c = [language.ndarray((4, 4), language.float32), language.ndarray((4, 4), language.float32)]
        d = language.ndarray((4, 4), language.float32); e = language.ndarray((4, 4), language.float32)  # noqa: E702  # fmt: skip
        names.extend(t.name for t in (a, b, *c, d, e))
        return x

    trnsim.simulate(kernel, lint="off")(X)
    assert names == ["a", "b", "c[0]", "c[1]", "d", "e"]
