"""``trnsim profile``."""

import json

import pytest

from tests.together import together
from trnsim.cli import main
from trnsim.errors import WrongArgument
from trnsim.timing.cli import Bar, options, shapes

KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def doubled(x, factor=2.0):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=factor)
    nisa.dma_copy(dst=y, src=t)
    return y
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "doubling.py"
    path.write_text(KERNEL)
    return path


def test_it_prints_the_report_and_writes_the_pictures(script, tmp_path, capsys):
    page, trace, data = (tmp_path / name for name in ("x.html", "x.pftrace", "x.json"))
    status = main(
        [
            "profile",
            f"{script}:doubled",
            "--shapes",
            "128x512",
            "--dtype",
            "bf16",
            "--target",
            "trn1",
            "--set",
            "factor=3.0",
            "--html",
            str(page),
            "--trace",
            str(trace),
            "--json",
            str(data),
        ]
    )
    out = capsys.readouterr().out
    assert status == 0
    assert out.startswith("doubled, trn1: predicted ")
    assert f"wrote {page}" in out
    assert page.read_text().startswith("<!doctype html>")
    assert trace.stat().st_size > 100
    assert json.loads(data.read_text())["target"] == "trn1"


@together(
    ("arguments", "says"),
    [
        (["nowhere.module:kernel"], "nowhere"),
        (["no-colon"], "module:kernel"),
        (["missing.py:kernel"], "no file missing.py"),
        (["{script}:absent"], "has no absent"),
        (["{broken}:f"], "invalid syntax (broken.py, line 1)"),
        (["{script}:doubled", "--shapes", "128y512"], "'128y512' is no shape"),
        (["{script}:doubled", "--shapes", "128x512:float99"], "'float99' is no dtype"),
        (["{script}:doubled", "--shapes", "128x512", "--set", "factor"], "--set tile=512"),
        (["{script}:doubled", "--shapes", "128x512", "--target", "trn9"], "trn9"),
        (["{script}:doubled", "--shapes", "256x512"], "256 partitions"),
    ],
)
def test_mistakes_are_told_in_one_line(script, arguments, says, capsys):
    broken = script.with_name("broken.py")
    broken.write_text("def f(:\n")
    assert main(["profile", *(a.replace("{script}", str(script)).replace("{broken}", str(broken)) for a in arguments)])
    err = capsys.readouterr().err
    assert err.startswith("trnsim: ")
    assert says in err
    assert "Traceback" not in err


def test_shapes_and_options():
    a, b = shapes("8192x4096:bf16, 16", "float32")
    assert (a.shape, str(a.dtype), b.shape, str(b.dtype)) == ((8192, 4096), "bfloat16", (16,), "float32")
    assert shapes("", "float32") == []
    assert options(["tile=512", "mode=fast", "pair=(1, 2)"]) == {"tile": 512, "mode": "fast", "pair": (1, 2)}
    with pytest.raises(WrongArgument):
        options(["tile"])


class Terminal:
    def __init__(self, tty):
        self.tty = tty
        self.text = ""

    def isatty(self):
        return self.tty

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_progress_shows_on_a_terminal_and_only_there(monkeypatch):
    shown, quiet = Terminal(True), Terminal(False)
    for terminal in (shown, quiet):
        bar = Bar(terminal)
        bar.began -= 10
        bar("recording", 8192, 0)
        bar("scheduling", 4096, 8192)
        bar.close()
    assert quiet.text == ""
    assert "8,192 instructions" in shown.text
    assert "50%" in shown.text
    assert shown.text.endswith("\x1b[K")
