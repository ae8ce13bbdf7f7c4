"""Suite-wide: backends as markers, poisoned memory, and devices this machine does not have."""

import gc
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

# a busy machine is no reason to fail
settings.register_profile("suite", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


def pytest_configure(config):
    # A shell that starts the suite in the background ignores interrupts, and so would programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Processes that run tests wait for the one that hands them out: it imports neither this nor torch.
    if hasattr(config, "workerinput") or config.getoption("dist", "no") == "no":
        config.pluginmanager.import_plugin("trnsci.testing.plugin")


def pytest_addoption(parser):
    """Let the tests of sharded calls run on the process group of the emulated device."""
    parser.addoption("--strict-ranks", action="store_true", help="join ranks by the rules of Neuron's process group")


@pytest.fixture(scope="session")
def ranks(pytestconfig):
    """``ranks(3)``: three processes that run programs together, kept for the session."""
    from benchmarks.ranks import Ranks

    pools = {}

    def pool(size):
        # a test that lost a rank does not take the next one with it
        if size in pools and not all(process.is_alive() for process in pools[size].processes):
            pools.pop(size).close()
        if size not in pools:
            pools[size] = Ranks(size, strict=pytestconfig.getoption("--strict-ranks"))
        return pools[size]

    yield pool
    for made in pools.values():
        made.close()


def options(item):
    """What each parametrisation gives a test, as something that can be compared; what they list is given as it is."""
    given = {name: id(value) for name, value in item.callspec.params.items()}
    together = [marker.args[0] for marker in item.iter_markers("parametrize")]
    names = [[name.strip() for name in names.split(",")] if isinstance(names, str) else names for names in together]
    parametrised = [tuple(given.pop(name) for name in each) for each in names]
    return (*parametrised, *given.values())


def thin(items):
    """Mark as slow what a covering part of a ``grid`` leaves out; cases that need a device are covered on their own."""
    from trnsci.testing.data import covering

    grids = {}
    for item in items:
        marker = item.get_closest_marker("grid")
        if marker is not None and not item.get_closest_marker("slow"):
            needs = tuple(name for name in ("cuda", "neuron") if item.get_closest_marker(name))
            grids.setdefault((item.nodeid.partition("[")[0], needs, *marker.args), []).append(item)
    for (*_, strength), cases in grids.items():
        kept = covering([options(case) for case in cases], strength)
        for index in set(range(len(cases))).difference(kept):
            cases[index].add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def nothing_falls_back(request):
    """Fail a test of the device in which AWS's library ran an operator on the host."""
    if request.node.get_closest_marker("neuron") is None:
        yield
        return
    import trnsci

    with trnsci.ledger(everywhere=True) as book:
        yield
    assert not book.fallbacks


def pytest_collection():
    gc.disable()


def pytest_collection_finish():
    # modules and items stay until the end: no collection of garbage looks at them again
    gc.freeze()
    gc.enable()


def pytest_runtest_setup():
    import torch

    # a test that draws without a generator draws the same numbers in every run and in every order
    torch.manual_seed(0)
    if trnrand := sys.modules.get("trnrand"):
        trnrand.manual_seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    import torch

    from trnsci import neuron

    thin(items)
    # first, so that only one of the processes that share the items starts ranks
    together = {item.module for item in items if "ranks" in item.fixturenames}
    items.sort(key=lambda item: item.module not in together)
    absent = {}
    if not torch.cuda.is_available():
        absent["cuda"] = "needs an NVIDIA GPU, and PyTorch finds none here"
    if neuron.device() is None:
        absent["neuron"] = f"needs a Trainium: {neuron.why_no_device()}"
    for item in items:
        for name, reason in absent.items():
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))
