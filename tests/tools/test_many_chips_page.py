"""The tables of scaling on the page about many chips: those of the record, which is what plans predict."""

import json

import pytest

from tools import many_chips_page
from trnsci.distributed import plan


def test_the_page_has_the_record():
    assert many_chips_page.PAGE.read_text(encoding="utf-8") == many_chips_page.page()
    assert set(json.loads(many_chips_page.RECORD.read_text())) == set(many_chips_page.CASES)


@pytest.mark.sim
@pytest.mark.slow
@pytest.mark.parametrize(("name", "cores"), [("gemm", 64), ("gemm weak", 4096), ("mp2", 512), ("qr", 512)])
def test_plans_predict_what_the_record_says(name, cores):
    function, operands = many_chips_page.CASES[name].call(cores)
    *seconds, limit = json.loads(many_chips_page.RECORD.read_text())[name][str(cores)]
    found = plan(function, *operands).slowest("trn2")
    assert list(found[:3]) == pytest.approx(seconds)
    assert found.limit == limit
