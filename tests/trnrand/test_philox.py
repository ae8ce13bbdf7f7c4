"""Philox4x32-10 on counters; the cases are those of both engines."""

from tests.trnrand.counters import CounterCases
from trnrand import philox4x32


class TestPhilox(CounterCases):
    engine, key, first = "philox4x32", 2, 0x6627E8D5
    function = staticmethod(philox4x32)
