"""Functions of SciPy and scikit-learn that take torch tensors, inside `trnsci.drop_in`: ``python -m tools.array_api``.

Both follow the array API standard where ``SCIPY_ARRAY_API=1`` was set before they were imported. Each function runs
plain, inside a block and on the simulator; the table says what of it became the suite's, and whether results are
tensors and agree. ``--write`` puts it into the page.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np
import torch
from scipy import cluster, differentiate, fft, integrate, interpolate, linalg, ndimage, signal, spatial, special, stats

import trnsci

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "array-api.md"
BEGIN, END = "<!-- array-api: begin -->\n", "<!-- array-api: end -->"
# largest difference of a result from the plain one, relative to its largest element, in single precision
BOUND = 1e-4

torch.manual_seed(0)
SIGNAL, SQUARE, POINTS = torch.randn(64), torch.randn(8, 8), torch.rand(200, 3)
POSITIVE = SQUARE @ SQUARE.mT + 8 * torch.eye(8)
WIDE, UNIT = POINTS[:30].double(), torch.ones(1, dtype=torch.float64)
FILTER = torch.tensor(signal.butter(2, 0.2, output="sos"), dtype=torch.float32)


def _reduce(name: str, **options: Any) -> Callable[[], Any]:
    """Return a call of an estimator that maps points to fewer columns, or to labels."""

    def call() -> Any:
        package, _, kind = name.rpartition(".")
        with importlib.import_module("sklearn").config_context(array_api_dispatch=True):
            estimator = getattr(importlib.import_module(package), kind)(**options)
            labels = (POINTS[:, 0] > 0.5).to(torch.int64)
            fitted = estimator.fit(POINTS, POINTS[:, 1] if "Ridge" in kind else labels)
            return (fitted.transform if hasattr(fitted, "transform") else fitted.predict)(POINTS).abs()

    return call


FUNCTIONS: dict[str, Callable[[], Any]] = {
    "scipy.fft.fft": lambda: fft.fft(SIGNAL),
    "scipy.fft.rfft2": lambda: fft.rfft2(SQUARE),
    "scipy.fft.irfft": lambda: fft.irfft(fft.rfft(SIGNAL)),
    "scipy.fft.hfft": lambda: fft.hfft(SIGNAL),
    "scipy.fft.fht": lambda: fft.fht(SIGNAL.double(), 0.1, 0.0),
    "scipy.fft.dct": lambda: fft.dct(SIGNAL),
    "scipy.signal.fftconvolve": lambda: signal.fftconvolve(SIGNAL, SIGNAL[:9]),
    "scipy.signal.oaconvolve": lambda: signal.oaconvolve(SIGNAL, SIGNAL[:9]),
    "scipy.signal.hilbert": lambda: signal.hilbert(SIGNAL),
    "scipy.signal.resample": lambda: signal.resample(SIGNAL, 40),
    "scipy.signal.detrend": lambda: signal.detrend(SIGNAL),
    "scipy.signal.sosfilt": lambda: signal.sosfilt(FILTER, SIGNAL),
    "scipy.signal.welch": lambda: signal.welch(SIGNAL, nperseg=32)[1],
    "scipy.signal.czt": lambda: signal.czt(SIGNAL),
    "scipy.interpolate.RBFInterpolator": lambda: interpolate.RBFInterpolator(WIDE, WIDE[:, 0])(WIDE[:4]),
    "scipy.interpolate.AAA": lambda: interpolate.AAA(SIGNAL.double(), SIGNAL.double().exp())(UNIT),
    "scipy.differentiate.derivative": lambda: differentiate.derivative(torch.exp, UNIT).df,
    "scipy.integrate.trapezoid": lambda: integrate.trapezoid(SIGNAL),
    "scipy.integrate.cubature": lambda: integrate.cubature(lambda x: x[..., 0] ** 2, 0 * UNIT, UNIT).estimate,
    "scipy.spatial.transform.Rotation.apply": lambda: spatial.transform.Rotation.from_rotvec(WIDE).apply(WIDE),
    "scipy.stats.pearsonr": lambda: stats.pearsonr(SIGNAL, SIGNAL.roll(3)).statistic,
    "scipy.stats.zscore": lambda: stats.zscore(SIGNAL),
    "scipy.stats.ttest_ind": lambda: stats.ttest_ind(SIGNAL[:30], SIGNAL[30:]).statistic,
    "scipy.stats.gaussian_kde": lambda: stats.gaussian_kde(SIGNAL)(SIGNAL[:3]),
    "scipy.special.logsumexp": lambda: special.logsumexp(SQUARE, axis=0),
    "scipy.special.erf": lambda: special.erf(SIGNAL),
    "scipy.cluster.vq.vq": lambda: cluster.vq.vq(POINTS, POINTS[:4])[1],
    "scipy.cluster.vq.whiten": lambda: cluster.vq.whiten(POINTS),
    "scipy.ndimage.gaussian_filter": lambda: ndimage.gaussian_filter(SQUARE, 1.0),
    "scipy.linalg.solve": lambda: linalg.solve(POSITIVE, SIGNAL[:8]),
    "scipy.linalg.cholesky": lambda: linalg.cholesky(POSITIVE),
    "scipy.linalg.eigh": lambda: linalg.eigh(POSITIVE)[0],
    "scipy.linalg.expm": lambda: linalg.expm(SQUARE),
    "sklearn.decomposition.PCA": _reduce("sklearn.decomposition.PCA", n_components=2, svd_solver="full"),
    "sklearn.discriminant_analysis.LinearDiscriminantAnalysis": _reduce(
        "sklearn.discriminant_analysis.LinearDiscriminantAnalysis"
    ),
    "sklearn.linear_model.Ridge": _reduce("sklearn.linear_model.Ridge", solver="svd"),
    "sklearn.preprocessing.StandardScaler": _reduce("sklearn.preprocessing.StandardScaler"),
}


def try_function(call: Callable[[], Any]) -> tuple[str, str, float]:
    """Return what of a function became the suite's, the type of its result, and its largest error on the simulator."""
    want = call()
    with trnsci.drop_in(min_size=0) as seen:
        got = call()
    with trnsci.backend("simulator", strict=False), trnsci.drop_in(min_size=0):
        simulated = call()
    plain, *others = (np.asarray(x) for x in (want, got, simulated))
    largest = max(float(np.abs(plain).max()), 1e-30)
    error = max(float(np.abs(plain - x).max()) for x in others) / largest
    counts = sorted({ours: n for (_, ours), n in seen.substituted.items()}.items())
    return ", ".join(f"`{name}` {n}" for name, n in counts) or "-", type(got).__name__, error


def write_table() -> tuple[list[str], list[str]]:
    """Return the lines of the table, and what is wrong."""
    lines, wrong = ["| function | became ours, calls | result |", "|---|---|---|"], []
    for name, call in FUNCTIONS.items():
        try:
            ours, kind, error = try_function(call)
        except ImportError:
            print(f"{name}: not tried, its package is not installed")
            continue
        result = {"Tensor": "tensor", "ndarray": "array of NumPy"}.get(kind, kind)
        lines.append(f"| `{name}` | {ours} | {result} |")
        if not error <= BOUND:
            wrong.append(f"{name} differs by {error:.1e} of its largest element")
    return lines, wrong


def main(argv: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.array_api", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    lines, wrong = write_table()
    print("\n".join([*lines, *wrong]))
    if args.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        text = f"{before}{BEGIN}{chr(10).join(lines)}\n{END}{rest.partition(END)[2]}"
        PAGE.write_text(text, encoding="utf-8")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
