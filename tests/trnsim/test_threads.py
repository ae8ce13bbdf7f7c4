"""Kernels run on one BLAS thread, and independent launches side by side."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import trnsim
from tests.trnsim.rounded import rounded, within
from trnsim import isa as nisa, language as nl, threads
from trnsim.errors import OutOfBounds

pytestmark = pytest.mark.sim

RNG = np.random.default_rng(0)


@pytest.fixture
def blas():
    """Get and set the number of BLAS threads; four while the test runs."""
    controls = threads._controls()
    if controls is None:
        pytest.skip("this NumPy's BLAS has no control of its threads")
    get, put = controls
    before = get()
    put(4)
    yield get
    put(before)


def product(aT, b, seen=None):
    out = nl.ndarray((aT.shape[1], b.shape[1]), nl.float32, buffer=nl.shared_hbm)
    ps = nl.ndarray(out.shape, nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=ps, stationary=nl.load(aT), moving=nl.load(b), accumulate=False)
    if seen is not None:
        seen()
    nl.store(out, nl.copy(ps))
    return out


def test_a_launch_uses_one_thread_and_gives_the_others_back(blas):
    a, b = RNG.standard_normal((64, 32), np.float32), RNG.standard_normal((64, 128), np.float32)
    during = []
    made = trnsim.simulate(product, lint="off")(a, b, lambda: during.append(blas()))
    within(made, rounded(a.T) @ b)
    assert (during, blas()) == ([1], 4)


def test_a_launch_that_fails_gives_the_threads_back(blas):
    def kernel(x):
        return x[0:100]

    with pytest.raises(OutOfBounds):
        trnsim.simulate(kernel)(np.ones((4, 4), np.float32))
    assert blas() == 4


@pytest.mark.parametrize("ranks", [False, True])
def test_cores_and_ranks_use_one_thread_each(blas, ranks):
    during = []

    def kernel(x):
        during.append(blas())
        return x

    x = np.ones((4, 4), np.float32)
    if ranks:
        trnsim.simulate_ranks(kernel, 2, lint="off")(x)
    else:
        trnsim.simulate(trnsim.jit(kernel)[2], lint="off")(x)
    assert (during, blas()) == ([1, 1], 4)


def test_independent_launches_run_on_threads_of_their_own(blas):
    operands = [
        (RNG.standard_normal((128, 64), np.float32), RNG.standard_normal((128, 512), np.float32)) for _ in range(24)
    ]
    run = trnsim.simulate(product)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda ab: run(*ab), operands))
    for (a, b), made in zip(operands, results, strict=True):
        within(made, rounded(a.T) @ b)
    assert blas() == 4
    assert threads._running == 0


@pytest.mark.parametrize("idle", [0, 2])
def test_launches_side_by_side_keep_their_order(monkeypatch, idle):
    monkeypatch.setattr(threads, "_idle", lambda: idle)
    at_once, most, lock, pair = 0, 0, threading.Lock(), threading.Barrier(max(1, idle), timeout=600)

    def launch(i):
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        if i < 4:
            pair.wait()
        with lock:
            at_once -= 1
        if i == 7:
            raise OutOfBounds("seven", rule="bounds")
        return i

    assert list(threads.side_by_side(launch, range(5))) == list(range(5))
    assert most == max(1, idle)
    with pytest.raises(OutOfBounds):
        list(threads.side_by_side(launch, range(5, 9)))


def test_one_idle_core_is_not_enough(monkeypatch):
    monkeypatch.setattr(threads.os, "cpu_count", lambda: 4)
    for load, idle in ((0.0, 4), (1.5, 2), (2.5, 1), (9.0, -5)):
        monkeypatch.setattr(threads.os, "getloadavg", lambda load=load: (load, 0, 0))
        assert threads._idle() == idle


def test_torch_uses_one_thread_around_a_simulated_launch():
    import torch

    import trnsci
    from trnsci.kernel_launcher import launcher, using

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with using(launcher("simulator")), using(launcher("simulator")):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
        with trnsci.backend("pytorch"):
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
