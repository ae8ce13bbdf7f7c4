"""Transforms of spread arrays against scipy.fft, for every function, placement and number of ranks."""

import itertools
import math
from unittest import mock

import numpy as np
import pytest
import scipy.fft
import torch

import trnfft
import trnsci
from trnfft.device.digit_programs import BOUND
from trnsci import distributed
from trnsci.distributed import Layout

SIZES = (*(pytest.param(size, marks=pytest.mark.slow) for size in (1, 2, 4)), 3)


def _data(shape, real):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    return torch.from_numpy(x if real else x + 1j * rng.standard_normal(shape))


def _run(name, mesh_shape, shape, places, options):
    mesh = distributed.mesh(*mesh_shape)
    x = _data(shape, name in ("rfft", "rfftn", "rfft2", "ihfft"))
    spread = distributed.shard(x, mesh, *places)
    made = getattr(trnfft, name)(spread, **options)
    return made.placements == spread.placements, distributed.gather(made).numpy(force=True)


def _close(got, exact):
    # one transform's, docs/trnfft/fft.md; three run after each other
    return np.linalg.norm(got - exact) <= 3 * BOUND["fp64"] * max(np.linalg.norm(exact), 1e-300)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "irfft2"])
def test_n_dimensional(ranks, name):
    shape = (6, 5, 8)
    x = _data(shape, name.startswith("r")).numpy(force=True)
    cases = [({}, {}), ({"norm": "ortho"}, {}), ({"dim": (1, 2), "norm": "forward"}, {"axes": (1, 2)})]
    if name.endswith("n"):
        cases.append(({"s": (7, 4), "dim": (0, 2)}, {"s": (7, 4), "axes": (0, 2)}))
    cases = list(itertools.product(cases, (0, 1, 2, None)))
    found = ranks(3).each(_run, [(name, (3,), shape, (place,), ours) for (ours, _), place in cases])
    for ((ours, theirs), place), results in zip(cases, found, strict=True):
        options = {key: value for key, value in ours.items() if key == "norm"} | theirs
        exact = getattr(scipy.fft, name)(x, **options)
        for same, got in results:
            assert same
            assert _close(got, exact), (name, ours, place)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_axis_of_many(ranks, name):
    x = _data((5, 9), name in ("rfft", "ihfft")).numpy(force=True)
    cases = list(itertools.product((0, 1), (0, 1, None)))
    found = ranks(2).each(_run, [(name, (2,), (5, 9), (place,), {"dim": axis}) for axis, place in cases])
    for (axis, place), results in zip(cases, found, strict=True):
        exact = getattr(scipy.fft, name)(x, axis=axis)
        for _, got in results:
            assert _close(got, exact), (axis, place)


def test_on_a_grid(ranks):
    x = _data((4, 6, 5), False).numpy(force=True)
    for places in ((0, 1), (2, 0), (1, None)):
        for _, got in ranks(4).run(_run, "fftn", (2, 2), (4, 6, 5), places, {}):
            assert _close(got, scipy.fft.fftn(x)), places
    flat = _data((5, 7), False).numpy(force=True)
    for _, got in ranks(4).run(_run, "fftn", (2, 2), (5, 7), (1, 0), {}):
        assert _close(got, scipy.fft.fftn(flat))


@pytest.mark.parametrize("size", SIZES)
def test_a_single_axis(ranks, size):
    cases = list(itertools.product((1, 2, 12, 36, 64, 97, 2 * 53, 1000), ("fft", "ifft")))
    found = ranks(size).each(_run, [(name, (size,), (n,), (0,), {"norm": "ortho"}) for n, name in cases])
    for (length, name), results in zip(cases, found, strict=True):
        exact = getattr(scipy.fft, name)(_data((length,), False).numpy(force=True), norm="ortho")
        for _, got in results:
            assert _close(got, exact), (length, name)


def _lines(mesh_shape, lengths):
    """Transforms of one cut axis that came out wrong: real ones, other lengths, terms."""
    mesh, wrong = distributed.mesh(*mesh_shape), []
    places = (*[None] * (len(mesh_shape) - 1), 0)
    for name, length, n in itertools.product(("rfft", "irfft", "hfft", "ihfft", "fft"), lengths, (None, 5, 8)):
        x = _data((length,), name in ("rfft", "ihfft"))
        options = {"n": n, "norm": "ortho"}
        made = getattr(trnfft, name)(distributed.shard(x, mesh, *places), **options)
        terms = getattr(trnfft, name)(distributed.shard(x, mesh, "sum"), **options)
        exact = getattr(scipy.fft, name)(x.numpy(force=True), **options)
        if not (
            _close(distributed.gather(made).numpy(force=True), exact)
            and _close(distributed.gather(terms).numpy(force=True), exact)
        ):
            wrong.append((name, length, n))
        assert made.placements[-1].is_shard(0)
        assert all(place.is_replicate() for place in terms.placements)
    x = _data((97,), False)
    fast = distributed.gather(trnfft.fft(distributed.shard(x, mesh, *places), precision="fast")).numpy(force=True)
    exact = scipy.fft.fft(torch.view_as_complex(torch.view_as_real(x).bfloat16().to(torch.float64)).numpy(force=True))
    # once to bfloat16 on every path; then three transforms of float32, `8 log2(2 n)` roundings each
    rounded_once = np.linalg.norm(fast - exact) <= 3 * 8 * math.log2(1024) * 2.0**-24 * np.linalg.norm(exact)
    return wrong if rounded_once else [*wrong, "fast"]


