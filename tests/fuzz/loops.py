"""Random calls of the compiled extension's entry points: right ones, wrong ones, and ones whose arguments share memory.

``python -m tests.fuzz.loops FILE.so --seconds 60`` calls a build of the extension; under AddressSanitizer and
UndefinedBehaviorSanitizer (``make sanitize``) every access outside an argument ends the process. Without them bytes
around every result are compared. Each case is drawn from its own seed, so ``--case N`` repeats it. No torch is loaded.
"""

import argparse
import faulthandler
import importlib.util
import math
import sys
import time
from pathlib import Path

import numpy as np

REFUSALS = (ValueError, TypeError, OverflowError, BufferError)
SIZES = (0, 1, 2, 3, 7, 8, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 513, 1000)
LARGE = (65_535, 65_536, 65_537, 70_001, (1 << 22) + 3)
NASTY = (
    *(math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 5e-324, 1e-310, 1e-300, 0.5, 9.999, 10.0, 1e15, 1e18, 1e300),
    *(1.7976931348623157e308, 2.0**53, 2.0**53 + 2, 2.0**62, 2.0**63, 2.0**64, -(2.0**63), -100.0, -1e300, 1e-17),
)
CANARY = 0xA5
# Seconds that one call may take.
LIMIT = 60


class Draw:
    """Arguments of one call."""

    def __init__(self, seed, case):
        self.rng = np.random.default_rng((seed, case))
        # what some arguments are cut from, so that they share memory
        self.pool = np.frombuffer(bytearray(self.rng.bytes(4096)), np.uint8)
        self.guarded = []

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, values):
        return values[int(self.rng.integers(len(values)))]

    def integer(self, right):
        """A small number, rarely a wrong one."""
        if self.chance(0.93):
            return int(self.pick(right))
        return self.pick((-1, -2, 3, 4, 5, 7, 9, 10, 100, 2**31 - 1, -(2**31), 2**31, 2**63))

    def word(self):
        """An unsigned number of 64 bits."""
        near = (0, 1, 2, 3, 5, 63, 255, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 - 1, 2**64 - 200)
        return self.pick(near) if self.chance(0.7) else int(self.rng.integers(2**63))

    def size(self):
        return int(self.pick(LARGE if self.chance(0.005) else SIZES))

    def array(self, size, dtype=np.float64, values=None):
        """An array: exact, surrounded by bytes that must stay, cut from the pool, misaligned, or not contiguous."""
        dtype = np.dtype(dtype)
        how = self.rng.random()
        if how < 0.06 and size * dtype.itemsize < 2000:
            start = 8 * int(self.rng.integers(0, 250))
            made = self.pool[start : start + size * dtype.itemsize].view(dtype)
        elif how < 0.5:
            whole = np.full(size * dtype.itemsize + 128, CANARY, np.uint8)
            self.guarded.append((whole, size * dtype.itemsize))
            made = whole[64 : 64 + size * dtype.itemsize].view(dtype)
        elif how < 0.53:
            shift = int(self.rng.integers(1, 8))
            made = np.zeros(size * dtype.itemsize + 8, np.uint8)[shift : shift + size * dtype.itemsize].view(dtype)
        elif how < 0.55:
            made = np.zeros(2 * size, dtype)[::2]
        else:
            made = np.zeros(size, dtype)
        if values is not None:
            made[...] = values
        if how > 0.99:
            made.setflags(write=False)
        return made

    def result(self, size, dtype=np.float64):
        """Memory for a result, rarely of another size or dtype."""
        if self.chance(0.04):
            dtype = self.pick((np.uint8, np.float32, np.float64, np.int64, np.complex128))
        if self.chance(0.04):
            size = max(0, size + self.pick((-1, 1, 3)))
        return self.array(size, dtype)

    def place(self, length=32):
        """A key and a counter."""
        if self.chance(0.03):
            return self.array(length, np.uint8)
        return self.rng.bytes(length if self.chance(0.97) else int(self.rng.integers(0, 40)))

    def numbers(self, size, low, high):
        """Parameters: one or as many as elements; some of them cannot be right."""
        count = self.pick((1, size)) if self.chance(0.96) else size + 1
        values = self.rng.uniform(low, high, count)
        if self.chance(0.3):
            values = np.exp(self.rng.uniform(-30, 45, count))
        if self.chance(0.3) and count:
            values[self.rng.integers(0, count, 1 + count // 50)] = self.pick(NASTY)
        return self.array(count, values=values)

    def threads(self):
        return int(self.pick((1, 1, 2, 3, 64, 100, 0, -1)))

    def rows(self):
        """Pointers and columns of a matrix, in which a number may be anything."""
        n = int(self.pick((0, 1, 2, 3, 5, 8, 17, 40)))
        dense = self.rng.random((n, n)) < self.pick((0.1, 0.4, 1.0))
        if self.chance(0.8):
            dense |= np.eye(n, dtype=bool)
        if self.chance(0.5):
            dense &= np.tri(n, dtype=bool)
        pointers = np.concatenate([[0], np.cumsum(dense.sum(1))]).astype(np.int64)
        columns = np.nonzero(dense)[1].astype(np.int64)
        for target in (pointers, columns):
            if self.chance(0.2) and len(target):
                at = int(self.rng.integers(len(target)))
                target[at] = self.pick((-1, 0, 1, n, n + 1, 2**62, -(2**63), 2**63 - 1, int(target[at]) + 1))
        return self.array(len(pointers), np.int64, pointers), self.array(len(columns), np.int64, columns)


def draw_fill(d):
    kind, size = d.integer(range(5)), d.size()
    out = d.result(size, np.float64 if kind in (2, 4) else np.float32)
    return kind, d.integer((0, 1)), d.place(), d.word(), out, d.threads()


def draw_counters(d):
    size = d.size()
    return d.integer((0, 1)), d.place(), d.array(4 * size, np.int64), d.result(4 * size, np.uint32), d.threads()


def draw_inverse(d):
    to = d.integer(range(4))
    dtype = (np.float32, np.float64, np.int64, np.bool_)[to] if 0 <= to < 4 else np.float64
    a, b = (float(d.rng.uniform(-2, 3)) if d.chance(0.7) else d.pick(NASTY) for _ in range(2))
    return d.integer(range(9)), d.integer((0, 1)), d.place(), d.word(), a, b, to, d.result(d.size(), dtype), d.threads()


def draw_sample(d):
    size = d.size()
    return d.integer((0, 1)), d.integer((0, 1)), d.place(), d.numbers(size, 0, 30), d.result(size), d.threads()


def draw_binomial(d):
    size = d.size()
    trials = d.numbers(size, 0, 100)
    if d.chance(0.8) and trials.flags.writeable:
        trials[...] = np.floor(trials)
    chances = d.numbers(size, 0, 1)
    apart = d.pick((0, 0, 1, 7, 2**64 - 1))
    return d.integer((0, 1)), d.place(), apart, trials, chances, d.result(size), d.threads()


def draw_randint(d):
    low = d.pick((0, -5, 2**62, -(2**63), 2**63 - 1))
    return d.integer((0, 1)), d.place(), d.place(16), d.word(), d.word(), low, d.result(d.size(), np.int64), d.threads()


def draw_map(d):
    size = d.size()
    values = d.rng.uniform(0, 1, size)
    if d.chance(0.4) and size:
        values[d.rng.integers(0, size, 1 + size // 20)] = d.pick(NASTY)
    return d.integer(range(4)), d.array(size, values=values), d.result(size), d.threads()


def draw_factor(d, lu=True):
    pointers, columns = d.rows()
    code = d.integer(range(4))
    dtype = (np.float32, np.float64, np.complex64, np.complex128)[code] if 0 <= code < 4 else np.float64
    values = d.result(len(columns), dtype)
    if values.flags.writeable and d.chance(0.7):
        values[...] = d.rng.uniform(0.5, 2, values.shape).astype(values.dtype)
    if d.chance(0.1):
        # the same memory for what is read and what is written
        shared = d.pick((pointers, columns))
        if shared.flags.c_contiguous:
            values = shared.view(np.uint8)[: len(columns) * np.dtype(dtype).itemsize]
    boost = (None if d.chance(0.5) else d.array(2 if d.chance(0.9) else 1, dtype),) if lu else ()
    return code, pointers, columns, values, *boost


def draw_pairs(d):
    code = d.integer((0, 1))
    dtype = np.float32 if code == 0 else np.float64
    pairs, n = (int(d.pick((0, 1, 2, 3, 15, 16, 17, 33))) for _ in range(2))
    size = pairs * n * n
    if d.chance(0.02):
        # pairs * n * n * bytes is a multiple of 2**64
        pairs, n, size = (1 << 22, 1 << 21, 0) if dtype == np.float32 else (1 << 21, 1 << 20, d.pick((0, 1)))
    occ, vir = d.array(pairs, dtype), d.array(n, dtype)
    square = d.result(pairs)
    cross = square if d.chance(0.03) else d.result(pairs)
    return code, d.array(size, dtype), occ, vir, square, cross


DRAWN = {
    "fill": draw_fill,
    "counters": draw_counters,
    "inverse": draw_inverse,
    "sample": draw_sample,
    "binomial": draw_binomial,
    "randint": draw_randint,
    "map": draw_map,
    "ilu0": draw_factor,
    "ic0": lambda d: draw_factor(d, lu=False),
    "pairs": draw_pairs,
}


def check_result(name, arguments, result):
    """Refuse a result that the parameters do not allow."""
    if name == "sample":
        kind, *_, out, _ = arguments
        out = out.view(np.float64)
        assert np.isfinite(out).all() or kind == 0, out
        assert (out >= 0).all()
    elif name == "binomial":
        *_, trials, _, out, _ = arguments
        out = out.view(np.float64)
        assert ((out >= 0) & (out <= trials)).all()
    elif name == "randint":
        *_, span, low, out, _ = arguments
        offsets = out.view(np.uint64) - np.uint64(low % (1 << 64))
        assert span == 0 or (offsets < np.uint64(span)).all()
    elif name in ("ilu0", "ic0"):
        assert -1 <= result < max(1, arguments[1].size)


def attempt(module, seed, case):
    """Make one call; return its entry point and whether it was refused."""
    d = Draw(seed, case)
    name = d.pick(tuple(DRAWN))
    arguments = DRAWN[name](d)
    try:
        result = getattr(module, name)(*arguments)
    except REFUSALS:
        refused = True
    else:
        refused = False
        with np.errstate(all="ignore"):
            check_result(name, arguments, result)
    for whole, size in d.guarded:
        assert (whole[:64] == CANARY).all(), f"{name} wrote before an argument"
        assert (whole[64 + size :] == CANARY).all(), f"{name} wrote behind an argument"
    return name, refused


def load(path):
    """Load a build of the extension."""
    spec = importlib.util.spec_from_file_location("trnsci._loops", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="the extension module")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="make this call alone")
    args = parser.parse_args()
    module = load(args.file)
    assert {name for name in vars(module) if not name.startswith("_")} == set(DRAWN), "an entry point has no drawing"
    if args.case is not None:
        print(attempt(module, args.seed, args.case))
        return
    end, case, counts = time.monotonic() + args.seconds, 0, {name: [0, 0] for name in DRAWN}
    while time.monotonic() < end:
        # a crash leaves the number of its call as the last line
        sys.stderr.write(f"\r--seed {args.seed} --case {case}")
        sys.stderr.flush()
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        name, refused = attempt(module, args.seed, case)
        counts[name][refused] += 1
        case += 1
    faulthandler.cancel_dump_traceback_later()
    for name, (done, refused) in counts.items():
        print(f"{name:<10} {done:>8} computed {refused:>8} refused")
    print(f"{case} calls of seed {args.seed}, none of them outside its arguments")


if __name__ == "__main__":
    main()
