"""Unwritten memory: it propagates through every instruction and is refused where its value would matter."""

import numpy as np
import pytest

import trnsim
from tests.together import together
from tests.trnsim.rounded import rounded, within
from trnsim import isa as nisa, language as nl
from trnsim.errors import ReadUninitialized

pytestmark = pytest.mark.sim

F32, I32 = np.float32, np.int32
RNG = np.random.default_rng(3)
X = RNG.standard_normal((128, 128), F32)


def run(kernel, *args, **options):
    return trnsim.simulate(kernel, lint="off", **options)(*args)


def store(tile, dtype=None):
    out = nl.ndarray(tile.shape, tile.dtype if dtype is None else dtype, buffer=nl.shared_hbm, name="out")
    nisa.dma_copy(dst=out, src=tile)
    return out


def load(x):
    tile = nl.ndarray(x.shape, x.dtype, name="loaded")
    nisa.dma_copy(dst=tile, src=x)
    return tile


def half_written(x, rows=64, name="half"):
    """A tile of ``x``'s shape with its first ``rows`` partitions written."""
    tile = nl.ndarray(x.shape, x.dtype, name=name)
    nisa.dma_copy(dst=tile[0:rows], src=x[0:rows])
    return tile


def refused(kernel, *args, says=(), **options):
    with pytest.raises(ReadUninitialized) as caught:
        run(kernel, *args, **options)
    error = caught.value
    assert error.rule == "uninitialized"
    assert error.kernel == kernel.__name__
    assert error.instruction
    assert ".py:" in error.line
    for part in (says,) if isinstance(says, str) else says:
        assert part in str(error), str(error)
    return error


# -- what is correct -------------------------------------------------------------------------------------------------


def test_one_column_written_the_tile_transposed_and_the_written_row_used():
    def kernel(x):
        tile = nl.ndarray((128, 128), nl.float32, name="tile")
        nisa.dma_copy(dst=tile[:, 0:1], src=x[:, 0:1])
        flipped = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=flipped, data=tile)
        row = nl.ndarray((1, 128), nl.float32)
        nisa.tensor_copy(dst=row, src=flipped[0:1, :])
        return store(row)

    np.testing.assert_array_equal(run(kernel, X), X[:, :1].T)
    assert refused(kernel, X, strict=True).tensor == "tile"
    trnsim.profile(kernel)(X)
    with pytest.raises(ReadUninitialized):
        trnsim.profile(kernel, strict=True)(X)


# each computes on a tile of 128 partitions of which 64 were written, and keeps those
MATHS = {
    "tensor_scalar": (
        lambda d, x: nisa.tensor_scalar(dst=d, data=x, op0=nl.multiply, operand0=2.0),
        lambda x: 2 * x,
    ),
    "tensor_tensor": (lambda d, x: nisa.tensor_tensor(dst=d, data1=x, data2=x, op=nl.add), lambda x: x + x),
    "activation": (lambda d, x: nisa.activation(dst=d, data=x, op=nl.relu), lambda x: np.maximum(x, 0)),
    "reciprocal": (lambda d, x: nisa.reciprocal(dst=d, data=x), lambda x: 1 / x),
    "maximum": (
        lambda d, x: nisa.tensor_scalar(dst=d, data=x, op0=nl.maximum, operand0=0.5),
        lambda x: np.maximum(x, F32(0.5)),
    ),
    "minimum": (
        lambda d, x: nisa.tensor_scalar(dst=d, data=x, op0=nl.minimum, operand0=0.5),
        lambda x: np.minimum(x, F32(0.5)),
    ),
    "equal": (
        lambda d, x: nisa.tensor_scalar(dst=d, data=x, op0=nl.equal, operand0=0.5),
        lambda x: (x == 0.5).astype(F32),
    ),
    "not_equal": (
        lambda d, x: nisa.tensor_scalar(dst=d, data=x, op0=nl.not_equal, operand0=0.0),
        lambda x: (x != 0).astype(F32),
    ),
    "greater": (
        lambda d, x: nisa.tensor_scalar(dst=d, data=x, op0=nl.greater, operand0=0.0),
        lambda x: (x > 0).astype(F32),
    ),
    "logical_or": (
        lambda d, x: nisa.tensor_scalar(dst=d, data=x, op0=nl.logical_or, operand0=0.0),
        lambda x: (x != 0).astype(F32),
    ),
    "multiply_by_zero": (
        lambda d, x: nisa.tensor_scalar(dst=d, data=x, op0=nl.multiply, operand0=0.0),
        lambda x: x * 0,
    ),
    "scan": (
        lambda d, x: nisa.tensor_tensor_scan(dst=d, data0=x, data1=x, initial=0.0, op0=nl.multiply, op1=nl.add),
        None,
    ),
    "copy": (lambda d, x: nisa.tensor_copy(dst=d, src=x), lambda x: x),
    "dma": (lambda d, x: nisa.dma_copy(dst=d, src=x), lambda x: x),
    "in_place": (
        lambda d, x: (
            nisa.tensor_scalar(dst=x, data=x, op0=nl.add, operand0=1.0),
            nisa.tensor_copy(dst=d, src=x),
        ),
        lambda x: x + 1,
    ),
}


