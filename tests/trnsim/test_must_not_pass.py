"""Kernels that pass a plain simulation and fail on silicon. Each has its section in docs/concepts/must-not-pass.md."""

import numpy as np
import pytest

import trnsim
from tests.together import together
from tests.trnsim.rounded import rounded, within
from trnsim import isa as nisa, language as nl
from trnsim.errors import HardwareLimit, KernelError, PsumRule, Race, ReadUninitialized, WrongArgument, WrongShape

pytestmark = pytest.mark.sim

X = np.arange(300 * 512, dtype=np.float32).reshape(300, 512) / 1000


def run(kernel, *args, **options):
    return trnsim.simulate(kernel, lint="off", **options)(*args)


def refused(error, rule, kernel, *args, says=(), **options):
    with pytest.raises(error) as caught:
        run(kernel, *args, **options)
    assert caught.value.rule == rule
    for part in (says,) if isinstance(says, str) else says:
        assert part in str(caught.value), str(caught.value)
    return caught.value


def test_one_partition_does_not_broadcast_over_all():
    def kernel(x, row):
        out = nl.ndarray((128, 512), x.dtype, buffer=nl.shared_hbm)
        tile, bias = nl.load(x[0:128]), nl.load(row)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=bias, op=nl.add)
        nl.store(out, tile)
        return out

    refused(WrongShape, "partition-mismatch", kernel, X, X[:1], says=("128", "1 partitions"))


@together("start", [1, 17, 31, 33, 65, 127])
def test_a_slice_of_one_partition_starts_at_a_quadrant(start):
    def kernel(x):
        tile = nl.load(x[0:128])
        row = nl.ndarray((1, 512), x.dtype)
        nisa.tensor_copy(dst=row, src=tile[start : start + 1])
        return x

    refused(HardwareLimit, "start-partition", kernel, X, says=f"partitions {start}..{start + 1}")


def test_a_remainder_dropped_by_integer_division_is_an_unwritten_output():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for i in range(x.shape[0] // 128):
            nl.store(out[i * 128 : (i + 1) * 128], nl.load(x[i * 128 : (i + 1) * 128]))
        return out

    says = ("22528 of 153600 elements", "(256, 0)", "last 44 of the 300 along dimension 0", "n // tile")
    with pytest.warns(trnsim.UnreadInput, match="leaves out the last 44 of 300"):
        error = refused(ReadUninitialized, "unwritten-output", kernel, X, says=says)
    assert error.tensor == "out"
    assert ".py:" in error.line
    np.testing.assert_array_equal(run(kernel, X[:256]), X[:256])


def test_a_result_that_was_never_written_is_refused():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.load(x[0:128])
        return out

    refused(ReadUninitialized, "unwritten-output", kernel, X[:128], says="65536 of 65536")


def test_a_single_hole_in_a_result_is_named():
    def kernel(x):
        out = nl.ndarray((128, 512), x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x[0:128])
        nisa.dma_copy(dst=out[:, 0:100], src=tile[:, 0:100])
        nisa.dma_copy(dst=out[:, 101:512], src=tile[:, 101:512])
        return out

    refused(ReadUninitialized, "unwritten-output", kernel, X, says=("128 of 65536", "(0, 100)"))


def test_a_part_that_was_written_may_be_returned():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out[0:128], nl.load(x[0:128]))
        return out[0:128]

    np.testing.assert_array_equal(run(kernel, X), X[:128])


def row_sums(x, tiles):
    out = nl.ndarray((128, 1), nl.float32, buffer=nl.shared_hbm)
    total = nl.zeros((128, 1), nl.float32)
    for i in range(tiles):
        part = nl.sum(nl.load(x[0:128, i * 100 : (i + 1) * 100]), axis=1)
        nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)
    nl.store(out, total)
    return out


