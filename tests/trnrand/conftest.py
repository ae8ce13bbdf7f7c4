import pytest

from trnsci import native


@pytest.fixture(params=["native", "pure"])
def loops(request, monkeypatch):
    """Run a test twice: with the compiled host loops, and with torch alone."""
    if request.param == "pure":
        monkeypatch.setenv("TRNSCI_NATIVE", "0")
    elif native.compiler() is None:
        pytest.skip("needs a C compiler")
    return request.param


@pytest.fixture
def pure(monkeypatch):
    """Call a function with the compiled host loops switched off."""

    def call(function):
        with monkeypatch.context() as patch:
            patch.setenv("TRNSCI_NATIVE", "0")
            return function()

    return call
