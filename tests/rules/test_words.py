"""One idea, one word, the word a reader would search for: retired words come back neither as names nor in prose."""

import ast
import io
import re
import tokenize

# The result, or the thing's own name; transposed; sharded; position.
NAMES = {"made", "found", "turned", "spread", "gotten", "road", "dear"}
# Index, position, offset, line; refused in the simulator, where `timeline` alone names one so to its users.
INDICES = {"place", "places", "number", "numbers"}
TIMELINE = "src/trnsim/timing/report.py"
WORDS = re.compile(
    r"\bturned\b(?! (on|off|out)\b|[^.;]* into\b)"  # transposed, rotated
    r"|\bspread (over (a mesh|meshes|ranks|cores|chips|devices)|arrays?|tensors?|ones|matri\w+|operands?)\b"  # sharded
    r"|\blaws?\b"  # distribution, rule, formula
    r"|\b(dear|dearer|dearest|roads?|gotten|forth and back|behind the (decimal )?point|one thing less)\b"
    r"|\b(is|are) content\b",
    re.IGNORECASE,
)
# a law of nature or of linear algebra keeps its name
NAMED = re.compile(r"\b([A-Z]\w+'s|power|associative|distributive|scaling|conservation) laws?\b")


def _bound(node):
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    if isinstance(node, ast.arg):
        return node.arg
    return node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else None


def _names(module):
    """Names that a module gives and that have a retired part."""
    inside = module.name.startswith("src/trnsim/") and module.name != TIMELINE
    retired = NAMES | INDICES if inside else NAMES
    if not re.search("|".join(retired), module.text, re.IGNORECASE):
        return
    for node in module.nodes:
        name = _bound(node)
        if name is not None and retired & set(name.lower().split("_")):
            yield f"{module.at(node)}: {name}"


def _indices(module):
    """Counters of `enumerate` from 0 that are not called an index: a number counts from 1, a place does not count."""
    if not re.search(r"for \(?(place|number), .* in enumerate\(", module.text):
        return
    for node in module.nodes:
        if isinstance(node, ast.For | ast.comprehension) and isinstance(node.target, ast.Tuple):
            counter, counts = node.target.elts[0], node.iter
            named = isinstance(counter, ast.Name) and counter.id in ("place", "number")
            if named and ast.unparse(counts).startswith("enumerate(") and len(counts.args) == 1:
                yield f"{module.at(counter)}: {counter.id} for an index"


def _prose(module):
    """Comments, docstrings and texts of a source file, by line; every line of a page."""
    if module.path.suffix != ".py":
        yield from enumerate(module.text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield from enumerate(token.string.splitlines(), token.start[0])


def _words(module):
    if not WORDS.search(module.text):
        return
    for line, text in _prose(module):
        for match in WORDS.finditer(NAMED.sub("", text)):
            yield f"{module.name}:{line}: {match[0]}"


def _modules(tree):
    pages = [m for m in tree.modules("docs/**/*.md") if "notebooks" not in m.parts and m.path.name != "rosetta.md"]
    return [*tree.sources, *pages, *tree.modules("*.md")]


def test_retired_words_stay_retired(tree):
    modules = _modules(tree)
    sources = [module for module in modules if module.path.suffix == ".py"]
    names = [line for module in sources for line in (*_names(module), *_indices(module))]
    tree.refuse([*names, *(line for module in modules for line in _words(module))])


# Participles that do not end in -ed, and words in -ed that are none.
IRREGULAR = re.compile(
    "bitten|blown|borne|bought|broken|brought|built|caught|chosen|dealt|done|drawn|driven|eaten|fallen|felt"
    "|forgotten|fought|found|frozen|given|gone|gotten|grown|heard|held|hidden|kept|known|laid|learnt|led|left"
    "|lent|lost|made|meant|met|paid|proven|ridden|risen|said|seen|sent|shaken|shown|shrunk|sold|sought|spelt"
    "|spent|spoken|stolen|stood|struck|stuck|sunk|taken|taught|thought|thrown|told|torn|understood|unwatched"
    "|withdrawn|won|worn|wound|woven|written"
)
REGULAR = {"bed", "bleed", "breed", "embed", "exceed", "feed", "need", "proceed", "red", "seed", "shed", "speed"}
# A function is a verb with its object: the share that is not, which only falls.
BARE = 0.0074


def _bare_participles(modules):
    """Functions named by one participle: they say neither what is done nor to what."""
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef):
                name = node.name.strip("_")
                if IRREGULAR.fullmatch(name) or (re.fullmatch(r"[a-z]{2,}ed", name) and name not in REGULAR):
                    yield f"{module.at(node)}: {node.name}"


def test_few_functions_are_bare_participles(tree):
    bare = list(_bare_participles(tree.sources))
    count = sum(isinstance(node, ast.FunctionDef) for module in tree.sources for node in module.nodes)
    many = f"{len(bare)} of {count} functions are bare participles, more than {BARE:.2%}"
    tree.refuse([many, *bare] if len(bare) > BARE * count else [])


# A docstring opens with a noun or a verb, not with a clause; a count and an owner have names.
CLAUSE = re.compile(r"(What|Who|Whose|Whom)\b")
VAGUE = re.compile(r"\b(so many|nobody|of theirs)\b", re.IGNORECASE)


def _vague_docstrings(module):
    """Docstrings that say something by a clause or a vague word."""
    for node in module.nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node) or ""
            if CLAUSE.match(text) or VAGUE.search(text):
                line = getattr(node, "lineno", 1)
                yield f"{module.name}:{line}: {text.splitlines()[0]}"


def test_docstrings_open_with_a_noun_or_a_verb(tree):
    tree.refuse([line for module in tree.sources for line in _vague_docstrings(module)])
