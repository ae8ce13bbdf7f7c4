"""``trnsci fit``: a stranger's program, run and costed."""

import importlib
import json
import re
import sys
import textwrap
import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import trnsci
import trnsparse
from tests.together import together
from trnsci import ArgumentError, fit_profiler, host
from trnsci.analogs import operators
from trnsci.analogs.lines import last_names, read_analogs
from trnsci.cli import main
from trnsci.console import plain
from trnsci.fit import fit
from trnsci.fit_profiler import IMPORTS, Children, Watch
from trnsci.fit_report import ROWS, Group, OnTarget
from trnsci.ledger import WATCHES
from trnsci.links import LINKS
from trnsci.predict import Prediction

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

SCRIPT = """
import sys
import torch
import trnblas

assert __name__ == "__main__"
print("arguments", sys.argv[1:])
a = torch.ones(64, 96)
for _ in range(3):
    trnblas.gemm(1.0, a, a, trans_b=True)
a @ a.T
if "fail" in sys.argv:
    sys.exit(7)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(SCRIPT)
    return path


def test_fit_groups_calls_and_predicts_every_generation(script, capsys):
    report = fit(script, ["--size", "3"])
    assert "arguments ['--size', '3']" in capsys.readouterr().out
    (group,) = report.groups
    assert (group.op, group.calls) == ("trnblas.gemm", 3)
    assert set(group.targets) == {"trn1", "trn2", "trn3"}
    assert group.nbytes == 3 * 4 * (2 * 64 * 96 + 64 * 64)
    assert ("mm", 1) in [(plain.op, plain.calls) for plain in report.plain]
    assert 0 < report.in_ops < report.spent


def test_fit_leaves_argv_and_path_as_they_were(script):
    argv, path = list(sys.argv), list(sys.path)
    fit(script, ["x"])
    assert (sys.argv, sys.path) == (argv, path)


@pytest.mark.parametrize(
    ("ending", "status", "words"),
    [
        ("raise RuntimeError('mine')", 1, "raised RuntimeError: mine"),
        ("raise KeyboardInterrupt", 130, "was interrupted"),
        ("raise SystemExit('no')", 1, "exited with no"),
    ],
)
def test_a_program_that_ends_badly_is_reported_as_far_as_it_came(tmp_path, capsys, ending, status, words):
    broken = tmp_path / "broken.py"
    broken.write_text(f"import torch\nx = torch.ones(9, 9)\nx @ x\n{ending}\n")
    report = fit(broken)
    assert (report.status, report.error) == (status, words)
    assert [plain.calls for plain in report.plain if plain.op == "mm"] == [1]
    assert ("Traceback" in capsys.readouterr().err) == ("mine" in ending)
    assert not torch._C._len_torch_dispatch_stack()
    assert not WATCHES


def test_a_missing_script_is_named():
    with pytest.raises(ArgumentError) as caught:
        fit("nowhere.py")
    assert caught.value.got == "nowhere.py"
    assert "exists" in str(caught.value)


def test_the_command_prints_json_html_and_the_programs_status(script, tmp_path, capsys):
    page = tmp_path / "fit.html"
    assert main(["fit", "--json", "--html", str(page), str(script), "fail"]) == 7
    found = json.loads(capsys.readouterr().out)
    assert (found["ops"][0]["calls"], found["status"]) == (3, 7)
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert all(words in text for words in ("trnblas.gemm", "program.py", "Calls beside them"))
    assert "http" not in text


@together(
    ("measured", "words"),
    [
        (10.0, "by itself"),
        (2.0, "when resident"),
        (1.2, "when fused"),
        (1.05, "do not pay for a dispatch"),
        (0.5, "its kernels alone"),
    ],
)
def test_verdicts_say_what_would_have_to_change(measured, words):
    assert words in _group(measured).verdict("trn2")


def test_a_slow_first_call_is_left_out_of_the_verdict():
    # 5 calls of 0.1 s and 9.6 s to start: compared are 0.5 s
    slow = _group(10.1, first=9.7)
    assert slow.steady == pytest.approx(0.5)
    assert "its kernels alone" in slow.verdict("trn2")
    assert "first call's 9.7 s left out" in slow.verdict("trn2")
    assert "left out" not in _group(10.0, first=2.0).verdict("trn2")
    assert _group(3.0, calls=1, first=3.0).steady == 3.0


def test_a_lone_call_that_did_little_is_said_to_be_a_first_one():
    lone = replace(_group(10.0), calls=1, flops=20)
    assert lone.verdict("trn2").startswith("fits")
    assert "measured once, and a first call starts threads" in lone.verdict("trn2")
    assert replace(lone, flops=10**12).verdict("trn2").endswith("measured once")
    again = replace(lone, again=4.0)
    assert "measured once" not in again.verdict("trn2")
    assert (again.steady, replace(lone, again=40.0).steady) == (4.0, 10.0)


@together(
    ("measured", "verdict", "certain"),
    [
        # kernels of 0.8 to 1.25 s with 4.5 s around them, or 0.5 s, or 0.1 s
        (5.7, "fits: 1.0x", False),
        (6.0, "fits: 1.1x", True),
        (5.4, "fits when resident", False),
        (3.0, "fits when resident", True),
        (1.45, "fits when fused", False),
        (0.5, "fits badly", True),
    ],
)
def test_a_verdict_within_the_predictions_interval_says_so(measured, verdict, certain):
    said = _group(measured).verdict("trn2")
    assert verdict in said
    assert ("within the prediction's interval" in said) == (not certain)


def _group(measured, **more):
    there = OnTarget(kernel=1.0, interval=(0.8, 1.25), dispatch=0.5, graph=0.1, transfer=4.0, programs=5)
    given = {
        "op": "x",
        "operands": "",
        "calls": 5,
        "measured": measured,
        "nbytes": 1,
        "flops": 10,
        "refusal": None,
        "first": measured / 5,
    }
    return Group(**(given | {"targets": {"trn2": there}} | more))


class Looks(defaultdict):
    """How often the sampler has looked at each line, and in all: programs that import it wait until it has."""

    @contextmanager
    def counted(self):
        honest = fit_profiler._place

        def place(frame):
            found = honest(frame)
            self["all"] += 1
            if found is not None:
                self[found.source or found.where] += 1
            return found

        def clock():
            # a look counts as much as any other, however long the machine made it wait
            sampling = threading.current_thread().name == "trnsci fit"
            return self["all"] * fit_profiler.PERIOD if sampling else time.perf_counter()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fit_profiler, "_place", place)
            clocks = {"thread_time": time.thread_time, "pthread_getcpuclockid": time.pthread_getcpuclockid}
            looked = SimpleNamespace(perf_counter=clock, clock_gettime=lambda _: clock(), **clocks)
            patch.setattr(fit_profiler, "time", looked)
            patch.setitem(sys.modules, "looks", SimpleNamespace(at=self))
            yield


@pytest.fixture
def looks():
    with Looks(int).counted():
        yield


# a stranger's program: NumPy, plain torch, Python and one op of ours
MIXED = """
    import looks
    import numpy as np
    import torch
    import trnblas

    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 300))
    for _ in range(40):
        np.linalg.eigvalsh(x)
    while looks.at["y = np.linalg.eig(x)"] < 40:
        y = np.linalg.eig(x)
    x @ x
    y = torch.from_numpy(x).float()
    for _ in range(3):
        z = y @ y.T
    torch.fft.rfft2(z).abs()
    trnblas.gemm(1.0, y, y)
    ours = "while looks.at[ours] < 40: sum(range(200))"
    while looks.at[ours] < 40: sum(range(200))
