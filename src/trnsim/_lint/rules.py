"""Every rule of the linter: what it says, what to write instead, and the passage of the NKI reference it stands on.

Some rules hold for every version. Others are those of the parser, which NKI has up to 0.6: it reads the source of a
kernel and knows part of Python. From 0.7 on a kernel is traced, which is running it in Python, and what is refused is
what tracing and the compiler behind it refuse.

An ``error`` is what the reference says is refused. A ``warning`` is what it discourages, deprecates or does not
mention. ``strict`` is what the compiler is not known to accept: sizes, and of the parser what its published source
alone refuses or reads otherwise than Python does (``leanprover/KLR``, March 2026, older than NKI 0.4).
``docs/concepts/lint.md`` is this table with examples, and a test keeps the two equal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from trnsim.versions import TRACED, Version

FRONT = "compiler front end"
Severity = Literal["error", "warning", "strict"]
Front = Literal["", "parser", "tracer"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: ``reason`` is a sentence without its full stop, ``basis`` names document and section.

    ``front`` is the front end it belongs to: ``parser`` (up to NKI 0.6), ``tracer`` (from 0.7 on), or none of them.
    """

    id: str
    severity: Severity
    reason: str
    rewrite: str
    basis: str
    front: Front = ""

    def holds(self, nki: Version) -> bool:
        """Return whether the rule holds for a version of NKI."""
        return not self.front or (self.front == "tracer") == (nki >= TRACED)


# what rules stand on, by the names the tables give them
_SOURCES = {
    "FRONT": FRONT,
    "GATHER": f"{FRONT} (KLR interop/klr/gather.c)",
    "PATTERNS": f"{FRONT} (KLR/NKI/Patterns.lean)",
    "PYTHON": f"{FRONT} (KLR/Trace/Python.lean)",
    "SIMPLIFY": f"{FRONT} (KLR/NKI/Simplify.lean)",
    "TERM": f"{FRONT} (KLR/Trace/Term.lean)",
    "TRACE": f"{FRONT} (KLR/Trace/NKI.lean)",
    "CACHING": "Language Guide, Kernel Caching",
    "CLASSES": "Language Guide, Class Support",
    "FLOW": "Language Guide, Control Flow",
    "INTRODUCTION": "Language Guide, introduction",
    "LOOPS": "Migration 0.5 to 0.6, Rules for migrated loops",
    "LOWERING": "Dynamic Loops, Hardware Lowering",
    "SPECIALISATION": "announcement of the change of specialisation (NKI 0.7)",
    "RESTRICT": "Migration 0.2 to 0.3, Language restrictions",
    "VALUES": "Language Guide, NKI Values",
}

# a rule: its id and reason, what to write instead, what it stands on; lines indented further continue one
_ERRORS = """
legacy-namespace: neuronxcc.nki is refused inside kernels since NKI 0.4
  import nki, nki.language and nki.isa
  release notes 0.4.0; Migration 0.3 to 0.4
tensor-attribute: a tensor of NKI has no such attribute or method
  compute it from .shape and .dtype, or call nisa or nl
  Language Guide, Tensor Values; API, NkiTensor
api-signature: the NKI reference, 0.3 to 0.7, has no such name or parameter
  see docs/reference/nki-api.md
  API of NKI 0.3, 0.4, 0.5, 0.6 and 0.7
tensor-condition: the contents of a tensor are not known while the kernel is compiled, so it cannot decide a branch
  select with nl.where, or load one element into a register and use nl.while_loop
  Language Guide, Tensor Values
runtime-index: an index known only on the device cannot be a slice bound or a plain index
  use nl.ds(register, size), .select(dim, index), .vector_select or .ap(..., scalar_offset=index)
  Access Patterns, Dynamic Access; API, NkiTensor
register-expression: a register holds a value of the device, so Python cannot compute with it or compare it
  store it to SBUF, compute with nisa and load it back; or use it as scalar_offset
  LOWERING; LOOPS; API, VirtualRegister
loop-state: the body of a device loop is compiled once, so what it changes in Python changes once, not in every turn
  carry it from turn to turn in a tile declared before the loop, or in a register
  LOWERING; API, fori_loop and while_loop
dynamic-step: the step of a device loop must be a positive integer known at compile time
  use a positive constant and compute the index from it
  Dynamic Loops, Parameter Constraints
no-reorder-dynamic: a loop that runs on the device cannot stand inside nl.no_reorder()
  put the no_reorder block inside the loop's body
  Dynamic Loops, Interaction with no_reorder
loop-body-return: nl.fori_loop's body returns nothing, and nl.while_loop's body returns the next condition register
  keep other state in SBUF or HBM
  LOOPS; API, fori_loop and while_loop
api-version: this came with a later NKI than the one the kernel is meant for
  use what that version has, or choose a later one with nki=
  API of NKI 0.3, 0.4, 0.5, 0.6 and 0.7
"""

