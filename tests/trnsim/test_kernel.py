"""Kernels: jit and its options, simulate, nesting, schedules, annotations, lint."""

import functools
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import trnsim
from tests.together import together
from trnsim import isa as nisa, language as nl, typing as nt
from trnsim.errors import KernelError, NotNki, WrongArgument, WrongCall, WrongShape
from trnsim.kernel import Launch, as_kernel, params_of

pytestmark = pytest.mark.sim

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def load(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def scaled(x, factor=2.0):
    """Multiply by a constant."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    nisa.dma_copy(dst=out, src=tile)
    return out


# jit


def test_a_kernel_keeps_its_functions_name_text_and_source():
    kernel = trnsim.jit(scaled)
    assert (kernel.__name__, kernel.__doc__, kernel.func, kernel.__wrapped__) == (
        "scaled",
        scaled.__doc__,
        scaled,
        scaled,
    )
    assert repr(kernel) == "<NKI kernel scaled>"
    assert repr(kernel[2]) == "<NKI kernel scaled[2]>"


@pytest.mark.parametrize(
    "make", [trnsim.jit, trnsim.jit(), trnsim.jit(debug_kernel=True), lambda f: trnsim.jit(trnsim.jit(f))]
)
def test_every_way_to_decorate(make):
    kernel = make(scaled)
    np.testing.assert_array_equal(kernel(X), 2 * X)
    np.testing.assert_array_equal(kernel(X, factor=3.0), 3 * X)
    np.testing.assert_array_equal(trnsim.simulate(kernel)(x=X, factor=4.0), 4 * X)
    np.testing.assert_array_equal(kernel[1](X), 2 * X)


def test_options_of_awss_compiler_are_taken():
    with pytest.warns(DeprecationWarning, match="mode="):
        kernel = trnsim.jit(mode="auto", debug_kernel=False, show_compiler_tb=True, experimental_flags="a,b")(scaled)
    assert kernel.options["experimental_flags"] == "a,b"
    np.testing.assert_array_equal(kernel(X), 2 * X)
    with pytest.raises(WrongArgument) as caught:
        trnsim.jit(scaled, modus="auto")
    assert caught.value.got == ["modus"]
    with pytest.raises(WrongArgument, match="got int"):
        trnsim.jit(3)


def test_the_target_comes_from_the_call_the_kernel_the_environment_then_trn2(monkeypatch):
    seen = []

    def kernel(x):
        seen.append(nl.tile_size.sbuf_fmax_bytes // 1024)

    with pytest.warns(DeprecationWarning, match="platform_target"):
        old = trnsim.jit(platform_target="trn3")(kernel)
    plain = trnsim.jit(kernel)
    sizes = [trnsim.TARGETS[t].sbuf_usable_bytes // 1024 for t in ("trn1", "trn3", "trn1", "trn2")]
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "gen2")
    trnsim.simulate(old, target="trn1", lint="off")(X)
    trnsim.simulate(old, lint="off")(X)
    trnsim.simulate(plain, lint="off")(X)
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE")
    trnsim.simulate(plain, lint="off")(X)
    assert seen == sizes
    with pytest.raises(WrongArgument, match="trn9"):
        trnsim.simulate(plain, target="trn9")


def test_nki_simulator_may_be_set(monkeypatch):
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    np.testing.assert_array_equal(trnsim.jit(scaled)(X), 2 * X)


def test_methods_and_partials_are_kernels():
    class Model(nl.NKIObject):
        factor: float = 5.0

        @trnsim.jit
        def run(self, x):
            return scaled(x, self.factor)

    np.testing.assert_array_equal(Model().run(X), 5 * X)
    np.testing.assert_array_equal(trnsim.simulate(functools.partial(trnsim.jit(scaled), factor=3.0))(X), 3 * X)
    np.testing.assert_array_equal(trnsim.simulate(functools.partial(scaled, factor=3.0))(X), 3 * X)


def test_a_kernel_that_only_makes_a_generator_is_refused():
    @trnsim.jit
    def lazy(x):
        yield x

    with pytest.raises(WrongArgument, match="does not run when it is called"):
        lazy(np.ones((2, 2), np.float32))


def test_what_is_no_kernel_is_refused():
    for bad in (3, None, "kernel", dict):
        with pytest.raises(WrongArgument) as caught:
            as_kernel(bad)
        assert caught.value.rule == "kernel"


def test_kernels_of_other_packages_are_unwrapped():
    class Theirs:
        def __init__(self, func, grid=None):
            self.func, self.grid = func, grid

        def __call__(self, *args):
            raise RuntimeError("needs a device")

    np.testing.assert_array_equal(trnsim.simulate(Theirs(scaled))(X), 2 * X)
    assert as_kernel(Theirs(scaled, [2])).grid == (2,)


def test_decorators_around_a_kernel_are_followed():
    def wrapper(kernel):
        @functools.wraps(kernel)
        def outer(x):
            return kernel(x, 7.0)

        return outer

    np.testing.assert_array_equal(trnsim.simulate(wrapper(trnsim.jit(scaled)), lint="off")(X), 7 * X)


# nesting


def test_a_kernel_called_by_a_kernel_is_inlined():
    inner = trnsim.jit(scaled)

    def outer(x):
        return inner(inner(x), 5.0)

    np.testing.assert_array_equal(trnsim.simulate(outer)(X), 10 * X)


def test_an_inlined_kernel_has_no_grid_of_its_own():
    inner = trnsim.jit(scaled)

    def outer(x):
        return inner[2](x)

    with pytest.raises(WrongArgument) as caught:
        trnsim.simulate(outer, lint="off")(X)
    assert (caught.value.rule, caught.value.got, caught.value.limit) == ("grid", (2,), (1,))


def test_a_python_error_of_the_kernel_is_raised_as_it_is():
    def kernel(x):
        return x.nothing

    with pytest.raises(AttributeError, match="nothing"):
        trnsim.simulate(kernel, lint="off")(X)


def test_arguments_that_do_not_fit_are_refused_with_the_signature():
    with pytest.raises(WrongCall, match=r"scaled\(x, factor=2.0\): missing a required argument: 'x'") as caught:
        trnsim.simulate(scaled)()
    assert isinstance(caught.value, TypeError)
    with pytest.raises(WrongCall, match="unexpected keyword argument 'factr'"):
        trnsim.simulate(scaled)(X, factr=2)

    def kernel(x):
        return len(3)

    # a mistake of the kernel's own stays what it is
    with pytest.raises(TypeError, match="has no len") as caught:
        trnsim.simulate(kernel, lint="off")(X)
    assert not isinstance(caught.value, WrongCall)


def test_instructions_outside_a_kernel_say_what_to_do():
    with pytest.raises(WrongArgument, match=r"nki\.simulate"):
        nl.ndarray((2, 2), nl.float32)


def test_errors_pickle_with_their_fields():
    def kernel(x):
        return x[0:9]

    with pytest.raises(KernelError) as caught:
        trnsim.simulate(kernel)(X)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.__dict__ == caught.value.__dict__


# lint


def guarded(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    try:
        nisa.dma_copy(dst=out, src=load(x))
    finally:
        print("done")
    return out


def test_python_the_compiler_refuses_is_refused_first():
    x = X.copy()
    with pytest.raises(NotNki) as caught:
        trnsim.simulate(guarded, nki="0.6")(x)
    assert caught.value.kernel == "guarded"
    with pytest.raises(NotNki):
        trnsim.jit(guarded, nki="0.5")(x)
    with pytest.warns(UserWarning, match="refuses"):
        np.testing.assert_array_equal(trnsim.simulate(guarded, nki="0.6", lint="warn")(x), x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(trnsim.simulate(guarded, nki="0.6", lint="off")(x), x)
        np.testing.assert_array_equal(trnsim.simulate(guarded, nki="0.6", checks=False)(x), x)
        # a traced kernel is Python
        np.testing.assert_array_equal(trnsim.simulate(guarded)(x), x)
        np.testing.assert_array_equal(trnsim.simulate(trnsim.jit(guarded, nki="0.6"), nki="0.7")(x), x)
    with pytest.raises(WrongArgument, match="lint='loud'"):
        trnsim.simulate(guarded, lint="loud")


# annotations


def test_declared_shapes_are_checked():
    def kernel(x: nt.tensor[2, 3], y: nt.tensor[None, 3] = None, z: nt.tensor = None):
        return scaled(x)

    np.testing.assert_array_equal(trnsim.simulate(kernel)(X, X), 2 * X)
    np.testing.assert_array_equal(trnsim.simulate(kernel)(x=X, z=X), 2 * X)
    with pytest.raises(WrongShape) as caught:
        trnsim.simulate(kernel)(X[:1])
    assert (caught.value.rule, caught.value.got, caught.value.limit) == ("annotation", (1, 3), (2, 3))
    assert "argument x" in str(caught.value)
    with pytest.raises(WrongShape, match="argument y"):
        trnsim.simulate(kernel)(X, X[0])
    assert repr(nt.tensor[2, 3]) == "tensor[2, 3]"
    assert nt.tensor[4].shape == (4,)


def late(x: "nt.tensor[2, 4]", y: "Nowhere[1]" = None):  # noqa: F821
    return scaled(x)


def test_annotations_may_be_strings():
    with pytest.raises(WrongShape, match=r"declared tensor\[2, 4\]"):
        trnsim.simulate(late)(X)


# schedules


def chain(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = load(x)
    a = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    b = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    c = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=a, data=tile, op0=nl.add, operand0=1.0, name="first")
    nisa.tensor_scalar(dst=b, data=tile, op0=nl.add, operand0=2.0, name="second")
    nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.add, name="third")
    nisa.dma_copy(dst=out, src=c, name="store")
    return out


@pytest.mark.parametrize(
    "edges", [[("second", "first")], [("second", ["first"])], [("first", "second")], [("third", ("first", "second"))]]
)
def test_a_schedule_adds_dependencies_and_changes_no_value(edges):
    trace = []
    kernel = trnsim.jit(chain).with_schedule(edges)
    made = trnsim.simulate(kernel, trace=trace)(X)
    np.testing.assert_array_equal(made, 2 * X + 3)
    np.testing.assert_array_equal(kernel[1](X), 2 * X + 3)
    names = ["first", "second", "third"]
    number = {r.index: n for r, n in zip([r for r in trace if r.name.startswith("tensor_")], names, strict=True)}
    found = {(number[r.index], number[i]) for r in trace for i in r.after}
    assert found == {(later, e) for later, before in edges for e in ([before] if isinstance(before, str) else before)}


def test_schedules_add_up():
    kernel = trnsim.jit(chain).with_schedule([("second", "first")]).with_schedule([("store", "third")])
    assert kernel.schedule == (("second", ("first",)), ("store", ("third",)))


@together(
    ("rule", "edges", "says"),
    [
        ("schedule-name", [("fourth", "first")], "fourth"),
        ("schedule-name", [("first", ["second", "nobody"])], "nobody"),
        ("schedule-cycle", [("first", "third")], "needs what"),
        ("schedule-cycle", [("first", "store")], "needs what"),
        ("schedule-cycle", [("first", "first")], "needs what"),
    ],
)
def test_schedules_that_make_no_sense_are_refused(rule, edges, says):
    x = X.copy()
    with pytest.raises(WrongArgument) as caught:
        trnsim.jit(chain).with_schedule(edges)(x)
    assert caught.value.rule == rule
    assert says in str(caught.value)


def test_edges_are_pairs_of_names():
    for bad in (["first"], [("a",)], [(1, "a")]):
        with pytest.raises(WrongArgument) as caught:
            trnsim.jit(chain).with_schedule(bad)
        assert caught.value.rule == "schedule"


def test_names_in_loops_must_differ_to_be_scheduled():
    def kernel(x):
        tile = load(x)
        for _ in range(2):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0, name="again")

    with pytest.raises(WrongArgument, match="2 instructions have that name"):
        trnsim.jit(kernel).with_schedule([("again", "again")])(X)


# the launch


def test_a_launch_knows_how_full_memory_was():
    kernel = as_kernel(scaled)
    launch = Launch(kernel, params_of(kernel))
    np.testing.assert_array_equal(launch.run((X,), {}), 2 * X)
    assert launch.high_water == {"sbuf": 12, "psum": 0}
    assert [s.core for s in launch.sessions] == [0]


def test_the_trace_lists_instructions_in_program_order_with_their_lines():
    trace = []
    trnsim.simulate(scaled, trace=trace)(X)
    assert [r.name for r in trace] == ["dma_copy", "tensor_scalar", "dma_copy"]
    assert [r.engine for r in trace] == ["dma", "vector", "dma"]
    first = load.__code__.co_firstlineno
    assert trace[0].line.endswith(f"test_kernel.py:{first + 2}")
    assert trace[1].reads[0].uid == trace[0].writes[0].uid


def test_a_scheduled_kernel_can_be_profiled():
    plain, (made, report) = (
        trnsim.profile(chain)(X)[1],
        trnsim.profile(trnsim.jit(chain).with_schedule([("second", "first")]))(X),
    )
    np.testing.assert_array_equal(made, 2 * X + 3)
    assert report.total_s >= plain.total_s


def test_every_public_part_can_be_imported_first():
    parts = ("isa", "language", "collectives", "timing", "timing.costs", "lint", "errors", "kernel")
    parts += ("threads",)
    # a fresh interpreter, and a fork of it for each part
    script = f"""
import os, importlib, numpy, ml_dtypes
for part in {parts}:
    if os.fork() == 0:
        importlib.import_module("trnsim." + part)
        os._exit(0)
    assert os.wait()[1] == 0, part
"""
    subprocess.run([sys.executable, "-c", script], check=True)
