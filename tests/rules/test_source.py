"""What no source file does."""

import ast
import importlib
import inspect
import re
import subprocess


def test_only_config_reads_the_environment(tree):
    # the simulator stands below config and honours NKI's own two variables
    readers = ("src/trnsci/config.py", "src/trnsim/targets.py", "src/trnsim/state.py")
    offenders = [
        module.at(node)
        for module in tree.sources
        if module.name not in readers
        for node in module.nodes
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb")
    ]
    tree.refuse(offenders)


def test_private_names_of_torch_are_in_one_module(tree):
    private = re.compile(r"torch\.(\w+\.)*_[A-Za-z]")
    offenders = [
        module.at(node)
        for module in tree.sources
        if module.name != "src/trnsci/torch_internals.py"
        for node in module.nodes
        if (isinstance(node, ast.ImportFrom) and private.match(f"{node.module}."))
        or (isinstance(node, ast.Attribute) and private.match(ast.unparse(node)))
    ]
    tree.refuse(offenders)


def test_nothing_catches_everything(tree):
    broad = ("Exception", "BaseException")
    offenders = [
        module.at(node)
        for module in tree.sources
        for node in module.nodes
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or any(isinstance(n, ast.Name) and n.id in broad for n in ast.walk(node.type)))
        # catching in order to add to the error and raise it again swallows nothing
        and not any(isinstance(n, ast.Raise) for n in node.body[-1:])
    ]
    tree.refuse(offenders)


def test_what_a_function_does_is_no_matter_of_its_spelling(tree):
    # `name` and `op` are for errors: a renamed function would compute something else
    offenders = []
    for module in tree.sources:
        if module.parts[1] not in tree.operations or "kernels" in module.parts:
            continue
        # an attribute that somebody asked for is nothing but its name, and torch's tell what they do
        asked = [n for n in module.nodes if isinstance(n, ast.FunctionDef) and n.name == "__getattr__"]
        inside = {id(node) for function in asked for node in ast.walk(function)}
        for node in (node for node in module.nodes if id(node) not in inside):
            letters = isinstance(node, ast.Subscript) and _is_name(node.value)
            part = isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In) and _is_name(node.comparators[0])
            ends = isinstance(node, ast.Attribute) and node.attr in ("startswith", "endswith") and _is_name(node.value)
            if letters or ends or (part and isinstance(node.left, ast.Constant)):
                offenders.append(f"{module.at(node)}: {ast.unparse(node)[:60]}")
    tree.refuse(offenders)


def _is_name(node):
    return isinstance(node, ast.Name) and node.id in ("name", "op", "routine", "stem")


def _op_classes(tree):
    """Modules of call classes, which ``op("library::name")`` decorates, by name."""
    return {
        node.name: module
        for module in tree.sources
        for node in module.nodes
        if isinstance(node, ast.ClassDef)
        and any(isinstance(d, ast.Call) and getattr(d.func, "id", "") == "op" for d in node.decorator_list)
    }


def _takes_apart(node):
    """Whether this cuts or unpacks a call, ``self[3:8]`` or ``a, b, c = call``."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return getattr(node.value, "id", "") in ("self", "call")
    unpacks = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)
    return unpacks and getattr(node.value, "id", "") in ("self", "call")


def test_calls_are_read_and_made_by_their_fields(tree):
    # a field more, or in another place, would change what is computed elsewhere without a word
    homes, offenders = _op_classes(tree), []
    for name, module in homes.items():
        classes = [node for node in module.nodes if isinstance(node, ast.ClassDef) and node.name == name]
        offenders += [module.at(node) for kind in classes for node in ast.walk(kind) if _takes_apart(node)]
    for module in tree.sources:
        for node in module.nodes:
            if isinstance(node, ast.Call) and homes.get(getattr(node.func, "id", ""), module) is not module:
                # outside its module, what stands in a call for nothing in sight says what it is
                offenders += [module.at(node)] if any(isinstance(x, ast.Constant) for x in node.args) else []
    tree.refuse(offenders)


def test_every_module_says_what_it_is(tree):
    offenders = [m.name for m in tree.sources if m.text.strip() and not ast.get_docstring(m.ast)]
    tree.refuse(offenders)


def _texts(tree):
    """Every text file that git keeps or would keep; without git, every one in the usual folders."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=tree.root, capture_output=True, text=True)
    if listed.returncode == 0:
        paths = [tree.root / name for name in listed.stdout.splitlines()]
    else:
        paths = [p for top in ("src", "tests", "docs", "benchmarks", "tools") for p in (tree.root / top).rglob("*.*")]
    kinds = (".py", ".md", ".toml", ".txt", ".yml", ".yaml", ".json", ".cff", ".sh", ".csv")
    return [path for path in paths if path.suffix in kinds and path.is_file()]


