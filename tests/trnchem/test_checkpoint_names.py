"""Whose files a checkpoint touches: its own, whatever else lies in the folder and whatever it is called."""

import contextlib
import hashlib
import os
import stat
import tempfile
import unicodedata
from pathlib import Path

import pytest

from tests.trnchem.checkpoint_files import load, opened, orbitals_of, row, write
from trnchem import MP2Options, checkpoint, dfmp2, files
from trnsci import ArgumentError

# Names two calculations may have in one folder: one begins, ends or looks like the other, or like a temporary file.
NAMES = (
    *("water", "water.b", "water.b.new", "water.lock", "water.new", ".water", "water.", "Water", "water ", " water"),
    *("water.ckpt", "water.ckpt.new", "water.partial", ".water.partial", "[a]*?", "*", "?", "a", "-n", "--", "..."),
    *("water\n", "water\t", "water\x1b[2J", "café", unicodedata.normalize("NFD", "café"), "水", "x" * 255, "x" * 254),
    *("water%s", "{water}", "$HOME", "~", "#water#", "water~", "\udcff", ".trnchem", ".trnchem_", "trnchem-a"),
)


def partial(name, token="0" * 32):
    """The temporary name of a checkpoint's file."""
    return f".trnchem-{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}-{token}.partial"


def contents(folder):
    """Everything in a folder: kind, mode and bytes by name."""
    found = {}
    for path in sorted(folder.iterdir()):
        about = path.lstat()
        kind = stat.S_IFMT(about.st_mode)
        data = path.readlink() if path.is_symlink() else path.read_bytes() if stat.S_ISREG(kind) else None
        found[path.name] = (kind, about.st_mode, about.st_size if data is not None else 0, data)
    return found


def leave_remains(path):
    """Leave what a process leaves that dies while it writes the head of a file: half of it, and no lock."""
    descriptor, fresh = files.Files().create(path)
    os.write(descriptor, checkpoint.FORMAT[:7])
    os.close(descriptor)
    return fresh.name


def test_nothing_but_its_own_remains_is_deleted(tmp_path):
    path = tmp_path / "water"
    for name in (
        *("water.orbitals.new", "water.x7k2.new", "water.b.x7k2.new", "water.lock", ".water.new", "water.partial"),
        *(".trnchem-notes", ".trnchem-notes.partial", partial("water")[:-1], partial("water") + "~"),
        *(partial("water", "0" * 31), partial("water", "g" * 32), partial("water", "A" * 32), partial("water.b")),
    ):
        (tmp_path / name).write_text(f"precious: {name}")
    (tmp_path / partial("water", "d" * 32)).mkdir()
    (tmp_path / partial("water", "e" * 32)).symlink_to(tmp_path / "water.orbitals.new")
    os.mkfifo(tmp_path / partial("water", "f" * 32))
    before = contents(tmp_path)
    assert partial("water", leave_remains(path)[-40:-8]) in contents(tmp_path)
    write(path)
    assert load(path)[1].done_count == 6
    after = contents(tmp_path)
    after.pop("water")
    assert after == before


def test_every_two_names_are_two_files(tmp_path):
    for name in NAMES:
        write(tmp_path / name)
    for name in NAMES[:6]:
        leave_remains(tmp_path / f"{name}.dead")
    before = contents(tmp_path)
    assert len(before) == len(NAMES) + 6
    for name in NAMES:
        assert load(tmp_path / name)[1].done_count == 6
    assert contents(tmp_path) == before
    # and with all others in use
    held = [opened(tmp_path / name) for name in NAMES[1:]]
    for file in held:
        assert file.load(orbitals_of())[1].done_count == 6
    write(tmp_path / NAMES[0], rows=((2, 2, 2),))
    assert load(tmp_path / NAMES[0])[1].done_count == 8
    for file in held:
        file.slots.put(*row(3, 3, 1))
        file.__exit__(None, None, None)
    assert [load(tmp_path / name)[1].done_count for name in NAMES[1:]] == [7] * len(held)


def test_a_process_that_is_writing_keeps_its_temporary_file(tmp_path, monkeypatch):
    path, seen = tmp_path / "water", []

    class Second(files.Files):
        def publish(self, fresh, path):
            # another process comes, finds the temporary file, and makes a checkpoint of its own meanwhile
            monkeypatch.setattr(checkpoint, "FILES", files.Files())
            write(path)
            seen.append(fresh.exists())
            super().publish(fresh, path)

    monkeypatch.setattr(checkpoint, "FILES", Second())
    with opened(path) as file, pytest.raises(ArgumentError) as caught:
        file.start(orbitals_of())
    assert caught.value.got == "made by another process just now"
    assert "Run again to go on from it" in str(caught.value)
    assert seen == [True]
    assert load(path)[1].done_count == 6
    assert [each.name for each in tmp_path.iterdir()] == ["water"]


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "water"
    for without_links in (False, True):
        if without_links:
            monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError(1, "no links here")))
        with opened(path) as file:
            path.write_text("precious")
            with pytest.raises(ArgumentError, match="made by another process"):
                file.start(orbitals_of())
        assert path.read_text() == "precious"
        path.unlink()
        assert list(tmp_path.iterdir()) == []
    write(path)
    assert load(path)[1].done_count == 6


def test_directories_links_and_names_of_ours_are_no_checkpoints(tmp_path):
    write(tmp_path / "real")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    before = contents(tmp_path)
    names = ("folder", "link", "dangling", "loop", partial("real"), ".trnchem-", "a\0b", "folder/inside/x", "x" * 256)
    for name in names:
        with pytest.raises(ArgumentError) as caught:
            dfmp2("water", checkpoint=tmp_path / name, options=MP2Options(basis="sto-3g"))
        assert caught.value.argument == "checkpoint"
    assert "File name too long" in str(caught.value)
    assert contents(tmp_path) == before


@contextlib.contextmanager
def as_nobody():
    """Be a user without rights, where the tests run as root."""
    mine = os.geteuid()
    os.seteuid(mine or 65534)
    try:
        yield
    finally:
        os.seteuid(mine)


def refusal(path):
    """What a calculation says that cannot write its checkpoint."""
    try:
        write(path)
    except ArgumentError as error:
        return error.argument, error.got, error.hint
    return None


def test_folders_and_files_that_this_user_cannot_write_are_refused():
    got = "not to be written: Permission denied", "Name a file in another folder"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "old").write_bytes(b"precious")
        (folder / "old").chmod(0o444)
        folder.chmod(0o555)
        with as_nobody():
            for name in ("new", "old"):
                assert refusal(folder / name) == (f"checkpoint {folder / name}", *got)
        folder.chmod(0o700)
        assert contents(folder).keys() == {"old"}
        if os.geteuid() == 0:
            with as_nobody():
                assert refusal(folder / "x") == ("checkpoint", folder / "x", "")
