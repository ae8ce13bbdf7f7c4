"""``trnsci launch``: ranks of one program on this machine, or on several; who failed, and starting again without it.

The launcher holds the store that ranks meet in. It listens on loopback, or on the one address that was named, and
nothing that is put into it is ever unpickled.
"""

from __future__ import annotations

import argparse
import importlib.util
import ipaddress
import os
import shlex
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from trnsci import check, config, console, rendezvous
from trnsci.errors import ArgumentError
from trnsci.machines import Guest, Host, Share
from trnsci.ranks import Node
from trnsim.cli import program

LOOPBACK = "127.0.0.1"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("-n", "--ranks", type=int, default=2, help="processes to start on this machine (default 2)")
    parser.add_argument("--threads", type=int, help="CPU threads of each (default: the cores divided between them)")
    parser.add_argument(
        "--restarts",
        type=int,
        default=0,
        metavar="N",
        help="after a failure start again with the ranks that are left, up to N times (default 0)",
    )
    several = parser.add_argument_group("several machines, on a private network")
    several.add_argument(
        "--nnodes", type=int, default=1, metavar="N", help="machines, each with a launcher (default 1)"
    )
    several.add_argument("--node-rank", type=int, default=0, metavar="R", help="which of them this one is, from 0")
    several.add_argument("--address", metavar="HOST:PORT", help="of machine 0, where the ranks meet")
    several.add_argument(
        "--rejoin",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long a restart waits for machines that were lost, or new ones in their place (default 60)",
    )
    several.add_argument("--interface", metavar="NAME", help="of this machine, which messages between ranks pass")
    parser.add_argument("--dry-run", action="store_true", help="print what would be started and stop")
    program(parser, "the program; it calls trnsci.distributed.mesh()")


class Launch(NamedTuple):
    """Program to start, with checked options."""

    words: tuple[str, ...]
    ranks: int
    threads: int
    nodes: int = 1
    node: int = 0
    address: str = LOOPBACK
    port: int = 0
    interface: str = ""

    @classmethod
    def of(cls, args: argparse.Namespace) -> Launch:
        """Check the arguments of the command line."""
        for name, least in (("ranks", 1), ("restarts", 0), ("nnodes", 1), ("threads", 1)):
            value = getattr(args, name)
            check.refuse(value is not None and value < least, "launch", name, value, f"at least {least}")
        words = (sys.executable, *_program(args.script, args.module), *args.arguments)
        threads = args.threads or max(1, (os.cpu_count() or 1) // args.ranks)
        if args.nnodes == 1:
            for name in ("address", "interface"):
                if getattr(args, name) is not None:
                    raise _wrong(name, getattr(args, name), "left out: one machine's ranks meet on loopback")
            return cls(words, args.ranks, threads, interface=rendezvous.loopback_interface())
        if not 0 <= args.node_rank < args.nnodes:
            raise _wrong("node-rank", args.node_rank, f"0 to {args.nnodes - 1}")
        if not 0 < args.rejoin <= config.LONGEST_WAIT:
            raise _wrong("rejoin", args.rejoin, f"a positive number of seconds, up to {config.LONGEST_WAIT}")
        address, port = _address(args.address)
        return cls(words, args.ranks, threads, args.nnodes, args.node_rank, address, port, _interface(args.interface))

    def variables(self, local: int, share: Share) -> dict[str, str]:
        """Return what the environment of a rank says of it."""
        place = config.Place(share.first + local, local, share.size, share.address, share.port)
        return config.rank_variables(place, self.ranks, self.threads, self.interface, share.restarts)


def _wrong(argument: str, got: object, expected: str, hint: str = "") -> ArgumentError:
    return ArgumentError("launch", argument, got, expected, hint=hint)


def _program(script: str, module: bool) -> tuple[str, ...]:
    if module and importlib.util.find_spec(script.partition(".")[0]) is None:
        raise _wrong("module", script, "one that can be imported")
    if not module and not Path(script).is_file():
        raise _wrong("SCRIPT.py", script, "a file that exists")
    return ("-m", script) if module else (script,)


def _address(text: str | None) -> tuple[str, int]:
    host, _, port = (text or "").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise _wrong("address", text, "HOST:PORT of machine 0, the same on every machine")
    try:
        return rendezvous.find_address(host.strip("[]")), int(port)
    except OSError as error:
        raise _wrong("address", text, f"a host that can be found ({error.strerror})") from None


def _interface(name: str | None) -> str:
    known = [each for _, each in socket.if_nameindex()]
    if name not in known:
        raise _wrong("interface", name, f"one of {', '.join(known)}", "Name the one on the private network")
    return name


def warn(launch: Launch) -> str:
    """Return what is dangerous about a launch on several machines, or an empty text."""
    address = ipaddress.ip_address(launch.address)
    if address.is_loopback or (address.is_private and not address.is_unspecified):
        return ""
    return (
        f"warning: {address} is not on a private network. Messages between ranks are neither encrypted nor "
        "authenticated: whoever reaches this port can read and change them. Use a private address, a VPN or an ssh "
        "tunnel"
    )


def run(args: argparse.Namespace) -> int:
    """Start the ranks, look after them, and return the job's exit status."""
    launch = Launch.of(args)
    if args.dry_run:
        _show(launch)
        return 0
    if text := warn(launch):
        _say(text)
    begin = _choose_meeting(launch, (args.address or "").rpartition(":")[0].strip("[]"), args.rejoin)
    # stores of earlier attempts: launchers of other machines may still read there who has failed
    nodes: list[Node] = []
    restarts = 0
    while True:
        store, share = begin(launch.ranks, restarts)
        restarts = share.restarts
        variables = [launch.variables(local, share) for local in range(launch.ranks)]
        nodes.append(Node(store, launch.words, variables, share))
        ended = nodes[-1].run()
        if ended.status == 0 or ended.told:
            break
        _say(ended.text)
        if restarts >= args.restarts:
            break
        left = max(1, launch.ranks - len(ended.lost))
        restarts += 1
        here = "" if launch.nodes == 1 else " here"
        _say(f"starting again with {left} of {launch.ranks} ranks{here} ({args.restarts - restarts} restarts left)")
        launch = launch._replace(ranks=left)
    nodes[-1].part()
    return ended.status


def _choose_meeting(launch: Launch, host: str, rejoin: float) -> Callable[[int, int], tuple[Any, Share]]:
    """Return the function that begins an attempt: with ranks of this machine alone, or with other machines."""
    if launch.nodes > 1:
        if launch.node:
            return Guest(host, launch.port, launch.node, rejoin).begin
        return Host(launch.address, launch.port, launch.nodes, rejoin, _say).begin

    def begin(ranks: int, restarts: int) -> tuple[Any, Share]:
        store = rendezvous.serve(launch.address, launch.port)
        return store, Share(0, 1, 0, ranks, store.port, restarts, launch.address)

    return begin


def _show(launch: Launch) -> None:
    size = launch.nodes * launch.ranks
    share = Share(launch.node, launch.nodes, launch.node * launch.ranks, size, launch.port, 0, launch.address)
    for local in range(launch.ranks):
        own = [f"{name}={value}" for name, value in launch.variables(local, share).items()]
        print(shlex.join(["env", *own, *launch.words]))  # noqa: T201


def _say(text: str) -> None:
    console.say("trnsci launch", f"{text}.")
