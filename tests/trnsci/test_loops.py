"""The extension module: what it checks, and that everything runs without it."""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest

from tests.together import together
from trnsci import loops

ROOT = Path(__file__).parents[2]
compiled = pytest.mark.skipif(loops.compiled is None, reason="the extension module was not built")
PLACE = bytes(32)
F = np.zeros(8)
SHARED, P = np.ones(8), np.ones(1)
POINTERS, COLUMNS = np.arange(5), np.arange(4)
# parameters of no distribution
NONE = (np.nan, np.inf, -np.inf, -1.0, -1e300)


def misaligned(n):
    return np.frombuffer(bytearray(8 * n + 1), np.uint8)[1:].view(np.float64)


BAD = [
    ("counters", (0, PLACE, np.zeros(3, np.int64), np.zeros(4, np.uint32), 1), "as many counters as blocks"),
    ("counters", (2, PLACE, np.zeros(4, np.int64), np.zeros(4, np.uint32), 1), "engine"),
    ("fill", (0, 2, PLACE, 0, F, 1), "engine"),
    ("fill", (5, 0, PLACE, 0, F, 1), "no such case"),
    ("fill", (-1, 0, PLACE, 0, F, 1), "no such case"),
    ("fill", (0, 0, bytes(31), 0, F, 1), "32 bytes"),
    ("fill", (2, 0, PLACE, 0, np.zeros(3, np.uint8), 1), "aligned array"),
    ("fill", (2, 0, PLACE, 0, misaligned(4), 1), "aligned array"),
    ("inverse", (9, 0, PLACE, 0, 1.0, 1.0, 1, F, 1), "no such case"),
    ("inverse", (0, 0, PLACE, 0, 1.0, 1.0, 4, F, 1), "no such result"),
    ("inverse", (0, 0, PLACE, 0, 1.0, 1.0, -1, F, 1), "no such result"),
    ("sample", (2, 0, PLACE, F, F, 1), "no such case"),
    ("sample", (0, 0, PLACE, F[:3].copy(), F, 1), "one for each element"),
    ("sample", (0, 0, PLACE, F[:0].copy(), F, 1), "one for each element"),
    ("binomial", (0, PLACE, 0, F[:2].copy(), F, F, 1), "one for each element"),
    ("binomial", (0, PLACE, 0, F, np.zeros(9), F, 1), "one for each element"),
    ("randint", (0, PLACE, bytes(15), 0, 6, 0, F, 1), "16 bytes"),
    ("randint", (3, PLACE, bytes(16), 0, 6, 0, F, 1), "engine"),
    ("map", (4, F, F, 1), "no such function"),
    ("map", (0, F, np.zeros(7), 1), "one length"),
    ("ilu0", (4, POINTERS, COLUMNS, np.ones(4), None), "dtype"),
    ("ilu0", (1, POINTERS, COLUMNS, np.ones(3), None), "one value for each"),
    ("ilu0", (1, POINTERS[:0].copy(), COLUMNS, np.ones(4), None), "pointers"),
    ("ilu0", (1, POINTERS + 1, COLUMNS, np.ones(4), None), "begin at 0"),
    ("ilu0", (1, np.array([0, 9, 2, 3, 4]), COLUMNS, np.ones(4), None), "never fall"),
    ("ilu0", (1, np.array([0, -3, 2, 3, 4]), COLUMNS, np.ones(4), None), "never fall"),
    ("ilu0", (1, POINTERS, np.array([0, 1, 2, 4]), np.ones(4), None), "from 0 below n"),
    ("ilu0", (1, POINTERS, np.array([0, -1, 2, 3]), np.ones(4), None), "from 0 below n"),
    ("ilu0", (1, np.array([0, 2, 2, 3, 4]), np.array([1, 0, 2, 3]), np.ones(4), None), "columns rise"),
    ("ilu0", (1, POINTERS, COLUMNS, np.ones(4), np.ones(1)), "boost"),
    ("ic0", (1, POINTERS, np.array([0, 1, 2, 2**62]), np.ones(4)), "from 0 below n"),
    ("pairs", (2, F, F, F, F, F), "dtype"),
    ("pairs", (1, np.zeros(7), np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2)), "pairs, n, n"),
    ("pairs", (1, np.zeros(8), np.zeros(2), np.zeros(2), np.zeros(1), np.zeros(2)), "pairs, n, n"),
    # pairs * n * n * bytes is 2**64, or a multiple of it
    ("pairs", (1, F[:0], np.zeros(1 << 21), np.zeros(1 << 20), np.zeros(1 << 21), np.zeros(1 << 21)), "pairs, n, n"),
    ("pairs", (0, F[:0], *(np.zeros(1 << 22, "f4"),) * 2, *(np.zeros(1 << 22),) * 2), "pairs, n, n"),
    ("pairs", (1, np.zeros(8), np.zeros(2), np.zeros(2), SHARED[:2], SHARED[:2]), "shares memory"),
    ("pairs", (1, np.zeros(8), np.zeros(2), SHARED[:2], SHARED[1:3], np.zeros(2)), "shares memory"),
    ("ilu0", (1, POINTERS, COLUMNS, COLUMNS.view(np.float64), None), "shares memory"),
    ("ilu0", (1, POINTERS, COLUMNS, POINTERS[:4].view(np.float64), None), "shares memory"),
    ("ilu0", (1, POINTERS, COLUMNS, SHARED[:4], SHARED[3:5]), "shares memory"),
    ("ic0", (1, POINTERS, COLUMNS, COLUMNS.view(np.float64)), "shares memory"),
    ("map", (0, SHARED[:4], SHARED[1:5], 1), "shares memory"),
    ("counters", (0, PLACE, SHARED[:4].view(np.int64), SHARED[2:4].view(np.uint32), 1), "shares memory"),
    ("sample", (0, 0, PLACE, SHARED[:8], SHARED[:8], 1), "shares memory"),
    ("fill", (0, 0, PLACE, 2**64 - 1, F, 1), "ends at element 2.64"),
    ("randint", (0, PLACE, bytes(16), 2**64 - 4, 6, 0, F, 1), "ends at element 2.64"),
    *(("sample", (0, 0, PLACE, np.array([x]), F, 1), "shape is positive and finite") for x in (*NONE, 0.0)),
    *(("sample", (1, 0, PLACE, np.array([x]), F, 1), "rate from 0 to 2.62") for x in (*NONE, 2.0**63)),
    *(("binomial", (0, PLACE, 0, np.array([x]), P, F, 1), "trials are a whole") for x in (*NONE, 0.5, 2.0**54)),
    *(("binomial", (0, PLACE, 0, 9 * P, np.array([x]), F, 1), "from 0 to 1") for x in (*NONE, 1.5)),
]