@together("name", MATHS)
def test_partitions_that_were_written_are_values_and_the_others_are_refused(name):
    act, oracle = MATHS[name]

    def kernel(x, keep):
        made = nl.ndarray((128, 128), nl.float32)
        act(made, half_written(x))
        return store(made[0:keep])

    good = run(kernel, X, 64)
    if oracle is not None:
        within(good, oracle(rounded(X[:64])))
    error = refused(
        kernel, X, 65, says=("half[128, 128]", "8192 of 16384 elements", "the result out[65, 128] at (64, 0)")
    )
    assert error.tensor == "half"


DTYPES = (nl.float32, nl.bfloat16, nl.float16, nl.int32, nl.uint32, nl.int16, nl.uint16, nl.int8, nl.uint8)


@together("dtype", [*DTYPES, nl.float8_e4m3, nl.float8_e5m2])
def test_every_dtype_propagates(dtype):
    def kernel(x, keep):
        tile = nl.ndarray((64, 32), dtype)
        nisa.dma_copy(dst=tile[0:32], src=x[0:32])
        other = nl.ndarray((64, 32), dtype)
        nisa.tensor_copy(dst=other, src=tile)
        wide = nl.ndarray((64, 32), nl.float32)
        nisa.tensor_copy(dst=wide, src=other)
        return store(wide[0:keep])

    x = RNG.integers(0, 7, (64, 32)).astype(F32)
    np.testing.assert_array_equal(run(kernel, x, 32), x[:32])
    refused(kernel, x, 33, says="2048 elements")


@pytest.mark.parametrize("axis", ["stationary", "moving"])
def test_a_matmul_poisons_the_rows_or_columns_its_operand_lacks(axis):
    def kernel(x, y, m, n):
        ps = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
        a, b = load(x), load(y)
        part = nl.ndarray((128, 128), nl.float32, name="part")
        nisa.tensor_copy(dst=part[:, 0:100], src=(a if axis == "stationary" else b)[:, 0:100])
        for k in range(2):
            nisa.nc_matmul(
                dst=ps,
                stationary=part if axis == "stationary" else a,
                moving=part if axis == "moving" else b,
                accumulate=k > 0,
            )
        made = nl.ndarray((128, 128), nl.float32)
        nisa.tensor_copy(dst=made, src=ps)
        return store(made[0:m, 0:n])

    shape = (100, 128) if axis == "stationary" else (128, 100)
    within(run(kernel, X, X.T.copy(), *shape), (2 * (rounded(X.T) @ X.T))[: shape[0], : shape[1]])
    refused(kernel, X, X.T.copy(), 128, 128, says="part[128, 128]")


