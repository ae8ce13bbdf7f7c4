"""Pictures: the Perfetto trace parses, the page works in a browser."""

import itertools
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

import trnsim
from benchmarks.calibration import attention, matmul
from tests.trnsim.timing.kernels import shaped
from trnsim import isa as nisa, language as nl
from trnsim.trace import lanes

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def report():
    return trnsim.profile(attention.fused, target="trn2", numerics=False)(*[shaped(128, 512)] * 3)[1]


def test_bars_on_a_track_do_not_overlap(report):
    tracks = lanes(report)
    assert {"Tensor", "Vector", "Scalar", "GpSimd", "loads", "stores"} <= {name for _, name in tracks}
    for bars in tracks.values():
        for before, after in itertools.pairwise(bars):
            assert before.end_s <= after.start_s + 1e-15
    assert (
        sum(len(bars) for (_, name), bars in tracks.items() if name == "Tensor")
        == report.engines["tensor"].instructions
    )


def _fields(data):
    """(number, value) of a protobuf message; nested ones stay bytes."""
    at = 0

    def varint():
        nonlocal at
        n = shift = 0
        while True:
            byte = data[at]
            at += 1
            n |= (byte & 0x7F) << shift
            if byte < 0x80:
                return n
            shift += 7

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2
            size = varint()
            yield key >> 3, data[at : at + size]
            at += size


def test_the_perfetto_trace_has_a_track_per_engine_and_lines_on_slices(report, tmp_path):
    data = report.save(tmp_path / "x.pftrace").read_bytes()
    names, slices, depth = {}, [], {}
    for number, packet in _fields(data):
        assert number == 1
        fields = dict(_fields(packet))
        if 60 in fields:
            track = dict(_fields(fields[60]))
            names[track[1]] = track.get(2, b"").decode()
            continue
        event = list(_fields(fields[11]))
        plain = dict(event)
        if plain[9] == 1:
            notes = {dict(_fields(v))[10].decode(): dict(_fields(v))[6].decode() for n, v in event if n == 4}
            slices.append((names[plain[11]], plain[23].decode(), fields[8], notes["line"]))
            depth[plain[11]] = depth.get(plain[11], 0) + 1
        else:
            depth[plain[11]] -= 1
            assert depth[plain[11]] == 0
    assert set(depth.values()) == {0}
    assert {"Tensor", "Vector", "Scalar"} <= set(names.values())
    assert {"nc_matmul", "activation", "dma_copy"} <= {name for _, name, _, _ in slices}
    assert all(re.search(r"\.py:\d+$", line) for *_, line in slices)


def test_perfetto_itself_reads_the_trace(report, tmp_path):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    read = perfetto_trace_pb2.Trace()
    read.ParseFromString(report.save(tmp_path / "x.pftrace").read_bytes())
    begins = [p for p in read.packet if p.HasField("track_event") and p.track_event.type == 1]
    assert len(begins) == sum(len(bars) for bars in lanes(report).values())


def test_the_page_is_self_contained(report, tmp_path):
    page = report.save(tmp_path / "x.html").read_text()
    assert not re.search(r"(src|href)=|https?://|@import|url\(", page)
    data = json.loads(re.search(r"const D = (.*);\n", page)[1])
    assert data["kernel"] == "fused"
    assert data["headline"].startswith("Bound by")
    assert {track["name"] for track in data["tracks"]} >= {"Tensor", "Vector", "Scalar", "loads"}
    assert any(bar[5] for track in data["tracks"] for bar in track["bars"])


def test_dense_timelines_are_thinned(report, tmp_path, monkeypatch):
    monkeypatch.setattr("trnsim.trace.MOST_BARS", 10)
    many = shaped(2048, 2048, dtype=np.float16)
    dense = trnsim.profile(matmul.fully_blocked, target="trn2", numerics=False)(many, many)[1]
    page = dense.save(tmp_path / "x.html").read_text()
    data = json.loads(re.search(r"const D = (.*);\n", page)[1])
    assert data["merged"]
    assert any("×" in name for name in data["names"])


PROBE = """<script>
addEventListener("load", () => {
  const canvas = document.getElementById("c"), span = () => canvas.dataset.to - canvas.dataset.from, before = span();
  const shade = () => {
    const g = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let n = 0;
    for (let i = 3; i < g.length; i += 4) if (g[i]) n++;
    return n;
  };
  const painted = shade();
  document.getElementById("in").click();
  const zoomed = span();
  const box = canvas.getBoundingClientRect();
  const middle = { clientX: box.left + box.width / 2, clientY: box.top + 40 };
  canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -1, cancelable: true, ...middle }));
  const wheeled = span();
  document.getElementById("all").click();
  const out = document.createElement("pre");
  out.id = "probe";
  const count = what => document.querySelectorAll(what).length;
  const counts = { rows: count("#path tr"), uses: count(".use"), roof: count("#roof svg circle") };
  out.textContent = JSON.stringify({ painted, before, zoomed, wheeled, after: span(), ...counts });
  document.body.append(out);
});
</script>"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
@pytest.mark.slow
def test_the_page_draws_and_zooms_in_a_real_browser(report, tmp_path):
    page = report.save(tmp_path / "x.html")
    page.write_text(page.read_text().replace("</body>", PROBE + "</body>"))
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=4000",
        "--window-size=1400,900",
        "--dump-dom",
        page.as_uri(),
    ]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    seen = json.loads(re.search(r'<pre id="probe">(.*?)</pre>', made, re.S)[1])
    assert seen["painted"] > 5000
    assert seen["zoomed"] == pytest.approx(seen["before"] / 2, rel=0.05)
    assert seen["wheeled"] < seen["zoomed"]
    assert seen["after"] == pytest.approx(seen["before"])
    assert seen["rows"] > 3
    assert seen["uses"] >= 5
    assert seen["roof"]


def test_the_roofline_of_two_cores_and_of_kernels_without_products_is_drawn(tmp_path):
    from trnsim.trace import _roof

    def moves(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    def multiplies(x, y):
        out = nl.ndarray((2, 128, 512), nl.float32, buffer=nl.shared_hbm)
        ps = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(ps, nl.load(x), nl.load(y), accumulate=False)
        nl.store(out[nl.program_id(0) if nl.num_programs(0) > 1 else 0], nl.copy(ps))
        if nl.num_programs(0) == 1:
            nl.store(out[1], nl.copy(ps))
        return out

    x, y = np.ones((128, 128), np.float32), np.ones((128, 512), np.float32)
    _, one = trnsim.profile(multiplies, lint="off")(x, y)
    _, two = trnsim.profile(trnsim.jit(multiplies)[2], lint="off")(x, y)
    assert _roof(two)["peak"] == 2 * _roof(one)["peak"]
    assert _roof(two)["bandwidth"] == 2 * _roof(one)["bandwidth"]
    assert _roof(two)["achieved"] > 0
    _, none = trnsim.profile(moves)(y)
    roof = _roof(none)
    assert roof["achieved"] == 0
    assert 0 < roof["moved"] < roof["bandwidth"]
    assert roof["peak"] > 0
    assert "no products" in none.save(tmp_path / "page.html").read_text()
