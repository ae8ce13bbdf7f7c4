"""SBUF slots of an expression's values: a slot is free again after the last instruction that reads it."""

from __future__ import annotations

from typing import Any

from trnsci.graph.expressions import Code


def allocate_slots(code: Code, loaded: int, stored: list[int]) -> tuple[list[Any], tuple[Any, ...], tuple[int, ...]]:
    """Give values slots, reused after their last use; return slots' dtypes, instructions and the stored slots."""
    last: dict[int, int] = dict.fromkeys(range(loaded), -1)
    for at, (op, _, left, right, constant) in enumerate(code.instructions):
        for value in _read(op, left, right, constant):
            last[value] = at
    keep = set(stored)
    slot_of, dtypes = {value: value for value in range(loaded)}, [code.dtypes[v] for v in range(loaded)]
    free: list[int] = []
    instructions = []
    for at, (op, result, left, right, constant) in enumerate(code.instructions):
        read = _read(op, left, right, constant)
        dtype = code.dtypes[result]
        reusable = next((slot for slot in free if dtypes[slot] == dtype), None)
        if reusable is None:
            dtypes.append(dtype)
            slot = len(dtypes) - 1
        else:
            free.remove(reusable)
            slot = reusable
        instructions.append((op, slot, *_renamed(op, left, right, constant, slot_of)))
        slot_of[result] = slot
        for value in set(read):
            if last[value] == at and value not in keep and value >= loaded:
                free.append(slot_of[value])
    return dtypes, tuple(instructions), tuple(slot_of[value] for value in stored)


def _read(op: str, left: Any, right: Any, constant: Any) -> list[int]:
    if op == "select":
        return [constant, *(x[1] for x in (left, right) if x[0] == "slot")]
    if op == "fill":
        return []
    values = [] if constant == "left" else [int(left)]
    return [*values, int(right)] if constant in ("", "left") else values


def _renamed(op: str, left: Any, right: Any, constant: Any, slot_of: dict[int, int]) -> tuple[Any, Any, Any]:
    if op == "select":
        one, two = (("slot", slot_of[x[1]]) if x[0] == "slot" else x for x in (left, right))
        return one, two, slot_of[constant]
    if op == "fill":
        return left, right, constant
    first = left if constant == "left" else slot_of[int(left)]
    second = slot_of[int(right)] if constant in ("", "left") else right
    return first, second, constant