def test_a_sum_in_psum_stays_poison_whatever_is_added():
    def kernel(x, clean_first):
        a = load(x)
        fresh = nl.ndarray((128, 128), nl.float32, name="fresh")
        ps = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
        for k in range(3):
            poisoned = k == (1 if clean_first else 0)
            nisa.nc_matmul(dst=ps, stationary=a, moving=fresh if poisoned else a, accumulate=k > 0)
        made = nl.ndarray((128, 128), nl.float32)
        nisa.tensor_copy(dst=made, src=ps)
        return store(made)

    for clean_first in (False, True):
        assert refused(kernel, X, clean_first).tensor == "fresh"


def test_a_poisoned_sum_can_be_started_anew():
    def kernel(x):
        a = load(x)
        fresh = nl.ndarray((128, 128), nl.float32, name="fresh")
        ps = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=ps, stationary=a, moving=fresh, accumulate=False)
        nisa.nc_matmul(dst=ps, stationary=a, moving=a, accumulate=False)
        made = nl.ndarray((128, 128), nl.float32)
        nisa.tensor_copy(dst=made, src=ps)
        return store(made)

    within(run(kernel, X), rounded(X.T) @ X)


def test_a_reduction_is_poison_where_a_partition_lacks_an_element():
    def kernel(x, keep):
        tile = nl.ndarray((128, 128), nl.float32, name="tile")
        nisa.dma_copy(dst=tile[0:32], src=x[0:32])
        nisa.dma_copy(dst=tile[32:64, 0:127], src=x[32:64, 0:127])
        total = nl.ndarray((128, 1), nl.float32)
        nisa.tensor_reduce(dst=total, data=tile, op=nl.add, axis=1)
        return store(total[0:keep])

    within(run(kernel, X, 32)[:, 0], rounded(X[:32]).sum(axis=1))
    assert "(32, 0)" in str(refused(kernel, X, 64))


@pytest.mark.parametrize("engine", ["scalar", "vector"])
def test_the_engines_accumulators_carry_poison(engine):
    def kernel(x, keep):
        tile = half_written(x)
        res = nl.ndarray((128, 1), nl.float32)
        scratch = nl.ndarray((128, 128), nl.float32)
        for k in range(2):
            cmd = nisa.reduce_cmd.reduce if k else nisa.reduce_cmd.reset_reduce
            last = res if k else None
            if engine == "scalar":
                nisa.activation(dst=scratch, data=tile, op=nl.copy, reduce_op=nl.add, reduce_cmd=cmd, reduce_res=last)
            else:
                nisa.tensor_scalar_reduce(
                    dst=scratch, data=tile, op0=nl.add, operand0=0.0, reduce_op=nl.add, reduce_res=res
                )
        return store(res[0:keep])

    scale = 2 if engine == "scalar" else 1
    within(run(kernel, X, 64)[:, 0], scale * rounded(X[:64]).sum(axis=1))
    refused(kernel, X, 96)


def test_a_selection_takes_no_poison_from_what_it_does_not_choose():
    def kernel(x, mask, strict_mask):
        tile = half_written(x)
        made = nl.ndarray((128, 128), nl.float32)
        nisa.memset(dst=made, value=7.0)
        nisa.tensor_copy_predicated(dst=made, src=tile, predicate=load(mask))
        return store(made)

    mask = np.zeros((128, 128), np.uint8)
    mask[:64] = 1
    np.testing.assert_array_equal(run(kernel, X, mask, 0), np.where(mask, X, F32(7)))
    mask[100, 3] = 1
    assert "(100, 3)" in str(refused(kernel, X, mask, 0))


def test_a_poisoned_predicate_poisons_what_it_chooses():
    def kernel(x, mask):
        made = load(x)
        chosen = nl.ndarray((128, 128), nl.uint8, name="chosen")
        nisa.dma_copy(dst=chosen[:, 0:4], src=mask[:, 0:4])
        nisa.tensor_copy_predicated(dst=made, src=load(x), predicate=chosen)
        # a choice between equal values depends on nothing
        nisa.tensor_copy_predicated(dst=made[:, 0:4], src=load(x)[:, 4:8], predicate=chosen[:, 4:8])
        return store(made)

    assert refused(kernel, X, np.ones((128, 128), np.uint8)).tensor == "chosen"


