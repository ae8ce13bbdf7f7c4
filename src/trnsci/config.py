"""Every environment variable the suite reads, as data. No other module reads the environment."""

import functools
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

from trnsci import libraries
from trnsci.console import shorter
from trnsci.errors import ArgumentError

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
D = TypeVar("D")

BackendName = Literal["auto", "nki", "simulator", "pytorch"]
TargetName = Literal["trn1", "trn2", "trn3"]

# Seconds that a rank may be told to wait: three years.
LONGEST_WAIT = 100_000_000
BACKENDS: tuple[BackendName, ...] = ("auto", "nki", "simulator", "pytorch")
TARGETS: tuple[TargetName, ...] = get_args(TargetName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Generic[T_co]):
    """One variable: its name, accepted values in words, default and meaning; ``get()`` reads it now."""

    name: str
    accepts: str
    default: T_co
    meaning: str
    parse: Callable[[str], T_co | None]

    def get(self) -> T_co:
        """Return the value in the environment, or the default when the variable is unset or empty."""
        text = os.environ.get(self.name, "").strip()
        if not text:
            return self.default
        value = self.parse(text)
        if value is None:
            raise ArgumentError("trnsci.config", self.name, shorter(text, 40), self.accepts)
        return value

    @property
    def is_set(self) -> bool:
        """Whether the environment says anything."""
        return bool(os.environ.get(self.name, "").strip())


_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def _flag(text: str) -> bool | None:
    word = text.lower()
    return True if word in _TRUE else False if word in _FALSE else None


def _path(text: str) -> Path | None:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        # ~ without a home, or of nobody
        return None


def _user_cache() -> Path:
    """Return the cache folder of this user; without a home, a folder for temporary files that is this user's own."""
    return _path("~/.cache/trnsci") or Path(tempfile.gettempdir()) / f"trnsci-{os.geteuid()}"


def _flag_setting(name: str, meaning: str) -> Setting[bool]:
    return Setting(name=name, accepts="0 or 1", default=False, meaning=meaning, parse=_flag)


def _choice_setting(name: str, choices: tuple[T, ...], default: D, meaning: str) -> Setting[T | D]:
    def parse(text: str) -> T | None:
        return next((choice for choice in choices if str(choice) == text), None)

    accepts = " | ".join(map(str, choices))
    return Setting(name=name, accepts=accepts, default=default, meaning=meaning, parse=parse)


def _path_setting(name: str, accepts: str, default: D, meaning: str) -> Setting[Path | D]:
    return Setting(name=name, accepts=accepts, default=default, meaning=meaning, parse=_path)


def _count_setting(name: str, default: int, meaning: str, least: int = 0, most: int = sys.maxsize) -> Setting[int]:
    def parse(text: str) -> int | None:
        value = _integer(text)
        return value if value is not None and least <= value <= most else None

    accepts = "a non-negative integer" if (least, most) == (0, sys.maxsize) else f"an integer from {least} to {most}"
    return Setting(name=name, accepts=accepts, default=default, meaning=meaning, parse=parse)


def _integer(text: str) -> int | None:
    """Return a number of up to 19 digits; longer ones are no counts, and Python refuses to convert some."""
    return int(text) if text.isdecimal() and len(text) < 20 else None


