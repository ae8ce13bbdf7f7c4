import asyncio
import threading

import pytest
import torch

import trnblas
import trnsci
from trnsci import ArgumentError, UnsupportedError, backends
from trnsci.testing import counting_op

X = torch.ones(3)


@pytest.fixture
def op():
    made = counting_op("trnmock")
    yield made
    trnsci.set_backend(None)


def test_auto_without_a_device_is_pytorch(op):
    op(X)
    assert op.calls == {"pytorch": 1}


def test_blocks_nest_and_are_restored(op):
    with trnsci.backend("simulator"):
        op(X)
        with trnsci.backend("pytorch"):
            op(X)
        op(X)
    op(X)
    assert op.calls == {"nki": 2, "pytorch": 2}


def test_an_exception_leaves_the_state_right(op):
    with pytest.raises(KeyError), trnsci.backend("simulator"):
        raise KeyError
    assert trnsci.get_backend() == "auto"
    op(X)
    assert op.calls == {"pytorch": 1}


def test_a_block_can_be_for_one_library(op):
    other = counting_op("trnother")
    with trnsci.backend("simulator", library="trnmock"):
        op(X), other(X)
        assert trnsci.get_backend("trnmock") == "simulator"
        assert trnsci.get_backend("trnother") == "auto"
        with trnsci.backend("pytorch"):
            op(X)
    assert op.calls == {"nki": 1, "pytorch": 1}
    assert other.calls == {"pytorch": 1}


def test_threads_do_not_see_a_block(op):
    with trnsci.backend("simulator"):
        thread = threading.Thread(target=op, args=(X,))
        thread.start()
        thread.join()
    assert op.calls == {"pytorch": 1}


def test_tasks_keep_their_blocks_apart(op):
    async def task(name):
        with trnsci.backend(name):
            for _ in range(3):
                await asyncio.sleep(0)
                op(X)
                assert trnsci.get_backend() == name

    async def both():
        await asyncio.gather(task("simulator"), task("pytorch"))

    asyncio.run(both())
    assert op.calls == {"nki": 3, "pytorch": 3}
    assert trnsci.get_backend() == "auto"


def test_set_backend_for_one_library_for_all_and_back(op):
    trnsci.set_backend("simulator", "trnmock")
    assert (trnsci.get_backend("trnmock"), trnsci.get_backend()) == ("simulator", "auto")
    op(X)
    trnsci.set_backend("pytorch")
    assert trnsci.get_backend("trnmock") == "pytorch"
    op(X)
    trnsci.set_backend(None)
    assert trnsci.get_backend("trnmock") == "auto"
    assert op.calls == {"nki": 1, "pytorch": 1}


def test_a_block_wins_over_a_setting(op):
    trnsci.set_backend("simulator")
    with trnsci.backend("pytorch"):
        op(X)
    assert op.calls == {"pytorch": 1}


@pytest.mark.parametrize(
    ("name", "value", "expected", "source"),
    [
        ("TRNMOCK_FORCE_BACKEND", "simulator", "simulator", "TRNMOCK_FORCE_BACKEND=simulator"),
        ("TRNMOCK_USE_SIMULATOR", "1", "simulator", "TRNMOCK_USE_SIMULATOR=1"),
        ("TRNMOCK_REQUIRE_NKI", "1", "nki", "TRNMOCK_REQUIRE_NKI=1"),
        ("TRNSCI_BACKEND", "simulator", "simulator", "TRNSCI_BACKEND=simulator"),
        ("TRNMOCK_USE_SIMULATOR", "0", "auto", "default"),
    ],
)
def test_the_environment(monkeypatch, name, value, expected, source):
    monkeypatch.setenv(name, value)
    choice = backends.library("trnmock").choice()
    assert (choice.name, choice.source) == (expected, source)


def test_a_library_variable_wins_over_the_suites(monkeypatch):
    monkeypatch.setenv("TRNSCI_BACKEND", "nki")
    monkeypatch.setenv("TRNMOCK_FORCE_BACKEND", "pytorch")
    assert backends.library("trnmock").choice().name == "pytorch"


