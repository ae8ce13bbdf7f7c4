"""Every name of the NKI reference exists, with the reference's parameters, and the page that says so is up to date.

The names, parameters and versions are the reference's (NKI 0.3 to 0.7), kept in `tests.trnsim.nki_reference`. Run this
file to write ``docs/reference/nki-api.md``: ``python -m tests.trnsim.test_api_table``.
"""

import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest

import trnsim
import trnsim.collectives
from tests.together import together
from tests.trnsim.nki_reference import (
    COLLECTIVES,
    COUNTS,
    ISA,
    LANGUAGE,
    LATER,
    LATER_COLLECTIVES,
    TENSOR,
    TILE_SIZE,
    rows,
)
from trnsim import isa, language
from trnsim._lint.reference import Entry, reference
from trnsim.errors import HardwareLimit
from trnsim.language.results import Operator
from trnsim.tensors.dtypes import PACKED, ExtraDtype
from trnsim.versions import GONE, version_text

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "nki-api.md"
TARGETS = {"trn1": 2, "trn2": 3, "trn3": 4}

ENUMS = {
    "engine": {"unknown": 0, "tensor": 1, "scalar": 2, "gpsimd": 3, "dma": 4, "vector": 5, "sync": 6},
    "reduce_cmd": {"idle": 0, "reset": 1, "reduce": 2, "reset_reduce": 3, "load_reduce": 4},
    "dge_mode": {"unknown": 0, "swdge": 1, "hwdge": 2, "none": 3},
    "oob_mode": {"error": 0, "skip": 1},
    "matmul_perf_mode": {"none": "none", "double_row": "double_row"},
    "nc_version": {"gen2": 2, "gen3": 3, "gen4": 4},
    "dma_engine": {"dma": 1, "gpsimd_dma": 2},
}
# first generation, where the reference names one
SINCE = {
    "trn2": "range_select nonzero_with_count rand_set_state rand_get_state core_barrier sendrecv",
    "trn3": "activate2 exponential rand2 nc_matmul_mx quantize_mx abs_max abs_min indirect",
}
DEPRECATED = {
    *(f"{e}_engine" for e in ("tensor", "vector", "scalar", "gpsimd", "unknown")),
    *("affine_range", "sequential_range", "static_range"),
    *("psum_fmax", "total_available_sbuf_size"),
}
SIMULATION_ONLY = {"divide", "fmod", "mod"}
SPACES = {
    "nki.language": (language, LANGUAGE),
    "nki.isa": (isa, ISA),
    "nki.collectives": (trnsim.collectives, COLLECTIVES),
    "NkiTensor": (language.NkiTensor, TENSOR),
    "nki.language.tile_size": (type(language.tile_size), TILE_SIZE),
}


ALL = [(space, *row) for space, (_, block) in SPACES.items() for row in rows(block)]


