"""``trnsci explain`` takes every public function of every library."""

import importlib
import inspect

import pytest

import trnrand
from tests.samples import REFUSED, WORDS, rows
from trnsci import cli, libraries


def test_the_table_has_every_public_function():
    public = {
        f"{library}.{name}"
        for library in WORDS
        for name in importlib.import_module(library).__all__
        if inspect.isfunction(getattr(importlib.import_module(library), name))
    }
    assert public == set(rows())


@pytest.fixture(autouse=True)
def state():
    """Functions that set something are explained by calling them."""
    kept = trnrand.get_state()
    yield
    trnrand.set_state(kept)
    for library in set(libraries.names()) - {"trnchem"}:
        importlib.import_module(library).set_backend(None)


def test_values_may_stand_after_options(capsys):
    assert cli.main(["explain", "trnsolver.lanczos", "--shapes", "16x16", "4"]) == 0
    assert capsys.readouterr().out.startswith("trnsolver::lanczos")
    with pytest.raises(SystemExit):
        cli.main(["explain", "trnsolver.lanczos", "--shapes", "16x16", "--four", "4"])
    assert "unrecognized arguments: --four 4" in capsys.readouterr().err


@pytest.mark.parametrize(
    "library",
    [pytest.param(name, marks=pytest.mark.slow if name in ("trnrand", "trnsolver") else ()) for name in WORDS],
)
def test_every_public_function_is_explained(library, capsys):
    failed = []
    for name, words in rows().items():
        if name.partition(".")[0] != library:
            continue
        status = cli.main(["explain", name, *words.split()])
        out, err = capsys.readouterr()
        if (status, bool(out), bool(err)) != ((1, False, True) if name in REFUSED else (0, True, False)):
            failed.append((name, status, (err or out)[:300]))
    assert not failed, failed
