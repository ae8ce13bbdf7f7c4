"""Text that strangers may have written, such as names of kernels and files, before it reaches a terminal."""

from __future__ import annotations

import re

# Control characters but tabs and newlines, marks that reverse the direction of writing, and halves of characters.
_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str) -> str:
    r"""Return a text whose control characters are written as Python writes them.

    Example:
        >>> escape_controls("kernel\x1b[2J")
        'kernel\\x1b[2J'
    """
    return _HARMFUL.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)
