"""Run suites of other packages plain and through `trnsci.drop_in`, and report tests that pass only in the plain run.

``python -m tools.upstream [SUITE ...] [--backend simulator]``. Tests come from installed packages, from sdists that
``pip download`` finds, or from a repository at a fixed commit; a suite whose tests cannot be had is named and passed
over. A difference must stand in known.json with its reason, and one that stands there and is none any more is an error
too, so that the file shrinks.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tools.upstream.suites import HERE, SUITES, Suite

ROOT = HERE.parent.parent
KNOWN = HERE / "known.json"
# one thread, and no plugin but our own: a run has to be the same twice
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a suite: outcomes of both runs by test, and the record of the block."""

    name: str
    plain: dict[str, str]
    inside: dict[str, str]
    record: dict[str, dict[str, int]]

    @property
    def differences(self) -> list[str]:
        """Tests that pass in the plain run and not inside the block."""
        return sorted(test for test, how in self.plain.items() if how == "passed" != self.inside.get(test))

    @property
    def substitutions(self) -> int:
        """How many calls became ours."""
        return sum(self.record.get("substituted", {}).values())


def run_suite(name: str, suite: Suite, backend: str) -> Report | str:
    """Run a suite twice; return what became of it, or why its tests cannot be had."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        found = _tests(suite, place)
        if isinstance(found, str):
            return found
        root, tests = found
        choice = suite.small if backend == "simulator" else suite.choose
        command = ["--rootdir", str(root), *suite.options, *tests, *(["-k", choice] if choice else [])]
        plain, _ = _pytest(command, place, "plain", [], **dict(suite.settings))
        record = place / "record.json"
        settings = {"UPSTREAM_BACKEND": backend, "UPSTREAM_RECORD": str(record), **dict(suite.settings)}
        inside, said = _pytest(command, place, "inside", ["-p", "tools.upstream.plugin"], **settings)
        if not record.exists():
            return f"the run inside the block did not end: {said[-2000:]}"
        return Report(name, plain, inside, json.loads(record.read_text(encoding="utf-8")))


def _tests(suite: Suite, place: Path) -> tuple[Path, list[str]] | str:
    """Return the folder that tests are named from and what pytest is to run, or why there is nothing."""
    if suite.commit:
        root = place / "sources"
        done = [_git(place, "clone", "--quiet", "--no-checkout", suite.package, str(root))]
        done += [_git(root, "checkout", "--quiet", suite.commit)] if done[0] else []
        done += [_git(root, "submodule", "update", "--init", "--quiet")] if all(done) else []
        return (root, [str(root / path) for path in suite.tests]) if all(done) else f"{suite.package} cannot be had"
    if not suite.sdist:
        if "/" in suite.tests[0]:
            return HERE, list(suite.tests)
        package = importlib.util.find_spec(suite.tests[0].partition(".")[0])
        if package is None or package.origin is None:
            return f"{suite.package} is not installed"
        return Path(package.origin).parents[1], ["--pyargs", *suite.tests]
    try:
        version = importlib.metadata.version(suite.package)
    except importlib.metadata.PackageNotFoundError:
        return f"{suite.package} is not installed"
    root = _download(f"{suite.package}=={version}", place)
    if root is None:
        return f"the sdist of {suite.package} {version} cannot be had"
    paths = [root / path for path in suite.tests]
    missing = [path.name for path in paths if not path.exists()]
    return f"the sdist of {suite.package} {version} has no {missing}" if missing else (root, [str(x) for x in paths])


def _git(folder: Path, *arguments: str) -> bool:
    """Run git; return whether it did what it was to do."""
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=False)
    return done.returncode == 0


def _download(requirement: str, place: Path) -> Path | None:
    """Unpack the sources of a package; return their folder, or nothing where there are none."""
    # pip asks every sdist for its metadata, which some compute by a build: what it unpacked before that is enough
    options = ["-q", "--no-clean", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", str(place)]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, requirement],
        env=os.environ | {"TMPDIR": str(place)},
        capture_output=True,
        check=False,
    )
    roots = sorted(place.glob("pip-download-*/*/pyproject.toml")) or sorted(place.glob("pip-download-*/*/setup.py"))
    return roots[0].parent if roots else None


def _pytest(
    command: list[str], place: Path, name: str, extra: list[str], **settings: str
) -> tuple[dict[str, str], str]:
    """Run pytest in a process of its own; return the outcome of every test, and what was printed."""
    report = place / f"{name}.xml"
    options = ["-q", "-c", os.devnull, "-p", "no:cacheprovider", f"--junitxml={report}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *extra, *command],
        cwd=place,
        env=os.environ | ENVIRONMENT | {"PYTHONPATH": os.pathsep.join((str(ROOT), *_paths()))} | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    if not report.exists():
        return {}, done.stdout + done.stderr
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        how = "skipped" if "skipped" in kinds else "failed" if kinds & {"failure", "error"} else "passed"
        outcomes[f"{case.get('classname')}::{case.get('name')}"] = how
    return outcomes, done.stdout


def _paths() -> list[str]:
    given = os.environ.get("PYTHONPATH", "")
    return given.split(os.pathsep) if given else []


def check(report: Report, known: dict[str, str]) -> list[str]:
    """Return what is wrong: differences without a reason, and reasons without a difference.

    A reason is known by the beginning of the names of tests that it is for.
    """
    new = [test for test in report.differences if not test.startswith(tuple(known))]
    ran = [beginning for beginning in known if any(test.startswith(beginning) for test in report.plain)]
    gone = [beginning for beginning in ran if not any(test.startswith(beginning) for test in report.differences)]
    wrong = [f"{report.name}: {test} passes in the plain run only" for test in new]
    return wrong + [f"{report.name}: {beginning} is no difference any more" for beginning in sorted(gone)]


def main(argv: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.upstream", description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; all when left out")
    parser.add_argument("--backend", choices=("pytorch", "simulator"), default="pytorch", help="where calls run")
    args = parser.parse_args(argv)
    unknown = [name for name in args.suites if name not in SUITES]
    if unknown:
        parser.error(f"no suite {unknown[0]}: there are {', '.join(SUITES)}")
    known = json.loads(KNOWN.read_text(encoding="utf-8"))
    wrong = []
    for name in args.suites or SUITES:
        report = run_suite(name, SUITES[name], args.backend)
        if isinstance(report, str):
            print(f"{name}: not run: {report}")
            continue
        passed = sum(how == "passed" for how in report.plain.values())
        print(
            f"{name}: {passed} of {len(report.plain)} pass plain, {len(report.differences)} of them not inside; "
            f"{report.substitutions} calls became ours, on {', '.join(report.record.get('backends', {})) or 'nothing'}"
        )
        wrong += check(report, known.get(name, {}))
        if args.backend not in report.record.get("backends", {}):
            wrong.append(f"{name}: nothing of ours ran on {args.backend}")
    for line in wrong:
        print(line)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
