"""Rules of the strict profile: what one of the compiler's front ends refuses, or reads otherwise than Python does.

Most stand on the published source of the parser front end alone (``leanprover/KLR``, March 2026), which is older than
NKI 0.4; a front end that traces the running function would not notice those. A kernel that breaks none of them
compiles with either. `trnsim._lint.rules` says how the table is read.
"""

from __future__ import annotations

FRONT = "compiler front end"
SOURCES = {
    "FRONT": FRONT,
    "GATHER": f"{FRONT} (KLR interop/klr/gather.c)",
    "PATTERNS": f"{FRONT} (KLR/NKI/Patterns.lean)",
    "PYTHON": f"{FRONT} (KLR/Trace/Python.lean)",
    "SIMPLIFY": f"{FRONT} (KLR/NKI/Simplify.lean)",
    "TERM": f"{FRONT} (KLR/Trace/Term.lean)",
    "TRACE": f"{FRONT} (KLR/Trace/NKI.lean)",
}

STRICT = """
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
psum-bank: a tile in PSUM lies in one bank, 2 KiB of each partition
  use several tiles of up to 512 elements of 32 bits, one for each bank
  Tiling overview, constraint 2
program-size: loops are unrolled while a kernel is compiled, and programs beyond 30,000 instructions or 10,000 matmuls
    are too long to count on
  do part of the loop in a launch, and launch the same program for each part
  About the NKI Compiler; reports of users on half a million matmuls
tensor-tuple: tensors are arguments of their own: those inside a tuple get no name and are refused
  pass each tensor as an argument, or one tensor with static offsets
  TRACE
api-version: this came with a later NKI than the oldest one supported
  use what NKI 0.3 has: indexing, reshape and .ap for views, arithmetic on shapes for sizes
  API of NKI 0.3, 0.4, 0.5 and 0.6
named-tuple: a class used in a kernel derives from nl.NKIObject or Enum, and NamedTuple is refused
  derive it from nl.NKIObject
  Language Guide, Class Support; GATHER
"""
