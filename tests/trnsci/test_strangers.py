"""Names, programs and errors of strangers: no control character reaches a terminal, and no tag a page."""

import os
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser

import numpy as np
import pytest

import trnsim
from trnsci import ArgumentError, RankFailed, console, html_page
from trnsci.html_page import Bar, Bars, Picture
from trnsim.json_reader import MalformedJson
from trnsim.terminal import escape_controls

CONTROLS = "\x1b]0;harm\x07\x9b2J\r\x7f\u202eabc\udce9"
TAGS = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&</title><!--<script>__DATA__ __TITLE__"
HOSTILE = CONTROLS + TAGS
# Control characters but newlines and tabs, and halves of characters.
HARM = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]")

KERNEL = """
import nki, nki.isa as nisa, nki.language as nl

def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


class Tags(HTMLParser):
    """The tags of a page and their attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, tuple(name for name, _ in attributes)))


def test_controls_are_written_as_python_writes_them():
    assert escape_controls("a\tb\nü€") == "a\tb\nü€"
    escaped = escape_controls(HOSTILE)
    assert not HARM.search(escaped)
    assert escaped.startswith(r"\x1b]0;harm\x07\x9b2J\r\x7f\u202eabc\udce9<script>")
    assert TAGS in escaped


def test_tables_and_errors_hold_no_control_characters(capsys):
    table = console.Table(HOSTILE, ("name", "value"), [(HOSTILE, "1"), ("b", HOSTILE)], HOSTILE)
    console.tables(table)
    assert not HARM.search(capsys.readouterr().out)
    assert not HARM.search(console.plain(table))
    console.say("trnsci", HOSTILE)
    assert not HARM.search(capsys.readouterr().err)
    errors = [
        ArgumentError("op", HOSTILE, HOSTILE, HOSTILE, hint=HOSTILE),
        RankFailed(HOSTILE, 1, HOSTILE, 0, HOSTILE),
        MalformedJson(HOSTILE),
    ]
    for error in errors:
        assert not HARM.search(str(error))
        assert not HARM.search("".join(map(str, error.args)))


def test_pages_of_reports_have_the_tags_of_the_page_alone():
    def tags(text):
        parts = [
            console.Table(text, (text,), [(text,)], text),
            Bars(text, [Bar(text, 1.0, text, interval=(0.5, 1.5))], text),
            Picture(text, b"png", text, text),
        ]
        return Tags(html_page.page(text, f"{text}\n{text}", parts)).found

    assert tags(HOSTILE) == tags("harmless")


@pytest.fixture
def hostile_report():
    """The profile of a kernel whose name and file are hostile."""
    trnsim.install()
    names = {}
    exec(compile(KERNEL, f"/tmp/{HOSTILE.replace('/', '|')}.py", "exec"), names)
    names["kernel"].__name__ = names["kernel"].__qualname__ = HOSTILE
    return trnsim.profile(names["kernel"], target="trn2", lint="off")(np.ones((4, 8), np.float32))[1]


def test_a_timeline_has_the_tags_of_the_page_alone(hostile_report, tmp_path):
    page = hostile_report.save(tmp_path / "x.html").read_text(encoding="utf-8")
    found = Tags(page).found
    assert [tag for tag, _ in found].count("script") == 1
    assert not any(name.startswith("on") for _, names in found for name in names)
    assert "img" not in {tag for tag, _ in found}
    script = page[page.index("<script") :]
    assert "<!--" not in script
    assert script.count("</script") == 1
    assert not HARM.search(str(hostile_report))
    hostile_report.save(tmp_path / "x.json")
    hostile_report.save(tmp_path / "x.pftrace")
    assert [tag for tag, _ in Tags(hostile_report._repr_html_()).found].count("script") == 0


PRODUCT = "import os, signal, sys, torch\ntorch.ones(64, 64) @ torch.ones(64, 64)\n"
# How each program ends, and the status and words that fit reports.
PROGRAMS = {
    "closes the streams": ("sys.stdout.close()", 0, ""),
    "replaces the streams": ("sys.stdout = sys.stderr = None", 0, ""),
    "has an error that cannot be printed": (
        "class E(Exception):\n    def __str__(self): raise E\n    __repr__ = __str__\nraise E",
        1,
        "raised E: <exception str() failed>",
    ),
    "raises controls": ("raise ValueError('\\x1b]0;harm\\x07')", 1, r"raised ValueError: \x1b]0;harm\x07"),
    "exits with controls": ("sys.exit('\\x1b[2J')", 1, r"exited with \x1b[2J"),
    "recurses": ("def f(): f()\nf()", 1, "raised RecursionError"),
    "interrupts itself": ("os.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(9)", 130, "was interrupted"),
    "removes its folder": ("import tempfile\nd = tempfile.mkdtemp()\nos.chdir(d)\nos.rmdir(d)", 0, ""),
    "has a null byte": ("\x00", 1, "raised SyntaxError"),
    "hides behind names": (
        "def f(a): return a @ a\n"
        "f.__code__ = f.__code__.replace(co_name='<script>\\x1b', co_filename='/tmp/\\udce9\\x1b<img src=x>.py')\n"
        "f(torch.ones(64, 64))",
        0,
        "",
    ),
}


@pytest.mark.slow
def test_hostile_programs_get_a_report(tmp_path):
    for number, (name, (text, status, words)) in enumerate(PROGRAMS.items()):
        program, page = tmp_path / f"{number}\x1b[31m<b>.py", tmp_path / "page.html"
        program.write_text(PRODUCT + text)
        page.unlink(missing_ok=True)
        command = [sys.executable, "-m", "trnsci", "fit", "--html", str(page), str(program)]
        done = subprocess.run(command, capture_output=True, check=False, timeout=300)
        assert done.returncode == status, (name, done.stderr)
        assert words in done.stderr.decode(), name
        assert not re.search(b"[\x00-\x08\x0b-\x1f\x7f]", done.stdout + done.stderr), name
        found = {tag for tag, _ in Tags(page.read_text(encoding="utf-8")).found}
        assert not found & {"b", "script", "img"}, name


INTERRUPTED = {
    "fit": (["-m", "trnsci", "fit"], PRODUCT + "print('go', flush=True)\nwhile True: sum(range(1000))"),
    "fit inside torch": (
        ["-m", "trnsci", "fit"],
        PRODUCT + "print('go', flush=True)\na = torch.ones(64, 64)\nwhile True: a @ a",
    ),
    "trnsim run": (
        ["-m", "trnsim", "run"],
        KERNEL + "import numpy, nki\nprint('go', flush=True)\nwhile True: nki.jit(kernel)(numpy.ones((4, 8), 'f'))",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", INTERRUPTED)
def test_an_interrupt_ends_fit_and_the_simulator(name, tmp_path):
    words, text = INTERRUPTED[name]
    (tmp_path / "program.py").write_text(text)
    command = [sys.executable, *words, str(tmp_path / "program.py")]
    own = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own) as child:
        while child.stdout.readline() != "go\n":
            assert child.poll() is None
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        _, error = child.communicate(timeout=100)
    assert child.returncode == 130, error
    assert "interrupted" in error
