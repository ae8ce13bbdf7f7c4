"""What is known only when the kernel runs has to be there first, and what is still read is not overwritten."""

import numpy as np
import pytest

import trnsim.isa as nisa
import trnsim.language as nl
from tests.together import together
from tests.trnsim.timing.kernels import report_of, shaped, spans, starts, tile, zeroed

CHAIN = 200


def _chain(index, length):
    """A tile of row numbers behind ``length`` dependent Vector instructions."""
    for _ in range(length):
        nisa.tensor_scalar(dst=index, data=index, op0=nl.add, operand0=1.0)


def _gathered(source, index, how):
    if how == "vector":
        return source.ap(pattern=[[512, 128], [1, 512]], offset=0, vector_offset=index, indirect_dim=0)
    if how == "scalar":
        return source.ap(pattern=[[512, 128], [1, 512]], offset=0, scalar_offset=index[0:1, :], indirect_dim=0)
    register = nisa.register_alloc()
    nisa.register_load(dst=register, src=index[0:1, :])
    if how == "copied":
        register = nisa.register_alloc(register)
    return source.ap(pattern=[[512, 128], [1, 512]], offset=0, scalar_offset=register, indirect_dim=0)


def _gather(x, how, length, store=False):
    y = nl.ndarray((1024, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    index = zeroed(128, 1, dtype=nl.uint32)
    _chain(index, length)
    t = zeroed(128, 512)
    if store:
        nisa.dma_copy(dst=_gathered(y, index, how), src=t)
    else:
        nisa.dma_copy(dst=t, src=_gathered(x, index, how))
    # who overwrites the index waits for the transfer that uses it
    nisa.memset(dst=index, value=0)
    return y


@together("store", [False, True])
@together("how", ["vector", "scalar", "register", "copied"])
def test_a_transfer_waits_for_its_run_time_index(how, store):
    long, short = (report_of(_gather, shaped(1024, 512), how=how, length=length, store=store) for length in (CHAIN, 0))
    chain = spans(long, "tensor_scalar")
    took = chain[-1][1] - chain[0][0]
    assert took > 35e3
    (late,), (early,) = (starts(report, "dma_copy") for report in (long, short))
    assert late >= chain[-1][1]
    assert late - early == pytest.approx(took, rel=0.05)


@pytest.mark.parametrize("how", ["vector", "scalar"])
def test_an_index_is_not_overwritten_while_a_transfer_uses_it(how):
    report = report_of(_gather, shaped(1024, 512), how=how, length=1)
    ((_, end),) = spans(report, "dma_copy")
    assert starts(report, "memset")[-1] >= end


def test_an_index_tile_is_loaded_before_the_transfer_that_needs_it():
    def kernel(x, rows):
        y = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        index, t = tile(128, 1, dtype=nl.uint32), tile()
        nisa.dma_copy(dst=index, src=rows)
        nisa.dma_copy(dst=t, src=_gathered(x, index, "vector"))
        nisa.dma_copy(dst=y, src=t)
        return y

    copies = spans(report_of(kernel, shaped(1024, 512), shaped(128, 1, dtype=np.uint32)), "dma_copy")
    assert copies[1][0] >= copies[0][1]
    assert copies[2][0] >= copies[1][1]


@pytest.mark.parametrize("engine", ["vector", "gpsimd"])
def test_nobody_overwrites_a_tile_a_transfer_still_reads(engine):
    def kernel(x):
        y = nl.ndarray((16 * 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        t = tile()
        for i in range(16):
            nisa.memset(dst=t, value=float(i), engine=getattr(nisa.engine, engine))
            nisa.dma_copy(dst=y[i * 128 : (i + 1) * 128, :], src=t)
        return y

    report = report_of(kernel, shaped(1, 1))
    stores, fills = spans(report, "dma_copy"), starts(report, "memset")
    for (_, end), fill in zip(stores, fills[1:], strict=False):
        assert fill >= end


def test_a_ring_moves_its_descriptors_in_order():
    def kernel(x):
        y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = tile()
        for i in range(8):
            nisa.dma_copy(dst=t, src=x[i * 128 : (i + 1) * 128, :])
            nisa.dma_copy(dst=y[i * 128 : (i + 1) * 128, :], src=t)
        return y

    s = report_of(kernel, shaped(1024, 512)).schedules[0]
    stores, loads = range(1, 14, 2), range(2, 16, 2)
    for store, load in zip(stores, loads, strict=True):
        assert s.moving[load] > s.moving[store] >= s.end[store - 1]
