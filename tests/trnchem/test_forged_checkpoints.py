"""Checkpoints that somebody else wrote, with valid checksums: refused before anything is allocated or believed."""

import hashlib
import json
import math
import os
import re
import resource
import struct

import pytest
import torch

from tests.trnchem.checkpoint_files import load, opened, orbitals_of, write
from trnchem import MP2Options, checkpoint, dfmp2
from trnsci import ArgumentError, cache

DEEP = "[" * 100_000 + "]" * 100_000


def parts(path):
    """The facts in the head of a file, its orbitals and its slots."""
    with path.open("rb") as file:
        layout = checkpoint._read_head(file.fileno())
    data = path.read_bytes()
    facts = {name: getattr(layout, name) for name in ("identity", "token", "shapes", "digest", "slots")}
    return facts, data[layout.arrays : layout.end], data[layout.start :]


def forge(path, facts, orbitals, slots, size=None):
    """Write a file whose checksums are right, whatever it says; ``facts`` may be a text."""
    text = facts if isinstance(facts, bytes) else json.dumps(facts).encode()
    head = checkpoint._PREAMBLE.pack(checkpoint.FORMAT, b"", len(text)) + text + checkpoint._checksum(text)
    head = head.ljust(checkpoint._round_up(len(head)), b"\0") + orbitals
    path.write_bytes(head.ljust(checkpoint._round_up(len(head)), b"\0") + slots)
    path.chmod(0o600)
    if size is not None:
        os.truncate(path, size)


def slots_as(text, number):
    """The facts with a number of columns that JSON can spell and no file can have."""
    return re.sub(rb'"slots": \[(\d+), \d+\]', rb'"slots": [\1, ' + number.encode() + b"]", text)


# changes of the facts, by name: what a dict.update takes, or a function of the JSON text
HEADS = {
    "no facts": lambda text: b"{}",
    "not JSON": lambda text: b"nothing",
    "not UTF-8": lambda text: text.replace(b'"molecule": "', b'"molecule": "\xff\xfe'),
    "empty": lambda text: b"",
    "a list": lambda text: b"[]",
    "a number": lambda text: b"3",
    "null": lambda text: b"null",
    "deep": lambda text: text.replace(b'"molecule": "', b'"deep": ' + DEEP.encode() + b', "molecule": "'),
    "very deep": lambda text: DEEP.encode(),
    "5,000 digits": lambda text: slots_as(text, "9" * 5000),
    "NaN": lambda text: slots_as(text, "NaN"),
    "infinite": lambda text: slots_as(text, "1e999"),
    "twice": lambda text: text[:-1] + b', "slots": [0, 0]}',
    "one more": {"more": 1},
    "one more of the identity": lambda text: text.replace(b'"molecule": "', b'"more": "1", "molecule": "'),
    "a long molecule": lambda text: text.replace(b'"molecule": "', b'"molecule": "' + b"9" * 5000),
    "identity a list": {"identity": []},
    "identity of numbers": {"identity": {"molecule": 3}},
    "identity nested": {"identity": {"molecule": {"molecule": "H2O"}}},
    "token a number": {"token": 7},
    "token short": {"token": "00"},
    "token a terminal's": {"token": "\x1b[2J" + "0" * 28},
    "shapes a number": {"shapes": 4},
    "shapes of text": {"shapes": ["6", "4"]},
    "shapes too few": {"shapes": [[6, 4]]},
    "shapes flat": {"shapes": [6, 4, 1, 6]},
    "shapes negative": {"shapes": [[-6, -4], [1, 6, 2], [4], [1, 2]]},
    "shapes of floats": {"shapes": [[6.0, 4.0], [1, 6, 2], [4], [1, 2]]},
    "shapes true": {"shapes": [[6, 4], [True, 6, 2], [4], [1, 2]]},
    "shapes swapped": {"shapes": [[4, 6], [1, 6, 2], [4], [1, 2]]},
    "shapes huge": {"shapes": [[1 << 31, 1 << 31], [1, 6, 2], [4], [1, 2]]},
    "slots none": {"slots": [0, 0]},
    "slots empty": {"slots": []},
    "slots one": {"slots": [16]},
    "slots as many": {"slots": [2, 8]},
    "slots three": {"slots": [4, 4, 1]},
    "slots negative": {"slots": [-4, -4]},
    "slots text": {"slots": "44"},
    "slots null": {"slots": None},
    "slots huge": {"slots": [30000, 30000]},
    "slots beyond": {"slots": [1 << 62, 1 << 62]},
    "digest a number": {"digest": 4},
    "digest wrong": {"digest": "0" * 64},
}