BACKEND: Setting[BackendName] = _choice_setting(
    "TRNSCI_BACKEND", BACKENDS, "auto", "Backend of every library that is not told otherwise."
)
TARGET: Setting[TargetName] = _choice_setting(
    "TRNSCI_TARGET",
    TARGETS,
    "trn2",
    "Hardware generation the simulator imitates; on a Neuron host the one found is used for predictions.",
)
CACHE_DIR = _path_setting(
    "TRNSCI_CACHE_DIR",
    "a directory",
    _user_cache(),
    "Where the calibration of the host and pages of demonstrations are kept.",
)
PLAN_CACHE_COUNT = _count_setting("TRNSCI_PLAN_CACHE_COUNT", 1024, "Plans kept at most.")
PLAN_CACHE_BYTES = _count_setting(
    "TRNSCI_PLAN_CACHE_BYTES", 256 << 20, "Bytes that kept plans and their tables may hold at most."
)
KERNEL_CACHE_COUNT = _count_setting("TRNSCI_KERNEL_CACHE_COUNT", 256, "Compiled kernels kept at most.")
PROGRAM_MATMULS = _count_setting(
    "TRNSCI_PROGRAM_MATMULS", 10_000, "Matmuls one program may have; larger work is several launches of smaller ones."
)
PROGRAM_INSTRUCTIONS = _count_setting(
    "TRNSCI_PROGRAM_INSTRUCTIONS", 30_000, "Instructions one program may have, likewise."
)
LOGICAL_CORES = _choice_setting(
    "NEURON_LOGICAL_NC_CONFIG",
    (1, 2),
    1,
    "Cores of a logical core, a variable of AWS's, read when torch is imported. Every kernel runs on either. On a "
    "Neuron host the default is AWS's, 2 from trn2 on; trnsci run, launch and validate set it for what they start.",
)
_cores_at_import = os.environ.get("NEURON_LOGICAL_NC_CONFIG", "").strip()
EMULATE = _choice_setting(
    "TRNSCI_EMULATE",
    TARGETS,
    None,
    "Emulate a device of this generation where there is none: kernels run on the simulator, times are predicted.",
)
DISTRIBUTED_TIMEOUT = _count_setting(
    "TRNSCI_DISTRIBUTED_TIMEOUT",
    300,
    "Seconds a rank waits for a message of another before it raises RankFailed.",
    least=1,
    most=LONGEST_WAIT,
)


class LibrarySettings(NamedTuple):
    """The three variables every library has."""

    force_backend: Setting[BackendName | None]
    require_nki: Setting[bool]
    use_simulator: Setting[bool]


@functools.cache
def library_settings(name: str) -> LibrarySettings:
    """Return the settings of a library."""
    prefix = name.upper()
    kernels = f"{name}: every call must run its NKI kernel; a call it cannot take is an error."
    return LibrarySettings(
        _choice_setting(f"{prefix}_FORCE_BACKEND", BACKENDS, None, f"Backend of {name}; wins over TRNSCI_BACKEND."),
        _flag_setting(f"{prefix}_REQUIRE_NKI", kernels),
        _flag_setting(f"{prefix}_USE_SIMULATOR", f"{name}: run NKI kernels on the simulator."),
    )


def settings() -> tuple[Setting[object], ...]:
    """Return every setting: the runtime's own, and three of each library that is announced."""
    return (
        *(BACKEND, TARGET, CACHE_DIR, PLAN_CACHE_COUNT, PLAN_CACHE_BYTES, KERNEL_CACHE_COUNT, DISTRIBUTED_TIMEOUT),
        *(PROGRAM_MATMULS, PROGRAM_INSTRUCTIONS, LOGICAL_CORES, EMULATE),
        *(setting for name in libraries.names() for setting in library_settings(name)),
    )


def set_logical_cores(cores: int) -> None:
    """Set the cores of a logical core for AWS's libraries, which torch loads after this, and for child processes."""
    global _cores_at_import
    os.environ[LOGICAL_CORES.name] = _cores_at_import = str(cores)


def set_compile_caches(folder: Path) -> None:
    """Set where AWS's libraries keep compiled programs, for this process and its children, unless it is set."""
    for variable, name in _COMPILE_CACHES.items():
        if not os.environ.get(variable):
            os.environ[variable] = str(folder / name)
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)


_COMPILE_CACHES = {
    "NKI_COMPILE_CACHE_URL": "kernels",
    "TORCH_NEURONX_NEFF_CACHE_DIR": "programs",
    "TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR": "programs",
    "TORCH_NEURONX_HLO_CACHE_DIR": "graphs",
}


def logical_cores_at_import() -> int | None:
    """Return what the environment said of logical cores when torch was imported; ``None`` where it said nothing."""
    return int(_cores_at_import) if _cores_at_import in ("1", "2") else None


def late_logical_cores() -> str:
    """Say that the variable was changed too late for this process, and what to do; empty where it was not."""
    now = os.environ.get(LOGICAL_CORES.name, "").strip()
    if now == _cores_at_import:
        return ""
    return (
        f"{LOGICAL_CORES.name} is {now or 'unset'} now and was {_cores_at_import or 'unset'} when torch was imported, "
        "which is what this process keeps. Set it before Python starts, or start the program with trnsci run"
    )


