"""Pictures of results in Matplotlib, which the extra ``plot`` brings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from trnsci.errors import BackendUnavailable

if TYPE_CHECKING:
    import matplotlib.axes

Axes: TypeAlias = "matplotlib.axes.Axes"


def open_axes(axes: Axes | None = None) -> Any:
    """Return the axes given, or new ones of Matplotlib's."""
    if axes is not None:
        return axes
    try:
        from matplotlib.pyplot import subplots
    except ImportError as error:
        how = "pip install matplotlib, which is the extra 'plot'"
        raise BackendUnavailable("matplotlib", f"its import fails ({error})", how) from error
    return subplots(layout="constrained")[1]


def plot_convergence(values: Sequence[float], label: str, axes: Axes | None = None) -> Axes:
    """Draw the errors or residuals of an iteration, step by step, on a logarithmic scale; return the axes."""
    axes = open_axes(axes)
    axes.semilogy(values, label=label)
    axes.set_xlabel("step")
    axes.legend()
    return axes


def plot_points(points: Any, label: str, axes: Axes | None = None) -> Axes:
    """Draw the first two coordinates of points [n, d]; return the axes."""
    axes = open_axes(axes)
    axes.plot(points[:, 0], points[:, -1 if points.shape[1] == 1 else 1], ".", label=label)
    axes.set_aspect("equal")
    axes.legend(loc="upper right")
    return axes
