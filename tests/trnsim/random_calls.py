"""Random calls of every function of the API: arguments that often fit, and sometimes make no sense at all."""

import enum
import inspect
import random
import warnings

import numpy as np

from trnsim import isa, language
from trnsim.errors import TrnError
from trnsim.isa import enums
from trnsim.session import Session, SimParams, activate
from trnsim.targets import TARGETS

# they wait for another core, print, or are no calls of their own
_SKIPPED = frozenset({"core_barrier", "device_print", "dynamic_range", "fori_loop", "no_reorder", "while_loop"})
_DTYPES = (
    "float32 bfloat16 float16 int32 uint32 int8 uint8 uint16 int16 float8_e4m3 float8_e5m2 bool_ tfloat32 "
    "float8_e5m2_x4 float8_e4m3fn_x4 float4_e2m1fn_x4"
)
DTYPES = [getattr(language, name) for name in _DTYPES.split()]
BUFFERS = [language.sbuf, language.psum, language.hbm, language.shared_hbm]
_OPERATORS = (
    "add multiply maximum minimum subtract equal greater logical_and bitwise_and left_shift exp relu rsqrt copy power "
    "abs invert square mod divide"
)
OPERATORS = [getattr(language, name) for name in _OPERATORS.split()]
MEMBERS = [m for v in vars(enums).values() if isinstance(v, type) and issubclass(v, enum.Enum) for m in v]
_TENSOR_WORDS = (
    "dst src data tensor stationary moving on_true predicate operand1 vals tile x y indices index seg scale bound res"
)
TENSOR_WORDS = tuple(_TENSOR_WORDS.split())


def functions():
    """Every documented function: its name, itself, its signature."""
    found = []
    for module in (isa, language):
        for name in sorted(module.__all__):
            value = getattr(module, name)
            if callable(value) and not isinstance(value, type) and name not in _SKIPPED:
                found.append((f"{module.__name__}.{name}", value, inspect.signature(value)))
    return found


class Caller:
    """Makes up arguments from a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def shape(self):
        return tuple(self.random.choice([1, 2, 4, 8, 16, 32, 64, 128]) for _ in range(self.random.choice([1, 2, 2, 3])))

    def tensor(self, shape=None, dtype=None, buffer=None):
        pick = self.random.choice
        try:
            t = language.ndarray(
                shape or self.shape(),
                dtype or pick(DTYPES[:6] + DTYPES),
                buffer=buffer or pick([language.sbuf, language.sbuf, language.psum, *BUFFERS]),
            )
        except TrnError:
            t = language.ndarray((8, 8), language.float32)
        if self.random.random() < 0.9 and t.storage.arena.data is not None:
            t.storage.arena.data.view(np.uint8)[...] = pick([0, 1, 3])
            t.storage.arena.marks = 1
        try:
            return self.view(t) if self.random.random() < 0.3 else t
        except TrnError:
            return t

    def view(self, t):
        column = (t.shape[0], 1)
        return self.random.choice(
            [
                lambda: t[0 : max(1, t.shape[0] // 2)],
                lambda: t[:, 0:1],
                lambda: t.broadcast(1, 4),
                lambda: t.reshape((t.shape[0], -1)),
                lambda: t.ap([[t.row, t.shape[0]], [1, 4]]),
                lambda: t.view(self.random.choice(DTYPES)),
                lambda: t.vector_select(0, self.tensor(column, language.int32, language.sbuf)),
                lambda: t.select(0, self.tensor((1, 1), language.int32, language.sbuf)),
                lambda: t[:, language.ds(0, 0)],
            ]
        )()

    def junk(self):
        pick = self.random.choice
        constants = [None, 0, 1, -1, 2.5, float("nan"), 10**12, "x", (), [], (1, 2), [0] * 32, {}, slice(0, 3), True]
        arrays = [np.arange(4), np.float32(1), np.zeros((2, 2)), np.int64(3), np.exp, np.array("a")]
        objects = [object(), float, b"a", ..., 1j, range(3), language.ds(0, 2), "add", lambda x: x, [[1, 2], [3, 4]]]
        ours = [pick(OPERATORS), pick(MEMBERS), pick(DTYPES), pick(BUFFERS), self.tensor(), [self.tensor()]]
        return pick([*constants, *arrays, *objects, *ours, isa.register_alloc(3), isa.register_alloc()])

    def argument(self, p, like):
        chance, pick = self.random.random, self.random.choice
        if chance() < 0.12:
            return self.junk()
        if p.name == "srcs":
            return [self.tensor(*like) for _ in range(pick([1, 2, 3]))]
        if p.name.startswith("op") and "operand" not in p.name:
            return pick(OPERATORS)
        if p.name not in ("axis", "index_offset", "scales") and any(word in p.name for word in TENSOR_WORDS):
            return self.tensor(*(value if chance() < 0.75 else None for value in like))
        if "operand" in p.name:
            return pick([1.0, 2, None, self.tensor((like[0][0], 1), language.float32, language.sbuf)])
        known = {"axis": [1, 0, -1, (1,), (1, 2), [1], 2], "dtype": DTYPES, "buffer": BUFFERS}
        for word, values in known.items():
            if word in p.name:
                return pick(values)
        if isinstance(p.default, enum.Enum):
            return pick(list(type(p.default)))
        if p.default is not p.empty and chance() < 0.6:
            return p.default
        return pick([0, 1, 2, 8, 16, 0.5, self.shape(), self.junk()])

    def call(self, fn, signature):
        """One call; only errors of this suite are allowed to come out."""
        like = (self.shape(), self.random.choice(DTYPES[:6]), self.random.choice([language.sbuf] * 4 + BUFFERS))
        given = {
            p.name: self.argument(p, like)
            for p in signature.parameters.values()
            if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and (p.default is p.empty or self.random.random() < 0.4)
        }
        fn(**given)


def run(seed, count):
    """Make ``count`` calls; returns how many ran and how many were refused."""
    caller, api, ran, refused = Caller(seed), functions(), 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while ran + refused < count:
            target = caller.random.choice(list(TARGETS.values()))
            session = Session(SimParams(target=target, lint="off", numerics=caller.random.random() < 0.85))
            with activate(session):
                for _ in range(40):
                    name, fn, signature = caller.random.choice(api)
                    try:
                        caller.call(fn, signature)
                        ran += 1
                    except TrnError:
                        refused += 1
                    except Exception as error:
                        error.add_note(f"{name}, seed {seed}, call {ran + refused}")
                        raise
    return ran, refused
