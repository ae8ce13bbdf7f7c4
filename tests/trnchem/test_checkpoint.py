"""Interrupted runs: finished pairs are kept, never computed twice, and never mixed with another calculation's."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

import trnchem.dfmp2
from trnchem import dfmp2
from trnsci import ArgumentError, CapacityError


class Stopped(Exception):
    """The user's patience, at an end."""


def stop_after(pairs, told=None):
    def progress(now):
        if told is not None:
            told.append(now)
        if now.stage == "pairs" and now.done >= pairs:
            raise Stopped

    return progress


@pytest.fixture
def half(field, tmp_path):
    """A checkpoint of an interrupted calculation of benzene."""
    path = tmp_path / "benzene.h5"
    with pytest.raises(Stopped):
        dfmp2(field("benzene"), checkpoint=path, progress=stop_after(100))
    return path


def done_in(path):
    with h5py.File(path, "r") as file:
        return int(file["done"][()].sum())


def test_an_interrupted_run_goes_on_where_it_was(field, reference, half, monkeypatch):
    finished = done_in(half)
    assert 100 <= finished < 231
    from trnchem import pairs

    computed = []
    honest = pairs.Workspace.energies

    def counting(self, one, others, i, j, precision):
        computed.append(len(others))
        return honest(self, one, others, i, j, precision)

    monkeypatch.setattr(pairs.Workspace, "energies", counting)
    found = dfmp2(field("benzene"), checkpoint=half)
    assert found.resumed == finished
    assert sum(computed) == 231 - finished
    assert abs(found.e_corr - reference("benzene")[0]) <= 1e-9
    assert found.e_corr == pytest.approx(dfmp2(field("benzene")).e_corr, abs=1e-13)


def test_a_finished_checkpoint_needs_no_integrals(field, half):
    first = dfmp2(field("benzene"), checkpoint=half)
    told = []
    again = dfmp2(field("benzene"), checkpoint=half, progress=told.append, pairs=True)
    assert {now.stage for now in told} == {"pairs"}
    assert again.resumed == 231
    assert again.e_corr == first.e_corr
    assert float(sum(part.sum() for part in again.pairs)) == pytest.approx(first.e_corr, abs=1e-13)
    assert "fitted already" in str(again.metric)


def test_killed_without_warning_the_pairs_written_are_there(tmp_path):
    path = tmp_path / "killed.h5"
    program = textwrap.dedent("""
        import sys, time, trnchem
        module = sys.modules["trnchem.stages"]
        module.CHECKPOINT_EVERY = 0.0
        def slowly(now):
            if now.stage == "pairs" and now.done:
                print(now.done, flush=True)
                time.sleep(0.05)
        trnchem.dfmp2("methane", basis="sto-3g", checkpoint=sys.argv[1], progress=slowly)
    """)
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True) as child:
        told = int(child.stdout.readline())
        deadline = time.monotonic() + 60
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        child.send_signal(signal.SIGKILL)
    assert done_in(path) >= told > 0
    found = dfmp2("methane", basis="sto-3g", checkpoint=path)
    assert found.resumed >= told
    assert found.e_corr == pytest.approx(dfmp2("methane", basis="sto-3g").e_corr, abs=1e-10)


def test_orbitals_come_from_the_file_because_degenerate_ones_may_rotate(field, half):
    import copy

    turned = copy.copy(field("benzene"))
    C = turned.mo_coeff.copy()
    energies = turned.mo_energy[:21]
    pair = next(k for k in range(20) if abs(energies[k] - energies[k + 1]) < 1e-8 and k > 5)
    c, s = np.cos(0.7), np.sin(0.7)
    C[:, [pair, pair + 1]] = C[:, [pair, pair + 1]] @ np.array([[c, -s], [s, c]])
    turned.mo_coeff = C
    whole = dfmp2(field("benzene")).e_corr
    assert dfmp2(turned).e_corr == pytest.approx(whole, abs=1e-9)
    assert dfmp2(turned, checkpoint=half).e_corr == pytest.approx(whole, abs=1e-9)


@pytest.mark.parametrize("position", [0.1, 0.5, 0.9, "cut", "empty", "text"])
def test_a_damaged_checkpoint_is_refused(field, half, position):
    data = bytearray(half.read_bytes())
    if position == "cut":
        data = data[: len(data) // 2]
    elif position == "empty":
        data = bytearray()
    elif position == "text":
        data = bytearray(b"not a checkpoint at all\n" * 40)
    else:
        with h5py.File(half, "r+") as file:
            values = file["opposite"]
            row = int(position * len(values))
            values[row, -1] = values[row, -1] + 1e-12
        data = None
    if data is not None:
        half.write_bytes(data)
    before = half.read_bytes()
    with pytest.raises(ArgumentError) as caught:
        dfmp2(field("benzene"), checkpoint=half)
    assert caught.value.argument == f"checkpoint {half}"
    assert "damaged" in str(caught.value)
    assert "delete this one to start again" in str(caught.value)
    assert half.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"frozen": "core"}, "its frozen is []"),
        ({"precision": "fp32"}, "its precision is fp64"),
        ({"auxbasis": "cc-pvdz-ri"}, "its auxbasis is 558 functions"),
    ],
    ids=str,
)
def test_a_checkpoint_of_another_calculation_is_refused(field, half, options, sentence):
    with pytest.raises(ArgumentError) as caught:
        dfmp2(field("benzene"), checkpoint=half, **options)
    assert "of another calculation" in str(caught.value)
    assert sentence in str(caught.value)


