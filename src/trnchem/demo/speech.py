"""A voice in noise: STFT, a complex network that masks it, and back; trained here, run on two backends."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

import trnsci
from trnchem.demo.picture import spectrograms
from trnchem.demo.report import Report, device_table, devices, engine_bars, outermost, steps, time_bars
from trnsci.config import BackendName
from trnsci.console import Table
from trnsci.html_page import Bar, Bars, Picture
from trnsci.plans import seconds

RATE = 8000
LENGTH = 12000
N_FFT = 256
HOP = 64
HIDDEN = 96
STEPS = 150
BATCH = 8
# decibel by which two backends may differ in what they gain
AGREE = 0.01


def speech(say: Callable[[str], None]) -> Report:
    """Run it."""
    say(f"training a complex network on {STEPS * BATCH} synthetic voices in noise")
    torch.manual_seed(0)
    network = _network()
    _train(network, say)
    clean = voice(10**6)
    noisy = clean + noise(10**6)
    rows: list[dict[str, Any]] = []
    outputs, books = {}, {}
    backends: tuple[BackendName, ...] = ("pytorch", "simulator")
    for backend in backends:
        say(f"cleaning a voice it has not heard, on {backend}")
        took = math.inf
        # a first call imports, and other work disturbs: the shortest time is shown
        for _ in range(3 if backend == "pytorch" else 1):
            start = time.perf_counter()
            with trnsci.backend(backend), trnsci.ledger() as book, torch.no_grad():
                outputs[backend] = enhance(network, noisy)
            if time.perf_counter() - start < took:
                took, books[backend] = time.perf_counter() - start, book
        before, after = snr(noisy, clean), snr(outputs[backend], clean)
        rows.append(
            {"backend": backend, "before": before, "after": after, "gained": after - before, "seconds_measured": took}
        )
    say("predicting trn1, trn2 and trn3")
    predicted = devices(entry.step.call for entry in outermost(books["simulator"]))
    # written so that a NaN fails
    ok = all(row["gained"] > 3.0 for row in rows) and abs(rows[0]["after"] - rows[1]["after"]) <= AGREE
    cells = [
        (r["backend"], *(f"{r[name]:.2f} dB" for name in ("before", "after", "gained")), seconds(r["seconds_measured"]))
        for r in rows
    ]
    header = ("backend", "SNR before", "SNR after", "gained", "time here")
    note = f"{LENGTH / RATE:.1f} s of sound. On the simulator the time is that of simulating."
    ran = steps(books["simulator"], "Where each step ran, and why")
    return Report(
        title="A voice in noise on Trainium",
        lead="STFT, a complex network, inverse STFT: a synthetic voice in white noise as loud as itself."
        " Times of Trainium are predicted by the simulator's timing model; all others were measured on this machine.",
        tables=[
            Table("A voice the network has not heard", header, cells, note),
            ran,
            device_table({"speech": predicted}),
        ],
        drawn=[
            Picture(
                "What does it hear? Before, after, and the voice alone",
                spectrograms([_magnitude(x) for x in (noisy, outputs["simulator"], clean)]),
                "Three spectrograms side by side: the voice in noise, the network's output, the voice without noise",
                f"Time to the right, frequency up to {RATE // 2} Hz, 60 dB from dark to bright.",
            ),
            Bars("How much was gained?", _bars(rows), "Signal to noise in decibel, before and after."),
            time_bars(
                "Would it gain on Trainium?",
                books["pytorch"].measured,
                predicted,
                "The calls of the suite; a second and a half of sound is little work for a device.",
            ),
            engine_bars("Which engines work?", {"": predicted}),
        ],
        details=[ran],
        facts={"runs": rows, "predicted": [asdict(device) for device in predicted]},
        ok=ok,
        verdict=f"Gained {rows[0]['gained']:.1f} dB; both backends agree within {AGREE} dB."
        if ok
        else "The backends do not agree, or nothing was gained.",
        following="docs/trnfft/stft.md; trnsci fit YOUR_SCRIPT.py",
    )


def voice(seed: int) -> Tensor:
    """Return [LENGTH], a vowel that glides and swells: harmonics of a moving pitch under moving formants."""
    import trnrand

    draw = trnrand.uniform(8, generator=trnrand.Generator(seed), dtype=torch.float64)
    t = torch.arange(LENGTH, dtype=torch.float64, device="cpu") / RATE
    pitch = 110 + 110 * draw[0] + 25 * torch.sin(2 * math.pi * (0.5 + draw[1]) * t + 6 * draw[2])
    pitch = pitch + 4 * torch.sin(2 * math.pi * 5.5 * t)
    phase = 2 * math.pi * torch.cumsum(pitch, 0) / RATE
    formants = [450 + 350 * draw[3] + 150 * torch.sin(2 * math.pi * (1 + draw[4]) * t), 1300 + 900 * draw[5] + 0 * t]
    signal = torch.zeros_like(t)
    for k in range(1, 24):
        f = k * pitch
        gain = sum(torch.exp(-(((f - formant) / 220) ** 2)) for formant in formants) + 0.05
        signal += torch.where(f < RATE / 2 - 200, gain / k**0.3, 0.0) * torch.sin(k * phase)
    syllables = torch.sin(2 * math.pi * (1.2 + draw[6]) * t + 6 * draw[7]).clamp(min=0) ** 0.5
    signal = signal * syllables
    return (signal / signal.pow(2).mean().sqrt()).float()


def noise(seed: int) -> Tensor:
    """Return [LENGTH], white, as loud as the voice."""
    import trnrand

    return trnrand.normal(LENGTH, generator=trnrand.Generator(seed + 1), dtype=torch.float32)


def snr(x: Tensor, clean: Tensor) -> float:
    """Signal to noise in decibel."""
    return float(10 * torch.log10(clean.pow(2).sum() / (x - clean).pow(2).sum()))


def _network() -> torch.nn.Sequential:
    """Three frames in, the mask of the middle one out."""
    from trnfft.nn import ComplexLinear, ModReLU

    frequencies = N_FFT // 2 + 1
    return torch.nn.Sequential(
        ComplexLinear(3 * frequencies, HIDDEN), ModReLU(HIDDEN), ComplexLinear(HIDDEN, frequencies)
    )


def _window() -> Tensor:
    return torch.hann_window(N_FFT, dtype=torch.float32, device="cpu")


def spectrum(x: Tensor) -> Tensor:
    """Return [..., frames, frequencies] of [..., LENGTH]."""
    import trnfft

    spectrum: Tensor = trnfft.stft(x, N_FFT, HOP, window=_window()).mT
    return spectrum / N_FFT**0.5


def _neighbours(z: Tensor) -> Tensor:
    """Return [..., frames, 3 frequencies], every frame between its neighbours."""
    padded = torch.cat([z[..., :1, :], z, z[..., -1:, :]], -2)
    return torch.cat([padded[..., :-2, :], z, padded[..., 2:, :]], -1)


def _mask(raw: Tensor) -> Tensor:
    """Return a factor between 0 and 1 that does not change when the sound's phase does."""
    power = raw.real**2 + raw.imag**2
    return power / (1 + power)


