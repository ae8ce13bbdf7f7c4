"""``NkiTensor.rearrange``: split, reorder and merge dimensions by name, in the manner of einops."""

import math
from typing import Any, TypeVar

from trnsim.errors import KernelError
from trnsim.refusals import forbid, refuse
from trnsim.tensors.views import Views

T = TypeVar("T", bound=Views)


def rearrange(t: T, src_pattern: Any, dst_pattern: Any, fixed_sizes: dict[str, int]) -> T:
    """``t`` with the dimensions named by ``src_pattern`` arranged as ``dst_pattern`` says.

    A pattern is a tuple with one entry per dimension: a name, or a tuple of names whose product is the dimension.
    ``fixed_sizes`` gives the sizes the shape alone does not determine.
    """
    fixed_sizes = {name: int(n) for name, n in fixed_sizes.items() if n != -1}
    source, target = _groups(src_pattern, "src_pattern"), _groups(dst_pattern, "dst_pattern")
    names = [name for group in source for name in group]
    wanted = [name for group in target for name in group]
    _same_names(names, wanted, fixed_sizes)
    forbid(len(source) != t.ndim, "rearrange:rearrange", got=len(source), limit=t.ndim, src_pattern=src_pattern, t=t)
    split = t
    for dim in range(t.ndim - 1, -1, -1):
        group = source[dim]
        if len(group) > 1:
            split = split.reshape_dim(dim, _sizes(t, dim, group, fixed_sizes))
        elif fixed_sizes.get(group[0], t.shape[dim]) != t.shape[dim]:
            raise _disagree(t, dim, group, (fixed_sizes[group[0]],))
    merged = split.permute(tuple(names.index(name) for name in wanted))
    for dim, group in enumerate(target):
        if len(group) > 1:
            merged = merged.flatten_dims(dim, dim + len(group) - 1)
    return merged


def _groups(pattern: Any, role: str) -> list[tuple[str, ...]]:
    groups: list[tuple[str, ...]] = []
    for entry in pattern if isinstance(pattern, (tuple, list)) else (pattern,):
        names = (entry,) if isinstance(entry, str) and pattern is not entry else entry
        if not isinstance(names, (tuple, list)) or not names or not all(isinstance(name, str) for name in names):
            raise refuse("rearrange:groups", got=repr(entry), role=role, entry=entry)
        groups.append(tuple(names))
    return groups


def _same_names(names: list[str], wanted: list[str], fixed_sizes: dict[str, int]) -> None:
    for given in (names, wanted):
        twice = sorted({name for name in given if given.count(name) > 1})
        if twice:
            raise refuse("rearrange:twice", got=twice, names=", ".join(twice))
    missing = sorted(set(names) ^ set(wanted))
    if missing:
        raise refuse("rearrange:one-side", got=missing, lone=", ".join(missing), names=names, wanted=wanted)
    unknown = sorted(set(fixed_sizes) - set(names))
    if unknown:
        raise refuse("rearrange:unknown", got=unknown, limit=names, names=", ".join(unknown))


def _sizes(t: Views, dim: int, group: tuple[str, ...], fixed_sizes: dict[str, int]) -> tuple[int, ...]:
    sizes = tuple(fixed_sizes.get(name, -1) for name in group)
    if sizes.count(-1) > 1:
        open_names = [name for name in group if name not in fixed_sizes]
        raise refuse("rearrange:sizes", got=open_names, dim=dim, t=t, size=t.shape[dim], names=", ".join(open_names))
    known = math.prod(n for n in sizes if n != -1)
    if known < 1 or t.shape[dim] % known or (-1 not in sizes and known != t.shape[dim]):
        raise _disagree(t, dim, group, sizes)
    return sizes


def _disagree(t: Views, dim: int, group: tuple[str, ...], sizes: tuple[int, ...]) -> KernelError:
    told = ", ".join(f"{name}={n}" for name, n in zip(group, sizes, strict=True) if n != -1)
    return refuse("rearrange:disagree", got=sizes, limit=t.shape[dim], dim=dim, t=t, told=told)
