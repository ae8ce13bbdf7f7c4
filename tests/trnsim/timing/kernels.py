"""Small kernels the timing tests profile."""

import numpy as np

import trnsim.isa as nisa
import trnsim.language as nl
from trnsim import jit, profile


def shaped(*shape, dtype=np.float32):
    """An argument with a shape and no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def report_of(kernel, *arguments, target="trn2", **options):
    """The report of a kernel costed without arithmetic."""
    return profile(jit(kernel), target=target, numerics=False, lint="off")(*arguments, **options)[1]


def tile(rows=128, columns=512, dtype=nl.float32, buffer=nl.sbuf):
    return nl.ndarray((rows, columns), dtype=dtype, buffer=buffer)


def starts(report, name, core=0):
    """Start times in nanoseconds of the instructions called ``name``."""
    s = report.schedules[core]
    kinds = s.stream.kinds
    return [s.start[i] for i in range(len(s.stream)) if kinds[s.stream.kind[i]].call.name == name]


def spans(report, name, core=0):
    """(start, end) of the instructions called ``name``."""
    s = report.schedules[core]
    kinds = s.stream.kinds
    return [(s.start[i], s.end[i]) for i in range(len(s.stream)) if kinds[s.stream.kind[i]].call.name == name]


def zeroed(*shape, dtype=nl.float32, buffer=nl.sbuf):
    t = nl.ndarray(shape, dtype=dtype, buffer=buffer)
    nisa.memset(dst=t, value=0.0)
    return t
