"""Is a program a fit for Trainium? Run it with the ledger on, and say per op what it costs here and would cost there.

Ops of the suite are costed with their kernels on the timing model. Calls of torch, NumPy and SciPy made beside them are
timed too, and costed as the analog that would take them to the device; ``@`` in the program's own modules counts as a
call. What neither sees (Python, input and output) is sampled, line by line, so that a program whose time is elsewhere
is told so. All times here are processor time of the thread that runs the program.
"""

from __future__ import annotations

import importlib.util
import pkgutil
import runpy
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from trnsci import config, product_operators
from trnsci.analogs import Analog
from trnsci.analogs.neuron_operators import runs_on_neuron
from trnsci.console import shorter
from trnsci.drop_in import drop_in
from trnsci.errors import ArgumentError
from trnsci.fit_break_even import pays_from, scale
from trnsci.fit_profiler import IMPORTS, PEERS, Children, Place, Plain, Sampler, Watch, library_behind
from trnsci.fit_report import NEURON, FitReport, Group, OnTarget, shorten_operands
from trnsci.fit_scan import NOTHING, scan
from trnsci.fit_source import SOURCES
from trnsci.ledger import Ledger, ledger
from trnsci.links import link
from trnsci.plans import Step, seconds
from trnsci.predict import prediction
from trnsci.product_operators import rewriting_products, run_script
from trnsci.specs import tensors_in
from trnsim.terminal import escape_controls

# files whose frames stand before a program's own
_RUNNING = (__file__, product_operators.__file__, "<frozen runpy>")
# torch operators costed as their analogs at most, those that took longest first
COSTED = 50


def fit(
    script: str | Path,
    arguments: Sequence[str] = (),
    *,
    module: bool = False,
    substitute: bool = False,
    random: bool = False,
    min_size: int | None = None,
    also: Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
) -> FitReport:
    """Run a Python program as ``__main__`` and report how it would fit Trainium.

    A program that raises, exits or is interrupted is reported as far as it came. One for CUDA that cannot run here
    is read instead: `FitReport.scan` has what it calls. So is a folder of sources.

    Args:
        script: path of the program, of a CUDA source or of a folder of them; with ``module`` the name of a module.
        arguments: its ``sys.argv[1:]``.
        module: run as ``python -m`` would.
        substitute: run it inside `trnsci.drop_in`, so that calls with an analog are ours.
        random: count torch's random numbers, or draw them, as ours; as for `trnsci.drop_in`.
        min_size: with ``substitute``, as for `trnsci.drop_in`.
        also: packages whose products by ``@`` are seen, besides those of the program's folder; with ``substitute``.
        progress: called with a line of text before each slow step; one that ends in a newline stays on a screen.

    Raises:
        ArgumentError: there is no such file or module.
    """
    path = Path(script)
    require_source("run" if substitute else "fit", script, module)
    say = progress or (lambda text: None)
    if not module and (path.is_dir() or path.suffix.lower() in SOURCES):
        return FitReport(script=str(script), scan=scan(path), main_target=config.TARGET.get())
    say(f"running {script}\n")
    watch, sampler, children, replaced = Watch(random=random), Sampler(), Children(), None
    with ExitStack() as stack:
        book = stack.enter_context(ledger(everywhere=True))
        for listener in (watch, sampler, children, as_main(path, arguments), _keep_streams()):
            stack.enter_context(listener)
        if substitute:
            replaced = stack.enter_context(drop_in(random=random, min_size=min_size))
        if not module:
            stack.enter_context(rewriting_products(path.parent, also))
        start, before = time.perf_counter(), time.thread_time()
        status, error = run_program(script, module, products=not module)
        wall = time.perf_counter() - start - watch.repeated[0]
        spent = time.thread_time() - before - watch.repeated[1]
    groups, plain = _groups(book, say), _plain(watch.seen.values(), say)
    elsewhere = spent - sum(group.measured for group in (*groups, *plain))
    read = scan(path) if status and path.is_file() else NOTHING
    return FitReport(
        script=str(script),
        wall=wall,
        spent=spent,
        groups=groups,
        plain=plain,
        places=_places(sampler.places, elsewhere, {(group.where, group.analog) for group in plain}),
        beside=_beside(sampler.threads, children.commands),
        scan=read,
        replaced=replaced,
        main_target=config.TARGET.get(),
        status=status,
        error=error,
    )


