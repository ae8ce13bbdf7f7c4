"""Flowcharts of the pages as inline SVG, drawn while the site is built: no script, and nothing from another host.

Pages keep Mermaid's notation, which readers of the repository see drawn as well. What is understood of it:
``flowchart LR``, ``subgraph``, boxes ``id["text"]``, stores ``id[("text")]``, arrows ``-->`` and ``-.->`` with
``|label|``, chains, and ``a & b --> c``. Anything else is refused.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field
from html import escape
from typing import Any

LETTER, LINE, PAD, GAP_X, GAP_Y, WRAP = 6.5, 16, 11, 30, 14, 15
NODE = re.compile(r"(\w+)(?:\[\(\"(?P<store>.*?)\"\)\]|\[\"(?P<quoted>.*?)\"\]|\[(?P<plain>[^\]\"(]*)\])?")
ARROW = re.compile(r"\s*(-->|-\.->)(?:\|([^|]*)\|)?\s*")
STYLE = (
    "--ink: var(--md-typeset-color, #1f2430); --line: var(--md-default-fg-color--light, #5b6270); "
    "--box: var(--md-code-bg-color, #f3f4f7); --paper: var(--md-default-bg-color, #fff); width: {width:.0f}px"
)


@dataclass
class Node:
    """A box: its text in lines, and where it stands."""

    lines: list[str]
    store: bool = False
    rank: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return max(map(len, self.lines)) * LETTER + 2 * PAD

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + 2 * PAD - 4


@dataclass
class Group:
    """A frame with a title, its boxes in the order they are named, and the arrows between them."""

    title: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    arrows: list[tuple[str, str, str, bool]] = field(default_factory=list)

    def place(self) -> tuple[float, float]:
        """Give every box its position: columns by the longest path to it; return width and height."""
        back = self.backward()
        for _ in self.nodes:
            for start, end, _label, _dotted in self.arrows:
                if (start, end) not in back:
                    self.nodes[end].rank = max(self.nodes[end].rank, self.nodes[start].rank + 1)
        columns: dict[int, list[Node]] = {}
        for node in self.nodes.values():
            columns.setdefault(node.rank, []).append(node)
        tall = max(sum(n.height for n in c) + GAP_Y * (len(c) - 1) for c in columns.values())
        x = 0.0
        for rank in sorted(columns):
            column = columns[rank]
            wide = max(n.width for n in column)
            y = (tall - sum(n.height for n in column) - GAP_Y * (len(column) - 1)) / 2
            for node in column:
                node.x, node.y = x + (wide - node.width) / 2, y
                y += node.height + GAP_Y
            labels = [label for a, _, label, _ in self.arrows if self.nodes[a].rank == rank and label]
            x += wide + GAP_X + max((len(label) * LETTER for label in labels), default=0.0) * (not back)
        return x - GAP_X, tall + (30 if back else 0)

    def backward(self) -> set[tuple[str, str]]:
        """Arrows that lead back to a box on the path to them."""
        found: set[tuple[str, str]] = set()
        done: set[str] = set()

        def walk(name: str, above: tuple[str, ...]) -> None:
            done.add(name)
            for start, end, *_ in self.arrows:
                if start == name and end in (*above, name):
                    found.add((start, end))
                elif start == name and end not in done:
                    walk(end, (*above, name))

        for name in self.nodes:
            if name not in done:
                walk(name, ())
        return found


def parse(source: str) -> list[Group]:
    """Read a flowchart: one group for each subgraph, or one for all."""
    first, *lines = [line.strip() for line in source.strip().splitlines()]
    if first != "flowchart LR":
        raise ValueError(f"a diagram is a 'flowchart LR', this one is {first!r}")
    groups: list[Group] = []
    current = Group()
    for line in lines:
        frame = re.fullmatch(r'subgraph \w+\["(.*)"\]', line)
        if frame:
            current = Group(title=frame[1])
        elif line == "end":
            groups.append(current)
            current = Group()
        elif line and line != "direction LR":
            _statement(current, line)
    return [*groups, current] if current.nodes else groups


def _statement(group: Group, line: str) -> None:
    """Read ``a --> b & c -->|label| d["text"]``."""
    names, at = _nodes(group, line, 0)
    while at < len(line):
        arrow = ARROW.match(line, at)
        if not arrow:
            raise ValueError(f"not understood: {line[at:]!r} in {line!r}")
        ends, at = _nodes(group, line, arrow.end())
        group.arrows += [(a, b, arrow[2] or "", arrow[1] == "-.->") for a in names for b in ends]
        names = ends


def _nodes(group: Group, line: str, at: int) -> tuple[list[str], int]:
    names = []
    while True:
        found = NODE.match(line, at)
        if not found:
            raise ValueError(f"a box was expected: {line[at:]!r} in {line!r}")
        text = found["store"] or found["quoted"] or found["plain"]
        if text or found[1] not in group.nodes:
            lines = textwrap.wrap(text or found[1], WRAP, break_long_words=False, break_on_hyphens=False)
            group.nodes[found[1]] = Node(lines, bool(found["store"]))
        names.append(found[1])
        at = found.end()
        if not line.startswith(" & ", at):
            return names, at
        at += 3


def svg(source: str) -> str:
    """Draw a flowchart."""
    parts: list[str] = []
    groups = parse(source)
    sizes = [group.place() for group in groups]
    inside = max(max(width, len(group.title) * LETTER) for group, (width, _) in zip(groups, sizes, strict=True))
    wide = inside + (24 if groups[0].title else 4)
    y = 4.0
    for group, (_, height) in zip(groups, sizes, strict=True):
        frame = 26 if group.title else 0
        inner = 12 if group.title else 2
        parts += _framed(group, y, inside, height) if group.title else []
        parts.append(f'<g transform="translate({inner:.1f} {y + frame + inner:.1f})">')
        parts += [*_arrows(group), *_boxes(group), "</g>"]
        y += height + frame + 2 * inner + 12
    head = (
        f'<svg class="diagram" viewBox="-3 0 {wide + 6:.0f} {y:.0f}" style="{STYLE.format(width=wide + 6)}" '
        'font-family="system-ui, sans-serif" font-size="12" role="img"><defs><marker id="tip" markerWidth="7" '
        'markerHeight="7" refX="6" refY="3.5" orient="auto"><path d="M0 0L7 3.5L0 7z" style="fill:var(--line)"/>'
        "</marker></defs>"
    )
    return head + "".join(parts) + "</svg>"


def _framed(group: Group, y: float, width: float, height: float) -> list[str]:
    return [
        f'<rect x="0" y="{y:.1f}" width="{width + 24:.1f}" height="{height + 46:.1f}" rx="7" '
        'style="fill:none;stroke:var(--line);stroke-opacity:.45"/>',
        f'<text x="12" y="{y + 20:.1f}" font-weight="600" style="fill:var(--ink)">{escape(group.title)}</text>',
    ]


def _boxes(group: Group) -> list[str]:
    parts = []
    for node in group.nodes.values():
        parts.append(
            f'<rect x="{node.x:.1f}" y="{node.y:.1f}" width="{node.width:.1f}" height="{node.height:.1f}" '
            f'rx="{node.height / 2 if node.store else 4:.0f}" style="fill:var(--box);stroke:var(--line)"/>'
        )
        for k, line in enumerate(node.lines):
            parts.append(
                f'<text x="{node.x + node.width / 2:.1f}" y="{node.y + PAD + 10 + k * LINE:.1f}" text-anchor="middle" '
                f'style="fill:var(--ink)">{escape(line)}</text>'
            )
    return parts


def _arrows(group: Group) -> list[str]:
    back = group.backward()
    foot = max(node.y + node.height for node in group.nodes.values())
    parts, labels = [], []
    for start, end, label, dotted in group.arrows:
        a, b = group.nodes[start], group.nodes[end]
        if (start, end) in back:
            x1, x2 = a.x + a.width / 2, b.x + b.width / 2
            path = f"M{x1:.1f} {a.y + a.height:.1f}V{foot + 18:.1f}H{x2:.1f}V{b.y + b.height + 2:.1f}"
            spot = ((x1 + x2) / 2, foot + 14)
        else:
            x1, y1, x2, y2 = a.x + a.width, a.y + a.height / 2, b.x - 1, b.y + b.height / 2
            bend = (x2 - x1) / 2
            path = f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
            spot = (x1 + 0.6 * (x2 - x1), y1 + 0.65 * (y2 - y1) - 5 * (y1 == y2))
        dash = ";stroke-dasharray:4 3" if dotted else ""
        parts.append(f'<path d="{path}" marker-end="url(#tip)" style="fill:none;stroke:var(--line){dash}"/>')
        if label:
            labels.append(
                f'<text x="{spot[0]:.1f}" y="{spot[1]:.1f}" text-anchor="middle" font-size="11" '
                f'style="fill:var(--line);stroke:var(--paper);stroke-width:4;paint-order:stroke">{escape(label)}</text>'
            )
    return parts + labels


def fence(source: str, *_: Any, **__: Any) -> str:
    """Render a fenced block; the signature is that of PyMdown's SuperFences."""
    return f'<div class="diagram-frame">{svg(source)}</div>'
