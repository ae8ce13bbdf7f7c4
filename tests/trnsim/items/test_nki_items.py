"""What each version of NKI brought, tried with one small kernel each."""

import warnings

import pytest

from tests.together import together
from tests.trnsim.items import nki_04, nki_05, nki_06, nki_07  # noqa: F401
from tests.trnsim.items.table import ITEMS, try_item

pytestmark = pytest.mark.sim


@together(("title", "since", "until", "target", "refuse", "warn", "check"), ITEMS)
def test_every_item_holds(title, since, until, target, refuse, warn, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if warn is None else "default")
        try_item(since, until, target, refuse, warn, check)


def test_the_table_is_complete():
    counts = {version: sum(item[1] == version for item in ITEMS) for version in ("0.4", "0.5", "0.6", "0.7")}
    assert counts == {"0.4": 28, "0.5": 14, "0.6": 23, "0.7": 39}
