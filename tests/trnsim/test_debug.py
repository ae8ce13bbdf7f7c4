"""Looking inside: print, breakpoint, device_print, probe, compare."""

import sys

import ml_dtypes
import numpy as np
import pytest
import torch

import trnsim
from trnsim import isa as nisa, language as nl
from trnsim.errors import ReadUninitialized, WrongArgument, WrongShape

pytestmark = pytest.mark.sim

X = np.arange(256 * 600, dtype=np.float32).reshape(256, 600) / 1000


def load(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def tiled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(2):
        rows = load(x[i * 128 : (i + 1) * 128])
        squared = nl.ndarray(rows.shape, dtype=nl.float32, buffer=nl.sbuf, name="squares")
        nisa.tensor_tensor(dst=squared, data1=rows, data2=rows, op=nl.multiply)
        shifted = nl.ndarray(rows.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=shifted, data=squared, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=shifted)
    return out


# printing and stopping


def test_print_shows_values_and_what_is_not_written(capsys):
    def kernel(x):
        half = nl.ndarray((2, 3), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=half[0:1], src=x[0:1])
        print(half)
        print(x)
        print(nisa.register_alloc(7))

    trnsim.simulate(kernel, lint="off")(np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3).astype(np.float32))
    shown = capsys.readouterr().out
    assert "half, shape=(2, 3), dtype=float32, buffer=sbuf" in shown
    assert "[0.0 1.0 2.0]" in shown
    assert "-- -- --" in shown
    assert "[3. 4. 5.]" in shown
    assert "7" in shown.splitlines()[-1]


def test_large_tensors_are_abbreviated_and_all_dtypes_print(capsys):
    def kernel(x):
        print(x)

    for dtype in (np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3, np.int8, np.bool_):
        trnsim.simulate(kernel, lint="off")(X.astype(dtype))
        shown = capsys.readouterr().out
        assert "..." in shown
        assert len(shown) < 2000


@pytest.mark.parametrize("cores", [1, 2])
def test_breakpoint_stops_inside_the_kernel(monkeypatch, cores):
    seen = []

    def hook():
        frame = sys._getframe(1)
        seen.append((frame.f_code.co_name, frame.f_locals["tile"].array.copy()))

    monkeypatch.setattr(sys, "breakpointhook", hook)

    def kernel(x):
        tile = load(x[0:2, 0:2])
        breakpoint()
        return tile.shape

    trnsim.simulate(trnsim.jit(kernel)[cores], lint="off")(X)
    assert [name for name, _ in seen] == ["kernel"] * cores
    np.testing.assert_array_equal(seen[-1][1], X[:2, :2])


# probe


def test_a_probe_returns_intermediates_by_name_or_variable():
    with trnsim.probe("squares", "sh*") as seen:
        made = trnsim.simulate(tiled)(X)
    np.testing.assert_array_equal(made, X * X + 1)
    assert list(seen) == ["squares", "shifted"]
    assert len(seen) == 2
    assert "squared" not in seen
    np.testing.assert_array_equal(seen["squares"], X[128:] ** 2)
    both = seen.all("squares")
    np.testing.assert_array_equal(np.concatenate([v.array for v in both]), X**2)
    assert [v.core for v in both] == [0, 0]
    assert both[0].first < both[1].first
    assert both[0].line.endswith(f"test_debug.py:{tiled.__code__.co_firstlineno + 4}")
    assert "squares[128, 600] float32" in repr(seen)


def test_a_probe_without_names_takes_every_named_tensor():
    with trnsim.probe() as seen:
        trnsim.simulate(tiled)(X)
    # the tile made in the helper has the name of the variable there
    assert set(seen) == {"out", "tile", "squares", "shifted"}
    np.testing.assert_array_equal(seen["out"], X * X + 1)


def test_what_is_missing_is_explained():
    with trnsim.probe("scores") as seen:
        trnsim.simulate(tiled)(X)
    with pytest.raises(
        KeyError, match="no tensor called 'scores' was written; the kernel has out, shifted, squares, tile"
    ):
        seen["scores"]
    assert repr(seen) == "nothing seen"


def test_probes_nest_and_end():
    with trnsim.probe("squares") as outer:
        with trnsim.probe("shifted") as inner:
            trnsim.simulate(tiled)(X)
        trnsim.simulate(tiled)(2 * X)
    trnsim.simulate(tiled)(3 * X)
    assert (list(outer), list(inner)) == (["squares"], ["shifted"])
    assert [len(outer.all("squares")), len(inner.all("shifted"))] == [4, 2]
    np.testing.assert_array_equal(outer["squares"], (2 * X[128:]) ** 2)