_WARNINGS = """
source-unavailable: the source of this function cannot be read, so it was not checked
  define the kernel in a file or a notebook cell
  About the NKI Compiler: it parses the kernel's source
jit-subkernel: a function called from a kernel should not carry nki.jit
  remove the decorator there, and write nki.jit(function) where it is launched by itself
  Migration 0.1 to 0.2, Remove nki.jit decorator on sub-kernels
mutable-capture: a kernel is cached by its arguments, so a change of this outside object would not be seen
  pass it as an argument, or make it a constant (int, str, tuple)
  CACHING; release notes 0.3.0, Known Issues
"""

_STRICT = """
view-rank: a view has at most five dimensions
  merge dimensions, or take part of the tensor at a time
  Language Guide, Tensor Values (0.6)
hbm-result: nl.hbm is private to the kernel, and a result must be visible to its caller
  allocate results with buffer=nl.shared_hbm
  API, MemoryRegion
program-axis: a launch grid has one axis, the cores of a logical core
  write nl.program_id(0) and nl.num_programs()
  API, nki.jit; compiler front end (KLR/Trace/Lang.lean)
launch-grid: a launch has as many cores as a logical core, one or two along one axis
  write kernel(...) or kernel[2](...), and loop inside the kernel
  Logical Neuron Cores (get started); API, nki.jit
partition-count: a tile on chip has at most 128 partitions
  let the first dimension count partitions, and loop over the rest
  Tiling overview, constraint 1
sbuf-size: a partition of SBUF has 256 KiB at most (trn3), 224 on trn2 and 192 on trn1
  take part of the columns at a time
  NeuronCore architecture (trn1, trn2, trn3)
psum-bank: a tile in PSUM lies in one bank, 2 KiB of each partition
  use several tiles of up to 512 elements of 32 bits, one for each bank
  Tiling overview, constraint 2
program-size: Python's loops are unrolled while a kernel is compiled, and programs beyond 30,000 instructions or
    10,000 matmuls are too long to count on
  use nl.fori_loop, or do part of the loop in a launch and launch the same program for each part
  About the NKI Compiler; reports of users on half a million matmuls
core-flow: both cores of a logical core must have the same control flow, and this loop stands on one of them
  let the loop stand on both cores, with a bound that is zero on the idle one
  Logical Neuron Cores (get started); error NCC_IXGM002
"""

_TRACER_ERRORS = """
device-value: a register or scalar has its value on the device only, and raises in if, while, int() and range()
  use nl.while_loop, nl.fori_loop or scalar_offset, or select with tiles
  API, VirtualRegister and NkiScalar
scalar-expression: a scalar of the device is added, subtracted and multiplied; every other operator raises
  compute with tiles, or store what is computed and load it back
  API, NkiScalar
removed-loop: nl.dynamic_range and while on a register are gone from NKI 0.7 on
  use nl.fori_loop(lower, upper, body) or nl.while_loop(register, body)
  SPECIALISATION; NKI Loops
"""

_TRACER_WARNINGS = """
side-effect: a kernel is traced once for its shapes and constants and then cached, so it changes outside state once
  return the value, or create the container inside the kernel
  SPECIALISATION; how NKI kernels run (PyTorch guide)
"""

