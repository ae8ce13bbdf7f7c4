"""One path: the same functions run with and without a ledger, one decision per op, plan and ledger agree."""

import re
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

import trnblas
import trnfft
import trnsci
import trnsolver
import trnsparse
import trntensor
from trnsci.ops import Op
from trnsci.testing import gaussian

A, B = gaussian((24, 24), 1), gaussian((24, 24), 2)
SPARSE = trnsparse.CSRMatrix.from_dense(torch.where(A > 0.5, A, 0.0))
SPD = A @ A.mT + 24 * torch.eye(24)
CALLS = {
    "gemm": (trnblas.gemm, (1.0, A, B)),
    "gemv": (trnblas.gemv, (1.0, A, B[0])),
    "einsum": (trntensor.einsum, ("ij,jk->ik", A, B)),
    "fft": (trnfft.fft, (A,)),
    "spmv": (trnsparse.spmv, (SPARSE, B[0])),
    "cg": (trnsolver.cg, (SPD, B[0])),
    "cg of columns": (trnsolver.cg, (SPD, B)),
    "gmres of a sparse matrix": (trnsolver.gmres, (SPARSE + trnsparse.CSRMatrix.from_dense(SPD), B[0])),
    "lsqr of functions": (trnsolver.lsqr, ((lambda x: SPD @ x, lambda x: SPD @ x), B[0])),
    "lanczos": (trnsolver.lanczos, (SPD, 2)),
    "davidson": (trnsolver.davidson, (SPD, 2)),
}


def functions_called(work, without=("ledger.py", "plans.py")):
    """Python functions of the suite that run, with how often, but for those that record."""
    called: Counter[str] = Counter()
    recording = [False]

    def note(frame, event, argument):
        code = frame.f_code
        if "/src/trn" not in code.co_filename:
            return
        # what a listener adds, by design: the step with its cost, and the record of it
        if code is Op.step.__code__ and event in ("call", "return"):
            recording[0] = event == "call"
        if event == "call" and not recording[0] and not code.co_filename.endswith(without):
            called[f"{code.co_filename.rpartition('/src/')[2]}:{code.co_qualname}"] += 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.parametrize("name", CALLS)
def test_a_listener_changes_what_is_recorded_and_nothing_else(name):
    function, args = CALLS[name]
    function(*args)
    alone = functions_called(lambda: function(*args))
    with trnsci.ledger():
        heard = functions_called(lambda: function(*args))
    # whether a GPU is to be waited for before the clock is read
    waiting = ("trnsci/specs.py:tensors_in", "trnsci/ops.py:Op.execute.<locals>.<genexpr>")
    for called in (alone, heard):
        for name in waiting:
            called.pop(name, None)
    assert heard == alone


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("listening", [False, True])
def test_one_decision_per_op(name, listening, monkeypatch):
    function, args = CALLS[name]
    function(*args)
    decided, executed = [], []
    decide, execute = Op.decide, Op.execute
    monkeypatch.setattr(Op, "decide", lambda self, call: decided.append(self.name) or decide(self, call))
    monkeypatch.setattr(Op, "execute", lambda self, *rest: executed.append(self.name) or execute(self, *rest))
    if listening:
        with trnsci.ledger() as book:
            function(*args)
        assert sorted(entry.step.op for entry in book) == sorted(executed)
    else:
        function(*args)
    assert decided == executed


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("backend", ["pytorch", "simulator"])
def test_plan_and_ledger_name_the_same_implementation(name, backend):
    function, args = CALLS[name]
    with trnsci.backend(backend), trnsci.ledger() as book:
        planned = trnsci.plan(function, *args)
        function(*args)
    ran = [(entry.step.op, entry.step.implementation, entry.step.calls) for entry in book if entry.depth == 0]
    assert [(step.op, step.implementation, step.calls) for step in planned.steps] == ran


PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "life-of-a-call.md"


def rows(name):
    """The rows of a walk as the page tells it."""
    section = PAGE.read_text(encoding="utf-8").split(f"### {name}\n")[1].split("\n#")[0]
    return [line for line in section.splitlines() if re.match(r"\| \d+ \|", line)]


def files(name):
    return [file for row in rows(name) for file in re.findall(r"`([\w/]+\.py)`", row.split("|")[2])]


@pytest.mark.parametrize("name", ["gemm", "einsum", "fft", "cg"])
def test_the_page_tells_the_walk_in_ten_lines(name):
    function, args = CALLS[name]
    function(*args)
    visited = list(dict.fromkeys(called.partition(":")[0] for called in functions_called(lambda: function(*args), ())))
    # a contraction's products are the walk of gemm
    if name == "einsum":
        visited = [file for file in visited if file in files("einsum") or file not in files("gemm")]
    assert sorted(visited) == sorted(files(name))
    assert len(rows(name)) <= 10
