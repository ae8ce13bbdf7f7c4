"""A table of what each version of NKI brought: one small kernel for every item, run on the target that is named."""

import numpy as np
import pytest

import trnsim
from trnsim import isa, language
from trnsim.lint import require_nki

ITEMS = []


def item(title, *, since, target="trn3", until="0.7", refuse=None, warn=None):
    """Register a check ``(run) -> None``; ``run`` simulates a kernel on the target, in a version that has the item.

    Args:
        title: what is tried.
        since: the version that brought it.
        target: generation of the hardware.
        until: the last version it is tried with.
        refuse: part of the error that is expected instead of a result.
        warn: part of the warning that is expected besides the result.
    """

    def register(check):
        ITEMS.append((title, since, until, target, refuse, warn, check))
        return check

    return register


def try_item(since, until, target, refuse, warn, check):
    """Try an item in the version that brought it and in the latest that has it, under the rules of each."""
    for nki in dict.fromkeys((since, until)):

        def run(body, *inputs, out=(), ranks=None, cores=None, nki=nki, **options):
            return simulated(body, *inputs, out=out, ranks=ranks, cores=cores, target=target, nki=nki, **options)

        if refuse is not None:
            with pytest.raises(Exception, match=refuse):
                check(run)
        elif warn is not None:
            with pytest.warns(Warning, match=warn):
                check(run)
        else:
            check(run)


def simulated(body, *inputs, out=(), ranks=None, cores=None, **options):
    """Run ``body(*tiles, *outputs)`` as a kernel: inputs are loaded into tiles, and output tiles are returned."""

    def kernel(*tensors):
        tiles = []
        for t in tensors:
            tile = language.ndarray(t.shape, t.dtype, buffer=language.sbuf)
            isa.dma_copy(dst=tile, src=t)
            tiles.append(tile)
        made = []
        for shape, dtype in out:
            made.append(language.ndarray(shape, dtype, buffer=language.sbuf))
        body(*tiles, *made)
        results = []
        for tile in made:
            result = language.ndarray(tile.shape, tile.dtype, buffer=language.shared_hbm)
            isa.dma_copy(dst=result, src=tile)
            results.append(result)
        return tuple(results)

    if out and options.get("lint") != "off":
        # what an item is about is its body; the frame around it is Python
        require_nki(body, options["nki"])
        options["lint"] = "off" if options["nki"] < "0.7" else "error"
    entry = body if out == () else kernel
    entry = entry if cores is None else trnsim.jit(entry)[cores]
    if ranks is not None:
        return trnsim.simulate_ranks(entry, ranks, **options)(*inputs)
    results = trnsim.simulate(entry, **options)(*inputs)
    return results[0] if isinstance(results, tuple) and len(results) == 1 else results


def numbers(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(dtype)
