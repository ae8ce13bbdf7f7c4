"""Posts follow the author brief, and every rule of the check fires on a post that breaks it."""

import re
import subprocess
import sys

import pytest

from docs.blogcheck.post import parse
from docs.blogcheck.rules import DEEP, HOLDS, POSTS, ROOT, RULES, SECTIONS, SIGNED, posts, problems, verbatim
from tests.together import together

# the post the rules are shown on; every case below is one edit of it
POST = "2026-11-15-reciprocal-as-matmul.md"
DIGEST, THINKING = "2026-11-16-seven-posts-one-habit.md", "2026-11-16-hello-trnsci.md"


@together("path", posts())
def test_the_post_follows_the_brief(path):
    assert problems(path) == []


def test_every_library_and_the_simulator_have_a_post():
    assert {post.library for post in map(parse, posts()) if post.category == DEEP} == {
        "trnblas",
        "trnfft",
        "trnrand",
        "trnsolver",
        "trnsparse",
        "trntensor",
        "trnsim",
    }


def test_the_template_has_the_sections_of_the_brief():
    template = parse(POSTS / "_template.md")
    assert tuple(b.section for b in template.kind("heading") if b.text.startswith("## ")) == SECTIONS


def _section(text, name):
    """A section with its heading."""
    return re.search(rf"^## {name}\n.*?(?=^## |\Z)", text, re.M | re.S)[0]


def _without(name):
    return lambda text: text.replace(_section(text, name), "")


def _body(name, body):
    return lambda text: text.replace(_section(text, name), f"## {name}\n\n{body}\n\n")


def _swap(old, new, count=1):
    def edit(text):
        assert old in text, f"the edit does not apply: {old!r}"
        return text.replace(old, new, count)

    return edit


def _first_table(change):
    def edit(text):
        section = _section(text, "Numbers")
        table = re.search(r"(?:^\|.*\n)+", section, re.M)[0]
        return text.replace(table, change(table))

    return edit


def _rows_alike(table):
    header, rule, first, *_ = table.splitlines(keepends=True)
    return header + rule + first + first


