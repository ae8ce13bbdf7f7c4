"""What waits for what."""

import itertools

import numpy as np
import pytest

import trnsim.isa as nisa
import trnsim.language as nl
from tests.trnsim.timing.kernels import report_of, shaped, spans, starts, tile, zeroed
from trnsim import TARGETS, jit, profile
from trnsim.errors import CapacityError
from trnsim.timing.schedule import REASONS

TIME = TARGETS["trn2"].timing


def test_a_reader_waits_for_the_writer_and_a_semaphore():
    def kernel(x):
        t = zeroed(128, 512)
        u = tile()
        nisa.activation(dst=u, op=nl.copy, data=t)
        nisa.tensor_reduce(dst=tile(columns=1), op=nl.add, data=u, axis=1)
        return x

    report = report_of(kernel, shaped(1, 1))
    ((_, act),) = spans(report, "activation")
    assert starts(report, "tensor_reduce") == [pytest.approx(act + TIME.semaphore)]


def test_independent_engines_run_at_the_same_time_and_one_engine_in_turn():
    def kernel(x):
        a, b = zeroed(128, 4), zeroed(128, 4)
        big = zeroed(128, 4096)
        for _ in range(3):
            nisa.activation(dst=tile(columns=4096), op=nl.copy, data=big)
            nisa.tensor_reduce(dst=tile(columns=1), op=nl.add, data=big, axis=1)
        nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.add)
        return x

    report = report_of(kernel, shaped(1, 1))
    scalar, vector = spans(report, "activation"), spans(report, "tensor_reduce")
    assert scalar[0][0] < vector[0][1]
    assert vector[0][0] < scalar[0][1]
    for bars in (scalar, vector):
        assert all(later[0] > earlier[0] for earlier, later in itertools.pairwise(bars))


def _pipeline(reuse):
    def kernel(x):
        y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        kept = tile(columns=1024)
        for i in range(16):
            t = kept if reuse else tile(columns=1024)
            nisa.dma_copy(dst=t, src=x[i * 128 : (i + 1) * 128, :])
            u = tile(columns=1024)
            nisa.activation(dst=u, op=nl.exp, data=t)
            nisa.dma_copy(dst=y[i * 128 : (i + 1) * 128, :], src=u)
        return y

    return kernel


def test_a_tile_made_anew_overlaps_and_one_used_by_name_serialises():
    fresh = report_of(_pipeline(False), shaped(2048, 1024))
    named = report_of(_pipeline(True), shaped(2048, 1024))
    assert named.active_s > 1.8 * fresh.active_s
    assert named.spent_s["memory" if "memory" in named.spent_s else "latency"] > 0


def test_fresh_tiles_stop_overlapping_when_sbuf_is_full():
    def kernel(x, columns):
        y = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
        for _ in range(24):
            t = tile(columns=columns)
            nisa.dma_copy(dst=t, src=x[:, 0:columns])
            nisa.tensor_reduce(dst=tile(columns=1), op=nl.add, data=t, axis=1)
        nisa.dma_copy(dst=y, src=zeroed(128, 1))
        return y

    roomy, tight = (report_of(kernel, shaped(128, 40960), columns=c) for c in (2048, 40960))
    # 160 KiB a tile leaves no room for a second one: each load waits for the reduction before it
    assert tight.engines["dma"].utilisation + tight.engines["vector"].utilisation < 1.1
    assert roomy.engines["dma"].utilisation + roomy.engines["vector"].utilisation > 1.3


def test_psum_banks_are_renamed_until_eight_are_taken():
    def kernel(x, banks):
        a, b = zeroed(128, 128, dtype=nl.bfloat16), zeroed(128, 512, dtype=nl.bfloat16)
        kept = [tile(buffer=nl.psum) for _ in range(banks)] if banks else None
        for i in range(32):
            c = kept[i % banks] if banks else tile(buffer=nl.psum)
            for k in range(4):
                nisa.nc_matmul(dst=c, stationary=a, moving=b, accumulate=k > 0)
            nisa.tensor_copy(dst=tile(), src=c)
        return x

    times = {banks: report_of(kernel, shaped(1, 1), banks=banks).active_s for banks in (0, 1, 2)}
    assert times[1] > 1.3 * times[2] > 1.2 * times[0]


