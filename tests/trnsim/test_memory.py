"""Memory as hardware has it: bytes at addresses, poison, lifetimes."""

import gc
import tracemalloc

import numpy as np
import pytest

import trnsim
from tests.together import together
from trnsim import isa as nisa, language as nl
from trnsim.errors import HardwareLimit, OutOfBounds, ReadUninitialized, WrongArgument, WrongShape
from trnsim.kernel import Launch, as_kernel, params_of
from trnsim.memory import Arena, Lifetimes, Storage

pytestmark = pytest.mark.sim

X = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)


def run(kernel, *args, **options):
    return trnsim.simulate(kernel, lint="off", **options)(*args)


def refused(error, rule, kernel, *args, says=(), **options):
    # a read of unwritten memory is refused at once when asked for; see test_poison for what happens otherwise
    options = {"strict": True, **options} if error is ReadUninitialized else options
    with pytest.raises(error) as caught:
        run(kernel, *args, **options)
    assert type(caught.value) is error
    assert caught.value.rule == rule
    for part in (says,) if isinstance(says, str) else says:
        assert part in str(caught.value)
    return caught.value


def high_water(kernel, *args, **options):
    made = as_kernel(kernel)
    launch = Launch(made, params_of(made, lint="off", **options))
    launch.run(args, {})
    return launch.high_water


def tile(x, **where):
    made = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, **where)
    nisa.dma_copy(dst=made, src=x)
    return made


# explicit addresses


def test_tensors_at_overlapping_addresses_share_bytes():
    def kernel(x):
        out = nl.ndarray((128, 64), nl.float32, nl.shared_hbm)
        tile(x, address=(0, 4096))
        part = nl.ndarray((32, 16), nl.float32, nl.sbuf, address=(32, 4096 + 64))
        nisa.memset(part, 7.0)
        bits = nl.ndarray((128, 64), nl.int32, nl.sbuf, address=(0, 4096))
        nisa.dma_copy(dst=out, src=bits.view(nl.float32))
        return out

    want = X.copy()
    want[32:64, 16:32] = 7
    np.testing.assert_array_equal(run(kernel, X), want)


def test_addresses_that_do_not_overlap_are_apart():
    def kernel(x):
        out = nl.ndarray((128, 64), nl.float32, nl.shared_hbm)
        a = tile(x, address=(0, 0))
        b = nl.ndarray((128, 64), nl.float32, nl.sbuf, address=(0, 256))
        nisa.memset(b, 0.0)
        nisa.dma_copy(dst=out, src=a)
        return out

    np.testing.assert_array_equal(run(kernel, X), X)


def test_memory_written_through_one_name_can_be_read_through_another():
    def kernel(x):
        tile(x[0:64], address=(0, 0))
        both = nl.ndarray((128, 64), nl.float32, nl.sbuf, address=(0, 0))
        load = nl.ndarray((64, 64), nl.float32, nl.sbuf)
        nisa.tensor_copy(dst=load, src=both[0:64])
        nisa.tensor_copy(dst=load, src=both[64:128])

    found = refused(ReadUninitialized, "uninitialized", kernel, X, says=("both", "4096 of 4096 elements"))
    assert found.line.endswith(f":{kernel.__code__.co_firstlineno + 5}")


def test_psum_has_addresses_too():
    def kernel(x):
        out = nl.ndarray((128, 64), nl.float32, nl.shared_hbm)
        bank = nl.ndarray((128, 64), nl.float32, nl.psum, address=(0, 2048))
        nisa.tensor_copy(dst=bank, src=tile(x))
        again = nl.ndarray((128, 64), nl.float32, nl.psum, address=(0, 2048))
        copy = nl.ndarray((128, 64), nl.float32, nl.sbuf)
        nisa.tensor_copy(dst=copy, src=again)
        nisa.dma_copy(dst=out, src=copy)
        return out

    np.testing.assert_array_equal(run(kernel, X), X)


