"""Verdicts of `trnsci.fit` on whole programs, run as their users run them."""

import json
import re
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest

from tests.together import together
from trnsci import config
from trnsci.fit import fit
from trnsci.fit_report import FitReport, Group, OnTarget, rounded

# every program: what the verdict says, and what the rows do
PROGRAMS = {
    "nothing": ("pass", r"^No verdict: the run did next to nothing \(\S+ \S+ of processor time\)\.", {}),
    "products of arrays, without blanks": (
        """
        import numpy as np
        A=np.random.default_rng(0).standard_normal((900,900)).astype("f")
        for _ in range(8): B=A@A.T
        """,
        r"^Yes: \d\.\dx .*faster, predicted on one core of trn2",
        {"numpy.dot": ("trnblas.gemm", "program.py:4", 8)},
    ),
    "functions imported by name": (
        """
        import numpy as np
        from scipy.linalg import cho_factor, cho_solve
        from scipy.sparse import diags_array
        from scipy.sparse.linalg import splu, spsolve
        A = np.diag(np.arange(2.0, 302))
        f = cho_factor(A)
        cho_solve(f, np.ones(300))
        L = diags_array([-1.0, 3.0, -1.0], offsets=[-1, 0, 1], shape=(9000, 9000), format="csc")
        spsolve(L, np.ones(9000))
        splu(L)
        """,
        "",
        {
            "scipy.linalg.cho_factor": ("trnsolver.cholesky", "program.py:7", 1),
            "scipy.sparse.linalg.spsolve": ("trnsolver.solve_sparse", "program.py:10", 1),
            "scipy.sparse.linalg.splu": ("trnsolver.factor_sparse", "program.py:11", 1),
        },
    ),
    "many small problems": (
        """
        import numpy as np
        for i in range(200):
            w = np.linalg.eigvalsh(np.eye(24) + i)
        """,
        r"^No.*calls that could move.*(kernels take|too small)",
        {"numpy.linalg.eigvalsh": ("trnsolver.eigvalsh", "program.py:4", 200)},
    ),
    "a network and its gradients": (
        """
        import torch
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.randn(256, 64)).square().mean()
            loss.backward()
            optimizer.step()
        """,
        "",
        {"addmm": ("trnblas.gemm", "program.py:7", 6)},
    ),
    "Python alone": (
        """
        counts = {}
        for i in range(400_000):
            counts[i % 1000] = i
        """,
        r"^No: nothing that it calls has a kernel for trn2, and program.py:[34] .* takes",
        {},
    ),
}


def _run(tmp_path, source):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(source))
    return fit(program)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_get_their_verdicts(tmp_path, name):
    source, said, rows = PROGRAMS[name]
    report = _run(tmp_path, source)
    assert (report.status, report.error) == (0, "")
    assert re.search(said, report.verdict), report.verdict
    seen = {}
    for group in report.plain:
        analog, where, calls = seen.get(group.op, (group.analog, group.where, 0))
        seen[group.op] = (analog, where, calls + group.calls)
    for op, row in rows.items():
        assert seen[op] == row
    # no line of a library stands for the program's own
    assert all(group.where.startswith(("program.py", "inside")) for group in report.plain)
    if not rows:
        assert not re.search(r"\dx", report.verdict)


def test_the_library_in_c_behind_a_call_is_named(tmp_path):
    report = _run(tmp_path, PROGRAMS["functions imported by name"][0])
    refusals = {group.op: group.refusal for group in report.plain}
    assert refusals["scipy.sparse.linalg.splu"].endswith("and SuperLU does it here")


def test_a_contraction_is_compared_with_the_optimised_one(tmp_path):
    source = """
        import numpy as np
        a = np.random.default_rng(0).standard_normal((90, 90))
        np.einsum("ij,jk,kl->il", a, a, a)
    """
    (group,) = [g for g in _run(tmp_path, source).plain if g.op == "numpy.einsum"]
    # a sum over all indices at once is 90 times the work
    assert group.steady < group.measured / 5
    assert "with optimize=True, which is free to have here" in group.verdict("trn2")


