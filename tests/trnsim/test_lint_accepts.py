"""Kernels that use what the language guide allows, and must pass: a refusal of a valid kernel is the worse mistake."""

from __future__ import annotations

import math
import types
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import pytest

from tests.together import together
from trnsim.lint import lint

nl = types.ModuleType("nki.language")
nisa = types.ModuleType("nki.isa")


class NKIObject:
    pass


NKIObject.__module__ = "nki.language"

P_MAX = 128
DTYPES = ("float32", "bfloat16")
SCALE = 0.5
KERNELS = []


def kernel(function):
    KERNELS.append(function)
    return function


@kernel
def asserts_and_prints(a, b):
    """A docstring, assertions with f-strings, and print."""
    assert a.shape == b.shape, f"shapes differ: {a.shape} and {b.shape}"
    assert 0 < a.shape[0] <= P_MAX
    print(f"adding tensors of type {a.dtype!r} and shape {a.shape}", "twice", 2)
    c = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.add)
    return c


@kernel
def lists(a):
    tiles = []
    for i in range(4):
        tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[i * 128 : (i + 1) * 128, :])
        tiles.append(tile)
    tiles.extend((tiles[0], tiles[1]))
    tiles[0] = tiles[3]
    if tiles.index(tiles[2]):
        tiles.remove(tiles[2])
    tiles.reverse()
    mask = [0] * 32
    nested = [[1, 2], [3, 4]]
    last = tiles.pop()
    for tile in tiles:
        nisa.tensor_copy(dst=last, src=tile)
    return len(tiles), mask, nested[0][1], min(mask), max(mask), sum(mask), tuple(mask), list((1, 2))  # noqa: C410


@kernel
def dictionaries(a):
    d = dict()  # noqa: C408
    d["a"] = 1
    d["b"] = d.setdefault("c", 2)
    e = {"x": a, "y": None, f"{1}": 2}
    for k in d.keys():  # noqa: SIM118
        print(k, d[k])
    for k, v in e.items():
        print(k, v)
    if d.pop("a"):
        print("removed")
    name = "x"
    return e[name], d.get("c", 0), "a" in d


@kernel
def strings_and_flags(a, mode="relu", scale=None, transpose=False):
    if mode == "relu" and not transpose:
        op = nl.relu
    elif mode in ("gelu", "silu") or transpose:
        op = nl.gelu
    else:
        op = nl.copy
    factor = 1.0 if scale == None else scale  # noqa: E711
    nisa.activation(dst=a, data=a, op=op, scale=factor, name="act" + mode)
    return a


@kernel
def arithmetic(a):
    n = a.shape[0]
    x = (n + 1) * 2 - 3 // 2 % 5 + 2**3 - (n >> 1) + (n << 2) - (n & 7 | 1 ^ 2) + ~n
    x += 1
    x -= 1
    x *= 2
    y = -1 * -2147483648 + 2147483647 + 0x7FFFFFFF
    z = 1e-6 + 3.4028235e38 - float("-inf") + 0.0
    lo, hi = divmod(n, 128)
    return x, y, z, lo, hi, abs(-n), int(1.5), float(n), bool(n), str(n), round(1.5), math.ceil(n / 128), math.pi


@kernel
def control_flow(a):
    total = 0
    for i in range(0, 16, 4):
        if i == 4:
            continue
        if i > 8:
            break
        total += i
    for x in (1, 2, 3):
        total += x
    for i, (p, q) in enumerate(zip((1, 2), (3, 4))):  # noqa: B905
        total += i * p * q
    while total < 100:
        total = total * 2 + 1
        if total == 77:
            return total
    while True:
        break
    for _ in nl.affine_range(2):
        for _ in nl.sequential_range(2):
            for k in nl.static_range(1, 3):
                total += k
    pass  # noqa: PIE790
    return total


@kernel
def indexing(t):
    u = t[0, 0, 10]
    u = t[:, 0]
    u = t[:, :, ::2]
    u = t[0, ..., :]
    u = t[...]
    rows = slice(0, min(129, t.shape[0]))
    nisa.tensor_copy(dst=u[rows, 0:64], src=t[rows, 64:128])
    v = t.reshape((128, 2, 64)).permute((0, 2, 1))[:, 0, :]
    pattern = t.get_pattern()
    pattern[0][1] = 64
    w = t.ap(pattern=pattern, offset=3)
    t[0:128, 0:512] = nl.load(v)
    return w


