"""Threefry4x32-20 on counters; the cases are those of both engines."""

from tests.trnrand.counters import CounterCases
from trnrand import threefry4x32


class TestThreefry(CounterCases):
    engine, key, first = "threefry4x32", 4, 0x9C6CA96A
    function = staticmethod(threefry4x32)