def test_accumulating_matmuls_follow_each_other_without_waiting():
    def kernel(x):
        a, b = zeroed(128, 128, dtype=nl.bfloat16), zeroed(128, 512, dtype=nl.bfloat16)
        c = tile(buffer=nl.psum)
        for k in range(200):
            nisa.nc_matmul(dst=c, stationary=a, moving=b, accumulate=k > 0)
        return x

    at = starts(report_of(kernel, shaped(1, 1)), "nc_matmul")
    # half clock until a window was busy, then full
    assert at[2] - at[1] == pytest.approx(2 * 512 / 2.4 + 3)
    assert at[-1] - at[-2] == pytest.approx(512 / 2.4 + 3)


def test_an_idle_tensor_engine_slows_down_again():
    def kernel(x):
        a, b = zeroed(128, 128, dtype=nl.bfloat16), zeroed(128, 512, dtype=nl.bfloat16)
        c = tile(buffer=nl.psum)
        for k in range(60):
            nisa.nc_matmul(dst=c, stationary=a, moving=b, accumulate=k > 0)
        slow = zeroed(128, 8192)
        nisa.tensor_reduce(dst=b[:, 0:1], op=nl.add, data=slow, axis=1)
        for _ in range(3):
            nisa.nc_matmul(dst=c, stationary=a, moving=b, accumulate=True)
        return x

    report = report_of(kernel, shaped(1, 1))
    at = starts(report, "nc_matmul")
    assert at[59] - at[58] == pytest.approx(512 / 2.4 + 3)
    assert at[-1] - at[-2] == pytest.approx(2 * 512 / 2.4 + 3)
    assert report.throttled_s > 2e-6
    assert report_of(kernel, shaped(1, 1), target="trn1").throttled_s == 0


def test_tables_are_loaded_when_the_function_changes():
    def kernel(x):
        t = zeroed(128, 64)
        for op in (nl.exp, nl.exp, nl.copy, nl.rsqrt, nl.exp):
            nisa.activation(dst=tile(columns=64), op=op, data=t)
        return x

    report = report_of(kernel, shaped(1, 1))
    assert report.table_loads == 3
    assert report.engines["scalar"].busy_s > 3 * 1.283e-6


def test_loads_are_issued_in_the_order_their_data_is_needed():
    def kernel(x):
        y = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = []
        for i in range(8):
            t = tile()
            nisa.dma_copy(dst=t, src=x[i * 128 : (i + 1) * 128, :])
            tiles.append(t)
        out = tile(columns=8)
        for i in reversed(range(8)):
            nisa.tensor_reduce(dst=out[:, i : i + 1], op=nl.add, data=tiles[i], axis=1)
        nisa.dma_copy(dst=y, src=out)
        return y

    loads = starts(report_of(kernel, shaped(1024, 512)), "dma_copy")[:8]
    assert loads == sorted(loads, reverse=True)


def test_depends_on_and_no_reorder_are_obeyed():
    def free(x):
        late, early = tile(), zeroed(128, 8)
        nisa.dma_copy(dst=late, src=x)
        first = nisa.activation(dst=tile(), op=nl.copy, data=late)
        second = nisa.tensor_reduce(dst=tile(columns=1), op=nl.add, data=early, axis=1)
        return x, first, second

    def tied(x):
        x, first, second = free(x)
        second.depends_on(first)
        return x

    def ordered(x):
        with nl.no_reorder():
            return free(x)[0]

    def loosely(x):
        return free(x)[0]

    loose = report_of(loosely, shaped(128, 512))
    assert starts(loose, "tensor_reduce")[0] < starts(loose, "activation")[0]
    bound = report_of(tied, shaped(128, 512))
    assert starts(bound, "tensor_reduce")[0] >= spans(bound, "activation")[0][1]
    kept = report_of(ordered, shaped(128, 512))
    assert starts(kept, "tensor_reduce")[0] >= starts(kept, "activation")[0]