def require_source(op: str, script: str | Path, module: bool) -> None:
    """Raise unless there is such a file or module."""
    if module and importlib.util.find_spec(str(script)) is None:
        raise ArgumentError(op, "MODULE", str(script), "a module that can be imported")
    path = Path(script)
    if not module and not (path.is_file() or (op == "fit" and path.is_dir())):
        raise ArgumentError(op, "SCRIPT", str(script), "a Python file that exists")


class _Ending:
    """How a program ended: its exit status, and words if not well. Nothing a program raises goes further."""

    status = 0
    words = ""

    def __enter__(self) -> _Ending:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
        if isinstance(error, SystemExit):
            self.status = error.code if isinstance(error.code, int) else int(error.code is not None)
            self.words = f"exited with {error.code}" if self.status else ""
        elif isinstance(error, KeyboardInterrupt):
            self.status, self.words = 130, "was interrupted"
        elif error is not None:
            while trace is not None and trace.tb_frame.f_code.co_filename in _RUNNING:
                trace = trace.tb_next
            lines = traceback.format_exception(kind, error, trace)
            sys.stderr.write(escape_controls("".join(lines)))
            # an error of the program may fail to say what it is
            _, _, text = lines[-1].strip().partition(": ")
            self.status, self.words = 1, f"raised {type(error).__name__}" + f": {text}" * bool(text)
        return True


def run_program(script: str | Path, module: bool, *, products: bool = False) -> tuple[int, str]:
    """Run the program; return its status, and in words how it ended if not well."""
    with _Ending() as ending:
        if module:
            runpy.run_module(str(script), run_name="__main__", alter_sys=True)
        elif products and Path(script).suffix == ".py":
            run_script(Path(script))
        else:
            runpy.run_path(str(script), run_name="__main__")
    return ending.status, ending.words


def _beside(threads: dict[str, float], commands: Sequence[str]) -> tuple[str, ...]:
    """Return what ran beside the watched thread, in words."""
    alike: dict[str, list[float]] = defaultdict(list)
    for name, alive in threads.items():
        # those of a pool are numbered
        alike[name.rstrip("-_0123456789") or name].append(alive)
    words = [
        f"thread {name!r}, alive for {seconds(sum(alive))}" + f" ({len(alive)} of them)" * (len(alive) > 1)
        for name, alive in alike.items()
        if sum(alive) > 0.01
    ]
    return (*words, *(f"process {shorter(command, 80)}" for command in dict.fromkeys(commands)))


