"""Two cores of a logical core: what they share, how they meet, and what is caught when they do not."""

import re
import warnings

import numpy as np
import pytest

import trnsim
from tests.together import together
from trnsim import isa as nisa, language as nl
from trnsim.errors import (
    Deadlock,
    HardwareLimit,
    Race,
    ReadUninitialized,
    WrongArgument,
    WrongBuffer,
    WrongDtype,
    WrongEngine,
    WrongShape,
)
from trnsim.isa.enums import dma_engine

pytestmark = pytest.mark.sim

X = np.arange(2 * 64 * 32, dtype=np.float32).reshape(2, 64, 32)


def load(src):
    tile = nl.ndarray(src.shape, dtype=src.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=src)
    return tile


def run(kernel, *args, cores=2, **options):
    return trnsim.simulate(trnsim.jit(kernel)[cores], **options)(*args)


def refused(error, rule, kernel, *args, says=(), **options):
    # a read of unwritten memory is refused at once when asked for; see test_poison for what happens otherwise
    options = {"strict": True, **options} if error is ReadUninitialized else options
    with pytest.raises(error) as caught:
        run(kernel, *args, **options)
    found = caught.value
    assert type(found) is error
    assert found.rule == rule, found
    for part in (says,) if isinstance(says, str) else says:
        assert part in str(found), str(found)
    return found


# the launch grid


@pytest.mark.parametrize(("grid", "ids"), [(None, [(0, 1, 0)]), (1, [(0, 1, 1)]), (2, [(0, 2, 1), (1, 2, 1)])])
def test_every_core_knows_its_number(grid, ids):
    seen = []

    def kernel(x):
        seen.append((nl.program_id(0), nl.num_programs(), nl.program_ndim()))

    made = trnsim.jit(kernel)
    trnsim.simulate(made if grid is None else made[grid], lint="off")(X)
    assert seen == ids


@pytest.mark.parametrize(("target", "grid", "limit"), [("trn1", 2, 1), ("trn2", 3, 2), ("trn2", 8, 2), ("trn3", 4, 2)])
def test_a_grid_larger_than_the_logical_core_is_refused(target, grid, limit):
    with pytest.raises(HardwareLimit) as caught:
        trnsim.simulate(trnsim.jit(split)[grid], target=target)(X)
    assert (caught.value.rule, caught.value.got, caught.value.limit) == ("grid", grid, limit)
    assert f"[{grid}]" in str(caught.value)
    assert target in str(caught.value)


def test_a_grid_is_one_number():
    with pytest.raises(WrongArgument, match="2 dimensions"):
        trnsim.jit(split)[1, 2](X)
    for bad in (0, -1, 1.5, "2", ()):
        with pytest.raises(WrongArgument) as caught:
            trnsim.jit(split)[bad]
        assert caught.value.rule == "grid"
    assert trnsim.jit(split)[(2,)](X).tolist() == X.tolist()


