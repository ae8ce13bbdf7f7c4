"""This process among the ranks: its pulse, its calls, and who is missing when a message does not come."""

import atexit
import contextlib
import hashlib
import itertools
import json
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import torch.distributed as dist
from torch.distributed import PrefixStore  # type: ignore[attr-defined]
from torch.distributed.device_mesh import DeviceMesh

from trnsci import config, rendezvous
from trnsci.distributed.groups import Groups
from trnsci.errors import ArgumentError, RankFailed
from trnsci.patience import Patience
from trnsci.rendezvous import BLAMED, ENDED, HEARD, LOST, Line, Notes, parse_fault
from trnsim.json_reader import check_fields, parse_json

T = TypeVar("T")
# What ranks wrote last, by their number.
Entries = dict[int, dict[str, Any]]
_ENTRY: dict[str, type] = {"beat": int, "calls": dict, "op": str, "state": str, "waiting": bool}

# Beats to wait before a pulse counts as stopped, those that finding out who is missing takes in all, and those the
# holder of the store stays for a rank without a pulse, which may only be starved of processor time.
_LOOKS, _INQUIRY, _FAREWELL = 2.5, 4.0, 8.0
# What a rank does before its first call.
_NOTHING = "nothing"
# Seconds that closing torch.distributed may take.
_GOODBYE = 5.0
# Worlds this process has been in: all ranks leave one and enter the next together.
_worlds = itertools.count()


