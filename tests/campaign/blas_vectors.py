"""trnblas: vectors, rotations, scalings, pair energies, and the policies of gemm."""

from dataclasses import replace

import numpy as np
import torch
from scipy.stats import norm

import trnblas
import trnsci
from tests.campaign.blas import DTYPES, FINITE, product
from tests.campaign.draw import COMPLEX, HALF, REAL, Draw
from tests.campaign.oracles import TRANSPOSED, narrow, summed, unit, wide, within_range
from tests.campaign.trial import SPECS, Outside, Trial, public, spec
from trnsci.testing import unit_roundoff


def combined(name, dtype, args, *results, kwargs=None, terms=2, **options) -> Trial:
    """Sums of products: each result is a list of (coefficient, array)."""
    exact = [sum((a * x for a, x in parts if a != 0), 0 * parts[0][1]) for parts in results]
    sizes = [sum(abs(a) * np.abs(x) if a != 0 else 0 * np.abs(x) for a, x in parts) for parts in results]
    within_range(dtype, *sizes)
    bounds = [summed(terms, size, one, dtype) for size, one in zip(sizes, exact, strict=True)]
    options = {"kernels": "maybe", **options}
    return Trial(
        public(name), args, kwargs or {}, lambda: tuple(map(narrow, exact)), lambda _: tuple(bounds), **options
    )


@spec("trnblas.axpy", "trnblas.scal", promise="`g(2) (|a x| + |y|)`", when=FINITE)
def axpy(draw: Draw, name: str) -> Trial:
    dtype, n = draw.dtype(*DTYPES), draw.size(0, 513)
    alpha, x, y = draw.number(dtype), draw.tensor((n,), dtype), draw.tensor((n,), dtype)
    if name.endswith("scal"):
        return combined(name, dtype, (alpha, x), [(alpha, wide(x))])
    return combined(name, dtype, (x, y, alpha), [(alpha, wide(x)), (1.0, wide(y))])


@spec("trnblas.swap", promise="exact")
def swap(draw: Draw) -> Trial:
    dtype, shape = draw.dtype(*DTYPES), (*draw.batch(), draw.size(0, 513))
    x, y = draw.tensor(shape, dtype), draw.tensor(shape, dtype)
    zeros = np.zeros(shape)
    expected = tuple(narrow(wide(z)) for z in (y, x))
    return Trial(public("trnblas.swap"), (x, y), {}, lambda: expected, lambda _: (zeros, zeros), kernels="maybe")


@spec("trnblas.rot", "trnblas.rotm", promise="`g(2) (|c x| + |s y|)`", when=FINITE)
def rotation(draw: Draw, name: str) -> Trial:
    dtype, n = draw.dtype(*(DTYPES if name.endswith("rot") else REAL)), draw.size(0, 513)
    x, y = draw.tensor((n,), dtype), draw.tensor((n,), dtype)
    wide_x, wide_y = wide(x), wide(y)
    if name.endswith("rot"):
        c, s = float(draw.number(torch.float64)), draw.number(dtype)
        return combined(
            *(name, dtype, (x, y, c, s), [(c, wide_x), (s, wide_y)], [(c, wide_y), (-np.conj(s), wide_x)]),
        )
    flag = draw.among(-1.0, 0.0, 1.0, -2.0)
    given = [float(draw.number(torch.float64)) for _ in range(4)]
    h11, h21, h12, h22 = {-1.0: given, 0.0: [1, given[1], given[2], 1], 1.0: [given[0], -1, 1, given[3]]}.get(
        flag, [1, 0, 0, 1]
    )
    param = torch.tensor([flag, *given], dtype=dtype)
    h11, h21, h12, h22 = (float(torch.tensor(float(h), dtype=dtype)) for h in (h11, h21, h12, h22))
    return combined(
        *(name, dtype, (x, y, param), [(h11, wide_x), (h12, wide_y)], [(h21, wide_x), (h22, wide_y)]),
        differentiable=False,
    )


@spec("trnblas.rotg", "trnblas.rotmg", promise="the second component vanishes to a few roundings of the first")
def rotation_made(draw: Draw, name: str) -> Trial:
    if name.endswith("rotmg"):
        return modified(draw, name)
    dtype, shape = draw.dtype(*REAL, *COMPLEX), draw.batch()
    a, b = draw.tensor(shape, dtype), draw.tensor(shape, dtype)

    def check(result, kernel):
        c, s, x, y = (wide(torch.as_tensor(z)) for z in (*result, a, b))
        u, r = unit(dtype), np.hypot(np.abs(x), np.abs(y))
        assert np.all(np.abs(-np.conj(s) * x + c * y) <= 16 * u * r + 16 * torch.finfo(dtype).smallest_normal)
        assert np.all(np.abs(np.abs(c) ** 2 + np.abs(s) ** 2 - 1) <= 16 * u)
        assert np.all((r > 0) | ((c == 1) & (s == 0)))

    return Trial(public(name), (a, b), check=check, kernels="maybe", differentiable=False, compiles=False)


