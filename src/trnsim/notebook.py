"""Objects in a notebook: fragments of HTML, escaped, without scripts, on light pages and dark ones.

Colours are the page's own (``currentColor``) or middle tones that both leave readable; styles stand in the tags,
because a notebook keeps fragments apart from any page.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape

_BOX = "font:13px/1.5 system-ui,sans-serif;color:inherit;max-width:60rem;overflow-x:auto"
# letters of a cell that is not broken into lines
_WHOLE = 14
_CELL = "text-align:left;padding:.15rem .7rem .15rem 0;border-bottom:1px solid #8884;vertical-align:top"


def fragment(title: str, *parts: str) -> str:
    """Return a titled fragment of parts that are HTML already."""
    return f'<div class="trn" style="{_BOX}"><strong>{escape(title)}</strong>{"".join(parts)}</div>'


def lines(texts: Iterable[str]) -> str:
    """Return a line for each text."""
    return "".join(f"<div>{escape(text)}</div>" for text in texts)


def text(words: str) -> str:
    """Return preformatted text."""
    style = "margin:.4rem 0;background:none;color:inherit;white-space:pre;overflow-x:auto"
    return f'<pre style="{style}">{escape(words)}</pre>'


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts."""
    head = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in header)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    style = "border-collapse:collapse;margin:.4rem 0;font-size:12px;color:inherit"
    return f'<table class="trn" style="{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cell(words: str) -> str:
    whole = ";white-space:nowrap" if len(words) <= _WHOLE else ""
    return f'<td style="{_CELL}{whole}">{escape(words)}</td>'


def svg(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """Return a picture with a title for readers who cannot see it."""
    style = "display:block;margin:.4rem 0;max-width:100%;height:auto;color:inherit"
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" style="{style}" role="img" '
        f'font-family="system-ui,sans-serif" font-size="11"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def curve(title: str, values: Sequence[float]) -> str:
    """Return a picture of values above zero, step by step, on a logarithmic scale."""
    logs = [math.log10(max(x, 1e-300)) for x in values if x < math.inf]
    low, high = math.floor(min(logs, default=0)), math.ceil(max(logs, default=0))
    wide, up = 300 / max(len(logs) - 1, 1), 90 / max(high - low, 1)
    spots = " ".join(f"{50 + i * wide:.1f},{10 + (high - y) * up:.1f}" for i, y in enumerate(logs))
    marks = [(f"1e{high}", 44, 14, "end"), (f"1e{low}", 44, 104, "end"), (f"{len(logs) - 1}", 350, 118, "end")]
    words = [f'<text x="{x}" y="{y}" text-anchor="{a}" fill="currentColor">{w}</text>' for w, x, y, a in marks]
    frame = '<path d="M50 10V100H350" fill="none" stroke="currentColor" stroke-opacity=".4"/>'
    return svg(360, 124, title, [frame, f'<polyline points="{spots}" fill="none" stroke="#4f81d9"/>', *words])


def points(title: str, pairs: Iterable[Sequence[float]]) -> str:
    """Return a picture of points in the unit square."""
    dots = (f'<circle cx="{x * 200 + 1:.1f}" cy="{201 - y * 200:.1f}" r="1.5" fill="#4f81d9"/>' for x, y in pairs)
    frame = '<rect x="1" y="1" width="200" height="200" fill="none" stroke="currentColor" stroke-opacity=".4"/>'
    return svg(202, 202, title, [frame, *dots])
