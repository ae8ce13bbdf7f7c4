"""The page of published figures has the predictions of this tree."""

import pytest

from tools import published_page


@pytest.mark.slow
def test_the_page_is_computed_from_the_time_model():
    assert published_page.PAGE.read_text(encoding="utf-8") == published_page.page()
