"""Arrays sharded over ranks: cut a tensor that every rank has, and gather the parts."""

from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate

from trnsci import check
from trnsci.distributed.parts import Part, read_placements
from trnsci.errors import ArgumentError


def shard(tensor: Tensor, mesh: DeviceMesh, *placements: Any) -> DTensor:
    """Shard a tensor that every rank has over a mesh. Nothing is sent: each rank keeps its part.

    Args:
        tensor: the whole tensor, the same on every rank.
        mesh: from `mesh`.
        placements: per axis of the mesh, the axis of the tensor that is cut along it, or ``None`` for a copy on every
            rank; torch's ``Shard`` and ``Replicate`` are taken too. Axes of the mesh left out hold copies.

    Returns:
        A DTensor, a leaf that requires grad if the tensor does. Parts are as ``torch.chunk`` cuts: equal except the
        last ones, which may be empty.

    Example:
        >>> from trnsci import distributed
        >>> a = distributed.shard(torch.ones(4, 2), distributed.mesh(), 0)
        >>> distributed.gather(a).shape
        torch.Size([4, 2])
        >>> distributed.leave()
    """
    if isinstance(tensor, DTensor):
        expected = "a tensor that every rank has in whole"
        hint = "Change a placement with .redistribute(mesh, placements)"
        raise ArgumentError("shard", "tensor", "a DTensor", expected, hint=hint)
    check.tensor("shard", tensor=tensor)
    if not isinstance(mesh, DeviceMesh) or mesh.get_coordinate() is None:
        raise ArgumentError("shard", "mesh", mesh, "a mesh that this rank is part of, from distributed.mesh()")
    if tensor.requires_grad and not tensor.is_leaf:
        got = "the result of a computation that requires grad"
        hint = "Gradients do not pass shard: shard the leaves, or detach first"
        raise ArgumentError("shard", "tensor", got, "a leaf", hint=hint)
    places = read_placements("shard", placements, mesh.ndim, tensor.ndim)
    local = Part.cut(tensor.detach(), places, tuple(mesh.shape), tuple(mesh.get_coordinate() or ()))
    sharded = local.on(mesh)
    sharded.requires_grad_(tensor.requires_grad)
    return sharded


def gather(tensor: DTensor) -> Tensor:
    """Return the whole tensor on every rank. Gradients pass, when every rank goes on alike with the whole."""
    if not isinstance(tensor, DTensor):
        raise ArgumentError("gather", "tensor", type(tensor), "a DTensor")
    return _Gathered.apply(tensor)  # type: ignore[no-untyped-call]


class _Gathered(torch.autograd.Function):
    """Each rank's part of the gradient is its part of the whole's, which all ranks have."""

    @staticmethod
    def forward(ctx: Any, tensor: DTensor) -> Tensor:
        from trnsci.distributed.calls import run

        ctx.mesh, ctx.placements = tensor.device_mesh, tensor.placements
        whole: Tensor = run("gather", lambda team, part: part.whole(team), ctx.mesh, (tensor,), {})
        # a copy on every rank is the operand's own memory
        return whole if any(p.is_shard() or p.is_partial() for p in ctx.placements) else whole.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        places = [Replicate() if p.is_partial() else p for p in ctx.placements]
        return shard(grads[0].detach(), ctx.mesh, *places)