def test_strict_refuses_and_lists_reasons(op):
    with trnsci.backend("simulator"), pytest.raises(UnsupportedError) as caught:
        op(X.double())
    assert dict(caught.value.reasons) == {
        "nki": "no Neuron device",
        "simulator": "takes float32, not float64",
        "pytorch": "takes it",
    }
    assert not op.calls


def test_not_strict_runs_on_pytorch_and_says_why(op):
    with trnsci.backend("simulator", strict=False), trnsci.ledger() as book:
        op(X.double())
    assert op.calls == {"pytorch": 1}
    expected = 'trnsci.backend("simulator"), but simulator refuses: takes float32, not float64'
    assert book.entries[0].step.reason == expected


def test_not_strict_nki_without_a_device_runs_on_pytorch(op):
    with trnsci.backend("nki", strict=False):
        op(X)
    assert op.calls == {"pytorch": 1}


def test_limits_that_raise_are_bugs_and_propagate():
    def limits(x):
        raise ZeroDivisionError

    op = counting_op(limits=limits)
    with trnsci.backend("simulator", strict=False), pytest.raises(ZeroDivisionError):
        op(X)
    assert not op.calls


def test_a_failing_kernel_is_not_retried_elsewhere(op):
    def failing(call):
        raise RuntimeError("kernel broke")

    op.op.kind.nki = failing
    with trnsci.backend("simulator", strict=False), pytest.raises(RuntimeError, match="kernel broke"):
        op(X)
    assert not op.calls


@pytest.mark.parametrize("call", [trnsci.set_backend, lambda name: trnsci.backend(name).__enter__()])
def test_unknown_backend(call):
    with pytest.raises(ArgumentError) as caught:
        call("cuda")
    assert "backend is 'cuda', expected one of 'auto', 'nki', 'simulator', 'pytorch'" in str(caught.value)


def test_unknown_library():
    with pytest.raises(ArgumentError) as caught:
        trnsci.set_backend("auto", "cublas")
    assert (caught.value.argument, caught.value.got) == ("library", "cublas")


# one library that works for another: the innermost setting of a library's own decides, else the caller's


@pytest.fixture
def worker():
    return counting_op("trnworker")


@pytest.fixture
def public(worker):
    trnsci.library_functions("trncaller")
    return backends.inside("trncaller")(worker)


def test_the_library_called_decides_where_another_works_for_it(worker, public):
    with trnsci.backend("simulator", library="trncaller"):
        worker(X)
        assert worker.calls == {"pytorch": 1}
        public(X)
        assert worker.calls == {"pytorch": 1, "nki": 1}
        with trnsci.backend("pytorch", library="trnworker"):
            public(X)
    assert worker.calls == {"pytorch": 2, "nki": 1}


def test_set_backend_and_variables_of_the_caller_reach_the_work(worker, public, monkeypatch):
    trnsci.set_backend("simulator", "trncaller")
    public(X)
    trnsci.set_backend("pytorch", "trnworker")
    public(X)
    trnsci.set_backend(None, "trnworker")
    trnsci.set_backend(None, "trncaller")
    assert worker.calls == {"pytorch": 1, "nki": 1}
    monkeypatch.setenv("TRNCALLER_USE_SIMULATOR", "1")
    public(X)
    assert worker.calls == {"pytorch": 1, "nki": 2}
    monkeypatch.setenv("TRNWORKER_FORCE_BACKEND", "pytorch")
    public(X)
    assert worker.calls == {"pytorch": 2, "nki": 2}


def test_the_innermost_of_a_chain_of_libraries_with_a_setting_decides(worker, public):
    outermost = backends.inside("trnoutermost")(public)
    with trnsci.backend("pytorch", library="trnoutermost"), trnsci.backend("simulator", library="trncaller"):
        outermost(X)
    assert worker.calls == {"nki": 1}
    with trnsci.backend("simulator", library="trnoutermost"):
        outermost(X)
    assert worker.calls == {"nki": 2}


def test_gradients_run_where_the_callers_setting_sent_the_call():
    a = torch.ones(4, 4, requires_grad=True)
    public = backends.inside("trncaller")(trnblas.gemm)
    with trnsci.backend("simulator", library="trncaller"):
        result = public(1.0, a, a)
    with trnsci.ledger() as book:
        result.sum().backward()
    assert {entry.step.backend for entry in book} == {"simulator"}
