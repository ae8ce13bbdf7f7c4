"""Pages that repeat facts from the code repeat them correctly, and every page can be found."""

import inspect
import re
from pathlib import Path

from trnsci import config
from trnsci import errors as suite_errors
from trnsim import errors as machine_errors

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def test_the_navigation_lists_every_page_once():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    listed = re.findall(r": (\S+\.md)$", nav, re.M)
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.glob("**/*.md")]
    assert sorted(listed) == sorted(pages)


def test_the_settings_page_lists_every_variable_as_it_is():
    page = (DOCS / "settings.md").read_text()
    wanted = []
    for setting in config.SETTINGS:
        default = setting.default
        shown = "" if default is None else str(int(default)) if isinstance(default, bool) else str(default)
        shown = shown.replace(str(Path.home()), "~")
        accepts = setting.accepts.replace("|", r"\|")
        wanted.append(f"| `{setting.name}` | {accepts} | {f'`{shown}`' if shown else ''} | {setting.meaning} |")
    listed = [line for line in page.splitlines() if line.startswith("| `TRN")]
    assert listed == wanted, "docs/settings.md should hold:\n" + "\n".join(wanted)


def test_the_errors_page_names_every_error():
    classes = {
        name
        for module in (suite_errors, machine_errors)
        for name, value in inspect.getmembers(module, inspect.isclass)
        if issubclass(value, machine_errors.TrnError)
    }
    page = (DOCS / "errors.md").read_text()
    assert sorted(name for name in classes if f"`{name}`" not in page) == []


def test_relative_links_of_the_readme_and_its_neighbours_lead_somewhere():
    for page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        for link in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", (ROOT / page).read_text()):
            assert "://" in link or (ROOT / link).exists(), f"{page}: {link} does not exist"