def split(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i = nl.program_id(0)
    nisa.dma_copy(dst=out[i], src=load(x[i]))
    return out


# what is shared


def test_cores_divide_the_work_of_one_program():
    np.testing.assert_array_equal(run(split, X), X)


def test_shared_tensors_are_one_tensor_by_order_and_by_name():
    def kernel(x):
        i = nl.program_id(0)
        if i == 0:
            named = nl.ndarray((32, 32), x.dtype, nl.shared_hbm, name="late")
            first = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
        else:
            first = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
            named = nl.ndarray((32, 32), x.dtype, nl.shared_hbm, name="late")
        out = nl.ndarray((2, 96, 32), x.dtype, nl.shared_hbm)
        half = 32 * i
        tile = load(x[0, half : half + 32])
        nisa.dma_copy(dst=first[half : half + 32], src=tile)
        half = 16 * i
        nisa.dma_copy(dst=named[half : half + 16], src=tile[0:16])
        nisa.core_barrier(first, (0, 1))
        nisa.core_barrier(named, (0, 1))
        nisa.dma_copy(dst=out[i, 0:64], src=load(first))
        nisa.dma_copy(dst=out[i, 64:96], src=load(named))
        return out

    made = run(kernel, X)
    want = np.concatenate([X[0], X[0, 0:16], X[0, 32:48]])
    np.testing.assert_array_equal(made, np.stack([want, want]))


@pytest.mark.parametrize("buffer", ["private_hbm", "hbm", "sbuf"])
def test_private_memory_is_private(buffer):
    def kernel(x):
        i = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        own = nl.ndarray(x.shape[1:], x.dtype, getattr(nl, buffer))
        if i == 0:
            nisa.dma_copy(dst=own, src=x[0])
        nisa.core_barrier(out, (0, 1))
        nisa.dma_copy(dst=out[i], src=own)
        return out

    found = refused(ReadUninitialized, "uninitialized", kernel, X, lint="off")
    assert found.tensor == "own"


def test_cores_that_allocate_different_shared_tensors_are_told():
    def kernel(x):
        rows = 64 if nl.program_id(0) == 0 else 32
        return nl.ndarray((rows, 32), x.dtype, nl.shared_hbm)

    found = refused(WrongShape, "shared-hbm", kernel, X, says=("[32, 32]", "[64, 32]", "same order"))
    assert found.line.endswith(".py:" + str(kernel.__code__.co_firstlineno + 2))


def test_constants_are_the_same_on_both_cores():
    def kernel(x, own):
        i = nl.program_id(0)
        out = nl.ndarray((2, 1, 1), nl.float32, nl.shared_hbm)
        value = nl.shared_constant(np.full((1, 1), 3 + own * i, np.float32))
        nisa.dma_copy(dst=out[i], src=load(value))
        return out

    assert run(kernel, X, 0, lint="off").ravel().tolist() == [3, 3]
    refused(WrongArgument, "shared-constant", kernel, X, 1, lint="off", says="core 1 has another shared_constant")


def test_results_are_the_same_shared_tensor_on_both_cores():
    def private(x):
        out = nl.ndarray(x.shape, x.dtype, nl.hbm)
        nisa.dma_copy(dst=out[0], src=load(x[0]))
        nisa.dma_copy(dst=out[1], src=load(x[1]))
        return out

    with pytest.warns(trnsim.PrivateOutput, match="wants results in nl.shared_hbm"):
        np.testing.assert_array_equal(run(private, X), X)

    def halves(x):
        out = nl.ndarray(x.shape, x.dtype, nl.hbm)
        core = nl.program_id(0)
        nisa.dma_copy(dst=out[core], src=load(x[core]))
        return out

    with pytest.warns(trnsim.PrivateOutput):
        np.testing.assert_array_equal(run(halves, X), X)

    def different(x):
        out = nl.ndarray(x.shape, x.dtype, nl.hbm)
        core = nl.program_id(0)
        nisa.dma_copy(dst=out[0], src=load(x[core]))
        nisa.dma_copy(dst=out[1], src=load(x[1]))
        return out

    refused(WrongBuffer, "return-private", different, X, says=("out", "shared_hbm", "(0, 0, 0) differs"))

    def one_core(x):
        out = split(x)
        if nl.program_id(0) == 0:
            return out
        return None

    refused(
        WrongArgument, "core-results", one_core, X, says=("core 0 returns out[2, 64, 32]", "core 1 returns nothing")
    )


def test_a_failure_of_one_core_stops_both_and_restores_inputs():
    def kernel(x):
        i = nl.program_id(0)
        nisa.dma_copy(dst=x[i], src=load(x[1 - i]))
        nisa.core_barrier(x, (0, 1))
        if i == 1:
            load(nl.ndarray((8, 8), x.dtype, nl.shared_hbm, name="never"))
        nisa.core_barrier(x, (0, 1))

    x = X.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = refused(Race, "race", kernel, x)
    np.testing.assert_array_equal(x, X)

    def later(x):
        i = nl.program_id(0)
        tile = load(x[1 - i])
        nisa.core_barrier(x, (0, 1))
        nisa.dma_copy(dst=x[i], src=tile)
        nisa.core_barrier(x, (0, 1))
        never = nl.ndarray((8, 8), x.dtype, nl.shared_hbm)
        if i == 1:
            load(never)
        nisa.core_barrier(x, (0, 1))

    found = refused(ReadUninitialized, "uninitialized", later, x, says="core_barrier(data=never, cores=(0, 1))")
    assert found.kernel == "later"
    np.testing.assert_array_equal(x, X)


def test_inputs_are_shared_and_written_back():
    def kernel(x):
        i = nl.program_id(0)
        tile = load(x[1 - i])
        nisa.core_barrier(x, (0, 1))
        nisa.dma_copy(dst=x[i], src=tile)

    x = X.copy()
    assert run(kernel, x) is None
    np.testing.assert_array_equal(x, X[::-1])


# core_barrier


def test_after_a_barrier_each_core_sees_what_the_other_wrote():
    def kernel(x):
        i = nl.program_id(0)
        data = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(dst=data[i], src=load(x[i]))
        nisa.core_barrier(data=data, cores=(0, 1), engine=nisa.engine.vector, name="meet")
        nisa.dma_copy(dst=out[i], src=load(data[1 - i]))
        return out

    np.testing.assert_array_equal(run(kernel, X), X[::-1])


def test_a_barrier_without_partner_deadlocks_and_says_who_waits_where():
    def kernel(x):
        out = split(x)
        if nl.program_id(0) == 0:
            nisa.core_barrier(out, (0, 1))
        return out

    found = refused(
        Deadlock, "deadlock", kernel, X, says=("core 0 waits for core 1 in core_barrier on out", "core 1 has finished")
    )
    assert found.line.endswith(f"test_cores.py:{kernel.__code__.co_firstlineno + 3}")
    assert found.got[0][0] == "core 0"
    assert found.got[1][1] == "finished"


def test_barrier_against_sendrecv_deadlocks():
    def kernel(x):
        out = split(x)
        tile, other = load(x[0]), load(x[0])
        if nl.program_id(0) == 0:
            nisa.core_barrier(out, (0, 1))
        else:
            nisa.sendrecv(tile, other, 0, 0, pipe_id=3)
            nisa.dma_copy(dst=out[1], src=other)
        return out

    refused(Deadlock, "deadlock", kernel, X, says=("core 1 in core_barrier on out", "core 0 in sendrecv on pipe 3"))


def test_cores_must_name_the_same_tensor():
    def kernel(x):
        a = nl.ndarray((8, 8), x.dtype, nl.shared_hbm)
        b = nl.ndarray((8, 8), x.dtype, nl.shared_hbm)
        nisa.core_barrier(a if nl.program_id(0) == 0 else b, (0, 1))

    refused(WrongArgument, "barrier-data", kernel, X, says=("core 0 synchronises on a", "core 1 on b"), lint="off")


@together(
    ("error", "rule", "call"),
    [
        (WrongBuffer, "buffer", lambda t, out: nisa.core_barrier(t, (0, 1))),
        (WrongArgument, "cores", lambda t, out: nisa.core_barrier(out, (0,))),
        (WrongArgument, "cores", lambda t, out: nisa.core_barrier(out, (0, 1, 2))),
        (WrongArgument, "cores", lambda t, out: nisa.core_barrier(out, 2)),
        (WrongEngine, "engine", lambda t, out: nisa.core_barrier(out, (0, 1), nisa.engine.dma)),
        (WrongArgument, "core", lambda t, out: nisa.sendrecv(t, t, 2, 0, 0)),
        (WrongArgument, "core", lambda t, out: nisa.sendrecv(t, t, 0, -1, 0)),
        (WrongArgument, "pipe", lambda t, out: nisa.sendrecv(t, t, 0, 0, -1)),
        (WrongBuffer, "buffer", lambda t, out: nisa.sendrecv(out, t, 1, 1, 0)),
        (WrongBuffer, "buffer", lambda t, out: nisa.sendrecv(t, out, 1, 1, 0)),
        (WrongDtype, "sendrecv-dtype", lambda t, out: nisa.sendrecv(t, t.view(nl.int32), 1, 1, 0)),
        (WrongShape, "sendrecv-shape", lambda t, out: nisa.sendrecv(t, t[0:32], 1, 1, 0)),
        (WrongArgument, "dma_engine", lambda t, out: nisa.sendrecv(t, t, 1, 1, 0, dma_engine="fast")),
    ],
)
def test_wrong_operands_are_refused(error, rule, call):
    def kernel(x):
        out = split(x)
        call(load(x[0]), out)
        return out

    refused(error, rule, kernel, X, lint="off")


@pytest.mark.parametrize(
    "instruction", [lambda t, o: nisa.core_barrier(o, (0, 1)), lambda t, o: nisa.sendrecv(t, t, 0, 0, 0)]
)
def test_meeting_needs_two_cores_and_trn2(instruction):
    def kernel(x):
        out = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
        instruction(load(x[0]), out)

    refused(HardwareLimit, "lnc", kernel, X, says="kernel[2]", cores=1, lint="off")
    refused(WrongEngine, "generation", kernel, X, says="trn1", cores=1, lint="off", target="trn1")


# sendrecv


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("mode", [dma_engine.dma, dma_engine.gpsimd_dma, "gpsimd_dma"])
@together("dtype", ["float32", "bfloat16", "int8", "uint16"])
def test_sendrecv_swaps_tiles(dtype, mode, target):
    import ml_dtypes

    x = (X % 100).astype(getattr(ml_dtypes, dtype, dtype))

    def kernel(x):
        i = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        mine = load(x[i])
        theirs = nl.ndarray(x.shape[1:], x.dtype, nl.sbuf)
        nisa.sendrecv(src=mine, dst=theirs, send_to_rank=1 - i, recv_from_rank=1 - i, pipe_id=0, dma_engine=mode)
        nisa.dma_copy(dst=out[i], src=theirs)
        return out

    np.testing.assert_array_equal(run(kernel, x, target=target, lint="off"), x[::-1])


def test_what_is_sent_is_what_the_tile_held_then():
    def kernel(x):
        i = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        tile, theirs = load(x[i]), nl.ndarray(x.shape[1:], x.dtype, nl.sbuf)
        nisa.sendrecv(tile, theirs, 1 - i, 1 - i, 0)
        nisa.memset(tile, 0.0)
        nisa.dma_copy(dst=out[i], src=theirs)
        return out

    np.testing.assert_array_equal(run(kernel, X), X[::-1])


def test_pipes_go_on_independently():
    # core 0 serves pipe 0 first, core 1 pipe 1: neither may wait for the other before it needs the data
    def kernel(x):
        i = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        tile = load(x[i])
        a = nl.ndarray(x.shape[1:], x.dtype, nl.sbuf)
        b = nl.ndarray(x.shape[1:], x.dtype, nl.sbuf)
        order = (0, 1) if i == 0 else (1, 0)
        for pipe in order:
            nisa.sendrecv(tile, a if pipe == 0 else b, 1 - i, 1 - i, pipe)
        nisa.dma_copy(dst=out[i, 0:32], src=a[0:32])
        nisa.dma_copy(dst=out[i, 32:64], src=b[32:64])
        return out

    np.testing.assert_array_equal(run(kernel, X, lint="off"), X[::-1])


@pytest.mark.parametrize("prints", [False, True])
def test_what_changes_or_prints_part_of_a_tile_waits_for_the_data_too(prints, capsys):
    def kernel(x):
        i = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        tile, upper = load(x[i]), nl.zeros(x.shape[1:], nl.uint8)
        nisa.memset(upper[0:32], 1)
        late, soon = nl.ndarray(x.shape[1:], x.dtype, nl.sbuf), nl.ndarray(x.shape[1:], x.dtype, nl.sbuf)
        # neither core waits for the other at its first pipe, whose data comes when it is needed
        nisa.sendrecv(tile, late, 1 - i, 1 - i, i)
        nisa.sendrecv(tile, soon, 1 - i, 1 - i, 1 - i)
        if prints:
            nl.device_print("late", late[0:1, 0:1])
        nisa.tensor_copy_predicated(late, 7.0, upper)
        nisa.dma_copy(dst=out[i], src=late)
        return out

    expected = X[::-1].copy()
    expected[:, 0:32] = 7.0
    np.testing.assert_array_equal(run(kernel, X, lint="off"), expected)
    assert [f"[[{v:.0f}.]]" in capsys.readouterr().out for v in X[:1, 0, 0]] == [prints]


def test_two_pipes_may_bring_parts_of_one_tensor():
    def kernel(x):
        i = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        tile = load(x[i])
        whole = nl.ndarray(x.shape[1:], x.dtype, nl.sbuf)
        for pipe in (0, 1) if i == 0 else (1, 0):
            rows = pipe * 32
            nisa.sendrecv(tile[rows : rows + 32], whole[rows : rows + 32], 1 - i, 1 - i, pipe)
        nisa.dma_copy(dst=out[i], src=whole)
        return out

    np.testing.assert_array_equal(run(kernel, X, lint="off"), X[::-1])


def test_one_pipe_keeps_its_order():
    def kernel(x):
        i = nl.program_id(0)
        out = nl.ndarray((2, 2, 64, 32), x.dtype, nl.shared_hbm)
        for step in range(2):
            tile = load(x[i])
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=step + 1.0)
            got = nl.ndarray(x.shape[1:], x.dtype, nl.sbuf)
            nisa.sendrecv(tile, got, 1 - i, 1 - i, 0)
            nisa.dma_copy(dst=out[i, step], src=got)
        return out

    np.testing.assert_array_equal(run(kernel, X), np.stack([[X[1], 2 * X[1]], [X[0], 2 * X[0]]]))