"""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    path = tmp_path_factory.mktemp("fit") / "mixed.py"
    path.write_text(textwrap.dedent(MIXED))
    with Looks(int).counted():
        return fit(path)


def test_time_outside_the_suite_is_reported_as_such(mixed):
    assert mixed.in_ops + mixed.in_torch + mixed.elsewhere == pytest.approx(mixed.spent)
    assert sum(seconds for _, seconds in mixed.places) == pytest.approx(mixed.elsewhere)
    assert all(words in mixed.summary for words in ("in ops", "in calls beside them", "elsewhere", "on the wall"))
    assert 1 <= mixed.gain() <= mixed.gain("fused")
    assert mixed.gain(end=1) <= mixed.gain() <= mixed.gain(end=0)


def test_functions_of_numpy_are_timed_and_costed(mixed):
    (spectrum,) = [plain for plain in mixed.plain if plain.op == "numpy.linalg.eigvalsh"]
    assert (spectrum.calls, spectrum.where, spectrum.analog) == (40, "mixed.py:10", "trnsolver.eigvalsh")
    (product,) = [plain for plain in mixed.plain if plain.op == "numpy.dot"]
    assert (product.calls, product.where, product.analog) == (1, "mixed.py:13", "trnblas.gemm")
    assert spectrum.operands == "float64[300x300]"
    assert set(spectrum.targets) >= {"trn2", "trn3"}


def test_other_lines_are_named(mixed):
    lines = {place.source: (place, seconds) for place, seconds in mixed.places}
    condition, _ = lines["y = np.linalg.eig(x)"]
    assert (condition.where, condition.package, condition.analog) == ("mixed.py:12", "numpy eig", "trnsolver.eig")
    python, spent = lines["while looks.at[ours] < 40: sum(range(200))"]
    assert (python.where, python.package) == ("mixed.py:20", "")
    assert spent > 0


def test_plain_torch_is_costed_as_the_analog_that_would_take_it(mixed):
    found = {plain.op: plain for plain in mixed.plain}
    product, transform = found["mm"], found["_fft_r2c"]
    assert (product.calls, product.analog, product.where) == (3, "trnblas.gemm", "mixed.py:16")
    assert (transform.calls, transform.analog, transform.where) == (1, "trnfft.rfftn", "mixed.py:17")
    a = torch.empty(300, 300, device="meta")
    alone = trnsci.plan(sys.modules["trnblas"].gemm, 1.0, a, a.mT).predicted
    for target, there in product.targets.items():
        assert there.kernel == pytest.approx(3 * alone[target])
    assert product.nbytes == 3 * 3 * 4 * 300 * 300
    assert found["abs"].analog == ""
    assert found["abs"].verdict("trn2") == "runs on the device through AWS's own PyTorch"


def test_torch_inside_ops_of_the_suite_is_not_counted_twice(mixed):
    (ours,) = mixed.groups
    assert (ours.op, ours.calls) == ("trnblas.gemm", 1)
    assert sum(plain.calls for plain in mixed.plain if plain.op == "mm") == 3


def test_code_outside_torch_runs_as_it_would_unwatched():
    class Own(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    with Watch():
        assert host.refusal((x,)) is None
        with Own():
            assert "dispatch mode" in host.refusal((x,))
    rows = trnsparse.CSRMatrix.from_dense(torch.eye(3, dtype=torch.float64))
    with Watch() as watch:
        trnsparse.solve_triangular(rows, torch.ones(3, dtype=torch.float64))
    # one call of SciPy's, not a product for every row
    assert not any(plain.operator == "mm" for plain in watch.seen.values())


def test_a_mode_of_the_programs_own_sees_what_it_would_see_alone(tmp_path, capsys):
    path = tmp_path / "counted.py"
    path.write_text(
        "import torch, trnblas\n"
        "from torch.utils.flop_counter import FlopCounterMode\n"
        "x = torch.ones(8, 8)\n"
        "with FlopCounterMode(display=False) as counter:\n"
        "    trnblas.gemm(1.0, x, x)\n"
        "    x @ x\n"
        "print(counter.get_total_flops())\n"
    )
    report = fit(path)
    assert capsys.readouterr().out == f"{2 * 2 * 8**3}\n"
    assert [(plain.op, plain.calls) for plain in report.plain if plain.op == "mm"] == [("mm", 1)]


CALLS = {
    "mm": lambda: torch.ones(3, 4) @ torch.ones(4, 5),
    "bmm": lambda: torch.ones(2, 3, 4) @ torch.ones(2, 4, 5),
    "addmm": lambda: torch.nn.functional.linear(torch.ones(3, 4), torch.ones(5, 4), torch.ones(5)),
    "baddbmm": lambda: torch.baddbmm(torch.ones(2, 3, 5), torch.ones(2, 3, 4), torch.ones(2, 4, 5), beta=2),
    "mv": lambda: torch.ones(3, 4) @ torch.ones(4),
    "addmv": lambda: torch.addmv(torch.ones(3), torch.ones(3, 4), torch.ones(4)),
    "dot": lambda: torch.ones(4) @ torch.ones(4),
    "vdot": lambda: torch.vdot(torch.ones(4) + 0j, torch.ones(4) + 0j),
    "linalg_solve_triangular": lambda: torch.linalg.solve_triangular(torch.eye(3), torch.ones(3, 2), upper=True),
    "_fft_c2c": lambda: torch.fft.fft2(torch.ones(4, 6) + 0j),
    "_fft_r2c": lambda: torch.fft.rfft(torch.ones(4, 6), dim=0),
    "_fft_c2r": lambda: torch.fft.irfft2(torch.ones(4, 4) + 0j, s=(4, 7)),
    "rand": lambda: torch.rand(3, 4),
    "uniform_": lambda: torch.empty(3, 4).uniform_(),
    "randn": lambda: torch.randn(3, 4, generator=torch.Generator()),
    "normal_": lambda: torch.empty(3, 4, dtype=torch.float64).normal_(),
    "linalg_cholesky_ex": lambda: torch.linalg.cholesky(torch.eye(3)),
    "cholesky_solve": lambda: torch.cholesky_solve(torch.ones(3, 2), torch.eye(3)),
    "linalg_lu_factor_ex": lambda: torch.linalg.lu_factor(torch.eye(3)),
    "linalg_qr": lambda: torch.linalg.qr(torch.eye(3)),
    "_linalg_eigh": lambda: torch.linalg.eigh(torch.eye(3)),
    "_linalg_svd": lambda: torch.linalg.svd(torch.eye(3)),
    "_linalg_solve_ex": lambda: torch.linalg.solve(torch.eye(3), torch.ones(3, 2)),
    "_linalg_det": lambda: torch.linalg.det(torch.eye(3)),
    "_linalg_slogdet": lambda: torch.linalg.slogdet(torch.eye(3)),
    "linalg_inv_ex": lambda: torch.linalg.inv(torch.eye(3)),
    "linalg_lstsq": lambda: torch.linalg.lstsq(torch.ones(4, 2), torch.ones(4, 1)),
    "_scaled_dot_product_flash_attention_for_cpu": lambda: torch.nn.functional.scaled_dot_product_attention(
        *torch.ones(3, 1, 2, 8, 16), is_causal=True
    ),
}


@together("name", CALLS)
def test_an_analog_takes_torchs_own_call(name):
    with Watch() as watch:
        CALLS[name]()
    (seen,) = [plain for plain in watch.seen.values() if plain.operator == name]
    plan = seen.analog.plan(seen.args, seen.kwargs)
    assert plan is not None
    assert set(plan.predicted) >= {"trn2", "trn3"}


def test_every_analog_with_a_prediction_is_tried_and_every_name_exists():
    planned = {name for name, analog in operators().items() if analog.planned}
    # one operator exists on CUDA only, and its arguments are those of its twin for the CPU; test_drop_in has the others
    assert planned - set(CALLS) == {"_scaled_dot_product_flash_attention"}
    known = {analog.name for sparse in (False, True) for analog in operators(sparse=sparse).values()}
    for name in known | set(last_names().values()):
        library, _, function = name.partition(".")
        assert hasattr(importlib.import_module(library), function), name


SPARSE = torch.eye(3).to_sparse()


@together(
    ("call", "operator", "analog"),
    [
        (lambda: SPARSE @ torch.ones(3, 2), "mm (sparse)", "trnsparse.spmm"),
        (lambda: SPARSE @ torch.ones(3), "mv (sparse)", "trnsparse.spmv"),
        (lambda: torch.sparse.mm(SPARSE, SPARSE), "_sparse_sparse_matmul (sparse)", "trnsparse.spgemm"),
        (lambda: torch.sparse.mm(SPARSE, torch.ones(3, 2)), "_sparse_addmm (sparse)", "trnsparse.spmm"),
    ],
)
def test_sparse_operands_are_not_costed_as_dense_ones(call, operator, analog):
    with Watch() as watch:
        call()
    seen = {plain.operator: plain for plain in watch.seen.values()}
    assert not {"mm", "mv"} & set(seen)
    assert seen[operator].analog.name == analog
    assert seen[operator].analog.plan(seen[operator].args, seen[operator].kwargs) is None


def test_a_torch_call_that_nothing_here_takes_has_no_prediction():
    with Watch() as watch:
        torch.ones(3, 3, dtype=torch.int64) @ torch.ones(3, 3, dtype=torch.int64)
    (seen,) = [plain for plain in watch.seen.values() if plain.operator == "mm"]
    assert seen.analog.plan(seen.args, seen.kwargs) is None


LINES = """
import numpy as np, scipy.linalg
from scipy.linalg import cho_factor as factor
c = np.dot(a, b)
c=a@b.T
w, v = scipy.linalg.eigh(a)
s = np.fft.rfft2(x); t = 1
z = rng.standard_normal(4)
x = factor(
    a)
