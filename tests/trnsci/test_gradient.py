import pytest

from trnsci.gradient import Saved


def test_saved_gives_arguments_by_name_and_says_what_is_needed():
    saved = Saved({"a": 1, "alpha": 2.0}, "result", frozenset({"a"}))
    assert (saved.a, saved.alpha, saved.result) == (1, 2.0, "result")
    assert saved.needs("a")
    assert not saved.needs("alpha")
    with pytest.raises(AttributeError, match="the op has no argument 'b'"):
        _ = saved.b
