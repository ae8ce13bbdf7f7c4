"""Build the one extension module. It is optional: without a compiler the install succeeds, and torch runs instead."""

from pathlib import Path

from setuptools import Extension, setup

setup(
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
