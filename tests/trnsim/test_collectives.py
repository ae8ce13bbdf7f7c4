"""nki.collectives across simulated ranks, against NumPy statements of what each one means."""

import ml_dtypes
import numpy as np
import pytest
import torch

import trnsim
from tests.together import together
from trnsim import collectives as ncc, isa as nisa, language as nl
from trnsim.collectives import ReplicaGroup
from trnsim.errors import (
    Deadlock,
    HardwareLimit,
    OutOfBounds,
    ReadUninitialized,
    WrongArgument,
    WrongBuffer,
    WrongDtype,
    WrongEngine,
    WrongShape,
)

pytestmark = pytest.mark.sim

OPS = {"add": (nl.add, np.add), "minimum": (nl.minimum, np.minimum), "maximum": (nl.maximum, np.maximum)}


def shards(n, shape, dtype="float32", seed=0):
    made = np.random.default_rng(seed).integers(-50, 50, (n, *shape))
    return list(made.astype(np.float32).astype(getattr(ml_dtypes, dtype, dtype)))


def ranks(kernel, n, *args, cores=1, **options):
    made = trnsim.jit(kernel)
    return trnsim.simulate_ranks(made[cores] if cores > 1 else made, n, **options)(*args)


def refused(error, rule, kernel, n, *args, says=(), **options):
    # a read of unwritten memory is refused at once when asked for; see test_poison for what happens otherwise
    options = {"strict": True, **options} if error is ReadUninitialized else options
    with pytest.raises(error) as caught:
        ranks(kernel, n, *args, **options)
    found = caught.value
    assert type(found) is error
    assert found.rule == rule, found
    for part in (says,) if isinstance(says, str) else says:
        assert part in str(found), str(found)
    return found


