"""Threads of cores and ranks, of which exactly one runs at a time, so that every run is the same.

A worker runs until it has to wait for another. Then the next one whose wait is over runs, in a fixed order from the one
that stopped. When none can run the program is deadlocked, and the error says who waits for what, at which line.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from trnsim.errors import KernelError
from trnsim.refusals import refuse
from trnsim.session import Session, activate


class Stopped(BaseException):
    """Unwinds a worker after another one failed. Not an `Exception`, so that no kernel catches it."""


@dataclass(slots=True, eq=False)
class Worker:
    """One thread: a core's session and what it runs."""

    session: Session
    label: str
    body: Callable[[], Any]
    gate: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    ready: Callable[[], bool] | None = None
    what: Callable[[], str] = str
    line: str = ""
    optional: bool = False
    gave_up: bool = False
    finished: bool = False
    result: Any = None


class Workers:
    """The workers of a launch, which run one at a time."""

    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self._of: dict[int, int] = {}
        self._stopped = False

    def add(self, session: Session, label: str, body: Callable[[], Any]) -> None:
        """Add a worker that runs ``body`` with ``session`` active."""
        self._of[id(session)] = len(self.workers)
        self.workers.append(Worker(session, label, body))

    def label(self, session: Session) -> str:
        """Return what messages call the worker that owns ``session``."""
        return self.workers[self._of[id(session)]].label

    def run(self) -> list[Any]:
        """Run every worker and return their results in order. Raise the first error after all have stopped."""
        with ThreadPoolExecutor(len(self.workers), thread_name_prefix="trnsim") as pool:
            tasks = [pool.submit(copy_context().run, self._work, worker) for worker in self.workers]
            self.workers[0].gate.release()
            try:
                wait(tasks)
            finally:
                self._stop()
        errors = [e for e in (t.exception() for t in tasks) if e is not None]
        for error in errors:
            if not isinstance(error, Stopped):
                raise error
        return [worker.result for worker in self.workers]

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
        worker = self.workers[at]
        if ready():
            return True
        worker.ready, worker.what, worker.optional, worker.line = ready, what, optional, line or session.line()
        self._pass_on(at)
        worker.gate.acquire()
        if self._stopped:
            raise Stopped
        worker.ready = None
        given_up, worker.gave_up = worker.gave_up, False
        return not given_up

    def _work(self, worker: Worker) -> None:
        worker.gate.acquire()
        try:
            if self._stopped:
                raise Stopped
            with activate(worker.session):
                worker.result = worker.body()
            worker.finished = True
            if not all(h.finished for h in self.workers):
                self._pass_on(self._of[id(worker.session)])
        finally:
            if not worker.finished or all(h.finished for h in self.workers):
                self._stop()

    def _stop(self) -> None:
        self._stopped = True
        for worker in self.workers:
            worker.gate.release()

    def _pass_on(self, at: int) -> None:
        """Wake the next worker that can run."""
        order = [self.workers[(at + 1 + i) % len(self.workers)] for i in range(len(self.workers))]
        waiting = [h for h in order if not h.finished]
        for worker in waiting:
            if worker.ready is None or worker.ready():
                worker.gate.release()
                return
        for worker in waiting:
            if worker.optional:
                worker.gave_up, worker.optional = True, False
                worker.gate.release()
                return
        self.workers[at].finished = False
        raise self._deadlock(at)

    def _deadlock(self, at: int) -> KernelError:
        told = []
        first: Worker | None = None
        for worker in self.workers:
            if worker.ready is None:
                told.append(f"{worker.label} has finished")
            else:
                told.append(f"{worker.label} waits for {worker.what()} ({worker.line})")
                first = first or worker
        assert first is not None
        session = self.workers[at].session
        got = [(h.label, h.what() if h.ready is not None else "finished", h.line) for h in self.workers]
        return refuse("deadlock", got=got, names="; ".join(told)).locate(session, session.instr, first.line)
