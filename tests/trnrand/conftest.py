import pytest

from trnsci import loops as native


@pytest.fixture(params=["native", "pure"])
def loops(request, monkeypatch):
    """Run a test twice: with the compiled host loops, and with torch alone."""
    if request.param == "pure":
        monkeypatch.setattr(native, "compiled", None)
    elif native.compiled is None:
        pytest.skip("needs the extension module, which was not built")
    return request.param


@pytest.fixture
def pure(monkeypatch):
    """Call a function with the compiled host loops switched off."""

    def call(function):
        with monkeypatch.context() as patch:
            patch.setattr(native, "compiled", None)
            return function()

    return call
