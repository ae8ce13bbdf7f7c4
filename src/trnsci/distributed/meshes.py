"""Meshes of ranks, and starting ``torch.distributed`` unless it runs."""

import functools
import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import HashStore  # type: ignore[attr-defined]
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from trnsci import config, rendezvous
from trnsci.distributed.groups import UNLIMITED, set_default_limit
from trnsci.distributed.world import world
from trnsci.errors import ArgumentError, BackendUnavailable, RankFailed
from trnsci.parent_death import follow_parent
from trnsci.patience import Patience

# Seconds that ranks get at least to meet for the first time: programs do not start at one moment.
_MEETING = 60.0
# What joins ranks of a device; a pause of the process does not count while they meet.
_ENGINES = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
# The store of rank 0 outlives a world of it: the next one meets at the same port.
_held = functools.cache(rendezvous.serve)


def mesh(
    *shape: int, names: Sequence[str] | None = None, device: str | None = None, timeout: float | None = None
) -> DeviceMesh:
    """Arrange the ranks in a grid.

    Starts ``torch.distributed`` from the variables torchrun sets unless it runs; alone, the program is a world of one.

    Args:
        shape: sizes of the grid, whose product is the number of ranks; by default one row of all.
        names: of the grid's axes.
        device: ``cpu`` (gloo), ``cuda`` (nccl) or ``neuron``; by default ``neuron`` where torch has that device,
            ``cuda`` where every rank of this machine has a GPU of its own and no program joined the ranks by gloo, else
            ``cpu``.
        timeout: seconds a rank waits for another before it raises `RankFailed`; by default the variable
            ``TRNSCI_DISTRIBUTED_TIMEOUT``.

    Returns:
        The mesh; the same one for the same arguments.

    Example:
        >>> from trnsci import distributed
        >>> grid = distributed.mesh()
        >>> grid.size()
        1
        >>> distributed.leave()
    """
    if timeout is not None and not 0 < timeout <= config.LONGEST_WAIT:
        raise ArgumentError("mesh", "timeout", timeout, f"a positive number of seconds, up to {config.LONGEST_WAIT}")
    kind = device or _kind()
    if not dist.is_initialized():
        _start(kind, timeout)
    here = world()
    if timeout is not None:
        here.timeout = timeout
    sizes = shape or (here.size,)
    if any(not isinstance(n, int) or n < 1 for n in sizes) or math.prod(sizes) != here.size:
        expected = f"sizes whose product is {here.size}, the number of ranks"
        hint = "Start another number with `trnsci launch -n N program.py`"
        raise ArgumentError("mesh", "shape", sizes, expected, hint=hint)
    if names is not None and len(names) != len(sizes):
        raise ArgumentError("mesh", "names", tuple(names), f"{len(sizes)} names")
    key = (kind, tuple(sizes), tuple(names) if names else None)
    if key not in here.meshes:
        index = torch.cuda.current_device() if kind == "cuda" else None

        def make() -> DeviceMesh:
            if index is not None:
                torch.cuda.set_device(index)
            return init_device_mesh(kind, key[1], mesh_dim_names=key[2])

        # each new one is process groups of its own
        here.meshes[key] = here.run_bounded(make, "mesh")
    return here.meshes[key]


def _kind() -> str:
    """Return the default device of ranks: Neuron's or GPUs where their own backend joins them, or will."""
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is not None and accelerator.type == "neuron":
        return "neuron" if not dist.is_initialized() or "neuron" in str(dist.get_backend_config()) else "cpu"
    if not torch.cuda.is_available():
        return "cpu"
    if not dist.is_initialized():
        return "cuda" if config.launched_here() <= torch.cuda.device_count() else "cpu"
    return "cuda" if "nccl" in str(dist.get_backend_config()) else "cpu"


def _start(kind: str, timeout: float | None) -> None:
    place = config.launch_place()
    if kind == "cuda":
        torch.cuda.set_device(place.local_rank if place else 0)
    engine = {"neuron": "cpu:gloo,neuron:neuron"}.get(kind, _ENGINES.get(kind, kind))
    if kind == "neuron" and "neuron" not in dist.Backend.backend_list:
        known = ", ".join(dist.Backend.backend_list)
        hint = "Install torch-neuronx on a Trainium instance, or call trnsci.emulate() first"
        raise BackendUnavailable("neuron", f"torch.distributed has {known} and no process group neuron", hint)
    seconds = timeout if timeout is not None else config.DISTRIBUTED_TIMEOUT.get()
    limit = timedelta(seconds=2 * seconds)
    if place is None:
        dist.init_process_group(engine, store=HashStore(), rank=0, world_size=1, timeout=limit)
        return
    if config.launcher_holds_store():
        follow_parent()
    within = max(_MEETING, seconds)
    meeting = UNLIMITED if kind in _ENGINES else limit
    try:
        Patience(within).wait(rendezvous.apart(lambda: _join(place, engine, meeting, within), "trnsci start"))
    except rendezvous.LOST as error:
        said = str(error).partition("\n")[0] or "no answer"
        where = f"at {place.address}:{place.port} within {within:.0f} s ({said})"
        reason = f"is not known: {place.size} ranks did not meet {where}"
        raise RankFailed("mesh", -1, reason, place.rank, "the other ranks") from error
    if kind in _ENGINES:
        set_default_limit(limit)


def _join(place: config.Place, engine: str, limit: timedelta, within: float) -> None:
    """Meet the other ranks. What stays on this machine listens on loopback alone."""
    store: Any = None
    if rendezvous.is_loopback(place.address):
        config.use_interface(rendezvous.loopback_interface())
        if place.rank == 0 and not config.launcher_holds_store():
            # with the address as it is, torch would listen on every interface
            store = _held("127.0.0.1" if place.address == "localhost" else place.address, place.port)
        else:
            store = rendezvous.connect(place.address, place.port, within)
    options = {} if store is None else {"store": store, "rank": place.rank, "world_size": place.size}
    dist.init_process_group(engine, timeout=limit, **options)
