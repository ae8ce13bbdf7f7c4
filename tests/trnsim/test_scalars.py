"""Scalars of the device: arithmetic that is recorded, widths, and what they may be used for."""

import numpy as np
import pytest

import trnsim
from tests.together import together
from tests.trnsim.kernels import refused, run
from trnsim import isa, language
from trnsim.errors import WrongArgument, WrongBuffer, WrongDtype, WrongShape, WrongVersion
from trnsim.language import int32, int64, uint32

pytestmark = pytest.mark.sim

I32, I64 = np.int32, np.int64


def computed(compute, *values, dtype=I32):
    """What a kernel stores of ``compute(scalars)``, each loaded from HBM."""

    def kernel(x):
        out = language.ndarray((1, 1), x.dtype, buffer=language.shared_hbm)
        isa.scalar_store(out, compute(*(isa.scalar_load(x[0:1, i : i + 1]) for i in range(x.shape[1]))))
        return out

    return int(trnsim.simulate(kernel, lint="off")(np.array([values], dtype))[0, 0])


@pytest.mark.parametrize("dtype", [I32, I64])
@together(
    ("compute", "expected"),
    [
        (lambda i, j: i * 4 + 1, 21),
        (lambda i, j: 1 + 4 * i, 21),
        (lambda i, j: i - j, -2),
        (lambda i, j: 10 - i, 5),
        (lambda i, j: -i, -5),
        (lambda i, j: i * j * i, 175),
        (lambda i, j: i * np.int32(3), 15),
        (lambda i, j: np.int64(3) * i - np.int16(1), 14),
    ],
)
def test_arithmetic_is_recorded(dtype, compute, expected):
    assert computed(compute, 5, 7, dtype=dtype) == expected


def test_results_wrap_to_the_width_of_their_scalar():
    assert computed(lambda i: i * i, 100000) == 1410065408
    assert computed(lambda i: i + 1, 2**31 - 1) == -(2**31)
    assert computed(lambda i: -i, -(2**31)) == -(2**31)
    assert computed(lambda i: i * i, 100000, dtype=I64) == 10**10
    assert computed(lambda i: i + 1, 2**63 - 1, dtype=I64) == -(2**63)


