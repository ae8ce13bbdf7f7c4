import pickle

import numpy as np
import torch

from tests.together import together
from trnsci import errors
from trnsci.errors import (
    ArgumentError,
    BackendUnavailable,
    CapacityError,
    DtypeError,
    HardwareLimit,
    KernelError,
    NotConverged,
    NotPositiveDefinite,
    NumericalError,
    OutOfBounds,
    Race,
    ReadUninitialized,
    Singular,
    TrnError,
    UnsupportedError,
)

EXAMPLES = [
    (
        ArgumentError(op="gemm", argument="K", got={"a": 3, "b": 4}, hint="Transpose b?"),
        ValueError,
        "gemm: K differs: a has K=3, b has K=4. Transpose b?",
    ),
    (
        ArgumentError(op="trsm", argument="uplo", got="x", expected="'l' or 'u'"),
        ValueError,
        "trsm: uplo is 'x', expected 'l' or 'u'.",
    ),
    (
        DtypeError(op="dot", argument="x", got=list, expected="a tensor"),
        TypeError,
        "dot: x is list, expected a tensor.",
    ),
    (
        UnsupportedError(op="gemm", reasons=[("nki", "no device"), ("simulator", "float64")]),
        NotImplementedError,
        "gemm: no admitted backend takes this call: nki: no device; simulator: float64.",
    ),
    (
        CapacityError(where="SBUF", required=300_000, available=196_608, hint="Use smaller tiles."),
        MemoryError,
        "SBUF: 300000 bytes per partition are needed and 196608 are available. Use smaller tiles.",
    ),
    (
        NotPositiveDefinite(op="potrf", index=4, batch=(1, 2)),
        ArithmeticError,
        "potrf: the matrix is not positive definite: pivot 4 (batch (1, 2)) is not positive.",
    ),
    (Singular(op="trsm", index=0), ArithmeticError, "trsm: the matrix is singular: diagonal entry 0 is zero."),
    (
        NotConverged(op="cg", iterations=50, residual=1.25e-3, hint="Raise maxiter."),
        ArithmeticError,
        "cg: not converged after 50 iterations, residual 0.00125. Raise maxiter.",
    ),
    (NumericalError(op="f", message="no"), ArithmeticError, "f: no."),
    (
        BackendUnavailable(backend="nki", reason="no Neuron device", how="Use the simulator"),
        RuntimeError,
        "backend 'nki' is not available: no Neuron device. Use the simulator.",
    ),
    (KernelError("bad tile", kernel="gemm", line="gemm.py:7"), RuntimeError, "bad tile. [gemm, gemm.py:7]"),
    (KernelError("bad tile", hint="use 128 rows"), RuntimeError, "bad tile. Use 128 rows."),
    (KernelError("bad tile", hint="dst has 128 rows"), RuntimeError, "bad tile. dst has 128 rows."),
]


@together(("error", "builtin", "text"), EXAMPLES)
def test_text_builtin_and_pickle(error, builtin, text):
    assert str(error) == text
    assert isinstance(error, builtin)
    assert isinstance(error, TrnError)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == text
    assert vars(again) == vars(error)


@together(
    ("child", "parent"),
    [
        (DtypeError, ArgumentError),
        (NotPositiveDefinite, NumericalError),
        (NotConverged, NumericalError),
        (Singular, NumericalError),
        (OutOfBounds, KernelError),
        (OutOfBounds, IndexError),
        (ReadUninitialized, KernelError),
        (Race, KernelError),
        (HardwareLimit, KernelError),
    ],
)
def test_the_tree(child, parent):
    assert issubclass(child, parent)


def test_there_is_one_tree():
    import trnsim.errors

    assert errors.TrnError is trnsim.errors.TrnError
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(classes) > 10
    assert all(issubclass(value, errors.TrnError) for value in classes)


def test_arrays_are_named_by_shape_not_printed():
    for value in (torch.ones(300, 3), np.ones((300, 3))):
        assert str(ArgumentError("syr", "lower", value, "a flag")).count("\n") == 0
        assert "[300, 3]" in str(ArgumentError("syr", "lower", value, "a flag"))
