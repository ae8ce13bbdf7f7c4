"""Reports as one self-contained HTML page: no scripts from elsewhere, readable on a phone, light and dark."""

import base64
import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import Template

from trnsci.console import Table
from trnsci.tables import DATA


@dataclass(frozen=True, slots=True)
class Bar:
    """One labelled bar; ``other`` draws it in the second colour, ``interval`` a line from end to end."""

    label: str
    value: float
    text: str
    other: bool = False
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Bars:
    """A titled set of bars on one scale; ``full`` is what a whole bar stands for, by default the largest value.

    With ``log`` equal lengths are equal factors.
    """

    title: str
    bars: Sequence[Bar]
    note: str = ""
    full: float | None = None
    log: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """A titled picture, kept in the page; ``alt`` says in words what it shows."""

    title: str
    png: bytes
    alt: str
    note: str = ""


def page(title: str, lead: str, parts: Sequence[Table | Bars | Picture]) -> str:
    """Return a whole HTML document. The first line of the lead is the answer, and stands out where there are more."""
    first, *more = (f"<p>{html.escape(line)}</p>" for line in lead.split("\n"))
    told = "\n".join([first.replace("<p>", '<p class="lead">') if more else first, *more])
    body = "\n".join(map(_part, parts))
    template = Template((DATA / "page.html").read_text(encoding="utf-8"))
    return template.substitute(title=html.escape(title), lead=told, body=body)


def _part(part: Table | Bars | Picture) -> str:
    if isinstance(part, Bars):
        return _bars(part)
    return _picture(part) if isinstance(part, Picture) else _table(part)


def _picture(picture: Picture) -> str:
    data = base64.b64encode(picture.png).decode()
    alt = html.escape(picture.alt, quote=True)
    image = f'<img alt="{alt}" src="data:image/png;base64,{data}">'
    return f"<h2>{html.escape(picture.title)}</h2>\n{image}\n{_note(picture.note)}"


def _table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.header)
    names = [html.escape(name, quote=True) for name in table.header]
    rows = "\n".join(
        "<tr>"
        + "".join(f'<td data-name="{name}">{html.escape(cell)}</td>' for name, cell in zip(names, row, strict=False))
        + "</tr>"
        for row in table.rows
    )
    return (
        f'<h2>{html.escape(table.title)}</h2>\n<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table></div>\n{_note(table.note)}"
    )


def _bars(bars: Bars) -> str:
    ends = [bar.interval[1] if bar.interval else bar.value for bar in bars.bars]
    top = bars.full or max(ends, default=0.0) or 1.0
    low = min((bar.interval[0] if bar.interval else bar.value for bar in bars.bars), default=top) / 2

    def share(value: float) -> float:
        return 100 * (math.log(value / low) / math.log(top / low) if bars.log else value / top)

    rows = "\n".join(_bar(bar, share) for bar in bars.bars)
    return f"<h2>{html.escape(bars.title)}</h2>\n{rows}\n{_note(bars.note)}"


def _bar(bar: Bar, share: Callable[[float], float]) -> str:
    line = ""
    if bar.interval is not None:
        low, high = map(share, bar.interval)
        line = f'<div class="interval" style="left:{low:.2f}%;width:{high - low:.2f}%"></div>'
    kind = "bar other" if bar.other else "bar"
    return (
        f'<div class="row"><span>{html.escape(bar.label)}</span><div class="track"><div class="{kind}" '
        f'style="width:{share(bar.value):.2f}%"></div>{line}</div><span>{html.escape(bar.text)}</span></div>'
    )


def _note(text: str) -> str:
    return f'<p class="note">{html.escape(text)}</p>' if text else ""
