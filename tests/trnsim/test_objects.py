"""NKIObject: fields, initialisers, dataclasses, equality."""

import dataclasses
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

import numpy as np
import pytest

import trnsim
from trnsim import language as nl
from trnsim.language import NKIObject

pytestmark = pytest.mark.sim


class Mode(Enum):
    fast = 1
    slow = 2


class Plain(NKIObject):
    x: int
    y: bool = False
    z = 3
    mode = Mode.fast

    def toggle(self):
        self.y = not self.y


@dataclass
class Data(NKIObject):
    x: int
    y: bool = False
    z = 3
    mode = Mode.fast

    def toggle(self):
        self.y = not self.y


@dataclass(frozen=True)
class Frozen(NKIObject):
    x: int
    y: bool = False
    z = 3
    mode = Mode.fast


@pytest.mark.parametrize("cls", [Plain, Data, Frozen])
def test_fields_are_annotated_or_not_and_default_to_none(cls):
    a = cls()
    assert (a.x, a.y, a.z, a.mode) == (None, False, 3, Mode.fast)
    b = cls(1, True, 4, Mode.slow)
    assert (b.x, b.y, b.z, b.mode) == (1, True, 4, Mode.slow)
    assert cls(z=9, x=2).z == 9
    assert repr(cls(1)) == f"{cls.__name__}(x=1, y=False, z=3, mode=<Mode.fast: 1>)"


@pytest.mark.parametrize("cls", [Data, Frozen])
def test_equality_of_data_classes_is_of_class_and_fields(cls):
    assert cls(1) == cls(x=1)
    assert cls(1) != cls(2)
    assert cls(1, z=4) != cls(1)
    assert cls(1) != Plain(1)
    assert hash(cls(1)) == hash(cls(1))


def test_equality_of_others_is_identity_where_kernels_are_traced():
    seen = []

    def kernel(x):
        one = Plain(1)
        seen.append((one == one, one == Plain(1), one != Plain(2), hash(one) == hash(Plain(1)), one == Data(1)))
        return x

    x = np.zeros((1, 1), np.float32)
    trnsim.simulate(kernel)(x)
    trnsim.simulate(kernel, nki="0.6", lint="off")(x)
    assert seen == [(True, False, True, False, False), (True, True, True, True, False)]
    assert Plain(1) != Plain(1)


@pytest.mark.parametrize("cls", [Plain, Data, Frozen])
def test_wrong_arguments_are_refused(cls):
    with pytest.raises(TypeError, match="no field 'w'; its fields are x, y, z, mode"):
        cls(w=1)
    with pytest.raises(TypeError, match="4 fields and got 5"):
        cls(1, 2, 3, 4, 5)
    with pytest.raises(TypeError, match="two values for 'x'"):
        cls(1, x=2)


def test_frozen_objects_stay_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Frozen(1).x = 2
    made = Data(1)
    made.toggle()
    assert made.y is True


def test_fields_keep_the_order_they_are_written_in():
    class Mixed(NKIObject):
        a = 1
        b: int = 2
        c: int
        d = 3

    assert list(Mixed.__nki_fields__) == ["a", "b", "c", "d"]


def test_post_init_and_factories_run():
    @dataclass
    class Sizes(NKIObject):
        n: int
        parts: list = field(default_factory=list)
        half: int = field(default=4)

        def __post_init__(self):
            self.double = 2 * (self.n or 0)

    assert (Sizes(3).double, Sizes().double, Sizes(1).half) == (6, 0, 4)
    assert Sizes(1).parts is not Sizes(1).parts

    class Plainly(NKIObject):
        n: int = 1

        def __post_init__(self):
            self.n += 1

    assert Plainly().n == 2


def test_an_initialiser_of_ones_own_is_kept():
    class Own(NKIObject):
        x: int = 1

        def __init__(self, x):
            self.x = 10 * x

    class Child(Own):
        y: int = 2

    assert Own(2).x == 20
    assert (Child(3).x, Child(3).y) == (30, 2)


def test_subclasses_add_fields():
    class Base(NKIObject):
        x: int = 1

    class Child(Base):
        y: int

    assert (Child(5, 6).x, Child(5, 6).y, Child().x, Child().y) == (5, 6, 1, None)


def test_slots_keyword_only_and_ordered_dataclasses_work():
    @dataclass(slots=True)
    class Slots(NKIObject):
        x: int
        y: int = 2

    assert repr(Slots(1)) == "Slots(x=1, y=2)"
    assert Slots(1) == Slots(1) != Slots(3)

    @dataclass(kw_only=True, order=True)
    class Ordered(NKIObject):
        x: int

    assert Ordered(x=1) < Ordered(x=2)
    assert dataclasses.replace(Ordered(x=1), x=5).x == 5


