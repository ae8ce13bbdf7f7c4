"""Kernels of the beta API (``neuronxcc.nki``) brought to NKI 0.3 and later.

What has one answer is rewritten; what needs a decision is marked with a comment that says which. The file is read,
never run. The reasons are the linter's, and those of the names ``nki.language`` no longer has.
"""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass

from trnsim._lint import counted
from trnsim._lint.rules import RULES
from trnsim.calls import RETIRED
from trnsim.isa.activations import FUNCTIONS
from trnsim.isa.alu import ALIASES, OPERATORS

MARK = "# migrate:"
_RANGES = ("affine_range", "sequential_range", "static_range")
_MEASURING = ("benchmark", "profile", "baremetal")
# instructions that returned a tile shaped like one operand, and now write the tile passed as dst
_LIKE = {
    "activation": ("op", "data"),
    "reciprocal": ("data",),
    "tensor_copy": ("src",),
    "tensor_scalar": ("data", "op0", "operand0"),
    "tensor_tensor": ("data1", "data2", "op"),
}
_SHAPED = dict.fromkeys(_LIKE, "data") | {"tensor_copy": "src", "tensor_tensor": "data1"}
# NumPy's functions that the beta API took as operators; a name that begins another comes after it
_OPERATORS = {n: ALIASES.get(n, n) for n in sorted((*FUNCTIONS, *OPERATORS, *ALIASES), reverse=True)}
_MASK = "make the last tile smaller with slices, whose end is min(stop, size): there are no masks since NKI 0.2"
_DST = "make the destination first and pass it as dst=: instructions return no tile"
_SUM = "start the sum with accumulate=False and continue with accumulate=True in nisa.nc_matmul; += rebinds the name"


@dataclass(frozen=True, slots=True)
class Change:
    """One place to change: ``new`` replaces ``old``, or ``why`` says what to decide (``new`` is ``None``)."""

    line: int
    start: int
    end_line: int
    end: int
    old: str
    new: str | None
    why: str

    def __str__(self) -> str:
        old = self.old if len(self.old) <= 60 else f"{self.old[:57]}…"
        return f"line {self.line}: {old}" + (f"  ->  {self.new}" if self.new is not None else f"  ({self.why})")


def is_legacy(text: str) -> bool:
    """True for a file that imports the beta API."""
    return "neuronxcc" in text and any("neuronxcc" in c.old for c in changes(text) if c.new is not None)


