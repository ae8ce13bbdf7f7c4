"""Rules of the hardware that kernels of the published styles lean on: tiles of the array, queues, tables, tiles."""

import itertools

import numpy as np
import pytest

import trnsim.isa as nisa
import trnsim.language as nl
from tests.trnsim.timing.kernels import report_of, shaped, spans, starts, tile, zeroed
from trnsim import TARGETS, jit, profile
from trnsim.timing.schedule import MODES, QUEUES

TIME = TARGETS["trn2"].timing
BF16 = nl.bfloat16


def _decode(x, tiled, count=64):
    """A decode-size product: 32 tokens stationary, weights moving, four column tiles or none."""
    tokens, weights = zeroed(128, 32, dtype=BF16), zeroed(128, 512, dtype=BF16)
    parts = [tile(128, 512, buffer=nl.psum) for _ in range(2)]
    for i in range(count):
        column = 32 * (i % 4)
        where = {"tile_position": (0, column), "tile_size": (128, 32)} if tiled else {}
        row = column if tiled else 0
        nisa.nc_matmul(dst=parts[i // 4 % 2][row : row + 32, :], stationary=tokens, moving=weights, **where)
    return x


def test_column_tiles_run_beside_each_other():
    one, four = (report_of(_decode, shaped(1, 1), tiled=tiled) for tiled in (False, True))
    whole, parts = (starts(report, "nc_matmul") for report in (one, four))
    assert (whole[-1] - whole[-5]) / (parts[-1] - parts[-5]) == pytest.approx(4, rel=0.05)
    # four start one after another, the fifth waits for the first's part of the array
    assert parts[-3] - parts[-4] == pytest.approx(32 / 2.4 + 3, rel=0.01)
    assert four.engines["tensor"].utilisation <= 1
    assert four.flops == one.flops


def test_row_tiles_run_beside_each_other_and_a_whole_matmul_waits_for_all():
    def kernel(x, size):
        a, b = zeroed(128, 128, dtype=BF16), zeroed(128, 512, dtype=BF16)
        outs = [tile(buffer=nl.psum) for _ in range(128 // size)]
        for i, out in enumerate(outs):
            rows = slice(i * size, (i + 1) * size)
            nisa.nc_matmul(
                dst=out, stationary=a[rows, :], moving=b[rows, :], tile_position=(i * size, 0), tile_size=(size, 128)
            )
        nisa.nc_matmul(dst=tile(buffer=nl.psum), stationary=a, moving=b)
        return x

    for size in (32, 64):
        at = starts(report_of(kernel, shaped(1, 1), size=size), "nc_matmul")
        full = 2 * 512 / 2.4 + 3
        assert all(later - earlier < full / 2 for earlier, later in itertools.pairwise(at[:-1]))
        assert at[-1] - at[-2] == pytest.approx(full)


def test_two_matmuls_on_one_tile_take_turns():
    def kernel(x):
        a, b = zeroed(128, 32, dtype=BF16), zeroed(128, 512, dtype=BF16)
        for _ in range(4):
            nisa.nc_matmul(
                dst=tile(32, 512, buffer=nl.psum), stationary=a, moving=b, tile_position=(0, 0), tile_size=(128, 32)
            )
        return x

    at = starts(report_of(kernel, shaped(1, 1)), "nc_matmul")
    assert at[-1] - at[-2] == pytest.approx(2 * 512 / 2.4 + 3)


@pytest.mark.parametrize(("dtype", "slow", "fast"), [(BF16, 0.0, 0.0), (nl.float32, 163.0, 103.0)])
def test_only_fp32_matmuls_pay_for_finding_the_engine_idle(dtype, slow, fast):
    def kernel(x):
        a, b = zeroed(128, 128, dtype=dtype), zeroed(128, 512, dtype=dtype)
        c = tile(buffer=nl.psum)
        for k in range(60):
            nisa.nc_matmul(dst=c, stationary=a, moving=b, accumulate=k > 0)
        # the next one waits for the memory, not for the engine
        nisa.memset(dst=b[:, 0:1], value=0.0)
        nisa.nc_matmul(dst=c, stationary=a, moving=b, accumulate=True)
        return x

    bars = spans(report_of(kernel, shaped(1, 1)), "nc_matmul")
    passes, parts = (4, 2) if dtype is nl.float32 else (1, 1)
    full = passes * 512 / 2.4 + 3 * parts
    first, last = bars[0][1] - bars[0][0], bars[-1][1] - bars[-1][0]
    assert first == pytest.approx(full + passes * 512 / 2.4 + 203 + slow)
    assert last == pytest.approx(full + 165 + fast)


def test_the_first_table_is_loaded_when_the_kernel_starts():
    def kernel(x):
        y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = tile()
        nisa.dma_copy(dst=t, src=x)
        nisa.activation(dst=t, op=nl.square, data=t)
        nisa.activation(dst=t, op=nl.rsqrt, data=t)
        nisa.dma_copy(dst=y, src=t)
        return y

    report = report_of(kernel, shaped(128, 512))
    first, second = spans(report, "activation")
    assert report.table_loads == 1
    assert second[0] == pytest.approx(first[1] + TIME.semaphore)
    assert second[1] - second[0] == pytest.approx(first[1] - first[0])


def _queues(report):
    s = report.schedules[0]
    kinds = s.stream.kinds
    found = [i for i in range(len(s.stream)) if kinds[s.stream.kind[i]].transfer is not None]
    return [(MODES[s.mode[i]], QUEUES[s.queue[i]], s.issue(i)[0]) for i in found]


@pytest.mark.parametrize(("rows", "took"), [(128, 524), (256, 572)])
def test_a_trigger_on_scalar_takes_the_scalar_engines_time(rows, took):
    def kernel(x):
        scratch = nl.ndarray((128, rows // 128, 512), dtype=x.dtype, buffer=nl.private_hbm)
        t, u = zeroed(128, rows // 128, 512), zeroed(128, 512)
        nisa.dma_copy(dst=scratch[:, :, 0:256], src=t[:, :, 0:256], dge_mode=nisa.dge_mode.hwdge)
        nisa.activation(dst=tile(), op=nl.copy, data=u)
        return x

    report = report_of(kernel, shaped(1, 1))
    assert _queues(report) == [("hwdge", "scalar", pytest.approx(took))]
    (trigger,), (act,) = starts(report, "dma_copy"), starts(report, "activation")
    assert act >= trigger + took or act <= trigger
    assert report.engines["dma.scalar"].instructions == 1


def test_triggers_in_a_row_on_sync_take_longer():
    def kernel(x):
        for i in range(4):
            nisa.dma_copy(dst=tile(), src=x[i * 128 : (i + 1) * 128, :], dge_mode=nisa.dge_mode.hwdge)
        return x

    took = [busy for _, _, busy in _queues(report_of(kernel, shaped(512, 512)))]
    assert took == [pytest.approx(563), *[pytest.approx(650)] * 3]


def test_gpsimd_wakes_up_later_for_more_rows():
    def kernel(x, rows):
        y = nl.ndarray((128, rows // 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        t = zeroed(128, rows // 128, 512)
        nisa.dma_copy(dst=y[:, :, 0:256], src=t[:, :, 0:256])
        return y

    for rows, wake in ((512, 1197), (1024, 1358)):
        report = report_of(kernel, shaped(1, 1), rows=rows)
        ((_, end),) = spans(report, "memset")
        assert starts(report, "dma_copy")[0] - end == pytest.approx(wake, rel=0.001)


@pytest.mark.parametrize(("dtype", "how"), [(np.float16, ("hwdge", "dma.sync")), (np.float32, ("static", "dma.sync"))])
def test_transposes_are_not_issued_by_gpsimd(dtype, how):
    def kernel(x):
        y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in range(4):
            nisa.dma_transpose(dst=tile(128, 128, dtype=x.dtype), src=x[i * 128 : (i + 1) * 128, :])
        return y

    report = report_of(kernel, shaped(512, 128, dtype=dtype))
    assert {(mode, queue) for mode, queue, _ in _queues(report)} == {how}
    at = starts(report, "dma_transpose")
    assert all(later - earlier < 900 for earlier, later in itertools.pairwise(at))


def _interleaved(x, step):
    """Two engines write every other column of one tile, or one half of it each."""
    src, both = zeroed(128, 512), tile(128, 1024)
    for i in range(16):
        part = both[:, i % 2 :: 2] if step else both[:, 512 * (i % 2) : 512 * (i % 2) + 512]
        if i % 2:
            nisa.activation(dst=part, op=nl.copy, data=src)
        else:
            nisa.tensor_copy(dst=part, src=src, engine=nisa.engine.vector)
    return x


def test_interleaved_writes_of_two_engines_take_turns():
    apart, interleaved = (report_of(_interleaved, shaped(1, 1), step=step) for step in (0, 1))
    assert interleaved.active_s > 1.5 * apart.active_s
    bars = sorted(spans(interleaved, "activation") + spans(interleaved, "tensor_copy"))
    assert all(later[0] >= earlier[1] for earlier, later in itertools.pairwise(bars))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_trn1_transposes_loads_on_the_vector_engine(dtype):
    def kernel(x):
        y = nl.ndarray((96, 200), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(y, nl.load_transpose2d(x))
        return y

    x = np.arange(200 * 96).reshape(200, 96).astype(dtype)
    made, report = profile(jit(kernel), target="trn1", lint="off")(x)
    np.testing.assert_array_equal(made, x.T)
    # 128 rows are four strips of 32, 72 are three; rows travel whole
    assert report.instructions == {"transpose_strip": 7, "dma_copy": 3}
    assert report.hbm_read_bytes == x.nbytes
    assert report.engines["tensor"].instructions == 0
    assert report.engines["vector"].busy_s > 2 * report.engines["dma"].busy_s


def test_only_stores_are_triggered_by_scalar():
    def kernel(x):
        y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t, u = zeroed(128, 128, dtype=x.dtype), tile(128, 128, dtype=x.dtype)
        nisa.dma_transpose(dst=u, src=t)
        nisa.dma_copy(dst=y, src=u, dge_mode=nisa.dge_mode.hwdge)
        return y

    queues = [queue for _, queue, _ in _queues(report_of(kernel, shaped(128, 128, dtype=np.float16)))]
    assert queues == ["dma.sync", "scalar"]


@pytest.mark.parametrize(
    ("mode", "engine", "load", "store"),
    [("swdge", "unknown", (752, 768), (625, 636)), ("hwdge", "sync", (1310, 1350), (1190, 1210)),
     ("hwdge", "scalar", (1240, 1280), (1190, 1210))],
)  # fmt: skip
def test_the_first_byte_moves_as_profiles_show(mode, engine, load, store):
    options = {"dge_mode": nisa.dge_mode[mode], "engine": nisa.engine[engine]}

    def kernel(x):
        y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = tile()
        nisa.dma_copy(dst=t, src=x, **options)
        nisa.dma_copy(dst=y, src=t, **options)
        return y

    (s,) = report_of(kernel, shaped(128, 512)).schedules
    for i, (low, high) in enumerate((load, store)):
        assert low <= s.moving[i] - s.start[i] <= high
