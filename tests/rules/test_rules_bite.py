"""Each rule refuses the smallest tree that breaks it, and accepts the same tree mended."""

import importlib.util
from pathlib import Path

import pytest

KERNEL = "src/trnblas/kernels/dot.py"
SEAM = "from trnsci.nki import N_TILE, jit, nisa, nl\n"
ENTRY = "@jit\ndef dot(a_hbm):\n    return a_hbm\n"

DOT = "src/trnblas/dot.py"
RUNTIME = "src/trnsci/drop_in.py"
TEST = "tests/test_x.py"
BROAD, NARROW = "try: f()\nexcept Exception: pass\n", "try: f()\nexcept OSError: pass\n"
BARE, RAISED = "try: f()\nexcept: pass\n", "try: f()\nexcept BaseException: raise\n"
CALL = "@op('trnblas::dot')\nclass Dot:\n    def host(self):\n        "
HOME, RELATIVE = "see /ho" + "me/me/x\n", "see docs/home/me/x\n"

# rule, the file that breaks it, its broken text, its mended text (None: no such file is ever right)
CASES = [
    ("kernels.kernels_import_only_the_seam", KERNEL, "import torch\n", SEAM),
    ("kernels.kernels_import_only_the_seam", KERNEL, "from trnsci.config import TARGET\n", SEAM),
    ("kernels.hardware_sizes_come_from_the_seam", KERNEL, "ROWS = 2 * 512\n", SEAM + "ROWS = 2 * N_TILE\n"),
    ("kernels.instructions_name_their_operands", KERNEL, "nisa.f(a, src=b)\n", "nisa.f(dst=a, src=b)\n"),
    ("kernels.one_entry_per_file_and_private_parts", KERNEL, ENTRY + ENTRY, ENTRY),
    ("kernels.one_entry_per_file_and_private_parts", KERNEL, ENTRY + "def f(): ...\n", ENTRY + "def _f(): ...\n"),
    ("kernels.only_shapes_trail_a_line", KERNEL, "x = 1  # the answer\n", "x = 1  # [k, m]\n"),
    ("layout.only_the_nine_packages_live_in_src", "src/trnquantum/__init__.py", "", None),
    ("layout.the_runtime_knows_no_library_by_name", RUNTIME, 'f("trnblas.gemm")\n', 'f("aten::mm")\n'),
    ("layout.the_runtime_knows_no_library_by_name", RUNTIME, "i.import_module(x)\n", "i.import_module('torch')\n"),
    ("source.what_a_function_does_is_no_matter_of_its_spelling", DOT, "x = name[0] == 'h'\n", "x = hermitian\n"),
    ("source.what_a_function_does_is_no_matter_of_its_spelling", DOT, "x = 'st' in op\n", "x = 'st' in text\n"),
    ("source.calls_are_read_and_made_by_their_fields", DOT, CALL + "a, b = self\n", CALL + "a = self.a\n"),
    ("source.calls_are_read_and_made_by_their_fields", DOT, CALL + "a = self[1:]\n", CALL + "a = self.b\n"),
    ("layout.one_word_finds_everything", DOT, "_dot = op('trnblas::dot')\n", "x = 1\n"),
    ("layout.every_kernel_belongs_to_an_op_and_has_a_baseline", KERNEL, ENTRY, None),
    ("layout.no_module_imports_one_that_imports_it", DOT, "import trnblas.dot\n", "x = 1\n"),
    ("layout.every_package_is_typed", "src/trnblas/__init__.py", "", None),
    ("layout.the_tests_are_not_a_package", "tests/trnblas/__init__.py", "", None),
    (
        "source.hints_about_dtypes_and_copies_suit_arrays_as_well_as_tensors",
        DOT,
        "E(hint='a.double()')\n",
        "E(hint='Convert a')\n",
    ),
    ("source.private_names_of_torch_are_in_one_module", DOT, "from torch._C import f\n", "from torch import f\n"),
    ("source.private_names_of_torch_are_in_one_module", DOT, "x = torch.nn._f()\n", "x = torch.nn.f()\n"),
    ("source.only_config_reads_the_environment", DOT, "x = os.getenv('X')\n", "x = 1\n"),
    ("source.nothing_catches_everything", DOT, BROAD, NARROW),
    ("source.nothing_catches_everything", DOT, BARE, RAISED),
    ("source.every_module_says_what_it_is", DOT, "x = 1\n", '"""Dot."""\n'),
    ("source.new_tensors_name_their_device_and_dtype", DOT, "torch.tensor(1)\n", "torch.tensor(1, device=d)\n"),
    ("source.new_tensors_name_their_device_and_dtype", DOT, "torch.eye(2)\n", "torch.eye(2, dtype=t, device=d)\n"),
    ("source.text_points_nowhere_outside_the_project", "docs/x.md", HOME, RELATIVE),
    ("tests.every_skip_has_a_reason", TEST, "pytest.skip()\n", "pytest.skip('needs a GPU')\n"),
    ("words.retired_words_stay_retired", DOT, "made = 1\n", "total = 1\n"),
    (
        "words.retired_words_stay_retired",
        DOT,
        "[place for place, _ in enumerate(x)]\n",
        "[i for i, _ in x]\n",
    ),
    ("words.retired_words_stay_retired", "src/trnsim/x.py", "number = 1\n", "index = 1\n"),
    ("words.retired_words_stay_retired", DOT, '"""A turned tile."""\n', '"""A transposed tile."""\n'),
    ("words.retired_words_stay_retired", "docs/x.md", "a dear product\n", "the ideal gas of Boyle's law\n"),
    ("words.few_functions_are_bare_participles", DOT, "def settled(x): ...\n", "def settle_sums(x): ...\n"),
    ("tests.every_skip_has_a_reason", TEST, "@pytest.mark.xfail\ndef f(): ...\n", "def f(): ...\n"),
]


def load_rule(name):
    module, _, rule = name.partition(".")
    path = Path(__file__).with_name(f"test_{module}.py")
    spec = importlib.util.spec_from_file_location(f"bite_{module}", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, f"test_{rule}")


@pytest.mark.parametrize(("name", "path", "broken", "mended"), CASES)
def test_the_rule_bites_and_lets_go(make_tree, name, path, broken, mended):
    rule = load_rule(name)
    with pytest.raises(AssertionError):
        rule(make_tree({path: broken}))
    if mended is not None:
        rule(make_tree({path: mended}))


LAZY = "from trnsim.lazy import lazily\nif TYPE_CHECKING:\n    from trnsim.isa.add import add\nlazily(__name__)\n"


@pytest.mark.parametrize("home", ["trnsim.isa.add", "trnsim.isa", "trnsim"])
def test_a_cycle_by_way_of_packages_is_refused(make_tree, home):
    # language.dtypes runs isa/__init__, which imports isa.copy, which imports language.dtypes
    files = {
        "src/trnsim/__init__.py": LAZY,
        "src/trnsim/isa/__init__.py": "from trnsim.isa.copy import copy\n",
        "src/trnsim/isa/add.py": "",
        "src/trnsim/isa/copy.py": "from trnsim.language.dtypes import float32\n",
        "src/trnsim/language/dtypes.py": f"from {home} import add\n",
    }
    rule = load_rule("layout.no_module_imports_one_that_imports_it")
    with pytest.raises(AssertionError, match=r"trnsim.language.dtypes imports itself"):
        rule(make_tree(files))
    rule(make_tree({**files, "src/trnsim/isa/copy.py": ""}))
