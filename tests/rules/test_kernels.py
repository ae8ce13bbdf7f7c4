"""How a kernel is written: a reader, the NKI compiler and the simulator must all agree on it."""

import ast
import importlib
import inspect
import io
import re
import tokenize

from trnsim._lint.reference import reference
from trnsim.lint import lint
from trnsim.versions import FIRST

HARDWARE_SIZES = (128, 512, 2048)


def test_kernels_import_only_the_seam(tree):
    offenders = []
    for module in tree.kernels:
        library = module.parts[1]
        allowed = re.compile(rf"__future__|trnsci\.nki(\..*)?|{library}\.kernels(\..*)?")
        for node in module.nodes:
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = ["." * node.level + (node.module or "")]
            offenders += [f"{module.at(node)}: {name}" for name in names if not allowed.fullmatch(name)]
    tree.refuse(offenders)


def test_hardware_sizes_come_from_the_seam(tree):
    offenders = [
        f"{module.at(node)}: {node.value}"
        for module in tree.kernels
        for node in module.nodes
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value in HARDWARE_SIZES
    ]
    tree.refuse(offenders)


def test_instructions_name_their_operands(tree):
    offenders = [
        f"{module.at(node)}: {ast.unparse(node)[:80]}"
        for module in tree.kernels
        for node in module.nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("nisa.") and node.args
    ]
    tree.refuse(offenders)


def _is_entry(function):
    return any(ast.unparse(d).split("(")[0].split(".")[-1] == "jit" for d in function.decorator_list)


def test_one_entry_per_file_and_private_parts(tree):
    offenders = []
    for module in tree.kernels:
        functions = [node for node in module.ast.body if isinstance(node, ast.FunctionDef)]
        entries = [f.name for f in functions if _is_entry(f)]
        if len(entries) > 1 or (not entries and not module.path.stem.startswith("_")):
            offenders.append(f"{module.name}: one @jit entry per kernel file, found {entries}")
        offenders += [
            f"{module.at(f)}: {f.name} is not an entry and not private"
            for f in functions
            if not _is_entry(f) and not f.name.startswith("_")
        ]
    tree.refuse(offenders)


def test_only_shapes_trail_a_line(tree):
    offenders = []
    for module in tree.kernels:
        lines = module.text.splitlines()
        for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
            if token.type != tokenize.COMMENT:
                continue
            row, column = token.start
            alone = not lines[row - 1][:column].strip()
            if not alone and not re.match(r"# (\[|noqa|fmt:|type:)", token.string):
                offenders.append(f"{module.name}:{row}: {token.string}")
    tree.refuse(offenders)


def _entries(tree):
    for module in tree.kernels:
        name = ".".join(module.parts[1:]).removesuffix(".py")
        for function in (node for node in module.ast.body if isinstance(node, ast.FunctionDef) and _is_entry(node)):
            yield f"{module.parts[1]}.{module.path.stem}", getattr(importlib.import_module(name), function.name)


def test_the_nki_compiler_would_accept_every_kernel(tree):
    # the first version with a parser, and the first that traces
    versions = ("0.3", "0.7")
    reports = [lint(kernel, strict=True, nki=nki) for _, kernel in _entries(tree) for nki in versions]
    tree.refuse([str(finding) for report in reports for finding in report])


def test_kernels_call_nki_by_its_documented_signatures(tree):
    """Every ``nl``, ``nisa`` and ``ncc`` name and keyword of the kernels' files is in the reference of NKI 0.3."""
    spaces = {"nl": "language", "nisa": "isa", "ncc": "collectives"}
    offenders = []
    for module in tree.kernels:
        for node in module.nodes:
            called = node.func if isinstance(node, ast.Call) else node
            if not isinstance(called, ast.Attribute) or not isinstance(called.value, ast.Name):
                continue
            space = spaces.get(called.value.id)
            entry = reference()[space].get(called.attr) if space else None
            if space and (entry is None or entry.since > FIRST):
                offenders.append(f"{module.at(node)}: {ast.unparse(called)}")
            if entry is not None and isinstance(node, ast.Call):
                allowed = {name for name, since in (entry.parameters or {}).items() if since <= FIRST}
                wrong = [k.arg for k in node.keywords if k.arg not in allowed]
                offenders += [f"{module.at(node)}: {ast.unparse(called)}({name}=)" for name in wrong]
    tree.refuse(offenders)


def test_choices_are_arguments_of_their_kernel_and_hold_its_defaults(tree):
    offenders = []
    for name, kernel in _entries(tree):
        loaded = importlib.import_module(kernel.function.__module__)
        known = inspect.signature(kernel.function).parameters
        for choice, values in getattr(loaded, "CHOICES", {}).items():
            if choice not in known or known[choice].default not in values:
                offenders.append(f"{name}: CHOICES has {choice}, which is no argument with one of {values} as default")
    tree.refuse(offenders)


def test_axes_name_arguments_of_their_kernel(tree):
    offenders = []
    for module in tree.kernels:
        loaded = importlib.import_module(".".join(module.parts[1:]).removesuffix(".py"))
        for axis in getattr(loaded, "AXES", ()):
            (entry,) = [f for f in module.ast.body if isinstance(f, ast.FunctionDef) and _is_entry(f)]
            known = {argument.arg for argument in entry.args.args}
            offenders += [f"{module.name}: AXES cut {name}" for name in axis.arguments.keys() - known]
    tree.refuse(offenders)