def test_gathers_move_poison_and_leave_it_behind():
    def kernel(x, at, n):
        tile = nl.ndarray((128, 128), nl.float32, name="tile")
        nisa.dma_copy(dst=tile[:, 0:64], src=x[:, 0:64])
        made = nl.ndarray((128, n), nl.float32)
        nisa.nc_n_gather(dst=made, data=tile, indices=load(at))
        return store(made)

    at = RNG.integers(0, 64, (128, 16)).astype(np.uint32)
    np.testing.assert_array_equal(run(kernel, X, at, 16), np.take_along_axis(X, at.astype(int), axis=1))
    at[5, 5] = 100
    assert "(5, 5)" in str(refused(kernel, X, at, 16))


def test_rows_of_hbm_gathered_by_dma_carry_poison():
    def kernel(x, at):
        far = nl.ndarray((128, 16), nl.float32, buffer=nl.hbm, name="far")
        nisa.dma_copy(dst=far[0:64], src=x[0:64, 0:16])
        index = load(at)
        made = nl.ndarray((32, 16), nl.float32)
        nisa.dma_copy(dst=made, src=far.vector_select(0, index))
        return store(made)

    at = RNG.integers(0, 64, (32, 1)).astype(I32)
    np.testing.assert_array_equal(run(kernel, X, at), X[at[:, 0], :16])
    at[3] = 64
    assert "(3, 0)" in str(refused(kernel, X, at, says="far[128, 16]"))


def test_a_row_of_which_part_is_poison_keeps_its_top_values_poison():
    def kernel(x):
        tile = nl.ndarray((128, 128), nl.float32, name="tile")
        nisa.dma_copy(dst=tile[:, 0:64], src=x[:, 0:64])
        top = nl.ndarray((128, 8), nl.float32)
        nisa.max8(dst=top, src=tile)
        return store(top)

    assert refused(kernel, X).tensor == "tile"


def test_random_numbers_are_the_same_whatever_garbage_is_tried():
    def kernel(x, poison):
        tile = half_written(x) if poison else load(x)
        made = nl.ndarray((128, 128), nl.float32)
        nisa.dropout(dst=made, data=tile, prob=0.5)
        again = nl.ndarray((128, 128), nl.float32)
        nisa.dropout(dst=again, data=load(x), prob=0.5)
        return store(again)

    np.testing.assert_array_equal(run(kernel, X, False), run(kernel, X, True))


