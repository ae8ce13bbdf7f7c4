"""trnfft: frames by their definition in extended precision, plans and callbacks beside the functions they stand for."""

import numpy as np
import scipy.fft
import torch

import trnfft
from tests.campaign.draw import COMPLEX, REAL, Draw
from tests.campaign.fft import KINDS, NORMS, POLICIES, close, policy_of, relative_error, sizes
from tests.campaign.oracles import narrow, unit, wide
from tests.campaign.trial import Outside, Trial, public, spec

# torch's modes of padding, and NumPy's names of them
PAD = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
PRECISE = {torch.float64: torch.complex128, torch.float32: torch.complex64}


def framing(draw: Draw, dtype: torch.dtype, n: int) -> tuple[dict, np.ndarray, int]:
    """Options of both directions, the window of a frame, and the distance of frames."""
    size = draw.among(n, n, draw.size(1, n))
    taper = draw.tensor((size,), dtype, kind="gaussian", change=lambda v: 0.5 + np.abs(np.tanh(v)))
    taper = draw.among(None, taper, taper)
    left = (n - size) // 2
    window = np.pad(np.ones(size, np.longdouble) if taper is None else wide(taper), (left, n - size - left))
    hop = draw.among(None if n > 3 else 1, max(1, size // 2), size, draw.size(1, size))
    options = {"hop_length": hop, "win_length": None if size == n else size, "window": taper}
    options |= {"center": draw.chance(0.5), "normalized": draw.chance(0.3), "precision": draw.among(*POLICIES)}
    return options, window, n // 4 if hop is None else hop


@spec(
    "trnfft.stft", "trnfft.spectrogram",
    promise="that of fft for every frame, and a rounding of the windowed samples", when="finite data",
)  # fmt: skip
def frames(draw: Draw, name: str) -> Trial:
    dtype, n = draw.dtype(*REAL, *REAL, *COMPLEX), draw.size(1, 129)
    real = torch.float64 if unit(dtype) < 1e-12 else torch.float32
    options, window, hop = framing(draw, draw.among(real, real, dtype), n)
    by, mode = n // 2 if options["center"] else 0, draw.among(*PAD)
    x = draw.tensor((*draw.among((), (2,), (1, 3)), (by + 1 if by else n) + draw.size(0, 129)), dtype)
    signal = np.pad(wide(x), [(0, 0)] * (x.ndim - 1) + [(by, by)], PAD[mode])
    count = (signal.shape[-1] - n) // hop + 1
    windowed = np.stack([signal[..., t * hop : t * hop + n] for t in range(count)], -2) * window  # [..., t, n]
    scale = n**-0.5 if options["normalized"] else 1.0
    whole = np.iscomplexobj(windowed)
    onesided = draw.among(None, False, not whole)
    exact = (
        scale * np.swapaxes(scipy.fft.fft(windowed), -1, -2)[..., : n if whole or onesided is False else n // 2 + 1, :]
    )
    size = scale * np.sqrt(n) * np.sqrt(np.sum(np.abs(windowed) ** 2, -1)) + np.finfo(np.float64).tiny
    policy = policy_of(options["precision"], dtype)
    options |= {"pad_mode": mode, "onesided": onesided}

    def relative(kernel):
        return relative_error([n], count, 1, policy, dtype, kernel) + 2 * unit(dtype)

    if name.endswith("spectrogram"):
        power = draw.among(2.0, 1, 0.5, 3.0)

        def bound(kernel):
            error, value = relative(kernel) * size[..., None, :], np.abs(exact)
            top = (value + error) ** power
            off = np.maximum(top - value**power, value**power - np.maximum(value - error, 0) ** power)
            return narrow(off + 8 * unit(dtype) * top + torch.finfo(dtype).smallest_normal ** min(power, 1))

        options |= {"power": power}
        results = lambda: narrow(np.abs(exact) ** power), lambda _: bound(False), lambda _: bound(True)
        return Trial(trnfft.spectrogram, (x, n), options, *results, differentiable=False)
    options["return_complex"] = draw.chance(0.8)

    def check(result, kernel):
        result = torch.as_tensor(result)
        result = result if options["return_complex"] else torch.view_as_complex(result.contiguous())
        close(result, exact, size, relative(kernel), dtype, (-2,))

    rows, smooth = x.ndim > 1 and len(x) > 1, policy == "fp64"
    return Trial(trnfft.stft, (x, n), options, check=check, rows=rows, differentiable=smooth)


def added(frames: np.ndarray, hop: int) -> np.ndarray:
    """Frames [..., t, n], added where they overlap."""
    count, n = frames.shape[-2:]
    total = np.zeros((*frames.shape[:-2], n + hop * (count - 1)), frames.dtype)
    for t in range(count):
        total[..., t * hop : t * hop + n] += frames[..., t, :]
    return total


@spec("trnfft.istft", promise="that of fft for every frame, windowed and divided as its definition says",
      when="finite data; squared windows add up to 1/100 and more")  # fmt: skip
def signals(draw: Draw) -> Trial:
    dtype, n, count = draw.dtype(*COMPLEX), draw.size(1, 65), draw.among(1, 2, 5, 9)
    real = torch.float64 if dtype == torch.complex128 else torch.float32
    options, window, hop = framing(draw, real, n)
    if hop > (options["win_length"] or n):
        raise Outside
    whole = draw.chance(0.3)
    returns = whole and draw.chance(0.5)
    x = draw.tensor((*draw.among((), (2,)), n if whole else n // 2 + 1, count), dtype)
    norm, stem = "ortho" if options["normalized"] else None, "ifft" if returns else "irfft"
    spectra = np.swapaxes(wide(x), -1, -2)
    cut = spectra if returns else spectra[..., : n // 2 + 1]
    parts = getattr(scipy.fft, stem)(cut, n, norm=norm)  # [..., t, n]
    each = sizes(cut.copy(), parts, (-1,), (n,), stem, norm)
    weight = added(np.broadcast_to(window**2, (count, n)), hop)
    start = n // 2 if options["center"] else 0
    most = len(weight) - start
    length = draw.among(None, most, max(most - 3, 0), most + 5)
    stop = start + (length if length is not None else max(most - start, 0))
    covered = slice(start, min(stop, len(weight)))
    if (length is None and most < start) or np.min(weight[covered], initial=1.0) < 1e-2:
        raise Outside
    policy = policy_of(options["precision"], dtype)

    def signal(windowed):
        values = added(windowed, hop)[..., covered] / weight[covered]
        return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, max(0, stop - len(weight)))])

    exact = signal(parts * window)

    def bound(kernel):
        error = relative_error([n], count, 1, policy, dtype, kernel) * each[..., None]
        error = error + (2 * count + 8) * unit(dtype) * np.abs(parts)
        return narrow(signal(error * window) + torch.finfo(dtype).smallest_normal * 100)

    options |= {"length": length, "onesided": draw.among(None, not whole) if n > 2 else not whole}
    options["return_complex"] = returns
    results = lambda: narrow(exact), lambda _: bound(False), lambda _: bound(True)
    return Trial(trnfft.istft, (x, n), options, *results, compiles=False, differentiable=policy == "fp64")


@spec("trnfft.plan", promise="the bits of the function it plans")
def planned(draw: Draw) -> Trial:
    kind, tail = draw.among(*KINDS), draw.among("", "", "2", "n")
    dtype = draw.dtype(*REAL) if kind in ("rfft", "ihfft") else draw.dtype(*REAL, *COMPLEX, *COMPLEX)
    x = draw.tensor((*draw.among((), (), (2,)), draw.size(2, 17), draw.size(2, 129)), dtype)
    dims, lengths = (None, -1, 0, 1), (None, None, draw.size(2, 33))
    if tail:
        dims, lengths = ((-2, -1), (0, 1), (1, 0)), (None, None, (draw.size(2, 33), draw.size(2, 33)), (-1, 5))
    options = {"dim": draw.among(*dims), "n": draw.among(*lengths)}
    options |= {"norm": draw.among(*NORMS), "precision": draw.among(*POLICIES)}
    draw.log.append(f"{kind}{tail} {options}")

    given = {("s" if tail and key == "n" else key): value for key, value in options.items() if value is not None}

    beside = []

    # the function runs beside the plan: some contexts of a call have bits of their own
    def run(x):
        beside[:] = [public(f"trnfft.{kind}{tail}")(x, **given)]
        return trnfft.plan(x.shape, dtype, kind=kind + tail, **options)(x)

    def check(result, kernel):
        assert torch.equal(torch.as_tensor(result), torch.as_tensor(beside[0]))

    return Trial(run, (x,), check=check, compiles=False, differentiable=False)


@spec("trnfft.with_callbacks", promise="that of its transforms, and a rounding for each factor", when="finite data")
def called_back(draw: Draw) -> Trial:
    kind, n, rows = draw.among("fft", "ifft", "rfft"), draw.size(1, 129), draw.among(1, 3)
    dtype = draw.dtype(*REAL) if kind == "rfft" else draw.dtype(*COMPLEX)
    x = draw.tensor((rows, n), dtype, kind="gaussian")
    taper, across = draw.tensor((n,), dtype, kind="ramp"), draw.tensor((rows,), dtype, kind="gaussian")
    filtered = draw.tensor((n // 2 + 1 if kind == "rfft" else n,), dtype.to_complex(), kind="gaussian")
    factor, norm = draw.among(2.0, -0.5, 0.0), draw.among(*NORMS)
    # what is given, and the same of arrays
    load, before = draw.among(
        (None, lambda v: v), (trnfft.Window(taper), lambda v: v * wide(taper)), (torch.neg, np.negative),
        (trnfft.Window(across, dim=-2), lambda v: v * wide(across)[:, None]),
        (trnfft.Scale(factor), lambda v: factor * v),
    )  # fmt: skip
    store, after = draw.among(
        (None, lambda v: v), (trnfft.Multiply(filtered), lambda v: v * wide(filtered)), (torch.abs, np.abs),
        (trnfft.Scale(factor), lambda v: factor * v), (trnfft.Convert(torch.complex128), lambda v: v),
    )  # fmt: skip
    back = draw.chance(0.3) and store is not torch.abs and not isinstance(store, trnfft.Convert)
    draw.log.append(f"{kind} {load} {type(store).__name__} {norm} back {back}")
    spectrum = getattr(scipy.fft, kind)(before(wide(x)), norm=norm)
    exact = after(spectrum)
    undo = {"fft": "ifft", "ifft": "fft", "rfft": "irfft"}[kind]
    if back:
        options = {"n": n} if kind == "rfft" else {}
        exact = getattr(scipy.fft, undo)(exact, norm=norm, **options)
    grown = float(np.max(np.abs(wide(filtered)))) if isinstance(store, trnfft.Multiply) else max(abs(factor), 1.0)
    shift = (
        {"forward": -1, "ortho": -0.5}.get(norm, 0) if kind != "ifft" else {"forward": 0, "ortho": -0.5}.get(norm, -1)
    )
    total = float(n) ** (0 if back else shift + 0.5)
    size = grown * total * np.sqrt(np.sum(np.abs(before(wide(x))) ** 2, -1)) + np.finfo(np.float64).tiny

    def run(x):
        made = trnfft.with_callbacks(trnfft.plan((rows, n), dtype, kind=kind, norm=norm), load=load, store=store)
        if back:
            of = (rows, len(filtered)), dtype.to_complex()
            made = made.then(trnfft.plan(*of, kind=undo, norm=norm, n=n if kind == "rfft" else None))
        return made(x)

    def check(result, kernel):
        limit = 2 * relative_error([n], rows, 1, policy_of(None, dtype), dtype, kernel) + 8 * unit(dtype)
        close(result, exact, size, limit, dtype, (-1,))

    return Trial(run, (x,), check=check, compiles=False)
