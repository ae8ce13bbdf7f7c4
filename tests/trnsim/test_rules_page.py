"""docs/concepts/simulator.md names every rule of the simulator, and no other."""

import ast
import re
from pathlib import Path

from trnsim import errors
from trnsim.tables import read_table

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_lists_every_rule_once():
    source = "".join(path.read_text() for path in (ROOT / "src/trnsim").rglob("*.py"))
    rules = {key.partition(":")[0] for key in read_table("refusals.toml")}
    rules |= set(re.findall(r'rule(?:: str )?= ?"([a-z0-9-]+)"', source))
    for path in (ROOT / "src/trnsim").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(vars(errors).get(ast.unparse(call.func)), type):
                rules |= {rule.value for rule in call.args[1:2] if isinstance(rule, ast.Constant)}
    page = (ROOT / "docs/concepts/simulator.md").read_text()
    table = page.split("## Refuse, warn or propagate")[1].split("\n## ")[0]
    listed = [
        name
        for row in table.splitlines()
        if row.startswith("|")
        for name in re.findall(r"`([a-z0-9-]+)`", row.rsplit("|", 2)[1])
    ]
    assert sorted(listed) == sorted(rules)