def test_a_missing_partner_deadlocks_even_when_the_data_is_never_used():
    def kernel(x):
        tile = load(x[0])
        if nl.program_id(0) == 0:
            nisa.sendrecv(tile, load(x[0]), 1, 1, 7)

    line = kernel.__code__.co_firstlineno + 3
    found = refused(
        Deadlock, "deadlock", kernel, X, says=("core 0 waits for core 1 in sendrecv on pipe 7", f"test_cores.py:{line}")
    )
    assert found.line.endswith(f":{line}")


def test_cores_that_send_past_each_other_are_told():
    def kernel(x):
        i = nl.program_id(0)
        nisa.sendrecv(load(x[0]), load(x[0]), send_to_rank=1, recv_from_rank=1 - i, pipe_id=0)

    found = refused(Deadlock, "sendrecv-partner", kernel, X, says=("core 0 sends to 1", "core 1 sends to 1"))
    assert found.got == [(0, 1, 1), (1, 1, 0)]


def test_both_cores_exchange_one_shape():
    def kernel(x):
        i = nl.program_id(0)
        tile = load(x[0, 0 : 32 if i == 0 else 64])
        nisa.sendrecv(tile, tile, 1 - i, 1 - i, 0)

    for values in (True, False):
        refused(WrongShape, "sendrecv-shape", kernel, X, says=("(32, 32)", "(64, 32)"), lint="off", numerics=values)


