"""Ways a call meets PyTorch: tensors without data, `vmap`, and what `opcheck` asks of registered operators."""

import zlib
from typing import Any
from unittest import mock

import torch

from trnsci.ops import Op

# Functions whose data decides between real and complex roots, or whether residuals are returned.
DEPENDS = {"sqrtm", "logm", "lstsq"}
# Functions whose operands are drawn with leading axes of their own.
OWN_BATCHES = {"gemm", "gemm_int", "matmul"}


def on_meta(trial: Any) -> None:
    """The same call without data: shapes and dtypes of the result with data, or a typed error."""
    if trial.function.__name__ in DEPENDS:
        return
    plain = _results(trial, trial.run())
    args, kwargs = _moved((trial.args, trial.kwargs), lambda x: torch.empty_like(x, device="meta"))
    for number, (one, empty) in enumerate(zip(plain, _results(trial, trial.function(*args, **kwargs)), strict=True)):
        if isinstance(one, torch.Tensor) and isinstance(empty, torch.Tensor):
            assert empty.is_meta, f"result {number} of operands without data has data"
            said, shown = ((tuple(x.shape), x.dtype) for x in (empty, one))
            assert said == shown, f"result {number} without data is {said}, with data {shown}"


def under_vmap(trial: Any) -> None:
    """Two copies of every operand, mapped over: each result is right by itself, or a typed error says why not."""
    leaves: list[torch.Tensor] = []
    _moved((trial.args, trial.kwargs), lambda x: leaves.append(x) or x)

    def function(*tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        args, kwargs = _moved((trial.args, trial.kwargs), lambda _: next(given))
        return trial.function(*args, **kwargs)

    if not isinstance(trial.run(), torch.Tensor | tuple | list):
        # torch maps over tensors and tuples of them only
        return
    mapped = torch.func.vmap(function)(*(torch.stack([x, x]) for x in leaves))
    for row in (0, 1):
        trial.judge(_row(mapped, row))


def in_batches(trial: Any) -> None:
    """Operands in twos, all of them or every second one for both: each result is right by itself."""
    for every in (1, 2) if trial.function.__name__ not in OWN_BATCHES else ():
        count = iter(range(100))

        def stacked(x: torch.Tensor, count: Any = count, every: int = every) -> torch.Tensor:
            return x if next(count) % every else torch.stack([x, x])

        args, kwargs = _moved((trial.args, trial.kwargs), stacked)
        made = trial.function(*args, **kwargs)
        for row in (0, 1):
            trial.judge(_row(made, row))


def checked(trial: Any) -> None:
    """Try one of the operators the call runs with `opcheck`: schema, fakes, autograd, dynamic shapes."""
    calls: list[Any] = []
    execute = Op.execute

    def noted(self: Op, call: Any, *rest: Any, **options: Any) -> Any:
        # torch's dispatcher does not know those that hold functions
        if not self.eager:
            calls.append(call)
        return execute(self, call, *rest, **options)

    with mock.patch.object(Op, "execute", noted):
        trial.run()
    if calls:
        call = calls[zlib.crc32(repr([type(x) for x in calls[0]]).encode()) % len(calls)]
        given = tuple(x.detach().clone() if isinstance(x, torch.Tensor) else x for x in call)
        try:
            torch.library.opcheck(call._op.registered, given)
        except Exception as error:
            raise AssertionError(f"opcheck of {call._op.name}: {error}") from error


def _moved(value: Any, how: Any) -> Any:
    """Arguments with every tensor replaced."""
    if isinstance(value, torch.Tensor):
        return how(value)
    if isinstance(value, dict):
        return {key: _moved(item, how) for key, item in value.items()}
    return type(value)(_moved(item, how) for item in value) if type(value) in (tuple, list) else value


def _results(trial: Any, result: Any) -> tuple[Any, ...]:
    value = trial.view(result)
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _row(value: Any, row: int) -> Any:
    if isinstance(value, torch.Tensor):
        return value[row]
    if isinstance(value, tuple | list):
        items = [_row(item, row) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
