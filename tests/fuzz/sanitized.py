"""A pytest plugin, ``-p tests.fuzz.sanitized``: the suite uses the build of the extension in ``LOOPS_FILE``."""

import os
import sys

from tests.fuzz.loops import load

sys.modules["trnsci._loops"] = load(os.environ["LOOPS_FILE"])
