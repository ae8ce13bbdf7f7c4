"""Every rule is triggered by a minimal kernel; its line, its text and its rewrite are read."""

import gc
import importlib.util
import linecache
import pickle
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import trnsim
from tests.together import together
from trnsim.cli import main
from trnsim.errors import KernelError, NotNki, WrongArgument
from trnsim.lint import RULES, Finding, LintReport, LintWarning, apply_lint, lint as lint_version, require_nki

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "concepts" / "lint.md"


# the last version with a parser, which has the most rules
PARSED = "0.6"


def lint(kernel, **options):
    return lint_version(kernel, **{"nki": PARSED, **options})


def version(rule):
    """A version in which the rule holds."""
    return "0.3" if rule == "api-version" else "0.7" if RULES[rule].front == "tracer" else PARSED


class NKIObject:
    pass


def namespace(name, **contents):
    made = types.ModuleType(name)
    vars(made).update(contents)
    return made


NKIObject.__module__ = "nki.language"
NAMES = {
    "nl": namespace("nki.language", NKIObject=NKIObject),
    "nisa": namespace("nki.isa"),
    "nki": namespace("nki", jit=lambda function: function),
    "NKIObject": NKIObject,
}

HEAD = """\
import dataclasses, enum, functools, itertools, math, os, random, time
import numpy as np
import torch
import trnsim
"""


def cases(name):
    """Modules from a text file: a title line ``=== one | two`` before each, and a function ``kernel`` in it."""
    for block in (HERE / name).read_text().split("=== ")[1:]:
        title, text = block.split("\n", 1)
        one, two = title.split(" | ", 1)
        yield one, two, text.rstrip("\n") + "\n"


# a rule, what its message says, and a module whose marked line breaks it
CASES = list(cases("lint_cases.txt"))
FOLLOW = list(cases("lint_follow.txt"))
# the same for the strict profile
STRICT = list(cases("lint_strict.txt"))