@pytest.mark.parametrize(("dtype", "most"), [("float32", 1024), ("bfloat16", 512), ("int8", 256)])
def test_the_gpsimd_dma_moves_a_limited_row(dtype, most):
    def kernel(x, columns):
        i = nl.program_id(0)
        tile = nl.zeros((16, columns), dtype, nl.sbuf)
        nisa.sendrecv(tile, tile, 1 - i, 1 - i, 0, dma_engine=nisa.dma_engine.gpsimd_dma)

    run(kernel, X, 256, lint="off")
    found = refused(HardwareLimit, "gpsimd-dma-size", kernel, X, 257, lint="off")
    assert found.limit == most
    assert found.got == most + most // 256


# races


def write(out, rows, tile):
    nisa.dma_copy(dst=out[rows], src=tile)


def test_two_writes_race_and_both_lines_are_named():
    def kernel(x):
        out = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
        tile = load(x[0])
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=out[0:33], src=tile[0:33])
        else:
            nisa.dma_copy(dst=out[32:64], src=tile[0:32])
        return out

    found = refused(Race, "race", kernel, X, says=("core 1 writes out", "core 0 writes the same elements", "(0, 0)"))
    first = kernel.__code__.co_firstlineno
    assert [int(re.search(r":(\d+)$", line)[1]) for line in found.lines] == [first + 4, first + 6]
    assert found.tensor == "out"