def found(space, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return getattr(SPACES[space][0], name)


def generation(name):
    return next((TARGETS[t] for t, names in SINCE.items() if name in names.split()), 2)


def test_the_lists_are_complete():
    counts = {space: sum(1 for s, *_ in ALL if s == space) for space in SPACES}
    assert counts == COUNTS


@together(("space", "name", "version", "kind", "parameters"), ALL)
def test_every_name_exists_with_its_parameters(space, name, version, kind, parameters):
    thing = found(space, name)
    if kind == "class":
        assert isinstance(thing, type)
    elif kind == "function":
        assert callable(thing)
        ours = [p for p in inspect.signature(thing).parameters if p != "self"]
        if ours != ["shape"] or parameters != ["shape"]:
            assert ours[: len(parameters)] == parameters, f"{name}{inspect.signature(thing)}"


def versions(text):
    return tuple(map(int, text.split(".")))


@together("space", ["language", "isa", "collectives"])
def test_the_linter_knows_the_references_names_parameters_and_versions(space):
    """It takes them from the simulator's own signatures, so that nothing of the simulator alone may get in."""
    expected = {}
    for _, name, version, kind, parameters in [row for row in ALL if row[0] == f"nki.{space}"]:
        later = LATER_COLLECTIVES if space == "collectives" else LATER.get(name, {})
        ages = {p: max(versions(version), versions(later.get(p, version))) for p in parameters or []}
        expected[name] = Entry(name, versions(version), ages if kind == "function" else None)
    assert reference()[space] == expected


def test_the_linter_knows_the_references_tensor():
    expected = {name: Entry(name, versions(version)) for name, version, *_ in rows(TENSOR)}
    assert reference()["tensor"] == expected


@together("name", [n for space, n, *_ in ALL if space in ("nki.language", "nki.isa", "nki.collectives")])
def test_instructions_know_their_first_generation(name):
    things = [getattr(m, name, None) for m in (language, isa) if name not in DEPRECATED]
    for thing in things:
        if callable(thing) and not isinstance(thing, type):
            assert getattr(thing, "__nki_since__", 2) == generation(name)


@together("name", ENUMS)
def test_enums_have_the_references_members(name):
    assert {m.name: m.value for m in getattr(isa, name)} == ENUMS[name]


def test_public_lists_name_what_exists():
    for module in (language, isa, trnsim.collectives):
        assert sorted(set(module.__all__)) == sorted(module.__all__)
        for name in module.__all__:
            assert hasattr(module, name)
    for space, name, *_ in ALL:
        if space in ("nki.language", "nki.isa"):
            assert name in SPACES[space][0].__all__ or name in DEPRECATED


@together("name", sorted(n for n in DEPRECATED if n.endswith("_engine")))
def test_engine_constants_warn(name):
    with pytest.warns(DeprecationWarning, match=f"nki.isa.engine.{name.removesuffix('_engine')}"):
        assert getattr(isa, name) is isa.engine[name.removesuffix("_engine")]


def test_other_deprecated_names_warn():
    with pytest.warns(DeprecationWarning, match="affine_range"):
        assert list(language.affine_range(3)) == [0, 1, 2]
    with pytest.warns(DeprecationWarning, match="sequential_range"):
        assert list(language.sequential_range(1, 5, 2)) == [1, 3]
    with pytest.warns(DeprecationWarning, match="static_range"):
        assert list(language.static_range(2)) == [0, 1]
    for name in ("psum_fmax", "total_available_sbuf_size"):
        with pytest.warns(DeprecationWarning, match=name):
            assert getattr(language.tile_size, name) > 0


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_instruction"):
        isa.no_such_instruction  # noqa: B018


def test_names_older_than_the_reference_say_what_replaced_them():
    with pytest.raises(AttributeError, match=r"mgrid.*slices"):
        language.mgrid  # noqa: B018
    assert not hasattr(language, "no_such_function")


def test_validation_errors_are_hardware_limits():
    assert isa.NkiValidationError is HardwareLimit


def test_versions_follow_the_target():
    seen = []
    for target, gen in TARGETS.items():
        trnsim.simulate(lambda: seen.append(isa.get_nc_version()), target=target, lint="off")()
        assert seen[-1] is isa.nc_version(gen)
    assert isa.nc_version.gen2 < isa.nc_version.gen3 <= isa.nc_version.gen4
    assert isa.get_nc_sub_version() == 0


def status(space, name, target):
    """What a kernel gets from ``name`` on ``target``."""
    thing = found(space, name)
    since = getattr(thing, "__nki_since__", 2)
    if isinstance(thing, ExtraDtype) and thing in PACKED and target != "trn3":
        return "storage only"
    if space == "NkiTensor":
        since = generation(name)
    if TARGETS[target] < since:
        return "–"
    if name in SIMULATION_ONLY and space == "nki.language":
        return "simulation only"
    if name in GONE:
        return f"until {version_text(GONE[name][0])}"
    return "deprecated" if name in DEPRECATED else "yes"


def meaning(space, name, kind):
    """The first sentence of the docstring, or what kind of constant it is."""
    thing = found(space, name)
    if kind == "attribute" and space == "NkiTensor":
        return ""
    if isinstance(thing, Operator):
        return f"Operator: {thing.hint}."
    if isinstance(thing, (np.dtype, ExtraDtype)):
        return f"Data type of {thing.itemsize} byte{'s' * (thing.itemsize > 1)}."
    if kind == "constant" and not callable(thing):
        return {"MemoryRegion": "Memory.", "engine": "Engine."}.get(type(thing).__name__, "What describes a data type.")
    first = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
    return first.replace("``", "`")


def page():
    """The reference table, written from the code."""
    lines = [
        "# NKI API coverage",
        "",
        "Every name of the NKI reference (0.3 to 0.7) and what the simulator does with it on each target.",
        "*yes* runs with the documented semantics and rules, *–* is refused there with an error that names the first",
        "generation that has it, *until* is gone from that version on, *deprecated* runs with a warning, *simulation",
        "only* runs with a warning because no",
        "hardware has it, *storage only* can be kept and moved, but no instruction there computes with it.",
        "The page is written from the code; a test fails when a name is missing.",
    ]
    for space in SPACES:
        lines += [
            "",
            f"## {space}",
            "",
            "| name | since NKI | trn1 | trn2 | trn3 | meaning |",
            "|---|---|---|---|---|---|",
        ]
        entries = [(n, v, k) for s, n, v, k, _ in ALL if s == space]
        for name, version, kind in sorted(entries, key=lambda e: e[0].lower()):
            cells = [status(space, name, t) for t in TARGETS]
            lines.append(f"| `{name}` | {version} | {' | '.join(cells)} | {meaning(space, name, kind)} |")
    return "\n".join(lines) + "\n"


def test_the_page_is_up_to_date():
    assert PAGE.exists(), "write it: python -m tests.trnsim.test_api_table"
    assert PAGE.read_text(encoding="utf-8") == page(), "the code changed: python -m tests.trnsim.test_api_table"


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