def test_a_sum_that_leaves_out_the_last_columns_is_warned_about():
    with pytest.warns(
        trnsim.UnreadInput, match=r"reads x\[128, 512\] in tiles of 100 along dimension 1 .* last 12 of 512"
    ):
        run(row_sums, X[:128], 512 // 100)


@pytest.mark.filterwarnings("error")
def test_arguments_read_whole_or_to_a_tile_of_choice_are_not_warned_about():
    run(row_sums, X[:128, :500], 5)
    # three tiles of five: the kernel was asked for less
    run(row_sums, X[:128, :500], 3)

    def twice(x, n):
        out = nl.ndarray((128, 512), x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x[0:128]))
        nl.load(x[128:256, 0:n])
        return out

    run(twice, X[:256], 200)


@pytest.mark.parametrize("loop", ["dynamic_range", "fori_loop"])
def test_an_accumulator_rebound_in_a_device_loop_is_refused(loop):
    def kernel(x):
        out = nl.ndarray((128, 512), x.dtype, buffer=nl.shared_hbm)
        held = [nl.zeros((128, 512), x.dtype)]

        def body(i):
            held[0] = nl.add(held[0], nl.load(x[0:128]))

        if loop == "dynamic_range":
            for i in nl.dynamic_range(0, 3):
                body(i)
        else:
            nl.fori_loop(0, 3, body)
        nl.store(out, held[0])
        return out

    error = refused(WrongArgument, "loop-scope", kernel, X, says=loop, nki="0.6")
    assert "declare it before the loop and write into it" in error.hint


def test_an_accumulator_written_in_a_device_loop_is_right():
    def kernel(x):
        out = nl.ndarray((128, 512), x.dtype, buffer=nl.shared_hbm)
        total = nl.zeros((128, 512), x.dtype)

        def body(i):
            tile = nl.load(x[0:128])
            nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)

        nl.fori_loop(0, 3, body)
        nl.store(out, total)
        return out

    within(run(kernel, X), 3 * rounded(X[:128]))


def test_python_that_counts_the_turns_is_refused():
    def kernel(x):
        total = nl.zeros((128, 512), x.dtype)
        turns = iter(range(3))
        nl.fori_loop(0, 3, lambda i: add(total, float(next(turns))))
        return x

    def add(tile, value):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=value)

    refused(WrongArgument, "loop-program", kernel, X, says=("issues tensor_scalar where the first one issued", "once"))


def test_turns_of_different_length_are_refused():
    def kernel(x, longer):
        tile = nl.load(x[0:128])
        seen = []

        def body(i):
            for _ in range(1 + (len(seen) if longer else 1 - len(seen))):
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
            seen.append(i)

        nl.fori_loop(0, 2, body)
        return x

    refused(WrongArgument, "loop-program", kernel, X, True, says="where the first one issued nothing more")
    refused(WrongArgument, "loop-program", kernel, X, False, says="issues nothing more where")


def test_a_turn_may_address_by_its_counter_and_nest():
    def kernel(x):
        out = nl.ndarray((8, 512), x.dtype, buffer=nl.shared_hbm)

        def outer(i):
            row = nl.ndarray((1, 512), x.dtype)

            def inner(j):
                nisa.dma_copy(dst=row, src=x[nl.ds(4 * i + j, 1)])
                nisa.dma_copy(dst=out[nl.ds(4 * i + j, 1)], src=row)

            nl.fori_loop(0, 4, inner)

        nl.fori_loop(0, 2, outer)
        return out

    np.testing.assert_array_equal(run(kernel, X), X[:8])


@together("decide", [bool, int, range, lambda s: s > 3 and 1, lambda s: [1, 2][s], float])
def test_a_decision_by_a_value_of_the_device_is_refused(decide):
    def kernel(x):
        tile = nl.ndarray((1, 1), nl.int32)
        nisa.memset(dst=tile, value=1)
        decide(nisa.scalar_load(tile))
        return x

    with pytest.raises(TypeError, match="device only"):
        run(kernel, X)


def test_a_tile_decides_nothing_where_lint_looks():
    def kernel(x):
        assert nl.load(x[0:128])
        return x

    with pytest.raises(TypeError, match="device only"):
        trnsim.simulate(kernel)(X + 1)
    run(kernel, X + 1)