def test_who_writes_descriptors():
    def kernel(x, mode):
        y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        scratch = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.private_hbm)
        t, u = tile(), tile()
        nisa.dma_copy(dst=t, src=x, dge_mode=mode)
        nisa.dma_copy(dst=scratch, src=t)
        nisa.dma_copy(dst=u, src=scratch)
        nisa.dma_copy(dst=y, src=u)
        return y

    def modes(target, mode):
        s = report_of(kernel, shaped(128, 512), target=target, mode=mode).schedules[0]
        from trnsim.timing.schedule import MODES, QUEUES

        return [(MODES[m], QUEUES[q]) for m, q in zip(s.mode, s.queue, strict=True)]

    unknown, hardware = nisa.dge_mode.unknown, nisa.dge_mode.hwdge
    assert modes("trn2", unknown) == [
        ("swdge", "gpsimd"),
        ("hwdge", "scalar"),
        ("hwdge", "dma.sync"),
        ("swdge", "gpsimd"),
    ]
    assert modes("trn2", hardware)[0] == ("hwdge", "dma.sync")
    assert {m for m, _ in modes("trn1", unknown)} == {"static"}


def test_a_kernel_bound_by_issue_takes_six_tenths_of_a_microsecond_per_transfer():
    def kernel(x):
        y = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in range(100):
            nisa.dma_copy(dst=tile(columns=1), src=x[i * 128 : (i + 1) * 128, :])
        nisa.dma_copy(dst=y, src=zeroed(128, 1))
        return y

    report = report_of(kernel, shaped(12800, 1))
    assert report.active_s / 100 == pytest.approx(0.604e-6, rel=0.05)
    assert report.binds == "DMA issue"


def test_scratch_in_hbm_orders_its_store_and_load():
    def kernel(x):
        y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        scratch = nl.ndarray((128, 1024), dtype=x.dtype, buffer=nl.private_hbm)
        t, near, far = tile(), tile(), tile()
        nisa.dma_copy(dst=t, src=x)
        nisa.dma_copy(dst=scratch[:, 0:512], src=t)
        nisa.dma_copy(dst=scratch[:, 512:1024], src=zeroed(128, 512))
        nisa.dma_copy(dst=near, src=scratch[:, 0:512])
        nisa.dma_copy(dst=far, src=scratch[:, 512:1024])
        nisa.tensor_tensor(dst=t, data1=near, data2=far, op=nl.add)
        nisa.dma_copy(dst=y, src=t)
        return y

    copies = spans(report_of(kernel, shaped(128, 512)), "dma_copy")
    assert copies[3][0] >= copies[1][1]
    assert copies[4][0] < copies[1][1]


def test_tensors_that_do_not_fit_are_loaded_again_and_said_so():
    def kernel(x, count):
        y = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
        kept = []
        for i in range(count):
            t = tile(columns=8192)
            nisa.dma_copy(dst=t, src=x[:, i * 8192 : (i + 1) * 8192])
            kept.append(t)
        total = zeroed(128, 1)
        for _ in range(2):
            for t in kept:
                nisa.tensor_reduce(dst=total, op=nl.add, data=t, axis=1)
        nisa.dma_copy(dst=y, src=total)
        return y

    fits, spills = (report_of(kernel, shaped(128, 9 * 8192), count=c) for c in (6, 9))
    assert fits.hbm_read_bytes == 6 * 128 * 8192 * 4
    assert not fits.warnings
    assert spills.hbm_read_bytes > 9 * 128 * 8192 * 4
    assert "do not fit SBUF" in spills.warnings[0]


def test_dirty_tensors_are_saved_before_they_give_way():
    def kernel(x):
        y = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
        kept = [zeroed(128, 8192) for _ in range(9)]
        total = zeroed(128, 1)
        for t in kept:
            nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
        for t in kept:
            nisa.tensor_reduce(dst=total, op=nl.add, data=t, axis=1)
        nisa.dma_copy(dst=y, src=total)
        return y

    report = report_of(kernel, shaped(1, 1))
    assert report.instructions["spill"] >= 2
    assert report.instructions["reload"] >= 2
    assert report.hbm_written_bytes > 2 * 128 * 8192 * 4


def test_constants_are_made_where_they_are_needed_and_not_saved():
    def kernel(x):
        y = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
        kept = [zeroed(128, 8192) for _ in range(9)]
        total = zeroed(128, 1)
        for t in kept:
            nisa.tensor_reduce(dst=total, op=nl.add, data=t, axis=1)
        nisa.dma_copy(dst=y, src=total)
        return y

    report = report_of(kernel, shaped(1, 1))
    assert "spill" not in report.instructions
    assert report.hbm_written_bytes == 128 * 4


