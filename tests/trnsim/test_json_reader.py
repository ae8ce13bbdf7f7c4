"""One reader for every JSON file and number: hostile texts given to each place that reads one."""

import json
import os
import subprocess
import sys

import pytest

from trnsci import ArgumentError, cache, config, predict, tuned
from trnsim.errors import TrnError
from trnsim.json_reader import MAX_DEPTH, MalformedJson, check_fields, is_finite, parse_json, read_json
from trnsim.target_file import FORMAT, read
from trnsim.targets import TARGETS

HOSTILE = {
    "nothing": "",
    "no JSON": "{'a': 1}",
    "deep lists": "[" * 100_000,
    "deep objects": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "5,000 digits": '{"a": ' + "9" * 5_000 + "}",
    "65 bits": '{"a": 18446744073709551616}',
    "NaN": '{"a": NaN}',
    "infinite": '{"a": -Infinity}',
    "beyond float64": '{"a": 1e999}',
    "twice": '{"a": 1, "a": 2}',
    "twice below": '{"b": [{"a": 1, "a": 2}]}',
    "no UTF-8": b"\xff\xfe{}",
    "half a character": b'{"a": "\xed\xa0\x80"}',
    "long": '"' + "x" * (16 << 20) + '"',
    "quotes": '"' * 200_001,
    "backslashes": '"' + "\\" * 200_000,
}


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_are_one_typed_error(text):
    with pytest.raises(MalformedJson) as caught:
        parse_json(text)
    assert len(str(caught.value)) < 300


def test_what_is_well_formed_is_what_json_reads():
    nested = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    brackets = json.dumps({"[[[[": "]" * 5000, "\\": '"{'})
    for text in (nested, brackets, "3", "-0.5e-3", "null", json.dumps([2**63 - 1, -(2**63)]), '"\\u0000"'):
        assert parse_json(text) == json.loads(text)
        assert parse_json(text.encode()) == json.loads(text)


def test_files_that_are_no_files_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(MalformedJson, match="not a plain file"):
            read_json(path)
    (tmp_path / "long").touch()
    os.truncate(tmp_path / "long", 1 << 40)
    with pytest.raises(MalformedJson, match="1099511627776 bytes"):
        read_json(tmp_path / "long")


def test_fields_and_numbers_are_checked():
    assert check_fields({"a": 1, "b": 2.0}, a=int, b=float)
    for value in ([], {"a": 1}, {"a": True, "b": 1}, {"a": 1, "b": "1"}, {"a": 1, "b": 1, "c": 1}):
        with pytest.raises(MalformedJson):
            check_fields(value, a=int, b=float)
    assert is_finite(3, 0, 3)
    assert not any(is_finite(value, 0, 3) for value in (True, "1", None, 4, -1, float("nan"), float("inf"), [1]))


# What a target file may say, and one word of what is wrong with it.
TARGET_FACTS = {
    "launch": {"constants": {"launch": {"value": -1}}},
    "NaN": {"constants": {"launch": "NaN"}},
    "1e\\+300": {"constants": {"launch": 1e300}},
    "True": {"constants": {"launch": True}},
    "an integer": {"constants": {"dma_engines": 1.5}},
    "dma_rate": {"constants": {"dma_rate": 0}},
    "does not have": {"constants": {"stranger": 1}},
    "no constants": {"constants": [1]},
    "not pairs": {"intervals": {"all": [1, 2, 3]}},
    "pairs of numbers": {"intervals": {"all": [0.9, True]}},
    "below and above 1": {"intervals": {"all": [1.2, 0.8]}},
    "are known": {"intervals": {"stranger": [0.9, 1.1]}},
    "by resource": {"intervals": [1, 2]},
    "is of the target": {"target": ["trn2"]},
    "format": {"format": 1},
}


@pytest.mark.parametrize("says", TARGET_FACTS)
def test_target_files_are_checked(says, tmp_path):
    path = tmp_path / "target.json"
    path.write_text(json.dumps({"format": FORMAT, "target": "trn2", "constants": {}} | TARGET_FACTS[says]))
    with pytest.raises(TrnError, match=says):
        read(path, TARGETS)


@pytest.mark.parametrize("name", HOSTILE)
def test_every_file_of_json_meets_the_one_reader(name, tmp_path):
    from benchmarks.calibration import measured

    path = tmp_path / "tuned.json"
    path.write_bytes(as_bytes(HOSTILE[name]))
    with pytest.raises(TrnError, match="cannot be read"):
        read(path, TARGETS)
    with pytest.raises(TrnError, match="cannot be read"):
        measured.read([path])
    with pytest.raises(ArgumentError, match="table"):
        tuned.read_table(path)