@pytest.fixture
def load(tmp_path):
    """Write a module to a file and import it, with fake ``nl``, ``nisa`` and ``nki`` in it."""
    count = 0

    def make(text):
        nonlocal count
        count += 1
        path = tmp_path / f"kernels_{count}.py"
        path.write_text(HEAD + text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        vars(module).update(NAMES)
        spec.loader.exec_module(module)
        return module

    return make


@together(("rule", "says", "text"), CASES + STRICT)
def test_rule_names_its_line_and_says_what_to_write(load, rule, says, text):
    module = load(text)
    report = lint(module.kernel, strict=RULES[rule].severity == "strict", nki=version(rule))
    found = [f for f in report if f.rule == rule]
    here = next(i for i, line in enumerate((HEAD + text).splitlines(), 1) if "# here" in line)
    assert [f.line for f in found] == [here], str(report)
    (finding,) = found
    assert finding.file == module.__file__
    assert finding.severity == RULES[rule].severity
    assert finding.rewrite == RULES[rule].rewrite
    assert says in finding.message or says in finding.rewrite
    assert finding.source == (HEAD + text).splitlines()[here - 1]
    assert f"{module.__file__}:{here}:{finding.column}: {finding.severity}: " in str(finding)


def test_every_rule_has_a_case():
    # the type statement needs Python 3.12 and the missing source a kernel without a file; both are tested below
    # a collision takes two modules
    elsewhere = {"type-statement", "source-unavailable", "name-collision"}
    assert {c[0] for c in CASES + STRICT} == RULES.keys() - elsewhere


def test_the_default_profile_has_no_strict_findings(load):
    for rule, _, text in STRICT:
        assert rule not in {f.rule for f in lint(load(text).kernel)}


def test_rules_of_the_parser_end_with_it(load):
    for rule, _, text in CASES + STRICT:
        report = lint(load(text).kernel, strict=True, nki="0.7")
        assert not [f for f in report if RULES[f.rule].front == "parser"], f"{rule}\n{report}"


@pytest.mark.parametrize("nki", ["0.2", "0.8", "seven", 7])
def test_versions_that_are_not_simulated_are_refused(nki):
    with pytest.raises(WrongArgument, match=r"Use one of 0.3, 0.4, 0.5, 0.6, 0.7") as caught:
        lint_version(test_versions_that_are_not_simulated_are_refused, nki=nki)
    assert (caught.value.rule, caught.value.got) == ("nki-version", nki)


def test_two_things_of_one_name_collide(load):
    one = load("LIMIT = 3\ndef _part(a):\n  return LIMIT\ndef first(a):\n  return _part(a)\n")
    two = load("LIMIT = 4\ndef _part(a):\n  return LIMIT\ndef kernel(a):\n  return first(a) + _part(a)\n")
    two.first = one.first
    found = [f for f in lint(two.kernel, strict=True) if f.rule == "name-collision"]
    assert {f.message.partition(" of ")[0] for f in found} == {"`LIMIT`", "`_part`"}
    assert one.__name__ in found[0].message
    assert two.__name__ in found[0].message
    # equal constants are one constant
    one.LIMIT = 4
    one.first.__globals__["_part"] = two._part
    assert "name-collision" not in {f.rule for f in lint(two.kernel, strict=True)}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the type statement came with Python 3.12")
def test_type_statement_is_refused(load):
    report = lint(load("def kernel(a):\n  type T = int\n  return a").kernel)
    assert [(f.rule, f.line) for f in report] == [("type-statement", 6)]


def test_errors_make_no_other_errors(load):
    """A minimal kernel for an error breaks no second rule of that severity, except where one statement breaks two."""
    pairs = {"global": ("impure-write",), "impure-write": ("global",), "with": ("builtin", "api-signature")}
    for rule, _, text in CASES:
        report = lint(load(text).kernel, nki=version(rule))
        assert {f.rule for f in report.errors} - {rule, *pairs.get(rule, ())} == set(), f"{text}\n{report}"


def test_docs_list_every_rule_with_its_severity():
    rows = [line for line in DOCS.read_text().replace("]\\(", "](").splitlines() if line.startswith("| `")]
    table = {cells[1].strip().strip("`"): cells for cells in (row.split("|") for row in rows)}
    assert table.keys() == RULES.keys()
    for name, rule in RULES.items():
        reason, rewrite, basis = (cell.strip() for cell in table[name][2:5])
        assert (reason, rewrite, basis) == (rule.reason, rule.rewrite, rule.basis), name


def test_rule_texts_are_sentences_without_their_full_stop():
    for rule in RULES.values():
        assert rule.id == rule.id.lower()
        assert " " not in rule.id
        assert rule.basis
        assert not rule.reason.endswith(".")
        assert not rule.rewrite.endswith(".")


def test_finding_prints_like_a_compiler_message(load):
    module = load("def kernel(a):\n\tx = {1: a}\n")
    (finding,) = lint(module.kernel)
    assert (finding.line, finding.column, finding.function) == (6, 7, "kernel")
    assert str(finding).splitlines() == [
        f"{module.__file__}:6:7: error: `1`: the keys of an NKI dict must be strings [dict-key]",
        "        x = {1: a}",
        "             ^",
        '    rewrite: use a list indexed by the integer, or a string key such as f"{i}".',
        "    rule from: Language Guide, NKI Values; Migration 0.1 to 0.2, features not available.",
    ]


def test_caret_counts_characters_not_bytes(load):
    (finding,) = lint(load("def kernel(a):\n  s = 'größe', {2}\n").kernel)
    lines = str(finding).splitlines()
    assert lines[1][lines[2].index("^") :].startswith("{2}")
    assert lines[2].strip() == "^^^"


def test_report_is_a_sequence_with_errors_and_warnings(load):
    report = lint(load("def kernel(a):\n  b = [i for i in range(4)]\n  del b\n").kernel)
    assert [f.rule for f in report] == ["comprehension", "del"]
    assert [f.rule for f in report.errors] == ["del"]
    assert [f.rule for f in report.warnings] == ["comprehension"]
    assert report[0] in report
    assert report == list(report)
    assert report != []
    assert str(report).endswith("1 error, 1 warning")
    assert pickle.loads(pickle.dumps(report)) == report


def test_empty_report_is_false_and_says_so(load):
    report = lint(load("def kernel(a):\n  return a\n").kernel)
    assert not report
    assert report == []
    assert (report.errors, report.warnings) == ((), ())
    assert str(report) == "no findings"


def test_findings_come_in_source_order_the_kernels_first(load):
    text = "def helper(a):\n  del a\ndef kernel(a):\n  helper(a)\n  x = {1}\n  y = 2j\n"
    report = lint(load(text).kernel)
    assert [(f.function, f.rule) for f in report] == [("kernel", "set"), ("kernel", "literal"), ("helper", "del")]


def test_follow_false_stays_in_the_kernel(load):
    kernel = load("def helper(a):\n  del a\ndef kernel(a):\n  helper(a)\n").kernel
    assert not lint(kernel, follow=False)
    assert [f.rule for f in lint(kernel)] == ["del"]


@together(("how", "name", "text"), FOLLOW)
def test_all_the_kernel_reaches_is_checked_and_nothing_else(load, how, name, text):
    report = lint(load(text).kernel)
    assert [f.rule for f in report.errors] == (["del"] if how == "reached" else []), str(report)


def test_kernel_objects_are_unwrapped(load):
    module = load(
        "class Kernel:\n"
        "  def __init__(self, f):\n    self.func = f\n"
        "  def __call__(self):\n    pass\n"
        "def plain(a):\n  del a\n"
        "kernel = Kernel(plain)\n"
        "partial = functools.partial(plain, 1)\n"
        "class C(NKIObject):\n  def method(self, a):\n    del a\n"
        "method = C().method\n"
        "@functools.wraps(plain)\ndef wrapper(a):\n  return plain(a)\n"
    )
    for kernel in (module.plain, module.kernel, module.partial, module.method, module.wrapper):
        assert [f.rule for f in lint(kernel)] == ["del"], kernel


def test_decorated_and_nested_kernels_have_the_lines_of_their_file(load):
    text = (
        "def make():\n"
        "    @functools.wraps(\n"
        "        print\n"
        "    )\n"
        "    def skipped():\n        pass\n"
        "    @nki.jit\n"
        "    @functools.cache\n"
        "    def kernel(\n"
        "        a,\n"
        "    ):\n"
        '        """Text at\nthe margin.\n        """\n'
        "        x = {1}\n"
        "        return a\n"
        "    return kernel\n"
        "kernel = make()\n"
    )
    report = lint(load(text).kernel)
    assert [(f.rule, f.source.strip()) for f in report.errors] == [("set", "x = {1}")]
    assert report[0].line == (HEAD + text).splitlines().index("        x = {1}") + 1


def test_a_kernel_ending_in_text_at_the_margin_is_read_whole(load):
    report = lint(load('def kernel(a):\n  return nl.where(a, """\nat the margin\n""", {1})\nother = 1\n').kernel)
    assert [f.rule for f in report] == ["set"]


def test_a_long_sum_is_no_deep_recursion(load):
    (finding,) = lint(load(f"def kernel(a):\n  return {{1}} + {' + '.join(['a'] * 900)}\n").kernel)
    assert finding.rule == "set"


@pytest.fixture
def usual_recursion_limit():
    """Python's own limit, which libraries raise."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("usual_recursion_limit")
def test_a_kernel_nested_too_deeply_gives_a_warning(load):
    chain = "a" + ".t" * 60
    for _ in range(8):
        chain = f"nl.exp({chain})" + "[0]" * 60
    (finding,) = lint(load(f"def kernel(a):\n  return {chain}\n").kernel)
    assert finding.rule == "source-unavailable"
    assert "`kernel` is nested too deeply" in finding.message


def test_a_kernel_without_source_gives_one_warning():
    space = {}
    exec("def kernel(a):\n  try:\n    pass\n  finally:\n    pass", space)
    report = lint(space["kernel"])
    assert [(f.rule, f.severity, f.line) for f in report] == [("source-unavailable", "warning", 1)]
    assert "`kernel`: the source of this function cannot be read" in report[0].message
    assert require_nki(space["kernel"], PARSED) == report


@together("kernel", [print, 3, None, int, lambda a: a])
def test_what_has_no_function_gives_one_warning(kernel):
    assert [f.rule for f in lint(kernel)] == ["source-unavailable"]


def test_a_changed_file_is_not_read_as_the_old_one(load):
    module = load("def kernel(a):\n  return a\n")
    Path(module.__file__).write_text("x = 1\n" * 9)
    linecache.clearcache()
    assert [f.rule for f in lint(module.kernel)] == ["source-unavailable"]


def test_a_redefined_helper_is_read_again(load):
    module = load("def helper(a):\n  del a\ndef good(a):\n  return a\ndef kernel(a):\n  helper(a)\n")
    assert lint(module.kernel).errors
    module.helper = module.good
    assert not lint(module.kernel)


def test_kernels_of_one_factory_are_told_apart_by_what_they_capture(load):
    module = load(
        "def bad(a):\n  del a\ndef good(a):\n  return a\n"
        "def make(f):\n  def kernel(a):\n    return f(a)\n  return kernel\n"
    )
    assert not lint(module.make(module.good))
    assert lint(module.make(module.bad)).errors
    assert not lint(module.make(module.good))


def test_mutable_capture_is_said_once_per_name(load):
    report = lint(load("table = {'a': 1}\ndef kernel(a):\n  x = table['a']\n  y = table['a']\n").kernel)
    assert [(f.rule, f.line) for f in report] == [("mutable-capture", 7)]


def test_constants_outside_the_kernel_are_no_state(load):
    text = (
        "@dataclasses.dataclass(frozen=True)\nclass C(NKIObject):\n  n: int = 1\n"
        "class E(enum.Enum):\n  x = 1\n"
        "C1, E1, N, S, T, F = C(), E.x, 3, 's', (1, 2), 1.5\nD = np.dtype('float32')\nB = np.float32\n"
        "def kernel(a):\n  return C1.n, E1, N, S, T, F, D, B, E.x.value\n"
    )
    assert lint(load(text).kernel) == []


def test_require_nki_raises_with_findings_and_text(load):
    module = load("def kernel(a):\n  d = {0: a}\n  del d\n")
    with pytest.raises(NotNki) as caught:
        require_nki(module.kernel, PARSED)
    error = caught.value
    assert isinstance(error, KernelError)
    assert isinstance(error, SyntaxError)
    assert [f.rule for f in error.findings] == ["dict-key", "del"]
    assert (error.rule, error.kernel, error.line) == ("dict-key", "kernel", f"{module.__file__}:6")
    assert (error.filename, error.lineno, error.offset) == (module.__file__, 6, 8)
    text = str(error)
    assert "refuses 2 places" in text
    assert "the keys of an NKI dict must be strings [dict-key]" in text
    assert "rewrite: remove the statement" in text
    assert error.msg == text


def test_require_nki_lets_warnings_pass(load):
    report = require_nki(load("def kernel(a):\n  f = lambda x: x\n").kernel, PARSED)
    assert [f.rule for f in report] == ["lambda"]


def test_apply_lint_refuses_warns_or_is_silent(load, recwarn):
    kernel = load("def kernel(a):\n  del a\n").kernel
    apply_lint(kernel, "off", PARSED)
    assert not recwarn
    with pytest.raises(NotNki, match="one place"):
        apply_lint(kernel, "error", PARSED)
    with pytest.warns(LintWarning, match="refuses one place"):
        apply_lint(kernel, "warn", PARSED)


def test_strict_simulation_refuses_what_the_parser_refuses(load):
    module = load("def kernel(a):\n  for i, j in ((1, 2),):\n    print(i, j)\n  return a\n")
    with pytest.raises(NotNki, match="loop-target"):
        trnsim.simulate(module.kernel, lint="strict", nki=PARSED)(np.zeros((2, 2), np.float32))
    apply_lint(module.kernel, "error", PARSED)


def test_strict_simulation_looks_at_the_arguments(load):
    kernel = load("def kernel(a, n):\n  return a\n").kernel
    a = np.zeros((2, 2), np.float32)
    with pytest.raises(WrongArgument, match="a tuple of tensors as n") as caught:
        trnsim.simulate(kernel, lint="strict", nki=PARSED)(a, (1, (a, 2)))
    assert caught.value.rule == "tensor-tuple"
    with pytest.raises(WrongArgument, match="4294967296 as n"):
        trnsim.simulate(kernel, lint="strict", nki=PARSED)(a, 2**32)


def test_the_command_line_has_the_profile(load, capsys):
    file = load("@trnsim.jit\ndef kernel(a):\n  for i, j in ((1, 2),):\n    print(i, j)\n  return a\n").__file__
    assert main(["lint", "--nki", PARSED, file]) == 0
    assert main(["lint", "--nki", PARSED, "--strict", file]) == 1
    assert "[loop-target]" in capsys.readouterr().out
    # a traced kernel is Python
    assert main(["lint", "--strict", file]) == 0


def test_findings_are_values():
    one, two = (Finding("f", 1, 2, "del", "error", "m", "r", source=s) for s in ("x", "y"))
    assert one == two
    assert hash(one) == hash(two)
    assert LintReport([one]) == [two]
    with pytest.raises(AttributeError):
        one.line = 3


def test_a_repeated_lint_is_a_lookup(load):
    body = "    t = nl.load(a[i * 128 : (i + 1) * 128, 0:512])\n    nl.store(a[0:128, 0:512], nl.add(t, t))\n"
    kernel = load("def kernel(a):\n  for i in range(4):\n" + body * 100).kernel
    first, calls = lint(kernel), []
    # collecting garbage calls what it likes
    gc.disable()
    try:
        sys.setprofile(lambda frame, event, arg: calls.append((event, frame.f_code.co_name)))
        again = lint(kernel)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert again is first
    # a handful of calls, however long the kernel is
    assert len(calls) < 40, calls
