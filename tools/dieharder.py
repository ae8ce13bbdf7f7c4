"""Run Debian's dieharder battery on trnrand's engines and write ``docs/trnrand/dieharder.csv``.

Each test reads one continuous stream of words through a pipe, where the test before stopped. Usage:
``python tools/dieharder.py [--bytes 1000000000] [--engine philox4x32] [--seed 1]``. The battery is repeated, with the
stream going on, until so many bytes were read.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
from pathlib import Path

from trnrand import bits
from trnrand.engines import ENGINES

RESULTS = Path(__file__).parent.parent / "docs" / "trnrand" / "dieharder.csv"
# dieharder -l; 5, 6, 7 and 14 are left out, which dieharder itself marks as suspect
TESTS = (
    0,
    1,
    2,
    3,
    4,
    8,
    9,
    10,
    11,
    12,
    13,
    15,
    16,
    17,
    100,
    101,
    102,
    200,
    201,
    202,
    203,
    204,
    205,
    206,
    207,
    208,
    209,
)
NTUPLES = {200: 8, 201: 5, 202: 4, 203: 8}
CHUNK = 1 << 22
FIELDS = ("engine", "seed", "first_byte", "test", "ntuple", "tsamples", "psamples", "p_value", "assessment")


def run_test(engine: str, seed: int, first_word: int, test: int) -> tuple[list[list[str]], int]:
    """Rows of one test, and the words it was sent."""
    command = ["dieharder", "-g", "200", "-d", str(test)]
    command += ["-n", str(NTUPLES[test])] if test in NTUPLES else []
    sent = 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        try:
            while running.poll() is None:
                running.stdin.write(bits(seed, first_word + sent, CHUNK, engine=engine).numpy().tobytes())
                sent += CHUNK
        except BrokenPipeError:
            pass
        output = running.stdout.read().decode()
    lines = [[cell.strip() for cell in line.split("|")] for line in output.splitlines()]
    return [cells for cells in lines if cells[-1] in ("PASSED", "WEAK", "FAILED")], sent


def main() -> None:
    """Run the battery and record its verdicts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=10**9)
    parser.add_argument("--engine", choices=tuple(ENGINES), action="append")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    if shutil.which("dieharder") is None:
        sys.exit("dieharder is not installed: apt-get install dieharder")
    wanted = chosen.engine or list(ENGINES)
    kept = []
    if RESULTS.exists():
        kept = [row for row in csv.reader(RESULTS.read_text().splitlines()[1:]) if row[0] not in wanted]
    for engine in wanted:
        word, number = 0, 0
        while number < len(TESTS) or 4 * word < chosen.bytes:
            test = TESTS[number % len(TESTS)]
            found, sent = run_test(engine, chosen.seed, word, test)
            for cells in found:
                row = [engine, str(chosen.seed), str(4 * word), *cells]
                kept.append(row)
                print(*row, flush=True)
            word, number = word + sent, number + 1
        print(f"{engine}: {4 * word} bytes", flush=True)
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        with RESULTS.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([FIELDS, *kept])


if __name__ == "__main__":
    main()