_PARSER_ERRORS = """
try: NKI has no exceptions, so try cannot be compiled
  decide with if/else before the operation, or state the requirement with assert
  FLOW; FRONT
with: nl.no_reorder(), without arguments or a name, is the only context a kernel may enter
  call what the context manager does before and after the block
  Scheduling APIs, Using no_reorder; release notes 0.2.0
async: a kernel is one sequential program, so async and await have no meaning in it
  write a plain def and call it
  Language Guide, sequential programming model; FRONT
match: NKI's branches are if, elif and else
  write an if/elif chain, or look the case up in a dict with string keys
  FLOW; FRONT
del: NKI frees memory by last use, so del cannot be compiled
  remove the statement; allocate inside the loop or helper that needs the tensor
  FRONT
import: a kernel is compiled, not interpreted, so an import inside it cannot run
  move the import to the top of the module
  FRONT
global: a kernel cannot assign to a name outside itself
  return the value, or pass a dict or list between the functions
  CACHING; FRONT
class-definition: a class cannot be defined inside a kernel
  define the class at the top of the module, deriving from nl.NKIObject
  CLASSES; FRONT
type-statement: the type statement is not part of NKI
  define the alias at the top of the module
  FRONT
loop-else: loops in NKI have no else
  set a flag in the loop and test it after
  FRONT
generator: a generator is not a value NKI knows
  build a list with a loop and use that
  VALUES
set: NKI's containers are tuples, lists, dicts with string keys and NKIObject classes; a set is none of them
  use a list, or a dict whose keys are strings
  VALUES
dict-key: the keys of an NKI dict must be strings
  use a list indexed by the integer, or a string key such as f"{i}"
  VALUES; Migration 0.1 to 0.2, features not available
literal: NKI's values are None, booleans, 32-bit integers and floats, strings and tensors
  use one of those
  VALUES
integer-range: NKI integers have 32 bits
  split the constant into 32-bit halves, or compute it on the host and pass a tensor
  VALUES
is: is and is not compare identity, which means nothing while a kernel is compiled
  write == or !=
  RESTRICT; release notes 0.3.0
star-unpack: NKI does not expand * and **
  name each element, index the sequence, or pass the arguments one by one
  FRONT
matmul-operator: @ is no operator of NKI
  call nisa.nc_matmul with a PSUM destination
  API, NkiTensor; FRONT
enum-operator: == and != are the only operators on enum values
  compare with ==, or use .value
  Language Guide, Enumerations
keyword-only: a kernel's signature cannot have the keyword-only separator *
  remove the *, and put the parameters with defaults last
  RESTRICT; release notes 0.3.0
varargs: NKI binds a fixed list of parameters, so *args cannot be compiled
  pass a tuple as one parameter
  FRONT
list-argument: a kernel argument cannot be a list, because compiled kernels are cached by their arguments
  use a tuple
  RESTRICT; release notes 0.3.0
class-base: a class used in a kernel must derive from nl.NKIObject or Enum
  derive it from nl.NKIObject (@dataclass may stay)
  CLASSES
multiple-inheritance: a class used in a kernel must derive from nl.NKIObject and nothing else
  make the other base a field, or move its methods into this class
  CLASSES
impure-write: a kernel is cached by its arguments and must be a pure function of them, so it cannot change outside state
  return the value, or create the container inside the kernel
  CACHING
host-call: a kernel runs at compile time on the host and then on the device, where this library does not exist
  compute the value outside and pass it as an argument
  INTRODUCTION; CACHING
builtin: this builtin is not part of NKI
  compute the value outside the kernel and pass it as an argument
  INTRODUCTION
dynamic-exit: break, continue and return cannot leave a loop that runs on the device
  let the loop run to its bound, or use nl.while_loop whose body returns the next condition
  FRONT
induction-write: the induction register of a device loop is frozen
  keep a separate register, or use nl.while_loop
  Language Guide, Dynamic Control Flow; release notes 0.4.0
"""