def test_a_loop_on_one_of_two_cores_is_refused():
    def kernel(x, both):
        out = nl.ndarray((128, 512), x.dtype, buffer=nl.shared_hbm)
        core = nl.program_id(0)

        def body(i):
            nl.store(out, nl.load(x[0:128]))

        if both or core == 0:
            nl.fori_loop(0, 2 - 2 * core, body)
        return out

    refused(WrongArgument, "core-loops", trnsim.jit(kernel)[2], X, False, says="test_must_not_pass.py:")
    np.testing.assert_array_equal(run(trnsim.jit(kernel)[2], X, True), X[:128])


def test_cores_that_take_different_turns_are_warned_about():
    def kernel(x):
        out = nl.ndarray((2, 512), x.dtype, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        tile = nl.load(x[0:1])

        def body(i):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)

        nl.fori_loop(0, 3 - core, body)
        nl.store(out[core : core + 1], tile)
        return out

    with pytest.warns(trnsim.CoreTurns, match=r"core 0 takes 3 turns .*test_must_not_pass.py:\d+, core 1 2"):
        got = run(trnsim.jit(kernel)[2], X)
    np.testing.assert_array_equal(got, np.stack([8 * X[0], 4 * X[0]]))


def test_cores_have_loops_of_one_nesting():
    def kernel(x, nested):
        out = nl.ndarray((2, 512), x.dtype, buffer=nl.shared_hbm)
        core = nl.program_id(0)

        def body(i):
            nl.store(out[core : core + 1], nl.load(x[0:1]))

        if core:
            nl.fori_loop(0, 1, body)
        elif nested:
            nl.fori_loop(0, 1, lambda i: nl.fori_loop(0, 1, body))
        else:
            nl.fori_loop(0, 1, body)
        return out

    # each core has a program of its own, and the compiler compares their blocks
    np.testing.assert_array_equal(run(trnsim.jit(kernel)[2], X, False), np.stack([X[0]] * 2))
    refused(WrongArgument, "core-loops", trnsim.jit(kernel)[2], X, True, says="core 0 runs the loops")


def test_a_sum_that_starts_on_what_psum_held_is_refused():
    def kernel(x):
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        ps = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
        a, b = nl.load(x[0:128, 0:128]), nl.load(x[0:128])
        for _ in range(2):
            nisa.nc_matmul(dst=ps, stationary=a, moving=b, accumulate=True)
        nl.store(out, nl.copy(ps))
        return out

    refused(PsumRule, "psum-accumulate", kernel, X, says="accumulate=(k > 0)")


def test_a_value_computed_from_garbage_is_refused_where_it_is_returned():
    def kernel(x):
        out = nl.ndarray((128, 1), nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 512), x.dtype)
        nisa.dma_copy(dst=tile[:, 0:500], src=x[0:128, 0:500])
        nl.store(out, nl.max(tile, axis=1))
        return out

    refused(ReadUninitialized, "uninitialized", kernel, X, says=("tile[128, 512]", "1536 of 65536", "the result out"))


def test_cores_that_touch_the_same_rows_race():
    def kernel(x):
        out = nl.ndarray((128, 512), x.dtype, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        nl.store(out[0:64], nl.load(x[core * 64 : core * 64 + 64]))
        nl.store(out[64:128], nl.load(x[core * 64 : core * 64 + 64]))
        return out

    with pytest.raises(Race):
        trnsim.simulate(trnsim.jit(kernel)[2], lint="off")(X)


@pytest.mark.parametrize("how", ["sendrecv", "barrier"])
def test_a_core_that_waits_for_a_partner_that_never_comes_is_told_so(how):
    def kernel(x):
        out = nl.ndarray((2, 64, 512), x.dtype, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        tile = nl.load(x[core * 64 : core * 64 + 64])
        got = nl.ndarray((64, 512), x.dtype)
        if core == 0:
            if how == "sendrecv":
                nisa.sendrecv(src=tile, dst=got, send_to_rank=1, recv_from_rank=1, pipe_id=0)
                nisa.tensor_tensor(dst=tile, data1=tile, data2=got, op=nl.add)
            else:
                nisa.core_barrier(data=out, cores=(0, 1))
        nl.store(out[core], tile)
        return out

    with pytest.raises(KernelError, match=r"core 0 waits for core 1 .*; core 1 has finished"):
        trnsim.simulate(trnsim.jit(kernel)[2], lint="off")(X)