@together(
    ("rule", "compute", "dtype"),
    [
        ("scalar-operand", lambda i: i + 1.5, I32),
        ("scalar-operand", lambda i: i + "1", I32),
        ("scalar-operand", lambda i: i * True, I32),
        ("scalar-range", lambda i: i + 2**31, I32),
        ("scalar-expression", lambda i: i // 2, I32),
        ("scalar-expression", lambda i: i % 2, I32),
        ("scalar-expression", lambda i: i << 1, I32),
        ("scalar-expression", lambda i: abs(i), I32),
        ("scalar-value", bool, I32),
        ("scalar-value", lambda i: int(i), I64),
        ("scalar-value", lambda i: list(range(i)), I32),
        ("scalar-value", lambda i: 1 if i < 3 else 2, I32),
        ("scalar-comparison", lambda i: (i < 3) + 1, I32),
        ("scalar-int64", lambda i: i < 3, I64),
        ("scalar-int64", lambda i: i == 3, I64),
        ("scalar-store", lambda i: 3, I32),
    ],
)
def test_other_uses_are_refused(rule, compute, dtype):
    with pytest.raises(WrongArgument if rule in ("scalar-range", "scalar-comparison") else TypeError) as caught:
        computed(compute, 5, dtype=dtype)
    assert caught.value.rule == rule
    assert caught.value.hint or rule == "scalar-range"


def test_two_scalars_of_an_operation_have_one_width():
    def kernel(a, b):
        isa.scalar_load(a) + isa.scalar_load(b)

    with pytest.raises(WrongDtype, match="scalars of int32 and int64") as caught:
        trnsim.simulate(kernel)(np.array([[1]], I32), np.array([[1]], I64))
    assert caught.value.rule == "scalar-dtype"


@together(
    ("error", "rule", "shape", "dtype"),
    [
        (WrongShape, "scalar-tile", (1, 2), int32),
        (WrongDtype, "scalar-dtype", (1, 1), uint32),
        (WrongDtype, "scalar-dtype", (1, 1), language.float32),
    ],
)
def test_a_scalar_is_one_signed_integer(error, rule, shape, dtype):
    def body():
        tile = language.ndarray(shape, dtype)
        isa.memset(dst=tile, value=1)
        isa.scalar_load(tile)

    refused(error, rule, body)


def test_a_scalar_is_stored_in_its_width():
    def body(x):
        isa.scalar_store(language.ndarray((1, 1), int64, buffer=language.hbm), isa.scalar_load(x))

    refused(WrongDtype, "scalar-dtype", body, np.array([[1]], I32), says=["int64", "int32"])


def offsets(index, buffer):
    def kernel(x):
        out = language.ndarray((1, 4), language.float32, buffer=language.shared_hbm)
        held = x
        if buffer == "sbuf":
            held = language.ndarray((1, 16), language.float32)
            isa.dma_copy(dst=held, src=x.reshape((1, 16)))
        i = isa.scalar_load(language.shared_constant(np.array([[2]], index)))
        row = language.ndarray((1, 4), language.float32)
        isa.dma_copy(
            dst=row, src=held.ap([[16 if buffer == "sbuf" else 4, 1], [1, 4]], scalar_offset=i * 4, indirect_dim=1)
        )
        isa.dma_copy(dst=out, src=row)
        return out

    return trnsim.simulate(kernel, lint="off")(np.arange(16, dtype=np.float32).reshape(4, 4))


def test_offsets_are_scalars_of_64_bits_in_hbm_alone():
    for index, buffer in ((I32, "hbm"), (I64, "hbm"), (I32, "sbuf")):
        np.testing.assert_array_equal(offsets(index, buffer), [[8, 9, 10, 11]])
    with pytest.raises(WrongBuffer) as caught:
        offsets(I64, "sbuf")
    assert caught.value.rule == "scalar-int64"


def test_bounds_of_loops_have_32_bits():
    def kernel(x):
        language.fori_loop(0, isa.scalar_load(x), lambda i: None)

    with pytest.raises(WrongDtype, match="compared in 32 bits") as caught:
        trnsim.simulate(kernel)(np.array([[3]], I64))
    assert caught.value.rule == "scalar-int64"


def test_a_body_gets_what_its_bounds_are():
    seen = []

    def kernel(x):
        for lower, upper in ((0, 1), (0, isa.scalar_load(x)), (0, isa.register_alloc(1)), (isa.register_alloc(0), 1)):
            language.fori_loop(lower, upper, lambda i: seen.append(type(i)))

    trnsim.simulate(kernel, lint="off")(np.array([[1]], I32))
    scalar, register = isa.NkiScalar, isa.VirtualRegister
    assert seen == [scalar, scalar, register, register]
    del seen[:]
    trnsim.simulate(lambda: language.fori_loop(0, 1, lambda i: seen.append(type(i))), nki="0.6", lint="off")()
    assert seen == [register]


@together("use", [bool, int, range, float])
def test_a_register_has_no_value_while_a_kernel_is_traced(use):
    def kernel():
        use(isa.register_alloc(1))

    with pytest.raises(TypeError, match="device only"):
        trnsim.simulate(kernel, lint="off")()
    if use is not float:
        trnsim.simulate(kernel, nki="0.5", lint="off")()


def test_a_register_as_condition_is_deprecated_in_0_6():
    def kernel():
        register = isa.register_alloc(1)
        while register:
            isa.register_move(register, 0)

    with pytest.warns(DeprecationWarning, match=r"deprecated since NKI 0.6: use nl.while_loop"):
        trnsim.simulate(kernel, nki="0.6", lint="off")()


def test_engines_compute_with_no_int64():
    x = np.array([[1, 2]], I64)
    np.testing.assert_array_equal(run(lambda a, b: isa.dma_copy(dst=b, src=a), x, out=[((1, 2), I64)]), x)
    refused(WrongDtype, "int64-operand", lambda a: isa.tensor_copy(dst=a, src=a), x, says="at most 32 bits")
    refused(WrongDtype, "dma-packed", lambda a, b: isa.dma_copy(dst=b, src=a), x, out=[((1, 2), I32)])


@together(
    ("name", "nki", "call"),
    [
        ("scalar_load", "0.6", lambda x: isa.scalar_load(x)),
        ("tiles", "0.6", lambda x: language.tiles(x, tile_shape=(1, 1))),
        ("fori_loop", "0.5", lambda x: language.fori_loop(0, 1, lambda i: None)),
        ("topk", "0.5", lambda x: isa.topk(x, x, x, 8)),
        ("activate2", "0.3", lambda x: isa.activate2(x, language.exp, x, 0.0, 0.0, language.add, language.bypass)),
        ("dynamic_range", "0.7", lambda x: language.dynamic_range(3)),
    ],
)
def test_names_a_version_lacks_are_refused(name, nki, call):
    with pytest.raises(WrongVersion, match=f"the kernel runs as NKI {nki}") as caught:
        trnsim.simulate(lambda x: call(x), nki=nki, lint="off")(np.zeros((1, 1), I32))
    assert (caught.value.rule, caught.value.got, caught.value.limit) == ("nki-version", nki, name)
    assert isinstance(caught.value, AttributeError)


def test_time_follows_scalars_and_turns():
    """Arithmetic waits for the load, an offset for the arithmetic, and a turn takes each engine's sequencer."""

    def kernel(x, start, chained):
        out = language.ndarray((1, 4), x.dtype, buffer=language.shared_hbm)
        at = language.ndarray((1, 1), language.int32)
        row = language.ndarray((1, 4), x.dtype)
        isa.dma_copy(dst=at, src=start)
        i = isa.scalar_load(at)
        for _ in range(chained):
            i = i * 1
        isa.dma_copy(dst=row, src=x.ap([[4, 1], [1, 4]], scalar_offset=i, indirect_dim=0))
        isa.dma_copy(dst=out, src=row)
        return out

    x, start = np.zeros((4, 4), np.float32), np.array([[2]], I32)
    took = [trnsim.profile(kernel)(x, start, n)[1].total_s for n in (0, 10)]
    # an operation and its semaphore
    assert took[1] - took[0] == pytest.approx(10 * (44e-9 + 36e-9))

    def loop(x, turns):
        out = language.ndarray((128, 8), x.dtype, buffer=language.shared_hbm)
        tile = language.load(x)
        language.fori_loop(0, turns, lambda i: (isa.tensor_scalar(tile, tile, language.add, 1.0), None)[1])
        language.store(out, tile)
        return out

    report = trnsim.profile(loop)(np.zeros((128, 8), np.float32), 5)[1]
    assert report.instructions["loop_turn"] == 5
    assert report.uncosted == {}


def test_tensors_of_a_body_have_one_address():
    """A turn writes where the one before it still reads, so that it waits; copies in Python's loop do not."""

    def kernel(x, on_device):
        out = language.ndarray((16 * 128, 2048), x.dtype, buffer=language.shared_hbm)

        def body(i):
            tile = language.ndarray((128, 2048), x.dtype)
            isa.dma_copy(dst=tile, src=x[language.ds(i * 128, 128)])
            isa.dma_copy(dst=out[language.ds(i * 128, 128)], src=tile)

        if on_device:
            language.fori_loop(0, 16, body)
        else:
            for i in range(16):
                body(i)
        return out

    x = np.zeros((16 * 128, 2048), np.float32)
    looped, unrolled = (trnsim.profile(kernel, numerics=False)(x, flag)[1] for flag in (True, False))
    assert looped.total_s > 1.2 * unrolled.total_s
    assert looped.instructions["dma_copy"] == unrolled.instructions["dma_copy"] == 32
