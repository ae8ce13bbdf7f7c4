"""The author brief of the blog, as rules: functions from a post to problems.

Nothing here judges taste. What it can see, it insists on: structure, front matter, length, voice, figures with units
and a label, code that exists, links that lead somewhere.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

from docs.blogcheck.post import CODE_SPAN, LINK, Block, Post, parse
from trnsim.targets import TARGETS

ROOT = Path(__file__).resolve().parents[2]
POSTS = ROOT / "docs" / "blog" / "posts"
# the libraries of the brief, and the CUDA library each stands beside
ANALOGS = {
    "trnblas": "cuBLAS",
    "trnfft": "cuFFT",
    "trnrand": "cuRAND",
    "trnsolver": "cuSOLVER",
    "trnsparse": "cuSPARSE",
    "trntensor": "cuTENSOR",
    "trnsim": None,
}
SECTIONS = (
    "The problem",
    "What the architecture suggests",
    "The approach",
    "Implementation",
    "What didn't work",
    "Fit assessment",
    "Numbers",
    "What's next",
    "Takeaway",
)
WORDS_MIN, WORDS_MAX = 1200, 2000
SAMPLE_LINES = 40
DEEP = "Deep dive"
# kinds of post that express a judgement: they have a byline, and may speak in the first person
SIGNED = ("Digest", "Thinking")
SIGNED_WORDS_MIN = 200
DIGESTED = 3
UNITS = {"µs": 1.0, "ms": 1e3, "s": 1e6}
# megahertz of the Tensor Engine, whose cycles the baselines count
CLOCKS = {name: target.clock_ghz["tensor"] * 1e3 for name, target in TARGETS.items()}
SUITE = ("https://trnsci.dev", "https://github.com/trnsci/trnsci/issues")
NKI = "https://awsdocs-neuron.readthedocs-hosted.com/"

NUMBER = r"\d[\d,.]*(?:\s?·\s?10[⁰¹²³⁴⁵⁶⁷⁸⁹]+)?\s?"
# a duration or a rate: what must be labelled, and what stands in for "fast"
TIMED = re.compile(NUMBER + r"(?:ns|µs|ms|s|seconds?|cycles?|[KMGT]B/s|[MGT]FLOPS?(?:/s)?|(?:\w+ )?(?:a|per) second)\b")
LABEL = re.compile(r"\b(predicted|predicts|prediction|measured|measurement|documented|published)\b", re.I)
SPEED = re.compile(
    r"\b(fast(?:er|est)?|quick(?:er|est|ly)?|slow(?:er|est|ly)?|rapid(?:ly)?|performant|high-performance|"
    r"speed-?ups?|\d[\d.]*\s?(?:×|x)(?!\s?\d))(?!\w)",
    re.I,
)
PERSON = re.compile(r"\b(I|I'm|I've|me|my|mine|[Ww]e|[Ww]e're|[Ww]e've|[Oo]urs?|us)\b")
MARKETING = re.compile(
    r"\b(unprecedented|blazing\w*|seamless(?:ly)?|revolution\w*|game.chang\w+|cutting.edge|state.of.the.art|world.class|"
    r"effortless(?:ly)?|powerful|supercharg\w+|delight\w*|best.in.class|unleash\w*)\b",
    re.I,
)
VAGUE = re.compile(r"\b(some (?:issues|problems|difficulties|challenges)|various (?:issues|problems))\b", re.I)
DATED = re.compile(
    r"\b\d{4}-\d{2}-\d{2}\b|\b(?:January|February|March|April|June|July|August|September|October|November|December) \d|"
    r"\b(?:this|last|next) (?:week|month)\b|\byesterday\b|\btoday\b",
    re.I,
)
EMOJI = re.compile("[\U0001f000-\U0001faff\u2600-\u27bf\u2b50\ufe0f]")
HARDWARE = ("Tensor Engine", "Vector Engine", "Scalar Engine", "GpSimd", "SBUF", "PSUM", "DMA", "HBM", "NEFF", "tile")

Problems = Iterator[tuple[int, str]]
RULES: dict[str, Callable[[Post], Problems]] = {}
# the kinds of post a rule holds for
HOLDS: dict[str, tuple[str, ...]] = {}


def rule(*kinds: str) -> Callable[[Callable[[Post], Problems]], Callable[[Post], Problems]]:
    """Register a rule under its function's name, for some kinds of post or for all."""

    def register(check: Callable[[Post], Problems]) -> Callable[[Post], Problems]:
        name = check.__name__.strip("_").replace("_", "-")
        RULES[name] = check
        HOLDS[name] = kinds or (DEEP, *SIGNED)
        return check

    return register