def test_methods_properties_and_nested_classes_are_no_fields():
    class Rich(NKIObject):
        x: int = 1
        shared = ("a",)

        class Kind(Enum):
            a = 1

        @property
        def twice(self):
            return 2 * self.x

        @staticmethod
        def helper():
            return 3

        def __call__(self, n):
            return self.x + n

    assert list(Rich.__nki_fields__) == ["x", "shared"]
    assert (Rich(2).twice, Rich.helper(), Rich(2)(5), Rich.Kind.a.value) == (4, 3, 7, 1)


def test_objects_and_enums_are_arguments_of_kernels():
    def kernel(x, config, mode):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        config.toggle()
        factor = 1.0
        if config.y and mode == Mode.slow:
            factor = 2.0
        tile = nl.load(x)
        nl.store(out, nl.multiply(tile, factor))
        return out

    x, config = np.ones((2, 2), np.float32), Data(1)
    for mode, factor in ((Mode.slow, 2), (Mode.fast, 1)):
        assert trnsim.simulate(kernel)(x, config, mode)[0, 0] == factor
    assert config == Data(1)


@dataclass
class Private(NKIObject):
    x: int
    _y: int
    _z: int = 3
    _constants = ("a",)


class PlainPrivate(NKIObject):
    x: int
    _y: int
    _z: int = 3
    _constants = ("a",)


@dataclass(frozen=True)
class FrozenPrivate(NKIObject):
    x: int
    _y: int
    _z: int = 3
    _constants = ("a",)


@pytest.mark.parametrize("cls", [Private, PlainPrivate, FrozenPrivate])
def test_private_names_are_fields_as_in_a_data_class(cls):
    made = cls(1, 2)
    assert (made.x, made._y, made._z) == (1, 2, 3)
    assert (cls(1, _z=9, _y=4)._z, cls(1, _y=4)._y) == (9, 4)
    assert (cls(1, 2) == cls(1, 2)) == (cls is not PlainPrivate)
    assert cls(1, 2) != cls(1, 3)
    assert repr(made) == f"{cls.__name__}(x=1, _y=2, _z=3)"
    assert cls._constants == ("a",)


INNER = Private(1, 2)


@dataclass
class PrivateChild(Private):
    _w: int = 7
    inner: Private = INNER
    factory: list = field(default_factory=lambda: [1])


def test_private_fields_are_inherited_nested_and_made_by_factories():
    made = PrivateChild(1, 2, 3, 4)
    assert (made._w, made.inner._y, made.factory) == (4, 2, [1])
    assert PrivateChild(1, 2).factory is not PrivateChild(1, 2).factory


@dataclass
class Options(NKIObject):
    n: int
    scale: dataclasses.InitVar[int] = 2
    kinds: ClassVar[tuple] = ("a",)
    total: int = field(default=0, init=False)
    note: str = field(default="", compare=False, repr=False)
    _: dataclasses.KW_ONLY
    last: bool = False

    def __post_init__(self, scale):
        self.total = self.n * scale


def test_the_options_of_data_class_fields_mean_what_they_mean_there():
    assert Options(3).total == 6
    assert Options(3, 5).total == 15
    assert Options(1, 2, "a") == Options(1, 2, "b")
    assert repr(Options(1, 2, "a")) == "Options(n=1, total=2, last=False)"
    assert Options(1, last=True).last
    with pytest.raises(TypeError, match="3 fields and got 4"):
        Options(1, 2, "", True)
    with pytest.raises(TypeError, match="no field 'total'"):
        Options(1, total=3)


@pytest.mark.parametrize("cls", [Private, PlainPrivate, FrozenPrivate])
def test_private_fields_cross_a_kernels_edge(cls):
    def kernel(x, config):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), float(config._y + config._z)))
        return out

    assert trnsim.simulate(kernel)(np.ones((2, 2), np.float32), cls(1, 2))[0, 0] == 5


def test_objects_with_slots_keep_their_fields_at_a_kernels_edge():
    @dataclass(slots=True)
    class Slotted(NKIObject):
        tensor: object
        _scale: float = 2.0

    def kernel(config):
        out = nl.ndarray(config.tensor.shape, dtype=config.tensor.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(config.tensor), config._scale))
        return out

    assert trnsim.simulate(kernel)(Slotted(np.ones((2, 2), np.float32)))[0, 0] == 2
