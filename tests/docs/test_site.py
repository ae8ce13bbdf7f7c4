"""Pages that repeat facts from the code repeat them correctly, and every page can be found."""

import ast
import importlib
import inspect
import json
import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

import trnsci
from benchmarks import predictions, report, speedup
from docs import diagrams
from tests.together import together
from tools import names_page
from trnsci import config, errors as suite_errors
from trnsim import errors as machine_errors
from trnsim.targets import TARGETS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def test_the_navigation_lists_every_page_once():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    listed = re.findall(r"(?:: |- )(\S+\.md)$", nav, re.M)
    # the blog lists its own posts
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.glob("**/*.md") if path.parent.name != "posts"]
    assert sorted(listed) == sorted(pages)


def test_the_install_page_names_every_extra_once():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert sorted(re.findall(r"^\| `(\w+)` \|", (DOCS / "install.md").read_text(), re.M)) == sorted(extras)


def test_the_page_on_many_chips_lists_every_sharded_function():
    page = (DOCS / "how-to" / "many-chips.md").read_text()
    # transforms and draws are listed as ranges
    every = [*(ROOT / "src").glob("trn*/*sharded*.py"), *(ROOT / "src").glob("trn*/sharded/*.py")]
    sources = [path for path in every if path.parent.name not in ("trnfft", "trnrand")]
    functions = [name for path in sources for name in re.findall(r"^@sharded\((\w+)", path.read_text(), re.M)]
    assert len(functions) > 20
    # programs are made by `fuse`, and called
    listed = {"call_program": "fuse"}
    assert [name for name in functions if not re.search(rf"`(trn\w+\.)?{listed.get(name, name)}`", page)] == []


EXPONENT = re.compile(r"[\w)\]]\*\*[-+(\w]")
# fenced blocks, outputs of notebooks, code spans, lines of HTML, doctests
CODE = re.compile(
    r"^ *```.*?^ *```|^<div class=\"output\">.*?</div>$(?=\n\n|\n\Z)|``.+?``|`[^`]*`"
    r"|^<.*?$|^ *(?:>>>|\.\.\. ).*?$",
    re.M | re.S,
)


def _bold_exponents(text):
    """Lines in which two stars between letters or digits would begin bold type."""
    return [line.strip() for line in CODE.sub("", text).splitlines() if EXPONENT.search(line)]


def test_an_exponent_outside_backticks_is_noticed():
    assert _bold_exponents("u is 2**-24 here") == ["u is 2**-24 here"]
    assert _bold_exponents("`2**-24`, ``N**2``, **Bold.** 2\\*\\*20\n```text\n2**3\n```\n>>> 2**3\n") == []


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CHANGELOG.md", DOCS], ids=lambda path: path.name)
def test_no_exponent_of_a_page_comes_out_bold(page):
    pages = [page] if page.is_file() else sorted(page.glob("**/*.md"))
    assert {path.name: lines for path in pages if (lines := _bold_exponents(path.read_text()))} == {}


def test_no_exponent_of_a_docstring_comes_out_bold():
    found = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        # the reference shows neither kernels nor what is private
        if {"kernels", "cuda"} & set(path.parts):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and not _private(node):
                found |= {f"{path.name}: {line}": 1 for line in _bold_exponents(ast.get_docstring(node) or "")}
    assert list(found) == []


def _private(node):
    return getattr(node, "name", "").startswith("_")


def test_diagrams_are_drawn_without_a_script():
    sources = [
        source
        for page in DOCS.glob("**/*.md")
        for source in re.findall(r"^```mermaid\n(.*?)^```", page.read_text(), re.M | re.S)
    ]
    assert len(sources) >= 8
    for source in sources:
        drawn = ElementTree.fromstring(diagrams.svg(source))
        words = " ".join(drawn.itertext())
        for label in re.findall(r'"(.*?)"', source):
            assert all(word in words for word in label.split())
    with pytest.raises(ValueError, match="not understood"):
        diagrams.svg("flowchart LR\n a ==> b")
    with pytest.raises(ValueError, match="sequenceDiagram"):
        diagrams.svg("sequenceDiagram\n a --> b")


def test_the_names_page_is_what_the_tables_say_and_every_name_leads_somewhere():
    assert names_page.PAGE.read_text() == names_page.page(), "the tables changed: python -m tools.names_page"
    rows = [(ours, theirs) for group in names_page.table().values() for ours, theirs in group.items()]
    assert len(rows) > 150
    assert [name for ours, theirs in rows for name in (ours, *theirs) if not _exists(name)] == []


