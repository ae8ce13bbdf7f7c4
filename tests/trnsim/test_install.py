"""``import nki`` answered by the simulator, and kernels of AWS's package read as ours."""

import importlib
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import trnsim
from trnsim.cli import main
from trnsim.errors import NotModelled

pytestmark = pytest.mark.sim

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def clean():
    """Leave ``import nki`` as it was."""
    trnsim.uninstall()
    kept = {n: m for n, m in sys.modules.items() if n.partition(".")[0] in ("nki", "user_kernels", "user_helpers")}
    for name in kept:
        del sys.modules[name]
    path = sys.path[:]
    yield
    trnsim.uninstall()
    for name in [n for n in sys.modules if n.partition(".")[0] in ("nki", "user_kernels", "user_helpers")]:
        del sys.modules[name]
    sys.modules.update(kept)
    sys.path[:] = path


def write(folder, **files):
    for name, text in files.items():
        path = folder / (name.replace("__slash__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()


KERNELS = """
    from dataclasses import dataclass
    from typing import Optional

    import nki
    import nki.collectives as ncc
    import nki.dtype as dt
    import nki.isa as nisa
    import nki.language as nl
    import nki.typing as nt
    from nki import simulate
    from nki.collectives import ReplicaGroup
    from nki.compiler.kernel_builder import compile_kernel
    from nki.experimental import while_loop
    from nki.isa import dma_engine, engine, reduce_cmd
    from nki.isa.constants import dge_mode, matmul_perf_mode, oob_mode
    from nki.language import NKIObject, NkiTensor
    from nki.meta import tensor as described
    from nki.simulator import simulate as also
    from nki.typing import tensor


    @dataclass
    class Config(NKIObject):
        factor: float
        bias = 0.0


    @nki.jit(debug_kernel=True, show_compiler_tb=True, experimental_flags="skip")
    def kernel(x: tensor[2, 3], config: Optional[Config] = None):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=dt.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x, dge_mode=3, oob_mode=oob_mode.error)
        nisa.tensor_scalar(tile, tile, op0=nl.multiply, operand0=config.factor, op1=nl.add, operand1=config.bias)
        nisa.dma_copy(dst=out, src=tile, dge_mode=dge_mode.none)
        return out


    def scale(input_tensor, output_tensor, fn):
        tile = nl.ndarray(input_tensor.shape, dtype=input_tensor.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=input_tensor)
        fn(tile)
        nisa.dma_copy(dst=output_tensor, src=tile)


    def twice(tile):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)


    @nki.benchmark(warmup=3, iters=4)
    def timed(x):
        return x


    @nki.profile
    def profiled(x):
        return x
"""


def test_a_kernel_file_imports_and_runs_unchanged(tmp_path):
    trnsim.install()
    write(tmp_path, user_kernels=KERNELS)
    import user_kernels as user

    for run in (user.kernel, user.simulate(user.kernel), user.also(user.kernel)):
        np.testing.assert_array_equal(run(X, config=user.Config(3.0, bias=1.0)), 3 * X + 1)
    assert str(user.dt.bfloat16) == "bfloat16"
    assert user.nki.language is user.nl
    assert user.nisa.constants.oob_mode is user.oob_mode


def test_compile_kernel_fills_its_outputs(tmp_path):
    trnsim.install()
    write(tmp_path, user_kernels=KERNELS)
    import user_kernels as user

    out = np.zeros_like(X)
    made = user.compile_kernel(
        user.scale, inputs={"input_tensor": X}, outputs={"output_tensor": out}, compile_opts=None, fn=user.twice
    )
    np.testing.assert_array_equal(out, 2 * X)
    assert made["output_tensor"] is out


def test_what_measures_a_device_imports_and_explains_itself_when_called(tmp_path):
    nki = trnsim.install()
    write(tmp_path, user_kernels=KERNELS)
    import user_kernels as user

    for kernel, name in ((user.timed, "nki.benchmark"), (user.profiled, "nki.profile")):
        with pytest.raises(NotModelled) as caught:
            kernel(X)
        assert (caught.value.rule, caught.value.got) == ("no-device", name)
        assert "trnsim.profile" in str(caught.value)
    with pytest.raises(AttributeError, match="nki has no 'nothing' in trnsim"):
        nki.nothing  # noqa: B018
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nki.nothing")
    np.testing.assert_array_equal(nki.simulate_kernel(user.kernel, X, user.Config(1.0)), X)


def test_installing_twice_and_uninstalling():
    nki = trnsim.install()
    assert trnsim.install() is nki
    assert sys.modules["nki"] is nki
    assert nki.jit is trnsim.jit
    assert nki.__version__ == "0.7.0"
    assert hasattr(nki, "__path__")
    trnsim.uninstall()
    assert "nki" not in sys.modules
    assert not [n for n in sys.modules if n.startswith("nki.")]
    trnsim.uninstall()
    assert trnsim.install() is nki


def test_the_placeholder_of_pypi_counts_as_absent(tmp_path):
    write(tmp_path, nki__slash____init__="raise ImportError('install from the Neuron repository')")
    nki = trnsim.install()
    assert nki.jit is trnsim.jit
    assert sys.modules["nki"] is nki


AWS = {
    "nki__slash____init__": """
        __version__ = "0.4.0"
        class Kernel:
            def __init__(self, func, grid=None):
                self.func, self.grid = func, grid
            def __getitem__(self, grid):
                return Kernel(self.func, (grid,))
            def __call__(self, *args, **kwargs):
                raise RuntimeError("this machine has no Neuron device")
        def jit(fn=None, **options):
            return Kernel(fn) if fn else jit
    """,
    "nki__slash__language__slash____init__": """
        from enum import Enum
        class NKIObject:
            pass
        class MemoryRegion(Enum):
            sbuf = "sbuf"
            shared_hbm = "shared_hbm"
        sbuf, shared_hbm = MemoryRegion.sbuf, MemoryRegion.shared_hbm
        float32 = "float32"
        def _device(*args, **kwargs):
            raise RuntimeError("traced by the NKI compiler")
        class Op:
            def __init__(self, name):
                self.name = name
        add, multiply = Op("add"), Op("multiply")
        ndarray = program_id = _device
        def bespoke():
            pass
    """,
    "nki__slash__isa__slash____init__": """
        def _device(*args, **kwargs):
            raise RuntimeError("traced by the NKI compiler")
        def dma_copy(dst, src): _device()
        def tensor_scalar(dst, data, op0, operand0): _device()
        def tensor_tensor(dst, data1, data2, op): _device()
    """,
    "user_helpers": """
        from dataclasses import dataclass
        import nki
        import nki.language as nl
        from nki.isa import dma_copy
        @dataclass
        class Config(nl.NKIObject):
            factor: float = 2.0
            table: object = None
            def twice(self):
                return 2 * self.factor
            @property
            def same(self):
                return self.factor
        def load(x):
            tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            dma_copy(dst=tile, src=x)
            return tile
    """,
    "user_kernels": """
        import functools
        import nki
        import nki.isa as nisa
        import nki.language as nl
        import user_helpers as helpers
        from nki.language import bespoke
        from user_helpers import Config, load
        OPS = {"add": nl.add, "multiply": nl.multiply}
        apply = functools.partial(nisa.tensor_scalar, op0=nl.multiply)
        @nki.jit
        def inner(tile, factor, op=nl.multiply):
            nisa.tensor_scalar(dst=tile, data=tile, op0=op, operand0=factor)
        def made(factor):
            @nki.jit
            def kernel(x, config):
                out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
                tile, other = load(x), helpers.load(x)
                inner(tile, config.twice())
                inner(tile, config.same, op=OPS["add"])
                apply(dst=tile, data=tile, operand0=factor)
                nisa.tensor_tensor(dst=tile, data1=tile, data2=other, op=nl.add)
                nisa.dma_copy(dst=out, src=tile)
                return out
            return kernel
        kernel = made(3.0)
        @nki.jit
        def on_two(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            i = nl.program_id(0)
            nisa.dma_copy(dst=out[i], src=load(x[i]))
            return out
        @nki.jit
        def unknown(x):
            bespoke()
    """,
}


def test_awss_package_is_left_alone_unless_forced(tmp_path):
    write(tmp_path, **AWS)
    theirs = trnsim.install()
    assert theirs.__version__ == "0.4.0"
    ours = trnsim.install(force=True)
    assert importlib.import_module("nki") is ours
    assert importlib.import_module("nki.language") is trnsim.language
    trnsim.uninstall()
    assert importlib.import_module("nki") is theirs


def test_kernels_jitted_by_awss_package_run_here(tmp_path):
    write(tmp_path, **AWS)
    import user_helpers
    import user_kernels

    config = user_helpers.Config(2.0)
    want = ((X * 4) + 2) * 3 + X
    np.testing.assert_array_equal(trnsim.simulate(user_kernels.kernel, lint="off")(X, config), want)
    np.testing.assert_array_equal(trnsim.simulate(user_kernels.kernel.func, lint="off")(X, config), want)
    cube = np.stack([X, 2 * X])
    np.testing.assert_array_equal(trnsim.simulate(user_kernels.on_two[2])(cube), cube)
    with pytest.raises(RuntimeError, match="no Neuron device"):
        user_kernels.kernel(X, config)
    with pytest.raises(NotModelled, match="bespoke"):
        trnsim.simulate(user_kernels.unknown, lint="off")(X)


def test_annotations_of_the_beta_can_be_imported_and_nothing_else(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import trnsim; trnsim.install()\n"
        "import neuronxcc.nki.typing as nt\n"
        "from neuronxcc.nki.typing import tensor\n"
        "assert tensor is nt.tensor\n"
        "import importlib, importlib.util as util\n"
        "trnsim.uninstall(); trnsim.install()\n"
        "assert util.find_spec('neuronxcc') is None\n"
        "from neuronxcc.nki import typing\n"
        "assert typing.tensor is tensor\n"
        "trnsim.uninstall(); trnsim.install()\n"
        "name = 'neuronxcc.nki.typing'\n"
        "assert importlib.import_module(name).tensor is tensor\n"
        "try:\n    import neuronxcc.nki.language\n"
        "except ImportError as error:\n    print(error)\n"
        "trnsim.uninstall()\n"
        "try:\n    import neuronxcc\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "No module named 'neuronxcc.nki.language': neuronxcc.nki is refused inside kernels since NKI 0.4. "
        "Write: import nki, nki.language and nki.isa.",
        "No module named 'neuronxcc'",
    ]


# the command line


def test_run_answers_import_nki(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("import sys, nki\nimport nki.language as nl\nprint(nki.jit.__module__, sys.argv[1:], __name__)\n")
    assert main(["run", str(script), "a", "--b"]) == 0
    assert capsys.readouterr().out == "trnsim.kernel ['a', '--b'] __main__\n"
    script.write_text("raise OSError('mine')")
    with pytest.raises(OSError, match="mine"):
        main(["run", str(script)])
    assert main(["run", str(tmp_path / "none.py")]) == 1
    assert "no script" in capsys.readouterr().err


def test_a_module_runs_too(tmp_path, monkeypatch, capsys):
    (tmp_path / "kernels_here.py").write_text("import sys, nki\nprint(nki.__version__, *sys.argv[1:])\n")
    monkeypatch.chdir(tmp_path)
    assert main(["run", "-m", "kernels_here", "a", "--b"]) == 0
    assert capsys.readouterr().out == "0.7.0 a --b\n"
    with pytest.raises(ImportError, match="none_such"):
        main(["run", "-m", "none_such"])


def test_the_package_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "trnsim", "api", "nc_matmul"], capture_output=True, text=True, check=True
    )
    assert "nc_matmul(dst, stationary, moving" in done.stdout


def test_lint_reports_each_kernel_and_fails_on_errors(tmp_path, capsys):
    good = tmp_path / "user_kernels.py"
    good.write_text(textwrap.dedent(KERNELS))
    assert main(["lint", str(good)]) == 0
    assert f"{good}::kernel: no findings" in capsys.readouterr().out
    bad = tmp_path / "user_helpers.py"
    bad.write_text("import nki\n@nki.jit\ndef kernel(x):\n    try:\n        return x\n    finally:\n        pass\n")
    assert main(["lint", f"{bad}::kernel"]) == 0
    capsys.readouterr()
    assert main(["lint", "--nki", "0.6", f"{bad}::kernel"]) == 1
    assert "error" in capsys.readouterr().out
    assert main(["lint", f"{bad}::nobody"]) == 1
    assert "its kernels are kernel" in capsys.readouterr().err


def test_api_lists_and_explains_names(capsys):
    assert main(["api"]) == 0
    listed = capsys.readouterr().out
    assert "all_gather all_gather_v all_gather_v_prepare" in listed
    assert [line.partition(":")[0] for line in listed.splitlines()] == ["nki.isa", "nki.language", "nki.collectives"]
    assert main(["api", "nki.isa.sendrecv"]) == 0
    shown = capsys.readouterr().out
    head, _, text = shown.partition("\n")
    assert (
        head
        == "nki.isa.sendrecv(src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine=dma_engine.dma, name=None)"
    )
    assert text.startswith("    Send")
    assert main(["api", "nisa.sendrecv"]) == 0
    assert capsys.readouterr().out == shown
    assert main(["api", "nki.language.sendrecv"]) == 1
    assert "nki has no nki.language.sendrecv; nearest: sendrecv" in capsys.readouterr().err


def test_the_command_tells_its_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert re.fullmatch(r"trnsim \d+\.\d+\S*\n", capsys.readouterr().out)


def test_an_interrupted_command_says_so_in_one_line(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("raise KeyboardInterrupt\n")
    assert main(["run", str(script)]) == 130
    assert capsys.readouterr().err == "trnsim: interrupted\n"


def test_a_profile_without_shapes_is_told_what_is_missing(tmp_path, capsys):
    file = tmp_path / "one_kernel.py"
    file.write_text("import nki\n\n\n@nki.jit\ndef kernel(x):\n    return x\n")
    assert main(["profile", f"{file}:kernel"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("trnsim: kernel(x): missing a required argument: 'x'")
    assert "--shapes" in told
    assert told.count("\n") == 1