def test_a_failing_kernel_leaves_what_it_had():
    def kernel(x):
        good = load(x[0:4, 0:4])
        half = nl.ndarray((4, 4), nl.float32, nl.sbuf)
        nisa.tensor_copy(dst=half[0:2], src=good[0:2])
        load(nl.ndarray((2, 2), nl.float32, nl.shared_hbm))

    with trnsim.probe() as seen, pytest.raises(ReadUninitialized):
        trnsim.simulate(kernel, strict=True)(X)
    np.testing.assert_array_equal(seen["half"][:2], X[:2, :4])
    assert np.isnan(seen["half"][2:]).all()


def test_each_core_and_rank_has_its_values():
    def kernel(x):
        own = load(x[nl.program_id(0) * 128 : (nl.program_id(0) + 1) * 128])
        twice = nl.ndarray(own.shape, own.dtype, nl.sbuf)
        nisa.tensor_scalar(dst=twice, data=own, op0=nl.multiply, operand0=2.0)

    with trnsim.probe("twice") as seen:
        trnsim.simulate(trnsim.jit(kernel)[2])(X)
    assert [v.core for v in seen.all("twice")] == [0, 1]
    np.testing.assert_array_equal(np.concatenate([v.array for v in seen.all("twice")]), 2 * X)
    with trnsim.probe("twice") as seen:
        trnsim.simulate_ranks(kernel, 2)(X)
    assert [v.rank for v in seen.all("twice")] == [0, 1]


def test_a_tensor_whose_memory_is_given_away_keeps_its_value():
    def kernel(x):
        first = nl.ndarray((4, 4), nl.float32, nl.sbuf, address=(0, 0))
        nisa.dma_copy(dst=first, src=x[0:4, 0:4])
        second = nl.ndarray((4, 4), nl.float32, nl.sbuf, address=(0, 0))
        nisa.memset(second, 5.0)

    with trnsim.probe() as seen:
        trnsim.simulate(kernel)(X)
    np.testing.assert_array_equal(seen["first"], X[:4, :4])
    assert (seen["second"] == 5).all()


def test_kernels_without_source_have_names_and_lines():
    text = """
def made(nl, x):
    return nl.load(x)

def kernel(x):
    tile = made(nl, x)
    parts = [nl.copy(tile)]
    nisa.tensor_tensor(tile, tile, tile[:, 0:2], nl.add)
"""
    space = {"nl": nl, "nisa": nisa}
    exec(compile(text, "<typed>", "exec"), space)
    with trnsim.probe("tile") as seen, pytest.raises(WrongShape, match=r"data2 \(tile\)") as caught:
        trnsim.simulate(space["kernel"])(X[:4])
    assert caught.value.line == "<typed>:8"
    np.testing.assert_array_equal(seen["tile"], X[:4])


def test_device_print_is_seen_at_its_place(capsys):
    def kernel(x):
        tile = load(x[0:2, 0:2])
        nl.device_print("before", tile)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nl.device_print("after", tile)

    with trnsim.probe("before", "after") as seen:
        trnsim.simulate(kernel)(X)
    np.testing.assert_array_equal(seen["after"], seen["before"] + 1)
    assert "before tile" in capsys.readouterr().out


def test_probing_without_checks_still_names_tensors():
    with trnsim.probe("shifted") as seen:
        trnsim.simulate(tiled, checks=False)(X)
    np.testing.assert_array_equal(seen["shifted"], X[128:] ** 2 + 1)


# compare


def test_agreement_is_true():
    found = trnsim.compare(tiled, lambda x: x * x + 1, X)
    assert found
    assert found.first is None
    assert str(found) == "result: no difference."
    assert trnsim.compare(tiled, lambda x: x * x + 1, torch.from_numpy(X))


def test_the_first_tile_that_differs_is_reported():
    def wrong(x):
        made = x * x + 1
        made[130, 515] += 4
        made[131, 590] -= 9
        made[255, 3] += 1
        return made

    found = trnsim.compare(tiled, wrong, X)
    assert not found
    first = found.first
    assert (first.name, first.tile, first.count, first.size) == ("result", (1, 0), 1, 128 * 512)
    assert first.where == (slice(128, 256), slice(0, 512))
    found = trnsim.compare(tiled, lambda x: wrong(x) + 0 * x, X, tile=(128, 600))
    first = found.first
    assert (first.tile, first.count, first.at) == ((1, 0), 3, (131, 590))
    assert first.error == pytest.approx(9, rel=1e-3)
    assert first.got == pytest.approx(first.expected + 9, rel=1e-3)
    assert "differs first in tile (1, 0), [128:256, 0:600]: 3 of 76800 elements, worst at (131, 590)" in str(found)


