"""Gather every kernel with the published parser front end of AWS, and say what it refuses or binds to the wrong thing.

``python -m tools.klr_check PATH`` takes a checkout of github.com/leanprover/KLR (Apache-2.0; nothing of it is part of
this repository). The C part of it, which parses a kernel's source and gathers what its names mean, is compiled with a
stand-in for the Lean run time that keeps the tree instead of handing it on. Kernels are imported with an ``nki`` that
has the documented names and does nothing. KLR is one generation older than NKI 0.4: what it refuses may be accepted by
now, so this is the conservative side. What it accepts has only been parsed and gathered, not compiled.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("gather.c", "frontend.c", "region.c", "peg_parser.c")
HEADER = """
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef struct lean_object lean_object;
struct lean_object { int m_rc; const char *kind; const char *text; size_t count; lean_object **parts; };
typedef lean_object *lean_obj_res, *lean_obj_arg, *b_lean_obj_res;
lean_object *lean_mk_string(const char *), *lean_mk_string_from_bytes(const char *, size_t);
lean_object *lean_string_append(lean_object *, lean_object *), *lean_unsigned_to_nat(unsigned);
lean_object *lean_int_to_int(int), *lean_mk_empty_array(void), *lean_alloc_array(size_t, size_t);
lean_object *lean_array_push(lean_object *, lean_object *), *lean_array_to_list(lean_object *);
lean_object *lean_box(size_t), *lean_alloc_ctor(unsigned, unsigned, unsigned), *lean_io_mk_world(void);
lean_object *lean_io_result_take_value(lean_object *), *lean_io_result_get_error(lean_object *);
const char *lean_string_cstr(lean_object *);
bool lean_io_result_is_ok(lean_object *);
void lean_inc(lean_object *), lean_dec(lean_object *), lean_ctor_set(lean_object *, unsigned, lean_object *);
"""
RUNTIME = r"""
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <lean/lean.h>
#include "frontend.h"

