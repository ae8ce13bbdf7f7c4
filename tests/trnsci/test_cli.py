"""The command line: what it prints, as text and as JSON, and how it says no."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import trnsci
from tests.together import together
from trnsci import cli, config, console
from trnsci.console import Table, plain, tables

EXPLAIN = ["explain", "trnblas.gemm", "--shapes", "64x32,32x16"]


def run(capsys, *arguments):
    status = cli.main(arguments)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_info_names_versions_backends_and_every_setting(capsys):
    status, out, _ = run(capsys, "info")
    assert status == 0
    assert trnsci.__version__ in out
    for setting in config.settings():
        assert setting.name in out
    for target in config.TARGETS:
        assert target in out


def test_info_runs_self_tests_when_asked(capsys):
    status, out, _ = run(capsys, "info", "--probe")
    assert status == 0
    assert "trnblas.split_gemm" in out
    assert "bfloat16 on simulator" in " ".join(out.split())


def test_info_as_json_has_the_same_facts(capsys):
    _, out, _ = run(capsys, "info", "--json")
    facts = json.loads(out)
    assert facts["versions"]["trnsci"] == trnsci.__version__
    assert {b["name"] for b in facts["backends"]} == {"pytorch", "simulator", "nki"}
    assert {s["name"] for s in facts["settings"]} == {s.name for s in config.settings()}
    assert {"name": "trnblas", "backend": "auto", "source": "default"} in facts["libraries"]


def test_info_says_why_a_backend_is_missing(capsys, monkeypatch):
    monkeypatch.setattr("trnsci.neuron._detected", (None, "no Neuron device"))
    _, out, _ = run(capsys, "info", "--json")
    (nki,) = (b for b in json.loads(out)["backends"] if b["name"] == "nki")
    assert nki == {"name": "nki", "available": False, "detail": "no Neuron device"}


def test_info_shows_a_setting_and_where_it_comes_from(capsys, monkeypatch):
    monkeypatch.setenv("TRNSCI_TARGET", "trn1")
    _, out, _ = run(capsys, "info", "--json")
    (target,) = (s for s in json.loads(out)["settings"] if s["name"] == "TRNSCI_TARGET")
    assert (target["value"], target["is_set"]) == ("trn1", True)


def test_info_survives_a_bad_setting_and_says_what_is_wrong(capsys, monkeypatch):
    monkeypatch.setenv("TRNBLAS_FORCE_BACKEND", "cuda")
    status, out, _ = run(capsys, "info", "--json")
    assert status == 0
    (bad,) = (s for s in json.loads(out)["settings"] if s["name"] == "TRNBLAS_FORCE_BACKEND")
    assert bad["value"] == "cuda"
    assert "auto | nki | simulator | pytorch" in bad["problem"]


def test_explain_gives_every_backend_and_the_plan(capsys):
    status, out, _ = run(capsys, *EXPLAIN, "--json")
    facts = json.loads(out)
    (call,) = facts["calls"]
    assert status == 0
    assert call["backends"]["pytorch"] == {"takes": True, "refusal": None}
    assert set(call["backends"]) == {"pytorch", "simulator", "nki"}
    assert facts["plan"]["flops"] == 2 * 64 * 32 * 16


@pytest.mark.sim
def test_explain_as_if_a_backend_had_been_chosen(capsys):
    _, out, _ = run(capsys, *EXPLAIN, "--backend", "simulator", "--json")
    assert json.loads(out)["plan"]["backend"] == "simulator"


def test_explain_ends_with_one_when_nobody_takes_the_call(capsys, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("trnsci.neuron._detected", (None, "no Neuron device"))
        status, out, _ = run(capsys, *EXPLAIN, "--backend", "nki")
    assert status == 1
    assert "runs on none" in out
    assert "no: no Neuron device" in out


def test_explain_passes_other_arguments_by_name(capsys):
    status, out, _ = run(
        capsys, "explain", "trnblas.gemm", "--shapes", "32x64,32x16", "--set", "trans_a=True", "--set", "precision=fast"
    )
    assert status == 0
    assert "trnblas::gemm" in out


@together(
    ("arguments", "sentence"),
    [
        (
            ["explain", "trnblas.gem", "--shapes", "2x2,2x2"],
            "FUNCTION is 'trnblas.gem', expected a function of trnblas. Nearest: trnblas.ge",
        ),
        (["explain", "gemm", "--shapes", "2x2,2x2"], "FUNCTION is 'gemm', expected LIBRARY.FUNCTION"),
        (["explain", "trnblas.gemm", "--shapes", "2by2"], "--shapes is '2by2', expected sizes joined by x"),
        (
            ["explain", "trnblas.gemm", "--shapes", "2x2"],
            "--shapes is '2x2', expected a shape for every array trnblas.gemm requires. b has none",
        ),
        (["explain", "trnblas.gemm", "--shapes", "2x2,2x2,2x2,2x2"], "--shapes is '4 shapes', expected at most 3"),
        ([*EXPLAIN, "--dtype", "float33"], "--dtype is 'float33'"),
        ([*EXPLAIN, "--set", "trans_a"], "--set is 'trans_a', expected NAME=VALUE"),
        ([*EXPLAIN, "--set", "uplo=l"], "--set is 'uplo', expected a parameter of trnblas.gemm: alpha, a, b"),
        (["explain", "trnblas.gemm", "--shapes", "2x3,4x5"], "a has K=3, b has K=4"),
    ],
)
def test_explain_says_no_in_one_sentence(capsys, arguments, sentence):
    status, out, err = run(capsys, *arguments)
    assert status == 1
    assert out == ""
    assert err.startswith("trnsci explain: ")
    assert sentence in err
    assert "Traceback" not in err


@pytest.mark.parametrize(("command", "option"), [("fit", "--html"), ("run", "--report"), ("demo", "--html")])
def test_a_page_that_cannot_be_written_is_refused_before_anything_runs(capsys, tmp_path, command, option):
    with pytest.raises(SystemExit):
        cli.main([command, option, str(tmp_path / "nowhere" / "page.html"), "never.py"])
    assert f"argument {option}:" in capsys.readouterr().err


def test_a_missing_program_is_all_that_is_asked_for(capsys):
    for command in ("fit", "run", "launch"):
        with pytest.raises(SystemExit):
            cli.main([command])
        assert capsys.readouterr().err.endswith("required: SCRIPT.py\n")


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["rosetta", "cublasSgemm"]])
def test_short_answers_do_not_wait_for_torch(words):
    program = (
        "import sys\nfrom trnsci.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'numpy', 'scipy'} & set(sys.modules)\nassert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_an_interrupt_is_one_line_and_130(capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("trnsci.rosetta_report.answer", interrupted)
    status, _, err = run(capsys, "rosetta", "cublasSgemm")
    assert (status, err) == (130, "trnsci rosetta: interrupted\n")


def test_bench_outside_a_checkout_says_where_benchmarks_are(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("trnsim.cli.__file__", str(tmp_path / "lib" / "trnsim" / "cli.py"))
    status, _, err = run(capsys, "bench")
    assert status == 1
    assert "part of the source tree" in err


def test_bench_passes_its_options_on(capfd):
    assert cli.main(["bench", "--rounds", "1"]) == 2
    assert "--rounds is 1; the spread needs at least 2" in capfd.readouterr().err


@pytest.mark.parametrize(("program", "first"), [("trnsci info", "Versions"), ("trnsim api", "nki.isa: ")])
def test_the_reader_of_a_pipe_may_leave(program, first):
    command = f"{sys.executable} -m {program} | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout.startswith(first)
    assert not re.search("Broken ?[Pp]ipe", done.stderr)


def test_a_plain_table_is_aligned():
    table = Table("Title", ("name", "n"), [("long name", "1"), ("x", "22")], note="A note.")
    assert plain(table) == "Title\n  name       n\n  long name  1\n  x          22\n  A note."


WIDE = Table(
    "Title",
    ("name", "n", "why"),
    [("x", "1", "[bold]not markup[/bold]"), ("y", "", "because of a long reason")],
    note="A note.",
)


def in_a_terminal(monkeypatch, width):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(width))


def test_in_a_terminal_tables_are_drawn(monkeypatch, capsys):
    in_a_terminal(monkeypatch, 80)
    tables(WIDE)
    out = capsys.readouterr().out
    assert "Title" in out
    assert "[bold]not markup[/bold]" in out
    assert "───" in out


def test_a_table_whose_words_do_not_fit_is_listed(monkeypatch, capsys):
    in_a_terminal(monkeypatch, 23)
    tables(WIDE)
    out = re.sub("\033\\[[0-9;]*m", "", capsys.readouterr().out)
    assert [line.rstrip() for line in out.splitlines()] == [
        "Title",
        "  x",
        "    n    1",
        "    why  [bold]not",
        "         markup[/bold]",
        "  y",
        "    why  because of a",
        "         long reason",
        "  A note.",
    ]


# what each command is doing when the interrupt comes: importing, or at work
COMMANDS = {
    "trnsci": ["-m", "trnsci", "info"],
    "trnsim": ["-m", "trnsim", "api"],
    "trnchem": ["-m", "trnchem", "water"],
    "benchmarks": ["-m", "benchmarks.run", "trnblas.gemm"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_interrupt_while_a_command_imports_is_one_line_too(name, tmp_path):
    # numpy, which every command imports first, takes its time here
    slow = "import time\nprint('there', flush=True)\ntime.sleep(600)\n"
    (tmp_path / "numpy.py").write_text(slow)
    (tmp_path / "torch.py").write_text(slow)
    root = Path(__file__).parents[2]
    there = os.pathsep.join(map(str, (tmp_path, root / "src", root)))
    process = subprocess.Popen(
        [sys.executable, *COMMANDS[name]],
        env={**os.environ, "PYTHONPATH": there},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "there\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert re.fullmatch(rf"{name}( info)?: interrupted\n", said)


def test_progress_is_for_terminals(capsys, monkeypatch):
    console.progress("half way")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    console.progress("half way" * 100)
    console.progress("done\n")
    first, second = capsys.readouterr().err.split("\r\x1b[K")[1:]
    assert first.startswith("half way")
    assert len(first) < 200
    assert second == "done\n"