def backend_variables(libraries: tuple[str, ...]) -> tuple[Any, ...]:
    """Return what the environment says now about the backends of these libraries and of the suite, unparsed.

    Every dispatch asks, so the mapping behind ``os.environ`` is read without its conversions.
    """
    names = _backend_names(libraries)
    return () if _ENVIRONMENT.keys().isdisjoint(names) else tuple(map(_ENVIRONMENT.get, names))


_ENVIRONMENT: dict[Any, Any] = os.environ._data  # type: ignore[attr-defined]


@functools.cache
def _backend_names(libraries: tuple[str, ...]) -> tuple[Any, ...]:
    names = [BACKEND.name]
    for name in libraries:
        names += [setting.name for setting in library_settings(name)]
    return tuple(os.environ.encodekey(name) for name in names)


class Place(NamedTuple):
    """Where a launcher put this process, from the variables torchrun sets too."""

    rank: int
    local_rank: int
    size: int
    address: str
    port: int


def launch_place() -> Place | None:
    """Return where a launcher put this process, or ``None`` when nothing launched it."""
    if "RANK" not in os.environ:
        return None
    rank, size, port, local = *map(_launcher_number, ("RANK", "WORLD_SIZE", "MASTER_PORT")), launched_rank() or 0
    for name, value, most in (("RANK", rank, size - 1), ("MASTER_PORT", port, (1 << 16) - 1)):
        if value > most:
            raise ArgumentError("mesh", name, value, f"at most {most}, as a launcher sets it")
    return Place(rank, local, size, os.environ.get("MASTER_ADDR", ""), port)


def _launcher_number(name: str, default: str = "") -> int:
    """Return a number that a launcher has put into the environment."""
    text = os.environ.get(name, default)
    value = _integer(text)
    if value is None:
        raise ArgumentError("mesh", name, shorter(text, 40), "a number, as a launcher sets it")
    return value


def launched_here() -> int:
    """Return how many ranks torchrun started on this machine; 1 when nothing launched this process."""
    return _launcher_number("LOCAL_WORLD_SIZE", "1")


def launched_rank() -> int | None:
    """Return the index on this machine that a launcher gave this process, or ``None`` when nothing launched it."""
    return _launcher_number("LOCAL_RANK", "0") if "RANK" in os.environ else None


def launcher_holds_store() -> bool:
    """Return whether the store that ranks meet in is the launcher's; otherwise rank 0 holds it."""
    return os.environ.get(_AGENT) == "True"


def restarts() -> int:
    """Return how often `trnsci launch` has started this program again after a rank failed."""
    return _launcher_number(_RESTARTS, "0")


def use_interface(name: str) -> None:
    """Let gloo and nccl listen on one interface, unless the environment names another."""
    for variable in _INTERFACES:
        os.environ.setdefault(variable, name)


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that is started here: this one's, and what is its own."""
    return {**os.environ, **own}


def rank_variables(place: Place, local_size: int, threads: int, interface: str, restarts: int) -> dict[str, str]:
    """Return what tells a rank where it is."""
    own = {
        "RANK": place.rank,
        "LOCAL_RANK": place.local_rank,
        "WORLD_SIZE": place.size,
        "LOCAL_WORLD_SIZE": local_size,
        "MASTER_ADDR": place.address,
        "MASTER_PORT": place.port,
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        _AGENT: True,
        _RESTARTS: restarts,
        **dict.fromkeys(_INTERFACES, interface),
    }
    # one core a rank, and the network cards of a cluster; what the environment says itself counts
    meeting = f"{place.address}:{place.port + 1}"
    neuron: dict[str, object] = {"NEURON_RT_VISIBLE_CORES": place.local_rank, "NEURON_RT_ROOT_COMM_ID": meeting}
    if local_size < place.size:
        neuron |= {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": 1, "FI_EFA_FORK_SAFE": 1}
    own |= {name: value for name, value in neuron.items() if name not in os.environ}
    return {name: str(value) for name, value in own.items()}


_AGENT, _RESTARTS = "TORCHELASTIC_USE_AGENT_STORE", "TRNSCI_LAUNCH_RESTARTS"
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