@rule()
def file_name(post: Post) -> Problems:
    """A date and a short slug."""
    name = re.fullmatch(r"(\d{4}-\d{2}-\d{2})-([a-z0-9]+(?:-[a-z0-9]+){1,5})\.md", post.path.name)
    if not name or len(name[2]) > 40:
        yield 1, f"the file is named <YYYY-MM-DD>-<short-slug>.md, six words and 40 letters at most: {post.path.name}"


@rule()
def front_matter(post: Post) -> Problems:
    """Date, slug, categories, comments, and ``authors`` where a byline belongs; they agree with name and title."""
    signed = post.category in SIGNED
    wanted = ("date", "slug", *(("authors",) if signed else ()), "categories", "comments")
    if tuple(post.meta) != wanted:
        yield 1, f"the front matter holds {', '.join(wanted)} and nothing else, in this order: it has {list(post.meta)}"
        return
    day, _, slug = post.path.stem[:10], "", post.path.stem[11:]
    try:
        date.fromisoformat(post.meta["date"])
    except ValueError:
        yield 2, f"date is not a date: {post.meta['date']}"
    if post.meta["date"] != day:
        yield 2, f"date is {post.meta['date']}, the file's name says {day}"
    if post.meta["slug"] != slug:
        yield 3, f"slug is {post.meta['slug']}, the file's name says {slug}"
    expected = f"[{post.category}]" if signed else f"[{DEEP}, {post.library}]"
    if post.meta["categories"] != expected:
        yield 4, f"categories are {expected}, found {post.meta['categories']}"
    known = re.findall(r"^  (\w+):$", (ROOT / "docs" / "blog" / ".authors.yml").read_text(), re.M)
    if signed and post.meta["authors"].strip("[]") not in known:
        yield 4, f"authors is one of {', '.join(known)} in brackets, found {post.meta['authors']}"
    if post.meta["comments"] != "true":
        yield 5, "comments is true"


@rule()
def title(post: Post) -> Problems:
    """One title; that of a deep dive is the library, then the idea."""
    headings = [b for b in post.kind("heading") if b.text.startswith("# ")]
    if post.category in SIGNED:
        if len(headings) != 1:
            yield 1, f"one title, found {len(headings)}"
    elif len(headings) != 1 or post.library not in ANALOGS or not post.title.partition(": ")[2]:
        yield 1, f"one title of the form 'library: idea', library one of {', '.join(ANALOGS)}; found {post.title!r}"


@rule(DEEP)
def sections(post: Post) -> Problems:
    """The headings of the brief, in its order, none empty."""
    found = [b for b in post.kind("heading") if b.text.startswith("## ")]
    if [b.section for b in found] != list(SECTIONS):
        yield (
            found[0].line if found else 1,
            f"sections are {', '.join(SECTIONS)}, in this order: found {', '.join(b.section for b in found)}",
        )
    for name in SECTIONS:
        if not post.kind("prose", name):
            yield 1, f"{name}: no prose"


@rule(DEEP)
def lead(post: Post) -> Problems:
    """Two or three sentences."""
    blocks = post.kind("prose", "")
    count = sum(len(b.sentences) for b in blocks)
    if len(blocks) != 1 or count not in (2, 3):
        yield 1, f"the lead is one paragraph of 2 or 3 sentences: found {len(blocks)} of {count}"


@rule(DEEP)
def takeaway(post: Post) -> Problems:
    """Three to five sentences."""
    count = sum(len(b.sentences) for b in post.kind("prose", "Takeaway"))
    if not 3 <= count <= 5:
        yield 1, f"the takeaway has 3 to 5 sentences: found {count}"


@rule()
def length(post: Post) -> Problems:
    """Prose alone counts."""
    least = SIGNED_WORDS_MIN if post.category in SIGNED else WORDS_MIN
    if not least <= post.words <= WORDS_MAX:
        yield 1, f"prose has {least} to {WORDS_MAX} words, and this post {post.words}; tables and diagrams are free"


@rule()
def voice(post: Post) -> Problems:
    """No marketing, no vague humility, no emoji, no date, few admonitions; unsigned, no byline and no first person."""
    for block in post.blocks:
        if block.kind in ("code", "comment"):
            continue
        for what, pattern in (
            *([] if post.category in SIGNED else [("the library is the subject, nobody else", PERSON)]),
            ("marketing voice", MARKETING),
            ("self-effacement is concrete or it is cut", VAGUE),
            ("readers do not see the date", DATED),
        ):
            for hit in pattern.findall(block.plain):
                yield block.line, f"{what}: {hit!r}"
        if EMOJI.search(block.text):
            yield block.line, "no emoji"
        if re.match(r"\**(?:by|author|written by)\b[: ]", block.text, re.I):
            yield block.line, f"no byline: {block.text.splitlines()[0]!r}"
    if len(post.kind("admonition")) > 1:
        yield post.kind("admonition")[1].line, "admonitions are for side channels: one at most"


