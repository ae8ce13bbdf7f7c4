"""Interrupted runs: finished pairs are kept, never computed twice, and never mixed with another calculation's."""

import errno
import inspect
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

import trnchem.dfmp2
from benchmarks.ranks import Ranks
from tests.trnchem import checkpoint_files
from tests.trnchem.arguments import arguments
from tests.trnchem.checkpoint_files import done_in, load, opened, orbitals_of, row, write
from trnchem import MP2Options, checkpoint, dfmp2, files
from trnchem.accuracy import FP64
from trnsci import ArgumentError, CapacityError, backend


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
        dfmp2(field("benzene"), checkpoint=path, options=MP2Options(progress=stop_after(100)))
    return path


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
    assert abs(found.e_corr - reference("benzene")[0]) <= FP64
    assert found.e_corr == pytest.approx(dfmp2(field("benzene")).e_corr, abs=1e-13)


def test_a_finished_checkpoint_needs_no_integrals(field, half):
    first = dfmp2(field("benzene"), checkpoint=half)
    told = []
    again = dfmp2(field("benzene"), checkpoint=half, options=MP2Options(progress=told.append, pairs=True))
    assert {now.stage for now in told} == {"pairs"}
    assert again.resumed == 231
    assert again.e_corr == first.e_corr
    assert float(sum(part.sum() for part in again.pairs)) == pytest.approx(first.e_corr, abs=1e-13)
    assert "fitted already" in str(again.metric)


@pytest.mark.parametrize(
    "how", [signal.SIGTERM, *(pytest.param(how, marks=pytest.mark.slow) for how in (signal.SIGKILL, signal.SIGINT))]
)
def test_killed_or_told_to_end_the_pairs_finished_are_there(tmp_path, how):
    path = tmp_path / "killed.h5"
    program = textwrap.dedent("""
        import sys, time, trnchem
        def tell(now):
            if now.stage == "pairs" and now.done:
                print(now.done, flush=True)
                if now.done > 5:
                    time.sleep(600)
        trnchem.dfmp2("methane", checkpoint=sys.argv[1], options=trnchem.MP2Options(basis="sto-3g", progress=tell))
    """)
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        told = next(done for done in map(int, child.stdout) if done > 5)
        child.send_signal(how)
        assert child.stdout.read() == ""
    assert child.returncode == (143 if how == signal.SIGTERM else -how)
    assert done_in(path) >= told
    found = dfmp2("methane", checkpoint=path, options=MP2Options(basis="sto-3g"))
    assert found.resumed >= told
    assert found.e_corr == pytest.approx(dfmp2("methane", options=MP2Options(basis="sto-3g")).e_corr, abs=1e-10)


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
    assert dfmp2(turned).e_corr == pytest.approx(whole, abs=FP64)
    assert dfmp2(turned, checkpoint=half).e_corr == pytest.approx(whole, abs=FP64)


def test_what_is_written_is_read_again_to_the_bit(tmp_path):
    path = tmp_path / "pairs.ckpt"
    orbitals = write(path)
    kept, state = load(path)
    assert all(torch.equal(getattr(kept, n), getattr(orbitals, n)) for n in ("C_occ", "C_vir", "e_occ", "e_vir"))
    assert state.opposite[0].tolist() == [0.1, 1.1, 2.1, 3.1]
    assert state.same[1, 1:3].tolist() == [-11.1, -12.1]
    assert state.done_count == 6
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["pairs.ckpt"]


def test_every_bit_flip_and_every_truncation_is_refused(tmp_path):
    path = tmp_path / "pairs.ckpt"
    write(path)
    data, draw = path.read_bytes(), random.Random(3)
    damages = []
    # the name of the process that wrote it last may be anything
    holder = range(8 * checkpoint._HOLDER.start, 8 * checkpoint._HOLDER.stop)
    for bit in draw.sample([bit for bit in range(8 * len(data)) if bit not in holder], 370):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        damages.append(flipped)
    damages += [data[:size] for size in [*range(60), *draw.sample(range(len(data)), 40)]]
    damages += [data + b"\0", data * 2, b"", b"not a checkpoint at all\n" * 40, bytes(len(data)), draw.randbytes(5000)]
    for damaged in damages:
        path.write_bytes(damaged)
        with pytest.raises(ArgumentError) as caught:
            load(path)
        assert caught.value.argument == f"checkpoint {path}"
        assert "delete this one to start again" in str(caught.value)
        assert path.read_bytes() == damaged
    path.write_bytes(data)
    assert load(path)[1].done_count == 6


