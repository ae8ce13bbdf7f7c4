"""Taking turns: cores and ranks are threads of which exactly one runs, so that every run is the same run.

A hand keeps its turn until it has to wait for another. Then the next hand whose wait is over goes on, counted from
the one that stopped. When nobody can go on the program is deadlocked, and the error says who waits for what, at which
line.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any

from trnsim.errors import Deadlock
from trnsim.session import Session, activated


class Stopped(BaseException):
    """Another hand failed; this one is unwound. Not an `Exception`, so that no kernel catches it."""


class Hand:
    """One thread of a crew: a core's session and what it runs."""

    __slots__ = (
        "body",
        "finished",
        "gate",
        "gave_up",
        "label",
        "line",
        "optional",
        "ready",
        "result",
        "session",
        "what",
    )

    def __init__(self, session: Session, label: str, body: Callable[[], Any]) -> None:
        self.session = session
        self.label = label
        self.body = body
        self.gate = threading.Semaphore(0)
        self.ready: Callable[[], bool] | None = None
        self.what: Callable[[], str] = str
        self.line = ""
        self.optional = False
        self.gave_up = False
        self.finished = False
        self.result: Any = None


class Crew:
    """Hands that run one at a time."""

    def __init__(self) -> None:
        self.hands: list[Hand] = []
        self._of: dict[int, int] = {}
        self._stopped = False

    def add(self, session: Session, label: str, body: Callable[[], Any]) -> None:
        """Take on a hand that runs ``body`` with ``session`` active."""
        self._of[id(session)] = len(self.hands)
        self.hands.append(Hand(session, label, body))

    def label(self, session: Session) -> str:
        """Return what messages call the hand that owns ``session``."""
        return self.hands[self._of[id(session)]].label

    def run(self) -> list[Any]:
        """Run every hand to its end; results in order. The first error is raised after all hands have stopped."""
        with ThreadPoolExecutor(len(self.hands), thread_name_prefix="trnsim") as pool:
            tasks = [pool.submit(copy_context().run, self._work, hand) for hand in self.hands]
            self.hands[0].gate.release()
            try:
                wait(tasks)
            finally:
                self._stop()
        errors = [e for e in (t.exception() for t in tasks) if e is not None]
        for error in errors:
            if not isinstance(error, Stopped):
                raise error
        return [hand.result for hand in self.hands]

    def wait(
        self,
        session: Session,
        ready: Callable[[], bool],
        what: Callable[[], str],
        *,
        line: str | None = None,
        optional: bool = False,
    ) -> bool:
        """Let others run until ``ready()``; ``what()`` says whom and what for, should it never be.

        With ``optional``, ``False`` says that all were stuck and this one continues.
        """
        at = self._of[id(session)]
        hand = self.hands[at]
        if ready():
            return True
        hand.ready, hand.what, hand.optional, hand.line = ready, what, optional, line or session.line()
        self._pass_on(at)
        hand.gate.acquire()
        if self._stopped:
            raise Stopped
        hand.ready = None
        given_up, hand.gave_up = hand.gave_up, False
        return not given_up

    def _work(self, hand: Hand) -> None:
        hand.gate.acquire()
        try:
            if self._stopped:
                raise Stopped
            with activated(hand.session):
                hand.result = hand.body()
            hand.finished = True
            if not all(h.finished for h in self.hands):
                self._pass_on(self._of[id(hand.session)])
        finally:
            if not hand.finished or all(h.finished for h in self.hands):
                self._stop()

    def _stop(self) -> None:
        self._stopped = True
        for hand in self.hands:
            hand.gate.release()

    def _pass_on(self, at: int) -> None:
        """Give the turn to the next hand that can go on."""
        order = [self.hands[(at + 1 + i) % len(self.hands)] for i in range(len(self.hands))]
        waiting = [h for h in order if not h.finished]
        for hand in waiting:
            if hand.ready is None or hand.ready():
                hand.gate.release()
                return
        for hand in waiting:
            if hand.optional:
                hand.gave_up, hand.optional = True, False
                hand.gate.release()
                return
        self.hands[at].finished = False
        raise self._deadlock(at)

    def _deadlock(self, at: int) -> Deadlock:
        told = []
        first: Hand | None = None
        for hand in self.hands:
            if hand.ready is None:
                told.append(f"{hand.label} has finished")
            else:
                told.append(f"{hand.label} waits for {hand.what()} ({hand.line})")
                first = first or hand
        assert first is not None
        session = self.hands[at].session
        error = Deadlock(
            "nobody can go on: " + "; ".join(told),
            rule="deadlock",
            got=[(h.label, h.what() if h.ready is not None else "finished", h.line) for h in self.hands],
            hint="every core and rank that takes part must reach the same synchronisations in the same order",
        )
        error.locate(kernel=session.kernel, instruction=session.instr, line=first.line, target=session.target.name)
        return error
