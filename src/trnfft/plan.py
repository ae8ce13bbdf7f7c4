"""Plans: one transform's algorithm, tables and cost as a value that can be printed, kept, compared and called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsIndex

import torch
from torch import Tensor

import trnsci
from trnfft.along_axes import Transformable
from trnfft.arguments import integer, integers, scale_of
from trnfft.complextensor import ComplexTensor
from trnfft.device import launch
from trnfft.device.pass_programs import Stage
from trnfft.fft import fft, hfft, ifft, ihfft, irfft, rfft
from trnfft.fftn import Axes, fft2, fftn, hfft2, hfftn, ifft2, ifftn, ihfft2, ihfftn, irfft2, irfftn, rfft2, rfftn
from trnfft.ops import C2C, R2C, C2CPlanes, C2RPlanes, R2CPlanes
from trnsci import ArgumentError, DtypeError, Plan, check
from trnsci.caches import CACHE
from trnsci.plans import Step, quantity
from trnsci.precision import Precision, resolve

# The transforms that can be planned by name: along one axis, and along several.
ONE: dict[str, Callable[..., Any]] = {f.__name__: f for f in (fft, ifft, rfft, irfft, hfft, ihfft)}
_TWO = (fft2, ifft2, rfft2, irfft2, hfft2, ihfft2)
MANY: dict[str, Callable[..., Any]] = {f.__name__: f for f in (*_TWO, fftn, ifftn, rfftn, irfftn, hfftn, ihfftn)}
_FUNCTIONS = ONE | MANY


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FFTPlan(Plan):
    """A prepared transform: call it with data of the shape and dtype it was planned for.

    ``stages`` says per axis how Trainium computes it; its tables are computed with the plan and kept with it.
    """

    kind: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    n: int | tuple[int, ...] | None
    dim: int | tuple[int, ...] | None
    norm: str | None
    precision: Precision | None
    stages: tuple[Stage, ...]
    _tables: tuple[Tensor, ...] = field(compare=False, repr=False)

    def __call__(self, x: Transformable, *, out: Transformable | None = None) -> Transformable:
        """Transform data of the shape and dtype of the plan."""
        if not (hasattr(x, "shape") and hasattr(x, "dtype")):
            check.tensor(self.kind, x=x)
        shape, dtype = tuple(x.shape), _dtype(x)
        if shape != self.shape or dtype != self.dtype:
            got = {"x": (shape, str(dtype)), "plan": (self.shape, str(self.dtype))}
            raise ArgumentError(self.kind, "shape and dtype", got, hint="Make a plan for this x")
        fn = _FUNCTIONS[self.kind]
        return fn(
            x, self.n, *(() if self.dim is None else (self.dim,)), norm=self.norm, precision=self.precision, out=out
        )

    def serve(self, op: str, x: Transformable, out: Transformable | None, **options: Axes | str) -> Transformable:
        """Run ``fft(x, plan=plan)``: the plan's own options hold, and contradicting ones are refused."""
        check.refuse(op != self.kind, op, "plan", f"a plan for {self.kind}", f"a plan for {op}")
        for name, given in options.items():
            planned = getattr(self, name)
            if given is not None and self._same(name, given) != self._same(name, planned):
                raise ArgumentError(op, name, {"call": given, "plan": planned}, hint="The plan carries it")
        return self(x, out=out)

    def _same(self, name: str, value: Any) -> Any:
        """Return an option in one form of those that mean the same: axes from either end, the default norm."""
        if name == "norm":
            return value or "backward"
        value = value if name == "precision" else _read(self.kind, name, value)
        if name != "dim" or not self.shape:
            return value
        if value is None:
            value = -1 if self.kind in ONE else (-2, -1) if _FUNCTIONS[self.kind] in _TWO else None
        if isinstance(value, int):
            return value % len(self.shape)
        return value if value is None else tuple(axis % len(self.shape) for axis in value)

    @property
    def tables(self) -> tuple[Tensor, ...]:
        """Copies of the tables, which later transforms read."""
        return tuple(table.clone() for table in self._tables)

    @property
    def nbytes(self) -> int:
        """Bytes the plan holds: its tables above all."""
        return 512 + 512 * len(self.steps) + sum(table.nbytes for table in self._tables)

    def __str__(self) -> str:
        lines = [
            f"{self.kind} {str(self.dtype).removeprefix('torch.')}{list(self.shape)} norm={self.norm or 'backward'}"
        ]
        lines += [f"  axis {stage.axis}: {stage}" for stage in self.stages]
        lines.append(f"  tables: {quantity(sum(table.nbytes for table in self._tables), 'B')}")
        return "\n".join((*lines, *("  " + line for line in Plan.__str__(self).splitlines())))


