"""The built site in a real browser, as wide as a desk and as narrow as a phone."""

import http.server
import json
import queue
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PAGES = [
    "index",
    "tour",
    "rosetta",
    "from-numpy",
    "concepts/life-of-a-call",
    "how-to/run-a-kernel",
    "how-to/precision",
    "how-to/masks",
    "concepts/timing",
    "concepts/numerics",
    "concepts/fit",
    "trnblas/gemm",
    "reference/trnblas",
    "errors",
    "blog/index",
    "blog/hello-trnsci",
    "blog/reciprocal-as-matmul",
    "notebooks/fit",
    "notebooks/kernel_timing",
    "changelog",
]
WIDTHS = (1400, 390)

# frames, because a browser's window has a smallest width that no phone knows of
FRAMES = """<style>iframe { border: 0 }</style><body>FRAMES<script>
const wait = milliseconds => new Promise(done => setTimeout(done, milliseconds));
const look = frame => {
  const page = frame.contentDocument;
  const images = [...page.querySelectorAll("article img")];
  const loaded = frame.contentWindow.performance.getEntriesByType("resource");
  return {
    heading: page.querySelector("h1")?.innerText ?? "",
    overflow: page.documentElement.scrollWidth - frame.clientWidth,
    broken: images.filter(image => image.naturalWidth === 0).map(image => image.src),
    images: images.length,
    dates: [...page.querySelectorAll("time")].filter(time => time.checkVisibility()).length,
    elsewhere: loaded.map(entry => entry.name).filter(name => !name.startsWith(location.origin)),
  };
};
const search = async (frame, words) => {
  const page = frame.contentDocument;
  page.querySelector(".md-search__button").click();
  for (let tries = 0; tries < 100; tries++) {
    await wait(200);
    const host = [...page.querySelectorAll("*")].find(element => element.shadowRoot?.querySelector("input"));
    if (!host) continue;
    const input = host.shadowRoot.querySelector("input");
    if (input.value !== words) {
      input.value = words;
      input.dispatchEvent(new frame.contentWindow.Event("input", {bubbles: true, composed: true}));
    }
    const hits = [...host.shadowRoot.querySelectorAll("ol[role=listbox] a")].map(link => link.href);
    if (hits.length) return hits;
  }
  return [];
};
addEventListener("load", async () => {
  await wait(1000);
  const frames = [...document.querySelectorAll("iframe")];
  const seen = Object.fromEntries(frames.map(frame => [frame.id, look(frame)]));
  seen.search = await search(frames[0], "cholesky");
  fetch("/seen", {method: "POST", body: JSON.stringify(seen)});
});
</script></body>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built where nothing else is."""
    folder = tmp_path_factory.mktemp("site")
    # the builder wants everything under one roof
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "CHANGELOG.md", folder)
    config = (ROOT / "mkdocs.yml").read_text().replace("paths: [src]", f"paths: [{ROOT / 'src'}]")
    (folder / "mkdocs.yml").write_text(config)
    build = [sys.executable, "-m", "zensical", "build"]
    subprocess.run(build, cwd=folder, check=True, capture_output=True, timeout=300)
    return folder / "site"


@pytest.fixture(scope="module")
def seen(site, tmp_path_factory):
    """What every page looks like at every width, by page and width, and what the search finds."""
    frames = [
        f'<iframe id="{page} {width}" src="/{page}.html" width="{width}" height="900"></iframe>'
        for page in PAGES
        for width in WIDTHS
    ]
    (site / "frames.html").write_text(FRAMES.replace("FRAMES", "\n".join(frames), 1))
    told = queue.Queue()

    class Served(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=site)

        def do_POST(self):  # the name is http.server's
            told.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Served) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1600,900"]
        # a port of its own keeps it open until the pages have told
        command += [f"--user-data-dir={tmp_path_factory.mktemp('profile')}", "--remote-debugging-port=0"]
        address = f"http://127.0.0.1:{server.server_port}/frames.html"
        browser = subprocess.Popen([*command, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return told.get(timeout=180)
        finally:
            browser.terminate()
            browser.wait(timeout=30)
            server.shutdown()


LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*\b(?:src|data)=[\"']?(?:https?:)?//[^\s>]*"
    r"|<link\b(?![^>]*rel=[\"']?(?:canonical|prev|next|alternate))[^>]*href=[\"']?(?:https?:)?//[^\s>]*"
    r"|(?:@import\s|url\()\s*[\"']?(?:https?:)?//[^\s)]*"
)


@pytest.mark.slow
def test_no_page_loads_anything_from_another_host(site):
    pages = [*site.rglob("*.html"), *site.rglob("*.css"), *site.rglob("*.svg")]
    assert len(pages) > 140
    found = {hit for page in pages for hit in LOADED.findall(page.read_text())}
    # what we name of ourselves by the full address
    assert {hit for hit in found if "https://trnsci.dev/" not in hit} == set()


@pytest.mark.slow
def test_the_feed_lists_every_post(site):
    feed = ElementTree.parse(site / "feed_rss_created.xml").getroot()
    posts = [path for path in (ROOT / "docs/blog/posts").glob("*.md") if not path.name.startswith("_")]
    links = {item.findtext("link") for item in feed.iter("item")}
    assert links == {f"https://trnsci.dev/blog/{path.stem[11:]}.html" for path in posts}
    assert 'type="application/rss+xml"' in (site / "blog/index.html").read_text()


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_the_search_finds_the_page_of_a_function(seen):
    assert any("/trnsolver/cholesky.html" in hit for hit in seen["search"]), seen["search"]


OFFLINE = """<script>
addEventListener("load", async () => {
  document.querySelector(".md-search__button").click();
  for (let tries = 0; tries < 200; tries++) {
    await new Promise(done => setTimeout(done, 100));
    const host = [...document.querySelectorAll("*")].find(element => element.shadowRoot?.querySelector("input"));
    if (!host) continue;
    const input = host.shadowRoot.querySelector("input");
    if (input.value !== "cholesky") {
      input.value = "cholesky";
      input.dispatchEvent(new Event("input", {bubbles: true, composed: true}));
    }
    const hits = [...host.shadowRoot.querySelectorAll("ol[role=listbox] a")].map(link => link.href);
    if (hits.length) { document.body.dataset.hits = hits.join(" "); return; }
  }
});
</script></body>"""


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_page_opened_as_a_file_navigates_and_searches(site, tmp_path):
    # a server sends the page of a missing address from anywhere
    for page in set(site.rglob("*.html")) - {site / "404.html"}:
        text = page.read_text()
        near = [link for link in re.findall(r'<a [^>]*href="([^"#]+)', text) if "://" not in link and ":" not in link]
        # a folder opened as a file is a listing
        assert [link for link in near if not (page.parent / link).is_file()] == [], page
    opened = site / "opened.html"
    opened.write_text((site / "index.html").read_text().replace("</body>", OFFLINE))
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom"]
    command += ["--virtual-time-budget=30000", opened.as_uri()]
    seen = subprocess.run(command, capture_output=True, text=True, timeout=180).stdout
    (hits,) = re.findall(r'data-hits="([^"]*)"', seen)
    assert "/trnsolver/cholesky.html" in hits


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
    assert found["elsewhere"] == []


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_pictures_are_on_their_pages(seen):
    assert all(seen[f"{page} 390"]["images"] for page in ("tour", "how-to/masks", "concepts/fit", "concepts/timing"))
