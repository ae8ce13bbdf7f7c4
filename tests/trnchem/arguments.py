"""Arguments of ``dfmp2`` and ``plan`` from names that a table of cases mixes."""

from trnchem import MP2Options


def arguments(**given):
    """Those that the functions take themselves, and the others as options."""
    own = {name: given.pop(name) for name in ("mf", "memory", "checkpoint", "ranks") if name in given}
    return {**own, "options": MP2Options(**given)}
