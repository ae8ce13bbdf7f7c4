"""The extension module: what it checks, and that everything runs without it."""

import contextlib
import io
import os
import subprocess
import sys
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
POINTERS, COLUMNS = np.arange(5), np.arange(4)


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
        module, why = loops._imported()
    assert module is None
    assert "make setup" in why


def test_an_install_without_a_compiler_succeeds(tmp_path):
    command = [sys.executable, "setup.py", "-q", "build_ext", "--force"]
    command += ["--build-lib", str(tmp_path / "lib"), "--build-temp", str(tmp_path / "temp")]
    environment = {**os.environ, "CC": "false"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("*.so"))