def test_parts_are_spilled_and_not_whole_tensors():
    parts, tensors = 16, 8

    def kernel(x):
        y = nl.ndarray((128, tensors), dtype=x.dtype, buffer=nl.shared_hbm)
        kept = [zeroed(128, parts * 512) for _ in range(tensors)]
        total = zeroed(128, tensors)
        for p in range(parts):
            for t in kept:
                part = t[:, p * 512 : (p + 1) * 512]
                nisa.tensor_scalar(dst=part, data=part, op0=nl.add, operand0=1.0)
        for i, t in enumerate(kept):
            nisa.tensor_reduce(dst=total[:, i : i + 1], op=nl.add, data=t, axis=1)
        nisa.dma_copy(dst=y, src=total)
        return y

    whole = tensors * parts * 512 * 4 * 128
    report = report_of(kernel, shaped(1, 1))
    assert report.instructions["spill"] > 0
    # every part leaves at most as a constant and as a result; whole tensors would move once for each part
    assert report.hbm_written_bytes <= 2 * whole + 128 * tensors * 4


def test_an_instruction_whose_tensors_exceed_sbuf_is_refused():
    def kernel(x, columns):
        a, b = zeroed(128, columns), zeroed(128, columns)
        nisa.tensor_tensor(dst=a[:, 0:4], data1=a[:, 0:4], data2=b[:, 0:4], op=nl.add)
        nisa.dma_copy(dst=x[:, 0:4], src=a[:, 0:4])

    fits = 212728 // 2 // 4
    report_of(kernel, shaped(128, 4), fits)
    with pytest.raises(CapacityError) as caught:
        report_of(kernel, shaped(128, 4), fits + 1)
    assert (caught.value.required, caught.value.available) == (8 * (fits + 1), 212728)


def test_two_cores_meet():
    @jit
    def kernel(x):
        y = nl.ndarray((256, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        t, r = tile(), tile()
        nisa.dma_copy(dst=t, src=x[core * 128 : (core + 1) * 128, :])
        for _ in range(1 + 9 * core):
            nisa.activation(dst=t, op=nl.exp, data=t)
        nisa.sendrecv(src=t, dst=r, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
        nisa.tensor_tensor(dst=t, data1=t, data2=r, op=nl.add)
        nisa.dma_copy(dst=y[core * 128 : (core + 1) * 128, :], src=t)
        nisa.core_barrier(data=y, cores=(0, 1))
        return y

    report = report_of(kernel[2], shaped(256, 512))
    assert report.cores == 2
    assert starts(report, "sendrecv", 0) == starts(report, "sendrecv", 1)
    slower = spans(report, "activation", 1)[-1][1]
    assert starts(report, "sendrecv", 0)[0] >= slower
    assert starts(report, "tensor_tensor", 0)[0] >= spans(report, "sendrecv", 0)[0][1]
    assert starts(report, "core_barrier", 0) == starts(report, "core_barrier", 1)
    assert report.schedules[0].held[2] == (report.schedules[1], 11)
    # the path leads back through the core that came last
    assert {step.core for step in report.critical_path if step.instruction == "activation"} == {1}


def test_ranks_meet_at_collectives():
    import trnsim.collectives as nc

    @jit
    def kernel(x):
        y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        mine = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.private_hbm)
        t = tile()
        nisa.dma_copy(dst=t, src=x)
        nisa.dma_copy(dst=mine, src=t)
        nc.all_reduce(srcs=[mine], dsts=[y], replica_group=nc.ReplicaGroup([[0, 1]]), op=nl.add)
        return y

    _, report = profile(kernel, target="trn2", ranks=2, lint="off")(np.ones((128, 512), np.float32))
    assert report.cores == 2
    assert starts(report, "all_reduce", 0) == starts(report, "all_reduce", 1)
    assert report.engines["cc"].instructions == 2


def test_predictions_are_deterministic():
    one, two = (report_of(_pipeline(False), shaped(2048, 1024)).to_dict() for _ in range(2))
    assert one == two


def test_reasons_point_at_earlier_instructions():
    s = report_of(_pipeline(False), shaped(2048, 1024)).schedules[0]
    for i, p in enumerate(s.cause):
        assert p < 0 or s.start[p] <= s.start[i]
        assert REASONS[s.reason[i]] in ("engine", "data", "memory", "start")