def test_predictions_and_notes_on_the_benchmark_page_are_those_recorded():
    page = report.page_path().read_text()
    assert page == report.refreshed(page), "baselines changed: python -m benchmarks.run --predicted --record OP"


@pytest.mark.parametrize("series", speedup.SERIES, ids=lambda series: series.name)
def test_the_first_picture_shows_what_is_predicted_today(series):
    kept = json.loads(speedup.FILE.read_text())["rows"]
    rows = {row["size"]: row for row in kept if row["series"] == series.name}
    assert list(rows) == list(series.sizes), "python -m benchmarks.speedup"
    now = speedup.predicted(series, 256)
    assert {name: rows[256][name] for name in now} == pytest.approx(now, rel=1e-6), (
        "python -m benchmarks.speedup --predicted"
    )
    drawn = (DOCS / "assets" / "speedup.svg").read_text()
    assert series.name in drawn, "python -m tools.pictures speedup"


def test_figures_of_eigh_are_the_same_on_every_page():
    """Milliseconds for one matrix, as recorded; every page that tells them tells these."""
    recorded = predictions.recorded("trnsolver.eigh")
    clocks = {name: target.clock_ghz["tensor"] * 1e6 for name, target in TARGETS.items()}
    ms = {(name, target): facts["cycles"] / clocks[target] for (name, target), facts in recorded.items()}
    page = (DOCS / "trnsolver" / "eigh.md").read_text()
    for rows in (128, 256, 512):
        (cells,) = re.findall(rf"^\| {rows} \|(.*)\|$", page.partition("Measured on the simulator")[0], re.M)
        for target, cell in zip(("trn1", "trn2", "trn3"), cells.split("|")[3:], strict=True):
            wanted = ms.get((_matrix(rows), target))
            assert float(f"{wanted:.3g}") == float(cell), f"eigh.md: {rows} rows on {target}"
    fit = (DOCS / "concepts" / "fit.md").read_text()
    for rows in (128, 512):
        (told,) = re.findall(rf"eigenproblems.*\| {rows} rows: ([\d.]+) ms", fit)
        assert float(told) == float(f"{ms[_matrix(rows), 'trn2']:.3g}"), f"fit.md: {rows} rows"


def _matrix(rows):
    """How the benchmark names one matrix: a program below 256 rows, a whole call of several from there on."""
    return f"1x{rows}x{rows}" if rows < 256 else f"{rows} rows"


def test_a_page_asks_no_other_host_for_letters_and_the_blog_has_a_feed():
    config = (ROOT / "mkdocs.yml").read_text()
    assert re.search(r"^  font: false$", config, re.M)
    assert "format: docs.diagrams.fence" in config
    assert re.search(r"^  - rss:$", config, re.M)
    assert (DOCS / "changelog.md").read_text() == '--8<-- "CHANGELOG.md"\n'


def test_the_settings_page_lists_every_variable_as_it_is():
    page = (DOCS / "settings.md").read_text()
    wanted = []
    for setting in config.settings():
        default = setting.default
        shown = "" if default is None else str(int(default)) if isinstance(default, bool) else str(default)
        shown = shown.replace(str(Path.home()), "~")
        accepts = setting.accepts.replace("|", r"\|")
        wanted.append(f"| `{setting.name}` | {accepts} | {f'`{shown}`' if shown else ''} | {setting.meaning} |")
    listed = [line for line in page.splitlines() if line.startswith("| `")]
    assert listed == wanted, "docs/settings.md should hold:\n" + "\n".join(wanted)


def test_the_errors_page_names_every_error():
    classes = {
        name
        for module in (suite_errors, machine_errors)
        for name, value in inspect.getmembers(module, inspect.isclass)
        if issubclass(value, machine_errors.TrnError) and not name.startswith("_")
    }
    page = (DOCS / "errors.md").read_text()
    assert sorted(name for name in classes if f"`{name}`" not in page) == []


def test_relative_links_of_the_readme_and_its_neighbours_lead_somewhere():
    for page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        for link in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", (ROOT / page).read_text()):
            assert "://" in link or (ROOT / link).exists(), f"{page}: {link} does not exist"


def test_the_readme_fits_a_screen_and_shows_every_package():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 64
    for path in (ROOT / "src").glob("*/__init__.py"):
        assert f"`{path.parent.name}`" in text, f"README.md: say what {path.parent.name} is"


