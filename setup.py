"""Build the one extension module, and the README as it is shown away from the repository.

The extension is optional: without a compiler the install succeeds, and torch runs instead.
"""

import re
from pathlib import Path

from setuptools import Extension, setup

SOURCE = "https://github.com/trnsci/trnsci/blob/main/"
readme = Path("README.md").read_text(encoding="utf-8")

setup(
    # a package index shows the README without the files its links point to
    long_description=re.sub(r"\]\((?!\w+:|#)", f"]({SOURCE}", readme),
    long_description_content_type="text/markdown",
    ext_modules=[
        Extension(
            "trnsci._loops",
            ["src/loops/module.c"],
            depends=[str(path) for path in Path("src/loops").glob("*.h")],
            # contraction would give other bits than torch does
            extra_compile_args=["-std=c11", "-O3", "-fno-math-errno", "-ffp-contract=off", "-pthread"],
            extra_link_args=["-pthread"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
