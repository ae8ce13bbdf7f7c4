"""Ops that run on the host whatever the backend."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnsci import run
from trnsci.gradient import Gradient
from trnsci.host import is_transformed


def cubes(a: Tensor, factor: float) -> int:
    """``factor * N**3`` FLOPs a matrix, four times that for complex ones."""
    return round(factor * a.numel() * a.shape[-1] * (4 if a.is_complex() else 1))


def in_memory(x: Tensor) -> Tensor:
    """Return the same numbers where SciPy can read them: in host memory, without a gradient or a lazy conjugate."""
    return x.detach().cpu().resolve_conj().resolve_neg()


def elsewhere(call: Any) -> Any:
    """Return the result of ``host``, on whichever device the tensors are: the definition of ops that SciPy runs."""
    tensors = {name: in_memory(x) for name, x in zip(call._fields, call, strict=True) if isinstance(x, Tensor)}
    results, device = call._replace(**tensors).host(), call[0].device
    return results.to(device) if isinstance(results, Tensor) else tuple(x.to(device) for x in results)


def compute(call: Any, plain: Callable[[Any], Any] = elsewhere) -> Any:
    """Compute a call by ``plain``, under ``torch.func`` and in forward mode too, by its ``vjp`` and ``tangent``."""
    return _Transformed.apply(plain, type(call), *call) if is_transformed() else plain(call)  # type: ignore[no-untyped-call]


class _Transformed(torch.autograd.Function):
    """A call whose fields are tensors first, as torch wants it that asks for every derivative and batch."""

    @staticmethod
    def forward(plain: Callable[[Any], Any], kind: Any, *fields: Any) -> Any:
        return plain(kind(*fields))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.kind, fields, ctx.single = inputs[1], inputs[2:], isinstance(output, Tensor)
        results, tensors = (output,) if ctx.single else output, [x for x in fields if isinstance(x, Tensor)]
        smooth = hasattr(ctx.kind, "vjp")
        ctx.mark_non_differentiable(*(x for x in results if not (smooth and (x.is_floating_point() or x.is_complex()))))
        ctx.save_for_backward(*tensors, *results)
        ctx.save_for_forward(*tensors, *results)
        ctx.count, ctx.rest = len(tensors), fields[len(tensors) :]

    @staticmethod
    def _restore(ctx: Any) -> tuple[Any, Any]:
        """Return the call and its result."""
        saved = ctx.saved_tensors
        results = saved[ctx.count :]
        return ctx.kind(*saved[: ctx.count], *ctx.rest), results[0] if ctx.single else results

    @staticmethod
    def backward(ctx: Any, *grad: Any) -> tuple[Any, ...]:
        call, result = _Transformed._restore(ctx)
        needs, more = frozenset(call._fields[: ctx.count]), (result,) if Gradient(ctx.kind).keeps_result else ()
        gradients = call.vjp(grad[0] if ctx.single else grad, needs, *more)
        return None, None, *(gradients.get(name) for name in call._fields)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        call, result = _Transformed._restore(ctx)
        return call.tangent(*tangents[2 : 2 + ctx.count], result)

    @staticmethod
    def vmap(info: Any, axes: tuple[int | None, ...], plain: Any, kind: Any, *fields: Any) -> tuple[Any, int]:
        tensors = [
            x.unsqueeze(0) if axis is None else x.movedim(axis, 0)
            for x, axis in zip(fields, axes[2:], strict=True)
            if isinstance(x, Tensor)
        ]
        # the new axis comes before the batch axes of all
        most = max(x.ndim for x in tensors)
        tensors = [x.reshape(x.shape[0], *(1,) * (most - x.ndim), *x.shape[1:]) for x in tensors]
        return run(kind(*tensors, *fields[len(tensors) :])), 0


def no_transform() -> str | None:
    """Why SciPy cannot take a call under ``torch.func``, or ``None``."""
    return "torch.func transforms only torch's own functions, and this runs in SciPy" if is_transformed() else None
