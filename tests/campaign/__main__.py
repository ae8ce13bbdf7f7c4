"""``python -m tests.campaign``: draw calls of every public function until the time is over, and report what fails."""

import argparse
import json
import sys
import time
from collections import Counter
from itertools import groupby
from pathlib import Path

import torch

from tests.campaign.trial import LIBRARIES, PROMISES, SPECS, attempt, drawn, load

SCRIPT = """# {name}: {why}
# drawn: {log}
from tests.campaign.trial import attempt

assert (failure := attempt({name!r}, seed={seed}, largest={largest})) is None, failure
"""
COUNTS = Path(__file__).with_name("counts.json")
PAGE = Path(__file__).parents[2] / "docs/concepts/numerics.md"
START, END = "<!-- written by `python -m tests.campaign --docs` -->", "<!-- end of what the campaign wrote -->"


def smallest(name: str, seed: int) -> int:
    """The least bound of sizes at which the same seed still fails."""
    return next((size for size in (1, 2, 3, 4, 5, 8, 13, 32, 64, 129) if attempt(name, seed, size)), 10**9)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--only", default="", help="a library or a function, or the beginning of its name")
    parser.add_argument("--seed", type=int, default=None, help="the first seed; by default the time")
    parser.add_argument("--counts", type=Path, help="add calls and failures to this JSON file")
    parser.add_argument("--failures", type=int, default=20, help="stop after so many")
    parser.add_argument("--docs", action="store_true", help="write the table of the numerics page from counts.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    load()
    if options.docs:
        return write_table()
    names = [name for name in SPECS if name.startswith(options.only)]
    tried, failed = run(names, options)
    for name in names:
        print(f"{name:<40} {tried[name]:>8} calls {failed[name] or 'no':>4} failures")
    if options.counts:
        keep(options.counts, tried, failed, time.process_time())
    print(f"{sum(tried.values()) - sum(failed.values())} passed, {sum(failed.values())} failed")
    return 1 if failed else 0


def run(names: list[str], options: argparse.Namespace) -> tuple[Counter[str], Counter[str]]:
    """Try every function in turn until the time is over, or too much has failed."""
    seed = int(time.time()) if options.seed is None else options.seed
    tried: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    end = time.monotonic() + options.seconds
    while time.monotonic() < end and sum(failed.values()) < options.failures:
        for name in names:
            if name.endswith(" on ranks") and seed % 10:
                # messages between processes take longer than what they carry
                continue
            why = attempt(name, seed)
            tried[name] += 1
            if why is not None:
                failed[name] += 1
                if failed[name] <= 3:
                    report(name, seed, why)
            if time.monotonic() > end:
                break
        seed += 1
    return tried, failed


def report(name: str, seed: int, why: str) -> None:
    """Print a script that shows the failure with the smallest sizes it has."""
    largest = smallest(name, seed)
    why = attempt(name, seed, largest) or why
    _, draw = drawn(name, seed, largest)
    text = SCRIPT.format(name=name, why=" ".join(why.split()), log="; ".join(draw.log), seed=seed, largest=largest)
    print(text, flush=True)


def keep(path: Path, tried: Counter[str], failed: Counter[str], seconds: float) -> None:
    """Add calls, failures and processor time to a file."""
    kept = json.loads(path.read_text()) if path.exists() else {"seconds": 0.0, "tried": {}, "failed": {}}
    for key, counts in (("tried", tried), ("failed", failed)):
        kept[key] = dict(sorted((Counter(kept[key]) + counts).items()))
    kept["seconds"] = round(kept["seconds"] + seconds, 1)
    path.write_text(json.dumps(kept, indent=1) + "\n")


def write_table() -> int:
    """Put what is promised, and how often it was tried, into the numerics page."""
    page = PAGE.read_text()
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + START + "\n" + table() + END + after)
    return 0


def table() -> str:
    """Rows of functions that share a promise, library by library."""
    kept = json.loads(COUNTS.read_text())
    minutes, total, failures = kept["seconds"] / 60, sum(kept["tried"].values()), sum(kept["failed"].values())
    lines = [f"{total:,} calls in {minutes:.0f} minutes of processor time, {failures or 'no'} failures.", ""]
    lines += ["| function | promise | under the condition | tried | failed |", "|---|---|---|---|---|"]
    for library in LIBRARIES:
        names = [name for name in SPECS if name.startswith(library + ".")]
        for (promise, when), group in groupby(names, key=PROMISES.__getitem__):
            members = list(group)
            tried, failed = (sum(kept[key].get(name, 0) for name in members) for key in ("tried", "failed"))
            stems = " ".join(f"`{name.removeprefix(library + '.')}`" for name in members)
            lines.append(f"| {library}: {stems} | {_cell(promise)} | {_cell(when)} | {tried} | {failed} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
