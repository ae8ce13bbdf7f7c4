"""Memory: what is planned, what is refused, what is really used, and that blocks do not matter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import trnchem
from tests.together import together
from tests.trnchem.arguments import arguments
from trnchem import MP2Options, dfmp2
from trnchem.budget import MP2Plan, Sizes, make_plan, memory_bytes, overhead
from trnsci import ArgumentError, CapacityError

BENZENE = {"nao": 114, "nocc": 21, "nvir": 93, "naux": 558, "widest": 9}

# In a fresh process, so that what libraries allocate when first used counts too; modules are imported before. Pages of
# code are nobody's allocation, and how many a first call touches depends on the kernel and the build: all of them are
# brought in before, so that what grows is what is allocated. Holes that the mean field left are given back.
MEASURE = """
import ctypes, sys, torch, trnchem
from trnchem import dfmp2
torch.set_num_threads(int(sys.argv[1]))
memory, precision, method, charge, heap = sys.argv[2:7]
field = trnchem.mean_field("benzene", basis="cc-pvdz", charge=int(charge))

def status(name):
    line = next(line for line in open("/proc/self/status") if line.startswith(name))
    return int(line.split()[1]) * 1024

libc, MADV_POPULATE_READ = ctypes.CDLL(None), 22
for line in open("/proc/self/maps").readlines():
    ends, rights, *_, name = line.split()
    if name.startswith("/") and rights[0] == "r":
        start, stop = (int(end, 16) for end in ends.split("-"))
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), MADV_POPULATE_READ)
if heap == "fragmented":
    # 200 MB in pieces of 64 bytes to 4 MB, of which every third stays: no hole is larger than a few of them
    import random
    draw, pieces = random.Random(8), []
    while sum(map(len, pieces)) < 200e6:
        pieces.append(bytearray(int(64 * 2 ** draw.uniform(0, 16))))
    kept = pieces[::3]
    del pieces