def modified(draw: Draw, name: str) -> Trial:
    d1, d2 = (abs(float(draw.rng.normal())) * 10.0 ** draw.among(-6, 0, 0, 6) for _ in range(2))
    x1, y1 = (float(draw.rng.normal()) * 10.0 ** draw.among(-6, 0, 0, 6) for _ in range(2))

    def check(result, kernel):
        flag, h11, h21, h12, h22 = map(float, result)
        matrix = {-1.0: (h11, h21, h12, h22), 0.0: (1, h21, h12, 1), 1.0: (h11, -1, 1, h22)}.get(flag, (1, 0, 0, 1))
        _, h21, _, h22 = matrix
        assert abs(h21 * x1 + h22 * y1) <= 2.0**-50 * (abs(h21 * x1) + abs(h22 * y1)), (flag, matrix)

    return Trial(public(name), (d1, d2, x1, y1), check=check, kernels="maybe", differentiable=False, compiles=False)


@spec("trnblas.geam", promise="`g(2) (|alpha a| + |beta b|)`", when=FINITE)
def geam(draw: Draw) -> Trial:
    dtype, m, n = draw.dtype(*DTYPES), draw.size(), draw.size()
    ta, tb = draw.among("n", "t", "c"), draw.among("n", "t", "c")
    a, b = (draw.tensor((m, n) if t == "n" else (n, m), dtype) for t in (ta, tb))
    alpha, beta = draw.number(dtype), draw.number(dtype)
    parts = [(alpha, TRANSPOSED[ta](wide(a))), (beta, TRANSPOSED[tb](wide(b)))]
    args, kwargs = (alpha, a, beta, b), {"trans_a": ta, "trans_b": tb}
    return combined("trnblas.geam", dtype, args, parts, kwargs=kwargs)


@spec("trnblas.dgmm", promise="one rounding", when=FINITE)
def dgmm(draw: Draw) -> Trial:
    dtype, m, n, right, batch = draw.dtype(*DTYPES), draw.size(), draw.size(), draw.chance(0.5), draw.batch()
    a, x = draw.tensor((*batch, m, n), dtype), draw.tensor((*batch, n if right else m), dtype)
    exact = wide(a) * (wide(x)[..., None, :] if right else wide(x)[..., :, None])
    within_range(dtype, exact)
    tiny = torch.finfo(dtype).smallest_normal
    # complex products are sums of two; the oracle is rounded to float64, once
    roundings = unit_roundoff(dtype) * (4 if dtype.is_complex else 1.001) + 2.0**-53
    bound = narrow(roundings * np.abs(exact) + tiny).real
    rows = bool(batch) and batch[0] > 1
    return Trial(
        *(trnblas.dgmm, (a, x), {"side": right}, lambda: narrow(exact), lambda _: bound), kernels="maybe", rows=rows
    )


@spec("trnblas.iamax", "trnblas.iamin", promise="exact: the first of the largest or smallest")
def extreme(draw: Draw, name: str) -> Trial:
    dtype, shape = draw.dtype(*DTYPES), (*draw.batch(), draw.size(1, 513))
    x = draw.tensor(shape, dtype)
    values = narrow(wide(x))
    if dtype.is_complex:
        # |Re| + |Im| is compared in the dtype
        part = np.float32 if dtype == torch.complex64 else np.float64
        size = np.abs(values.real).astype(part) + np.abs(values.imag).astype(part)
    else:
        size = np.abs(values)
    exact = np.argmax(size, -1) if name.endswith("max") else np.argmin(size, -1)
    options = {"kernels": "maybe", "differentiable": False}
    return Trial(public(name), (x,), {}, lambda: exact, lambda e: np.zeros(e.shape), **options)