# rule: (what is wrong, edit of a post that follows the brief)
BROKEN = [
    ("front-matter", "a byline in the front matter", _swap("comments: true", "comments: true\nauthors: [someone]")),
    ("front-matter", "no comments", _swap("comments: true\n", "")),
    ("front-matter", "another date", _swap("date: 2026-11-15", "date: 2026-11-14")),
    ("front-matter", "no date at all", _swap("date: 2026-11-15", "date: soon")),
    ("front-matter", "another slug", _swap("slug: reciprocal-as-matmul", "slug: division")),
    ("front-matter", "another library", _swap("[Deep dive, trnblas]", "[Deep dive, trnfft]")),
    ("title", "no library in the title", _swap("# trnblas: the reciprocal", "# The reciprocal")),
    ("title", "two titles", _swap("## The problem", "# Another title\n\n## The problem")),
    ("sections", "a section is missing", _without("Fit assessment")),
    ("sections", "sections out of order", lambda t: t.replace("## The problem", "## The approach", 1)),
    ("sections", "an empty section", _body("Takeaway", "")),
    ("lead", "a lead of one sentence", lambda t: re.sub(r"(# trnblas.*\n\n).*", r"\1One sentence.", t, count=1)),
    ("takeaway", "a takeaway of two sentences", _body("Takeaway", "One. Two.")),
    ("length", "too long", _swap("## The approach\n", "## The approach\n\n" + "word " * 800 + "\n")),
    ("length", "too short", _body("What didn't work", "Much.")),
    ("voice", "first person singular", _swap("Small products.", "Small products, I think.")),
    ("voice", "first person plural", _swap("The quadrature is", "We built it: the quadrature is")),
    ("voice", "a byline in the text", _swap("<!-- more -->", "By Somebody\n\n<!-- more -->")),
    ("voice", "marketing", _swap("The quadrature is", "The unprecedented quadrature is")),
    ("voice", "vague humility", _swap("The quadrature is", "There were some issues. The quadrature is")),
    ("voice", "the date inline", _swap("The quadrature is", "As of November 2026 the quadrature is")),
    ("voice", "emoji", _swap("The quadrature is", "\U0001f680 The quadrature is")),
    ("voice", "too many admonitions", _swap("## The approach\n", "## The approach\n\n" + "!!! note\n    x\n\n" * 2)),
    ("figures", "fast without a figure", _swap("The quadrature is", "It is fast. The quadrature is")),
    ("figures", "a bare ratio", _swap("The quadrature is", "It has a 3x speedup. The quadrature is")),
    ("figures", "a time without a label", _swap("The quadrature is", "It takes 5 µs.\n\nThe quadrature is")),
    ("numbers", "no table", _first_table(lambda table: "")),
    ("numbers", "rows that say the same", _first_table(_rows_alike)),
    ("numbers", "a figure without a unit", _first_table(lambda table: table.replace("138 µs", "138"))),
    ("predictions", "a figure nobody predicted", _first_table(lambda table: table.replace("138 µs", "128 µs"))),
    ("architecture", "no hardware", _body("What the architecture suggests", "It suggests care. " * 60)),
    ("architecture", "no trade-off", _body("The approach", "The design was chosen. " * 60)),
    ("architecture", "no CUDA analog", lambda t: t.replace("cuBLAS", "the usual library")),
    ("architecture", "no bad fit", _body("Fit assessment", "It is a natural fit and works well everywhere.")),
    ("upstream-ask", "no ask", _swap("**Upstream ask.**", "**A thought.**")),
    ("upstream-ask", "a vague ask", lambda t: re.sub(r"\*\*Upstream ask.*", "**Upstream ask.** Better documents.", t)),
    ("samples", "no code", lambda t: re.sub(r"```python.*?```\n", "", t, flags=re.S)),
    ("samples", "pseudocode", _swap("accumulate=a.index > 0)", "accumulate=maybe)")),
    ("samples", "no file named", _swap("# src/trnblas/kernels/mp2.py\n", "")),
    ("samples", "a file that does not exist", _swap("# src/trnblas/kernels/mp2.py", "# src/trnblas/kernels/mp3.py")),
    ("visuals", "no picture", lambda t: re.sub(r"```mermaid.*?```\n|!\[[^\n]*", "", t, flags=re.S)),
    ("visuals", "decoration", _swap("## The approach\n", "## The approach\n\n" + "```mermaid\na\n```\n\n" * 3)),
    ("links", "a broken link", _swap("../../trnblas/split.md", "../../trnblas/spilt.md")),
    ("links", "no roadmap", _swap("../../roadmap.md#trnblas", "../../roadmap.md")),
    ("links", "no home", _swap("https://trnsci.dev", "https://example.org")),
    ("links", "no tracker", _swap("https://github.com/trnsci/trnsci/issues", "https://example.org")),
    (
        "links",
        "NKI not linked",
        lambda t: t.replace("https://awsdocs-neuron.readthedocs-hosted.com/", "https://example.org/"),
    ),
    ("links", "no siblings", lambda t: re.sub(r"\(2026-11-15-[\w-]+\.md\)", "(../index.md)", t)),
]


# the exceptions end here: signed posts are held to the rest of the brief
SIGNED_BROKEN = [
    (DIGEST, "front-matter", "a digest nobody signs", _swap("authors: [trnsci]\n", "")),
    (THINKING, "front-matter", "a name nobody knows", _swap("authors: [trnsci]", "authors: [somebody]")),
    (THINKING, "front-matter", "two categories", _swap("[Thinking]", "[Thinking, trnfft]")),
    (THINKING, "front-matter", "a kind that does not exist", _swap("[Thinking]", "[Musing]")),
    (DIGEST, "title", "two titles", _swap("## The chain", "# Another title")),
    (DIGEST, "length", "too long", _swap("## The chain\n", "## The chain\n\n" + "word " * 2000 + "\n")),
    (DIGEST, "voice", "marketing", _swap("The clearest case", "The most powerful case")),
    (THINKING, "voice", "the date inline", _swap("It is also young", "As of today it is young")),
    (DIGEST, "figures", "a time without a label", lambda t: re.sub("predicted|measured", "seen", t)),
    (DIGEST, "links", "a digest of nothing", lambda t: re.sub(r"\(2026-11-15-[\w-]+\.md\)", "(../index.md)", t)),
    (THINKING, "links", "a broken link", _swap("../../tour.md", "../../detour.md")),
]