libc.malloc_trim(0)
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
options = {"method": "stochastic", "same_spin": True} if method == "same spin" else {"method": method}
options = trnchem.MP2Options(precision=precision, samples=16, reuse=False, **options)
found = dfmp2(field, memory=memory, options=options)
print(status("VmHWM") - before, found.plan.memory, found.plan.peak_bytes, found.plan.place, found.e_os, sep=";")
"""


@pytest.mark.parametrize(
    ("threads", "memory", "precision", "method", "place", "charge"),
    [
        (1, "60 MB", "fp64", "pairs", "host memory", 0),
        (1, "42 MB", "fp64", "pairs", "disk", 0),
        (2, "46 MB", "fp64", "pairs", "disk", 0),
        (1, "42 MB", "fp32", "pairs", "host memory", 0),
        (1, "42 MB", "fp32", "stochastic", "host memory", 0),
        (1, "42 MB", "fp32", "same spin", "host memory", 0),
        (1, "75 MB", "fp64", "pairs", "host memory", 1),
        (1, "46 MB", "fp64", "pairs", "disk", 1),
        (1, "55 MB", "fp64", "laplace", "disk", 1),
        (1, "50 MB", "fp64", "same spin", "disk", 1),
    ],
)
@pytest.mark.parametrize("heap", ["fresh", "fragmented"])
# slow, because what the operating system counts depends on what else the machine is doing
@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is read from /proc")
def test_peak_memory_stays_within_the_budget(reference, threads, memory, precision, method, place, charge, heap):
    command = [sys.executable, "-c", MEASURE, str(threads), memory, precision, method, str(charge), heap]
    # PySCF's threads are OpenMP's, and a plan counts those that torch uses
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    used, budget, planned, where, e_os = done.stdout.strip().split(";")
    assert where == place
    assert int(planned) <= int(budget)
    assert int(used) <= int(budget)
    if method == "pairs" and not charge:
        assert abs(float(e_os) - reference("benzene")[1]) <= (1e-9 if precision == "fp64" else 2e-6)


@pytest.mark.grid(1)
@pytest.mark.parametrize("spare", [0, 300_000, 1_000_000])
@pytest.mark.parametrize("reuse", [True, False], ids=["reused", "computed"])
def test_the_energy_does_not_depend_on_blocks(field, spare, reuse):
    whole = dfmp2(field("glycine"), options=MP2Options(pairs=True, reuse=reuse))
    with pytest.raises(CapacityError) as caught:
        dfmp2(field("glycine"), memory=1, options=MP2Options(reuse=reuse))
    found = dfmp2(field("glycine"), memory=caught.value.required + spare, options=MP2Options(pairs=True, reuse=reuse))
    assert found.plan.place == "disk"
    assert found.plan.rows < found.plan.sizes.nocc
    # sums of a different length in another order: rounding, nothing more
    assert abs(found.e_corr - whole.e_corr) <= 1e-12
    for mine, theirs in zip(found.pairs, whole.pairs, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-13)


@pytest.mark.slow
def test_laplace_reads_rows_from_disk(field):
    with pytest.raises(CapacityError) as caught:
        dfmp2(field("benzene"), memory=1, options=MP2Options(method="stochastic", samples=4))
    small = dfmp2(field("benzene"), memory=caught.value.required, options=MP2Options(method="stochastic", samples=4))
    assert small.plan.place == "disk"
    assert small.e_os == pytest.approx(
        dfmp2(field("benzene"), options=MP2Options(method="stochastic", samples=4)).e_os, abs=1e-12
    )


def test_too_little_memory_names_a_budget_that_would_do(field):
    with pytest.raises(CapacityError) as caught:
        dfmp2(field("benzene"), memory="1 MB", options=MP2Options(reuse=False))
    error = caught.value
    assert error.where == "host memory for dfmp2"
    assert error.available == 1_000_000
    assert "even with B on disk" in str(error)
    hint = str(error).split("memory='")[1].split("'")[0]
    found = dfmp2(field("benzene"), memory=hint, options=MP2Options(reuse=False))
    assert found.plan.place == "disk"
    assert isinstance(error, MemoryError)


def test_every_stage_has_a_verdict_before_anything_starts(water):
    plan = trnchem.plan(water, memory="1 GB", options=trnchem.MP2Options(reuse=False))
    assert [stage.name for stage in plan.stages] == ["metric", "integrals", "fit", "pairs"]
    assert all(stage.fits and overhead() < stage.nbytes <= plan.memory for stage in plan.stages)
    text = str(plan)
    for word in ("metric", "trnsolver.cholesky", "fits", "Budget 1 GB", "no Neuron device"):
        assert word in text


def test_b_moves_to_disk_when_memory_shrinks():
    sizes = Sizes(**BENZENE, itemsize=8)
    held = 21 * 93 * 558 * 8
    places = {}
    for budget in range(overhead(), overhead() + 4 * held, held // 10):
        try:
            draft = MP2Plan(method="pairs", precision="fp64", sizes=sizes, memory=budget)
            places[budget] = make_plan(draft, fitted=True).place
        except CapacityError:
            places[budget] = "refused"
    assert list(dict.fromkeys(places.values())) == ["refused", "disk", "host memory"]


@together(
    ("given", "expected"),
    [(1000, 1000), ("2 GB", 2 * 10**9), ("1.5MB", 1_500_000), ("64 MiB", 64 << 20), ("100", 100), ("3k", 3000)],
)
def test_memory_is_read_in_bytes_and_units(given, expected):
    assert memory_bytes(given) == expected


@together("given", [0, -5, "much", "5 parsecs", True, "0 GB", 2.5])
def test_memory_that_is_none_is_refused(given):
    with pytest.raises(ArgumentError) as caught:
        memory_bytes(given)
    assert caught.value.argument == "memory"
    assert "'2 GB'" in str(caught.value)


def test_without_a_budget_the_free_memory_of_the_machine_counts():
    assert memory_bytes(None) > 10**8


def test_a_scratch_folder_that_is_not_there_is_named(field, tmp_path):
    with pytest.raises(CapacityError) as small:
        dfmp2(field("benzene"), memory=1)
    with pytest.raises(ArgumentError) as caught:
        dfmp2(field("benzene"), memory=small.value.required, options=MP2Options(scratch=tmp_path / "nowhere"))
    assert caught.value.argument == "scratch"
    assert "a folder that exists" in str(caught.value)


def test_a_scratch_disk_that_is_too_small_is_refused_before_the_start(field, tmp_path, monkeypatch):
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("trnchem.store.shutil.disk_usage", lambda path: usage(100, 99, 1))
    with pytest.raises(CapacityError) as small:
        dfmp2(field("benzene"), memory=1)
    told = []
    with pytest.raises(CapacityError) as caught:
        dfmp2(field("benzene"), memory=small.value.required, options=MP2Options(scratch=tmp_path, progress=told.append))
    assert caught.value.required == 21 * 93 * 558 * 8
    assert caught.value.available == 1
    assert "scratch=" in str(caught.value)
    assert told == []
    assert list(tmp_path.iterdir()) == []


def test_scratch_files_have_no_name_that_a_kill_could_leave(field, tmp_path):
    with pytest.raises(CapacityError) as small:
        dfmp2(field("benzene"), memory=1)
    options = {"memory": small.value.required, "scratch": tmp_path}
    seen = []

    def stop(progress):
        assert list(tmp_path.iterdir()) == []
        seen.extend(str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink())
        if progress.stage == "pairs" and progress.done > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dfmp2(field("benzene"), **arguments(progress=stop, **options))
    assert any(str(tmp_path) in name and name.endswith("(deleted)") for name in seen)
    assert list(tmp_path.iterdir()) == []
    dfmp2(field("benzene"), **arguments(**options))
    assert list(tmp_path.iterdir()) == []
