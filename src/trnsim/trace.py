"""Pictures of a report: a Perfetto trace, and one self-contained HTML page."""

import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

from trnsim.constants import LEVEL
from trnsim.timing.path import group_steps
from trnsim.timing.report import Report, Slice
from trnsim.timing.schedule import QUEUES
from trnsim.timing.text import advice, amount, engine_name, file_and_line, headline, seconds

# a page stays quick below this many bars; denser stretches are drawn as one
MOST_BARS = 60_000
_TRACKS = [*QUEUES, "loads", "stores"]


def lanes(report: Report) -> dict[tuple[int, str], list[Slice]]:
    """Return bars by (core, track) in the order of time, none overlapping another on its track.

    Engines are pipelined: a bar ends where the next begins. Transfers that overlap go to further tracks.
    """
    raw: dict[tuple[int, str], list[Slice]] = {}
    for bar in report.timeline():
        raw.setdefault((bar.core, bar.track), []).append(bar)
    tracks: dict[tuple[int, str], list[Slice]] = {}
    for (core, track), bars in sorted(raw.items(), key=lambda each: (each[0][0], _TRACKS.index(each[0][1]))):
        bars.sort(key=lambda bar: (bar.start_s, bar.number))
        if track in ("loads", "stores"):
            for index, lane in enumerate(_apart(bars)):
                tracks[core, f"{track} {index}" if index else track] = lane
        else:
            tracks[core, engine_name(track)] = [
                bar if k + 1 == len(bars) else bar._replace(end_s=min(bar.end_s, max(bar.start_s, bars[k + 1].start_s)))
                for k, bar in enumerate(bars)
            ]
    return tracks


def _apart(bars: list[Slice]) -> list[list[Slice]]:
    lanes: list[list[Slice]] = []
    for bar in bars:
        for lane in lanes:
            if lane[-1].end_s <= bar.start_s:
                lane.append(bar)
                break
        else:
            if len(lanes) < 8:
                lanes.append([bar])
            else:
                lane = min(lanes, key=lambda each: each[-1].end_s)
                lane[-1] = lane[-1]._replace(end_s=bar.start_s)
                lane.append(bar)
    return lanes


def write_perfetto(report: Report, path: Path) -> None:
    """Write a process per core, a track per engine, queue and lane of transfers; slices carry file:line."""
    out = bytearray()
    for core in range(len(report.schedules)):
        process = _field(1, core + 1) + _field(6, f"{report.kernel} core {core} ({report.target}, predicted)")
        out += _packet(_field(60, _field(1, core + 1) + _field(3, process)))
    for index, ((core, track), bars) in enumerate(lanes(report).items()):
        uuid = 1000 + index
        out += _packet(_field(60, _field(1, uuid) + _field(2, track) + _field(5, core + 1)))
        for bar in bars:
            begin, end = round(bar.start_s * 1e9), round(bar.end_s * 1e9)
            notes = b"".join(
                _field(4, _field(10, name) + _field(6, text))
                for name, text in (("line", bar.line), ("detail", bar.detail))
            )
            out += _packet(
                _field(8, begin) + _field(11, _field(9, 1) + _field(11, uuid) + _field(23, bar.name) + notes)
            )
            out += _packet(_field(8, max(end, begin)) + _field(11, _field(9, 2) + _field(11, uuid)))
    path.write_bytes(bytes(out))


def _packet(body: bytes) -> bytes:
    # trusted_packet_sequence_id ties the packets of one writer together
    return _field(1, body + _field(10, 1))


def _field(tag: int, value: int | str | bytes) -> bytes:
    """One field of a protobuf message: integers as varints, text and messages with their length."""
    if isinstance(value, int):
        return _varint(tag << 3) + _varint(value)
    data = value.encode(errors="backslashreplace") if isinstance(value, str) else value
    return _varint(tag << 3 | 2) + _varint(len(data)) + data


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def write_html(report: Report, path: Path) -> None:
    """Write a page with numbers, utilisation, roofline, critical path and a timeline to zoom; it needs no network."""
    page = resources.files("trnsim.timing").joinpath("timeline.html").read_text()
    # no tag and no comment can begin inside the script
    data = json.dumps(_data(report), separators=(",", ":")).replace("<", "\\u003c")
    parts = {"__TITLE__": html.escape(f"{report.kernel} on {report.target}"), "__DATA__": data}
    page = re.sub("|".join(parts), lambda match: parts[match[0]], page)
    path.write_text(page, encoding="utf-8", errors="backslashreplace")


