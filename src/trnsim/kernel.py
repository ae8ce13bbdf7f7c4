"""Kernels: ``jit`` makes one, calling it runs it, ``simulate`` runs it with options."""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from trnsim._lint import words
from trnsim.adopt import adopt, adopt_argument
from trnsim.arguments import Arguments, check_arguments, same_results, tensors_in
from trnsim.collectives.variable import check_triggered
from trnsim.collectives.world import World
from trnsim.cores import Device, check_grid, launch_grid
from trnsim.coverage import check_read
from trnsim.debug import active_probes
from trnsim.errors import KernelError
from trnsim.lint import LintWarning
from trnsim.loop_body import check_cores
from trnsim.reach import Reach
from trnsim.refusals import forbid, refuse
from trnsim.schedule import Edges, Named, as_edges
from trnsim.session import Record, Session, SimParams, activate, current
from trnsim.source_lines import warn
from trnsim.targets import target_named
from trnsim.threads import one_blas_thread
from trnsim.typing import check_annotations
from trnsim.versions import TRACED, as_version
from trnsim.workers import Workers


class Kernel:
    """A kernel function. Call it with arrays to run it; ``kernel[2]`` launches it on two cores of a logical core."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        grid: tuple[int, ...] = (),
        options: dict[str, Any] | None = None,
        schedule: Edges = (),
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.func = function
        self.grid = grid
        self.options = options or {}
        self.schedule = schedule

    def __getitem__(self, grid: Any) -> Kernel:
        return Kernel(self.function, grid=as_grid(grid), options=self.options, schedule=self.schedule)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None:
            return simulate(self)(*args, **kwargs)
        if self.grid and self.grid != (session.grid or (1,)):
            raise refuse(
                "grid:call", got=self.grid, limit=session.grid or (1,), t=self, cores=(session.grid or (1,))[0]
            )
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def with_schedule(self, edges: Any) -> Kernel:
        """Add dependencies to this kernel: pairs of an instruction's ``name=`` and the name or names it follows."""
        return Kernel(self.function, grid=self.grid, options=self.options, schedule=(*self.schedule, *as_edges(edges)))

    def __reduce__(self) -> tuple[Any, ...]:
        where = self.function.__module__, self.function.__qualname__
        if getattr(_find(*where), "function", None) is not self.function:
            raise TypeError(f"{self!r} cannot be pickled: {'.'.join(where)} is not this kernel. Define it in a module")
        return _find, (*where, self.grid, self.schedule)

    def __repr__(self) -> str:
        launch = f"[{', '.join(map(str, self.grid))}]" if self.grid else ""
        return f"<NKI kernel {getattr(self, '__qualname__', '?')}{launch}>"


def _find(module: str, name: str, grid: tuple[int, ...] = (), schedule: Edges = ()) -> Any:
    """Return the kernel of this name, for this launch, or ``None``: kernels are pickled as functions are, by name."""
    kernel: Any = importlib.import_module(module)
    for part in name.split("."):
        kernel = getattr(kernel, part, None)
    if isinstance(kernel, Kernel) and (grid, schedule) != (kernel.grid, kernel.schedule):
        return Kernel(kernel.function, grid=grid, options=kernel.options, schedule=schedule)
    return kernel


def as_grid(grid: Any) -> tuple[int, ...]:
    """Return a launch grid as a tuple of positive ints."""
    sizes = grid if isinstance(grid, tuple) else (grid,)
    try:
        extents = tuple(int(n.__index__()) for n in sizes)
    except AttributeError:
        extents = ()
    forbid(not extents or min(extents) < 1, "grid:as_grid", got=grid)
    return extents


_JIT_OPTIONS = words("jit_options")
_DEPRECATED = {
    "mode": "NKI finds the framework from the arguments",
    "platform_target": "set NEURON_PLATFORM_TARGET_OVERRIDE, or simulate(kernel, target=…)",
}


def jit(fn: Any = None, **options: Any) -> Any:
    """Make ``fn`` an NKI kernel.

    ``platform_target`` picks the generation, ``nki`` the version; options of AWS's compiler are taken and kept.
    """
    unknown = set(options) - _JIT_OPTIONS
    if unknown:
        raise refuse("jit:jit", got=sorted(unknown), limit=sorted(_JIT_OPTIONS), names=", ".join(sorted(unknown)))
    for name, instead in _DEPRECATED.items():
        if name in options:
            warnings.warn(f"nki.jit({name}=…) is deprecated since NKI 0.3: {instead}", DeprecationWarning, stacklevel=2)
    if fn is None:
        return functools.partial(_decorate, options)
    return _decorate(options, fn)


def _decorate(options: dict[str, Any], fn: Any) -> Kernel:
    if isinstance(fn, Kernel):
        return Kernel(fn.function, grid=fn.grid, options={**fn.options, **options}, schedule=fn.schedule)
    forbid(not callable(fn), "jit:decorated", got=type(fn).__name__)
    grid = options.get("grid")
    return Kernel(fn, grid=as_grid(grid) if grid else (), options=options)