def test_a_checkpoint_of_another_molecule_is_refused_and_left_alone(water, half):
    before = half.read_bytes()
    with pytest.raises(ArgumentError) as caught:
        dfmp2(water, checkpoint=half)
    assert caught.value.got == "of another calculation: its molecule is C6H6 charge 0"
    assert caught.value.expected == "molecule OH2 charge 0"
    assert half.read_bytes() == before


def test_a_checkpoint_of_another_geometry_is_refused(tmp_path):
    for shift, name in ((0.0, "one"), (0.01, "two")):
        lines = ["2", name, "H 0 0 0", f"F 0 0 {0.92 + shift}"]
        (tmp_path / f"{name}.xyz").write_text("\n".join(lines))
    path = tmp_path / "pairs.h5"
    dfmp2(tmp_path / "one.xyz", basis="sto-3g", checkpoint=path)
    with pytest.raises(ArgumentError, match="of another calculation: its geometry is"):
        dfmp2(tmp_path / "two.xyz", basis="sto-3g", checkpoint=path)


def test_nothing_is_unpickled(half, field):
    pickled = np.void(b"cos\nsystem\n(S'touch hacked'\ntR.")
    with h5py.File(half, "r+") as file:
        del file["done"]
        file["done"] = pickled
    with pytest.raises(ArgumentError, match="damaged"):
        dfmp2(field("benzene"), checkpoint=half)
    source = Path(trnchem.__file__).parent
    assert not [path.name for path in source.glob("*.py") if "pickle" in path.read_text().replace("unpickled", "")]


def test_a_file_of_another_format_is_refused(field, tmp_path):
    path = tmp_path / "other.h5"
    with h5py.File(path, "w") as file:
        file.attrs["format"] = "trnchem.dfmp2 0"
    with pytest.raises(ArgumentError) as caught:
        dfmp2(field("benzene"), checkpoint=path)
    assert caught.value.got == "of format 'trnchem.dfmp2 0'"
    assert caught.value.expected == "'trnchem.dfmp2 1'"


def test_a_folder_or_a_missing_one_is_no_checkpoint(water, tmp_path):
    for path in (tmp_path, tmp_path / "nowhere" / "x.h5"):
        with pytest.raises(ArgumentError) as caught:
            dfmp2(water, checkpoint=path)
        assert caught.value.argument == "checkpoint"


FULL = """
import resource, sys, trnchem, trnsci
module = sys.modules["trnchem.stages"]
module.CHECKPOINT_EVERY = 0.0
field = trnchem.mean_field("methane", basis="sto-3g")

def fill(now):
    # from here on the operating system refuses files of more than a kilobyte, as a full disk would
    if now.stage == "pairs" and now.done >= 6:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))

try:
    trnchem.dfmp2(field, checkpoint=sys.argv[1], progress=fill)
except trnsci.CapacityError as error:
    print(error)
"""


def test_a_full_disk_leaves_the_last_checkpoint_intact(tmp_path):
    path = tmp_path / "full.h5"
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"disk of {tmp_path}" in done.stdout
    assert "The pairs finished before are safe" in done.stdout
    assert "free some space and run again" in done.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["full.h5"]
    kept = done_in(path)
    assert kept > 0
    found = dfmp2("methane", basis="sto-3g", checkpoint=path)
    assert found.resumed == kept
    assert found.e_corr == pytest.approx(dfmp2("methane", basis="sto-3g").e_corr, abs=1e-10)


def test_a_full_scratch_disk_is_named(field, tmp_path, monkeypatch):
    from trnchem import store

    def refuse(self, first, block):
        with store.full_disk(self._file):
            raise OSError(28, "No space left on device")

    with pytest.raises(CapacityError) as small:
        dfmp2(field("benzene"), memory=1)
    monkeypatch.setattr(store.DiskStore, "put_columns", refuse)
    with pytest.raises(CapacityError) as caught:
        dfmp2(field("benzene"), memory=small.value.required, scratch=tmp_path)
    assert "Writing B.h5 failed" in str(caught.value)
    assert "No space left on device" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_other_errors_of_the_operating_system_pass_through(tmp_path):
    from trnchem.store import full_disk

    with pytest.raises(PermissionError), full_disk(tmp_path / "x"):
        raise PermissionError(13, "Permission denied")
