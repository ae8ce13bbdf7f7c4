"""`compare` finds the first tile in which a kernel leaves its reference."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from trnsim.arrays import copy_of, is_array, map_items, to_numpy
from trnsim.debug import Probe
from trnsim.kernel import simulate
from trnsim.refusals import forbid, refuse


@dataclass(frozen=True, slots=True)
class Difference:
    """Where one array leaves its reference.

    Attributes:
        name: of the tensor; ``result``, ``result[1]`` … for what the kernel returns.
        tile: index of the first tile that differs.
        where: the tile as slices, one per dimension.
        count, size: elements of that tile that differ, and its elements.
        at: index, in the whole array, of the worst element of that tile.
        got, expected, error: its two values and their distance.
        allowed: the distance that would have been accepted.
        line: where the tensor was made.
        reason: set instead when the arrays cannot be compared (shapes).
    """

    name: str
    tile: tuple[int, ...] = ()
    where: tuple[slice, ...] = ()
    count: int = 0
    size: int = 0
    at: tuple[int, ...] = ()
    got: float = 0.0
    expected: float = 0.0
    error: float = 0.0
    allowed: float = 0.0
    line: str | None = None
    reason: str = ""

    def __str__(self) -> str:
        origin = f" ({self.line})" if self.line else ""
        if self.reason:
            return f"{self.name}{origin}: {self.reason}."
        box = ", ".join(f"{s.start}:{s.stop}" for s in self.where)
        return (
            f"{self.name}{origin} differs first in tile {self.tile}, [{box}]: {self.count} of {self.size} elements, "
            f"worst at {self.at}: {self.got:.9g} instead of {self.expected:.9g}, off by {self.error:.3g} where "
            f"{self.allowed:.3g} is allowed."
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of `compare`: true when everything agrees.

    ``differences`` are in program order, intermediates before results.
    """

    checked: tuple[str, ...]
    differences: tuple[Difference, ...]

    @property
    def first(self) -> Difference | None:
        """The earliest difference."""
        return self.differences[0] if self.differences else None

    def __bool__(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        names = ", ".join(self.checked)
        if not self.differences:
            return f"{names}: no difference."
        return "\n".join(
            [str(d) for d in self.differences]
            + [f"{len(self.differences)} of {len(self.checked)} arrays differ ({names})."]
        )

    __repr__ = __str__


def compare(
    kernel: Any,
    reference: Callable[..., Any],
    *args: Any,
    rtol: float | None = None,
    atol: float = 0.0,
    tile: tuple[int, int] = (128, 512),
    target: Any = None,
    nki: str | None = None,
    lint: str | None = None,
    **kwargs: Any,
) -> Comparison:
    """Run ``kernel`` and ``reference`` on copies of the same arguments and say where the kernel leaves the reference.

    Args:
        kernel: what `simulate` takes.
        *args: what both get; arrays are copied.
        reference: the same computation in NumPy or torch. It returns what the kernel returns, or a dict of
            intermediates by name (``"return"`` stands for the kernel's result), each compared with the kernel's
            tensor of that name; a list stands for the tensors of a loop, one by one.
        rtol: allowed distance as a part of the largest reference value; default: 4 units of the dtype's precision and
            at least 1e-5. Integers must agree exactly.
        atol: allowed distance on top of that.
        tile: rows and columns of the tiles differences are reported by (last two dimensions).
        target: as in `simulate`.
        nki: as in `simulate`.
        lint: as in `simulate`.
        **kwargs: more of what both get.
    """
    wanted = reference(*_copies(args), **_copies(kwargs))
    names = [n for n in wanted if n != "return"] if isinstance(wanted, dict) else []
    given, given_kw = _copies(args), _copies(kwargs)
    before = [np.array(to_numpy(a), copy=True) if is_array(a) else None for a in given]
    with Probe(*names) as seen:
        result = simulate(kernel, target=target, nki=nki, lint=lint)(*given, **given_kw)
    if result is None:
        changed = [
            a for a, b in zip(given, before, strict=True) if b is not None and to_numpy(a).tobytes() != b.tobytes()
        ]
        result = changed[0] if len(changed) == 1 else tuple(changed) or None
    if isinstance(wanted, dict) and not (isinstance(result, dict) and result.keys() == wanted.keys()):
        pairs = list(_by_name(wanted, seen, result))
    else:
        pairs = list(_structure("result", result, wanted))
    differences = [_difference(*pair, rtol=rtol, atol=atol, tile=tile) for pair in pairs]
    return Comparison(tuple(name for name, *_ in pairs), tuple(d for d in differences if d is not None))


def _copies(value: Any) -> Any:
    return copy_of(value) if is_array(value) else map_items(value, _copies)


def _by_name(wanted: dict[str, Any], seen: Probe, result: Any) -> Iterator[tuple[str, Any, Any, str | None]]:
    missing = [n for n in wanted if n != "return" and n not in seen]
    if missing:
        raise refuse("compare-name:unknown", got=missing, limit=sorted(seen.names), names=", ".join(missing))
    rows: list[tuple[int, str, Any, Any, str | None]] = []
    for name, want in wanted.items():
        if name == "return":
            continue
        values = seen.all(name)
        if isinstance(want, (list, tuple)):
            forbid(len(want) != len(values), "compare-name:count", got=len(want), limit=len(values), name=name)
            rows += [
                (v.first, f"{name}[{i}]", v.array, w, v.line) for i, (v, w) in enumerate(zip(values, want, strict=True))
            ]
        else:
            rows.append((values[-1].first, name, values[-1].array, want, values[-1].line))
    for _, name, got, want, line in sorted(rows, key=lambda r: r[0]):
        yield name, got, want, line
    if "return" in wanted:
        yield from _structure("result", result, wanted["return"])


def _structure(name: str, got: Any, want: Any) -> Iterator[tuple[str, Any, Any, str | None]]:
    if isinstance(want, (list, tuple)) and isinstance(got, (list, tuple)) and len(got) == len(want):
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            yield from _structure(f"{name}[{i}]", g, w)
    elif isinstance(want, dict) and isinstance(got, dict) and got.keys() == want.keys():
        for k in want:
            yield from _structure(f"{name}[{k!r}]", got[k], want[k])
    else:
        yield name, got, want, None


def _plain(value: Any) -> np.ndarray | None:
    if not is_array(value) and not isinstance(value, (int, float, np.generic)):
        return None
    array = to_numpy(value) if is_array(value) else np.asarray(value)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def _precision(array: np.ndarray, value: Any) -> float:
    if array.dtype.kind in "iub":
        return 0.0
    dtype = to_numpy(value).dtype if is_array(value) else np.dtype(np.float64)
    return max(4 * float(ml_dtypes.finfo(dtype).eps), 1e-5)  # type: ignore[no-untyped-call]


def _difference(
    name: str, got: Any, want: Any, line: str | None, *, rtol: float | None, atol: float, tile: tuple[int, int]
) -> Difference | None:
    a, b = _plain(got), _plain(want)
    if a is None or b is None:
        if got is None and want is None:
            return None
        reason = f"the kernel gives {type(got).__name__} and the reference {type(want).__name__}"
        return Difference(name, line=line, reason=reason)
    if a.shape != b.shape:
        return Difference(name, line=line, reason=f"the kernel gives shape {a.shape} and the reference {b.shape}")
    exact, expected = a.astype(np.float64), b.astype(np.float64)
    finite = np.abs(expected[np.isfinite(expected)])
    scale = float(finite.max()) if finite.size else 0.0
    allowed = atol + (rtol if rtol is not None else _precision(a, got)) * scale
    with np.errstate(invalid="ignore"):
        error = np.abs(exact - expected)
    alike = (exact == expected) | (np.isnan(exact) & np.isnan(expected))
    error = np.where(alike, 0.0, np.where(np.isnan(error), np.inf, error))
    wrong = ~alike & (error > allowed)
    if not wrong.any():
        return None
    shape = wrong.shape
    steps = (1,) * max(0, len(shape) - 2) + (tile if len(shape) > 1 else tile[1:])[: len(shape)]
    tiles = np.argwhere(wrong) // np.array(steps, dtype=np.int64) if shape else np.zeros((1, 0), np.int64)
    first = min(map(tuple, tiles.tolist()))
    where = tuple(slice(i * s, min((i + 1) * s, n)) for i, s, n in zip(first, steps, shape, strict=True))
    inside = np.where(wrong[where], error[where], -1.0)
    local = np.unravel_index(int(np.argmax(inside)), inside.shape)
    at = tuple(int(s.start + i) for s, i in zip(where, local, strict=True))
    values = float(exact[at]), float(expected[at]), float(error[at])
    return Difference(name, first, where, int(wrong[where].sum()), int(inside.size), at, *values, allowed, line)