HOSTS = [
    '{"overhead": NaN, "float32": 1, "float64": 1, "bandwidth": 1}',
    '{"overhead": 1e-6, "float32": 0, "float64": 1e9, "bandwidth": 1e9}',
    '{"overhead": -1, "float32": 1e9, "float64": 1e9, "bandwidth": 1e9}',
    '{"overhead": true, "float32": 1e9, "float64": 1e9, "bandwidth": 1e9}',
    '{"overhead": "1", "float32": 1e9, "float64": 1e9, "bandwidth": 1e9}',
    '{"overhead": 1e300, "float32": 1e9, "float64": 1e9, "bandwidth": 1e9}',
    "[]",
    "{}",
]


def test_a_calibration_of_the_host_that_cannot_be_one_is_measured_again(tmp_path, monkeypatch):
    monkeypatch.setenv("TRNSCI_CACHE_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    genuine = predict.Host(1e-6, 1e9, 1e9, 1e9)
    monkeypatch.setattr(predict, "_calibrate", lambda: genuine)
    predict.host.cache_clear()
    predict.host()
    kept = json.loads(cache.read("host.json"))
    forged = [json.dumps(kept | {"host": 0}).replace('"host": 0', f'"host": {host}') for host in HOSTS]
    for text in (*map(as_bytes, HOSTILE.values()), *map(as_bytes, forged)):
        if len(text) <= 16 << 20:
            (tmp_path / "host.json").write_bytes(text)
            (tmp_path / "host.json").chmod(0o600)
            predict.host.cache_clear()
            assert predict.host() == genuine
    predict.host.cache_clear()


CASE = "1x(2048x2048x2048) bfloat16"
ROW = {"op": "trnblas.gemm", "case": CASE, "target": "trn2", "metric": "total", "seconds": 1e-3}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (ROW | {"seconds": 1e300}, "1e-09 to 1e\\+06 s"),
        (ROW | {"seconds": -1}, "s on"),
        (ROW | {"seconds": "1"}, "has a row that is none"),
        (ROW | {"target": "trn9"}, "trn9"),
        (ROW | {"op": ["gemm"]}, "has a row that is none"),
        (ROW | {"choices": {"parts": [1]}}, "neither numbers nor texts"),
        (ROW | {"choices": 3}, "neither numbers nor texts"),
        (ROW | {"metric": None}, "has a row that is none"),
        ({}, "has a row that is none"),
        ([], "has a row that is none"),
        (ROW | {"case": "no such case"}, "does not have"),
    ],
    ids=str,
)
def test_rows_that_were_measured_are_checked(row, says, tmp_path):
    from benchmarks.calibration import measured

    path = tmp_path / "validate.json"
    path.write_text(json.dumps({"format": measured.FORMAT, "stand_in": False, "measured": [row]}))
    with pytest.raises(TrnError, match=says):
        measured.read([path])


@pytest.mark.parametrize("table", [[], {"gemm": 1}, {"gemm": {"trn2": []}}, {"gemm": {"trn2": {"8x8": 3}}}], ids=str)
def test_tables_of_choices_are_checked(table, tmp_path):
    (tmp_path / "tuned.json").write_text(json.dumps(table))
    with pytest.raises(ArgumentError, match="structure"):
        tuned.read_table(tmp_path / "tuned.json")


NUMBERS = ["9" * 5_000, "-1", "1.5", "NaN", "1e3", "0x10", "१२३" * 9]


def test_numbers_of_the_environment_are_checked(monkeypatch):
    counts = [setting for setting in config.settings() if setting.name.endswith(("_COUNT", "_BYTES", "_TIMEOUT"))]
    assert len(counts) == 4
    for setting in counts:
        for text in NUMBERS:
            monkeypatch.setenv(setting.name, text)
            with pytest.raises(ArgumentError, match="integer") as caught:
                setting.get()
            assert len(str(caught.value)) < 200
        monkeypatch.delenv(setting.name)
    monkeypatch.setenv("TRNSCI_DISTRIBUTED_TIMEOUT", "0")
    with pytest.raises(ArgumentError, match="from 1 to"):
        config.DISTRIBUTED_TIMEOUT.get()
    place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "29500", "LOCAL_RANK": "0"}
    for name in place:
        for text in NUMBERS:
            for each, value in (place | {name: text}).items():
                monkeypatch.setenv(each, value)
            with pytest.raises(ArgumentError, match=name):
                config.launch_place()


@pytest.mark.slow
def test_a_hostile_target_file_ends_a_program_in_one_sentence(tmp_path):
    path = tmp_path / "target\x1b]0;harm\x07.json"
    path.write_text("[" * 100_000)
    words = [sys.executable, "-m", "trnsim", "api"]
    own = os.environ | {"TRNSIM_TARGET_FILE": str(path)}
    done = subprocess.run(words, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "\x1b" not in done.stderr
    assert "nested deeper" in done.stderr
