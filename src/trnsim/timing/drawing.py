"""A report as a fragment of HTML: its engines over time, and how busy they are."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from trnsim import notebook
from trnsim.tables import read_table
from trnsim.timing.text import engine_name, headline, seconds

if TYPE_CHECKING:
    from trnsim.timing.report import Report

COLOURS: dict[str, str] = read_table("names.toml")["colours"]
_WIDTH, _LEFT, _ROW = 640, 64, 18


def timeline(report: Report) -> str:
    """Return the engines of a kernel over time; bars closer than half a pixel are one."""
    bars: dict[str, list[list[float]]] = {}
    begin = min((bar.start_s for bar in report.timeline()), default=0.0)
    span = max((bar.end_s for bar in report.timeline()), default=0.0) - begin
    if span <= 0:
        return ""
    scale = (_WIDTH - _LEFT - 40) / span
    for bar in sorted(report.timeline(), key=lambda bar: bar.start_s):
        if bar.track in COLOURS:
            start, end = (bar.start_s - begin) * scale, (bar.end_s - begin) * scale
            track = bars.setdefault(bar.track, [])
            if track and start - track[-1][1] < 0.5:
                track[-1][1] = max(track[-1][1], end)
            else:
                track.append([start, end])
    parts = []
    for row, name in enumerate(name for name in COLOURS if name in bars):
        y = row * _ROW
        label = engine_name(name) if name in report.engines else name.capitalize()
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 12}" text-anchor="end" fill="currentColor">{escape(label)}</text>')
        parts += [
            f'<rect x="{_LEFT + start:.1f}" y="{y + 2}" width="{max(end - start, 0.4):.1f}" height="13" '
            f'fill="{COLOURS[name]}"/>'
            for start, end in bars[name]
        ]
    foot = len(bars) * _ROW + 4
    parts += [
        f'<text x="{_LEFT + part * span * scale:.1f}" y="{foot + 12}" text-anchor="{anchor}" fill="currentColor" '
        f'opacity=".75">{escape(seconds(part * span))}</text>'
        for part, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end"))
    ]
    title = f"Engines of {report.kernel} over time, predicted for {report.target.name}"
    return notebook.svg(_WIDTH, foot + 18, title, parts)


def draw_report(report: Report) -> str:
    """Return a profile: the time and what binds, the timeline, and how busy the engines are."""
    low, high, level = report.interval
    told = [
        f"predicted {seconds(report.total_s)}, {level:.0%} between {seconds(low)} and {seconds(high)}; "
        f"{seconds(report.active_s)} from the first instruction to the last",
        headline(report),
        *report.warnings,
    ]
    rows = [
        (engine_name(name), seconds(use.busy_s), f"{use.utilisation:.0%}", f"{use.instructions:,}")
        for name, use in report.engines.items()
        if use.busy_s
    ]
    return notebook.fragment(
        f"{report.kernel} on {report.target.name}",
        notebook.lines(told),
        timeline(report),
        notebook.table(("engine", "busy", "share", "instructions"), rows),
    )