@compiled
@together(("name", "arguments", "words"), BAD)
def test_what_could_reach_foreign_memory_is_refused(name, arguments, words):
    with pytest.raises(ValueError, match=words):
        getattr(loops.compiled, name)(*arguments)


@compiled
def test_results_are_written_into_memory_that_may_be_written():
    frozen = np.zeros(4)
    frozen.setflags(write=False)
    with pytest.raises((TypeError, BufferError)):
        loops.compiled.map(0, frozen, frozen, 1)
    with pytest.raises((TypeError, BufferError, ValueError)):
        loops.compiled.map(0, np.ones(8)[::2], np.zeros(4), 1)


@compiled
def test_absurd_parameters_that_pass_come_to_an_end():
    out = np.empty(300)
    for shape in (5e-324, 1e-300, 1e300, 1.7e308):
        loops.compiled.sample(0, 0, PLACE, np.array([shape]), out, 1)
        assert (out >= 0).all()
    for rate in (0.0, 5e-324, 9.999, 10.0, 1e15, 2.0**62):
        loops.compiled.sample(1, 0, PLACE, np.array([rate]), out, 1)
        assert (abs(out - rate) <= 60 * max(1, rate) ** 0.5).all()
    for n, p in ((0.0, 1.0), (2.0**53, 1.0), (2.0**53, 0.5), (2.0**53, 1e-300), (2.0**53, 1e-15), (1.0, 5e-324)):
        loops.compiled.binomial(0, PLACE, 0, np.array([n]), np.array([p]), out, 1)
        assert (abs(out - n * p) <= 60 * max(1.0, n * p * (1 - p)) ** 0.5).all()


INTERRUPTED = """
import sys, time
import numpy as np
from trnsci import loops
rows = np.arange(4001)
calls = {
    "sample": lambda: loops.compiled.sample(1, 0, bytes(32), np.full(1 << 27, 20.0), np.empty(1 << 27), 1),
    "fill": lambda: [loops.compiled.fill(4, 0, bytes(32), 0, out, 1) for out in [np.empty(1 << 27)] for _ in range(99)],
    "ilu0": lambda: loops.compiled.ilu0(
        1, 4000 * rows, np.tile(rows[:-1], 4000), (np.ones((4000, 4000)) + 1e4 * np.eye(4000)).ravel(), None
    ),
}
try:
    print("begin", flush=True)
    calls[sys.argv[1]]()
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted")
"""


