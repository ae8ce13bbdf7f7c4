"""The demonstrations: what they find, what they print, and the page in a real browser."""

import json
import re
import shutil
import struct
import subprocess
import zlib

import numpy as np
import pytest

import trnchem
from trnchem.demo import picture, report, speech, water
from trnsci import cli, config, html_page
from trnsci.console import Table

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of the water demonstration, and what it printed as JSON."""
    path = tmp_path_factory.mktemp("demo") / "water.html"
    said = []
    found = water.water(said.append)
    path.write_text(found.html())
    assert len(said) >= 5
    return path, found


@pytest.mark.sim
def test_water_agrees_with_pyscf_and_with_the_published_energy(page):
    _, found = page
    assert found.ok
    rows = {(row["backend"], row["precision"]): row for row in found.facts["energies"]}
    assert set(rows) == {("PySCF", "fp64"), *water.RUNS}
    for (backend, precision), row in rows.items():
        assert row["e_corr"] == pytest.approx(-0.203977110, abs=5e-10 if precision == "fp64" else 2e-6), backend
        assert row["error"] <= {"fp64": 1e-9, "fp32": 2e-6}[precision]


@pytest.mark.sim
def test_water_predicts_every_generation_and_counts_what_residency_saves(page):
    _, found = page
    for key in ("predicted", "predicted_benzene"):
        assert [device["target"] for device in found.facts[key]] == list(config.TARGETS)
        for device in found.facts[key]:
            assert device["seconds"] > 0
            assert set(device["utilisation"]) == set(report.ENGINES)
            assert all(0 <= share <= 1.0001 for share in device["utilisation"].values())
    apart, kept = found.facts["transfers"]
    assert kept["to_device"] < apart["to_device"]
    assert kept["from_device"] < apart["from_device"]


@pytest.mark.sim
def test_a_picture_answers_each_question_and_no_table_repeats_it(page):
    _, found = page
    assert all(picture.title.endswith("?") for picture in found.drawn)
    text = page[0].read_text()
    headings = re.findall("<h2>(.*?)</h2>", text)
    assert len(headings) == len(set(headings)) == len(found.drawn) + len(found.details)
    # benzene: measured here, beside what is predicted with its interval
    here, *there = next(p for p in found.drawn if "benzene" in p.title).bars
    assert here.value == found.facts["benzene_seconds_measured"] > 0
    for bar, device in zip(there, found.facts["predicted_benzene"], strict=True):
        assert bar.value == device["seconds"] + device["starting"]
        assert device["starting"] > 0
    assert all(bar.interval[0] < bar.value < bar.interval[1] for bar in there)


@pytest.mark.sim
def test_water_says_where_each_step_ran_and_why(page):
    _, found = page
    table = next(t for t in found.tables if t.title.startswith("Where each step ran"))
    ops = {row[0] for row in table.rows}
    assert {"trnsolver.cholesky", "trnblas.gemm", "trntensor.mp2_energy"} <= ops
    assert table.note == 'All ran on simulator: trnsci.backend("simulator").'
    assert all(row[4].startswith(("pytorch: ", "nki: ")) for row in table.rows)


@pytest.mark.sim
def test_the_page_asks_nothing_of_the_network(page):
    text = page[0].read_text()
    assert not re.search(r"https?://|@import|url\(|<script", text)
    assert "predicted" in text


@pytest.mark.sim
@pytest.mark.skipif(BROWSER is None, reason="no browser on this machine")
def test_the_page_opens_in_a_browser(page, tmp_path):
    copy = tmp_path / "probe.html"
    probe = """<script>addEventListener("load", () => {
      const wide = [...document.querySelectorAll(".bar")].map(bar => bar.getBoundingClientRect().width);
      const out = document.createElement("pre"); out.id = "probe";
      const fits = document.documentElement.scrollWidth <= innerWidth;
      out.textContent = JSON.stringify({ bars: wide.length, widest: Math.max(...wide), fits,
        tables: document.querySelectorAll("table").length, title: document.title });
      document.body.append(out); });</script>"""
    copy.write_text(page[0].read_text().replace("</body>", probe + "</body>"))
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=900,1200", "--dump-dom"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", copy.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    found = json.loads(re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.S)[1])
    assert found["title"] == "Water on Trainium"
    # energies, stages, steps; what a picture tells is in no table
    assert found["tables"] == 3
    assert found["bars"] == 4 + 4 + 4 + 10 + 2
    assert found["widest"] > 300
    assert found["fits"]


@pytest.mark.sim
def test_an_energy_off_its_bound_fails_the_demonstration(monkeypatch, tmp_path, capsys):
    honest = trnchem.dfmp2

    class Off:
        def __init__(self, found):
            self.e_corr, self.e_os, self.e_ss = found.e_corr + 1e-5, found.e_os, found.e_ss

    monkeypatch.setattr(trnchem, "dfmp2", lambda *args, **options: Off(honest(*args, **options)))
    monkeypatch.setattr(water, "LARGER", (2, 8, 16))
    monkeypatch.setattr(water, "RUNS", (("pytorch", "fp64"), ("simulator", "fp32")))
    assert cli.main(["demo", "--html", str(tmp_path / "x.html")]) == 1
    printed = capsys.readouterr().out
    assert "Not every energy is within its bound" in printed
    assert f"The same as a page: {tmp_path / 'x.html'}" in printed


@pytest.mark.sim
def test_speech_gains_and_both_backends_agree(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(speech, "STEPS", 40)
    path = tmp_path / "speech.html"
    assert cli.main(["demo", "speech", "--json", "--html", str(path)]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["ok"]
    assert facts["page"] == str(path)
    here, there = facts["runs"]
    assert (here["backend"], there["backend"]) == ("pytorch", "simulator")
    assert here["gained"] > 3
    assert abs(here["after"] - there["after"]) <= speech.AGREE
    assert "data:image/png;base64," in path.read_text()


def test_noise_is_as_loud_as_the_voice_and_snr_is_what_it_says():
    clean, noise = speech.voice(3), speech.noise(3)
    assert speech.snr(clean + noise, clean) == pytest.approx(0.0, abs=0.2)
    assert speech.snr(clean + 0.1 * noise, clean) == pytest.approx(20.0, abs=0.2)


def test_an_unknown_demonstration_is_named(capsys):
    assert cli.main(["demo", "wine"]) == 1
    assert "NAME is 'wine', expected one of 'water', 'speech'" in capsys.readouterr().err


def test_pictures_are_png_with_low_frequencies_below():
    low = np.zeros((5, 7))
    low[0] = 1.0
    data = picture.spectrograms([low, low], scale=2, gap=3)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height) == (3 * 3 + 2 * 14, 10)
    length = struct.unpack(">I", data[33:37])[0]
    rows = np.frombuffer(zlib.decompress(data[41 : 41 + length]), np.uint8).reshape(height, 1 + 3 * width)
    bright, dark = rows[-1, 1 + 9 : 1 + 9 + 3], rows[0, 1 + 9 : 1 + 9 + 3]
    assert bright.tolist() == [253, 231, 170]
    assert dark.tolist() == [10, 10, 46]


def test_a_bar_can_be_measured_against_a_whole():
    bars = html_page.Bars("share", [html_page.Bar("a", 0.25, "25%")], full=1.0)
    assert "width:25.00%" in html_page.page("t", "l", [bars, Table("x", ("y",), [("z",)])])
