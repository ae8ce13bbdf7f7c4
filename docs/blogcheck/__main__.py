"""Check posts from a shell."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from docs.blogcheck.post import parse
from docs.blogcheck.rules import posts, problems


def main(arguments: list[str] | None = None) -> int:
    """Check posts, print what is wrong, and return how many are."""
    parser = argparse.ArgumentParser(prog="python -m docs.blogcheck", description="Hold posts to the author brief.")
    parser.add_argument("post", nargs="*", type=Path, help="files; every post when left out")
    wrong = 0
    for path in parser.parse_args(arguments).post or posts():
        found = problems(path)
        wrong += bool(found)
        print("\n".join(found) if found else f"{path.name}: {parse(path).words} words of prose, as the brief asks")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
