"""The house: one word finds everything, and what is declared is what is there."""

import ast
import re
import subprocess
import sys

import pytest

LIBRARIES = {"trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor", "trnchem"}
PACKAGES = {"trnsci", "trnsim", *LIBRARIES}


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


def test_every_library_and_every_sharded_algorithm_is_announced(tree):
    groups = tree.pyproject["project"]["entry-points"]
    assert set(groups["trnsci.libraries"]) == LIBRARIES
    modules = [module for module in tree.sources if module.parts[1] in LIBRARIES and "@sharded(" in module.text]
    assert set(groups["trnsci.sharded"].values()) == {".".join((*m.parts[1:-1], m.path.stem)) for m in modules}


EARLIER = ("__init__", "table", "modules", "blas", "fft", "rand", "solver", "sparse", "tensor")
# symbols of CUDA with ours, and names of an earlier suite: data that happen to be written as Python
DATA = ("src/trnsci/rosetta.py", *(f"src/trnsci/earlier/{room}.py" for room in EARLIER))
# import what entry points announce, and what the earlier suite is made of
LOADERS = ("src/trnsci/libraries.py", "src/trnsci/earlier/modules.py")


def test_the_runtime_knows_no_library_by_name(tree):
    named = re.compile(rf"\b({'|'.join(LIBRARIES)})\b")
    offenders = []
    for module in tree.modules("src/trnsci/**/*.py") + tree.modules("src/trnsim/**/*.py"):
        scopes = (node for node in module.nodes if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef))
        docstrings = {id(node.body[0].value) for node in scopes if isinstance(node.body[0], ast.Expr)}
        texts = [node for node in module.nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        if module.name not in DATA:
            own = [node for node in texts if id(node) not in docstrings and named.search(node.value)]
            offenders += [f"{module.at(node)}: {node.value[:60]!r}" for node in own]
        calls = [node for node in module.nodes if isinstance(node, ast.Call) and module.parts[1] == "trnsci"]
        imports = [node for node in calls if getattr(node.func, "attr", "") == "import_module" and node.args]
        if module.name not in LOADERS:
            computed = [node for node in imports if not isinstance(node.args[0], ast.Constant)]
            offenders += [f"{module.at(node)}: imports a computed name" for node in computed]
    tree.refuse(offenders)


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


# the same transforms on separate planes
UNDER = {("trnfft", "planes"): "fft"}
# quantiles are evaluated on the host, from words of that kernel
BORROWED = {("trnrand", "inverse"): {"bits"}}


def _operations(tree):
    """Library modules that define an operation: a class decorated with ``op("library::name")``."""
    for library in tree.operations:
        for module in tree.modules(f"src/{library}/**/*.py"):
            called = (node.func for node in module.nodes if isinstance(node, ast.Call))
            if any(getattr(f, "id", getattr(f, "attr", "")) == "op" for f in called):
                yield library, module


def test_an_op_that_starts_a_kernel_has_one_of_its_name(tree):
    offenders = []
    for library, module in _operations(tree):
        stem = module.path.stem
        imported = {
            alias.name
            for node in module.nodes
            if isinstance(node, ast.ImportFrom) and node.module == f"{library}.kernels"
            for alias in node.names
        }
        if imported and stem not in imported and imported != BORROWED.get((library, stem)):
            offenders.append(f"{module.name}: starts {sorted(imported)} and has no kernels/{stem}.py")
        offenders += tree.missing(f"src/{library}/kernels/{name}.py" for name in imported)
    tree.refuse(offenders)


def test_one_word_finds_everything(tree):
    wanted = []
    for library, module in _operations(tree):
        stem = UNDER.get((library, module.path.stem), module.path.stem)
        wanted += [f"tests/{library}/test_{stem}.py", f"benchmarks/{library}/{stem}.py", f"docs/{library}/{stem}.md"]
    tree.refuse(tree.missing(wanted))


def test_every_kernel_belongs_to_an_op_and_has_a_baseline(tree):
    wanted, orphans = [], []
    for module in tree.kernels:
        library, stem = module.parts[1], module.path.stem
        if not stem.startswith("_"):
            wanted.append(f"benchmarks/baselines/{library}.{stem}.json")
            owners = [*tree.modules(f"src/{library}/{stem}.py"), *tree.modules(f"src/{library}/*/{stem}.py")]
            if not any(owner.parts[2] not in ("kernels", "sharded") for owner in owners):
                orphans.append(f"{module.name}: neither src/{library}/{stem}.py nor one folder below")
    tree.refuse(tree.missing(wanted) + orphans)


def test_modules_of_a_library_lie_at_most_one_folder_deep(tree):
    tree.refuse([module.name for library in tree.operations for module in tree.modules(f"src/{library}/*/*/**/*.py")])


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


def _name_modules(tree):
    """Return the modules of the suite by their import name."""
    paths = {
        module.name.removeprefix("src/").removesuffix(".py").removesuffix("/__init__"): module
        for module in tree.sources
    }
    return {path.replace("/", "."): module for path, module in paths.items()}


def _lazy_homes(module):
    """Return the modules that define the names a package imports on demand (`trnsim.lazy`)."""
    blocks = (node for node in module.ast.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    lazy = any(ast.unparse(node) == "lazily(__name__)" for node in module.ast.body)
    found = (node for block in blocks for node in block.body if lazy and isinstance(node, ast.ImportFrom))
    return {alias.name: node.module for node in found for alias in node.names}


def _targets(node, names, homes):
    """Yield the modules an import statement runs, before the packages they lie in."""
    for alias in node.names:
        if isinstance(node, ast.Import):
            yield alias.name
            continue
        inner = f"{node.module}.{alias.name}"
        yield inner if inner in names else homes.get(node.module, {}).get(alias.name, node.module)


def _packages(name):
    """Return the packages that are imported before a module."""
    parts = name.split(".")
    return {".".join(parts[:depth]) for depth in range(1, len(parts))}


def _imports(tree):
    """Modules of the suite that each imports: when it is imported itself, and when one of its functions runs."""
    names = _name_modules(tree)
    homes = {name: _lazy_homes(module) for name, module in names.items()}
    early, late = {name: set() for name in names}, {name: set() for name in names}
    for name, module in names.items():
        for node, inner in _import_statements(module.ast, False):
            found = {target for target in _targets(node, names, homes) if target in names}
            (late if inner else early)[name] |= found
        # the packages a module lies in were imported before it; those of its imports run now
        outer = {*_packages(name), name}
        early[name] |= {package for target in early[name] for package in _packages(target) & set(names)} - outer
    return early, late


def _import_statements(node, inner):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, inner
        elif not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)):
            yield from _import_statements(child, inner or isinstance(child, ast.FunctionDef))


