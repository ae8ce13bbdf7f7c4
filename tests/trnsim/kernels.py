"""A bench for single instructions: arrays become tiles, a body works on them, tiles become arrays."""

import numpy as np
import pytest

import trnsim
from trnsim import isa, language
from trnsim.errors import ReadUninitialized

TARGETS = ("trn1", "trn2", "trn3")


def run(body, *inputs, out=(), psum=(), target="trn2", **options):
    """Call ``body(*tiles, *outputs)`` in a kernel.

    ``out`` lists (shape, dtype[, buffer]) of the outputs, ``psum`` the positions of inputs that go to PSUM.
    Returns what the output tiles hold, one array or a list.
    """
    results = []

    def kernel(*tensors):
        tiles = []
        for i, t in enumerate(tensors):
            tile = language.ndarray(t.shape, t.dtype, name=f"in{i}")
            isa.dma_copy(dst=tile, src=t)
            if i in psum:
                other = language.ndarray(t.shape, t.dtype, buffer=language.psum, name=f"in{i}")
                isa.tensor_copy(dst=other, src=tile)
                tile = other
            tiles.append(tile)
        made = [language.ndarray(*spec, name=f"out{i}") for i, spec in enumerate(out)]
        body(*tiles, *made)
        if options.get("numerics", True):
            results.extend(np.array(t.array) for t in made)

    trnsim.simulate(kernel, target=target, lint="off", **options)(*inputs)
    return results[0] if len(results) == 1 else results


def refused(error, rule, body, *inputs, says=(), **options):
    """Run ``body`` expecting ``error`` with ``rule``; its fields are filled and its text says ``says``."""
    # a read of unwritten memory is refused at once when asked for; see test_poison for what happens otherwise
    options = {"strict": True, **options} if error is ReadUninitialized else options
    with pytest.raises(error) as caught:
        run(body, *inputs, **options)
    found = caught.value
    assert type(found) is error
    assert found.rule == rule
    assert found.target == options.get("target", "trn2")
    assert found.instruction
    assert found.kernel == "kernel"
    assert ".py:" in found.line
    text = str(found)
    assert text.startswith(f"{found.instruction}: ")
    for part in (says,) if isinstance(says, str) else says:
        assert part in text, text
    return found


def rng(seed=0):
    """A seeded generator."""
    return np.random.default_rng(seed)
