"""torch's own samples of every operator in the table, forward and backward, inside a block and outside."""

import pytest
import torch

pytest.importorskip("expecttest")
from torch.testing._internal.common_methods_invocations import op_db

NAMES = frozenset(
    [
        "matmul",
        "mm",
        "bmm",
        "addmm",
        "baddbmm",
        "mv",
        "addmv",
        "dot",
        "vdot",
        "einsum",
        "inner",
        "linalg.multi_dot",
        "nn.functional.linear",
        "fft.fft",
        "fft.ifft",
        "fft.rfft",
        "fft.irfft",
        "fft.hfft",
        "fft.ihfft",
        "fft.fft2",
        "fft.ifft2",
        "fft.rfft2",
        "fft.irfft2",
        "fft.fftn",
        "fft.ifftn",
        "fft.rfftn",
        "fft.irfftn",
        "stft",
        "istft",
        "linalg.solve",
        "linalg.inv",
        "linalg.inv_ex",
        "linalg.det",
        "linalg.slogdet",
        "linalg.eigh",
        "linalg.eigvalsh",
        "linalg.eig",
        "linalg.eigvals",
        "linalg.svd",
        "linalg.svdvals",
        "linalg.qr",
        "linalg.cholesky",
        "linalg.cholesky_ex",
        "cholesky",
        "cholesky_solve",
        "cholesky_inverse",
        "linalg.lu",
        "linalg.lu_factor",
        "linalg.lu_solve",
        "linalg.lstsq",
        "linalg.pinv",
        "linalg.matrix_power",
        "matrix_exp",
        "geqrf",
        "ormqr",
        "linalg.householder_product",
        "linalg.solve_triangular",
        "triangular_solve",
        "nn.functional.scaled_dot_product_attention",
        "logdet",
        "pinverse",
    ]
)
# vectors that are determined up to a phase are compared by what they span
PHASES = {"linalg.eigh", "linalg.eig", "linalg.svd", "geqrf"}
OPS = [op for op in op_db if op.name in NAMES and op.supports_dtype(torch.float64, "cpu")]


def flat(value):
    """Return the tensors in a result."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [x for item in value for x in flat(item)] if isinstance(value, list | tuple) else []


def outcome(op, sample):
    """Return results, gradients of their sum, or the error, of torch as it is while this runs."""
    try:
        results = [x for x in flat(op(sample.input, *sample.args, **sample.kwargs)) if x.numel()]
        operands = [x for x in flat([sample.input, *sample.args]) if x.requires_grad]
        smooth = [x for x in results if x.requires_grad]
        gradients = []
        if smooth and operands and op.supports_autograd and op.name not in PHASES:
            total = sum((x.real if x.is_complex() else x).sum() for x in smooth)
            gradients = torch.autograd.grad(total, operands, allow_unused=True)
    except Exception as error:  # noqa: BLE001
        return error
    return [x.detach().abs() if op.name in PHASES else x.detach() for x in results], list(gradients)


def plain(op, sample):
    """Return the outcome of torch itself."""
    from trnsci.substitutions import outside

    with outside():
        return outcome(op, sample)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.formatted_name)
def test_samples_agree(op, dtype):
    """Compare results, gradients and kinds of errors."""
    if not op.supports_dtype(dtype, "cpu"):
        pytest.skip("torch has no such function of this dtype")
    torch.manual_seed(0)
    for sample in op.sample_inputs("cpu", dtype, requires_grad=op.supports_autograd):
        want, got = plain(op, sample), outcome(op, sample)
        if isinstance(want, Exception):
            assert type(got) is type(want)
            continue
        if isinstance(got, Exception):
            raise got
        for ours, theirs in zip(got[0] + got[1], want[0] + want[1], strict=True):
            assert (ours is None) == (theirs is None)
            if theirs is not None:
                torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6, equal_nan=True)
