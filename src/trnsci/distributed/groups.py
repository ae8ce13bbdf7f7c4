"""Process groups of our own, so that a call that fails half-way leaves nothing broken behind.

A rank that raises in the middle of an algorithm leaves messages in flight that no rank will receive. They stay in the
groups they were sent in. Every rank abandons these and makes new ones, under a name that no earlier message carries.
The mesh's own groups, which torch's operations on DTensors use, never see our messages.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from torch.distributed import distributed_c10d
from torch.distributed.device_mesh import DeviceMesh

if TYPE_CHECKING:
    from trnsci.distributed.world import World


# gloo counts a pause of the process as time to wait, so that every wait is bounded here and none there.
UNLIMITED = timedelta(days=7)


def set_default_limit(limit: timedelta) -> None:
    """Bound the waits of the group of all ranks, which a program's own collectives use."""
    distributed_c10d._set_pg_timeout(limit)


class Groups:
    """The groups of this process, by the ranks of the calls they serve and the ranks they join."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._groups: dict[tuple[str, tuple[int, ...]], Any] = {}
        # calls that failed half-way, by the ranks that took part: all of them count the same ones
        self._failures: dict[str, int] = {}

    def along(self, mesh: DeviceMesh, axis: int) -> Any:
        """Return the group of the ranks along an axis of the mesh, in the mesh's order, for the current call."""
        here = mesh.get_coordinate() or ()
        row = tuple(slice(None) if other == axis else at for other, at in enumerate(here))
        ranks = tuple(mesh.mesh[row].tolist())
        team = self._world.team
        if (team, ranks) not in self._groups:
            self._groups[team, ranks] = self._new(team, ranks)
        return self._groups[team, ranks]

    def give_up(self) -> None:
        """Abandon the groups of the current call, which failed after ranks began to exchange."""
        team = self._world.team
        self._failures[team] = self._failures.get(team, 0) + 1
        for key in [key for key in self._groups if key[0] == team]:
            group = self._groups.pop(key)
            with contextlib.suppress(RuntimeError):
                # ends what waits on a device; the others end with their group
                group.abort()
            # kept for good, with its few threads, also when the interpreter ends: a gloo group waits in its destructor
            # for messages that were in flight, even to a rank that hangs
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))

    def _new(self, team: str, ranks: Sequence[int]) -> Any:
        who = hashlib.sha256(repr(tuple(ranks)).encode()).hexdigest()[:12]
        name = f"trnsci/{self._world.number}/{team}/{self._failures.get(team, 0)}/{who}"
        self._world.meet(name, ranks)
        # new_group counts the groups of this process, which differ between ranks; a name of our own does not
        known: Any = distributed_c10d
        engine, store = known._world.pg_map[known._get_default_group()]
        create = functools.partial(
            known._new_process_group_helper,
            len(ranks),
            ranks.index(self._world.rank),
            list(ranks),
            known.Backend(engine),
            store,
            name,
            timeout=UNLIMITED,
        )
        group, _ = self._world.run_bounded(create, "the other ranks")
        known._world.pg_group_ranks[group] = {rank: index for index, rank in enumerate(ranks)}
        return group
