"""Colours of rows beside networkx, which follows the same rule."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

import trnsparse
from benchmarks.registry import Bench, Case, Peer
from benchmarks.trnsparse._patterns import scattered


def _case(side: int, density: float) -> Case:
    entries = round(side * side * density)
    name = f"{side}x{side} {density:.2%}"
    return Case(name=name, inputs=lambda: (scattered(side, side, density),), flops=2 * entries, bytes=8 * entries)


def _graph(a: trnsparse.CSRMatrix) -> tuple[Any]:
    pattern = a.to_scipy()
    graph = nx.from_scipy_sparse_array(pattern + pattern.T)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return (graph,)


def _colored(graph: Any) -> np.ndarray:
    colors = nx.greedy_color(graph, strategy="largest_first")
    return np.array([colors[node] for node in sorted(graph)])


BENCH = Bench(
    op="trnsparse.coloring",
    run=lambda a: trnsparse.coloring(a).colors,
    tests="tests/trnsparse/test_transforms.py",
    cases=(_case(2000, 0.005), _case(20000, 0.0005)),
    peers=(Peer(name="networkx", run=_colored, prepare=_graph, requires="networkx", devices=("cpu",)),),
    # A row on the diagonal counts as a neighbour of itself in our degrees, so that ties fall differently.
    comparable=None,
    notes="It runs on the host and has no kernel: each colour depends on those before.",
    devices=("cpu",),
)
