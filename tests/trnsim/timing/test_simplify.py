"""What the compiler leaves out: copies of broadcasts, and what a loop repeats unchanged."""

import numpy as np
import pytest

import trnsim
import trnsim.isa as nisa
import trnsim.language as nl
from tests.trnsim.timing.kernels import report_of, shaped, tile, zeroed
from trnsim import jit

pytestmark = pytest.mark.sim


def loaded(x):
    t = tile(*x.shape)
    nisa.dma_copy(dst=t, src=x)
    return t


def stored(t):
    y = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=y, src=t)
    return y


def times(a, b):
    made = tile(*a.shape)
    nisa.tensor_tensor(dst=made, data1=a, data2=b, op=nl.multiply)
    return made


def placed(report, name):
    """Where the instructions called ``name`` read their operands."""
    return [
        [o.buffer for o in k.call.reads]
        for s in report.schedules
        for k in s.stream.kinds
        if k.call.name == name and k.count
    ]


def test_a_broadcast_is_read_where_it_arises():
    def kernel(x, row):
        return stored(times(loaded(x), nl.broadcast_to(loaded(row), (128, 512))))

    report = report_of(kernel, shaped(128, 512), shaped(1, 512), target="trn1")
    assert "tensor_copy" not in {name for name, count in report.instructions.items() if count}
    assert placed(report, "tensor_tensor") == [["sbuf", "psum"]]
    assert "1 instructions are left out" in report.warnings[0]


def test_a_copy_somebody_wrote_stays():
    def kernel(x, row):
        ones, wide = zeroed(1, 128), tile(buffer=nl.psum)
        nisa.nc_matmul(dst=wide, stationary=ones, moving=loaded(row))
        copied = tile()
        nisa.tensor_copy(dst=copied, src=wide)
        return stored(times(loaded(x), copied))

    report = report_of(kernel, shaped(128, 512), shaped(1, 512), target="trn1")
    assert report.instructions["tensor_copy"] == 1
    assert placed(report, "tensor_tensor") == [["sbuf", "sbuf"]]
    assert not report.warnings


def _both(x, wide):
    return times(wide, nl.broadcast_to(loaded(x[0:1, :]), (128, 512)))


def _stored(x, wide):
    stored(wide)
    return times(wide, loaded(x))


def _multiply_elements(x, wide):
    made = tile(128, 512, buffer=nl.psum)
    nisa.nc_matmul(dst=made, stationary=wide[:, 0:128], moving=loaded(x))
    copied = tile()
    nisa.tensor_copy(dst=copied, src=made)
    return copied


def _written(x, wide):
    nisa.tensor_tensor(dst=wide, data1=wide, data2=loaded(x), op=nl.multiply)
    return wide


@pytest.mark.parametrize(("use", "kept"), [(_both, 1), (_stored, 1), (_multiply_elements, 2), (_written, 1)])
def test_a_broadcast_is_copied_for_readers_that_cannot_read_psum(use, kept):
    def kernel(x, row):
        return stored(use(x, nl.broadcast_to(loaded(row), (128, 512))))

    report = report_of(kernel, shaped(128, 512), shaped(1, 512))
    assert report.instructions["tensor_copy"] == kept


def test_broadcasts_stay_only_while_psum_has_banks():
    def kernel(x, rows):
        wide = [nl.broadcast_to(loaded(rows[i : i + 1, :]), (128, 512)) for i in range(12)]
        t = loaded(x)
        for each in wide:
            t = times(t, each)
        return stored(t)

    report = report_of(kernel, shaped(128, 512), shaped(12, 512))
    # seven stay while the others are made in the eighth bank, and the last, after which none is made
    assert report.instructions["tensor_copy"] == 12 - 8
    assert report.psum_banks == 8


def test_wide_broadcasts_are_products_a_bank_at_a_time():
    def kernel(x, row):
        return stored(times(loaded(x), nl.broadcast_to(loaded(row), (128, 1100))))

    report = report_of(kernel, shaped(128, 1100), shaped(1, 1100), target="trn1")
    assert report.instructions["nc_matmul"] == 3
    assert report.instructions["tensor_copy"] == 3
    assert report.hbm_read_bytes == 4 * (128 * 1100 + 1100)


def repeated(change=None, again=times):
    """A loop that multiplies ``a`` and ``b`` every time, and what the model makes of it."""

    def kernel(x):
        a, b = loaded(x), loaded(x)
        total = zeroed(128, 512)
        for i in range(4):
            made = again(a, b)
            if change is not None:
                change(i, a, made)
            nisa.tensor_tensor(dst=total, data1=total, data2=made, op=nl.add)
        return stored(total)

    return report_of(kernel, shaped(128, 512))


def test_what_a_loop_repeats_unchanged_runs_once():
    report = repeated()
    assert report.instructions["tensor_tensor"] == 1 + 4
    assert report.total_s < repeated(lambda i, a, made: nisa.memset(dst=a, value=1.0)).total_s


@pytest.mark.parametrize(
    "change",
    [
        lambda i, a, made: nisa.memset(dst=a[:, 0:1], value=1.0),
        lambda i, a, made: nisa.memset(dst=made[:, 0:1], value=1.0),
    ],
    ids=["operand", "result"],
)
def test_what_changes_is_repeated(change):
    assert repeated(change).instructions["tensor_tensor"] == 4 + 4


def test_instructions_somebody_waits_for_are_kept():
    def kernel(x):
        a, last, total = loaded(x), None, zeroed(128, 512)
        for _ in range(4):
            made = tile()
            issued = nisa.tensor_tensor(dst=made, data1=a, data2=a, op=nl.multiply)
            if last is not None:
                issued.depends_on(last)
            last = nisa.tensor_tensor(dst=total, data1=total, data2=made, op=nl.add)
        return stored(total)

    assert report_of(kernel, shaped(128, 512)).instructions["tensor_tensor"] == 1 + 4 + 3


def test_loads_are_repeated():
    def kernel(x):
        total = zeroed(128, 512)
        for _ in range(4):
            nisa.tensor_tensor(dst=total, data1=total, data2=loaded(x), op=nl.add)
        return stored(total)

    report = report_of(kernel, shaped(128, 512))
    assert report.hbm_read_bytes == 4 * 128 * 512 * 4
    assert not report.warnings


def test_results_do_not_depend_on_what_is_left_out():
    @jit
    def kernel(x, row):
        a, total = loaded(x), zeroed(128, 512)
        for _ in range(3):
            made = times(times(a, a), nl.broadcast_to(loaded(row), (128, 512)))
            nisa.tensor_tensor(dst=total, data1=total, data2=made, op=nl.add)
        return stored(total)

    rng = np.random.default_rng(0)
    x, row = rng.integers(-8, 8, (128, 512)).astype(np.float32), rng.integers(-8, 8, (1, 512)).astype(np.float32)
    made, report = trnsim.profile(kernel, target="trn2", lint="off")(x, row)
    np.testing.assert_array_equal(made, 3 * x * x * row)
    assert report.instructions["tensor_tensor"] == 1 + 3 + 3
