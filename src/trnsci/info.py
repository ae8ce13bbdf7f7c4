"""Devices and packages of this machine, and the backends they admit: the facts behind ``trnsci info``."""

import platform
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import trnsci
from trnsci import backends, config, libraries, loops, neuron
from trnsci.caches import CACHE, KERNELS
from trnsci.console import Table
from trnsci.errors import ArgumentError
from trnsci.plans import plans, quantity
from trnsim.targets import TARGETS

PACKAGES = ("torch", "numpy", "ml_dtypes", "opt_einsum", "scipy", "pyscf", "h5py", "cotengra", "perfetto", "rich")
NEURON_PACKAGES = ("nki", "neuronxcc", "torch_neuronx", "torch_xla")


@dataclass(frozen=True, slots=True)
class Backend:
    """One backend of this machine; ``detail`` says what it runs on, or why it cannot."""

    name: str
    available: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Library:
    """One importable library of the suite and the backend its calls ask for, with who asked."""

    name: str
    backend: str
    source: str


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable: the ``value`` in force, or the text refused and the ``problem`` with it."""

    name: str
    value: str
    is_set: bool
    accepts: str
    meaning: str
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """Everything ``trnsci info`` prints, as values."""

    versions: dict[str, str]
    targets: dict[str, dict[str, object]]
    backends: list[Backend]
    libraries: list[Library]
    caches: dict[str, str]
    settings: list[Variable]
    probes: dict[str, str]

    def to_dict(self) -> dict[str, object]:
        """Return the facts as plain dicts and lists."""
        return asdict(self)

    def tables(self) -> list[Table]:
        """Return the facts as tables."""
        probed = [Table("Self-tests", ("test", "finding"), list(self.probes.items()))] if self.probes else []
        return [
            *probed,
            Table("Versions", ("package", "version"), list(self.versions.items())),
            Table(
                "Backends",
                ("backend", "here", "detail"),
                [(b.name, "yes" if b.available else "no", b.detail) for b in self.backends],
            ),
            Table(
                "Libraries", ("library", "backend", "set by"), [(x.name, x.backend, x.source) for x in self.libraries]
            ),
            Table(
                "Targets the simulator knows",
                ("target", *next(iter(self.targets.values()))),
                [(name, *map(str, facts.values())) for name, facts in self.targets.items()],
            ),
            Table("Caches", ("cache", "state"), list(self.caches.items())),
            Table(
                "Settings",
                ("variable", "value", "from", "accepts", "meaning"),
                [
                    (s.name, s.value, "environment" if s.is_set else "default", s.accepts, s.problem or s.meaning)
                    for s in self.settings
                ],
            ),
        ]


def info(*, probe: bool = False) -> Info:
    """Look at this machine and this process; ``probe`` runs the self-tests of libraries that have some."""
    return Info(
        versions=_versions(),
        targets=_targets(),
        backends=_backends(),
        libraries=_libraries(),
        caches=_caches(),
        settings=[_variable(setting) for setting in config.settings()],
        probes=_probes() if probe else {},
    )


def _probes() -> dict[str, str]:
    """Return what each library's ``probe()`` found, on the device if there is one, else on the simulator."""
    findings: dict[str, str] = {}
    for name, module in libraries.load().items():
        run = getattr(module, "probe", None)
        if run is not None:
            findings |= {f"{name}.{test}": finding for test, finding in run().items()}
    return findings


def _installed_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _versions() -> dict[str, str]:
    python = f"{platform.python_version()} on {platform.platform(terse=True)}"
    installed = {name: _installed_version(name) for name in PACKAGES + NEURON_PACKAGES}
    return {"trnsci": trnsci.__version__, "Python": python, **installed}


def _targets() -> dict[str, dict[str, object]]:
    return {
        name: {
            "cores": target.cores,
            "HBM": f"{target.hbm_bytes / 2**30:g} GiB",
            "SBUF per core": f"{target.sbuf_partition_bytes * target.partitions / 2**20:g} MiB",
            "PSUM per core": f"{target.psum_partition_bytes * target.partitions / 2**20:g} MiB",
            "clock (GHz)": ", ".join(f"{engine} {clock:g}" for engine, clock in target.clock_ghz.items()),
        }
        for name, target in TARGETS.items()
    }


def _backends() -> list[Backend]:
    import torch

    cuda = f" and {torch.cuda.get_device_name()}" if torch.cuda.is_available() else "; no NVIDIA GPU"
    target = _variable(config.TARGET).value
    device = neuron.device()
    why = loops.why_not()
    compiled = "host loops in C" if why is None else f"no host loops in C: {why}"
    there = neuron.why_no_device()
    if device:
        pair = f"{device.cores} core{'s' if device.cores > 1 else ''} to a logical core"
        late = config.late_logical_cores()
        there = f"{device.target} as a {device.kind} device, {pair}" + (f"; too late: {late}" if late else "")
    return [
        Backend("pytorch", True, f"CPU, {torch.get_num_threads()} threads{cuda}; {compiled}"),
        Backend("simulator", True, f"trnsim, imitating {target}"),
        Backend("nki", device is not None, there),
    ]


def _libraries() -> list[Library]:
    present = []
    for name in libraries.load():
        try:
            choice = backends.library(name).choice()
        except ArgumentError as error:
            present.append(Library(name, "error", str(error)))
            continue
        present.append(Library(name, choice.name, choice.source))
    return present


def _caches() -> dict[str, str]:
    folder = config.CACHE_DIR.get()
    kept = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    size = sum(path.stat().st_size for path in kept)
    return {
        "plans": f"{len(plans())} plans, {quantity(CACHE.nbytes, 'B')} in this process",
        "kernels": f"{len(KERNELS.list())} prepared in this process",
        str(folder): f"{len(kept)} files, {quantity(size, 'B')}" if kept else "empty",
    }


def _variable(setting: config.Setting[Any]) -> Variable:
    problem = ""
    try:
        value = setting.get()
    except ArgumentError as error:
        value, problem = error.got, str(error)
    shown = "" if value is None else str(int(value)) if isinstance(value, bool) else str(value)
    return Variable(setting.name, shown, setting.is_set, setting.accepts, setting.meaning, problem)
