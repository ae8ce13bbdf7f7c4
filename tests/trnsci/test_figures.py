"""Results as pictures: in a notebook without any package, and in Matplotlib where it is there."""

import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import trnchem
import trnrand
import trnsolver
import trntensor
from trnsci import BackendUnavailable

A = np.diag(np.arange(1.0, 9.0)) + 0.1


@pytest.fixture
def axes():
    return Figure().add_subplot()


def drawn(html):
    """The picture in a fragment, parsed."""
    return ElementTree.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])


def test_an_iteration_shows_its_residuals(axes):
    result = trnsolver.cg(A, np.ones(8), tol=1e-10)
    line = drawn(result._repr_html_()).find("polyline").get("points").split()
    assert len(line) == len(result.residuals)
    heights = [float(point.split(",")[1]) for point in line]
    assert heights[-1] == max(heights)
    assert result.plot(axes) is axes
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), result.residuals)
    assert axes.get_yscale() == "log"


def test_a_residual_of_zero_and_no_step_are_drawn():
    for b in (np.zeros(8), np.ones(8)):
        drawn(trnsolver.cg(np.eye(8), b)._repr_html_())


@pytest.mark.parametrize(
    "sequence", [trnrand.Sobol(2), trnrand.Halton(3, seed=1), trnrand.Sobol(1), trnrand.Generator(7)]
)
def test_points_are_shown_and_not_drawn(sequence, axes):
    before = repr(sequence)
    assert len(drawn(sequence._repr_html_()).findall("circle")) == 256
    points = sequence.plot(64, axes).lines[0].get_xydata()
    assert repr(sequence) == before
    assert points.shape == (64, 2)
    if isinstance(sequence, trnrand.Generator):
        following = sequence.uniform(64, 2, dtype=torch.float64)
    else:
        following = sequence.random(64, dtype=torch.float64)
    np.testing.assert_array_equal(points, following[:, [0, min(2, following.shape[1]) - 1]])


def test_a_short_sequence_shows_what_it_has():
    assert len(drawn(trnrand.LatinHypercube(2, 8, seed=1)._repr_html_()).findall("circle")) == 8


def test_a_decomposition_shows_its_errors(axes):
    convergence = trntensor.cp(torch.rand(4, 4, 4, dtype=torch.float64), 2).convergence
    drawn(convergence._repr_html_())
    np.testing.assert_array_equal(convergence.plot(axes).lines[0].get_ydata(), convergence.errors)


def test_energies_are_bars_and_pairs_a_map(axes):
    result = trnchem.dfmp2("hydrogen fluoride", options=trnchem.MP2Options(basis="sto-3g"))
    assert [bar.get_width() for bar in result.plot(axes).patches] == [result.e_os, result.e_ss, result.e_corr]
    axes.clear()
    result = trnchem.dfmp2("water", options=trnchem.MP2Options(basis="sto-3g", pairs=True))
    assert float(result.plot(axes).images[0].get_array().sum()) == pytest.approx(result.e_corr, abs=1e-12)


def test_without_matplotlib_the_error_names_the_extra():
    program = "import sys; sys.modules['matplotlib'] = None; import trnrand; trnrand.Sobol(2).plot()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert BackendUnavailable.__name__ in done.stderr
    assert "the extra 'plot'" in done.stderr
