"""Descriptors, packets, engines."""

import pytest

from tests.trnsim.timing.kernels import report_of, shaped
from trnsim import TARGETS, isa as nisa, language as nl
from trnsim.timing.costs import Call, Layout
from trnsim.timing.dma import packet_time, run_bytes, transfer_of
from trnsim.timing.engines import DmaEngines

TRN1, TRN2 = TARGETS["trn1"], TARGETS["trn2"]


def hbm(shape, strides, dtype="float32"):
    return Layout("private_hbm", dtype, shape, strides)


def sbuf(shape, dtype="float32"):
    return Layout("sbuf", dtype, shape, (shape[1], 1))


def load(shape, pitch, first=0, target=TRN2, dtype="float32", **info):
    call = Call("dma_copy", "dma", (sbuf(shape, dtype),), (hbm(shape, (pitch, 1), dtype),), info)
    return transfer_of(call, first, target)


def alone(transfer, target=TRN2):
    return DmaEngines(target.timing).move(transfer, 0.0)


def test_runs_end_where_memory_is_not_contiguous():
    assert run_bytes(hbm((128, 512), (512, 1))) == 128 * 512 * 4
    assert run_bytes(hbm((128, 512), (8192, 1))) == 512 * 4
    assert run_bytes(hbm((512, 128), (1, 512))) == 4
    assert run_bytes(sbuf((128, 512))) == 512 * 4


def test_engine_e_serves_partitions_8e_to_8e_plus_7():
    assert [e for e, _, _ in load((128, 512), 8192).work] == list(range(16))
    assert [e for e, _, _ in load((64, 512), 8192).work] == list(range(8))
    assert [e for e, _, _ in load((4, 512), 8192, first=20).work] == [2]
    assert [e for e, _, _ in load((8, 512), 8192, first=20).work] == [2, 3]


@pytest.mark.parametrize(("nbytes", "measured"), [(4, 9), (256, 14.0), (512, 24.6), (2048, 83), (4096, 158)])
def test_packets_on_trn2_take_what_profiles_show(nbytes, measured):
    assert packet_time(nbytes, TRN2) == pytest.approx(measured, rel=0.02)


def test_short_writes_to_hbm_follow_each_other_two_at_a_time():
    store = Call("dma_copy", "dma", (hbm((128, 32), (4096, 1)),), (sbuf((128, 32)),), {})
    assert transfer_of(store, 0, TRN2).work[0][1] == pytest.approx(8 * 24.0)
    long = Call("dma_copy", "dma", (hbm((128, 256), (4096, 1)),), (sbuf((128, 256)),), {})
    assert transfer_of(long, 0, TRN2).work[0][1] == pytest.approx(8 * packet_time(1024, TRN2))


def test_a_converting_transfer_has_a_descriptor_per_run_and_takes_its_wider_side():
    """Rows that lie together travel one by one when they are converted."""
    narrow, wide = sbuf((128, 256), "bfloat16"), hbm((128, 256), (256, 1))
    t = transfer_of(Call("dma_copy", "dma", (narrow,), (wide,), {}), 0, TRN2)
    assert t.descriptors == 128
    assert t.work[0][1] == pytest.approx(8 * packet_time(1024, TRN2))
    assert load((128, 256), 256).work[0][1] < t.work[0][1]


def test_a_lone_half_megabyte_takes_what_profiles_show():
    assert alone(load((128, 1024), 65536)) == pytest.approx(1975, rel=0.08)
    store = Call("dma_copy", "dma", (hbm((128, 1024), (65536, 1)),), (sbuf((128, 1024)),), {})
    assert alone(transfer_of(store, 0, TRN2)) == pytest.approx(1390 + TRN2.timing.dma_store, rel=0.08)


def test_efficiency_falls_with_the_size_of_rows():
    def rate(columns, target):
        t = load((128, columns), 65536, target=target)
        return t.nbytes / t.work[0][1]

    for target in (TRN1, TRN2):
        rates = [rate(n, target) for n in (16, 64, 256, 512, 1024)]
        assert rates == sorted(rates)
        assert rates[0] < 0.5 * rates[-1]