def hbm(shape, dtype):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def in_sbuf(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def reduce_kernel(x, group, op):
    out = hbm(x.shape, x.dtype)
    ncc.all_reduce([x], [out], group, op)
    return out


def gather_kernel(x, group, n):
    out = hbm((n * x.shape[0], x.shape[1]), x.dtype)
    ncc.all_gather(srcs=[x], dsts=[out], replica_group=group, collective_dim=0)
    return out


def scatter_kernel(x, group, n, op):
    out = hbm((x.shape[0] // n, x.shape[1]), x.dtype)
    ncc.reduce_scatter([x], [out], group, 0, op)
    return out


def exchange_kernel(x, group):
    out = hbm(x.shape, x.dtype)
    ncc.all_to_all([x], [out], group, 0)
    return out


GROUPS = [[[0, 1, 2, 3]], [[0, 1], [2, 3]], [[3, 1], [0, 2]], [[0], [1], [2], [3]]]


@pytest.mark.parametrize("groups", GROUPS, ids=str)
@pytest.mark.parametrize("cores", [1, 2])
def test_the_fixed_collectives_mean_what_they_say(groups, cores):
    xs, n = shards(4, (8, 6)), len(groups[0])
    group, given = ReplicaGroup(groups), trnsim.per_rank(xs)
    for op, fold in OPS.values():
        total = {r: fold.reduce([xs[m] for m in g]) for g in groups for r in g}
        for r, made in enumerate(ranks(reduce_kernel, 4, given, group, op, cores=cores)):
            np.testing.assert_array_equal(made, total[r])
        made = ranks(scatter_kernel, 4, given, group, n, op, cores=cores)
        for g in groups:
            for i, r in enumerate(g):
                np.testing.assert_array_equal(made[r], np.split(total[r], n)[i])
    made = ranks(gather_kernel, 4, given, group, n, cores=cores)
    swapped = ranks(exchange_kernel, 4, given, group, cores=cores)
    for g in groups:
        for i, r in enumerate(g):
            np.testing.assert_array_equal(made[r], np.concatenate([xs[m] for m in g]))
            np.testing.assert_array_equal(swapped[r], np.concatenate([np.split(xs[m], n)[i] for m in g]))


@pytest.mark.parametrize(("groups", "says"), [([[0, 1], [2, 3]], "of 2 ranks"), ([[3, 1], [0, 2]], "contig")])
def test_strict_refuses_groups_the_run_time_is_not_known_to_serve(groups, says):
    xs = trnsim.per_rank(shards(4, (8, 6)))
    ranks(exchange_kernel, 4, xs, ReplicaGroup([[0, 1, 2, 3]]), lint="strict")
    refused(HardwareLimit, "collective-group", exchange_kernel, 4, xs, ReplicaGroup(groups), lint="strict", says=says)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32", "int8", "uint8", "float8_e5m2"])
def test_reductions_by_dtype(dtype):
    xs = shards(3, (4, 5), dtype)
    if dtype == "uint8":
        xs = [np.abs(x.astype(np.int32)).astype(np.uint8) * np.uint8(5) for x in xs]
    made = ranks(reduce_kernel, 3, trnsim.per_rank(xs), ReplicaGroup([[0, 1, 2]]), nl.add)[1]
    assert made.dtype == xs[0].dtype
    wide = sum(x.astype(np.float64) for x in xs)
    if xs[0].dtype.kind in "iu":
        info = np.iinfo(xs[0].dtype)
        np.testing.assert_array_equal(made, np.clip(wide, info.min, info.max).astype(xs[0].dtype))
    else:
        np.testing.assert_array_equal(made, wide.astype(np.float32).astype(xs[0].dtype))


def test_large_integers_add_exactly():
    xs = [np.full((1, 2), 2**24 + 1, np.int32), np.full((1, 2), 2, np.int32)]
    made = ranks(reduce_kernel, 2, trnsim.per_rank(xs), ReplicaGroup([[0, 1]]), nl.add)
    assert made[0].tolist() == [[2**24 + 3] * 2]


def test_torch_in_torch_out_on_every_rank():
    xs = [torch.full((2, 3), float(r), dtype=torch.bfloat16) for r in range(3)]
    made = ranks(gather_kernel, 3, trnsim.per_rank(xs), ReplicaGroup([[0, 1, 2]]), 3)
    for out in made:
        assert out.dtype == torch.bfloat16
        assert torch.equal(out, torch.cat(xs))


def test_several_hbm_tensors_travel_together():
    def kernel(a, b, group):
        outs = [hbm(a.shape, a.dtype), hbm(b.shape, b.dtype)]
        ncc.all_reduce([a, b], outs, group, nl.add, name="both")
        return outs

    a, b = shards(2, (4, 3)), shards(2, (5,), "int32", seed=1)
    made = ranks(kernel, 2, trnsim.per_rank(a), trnsim.per_rank(b), ReplicaGroup([[0, 1]]))
    np.testing.assert_array_equal(made[0][0], a[0] + a[1])
    np.testing.assert_array_equal(made[1][1], b[0] + b[1])


@pytest.mark.parametrize("dim", [0, 1])
def test_sbuf_tiles_gather_along_either_dimension(dim):
    def kernel(x, group, n):
        shape = (n * x.shape[0], x.shape[1]) if dim == 0 else (x.shape[0], n * x.shape[1])
        whole = nl.ndarray(shape, x.dtype, nl.sbuf)
        out = hbm(shape, x.dtype)
        ncc.all_gather([in_sbuf(x)], [whole], group, dim)
        nisa.dma_copy(dst=out, src=whole)
        return out

    xs = shards(3, (8, 4))
    for made in ranks(kernel, 3, trnsim.per_rank(xs), ReplicaGroup([[0, 1, 2]]), 3, lint="off"):
        np.testing.assert_array_equal(made, np.concatenate(xs, axis=dim))


def test_each_core_gathers_its_own_sbuf_tiles():
    def kernel(x, group, n):
        core = nl.program_id(0)
        out = hbm((2, x.shape[1], n * x.shape[2]), x.dtype)
        whole = nl.ndarray((x.shape[1], n * x.shape[2]), x.dtype, nl.sbuf)
        ncc.all_gather([in_sbuf(x[core])], [whole], group, 1)
        nisa.dma_copy(dst=out[core], src=whole)
        return out

    xs = shards(2, (2, 16, 4))
    for made in ranks(kernel, 2, trnsim.per_rank(xs), ReplicaGroup([[0, 1]]), 2, cores=2):
        np.testing.assert_array_equal(made, np.concatenate(xs, axis=2))


def test_two_cores_fill_a_shared_source_before_one_collective():
    def kernel(x, group):
        core = nl.program_id(0)
        data, out = hbm(x.shape, x.dtype), hbm(x.shape, x.dtype)
        nisa.dma_copy(dst=data[core], src=in_sbuf(x[core]))
        ncc.all_reduce([data], [out], group, nl.add)
        again = in_sbuf(out[1 - core])
        nisa.core_barrier(out, (0, 1))
        nisa.dma_copy(dst=out[core], src=again)
        return out

    xs = shards(2, (2, 8, 4))
    for made in ranks(kernel, 2, trnsim.per_rank(xs), ReplicaGroup([[0, 1]]), cores=2):
        np.testing.assert_array_equal(made, (xs[0] + xs[1])[::-1])


def test_a_source_may_be_its_own_destination():
    def kernel(x, group):
        ncc.all_reduce([x], [x], group, nl.add)

    xs = shards(2, (4, 4))
    given = [x.copy() for x in xs]
    ranks(kernel, 2, trnsim.per_rank(given), ReplicaGroup([[0, 1]]))
    for x in given:
        np.testing.assert_array_equal(x, xs[0] + xs[1])


# permutes


@pytest.mark.parametrize(
    "pairs", [[(0, 1), (1, 0)], [(0, 2), (2, 1), (1, 0)], [(0, 0), (1, 2), (2, 1)], [(1, 3), (3, 1)]]
)
def test_permute_follows_its_pairs_and_leaves_the_others_alone(pairs):
    def kernel(x, pairs):
        out = hbm(x.shape, x.dtype)
        nisa.dma_copy(dst=out, src=in_sbuf(x))
        ncc.collective_permute([x], [out], pairs)
        return out

    xs = shards(4, (4, 4))
    target = {b: a for a, b in pairs}
    for rank, made in enumerate(ranks(kernel, 4, trnsim.per_rank(xs), tuple(pairs))):
        np.testing.assert_array_equal(made, xs[target.get(rank, rank)])


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_ring_brings_every_ranks_data_round(n):
    # each rank adds to its sum what comes by, and notes whose it was
    def kernel(x, group, n):
        total, out, whose = in_sbuf(x), hbm(x.shape, x.dtype), hbm((n, 1), nl.int32)
        here = x
        for step in range(n):
            rank = ncc.collective_permute_implicit_current_processing_rank_id(step, group)
            number = nl.ndarray((1, 1), nl.int32, nl.sbuf)
            nisa.register_store(number, rank)
            nisa.dma_copy(dst=whose[step : step + 1], src=number)
            if step > 0:
                nisa.tensor_tensor(dst=total, data1=total, data2=in_sbuf(here), op=nl.add)
            there = hbm(x.shape, x.dtype)
            ncc.collective_permute_implicit([[here]], [[there]], group)
            here = there
        nisa.dma_copy(dst=out, src=total)
        return out, whose, here

    xs = shards(n, (4, 4))
    order = list(range(n))[::-1]
    for rank, (total, whose, last) in enumerate(
        ranks(kernel, n, trnsim.per_rank(xs), ReplicaGroup([order]), n, lint="off")
    ):
        np.testing.assert_array_equal(total, sum(xs))
        at = order.index(rank)
        assert whose.ravel().tolist() == [order[(at - step) % n] for step in range(n)]
        np.testing.assert_array_equal(last, xs[rank])


def test_ring_channels_and_reduction():
    def kernel(a, b, group):
        outs = [hbm(a.shape, a.dtype), hbm(a.shape, a.dtype)]
        ncc.collective_permute_implicit_reduce(
            [[a], [b]], [[b], [b]], [[outs[0]], [outs[1]]], group, nl.add, channel_ids=[0, 1]
        )
        return outs

    a, b = shards(3, (4, 4)), shards(3, (4, 4), seed=1)
    made = ranks(kernel, 3, trnsim.per_rank(a), trnsim.per_rank(b), ReplicaGroup([[0, 1, 2]]))
    for rank, (first, second) in enumerate(made):
        np.testing.assert_array_equal(first, a[rank - 1] + b[rank - 1])
        np.testing.assert_array_equal(second, 2 * b[rank - 1])


def test_rank_id_addresses_a_ranks_own_rows():
    def kernel(x):
        out = hbm(x.shape[1:], x.dtype)
        nisa.dma_copy(dst=out, src=x.select(0, ncc.rank_id()))
        return out

    x = np.stack(shards(3, (4, 4)))
    for rank, made in enumerate(ranks(kernel, 3, x)):
        np.testing.assert_array_equal(made, x[rank])


# variable lengths


def vector_kernel(kind):
    def kernel(x, meta, group, slots, known, displaced):
        out = hbm((slots,), x.dtype)
        counts = hbm(meta.shape, meta.dtype)
        nisa.dma_copy(dst=out, src=nl.shared_constant(np.zeros(slots, np.float32)))
        nisa.dma_copy(dst=counts, src=meta)
        kind([x], [out], group, counts, recv_counts_known=known, has_rdispls=displaced)
        return out, counts

    return kernel


def metadata(counts, displs, rows=3, recv=None):
    made = np.full((rows, len(counts)), 99, np.uint32)
    made[0], made[1] = counts, displs
    if recv is not None:
        made[3] = recv
    return made


def on_core_0(kernel):
    def split(x, meta, group, slots, known, displaced):
        # both cores see one shared tensor; only core 0 fills it
        out = hbm((slots,), x.dtype)
        counts = hbm(meta.shape, meta.dtype)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=out, src=nl.shared_constant(np.zeros(slots, np.float32)))
            nisa.dma_copy(dst=counts, src=meta)
        kernel([x], [out], group, counts, recv_counts_known=known, has_rdispls=displaced)
        return out, counts

    return split


@pytest.mark.parametrize("known", [False, True])
def test_all_gather_v_broadcasts_one_chunk_of_each(known):
    xs = [np.arange(10, dtype=np.float32) + 100 * r for r in range(4)]
    counts, starts = [3, 0, 5, 1], [2, 0, 4, 9]
    metas = [metadata([counts[r], 77, 77, 77], [starts[r], 77, 77, 77]) for r in range(4)]
    made = ranks(
        on_core_0(ncc.all_gather_v),
        4,
        trnsim.per_rank(xs),
        trnsim.per_rank(metas),
        ReplicaGroup([[0, 1, 2, 3]]),
        20,
        known,
        False,
        cores=2,
        lint="off",
    )
    want = np.zeros(20, np.float32)
    for r in range(4):
        want[5 * r : 5 * r + counts[r]] = xs[r][starts[r] : starts[r] + counts[r]]
    for r, (out, table) in enumerate(made):
        np.testing.assert_array_equal(out, want)
        assert table[2].tolist() == ([99] * 4 if known else counts)
        np.testing.assert_array_equal(table[:2], metas[r][:2])


def test_all_to_all_v_sends_each_rank_its_share():
    n = 3
    xs = [np.arange(30, dtype=np.float32) + 100 * r for r in range(n)]
    counts = np.array([[1, 2, 3], [0, 4, 2], [5, 0, 1]])
    starts = np.array([[0, 1, 3], [0, 10, 20], [25, 0, 7]])
    metas = [metadata(counts[r], starts[r]) for r in range(n)]
    made = ranks(
        vector_kernel(ncc.all_to_all_v),
        n,
        trnsim.per_rank(xs),
        trnsim.per_rank(metas),
        ReplicaGroup([[0, 1, 2]]),
        18,
        False,
        False,
        ranks_per_node=1,
        lint="off",
    )
    for r, (out, table) in enumerate(made):
        want = np.zeros(18, np.float32)
        for s in range(n):
            want[6 * s : 6 * s + counts[s, r]] = xs[s][starts[s, r] : starts[s, r] + counts[s, r]]
        np.testing.assert_array_equal(out, want)
        assert table[2].tolist() == counts[:, r].tolist()


def test_all_to_all_v_places_chunks_where_trn3_is_told():
    n = 8
    xs = [np.arange(8, dtype=np.float32) + 10 * r for r in range(n)]
    recv = np.arange(n)[::-1].copy()
    metas = [metadata([1] * n, range(n), rows=4, recv=recv) for _ in range(n)]
    made = ranks(
        on_core_0(ncc.all_to_all_v),
        n,
        trnsim.per_rank(xs),
        trnsim.per_rank(metas),
        ReplicaGroup([list(range(n))]),
        n,
        False,
        True,
        cores=2,
        target="trn3",
        lint="off",
    )
    for r, (out, table) in enumerate(made):
        assert out.tolist() == [10.0 * s + r for s in range(n)][::-1]
        assert table[2].tolist() == [1] * n


def test_sbuf_metadata_lives_on_one_partition_of_each_core():
    def kernel(x, meta, group):
        out, seen = hbm((4,), x.dtype), hbm((2, 4), meta.dtype)
        counts = nl.ndarray((1, 3, 4), meta.dtype, nl.sbuf)
        nisa.dma_copy(dst=counts, src=meta)
        ncc.all_gather_v([x], [out], group, counts)
        core = nl.program_id(0)
        nisa.dma_copy(dst=seen[core : core + 1], src=counts[:, 2])
        return out, seen

    xs = [np.array([r], np.float32) for r in range(4)]
    meta = metadata([1] * 4, [0] * 4).reshape(1, 3, 4)
    for out, seen in ranks(kernel, 4, trnsim.per_rank(xs), meta, ReplicaGroup([[0, 1, 2, 3]]), cores=2):
        assert out.tolist() == [0, 1, 2, 3]
        assert seen.tolist() == [[1] * 4] * 2


@pytest.mark.parametrize(
    ("change", "says"),
    [({"counts": [7, 0]}, "received elements 0..7"), ({"displs": [28, 0], "counts": [5, 0]}, "sent elements 28..33")],
)
def test_counts_that_leave_their_buffers_are_caught(change, says):
    xs = shards(2, (30,))
    table = {"counts": [1, 1], "displs": [0, 0]} | change
    found = refused(
        OutOfBounds,
        "metadata-bounds",
        vector_kernel(ncc.all_to_all_v),
        2,
        trnsim.per_rank(xs),
        metadata(**table),
        ReplicaGroup([[0, 1]]),
        12,
        False,
        False,
        ranks_per_node=1,
        lint="off",
        says=says,
    )
    assert found.line.split(":")[0].endswith("test_collectives.py")


# what is refused


def call(collective, *args, **kwargs):
    def kernel(x, group):
        out, tile = hbm(x.shape, x.dtype), in_sbuf(x)
        made = [a(x, out, tile, group) if callable(a) and getattr(a, "__name__", "") == "<lambda>" else a for a in args]
        collective(*made, **kwargs)
        return out

    return kernel


G = lambda x, out, tile, group: group  # noqa: E731
X = lambda x, out, tile, group: [x]  # noqa: E731
OUT = lambda x, out, tile, group: [out]  # noqa: E731
TILE = lambda x, out, tile, group: [tile]  # noqa: E731
CUBE = lambda x, out, tile, group: [tile.reshape((4, 2, 2))]  # noqa: E731
WORDS = lambda x, out, tile, group: [out.view(nl.int32)]  # noqa: E731
PACKED = lambda x, out, tile, group: [x.view(nl.float8_e5m2_x4)]  # noqa: E731
PACKED_OUT = lambda x, out, tile, group: [out.view(nl.float8_e5m2_x4)]  # noqa: E731
ONE = lambda x, out, tile, group: [[x]]  # noqa: E731
ONE_OUT = lambda x, out, tile, group: [[out]]  # noqa: E731

WRONG = [
    (WrongArgument, "collective-op", call(ncc.all_reduce, X, OUT, G, nl.multiply)),
    (WrongArgument, "collective-list", call(ncc.all_reduce, [], OUT, G, nl.add)),
    (WrongArgument, "collective-list", call(ncc.all_reduce, lambda x, out, tile, group: x, OUT, G, nl.add)),
    (WrongArgument, "collective-list", call(ncc.all_reduce, lambda x, out, tile, group: [x, x], OUT, G, nl.add)),
    (WrongBuffer, "collective-memory", call(ncc.all_reduce, TILE, OUT, G, nl.add)),
    (
        WrongArgument,
        "collective-coalesced",
        call(
            ncc.all_reduce,
            lambda x, out, tile, group: [tile, tile],
            lambda x, out, tile, group: [tile, tile],
            G,
            nl.add,
        ),
    ),
    (WrongShape, "collective-2d", call(ncc.all_reduce, CUBE, CUBE, G, nl.add)),
    (WrongDtype, "collective-dtype", call(ncc.all_reduce, X, WORDS, G, nl.add)),
    (WrongDtype, "collective-dtype", call(ncc.all_reduce, PACKED, PACKED_OUT, G, nl.add)),
    (WrongShape, "collective-shape", call(ncc.all_gather, X, OUT, G, 0)),
    (WrongArgument, "collective-dim", call(ncc.all_gather, X, OUT, G, 1)),
    (WrongArgument, "collective-dim", call(ncc.all_gather, TILE, TILE, G, 2)),
    (WrongArgument, "collective-dim", call(ncc.reduce_scatter, TILE, TILE, G, 1, nl.add)),
    (WrongShape, "collective-shape", call(ncc.reduce_scatter, X, OUT, G, 0, nl.add)),
    (WrongBuffer, "buffer", call(ncc.all_to_all, TILE, TILE, G, 0)),
    (WrongBuffer, "buffer", call(ncc.collective_permute, TILE, TILE, ((0, 1), (1, 0)))),
    (WrongArgument, "permute-pairs", call(ncc.collective_permute, X, OUT, ((0, 1), (0, 0)))),
    (WrongArgument, "permute-pairs", call(ncc.collective_permute, X, OUT, (0, 1))),
    (WrongArgument, "permute-circular", call(ncc.collective_permute, X, OUT, ((0, 1),))),
    (WrongArgument, "world-size", call(ncc.collective_permute, X, OUT, ((0, 5), (5, 0)))),
    (
        WrongArgument,
        "collective-coalesced",
        call(
            ncc.collective_permute,
            lambda x, out, tile, group: [x, x],
            lambda x, out, tile, group: [out, out],
            ((0, 1), (1, 0)),
        ),
    ),
    (WrongArgument, "channels", call(ncc.collective_permute_implicit, X, ONE_OUT, G)),
    (WrongArgument, "channels", call(ncc.collective_permute_implicit, ONE, ONE_OUT, G, channel_ids=[1])),
    (WrongArgument, "channels", call(ncc.collective_permute_implicit, ONE, ONE_OUT, G, channel_ids=[0, 1])),
    (WrongArgument, "channels", call(ncc.collective_permute_implicit, ONE, ONE_OUT, G, channel_ids=list(range(5)))),
    (WrongArgument, "channels", call(ncc.collective_permute_implicit_current_processing_rank_id, 0, G, channel_id=4)),
    (WrongEngine, "generation", call(ncc.all_reduce, X, OUT, G, nl.add, priority=1)),
    (HardwareLimit, "lnc", call(ncc.all_gather_v, X, OUT, G, X)),
    (WrongArgument, "rdispls", call(ncc.all_gather_v, X, OUT, G, X, has_rdispls=True)),
    (HardwareLimit, "collective-ranks", call(ncc.all_to_all_v, X, OUT, G, X, has_rdispls=True)),
]


def test_all_to_all_v_within_an_instance_came_with_0_7():
    xs = [np.arange(4, dtype=np.float32) + 10 * r for r in range(2)]
    args = trnsim.per_rank(xs), metadata([2, 2], [0, 2]), ReplicaGroup([[0, 1]]), 4, False, False
    made = ranks(vector_kernel(ncc.all_to_all_v), 2, *args, lint="off")
    np.testing.assert_array_equal(made[1][0], [2, 3, 12, 13])
    refused(HardwareLimit, "collective-ranks", vector_kernel(ncc.all_to_all_v), 2, *args, lint="off", nki="0.6")


def split_kernel(mistake):
    def kernel(x, meta, group):
        out, counts = hbm((4,), x.dtype), hbm(meta.shape, meta.dtype)
        nisa.dma_copy(dst=counts, src=meta)
        prepare, trigger = ncc.all_to_all_v_prepare, ncc.all_to_all_v_trigger
        if mistake == "unwritten":
            counts = hbm(meta.shape, meta.dtype)
        ready = prepare([x], [out], group, counts)
        if mistake == "twice":
            prepare([x], [out], group, counts)
        if mistake == "changed":
            nisa.dma_copy(dst=counts, src=nl.shared_constant(np.zeros((3, 2), np.uint32)))
        if mistake == "other kind":
            trigger = ncc.all_gather_v_trigger
        if mistake != "never":
            trigger(ready)
        if mistake == "again":
            trigger(ready)
        return out

    return kernel


@together("mistake", ["twice", "other kind", "never", "again"])
def test_each_prepare_has_one_trigger(mistake):
    xs = trnsim.per_rank(shards(2, (4,)))
    found = refused(
        WrongArgument, "prepare-trigger", split_kernel(mistake), 2, xs, metadata([2, 2], [0, 2]), ReplicaGroup([[0, 1]])
    )
    assert found.hint


def test_prepare_reads_the_metadata_and_no_switch_splits():
    xs = [np.arange(4, dtype=np.float32) + 10 * r for r in range(2)]
    args = trnsim.per_rank(xs), metadata([2, 2], [0, 2]), ReplicaGroup([[0, 1]])
    np.testing.assert_array_equal(ranks(split_kernel("changed"), 2, *args, lint="off")[0], [0, 1, 10, 11])
    refused(ReadUninitialized, "uninitialized", split_kernel("unwritten"), 2, *args, lint="off")

    def kernel(x, meta, group):
        out = hbm((16,), x.dtype)
        ncc.all_to_all_v_prepare([x], [out], group, meta)
        return out

    group = ReplicaGroup([list(range(8))])
    found = refused(
        HardwareLimit,
        "prepare-trigger",
        trnsim.jit(kernel)[2],
        8,
        trnsim.per_rank(shards(8, (16,))),
        metadata([1] * 8, [0] * 8),
        group,
        target="trn3",
        lint="off",
    )
    assert found.hint == "call all_to_all_v"


@together(("error", "rule", "kernel"), WRONG)
def test_wrong_calls_are_refused(error, rule, kernel):
    found = refused(error, rule, kernel, 2, trnsim.per_rank(shards(2, (4, 4))), ReplicaGroup([[0, 1]]), lint="off")
    assert found.kernel == "kernel"
    assert found.line.split(":")[0].endswith("test_collectives.py")
    assert found.instruction in dir(ncc)


def test_priorities_are_levels_of_trn3():
    xs = trnsim.per_rank(shards(2, (4, 4)))
    good = call(ncc.all_reduce, X, OUT, G, nl.add, priority=3)
    ranks(good, 2, xs, ReplicaGroup([[0, 1]]), target="trn3", lint="off")
    bad = call(ncc.all_reduce, X, OUT, G, nl.add, priority=4)
    refused(WrongArgument, "priority", bad, 2, xs, ReplicaGroup([[0, 1]]), target="trn3", lint="off")


@together(
    ("rule", "groups"),
    [
        ("replica-group", None),
        ("replica-group", []),
        ("replica-group", [[]]),
        ("replica-group", [0, 1]),
        ("replica-group", [[-1]]),
        ("replica-group-overlap", [[0, 1], [1, 2]]),
    ],
)
def test_replica_groups_are_lists_of_different_ranks(rule, groups):
    with pytest.raises(WrongArgument) as caught:
        ReplicaGroup(groups)
    assert caught.value.rule == rule


def test_replica_groups_compare_by_value_and_plain_lists_will_do():
    assert ReplicaGroup([[0, 1]]) == ReplicaGroup(((0, 1),))
    assert ReplicaGroup([[0, 1]]) != ReplicaGroup([[1, 0]])
    assert repr(ReplicaGroup(replica_groups=[[0, 1]])) == "ReplicaGroup([[0, 1]])"
    made = ranks(reduce_kernel, 2, trnsim.per_rank(shards(2, (4, 4))), ((0, 1),), nl.add)
    np.testing.assert_array_equal(made[0], made[1])


def test_a_rank_must_be_in_the_group_it_calls_and_the_group_in_the_world():
    xs = trnsim.per_rank(shards(3, (4, 4)))
    refused(WrongArgument, "replica-group-member", reduce_kernel, 3, xs, ReplicaGroup([[0, 1]]), nl.add, says="rank 2")
    refused(
        WrongArgument,
        "world-size",
        reduce_kernel,
        3,
        xs,
        ReplicaGroup([[0, 1, 2, 3]]),
        nl.add,
        says="simulate_ranks(kernel, 4)",
    )
    with pytest.raises(WrongArgument, match=r"simulate_ranks\(kernel, 2\)"):
        trnsim.simulate(reduce_kernel)(np.ones((2, 2), np.float32), ReplicaGroup([[0, 1]]), nl.add)
    one = trnsim.simulate(reduce_kernel)(np.ones((2, 2), np.float32), ReplicaGroup([[0]]), nl.add)
    assert one.tolist() == [[1, 1], [1, 1]]


# ranks that do not agree


def test_different_collectives_are_a_deadlock_that_names_both():
    def kernel(x, group, rank):
        out = hbm(x.shape, x.dtype)
        if rank == 0:
            ncc.all_reduce([x], [out], group, nl.add)
        else:
            ncc.all_to_all([x], [out], group, 0)
        return out

    found = refused(
        Deadlock,
        "collective-mismatch",
        kernel,
        2,
        trnsim.per_rank(shards(2, (4, 4))),
        ReplicaGroup([[0, 1]]),
        trnsim.per_rank([0, 1]),
        says=("rank 0 calls all_reduce", "rank 1 calls all_to_all"),
    )
    assert [g[0] for g in found.got] == [0, 1]


@pytest.mark.parametrize("which", ["shape", "op", "group"])
def test_different_arguments_are_a_deadlock(which):
    xs = shards(2, (4, 4))
    ops, groups = [nl.add, nl.add], [ReplicaGroup([[0, 1]])] * 2
    if which == "shape":
        xs[1] = xs[1][:2].copy()
    elif which == "op":
        ops[1] = nl.maximum
    else:
        groups[1] = ReplicaGroup([[1], [0]])
    rule, says = (
        ("deadlock", "rank 0 waits for rank 1 in all_reduce")
        if which == "group"
        else ("collective-mismatch", "rank 1 calls all_reduce")
    )
    refused(
        Deadlock,
        rule,
        reduce_kernel,
        2,
        trnsim.per_rank(xs),
        trnsim.per_rank(groups),
        trnsim.per_rank(ops),
        says=says,
        lint="off",
    )


def test_a_rank_that_leaves_early_is_missed():
    def kernel(x, group, times):
        out = hbm(x.shape, x.dtype)
        for _ in range(times):
            ncc.all_reduce([x], [out], group, nl.add)
        return out

    found = refused(
        Deadlock,
        "deadlock",
        kernel,
        3,
        trnsim.per_rank(shards(3, (4, 4))),
        ReplicaGroup([[0, 1, 2]]),
        trnsim.per_rank([2, 1, 2]),
        says=("rank 0 waits for rank 1 in all_reduce", "rank 1 has finished", "rank 2 waits for rank 1 in all_reduce"),
    )
    assert found.line.endswith(f":{kernel.__code__.co_firstlineno + 3}")


def test_only_one_core_of_a_rank_cannot_do_a_shared_collective():
    def kernel(x, group):
        out = hbm(x.shape, x.dtype)
        if nl.program_id(0) == 0:
            ncc.all_reduce([x], [out], group, nl.add)
        return out

    refused(
        Deadlock,
        "deadlock",
        kernel,
        2,
        trnsim.per_rank(shards(2, (4, 4))),
        ReplicaGroup([[0, 1]]),
        cores=2,
        says="rank 0 core 0 waits for rank 0 core 1, rank 1 core 1",
    )


def test_an_unwritten_source_is_its_own_ranks_mistake():
    def kernel(x, group, rank):
        data = hbm(x.shape, x.dtype)
        out = hbm(x.shape, x.dtype)
        if rank == 1:
            nisa.dma_copy(dst=data, src=in_sbuf(x))
        ncc.all_reduce([data], [out], group, nl.add)
        return out

    refused(
        ReadUninitialized,
        "uninitialized",
        kernel,
        2,
        trnsim.per_rank(shards(2, (4, 4))),
        ReplicaGroup([[0, 1]]),
        trnsim.per_rank([0, 1]),
        says="data",
    )


# arguments of ranks


def test_arguments_are_dealt_out_or_copied():
    def kernel(x, w, k):
        out = hbm(x.shape, x.dtype)
        tile = in_sbuf(x)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=in_sbuf(w), op=nl.add)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=k)
        nisa.dma_copy(dst=out, src=tile)
        return out

    xs, w = shards(3, (4, 4)), np.full((4, 4), 2, np.float32)
    made = trnsim.simulate_ranks(kernel, 3)(trnsim.per_rank(xs), w, k=trnsim.per_rank([1.0, 2.0, 3.0]))
    for r in range(3):
        np.testing.assert_array_equal(made[r], (xs[r] + 2) * (r + 1))
    same = ranks(kernel, 2, trnsim.per_rank([xs[0], xs[0]]), w, 1.0)
    np.testing.assert_array_equal(same[0], same[1])


