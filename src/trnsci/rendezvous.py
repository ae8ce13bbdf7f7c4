"""The store ranks meet in: bound to one address, reached through calls that can be given up, and never unpickled."""

from __future__ import annotations

import ipaddress
import queue
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from trnsci.errors import ArgumentError
from trnsci.patience import Patience
from trnsim.json_reader import check_fields, parse_json

if TYPE_CHECKING:
    from trnsci.distributed.world import World

T = TypeVar("T")

# What a launcher writes when a rank has ended before its time, and what a rank writes that knows who is missing; below
# the last each rank keeps the fault it ends for, if it ends for another's.
ENDED, BLAMED, HEARD = "trnsci/ended", "trnsci/blamed", "trnsci/heard"
_FAULT: dict[str, type] = {"rank": int, "op": str, "text": str, "started": int}
# What a call of a store raises that does not answer, or has gone.
LOST = (RuntimeError, TimeoutError)


def parse_fault(text: bytes) -> dict[str, Any]:
    """Return a fault that a rank or a launcher has put into a store; raise `MalformedJson` if another has."""
    return check_fields(parse_json(text), **_FAULT)


def apart(work: Callable[[], T], name: str) -> Future[T]:
    """Run ``work`` in a thread that does not keep the process alive."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except (RuntimeError, ValueError, TypeError, OSError) as error:
            done.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done


class Line:
    """One client of a store, in a thread of its own, so that the caller decides how long to wait for the answer.

    A call of ``torch.distributed``'s store has no limit of its own while the process that holds it hangs.
    """

    def __init__(self, store: Any) -> None:
        self._questions: queue.SimpleQueue[tuple[Future[Any], Callable[[Any], Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._serve, args=(store,), name="trnsci store", daemon=True).start()

    def ask(self, question: Callable[[Any], T]) -> Future[T]:
        """Put a question to the store; it is called with the client."""
        answer: Future[T] = Future()
        self._questions.put((answer, question))
        return answer

    def close(self) -> None:
        """End the thread when it has answered."""
        self._questions.put(None)

    def _serve(self, store: Any) -> None:
        client: Any = None
        while (item := self._questions.get()) is not None:
            answer, question = item
            try:
                # a connection of its own, because requests of one wait for each other
                client = client or store.clone()
                answer.set_result(question(client))
            except RuntimeError as error:
                answer.set_exception(error)
            except (ValueError, TypeError, KeyError) as error:
                answer.set_exception(RuntimeError(f"the store holds what no rank has written: {error!r}"))


class Notes:
    """Counters and short texts under a prefix of a store, each call of which ends within the timeout.

    Raises:
        RankFailed: the store has gone, or does not answer.
    """

    def __init__(self, world: World, line: Line, prefix: str) -> None:
        self._world, self._line, self._prefix = world, line, prefix

    def _call(self, method: str, *args: Any) -> Any:
        try:
            return Patience(self._world.patience).wait(self._line.ask(lambda client: getattr(client, method)(*args)))
        except LOST as error:
            raise self._world.failure("the store") from error

    def set(self, key: str, text: str) -> None:
        """Keep a text."""
        self._call("set", f"{self._prefix}/{key}", text)

    def get(self, key: str) -> bytes:
        """Return a text that is there."""
        return bytes(self._call("get", f"{self._prefix}/{key}"))

    def check(self, keys: list[str]) -> bool:
        """Return whether all of these are there."""
        return bool(self._call("check", [f"{self._prefix}/{key}" for key in keys]))

    def add(self, key: str, count: int) -> int:
        """Add to a counter; return its value."""
        return int(self._call("add", f"{self._prefix}/{key}", count))


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach an address."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def find_address(host: str) -> str:
    """Return the address of a host; raise `OSError` where it has none."""
    return str(socket.getaddrinfo(host, None)[0][4][0])


def loopback_interface() -> str:
    """Return the name of the interface that does not leave this machine."""
    return next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")


def serve(address: str, port: int) -> TCPStore:
    """Hold a store that listens on one address, and on no other of this machine; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(4096)
    except OSError as error:
        listener.close()
        got = f"{address}:{port} ({error.strerror or error})"
        raise ArgumentError("launch", "address", got, "an address of this machine and a free port") from None
    port = listener.getsockname()[1]
    # torch binds a socket of its own to every interface, unless it is handed one
    return TCPStore(address, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach())


def connect(address: str, port: int, seconds: float) -> Any:
    """Return a client of a store, or raise when there is none within the limit."""
    limit = timedelta(seconds=seconds)
    patience = Patience(seconds)
    while True:
        client = apart(lambda: TCPStore(address, port, wait_for_workers=False, timeout=limit), "trnsci connect")
        try:
            return patience.wait(client)
        except LOST:
            # torch counts a pause as time to wait
            if patience.is_over() or not patience.has_paused:
                raise
