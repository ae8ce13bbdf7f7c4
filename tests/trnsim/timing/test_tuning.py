"""``trnsim tune`` for a kernel of one's own."""

import json
import subprocess
import sys

import pytest

import trnsim
import trnsim.isa as nisa
import trnsim.language as nl
from tests.trnsim.timing.kernels import shaped
from trnsim.errors import WrongArgument
from trnsim.timing.tuning import TIE, tune

SOURCE = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def scaled(x, width=512):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for c in range(0, x.shape[1], width):
        t = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[:, c : c + width])
        nisa.activation(dst=t, op=nl.exp, data=t)
        nisa.dma_copy(dst=y[:, c : c + width], src=t)
    return y
"""


@trnsim.choices(width=(128, 512, 2048, 100_000), copies=(1, 2))
@trnsim.jit
def scaled(x, width=512, copies=1):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for c in range(0, x.shape[1], width):
        t = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[:, c : c + width])
        for _ in range(copies):
            nisa.activation(dst=t, op=nl.exp, data=t)
        nisa.dma_copy(dst=y[:, c : c + width], src=t)
    return y


def predicted(**choices):
    return trnsim.profile(scaled, target="trn2", numerics=False)(shaped(128, 8192), **choices)[1].total_s


def test_the_best_is_that_of_predicting_every_candidate():
    found = tune(scaled, [shaped(128, 8192)], target="trn2")
    times = {(w, c): predicted(width=w, copies=c) for w in (128, 512, 2048) for c in (1, 2)}
    best = min(times, key=times.get)
    assert found.trials[0].choices == dict(zip(("width", "copies"), best, strict=True))
    assert found.trials[0].total_s == pytest.approx(times[best])
    assert [t.total_s for t in found.trials] == sorted(t.total_s for t in found.trials)
    assert all(t.low_s < t.total_s < t.high_s for t in found.trials)
    assert len(found.trials) + found.pruned == 6
    assert [candidate["width"] for candidate, _ in found.refused] == [100_000] * 2
    assert "bytes per partition" in found.refused[0][1]


def test_times_that_are_not_told_apart_are_named_as_ties():
    found = tune(scaled, [shaped(128, 8192)], free={"copies": (1, 1, 2), "width": (512,)}, target="trn2")
    near = [t for t in found.trials if t.total_s <= (1 + TIE) * found.trials[0].total_s]
    assert found.ties() == near
    page = str(found)
    assert page.count("tie") == (len(near) if len(near) > 1 else 0)
    assert "default" in page
    assert not any(line.strip().startswith(",") or ",  " in line for line in page.splitlines())


def test_what_is_not_free_is_refused():
    with pytest.raises(WrongArgument, match="leaves no argument depth free"):
        tune(scaled, [shaped(128, 8192)], free={"depth": (1, 2)})
    with pytest.raises(WrongArgument, match="leaves nothing free"):
        tune(trnsim.jit(lambda x: x), [shaped(128, 8192)])
    with pytest.raises(WrongArgument, match="runs with none of 3 candidates"):
        tune(scaled, [shaped(128, 100)], free={"width": (1000, 2000)}, target="trn2")
    with pytest.raises(WrongArgument, match="no keyword argument x"):
        trnsim.choices(x=(1, 2))(scaled)


def command(folder, *arguments):
    line = [sys.executable, "-m", "trnsim", *arguments]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)


def test_a_file_anywhere_is_tuned(tmp_path):
    (tmp_path / "mine.py").write_text(SOURCE)
    done = command(
        tmp_path, "tune", "mine.py", "--shapes", "128x8192", "--choose", "width=128,2048", "--json", "best.json"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("scaled, trn2: 3 candidates predicted, 0 refused")
    trials = json.loads((tmp_path / "best.json").read_text())["trials"]
    assert trials[0]["choices"] == {"width": 2048}


def test_a_file_without_a_name_has_one_kernel_or_they_are_listed(tmp_path):
    (tmp_path / "mine.py").write_text(SOURCE + SOURCE.replace("scaled", "again"))
    done = command(tmp_path, "profile", "mine.py", "--shapes", "128x8192")
    assert done.returncode == 1
    assert "mine.py has 2 kernels: scaled, again" in done.stderr
    assert "mine.py:scaled" in done.stderr