def test_an_array_of_all_ranks_changes_only_if_all_agree():
    def kernel(x, rank):
        tile = in_sbuf(x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0 * rank)
        nisa.dma_copy(dst=x, src=tile)

    x = np.zeros((2, 2), np.float32)
    ranks(kernel, 2, x, 5)
    assert x.tolist() == [[5, 5], [5, 5]]
    refused(WrongArgument, "per-rank-write", kernel, 2, x, trnsim.per_rank([1, 2]), says="per_rank")
    assert x.tolist() == [[5, 5], [5, 5]]
    t = torch.zeros(2, 2)
    ranks(kernel, 2, t, 3)
    assert t.tolist() == [[3, 3], [3, 3]]


def test_a_failing_rank_restores_all():
    def kernel(x, group, rank):
        ncc.all_reduce([x], [x], group, nl.add)
        if rank == 1:
            in_sbuf(hbm((2, 2), nl.float32))
        ncc.all_reduce([x], [x], group, nl.add)

    xs = shards(2, (4, 4))
    given = [x.copy() for x in xs]
    refused(
        ReadUninitialized,
        "uninitialized",
        kernel,
        2,
        trnsim.per_rank(given),
        ReplicaGroup([[0, 1]]),
        trnsim.per_rank([0, 1]),
    )
    np.testing.assert_array_equal(given, xs)


