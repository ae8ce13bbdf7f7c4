"""From which size on a call would pay on Trainium: predicted there, and here as its work grows."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from trnsci import config
from trnsci.errors import TrnError
from trnsci.fit_report import OnTarget
from trnsci.links import link
from trnsci.plans import Step
from trnsci.predict import host, prediction
from trnsci.specs import TensorSpec, tensors_in

# how much larger operands are tried, and seconds that predicting all of it may take
SIZES = (2, 4, 8, 16, 32, 64)
PATIENCE = 1.0
# elements of the largest operand that is tried
LARGEST = 1 << 28
# a call here is as efficient as this machine's products, or less so by at most this factor
INEFFICIENT = 4.0


def scale(value: Any, times: int) -> Any:
    """Make operands larger: every extent of matrices and vectors, of stacks of matrices their number alone."""
    if isinstance(value, TensorSpec):
        return replace(value, shape=_shape(value.shape, times), strides=None)
    if isinstance(value, np.ndarray):
        return np.broadcast_to(np.zeros((), value.dtype), _shape(value.shape, times))
    if isinstance(value, list | tuple):
        items = [scale(item, times) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _shape(shape: tuple[int, ...], times: int) -> tuple[int, ...]:
    if len(shape) > 2:
        return (shape[0] * times, *shape[1:])
    return tuple(extent * times if extent > 1 else extent for extent in shape)


def pays_from(
    steps: Sequence[Step], larger: Callable[[int], list[Any]], measured: float, targets: Mapping[str, OnTarget]
) -> str:
    """Return in words from which size on a call is faster on the device, with operands there; empty if it is, or never.

    Args:
        steps: the call as it was made, planned.
        larger: returns calls of ours with operands of a multiple of the size.
        measured: seconds of one call here.
        targets: predictions of it.
    """
    target = config.TARGET.get()
    specs = [spec for step in steps for spec in tensors_in(step.call)]
    if target not in targets or not specs or not any(step.cost.flops for step in steps):
        return ""
    kind, limit = specs[0].dtype, time.perf_counter() + PATIENCE
    estimated = sum(host().seconds(step.cost, kind) for step in steps)
    factor = min(max(measured / estimated, 1.0), INEFFICIENT)
    for times in (1, *SIZES):
        try:
            calls = [step.call for step in steps] if times == 1 else larger(times)
            shapes = [spec.shape for call in calls for spec in tensors_in(call)]
            if not shapes or max(map(_elements, shapes)) > LARGEST or time.perf_counter() > limit:
                return ""
            parts = [prediction(call, target) for call in calls]
            here = measured if times == 1 else factor * sum(host().seconds(c._op.cost(c), kind) for c in calls)
        except (TrnError, TypeError, ValueError, RuntimeError):
            # sizes among the other arguments do not grow
            return ""
        there = sum(part.seconds + part.programs * link(target).dispatch for part in parts if part is not None)
        if None not in parts and there < here:
            largest = max(shapes, key=_elements)
            words = f"a batch of {largest[0]:,}" if len(largest) > 2 else f"n = {max(largest):,}"
            return "" if times == 1 else f"from about {words} on"
    return ""


def _elements(shape: tuple[int, ...]) -> int:
    return torch.Size(shape).numel()