def _stages(steps: Sequence[Step]) -> tuple[tuple[Stage, ...], tuple[Tensor, ...]]:
    """Return stages and tables of the programs that planned calls would run on Trainium."""
    stages: list[Stage] = []
    tables: list[Tensor] = []
    for step in steps:
        call = step.call
        x = call.re if isinstance(call, C2CPlanes | C2RPlanes) else call.x
        if 0 in x.shape:
            continue
        dims, real = tuple(call.dims), False
        if isinstance(call, C2C | C2CPlanes):
            kind, n, sign, real = "c2c", 0, 1 if call.inverse else -1, isinstance(call, C2C) and not x.is_complex()
        elif isinstance(call, R2C | R2CPlanes):
            kind, n, sign = "r2c", x.shape[dims[-1]], -1
        else:
            kind, n, sign = "c2r", call.n, 1
        of_call = launch.stages(kind, tuple(x.shape), dims, n, sign, call.scale, call.precision, real)
        stages += of_call[0]
        tables += of_call[1]
    return tuple(stages), tuple(tables)


def _read(op: str, argument: str, value: Any) -> int | tuple[int, ...] | None:
    """Read an axis or a length, or several."""
    if value is None or (isinstance(value, SupportsIndex) and getattr(value, "ndim", 0) == 0):
        return None if value is None else integer(op, argument, value)
    return tuple(integer(op, argument, one) for one in integers(op, argument, value))


def _dtype(x: Any) -> torch.dtype:
    if isinstance(x, ComplexTensor | Tensor):
        return x.dtype
    return torch.from_numpy(x[:0] if x.ndim else x.reshape(1)).dtype


def _sizes(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise ArgumentError("plan", "shape", shape, "a sequence of lengths", hint="Pass (n,)")
    sizes = tuple(integer("plan", "shape", size) for size in shape)
    check.refuse(any(size < 0 for size in sizes), "plan", "shape", sizes, "lengths of at least 0")
    return sizes


@check.hands_on(*_FUNCTIONS)
def plan(
    shape: Sequence[int],
    dtype: torch.dtype,
    *,
    dim: int | Sequence[int] | None = None,
    kind: str = "fft",
    n: int | Sequence[int] | None = None,
    norm: str | None = None,
    precision: Precision | None = None,
) -> FFTPlan:
    """Make a plan; plans are cached by everything they depend on.

    Args:
        shape: of the data.
        dtype: of the data.
        dim: axis or axes, as for the function.
        kind: the name of the function, ``"fft"`` to ``"ihfftn"``.
        n: length, or lengths, as for the function.
        norm: as for the function.
        precision: as for the function.

    Raises:
        ArgumentError: an option does not fit, as the function itself would say.

    Example:
        >>> forward = plan((64, 1009), torch.complex64)
        >>> forward(torch.zeros(64, 1009, dtype=torch.complex64)).shape
        torch.Size([64, 1009])
    """
    check.option("plan", "kind", kind, tuple(_FUNCTIONS))
    sizes = _sizes(shape)
    if not isinstance(dtype, torch.dtype):
        raise DtypeError("plan", "dtype", dtype, "a torch.dtype")
    dim, n = _read("plan", "dim", dim), _read("plan", "n", n)
    # both are checked before they are a key
    scale_of("plan", norm, False)
    resolve("plan", precision, torch.float32)
    given: dict[str, Any] = {"kind": kind, "shape": sizes, "dtype": dtype, "n": n, "dim": dim}
    given |= {"norm": norm, "precision": precision}

    def build() -> FFTPlan:
        x = torch.empty(sizes, dtype=dtype, device="meta")
        positional = (n, *(() if dim is None else (dim,)))
        calls = trnsci.plan(_FUNCTIONS[kind], x, *positional, norm=norm, precision=precision)
        stages, tables = _stages(calls.steps)
        planned: dict[str, Any] = {"steps": calls.steps, "peak_bytes": calls.peak_bytes, "stages": stages}
        return FFTPlan(op=f"trnfft.{kind}", _tables=tables, **planned, **given)

    return CACHE.get(("trnfft.plan", *given.values(), trnsci.get_backend("trnfft")), build)