y = a.dot(b)
@decorator
def f(model): return model.solve(x)
"np.dot(a, b)"
y = x + 1  # np.dot
"""


def test_lines_are_recognised_by_their_calls(tmp_path):
    path = tmp_path / "lines.py"
    path.write_text(LINES)
    names = {4: "gemm", 5: "gemm", 6: "eigh", 7: "rfft2", 8: "normal", 9: "cholesky", 11: "gemm"}
    assert {line: name.partition(".")[2] for line, name in read_analogs(str(path)).items()} == names


@pytest.mark.sim
def test_simulating_is_never_taken_for_the_hosts_time(tmp_path):
    path = tmp_path / "simulated.py"
    path.write_text(
        "import torch, trnblas, trnsci\n"
        "with trnsci.backend('simulator'):\n"
        "    trnblas.gemm(1.0, torch.ones(64, 64), torch.ones(64, 64))\n"
    )
    report = fit(path)
    (group,) = report.groups
    assert (group.backend, group.comparable) == ("simulator", False)
    assert "ran on simulator" in group.verdict("trn2")
    assert not [plain.op for plain in report.plain if "gemm" in plain.op]
    assert report.in_ops + report.in_torch <= report.spent
    written = report.to_dict()["ops"][0]
    assert "seconds_measured" not in written
    assert written["simulating_seconds_measured"] == group.measured
    tables = {table.title: table for table in report.tables()}
    ops, rest = tables["Ops of the suite"], tables["Elsewhere"]
    assert ops.rows[0][3] == "-"
    assert "simulated" in report.verdict
    assert rest.note
    assert "simulated" in report.html()


def test_an_implementation_without_kernels_stays_on_the_host(tmp_path, monkeypatch):
    monkeypatch.setattr("trnsci.fit.prediction", lambda *_: Prediction(0.0, 0.0, {}, programs=0, low=0.0, high=0.0))
    path = tmp_path / "program.py"
    path.write_text("import torch, trnblas\ntrnblas.gemm(1.0, torch.ones(4, 4), torch.ones(4, 4))\n")
    (group,) = fit(path).groups
    assert group.targets == {}
    assert group.verdict("trn2").endswith("starts no kernel")


@pytest.mark.usefixtures("looks")
def test_a_program_that_imports_is_told_what_imports_cost(tmp_path):
    (tmp_path / "fit_slow_module.py").write_text("import looks\nwhile not looks.at['imports']: pass\n")
    path = tmp_path / "program.py"
    path.write_text("import fit_slow_module\n")
    assert dict(fit(path).places)[IMPORTS] > 0


@pytest.mark.slow
def test_a_program_that_compiles_is_watched_without_being_slowed(tmp_path):
    path = tmp_path / "compiled.py"
    path.write_text(
        "import torch\n"
        "double = torch.compile(lambda x: 2 * (x @ x), backend='eager')\n"
        "for _ in range(3):\n"
        "    double(torch.ones(8, 8))\n"
    )
    (product,) = [plain for plain in fit(path).plain if plain.op == "mm"]
    assert (product.calls, product.where) == (3, "compiled.py:2")


def test_draws_of_one_stream_are_one_row(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("import trnrand\ng = trnrand.Generator(0)\nfor n in (9, 9, 9, 8):\n    g.uniform(n)\n")
    assert sorted(group.calls for group in fit(path).groups) == [1, 3]


def test_an_op_of_several_programs_pays_for_each(script, monkeypatch):
    monkeypatch.setattr(
        "trnsci.fit.prediction", lambda *_: Prediction(1e-3, 0.0, {}, programs=4, low=8e-4, high=1.2e-3)
    )
    (group,) = fit(script).groups
    there = group.targets["trn2"]
    assert (there.programs, there.kernel) == (12, pytest.approx(3e-3))
    assert there.interval == pytest.approx((2.4e-3, 3.6e-3))
    assert there.seconds("resident") == pytest.approx(3e-3 + 12 * LINKS["native"].dispatch)
    assert there.seconds("fused") == pytest.approx(3e-3 + LINKS["native"].graph)


def test_long_tables_are_cut_and_json_is_not(script):
    report = replace(fit(script), groups=tuple(_group(1.0, op=f"x{i}") for i in range(ROWS + 7)))
    rows = report.tables()[1].rows
    assert (len(rows), rows[-1][0]) == (ROWS + 1, "and 7 more")
    assert len(report.to_dict()["ops"]) == ROWS + 7


def test_many_operands_are_shortened():
    assert _group(1.0, operands="a b c d").row("trn2")[0] == "a b c d"
    assert _group(1.0, operands="a b c d e").row("trn2")[0] == "a b c and 2 more"


@pytest.mark.parametrize(
    ("name", "arguments", "op"),
    [
        ("cuda_samples/conjugate_gradient.py", ["--size", "300"], "trnsolver.cg"),
        ("science/sparse_attention.py", ["--tokens", "256"], "trnsparse.attention"),
    ],
)
def test_fit_runs_the_examples(name, arguments, op, capsys):
    report = fit(EXAMPLES / name, ["--backend", "pytorch", *arguments])
    assert report.status == 0
    assert capsys.readouterr().out.endswith("passed\n")
    (group,) = report.groups
    assert group.op == op
    assert {"trn2", "trn3"} <= set(group.targets)
    assert all(group.verdict(target) for target in ("trn1", "trn2", "trn3"))
    assert {row[0] for row in report.tables()[1].rows} == {op}


def test_runs_leave_no_hooks_behind_that_slow_later_ones(monkeypatch):
    with Children():
        pass
    monkeypatch.setattr(sys, "addaudithook", lambda hook: pytest.fail("a hook for every run"))
    with Children() as outer:
        with Children() as inner:
            sys.audit("subprocess.Popen", "true", ["true", 1], None, None)
        sys.audit("os.fork")
    assert (inner.commands, outer.commands) == (["true 1"], ["true 1", "a fork of itself"])


@pytest.mark.usefixtures("looks")
def test_a_module_and_what_runs_beside_it(tmp_path, monkeypatch, capsys):
    (tmp_path / "strange.py").write_text(
        "import looks, subprocess, sys, threading\n"
        "def seen(end):\n    while looks.at['all'] < end: pass\n"
        "worker = threading.Thread(target=seen, args=(looks.at['all'] + 20,), name='loader')\n"
        "worker.start()\nsubprocess.run([sys.executable, '-c', 'pass'])\nworker.join()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    report = fit("strange", module=True)
    assert any("thread 'loader'" in words for words in report.beside)
    assert any("-c pass" in words for words in report.beside)
    assert {table.title for table in report.tables()} == {"Verdict", "Elsewhere", "Not watched"}
    with pytest.raises(ArgumentError, match="MODULE"):
        fit("no_such_module", module=True)


def test_what_cannot_run_here_is_read(tmp_path):
    program = tmp_path / "for_cuda.py"
    program.write_text("import cupy as cp\na = cp.linalg.svd(cp.ones((3, 3)))\nb = a @ a\nk = cp.RawKernel('x', 'x')\n")
    report = fit(program)
    assert [(s.name, s.times, s.state) for s in report.scan.symbols] == [
        ("cupy.RawKernel:x", 1, "write"),
        ("cupy.ones", 1, "torch"),
        ("@", 1, "analog"),
        ("cupy.linalg.svd", 1, "analog"),
    ]
    # the program got nowhere: there is no time to tell of
    assert [table.title for table in report.tables()] == ["Verdict", "Called in the source", "By library"]


def test_run_substitutes_and_reports(script, tmp_path, capsys):
    page = tmp_path / "run.html"
    assert main(["run", "--backend", "pytorch", "--min-size", "0", "--report", str(page), str(script)]) == 0
    out, said = capsys.readouterr()
    assert "Substituted and left alone" in said
    assert re.search(r"torch.mm +trnblas.gemm +1", said)
    # what the program prints is all there is in a pipe
    assert "Substituted" not in out
    assert "Run through trnsci" in page.read_text()


def test_a_run_too_short_to_sample_is_summed_up_all_the_same(script):
    report = replace(fit(script), places=())
    (rest,) = [table for table in report.tables() if table.title == "Elsewhere"]
    assert plain(rest) == f"Elsewhere\n  {report.summary}"


CHEMISTRY = """
from pyscf import gto, scf
from pyscf.mp.dfmp2 import DFMP2
from pyscf.mp import UMP2