@together(
    ("error", "rule", "address", "says"),
    [
        (OutOfBounds, "address", (1, 0), "1..129 of 128"),
        (OutOfBounds, "address", (-1, 0), "-1..127"),
        (OutOfBounds, "address", (0, 224 * 1024 - 128), "SBUF partition of 212728"),
        (OutOfBounds, "address", (0, -4), "-4..252"),
        (HardwareLimit, "alignment", (0, 2), "not a multiple of 4"),
        (WrongArgument, "address", 0, "partition_offset"),
        (WrongArgument, "address", (0, 0, 0), "partition_offset"),
    ],
)
def test_addresses_outside_the_memory_are_refused(error, rule, address, says):
    def kernel(x):
        nl.ndarray((128, 64), nl.float32, nl.sbuf, address=address)

    refused(error, rule, kernel, X, says=says)


@pytest.mark.parametrize("address", [(0, 100), (32, 1024), (0, 4096 + 4)])
def test_psum_tensors_start_where_a_bank_does(address):
    def kernel(x):
        nl.ndarray((32, 16), nl.float32, nl.psum, address=address)

    refused(HardwareLimit, "psum-bank-start", kernel, X, says="a multiple of 2048")


def test_strides_are_16_bit_numbers():
    def halves(rows):
        both = nl.ndarray((4, 2, rows), nl.bfloat16, nl.sbuf)
        for i in range(2):
            nisa.memset(both[:, i], 0.0)
        return both

    def near(x):
        out = nl.ndarray((4, 2), nl.bfloat16, nl.sbuf)
        nisa.tensor_copy(dst=out, src=halves(32767)[:, :, 0])
        flat = nl.ndarray((4, 2, 32768), nl.uint8, nl.sbuf)
        nisa.memset(flat, 0)

    run(near, X)

    def far(x):
        out = nl.ndarray((4, 2), nl.bfloat16, nl.sbuf)
        nisa.tensor_copy(dst=out, src=halves(40000)[:, :, 0])

    refused(HardwareLimit, "access-stride", far, X, says="steps 40000 elements within a partition")


def test_strings_for_memories_are_deprecated():
    def kernel(x):
        assert nl.ndarray((4, 4), nl.float32, buffer="psum").buffer is nl.psum

    with pytest.warns(DeprecationWarning, match="NKI takes nl.psum") as seen:
        run(kernel, X)
    assert seen[0].filename == __file__


# poison


@together("buffer", ["sbuf", "psum", "hbm", "shared_hbm"])
def test_nothing_can_be_read_before_it_is_written(buffer):
    def kernel(x):
        fresh = nl.ndarray((8, 8), nl.float32, getattr(nl, buffer))
        copy = nl.ndarray((8, 8), nl.float32, nl.sbuf)
        if buffer in ("sbuf", "psum"):
            nisa.tensor_copy(dst=copy, src=fresh)
        else:
            nisa.dma_copy(dst=copy, src=fresh)

    found = refused(ReadUninitialized, "uninitialized", kernel, X, says=("fresh[8, 8]", "64 of 64 elements", "(0, 0)"))
    assert found.tensor == "fresh"
    assert found.kernel == "kernel"


def test_the_first_unwritten_element_is_named():
    def kernel(x):
        part = nl.ndarray((8, 8), nl.float32, nl.sbuf)
        nisa.memset(part[:, 0:7], 0.0)
        nisa.memset(part[0:4, 7:8], 0.0)
        copy = nl.ndarray((8, 6), nl.float32, nl.sbuf)
        nisa.tensor_copy(dst=copy, src=part[:, 2:8])

    refused(ReadUninitialized, "uninitialized", kernel, X, says=("4 of 48 elements", "(4, 5)"))