def test_a_slot_of_another_pair_or_another_file_is_damage(tmp_path):
    path = tmp_path / "pairs.ckpt"
    write(path)
    data = bytearray(path.read_bytes())
    start = len(data) - 16 * checkpoint.SLOT
    data[start + 15 * 32 :] = data[start : start + 32]
    path.write_bytes(data)
    with pytest.raises(ArgumentError, match="the checksum of pair 3, 3 is wrong"):
        load(path)


def test_a_damaged_checkpoint_is_refused_by_the_calculation(field, half):
    data = bytearray(half.read_bytes())
    data[len(data) // 2] ^= 4
    half.write_bytes(data)
    with pytest.raises(ArgumentError, match="damaged"):
        dfmp2(field("benzene"), checkpoint=half)
    assert half.read_bytes() == data


def test_a_second_writer_is_told_who_the_first_one_is(tmp_path):
    path = tmp_path / "pairs.ckpt"
    with opened(path) as file:
        slots = file.start(orbitals_of())
        with pytest.raises(ArgumentError) as caught:
            load(path)
        assert caught.value.got == f"in use by process {os.getpid()} on {socket.gethostname()}"
        slots.put(*row(0, 0, 4))
    assert load(path)[1].done_count == 4


def test_links_and_pipes_are_not_followed(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    write(real)
    before = real.read_bytes()
    link.symlink_to(real)
    with pytest.raises(ArgumentError, match="not a link"):
        opened(link)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ArgumentError, match="not a plain file"):
        load(tmp_path / "pipe")
    assert real.read_bytes() == before


class Faulty(files.Files):
    """Files on a disk that fails at a chosen operation, or whose machine loses power there.

    ``durable`` is what survives: contents of files as of their last sync, names as of the folder's.
    """

    def __init__(self, at, error=None):
        self.at, self.error, self.count, self.durable, self.synced = at, error, 0, {}, {}

    def _step(self):
        self.count += 1
        if self.count == self.at:
            raise OSError(self.error, os.strerror(self.error)) if self.error else KeyboardInterrupt

    def reserve(self, descriptor, size):
        self._step()
        super().reserve(descriptor, size)

    def write(self, descriptor, data, offset):
        # half of it may have been written when the fault comes, in whole sectors
        half = (offset + len(data) // 2) // 512 * 512 - offset
        super().write(descriptor, data[: max(0, half)], offset)
        self._step()
        super().write(descriptor, data, offset)

    def sync(self, descriptor):
        self._step()
        super().sync(descriptor)
        self.synced[os.fstat(descriptor).st_ino] = os.pread(descriptor, 1 << 20, 0)

    def publish(self, fresh, path):
        self._step()
        inode = fresh.stat().st_ino
        super().publish(fresh, path)
        self._step()
        self.durable[path] = inode

    def reboot(self, draw):
        """What a power cut leaves: of sectors not synchronised some, of names not synchronised none."""
        for path in {*self.durable, *(p for p in self.folder.iterdir() if p.suffix != ".partial")}:
            inode, now = self.durable.get(path), path.read_bytes() if path.exists() else b""
            path.unlink(missing_ok=True)
            if inode is None:
                continue
            image = bytearray(self.synced[inode])
            for start in range(0, len(image), 512):
                if draw.random() < 0.5:
                    image[start : start + 512] = now[start : start + 512]
            path.write_bytes(image)


def _writing(path, layer, monkeypatch):
    """Write rows one by one, each synchronised, until the fault; return how many rows were said to be safe."""
    layer.folder = path.parent
    monkeypatch.setattr(checkpoint, "FILES", layer)
    safe = 0
    try:
        orbitals = orbitals_of()
        with opened(path) as file:
            file.load(orbitals)
            slots = file.start(orbitals)
            for i in range(4):
                slots.put(*row(i, i, 4 - i))
                slots.sync()
                safe = i + 1
    except (KeyboardInterrupt, CapacityError, OSError):
        pass
    monkeypatch.setattr(checkpoint, "FILES", files.Files())
    return safe


@pytest.mark.parametrize("fault", ["ENOSPC", "EIO", "power"])
def test_a_fault_at_any_operation_loses_nothing_that_was_safe(tmp_path, monkeypatch, fault):
    draw, tried = random.Random(5), 0
    for at in range(1, 20):
        for repeat in range(6 if fault == "power" else 1):
            path = tmp_path / f"{at}-{repeat}" / "pairs.ckpt"
            path.parent.mkdir()
            layer = Faulty(at, None if fault == "power" else getattr(errno, fault))
            safe = _writing(path, layer, monkeypatch)
            if fault == "power":
                layer.reboot(draw)
            found = load(path)
            done = 0 if found is None else found[1].done_count
            assert done >= sum(4 - i for i in range(safe))
            tried += layer.count >= at
            # and it goes on from there
            assert _writing(path, files.Files(), monkeypatch) == 4 if fault != "power" else True
            assert not list(path.parent.glob(".*.partial"))
    assert tried >= 10


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"frozen": "core"}, "its frozen is []"),
        ({"precision": "fp32"}, "its precision is fp64"),
        ({"screening": 1e-14}, "its screening is 1e-12"),
        ({"auxbasis": "cc-pvdz-ri"}, "its auxbasis is 558 functions"),
    ],
    ids=str,
)
def test_a_checkpoint_of_another_calculation_is_refused(field, half, options, sentence):
    with pytest.raises(ArgumentError) as caught:
        dfmp2(field("benzene"), **arguments(checkpoint=half, **options))
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
    dfmp2(tmp_path / "one.xyz", checkpoint=path, options=MP2Options(basis="sto-3g"))
    with pytest.raises(ArgumentError, match="of another calculation: its geometry is"):
        dfmp2(tmp_path / "two.xyz", checkpoint=path, options=MP2Options(basis="sto-3g"))


