"""Pictures come from runs: drawn again, they are the same."""

import importlib.util
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture(scope="module")
def pictures():
    spec = importlib.util.spec_from_file_location("pictures", TOOLS / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_picture_of_the_docs_is_drawn_here(pictures):
    assert {path.stem for path in pictures.FOLDER.glob("*.svg")} == set(pictures.PICTURES)


@pytest.mark.parametrize("name", ["masks", "calibration"])
def test_a_picture_drawn_again_is_the_same(pictures, name):
    assert str(pictures.PICTURES[name]()) == (pictures.FOLDER / f"{name}.svg").read_text()


@pytest.mark.sim
@pytest.mark.parametrize("name", ["timeline-gemm", "timeline-mp2"])
def test_a_timeline_does_not_depend_on_the_run(pictures, name):
    assert str(pictures.PICTURES[name]()) == str(pictures.PICTURES[name]())