class World:
    """The store all ranks share, this rank's pulse in it, and what this rank is doing.

    Every rank writes a beat and its current call into the store, from a thread. A rank whose message does not come is
    found by reading the others' entries: one that raised says so, one that died has no pulse, one that hangs is behind.
    Where `trnsci launch` started the ranks it holds the store, and says there who has died. Questions to the store are
    asked in another thread, because the rank that holds it may be the one that hangs.
    """

    def __init__(self, timeout: float) -> None:
        self.rank, self.size, self.timeout = dist.get_rank(), dist.get_world_size(), timeout
        self.number, self.op, self.team = next(_worlds), _NOTHING, ""
        self.pid, self._caller = os.getpid(), 0
        # calls so far, by the ranks that take part in them
        self._calls: dict[str, int] = {}
        self._ranks: tuple[int, ...] = tuple(range(self.size))
        # whether this rank stands in an exchange of the call it is in, and how many of them it has started
        self.waiting, self.started = False, 0
        self.meshes: dict[Any, DeviceMesh] = {}
        # whether process groups send from one rank to another, until one says that they do not
        self.has_send = True
        store = dist.distributed_c10d._get_default_store()
        while isinstance(store, PrefixStore):
            store = store.underlying_store
        self._line, self._prefix = Line(store), f"trnsci/{self.number}"
        self._state, self._stop = "alive", threading.Event()
        # when the store last answered the pulse, when it was lost, and the fault it told of, in this call or another
        self._answered, self._lost_at = time.monotonic(), math.inf
        self._known: dict[str, Any] | None = None
        self._has_announced = False
        self._entering = threading.Lock()
        self.groups = Groups(self)
        self._pulse = threading.Thread(target=self._keep_beating, args=(store,), name="trnsci pulse", daemon=True)
        self._pulse.start()

    @property
    def _interval(self) -> float:
        """Seconds between two beats."""
        return min(1.0, self.timeout / 8)

    @property
    def patience(self) -> float:
        """Seconds to wait for a message, so that finding out who is missing ends within the timeout."""
        return self.timeout - _INQUIRY * self._interval

    def begin(self, op: str, ranks: Sequence[int]) -> None:
        """Begin a call of some ranks; each of them counts the same ones.

        Raises:
            RankFailed: the store has gone, and with it the launcher or the rank that kept it.
        """
        me = threading.get_ident()
        with self._entering:
            if self._caller not in (0, me):
                got, order = (
                    f"a call while another thread is in {self.op}",
                    "a lock that orders them alike on every rank",
                )
                hint = f"Ranks pair calls by their order: make them all from one thread, or hold {order}"
                raise ArgumentError(op, "thread", got, "one call after the other", hint=hint)
            self._caller = me
        self.team = hashlib.sha256(repr(sorted(ranks)).encode()).hexdigest()[:12]
        self._calls[self.team] = self._calls.get(self.team, 0) + 1
        self.op, self._ranks, self.waiting, self.started = op, tuple(ranks), False, 0
        if self._lost_at < math.inf:
            self._caller = 0
            raise self.failure("the store")
        if self._has_announced:
            # it goes on, and is no messenger any more
            self._has_announced = False
            self._line.ask(lambda client: client.delete_key(f"{HEARD}/{self.rank}"))

    def end(self) -> None:
        """End the call."""
        self._caller = 0

    @property
    def notes(self) -> Notes:
        """A store of the current call, for counters and short texts all its ranks read."""
        return self._notes(f"call/{self.team}/{self._calls[self.team]}")

    def _notes(self, prefix: str) -> Notes:
        return Notes(self, self._line, f"{self._prefix}/{prefix}")

    @property
    def _fault(self) -> str:
        return f"{self._prefix}/fault/{self.team}/{self._calls.get(self.team, 0)}"

    def report_error(self, error: BaseException) -> None:
        """Tell ranks that wait for this one in the same call that it will not come."""
        text = f"raised {type(error).__name__}: {error}"
        said = json.dumps({"rank": self.rank, "op": self.op, "text": text, "started": self.started})
        key = self._fault
        with contextlib.suppress(*LOST):
            self._line.ask(lambda client: client.set(key, said)).result(self._interval)

    def look(self) -> Future[dict[str, Any] | None]:
        """Ask what another rank, or the launcher, has said went wrong in this call."""
        keys = (self._fault, ENDED)
        return self._line.ask(lambda client: self._read(client, keys))

    def _read(self, client: Any, keys: Sequence[str]) -> dict[str, Any] | None:
        """Return the first fault under these keys that is another rank's."""
        for key in keys:
            if client.check([key]):
                said = parse_fault(client.get(key))
                if said["rank"] != self.rank:
                    return said
        return None

    def fault(self) -> dict[str, Any] | None:
        """Return what another rank, or the launcher, has said went wrong in this call."""
        try:
            return Patience(self.patience).wait(self.look())
        except LOST as error:
            return self._lost(error)

    def _lost(self, error: BaseException) -> dict[str, Any]:
        """Return whose fault it is that the store does not answer, as far as that is known."""
        if self._known is not None:
            return self._known
        silent = min(self._lost_at, time.monotonic()) - self._answered
        hangs = isinstance(error, TimeoutError)
        who = -1
        if config.launcher_holds_store():
            text = "is not known: the launcher keeps the store the ranks meet in, and it does not answer"
        elif self.rank == 0 or (hangs and silent < _LOOKS * self._interval):
            text = "is not known: the store the ranks meet in did not answer in time, and its holder may be alive"
        elif not hangs and silent >= _FAREWELL * self._interval:
            # long enough for rank 0 to blame another, and to leave
            text = f"is not known: rank 0 kept the store the ranks meet in, last heard {silent:.0f} s before it went"
        else:
            who, text = 0, "keeps the store the ranks meet in, and does not answer: it has died or hangs"
        return {"rank": who, "op": self.op, "text": text, "started": 0}

    def failure(self, waiting_for: str) -> RankFailed:
        """Find out which rank is missing, and say it."""
        while True:
            patience = Patience(_INQUIRY * self._interval)
            try:
                said = self._missing(patience)
            except LOST as lost:
                said = self._lost(lost)
            # pulses that were read before and after a pause say nothing
            if not patience.has_paused:
                break
        waited = f"{waiting_for} in {self.op}"
        error = RankFailed(said["op"] or self.op, said["rank"], said["text"], self.rank, waited)
        self.announce(error, patience)
        return error

    def announce(self, error: RankFailed, patience: Patience | None = None) -> None:
        """Tell the launcher that this rank, if it ends now, does so because of another; tell all others of a death."""
        said = json.dumps({"rank": error.failed, "op": error.op, "text": error.reason, "started": 0})
        heard, died = f"{HEARD}/{self.rank}", not error.raised and error.failed >= 0
        keys = (self._fault, BLAMED) if died else ()
        self._has_announced = True

        def tell(client: Any) -> None:
            client.set(heard, said)
            for key in keys:
                # the first to know
                client.compare_set(key, "", said)

        with contextlib.suppress(*LOST):
            (patience or Patience(self._interval)).wait(self._line.ask(tell))

    def run_bounded(self, work: Callable[[], T], what: str) -> T:
        """Run what may wait for other ranks without a limit of its own, and give it up in time."""
        try:
            return Patience(self.patience).wait(rendezvous.apart(work, f"trnsci {what}"))
        except LOST as error:
            raise self.failure(what) from error

    def meet(self, where: str, ranks: Sequence[int]) -> None:
        """Wait until all of some ranks have come to a place."""
        notes = self._notes("meet")
        keys = [f"{where}/{rank}" for rank in ranks]
        patience, pause = Patience(self.patience), 1e-3
        notes.set(f"{where}/{self.rank}", "here")
        while not notes.check(keys):
            if patience.is_over():
                raise self.failure("the other ranks")
            time.sleep(pause)
            pause = min(1.2 * pause, 0.02)

    def _missing(self, patience: Patience) -> dict[str, Any]:
        """Return who is missing: what somebody has said, or what the pulses show."""
        if said := patience.wait(self.look()):
            return said
        before = self._entries(patience)
        patience.sleep(_LOOKS * self._interval)
        after = self._entries(patience)
        while len(_silent(before, after)) > 1 and patience.left() > self._interval:
            # one that only lacks processor time beats again
            patience.sleep(self._interval / 2)
            after = self._entries(patience)
        said = patience.wait(self.look())
        return said or self._behind(before, after)

    def _behind(self, before: Entries, after: Entries) -> dict[str, Any]:
        """Return who is behind the others, by what every rank wrote at two moments: the dead before those that left."""
        reached = {rank: entry.get("calls", {}).get(self.team, 0) for rank, entry in after.items()}
        if silent := sorted(_silent(before, after), key=lambda rank: (reached[rank], rank)):
            text = "has died or hangs: its pulse stopped"
            if others := ", ".join(map(str, silent[1:])):
                text = f"has died or hangs, or rank {others} has: their pulses stopped"
            # what it did last it may not have had the time to say
            return {"rank": silent[0], "op": self.op, "text": text}
        for rank, entry in after.items():
            if entry.get("state") != "alive":
                text = f"has {entry.get('state', 'said nothing')}"
                return {"rank": rank, "op": entry.get("op", self.op), "text": text}
        behind = [rank for rank in after if reached[rank] < self._calls[self.team]]
        if behind:
            rank = min(behind, key=lambda rank: (reached[rank], rank))
            op = after[rank]["op"]
            if op == _NOTHING:
                return {"rank": rank, "op": self.op, "text": "has not reached this call, nor any before it"}
            return {"rank": rank, "op": op, "text": f"has not reached this call; it was last in {op}"}
        for rank, entry in after.items():
            if not entry["waiting"] and not before[rank].get("waiting"):
                text = "is alive in this call and has not come to the exchange"
                return {"rank": rank, "op": entry["op"], "text": text}
        return {"rank": -1, "op": self.op, "text": "is not known; every rank is alive and in this call"}

    def _entries(self, patience: Patience) -> Entries:
        """Return what the other ranks of the call wrote last."""
        keys = {rank: f"{self._prefix}/pulse/{rank}" for rank in self._ranks if rank != self.rank}

        def question(client: Any) -> Entries:
            texts = {rank: client.get(key) for rank, key in keys.items() if client.check([key])}
            said = {rank: check_fields(parse_json(text), **_ENTRY) for rank, text in texts.items()}
            return {rank: said.get(rank, {}) for rank in keys}

        return patience.wait(self._line.ask(question))

    def _keep_beating(self, store: Any) -> None:
        """Write this rank's entry again and again, and its last one when it leaves; keep what others say went wrong."""
        try:
            client = store.clone()
            for beat in itertools.count(1):
                entry = {"beat": beat, "calls": dict(self._calls), "op": self.op, "state": self._state}
                client.set(f"{self._prefix}/pulse/{self.rank}", json.dumps(entry | {"waiting": self.waiting}))
                if self._state != "alive":
                    return
                with contextlib.suppress(ValueError, TypeError, KeyError):
                    self._known = self._read(client, (self._fault, ENDED, BLAMED))
                self._answered = time.monotonic()
                self._stop.wait(self._interval)
        except RuntimeError:
            # without a store there is nobody to tell
            self._lost_at = time.monotonic()

    def _wait_for_goodbyes(self) -> None:
        """Wait until every other rank has left, or has had no pulse for long."""
        self._ranks = tuple(range(self.size))
        patience, silence = Patience(self.timeout), Patience(_FAREWELL * self._interval)
        before = self._entries(patience)
        while not patience.is_over():
            patience.sleep(self._interval / 2)
            after = self._entries(patience)
            alive = [rank for rank, entry in after.items() if entry.get("state") == "alive"]
            if any(after[rank] != before[rank] for rank in alive):
                before, silence = after, Patience(_FAREWELL * self._interval)
            if not alive or silence.is_over():
                return

    def leave(self) -> None:
        """Leave. The rank that holds the store leaves last, because the others may still ask it who is missing."""
        self._state = "ended"
        self._stop.set()
        self._pulse.join(self._interval)
        if self.rank == 0 and self.size > 1 and not config.launcher_holds_store():
            with contextlib.suppress(*LOST):
                self._wait_for_goodbyes()
        self._line.close()


