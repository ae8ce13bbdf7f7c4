"""The house: one word finds everything, and what is declared is what is there."""

import ast
import re
import subprocess
import sys

PACKAGES = {"trnsci", "trnsim", "trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor", "trnchem"}


def _present(tree):
    return {path.parent.name for path in tree.root.glob("src/*/__init__.py")}


def test_only_the_nine_packages_live_in_src(tree):
    assert _present(tree) <= PACKAGES


def test_the_build_declares_the_nine_packages(tree):
    assert set(tree.pyproject["tool"]["setuptools"]["packages"]["find"]["include"]) == {f"{p}*" for p in PACKAGES}


def test_the_import_contracts_cover_every_package_there_is(tree):
    linter = tree.pyproject["tool"]["importlinter"]
    aws = next(contract for contract in linter["contracts"] if contract["type"] == "forbidden")
    for where, listed in (("root_packages", linter["root_packages"]), ("source_modules", aws["source_modules"])):
        assert set(listed) == _present(tree), f"pyproject.toml, importlinter {where}: list the packages in src/"


def test_every_package_is_typed(tree):
    tree.refuse(tree.missing(f"src/{package}/py.typed" for package in sorted(_present(tree))))


def test_the_version_is_said_once_and_repeated_correctly(tree):
    version = next(
        node.value.value
        for node in tree.modules("src/trnsci/__init__.py")[0].ast.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__"
    )
    citation = (tree.root / "CITATION.cff").read_text()
    assert re.search(r"^version: (\S+)$", citation, re.M)[1] == version
    changelog = (tree.root / "CHANGELOG.md").read_text()
    assert re.search(r"^## (\S+)", changelog, re.M)[1] == version


def _stems(tree):
    """Library modules that define an operation: a class decorated with ``op("library::name")``, or an old ``Op``."""
    for library in tree.operations:
        for module in tree.modules(f"src/{library}/*.py"):
            calls = (n for statement in module.ast.body for n in ast.walk(statement) if isinstance(n, ast.Call))
            if any(ast.unparse(call.func).split(".")[-1] in ("Op", "HostOp", "op") for call in calls):
                yield library, module.path.stem


def test_one_word_finds_everything(tree):
    wanted = []
    for library, stem in _stems(tree):
        wanted += [f"tests/{library}/test_{stem}.py", f"benchmarks/{library}/{stem}.py", f"docs/{library}/{stem}.md"]
    tree.refuse(tree.missing(wanted))


def test_every_kernel_belongs_to_an_op_and_has_a_baseline(tree):
    wanted = []
    for module in tree.kernels:
        library, stem = module.parts[1], module.path.stem
        if not stem.startswith("_"):
            wanted += [f"src/{library}/{stem}.py", f"benchmarks/baselines/{library}.{stem}.json"]
    tree.refuse(tree.missing(wanted))


def test_the_tests_are_not_a_package(tree):
    # tests/trnblas must never shadow the package trnblas
    tree.refuse([module.name for module in tree.modules("tests/**/__init__.py")])


def test_importing_the_libraries_loads_neither_extras_nor_the_compiler():
    program = (
        "import sys, trnblas, trnchem, trnfft, trnrand, trnsolver, trnsparse, trntensor\n"
        "heavy = {'torch._dynamo', 'torch.distributed.tensor', 'scipy.stats', 'pyscf', 'h5py', 'cotengra', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