_PARSER_WARNINGS = """
is-none: is and is not are not supported since NKI 0.3 (with None the compiler reads them as == and !=)
  write == None or != None
  RESTRICT; FRONT
comprehension: the reference does not mention comprehensions, and the parsing front end rejects them
  build the list with a loop and append
  FRONT
lambda: the reference does not mention lambda, and the parsing front end rejects it
  define the function with def
  Language Guide, Composable Kernels; FRONT
walrus: the reference does not mention :=, and the parsing front end rejects it
  assign on a line of its own
  FRONT
format-spec: the parsing front end rejects format specifiers in f-strings
  write {x} without the specifier
  FRONT
string-method: the reference gives NKI string literals, not their methods
  use an f-string, or prepare the string outside the kernel
  VALUES
integer-unsigned: NKI integers are 32-bit and signed in the front end; this one needs the 32nd bit
  write the negative number with the same bits, or fill a uint32 tensor on the host
  VALUES; FRONT
float-range: NKI floats have 32 bits, and this one becomes infinite or zero
  use a float32 value, such as -3.4028235e38
  VALUES
dict-expansion: only an older front end is known to refuse ** of a dictionary that the kernel writes itself
  pass the arguments one by one
  FRONT
kwargs: the compiler accepts **kwargs only when it stays empty
  name the parameters
  FRONT
decorator: nki.jit, dataclass, property and staticmethod are the decorators known to work on what a kernel calls
  call the decorated behaviour explicitly
  FRONT
raise: NKI has no exceptions: some releases refuse raise, the others stop compiling when they reach it
  write assert condition, message
  FLOW; FRONT
class-inherit: a class used in a kernel should derive from nl.NKIObject directly
  derive from nl.NKIObject and hold the other object as a field
  CLASSES
enum-base: only plain Enum classes are documented
  derive from Enum alone
  Language Guide, Enumerations
argument-mutation: a kernel's arguments are tensors and constants; a list is refused as an argument
  build the list inside the kernel
  RESTRICT
library-call: libraries other than math are not documented inside kernels
  compute the value outside and pass it as an argument
  INTRODUCTION
builtin-doubtful: the reference does not mention this builtin
  write the loop out
  INTRODUCTION
recursion: every call is inlined while the kernel is compiled, so recursion must end at compile time
  write a loop
  Language Guide, Compilation Model
register-if: only while and the loop functions are documented to take a register as condition
  use nl.while_loop, or select with nisa instructions
  API, VirtualRegister
nested-dynamic: nested dynamic_range loops that carry values fail to compile
  use range for the loop whose trip count is known
  release notes 0.4.0, Known Issues
deprecated-loop: dynamic_range and while on a register are deprecated since NKI 0.6
  use nl.fori_loop(lower, upper, body) or nl.while_loop(register, body)
  Migration 0.5 to 0.6
"""