@pytest.mark.parametrize("reader", [0, 1])
def test_a_read_and_a_write_race_in_either_order(reader):
    def kernel(x):
        out = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
        tile = load(x[0])
        if nl.program_id(0) == reader:
            load(x[1, 10:12])
        else:
            nisa.dma_copy(dst=x[1, 11:20], src=tile[11:20])
        return out

    found = refused(Race, "race", kernel, X.copy(), lint="off")
    assert f"core {reader} reads" in str(found)


def test_interleaved_rows_and_columns_do_not_race():
    def kernel(x):
        i = nl.program_id(0)
        rows = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
        columns = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
        tile = load(x[0])
        nisa.dma_copy(dst=rows[i::2], src=tile[0:32])
        nisa.dma_copy(dst=columns[:, i::2], src=tile[:, 0:16])
        return rows, columns

    rows, columns = run(kernel, X)
    np.testing.assert_array_equal(rows, np.repeat(X[0, 0:32], 2, axis=0))
    np.testing.assert_array_equal(columns, np.repeat(X[0, :, 0:16], 2, axis=1))


def test_one_shared_element_of_two_lattices_is_found():
    def kernel(x):
        out = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
        tile = load(x[0])
        # multiples of 6 and of 10 meet at 0, 30 and 60
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=out[6:60:6], src=tile[0:9])
        else:
            nisa.dma_copy(dst=out[10:61:10], src=tile[0:6])
        return out

    refused(Race, "race", kernel, X, says="element (2, 0) of the view")


