"""Words: Random123's answers first, then that any part of a stream is the same wherever and however it is made."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings, strategies as st

import trnrand
import trnsci
from trnrand import Stream, bits
from trnsci import ArgumentError, DtypeError
from trnsci.testing import BACKENDS, known_answers

ANSWERS = known_answers(Path(__file__).parent / "known" / "random123.csv")
ENGINES = ("philox4x32", "threefry4x32")
device_module = sys.modules["trnrand.device"]
on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)


def words(text):
    return torch.tensor([int(word, 16) for word in text.split()])


def integer(text):
    return sum(int(word, 16) << 32 * i for i, word in enumerate(text.split()))


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("row", ANSWERS, ids=lambda row: f"{row['engine']}-{row['counter'][:8]}")
def test_random123_known_answers(backend, row, loops):
    with backend:
        part = bits(Stream(integer(row["key"]), row["engine"], base=integer(row["counter"])), 0, 4)
    assert part.dtype == torch.uint32
    assert part.tolist() == words(row["words"]).tolist()


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("bits_below", [32, 64, 96, 128])
def test_streams_cross_counter_boundaries(backend, engine, bits_below, loops):
    base = (1 << bits_below) - 3
    key = 0x0123456789ABCDEF
    counters = [(base + i) % (1 << 128) for i in range(40)]
    counter = torch.tensor([[c >> 32 * w & 0xFFFFFFFF for w in range(4)] for c in counters])
    stream = Stream(key, engine, base=base)
    expected = getattr(trnrand, engine)(counter, torch.tensor(stream.key_words)).flatten()
    with backend:
        assert torch.equal(bits(stream, 0, 160), expected)


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("offset", "n"), [(0, 1), (3, 1), (1, 4), (2, 511), (0, 512), (5, 4 * 128 * 3 + 7), (7, 0)])
def test_any_part_of_a_stream(backend, engine, offset, n):
    whole = bits(11, 0, offset + n, engine=engine)
    with backend:
        assert torch.equal(bits(11, offset, n, engine=engine), whole[offset:])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**66), st.integers(0, 3000), st.integers(0, 3000), st.sampled_from(ENGINES))
def test_a_part_is_where_it_was(offset, before, after, engine):
    whole = bits(5, offset, before + after, engine=engine)
    parts = bits(5, offset, before, engine=engine), bits(5, offset + before, after, engine=engine)
    assert torch.equal(torch.cat(parts), whole)


@pytest.mark.parametrize("engine", ENGINES)
def test_threads_do_not_change_words(engine, pure):
    n = 300_001
    kept = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        many = bits(3, 1, n, engine=engine)
    finally:
        torch.set_num_threads(kept)
    assert torch.equal(many, pure(lambda: bits(3, 1, n, engine=engine)))


def test_errors():
    with pytest.raises(DtypeError, match="an integer"):
        bits(1, 0.5, 4)
    with pytest.raises(DtypeError, match="this machine has"):
        bits(1, 0, 4, device="nowhere")
    with pytest.raises(ArgumentError) as caught:
        bits(1, -1, 4)
    assert (caught.value.argument, caught.value.got) == ("offset", -1)
    with pytest.raises(ArgumentError, match=r"2\*\*64"):
        bits(1 << 64, 0, 4)


def test_a_plan_predicts():
    plan = trnsci.plan(bits, 1, 0, 4096)
    assert plan.predicted["trn2"] > 0


def test_the_probe_compares_words_with_the_definition(monkeypatch):
    assert trnrand.probe() == {"bits": "words of philox4x32 and threefry4x32 are exact on simulator (trn2)"}
    kernel = device_module.launch

    def saturating(*args, **options):
        made = kernel(*args, **options)
        made[5] = 0xFFFFFFFF
        return made

    monkeypatch.setattr(device_module, "launch", saturating)
    with pytest.raises(ArgumentError, match=r"1 of 1200 words of philox4x32 that differ") as caught:
        trnrand.probe()
    assert "backend 'pytorch'" in str(caught.value)


def test_a_device_is_probed_once_before_its_first_stream(monkeypatch):
    checked = []
    monkeypatch.setattr(device_module, "_check_words", checked.append)
    monkeypatch.setattr(device_module, "_trusted", set())
    monkeypatch.setattr(device_module, "current", lambda: SimpleNamespace(backend="nki", target="trn2"))
    for engine in (*ENGINES, *ENGINES):
        device_module.trust(engine)
    assert checked == list(ENGINES)
    monkeypatch.setattr(device_module, "current", lambda: SimpleNamespace(backend="simulator", target="trn2"))
    monkeypatch.setattr(device_module, "_trusted", set())
    device_module.trust("philox4x32")
    assert checked == list(ENGINES)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stream_too_long_for_one_program_is_several(engine, monkeypatch):
    monkeypatch.setattr(sys.modules["trnrand.device"], "BLOCKS", 2)
    stem = engine.removesuffix("4x32")
    kernels = importlib.import_module(f"trnrand.kernels.{stem}")
    monkeypatch.setattr(kernels, "AXES", tuple(axis._replace(step=256) for axis in kernels.AXES))
    expected = bits(5, (1 << 34) - 9, 4000, engine=engine)
    counters = torch.arange(4 * 700).reshape(700, 4)
    key = torch.arange(2 if engine == "philox4x32" else 4)
    words = getattr(trnrand, engine)(counters, key)
    monkeypatch.setenv("TRNSCI_PROGRAM_INSTRUCTIONS", "1")
    with trnsci.backend("simulator"):
        assert torch.equal(bits(5, (1 << 34) - 9, 4000, engine=engine), expected)
        assert torch.equal(getattr(trnrand, engine)(counters, key), words)