def test_intermediates_are_compared_in_program_order():
    def reference(x):
        squares = x * x
        return {
            "return": squares + 1,
            "shifted": [squares[:128] + 1, squares[128:] + 2],
            "squares": [squares[:128], squares[128:] + np.eye(128, 600, dtype=np.float32)],
        }

    found = trnsim.compare(tiled, reference, X)
    assert [d.name for d in found.differences] == ["squares[1]", "shifted[1]"]
    assert found.first.line.endswith(f":{tiled.__code__.co_firstlineno + 4}")
    assert found.checked[-1] == "result"
    last = trnsim.compare(tiled, lambda x: {"squares": x[128:] ** 2}, X)
    assert last
    assert last.checked == ("squares",)


def test_names_the_kernel_lacks_and_wrong_counts_are_refused():
    with pytest.raises(WrongArgument, match="scores") as caught:
        trnsim.compare(tiled, lambda x: {"scores": x}, X)
    assert caught.value.limit == ["out", "shifted", "squares", "tile"]
    with pytest.raises(WrongArgument, match="3 values of squares and the kernel 2"):
        trnsim.compare(tiled, lambda x: {"squares": [x, x, x]}, X)


def test_shapes_kinds_and_structure_are_compared():
    found = trnsim.compare(tiled, lambda x: x[:2], X)
    assert "shape (256, 600) and the reference (2, 600)" in str(found)
    assert "reference NoneType" in str(trnsim.compare(tiled, lambda x: None, X))

    def pair(x):
        return tiled(x), {"again": tiled(x)}

    found = trnsim.compare(pair, lambda x: (x * x + 1, {"again": x * x}), X, lint="off")
    assert [d.name for d in found.differences] == ["result[1]['again']"]
    assert found.checked == ("result[0]", "result[1]['again']")


def test_kernels_that_write_an_argument_are_compared_too():
    def kernel(x, out):
        nisa.dma_copy(dst=out, src=load(x))

    x, out = X[:4, :4].copy(), np.zeros((4, 4), np.float32)
    assert trnsim.compare(kernel, lambda x, out: x, x, out)
    assert not trnsim.compare(kernel, lambda x, out: x + 1, x, out)
    assert not out.any()


def test_tolerances():
    def noisy(size):
        return lambda x: x * x + 1 + size * float((x * x).max())

    assert trnsim.compare(tiled, noisy(5e-6), X)
    assert not trnsim.compare(tiled, noisy(5e-5), X)
    assert trnsim.compare(tiled, noisy(5e-5), X, rtol=1e-4)
    assert trnsim.compare(tiled, noisy(5e-5), X, atol=10.0)

    def low(x):
        out = nl.ndarray(x.shape, nl.bfloat16, nl.shared_hbm)
        tile = nl.ndarray(x.shape, nl.bfloat16, nl.sbuf)
        nisa.tensor_copy(dst=tile, src=load(x))
        nisa.dma_copy(dst=out, src=tile)
        return out

    assert trnsim.compare(low, lambda x: x, X[:128])
    assert trnsim.compare(low, lambda x: {"tile": x, "return": x}, X[:128])
    assert not trnsim.compare(low, lambda x: 1.05 * x, X[:128])

    n = X.astype(np.int32) % 50
    found = trnsim.compare(lambda x: copied(x), lambda x: x + (x == 49), n, lint="off")
    assert found.first.allowed == 0
    assert trnsim.compare(lambda x: copied(x), lambda x: x, n, lint="off")


def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(2):
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=load(x[i * 128 : (i + 1) * 128]))
    return out


def test_not_a_number_agrees_only_with_itself():
    x = X.copy()
    x[3, 4] = np.nan
    assert trnsim.compare(copied, lambda x: x, x)
    found = trnsim.compare(copied, lambda x: np.nan_to_num(x), x)
    assert found.first.at == (3, 4)
    assert found.first.error == np.inf
    inf = np.full((256, 4), np.inf, np.float32)
    assert trnsim.compare(copied, lambda x: x, inf)
    assert not trnsim.compare(copied, lambda x: -x, inf)
