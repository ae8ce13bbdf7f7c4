"""An op that counts: proof of which implementation a call reached."""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnsci import op, run

Limits = Callable[[Tensor], str | None]
_serial = itertools.count()


class CountingOp:
    """``op(x)`` returns ``x + 1`` and counts the implementation that ran in ``calls``."""

    def __init__(self, library: str, limits: Limits | None) -> None:
        calls = self.calls = Counter[str]()

        class Counting(NamedTuple):
            x: Tensor

            def fake(self) -> Tensor:
                return torch.empty_like(self.x)

            def cost(self) -> int:
                return self.x.numel()

            def limits(self, implementation: str) -> str | None:
                if implementation == "nki" and self.x.dtype != torch.float32:
                    return f"takes float32, not {str(self.x.dtype).removeprefix('torch.')}"
                return None if limits is None or implementation != "nki" else limits(self.x)

            def pytorch(self) -> Tensor:
                calls["pytorch"] += 1
                return self.x + 1

            def nki(self) -> Tensor:
                calls["nki"] += 1
                return self.x + 1

        kind: Any = op(f"{library}::counting_{next(_serial)}")(Counting)
        self._kind, self.op = kind, kind._op

    def __call__(self, x: Tensor) -> Tensor:
        return run(self._kind(x))


def counting_op(library: str = "trnmock", limits: Limits | None = None) -> CountingOp:
    """Return a new counting op in a library; ``limits`` are those of its ``nki`` implementation."""
    return CountingOp(library, limits)
