"""What ops that run on the host whatever the backend have in common."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from trnsci.host import transformed


def cubes(a: Tensor, factor: float) -> int:
    """``factor * N**3`` FLOPs a matrix, four times that for complex ones."""
    return round(factor * a.numel() * a.shape[-1] * (4 if a.is_complex() else 1))


def in_memory(x: Tensor) -> Tensor:
    """The same numbers where SciPy can read them: in host memory, without a gradient or a lazy conjugate."""
    return x.detach().cpu().resolve_conj().resolve_neg()


def elsewhere(call: Any) -> Any:
    """What ``host`` computes of a call on ``a``, on whichever device that is: the definition of ops that SciPy runs."""
    return tuple(x.to(call.a.device) for x in call._replace(a=in_memory(call.a)).host())


def no_transform() -> str | None:
    """Why SciPy cannot take a call under ``torch.func``, or ``None``."""
    return "torch.func transforms only torch's own functions, and this runs in SciPy" if transformed() else None