def _reached(graph, start):
    seen, open_ = set(), [start]
    while open_:
        for following in graph[open_.pop()] - seen:
            seen.add(following)
            open_.append(following)
    return seen


# Imported inside functions, because the two need each other by nature: an op and the op that is its gradient, a format
# and the formats it converts to, a function and its contract, the runtime and what it launches. The list only shrinks.
MUTUAL = {
    "trnsci.arrays -> trnsci.distributed.calls",
    "trnsci.distributed.arguments -> trnsci.planning",
    "trnsci.nki -> trnsci.kernel_launcher",
    "trnsci.nki -> trnsci.programs",
    "trnsci.plans -> trnsci.predict",
    "trnsci.programs -> trnsci.kernel_launcher",
    "trnsim.adopt -> trnsim.install",
    "trnsim.adopt -> trnsim.kernel",
    "trnsim.install -> trnsim.kernel",
    "trnsim.tensors.objects -> trnsim.session",
    "trnsim.tensors.tensor -> trnsim.session",
    "trnsim.timing.report -> trnsim.trace",
    "trnsolver.dense.target_error -> trnsolver.eigen.eigh",
    "trnsolver.eigen.eigh -> trnsolver.dense.target_error",
    "trnsolver.eigen.refine_vectors -> trnsolver.eigen.eigh",
    "trnsparse.attention_backward -> trnsparse.attention",
    "trnsparse.bound_mask -> trnsparse.mask_base",
    "trnsparse.bsr_sddmm -> trnsparse.bsr_spmm",
    "trnsparse.matrix -> trnsparse.arithmetic",
    "trnsparse.matrix -> trnsparse.bsr",
    "trnsparse.matrix -> trnsparse.coo",
    "trnsparse.matrix -> trnsparse.csr",
    "trnsparse.matrix -> trnsparse.dia",
    "trnsparse.matrix -> trnsparse.files",
    "trnsparse.matrix -> trnsparse.products",
    "trnsparse.matrix -> trnsparse.sell",
    "trnsparse.matrix -> trnsparse.slicing",
    "trnsparse.row_sharded -> trnsparse.sharded",
    "trnsparse.sddmm -> trnsparse.spmm",
    "trntensor.decomposed -> trntensor.einsum",
}


def test_no_module_imports_one_that_imports_it(tree):
    early, late = _imports(tree)
    offenders = [f"{name} imports itself, by way of others" for name in early if name in _reached(early, name)]
    # a package's front imports its modules, which is no dependency of theirs
    fronts = {name for name, module in _name_modules(tree).items() if module.name.endswith("__init__.py")}
    late = {name: late[name] - fronts for name in late}
    every = {name: (early[name] | late[name]) - fronts for name in early}
    within = {name: _reached(every, name) for name in every}
    mutual = {f"{name} -> {other}" for name in late for other in late[name] - early[name] if name in within[other]}
    offenders += [f"{edge}: a cycle of imports inside functions" for edge in mutual - MUTUAL]
    # nothing listed that has ended
    if "trnsci.ops" in early:
        offenders += [f"{edge} is listed in MUTUAL and no longer needed" for edge in MUTUAL - mutual]
    tree.refuse(offenders)


# forks: each child has others' packages, which take seconds to import, and none of ours
_IMPORT_EACH = """
import os, sys
import ml_dtypes, numpy, opt_einsum, scipy.linalg, scipy.sparse.linalg, torch, torch.library
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            __import__(name)
        except BaseException as error:
            # an extra that is not installed is nothing of ours
            if not isinstance(error, ModuleNotFoundError) or str(error.name).startswith("trn"):
                print(f"{name}: {error!r}", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_every_module_can_be_imported_first(tree, package):
    names = [name for name in sorted(_name_modules(tree)) if name.split(".")[0] == package]
    names = [name for name in names if not name.endswith("__main__")]
    ended = subprocess.run([sys.executable, "-c", _IMPORT_EACH, *names], capture_output=True, text=True, check=True)
    tree.refuse(ended.stdout.splitlines())