@kernel
def tensors_compared_with_none(a, bias=None):
    out = None
    if bias != None:  # noqa: E711
        out = nl.load(bias)
    if out == None:  # noqa: E711
        out = nl.zeros((128, 512), dtype=nl.float32)
    mask = nl.load(a)
    if mask == None:  # noqa: E711
        mask = out
    copy = nl.load(a)
    if copy == mask or copy in (mask, out):
        return copy
    return out if out else mask


def scale_tile(dst, src):
    nisa.tensor_scalar(dst=dst, data=src, op0=nl.multiply, operand0=SCALE)


def relu_tile(dst, src):
    nisa.activation(dst=dst, data=src, op=nl.relu)


def each_tile(source, target, tile_fn, size=128):
    """A template: the function it is given is inlined."""
    for i in range(source.shape[0] // size):
        tile = nl.ndarray((size, 512), dtype=source.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=source[i * size : (i + 1) * size, :])
        tile_fn(dst=tile, src=tile)
        nisa.dma_copy(dst=target[i * size : (i + 1) * size, :], src=tile)


def select(name):
    if name == "relu":
        return relu_tile
    return scale_tile


@kernel
def composed(a, out):
    each_tile(a, out, relu_tile)
    each_tile(a, out, tile_fn=select("scale"))
    steps = {"relu": relu_tile, "scale": scale_tile}
    for name in ("relu", "scale"):
        steps[name](dst=out, src=a)
    return out


def append_to(i, tiles, outs):
    outs.append(tiles[i])


@kernel
def helpers_may_fill_the_kernels_lists(a):
    outs = []
    with nl.no_reorder():
        for i in range(2):
            append_to(i, [a, a], outs)
    return tuple(outs)


@kernel
def nested_functions(a):
    acc = nl.zeros((128, 1), dtype=nl.float32)
    parts = []

    def add(x, twice=False):
        parts.append(x)
        nisa.tensor_tensor(dst=acc, data1=acc, data2=x, op=nl.add)
        if twice:
            nisa.tensor_tensor(dst=acc, data1=acc, data2=x, op=nl.add)
        return acc

    for i in range(4):
        add(a[:, i : i + 1], twice=i % 2 == 0)
    return add(parts[0])


@kernel
def counted_loop(data, count):
    reg = nisa.register_alloc()
    nisa.register_load(reg, count)
    temp = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)

    def body(i):
        nisa.dma_copy(dst=temp, src=data.ap([[1, 1], [1, 1]], scalar_offset=i, indirect_dim=1))
        nisa.dma_copy(dst=data[nl.ds(i, 8), :], src=temp)
        with nl.no_reorder():
            nisa.memset(dst=temp, value=0.0)

    nl.fori_loop(0, reg, body)
    nl.fori_loop(0, 8, body, step=2)
    return data


@kernel
def conditional_loop(acc, val, count, one):
    reg = nisa.register_alloc()
    nisa.register_load(reg, count)

    def body(r):
        nisa.tensor_tensor(dst=acc, data1=acc, data2=val, op=nl.add)
        nisa.tensor_tensor(dst=count, data1=count, data2=one, op=nl.subtract)
        nisa.register_load(r, count)
        return r

    nl.while_loop(reg, body)
    return acc


@dataclass
class Config(NKIObject):
    n: int
    wide: bool = False

    def toggle(self):
        self.wide = not self.wide

    @property
    def size(self):
        return 512 if self.wide else 128

    @staticmethod
    def default():
        return 4


class Pool(NKIObject):
    tiles: list
    address: int = 0

    def __init__(self, first=0):
        self.tiles = []
        self.address = first

    def take(self, shape, dtype=None, name=""):
        tile = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, name=name, address=(0, self.address))
        self.address += shape[1] * 4
        self.tiles.append(tile)
        return tile

    def __call__(self, shape):
        return self.take(shape, nl.float32)

    def __getitem__(self, i):
        return self.tiles[i]


class Mode(Enum):
    copy = 1
    scale = 2


class Tile(NamedTuple):
    start: int
    size: int


@kernel
def classes(a, config: Config, mode: Mode = Mode.copy):
    pool = Pool(first=64)
    tile = pool.take((128, config.size), a.dtype, name="tile")
    config.toggle()
    if mode == Mode.copy or mode != Mode.scale:
        nisa.dma_copy(dst=tile, src=a)
    elif mode.value == 2 and mode.name == "scale":
        nisa.dma_copy(dst=pool((128, 512)), src=pool[0])
    other = Config(3, wide=True)
    other.n = Config.default()
    last = Tile(0, 128)
    return isinstance(other, Config), type(other) == Config, last.size, Mode.scale.value  # noqa: E721


