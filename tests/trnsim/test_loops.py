"""Loops on the device and the registers that drive them."""

import numpy as np
import pytest

import trnsim
from tests.together import together
from trnsim import isa, language
from trnsim.errors import ReadUninitialized, WrongArgument, WrongShape
from trnsim.language import shared_hbm

pytestmark = pytest.mark.sim

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def simulated(kernel, *arrays, **options):
    return trnsim.simulate(kernel, lint="off", **options)(*arrays)


def refused(error, rule, kernel, *arrays, says=(), **options):
    with pytest.raises(error) as caught:
        simulated(kernel, *arrays, **options)
    assert caught.value.rule == rule
    assert caught.value.kernel == "kernel"
    assert "test_loops.py:" in caught.value.line
    for part in says:
        assert part in str(caught.value)


@pytest.mark.parametrize("turns", [0, 1, 3])
@pytest.mark.parametrize("memory", ["hbm", "sbuf"])
def test_a_register_is_loaded_from_either_memory(turns, memory):
    def kernel(count, x):
        out = language.ndarray((1, 4), x.dtype, shared_hbm)
        total, row = language.zeros((1, 4), x.dtype), language.ndarray((1, 4), x.dtype)
        bound = isa.register_alloc()
        isa.register_load(bound, count if memory == "hbm" else language.load(count))

        def body(i):
            isa.dma_copy(dst=row, src=x.ap([[4, 1], [1, 4]], scalar_offset=i, indirect_dim=0))
            isa.tensor_tensor(dst=total, data1=total, data2=row, op=language.add)

        language.fori_loop(0, bound, body)
        language.store(out, total)
        return out

    np.testing.assert_array_equal(simulated(kernel, np.array([[turns]], np.int32), X)[0], X[:turns].sum(0))


def test_a_register_is_stored_to_either_memory():
    def kernel(x):
        out = language.ndarray((2, 1), language.int32, shared_hbm)
        value = isa.register_alloc(-7)
        isa.register_store(out[0:1, 0:1], value)
        held = language.ndarray([1], dtype=language.int32, buffer=language.sbuf)
        isa.register_store(held, value)
        assert held.shape == (1, 1)
        isa.dma_copy(dst=out[1:2], src=held)
        return out

    np.testing.assert_array_equal(simulated(kernel, X), [[-7], [-7]])


@pytest.mark.parametrize("operation", [isa.register_load, lambda r, t: isa.register_store(t, r)], ids=["load", "store"])
def test_a_register_holds_one_element(operation):
    def kernel(x):
        operation(isa.register_alloc(1), x)

    refused(WrongShape, "register", kernel, X, says=["(3, 4)"])


@together(
    "use",
    [
        lambda r: language.fori_loop(0, r, lambda i: None),
        lambda r: list(language.dynamic_range(r)),
        lambda r: language.while_loop(r, lambda i: i),
        lambda r: isa.register_move(isa.register_alloc(0), r),
        lambda r: isa.register_store(language.ndarray((1, 1), language.int32), r),
        bool,
    ],
)
def test_a_register_nothing_wrote_cannot_be_read(use):
    def kernel(x):
        use(isa.register_alloc())

    # the last version that has all of these
    says = ["register_alloc a value", "register_load"]
    refused(ReadUninitialized, "uninitialized", kernel, X, says=says, nki="0.6")


def test_what_a_body_declares_ends_with_its_loop():
    def kernel(x):
        kept = []

        def body(i):
            inner = language.ndarray(x.shape, x.dtype)
            isa.dma_copy(dst=inner, src=x)
            isa.tensor_scalar(dst=inner, data=inner, op0=language.add, operand0=1.0)
            kept.append(inner)

        language.fori_loop(0, 2, body)
        language.store(x, kept[0])

    says = ["src (inner)", "body of nl.fori_loop", "Declare it before the loop"]
    refused(WrongArgument, "loop-scope", kernel, X, says=says)


def test_a_loop_inside_a_loop_has_a_body_of_its_own():
    def kernel(x):
        out = language.ndarray(x.shape, x.dtype, shared_hbm)

        def outer(i):
            tile = language.load(x)

            def inner(j):
                isa.tensor_scalar(dst=tile, data=tile, op0=language.multiply, operand0=2.0)

            language.fori_loop(0, 3, inner)
            language.store(out, tile)

        language.fori_loop(0, 1, outer)
        return out

    np.testing.assert_array_equal(simulated(kernel, X), 8 * X)


def test_bodies_return_what_their_loop_takes():
    def kernel(x):
        language.fori_loop(0, 2, lambda i: i)

    refused(WrongArgument, "loop-body", kernel, X, says=["returned NkiScalar", "made before the loop"])

    def kernel(x):
        language.while_loop(isa.register_alloc(1), lambda r: None)

    refused(WrongArgument, "register", kernel, X, says=["the body returns is None", "Return the register"])


@pytest.mark.parametrize("bound", [2.5, 2.0, None, "2", (2,)])
def test_bounds_are_whole_numbers_or_registers(bound):
    def kernel(x):
        language.fori_loop(0, bound, lambda i: None)

    refused(WrongArgument, "index", kernel, X)


def test_a_register_is_no_size():
    def kernel(x):
        language.ndarray((3, isa.register_alloc(4)), x.dtype)

    refused(WrongArgument, "shape", kernel, X, says=["VirtualRegister(4)", "known when the kernel is compiled"])
