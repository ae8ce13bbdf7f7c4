"""The built site in a real browser, as wide as a desk and as narrow as a phone."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PAGES = [
    ".",
    "tour",
    "rosetta",
    "how-to/run-a-kernel",
    "how-to/precision",
    "how-to/masks",
    "concepts/timing",
    "concepts/numerics",
    "concepts/fit",
    "trnblas/gemm",
    "reference/trnblas",
    "errors",
    "blog",
    "blog/reciprocal-as-matmul",
]
WIDTHS = (1400, 390)

# frames, because a browser's window has a smallest width that no phone knows of
FRAMES = """<style>iframe { border: 0 }</style><body>FRAMES<script>
addEventListener("load", () => setTimeout(() => {
  const seen = {};
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument;
    const images = [...page.querySelectorAll("article img")];
    seen[frame.id] = {
      heading: page.querySelector("h1")?.innerText ?? "",
      overflow: page.documentElement.scrollWidth - frame.clientWidth,
      broken: images.filter(image => image.naturalWidth === 0).map(image => image.src),
      images: images.length,
      dates: [...page.querySelectorAll("time")].filter(time => time.checkVisibility()).length,
    };
  }
  const out = document.createElement("pre");
  out.id = "probe";
  out.textContent = JSON.stringify(seen);
  document.body.append(out);
}, 500));
</script></body>"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What every page looks like at every width, by (page, width)."""
    folder = tmp_path_factory.mktemp("site")
    # the builder wants everything under one roof
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    config = (ROOT / "mkdocs.yml").read_text().replace("paths: [src]", f"paths: [{ROOT / 'src'}]")
    (folder / "mkdocs.yml").write_text(config)
    build = [sys.executable, "-m", "zensical", "build"]
    subprocess.run(build, cwd=folder, check=True, capture_output=True, timeout=300)
    frames = [
        f'<iframe id="{page} {width}" src="site/{page}/index.html" width="{width}" height="900"></iframe>'
        for page in PAGES
        for width in WIDTHS
    ]
    (folder / "frames.html").write_text(FRAMES.replace("FRAMES", "\n".join(frames), 1))
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    command += [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=30000", "--window-size=1600,900"]
    done = subprocess.run(
        [*command, "--dump-dom", (folder / "frames.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return json.loads(re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.S)[1])


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_the_page_can_be_read(seen, page, width):
    found = seen[f"{page} {width}"]
    assert found["heading"]
    assert found["overflow"] <= 0, f"{page} is {found['overflow']} pixels wider than a screen of {width}"
    assert found["broken"] == []
    assert found["dates"] == 0


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_pictures_are_on_their_pages(seen):
    assert all(seen[f"{page} 390"]["images"] for page in ("tour", "how-to/masks", "concepts/fit", "concepts/timing"))
