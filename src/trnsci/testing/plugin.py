"""pytest plugin: marks simulator tests ``sim`` and device tests ``neuron``, and poisons fresh memory in every test.

Use it from a ``conftest.py``: ``pytest_plugins = ["trnsci.testing.plugin"]``.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from trnsci.testing.backends import BACKENDS, Backend
from trnsci.testing.poison import poisoned

_MARKS = {"simulator": pytest.mark.sim, "nki": pytest.mark.neuron}


def pytest_configure(config: Any) -> None:
    """Collect what a device would run where it is asked for, ``-m neuron``, also on a machine that has none."""
    words = str(config.option.markexpr)
    asked = "neuron" in words.replace("not neuron", "")
    if asked and all(backend.name != "nki" for backend in BACKENDS):
        BACKENDS.append(Backend("nki"))


def pytest_itemcollected(item: Any) -> None:
    """Mark a test by the backend it is parametrized with."""
    for value in getattr(getattr(item, "callspec", None), "params", {}).values():
        if isinstance(value, Backend) and value.name in _MARKS:
            item.add_marker(_MARKS[value.name])


@pytest.fixture(autouse=True)
def _poisoned_memory() -> Iterator[None]:
    with poisoned():
        yield
