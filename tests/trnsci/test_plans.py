import os
import pickle
import subprocess
import sys
import threading

import pytest
import torch

import trnblas
import trnsci
from tests.together import together
from trnsci import Cost, Plan, Step
from trnsci.caches import CACHE, PlanCache, kept
from trnsci.plans import quantity, seconds
from trnsci.specs import TensorSpec


def step(size, backend="pytorch", reason="because"):
    implementation = "pytorch" if backend == "pytorch" else "nki"
    call = (TensorSpec((size,), torch.float32),)
    cost = Cost(size, 4, 8)
    return Step(op="f", call=call, cost=cost, backend=backend, implementation=implementation, reason=reason)


def plan(*steps):
    return Plan(op="g", steps=steps, peak_bytes=12)


@pytest.fixture(autouse=True)
def _empty_cache():
    trnsci.clear_plans()


def test_totals():
    both = plan(step(3), step(5))
    assert (both.flops, both.bytes_read, both.bytes_written) == (8, 8, 16)
    assert (both.backend, both.reason) == ("pytorch", "because")
    assert plan(step(1), step(1, "simulator", "asked")).backend == "mixed"
    assert plan(step(1), step(1, "simulator", "asked")).reason == "because; asked"


def test_plans_are_equal_when_they_would_do_the_same():
    assert plan(step(3)) == plan(step(3, reason="another"))
    assert plan(step(3)) != plan(step(4))
    assert plan(step(3)) != plan(step(3, "simulator"))
    assert hash(plan(step(3))) == hash(plan(step(3, reason="another")))


def test_plans_pickle_and_cannot_be_changed():
    made = trnsci.plan(trnblas.gemm, 1.0, torch.ones(2, 3), torch.ones(3, 4).T, trans_b=True)
    assert pickle.loads(pickle.dumps(made)) == made
    with pytest.raises(AttributeError):
        made.op = "other"


def test_the_cache_is_listed_and_cleared():
    a = torch.ones(2, 2)
    first = trnsci.plan(trnblas.gemm, 1.0, a, a)
    assert trnsci.plan(trnblas.gemm, 1.0, a + 1, a) is first
    assert trnsci.plan(trnblas.gemm, 1.0, a, a.mT) is not first
    assert first in trnsci.plans()
    trnsci.clear_plans()
    assert trnsci.plans() == ()
    assert CACHE.nbytes == 0


def test_the_cache_is_bounded_by_count_least_recently_used_first():
    cache = PlanCache(max_count=2)
    for key in ("a", "b"):
        cache.get(key, lambda: plan(step(1)))
    cache.get("a", pytest.fail)
    cache.get("c", lambda: plan(step(2)))
    cache.get("a", pytest.fail)
    assert len(cache.list()) == 2
    rebuilt = cache.get("b", lambda: plan(step(3)))
    assert rebuilt == plan(step(3))


def test_the_cache_is_bounded_by_bytes():
    size = plan(step(1)).nbytes
    cache = PlanCache(max_bytes=3 * size)
    for key in range(10):
        cache.get(key, lambda: plan(step(1)))
    assert len(cache.list()) == 3
    assert cache.nbytes == 3 * size


def test_tables_count_with_the_plans(monkeypatch):
    made = []

    @kept
    def table(n):
        made.append(n)
        return torch.zeros(n), (torch.zeros(n), "name")

    monkeypatch.setenv("TRNSCI_PLAN_CACHE_BYTES", "100000")
    trnsci.clear_plans()
    for n in range(100, 5000, 100):
        assert table(n)[0] is table(n)[0]
        assert CACHE.nbytes <= 100_000
    assert trnsci.plans() == ()
    assert made == list(range(100, 5000, 100))
    monkeypatch.setenv("TRNSCI_PLAN_CACHE_BYTES", "0")
    assert len(table(7)[0]) == 7
    assert CACHE.nbytes == 0


GROWING = """
import ctypes, gc, torch, trnfft, trnsci
from pathlib import Path

def resident():
    gc.collect()
    # what the allocator keeps of memory that was freed is not ours
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

with trnsci.backend("simulator"):
    for n in range(60, 80):
        trnfft.fft(torch.ones(n, dtype=torch.complex64))
    before = resident()
    for n in range(80, 580):
        trnfft.fft(torch.ones(n, dtype=torch.complex64))
print(resident() - before)
"""


@pytest.mark.slow
def test_five_hundred_lengths_stay_within_the_stated_bytes():
    limit = 32 << 20
    environment = {**os.environ, "TRNSCI_PLAN_CACHE_BYTES": str(limit), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", GROWING]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
    assert int(done.stdout) <= limit


def test_the_bounds_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("TRNSCI_PLAN_CACHE_COUNT", "1")
    for n in (1, 2, 3):
        trnsci.plan(trnblas.gemm, 1.0, torch.ones(n, n), torch.ones(n, n))
    assert len(trnsci.plans()) == 1


def test_the_cache_is_safe_between_threads():
    cache = PlanCache(max_count=8)

    def work():
        for n in range(300):
            cache.get(n % 13, lambda: plan(step(1)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache.list()) == 8
    assert cache.nbytes == sum(p.nbytes for p in cache.list())


def test_peak_memory_counts_what_is_alive_together():
    def chain(x):
        y = trnblas.gemm(1.0, x, x)
        y = trnblas.gemm(1.0, y, x)
        return trnblas.gemm(1.0, y, x)

    def keep(x):
        return [trnblas.gemm(1.0, x, x) for _ in range(3)]

    x = torch.ones(16, 16)
    assert trnsci.plan(chain, x).peak_bytes == 3 * x.nbytes
    assert trnsci.plan(keep, x).peak_bytes == 4 * x.nbytes
    assert len(trnsci.plan(chain, x).steps) == 3


@together(
    ("text", "expected"),
    [
        (quantity(0, "B"), "0 B"),
        (quantity(999, "B"), "999 B"),
        (quantity(2048, "B"), "2.05 kB"),
        (quantity(4.294e9, "FLOP"), "4.29 GFLOP"),
        (quantity(3e15, "FLOP"), "3 PFLOP"),
        (seconds(2.5), "2.5 s"),
        (seconds(0.0169), "16.9 ms"),
        (seconds(568e-6), "568 us"),
        (seconds(3.2e-8), "32 ns"),
    ],
)
def test_figures(text, expected):
    assert text == expected