def as_kernel(kernel: Any) -> Kernel:
    """``kernel`` as ours: one of ours, a plain function, or an object of AWS's own ``nki.jit``."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, type) or not callable(kernel):
        raise refuse("kernel:as_kernel", got=type(kernel).__name__, kernel=kernel)
    if inspect.isfunction(kernel) or inspect.ismethod(kernel):
        return Kernel(adopt(kernel))
    for name in ("function", "func", "fn", "_func", "__wrapped__"):
        inner = getattr(kernel, name, None)
        if callable(inner) and not isinstance(kernel, functools.partial):
            grid = getattr(kernel, "grid", ()) or ()
            return Kernel(adopt(inner), grid=as_grid(tuple(grid) if isinstance(grid, list) else grid) if grid else ())
    if isinstance(kernel, functools.partial) and isinstance(kernel.func, Kernel):
        inner = kernel.func
        bound = functools.partial(inner.function, *kernel.args, **kernel.keywords)
        functools.update_wrapper(bound, inner.function)
        return Kernel(bound, grid=inner.grid, options=inner.options, schedule=inner.schedule)
    return Kernel(kernel)


def params_of(
    kernel: Kernel, *, target: Any = None, nki: Any = None, checks: bool = True, lint: str | None = None, **options: Any
) -> SimParams:
    """Return how ``kernel`` is simulated, from the options of `simulate`."""
    wanted = target if target is not None else kernel.options.get("platform_target")
    modes = ("strict", "error", "warn", "off")
    forbid(lint is not None and lint not in modes, "lint", got=lint, limit=modes)
    default = "error" if checks else "off"
    version = as_version(kernel.options.get("nki") if nki is None else nki)
    return SimParams(target=target_named(wanted), nki=version, checks=checks, lint=lint or default, **options)


def simulate(
    kernel: Any,
    *,
    target: Any = None,
    nki: str | None = None,
    checks: bool = True,
    strict: bool = False,
    numerics: bool = True,
    lint: str | None = None,
    seed: int = 0,
    trace: list[Record] | None = None,
) -> Callable[..., Any]:
    """Return a callable that runs ``kernel`` on the CPU with NumPy arrays or torch tensors.

    Args:
        kernel: a kernel, ``kernel[2]``, a plain function, or a kernel of AWS's own package.
        target: ``"trn1"``, ``"trn2"`` or ``"trn3"``; default: ``platform_target``, the environment, then trn2.
        nki: ``"0.3"`` to ``"0.7"``, the version whose names and rules hold; default: that of ``nki.jit``, then 0.7.
        checks: enforce the hardware's rules, poison and capacity.
        strict: refuse every read of unwritten memory; otherwise such elements propagate, and are refused where they
            reach a result, a branch, an index or an address.
        numerics: ``False`` follows the program without computing values; results have shapes and no values.
        lint: ``"error"`` refuses what the NKI compiler refuses (the default with checks), ``"strict"`` also what it is
            not known to accept, ``"warn"`` warns, ``"off"`` says nothing.
        seed: initial state of the random-number instructions.
        trace: a list that receives the instruction stream.
    """
    jitted = as_kernel(kernel)
    more = {"strict": strict, "numerics": numerics, "seed": seed}
    params = params_of(jitted, target=target, nki=nki, checks=checks, lint=lint, **more)

    @functools.wraps(jitted.function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return Launch(jitted, params, trace).run(args, kwargs)

    return run


def _check_argument(kernel: str, value: Any, name: str, *, nested: bool = False) -> None:
    """Check an argument: a tensor, or a static value (None, a string, a 32-bit number, a tuple of those)."""
    if isinstance(value, tuple):
        for item in value:
            _check_argument(kernel, item, name, nested=True)
    elif nested and hasattr(value, "shape") and hasattr(value, "dtype"):
        raise refuse("tensor-tuple", got="tuple of tensors", kernel=kernel, name=name)
    elif isinstance(value, int) and not -(2**31) <= value < 2**31:
        raise refuse("integer-range", got=value, limit=2**31 - 1, kernel=kernel, name=name)


class Launch:
    """One run of a kernel on one logical core: arguments in, cores, results out, inputs restored when it fails.

    ``high_water`` has the most bytes of a partition each memory held, ``sessions`` the cores, ``returned`` what each of
    them made of a result. ``spills`` lets tensors the compiler places exceed SBUF.
    """

    def __init__(
        self,
        kernel: Kernel,
        params: SimParams,
        trace: list[Record] | None = None,
        *,
        rank: int = 0,
        world: Any = None,
        workers: Workers | None = None,
        spills: bool = False,
    ) -> None:
        self.kernel = kernel
        self.params = params
        self.spills = spills
        self.high_water: dict[str, int] = {}
        self.returned: list[set[int]] = []
        self.grid = launch_grid(kernel, params)
        self.cores = check_grid(self.grid, params.target)
        self.workers = Workers() if workers is None and self.cores > 1 else workers
        self.name = getattr(kernel, "__name__", "kernel")
        self.named = Named(kernel.schedule, trace) if kernel.schedule else None
        if world is None and self.cores > 1:
            world = World(workers=self.workers)
        self.device = Device(self.workers, self.cores, rank, world)
        self.trace: Any = trace if self.named is None else self.named
        self.sessions = [self._session(core, rank) for core in range(self.cores)]
        self.arguments = Arguments(self.sessions[0], shared=self.cores > 1)

    def _session(self, core: int, rank: int) -> Session:
        session = Session(
            self.params,
            kernel=self.name,
            core=core,
            rank=rank,
            grid=self.grid,
            program=(core,) if self.grid else (),
            trace=self.trace,
        )
        if self.cores > 1 or self.device.world is not None:
            session.machine = self.device
        session.probes = active_probes()
        if self.device.sessions:
            # poison crosses between cores with what it depends on
            session.origins = self.device.sessions[0].origins
        session.named = self.named
        self.device.sessions.append(session)
        return session

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the kernel and return its results."""
        try:
            bodies = self.bodies(args, kwargs)
            with one_blas_thread():
                if self.workers is None:
                    with activate(self.sessions[0]):
                        raw = [bodies[0]()]
                else:
                    for session, body in zip(self.sessions, bodies, strict=True):
                        self.workers.add(session, f"core {session.core}", body)
                    raw = self.workers.run()
            result = self.results(raw)
        except BaseException:
            self.arguments.restore()
            raise
        self.arguments.write_back()
        return result

    def bodies(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Callable[[], Any]]:
        """Return what each core runs: the kernel on the same tensors."""
        function = self.kernel.function
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise refuse("kernel:bodies", got=self.name)
        self.reach = Reach(function, self.params.lint, self.params.nki)
        names = _parameter_names(function)
        with self._locate_errors():
            bound = [self._argument(a, names[i] if i < len(names) else f"arg{i}") for i, a in enumerate(args)]
            by_name = {k: self._argument(v, k) for k, v in kwargs.items()}
            check_annotations(function, bound, by_name)
        return [functools.partial(self._body, session, bound, by_name) for session in self.sessions]

    def _argument(self, value: Any, name: str) -> Any:
        parsed = self.params.nki < TRACED
        if parsed and isinstance(value, list) and self.params.lint != "off":
            warn(f"{self.name} gets a list as {name}, and the NKI compiler takes tuples: tuple({name})", LintWarning)
        if parsed and self.params.lint == "strict":
            _check_argument(self.name, value, name)
        return self.arguments.wrap(adopt_argument(self.kernel.function, value), name)

    @contextmanager
    def _locate_errors(self) -> Iterator[None]:
        """Name the kernel in errors of arguments and results, which belong to no instruction."""
        try:
            yield
        except KernelError as error:
            error.locate(self.sessions[0])
            raise

    def _body(self, session: Session, args: list[Any], kwargs: dict[str, Any]) -> Any:
        try:
            result = self.reach.call(self.kernel.function, args, kwargs)
            if session.machine is not None:
                session.machine.finish(session)
                check_triggered(session)
        except KernelError as error:
            error.locate(session, line=session.line_of(error))
            raise
        except TypeError:
            check_arguments(self.kernel.function, self.name, args, kwargs)
            raise
        else:
            if session.checks:
                for memory, most in session.lifetimes.check(session.target, spills=self.spills).items():
                    self.high_water[memory] = max(most, self.high_water.get(memory, 0))
            return result
        finally:
            session.lifetimes.close()

    def results(self, raw: list[Any]) -> Any:
        """One result from those of the cores, as the caller's kind of array."""
        if self.named is not None:
            self.named.check()
        with self._locate_errors():
            if self.params.checks:
                check_cores(self.sessions)
            for core, other in enumerate(raw[1:], 1):
                same_results(raw[0], core, other)
                for one, two in zip(tensors_in(raw[0]), tensors_in(other), strict=True):
                    self.arguments.merge(one, two, core)
            self.returned = [{t.storage.uid for t in same} for same in zip(*map(tensors_in, raw), strict=True)]
            self.arguments.check_write_back(raw[0])
            if self.params.checks:
                self.arguments.check_lost(raw[0])
                for storage in self.arguments.storages:
                    check_read(storage, self.sessions[0])
            return self.arguments.unwrap(raw[0])


def _parameter_names(function: Callable[..., Any]) -> list[str]:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return [] if code is None else list(code.co_varnames[: code.co_argcount])