_PARSER_STRICT = """
jit-spelling: a kernel's decorator is read by its spelling, and nki.jit is the only one known
  import nki and write @nki.jit
  SIMPLIFY
decorator-front: on what a kernel calls, staticmethod and dataclass are the only decorators
  write a plain function or method and call it
  SIMPLIFY
unpack-target: names alone can be unpacked into
  unpack into names, and assign the element or attribute on a line of its own
  SIMPLIFY
unpack-nested: a pattern inside a pattern becomes an index of two numbers, which tuples do not take
  unpack the outer tuple, then the inner one
  PATTERNS
assign-chain: in a chained assignment to an element or attribute the right side is evaluated once for each target
  assign to a name first, then to each target on a line of its own
  SIMPLIFY
loop-target: the target of a loop is one name
  unpack in the first line of the body
  SIMPLIFY
hoisted-attribute: an attribute of a subscript or of a call is computed before the whole statement, whatever guards it,
    and in a header inside the body
  bind the subscript or the call to a name first
  SIMPLIFY
inner-function: a function defined inside another is refused
  define it at the top of the module and pass what it needs
  GATHER
closure: names are looked up in the module and among the builtins, never in an enclosing function
  pass the value as an argument, or make it a constant of the module
  GATHER
name-collision: functions, classes and constants are kept by their bare name, so the second one is read as the first
  give one of them another name
  GATHER
min-max: min and max take two numbers, or one list
  nest the calls: min(a, min(b, c))
  PYTHON
range-value: range is known in the header of a for loop only
  loop over it directly, or build a list by append
  compiler front end (KLR/NKI/Annotations.lean)
builtin-front: the parser has no such builtin
  write the loop or the test out
  PYTHON
math-front: of math it knows ceil, floor, gcd, log2, log10, pow, sqrt, pi, e, inf and nan
  compute the value outside the kernel and pass it as an argument
  PYTHON
isinstance-tuple: isinstance with a tuple of types is False for every value
  write isinstance(x, A) or isinstance(x, B)
  PYTHON
list-pop: pop of a list removes the last element whatever its argument: a queue becomes a stack
  keep the index of the first element, or write pop()
  PYTHON
list-method: a list has append, clear, copy, count, extend, index, pop, remove and reverse
  build another list with a loop and append
  PYTHON; TERM
dict-method: a dict has clear, copy, get, items, keys, pop, setdefault and values, and is neither iterated nor searched
  use those: for key in d.keys(), and d.get(key)
  PYTHON; TERM
list-slice: a slice of a list that ends past it is refused, and the slice cannot be changed
  build the list with a loop and append, or slice up to len(list)
  TERM
string-value: a string has no elements, no length and no methods
  pass what you need of it as an argument
  TERM
arithmetic-misread: the parser computes this otherwise than Python: negative powers are 1, bits of negative numbers are
    those of 64-bit words, division by a negative number rounds up, and floats have no remainder
  write it with positive numbers
  TERM
index-none: None in an index selects the whole next dimension instead of adding one
  use reshape on the whole tensor, or .ap
  TERM
index-step: the step of a slice is lost: the view counts fewer elements and takes neighbours
  use .ap on the whole tensor with the step in its pattern
  compiler front end (KLR/Core/Indexing.lean)
index-negative: a negative index of a tensor is refused
  write t.shape[i] - 1
  TERM
view-of-slice: the documents give three readings of .ap on a slice, and the parser refuses .ap, reshape and view there
  call it on the whole tensor, with an absolute offset
  Language Guide, Tensor Indexing; Access Patterns; API, NkiTensor; TERM
index-of-pattern: what .ap gives has no further index and no further view
  put the offset and the sizes into the pattern
  TERM
tensor-assignment: an element or slice of a tensor cannot be assigned to
  call nisa.tensor_copy, nisa.dma_copy or nisa.memset with dst=
  TRACE
tensor-tuple: tensors are arguments of their own: those inside a tuple get no name and are refused
  pass each tensor as an argument, or one tensor with static offsets
  TRACE
named-tuple: a class used in a kernel derives from nl.NKIObject or Enum, and NamedTuple is refused
  derive it from nl.NKIObject
  Language Guide, Class Support; GATHER
"""


def _rules(table: str, severity: Severity, front: Front = "") -> dict[str, Rule]:
    rules = {}
    for row in re.split(r"\n(?=\S)", re.sub(r"\n {4}", " ", table.strip())):
        head, rewrite, basis = row.split("\n  ")
        name, reason = head.split(": ", 1)
        sources = "; ".join(_SOURCES.get(source, source) for source in basis.split("; "))
        rules[name] = Rule(name, severity, reason, rewrite, sources, front)
    return rules


RULES = (
    _rules(_ERRORS, "error")
    | _rules(_WARNINGS, "warning")
    | _rules(_STRICT, "strict")
    | _rules(_TRACER_ERRORS, "error", "tracer")
    | _rules(_TRACER_WARNINGS, "warning", "tracer")
    | _rules(_PARSER_ERRORS, "error", "parser")
    | _rules(_PARSER_WARNINGS, "warning", "parser")
    | _rules(_PARSER_STRICT, "strict", "parser")
)
"""Rules by id: those of every version, of tracing, and of the parser that older versions have."""