mol = gto.M(atom="H 0 0 0; F 0 0 0.92", basis="6-31g", verbose=0)
field = scf.RHF(mol).density_fit()
field.kernel()
energy = DFMP2(field).run(verbose=0).e_corr
other = UMP2(scf.UHF(mol).run()).kernel()[0]
assert energy < -0.1 and other < -0.1
"""


def test_methods_of_pyscf_are_calls_and_fitted_energies_are_predicted(tmp_path, capsys):
    program = tmp_path / "chemistry.py"
    program.write_text(CHEMISTRY)
    report = fit(program)
    assert report.status == 0, report.error
    rows = {group.op: group for group in report.plain if group.op.startswith("pyscf.")}
    assert {name.partition(".")[2] for name in rows} >= {"DFRHF.scf", "DFRMP2.kernel", "DFRMP2.ao2mo", "UMP2.kernel"}
    energy = rows["pyscf.DFRMP2.kernel"]
    assert energy.analog == "trnchem.dfmp2"
    assert energy.operands.startswith("float64[5x6x")
    assert set(energy.targets) == {"trn1", "trn2", "trn3"}
    assert "stays PySCF's" in rows["pyscf.DFRHF.scf"].refusal
    assert "trnchem.DFMP2 does it density fitted" in rows["pyscf.UMP2.kernel"].refusal
    assert rows["pyscf.UMP2.kernel"].analog == ""
    # times are of each alone, and lines are not counted again
    assert sum(group.measured for group in rows.values()) < report.wall
    assert not [place for place, _ in report.places if "DFMP2(field)" in place.source and place.analog]
    from pyscf.mp.mp2 import MP2Base

    assert not hasattr(MP2Base.kernel, "watched")


@pytest.mark.parametrize(
    ("name", "source", "status", "said"),
    [
        # crashed in the report itself once: SciPy's matrices have no shapes alone
        (
            "solver.py",
            "import numpy as np\nfrom scipy.sparse import diags_array\nfrom scipy.sparse.linalg import cg\n"
            "a = diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(999, 999))\ncg(a.tocsr(), np.ones(999))\n",
            0,
            r"No: nothing that it calls has a kernel for trn2, and scipy\.sparse\.linalg\.cg at solver\.py:5 takes",
        ),
        (
            "gpu.py",
            "import torch\nx = torch.ones(8, 8, device='cuda')\ntorch.linalg.eigh(x)\n",
            1,
            r"gpu.py raised .*It was read instead: 2 calls of libraries, 1 with an analog here, 1 plain",
        ),
        (
            "fails.py",
            "import numpy as np\nnp.linalg.solve(np.ones((9, 9)), np.ones(9))\n",
            1,
            r"The program raised LinAlgError: Singular matrix: what ran before is counted",
        ),
        (
            "read.cu",
            '#include "cusolverDn.h"\nint main() { cublasSgemm(h); }\n',
            0,
            r"read, not run: 1 call of libraries, 1 with an analog here\.",
        ),
    ],
)
def test_the_verdict_says_how_far_it_came(tmp_path, monkeypatch, capsys, name, source, status, said):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (tmp_path / name).write_text(source)
    report = fit(tmp_path / name)
    assert report.status == status
    assert re.search(said, report.verdict)
    # nothing of this report stands in the program's own traceback before its first line
    assert "fit.py" not in capsys.readouterr().err


def test_the_call_that_raised_and_what_aws_runs_are_counted(tmp_path, capsys):
    (tmp_path / "fails.py").write_text(
        "import numpy as np, torch\n"
        "for _ in range(3):\n    torch.nn.functional.conv2d(torch.ones(4, 8, 64, 64), torch.ones(8, 8, 3, 3))\n"
        "np.linalg.solve(np.ones((9, 9)), np.ones(9))\n"
    )
    report = fit(tmp_path / "fails.py")
    assert "numpy.linalg.solve" in {group.op for group in report.plain}
    (images,) = [group for group in report.plain if "conv" in group.op]
    run = replace(report, spent=2 * images.measured, places=())
    assert "operators that AWS's own PyTorch runs on the device" in run.verdict
