"""Agreement of ranks before data moves: that they make the same call, or why one of them does not."""

import hashlib
from typing import Any

import torch
from torch import Tensor

from trnsci.distributed.parts import Part
from trnsci.distributed.team import LiveTeam, as_bytes
from trnsci.errors import ArgumentError, RankFailed

# What a rank says that refuses a call begins with this.
RAISED = "raised "
AGREEMENT = "agreement on {}"
# Words of a copy that are looked at together.
_WORDS = 1 << 12


def agree(team: LiveTeam, text: str) -> None:
    """Refuse a call on which ranks disagree, before data moves. Every rank learns of it, wherever in the mesh it is."""
    code = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "little")
    for axis in range(len(team.shape)):
        mine = torch.tensor([code, 0], dtype=torch.int64, device=team.device)
        codes = {int(code) for code, _ in torch.stack(team.all_gather(axis, mine, [(2,)] * team.size(axis))).tolist()}
        code = codes.pop() if len(codes) == 1 else -1
    if code == -1:
        words = _words(team, text)
        for rank, said in words.items():
            if said.startswith(RAISED):
                # what it said begins as the reason of a rank that raised
                failure = RankFailed(team.op, rank, said, team.world.rank, AGREEMENT.format(team.op))
                team.world.announce(failure)
                raise failure
        got = {f"rank {rank}": said for rank, said in words.items()}
        hint = "Every rank makes the same calls with the same options, and copies on every rank hold the same"
        raise ArgumentError(team.op, "the call", got, hint=hint)
    # what agreeing costs is not the algorithm's
    team.tally = type(team.tally)()


def _words(team: LiveTeam, text: str) -> dict[int, str]:
    """Return what every rank said, by its number in the world."""
    words = {team.world.rank: text}
    for axis in range(len(team.shape)):
        for others in team.all_gather_json(axis, words):
            words |= {int(rank): said for rank, said in others.items()}
    return dict(sorted(words.items()))


def describe_argument(value: Any, contents: bool = True) -> str:
    """Describe an argument in words that ranks compare, with the content of replicated ones that are only read."""
    if isinstance(value, Part):
        copied = contents and all(place is None for place in value.layout.places)
        return f"{value.layout} holding {_fingerprint(value.local):016x}" if copied else str(value.layout)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(describe_argument(item) for item in value) + "]"
    return f"<{type(value).__name__}>" if callable(value) else repr(value)


def _fingerprint(tensor: Tensor) -> int:
    """Return a checksum that differs when one element does: 8-byte words times odd weights, summed modulo 2**64."""
    data = as_bytes(tensor)
    # words start at multiples of their size
    data = data.clone() if data.storage_offset() % 8 else data
    whole = len(data) // 8 * 8
    total = len(data) + int.from_bytes(bytes(data[whole:].tolist()), "little") * (2 * whole + 1)
    weights = torch.arange(1, 2 * _WORDS, 2, device=data.device, dtype=torch.int64)
    for start, piece in enumerate(data[:whole].view(torch.int64).split(_WORDS)):
        # the weights of a piece are those of the first, and as much more for every word as lies before
        total += int((piece * weights[: len(piece)]).sum()) + 2 * start * _WORDS * int(piece.sum())
    return total % (1 << 64)
