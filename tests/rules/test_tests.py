"""How tests are written: nothing is skipped without a reason a user would accept."""

import ast

REASONED = {"skip", "skipif", "xfail", "importorskip"}


def _reason(call):
    """The reason given to a skip or xfail, or None."""
    name = ast.unparse(call.func)
    for keyword in call.keywords:
        if keyword.arg in ("reason", "msg"):
            return ast.unparse(keyword.value).strip("'\" ")
    if call.args and name in ("pytest.skip", "pytest.xfail"):
        return ast.unparse(call.args[0]).strip("'\" ")
    return None


def test_every_skip_has_a_reason(tree):
    offenders = []
    for module in tree.modules("tests/**/*.py"):
        if not any(word in module.text for word in REASONED):
            continue
        called = set()
        for node in module.nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in REASONED:
                called.add(id(node.func))
                if ast.unparse(node.func).startswith("pytest.") and not _reason(node):
                    offenders.append(f"{module.at(node)}: {ast.unparse(node)[:80]}")
        for node in module.nodes:
            named = isinstance(node, ast.Attribute) and node.attr in ("skip", "xfail")
            if named and id(node) not in called and ast.unparse(node).startswith("pytest.mark."):
                offenders.append(f"{module.at(node)}: {ast.unparse(node)} without a reason")
    tree.refuse(offenders)
