"""trnblas in 8 bits: integers in Python's own arithmetic, FP8 with scales in extended precision."""

import numpy as np
import torch

import trnblas
from tests.campaign.draw import Draw
from tests.campaign.oracles import TRANSPOSED, narrow, wide, within_range
from tests.campaign.trial import Trial, spec
from trnsci.testing import unit_roundoff


def integers(draw: Draw, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Whole numbers of a dtype: any, or all the one that is farthest from zero."""
    info = torch.iinfo(dtype)
    extreme = draw.among(None, None, info.min, info.max)
    values = draw.rng.integers(info.min, info.max, size=shape, endpoint=True)
    values = np.asarray(values if extreme is None else np.full(shape, extreme))
    return draw.laid_out(torch.from_numpy(values.astype(np.int64)).to(dtype))


@spec("trnblas.gemm_int", promise="exact, modulo `2**32`")
def exact(draw: Draw) -> Trial:
    m, n, k, batch = draw.size(0, 65), draw.size(0, 65), draw.size(0, 1100), draw.batch()
    ta, tb = draw.among("n", "t"), draw.among("n", "t")
    types = torch.int8, torch.uint8
    a = integers(draw, (*draw.broadcastable(batch), *((m, k) if ta == "n" else (k, m))), draw.among(*types))
    b = integers(draw, (*batch, *((k, n) if tb == "n" else (n, k))), draw.among(*types))
    zeros = {"zero_a": draw.among(0, 0, 1, -128, 255), "zero_b": draw.among(0, 0, 3, -256, 256)}
    kwargs = {**zeros, "trans_a": ta, "trans_b": tb}
    left, right = (x.numpy().astype(np.int64) for x in (a, b))
    whole = (TRANSPOSED[ta](left) - zeros["zero_a"]) @ (TRANSPOSED[tb](right) - zeros["zero_b"])
    for name, shape in (("bias", whole.shape[-1:]), ("c", whole.shape)):
        if draw.chance(0.3):
            kwargs[name] = integers(draw, shape, torch.int32)
            whole = whole + kwargs[name].numpy().astype(np.int64)
    wrapped = (whole + 2**31) % 2**32 - 2**31
    draw.log.append(f"{a.dtype} {tuple(a.shape)} {b.dtype} {tuple(b.shape)} {ta} {tb} {zeros}")
    return Trial(
        *(trnblas.gemm_int, (a, b), kwargs, lambda: wrapped.astype(float), lambda e: np.zeros(e.shape)),
        differentiable=False,
    )


@spec(
    "trnblas.gemm_scaled",
    promise="`g(K + 4) (|scale_a a| |scale_b b| + |bias|)` with `u = 2**-24`, and a rounding to storage",
    when="scales and the sums of magnitudes inside float32's range",
)
def scaled(draw: Draw) -> Trial:
    m, n, g, groups = draw.size(0, 65), draw.size(0, 65), draw.size(0, 33), draw.among(1, 1, 2, 5)
    k, dtype = g * groups, draw.among(torch.float32, torch.float32, torch.bfloat16, torch.float16)
    eight = torch.float8_e4m3fn, torch.float8_e5m2

    def operand(shape):
        # without NaN and infinity, which FP8 has too
        kind = draw.among("gaussian", "constant", "ramp", "alternating", "integers", "spike")
        values = draw.tensor(shape, torch.float32, kind=kind).clamp(-448, 448)
        return draw.laid_out(values.to(draw.among(*eight)).view(torch.uint8)).view

    a, b = (operand(shape)(draw.among(*eight)) for shape in ((m, k), (k, n)))
    a, b = (torch.where(x.float().isfinite(), x.float(), 1.0).to(x.dtype) for x in (a, b))
    # products of the scales stay in range, though one of them with the data may not
    top = draw.among(0.0, 2.0, 18.0, 37.0)

    def scale(rows, transposed):
        shape = draw.among((), (rows, 1), (1, 1), (rows, groups))
        values = np.asarray(10.0 ** draw.rng.uniform(-top, top, size=shape) * draw.among(1.0, 1.0, -1.0))
        made = torch.from_numpy(values).float()
        made = made.mT.contiguous() if transposed and shape else made
        return draw.among(made, float(made), 2) if shape == () else made

    scales = scale(m, False), scale(n, True)
    if top == 37.0 and isinstance(scales[0], float):
        scales = scales[0], 1 / scales[0]
    left, right = (np.asarray(torch.as_tensor(s).double().numpy(), np.longdouble) for s in scales)
    left = np.broadcast_to(left, (m, 1)) if left.ndim == 0 else np.broadcast_to(left, (m, left.shape[1]))
    right = np.broadcast_to(right, (1, n)) if right.ndim == 0 else np.broadcast_to(right, (right.shape[0], n))
    x = wide(a.float()) * np.repeat(left, k // left.shape[1], 1)
    y = wide(b.float()) * np.repeat(right, k // right.shape[0], 0)
    kwargs, extra = {"dtype": dtype}, np.zeros(n, np.longdouble)
    if draw.chance(0.3):
        kwargs["bias"] = draw.tensor((n,), dtype, kind="gaussian")
        extra = wide(kwargs["bias"])
    result, size = x @ y + extra, np.abs(x) @ np.abs(y) + np.abs(extra)
    within_range(dtype, size)
    draw.log.append(
        f"{a.dtype} {tuple(a.shape)} {b.dtype} {tuple(b.shape)} scales {[tuple(s.shape) for s in (left, right)]}"
    )
    count, u = k + 4, 2.0**-24
    stored = unit_roundoff(dtype) if dtype != torch.float32 else 0.0
    tiny = torch.finfo(dtype).smallest_normal * (groups + 1)
    bound = narrow(count * u / (1 - count * u) * size + stored * np.abs(result) + tiny)
    return Trial(
        *(trnblas.gemm_scaled, (a, b, *scales), kwargs, lambda: narrow(result), lambda _: bound),
        differentiable=False, arrays=False, kernels="maybe",
    )  # fmt: skip