def test_the_readme_counts_the_calibration_as_the_table_does():
    table = (DOCS / "concepts" / "timing.md").read_text()
    errors = [float(error) for error in re.findall(r"^\| trn\d \|.*\| ([+-][\d.]+)% \|", table, re.M)]
    counted = f"{sum(abs(error) <= 10 for error in errors)} of {len(errors)}"
    for page in ("README.md", "docs/blog/posts/2026-11-15-predicted-with-its-error.md"):
        assert counted in " ".join((ROOT / page).read_text().split()), f"{page}: within 10 % are {counted}"


def test_the_numerics_page_has_a_bound_for_every_kernel():
    page = (DOCS / "concepts" / "numerics.md").read_text()
    stems = [path.stem.split(".") for path in sorted(ROOT.glob("benchmarks/baselines/*.json"))]
    missing = [
        f"{library}/{stem}.md"
        for library, stem in stems
        if (DOCS / library / f"{stem}.md").exists() and f"](../{library}/{stem}.md)" not in page
    ]
    assert missing == [], "docs/concepts/numerics.md: say how far these may be off"


@together("path", sorted((DOCS / "assets").glob("*.svg")))
def test_a_picture_is_small_named_and_used(path):
    assert path.stat().st_size < 64 * 1024
    title = ElementTree.parse(path).getroot().find("{http://www.w3.org/2000/svg}title").text
    drawn = path.read_text()
    assert "µs" not in drawn or "predicted" in title
    words = [
        alt
        for page in DOCS.glob("**/*.md")
        for alt, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text())
        if target.endswith(f"assets/{path.name}")
    ]
    assert words, f"no page shows {path.name}"
    assert all(len(alt) > 20 for alt in words), f"{path.name}: say in words what it shows"


LIBRARIES = ("trnsci", "trnsim", "trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor", "trnchem")


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_reference_has_every_public_name_and_no_other(library):
    listed = set(re.findall(r"^::: (\S+)", (DOCS / "reference" / f"{library}.md").read_text(), re.M))
    package = importlib.import_module(library)
    missing = []
    for name in package.__all__:
        value = getattr(package, name)
        home = getattr(value, "__module__", None)
        # modules have pages of their own, constants and type aliases no docstring, errors a page for all
        if home is None or inspect.ismodule(value) or not home.startswith("trn"):
            continue
        if isinstance(value, type) and issubclass(value, machine_errors.TrnError):
            continue
        # what every library takes over from the runtime is described there
        if library != "trnsci" and home.startswith("trnsci."):
            continue
        # an alias is described under its first name
        first = getattr(value, "__name__", name)
        if not listed & {f"{library}.{first}", f"{home}.{first}", home}:
            missing.append(f"{home}.{first}")
    assert missing == [], f"docs/reference/{library}.md: add ::: lines"
    assert [name for name in sorted(listed) if not _exists(name)] == []


def _exists(dotted):
    """Whether a dotted name leads somewhere, modules first: ``trnfft.plan`` is both."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            value = getattr(value, part, None)
        return value is not None
    return False


def test_the_version_is_the_same_wherever_it_is_written():
    for page, pattern in (
        ("README.md", r"^Version (\S+),"),
        ("CITATION.cff", r"^version: (\S+)$"),
        ("CHANGELOG.md", r"^## (\S+)$"),
        ("tools/conda/recipe.yaml", r"^  version: (\S+)$"),
    ):
        found = re.search(pattern, (ROOT / page).read_text(), re.M)
        assert found, f"{page} names no version"
        assert found[1] == trnsci.__version__, f"{page}: {found[1]} is not {trnsci.__version__}"


def test_the_conda_recipe_asks_for_what_pip_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [line.replace("torch", "pytorch").replace(">=", " >=") for line in project["dependencies"]]
    recipe = (ROOT / "tools/conda/recipe.yaml").read_text().partition("  run:")[2]
    assert [line for line in wanted if f"    - {line}\n" not in recipe] == []


def test_no_page_names_the_package_of_the_public_index():
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"), *ROOT.glob("src/**/*.py"), ROOT / "README.md"]
    wrong = re.compile(r"pip install ['\"]?trnsci(?!\[\w+\] @ git)")
    lines = [(page, line) for page in pages for line in page.read_text().splitlines() if wrong.search(line)]
    assert [str(page) for page, line in lines if "Do not type" not in line] == []
