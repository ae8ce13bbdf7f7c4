"""``python -m trnchem``: what it prints, its bar, and how it says no."""

import io
import json
import re
import subprocess
import sys

import pytest

from tests.together import together
from trnchem import cli
from trnchem.result import Progress


def run(capsys, *arguments):
    status = cli.main(arguments)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_the_plan_comes_first_and_the_energy_last(capsys):
    status, out, err = run(capsys, "water", "--memory", "500 MB", "--pairs")
    assert status == 0
    assert out.index("Budget 500 MB") < out.index("E(corr)")
    assert "-0.2039771100" in out
    assert "Pairs of occupied orbitals" in out
    assert err == ""


def test_json_has_the_same_facts(capsys):
    _, out, _ = run(capsys, "water", "--json", "--frozen", "core", "--auxbasis", "cc-pvdz-ri", "--precision", "fp32")
    facts = json.loads(out)
    assert facts["metric"] == {"method": "cholesky", "functions": 84, "vectors": 84}
    assert facts["e_corr"] == pytest.approx(facts["e_os"] + facts["e_ss"])
    assert set(facts["seconds_measured"]) == {"metric", "integrals", "fit", "pairs"}
    assert [facts[name] for name in ("formula", "charge", "spin", "basis", "reference")] == [
        "H2O",
        0,
        0,
        "cc-pvdz",
        "RHF",
    ]
    assert any("Møller" in each for each in facts["cite"])


def test_several_molecules_with_charge_and_spin(capsys, tmp_path):
    file = tmp_path / "radical.xyz"
    file.write_text("2\n\nN 0 0 0\nH 0 0 1.04\n")
    common = (str(file), "water", "--basis", "sto-3g", "--charge", "1", "--checkpoint", str(tmp_path))
    status, out, err = run(capsys, *common, "--reference", "rohf", "--stability", "internal", "--pairs")
    assert (status, err) == (0, "")
    for words in ("HN, charge 1, 1 unpaired", "H2O, charge 1, 1 unpaired", "E(ROHF)", "0 down", "Feyereisen"):
        assert words in out
    assert out.count("Cite:") == 2
    assert sorted(each.name for each in tmp_path.glob("*.ckpt")) == ["radical-pairs.ckpt", "water-pairs.ckpt"]
    status, out, err = run(capsys, "nh", *common, "--reference", "rohf", "--json")
    facts = [json.loads(line) for line in out.splitlines()]
    assert [fact["resumed_pairs"] for fact in facts] == [28, 45]
    assert [fact["spin_up"] for fact in facts] == [4, 5]
    # one that fails is named, and the others have their turn
    assert status == 1
    assert err.startswith("trnchem: nh: ")
    status, _, err = run(capsys, *common[:-1], str(tmp_path / "x.ckpt"))
    assert status == 1
    assert err.count("a folder that exists, for several molecules") == 1


def test_each_method_says_what_to_cite(capsys):
    for method, words in {"pairs": "Grimme", "laplace": "Häser", "stochastic": "Takeshita"}.items():
        assert words in run(capsys, "water", "--basis", "sto-3g", "--method", method)[1]


def test_methods_without_pairs_and_backends_can_be_chosen(capsys):
    _, out, _ = run(capsys, "water", "--method", "stochastic", "--samples", "8", "--seed", "3", "--backend", "pytorch")
    assert "+-" in out
    assert "E(ss)" not in out
    assert " = 1.3 E(os), scaled opposite spin" in out


def test_with_a_target_the_plan_is_the_one_that_ran(capsys):
    _, out, _ = run(capsys, "water", "--basis", "sto-3g", "--target-error", "1e-4")
    assert out.count("DF-MP2") == out.count("; fp32; B in") == 1
    assert "E(corr) is stated within" in out


def test_a_checkpoint_is_mentioned_when_used(capsys, tmp_path):
    path = tmp_path / "water.h5"
    run(capsys, "water", "--checkpoint", str(path))
    _, out, _ = run(capsys, "water", "--checkpoint", str(path))
    assert f"15 pairs came from {path}" in out
    laplace = ("water", "--basis", "sto-3g", "--method", "laplace", "--checkpoint", str(tmp_path / "points"))
    run(capsys, *laplace)
    assert "energies of quadrature points came from" in run(capsys, *laplace)[1]