@rule()
def figures(post: Post) -> Problems:
    """Speed is a figure with a unit in the same sentence; every time and rate says whether it was measured."""
    for block in post.kind("prose"):
        for sentence in block.sentences:
            word = SPEED.search(CODE_SPAN.sub("code", sentence))
            if word and not TIMED.search(sentence):
                yield (
                    block.line,
                    f"{word[0]!r} without an absolute figure and its unit: {' '.join(sentence.split())[:90]}",
                )
        timed = TIMED.search(block.plain)
        if timed and not LABEL.search(block.plain):
            yield block.line, f"{timed[0]!r}: predicted, measured, documented or published?"


@rule(DEEP)
def numbers(post: Post) -> Problems:
    """A table that differs in informative ways, its cells with units, labelled predicted or measured."""
    tables = post.kind("table", "Numbers")
    if not tables:
        yield 1, "Numbers: no table"
    about = " ".join(b.text for b in post.kind("prose", "Numbers"))
    for table in tables:
        rows = [[c.strip() for c in row.strip("| ").split("|")] for row in table.text.splitlines()]
        header, body = rows[0], rows[2:]
        if not LABEL.search(table.text + about):
            yield table.line, "say which figures are predicted and which measured"
        if len({tuple(row[1:]) for row in body}) < 2:
            yield table.line, "every row says the same: make it a sentence"
        for row in body:
            for head, cell in zip(header, row, strict=False):
                if re.fullmatch(r"[\d,.]+", cell) and not re.search(r"\(.+\)|\bof\b|%|count|blocks|rows|terms", head):
                    yield table.line, f"{cell} in column {head!r} has no unit"


@rule(DEEP)
def predictions(post: Post) -> Problems:
    """A cell under "trn2, predicted" is what the model says of a kernel of this library on trn2, as recorded."""
    for table in post.kind("table", "Numbers"):
        rows = [[c.strip() for c in row.strip().strip("|").split("|")] for row in table.text.splitlines()]
        for column, head in enumerate(rows[0]):
            known = _recorded(post.library, head)
            for row in rows[2:] if known is not None else ():
                cell = re.fullmatch(r"([\d.]+) (µs|ms|s)", row[column])
                if cell and not any(_rounds_to(us, cell[1], cell[2]) for us in known):
                    yield table.line, f"{cell[0]} under {head!r} is no recorded prediction: {row[0]}"


def _recorded(library: str, head: str) -> list[float] | None:
    """Microseconds a column may hold; None for columns that hold something else."""
    if library == "trnsim" and head == "predicted":
        page = (ROOT / "docs" / "concepts" / "timing.md").read_text()
        found = re.findall(r"\((?:total|active|benchmark)\) \| ([\d.]+) (µs|ms) \|", page)
        return [float(number) * UNITS[unit] for number, unit in found]
    if not re.fullmatch(r"trn\d, predicted", head):
        return None
    files = sorted((ROOT / "benchmarks" / "baselines").glob(f"{library}.*.json"))
    kernels = [targets for path in files for targets in json.loads(path.read_text()).values()]
    return [k[head[:4]]["cycles"] / CLOCKS[head[:4]] for k in kernels if head[:4] in k]


def _rounds_to(us: float, number: str, unit: str) -> bool:
    digits = len(number.partition(".")[2])
    return abs(us / UNITS[unit] - float(number)) <= 0.5001 * 10.0**-digits


@rule(DEEP)
def architecture(post: Post) -> Problems:
    """Hardware first, a trade-off with its cost, the CUDA analog, and both sides of the fit."""
    text = " ".join(b.text for b in post.kind("prose", "What the architecture suggests"))
    named = [word for word in HARDWARE if word in text]
    if len(named) < 3:
        yield 1, f"What the architecture suggests: name what the hardware offers; found only {named}"
    if not any(re.search(r"\b(costs?|price|trade-?offs?)\b", b.text) for b in post.kind("prose", "The approach")):
        yield 1, "The approach: a deliberate trade-off, with what it costs"
    analog = ANALOGS.get(post.library)
    if analog and not any(analog in b.text for b in post.kind("prose", "The problem")):
        yield 1, f"The problem: name {analog}"
    fit = " ".join(b.text for b in post.kind("prose", "Fit assessment"))
    if not re.search(r"\b(good|natural|well)\b", fit) or not re.search(r"\b(bad|badly|poor|poorly|awkward)\b", fit):
        yield 1, "Fit assessment: say where the workload fits well and where badly"


