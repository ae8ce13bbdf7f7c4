"""Suite-wide: backends as markers, poisoned memory, and devices this machine does not have."""

import pytest
import torch
from hypothesis import settings

from trnsci import neuron
from trnsci.testing.ranks import Ranks

pytest_plugins = ["trnsci.testing.plugin"]

# a busy machine is no reason to fail
settings.register_profile("suite", deadline=None, print_blob=True)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def ranks():
    """``ranks(3)``: three processes that run programs together, kept for the session."""
    pools = {}

    def pool(size):
        # a test that lost a rank does not take the next one with it
        if size in pools and not all(process.is_alive() for process in pools[size].processes):
            pools.pop(size).close()
        if size not in pools:
            pools[size] = Ranks(size)
        return pools[size]

    yield pool
    for made in pools.values():
        made.close()


def pytest_collection_modifyitems(items):
    absent = {}
    if not torch.cuda.is_available():
        absent["cuda"] = "needs an NVIDIA GPU, and PyTorch finds none here"
    if neuron.device() is None:
        absent["neuron"] = f"needs a Trainium: {neuron.why_no_device()}"
    for item in items:
        for name, reason in absent.items():
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))
