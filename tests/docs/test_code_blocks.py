"""Every code block of the README and the docs runs.

- ``python``: the blocks of a page run in order, in one namespace.
- ``pycon``: a doctest in that namespace; ``...`` stands for anything.
- ``console``: lines after ``$`` are commands. Ours run and must print what the page shows; ``make`` needs the target,
  ``pip install`` the extra.
- ``text`` and ``mermaid`` are pictures. Any other language is refused.
- Blocks of CONTRIBUTING.md with a title are the walk, which ``tests/rules/test_contributing.py`` follows in a copy.

Posts of the blog quote the tree and are held to it by ``docs.blogcheck``; notebooks run in ``tests/examples``.
"""

import contextlib
import contextvars
import doctest
import importlib
import io
import linecache
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

import trnsci
import trnsim

ROOT = Path(__file__).resolve().parents[2]
DOCS = sorted(page for page in ROOT.glob("docs/**/*.md") if page.parent.name not in ("posts", "notebooks"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
FENCE = re.compile(
    r'^(?P<indent> *)```(?P<language>\S*)(?: title="(?P<title>[^"\n]+)")?[^\n]*\n(?P<code>.*?)^(?P=indent)```$',
    re.M | re.S,
)
# every command of the reference in a process of its own, and mean fields of molecules
SLOW = ("cli.md", "chemistry.md")
OURS = ("trnsci", "trnsim", "python")
DOCTEST_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    code: str
    title: str = ""

    @property
    def where(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page):
    text = page.read_text()
    for match in FENCE.finditer(text):
        indent = len(match["indent"])
        code = "".join(line[indent:] for line in match["code"].splitlines(keepends=True))
        yield Block(page, text.count("\n", 0, match.start()) + 2, match["language"], code, match["title"] or "")


def run_python(block, namespace):
    # kernels are compiled from their source, so a block must have one
    linecache.cache[block.where] = (len(block.code), None, block.code.splitlines(keepends=True), block.where)
    exec(compile(block.code, block.where, "exec"), namespace)


def run_doctest(block, namespace):
    test = doctest.DocTestParser().get_doctest(block.code, namespace, block.where, str(block.page), block.line - 1)
    report = []
    doctest.DocTestRunner(optionflags=DOCTEST_FLAGS).run(test, out=report.append, clear_globs=False)
    assert not report, "".join(report)
    namespace.update(test.globs)


def commands(block):
    """Pairs of a command and the output the page shows below it."""
    current = None
    for line in block.code.splitlines():
        if line.startswith("$ "):
            if current:
                yield current
            current = (line[2:].partition("  #")[0].strip(), [])
        else:
            assert current, f"{block.where}: a console block starts with a command: $ ..."
            current[1].append(line)
    if current:
        yield current


def run_console(block):
    for command, shown in commands(block):
        words = shlex.split(command)
        if words[0] == "make":
            makefile = (ROOT / "Makefile").read_text()
            for target in (w for w in words[1:] if "=" not in w):
                assert re.search(rf"^{target}:", makefile, re.M), f"{block.where}: no target {target} in the Makefile"
        elif words[:2] == ["pip", "install"]:
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
            named = re.findall(r"\[([\w,]+)\]", command)
            assert {e for group in named for e in group.split(",")} <= set(extras), f"{block.where}: {command}"
        elif words[0] in OURS:
            run_command(block, words, "\n".join(shown).strip())
        else:
            assert words[0] in ("git", "cd"), f"{block.where}: this test does not know how to check {command!r}"


def run_command(block, words, shown):
    if words[0] == "python":
        done = subprocess.run([sys.executable, *words[1:]], cwd=ROOT, capture_output=True, text=True)
        status, printed = done.returncode, done.stdout + done.stderr
    else:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            status = importlib.import_module(f"{words[0]}.cli").main(words[1:])
        printed = out.getvalue()
    assert status == 0, f"{block.where}: {shlex.join(words)} failed:\n{printed}"
    if shown:
        agrees = doctest.OutputChecker().check_output(shown + "\n", printed, DOCTEST_FLAGS)
        assert agrees, f"{block.where}: {shlex.join(words)} printed\n{printed}\nand the page shows\n{shown}"


def run_page(page):
    namespace = {"__name__": "__main__"}
    for block in blocks(page):
        if block.title and page.name == "CONTRIBUTING.md":
            continue
        if block.language == "python":
            run_python(block, namespace)
        elif block.language == "pycon":
            run_doctest(block, namespace)
        elif block.language == "console":
            run_console(block)
        else:
            assert block.language in ("text", "mermaid"), f"{block.where}: nothing runs a {block.language!r} block"


@pytest.mark.sim
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow) if page.name in SLOW else page for page in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_block_of_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        contextvars.copy_context().run(run_page, page)
    finally:
        trnsci.set_backend(None)
        trnsim.uninstall()
