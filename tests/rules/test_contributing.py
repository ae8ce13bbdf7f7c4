"""The walk of CONTRIBUTING.md, followed: every file it shows is written, every command it shows is run."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from tests.rules.test_rules_bite import load_rule

STEP = re.compile(r'^```(?P<language>\w+) title="(?P<title>[^"]+)"\n(?P<text>.*?)^```$', re.M | re.S)
# what the walk's files are held to, as far as a rule reads nothing but them
RULES = [
    "kernels.kernels_import_only_the_seam",
    "kernels.hardware_sizes_come_from_the_seam",
    "kernels.instructions_name_their_operands",
    "kernels.one_entry_per_file_and_private_parts",
    "kernels.only_shapes_trail_a_line",
    "layout.an_op_that_starts_a_kernel_has_one_of_its_name",
    "layout.one_word_finds_everything",
    "layout.every_kernel_belongs_to_an_op_and_has_a_baseline",
    "source.every_module_says_what_it_is",
    "source.text_points_nowhere_outside_the_project",
    "tests.every_skip_has_a_reason",
]


# files that are written for each change, and lists that get its name
WALKS = {
    "Add an op in an afternoon": (
        {
            "docs/trnblas/hadamard.md",
            "src/trnblas/hadamard.py",
            "src/trnblas/kernels/hadamard.py",
            "tests/trnblas/test_hadamard.py",
            "tests/samples.py",
            "benchmarks/trnblas/hadamard.py",
        },
        {"mkdocs.yml", "src/trnblas/__init__.py", "docs/reference/trnblas.md", "CHANGELOG.md"},
    ),
    "Add a window": ({"src/trnsparse/masks.py", "tests/samples.py"}, set()),
    "Add an instruction": (
        {"src/trnsim/isa/vector.py", "src/trnsim/timing/compute.py", "tests/trnsim/test_vector.py"},
        {"src/trnsim/isa/__init__.py", "tests/trnsim/nki_reference.py"},
    ),
    "Add a generation": ({"src/trnsim/targets.toml", "src/trnsim/constants.toml", "src/trnsci/config.py"}, set()),
}


def _steps(root, walk="Add an op in an afternoon"):
    section = (root / "CONTRIBUTING.md").read_text().partition(f"## {walk}\n")[2].partition("\n## ")[0]
    return list(STEP.finditer(section))


def _files(root):
    """Files that the walk adds, with the baseline its benchmark records."""
    shown = {step["title"]: step["text"] for step in _steps(root) if step["language"] in ("python", "markdown")}
    (recorded,) = re.findall(r"--record (\S+)", (root / "CONTRIBUTING.md").read_text().partition("## Write about")[0])
    return {**shown, f"benchmarks/baselines/{recorded}.json": "{}\n"}


def _insert(text, change, name):
    """Apply a diff: each change follows the line of context before it, the next one of those words in the file."""
    lines, position = text.splitlines(), None
    for line in change.splitlines():
        if line.startswith("+"):
            lines.insert(position, line[1:])
            position += 1
        else:
            places = [i for i, other in enumerate(lines) if other == line[1:] and i >= (position or 0)]
            assert places, f"CONTRIBUTING.md: {name} has no line {line[1:]!r}"
            position = places[0]
            if line.startswith("-"):
                del lines[position]
            else:
                position += 1
    return "\n".join(lines) + "\n"


def test_the_files_of_the_walk_keep_the_rules(tree, make_tree):
    walked = make_tree(_files(tree.root))
    for name in RULES:
        load_rule(name)(walked)


def test_a_rule_names_each_file_of_the_walk_that_is_missing(tree, make_tree):
    files = _files(tree.root)
    assert len(files) == 6
    for path, text in files.items():
        (make_tree(files).root / path).unlink()
        missed = []
        for name in RULES:
            try:
                load_rule(name)(make_tree({}))
            except AssertionError as error:
                missed += str(error).split()
        assert path in missed
        make_tree({path: text})


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_changes_the_files_it_says(tree, walk):
    written, lists = WALKS[walk]
    changed = {step["title"] for step in _steps(tree.root, walk) if step["language"] != "console"}
    assert changed == written | lists
    words = {2: "two", 3: "three", 4: "four", 6: "six"}
    text = (tree.root / "CONTRIBUTING.md").read_text().partition(f"## {walk}\n")[2].partition("\n## ")[0]
    assert f"takes {words[len(written)]} files" in text
    assert not lists or f"in {words[len(lists)]} lists" in text


@pytest.mark.slow
@pytest.mark.parametrize("walk", WALKS)
def test_the_walk_works(tree, tmp_path, walk):
    ignored = shutil.ignore_patterns(".git", ".venv", "site", "build", ".*_cache", ".hypothesis")
    root = tmp_path / "copy"
    shutil.copytree(tree.root, root, ignore=ignored)
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}", "OMP_NUM_THREADS": "1"}
    for step in _steps(tree.root, walk):
        language, title, text = step["language"], step["title"], step["text"]
        path = root / title
        if language == "console":
            for command in text.splitlines():
                program, *words = shlex.split(command.removeprefix("$ "))
                assert program == "python"
                done = subprocess.run(
                    [sys.executable, *words], cwd=root, env=environment, capture_output=True, text=True
                )
                assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        elif language == "diff":
            path.write_text(_insert(path.read_text(), text, title))
        else:
            path.write_text(text)