@spec(
    "trnblas.mp2_pairs", "trnblas.mp2_energy",
    promise="`target_error + g(V + 6) + u log2(V)` of the sum of magnitudes; float64 `g(V**2 + 6)`",
    when="occupied energies below virtual ones",
)  # fmt: skip
def pairs(draw: Draw, name: str) -> Trial:
    dtype, occupied, virtual = draw.dtype(*REAL), draw.size(1, 5), draw.size(1, 33)
    first, symmetric, target = int(draw.rng.integers(occupied)), draw.chance(0.4), draw.among(1e-7, 1e-7, 1e-5, 1e-2)
    kind, n = draw.among("gaussian", "ramp", "constant"), occupied * virtual
    t = draw.tensor((n, n), dtype, kind=kind, change=(lambda v: v + v.T) if symmetric else None)[first * virtual :]
    eps_occ = draw.tensor((occupied,), dtype, change=lambda v: -0.5 - 3 * np.sort(np.abs(np.tanh(v)))[::-1])
    eps_vir = draw.tensor((virtual,), dtype, change=lambda v: 0.2 + 5 * np.sort(np.abs(np.tanh(v))))
    blocks = wide(t).reshape(-1, virtual, occupied, virtual).transpose(0, 2, 1, 3)
    o, v = wide(eps_occ), wide(eps_vir)
    gap = o[first:, None, None, None] + o[None, :, None, None] - v[None, None, :, None] - v[None, None, None, :]
    terms = blocks * (2 * blocks - blocks.transpose(0, 1, 3, 2)) / gap
    size = np.abs(blocks) * (2 * np.abs(blocks) + np.abs(blocks.transpose(0, 1, 3, 2))) / np.abs(gap)
    if symmetric:
        ahead = np.arange(occupied) - np.arange(first, occupied)[:, None]
        weights = np.where(ahead > 0, 0, np.where(ahead < 0, 2, 1))[..., None, None]
        terms, size = terms * weights, size * weights
        unread = np.repeat(np.repeat(ahead > 0, virtual, 0), virtual, 1)
        t.masked_fill_(torch.from_numpy(unread), draw.among(0.0, float("nan")))
    axes = (2, 3) if name.endswith("pairs") else None
    exact, size = terms.sum(axes), size.sum(axes)
    total = occupied**2 if axes is None else 1
    u = unit(dtype)
    if dtype == torch.float64:
        relative = (virtual**2 + 6 + total) * u
    else:
        relative = target + (virtual + 6 + total) * u + u * np.log2(max(virtual, 2))
    bound = narrow(relative * 1.01 * size + torch.finfo(dtype).tiny)
    args, kwargs = (t, eps_occ[first:], eps_occ, eps_vir), {"symmetric": symmetric, "first": first}
    kwargs["target_error"] = target
    draw.log.append(f"{kwargs}")
    return Trial(public(name), args, kwargs, lambda: narrow(exact), lambda _: bound, kernels="maybe")


@spec("trnblas.matmul", promise="that of gemm", when=FINITE)
def matmul(draw: Draw) -> Trial:
    dtype, m, n, k, batch = draw.dtype(*DTYPES), draw.size(0, 65), draw.size(0, 65), draw.size(), draw.batch()
    a = draw.tensor(draw.among((k,), (*draw.broadcastable(batch), m, k)), dtype)
    b = draw.tensor(draw.among((k,), (*batch, k, n)), dtype)
    return product("trnblas.matmul", dtype, (a, b), wide(a), wide(b), terms=k)


