"""SIGKILL at a random byte of a write, and file systems that are really full, read-only or without room for names."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.trnchem.checkpoint_files import NOCC, load, opened, orbitals_of, row
from trnsci import ArgumentError

ROOT = Path(__file__).parents[2]


KILLS = """
import os, random, signal, sys
from pathlib import Path
from tests.trnchem.checkpoint_files import NOCC, load, opened, orbitals_of, row
from trnchem import checkpoint, files


class Mortal(files.Files):
    # killed when it has written so many bytes, in the middle of a call

    def __init__(self, at):
        self.left = at

    def write(self, descriptor, data, offset):
        super().write(descriptor, data[: self.left], offset)
        self.left -= len(data)
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


def write_until_killed(path, at, told):
    # fork a process that goes on with the calculation; return its status and the rows it said were safe
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        checkpoint.FILES, orbitals = Mortal(at), orbitals_of()
        with opened(path) as file:
            found = file.load(orbitals)
            done = found[1].done if found else None
            slots = file.start(orbitals)
            for i in range(NOCC):
                if done is None or not done[i, i:].all():
                    slots.put(*row(i, i, NOCC - i))
                os.write(writer, bytes([i + 1]))
        os._exit(0)
    os.close(writer)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    safe = max([told, *os.read(reader, 100)])
    os.close(reader)
    return status, safe


path, kills, draw = Path(sys.argv[1]), int(sys.argv[2]), random.Random(41)
arrays = [getattr(orbitals_of(), name) for name in checkpoint.ARRAYS]
head = len(checkpoint._pack({"molecule": "H2O"}, arrays, [NOCC, NOCC])[0])
killed = torn = finished = safe = 0
while killed < kills:
    # half of the kills fall into the head of a new file, or among the slots of one that is there
    at = draw.randrange(0, head if draw.random() < 0.5 else 320 if path.exists() else head + 320)
    status, safe = write_until_killed(path, at, safe)
    assert status in (0, -signal.SIGKILL), status
    killed += status != 0
    found = load(path)
    done = 0 if found is None else found[1].done_count
    assert done >= sum(NOCC - i for i in range(safe)), (done, safe)
    for i, j in found[1].done.nonzero().tolist() if found else ():
        assert found[1].opposite[i, j].item() == row(i, j, 1)[2][0].item()
    left = [each.name for each in path.parent.iterdir()]
    assert left == ([path.name] if found is not None else []), left
    if done == 10:
        path.unlink()
        finished, safe = finished + 1, 0
print(f"{killed} kills, {finished} calculations finished")
"""


@pytest.mark.slow
def test_a_kill_at_any_byte_loses_nothing_that_was_said_to_be_safe(tmp_path):
    command = [sys.executable, "-c", KILLS, str(tmp_path / "pairs.ckpt"), "500"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("500 kills")


def leave_half_a_slot(path, orderly):
    """Write a file whose last slot has twelve bytes, by a process that ended by itself or not."""
    try:
        with opened(path) as file:
            slots = file.start(orbitals_of())
            for i in range(NOCC):
                slots.put(*row(i, i, NOCC - i))
            if not orderly:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    with path.open("r+b") as file:
        file.seek(-20, os.SEEK_END)
        file.write(bytes(20))


def test_a_half_written_slot_is_computed_again_after_a_kill_and_damage_otherwise(tmp_path):
    leave_half_a_slot(tmp_path / "killed", orderly=False)
    for _ in range(2):
        assert load(tmp_path / "killed")[1].done_count == 9
    assert (tmp_path / "killed").read_bytes()[-32:] == bytes(32)
    leave_half_a_slot(tmp_path / "ended", orderly=True)
    with pytest.raises(ArgumentError, match="the checksum of pair 3, 3 is wrong"):
        load(tmp_path / "ended")


INSIDE = """
import os, subprocess, sys
from pathlib import Path
folder = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", sys.argv[2], "tmpfs", str(folder)], check=True)
from trnchem import MP2Options, dfmp2
from trnsci import ArgumentError, CapacityError
def tried(**options):
    try:
        return dfmp2("water", **options, options=MP2Options(basis="sto-3g")).resumed
    except (ArgumentError, CapacityError) as error:
        return str(error)
"""


def in_a_file_system(tmp_path, options, program):
    """Run a program in namespaces of its own, where ``tmp_path`` is a small file system; return what it printed."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        pytest.skip("this machine lets nobody mount a file system of their own (user namespaces are off)")
    text = INSIDE + textwrap.dedent(program)
    command = ["unshare", "-rm", sys.executable, "-c", text, str(tmp_path), options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_full_file_system_gives_true_numbers_and_keeps_what_is_there(tmp_path):
    said = in_a_file_system(
        tmp_path,
        "size=8k",
        """
        print(tried(checkpoint=folder / "old"))
        size = (folder / "old").stat().st_size
        (folder / "filler").write_bytes(bytes(4096))
        print(size, os.statvfs(folder).f_bavail)
        print(tried(checkpoint=folder / "new"))
        print(tried(checkpoint=folder / "old"))
        print(sorted(each.name for each in folder.iterdir()))
        """,
    )
    assert said[0] == "0"
    size, free = map(int, said[1].split())
    assert free == 0
    assert said[2].startswith(f"disk of {tmp_path}: {size} bytes are needed and 0 are available. Writing new failed")
    assert "No space left on device" in said[2]
    assert said[3] == "15"
    assert said[4] == "['filler', 'old']"


@pytest.mark.slow
def test_a_file_system_without_inodes_says_so(tmp_path):
    said = in_a_file_system(
        tmp_path,
        "size=1m,nr_inodes=2",
        """
        (folder / "filler").write_bytes(b"")
        print(tried(checkpoint=folder / "new"))
        print(sorted(each.name for each in folder.iterdir()))
        """,
    )
    assert said[0].startswith(f"new files on the disk of {tmp_path}: 1 files are needed and 0 are available.")
    assert said[1] == "['filler']"


@pytest.mark.slow
def test_a_read_only_file_system_is_named_before_anything_is_computed(tmp_path):
    said = in_a_file_system(
        tmp_path,
        "size=1m",
        """
        print(tried(checkpoint=folder / "old"))
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        print(tried(checkpoint=folder / "new"))
        print(tried(checkpoint=folder / "old"))
        """,
    )
    assert said[0] == "0"
    for line in said[1:]:
        assert "is 'not to be written: Read-only file system', expected a file this user may write" in line
