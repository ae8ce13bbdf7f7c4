"""One instruction on a 128×128 tile: what the simulator adds to NumPy's arithmetic, in microseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.registry import Bench, Case, Peer
from trnsim import isa, language as nl, targets
from trnsim.session import Session, SimParams, activate

TILE = (128, 128)
Issue = Callable[[dict[str, Any]], None]


class Issued:
    """An instruction ready to issue: a session, its tiles, and the same arithmetic on plain arrays."""

    def __init__(self, issue: Issue, bare: Issue, result: str) -> None:
        self.session = Session(SimParams(target=targets.target_named("trn2")))
        self.issue, self.bare, self.result = issue, bare, result
        generator = np.random.default_rng(0)
        with activate(self.session):
            self.tiles = {name: nl.ndarray(TILE, nl.float32, nl.sbuf) for name in ("a", "b", "dst")}
            self.tiles["ps"] = nl.ndarray(TILE, nl.float32, nl.psum)
            self.tiles["hbm"] = nl.ndarray(TILE, nl.float32, nl.hbm)
            for name in ("a", "b", "hbm"):
                tile = self.tiles[name]
                (isa.memset if tile.on_chip else _mark)(tile, 1.0)
                tile.array[...] = generator.standard_normal(TILE, dtype=np.float32)
        self.arrays = {name: np.array(t.array) for name, t in self.tiles.items()}

    def simulated(self) -> np.ndarray:
        with activate(self.session):
            self.issue(self.tiles)
        return self.tiles[self.result].array

    def plain(self) -> np.ndarray:
        self.bare(self.arrays)
        return self.arrays[self.result]


def _mark(tile: Any, value: float) -> None:
    tile.array[...] = value
    tile.storage.arena.marks = 1


def _matmul(t: dict[str, Any]) -> None:
    isa.nc_matmul(dst=t["ps"], stationary=t["a"], moving=t["b"], accumulate=False)


def _copy(t: dict[str, Any]) -> None:
    isa.tensor_copy(dst=t["dst"], src=t["a"])


def _add(t: dict[str, Any]) -> None:
    isa.tensor_tensor(dst=t["dst"], data1=t["a"], data2=t["b"], op=nl.add)


def _scale(t: dict[str, Any]) -> None:
    isa.tensor_scalar(dst=t["dst"], data=t["a"], op0=nl.multiply, operand0=2.0)


def _exp(t: dict[str, Any]) -> None:
    isa.activation(dst=t["dst"], op=nl.exp, data=t["a"])


def _load(t: dict[str, Any]) -> None:
    isa.dma_copy(dst=t["dst"], src=t["hbm"])


def _case(name: str, issue: Issue, bare: Issue, flops: int, result: str = "dst") -> Case:
    return Case(
        name=f"{name}, at most +25 µs",
        inputs=lambda: (Issued(issue, bare, result),),
        flops=flops,
        bytes=8 * TILE[0] * TILE[1],
        overhead=True,
    )


_ELEMENTS = TILE[0] * TILE[1]

BENCH = Bench(
    op="trnsim.instruction",
    run=Issued.simulated,
    tests="tests/trnsim/test_vector.py",
    cases=(
        _case("tensor_copy", _copy, lambda x: np.copyto(x["dst"], x["a"]), _ELEMENTS),
        _case("tensor_tensor add", _add, lambda x: np.add(x["a"], x["b"], out=x["dst"]), _ELEMENTS),
        _case(
            "tensor_scalar multiply",
            _scale,
            lambda x: np.multiply(x["a"], np.float32(2.0), out=x["dst"]),
            _ELEMENTS,
        ),
        _case("activation exp", _exp, lambda x: np.exp(x["a"], out=x["dst"]), _ELEMENTS),
        _case("dma_copy", _load, lambda x: np.copyto(x["dst"], x["hbm"]), _ELEMENTS),
        _case("nc_matmul", _matmul, lambda x: np.matmul(x["a"].T, x["b"], out=x["ps"]), 2 * 128**3, "ps"),
    ),
    peers=(Peer(name="NumPy", run=Issued.plain, devices=("cpu",)),),
    notes="Every row issues one instruction on 128×128 float32 tiles with all checks.",
    devices=("cpu",),
)