@together(
    ("arguments", "sentence"),
    [
        (["wine"], "molecule is 'wine'"),
        (["water", "--memory", "1 MB"], "would do"),
        (["water", "--memory", "much"], "memory is 'much'"),
        (["water", "--backend", "nki"], "not available"),
    ],
)
def test_mistakes_end_in_one_sentence(capsys, arguments, sentence):
    status, _, err = run(capsys, *arguments)
    assert status == 1
    assert err.startswith("trnchem: ")
    assert sentence in err
    assert "Traceback" not in err


def test_frozen_orbitals_are_a_number_or_core(capsys):
    with pytest.raises(SystemExit):
        cli.main(["water", "--frozen", "valence"])
    assert "'valence' is neither a number of orbitals nor 'core'" in capsys.readouterr().err


def test_an_interruption_says_where_the_pairs_are(capsys, monkeypatch, tmp_path):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "dfmp2", interrupted)
    status, _, err = run(capsys, "water", "--checkpoint", str(tmp_path / "x.h5"))
    assert status == 130
    assert f"Finished pairs are in {tmp_path / 'x.h5'}" in err


def test_the_bar_fills_on_a_terminal_and_is_silent_elsewhere():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    draw = cli.bar(screen, width=10)
    draw(Progress("pairs", 5, 10))
    draw(Progress("pairs", 10, 10))
    assert "\rpairs      [#####.....] 5/10" in screen.getvalue()
    assert screen.getvalue().endswith("[##########] 10/10\n")
    assert cli.bar(io.StringIO()) is None


def launched(*arguments):
    start = "import sys; from trnsci.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", start, "launch", "-n", "2", "-m", "trnchem", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


@pytest.mark.slow
def test_launched_on_two_ranks_one_of_them_speaks(tmp_path):
    done = launched("water", "--pairs", "--checkpoint", str(tmp_path / "water.h5"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("-0.2039771100") == 1
    assert "2 ranks" in done.stdout
    assert done.stdout.count("Pairs of occupied orbitals") == 1


@pytest.mark.slow
def test_launched_a_mistake_is_said_once():
    done = launched("wine")
    assert done.returncode != 0
    assert done.stderr.count("trnchem: dfmp2: molecule is 'wine'") == 1


CONTROLS = "\x1b]0;harm\x07\x9b2J\r\x7f\u202e"
HARM = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


def test_names_of_strangers_reach_the_terminal_without_control_characters(tmp_path, capsys):
    file, broken, kept = (tmp_path / f"{name}{CONTROLS}" for name in ("good", "broken", "kept"))
    file, broken = file.with_name(f"{file.name}.xyz"), broken.with_name(f"{broken.name}.xyz")
    file.write_text("2\n\nH 0 0 0\nH 0 0 .74\n")
    broken.write_text(f"1\n\nH{CONTROLS} 0 0 0\n")
    kept.mkdir()
    file_options = [str(file), "--basis", "sto-3g", "--checkpoint", str(tmp_path / f"one{CONTROLS}")]
    for words, status, said in (
        (file_options, 0, r"good\x1b]0;harm\x07\x9b2J\r\x7f\u202e.xyz: H2"),
        (file_options, 0, r"1 pairs came from " + str(tmp_path) + r"/one\x1b]0;harm"),
        ([str(broken)], 1, r"line 3 of broken\x1b]0;harm"),
        ([str(file), str(broken), "--basis", "sto-3g", "--checkpoint", str(kept)], 1, r"broken\x1b]0;harm"),
        ([f"nothing{CONTROLS}"], 1, r"nothing\x1b]0;harm"),
        (["water", f"--harm{CONTROLS}"], 2, r"unrecognized arguments: --harm\x1b]0;harm"),
    ):
        try:
            ended = cli.main(words)
        except SystemExit as error:
            ended = error.code
        printed = "".join(capsys.readouterr())
        assert ended == status, printed
        assert said in printed, printed
        assert not HARM.search(printed), printed