def test_a_transposing_copy_moves_single_elements():
    call = Call("dma_copy", "dma", (sbuf((128, 512)),), (hbm((128, 512), (1, 128)),), {})
    slow, fast = transfer_of(call, 0, TRN2), load((128, 512), 512)
    assert slow.descriptors == 128 * 512
    assert slow.work[0][1] > 10 * fast.work[0][1]


def test_rows_together_in_hbm_travel_together():
    assert load((128, 128), 128).work[0][1] == pytest.approx(packet_time(4096, TRN2))
    assert load((128, 128), 4096).work[0][1] == pytest.approx(8 * packet_time(512, TRN2))


def _alternating(target):
    engines = DmaEngines(target.timing)
    store = Call("dma_copy", "dma", (hbm((128, 1024), (65536, 1)),), (sbuf((128, 1024)),), {})
    out, back = transfer_of(store, 0, target), load((128, 1024), 65536, target=target)
    for _ in range(20):
        engines.move(back, 0.0)
        engines.move(out, 0.0)
    return 40 * back.nbytes / max(engines.busy)


def test_directions_that_alternate_pay_a_turnaround_on_trn1_only():
    assert 390 <= _alternating(TRN2) <= 421
    assert (
        _alternating(TRN1)
        < 0.8 * load((128, 1024), 65536, target=TRN1).nbytes / load((128, 1024), 65536, target=TRN1).work[0][1]
    )


def _rate(transfer, cores):
    engines = DmaEngines(TRN2.timing, cores)
    for _ in range(20):
        engines.move(transfer, 0.0)
    return cores * 20 * transfer.nbytes / max(engines.busy)


def test_two_cores_share_a_stack():
    """Long rows are held to the stack's rate, short ones are slower than that anyway."""
    long, short = load((128, 1024), 65536), load((128, 64), 65536)
    assert _rate(long, 1) == pytest.approx(16 * 4096 / packet_time(4096, TRN2))
    assert _rate(long, 2) == pytest.approx(TRN2.timing.hbm_rate)
    assert _rate(short, 2) == pytest.approx(2 * _rate(short, 1))
    inside = transfer_of(Call("dma_copy", "dma", (sbuf((128, 1024)),), (sbuf((128, 1024)),), {}), 0, TRN2)
    assert _rate(inside, 2) == pytest.approx(2 * _rate(inside, 1))


@pytest.mark.parametrize("columns", [6, 16, 32])
def test_short_runs_of_two_cores_take_their_stack_as_long_as_256_bytes(columns):
    """A row of 1280 tokens moves 24 bytes at a time: at one core's 9 ns a run it would be a fifth too fast."""
    tiny = load((128, columns), 65536)
    each = TRN2.timing.hbm_least / (TRN2.timing.hbm_rate / 32)
    assert _rate(tiny, 2) == pytest.approx(2 * 16 * columns * 4 / each)
    assert _rate(tiny, 1) == pytest.approx(16 * columns * 4 / packet_time(columns * 4, TRN2))
    inside = transfer_of(Call("dma_copy", "dma", (sbuf((128, 6)),), (sbuf((128, 6)),), {}), 0, TRN2)
    assert _rate(inside, 2) == pytest.approx(2 * _rate(inside, 1))


def test_bytes_read_and_written_are_those_of_hbm():
    t = load((128, 512), 8192)
    assert (t.read, t.written) == (128 * 512 * 4, 0)
    inside = Call("dma_copy", "dma", (sbuf((128, 512)),), (sbuf((128, 512)),), {})
    assert transfer_of(inside, 0, TRN2)[1:3] == (0, 0)


def test_constants_name_every_target():
    assert {t.timing.dma_engines for t in TARGETS.values()} == {16}


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_a_transfer_does_not_end_before_its_descriptors_are_written(target):
    def turned(x):
        out = nl.ndarray((x.shape[1], x.shape[0]), x.dtype, nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x.permute((1, 0)))
        return out

    report = report_of(turned, shaped(256, 128), target=target)
    for use in report.engines.values():
        assert use.utilisation <= 1
        assert use.busy_s <= report.active_s
