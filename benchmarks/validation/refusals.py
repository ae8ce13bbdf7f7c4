"""A compiler's refusal, as the lint rule that should have caught it before anything was rented."""

from __future__ import annotations

import re
from typing import NamedTuple

from trnsim.lint import RULES

# What the messages and codes of AWS's compiler say, and the rule of `trnsim.lint` that says it before. The codes are
# those of the compiler's public list; the words are what its front ends name in a message.
PATTERNS: tuple[tuple[str, str], ...] = (
    (r"NCC_(EBVF030|EVRF007|EXTP004)|number of instructions|too many instructions", "program-size"),
    (r"NCC_(EVRF066|EARG001)|\bLNC\b|logical neuron ?core|launch grid", "launch-grid"),
    (r"NCC_EVRF065|unsupported NKI version", "api-version"),
    (r"NCC_ESFH002|integer .*(out of range|too large|overflow|32.bit)", "integer-range"),
    (r"\b(Try|except)\b.*(unsupported|not supported)|unsupported.*\bTry\b", "try"),
    (r"comprehension|ListComp|GeneratorExp|DictComp", "comprehension"),
    (r"\blambda\b|Lambda", "lambda"),
    (r"NamedExpr|walrus|:=", "walrus"),
    (r"NamedTuple", "named-tuple"),
    (r"FormattedValue|format spec", "format-spec"),
    (r"tuple of tensors|tensor.*inside a tuple|unnamed tensor", "tensor-tuple"),
    (r"PSUM.*(bank|2048|2 ?KiB)|crosses.*bank", "psum-bank"),
    (r"decorator", "decorator-front"),
    (r"recursi", "recursion"),
    (r"unexpected keyword argument|has no attribute|missing .*required .*argument|got an unexpected", "api-signature"),
    (r"negative ind", "index-negative"),
    (r"slice.*step|step.*slice|strided slice", "index-step"),
    (r"dynamic.*(index|slice)|index.*not.*constant", "runtime-index"),
    (r"truth value|condition.*tensor|tensor.*condition", "tensor-condition"),
    (r"isinstance", "isinstance-tuple"),
    (r"star(red)? (expression|argument)|Starred", "star-unpack"),
    (r"unpack", "unpack-target"),
    (r"closure|free variable|nonlocal", "closure"),
    (r"nested function|FunctionDef", "inner-function"),
    (r"more than (five|5) dimensions|at most (five|5) dim", "view-rank"),
    (r"name '.*' is not defined|unknown (name|symbol)", "name-collision"),
)


class Translation(NamedTuple):
    """Which rule a refusal belongs to (``None``: no rule knows it), and whether lint found that rule in the kernel."""

    rule: str | None
    caught: bool
    text: str


def translate(message: str, found: list[str]) -> Translation:
    """Translate a refusal; ``found`` are the rules lint reported in the same kernel."""
    rule = next((rule for pattern, rule in PATTERNS if re.search(pattern, message, re.I | re.S)), None)
    if rule is None:
        return Translation(None, False, "no lint rule caught it, and none is known to say it")
    if rule in found:
        return Translation(rule, True, f"lint rule {rule} caught it: {RULES[rule].reason}")
    return Translation(rule, False, f"lint rule {rule} should have caught it and did not: {RULES[rule].reason}")
