"""A post of the blog, read: front matter, title, and blocks that know their line and section."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\S*)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
CODE_SPAN = re.compile(r"`[^`]*`")


@dataclass(frozen=True)
class Block:
    """A piece of a post: ``kind`` is heading, prose, code, table, picture, note or comment."""

    kind: str
    text: str
    line: int
    section: str
    language: str = ""

    @property
    def plain(self) -> str:
        """The text without code spans and with links reduced to their words."""
        return LINK.sub(r"\1", CODE_SPAN.sub("code", self.text))

    @property
    def sentences(self) -> list[str]:
        return [s for s in re.split(r"(?<=[.!?])[*_\")]*\s+(?=[A-Z`\"'(\[*\d])", self.text.strip()) if s.strip()]


@dataclass(frozen=True)
class Post:
    """One file: front matter as it stands, title, blocks in order."""

    path: Path
    meta: dict[str, str]
    title: str
    blocks: tuple[Block, ...]

    def kind(self, kind: str, section: str | None = None) -> list[Block]:
        return [b for b in self.blocks if b.kind == kind and section in (None, b.section)]

    @property
    def category(self) -> str:
        """The first category: the kind of post."""
        return self.meta.get("categories", "").strip("[]").partition(",")[0].strip()

    @property
    def library(self) -> str:
        return self.title.partition(":")[0]

    @property
    def words(self) -> int:
        """Words of running prose; a code span counts as the words it holds."""
        return sum(len(LINK.sub(r"\1", b.text).split()) for b in self.kind("prose"))

    @property
    def links(self) -> list[tuple[int, str]]:
        shown = (b for b in self.blocks if b.kind not in ("code", "comment"))
        return [(b.line, target) for b in shown for _, target in LINK.findall(b.text)]


def parse(path: Path) -> Post:
    """Read a post."""
    lines = path.read_text().splitlines()
    meta: dict[str, str] = {}
    at = 0
    if lines and lines[0] == "---":
        at = lines.index("---", 1) + 1
        for line in lines[1 : at - 1]:
            key, _, value = line.partition(":")
            meta[key.strip()] = value.partition(" #")[0].strip()
    blocks: list[Block] = []
    title, section = "", ""
    while at < len(lines):
        line, first = lines[at], at
        fence = FENCE.match(line)
        if fence:
            at += 1
            while at < len(lines) and not lines[at].startswith("```"):
                at += 1
            at += 1
            blocks.append(Block("code", "\n".join(lines[first + 1 : at - 1]), first + 1, section, fence[1]))
        elif line.startswith("#"):
            at += 1
            depth, _, name = line.partition(" ")
            title = title or (name if depth == "#" else "")
            section = name if depth == "##" else section
            blocks.append(Block("heading", line, first + 1, section))
        elif not line.strip():
            at += 1
        else:
            while at < len(lines) and lines[at].strip() and not (at > first and FENCE.match(lines[at])):
                at += 1
            blocks.append(Block(_kind(line), "\n".join(lines[first:at]), first + 1, section))
    return Post(path, meta, title, tuple(blocks))


def _kind(line: str) -> str:
    for start, kind in (("|", "table"), ("![", "picture"), ("<!--", "comment"), ("[^", "note"), ("!!!", "admonition")):
        if line.startswith(start):
            return kind
    return "prose"
