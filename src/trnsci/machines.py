"""The machines of a launch: which of them take part in an attempt, and with how many ranks.

The launcher of machine 0 keeps a store at the address that was named, for as long as it lives. Launchers of the others
ask there to take part, again after every failure, and are given a share of the ranks. Each attempt has a store of its
own, so that nothing of an earlier one is left in it. What is read from a store is checked as if a stranger had written
it.
"""

import contextlib
import json
import secrets
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from trnsci import config, rendezvous
from trnsci.errors import ArgumentError, RankFailed
from trnsci.patience import Patience
from trnsci.rendezvous import LOST, Line
from trnsim.json_reader import MalformedJson, check_fields, parse_json

# Seconds between two looks, and those a store may take for an answer.
_LOOK, _ANSWER = 0.25, 10.0
_JOIN: dict[str, type] = {"token": str, "ranks": int, "restarts": int, "beat": int}
_SHARE: dict[str, type] = {"position": int, "machines": int, "first": int, "size": int, "port": int, "restarts": int}
# A machine has at most this many ranks, whatever a store says.
_MOST_RANKS = 1 << 12


class Share(NamedTuple):
    """A machine's part in one attempt.

    Attributes:
        position: of the machine among those that take part.
        machines: how many of them there are.
        first: number of its first rank.
        size: ranks of all machines.
        port: of the store that ranks meet in.
        restarts: attempts before this one.
        address: of machine 0, as this machine finds it.
    """

    position: int
    machines: int
    first: int
    size: int
    port: int
    restarts: int
    address: str


class Guest:
    """A launcher of a machine other than 0.

    Args:
        host, port: of machine 0's store; after a restart the host may have another address.
        node: which machine this is.
        rejoin: seconds to look for machine 0 after it was lost.
    """

    def __init__(self, host: str, port: int, node: int, rejoin: float) -> None:
        self._host, self._port, self._node, self._rejoin = host, port, node, rejoin

    def begin(self, ranks: int, restarts: int) -> tuple[Any, Share]:
        """Ask to take part with some ranks; return the attempt's store and this machine's share when it begins."""
        seconds = self._rejoin if restarts else float(config.DISTRIBUTED_TIMEOUT.get())
        try:
            address = rendezvous.find_address(self._host)
            line = Line(rendezvous.connect(address, self._port, seconds))
            share = self._wait(line, ranks, restarts, address)
            line.close()
            return rendezvous.connect(address, share.port, seconds), share
        except (*LOST, OSError) as error:
            reason = f"is not known: no launcher of machine 0 answers at {self._host}:{self._port}"
            raise RankFailed("launch", -1, reason, self._node, "the store") from error

    def _wait(self, line: Line, ranks: int, restarts: int, address: str) -> Share:
        token, beat = secrets.token_hex(8), 0
        join, answer = _join_key(self._node), f"trnsci/share/{token}"

        def ask(client: Any) -> tuple[bytes | None, str]:
            """Return the answer, if there is one, and whose request stands under this machine's number."""
            if client.check([answer]):
                return bytes(client.get(answer)), token
            holder = token
            with contextlib.suppress(MalformedJson):
                holder = _read_join(client, join)["token"] if beat > 1 and client.check([join]) else token
            if holder == token:
                said = {"token": token, "ranks": ranks, "restarts": restarts, "beat": beat}
                client.set(join, json.dumps(said))
            return None, holder

        while True:
            beat += 1
            text, holder = Patience(_ANSWER).wait(line.ask(ask))
            if text is not None:
                return Share(**check_fields(parse_json(text), **_SHARE), address=address)
            if holder != token:
                expected = "a number that no other launcher takes meanwhile"
                raise ArgumentError("launch", "node-rank", self._node, expected)
            time.sleep(_LOOK)


class Host:
    """The launcher of machine 0.

    Args:
        address, port: where its store listens.
        machines: how many there are at the start.
        rejoin: seconds that a restart waits for machines that were lost, or others in their place.
        say: called with a sentence when machines stay away.
    """

    def __init__(self, address: str, port: int, machines: int, rejoin: float, say: Callable[[str], None]) -> None:
        self._address, self._machines, self._rejoin, self._say = address, machines, rejoin, say
        self._control = rendezvous.serve(address, port)
        self._line = Line(self._control)

    def begin(self, ranks: int, restarts: int) -> tuple[Any, Share]:
        """Wait for the other machines, give each its share, and return the attempt's store and this one's share."""
        joined = self._wait_for_machines(restarts)
        restarts = max([restarts, *(join["restarts"] for join in joined.values())])
        store = rendezvous.serve(self._address, 0)
        counts = [ranks, *(join["ranks"] for join in joined.values())]
        shares = [
            Share(index, len(counts), sum(counts[:index]), sum(counts), store.port, restarts, self._address)
            for index in range(len(counts))
        ]

        def answer(client: Any) -> None:
            for (node, join), share in zip(joined.items(), shares[1:], strict=True):
                client.set(f"trnsci/share/{join['token']}", json.dumps({name: getattr(share, name) for name in _SHARE}))
                client.delete_key(_join_key(node))

        Patience(_ANSWER).wait(self._line.ask(answer))
        return store, shares[0]

    def _wait_for_machines(self, restarts: int) -> dict[int, dict[str, Any]]:
        """Return the machines that ask to take part: all of them at the start, those that come in time later."""
        start, again = Patience(float(config.DISTRIBUTED_TIMEOUT.get())), Patience(self._rejoin)
        seen: dict[str, int] = {}
        while True:
            asked = Patience(_ANSWER).wait(self._line.ask(self._read_joins))
            # one that asks again and again is alive
            first = {node: seen.setdefault(join["token"], join["beat"]) for node, join in asked.items()}
            alive = {node: join for node, join in asked.items() if join["beat"] > first[node]}
            missing = ", ".join(str(node) for node in range(1, self._machines) if node not in alive)
            if not missing:
                return alive
            is_restart = restarts or any(join["restarts"] for join in alive.values())
            if is_restart and again.is_over():
                self._say(f"going on without machine {missing}, which has not come within {self._rejoin:g} s")
                return alive
            if start.is_over():
                reason = f"is not known: the launcher of machine {missing} has not come"
                raise RankFailed("launch", -1, reason, 0, "the other machines")
            time.sleep(_LOOK)

    def _read_joins(self, client: Any) -> dict[int, dict[str, Any]]:
        keys = {node: _join_key(node) for node in range(1, self._machines)}
        joins = {}
        for node, key in keys.items():
            # a stranger's text is no request
            with contextlib.suppress(MalformedJson):
                if client.check([key]) and 0 < (join := _read_join(client, key))["ranks"] <= _MOST_RANKS:
                    joins[node] = join
        return joins


def _read_join(client: Any, key: str) -> dict[str, Any]:
    return check_fields(parse_json(client.get(key)), **_JOIN)


def _join_key(node: int) -> str:
    return f"trnsci/join/{node}"