def calculate(path):
    """Run a calculation with this checkpoint."""
    return dfmp2("water", checkpoint=path, options=MP2Options(basis="sto-3g"))


@pytest.mark.parametrize(
    ("make", "read"),
    [(write, load), pytest.param(calculate, calculate, marks=pytest.mark.slow)],
    ids=["file", "calculation"],
)
def test_every_forged_head_is_one_typed_error(tmp_path, make, read):
    path = tmp_path / "pairs.ckpt"
    make(path)
    facts, orbitals, slots = parts(path)
    for name, change in HEADS.items():
        text = json.dumps(facts).encode()
        changed = change(text) if callable(change) else {**facts, **change}
        # the file is as long as it says, where that is small
        forge(path, changed, orbitals, b"" if name == "slots none" else slots)
        before = path.read_bytes()
        with pytest.raises(ArgumentError) as caught:
            read(path)
        assert caught.value.argument == f"checkpoint {path}", name
        assert str(caught.value).isprintable(), name
        assert len(str(caught.value)) < 1000, name
        assert path.read_bytes() == before
    forge(path, facts, orbitals, slots)
    assert read(path) is not None
    assert len(HEADS) == 43


def test_a_sparse_file_of_the_size_it_claims_allocates_nothing(tmp_path):
    path = tmp_path / "pairs.ckpt"
    write(path)
    facts, orbitals, slots = parts(path)
    for claimed in ({"slots": [30000, 30000]}, {"shapes": [[60000, 60000], [1, 6, 2], [4], [1, 2]]}):
        text = json.dumps({**facts, **claimed}).encode()
        layout = checkpoint.Layout(**{**facts, **claimed}, arrays=checkpoint._round_up(128 + len(text) + 32))
        forge(path, text, orbitals, slots, layout.size)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(ArgumentError) as caught:
            load(path)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10_000
        assert "orbitals [[6, 4], [1, 6, 2], [4], [1, 2]] and slots [4, 4]" in caught.value.expected
    # a text that claims to be as long as the file
    forge(path, facts, orbitals, slots, 1 << 40)
    with path.open("r+b") as file:
        file.seek(120)
        file.write(struct.pack("<Q", (1 << 40) - 200))
    with pytest.raises(ArgumentError, match=f"its text has {(1 << 40) - 200} bytes, and the file {1 << 40}"):
        load(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_none_are_refused(tmp_path, value):
    path = tmp_path / "pairs.ckpt"
    write(path)
    facts, orbitals, slots = parts(path)
    bad = struct.pack("<d", value)
    for at in range(0, len(orbitals), 8):
        changed = orbitals[:at] + bad + orbitals[at + 8 :]
        forge(path, {**facts, "digest": hashlib.sha256(changed).hexdigest()}, changed, slots)
        with pytest.raises(ArgumentError, match="its orbitals are not finite"):
            load(path)
    for energies in ((value, 0.0), (0.0, value)):
        forge(path, facts, orbitals, checkpoint._slot(facts["token"], 0, 0, *energies) + slots[32:])
        with pytest.raises(ArgumentError, match=r"it has energies \(.*\) of pair 0, 0"):
            load(path)


@pytest.mark.parametrize("value", [1e300, 1e160, 1e10, 3.0])
def test_orbitals_that_are_not_orthonormal_are_refused(tmp_path, value):
    path = tmp_path / "pairs.ckpt"
    write(path)
    facts, orbitals, slots = parts(path)
    for at in range(0, 8 * (6 * 4 + 6 * 2), 8):
        changed = orbitals[:at] + struct.pack("<d", value) + orbitals[at + 8 :]
        forge(path, {**facts, "digest": hashlib.sha256(changed).hexdigest()}, changed, slots)
        with pytest.raises(ArgumentError, match="its orbitals are not orthonormal"):
            load(path)


def test_orbitals_of_a_mean_field_that_ran_again_are_kept(tmp_path):
    path = tmp_path / "pairs.ckpt"
    write(path)
    facts, orbitals, slots = parts(path)
    turned = orbitals_of()
    c, s = math.cos(0.3), math.sin(0.3)
    turned.C_occ[:, :2] = turned.C_occ[:, :2] @ torch.tensor([[c, s], [-s, c]], dtype=torch.float64)
    turned.C_vir[0, :, 1] *= -1
    changed = (
        b"".join(C.contiguous().numpy().tobytes() for C in (turned.C_occ, turned.C_vir))
        + orbitals[8 * (6 * 4 + 6 * 2) :]
    )
    forge(path, {**facts, "digest": hashlib.sha256(changed).hexdigest()}, changed, slots)
    assert torch.equal(load(path)[0].C_occ, turned.C_occ)


@pytest.mark.parametrize("value", [1e308, -1e308, 1e13])
def test_energies_that_no_pair_has_are_refused(tmp_path, value):
    path = tmp_path / "pairs.ckpt"
    write(path)
    facts, orbitals, slots = parts(path)
    forge(path, facts, orbitals, checkpoint._slot(facts["token"], 0, 0, value, 0.0) + slots[32:])
    with pytest.raises(ArgumentError, match=r"it has energies .* of pair 0, 0"):
        load(path)


def test_a_pair_below_the_diagonal_is_refused(tmp_path):
    path = tmp_path / "pairs.ckpt"
    write(path)
    facts, orbitals, slots = parts(path)
    forge(path, facts, orbitals, slots[: 8 * 32] + checkpoint._slot(facts["token"], 2, 0, 1.0, 1.0) + slots[9 * 32 :])
    with pytest.raises(ArgumentError, match=r"energies \(1.0, 1.0\) of pair 2, 0"):
        load(path)


def test_orbital_energies_of_another_state_are_refused(tmp_path):
    path = tmp_path / "pairs.ckpt"
    write(path)
    other = orbitals_of()
    other.e_occ[2] += 2e-4
    with opened(path) as file, pytest.raises(ArgumentError, match="of another state of this molecule"):
        file.load(other)


def test_a_file_that_others_may_have_written_is_refused_unread(tmp_path, monkeypatch):
    path = tmp_path / "pairs.ckpt"
    write(path)
    before = path.read_bytes()
    for mode in (0o660, 0o602, 0o666):
        path.chmod(mode)
        with pytest.raises(ArgumentError) as caught:
            load(path)
        assert caught.value.got == f"writable by others (mode {mode:o})"
        assert caught.value.expected == "writable by its owner alone"
        assert "Nothing was read from it" in str(caught.value)
    path.chmod(0o600)
    mine = os.geteuid()
    monkeypatch.setattr(cache.os, "geteuid", lambda: mine + 1)
    with pytest.raises(ArgumentError) as caught:
        load(path)
    assert (caught.value.got, path.read_bytes()) == (f"owned by user {mine}", before)


def test_a_file_that_shrinks_while_it_is_read_is_damage(tmp_path, monkeypatch):
    path = tmp_path / "pairs.ckpt"
    write(path)
    size, honest = path.stat().st_size, checkpoint._read_arrays

    def shrink(descriptor, layout):
        found = honest(descriptor, layout)
        os.truncate(path, size - 100)
        return found

    monkeypatch.setattr(checkpoint, "_read_arrays", shrink)
    with pytest.raises(ArgumentError, match="the checksum of pair 3, 0 is wrong"):
        load(path)