def changes(text: str) -> list[Change]:
    """Return every place of a file to change, in order; a file that is no Python has none."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    finder = _Finder(text)
    finder.visit(tree)
    return sorted(finder.changes, key=lambda c: (c.line, c.start))


def migrated(text: str) -> str:
    """Return the file with everything mechanical rewritten, and a comment on every line that needs a decision."""
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    todo = changes(text)
    for change in sorted(_outermost(todo), key=lambda c: (-c.line, -c.start)):
        assert change.new is not None
        first, last = change.line - 1, change.end_line - 1
        merged = lines[first][: change.start] + change.new.encode() + lines[last][change.end :]
        # line numbers of the other changes stay
        lines[first : last + 1] = [merged] + [b""] * (last - first)
    marks: dict[int, list[str]] = {}
    for change in todo:
        if change.new is None and change.why not in marks.setdefault(change.line, []):
            marks[change.line].append(change.why)
    out = []
    for lineno, line in enumerate(lines, 1):
        bare = line.decode()
        if lineno in marks:
            body = bare.rstrip("\r\n")
            bare = f"{body}  {MARK} {'; '.join(marks[lineno])}{bare[len(body) :]}"
        out.append(bare)
    return "".join(out)


def _outermost(todo: list[Change]) -> list[Change]:
    """Return the mechanical changes that are not inside another one."""
    ready = [c for c in todo if c.new is not None]
    spans = [((c.line, c.start), (c.end_line, c.end)) for c in ready]
    return [
        c
        for c, (start, end) in zip(ready, spans, strict=True)
        if not any(a <= start and end <= b and (a, b) != (start, end) for a, b in spans)
    ]


def report(text: str, file: str) -> str:
    """Return a page on a file that imports the beta API: every line to change, and the command that does it."""
    todo = changes(text)
    ready = [c for c in todo if c.new is not None]
    open_ = [c for c in todo if c.new is None]
    rows = [f"{file} is written for the beta API: {RULES['legacy-namespace'].reason}."]
    rows += [f"`trnsim migrate {file}` makes {counted(len(ready), 'change')}:", *(f"  {c}" for c in ready)]
    if open_:
        rows += [f"and marks {counted(len(open_), 'place')} that need a decision:", *(f"  {c}" for c in open_)]
    return "\n".join(rows)


def diff(text: str, file: str) -> str:
    """Return what `migrated` would change, as a patch."""
    before, after = (t.splitlines(keepends=True) for t in (text, migrated(text)))
    return "".join(difflib.unified_diff(before, after, file, f"{file} (migrated)"))


class _Finder(ast.NodeVisitor):
    """Collects changes; names are resolved by what the file imports."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.changes: list[Change] = []
        self.nl, self.nisa, self.nki, self.numpy = {"nl"}, {"nisa"}, {"nki"}, {"np", "numpy"}
        self.returned: set[str] = set()

    def change(self, node: ast.AST, new: str | None, why: str = "") -> None:
        old = ast.get_source_segment(self.text, node) or ""
        self.changes.append(
            Change(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, old, new, why)  # type: ignore[attr-defined]
        )

    def api(self, node: ast.AST, modules: set[str]) -> str:
        """``exp`` for ``nl.exp``, when ``nl`` is one of ``modules``; else nothing."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            return node.attr
        return ""

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            short = alias.asname or alias.name.partition(".")[0]
            {"neuronxcc.nki.language": self.nl, "neuronxcc.nki.isa": self.nisa, "neuronxcc.nki": self.nki}.get(
                alias.name, set()
            ).add(short)
        if any(a.name.startswith("neuronxcc.nki") for a in node.names):
            names = [(a.name.removeprefix("neuronxcc."), a.asname) for a in node.names]
            self.change(node, "import " + ", ".join(n if s in (None, n) else f"{n} as {s}" for n, s in names))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if not module.startswith("neuronxcc"):
            return
        names = [(a.name, a.asname) for a in node.names]
        for name, short in names:
            {"language": self.nl, "isa": self.nisa, "nki": self.nki}.get(name, set()).add(short or name)
        listed = ", ".join(n if s is None else f"{n} as {s}" for n, s in names if n not in RETIRED and n != "nki")
        lines = []
        if module == "neuronxcc":
            lines += [f"import nki as {s}" if s else "import nki" for n, s in names if n == "nki"]
        elif listed:
            lines.append(f"from {module.removeprefix('neuronxcc.')} import {listed}")
        self.change(node, "\n".join(lines) or "pass")
        for name, _ in names:
            if name in RETIRED:
                self.change(node, None, f"{name}: {RETIRED[name]}")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer = self.returned
        self.returned = {
            n.id
            for r in ast.walk(node)
            if isinstance(r, ast.Return) and r.value is not None
            for n in ast.walk(r.value)
            if isinstance(n, ast.Name)
        }
        for decorator in node.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            if self.api(target, self.nki) in _MEASURING:
                self.change(decorator, f"{ast.unparse(target.value)}.jit")  # type: ignore[attr-defined]
        self.generic_visit(node)
        self.returned = outer

    def visit_Assign(self, node: ast.Assign) -> None:
        target, value = node.targets[0], node.value
        name = self.api(value.func, self.nisa) if isinstance(value, ast.Call) else ""
        given = {k.arg: k.value for k in value.keywords} if isinstance(value, ast.Call) else {}
        if isinstance(value, ast.Call) and name and "dst" not in given:
            self._with_dst(node, target, value, name, given)
            for part in (*value.args, *given.values()):
                self.visit(part)
            return
        buffer = given.get("buffer")
        if isinstance(target, ast.Name) and target.id in self.returned and self.api(buffer, self.nl) == "hbm":  # type: ignore[arg-type]
            assert isinstance(buffer, ast.Attribute)
            self.change(buffer, f"{ast.unparse(buffer.value)}.shared_hbm")
        self.generic_visit(node)

    def _with_dst(
        self, node: ast.Assign, target: ast.expr, call: ast.Call, name: str, given: dict[str | None, ast.expr]
    ) -> None:
        order = _LIKE.get(name)
        if order is None or not isinstance(target, ast.Name) or len(call.args) > len(order) or "mask" in given:
            self.change(node, None, _DST)
            return
        values = {**dict(zip(order, (ast.unparse(a) for a in call.args), strict=False))}
        values |= {k: ast.unparse(v) for k, v in given.items() if k not in (None, "dtype")}
        like = values.get(_SHAPED[name], "")
        if not like.isidentifier():
            self.change(node, None, _DST)
            return
        language = next(iter(sorted(self.nl, key=lambda n: n != "nl")))
        dtype = ast.unparse(given["dtype"]) if "dtype" in given else f"{like}.dtype"
        listed = ", ".join(f"{k}={v}" for k, v in values.items())
        for old in self.numpy:
            for short, new in _OPERATORS.items():
                listed = listed.replace(f"={old}.{short}", f"={language}.{new}")
        indent = " " * node.col_offset
        self.change(
            node,
            f"{target.id} = {language}.ndarray({like}.shape, dtype={dtype}, buffer={language}.sbuf)\n"
            f"{indent}{ast.unparse(call.func)}(dst={target.id}, {listed})",
        )

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        calls = [n for n in ast.walk(node.value) if isinstance(n, ast.Call)]
        if any(self.api(c.func, self.nl | self.nisa) in ("matmul", "nc_matmul") for c in calls):
            self.change(node, None, _SUM)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = self.api(node.func, self.nl)
        if name == "par_dim" and len(node.args) == 1:
            self.change(node, ast.unparse(node.args[0]))
        elif name in _RANGES:
            self.change(node.func, "range")
        elif self.api(node.func, self.nki) == "simulate_kernel" and node.args:
            kernel, *rest = (ast.unparse(a) for a in node.args)
            rest += [f"{k.arg}={ast.unparse(k.value)}" for k in node.keywords]
            self.change(node, f"{ast.unparse(node.func.value)}.simulate({kernel})({', '.join(rest)})")  # type: ignore[attr-defined]
            return
        for keyword in node.keywords:
            if keyword.arg == "mask" and (name or self.api(node.func, self.nisa)):
                self.change(keyword, None, _MASK)
            short = self.api(keyword.value, self.numpy)
            if keyword.arg in ("op", "op0", "op1", "reduce_op", "cmp_op") and short in _OPERATORS:
                language = next(iter(sorted(self.nl, key=lambda n: n != "nl")))
                self.change(keyword.value, f"{language}.{_OPERATORS[short]}")
        if name == "par_dim":
            return
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self.api(node, self.nl)
        if name in RETIRED and name != "par_dim":
            self.change(node, None, f"nl.{name}: {RETIRED[name]}")
        self.generic_visit(node)