@together(("post", "name", "wrong", "edit"), SIGNED_BROKEN)
def test_a_rule_fires_for_signed_posts_too(post, name, wrong, edit, tmp_path):
    assert name in broken(post, edit, tmp_path / wrong)


@pytest.mark.parametrize("post", [DIGEST, THINKING])
def test_signed_posts_speak_in_the_first_person_and_would_be_refused_unsigned(post, tmp_path):
    text = (POSTS / post).read_text()
    assert re.search(r"\b[Ww]e\b", text)
    category = parse(POSTS / post).category
    assert category in SIGNED
    unsigned = lambda t: t.replace("authors: [trnsci]\n", "").replace(f"[{category}]", "[Deep dive, trnblas]")  # noqa: E731
    assert {"voice", "sections", "title"} <= broken(post, unsigned, tmp_path)


def test_the_page_of_the_brief_names_every_rule():
    page = (POSTS.parent / "author-brief.md").read_text()
    for name, check in RULES.items():
        who = "deep dives" if HOLDS[name] == (DEEP,) else "every post"
        what = check.__doc__.strip().splitlines()[0].replace("``", "`")
        assert f"| `{name}` | {who} | {what} |" in page
    assert all(f"**{section}**" in page for section in SECTIONS)


@together(("name", "wrong", "edit"), BROKEN)
def test_the_rule_fires(name, wrong, edit, tmp_path):
    assert name in broken(POST, edit, tmp_path / name / wrong)


def broken(post, edit, tmp_path):
    """The rules that fire on a post after an edit."""
    text = (POSTS / post).read_text()
    changed = edit(text)
    assert changed != text
    # beside its siblings, so that only the edit is wrong
    folder = tmp_path / "docs" / "blog" / "posts"
    folder.parent.parent.mkdir(parents=True)
    for source in (ROOT / "docs").iterdir():
        if source.name != "blog":
            (folder.parent.parent / source.name).symlink_to(source)
    folder.mkdir(parents=True)
    for page in ("index.md", "author-brief.md"):
        (folder.parent / page).symlink_to(POSTS.parent / page)
    for sibling in posts():
        (folder / sibling.name).symlink_to(sibling)
    (folder / post).unlink()
    (folder / post).write_text(changed)
    return {problem.split(": ")[1] for problem in problems(folder / post)}


@pytest.mark.parametrize(
    "name", ["reciprocal.md", "2026-11-15.md", "2026-11-15-a-very-long-slug-of-many-many-words.md"]
)
def test_the_file_name_is_a_date_and_a_short_slug(name, tmp_path):
    path = tmp_path / name
    path.write_text((POSTS / POST).read_text())
    assert any(problem.split(": ")[1] == "file-name" for problem in problems(path))


def test_every_rule_is_shown_to_fire():
    assert {name for name, _, _ in BROKEN} | {"file-name"} == set(RULES)


def test_only_prose_counts(tmp_path):
    words = "word " * 10
    post = f"---\ndate: x\n---\n\n# trnfft: a\n\n{words}`two words`\n\n```text\n{words}\n```\n\n| {words} |\n|---|\n"
    path = tmp_path / "x.md"
    path.write_text(post + f"\n![{words}](x.svg)\n\n[^1]: {words}\n\n<!-- {words} -->\n")
    assert parse(path).words == 12


def test_samples_may_be_dedented_and_leave_lines_out():
    source = "def f():\n    a = 1\n    b = 2\n    return a + b\n"
    assert verbatim(["a = 1", "b = 2"], source)
    assert verbatim(["def f():", "    # ...", "    return a + b"], source)
    assert not verbatim(["b = 2", "# ...", "a = 1"], source)
    assert not verbatim(["a = 1", "return a + b"], source)


def test_it_runs_from_a_shell(tmp_path):
    good = [sys.executable, "-m", "docs.blogcheck", str(POSTS / POST)]
    assert "words of prose" in subprocess.run(good, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    bad = tmp_path / POST
    bad.write_text("# Nothing\n")
    done = subprocess.run([*good[:3], str(bad)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "sections" in done.stdout
