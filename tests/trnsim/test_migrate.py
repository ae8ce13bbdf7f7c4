"""Files of the beta API: read, told what to change, rewritten where that is mechanical."""

import numpy as np
import pytest

import trnsim
from tests.trnsim.rounded import rounded, within
from trnsim import migrate
from trnsim.cli import main

pytestmark = pytest.mark.sim

OLD = """from neuronxcc import nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.isa as nisa
import numpy as np


@nki.benchmark(warmup=5)
def add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.hbm)
    for i in nl.affine_range(2):
        x = nl.load(a[i * 128 : (i + 1) * 128, :])
        y = nl.load(b[i * 128 : (i + 1) * 128, :])
        z = nisa.tensor_tensor(x, y, op=np.add)
        w = nisa.activation(op=np.exp, data=z, scale=0.5)
        spare = nl.zeros((nl.par_dim(128), 4), dtype=nl.float32)
        nl.store(out[i * 128 : (i + 1) * 128, :], w)
    return out


def launch(a, b):
    return nki.simulate_kernel(add, a, b)
"""

DECIDE = """import neuronxcc.nki.language as nl
from neuronxcc.nki.language import par_dim
import neuronxcc.nki.isa as nisa


def kernel(a):
    i = nl.arange(128)[:, None]
    x = nl.load(a[i], mask=(i < 100))
    r = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
    r += nl.matmul(x, x, transpose_x=True)
    s = nisa.tensor_reduce(np.add, x, axis=1)
    return r
"""


@pytest.fixture
def nki():
    yield trnsim.install(force=True)
    trnsim.uninstall()


def test_what_is_mechanical_is_rewritten_and_runs(nki):
    text = migrate.migrated(OLD)
    assert migrate.MARK not in text
    assert "neuronxcc" not in text
    assert migrate.changes(text) == []
    space = {}
    exec(compile(text, "migrated.py", "exec"), space)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((256, 64), np.float32), rng.standard_normal((256, 64), np.float32)
    made = trnsim.simulate(space["add"], lint="off")(a, b)
    within(made, np.exp((rounded(a) + b) / 2))
    np.testing.assert_array_equal(space["launch"](a, b), made)


def test_what_needs_a_decision_is_marked_where_it_stands():
    marked = {n: line for n, line in enumerate(migrate.migrated(DECIDE).splitlines(), 1) if migrate.MARK in line}
    assert sorted(marked) == [2, 7, 8, 10, 11]
    assert "par_dim: dimension 0" in marked[2]
    assert "index with slices" in marked[7]
    assert "no masks since NKI 0.2" in marked[8]
    assert "accumulate=False" in marked[10]
    assert "pass it as dst=" in marked[11]
    compile(migrate.migrated(DECIDE), "marked.py", "exec")


def test_a_file_of_today_is_left_alone():
    text = "import nki\nimport nki.language as nl\n\n\ndef kernel(x):\n    return nl.load(x)\n"
    assert migrate.migrated(text) == text
    assert not migrate.is_legacy(text)
    assert migrate.changes("def broken(:\n") == []


def test_an_import_of_the_beta_api_is_answered_with_every_line_to_change(nki, tmp_path):
    script = tmp_path / "old.py"
    script.write_text(OLD)
    with pytest.raises(ModuleNotFoundError) as caught:
        main(["run", str(script)])
    told = str(caught.value)
    assert told.startswith("No module named 'neuronxcc'")
    assert "line 1: from neuronxcc import nki  ->  import nki" in told
    assert "line 10: nl.affine_range  ->  range" in told
    assert f"trnsim migrate {script}" in told


def test_uninstalling_gives_imports_back():
    trnsim.install(force=True)
    trnsim.uninstall()
    with pytest.raises(ModuleNotFoundError) as caught:
        import neuronxcc  # noqa: F401
    assert str(caught.value) == "No module named 'neuronxcc'"


def test_lint_reads_files_of_the_beta_api(tmp_path, capsys):
    script = tmp_path / "old.py"
    script.write_text(DECIDE)
    assert main(["lint", str(script)]) == 1
    told = capsys.readouterr().out
    assert "refused inside kernels since NKI 0.4" in told
    assert "marks 5 places that need a decision" in told


def test_the_command_prints_a_patch_or_writes_the_file(tmp_path, capsys):
    script = tmp_path / "old.py"
    script.write_text(OLD)
    assert main(["migrate", str(script)]) == 0
    assert "-from neuronxcc import nki\n" in capsys.readouterr().out
    assert script.read_text() == OLD
    assert main(["migrate", "--write", str(script)]) == 0
    assert script.read_text() == migrate.migrated(OLD)
    script.write_text(DECIDE)
    assert main(["migrate", "--write", str(script)]) == 1
    assert "places are marked" in capsys.readouterr().out
    assert main(["migrate", str(tmp_path / "none.py")]) == 1
