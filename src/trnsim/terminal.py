"""Text that strangers may have written, such as names of kernels and files, before it reaches a terminal."""

import argparse
import re
from typing import NoReturn

# Control characters but tabs and newlines, marks that reverse the direction of writing, and halves of characters.
_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str) -> str:
    r"""Return a text whose control characters are written as Python writes them.

    Example:
        >>> escape_controls("kernel\x1b[2J")
        'kernel\\x1b[2J'
    """
    return _HARMFUL.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


class Parser(argparse.ArgumentParser):
    """A parser of command lines whose errors repeat an argument without its control characters."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End the program with a message on stderr."""
        super().exit(status, message and escape_controls(message))
