"""Every program under examples runs, on PyTorch and on the simulator.

What it prints is what docs/examples.md shows: digits of errors aside, which differ between machines and backends.
"""

import contextlib
import importlib
import io
import itertools
import re
import runpy
import sys
import textwrap
from pathlib import Path

import pytest
import scipy.sparse
import torch

from tests.together import together

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("cuda_samples", "quantum_chemistry", "science")
PROGRAMS = sorted(path for folder in FOLDERS for path in (ROOT / "examples" / folder).glob("*.py"))
NAMES = [path.relative_to(ROOT).as_posix() for path in PROGRAMS]
DOCS = (ROOT / "docs" / "examples.md").read_text()
SCIENTIFIC = re.compile(r"\d\.\de[+-]\d\d")

# what each program rests on, to be made wrong: a function, or a method of a class
FOUNDATIONS = {
    "examples/cuda_samples/batch_cublas.py": "trnblas.gemm",
    "examples/cuda_samples/conjugate_gradient.py": "trnsparse.CSRMatrix.to_scipy",
    "examples/cuda_samples/cusolver_syevd.py": "trnsolver.eigh",
    "examples/cuda_samples/cutensor_contraction.py": "trntensor.einsum",
    "examples/cuda_samples/mc_estimate_pi.py": "trnrand.Generator.uniform",
    "examples/cuda_samples/simple_cufft_2d_r2c.py": "trnfft.rfft2",
    "examples/quantum_chemistry/df_mp2.py": "trnblas.gemm",
    "examples/quantum_chemistry/df_mp2_synthetic.py": "trntensor.mp2_energy",
    "examples/cuda_samples/conjugate_gradient_precond.py": "trnsparse.CSRMatrix.to_scipy",
    "examples/cuda_samples/batched_qr.py": "trnsolver.solve_triangular",
    "examples/cuda_samples/spectral_poisson.py": "trnfft.CallbackPlan.__call__",
    "examples/cuda_samples/quasirandom_option.py": "trnrand.Sobol.random",
    "examples/cuda_samples/sparse_cholesky.py": "trnsolver.SparseFactor.solve",
    "examples/science/hartree_fock.py": "trnsolver.eigh_generalized",
    "examples/science/navier_stokes.py": "trnfft.rfft2",
    "examples/science/option_pricing.py": "trnrand.Generator.normal",
    "examples/science/pagerank.py": "trnsparse.spmv",
    "examples/science/sparse_attention.py": "trnsparse.attention",
}


def run(name, *arguments):
    """Run a program as ``python NAME ARGUMENTS`` would; return its exit status and what it printed."""
    printed, argv = io.StringIO(), sys.argv
    sys.argv = [name, *arguments]
    try:
        with contextlib.redirect_stdout(printed), pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(ROOT / name), run_name="__main__")
    finally:
        sys.argv = argv
    return stopped.value.code, printed.getvalue()


def shown(name):
    """The output the docs show below ``$ python NAME``."""
    found = re.search(rf"^```text\n\$ python {re.escape(name)}\n(.*?)^```$", DOCS, re.M | re.S)
    assert found, f"docs/examples.md does not show what {name} prints"
    return found[1]


def stable(text):
    return SCIENTIFIC.sub("#", text)


# a quarter of the time of all
LONG = ("examples/science/hartree_fock.py", "simulator")


@pytest.mark.sim
@pytest.mark.parametrize(
    ("name", "backend"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] if case == LONG else [])
        for case in itertools.product(NAMES, ("pytorch", "simulator"))
    ],
)
def test_a_program_passes_and_prints_what_the_docs_show(name, backend):
    status, printed = run(name, "--backend", backend)
    assert status == 0, printed
    assert stable(printed) == stable(shown(name))


@pytest.mark.sim
def test_water_in_single_precision_is_within_its_bound():
    status, printed = run("examples/quantum_chemistry/df_mp2.py", "--backend", "simulator", "--precision", "fp32")
    assert status == 0, printed
    assert "E(corr) = -0.203977 Ha" in printed


def test_the_pattern_needs_no_pyscf():
    source = (ROOT / "examples/quantum_chemistry/df_mp2_synthetic.py").read_text()
    assert not re.search(r"import (pyscf|trnchem)|from (pyscf|trnchem)", source)


def wrong(function):
    """The function with its first floating-point result four percent too large."""

    def off(value):
        if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
            return 1.04 * value
        if scipy.sparse.issparse(value):
            return 1.04 * value
        if isinstance(value, tuple):
            return type(value)(*map(off, value)) if hasattr(value, "_fields") else tuple(map(off, value))
        return value

    return lambda *args, **kwargs: off(function(*args, **kwargs))


@pytest.mark.parametrize("name", NAMES)
def test_a_program_notices_a_wrong_answer(name, monkeypatch):
    library, *path = FOUNDATIONS[name].split(".")
    owner = importlib.import_module(library)
    for part in path[:-1]:
        owner = getattr(owner, part)
    monkeypatch.setattr(owner, path[-1], wrong(getattr(owner, path[-1])))
    try:
        status, printed = run(name, "--backend", "pytorch")
    except ArithmeticError:
        # an iteration that never converges has noticed as well
        return
    assert status == 1
    assert printed.endswith("FAILED\n")


@together("path", PROGRAMS)
def test_the_docs_quote_the_program(path):
    """Every function the page shows is in the program to the letter."""
    section = DOCS.partition(f"`{path.relative_to(ROOT).as_posix()}`")[2].partition("\n## ")[0].partition("\n### ")[0]
    quoted = re.findall(r"^```python\n(.*?)^```$", section, re.M | re.S)
    assert quoted
    source = path.read_text()
    for block in quoted:
        for function in re.split(r"\n\n\n", block.strip()):
            assert function in source or textwrap.indent(function, "    ") in source


@together("name", NAMES)
def test_the_readme_lists_the_program(name):
    readme = (ROOT / "examples" / "README.md").read_text()
    assert f"python {name}" in readme
