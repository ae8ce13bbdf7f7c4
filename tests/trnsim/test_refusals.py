"""Every error of `refuse` and `forbid` has an entry whose fields are given, and every entry is used and shown."""

import ast
import pickle
import re
import string
from pathlib import Path

import pytest

from tools import refusals_page
from trnsim import errors
from trnsim.refusals import refuse
from trnsim.tables import read_table

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted({*(ROOT / "src/trnsim").rglob("*.py")} - {ROOT / "src/trnsim/refusals.py"})


def _calls():
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("refuse", "forbid"):
                yield f"{path.name}:{node.lineno}", node.args[node.func.id == "forbid"], node.keywords


def _fields(template):
    return {re.split(r"[.\[]", name)[0] for _, name, _, _ in string.Formatter().parse(template) if name}


def test_every_call_gives_the_fields_of_its_sentence_and_no_others():
    table = read_table("refusals.toml")
    for where, key, keywords in _calls():
        assert isinstance(key, ast.Constant), where
        entry = table[key.value]
        given = {keyword.arg for keyword in keywords}
        wanted = _fields(entry["text"]) | _fields(entry.get("hint", "")) - {"got", "limit"}
        assert given - {"hint", "fields", "got", "limit"} == wanted - {"got", "limit"}, where
        assert "hint" not in entry or "hint" not in given, where
        assert "limit" not in wanted or "limit" in entry or "limit" in given, where


def test_every_entry_is_used_and_names_an_error_and_a_source():
    table = read_table("refusals.toml")
    assert {key.value for _, key, _ in _calls()} == set(table)
    for key, entry in table.items():
        assert issubclass(getattr(errors, entry["error"]), errors.KernelError), key
        assert entry["source"], key


def test_an_error_has_the_fields_of_its_call_and_pickles():
    error = refuse("free-size-mismatch", got=3, limit=4, hint="slice both", one="a", two="b", fields={"line": "k.py:7"})
    assert (error.rule, error.got, error.limit, error.line) == ("free-size-mismatch", 3, 4, "k.py:7")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert str(error) == "a has 3 elements per partition and b has 4. Slice both. [k.py:7, rule free-size-mismatch]"


def test_values_that_do_not_pickle_are_kept_as_text():
    assert refuse("kernel:bodies", got=len).got == "<built-in function len>"


def test_an_unknown_key_is_our_mistake():
    with pytest.raises(KeyError):
        refuse("no-such-rule")


def test_the_page_is_the_table():
    assert refusals_page.PAGE.read_text() == refusals_page.write_page()
