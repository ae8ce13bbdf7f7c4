"""``python -m tests.campaign``: draw calls of every public function until the time is over, and report what fails."""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

import torch

from tests.campaign.trial import SPECS, attempt, drawn, load

SCRIPT = """# {name}: {why}
# drawn: {log}
from tests.campaign.trial import attempt

assert (failure := attempt({name!r}, seed={seed}, largest={largest})) is None, failure
"""


def smallest(name: str, seed: int) -> int:
    """The least bound of sizes at which the same seed still fails."""
    return next((size for size in (1, 2, 3, 4, 5, 8, 13, 32, 64, 129) if attempt(name, seed, size)), 10**9)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--only", default="", help="a library or a function, or the beginning of its name")
    parser.add_argument("--seed", type=int, default=None, help="the first seed; by default the time")
    parser.add_argument("--counts", type=Path, help="add the calls made to this JSON file")
    parser.add_argument("--failures", type=int, default=20, help="stop after so many")
    options = parser.parse_args()
    torch.set_num_threads(1)
    load()
    names = [name for name in SPECS if name.startswith(options.only)]
    seed = int(time.time()) if options.seed is None else options.seed
    tried: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    end = time.monotonic() + options.seconds
    while time.monotonic() < end and sum(failed.values()) < options.failures:
        for name in names:
            why = attempt(name, seed)
            tried[name] += 1
            if why is not None and failed[name] < 3:
                failed[name] += 1
                report(name, seed, why)
            if time.monotonic() > end:
                break
        seed += 1
    for name in names:
        print(f"{name:<40} {tried[name]:>8} calls {failed[name] or 'no':>4} failures")
    if options.counts:
        keep(options.counts, tried)
    print(f"{sum(tried.values())} passed, {sum(failed.values())} failed")
    return 1 if failed else 0


def report(name: str, seed: int, why: str) -> None:
    """Print a script that shows the failure with the smallest sizes it has."""
    largest = smallest(name, seed)
    why = attempt(name, seed, largest) or why
    _, draw = drawn(name, seed, largest)
    text = SCRIPT.format(name=name, why=" ".join(why.split()), log="; ".join(draw.log), seed=seed, largest=largest)
    print(text, flush=True)


def keep(path: Path, tried: Counter[str]) -> None:
    """Add counts to a file."""
    counts = Counter(json.loads(path.read_text())) if path.exists() else Counter()
    path.write_text(json.dumps(dict(sorted((counts + tried).items())), indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
