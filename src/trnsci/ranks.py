"""The processes of a launch on one machine: started together, watched, and ended together when one of them fails."""

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from trnsci import config
from trnsci.machines import Share
from trnsci.parent_death import tie_command
from trnsci.patience import Patience
from trnsci.rendezvous import BLAMED, ENDED, HEARD, LOST, Line, parse_fault

# Seconds between two looks, those ranks get to end by themselves once one has failed, and those to end on SIGTERM.
_LOOK, _GRACE, _TERMINATING = 0.05, 10.0, 30.0


class Ended(NamedTuple):
    """How a launch ended.

    Attributes:
        status: of the whole, 0 when every rank has done its work.
        text: who failed, in words.
        lost: indices on this machine of the ranks that failed, without those that ended because of it.
        told: whether a signal to the launcher ended it.
    """

    status: int
    text: str = ""
    lost: frozenset[int] = frozenset()
    told: bool = False


class Told(Exception):
    """The launcher itself was told to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Node:
    """The ranks of one machine.

    Args:
        store: where ranks meet; this launcher's own, or a client of machine 0's.
        words: the command, the same for every rank.
        variables: of each rank, what it has beyond this process's environment.
        share: this machine's part in the attempt.
    """

    def __init__(self, store: Any, words: Sequence[str], variables: Sequence[Mapping[str, str]], share: Share) -> None:
        self._store, self._words, self._variables = store, words, variables
        self._node, self._nodes, self._first = share.position, share.machines, share.first
        self._line = Line(store)
        self._processes: list[subprocess.Popen[bytes]] = []
        # ranks of this machine that ended by themselves with something else than 0, in the order it was seen
        self._failed: list[int] = []
        self._news: Future[Any] | None = None

    def run(self) -> Ended:
        """Start the ranks, wait for them, and say how it ended. No rank is left behind."""
        with _signals():
            try:
                self._start()
                self._wait(None)
                if not self._failed and not self._elsewhere() and self._have_others_finished():
                    return Ended(0)
                self._tell()
                self._wait(_GRACE)
                return self._result()
            except Told as told:
                # what the keyboard sends has reached the ranks already
                if told.number == signal.SIGINT:
                    self._wait(_GRACE / 4, quietly=True)
                return Ended(128 + told.number, told=True)
            finally:
                self._end()

    def _start(self) -> None:
        for own in self._variables:
            tied = tie_command(self._words)
            self._processes.append(subprocess.Popen(tied, env=config.environment(own), stdin=subprocess.DEVNULL))

    def _wait(self, limit: float | None, quietly: bool = False) -> None:
        """Wait until every rank has ended; without a limit, until one has failed or all are done."""
        patience = None if limit is None else Patience(limit)
        while True:
            codes = [process.poll() for process in self._processes]
            self._failed += [i for i, code in enumerate(codes) if code and i not in self._failed]
            if all(code is not None for code in codes):
                return
            if self._failed or self._elsewhere() if patience is None else patience.is_over():
                return
            with contextlib.suppress(Told) if quietly else contextlib.nullcontext():
                time.sleep(_LOOK)

    def _elsewhere(self) -> bool:
        """Return whether a rank of another machine has failed, as far as the store has said by now."""
        if self._nodes == 1:
            return False
        if self._news is None:
            self._news = self._line.ask(lambda client: client.check([ENDED]))
        if not self._news.done():
            return False
        # a store that has gone has gone with the launcher of machine 0
        known = bool(self._news.exception()) or bool(self._news.result())
        if not known:
            self._news = None
        return known

    def _tell(self) -> None:
        """Say in the store who has ended before its time: the one the ranks blame, or the first to fail by itself."""
        if not self._failed:
            return
        fate = {local: self._how(local) for local in self._failed}
        died = [local for local in self._failed if self._processes[local].returncode < 0]

        def post(client: Any) -> None:
            client.compare_set(ENDED, "", client.get(BLAMED) if client.check([BLAMED]) else json.dumps(accuse(client)))

        def accuse(client: Any) -> dict[str, Any]:
            heard: list[Any] = []
            for local in died or self._failed:
                key = f"{HEARD}/{self._first + local}"
                if local in died or not client.check([key]):
                    return {"rank": self._first + local, "op": "", "text": fate[local], "started": 0}
                heard.append(parse_fault(client.get(key)))
            # ranks that ended because of another are messengers
            return heard[0]

        with contextlib.suppress(*LOST):
            Patience(_GRACE).wait(self._line.ask(post))

    def _how(self, local: int) -> str:
        code = self._processes[local].returncode
        if code >= 0:
            return f"has ended with status {code}"
        with contextlib.suppress(ValueError):
            return f"died: {signal.Signals(-code).name} ended it"
        return f"died: signal {-code} ended it"

    def _result(self) -> Ended:
        codes = [process.poll() for process in self._processes]
        said: dict[str, Any] = {}
        with contextlib.suppress(*LOST):
            answer = self._line.ask(lambda client: parse_fault(client.get(ENDED)) if client.check([ENDED]) else {})
            said = Patience(_GRACE).wait(answer)
        mine = range(self._first, self._first + len(codes))
        lost = {i for i in self._failed if (codes[i] or 0) < 0}
        if said.get("rank") in mine:
            lost.add(said["rank"] - self._first)
        elif not said and self._failed:
            lost.add(self._failed[0])
        status = next((code if code > 0 else 128 - code for code in codes if code), 1)
        who = "the store of machine 0 has gone"
        if said:
            who = f"{'the failing rank' if said['rank'] < 0 else 'rank {rank}'.format(**said)} {said['text']}"
        others = [f"rank {self._first + i}" for i in range(len(codes)) if i not in lost]
        return Ended(status, f"{who}; ended with it: {', '.join(others) or 'nobody'}", frozenset(lost))

    def _have_others_finished(self) -> bool:
        """Wait for the ranks of the other machines, once those of this one have ended well; return whether all have."""
        if self._nodes == 1:
            return True
        done = [f"trnsci/done/{node}" for node in range(self._nodes)]
        limit = Patience(float(config.DISTRIBUTED_TIMEOUT.get()))
        with contextlib.suppress(*LOST):
            Patience(_GRACE).wait(self._line.ask(lambda client: client.set(done[self._node], "")))
            while not limit.is_over():
                if Patience(_GRACE).wait(self._line.ask(lambda client: client.check(done))):
                    return True
                if self._elsewhere():
                    # a store that has gone has gone with a launcher whose ranks had ended
                    return bool(self._news and self._news.exception())
                time.sleep(_LOOK)
        return True

    def part(self) -> None:
        """Keep the store of the last attempt until the other machines have read in it how it ended."""
        if self._nodes == 1:
            return
        keys, limit = [f"trnsci/parted/{node}" for node in range(self._nodes)], Patience(_GRACE + _TERMINATING)
        with contextlib.suppress(*LOST):
            Patience(_GRACE).wait(self._line.ask(lambda client: client.set(keys[self._node], "")))
            while self._node == 0 and not limit.is_over():
                if Patience(_GRACE).wait(self._line.ask(lambda client: client.check(keys))):
                    return
                time.sleep(_LOOK)

    def _end(self) -> None:
        """End the ranks that are left: SIGTERM, which lets them save, and after a while SIGKILL."""
        for how, limit in ((signal.SIGTERM, _TERMINATING), (signal.SIGKILL, _TERMINATING)):
            left = [process for process in self._processes if process.poll() is None]
            for process in left:
                process.send_signal(how)
                # one that hangs does not react
                process.send_signal(signal.SIGCONT)
            patience = Patience(limit)
            while any(process.poll() is None for process in left) and not patience.is_over():
                with contextlib.suppress(Told):
                    time.sleep(_LOOK)


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Let signals that end a program end the ranks first."""

    def raise_told(number: int, frame: Any) -> None:
        raise Told(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    kept = {number: signal.signal(number, raise_told) for number in numbers}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
