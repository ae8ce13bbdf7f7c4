"""The table of energies beside PySCF: of the molecules it promises, within its bounds, and written from its record."""

import json

import pytest

from tools import chemistry_page


def record():
    return json.loads(chemistry_page.RECORD.read_text(encoding="utf-8"))


def test_the_page_is_written_from_the_record():
    written = chemistry_page.PAGE.read_text(encoding="utf-8")
    assert written == chemistry_page.page(record()), "python -m tools.chemistry_page"


def test_thirty_molecules_of_both_kinds_keep_their_bounds():
    cases, rows = chemistry_page.MOLECULES, record()["table"]
    assert list(rows) == list(cases)
    assert len(cases) >= 30
    assert {kind for *_, kind in cases.values()} == {"RHF", "UHF", "ROHF"}
    assert {basis for _, basis, *_ in cases.values()} == {"cc-pvdz", "cc-pvtz", "aug-cc-pvdz", "def2-svp", "def2-tzvp"}
    for row in rows.values():
        assert all(abs(row[name]) <= 1e-9 for name in ("fp64", "laplace", "simulator") if name in row)
        assert abs(row["fp32"]) <= 2**-18 * abs(row["e_corr"])
        assert abs(row["target"]) <= chemistry_page.TARGET
        assert row["predicted"][1] <= row["predicted"][0] <= row["predicted"][2]


@pytest.mark.parametrize("name", ["H2", pytest.param("O", marks=pytest.mark.slow)])
def test_a_row_is_what_is_recorded(name):
    fresh, kept = chemistry_page.measured(name), record()["table"][name]
    assert fresh["e_corr"] == pytest.approx(kept["e_corr"], abs=1e-8)
    assert abs(fresh["fp64"]) <= 1e-9
    # the time model may learn; by how much the page may lag behind is its interval
    assert kept["predicted"][1] <= fresh["predicted"][0] <= kept["predicted"][2]


def test_waters_are_as_many_as_asked_for():
    for count in (1, 8, 20):
        assert len(set(chemistry_page.waters(count))) == 3 * count
