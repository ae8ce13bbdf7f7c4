"""Conventions as tests: the parsed source tree, shared by every rule."""

import ast as syntax
import tomllib
from functools import cached_property
from pathlib import Path

import pytest


class Module:
    """One source file, read and parsed once."""

    def __init__(self, path, root):
        self.path = path
        self.name = path.relative_to(root).as_posix()
        self.parts = path.relative_to(root).parts

    @cached_property
    def text(self):
        return self.path.read_text()

    @cached_property
    def ast(self):
        return syntax.parse(self.text)

    @cached_property
    def nodes(self):
        return list(syntax.walk(self.ast))

    def at(self, node):
        return f"{self.name}:{node.lineno}"


class Tree:
    """The repository as files; a rule collects every offender and hands the list to ``refuse``."""

    operations = ("trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor")

    def __init__(self, root):
        self.root = root
        self._known = {}

    def modules(self, pattern):
        paths = sorted(self.root.glob(pattern))
        return [self._known.setdefault(path, Module(path, self.root)) for path in paths]

    @cached_property
    def sources(self):
        return self.modules("src/**/*.py")

    @cached_property
    def kernels(self):
        return [m for m in self.modules("src/*/kernels/**/*.py") if m.path.name != "__init__.py"]

    @cached_property
    def pyproject(self):
        return tomllib.loads((self.root / "pyproject.toml").read_text())

    def missing(self, paths):
        return [path for path in paths if not (self.root / path).exists()]

    @staticmethod
    def refuse(offenders):
        assert not offenders, "\n  " + "\n  ".join(offenders)


@pytest.fixture(scope="session")
def tree():
    return Tree(Path(__file__).resolve().parents[2])


@pytest.fixture
def make_tree(tmp_path):
    """A small repository of the given files, to show that a rule bites."""

    def make(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Tree(tmp_path)

    return make