def test_text_points_nowhere_outside_the_project(tree):
    # home paths of one machine, and marks of unfinished work
    forbidden = re.compile(r"(?<![\w.])/(work|root|home/\w+)/|\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    offenders = [
        f"{path.relative_to(tree.root)}:{number}: {line.strip()[:80]}"
        for path in _texts(tree)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if forbidden.search(line)
    ]
    tree.refuse(offenders)


def test_hints_about_dtypes_and_copies_suit_arrays_as_well_as_tensors(tree):
    # a caller of NumPy arrays has no .to(torch.float32), .double() or .clone(): name the dtype, or say "a copy of"
    spelling = re.compile(r"\.to\((\)|dtype|torch\.)|\.(double|float|half|clone)\(\)")
    offenders = [
        f"{module.at(node)}: {ast.unparse(keyword.value)[:80]}"
        for module in tree.sources
        for node in module.nodes
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "hint" and spelling.search(ast.unparse(keyword.value))
    ]
    tree.refuse(offenders)


def _public_functions(package):
    for name in package.__all__:
        thing = getattr(package, name)
        if not inspect.isclass(thing):
            yield name, thing
            continue
        for part, value in vars(thing).items():
            method = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if inspect.isfunction(method) and (not part.startswith("_") or part in ("__call__", "__init__")):
                yield f"{name}.{part}", method


def test_public_signatures_say_what_they_take_and_return(tree):
    offenders = []
    for library in ("trnsci", *tree.operations):
        package = importlib.import_module(library)
        for name, function in _public_functions(package):
            # a step holds a call of any op's class
            if name == "Step.__init__" or not callable(function):
                continue
            if re.search(r"\bAny\b", str(inspect.signature(function))):
                offenders.append(f"{library}.{name}{inspect.signature(function)}")
    tree.refuse(offenders)


# torch's functions that create tensors on the default device, and of these the ones that use the default dtype
CREATE = {"arange", "as_tensor", "asarray", "empty_strided", "full", "randint", "randperm", "scalar_tensor", "tensor"}
CREATE |= {"sparse_coo_tensor", "sparse_csr_tensor", "sparse_csc_tensor", "sparse_bsr_tensor"}
CREATE |= {"tril_indices", "triu_indices"}
CREATE_FLOATS = {"empty", "eye", "hann_window", "linspace", "logspace", "ones", "rand", "randn", "zeros"}


def test_new_tensors_name_their_device_and_dtype(tree):
    # the defaults are the caller's: what we compute must not follow torch.set_default_device and set_default_dtype
    offenders = []
    for module in tree.sources:
        for node in module.nodes if "kernels" not in module.parts else ():
            if not isinstance(node, ast.Call) or not ast.unparse(node.func).startswith("torch."):
                continue
            name, given = ast.unparse(node.func).removeprefix("torch."), {keyword.arg for keyword in node.keywords}
            wanted = {"device", "dtype"} if name in CREATE_FLOATS else {"device"} if name in CREATE else set()
            if wanted - given and not given & {"out", None}:
                offenders.append(f"{module.at(node)}: torch.{name} without {', '.join(sorted(wanted - given))}")
    tree.refuse(offenders)
