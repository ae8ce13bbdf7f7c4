"""Descriptors, packets, engines."""

import pytest

from tests.trnsim.timing.kernels import report_of, shaped
from trnsim import TARGETS
from trnsim import isa as nisa
from trnsim import language as nl
from trnsim.targets import TRN1, TRN2
from trnsim.timing.costs import Call, Layout
from trnsim.timing.dma import run_bytes, transfer_of
from trnsim.timing.engines import DmaEngines


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


@pytest.mark.parametrize(("row", "measured"), [(1024, 27.0 * 8), (512 * 4, 83 * 8), (1024 * 4, 158 * 8)])
def test_packets_on_trn2_are_within_a_fifth_of_single_packets(row, measured):
    # measured single packets have no gaps between them; queued ones do
    columns = row // 4 if row >= 2048 else 128
    work = load((128, columns), 65536).work[0][1]
    assert measured * 0.95 <= work <= measured * 1.2


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
    assert load((128, 128), 128).work[0][1] < 0.8 * load((128, 128), 4096).work[0][1]


def test_directions_that_alternate_pay_a_turnaround():
    engines = DmaEngines(TRN2.timing)
    out = transfer_of(Call("dma_copy", "dma", (hbm((128, 1024), (65536, 1)),), (sbuf((128, 1024)),), {}), 0, TRN2)
    back = load((128, 1024), 65536)
    for _ in range(20):
        engines.move(back, 0.0)
        engines.move(out, 0.0)
    rate = 40 * back.nbytes / max(engines.busy)
    assert 280 <= rate <= 300


def test_two_cores_share_a_stack():
    assert DmaEngines(TRN2.timing, 2).slower == pytest.approx(24.3 * 32 / 716)
    assert DmaEngines(TRN2.timing, 1).slower == 1.0


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