def test_nothing_is_unpickled():
    source = Path(trnchem.__file__).parent
    assert not [path.name for path in source.glob("*.py") if "pickle" in path.read_text().replace("pickled", "")]


def test_a_file_of_another_format_is_refused(tmp_path):
    path = tmp_path / "other"
    write(path)
    path.write_bytes(path.read_bytes().replace(b"dfmp2 4", b"dfmp2 3"))
    with pytest.raises(ArgumentError) as caught:
        load(path)
    older, newer = (f"trnchem.dfmp2 {number}\n".encode() for number in (3, 4))
    assert caught.value.got == f"damaged (it is of format {older!r}, and this version reads {newer!r})"
    # the format before this one was HDF5
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(2000))
    with pytest.raises(ArgumentError, match="not the file of a calculation"):
        load(path)


def test_a_folder_or_a_missing_one_is_no_checkpoint(water, tmp_path):
    for path in (tmp_path, tmp_path / "nowhere" / "x.h5"):
        with pytest.raises(ArgumentError) as caught:
            dfmp2(water, checkpoint=path)
        assert caught.value.argument == "checkpoint"


def _until_the_disk_is_full(path):
    def fill(now):
        # from here on the operating system refuses files of more than a kilobyte, as a full disk would
        if now.stage == "pairs" and now.done >= 6:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))

    with pytest.raises(CapacityError) as caught:
        dfmp2("methane", checkpoint=path, options=MP2Options(basis="sto-3g", progress=fill))
    return str(caught.value)