@pytest.mark.parametrize("mesh", [(2,), pytest.param((3,), marks=pytest.mark.slow), (2, 2)])
def test_real_lines_other_lengths_and_terms(ranks, mesh):
    assert ranks(math.prod(mesh)).run(_lines, mesh, (2, 7, 12)) == [[]] * math.prod(mesh)


def test_plans():
    cube = Layout((256, 256, 256), torch.complex64, (8,), (0,))
    plan = distributed.plan(trnfft.fftn, cube)
    # there and back, each time seven eighths of a rank's share
    assert plan.volume == 2 * 7 * 256**3 // 64 * 8
    line = Layout((2**24,), torch.complex64, (8,), (0,))
    assert distributed.plan(trnfft.fft, line).volume == 3 * 7 * 2**24 // 64 * 8


FRAMES = (
    ("stft", (401,), {}),
    ("stft", (65,), {"hop_length": 7, "center": False, "return_complex": False}),
    ("stft", (5, 200), {"pad_mode": "circular", "normalized": True}),
    ("stft", (1, 200), {"pad_mode": "constant", "onesided": False}),
    ("spectrogram", (5, 2, 90), {"power": 1.0}),
    ("spectrogram", (300,), {"hop_length": 64}),
)


def _frames(name, shape, options, place):
    mesh = distributed.mesh()
    window = distributed.shard(torch.hann_window(64, dtype=torch.float64), mesh, 0)
    made = getattr(trnfft, name)(distributed.shard(_data(shape, True), mesh, place), 64, window=window, **options)
    assert any(made.placements[0].is_shard(axis) for axis in range(made.ndim))
    return distributed.gather(made).numpy(force=True)


@pytest.mark.parametrize("size", [2, 3])
def test_frames_of_signals_and_of_one_long_signal(ranks, size):
    window = torch.hann_window(64, dtype=torch.float64)
    for name, shape, options in FRAMES:
        power, theirs = options.get("power"), {key: value for key, value in options.items() if key != "power"}
        x = _data(shape, True).reshape(-1, shape[-1])
        exact = torch.stft(x, 64, window=window, **{"return_complex": True} | theirs).numpy(force=True)
        exact = exact.reshape(*shape[:-1], *exact.shape[1:])
        exact = exact if name == "stft" else np.abs(exact) ** (power or 2.0)
        for place in (0, len(shape) - 1, None):
            for made in ranks(size).run(_frames, name, shape, options, place):
                assert made.shape == exact.shape
                assert _close(made, exact), (name, shape, place)


def _back(shape, place):
    mesh, x = distributed.mesh(), _data(shape, True)
    spectra = distributed.shard(trnfft.stft(x, 32), mesh, place)
    made = trnfft.istft(spectra, 32, length=shape[-1])
    return distributed.gather(made).numpy(force=True)


@pytest.mark.parametrize("shape", [(5, 100), (100,)])
def test_frames_and_back(ranks, shape):
    for place in (0, 1):
        for made in ranks(3).run(_back, shape, place):
            assert _close(made, _data(shape, True).numpy(force=True))


def _in_slices(mesh_shape, shape, places, name):
    """A transform whose slices travel one after the other, and how many exchanges it took."""
    mesh = distributed.mesh(*mesh_shape)
    x = distributed.shard(_data(shape, name == "rfftn"), mesh, *places)
    with mock.patch("trnfft.sharded._SLICE", 64), trnsci.ledger() as entries:
        made = getattr(trnfft, name)(x)
    return len(entries.exchanges), distributed.gather(made).numpy(force=True)


@pytest.mark.parametrize("name", ["fftn", "rfftn"])
def test_slices_of_an_array_travel_while_others_are_transformed(ranks, name):
    for mesh, shape, places in (((3,), (7, 5, 11), (1,)), ((3,), (1, 2, 40), (0,)), ((3,), (17, 4, 3), (2,))):
        exact = getattr(scipy.fft, name)(_data(shape, name == "rfftn").numpy(force=True))
        for exchanges, got in ranks(3).run(_in_slices, mesh, shape, places, name):
            assert exchanges > 3
            assert _close(got, exact), (shape, places)


@pytest.mark.slow
def test_slices_on_a_grid(ranks):
    for shape in ((7, 5, 11), (3, 1, 30)):
        for _, got in ranks(4).run(_in_slices, (2, 2), shape, (0, 1), "fftn"):
            assert _close(got, scipy.fft.fftn(_data(shape, False).numpy(force=True)))