def test_views_of_other_dtypes_race_too():
    def kernel(x):
        out = nl.ndarray((64, 32), nl.float32, nl.shared_hbm)
        halves = out.view(nl.uint16)
        tile = load(x[0])
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=halves[:, 0:31], src=tile.view(nl.uint16)[:, 1:32])
        else:
            nisa.dma_copy(dst=out[:, 15:32], src=tile[:, 15:32])
        return out

    refused(Race, "race", kernel, X)


def test_run_time_addresses_race_where_they_meet():
    def kernel(x, rows):
        i = nl.program_id(0)
        out = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
        index = load(rows[i])
        tile = load(x[i, 0:4])
        nisa.dma_copy(dst=out.vector_select(0, index), src=tile)
        return out

    apart = np.array([[[0], [2], [4], [6]], [[1], [3], [5], [7]]], np.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", trnsim.UnwrittenOutput)
        made = run(kernel, X, apart)
    np.testing.assert_array_equal(made[0:8:2], X[0, 0:4])
    np.testing.assert_array_equal(made[1:8:2], X[1, 0:4])
    apart[1, 3] = 4
    refused(Race, "race", kernel, X, apart)


def test_reading_the_same_is_no_race_and_a_barrier_separates():
    def kernel(x):
        i = nl.program_id(0)
        data = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
        tile = load(x[0])
        if i == 0:
            nisa.dma_copy(dst=data, src=tile)
        nisa.core_barrier(data, (0, 1))
        copy = load(data)
        nisa.core_barrier(data, (0, 1))
        if i == 1:
            nisa.dma_copy(dst=data, src=copy)
        return data

    np.testing.assert_array_equal(run(kernel, X), X[0])


def test_a_meeting_over_something_else_is_warned_about():
    def kernel(x):
        i = nl.program_id(0)
        data = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
        other = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
        if i == 0:
            nisa.dma_copy(dst=data, src=load(x[0]))
        nisa.core_barrier(other, (0, 1))
        if i == 1:
            nisa.dma_copy(dst=other, src=load(data))
        nisa.core_barrier(other, (0, 1))
        return other

    with pytest.warns(trnsim.RaceWarning, match="core 1 reads data at .* after core 0 writes"):
        made = run(kernel, X)
    np.testing.assert_array_equal(made, X[0])


def test_races_are_not_looked_for_without_checks():
    def kernel(x):
        out = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
        nisa.dma_copy(dst=out, src=load(x[nl.program_id(0)]))
        return out

    found = refused(Race, "race", kernel, X, says=("core 1 writes out", "core 0 writes the same elements"))
    assert (found.instruction, found.kernel) == ("dma_copy", "kernel")
    assert found.lines[0] == found.lines[1] == found.line
    np.testing.assert_array_equal(run(kernel, X, checks=False), X[1])


def test_a_kernel_that_knows_nothing_of_cores_does_everything_twice():
    def kernel(x):
        out = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
        scratch = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
        nisa.dma_copy(dst=scratch, src=load(x[0]))
        nisa.dma_copy(dst=out, src=load(scratch))
        return out

    with pytest.warns(trnsim.RaceWarning, match="both cores write the same values") as told:
        np.testing.assert_array_equal(run(kernel, X), X[0])
    assert len(told) == 2
    assert [name in str(w.message) for w, name in zip(told, ("scratch", "out"), strict=True)] == [True, True]


def test_repeating_a_write_is_harmless_only_if_nothing_changes():
    def in_place(x):
        tile = load(x[0])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=x[0], src=tile)

    # the second core would read what the first has written
    refused(Race, "race", in_place, X.copy(), says="core 1 reads x")

    def reused(x):
        out = nl.ndarray((2, 64, 32), x.dtype, nl.shared_hbm)
        scratch = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
        for i in range(2):
            nisa.dma_copy(dst=scratch, src=load(x[i]))
            nisa.dma_copy(dst=out[i], src=load(scratch))
        return out

    # one core may be an iteration ahead
    refused(Race, "race", reused, X, says="writes scratch")