def _data(report: Report) -> dict[str, Any]:
    tracks = lanes(report)
    total = sum(len(bars) for bars in tracks.values())
    grain = report.active_s / 8000 if total > MOST_BARS else 0.0
    names: dict[str, int] = {}
    lines: dict[str, int] = {}
    drawn = []
    end = 1
    for (core, track), bars in tracks.items():
        rows: list[list[Any]] = []
        for bar, count in _merge_bars(bars, grain):
            name = f"{bar.name} × {count}" if count > 1 else bar.name
            rows.append(
                [
                    round(bar.start_s * 1e9),
                    max(1, round((bar.end_s - bar.start_s) * 1e9)),
                    names.setdefault(name, len(names)),
                    lines.setdefault(file_and_line(bar.line), len(lines)),
                    bar.detail if count == 1 else "",
                    int(bar.number in report.schedules[core].decisive),
                ]
            )
        end = max([end, *(row[0] + row[1] for row in rows)])
        drawn.append({"name": track if len(report.schedules) == 1 else f"{track}, core {core}", "bars": rows})
    path = sum(report.spent_s.values()) or 1.0
    return {
        "kernel": report.kernel,
        "target": str(report.target),
        "headline": f"{headline(report)} {advice(report)}".rstrip(),
        "facts": _facts(report),
        "uses": [
            [engine_name(name), use.utilisation, seconds(use.busy_s), use.instructions]
            for name, use in report.engines.items()
        ],
        "spent": [[engine_name(name), t / path, seconds(t)] for name, t in report.spent_s.items()],
        "path": [
            [
                seconds(took),
                took / path,
                engine_name(step.engine),
                count,
                step.instruction,
                file_and_line(step.line),
                step.reason,
            ]
            for step, count, took in group_steps(report.critical_path)[:12]
        ],
        "roof": _roof(report),
        "notes": report.warnings,
        "tracks": drawn,
        "names": list(names),
        "lines": list(lines),
        "merged": bool(grain),
        "end": end,
    }


def _merge_bars(bars: list[Slice], grain: float) -> list[tuple[Slice, int]]:
    """Return neighbours of one name closer than ``grain`` as one bar."""
    out: list[tuple[Slice, int]] = []
    for bar in bars:
        if grain and out:
            last, count = out[-1]
            if last.name == bar.name and bar.start_s - last.end_s < grain and bar.end_s - last.start_s < 20 * grain:
                out[-1] = (last._replace(end_s=bar.end_s), count + 1)
                continue
        out.append((bar, 1))
    return out


def _facts(report: Report) -> list[list[str]]:
    moved = report.hbm_read_bytes + report.hbm_written_bytes
    facts = [
        ["predicted total", seconds(report.total_s)],
        [f"{LEVEL:.0%} interval", f"{seconds(report.interval.low_s)} to {seconds(report.interval.high_s)}"],
        ["active", seconds(report.active_s)],
        ["HBM traffic", amount(moved, "B")],
        ["instructions", f"{report.instruction_count:,}"],
        ["SBUF", f"{report.sbuf_bytes / 1024:.4g} of {report.target.sbuf_usable_bytes / 1024:.4g} KiB"],
    ]
    if report.flops:
        facts.insert(3, ["FLOP/s", f"{amount(report.flops_per_s, 'FLOP/s')}, {report.fraction_of_peak:.1%} of peak"])
    return facts


def _roof(report: Report) -> dict[str, float]:
    time = report.target.timing
    moved = report.hbm_read_bytes + report.hbm_written_bytes
    return {
        "peak": report.peak_flops_per_s * report.cores,
        "bandwidth": time.dma_rate * time.dma_engines * 1e9 * report.cores if report.target.generation > 2 else 272e9,
        "intensity": report.intensity,
        "achieved": report.flops_per_s,
        "moved": moved / report.active_s if report.active_s else 0.0,
    }