def test_wrong_numbers_of_ranks_are_refused():
    for n in (0, -1):
        with pytest.raises(WrongArgument, match="ranks"):
            trnsim.simulate_ranks(reduce_kernel, n)
    with pytest.raises(WrongArgument, match="3 on a node"):
        trnsim.simulate_ranks(reduce_kernel, 4, ranks_per_node=3)
    refused(
        WrongArgument,
        "per-rank",
        reduce_kernel,
        3,
        trnsim.per_rank([1, 2]),
        ReplicaGroup([[0, 1, 2]]),
        nl.add,
        says=("2 values", "3 ranks"),
    )


# the stream, and runs without values


def test_the_stream_records_kind_bytes_ranks_and_partners():
    trace = []
    xs = shards(2, (4, 4))
    ranks(reduce_kernel, 2, trnsim.per_rank(xs), ReplicaGroup([[0, 1]]), nl.add, trace=trace)
    found = {r.rank: r for r in trace if r.name == "all_reduce"}
    assert sorted(found) == [0, 1]
    for record in found.values():
        assert record.engine == "cc"
        assert (record.cost["kind"], record.cost["bytes"], record.cost["ranks"], record.cost["op"]) == (
            "all_reduce",
            64,
            2,
            "add",
        )
        assert record.reads[0].buffer == "private_hbm"
        assert record.writes[0].shape == (4, 4)
    assert found[0].cost["sync"] == found[1].cost["sync"]


@pytest.mark.parametrize("cores", [1, 2])
def test_collectives_without_values_keep_shapes_and_checks(cores):
    x = torch.empty(8, 6, device="meta")
    made = ranks(gather_kernel, 2, x, ReplicaGroup([[0, 1]]), 2, numerics=False, cores=cores)
    assert [t.shape for t in made] == [(16, 6)] * 2
    assert made[0].is_meta
    refused(WrongShape, "collective-shape", gather_kernel, 2, x, ReplicaGroup([[0, 1]]), 3, numerics=False, cores=cores)
    (out,) = ranks(exchange_kernel, 1, x, ReplicaGroup([[0]]), numerics=False, cores=cores)
    assert out.shape == (8, 6)
