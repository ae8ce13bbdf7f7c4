"""Ranks to test with: N processes that stay, and run what they are handed."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from trnsci import config, rendezvous
from trnsci.libraries import LIBRARIES, SHARDED, entry_points_of

_START = 180
# Imported once, by the process that ranks are forked from.
_IMPORTS = ["torch.distributed.tensor", "torch._dynamo", "scipy.fft", "scipy.sparse", "pytest"]
_IMPORTS += ["trnsci.distributed", "pyscf.scf", "pyscf.df", "pyscf.dft", "pyscf.mp"]


class RemoteError(RuntimeError):
    """A program raised on a rank; ``errors`` maps ranks to what they raised."""

    def __init__(self, errors: dict[int, BaseException], text: str) -> None:
        super().__init__(text)
        self.errors = errors


class Ranks:
    """N processes joined by gloo on this machine. Programs are module-level functions; results are pickled back.

    Args:
        size: how many.
        timeout: seconds a rank waits for another, and a little less than the caller waits for a rank.
        strict: join them by the process group of the emulated device instead, in the host's precision.
    """

    def __init__(self, size: int, timeout: float = 120.0, *, strict: bool = False) -> None:
        self.size, self.timeout = size, timeout
        # here, as a launcher keeps it outside the ranks: it outlives any of them
        self._store = rendezvous.serve("127.0.0.1", 0)
        context = multiprocessing.get_context("forkserver")
        modules = (entry.module for group in (LIBRARIES, SHARDED) for entry in entry_points_of(group).values())
        context.set_forkserver_preload([*_IMPORTS, *modules])
        self._pipes: list[Connection] = []
        self.processes = []
        for rank in range(size):
            ours, theirs = context.Pipe()
            arguments = (rank, size, timeout, self._store.port, theirs, strict)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self.processes.append(process)
        for pipe in self._pipes:
            # starting processes takes longer than anything they do here
            if not pipe.poll(_START) or pipe.recv() != "ready":
                raise TimeoutError(f"{size} ranks did not start in {_START} s")

    def start(self, program: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Hand a program to every rank without waiting."""
        for pipe in self._pipes:
            pipe.send((program, args, kwargs))

    def finish(self) -> list[Any]:
        """Return what every rank's program returned: a value, or the exception it raised; ``None`` for a dead rank."""
        answers: list[Any] = []
        for rank, pipe in enumerate(self._pipes):
            try:
                if not pipe.poll(20 + 4 * self.timeout):
                    raise TimeoutError(f"rank {rank} has not answered for {20 + 4 * self.timeout:.0f} s")
                answers.append(pipe.recv())
            except (EOFError, ConnectionResetError):
                answers.append(("died", None, ""))
        return answers

    def run(self, program: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Run a program on every rank; return the results in order, or raise what they raised."""
        self.start(program, *args, **kwargs)
        answers = self.finish()
        errors = {rank: value for rank, (kind, value, _) in enumerate(answers) if kind != "value"}
        if errors:
            texts = "\n".join(f"rank {rank}: {answers[rank][0]}\n{answers[rank][2]}" for rank in errors)
            raise RemoteError(errors, texts)
        return [value for _, value, _ in answers]

    def each(self, program: Callable[..., Any], cases: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
        """Run a program once per tuple of arguments, in one go; return the results of all ranks case by case."""
        by_rank = self.run(_each, program, list(cases))
        return [list(results) for results in zip(*by_rank, strict=True)]

    def kill(self, rank: int, how: int = signal.SIGKILL) -> None:
        """Send a rank a signal."""
        pid = self.processes[rank].pid
        assert pid is not None
        os.kill(pid, how)

    def close(self) -> None:
        """End the processes."""
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send(None)
        deadline = time.monotonic() + 2
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()


def _each(program: Callable[..., Any], cases: list[tuple[Any, ...]]) -> list[Any]:
    return [program(*case) for case in cases]


def _serve(rank: int, size: int, timeout: float, port: int, pipe: Connection, strict: bool) -> None:
    from trnsci import distributed, emulate

    if strict:
        emulate("trn2", casts=False, has_complex=True)
    torch.set_num_threads(1)
    config.use_interface(rendezvous.loopback_interface())
    store = TCPStore("127.0.0.1", port, wait_for_workers=False)
    dist.init_process_group(
        "cpu:gloo,neuron:neuron" if strict else "gloo",
        store=store,
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=max(_START, 2 * timeout)),
    )
    distributed.mesh(timeout=timeout)
    dist.barrier()
    pipe.send("ready")
    worker = ThreadPoolExecutor(1)
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            break
        if task is None:
            break
        program, args, kwargs = task
        # a future keeps whatever the program raises: it belongs to the test
        done = worker.submit(program, *args, **kwargs)
        raised = done.exception()
        if raised is None:
            answer: tuple[str, Any, str] = ("value", done.result(), "")
        else:
            answer = ("error", raised, "".join(traceback.format_exception(raised)))
        try:
            pipe.send(answer)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            pipe.send(("error", RuntimeError(f"{type(error).__name__}: {error}"), answer[2]))
    distributed.leave()
    # taking an interpreter apart takes seconds, and nobody looks
    os._exit(0)
