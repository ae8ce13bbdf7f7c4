"""Groups of ranks that take part in a collective."""

from typing import Any

from trnsim.collectives.world import World
from trnsim.refusals import forbid, refuse
from trnsim.session import Session
from trnsim.tensors.objects import NKIObject


class ReplicaGroup(NKIObject):
    """Lists of ranks; each list is one group that communicates. No rank is in two of them."""

    def __init__(self, groups: Any = None, *, replica_groups: Any = None) -> None:
        lists = groups if replica_groups is None else replica_groups
        try:
            members = tuple(tuple(int(r.__index__()) for r in ranks) for ranks in lists)
        except (TypeError, AttributeError):
            members = ()
        forbid(not members or not all(members), "replica-group:form", got=lists)
        seen = [r for ranks in members for r in ranks]
        twice = sorted({r for r in seen if seen.count(r) > 1})
        forbid(twice, "replica-group-overlap", got=twice, lists=lists, twice=twice)
        if min(seen) < 0:
            raise refuse("replica-group:rank", got=min(seen), lists=lists)
        self.groups = members

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReplicaGroup) and self.groups == other.groups

    def __hash__(self) -> int:
        return hash(self.groups)

    def __repr__(self) -> str:
        return f"ReplicaGroup({[list(g) for g in self.groups]})"


def members(s: Session, group: Any) -> tuple[int, ...]:
    """Return the ranks that communicate with this one, in the order of the group's list."""
    # AWS's own class, or a plain list of lists, will do
    known = group if isinstance(group, ReplicaGroup) else ReplicaGroup(getattr(group, "groups", group))
    in_world(s, (r for g in known.groups for r in g))
    for ranks in known.groups:
        if s.rank in ranks:
            return ranks
    raise refuse("replica-group-member", got=s.rank, limit=known.groups, known=known)


def in_world(s: Session, ranks: Any) -> None:
    """Refuse ranks that are not simulated."""
    size = world_of(s).size
    highest = max(ranks, default=0)
    if highest >= size:
        plural = "s are" if size > 1 else " is"
        raise refuse("world-size", got=highest, limit=size - 1, size=size, plural=plural, needed=highest + 1)


def world_of(s: Session) -> World:
    """Return the ranks of this run; a kernel without others is a world of its own."""
    world: World | None = None if s.machine is None else s.machine.world
    return World() if world is None else world
