"""Messages that come late: algorithms that compute while they travel do not wait for them."""

import contextlib
import pkgutil
import time
from unittest import mock

import numpy as np
import pytest
import torch

import trnblas
import trnsci
import trnsparse
import trntensor
from trnsci import distributed
from trnsci.distributed.team import LiveTeam

DELAY = 0.06


class Late:
    """The work of an exchange whose message takes longer by a while."""

    def __init__(self, work):
        self.work, self.arrival = work, time.monotonic() + DELAY

    def is_completed(self):
        return time.monotonic() >= self.arrival and self.work.is_completed()

    def wait(self):
        time.sleep(max(0.0, self.arrival - time.monotonic()))
        self.work.wait()


def _delay_data(start):
    """Delay what moves data; ranks that agree on a call and leave it exchange without."""

    def delayed(team, kind, axis, nbytes, collective, *args, **options):
        if nbytes is None:
            return start(team, kind, axis, nbytes, collective, *args, **options)
        return start(team, kind, axis, nbytes, lambda *a, **k: Late(collective(*a, **k)), *args, **options)

    return delayed


def _slowly(function):
    def compute(*args, **options):
        result = function(*args, **options)
        time.sleep(1.5 * DELAY)
        return result

    return compute


def _gemm():
    mesh = distributed.mesh(2, 2)
    a, b = (distributed.shard(torch.ones(4096, 4096) / 64, mesh, 0, 1) for _ in range(2))
    return trnblas.gemm(1.0, a, b)


def _attention():
    q = distributed.shard(torch.ones(64, 8), distributed.mesh(), 0)
    return trnsparse.attention(q, q, q)


def _mp2_energy():
    mesh = distributed.mesh()
    B = distributed.shard(torch.ones(16, 4, 8), mesh, 0)
    occ, vir = -torch.linspace(1, 2, 16), torch.linspace(1, 2, 4)
    return trntensor.mp2_energy(B, *(distributed.shard(x, mesh, None) for x in (occ, vir)))


# The function that starts its exchanges early, and what it computes with meanwhile.
CASES = {
    "gemm": (_gemm, "all_gather", "trnblas.sharded.gemm"),
    "attention": (_attention, "shift", "trnsparse.sharded.attend"),
    "mp2_energy": (_mp2_energy, "shift", "trntensor.sharded.mp2_within", "trntensor.sharded.mp2_between"),
}


def _waited(name):
    """Return how often a call waited for a message that was on its way, and how long in all."""
    call, kind, *computed = CASES[name]
    with contextlib.ExitStack() as stack, trnsci.ledger() as entries:
        stack.enter_context(mock.patch.object(LiveTeam, "_start", _delay_data(LiveTeam._start)))
        for path in computed:
            stack.enter_context(mock.patch(path, _slowly(pkgutil.resolve_name(path))))
        call()
    seconds = [entry.measured for entry in entries.exchanges if entry.kind == kind]
    return len(seconds), sum(seconds)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_four_fifths_of_a_delay_are_hidden(ranks, name):
    counts, seconds = np.transpose(ranks(4).run(_waited, name))
    assert counts.min() >= 2
    # of the rank that waits least for others that this machine has not run
    assert (seconds / (counts * DELAY)).min() <= 0.2
