"""Versions of NKI: which ones are simulated, and when each name came and went.

What has no row here has been there since 0.3. Versions of names, parameters and tensor attributes are those of the API
stubs of each release; `trnsim._lint.reference` reads the signatures themselves from the simulator's functions.
"""

from __future__ import annotations

from typing import Any

from trnsim.errors import WrongArgument, WrongVersion

Version = tuple[int, int]
VERSIONS: tuple[Version, ...] = ((0, 3), (0, 4), (0, 5), (0, 6), (0, 7))
FIRST, LATEST = VERSIONS[0], VERSIONS[-1]
# the first version that runs a kernel in Python to record it; older ones parse its source
TRACED: Version = (0, 7)

_LATER = {
    (0, 4): "abs_max abs_min activate2 bypass prelu",
    (0, 5): "average float8_e8m0fnu get_nc_sub_version",
    (0, 6): "DType NkiInstruction _TileSize all_gather_v fori_loop topk while_loop",
    (0, 7): "NkiBlockGrid NkiGrid NkiScalar NkiTileGrid all_gather_v_prepare all_gather_v_trigger all_to_all_v_prepare"
    " all_to_all_v_trigger alloc_blocks alloc_tiles blocks int64 scalar_load scalar_store tiles",
}
SINCE: dict[str, Version] = {name: version for version, names in _LATER.items() for name in names.split()}
SINCE["NkiTensor.data"] = TRACED
# the first version without a name, and what to write instead
GONE: dict[str, tuple[Version, str]] = {
    "dynamic_range": ((0, 7), "nl.fori_loop(lower, upper, body)"),
}
# parameters that came after their function
PARAMETERS: dict[str, dict[str, Version]] = {
    "dma_compute": {"oob_mode": (0, 4)},
    "dma_copy": {"priority": (0, 4)},
    "dma_transpose": {"priority": (0, 4)},
    "empty_like": {"address": (0, 7), "transpose_axes": (0, 7)},
    "tensor_scalar_reduce": {"reduce_cmd": (0, 4), "reduce_init": (0, 4), "reduce_res_negate": (0, 6)},
}
# the collectives gained these all at once
COLLECTIVE_PARAMETERS: dict[str, Version] = {"priority": (0, 4), "name": (0, 5)}
# methods and attributes of a tensor
TENSOR = {
    (0, 3): "__getitem__ reshape ap view get_pattern shape offset dtype buffer ndim size address",
    (0, 5): "broadcast expand_dim flatten_dims indirect is_contiguous is_indirect permute rearrange reinterpret_cast"
    " reshape_dim select slice squeeze_dim vector_select",
    (0, 6): "strides name",
    (0, 7): "data",
}


def version_text(version: Version) -> str:
    """Return a version as it is written: ``"0.4"``."""
    return f"{version[0]}.{version[1]}"


def as_version(value: Any) -> Version:
    """Return the version of NKI meant by ``"0.6"``, ``"0.6.0"`` or ``(0, 6)``; ``None`` is the latest."""
    if value is None:
        return LATEST
    parts = str(value).split(".") if not isinstance(value, tuple) else [str(part) for part in value]
    version = tuple(int(part) for part in parts[:2]) if all(part.isdecimal() for part in parts) else ()
    if version not in VERSIONS:
        known = [version_text(version) for version in VERSIONS]
        raise WrongArgument(f"nki={value!r}", "nki-version", value, known, f"use one of {', '.join(known)}")
    return version


def check_version(name: str, version: Version) -> None:
    """Raise unless NKI ``version`` has the function or instruction ``name``."""
    gone, instead = GONE.get(name, ((9, 9), ""))
    since = SINCE.get(name, FIRST)
    if since <= version < gone:
        return
    shown = version_text(version)
    if version < since:
        text, hint = f"{name} came with NKI {version_text(since)}", f'simulate with nki="{version_text(since)}"'
    else:
        text, hint = f"{name} is gone from NKI {version_text(gone)} on", f"use {instead}"
    raise WrongVersion(f"{text}, and the kernel runs as NKI {shown}", "nki-version", shown, name, hint)