def test_poison_crosses_between_cores():
    def kernel(x, keep):
        core = nl.program_id(0)
        tile = nl.ndarray((128, 128), nl.float32, name="sent")
        nisa.dma_copy(dst=tile[0:64], src=x[0:64])
        got = nl.ndarray((128, 128), nl.float32, name="got")
        nisa.sendrecv(src=tile, dst=got, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
        out = nl.ndarray((2, keep, 128), nl.float32, buffer=nl.shared_hbm, name="out")
        nisa.dma_copy(dst=out[core], src=got[0:keep])
        return out

    np.testing.assert_array_equal(trnsim.simulate(trnsim.jit(kernel)[2], lint="off")(X, 64)[1], X[:64])
    with pytest.raises(ReadUninitialized, match=r"src reads sent\[128, 128\].*the result out"):
        trnsim.simulate(trnsim.jit(kernel)[2], lint="off")(X, 65)


# -- where a value matters -------------------------------------------------------------------------------------------


def test_an_argument_that_would_become_poison_is_refused_and_stays():
    def kernel(x):
        nisa.dma_copy(dst=x, src=half_written(x))

    x = X.copy()
    refused(kernel, x, says="the argument x[128, 128] at (64, 0)")
    np.testing.assert_array_equal(x, X)


@together("use", ["register", "scalar_offset", "vector_offset", "gather", "branch", "loop"])
def test_indices_addresses_and_branches_are_exact(use):
    def kernel(x, at):
        fresh = nl.ndarray((32, 1), nl.int32, name="fresh")
        nisa.dma_copy(dst=fresh[0:16], src=at[0:16])
        # computed from poison, so that the read is found through an instruction
        index = nl.ndarray((32, 1), nl.int32, name="index")
        nisa.tensor_scalar(dst=index, data=fresh, op0=nl.add, operand0=0)
        made = nl.ndarray((32, 128), nl.float32)
        bad = nl.ndarray((1, 1), nl.int32)
        nisa.dma_copy(dst=bad, src=index[16:17])
        if use == "register":
            nisa.register_load(nisa.register_alloc(), bad)
        elif use == "scalar_offset":
            nisa.dma_copy(dst=made[0:1], src=x.select(0, bad).reshape(1, 128))
        elif use == "vector_offset":
            nisa.dma_copy(dst=made, src=x.vector_select(0, index))
        elif use == "gather":
            source = load(x)
            nisa.nc_n_gather(dst=made[:, 0:1], data=source[0:32], indices=index.view(nl.uint32))
        elif use == "branch":
            assert nl.equal(bad, index[0:1])
        else:
            stop = nisa.register_alloc(bad)
            for _ in nl.dynamic_range(0, stop):
                pass
        return x

    error = refused(kernel, X, np.zeros((32, 1), I32), says=("fresh[32, 1]", "16 of 32 elements"))
    assert error.tensor == "fresh"
    assert error.instruction == "tensor_scalar"


def test_poison_that_reaches_nothing_is_no_error():
    def kernel(x):
        fresh = nl.ndarray((128, 128), nl.float32)
        nisa.tensor_scalar(dst=fresh, data=fresh, op0=nl.add, operand0=1.0)
        return store(load(x))

    np.testing.assert_array_equal(run(kernel, X), X)
    refused(kernel, X, strict=True)


def test_writing_over_poison_makes_it_a_value():
    def kernel(x):
        tile = half_written(x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=tile[64:128], src=x[64:128])
        return store(tile)

    np.testing.assert_array_equal(run(kernel, X), np.concatenate([X[:64] + 1, X[64:]]))


def test_an_error_names_the_first_read_of_a_long_chain():
    def kernel(x):
        first = half_written(x, name="first")
        for _ in range(5):
            second = nl.ndarray((128, 128), nl.float32, name="second")
            nisa.tensor_scalar(dst=second, data=first, op0=nl.add, operand0=1.0)
            first = second
        return store(first)

    error = refused(kernel, X)
    assert error.tensor == "first"
    assert error.instruction == "tensor_scalar"


def test_printing_masks_poison(capsys):
    def kernel(x):
        tile = nl.ndarray((1, 2), nl.float32)
        nisa.dma_copy(dst=tile[:, 0:1], src=x[0:1, 0:1])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nl.device_print("seen", tile)
        return x

    run(kernel, np.ones((2, 2), F32))
    assert "[[2.0 --]]" in capsys.readouterr().out


def test_a_kernel_that_reads_only_what_it_wrote_runs_every_instruction_once(monkeypatch):
    from trnsim import session

    def never(*_):
        raise AssertionError("an instruction was run again")

    monkeypatch.setattr(session, "replay", never)

    def kernel(x):
        tile = load(x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        return store(tile)

    np.testing.assert_array_equal(run(kernel, X), X + 1)


@together("op", ["subtract", "bitwise_xor", "equal", "greater", "less_equal", "maximum"])
@together("dtype", [nl.int32, nl.float32])
def test_nothing_is_known_of_two_unknown_values(op, dtype):
    if op == "bitwise_xor" and dtype == nl.float32:
        dtype = nl.uint8

    def kernel(x):
        a = nl.ndarray((32, 8), dtype, name="a")
        b = nl.ndarray((32, 8), dtype, name="b")
        made = nl.ndarray((32, 8), dtype)
        nisa.tensor_tensor(dst=made, data1=a, data2=b, op=getattr(nl, op))
        return store(made)

    assert refused(kernel, X).tensor in ("a", "b")


def test_garbage_of_one_tile_does_not_cancel():
    def kernel(x):
        a = nl.ndarray((32, 8), nl.int32, name="a")
        made = nl.ndarray((32, 1), nl.int32)
        nisa.tensor_reduce(dst=made, op=nl.bitwise_xor, data=a, axis=1)
        return store(made)

    assert refused(kernel, X).tensor == "a"
