"""trnfft: SciPy's transforms in extended precision as oracles; errors in the 2-norm of every row, as stated."""

import numpy as np
import scipy.fft
import torch

import trnfft
from tests.campaign.draw import COMPLEX, REAL, Draw
from tests.campaign.oracles import narrow, unit, wide
from tests.campaign.trial import EXEMPT, Outside, Trial, public, spec
from trnfft.device.bounds import guaranteed_error

EXEMPT.update({"trnfft.get_backend": "a setting", "trnfft.set_backend": "a setting"})
KINDS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
ROWS = "finite data; every row by itself"
NORMS = (None, "backward", "ortho", "forward")
POLICIES = (None, None, None, None, "fp32", "compensated", "fp64", "fast")


def policy_of(precision: str | None, dtype: torch.dtype) -> str:
    return precision or ("fp64" if dtype in (torch.float64, torch.complex128) else "fp32")


def close(got, exact: np.ndarray, size: np.ndarray, relative: float, dtype: torch.dtype, axes: tuple[int, ...]) -> None:
    """Compare in the 2-norm over ``axes``; ``size`` is what errors are relative to, one number a row."""
    values = wide(torch.as_tensor(got))
    assert values.shape == exact.shape, (values.shape, exact.shape)
    if not exact.size:
        return
    error = np.sqrt(np.sum(np.abs(values - exact) ** 2, axis=axes))
    count = np.prod([exact.shape[axis] for axis in axes])
    limit = relative * size + torch.finfo(dtype).smallest_normal * np.sqrt(count) * 4
    bad = ~(error <= limit)
    assert not bad.any(), f"relative error {float((error / size)[bad].max()):.3g}, stated {relative:.3g}"


def spelled(draw: Draw, kwargs: dict, x: torch.Tensor | None = None, kind: str = "") -> dict:
    """The same options in other words: NumPy's name of an axis, or a plan that carries them all."""
    if kind and draw.chance(0.15):
        options = {"n" if name == "s" else name: value for name, value in kwargs.items()}
        return {"plan": trnfft.plan(x.shape, x.dtype, kind=kind, **options)}
    if "dim" in kwargs and draw.chance(0.3):
        dim = kwargs["dim"]
        return {"axis" if isinstance(dim, int) else "axes": dim, **{k: v for k, v in kwargs.items() if k != "dim"}}
    return kwargs


def length(draw: Draw, least: int = 1) -> int:
    """Mostly short; sometimes long, where programs have two or four factors or a chirp."""
    if draw.chance(0.06):
        return max(least, min(draw.among(1009, 1024, 2187, 4096, 4099, 10007, 16385), draw.largest))
    return draw.size(least, 513)


def rounding(dtype: torch.dtype) -> float:
    """The result is stored, and data may have been scaled."""
    return 4 * unit(dtype)


def relative_error(lengths, rows, inner, precision, dtype, kernel) -> float:
    return guaranteed_error("nki" if kernel else "pytorch", lengths, rows, inner, precision) + rounding(dtype)


