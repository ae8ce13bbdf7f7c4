"""Each rule refuses the smallest tree that breaks it, and accepts the same tree mended."""

import importlib.util
from pathlib import Path

import pytest

KERNEL = "src/trnblas/kernels/dot.py"
SEAM = "from trnsci.nki import N_TILE, jit, nisa, nl\n"
ENTRY = "@jit\ndef dot(a_hbm):\n    return a_hbm\n"

CASES = [
    ("test_kernels", "test_kernels_import_only_the_seam", KERNEL, "import torch\n", SEAM),
    ("test_kernels", "test_kernels_import_only_the_seam", KERNEL, "from trnsci.config import TARGET\n", SEAM),
    ("test_kernels", "test_hardware_sizes_come_from_the_seam", KERNEL, "ROWS = 2 * 512\n", SEAM + "ROWS = 2 * N_TILE\n"),
    ("test_kernels", "test_instructions_name_their_operands", KERNEL, "nisa.f(a, src=b)\n", "nisa.f(dst=a, src=b)\n"),
    ("test_kernels", "test_one_entry_per_file_and_private_parts", KERNEL, ENTRY + ENTRY, ENTRY),
    ("test_kernels", "test_one_entry_per_file_and_private_parts", KERNEL, ENTRY + "def part(): ...\n", ENTRY + "def _part(): ...\n"),
    ("test_kernels", "test_only_shapes_trail_a_line", KERNEL, "x = 1  # the answer\n", "x = 1  # [k, m]\n"),
    ("test_layout", "test_only_the_nine_packages_live_in_src", "src/trnquantum/__init__.py", "", None),
    ("test_layout", "test_one_word_finds_everything", "src/trnblas/dot.py", "_dot = Op('trnblas::dot')\n", "x = 1\n"),
    ("test_layout", "test_every_kernel_belongs_to_an_op_and_has_a_baseline", KERNEL, ENTRY, None),
    ("test_layout", "test_every_package_is_typed", "src/trnblas/__init__.py", "", None),
    ("test_layout", "test_the_tests_are_not_a_package", "tests/trnblas/__init__.py", "", None),
    ("test_source", "test_only_config_reads_the_environment", "src/trnblas/dot.py", "x = os.getenv('X')\n", "x = 1\n"),
    ("test_source", "test_nothing_catches_everything", "src/trnblas/dot.py", "try: f()\nexcept Exception: pass\n", "try: f()\nexcept OSError: pass\n"),
    ("test_source", "test_nothing_catches_everything", "src/trnblas/dot.py", "try: f()\nexcept: pass\n", "try: f()\nexcept BaseException: raise\n"),
    ("test_source", "test_every_module_says_what_it_is", "src/trnblas/dot.py", "x = 1\n", '"""Dot."""\n'),
    ("test_source", "test_text_points_nowhere_outside_the_project", "docs/x.md", "see /ho" + "me/me/x\n", "see docs/home/me/x\n"),
    ("test_tests", "test_every_skip_has_a_reason", "tests/test_x.py", "pytest.skip()\n", "pytest.skip('needs a GPU')\n"),
    ("test_tests", "test_every_skip_has_a_reason", "tests/test_x.py", "@pytest.mark.xfail\ndef f(): ...\n", "def f(): ...\n"),
]  # fmt: skip


def _rule(module, name):
    spec = importlib.util.spec_from_file_location(f"bite_{module}", Path(__file__).with_name(f"{module}.py"))
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, name)


@pytest.mark.parametrize(("module", "name", "path", "broken", "mended"), CASES)
def test_the_rule_bites_and_lets_go(make_tree, module, name, path, broken, mended):
    rule = _rule(module, name)
    with pytest.raises(AssertionError):
        rule(make_tree({path: broken}))
    if mended is not None:
        rule(make_tree({path: mended}))
