"""Transforms of spread arrays against scipy.fft, for every function, placement and number of ranks."""

import itertools

import numpy as np
import pytest
import scipy.fft
import torch

import trnfft
import trnsci
from trnsci import distributed
from trnsci.distributed import Layout

SIZES = (1, 2, 3, 4)


def _data(shape, real):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    return torch.from_numpy(x if real else x + 1j * rng.standard_normal(shape))


def _run(name, mesh_shape, shape, places, options):
    mesh = distributed.mesh(*mesh_shape)
    x = _data(shape, name in ("rfft", "rfftn", "rfft2", "ihfft"))
    spread = distributed.shard(x, mesh, *places)
    made = getattr(trnfft, name)(spread, **options)
    return made.placements == spread.placements, distributed.gather(made).numpy()


def _close(got, exact):
    # fp64: relative L2 error of one transform, docs/trnfft/transform.md; three run after each other
    return np.linalg.norm(got - exact) <= 3e-14 * max(np.linalg.norm(exact), 1e-300)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "irfft2"])
def test_n_dimensional(ranks, name):
    shape = (6, 5, 8)
    x = _data(shape, name.startswith("r")).numpy()
    cases = [({}, {}), ({"norm": "ortho"}, {}), ({"dim": (1, 2), "norm": "forward"}, {"axes": (1, 2)})]
    if name.endswith("n"):
        cases.append(({"s": (7, 4), "dim": (0, 2)}, {"s": (7, 4), "axes": (0, 2)}))
    for (ours, theirs), place in itertools.product(cases, (0, 1, 2, None)):
        options = {key: value for key, value in ours.items() if key == "norm"} | theirs
        exact = getattr(scipy.fft, name)(x, **options)
        for same, got in ranks(3).run(_run, name, (3,), shape, (place,), ours):
            assert same
            assert _close(got, exact), (name, ours, place)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_axis_of_many(ranks, name):
    x = _data((5, 9), name in ("rfft", "ihfft")).numpy()
    for axis, place in itertools.product((0, 1), (0, 1, None)):
        exact = getattr(scipy.fft, name)(x, axis=axis)
        for _, got in ranks(2).run(_run, name, (2,), (5, 9), (place,), {"dim": axis}):
            assert _close(got, exact), (axis, place)


def test_on_a_grid(ranks):
    x = _data((4, 6, 5), False).numpy()
    for places in ((0, 1), (2, 0), (1, None)):
        for _, got in ranks(4).run(_run, "fftn", (2, 2), (4, 6, 5), places, {}):
            assert _close(got, scipy.fft.fftn(x)), places
    flat = _data((5, 7), False).numpy()
    for _, got in ranks(4).run(_run, "fftn", (2, 2), (5, 7), (1, 0), {}):
        assert _close(got, scipy.fft.fftn(flat))


@pytest.mark.parametrize("size", SIZES)
def test_a_single_axis(ranks, size):
    for length in (1, 2, 12, 36, 64, 97, 2 * 53, 1000):
        for name in ("fft", "ifft"):
            exact = getattr(scipy.fft, name)(_data((length,), False).numpy(), norm="ortho")
            for _, got in ranks(size).run(_run, name, (size,), (length,), (0,), {"norm": "ortho"}):
                assert _close(got, exact), (length, name)


def test_what_a_single_axis_cannot_do(ranks):
    with pytest.raises(Exception, match="complex data") as caught:
        ranks(2).run(_run, "rfft", (2,), (16,), (0,), {})
    assert isinstance(caught.value.errors[0], trnsci.UnsupportedError)


def test_plans():
    cube = Layout((256, 256, 256), torch.complex64, (8,), (0,))
    plan = distributed.plan(trnfft.fftn, cube)
    # there and back, each time seven eighths of a rank's share
    assert plan.volume == 2 * 7 * 256**3 // 64 * 8
    line = Layout((2**24,), torch.complex64, (8,), (0,))
    assert distributed.plan(trnfft.fft, line).volume == 3 * 7 * 2**24 // 64 * 8