def _silent(before: Entries, after: Entries) -> list[int]:
    """Return the ranks that did not leave, and whose pulse stood still between two moments."""
    alive = (rank for rank, entry in after.items() if entry.get("state") == "alive")
    return [rank for rank in alive if after[rank]["beat"] == before[rank].get("beat")]


_world: World | None = None


def world() -> World:
    """Return this process's world; there is one after the first `mesh`."""
    global _world
    if _world is not None and _world.pid != os.getpid():
        got = f"{os.getpid()}, a fork of rank {_world.rank}"
        expected = "the process that called mesh()"
        hint = "Start helpers with multiprocessing's spawn or forkserver method, and leave the ranks to the parent"
        raise ArgumentError("trnsci.distributed", "process", got, expected, hint=hint)
    if _world is None:
        if not dist.is_initialized():
            hint = "Call trnsci.distributed.mesh() first, in a program started by `trnsci launch` or torchrun"
            raise ArgumentError("trnsci.distributed", "torch.distributed", "not started", "a process group", hint=hint)
        _world = World(float(config.DISTRIBUTED_TIMEOUT.get()))
        atexit.register(leave)
    return _world


def leave() -> None:
    """End this process's part: say goodbye to the other ranks and close ``torch.distributed``. Safe to call twice."""
    global _world
    if _world is not None:
        here, _world = _world, None
        if here.pid != os.getpid():
            return
        here.leave()
    if dist.is_initialized():
        with contextlib.suppress(*LOST):
            # do not wait for messages to a rank that hangs
            rendezvous.apart(dist.destroy_process_group, "trnsci leave").result(_GOODBYE)
