"""bn_stats and bn_aggr: mean and variance by pieces."""

import ml_dtypes
import numpy as np
import pytest

from tests.together import together
from tests.trnsim.kernels import refused, rng, run
from trnsim import isa, language
from trnsim.errors import HardwareLimit, WrongShape

F32, I16, I32, U8, U32 = (np.dtype(d) for d in ("f4", "i2", "i4", "u1", "u4"))
BF16 = np.dtype(ml_dtypes.bfloat16)


@together("n", [1, 2, 5, 128, 511, 512])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_bn_stats_splits_even_and_odd(n, dtype):
    x = rng(n).normal(3.0, 2.0, size=(4, n)).astype(dtype)
    made = run(lambda a, b: isa.bn_stats(dst=b, data=a), x, out=[((4, 6), F32)])
    wide = x.astype(np.float64)
    for k in (0, 1):
        half = wide[:, k::2]
        count = half.shape[1]
        np.testing.assert_array_equal(made[:, 3 * k], count)
        if count:
            bound = count * 2.0**-23
            np.testing.assert_allclose(made[:, 3 * k + 1], half.mean(axis=1), rtol=0, atol=bound * np.abs(half).mean())
            np.testing.assert_allclose(made[:, 3 * k + 2], half.var(axis=1) * count, rtol=4 * bound + 1e-6, atol=1e-9)
        else:
            assert not made[:, 3 * k :].any()


@pytest.mark.parametrize("pieces", [(512,), (512, 512), (512, 100, 1)])
def test_bn_aggr_joins_pieces(pieces):
    x = rng(9).normal(-1.0, 3.0, size=(8, sum(pieces))).astype(F32)

    def body(a, b):
        stats = language.ndarray((8, 6 * len(pieces)), F32)
        at = 0
        for i, n in enumerate(pieces):
            isa.bn_stats(dst=stats[:, 6 * i : 6 * i + 6], data=a[:, at : at + n])
            at += n
        isa.bn_aggr(dst=b, data=stats)

    made = run(body, x, out=[((8, 2), F32)])
    wide = x.astype(np.float64)
    bound = x.shape[1] * 2.0**-23
    np.testing.assert_allclose(made[:, 0], wide.mean(axis=1), rtol=0, atol=bound * np.abs(wide).mean())
    np.testing.assert_allclose(made[:, 1], wide.var(axis=1), rtol=4 * bound)


def test_batch_norm_refuses():
    error = refused(
        HardwareLimit,
        "bn-stats-size",
        lambda a, b: isa.bn_stats(b, a),
        np.ones((4, 513), F32),
        out=[((4, 6), F32)],
        says=("513", "bn_aggr"),
    )
    assert (error.got, error.limit) == (513, 512)
    x = np.ones((4, 6), F32)
    error = refused(WrongShape, "result-size", lambda a, b: isa.bn_stats(b, a), x, out=[((4, 2), F32)])
    assert (error.got, error.limit) == (2, 6)
    refused(WrongShape, "result-size", lambda a, b: isa.bn_aggr(b, a), x, out=[((4, 6), F32)])
    error = refused(WrongShape, "bn-aggr-size", lambda a, b: isa.bn_aggr(b, a), x[:, :5], out=[((4, 2), F32)])
    assert error.got == 5
    refused(WrongShape, "partition-mismatch", lambda a, b: isa.bn_stats(b, a), x, out=[((2, 6), F32)])
