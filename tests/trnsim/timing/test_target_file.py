"""Constants of one machine as a file: read, refused, and used by a process that is told of it."""

import json
import subprocess
import sys

import pytest

from tests.together import together
from trnsim import target_file
from trnsim.errors import WrongArgument
from trnsim.targets import TARGETS, target_named

WHOLE = {
    "format": target_file.FORMAT,
    "target": "trn2",
    "constants": {"dma_rate": {"value": 20.0, "was": 27.2}, "pe_floor": 32.0},
    "intervals": {"vector": [0.9, 1.1]},
}


def written(tmp_path, **changes):
    path = tmp_path / "own.json"
    path.write_text(json.dumps(WHOLE | changes))
    return path


def test_a_file_changes_what_it_names_and_nothing_else(tmp_path):
    own = target_file.read(written(tmp_path), TARGETS)
    published = target_named("trn2")
    assert (own.timing.dma_rate, own.timing.pe_floor) == (20.0, 32)
    assert own.timing.vector_issue == published.timing.vector_issue
    assert own.intervals["vector"] == (0.9, 1.1)
    assert own.intervals["tensor"] == published.intervals["tensor"]
    assert (own.source, published.source) == (str(tmp_path / "own.json"), "published")


def test_what_is_written_is_read(tmp_path):
    target_file.write(tmp_path / "x.json", "trn1", {"launch": {"value": 9e3}}, {"all": (0.5, 2.0)}, rows=3)
    assert target_file.read(tmp_path / "x.json", TARGETS).timing.launch == 9e3


@together(
    ("changes", "words"),
    [
        ({"format": "x"}, "its format is not 'trnsim target 1'"),
        ({"target": "trn9"}, "of the target 'trn9', and trn1, trn2, trn3 are known"),
        ({"constants": None}, "has no constants"),
        ({"constants": {"warp": 1.0}}, "'warp', which the timing model does not have"),
        ({"constants": {"launch": -1.0}}, "gives launch the value -1.0"),
        ({"constants": {"launch": {"value": "fast"}}}, "gives launch the value 'fast'"),
        ({"intervals": {"all": 3}}, "intervals that are not pairs"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path, changes, words):
    with pytest.raises(WrongArgument, match=r"own\.json") as caught:
        target_file.read(written(tmp_path, **changes), TARGETS)
    assert words in str(caught.value)
    assert "unset TRNSIM_TARGET_FILE" in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(WrongArgument, match="cannot be read"):
        target_file.read(tmp_path / "none.json", TARGETS)


def test_a_process_is_told_by_its_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TRNSIM_TARGET_FILE", str(written(tmp_path)))
    program = "from trnsim.targets import target_named as t; print(t('gen3').timing.dma_rate, t('trn1').source)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "20.0 published\n"