static lean_object *node(const char *kind, size_t count, ...) {
  lean_object *made = calloc(1, sizeof *made);
  made->kind = kind; made->count = count; made->parts = calloc(count + 1, sizeof *made->parts);
  va_list list; va_start(list, count);
  for (size_t i = 0; i < count; i++) made->parts[i] = va_arg(list, lean_object *);
  va_end(list);
  return made;
}
static lean_object *leaf(const char *kind, char *text) {
  lean_object *made = node(kind, 0); made->text = text; return made;
}
lean_object *lean_mk_string_from_bytes(const char *s, size_t n) { return leaf("string", strndup(s, n)); }
lean_object *lean_mk_string(const char *s) { return leaf("string", strdup(s)); }
const char *lean_string_cstr(lean_object *s) { return s->text ? s->text : ""; }
lean_object *lean_string_append(lean_object *a, lean_object *b) {
  char *text; if (asprintf(&text, "%s%s", lean_string_cstr(a), lean_string_cstr(b)) < 0) abort();
  return leaf("string", text);
}
static lean_object *number(long n) { char *t; if (asprintf(&t, "%ld", n) < 0) abort(); return leaf("number", t); }
static lean_object *real(double d) { char *t; if (asprintf(&t, "%.17g", d) < 0) abort(); return leaf("real", t); }
lean_object *lean_unsigned_to_nat(unsigned n) { return number(n); }
lean_object *lean_int_to_int(int n) { return number(n); }
lean_object *lean_box(size_t n) { return leaf("box", number((long)n)->text ? strdup(number((long)n)->text) : NULL); }
lean_object *lean_mk_empty_array(void) { return node("list", 0); }
lean_object *lean_alloc_array(size_t n, size_t m) { (void)n; (void)m; return node("list", 0); }
lean_object *lean_array_push(lean_object *a, lean_object *x) {
  a->parts = realloc(a->parts, (a->count + 1) * sizeof *a->parts); a->parts[a->count++] = x; return a;
}
lean_object *lean_array_to_list(lean_object *a) { return a; }
lean_object *lean_alloc_ctor(unsigned tag, unsigned n, unsigned s) { (void)tag; (void)s; return node("some", n, NULL); }
void lean_ctor_set(lean_object *o, unsigned i, lean_object *x) { o->parts[i] = x; }
void lean_inc(lean_object *o) { (void)o; }
void lean_dec(lean_object *o) { (void)o; }
lean_object *lean_io_mk_world(void) { return lean_box(0); }
bool lean_io_result_is_ok(lean_object *o) { (void)o; return false; }
lean_object *lean_io_result_take_value(lean_object *o) { return o; }
lean_object *lean_io_result_get_error(lean_object *o) { return o; }
lean_object *lean_io_error_to_string(lean_object *o) { (void)o; return lean_mk_string("nothing is traced here"); }
bool initialize_KLR_lean_ffi(void) { return true; }
PyObject *lean_ffi_hello(PyObject *a, PyObject *b) { (void)a; (void)b; Py_RETURN_NONE; }
PyObject *lean_ffi_throw(PyObject *a, PyObject *b) { (void)a; (void)b; Py_RETURN_NONE; }
PyObject *lean_ffi_panic(PyObject *a, PyObject *b) { (void)a; (void)b; Py_RETURN_NONE; }
lean_object *nki_trace(lean_object *a, lean_object *b, lean_object *c, lean_object *d, lean_object *e) {
  (void)a; (void)b; (void)c; (void)d; return e;
}
static void quoted(FILE *out, const char *s) {
  fputc('"', out);
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') fprintf(out, "\\%c", *s);
    else if ((unsigned char)*s < 32) fprintf(out, "\\u%04x", *s);
    else fputc(*s, out);
  }
  fputc('"', out);
}
static void written(FILE *out, lean_object *o) {
  if (!o) { fputs("null", out); return; }
  if (o->text) { quoted(out, o->text); return; }
  fputs("[", out); quoted(out, o->kind);
  for (size_t i = 0; i < o->count; i++) { fputc(',', out); written(out, o->parts[i]); }
  fputs("]", out);
}
lean_object *nki_to_json(lean_object *o) {
  char *text = NULL; size_t size = 0; FILE *out = open_memstream(&text, &size);
  written(out, o); fclose(out);
  return leaf("string", text);
}
"""


def constructors(header: str) -> str:
    """C definitions of the constructors ``lean_ast.h`` declares: each keeps its name and what it was given."""
    made = []
    for name, listed in re.findall(r"^lean_object\* (\w+)\(([^)]*)\);", header, re.MULTILINE):
        types = [t.strip() for t in listed.split(",") if t.strip()]
        wrap = {"lean_object*": "a{}", "uint8_t": "number(a{})", "double": "real(a{})"}
        given = ", ".join(f"{kind} a{i}" for i, kind in enumerate(types)) or "void"
        parts = "".join(", " + wrap[kind].format(i) for i, kind in enumerate(types))
        made.append(f'lean_object *{name}({given}) {{ return node("{name}", {len(types)}{parts}); }}')
    for kind, name in re.findall(r"^extern (lean_object\*|uint8_t) (\w+);", header, re.MULTILINE):
        if kind == "uint8_t":
            made.append(f"uint8_t {name} = {len(made) % 200};")
        else:
            made.append(f'static lean_object {name}_ = {{0, "{name}", 0, 0, 0}}; lean_object *{name} = &{name}_;')
    return "\n".join(made)


def build(checkout: Path, folder: Path) -> None:
    """Compile the front end of ``checkout`` as ``klr.frontend`` into ``folder``."""
    source = checkout / "interop" / "klr"
    missing = [name for name in (*SOURCES, "lean_ast.h") if not (source / name).is_file()]
    if missing:
        raise SystemExit(f"{source} has no {', '.join(missing)}: give the path of a checkout of leanprover/KLR")
    (folder / "lean").mkdir(parents=True)
    (folder / "lean" / "lean.h").write_text(HEADER)
    (folder / "runtime.c").write_text(RUNTIME + constructors((source / "lean_ast.h").read_text()))
    (folder / "klr").mkdir()
    (folder / "klr" / "__init__.py").write_text("")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    words = ["cc", "-std=gnu17", "-O1", "-w", "-shared", "-fPIC", f"-I{folder}", f"-I{source}"]
    words += [f"-I{sysconfig.get_paths()['include']}", "-o", str(folder / "klr" / f"frontend{suffix}")]
    words += [*(str(source / name) for name in SOURCES), str(folder / "runtime.c")]
    subprocess.run(words, check=True)


def documented_nki() -> dict[str, ModuleType]:
    """``nki`` and its namespaces with the documented names: functions without source, which the front end skips."""
    from trnsim._lint.reference import ENUM_MEMBERS, reference

    top = ModuleType("nki")
    found = {"nki": top}

    def jit(function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    vars(top).update(jit=jit, __version__="0.3.0", __path__=[])
    for space in ("language", "isa", "collectives"):
        module = ModuleType(f"nki.{space}")
        for entry in reference()[space].values():
            value: Any = f"{space}.{entry.name}"
            if entry.kind == "function":
                scope: dict[str, Any] = {"__name__": module.__name__}
                exec(f"def {entry.name}({', '.join(f'{p}=None' for p in entry.parameters)}): pass", scope)
                value = scope[entry.name]
            elif entry.name in ENUM_MEMBERS:
                value = ModuleType(f"nki.{space}.{entry.name}")
                vars(value).update({member: member for member in ENUM_MEMBERS[entry.name].split()})
            elif entry.kind == "class":
                value = type(entry.name, (), {"__module__": module.__name__})
            setattr(module, entry.name, value)
        setattr(top, space, module)
        found[module.__name__] = module
    return found


@dataclass
class Gathered:
    """What the front end made of one kernel."""

    name: str
    errors: list[str]
    collisions: list[str] = field(default_factory=list)
    functions: int = 0


def definitions(tree: list[Any]) -> tuple[dict[str, tuple[str, int]], dict[str, Any], list[tuple[str, list[str]]]]:
    """Functions and classes by the name they are kept under, with file and line; constants; names each one reads."""
    _, functions, classes, _, _, constants, *_ = tree[1:]
    where: dict[str, tuple[str, int]] = {}
    reads: list[tuple[str, list[str]]] = []
    for fun in functions[1:]:
        where.setdefault(fun[1], (fun[2], int(fun[3])))
        reads.append((fun[1], _names(fun[7])))
    for cls in classes[1:]:
        for method in cls[5][1:]:
            where.setdefault(cls[1], (method[2], int(method[3])))
            reads.append((method[1], _names(method[7])))
    values = {kept[1][1]: kept[2] for kept in constants[1:]}
    return where, values, reads


def _names(tree: Any) -> list[str]:
    found = []
    if isinstance(tree, list) and tree:
        if tree[0] == "Python_Expr_name" and "." not in tree[1]:
            found.append(tree[1])
        for part in tree[1:]:
            found += _names(part)
    return found


def collisions(tree: list[Any]) -> Iterator[str]:
    """Bare names that the front end binds to something else than Python does."""
    where, _, reads = definitions(tree)
    seen: dict[str, tuple[str, Any]] = {}
    for full, names in reads:
        function = _resolve(full)
        if function is None:
            continue
        code = function.__code__
        for name in dict.fromkeys(names):
            if name in code.co_varnames or name not in function.__globals__:
                continue
            meant = function.__globals__[name]
            if isinstance(meant, ModuleType):
                continue
            bound = where.get(name)
            if bound is not None and isinstance(meant, FunctionType | type) and _place(meant) != bound:
                yield f"{name} in {full} means {_place(meant)}, and is bound to {bound}"
            first, other = seen.setdefault(name, (full, meant))
            if bound is None and not isinstance(meant, FunctionType | type) and other != meant:
                yield f"{name} is {other!r} in {first} and {meant!r} in {full}"


def _place(thing: Any) -> tuple[str, int]:
    return str(inspect.getsourcefile(thing)), inspect.getsourcelines(thing)[1]


def _resolve(full: str) -> FunctionType | None:
    """The function or method of a dotted name."""
    parts = full.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:cut]))
        if module is not None:
            found: Any = module
            for part in parts[cut:]:
                found = getattr(found, part, None)
            return found if isinstance(found, FunctionType) else None
    return None


def kernels() -> Iterator[tuple[str, FunctionType]]:
    """Every entry of ``src/*/kernels``: the one public function of a file that is no helper."""
    for path in sorted(ROOT.glob("src/*/kernels/[!_]*.py")):
        name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        module = importlib.import_module(name)
        for thing in list(vars(module).values()):
            own = isinstance(thing, FunctionType) and thing.__module__ == name
            if own and not thing.__name__.startswith("_"):
                yield f"{name}.{thing.__name__}", thing


def gather(frontend: Any, name: str, function: FunctionType) -> Gathered:
    """What the front end says of one kernel."""
    made = frontend.Kernel(function)
    said = json.loads(made.specialize(), strict=False)
    tree = json.loads(made.serialize_python())
    where, _, _ = definitions(tree)
    return Gathered(name, said["errors"], list(collisions(tree)), len(where))


def main(argv: list[str] | None = None) -> int:
    """Build, gather all kernels, print a line each; 1 when something is refused or collides."""
    parser = argparse.ArgumentParser(prog="python -m tools.klr_check", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path, help="a checkout of github.com/leanprover/KLR")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        build(options.checkout, Path(folder))
        sys.path.insert(0, folder)
        sys.modules.update(documented_nki())
        frontend = importlib.import_module("klr.frontend")
        failed = 0
        for name, function in kernels():
            found = gather(frontend, name, function)
            lines = [*found.errors, *found.collisions]
            failed += bool(lines)
            print(f"{name}: {'refused' if lines else 'gathered'}, {found.functions} definitions")
            for line in lines:
                print(f"    {line}")
    print(f"{failed} kernels refused")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