@compiled
@pytest.mark.slow
@pytest.mark.parametrize("name", ["sample", "fill", "ilu0"])
def test_an_interrupt_ends_a_long_loop(name):
    command = [sys.executable, "-c", INTERRUPTED, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "begin\n"
        time.sleep(3)
        child.send_signal(signal.SIGINT)
        told = time.monotonic()
        assert child.stdout.readline() == "interrupted\n"
        assert time.monotonic() - told < 5
        assert child.wait() == 0


@compiled
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="the sanitizers are those of gcc")
def test_no_random_call_leaves_its_arguments(tmp_path):
    command = [sys.executable, "tools/sanitize.py", "--folder", str(tmp_path), "--fuzz-only", "--seconds", "60"]
    done = subprocess.run([*command, "--seed", "7"], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "none of them outside its arguments" in done.stdout


@compiled
@together(("code", "dtype"), list(enumerate(["float32", "float64", "complex64", "complex128"])))
def test_factors_of_a_full_pattern_are_those_of_dense_matrices(code, dtype):
    rng = np.random.default_rng(1)
    n = 7
    a = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if code > 1 else 0) + 9 * np.eye(n)
    a = a.astype(dtype)
    pointers, columns = np.arange(0, n * n + 1, n), np.tile(np.arange(n), n)
    values = a.flatten()
    assert loops.compiled.ilu0(code, pointers, columns, values, None) == -1
    both = values.reshape(n, n).astype(complex)
    made = (np.tril(both, -1) + np.eye(n)) @ np.triu(both)
    bound = 4 * n * np.finfo(dtype).eps * (np.abs(np.tril(both, -1) + np.eye(n)) @ np.abs(np.triu(both)))
    assert (np.abs(made - a) <= bound).all()
    definite = (a @ a.conj().T).astype(dtype)
    at = np.tril_indices(n)
    lower = definite[at].copy()
    starts = np.concatenate([[0], np.cumsum(np.arange(1, n + 1))])
    assert loops.compiled.ic0(code, starts, at[1].copy(), lower) == -1
    factor = np.zeros((n, n), complex)
    factor[at] = lower
    bound = 4 * n * np.finfo(dtype).eps * (np.abs(factor) @ np.abs(factor).T)
    assert (np.abs(factor @ factor.conj().T - definite) <= bound).all()
    values = a.flatten()
    values[0] = 0
    assert loops.compiled.ilu0(code, pointers, columns, values, None) == 0
    values = a.flatten()
    values[0] = 0
    assert loops.compiled.ilu0(code, pointers, columns, values, np.array([1e-3, 2.0], dtype)) == -1


WITHOUT = """
import sys
sys.modules["trnsci._loops"] = None
import torch, trnrand, trnsparse, trntensor, trnsci.info
from trnsci import loops
assert loops.compiled is None, "there"
g = trnrand.Generator(3)
print(g.normal(3).tolist(), g.gamma(2, shape=0.5).tolist(), end=" ")
print(g.poisson(2, rate=30.0).tolist(), g.randint(3, high=6).tolist())
a = trnsparse.CSRMatrix.from_dense(torch.tensor([[4.0, 1.0], [1.0, 3.0]]))
print(trnsparse.ic0(a).values.tolist())
B = torch.arange(12.0).view(2, 3, 2)
print(f"{trntensor.mp2_energy(B, torch.tensor([-2.0, -1.0]), torch.tensor([1.0, 2.0, 3.0])):.3f}")
print(loops.why_not())
print(next(backend.detail for backend in trnsci.info.info().backends if backend.name == "pytorch"))
"""


def test_everything_runs_without_the_extension():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    without = done.stdout.split("\n")
    assert "no C compiler at install time" in without[3]
    assert "no host loops in C" in without[4]
    if loops.compiled is not None:
        with contextlib.redirect_stdout(io.StringIO()) as there:
            exec(WITHOUT.replace('sys.modules["trnsci._loops"] = None', "").replace("is None", "is not None"), {})
        assert there.getvalue().split("\n")[:3] == without[:3]


def test_an_extension_of_an_earlier_version_is_left_alone_and_named(monkeypatch):
    earlier = types.ModuleType("trnsci._loops")
    earlier.__file__ = "there/_loops.so"
    monkeypatch.setitem(sys.modules, "trnsci._loops", earlier)
    with pytest.warns(RuntimeWarning, match=r"there/_loops\.so was built from an earlier version; build it again"):
        module, why = loops._import_extension()
    assert module is None
    assert "make setup" in why


def test_an_install_without_a_compiler_succeeds(tmp_path):
    command = [sys.executable, "setup.py", "-q", "build_ext", "--force"]
    command += ["--build-lib", str(tmp_path / "lib"), "--build-temp", str(tmp_path / "temp")]
    environment = {**os.environ, "CC": "false"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("*.so"))