ACTIVATIONS = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * norm.cdf(narrow(x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


@spec("trnblas.gemm with epilogue=", promise="that of gemm with the bias as a term, times the slope, and 16 roundings "
      "of the activation", when=FINITE)  # fmt: skip
def epilogue(draw: Draw) -> Trial:
    dtype, m, n, k = draw.dtype(*REAL, *HALF), draw.size(0, 65), draw.size(0, 65), draw.size()
    kind = draw.among("gaussian", "constant", "ramp", "alternating", "integers")
    a, b = draw.tensor((m, k), dtype, kind=kind), draw.tensor((k, n), dtype, kind=kind)
    alpha, beta, scale = (float(draw.number(torch.float64)) for _ in range(3))
    c = draw.tensor((m, n), dtype, kind="gaussian") if beta != 0 else None
    bias = draw.tensor((n,), dtype, kind="gaussian") if draw.chance(0.6) else None
    name = draw.among(*ACTIVATIONS)
    addend, row = 0 if c is None else beta * wide(c), 0 if bias is None else wide(bias)
    inside = scale * (alpha * (wide(a) @ wide(b)) + addend) + row
    size = abs(scale) * (abs(alpha) * (np.abs(wide(a)) @ np.abs(wide(b))) + np.abs(addend)) + np.abs(row)
    exact = ACTIVATIONS[name](inside)
    within_range(dtype, size)
    bound = 1.2 * summed(k + 3, size, exact, dtype) + 16 * unit(dtype) * narrow(np.abs(inside) + np.abs(exact))
    draw.log.append(f"{alpha} {beta} {scale} {name}")

    def run(a, b, c, bias):
        return trnblas.gemm(alpha, a, b, beta, c, epilogue=trnblas.Epilogue(bias=bias, scale=scale, activation=name))

    # a slope that jumps has no difference to compare with
    smooth = name != "relu"
    return Trial(run, (a, b, c, bias), {}, lambda: narrow(exact), lambda _: bound, arrays=False, differentiable=smooth)


SUMS = ("gemm", "dot", "dotu", "dotc", "nrm2", "asum", "syrk", "herk", "syr2k", "her2k", "syrkx", "trsm")
PRODUCTS = ("matmul", "gemv", "symv", "hemv", "symm", "hemm", "trmm", "trmv", "trsv", "grouped_gemm")
RELATIVE = "sum of magnitudes, for solves to `|inv(a)| |a| |inv(a)| |b|`"
WIDE = (torch.float64, torch.complex128)


def stated(trial: Trial, dtype: torch.dtype, policy: str) -> float:
    """The documented bound of a policy."""
    stem, terms = trial.function.__name__, max(trial.magnitudes[0], 2 * (trial.function is trnblas.grouped_gemm))
    if stem in ("nrm2", "asum") and dtype.is_complex:
        terms, dtype = 2 * terms, dtype.to_real()
    roots = 4 if stem == "nrm2" else 1
    if stem in ("trsm", "trsv"):
        policy = policy if policy != "compensated" else "fp64" if dtype in WIDE else "fp32"
        return (4 if dtype.is_complex else 1) * trnblas.error_bound(terms, dtype, policy)
    if stem in ("dot", "dotu", "dotc", "nrm2", "asum") and policy == "compensated":
        count, factor = (2 * terms + 3, 2**0.5) if dtype.is_complex else (terms + 2, 1.0)
        u = min(unit_roundoff(dtype), 2.0**-24)
        return roots * (factor * (u + (1.01 * count * u) ** 2) + unit_roundoff(dtype))
    return roots * trnblas.error_bound(terms, dtype, policy)


def claimed(trial: Trial, dtype: torch.dtype, limit: float) -> Trial:
    """Judge a result by the error that is claimed beside it, which is at most ``limit``."""
    _, size, tiny = trial.magnitudes

    def check(result, kernel):
        _, error = trnsci.achieved(trial.function, *trial.args, **trial.kwargs)
        assert error <= limit * 1.0001, f"claims {error:.3g}, stated {limit:.3g}"
        bounds.append(narrow(error * size * 1.001 + 2.0**-52 * size + tiny).real)

    bounds: list[np.ndarray] = []
    last = {"bound": lambda _: bounds[-1], "kernel_bound": None}
    # a NaN leaves float32's range, and another policy is chosen; differences are lost in float32
    exactly = trial.kwargs.get("precision") in ("fp64", "compensated")
    return replace(trial, check=check, differentiable=exactly, kernels="maybe", simulated=0.2, rows=False, **last)


def operands(trial: Trial) -> list[torch.Tensor]:
    values = (x if isinstance(x, list) else [x] for x in trial.args)
    return [x for several in values for x in several if isinstance(x, torch.Tensor)]


def moderate(trial: Trial) -> bool:
    """Whether float32 multiplies and adds without leaving its range."""
    sizes = [np.abs(np.stack([z.real, z.imag])) for z in map(wide, operands(trial))]
    return all(np.all((x == 0) | (x > 1e-9) & (x < 1e9)) for x in sizes)


@spec(*(f"trnblas.{stem} with precision=" for stem in (*SUMS, *PRODUCTS)), when="float32's range for `fast` and `fp32`",
      promise=f"the bound of the policy, relative to the {RELATIVE}")  # fmt: skip
def policies(draw: Draw, name: str) -> Trial:
    trial, policy = SPECS[name.split(" ")[0]](draw), draw.among("fast", "fp32", "compensated", "fp64")
    dtype, (terms, size, _) = operands(trial)[0].dtype, trial.magnitudes
    expensive = policy in ("compensated", "fp64") and terms * np.size(size) > 50000
    if expensive or (policy in ("fast", "fp32") and dtype in WIDE and not moderate(trial)):
        raise Outside
    trial.kwargs["precision"] = policy
    draw.log.append(policy)
    return claimed(trial, dtype, stated(trial, dtype, policy))


@spec(*(f"trnblas.{stem} with target_error=" for stem in SUMS), when=FINITE,
      promise=f"the error asked for, relative to the {RELATIVE}; or an error that says what can be had")  # fmt: skip
def targets(draw: Draw, name: str) -> Trial:
    trial = SPECS[name.split(" ")[0]](draw)
    dtype, (terms, size, _) = operands(trial)[0].dtype, trial.magnitudes
    if terms * np.size(size) > 50000:
        raise Outside
    best = min(stated(trial, dtype, policy) for policy in ("fast", "fp32", "compensated", "fp64"))
    target = best * draw.among(1.01, 1.01, 10.0, 1e3, 1e5, 1e9)
    trial.kwargs["target_error"] = target
    draw.log.append(f"target {target:.3g}")
    return claimed(trial, dtype, target)
