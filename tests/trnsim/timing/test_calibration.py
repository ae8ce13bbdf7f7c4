"""Predictions against published measurements."""

import statistics

import pytest

from benchmarks.calibration.rows import ROWS
from benchmarks.calibration.table import BEGIN, DOCS, END, predict, summary, table

LIGHT = [row for row in ROWS if not row.heavy]
# its figure loads the function table after the wait; all ten published profiles load it when the kernel starts
KNOWN_MISS = {"trn2 exp of [128, 128] bf16"}


@pytest.fixture(scope="module")
def light():
    return [predict(row) for row in LIGHT]


def test_light_rows_have_a_median_error_below_eight_percent_and_none_above_a_quarter(light):
    errors = {f"{r.row.target} {r.row.name} {r.row.dtype}": abs(r.error) for r in light}
    assert statistics.median(errors.values()) <= 0.08
    assert {name for name, e in errors.items() if e > 0.25} == KNOWN_MISS


def _took(results, name, dtype="fp32"):
    return next(r.predicted_us for r in results if r.row.name == name and r.row.dtype == dtype)


def test_variants_are_ranked_as_hardware_ranks_them(light):
    for seqlen in (512, 1024, 2048):
        for dtype in ("fp32", "bf16"):
            assert _took(light, f"attention fused, S={seqlen}", dtype) < _took(
                light, f"attention through HBM, S={seqlen}", dtype
            )
    assert (
        _took(light, "matmul by hand", "bf16")
        < _took(light, "matmul, two accumulators", "bf16")
        < _took(light, "matmul, one accumulator", "bf16")
    )
    assert _took(light, "mamba v2, 4096 channels, S=512") < 0.9 * _took(light, "mamba v1, 4096 channels, S=512")
    assert _took(light, "mamba v3, 4096 channels, S=1024") < 0.9 * _took(light, "mamba v2, 4096 channels, S=1024")
    for seqlen in (512, 1024, 2048):
        assert _took(light, f"attention fused, S={seqlen}", "bf16") < _took(
            light, f"attention fused, S={seqlen}", "fp32"
        )


@pytest.mark.slow
def test_all_rows_and_the_table_in_the_docs():
    results = [predict(row) for row in ROWS]
    assert statistics.median(abs(r.error) for r in results) <= 0.08
    for target, dtype in (("trn1", "bf16"), ("trn2", "fp32")):
        ladder = [
            r
            for r in results
            if r.row.target == target
            and r.row.dtype == dtype
            and r.row.name in ("matmul tiled", "matmul hoisted", "matmul blocked", "matmul fully blocked")
        ]
        first, *rest = (r.predicted_us for r in ladder)
        assert all(first > 1.1 * later for later in rest)
    page = DOCS.read_text()
    generated = page.split(BEGIN)[1].split(END)[0]
    assert generated.strip() == f"{table(results)}\n\n{summary(results)}"