def _on_a_full_disk(folder):
    """Return what calculations say for which there is no room at all, and how many pairs one of them goes on from."""
    water, said = {"mf": "water", "basis": "sto-3g"}, []
    with pytest.raises(CapacityError) as small:
        dfmp2(**arguments(**water, memory=1))
    dfmp2(**arguments(**water, checkpoint=folder / "old"))
    options = {"new": {"checkpoint": folder / "new"}, "B": {"memory": small.value.required, "scratch": folder}}
    for room in (0, 100, 3000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        for name in options if room < 1000 else ["B"]:
            with pytest.raises(CapacityError) as caught:
                dfmp2(**arguments(**water, **options[name]))
            said.append(f"Writing {name}" in str(caught.value))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    return said, dfmp2(**arguments(**water, checkpoint=folder / "old")).resumed


@pytest.mark.usefixtures("ranks")
def test_a_full_disk_is_named_wherever_it_is_met_and_holds_no_lock(tmp_path):
    alone = Ranks(1)
    try:
        ((said, resumed),) = alone.run(_on_a_full_disk, tmp_path)
    finally:
        alone.close()
    assert said == [True] * 5
    assert resumed == 15
    assert [p.name for p in tmp_path.iterdir()] == ["old"]
    assert dfmp2("water", checkpoint=tmp_path / "new", options=MP2Options(basis="sto-3g")).resumed == 0


@pytest.mark.usefixtures("ranks")
def test_a_full_disk_leaves_the_last_checkpoint_intact(tmp_path):
    path = tmp_path / "full.h5"
    alone = Ranks(1)
    try:
        (said,) = alone.run(_until_the_disk_is_full, path)
    finally:
        alone.close()
    assert "largest file of this process (ulimit -f)" in said
    assert "bytes are needed and 1024 are available" in said
    assert "The pairs finished before are safe" in said
    assert "free some space and run again" in said
    assert [p.name for p in tmp_path.iterdir()] == ["full.h5"]
    kept = done_in(path)
    assert kept > 0
    found = dfmp2("methane", checkpoint=path, options=MP2Options(basis="sto-3g"))
    assert found.resumed == kept
    assert found.e_corr == pytest.approx(dfmp2("methane", options=MP2Options(basis="sto-3g")).e_corr, abs=1e-10)


def test_a_full_scratch_disk_is_named(field, tmp_path, monkeypatch):
    from trnchem import store

    def refuse(self, first, block):
        with store.full_disk(self._file, self._bytes):
            raise OSError(28, "No space left on device")

    with pytest.raises(CapacityError) as small:
        dfmp2(field("benzene"), memory=1)
    monkeypatch.setattr(store.DiskStore, "put_columns", refuse)
    with pytest.raises(CapacityError) as caught:
        dfmp2(field("benzene"), memory=small.value.required, options=MP2Options(scratch=tmp_path))
    assert "Writing B.h5 failed" in str(caught.value)
    assert "No space left on device" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_other_errors_of_the_operating_system_pass_through(tmp_path):
    from trnchem.store import full_disk

    with pytest.raises(PermissionError), full_disk(tmp_path / "x", 1):
        raise PermissionError(13, "Permission denied")


KILLS = """
import os, random, signal, sys, time
import torch, trnchem
from tests_checkpoint import done_in

torch.set_num_threads(1)
path, kills, draw = sys.argv[1], int(sys.argv[2]), random.Random(11)
field = trnchem.mean_field("ammonia", basis="sto-3g")
expected = trnchem.dfmp2(field).e_corr
killed = lost = finished = 0
while killed < kills:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        def tell(now):
            if now.stage == "pairs":
                os.write(writer, bytes([now.done]))
                time.sleep(0.004)
        trnchem.dfmp2(field, checkpoint=path, options=trnchem.MP2Options(progress=tell))
        os._exit(0)
    os.close(writer)
    time.sleep(0.15 * draw.random())
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    told = max([0, *os.read(reader, 10000)])
    os.close(reader)
    done = done_in(path) if os.path.exists(path) else 0
    # what was told as finished is in the file; what is more in it was finished and not told yet
    assert done >= told, (done, told)
    killed += os.WIFSIGNALED(status)
    if not os.WIFSIGNALED(status):
        assert done == 15
    if done == 15:
        found = trnchem.dfmp2(field, checkpoint=path)
        assert abs(found.e_corr - expected) < 1e-12 and found.resumed == 15
        finished += 1
        os.unlink(path)
print(f"{killed} kills, {finished} calculations finished")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kills", [4, 200])
def test_random_kills_lose_at_most_the_pairs_in_flight(tmp_path, kills):
    helper = inspect.getsource(checkpoint_files)
    (tmp_path / "tests_checkpoint.py").write_text(helper)
    (tmp_path / "kills.py").write_text(KILLS)
    command = [sys.executable, str(tmp_path / "kills.py"), str(tmp_path / "pairs.ckpt"), str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280 + 5 * kills, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{kills} kills" in done.stdout


CONTENDING = """
import sys, time, trnchem
from trnsci import ArgumentError
field = trnchem.mean_field("methane", basis="sto-3g")
end, refused, ran = time.monotonic() + float(sys.argv[2]), 0, 0
while time.monotonic() < end:
    try:
        trnchem.dfmp2(field, checkpoint=sys.argv[1])
        ran += 1
    except ArgumentError as error:
        assert "in use by" in str(error), error
        refused += 1
print(refused, ran)
"""


@pytest.mark.slow
def test_two_writers_never_damage_the_file(tmp_path):
    path = tmp_path / "pairs.ckpt"
    command = [sys.executable, "-c", CONTENDING, str(path), "20"]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [child.communicate(timeout=200)[0].split() for child in children]
    assert all(child.returncode == 0 for child in children)
    assert sum(int(ran) for _, ran in said) > 10
    assert done_in(path) == 15


@pytest.mark.parametrize("name", ["pytorch", "simulator"])
def test_a_finished_calculation_builds_nothing_again(tmp_path, name):
    options = {"basis": "sto-3g", "method": "stochastic", "samples": 8, "same_spin": True, "precision": "fp32"}
    with backend(name):
        first, again = (dfmp2("water", **arguments(checkpoint=tmp_path / "points", **options)) for _ in range(2))
    assert (again.e_corr, again.e_os) == (first.e_corr, first.e_os)
