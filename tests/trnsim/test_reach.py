"""The linter's refusals apply to what a kernel reaches with its static arguments."""

import functools
import sys

import numpy as np
import pytest

import trnsim
from trnsim import isa as nisa, language as nl
from trnsim.errors import KernelError, NotNki

pytestmark = pytest.mark.sim

X = np.ones((4, 4), np.float32)
# what a parser refuses; a traced kernel is Python
simulate, lint = functools.partial(trnsim.simulate, nki="0.6"), functools.partial(trnsim.lint, nki="0.6")


class Config(nl.NKIObject):
    fancy: bool = False
    repeats: int = 1


def fancy_helper(tile):
    sizes = {1, 2}
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=float(len(sizes)))


def kernel(x, flag=False, config=None, mode="plain"):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    if flag:
        sizes = {3, 4}
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=float(len(sizes)))
    if config != None and config.fancy:  # noqa: E711
        fancy_helper(tile)
    if mode == "plain":
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    else:
        try:
            nisa.memset(tile, 0.0)
        finally:
            nisa.memset(tile, 1.0)
    nl.store(out, tile)
    return out


def test_a_branch_that_static_arguments_exclude_is_not_refused():
    assert len(lint(kernel).errors) == 3
    assert (simulate(kernel)(X) == 2).all()
    assert (simulate(kernel)(X, False, Config(False)) == 2).all()


@pytest.mark.parametrize(
    ("args", "rule"),
    [((True,), "set"), ((False, Config(True)), "set"), ((False, None, "other"), "try")],
    ids=["argument", "helper", "else"],
)
def test_a_branch_that_is_reached_is_refused(args, rule):
    x = X.copy()
    with pytest.raises(NotNki) as caught:
        simulate(kernel)(x, *args)
    assert rule in {f.rule for f in caught.value.findings.errors}
    assert "refuses 3 places" in str(caught.value)
    np.testing.assert_array_equal(x, X)
    assert sys.gettrace() is None


def test_each_core_is_watched():
    def split(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        if core == 1:
            del core
        nl.store(out[0:2], nl.load(x[0:2]))
        return out

    with pytest.raises(NotNki, match="del cannot be compiled"):
        simulate(trnsim.jit(split)[2])(X)


def test_a_finding_in_a_signature_or_a_long_statement_counts_when_its_function_is_called():
    def helper(tile, *rest):
        nisa.memset(tile, 2.0)

    def calls(x, really):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        if really:
            helper(tile)
        nl.store(out, tile)
        return out

    def long(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(
            out,
            nl.add(
                nl.load(x),
                float(
                    len({1, 2}),
                ),
            ),
        )
        return out

    assert (simulate(calls)(X, False) == 1).all()
    with pytest.raises(NotNki, match=r"`\*rest`"):
        simulate(calls)(X, True)
    with pytest.raises(NotNki, match="set"):
        simulate(long)(X)


def test_a_dictionary_written_in_the_kernel_expands_into_arguments():
    def expands(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        options = {"op0": nl.multiply, "operand0": 3.0}
        nisa.tensor_scalar(dst=tile, data=tile, **options)
        nl.store(out, tile)
        return out

    assert (simulate(expands)(X) == 3).all()
    assert [f.rule for f in lint(expands).warnings] == ["dict-expansion"]


def _at_register(x):
    if nisa.register_alloc(1):
        return x
    return None


def _at_scalar(x):
    return nl.ndarray((range(nisa.scalar_load(x[0:1, 0:1])).stop, 1), nl.float32)


def _at_tile(x):
    return x if nl.load(x) else None


def _at_slice(x):
    return x[0 : nisa.scalar_load(x[0:1, 0:1])]


def _that_returns(x):
    def body(i):
        return i

    nl.fori_loop(0, 2, body)


@pytest.mark.parametrize("traced", [_at_register, _at_scalar, _at_tile, _at_slice, _that_returns])
def test_a_traced_kernel_raises_as_python_does(traced):
    """What tracing itself raises is no SyntaxError of a linter, and the linter finds it all the same."""
    with pytest.raises((TypeError, ValueError)) as caught:
        trnsim.simulate(traced)(np.ones((4, 4), np.int32))
    assert not isinstance(caught.value, NotNki)
    assert isinstance(caught.value, KernelError)
    assert trnsim.lint(traced).errors
    with pytest.raises(NotNki):
        trnsim.simulate(traced, lint="strict")(np.ones((4, 4), np.int32))