@spec(
    *(f"trnfft.{kind}" for kind in KINDS),
    promise="2-norm: `(8 log2(2 n) + 4 p) u` on PyTorch; `1e-5` a product in fp32, `1e-7` compensated, `1e-14` fp64 "
    "in kernels",
    when=ROWS,
)  # fmt: skip
def transform(draw: Draw, name: str) -> Trial:
    stem = name.split(".")[1]
    real = stem in ("rfft", "ihfft")
    dtype = draw.dtype(*REAL) if real else draw.dtype(*REAL, *COMPLEX, *COMPLEX)
    batch, points, norm = draw.batch(), length(draw), draw.among(*NORMS)
    dim = draw.among(-1, -1, 0)
    shape = (*batch, points) if dim == -1 else (points, *batch)
    x = draw.tensor(shape, dtype)
    halved = stem in ("irfft", "hfft")
    n = draw.among(None, None, length(draw)) if points > 1 or not halved else length(draw)
    precision = draw.among(*POLICIES)
    exact = getattr(scipy.fft, stem)(wide(x), n, dim, norm)
    full = exact.shape[dim] if not real else (n or points)
    size = sizes(wide(x), exact, (dim,), (full,), stem, norm)
    rows = bool(batch) and dim == -1 and batch[0] > 1
    policy = policy_of(precision, dtype)

    def check(result, kernel):
        outer = max(1, int(np.prod(shape)) // max(points, 1))
        axis_rows, inner = (outer, 1) if dim == -1 else (1, outer)
        limit = relative_error([full], axis_rows, inner, policy, dtype, kernel)
        close(result, exact, size, limit, dtype, (dim,))

    kwargs = spelled(draw, {"n": n, "dim": dim, "norm": norm, "precision": precision}, x, stem)
    # differences of 1e-6 need a policy as precise as the data
    return Trial(public(name), (x,), kwargs, check=check, rows=rows, differentiable=policy == "fp64")


def sizes(x, exact, dims, full, stem, norm) -> np.ndarray:
    """Norms errors are relative to: of the result, or with half spectra of the whole operand."""
    if stem in ("fft", "ifft"):
        return np.sqrt(np.sum(np.abs(exact) ** 2, axis=dims)) + np.finfo(np.float64).tiny
    halved = stem in ("irfft", "hfft")
    for axis, n in zip(dims, full, strict=True):
        kept = n // 2 + 1 if halved and axis == dims[-1] else n
        x = np.take(x, range(min(kept, x.shape[axis])), axis)
    square = np.abs(x) ** 2
    if halved:
        # frequencies that stand for two; the imaginary parts of the others count, although results ignore them
        last = np.moveaxis(square, dims[-1], -1)
        last[..., 1 : (full[-1] + 1) // 2] *= 2
    total = float(np.prod(full))
    forward = {None: 1.0, "backward": 1.0, "ortho": total**-0.5, "forward": 1 / total}
    inverse = {None: 1 / total, "backward": 1 / total, "ortho": total**-0.5, "forward": 1.0}
    factor = (inverse if stem.startswith("i") else forward)[norm] * total**0.5
    return factor * np.sqrt(np.sum(square, axis=dims)) + np.finfo(np.float64).tiny


@spec(
    *(f"trnfft.{kind}{tail}" for kind in KINDS for tail in "2n"),
    promise="that of fft, added up over axes", when=ROWS,
)  # fmt: skip
def several(draw: Draw, name: str) -> Trial:
    stem = name.split(".")[1]
    real = stem[:-1] in ("rfft", "ihfft")
    dtype = draw.dtype(*REAL) if real else draw.dtype(*REAL, *COMPLEX, *COMPLEX)
    shape = tuple(draw.size(2, 65) for _ in range(draw.among(2, 2, 3)))
    if np.prod(shape) > 40000:
        raise Outside
    dims = draw.among((-2, -1), (-2, -1), (0, 1), (-1, -2))
    norm, precision = draw.among(*NORMS), draw.among(*POLICIES)
    s = draw.among(None, None, (draw.size(2, 33), draw.size(2, 33)))
    x = draw.tensor(shape, dtype)
    exact = getattr(scipy.fft, stem)(wide(x), s, dims, norm)
    full = tuple(exact.shape[axis] for axis in dims)
    if real:
        full = tuple((s or [shape[axis] for axis in dims])[i] for i in range(2))
    size = sizes(wide(x), exact, dims, full, stem[:-1], norm)
    policy = policy_of(precision, dtype)

    def check(result, kernel):
        limit = relative_error(list(full), 1, 1, policy, dtype, kernel)
        if kernel:
            # which product a length takes depends on what lies beside it: four is the most
            limit = max(limit, len(full) * 4 * guaranteed_error("nki", [128], 1, 1, policy))
        close(result, exact, size, limit, dtype, dims)

    kwargs = spelled(draw, {"s": s, "dim": dims, "norm": norm, "precision": precision}, x, stem)
    return Trial(public(name), (x,), kwargs, check=check, differentiable=policy == "fp64")


@spec(
    *(f"trnfft.{back}{kind}{tail}" for back in ("", "i") for kind in ("dct", "dst") for tail in ("", "n")),
    promise="that of fft of up to `4 n` points, and a few roundings", when=ROWS,
)  # fmt: skip
def cosines(draw: Draw, name: str) -> Trial:
    stem, dtype = name.split(".")[1], draw.dtype(*REAL, *REAL, *COMPLEX)
    kind, norm = draw.among(1, 2, 3, 4), draw.among(*NORMS)
    orthogonalize, precision = draw.among(None, None, True, False), draw.among(*POLICIES)
    least, several_axes = 2 if kind == 1 else 1, stem.endswith("n")
    shape = (draw.size(least, 33), draw.size(least, 33)) if several_axes else (draw.among(2, 3), length(draw, least))
    x = draw.tensor(shape, dtype)
    axes = draw.among((0, 1), (-1, 0), (1,)) if several_axes else (draw.among(-1, -1, 0),)
    lengths = [draw.among(shape[axis], shape[axis], draw.size(least, 65)) for axis in axes]
    given = any(shape[axis] != n for axis, n in zip(axes, lengths, strict=True))
    options = {"norm": norm, "orthogonalize": orthogonalize}
    places = {"s": lengths, "axes": axes} if several_axes else {"n": lengths[0], "axis": axes[0]}
    # SciPy forgets to orthogonalize complex data
    parts = [getattr(scipy.fft, stem)(part, kind, **places, **options) for part in (wide(x).real, wide(x).imag)]
    exact = parts[0] + 1j * parts[1] if dtype.is_complex else parts[0]
    total = float(np.prod([2 * n for n in lengths]))
    inverse = stem.startswith("i")
    scale = {None: total**-1 if inverse else 1.0, "ortho": total**-0.5, "forward": 1.0 if inverse else total**-1}
    # of a matrix that is not orthogonal some rows or columns are sqrt(2) longer, an axis
    factor = scale[None if norm == "backward" else norm] * total**0.5 * 2 ** (len(axes) / 2)
    kept = wide(x)[tuple(slice(dict(zip([a % 2 for a in axes], lengths, strict=True)).get(i)) for i in range(2))]
    own = np.sqrt(np.sum(np.abs(kept) ** 2, axis=axes))
    size = np.maximum(np.sqrt(np.sum(np.abs(exact) ** 2, axis=axes)), factor * own) + np.finfo(np.float64).tiny
    policy = policy_of(precision, dtype)

    def check(result, kernel):
        limit = relative_error([4 * n for n in lengths], 1, 1, policy, dtype, kernel) + 8 * unit(dtype)
        if kernel:
            limit = max(limit, 2 * len(lengths) * 4 * guaranteed_error("nki", [128], 1, 1, policy))
        close(result, exact, size, limit, dtype, axes)

    dim = axes if several_axes else axes[0]
    lengths_given = {"s" if several_axes else "n": lengths if several_axes else lengths[0]} if given else {}
    kwargs = spelled(draw, {"dim": dim, **lengths_given, **options, "precision": precision})
    rows = axes == (-1,)
    return Trial(public(name), (x, kind), kwargs, check=check, rows=rows, differentiable=policy == "fp64")


@spec(
    "trnfft.chirp_z",
    promise="`1e-6` fp32, `1e-13` fp64, and `N m 2**-50` for a given w",
    when="|w| near 1, finite data",
)
def chirp(draw: Draw) -> Trial:
    dtype, n, m = draw.dtype(*REAL, *COMPLEX), draw.size(1, 257), draw.size(1, 129)
    dim, precision = draw.among(-1, -1, 0), draw.among(None, None, "fp64", "fp32", "compensated")
    x = draw.tensor((draw.among(1, 2), n) if dim else (n, 2), dtype)
    given = draw.chance(0.5)
    angle, radius = float(draw.rng.uniform(-3, 3)), draw.among(1.0, 1.0, 0.999, 1.002)
    w = complex(radius * np.exp(1j * angle)) if given else None
    a = complex(np.exp(1j * float(draw.rng.normal()))) if draw.chance(0.3) else 1.0
    log_w = np.log(np.clongdouble(w)) if given else np.clongdouble(-2j) * np.arctan(np.longdouble(1)) * 4 / m
    log_a = np.log(np.clongdouble(a))
    k, j = np.arange(m, dtype=np.longdouble)[:, None], np.arange(n, dtype=np.longdouble)
    powers = np.exp(-j * log_a + k * j * log_w)  # [m, n]
    terms = (wide(x) if dim else wide(x).T)[:, None, :] * powers
    exact = terms.sum(-1)
    size = np.sqrt(n) * np.sqrt(np.sum(np.abs(terms) ** 2, -1))
    if float(np.max(np.abs(powers))) > 1e6:
        raise Outside
    double = unit(dtype) < 1e-12 and precision in (None, "fp64")
    base = 1e-13 if double else 1e-6
    bound = narrow((base + (n * m * 2.0**-50 if given else 0.0)) * size + torch.finfo(dtype).tiny * n).real
    exact, bound = (exact, bound) if dim else (exact.T, bound.T)
    kwargs = spelled(draw, {"dim": dim, "precision": precision})
    return Trial(trnfft.chirp_z, (x, m, w, a), kwargs, lambda: narrow(exact), lambda _: bound,
                 rows=dim == -1 and len(x) > 1, differentiable=double)  # fmt: skip


@spec(
    "trnfft.fftconvolve", "trnfft.oaconvolve", "trnfft.correlate",
    promise="three transforms of the padded length, relative to `norm(a) norm(b)`", when="finite data",
)  # fmt: skip
def convolution(draw: Draw, name: str) -> Trial:
    dtype, axes, mode = draw.dtype(*REAL, *COMPLEX), draw.among(1, 1, 2), draw.among("full", "same", "valid")
    sizes_a = tuple(draw.size(1, 257 if axes == 1 else 33) for _ in range(axes))
    sizes_b = tuple(min(draw.size(1, 129 if axes == 1 else 33), n) for n in sizes_a)
    # axes that are not convolved broadcast
    rows = draw.among((), (), ((3,), (1,)), ((1,), (2,)), ((2,), (2,)))
    heads = rows or ((), ())
    a, b = draw.tensor((*heads[0], *sizes_a), dtype), draw.tensor((*heads[1], *sizes_b), dtype)
    dims = tuple(range(-axes, 0))
    second = wide(b)
    if name.endswith("correlate"):
        second = np.conj(np.flip(second, dims))
    whole = tuple(p + q - 1 for p, q in zip(sizes_a, sizes_b, strict=True))
    full = scipy.fft.ifftn(scipy.fft.fftn(wide(a), whole, dims) * scipy.fft.fftn(second, whole, dims), axes=dims)
    full = full if dtype.is_complex else full.real
    if mode == "same":
        full = full[(..., *(slice((w - p) // 2, (w - p) // 2 + p) for w, p in zip(whole, sizes_a, strict=True)))]
    if mode == "valid":
        full = full[(..., *(slice(q - 1, p) for p, q in zip(sizes_a, sizes_b, strict=True)))]
    norms = [np.sqrt(np.sum(np.abs(v) ** 2, axis=dims, keepdims=True)) for v in (wide(a), second)]
    precision = draw.among(*POLICIES)
    policy = policy_of(precision, dtype)

    def limit(kernel):
        lengths = [4 * w for w in whole]
        each = guaranteed_error("pytorch", lengths, 1, 1, policy)
        if kernel:
            each = max(each, axes * 4 * guaranteed_error("nki", [128], 1, 1, policy))
        bound = (3 * each + rounding(dtype)) * norms[0] * norms[1] + torch.finfo(dtype).smallest_normal
        return narrow(np.broadcast_to(bound, full.shape))

    kwargs = {"mode": mode, "precision": precision}
    if rows or draw.chance(0.3):
        kwargs = spelled(draw, {**kwargs, "dim": draw.among(dims, dims[::-1], [d + a.ndim for d in dims])})
    results = lambda: narrow(full), lambda _: limit(False), lambda _: limit(True)
    return Trial(public(name), (a, b), kwargs, *results, differentiable=policy == "fp64")


@spec("trnfft.fftshift", "trnfft.ifftshift", promise="exact")
def shifted(draw: Draw, name: str) -> Trial:
    x = draw.tensor((*draw.batch(), draw.size(0, 65)), draw.dtype())
    dims = draw.among(None, -1, (0,), (-1, 0) if x.ndim > 1 else (), ())
    exact = getattr(np.fft, name.split(".")[1])(narrow(wide(x)), dims)
    kwargs = {draw.among("dim", "axes"): dims}
    return Trial(public(name), (x,), kwargs, lambda: exact, lambda e: np.zeros(e.shape), kernels="maybe")


@spec("trnfft.fftfreq", "trnfft.rfftfreq", promise="three roundings")
def frequencies(draw: Draw, name: str) -> Trial:
    n, d, dtype = draw.size(1, 513), draw.among(1.0, 0.1, 3.0, 1e-9), draw.dtype(*REAL)
    exact = getattr(np.fft, name.split(".")[1])(n, d)
    options = {"kernels": False, "differentiable": False, "compiles": False}
    return Trial(
        public(name),
        (n, d),
        {"dtype": dtype},
        lambda: exact,
        lambda e: 3 * (unit(dtype) + 2.0**-53) * abs(e),
        **options,
    )


@spec("trnfft.next_fast_len", promise="exact: the smallest length without other prime factors")
def fast_length(draw: Draw) -> Trial:
    target, real = draw.size(1, 513) * draw.among(1, 1, 7, 101), draw.chance(0.5)

    def smooth(n):
        for prime in (2, 3, 5) if real else (2, 3, 5, 7, 11):
            while n % prime == 0:
                n //= prime
        return n == 1

    exact = next(n for n in range(target, 2 * target + 1) if smooth(n))

    def check(result, kernel):
        assert result == exact, (target, real, result, exact)

    return Trial(trnfft.next_fast_len, (target, real), check=check, kernels=False, differentiable=False, compiles=False)
