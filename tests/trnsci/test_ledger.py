import threading

import torch

import trnsci
from trnsci.testing import counting_op

X = torch.ones(4, 2)


def test_an_entry_has_op_operands_backend_reason_cost_and_time():
    op = counting_op()
    with trnsci.ledger() as book:
        op(X)
    (entry,) = book
    assert entry.step.op == op.op.name
    assert entry.step.operands == "float32[4x2]"
    assert (entry.step.backend, entry.step.reason) == ("pytorch", "no Neuron device")
    assert entry.step.cost == trnsci.Cost(8, 32, 32)
    assert entry.measured > 0
    assert (entry.bytes_to_device, entry.bytes_from_device, entry.depth) == (0, 0, 0)


def test_nobody_listens_outside_the_block():
    op = counting_op()
    with trnsci.ledger() as book:
        pass
    op(X)
    assert len(book) == 0


def test_ledgers_nest():
    op = counting_op()
    with trnsci.ledger() as outer:
        op(X)
        with trnsci.ledger() as inner:
            op(X)
    assert (len(outer), len(inner)) == (2, 1)


def test_other_threads_are_heard_only_everywhere():
    op = counting_op()
    with trnsci.ledger() as here, trnsci.ledger(everywhere=True) as everywhere:
        threads = [threading.Thread(target=lambda: [op(X) for _ in range(50)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (len(here), len(everywhere)) == (0, 200)
    op(X)
    assert len(everywhere) == 200


def test_ops_inside_ops_are_counted_once_in_the_total():
    inner, outer = counting_op(), counting_op()

    outer.op.kind.pytorch = lambda call: inner(call.x)
    with trnsci.ledger() as book:
        outer(X)
    assert [(entry.step.op, entry.depth) for entry in book] == [(inner.op.name, 1), (outer.op.name, 0)]
    assert book.measured == book.entries[1].measured


def test_explicit_transfers():
    with trnsci.ledger() as book:
        y = trnsci.to_device(X)
        trnsci.to_device(y)
        trnsci.from_device(y)
        trnsci.from_device(X)
    assert (book.bytes_to_device, book.bytes_from_device) == (X.nbytes, X.nbytes)
    assert len(book.transfers) == 2


def test_the_table_groups_equal_calls():
    op = counting_op()
    with trnsci.ledger() as book:
        op(X), op(X), op(torch.ones(5)), trnsci.to_device(X)
    lines = str(book).splitlines()
    assert lines[0].split() == [
        "op",
        "operands",
        "backend",
        "calls",
        "measured",
        "to",
        "device",
        "from",
        "device",
        "reason",
    ]
    assert [line.split()[1:4] for line in lines[1:3]] == [
        ["float32[4x2]", "pytorch", "2"],
        ["float32[5]", "pytorch", "1"],
    ]
    assert lines[3] == "1 explicit transfers; in all 32 B to the device and 0 B back"