def test_equal_bits_from_other_lines_and_in_borders_are_warned_about():
    def border(x, shift):
        out = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
        tile = load(x[0])
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=out[0:40], src=tile[0:40])
        else:
            nisa.dma_copy(dst=out[30:64], src=tile[30 - shift : 64 - shift])
        return out

    with pytest.warns(trnsim.RaceWarning, match="Whoever comes last, the bits are the same"):
        np.testing.assert_array_equal(run(border, X, 0), X[0])
    # one row off, and what both write differs
    refused(Race, "race", border, X, 1, says="core 1 writes out")


# the run


def test_runs_are_the_same_run():
    def kernel(x):
        i = nl.program_id(0)
        order.append(i)
        nisa.core_barrier(x, (0, 1))
        order.append(i)
        nisa.sendrecv(load(x[0]), load(x[0]), 1 - i, 1 - i, 0)
        order.append(i)

    seen = []
    for _ in range(5):
        order = []
        run(kernel, X, lint="off")
        seen.append(order)
    assert seen == [[0, 1, 1, 0, 0, 1]] * 5 or seen == [seen[0]] * 5
    assert sorted(seen[0]) == [0, 0, 0, 1, 1, 1]


def test_the_stream_says_which_core_and_what_meets_what():
    trace = []

    def kernel(x):
        i = nl.program_id(0)
        tile, got = load(x[i]), nl.ndarray(x.shape[1:], x.dtype, nl.sbuf)
        nisa.sendrecv(tile, got, 1 - i, 1 - i, 4)
        nisa.core_barrier(x, (0, 1), nisa.engine.sync)

    run(kernel, X, trace=trace)
    cores = [[r for r in trace if r.core == c] for c in (0, 1)]
    assert [[r.name for r in own] for own in cores] == [["dma_copy", "sendrecv", "core_barrier"]] * 2
    for own in cores:
        assert [r.index for r in own] == sorted(r.index for r in own)
        assert own[1].cost["bytes"] == 64 * 32 * 4
        assert (own[1].cost["pipe"], own[1].engine, own[2].engine) == (4, "dma", "sync")
    assert [r.cost["sync"] for r in cores[0][1:]] == [r.cost["sync"] for r in cores[1][1:]]


def test_two_cores_without_values():
    def kernel(x):
        i = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        tile, got = load(x[i]), nl.ndarray(x.shape[1:], x.dtype, nl.sbuf)
        nisa.sendrecv(tile, got, 1 - i, 1 - i, 0)
        nisa.dma_copy(dst=out[i], src=got)
        nisa.core_barrier(out, (0, 1))
        return out

    made = run(kernel, X, numerics=False)
    assert made.shape == X.shape
    assert np.isnan(made).all()


def test_capacity_is_each_cores_own():
    def kernel(x):
        wide = nl.zeros((128, 40000), nl.float32, nl.sbuf)
        nisa.core_barrier(x, (0, 1))
        nisa.dma_copy(dst=x[nl.program_id(0)], src=wide[0:64, 0:32])

    x = X.copy()
    run(kernel, x)
    assert not x.any()