@contextmanager
def as_main(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """``sys.argv`` and ``sys.path`` as ``python SCRIPT`` would have them, restored after."""
    argv, paths = sys.argv, list(sys.path)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield
    finally:
        sys.argv = argv
        sys.path[:] = paths


@contextmanager
def _keep_streams() -> Iterator[None]:
    """Restore ``sys.stdout`` and ``sys.stderr``, which a program may have replaced or closed."""
    kept = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdout, sys.stderr = (
            # closing the stream leaves the descriptor open
            open(number, "w", closefd=False) if getattr(stream, "closed", False) else stream  # noqa: SIM115
            for number, stream in enumerate(kept, 1)
        )


def _groups(book: Ledger, say: Callable[[str], None]) -> tuple[Group, ...]:
    alike: dict[Any, list[Any]] = defaultdict(list)
    for entry in book:
        if entry.depth == 0:
            alike[_alike(entry.step)].append(entry)
    groups = []
    for number, entries in enumerate(alike.values(), 1):
        step: Step = entries[0].step
        say(f"predicting {number} of {len(alike)}: {step.op} {shorten_operands(step.operands)}")
        groups.append(_group(step, [entry.spent for entry in entries]))
    return tuple(sorted(groups, key=lambda g: -g.measured))


def _alike(step: Step) -> Any:
    """Return the key of a group of calls: everything but their data, and of random numbers but their offset."""
    if any(True for _ in tensors_in(step.call)):
        return step.op, step.backend, step.call
    words = tuple(value for value in step.call if isinstance(value, str))
    return step.op, step.backend, step.cost, words


def _group(step: Step, times: Sequence[float]) -> Group:
    moved = sum(spec.nbytes for spec in tensors_in(step.call)) + step.cost.written
    calls = len(times)
    targets, refusal = _predict_targets((step,), calls, moved)
    return Group(
        op=step.op.replace("::", "."),
        operands=step.operands,
        calls=calls,
        measured=sum(times),
        first=times[0],
        nbytes=moved * calls,
        flops=step.cost.flops * calls,
        targets=targets,
        refusal=None if targets else step.call._op.refusal(step.call, "nki") or refusal,
        backend=step.backend,
        pays_from=pays_from([step], lambda times: [scale(step.call, times)], sum(times) / calls, targets),
    )


def _plain(seen: Iterable[Plain], say: Callable[[str], None]) -> tuple[Group, ...]:
    groups, costed = [], 0
    for plain in sorted(seen, key=lambda p: -p.measured):
        analog, plan = plain.analog, None
        if analog is not None and costed < COSTED:
            costed += 1
            say(f"predicting {plain.operator} of {plain.where} as {analog.name} {plain.operands}")
            plan = analog.plan(plain.args, plain.kwargs)
        refusal = plain.stays or _refusal(plain.operator, analog)
        targets: dict[str, OnTarget] = {}
        pays = ""
        if plan is not None and analog is not None:
            targets, _ = _predict_targets(plan.steps, plain.calls, plain.nbytes // plain.calls)
            larger = partial(_plan_larger, analog, plain)
            others = (plain.measured - plain.first) / max(plain.calls - 1, 1)
            pays = pays_from(plan.steps, larger, others or plain.again or plain.measured, targets)
        groups.append(
            Group(
                op=plain.operator,
                operands=plain.operands,
                calls=plain.calls,
                measured=plain.measured,
                first=plain.first,
                nbytes=plain.nbytes,
                flops=0 if plan is None else plan.flops * plain.calls,
                targets=targets,
                refusal=refusal,
                analog="" if analog is None else analog.name,
                where=plain.where,
                again=plain.again,
                peer="with optimize=True" if plain.again and plain.operator in PEERS and len(plain.args) > 3 else "",
                pays_from=pays,
            )
        )
    return tuple(groups)


def _plan_larger(analog: Analog, plain: Plain, times: int) -> list[Any]:
    """Plan an operator's call with operands of ``times`` the size; return the calls of ours."""
    kwargs = {name: scale(value, times) for name, value in plain.kwargs.items()}
    plan = analog.plan(scale(plain.args, times), kwargs)
    return [] if plan is None else [step.call for step in plan.steps]


def _refusal(operator: str, analog: Analog | None) -> str:
    """Say why calls of an operator have no prediction."""
    if analog is not None:
        behind = library_behind(pkgutil.resolve_name(operator).__module__) if operator.startswith("scipy.") else ""
        here = f", and {behind} does it here" if behind else ""
        return f"{analog.name} has no kernel for this call, or its steps depend on values{here}"
    return NEURON if runs_on_neuron(operator) else "nothing of ours does this"


def _predict_targets(steps: Sequence[Step], calls: int, moved: int) -> tuple[dict[str, OnTarget], str]:
    """Predict ``calls`` calls of these steps on each generation that can run them; say why others cannot."""
    targets: dict[str, OnTarget] = {}
    refusal = ""
    for target in config.TARGETS:
        parts = [prediction(step.call, target) for step in steps]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            continue
        programs = sum(part.programs for part in known)
        if programs == 0:
            refusal = "at this size and precision its implementation starts no kernel"
            continue
        targets[target] = OnTarget(
            kernel=calls * sum(part.seconds for part in known),
            interval=(calls * sum(part.low for part in known), calls * sum(part.high for part in known)),
            dispatch=calls * programs * link(target).dispatch,
            graph=link(target).graph,
            transfer=calls * link(target).transfer(moved),
            programs=calls * programs,
        )
    return targets, refusal


def _places(
    sampled: dict[Place, float], elsewhere: float, timed: set[tuple[str, str]]
) -> tuple[tuple[Place, float], ...]:
    """Share the time that was not measured out by the samples; lines of less than a hundredth are added up.

    Calls of a line that were ``timed`` are none of its rest.
    """
    whole = sum(sampled.values())
    if whole == 0 or elsewhere <= 0:
        return ()
    shared: dict[Place, float] = {}
    lines: dict[str, Place] = {}
    # a line is one row, whether it was seen in a package it calls or in C
    for place, spent in sorted(sampled.items(), key=lambda item: item[0].package, reverse=True):
        line = lines.setdefault(place.where, place)
        shared[line] = shared.get(line, 0.0) + elsewhere * spent / whole
    large = {place: t for place, t in shared.items() if t > 0.01 * elsewhere or place == IMPORTS}
    large = {replace(p, analog="") if (p.where, p.analog) in timed else p: t for p, t in large.items()}
    rest = elsewhere - sum(large.values())
    rows = sorted(large.items(), key=lambda item: -item[1])
    return (*rows, (Place("other lines"), rest)) if len(large) < len(shared) else tuple(rows)