def _train(network: torch.nn.Sequential, say: Callable[[str], None]) -> None:
    optimiser = torch.optim.Adam(network.parameters(), 3e-3)
    for step in range(STEPS):
        seeds = range(BATCH * step, BATCH * (step + 1))
        clean = torch.stack([voice(seed) for seed in seeds])
        z = spectrum(clean + torch.stack([noise(seed) for seed in seeds]))
        raw = network(_neighbours(z).flatten(0, 1)).view_as(z)
        loss = (_mask(raw) * z - spectrum(clean)).abs().pow(2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if (step + 1) % 50 == 0:
            say(f"step {step + 1} of {STEPS}, loss {float(loss.detach()):.4f}")


def enhance(network: torch.nn.Sequential, noisy: Tensor) -> Tensor:
    """Clean a sound. The layers run as products of planes, so that every step is an op with a kernel."""
    import trnfft

    z = spectrum(noisy)
    first, activation, last = network
    mask = _mask(_linear(last, activation(_linear(first, _neighbours(z)))))
    return trnfft.istft((mask * z).mT * N_FFT**0.5, N_FFT, HOP, window=_window(), length=LENGTH)


def _linear(layer: Any, z: Tensor) -> Tensor:
    """Apply a `ComplexLinear` as four real products."""
    import trnblas

    re, im, weight = z.real.contiguous(), z.imag.contiguous(), layer.weight

    def product(plane: Tensor, factor: Tensor) -> Tensor:
        return trnblas.gemm(1.0, plane, factor, trans_b=True)

    real = product(re, weight.real) - product(im, weight.imag)
    imag = product(re, weight.imag) + product(im, weight.real)
    return torch.complex(real + layer.bias_real, imag + layer.bias_imag)


def _magnitude(x: Tensor) -> Any:
    with trnsci.backend("pytorch"), torch.no_grad():
        return spectrum(x).mT.abs().numpy()


def _bars(rows: list[dict[str, Any]]) -> list[Bar]:
    return [
        Bar(f"{row['backend']} {when}", max(row[when], 0.0), f"{row[when]:.2f} dB", other=when == "after")
        for row in rows
        for when in ("before", "after")
    ]