def test_bytes_written_through_a_narrow_view_count_one_by_one():
    def kernel(x, columns):
        word = nl.ndarray((4, 4), nl.float32, nl.sbuf)
        halves = word.view(nl.uint16)
        nisa.memset(halves[:, 0:columns], 0)
        copy = nl.ndarray((4, 4), nl.float32, nl.sbuf)
        nisa.tensor_copy(dst=copy, src=word)

    run(kernel, X, 8)
    refused(ReadUninitialized, "uninitialized", kernel, X, 7, says="4 of 16 elements")


def test_without_checks_fresh_memory_is_not_a_number():
    def kernel(x):
        out = nl.ndarray((8, 8), nl.float32, nl.shared_hbm)
        fresh = nl.ndarray((8, 8), nl.float32, nl.sbuf)
        nisa.dma_copy(dst=out, src=fresh)
        return out

    assert np.isnan(run(kernel, X, checks=False)).all()


# shapes


@together(
    ("error", "rule", "shape"),
    [
        (WrongShape, "two-dimensional", (8,)),
        (HardwareLimit, "partition-limit", (129, 4)),
        (WrongShape, "shape", (8, 0)),
        (WrongShape, "shape", (-1, 8)),
    ],
)
@together("buffer", ["sbuf", "psum"])
def test_on_chip_shapes_have_limits(error, rule, shape, buffer):
    def kernel(x):
        nl.ndarray(shape, nl.float32, getattr(nl, buffer))

    refused(error, rule, kernel, X)


# lifetimes


def test_a_tensor_lives_from_its_first_write_to_its_last_use():
    def kernel(x):
        held = []
        for _ in range(10):
            held.append(nl.ndarray((128, 1000), nl.float32, nl.sbuf))
        for t in held:
            # one after the other, although Python holds all of them
            nisa.memset(t, 0.0)

    assert high_water(kernel, X)["sbuf"] == 4000


def test_tensors_used_together_add_up():
    def kernel(x):
        a = nl.zeros((128, 100), nl.float32)
        b = nl.zeros((128, 200), nl.bfloat16)
        c = nl.ndarray((128, 100), nl.float32, nl.sbuf)
        nisa.tensor_tensor(dst=c, data1=a, data2=b[:, 0:100], op=nl.add)
        nl.zeros((128, 150), nl.float32)

    assert high_water(kernel, X) == {"sbuf": 400 + 400 + 400, "psum": 0}


def test_explicit_addresses_count_once_where_they_overlap():
    def kernel(x):
        a = nl.ndarray((128, 100), nl.float32, nl.sbuf, address=(0, 0))
        b = nl.ndarray((128, 100), nl.float32, nl.sbuf, address=(0, 200))
        for t in (a, b, a, b):
            nisa.memset(t, 0.0)

    assert high_water(kernel, X)["sbuf"] == 600


def test_tensors_never_used_take_no_room():
    def kernel(x):
        nl.ndarray((128, 50000), nl.float32, nl.sbuf)
        nl.ndarray((128, 50000), nl.float32, nl.sbuf)

    assert high_water(kernel, X)["sbuf"] == 0


def test_the_host_forgets_what_the_kernel_forgets():
    def kernel(x):
        for _ in range(200):
            t = nl.ndarray((128, 4096), nl.float32, nl.sbuf)
            nisa.memset(t, 1.0)

    gc.collect()
    tracemalloc.start()
    run(kernel, X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # two tiles of 2 MiB at a time, not two hundred
    assert peak < 16 * 2**20


def test_lifetimes_survive_their_tensors():
    spans = Lifetimes()
    for i in range(3000):
        made = Storage(
            name=f"s{i}",
            shape=(128, 4),
            dtype=np.dtype("f4"),
            physical=np.dtype("f4"),
            buffer="sbuf",
            arena=Arena(16),
            pitch=16,
        )
        spans.add(made)
        made.first, made.last = 10 * i, 10 * i + 15
        del made
    assert spans.storages() == []
    assert len(spans.live) < 3000
    assert spans.peak("sbuf")[0] == 32
    assert spans.peak("psum") == (0, [])
