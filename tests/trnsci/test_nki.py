import importlib.util
import sys
from enum import Enum
from types import ModuleType

import pytest
import torch
from hypothesis import given, strategies as st

import trnsci
import trnsim
from trnsci import ArgumentError, kernel_launcher, nki
from trnsci.nki import N_TILE, P_MAX, Matrix, Queue, launch, load, nisa, nl, require, store, tiles
from trnsci.testing import gaussian


@given(st.integers(0, 2000), st.integers(1, 700))
def test_tiles_cover_a_dimension_once_and_in_order(total, size):
    cut = tiles(total, size)
    assert [x for tile in cut for x in range(total)[tile.span]] == list(range(total))
    assert all(tile.stop - tile.start == tile.size for tile in cut)
    assert all(tile.size == size for tile in cut[:-1])
    assert [tile.index for tile in cut] == list(range(len(cut)))


@nki.jit
def copy(x_hbm, out_dtype=None):
    M, N = x_hbm.shape
    out_hbm = nl.ndarray((M, N), dtype=out_dtype or x_hbm.dtype, buffer=nl.shared_hbm)
    for m in tiles(M, P_MAX):
        for n in tiles(N, N_TILE):
            store(out_hbm[m.span, n.span], load(x_hbm[m.span, n.span]))
    return out_hbm


@nki.jit
def through_psum(x_hbm):
    M, N = x_hbm.shape
    require(M <= P_MAX, f"M is {M}, at most {P_MAX}")
    out_hbm = nl.ndarray((M, N), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    x_ps = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.psum)
    nisa.tensor_copy(dst=x_ps, src=load(x_hbm))
    store(out_hbm, x_ps)
    return out_hbm


@pytest.mark.sim
@pytest.mark.parametrize("shape", [(1, 1), (128, 512), (129, 513), (300, 7)])
def test_load_and_store_round_trip(shape):
    x = gaussian(shape)
    assert torch.equal(launch(copy, x), x)


@pytest.mark.sim
def test_store_takes_psum_and_converts():
    x = gaussian((5, 7))
    assert torch.equal(launch(through_psum, x), x.bfloat16())


@pytest.mark.sim
def test_require_stops_a_kernel_with_both_values():
    with pytest.raises(AssertionError) as caught:
        launch(through_psum, torch.ones(129, 1))
    assert "M is 129, at most 128" in str(caught.value)


@pytest.mark.sim
@pytest.mark.parametrize("kind", [list, tuple])
def test_a_sequence_of_tensors_is_no_argument(kind):
    with pytest.raises(ArgumentError, match=f"a {kind.__name__} of 2.*arguments of their own"):
        launch(copy, kind([gaussian((2, 3), 1), gaussian((2, 3), 2)]))


def test_a_queue_gives_back_what_came_first():
    queue = Queue()
    for i in range(3):
        queue.put(i)
    assert [queue.take(), queue.take(), queue.count(), queue.take(), queue.count()] == [0, 1, 1, 2, 0]


@nki.jit
def transposed_tile(x_hbm, start=0):
    out_hbm = nl.ndarray((2, 3), dtype=x_hbm.dtype, buffer=nl.shared_hbm)
    matrix = Matrix(x_hbm, start, 4, 5)
    store(out_hbm, load(matrix.tile(tiles(4, 2)[1], tiles(5, 3)[0])))
    return out_hbm


def test_a_matrix_in_a_flat_tensor_is_read_in_tiles():
    x = gaussian((3 + 20 + 2,), 1)
    assert torch.equal(launch(transposed_tile, x, start=3), x[3:23].reshape(4, 5)[2:4, 0:3])


@pytest.mark.sim
def test_launch_outside_an_op_keeps_residency():
    x = trnsci.to_device(torch.ones(3, 3))
    assert trnsci.is_resident(launch(copy, x))
    assert not trnsci.is_resident(launch(copy, torch.ones(3, 3)))


def test_without_awss_package_the_simulator_is_the_seam():
    assert not nki.HAS_NKI
    assert not trnsci.HAS_NKI
    assert nki.jit is trnsim.jit


def fake_nki(monkeypatch, **attributes):
    """An installed ``nki``: trnsim's language under another name, with a decorator that is not trnsim's."""
    import trnsim.isa
    import trnsim.language

    package = ModuleType("nki")
    for name, value in attributes.items():
        setattr(package, name, value)
    monkeypatch.setitem(sys.modules, "nki", package)
    monkeypatch.setitem(sys.modules, "nki.language", trnsim.language)
    monkeypatch.setitem(sys.modules, "nki.isa", trnsim.isa)
    package.language, package.isa = trnsim.language, trnsim.isa
    return package


def reloaded(name="trnsci.nki"):
    """A fresh copy of a module, as an interpreter with that ``nki`` would import it."""
    spec = importlib.util.spec_from_file_location(name, sys.modules[name].__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_awss_package_is_recognised(monkeypatch):
    class Compiled:
        def __init__(self, func):
            self.func = func

    fake_nki(monkeypatch, __version__="0.6.0", jit=Compiled)
    seam = reloaded()
    assert seam.HAS_NKI
    assert seam.jit is Compiled
    with pytest.raises(AssertionError, match="both values"):
        seam.require(False, "both values")


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"jit": object},
        {"__version__": "0.6.0"},
        {"__version__": "0.6.0", "jit": trnsim.jit},
        {"__version__": "0.2.9+g1", "jit": object},
        {"__version__": "beta", "jit": object},
    ],
    ids=["empty", "no version", "no jit", "trnsim installed as nki", "too old", "no number"],
)
def test_placeholders_are_not_awss_package(monkeypatch, attributes):
    fake_nki(monkeypatch, **attributes)
    assert not reloaded().HAS_NKI


def names_alone(name, module):
    """A module with the names of one of trnsim's, of which nothing runs."""

    def stub(*args, **kwargs):
        raise AssertionError("there is no device")

    copy = ModuleType(name)
    for key in module.__all__:
        value = getattr(module, key)
        if isinstance(value, type) and issubclass(value, Enum):
            made = Enum(key, {member.name: member.value for member in value}, module=name)
        else:
            made = type(key, (), {"__module__": name, "__init__": stub if key != "NKIObject" else object.__init__})
        setattr(copy, key, made)
    return copy


@pytest.mark.sim
def test_kernels_compiled_by_awss_package_still_simulate(monkeypatch):
    """A kernel whose every name is of AWS's package runs on trnsim, helpers and classes of the seam included."""

    class Compiled:
        def __init__(self, func):
            self.func = func

        def __call__(self, *args):
            raise AssertionError("there is no device")

    Compiled.__module__ = "nki"
    importlib.import_module("trnblas.kernels.gemm")
    package = fake_nki(monkeypatch, __version__="0.6.0", jit=Compiled)
    for name in ("language", "isa", "collectives"):
        setattr(package, name, names_alone(f"nki.{name}", importlib.import_module(f"trnsim.{name}")))
        monkeypatch.setitem(sys.modules, f"nki.{name}", getattr(package, name))
    seam = reloaded()
    assert seam.HAS_NKI
    monkeypatch.setitem(sys.modules, "trnsci.nki", seam)
    gemm = reloaded("trnblas.kernels.gemm").gemm
    assert type(gemm) is Compiled
    a, b = gaussian((4, 3), 1), gaussian((4, 5), 2)
    got = trnsim.simulate(kernel_launcher.as_simulated(gemm))(a[None], b[None])[0]
    torch.testing.assert_close(got, a.mT @ b)