@rule(DEEP)
def upstream_ask(post: Post) -> Problems:
    """The last paragraph of what did not work is something AWS can act on."""
    section = post.kind("prose", "What didn't work")
    last = section[-1] if section else Block("prose", "", 1, "")
    if not last.text.startswith("**Upstream ask"):
        yield last.line, "What didn't work ends with a paragraph that begins **Upstream ask"
    elif not re.search(r"`(?:nki|nisa|nl|neuron)[\w.]*", last.text) or not LINK.search(last.text):
        yield last.line, "the ask names an NKI symbol and links what shows the need"


@rule(DEEP)
def samples(post: Post) -> Problems:
    """Code is from the tree, verbatim, under a first line that names its file; ``# ...`` leaves lines out."""
    blocks = [b for b in post.kind("code") if b.language not in ("mermaid", "text")]
    if not any(b.section == "Implementation" for b in blocks):
        yield 1, "Implementation: no code sample"
    for block in blocks:
        named, *body = block.text.splitlines()
        source = ROOT / named.removeprefix("# ").strip()
        if block.language != "python" or not named.startswith("# ") or not source.is_file():
            yield block.line, f"a sample is python and its first line is '# path/in/the/tree.py': {named!r}"
            continue
        if len(body) > SAMPLE_LINES:
            yield block.line, f"{len(body)} lines: samples stay within {SAMPLE_LINES}"
        if not verbatim(body, source.read_text()):
            yield block.line, f"this is not what {source.relative_to(ROOT)} says"


def verbatim(body: list[str], source: str) -> bool:
    """Whether the pieces between ``# ...`` lines occur in the source, in order, at any indentation."""
    lines = source.splitlines()
    at = 0
    for piece in re.split(r"^ *# \.\.\.$", "\n".join(body), flags=re.M):
        wanted = textwrap.dedent(piece).strip("\n").splitlines()
        size = len(wanted)
        starts = (i for i in range(at, len(lines) - size + 1) if _dedented(lines[i : i + size]) == wanted)
        found = next(starts, None)
        if not wanted or found is None:
            return False
        at = found + size
    return True


def _dedented(lines: list[str]) -> list[str]:
    return textwrap.dedent("\n".join(lines)).splitlines()


@rule(DEEP)
def visuals(post: Post) -> Problems:
    """Pictures carry structure, and decorate nothing."""
    drawn = [b for b in post.kind("code") if b.language == "mermaid"]
    pictures = len(drawn) + len(post.kind("picture"))
    if not 1 <= pictures <= 3 or len(drawn) > 2:
        yield 1, f"one to three pictures, two of them diagrams at most: found {pictures}"


@rule()
def links(post: Post) -> Problems:
    """Links lead somewhere, the suite is one click away; from a deep dive roadmap, NKI and two siblings too."""
    targets = [target for _, target in post.links]
    for line, target in post.links:
        if "://" not in target and not (post.path.parent / target.partition("#")[0]).resolve().is_file():
            yield line, f"{target} does not exist"
    siblings = {t for t in targets if re.fullmatch(r"\d{4}-\d{2}-\d{2}-[\w-]+\.md", t)} - {post.path.name}
    for start in (*SUITE, *(() if post.category in SIGNED else (NKI,))):
        if not any(t.startswith(start) for t in targets):
            yield 1, f"link to {start}"
    if post.category == "Digest" and len(siblings) < DIGESTED:
        yield 1, f"a digest links the posts it tells of, {DIGESTED} at least: found {sorted(siblings)}"
    if post.category in SIGNED:
        return
    following = [t for b in post.kind("prose", "What's next") for _, t in LINK.findall(b.text)]
    if f"../../roadmap.md#{post.library}" not in following:
        yield 1, f"What's next: link ../../roadmap.md#{post.library}, where the phases are tracked"
    if len(siblings) < 2:
        yield 1, f"link the posts of two sibling libraries: found {sorted(siblings)}"


def problems(path: Path) -> list[str]:
    """What is wrong with one post, as ``file:line: rule: what``."""
    post = parse(path)
    return [
        f"{path.name}:{line}: {name}: {what}"
        for name, check in RULES.items()
        # a post of no known kind is held to everything
        if post.category in HOLDS[name] or post.category not in (DEEP, *SIGNED)
        for line, what in check(post)
    ]


def posts() -> list[Path]:
    """Every post; the template is not one."""
    return sorted(path for path in POSTS.glob("*.md") if not path.name.startswith("_"))