def factory(tile_fn, size, names):
    def made(a, out):
        for i in range(size):
            print(names[i])
            tile_fn(dst=out, src=a)
        return out

    return kernel(made)


factory(relu_tile, 2, ("a", "b"))


@kernel
def annotated(a: tensor[128, 512], axes: tuple[int, ...] = (0, 1), flag: bool = True) -> tensor:  # noqa: F821
    width: int = a.shape[1]
    tile: tensor[128, 512] = nl.load(a)  # noqa: F821
    if flag and axes[0] == 0:
        nl.store(a[0:128, 0:width], tile)
    return a


@kernel
def versions_and_types(a):
    if nisa.get_nc_version() >= nisa.nc_version.gen3:
        nisa.dma_copy(dst=a, src=a, dge_mode=nisa.dge_mode.hwdge)
    if isinstance(a.dtype, str) or not isinstance(a, (list, tuple)):
        nisa.memset(dst=a, value=0)
    if nl.program_id(0) == 0 and nl.num_programs() > 1:
        nisa.memset(dst=a, value=1)
    assert str(a.dtype) in DTYPES or hasattr(a, "dtype")
    breakpoint()
    return getattr(a, "shape", None)


def ceiling(n, d):
    return (n + d - 1) // d


def tile_bounds(total, size):
    found = []
    for i in range(ceiling(total, size)):
        found.append((i * size, min(total, (i + 1) * size)))
    return found


@kernel
def remainders(a):
    for start, stop in tile_bounds(a.shape[0], P_MAX):
        tile = nl.load(a[start:stop, :])
        nl.store(a[start:stop, :], tile)
    return a


@kernel
def shadowed_builtins(a, input, filter=3):  # noqa: A002
    open = input.shape[0]  # noqa: A001
    return open + filter


@kernel
def loop_variable_of_two_loops(a, body):
    for i in range(4):
        nisa.memset(dst=a[i : i + 1, :], value=i * 2)
    nl.fori_loop(0, 4, body)
    for i in range(4):
        if i == 0:
            break
    return a


class Kernels(NKIObject):
    def method(self, a):
        return nl.load(a[0:128, :])


KERNELS += [Kernels.method, Kernels().method]


@together("function", KERNELS)
def test_valid_kernel_has_no_finding(function):
    for nki in ("0.6", "0.7"):
        assert lint(function, nki=nki) == [], str(lint(function, nki=nki))


# what NKI 0.3 to 0.5 accept, and 0.6 accepts with a deprecation or the reference leaves open
@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("dynamic_for", {"deprecated-loop"}),
        ("dynamic_while", {"deprecated-loop"}),
        ("open_questions", {"comprehension", "is-none", "lambda", "format-spec"}),
    ],
)
def test_doubtful_kernel_has_warnings_only(name, rules):
    report = lint(globals()[name], nki="0.6")
    assert {f.rule for f in report} == rules
    assert not report.errors


def dynamic_for(a, count):
    reg = nisa.register_alloc(0)
    nisa.register_load(reg, count)
    for i in nl.dynamic_range(0, reg, 2):
        tile = nl.load(a[i])
        nisa.dma_copy(dst=a.ap([[512, 128], [1, 512]], scalar_offset=i), src=tile)
        for k in range(4):
            if k == 2:
                break
        scale = 1.0
        scale = scale + 1.0
        parts = []
        parts.append(tile)
    return a


def dynamic_while(a, cond):
    reg = nisa.register_alloc(1)
    while reg:
        nisa.register_store(cond, reg)
        nisa.tensor_scalar(dst=cond, data=cond, op0=nl.add, operand0=-1)
        nisa.register_load(reg, cond)
    return a


def open_questions(a, bias=None):
    shape = [n // 2 for n in a.shape]
    if bias is not None:
        print(f"{shape[0]:>4}")
    key = lambda x: x  # noqa: E731
    return key(shape)


def rebound_views(a, wide=False):
    whole = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    if wide:
        whole = whole.ap([[512, 128], [1, 256]])
    nisa.tensor_copy(dst=whole, src=a)


def test_a_name_that_is_a_view_of_itself_now_and_then_is_no_finding():
    assert [f.rule for f in lint(rebound_views, strict=True)] == []
