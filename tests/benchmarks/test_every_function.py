"""Every public function has a counterpart in the walk, or a reason why it has none."""

import numpy as np
import pytest

from benchmarks import counterparts, every_function
from benchmarks.every_function import Row
from tests.campaign.trial import functions


def test_every_public_function_is_compared_or_alone_with_a_reason():
    named, alone = set(), {}
    for library in counterparts.MODULES:
        named |= {name.partition(" ")[0] for name in counterparts.cases(library, 8)}
        alone |= counterparts.alone(library)
    assert not set(functions()) - named - set(alone), "add it to benchmarks/counterparts"
    assert not named & set(alone)
    assert all(alone.values())


@pytest.mark.slow
@pytest.mark.parametrize("library", counterparts.MODULES)
def test_every_call_runs_at_every_size(library):
    for n in every_function.SIZES.values():
        for name, (ours, beside, theirs) in counterparts.cases(library, n).items():
            assert ours() is not None or name.endswith("set_state"), name
            theirs()
            assert beside


def test_the_oracle_of_a_row_is_a_counterpart_where_no_table_has_one(monkeypatch):
    monkeypatch.setattr(counterparts, "MODULES", {"trnblas": ()})
    ours, beside, theirs = counterparts.cases("trnblas", 8)["trnblas.copy"]
    assert beside == "numpy.copy"
    np.testing.assert_array_equal(ours(), theirs())


def test_rows_are_sorted_and_written_between_the_marks(monkeypatch):
    times = iter([(8.0, 2.0), (6.0, 2.0), (100.0, 2.0), (90.0, 3.0), (7.0, 7.0), (1.0, 4.0)])
    monkeypatch.setattr(every_function, "measure", lambda *_: next(times))
    monkeypatch.setattr(counterparts, "MODULES", {"trnblas": ("blas",)})
    pair = {"trnblas.dot": (None, "torch.dot", None), "trnblas.axpy": (None, "torch.add", None)}
    monkeypatch.setattr(counterparts, "cases", lambda *_: pair)
    rows = every_function.measure_all([])
    assert [(row.name, row.ratio) for row in rows] == [("trnblas.dot", 50.0), ("trnblas.axpy", 30.0)]
    lines = every_function.table(rows).splitlines()
    assert lines[2] == "| `trnblas.dot` | torch.dot | 8 µs | 100 µs | 7 µs | 4.0 | 50 | 1.0 |"
    assert "| `trnblas.axpy` | torch.add | 6.0 µs | 2.0 µs | 4.0 µs |" in every_function.overhead(rows)
    assert every_function.written(f"a\n{every_function.BEGIN}\nold\n{every_function.END}\nb\n", "new") == (
        f"a\n{every_function.BEGIN}\nnew\n{every_function.END}\nb\n"
    )
    assert Row("x", "y", {"tiny": (1.0, 2.0)}).ratio == 0.5