def test_a_call_measured_once_is_repeated_where_that_changes_nothing(tmp_path):
    source = """
        import numpy as np, torch
        from scipy.linalg import solve
        rng = np.random.default_rng(0)
        a = np.eye(64)
        np.linalg.inv(a)
        torch.linalg.inv(torch.from_numpy(a))
        b = a.copy(order="F")
        solve(b, np.ones(64), overwrite_a=True)
        x = torch.randn(64, 64)
    """
    report = _run(tmp_path, source)
    again = {group.op: group.again > 0 for group in report.plain if group.analog}
    assert again["numpy.linalg.inv"]
    assert again["linalg_inv_ex"]
    assert not again["scipy.linalg.solve"]


def test_time_is_the_processors_and_waiting_is_said(tmp_path):
    report = _run(tmp_path, "import time\nimport numpy as np\nnp.linalg.inv(np.eye(300))\ntime.sleep(0.6)\n")
    assert report.spent < report.wall - 0.5
    assert "The clock on the wall says" in report.verdict
    assert "the program waited" in report.verdict


def test_sizes_from_which_calls_pay(tmp_path):
    report = _run(tmp_path, "import numpy as np\na = np.ones((64, 64), 'f')\nfor _ in range(9): a @ a\n")
    (product,) = [group for group in report.plain if group.op == "numpy.dot"]
    assert re.fullmatch(r"from about n = (128|256|512|1,024|2,048) on", product.pays_from)
    assert product.pays_from in product.verdict(config.TARGET.get())


@together(
    ("factor", "words"),
    [(1.04, "1.0x"), (9.4, "9.4x"), (26.3, "about 25x"), (61, "about 60x"), (16_656, "about 15,000x")],
)
def test_factors_are_rounded_to_what_predictions_resolve(factor, words):
    assert rounded(factor) == words


def _report(measured, *, kernel, dispatch, spent=1.0, **more):
    there = OnTarget(
        kernel=kernel, interval=(0.8 * kernel, 1.2 * kernel), dispatch=dispatch, graph=1e-4, transfer=0.01, programs=9
    )
    given = {"op": "x", "operands": "", "calls": 9, "nbytes": 1, "flops": 10, "refusal": None, **more}
    group = Group(measured=measured, targets={"trn2": there}, **given)
    return FitReport(script="s", main_target="trn2", wall=spent, spent=spent, plain=(replace(group, analog="y"),))


@together(
    ("report", "words"),
    [
        (_report(0.9, kernel=0.1, dispatch=0.02), r"^Yes: 4\.5x \(\d\.\dx to \d\.\dx\) faster"),
        (_report(0.9, kernel=0.01, dispatch=0.4), r"As one program \(trnsci.program\) \S+: 400 ms are dispatches"),
        (_report(0.9, kernel=0.1, dispatch=2.0), r"^Only as one program .* 2 s of 2\.1 s on trn2 would be dispatches"),
        (_report(0.9, kernel=0.95, dispatch=2.0), r"^No, too small: .* 2 s of 2\.95 s there would be dispatches"),
        (_report(0.9, kernel=3.0, dispatch=0.1, operands="float64[9x9]"), r"^No: .* take 3 s there\. float64 is split"),
        (
            _report(0.9, kernel=0.95, dispatch=2.0, pays_from="from about n = 256 on"),
            r"x would pay from about n = 256 on",
        ),
    ],
)
def test_the_verdict_has_a_reason(report, words):
    assert re.search(words, report.verdict), report.verdict
    page = report.html()
    # the verdict, the picture, what decides, and only then the tables
    order = [
        page.index(text) for text in ('class="lead"', "Now and predicted", "The calls that decide", "Calls beside")
    ]
    assert order == sorted(order)


def test_the_command_gives_everything_to_programs(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import numpy as np\nnp.linalg.inv(np.eye(99))\n")
    command = [sys.executable, "-m", "trnsci", "fit", "--json", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    found = json.loads(done.stdout)
    assert found["processor_seconds"] > 0
    assert set(found["faster"]) == {"call by call", "resident", "fused"}
    assert found["plain_torch"][0]["seconds_of_first_call_again"] > 0
