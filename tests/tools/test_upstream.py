"""Suites of other packages run through ``drop_in``, and what differs is named."""

import json
import subprocess
from pathlib import Path

import pytest

from tools.upstream import __main__ as upstream
from tools.upstream.suites import SUITES, Suite


def report(plain, inside):
    return upstream.Report("suite", plain, inside, {"substituted": {"a -> b": 2}})


def test_only_what_passes_in_the_plain_run_alone_is_a_difference():
    found = report({"a": "passed", "b": "failed", "c": "skipped", "d": "passed"}, {"a": "passed", "b": "passed"})
    assert found.differences == ["d"]
    assert found.substitutions == 2


def test_a_difference_needs_a_reason_and_a_reason_a_difference():
    found = report({"module.A::one[x]": "passed", "module.A::two": "passed"}, {"module.A::two": "passed"})
    assert upstream.check(found, {}) == ["suite: module.A::one[x] passes in the plain run only"]
    assert upstream.check(found, {"module.A::one": "rounding"}) == []
    wrong = upstream.check(found, {"module.A::one": "rounding", "module.A::two": "gone", "module.B": "did not run"})
    assert wrong == ["suite: module.A::two is no difference any more"]


def test_every_known_difference_has_a_suite_and_a_reason():
    known = json.loads(upstream.KNOWN.read_text(encoding="utf-8"))
    assert known.keys() <= SUITES.keys()
    assert all(reason for reasons in known.values() for reason in reasons.values())


def test_a_repository_is_taken_at_its_commit(tmp_path):
    def git(*arguments):
        named = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", "-C", str(source), *named, *arguments], check=True, capture_output=True, text=True
        ).stdout.strip()

    source = tmp_path / "source"
    source.mkdir()
    git("init", "--quiet")
    for text in ("first", "second"):
        (source / "test_it.py").write_text(text)
        git("add", "-A")
        git("commit", "--quiet", "-m", text)
    suite = Suite(str(source), ("test_it.py",), commit=git("rev-parse", "HEAD~1"))
    root, (path,) = upstream._tests(suite, tmp_path)
    assert Path(path) == root / "test_it.py"
    assert Path(path).read_text() == "first"
    gone = Suite(str(source), ("test_it.py",), commit="0" * 40)
    assert upstream._tests(gone, tmp_path / "elsewhere") == f"{source} cannot be had"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, suite in SUITES.items() if suite.fast])
def test_small_suites_pass_as_in_the_plain_run(name, capsys):
    status = upstream.main([name])
    assert status == 0, capsys.readouterr().out
