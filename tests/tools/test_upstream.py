"""Suites of other packages run through ``drop_in``, and what differs is named."""

import json

import pytest

from tools.upstream import __main__ as upstream
from tools.upstream.suites import SUITES


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


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, suite in SUITES.items() if suite.fast])
def test_small_suites_pass_as_in_the_plain_run(name, capsys):
    status = upstream.main([name])
    assert status == 0, capsys.readouterr().out
