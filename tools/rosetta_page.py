"""Write ``docs/rosetta.md`` from the data of `trnsci.rosetta`: ``python -m tools.rosetta_page``."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path

from trnsci import rosetta
from trnsci.rosetta import FUNCTIONS, LIBRARIES, PREAMBLE, STATUSES, Family

PAGE = Path(__file__).resolve().parents[1] / "docs" / "rosetta.md"
PATTERNS_SHOWN = 4
WIDE = 90
LINE = 48

HEAD = """\
# From CUDA

Every public symbol of cuBLAS (with cublasLt and cublasXt), cuFFT, cuRAND (host and device), cuSOLVER, cuSPARSE and
cuTENSOR, and what takes its place here, each with a line that runs. Type a symbol, or a part of one. Braces stand for
alternatives, as in a shell: `cublas{S,D}gemm{,_v2}` is four symbols. † marks what CUDA itself has removed.

"""
TERMINAL = """
The same in a terminal, and in Python:

```console
$ trnsci rosetta cublasSgemm
$ trnsci rosetta potrf
$ trnsci rosetta --coverage --library cufft
```

```pycon
>>> from trnsci import rosetta
>>> rosetta.lookup("cusolverDnDpotrf").example
'trnsolver.cholesky(spd)'
```

## Habits to change

- **No handles, descriptors, workspaces or status codes.** Functions take tensors, return results and raise exceptions.
  `out=` names memory for a result.
- **Row-major.** A matrix is `[rows, columns]`, with no leading dimension; strides are the tensor's. What cuBLAS calls
  the transpose of your row-major matrix is your matrix.
- **A batch is a leading axis**, of every function, and leading axes broadcast. Letters S, D, C and Z are dtypes.
- **Algorithms have no numbers.** `trnsci.plan` says what will run, where, why and at what predicted cost.
- **Precision is an argument**, `precision=` or `target_error=`, never a mode.

## Coverage

*Analog*: a function of ours does it. *Plain PyTorch*: a tensor can do it. *Nothing to call*: the question does not
arise, and the row says why. *Not covered*: the row says why. A symbol counts as covered unless it is the last.
The lists are those of CUDA 13.3 and cuTENSOR 2.7, with what earlier versions had.

"""
EXAMPLES = """
## What the examples use

Each example is one line that runs after these; tests run them all and compare them with what stands behind `#`.

"""
STYLE = """\
<style>
.rs-bar { display: flex; flex-wrap: wrap; gap: .5rem; margin: .5rem 0; }
.rs-bar input, .rs-bar select { font: inherit; padding: .5rem .7rem; border: 1px solid #8886; border-radius: .3rem; }
.rs-bar input, .rs-bar select { background: transparent; color: inherit; min-width: 0; }
.rs-bar input { flex: 1 1 16rem; }
.rs-bar option { color: black; }
#rs-count a { cursor: pointer; text-decoration: underline; margin-right: .6em; }
#rs-table { border-collapse: collapse; width: 100%; table-layout: fixed; font-size: .72rem; }
#rs-table th, #rs-table td { text-align: left; vertical-align: top; padding: .4rem; border-bottom: 1px solid #8884; }
#rs-table th:first-child { width: 34%; }
#rs-table code { overflow-wrap: anywhere; white-space: pre-wrap; font-size: .95em; }
#rs-table .rs-why { display: block; opacity: .8; overflow-wrap: anywhere; }
#rs-table tr.rs-exact { background: #ffd54a33; }
#rs-table[hidden], #rs-table tr[hidden] { display: none; }
@media (max-width: 44rem) {
  #rs-table thead { display: none; }
  #rs-table, #rs-table tbody, #rs-table tr, #rs-table td { display: block; width: auto; }
  #rs-table td { border: 0; padding: .15rem .3rem; }
  #rs-table tr { border-bottom: 1px solid #8886; padding: .4rem 0; }
}
</style>
"""
SCRIPT = """\
<script>
(() => {
  const expand = pattern => pattern.split(/\\{([^}]*)\\}/).reduce(
    (made, part, at) => made.flatMap(head => (at % 2 ? part.split(",") : [part]).map(choice => head + choice)), [""]);
  const table = document.getElementById("rs-table");
  const body = table.tBodies[0];
  const rows = [...body.rows].map(row => ({
    row,
    symbols: row.dataset.n.split(" ").flatMap(expand),
    text: row.cells[1].textContent.toLowerCase(),
  }));
  for (const entry of rows) entry.lower = entry.symbols.map(symbol => symbol.toLowerCase());
  const [query, library, status, count] =
    ["rs-query", "rs-library", "rs-status", "rs-count"].map(id => document.getElementById(id));
  const few = 40;
  const total = rows.reduce((sum, entry) => sum + entry.symbols.length, 0);
  const pairs = word => new Set(Array.from({length: Math.max(word.length - 1, 0)}, (_, at) => word.slice(at, at + 2)));
  const link = (text, action) => {
    const made = document.createElement("a");
    made.textContent = text;
    made.onclick = action;
    return made;
  };
  const near = wanted => {
    const mine = pairs(wanted), scored = [];
    for (const entry of rows) entry.lower.forEach((name, at) => {
      const theirs = pairs(name);
      let shared = 0;
      for (const pair of mine) shared += theirs.has(pair);
      scored.push([2 * shared / (mine.size + theirs.size), entry.symbols[at]]);
    });
    scored.sort((one, other) => other[0] - one[0]);
    return scored.slice(0, 5).filter(([score]) => score > 0.5).map(([, name]) => name);
  };
  const rank = (entry, wanted) => {
    if (!wanted) return 2;
    if (entry.lower.includes(wanted)) return 0;
    if (entry.lower.some(name => name.startsWith(wanted))) return 1;
    if (entry.lower.some(name => name.includes(wanted))) return 2;
    return entry.text.includes(wanted) ? 3 : 9;
  };
  const mark = (entry, wanted) => {
    const hits = wanted ? entry.symbols.filter((_, at) => entry.lower[at].includes(wanted)) : [];
    hits.sort((one, other) => one.length - other.length);
    entry.hits ??= entry.row.cells[0].appendChild(document.createElement("span"));
    entry.hits.className = "rs-why";
    const more = hits.length > 3 ? ` and ${hits.length - 3} more` : "";
    entry.hits.textContent = entry.symbols.length > 1 && hits.length ? hits.slice(0, 3).join(", ") + more : "";
  };
  const show = limit => {
    const wanted = query.value.trim().toLowerCase();
    const idle = !wanted && !library.value && !status.value;
    const fits = ({dataset}) =>
      !idle && (!library.value || dataset.l === library.value) && (!status.value || dataset.s === status.value);
    const found = rows.map(entry => [fits(entry.row) ? rank(entry, wanted) : 9, entry]).filter(([how]) => how < 9);
    found.sort((one, other) => one[0] - other[0]);
    for (const entry of rows) entry.row.hidden = true;
    for (const [how, entry] of found.slice(0, limit)) {
      entry.row.hidden = false;
      entry.row.classList.toggle("rs-exact", how === 0);
      mark(entry, wanted);
      body.append(entry.row);
    }
    table.hidden = !found.length;
    count.textContent = "";
    if (idle) {
      count.append(`${total} symbols. Type one, or choose a library.`);
    } else if (found.length) {
      const symbols = found.reduce((sum, [, entry]) => sum + entry.symbols.length, 0);
      count.append(`${found.length} ${found.length === 1 ? "row" : "rows"}, ${symbols} symbols. `);
      if (found.length > limit) count.append(link(`Show all ${found.length}`, () => show(Infinity)));
    } else {
      const names = near(wanted);
      count.append(`No symbol is like ${query.value}${names.length ? "; nearest: " : "."}`);
      const choose = name => { query.value = name; library.value = status.value = ""; show(few); };
      for (const name of names) count.append(link(name, () => choose(name)), " ");
    }
  };
  for (const control of [query, library, status]) control.addEventListener("input", () => show(few));
  query.value = new URLSearchParams(location.search).get("q") ?? "";
  query.disabled = library.disabled = status.disabled = false;
  show(few);
})();
</script>
"""


def page() -> str:
    """Return the whole page."""
    bar = (
        '<div class="rs-bar">\n<input id="rs-query" type="search" placeholder="cublasSgemm, potrf, csrmv …" '
        'aria-label="symbol" autocomplete="off" spellcheck="false" disabled>\n'
        f"{_select('rs-library', 'all libraries', LIBRARIES)}\n{_select('rs-status', 'any status', STATUSES)}\n</div>\n"
        '<p id="rs-count"></p>\n'
    )
    rows = "\n".join(map(_row, rosetta.families()))
    head = "<thead><tr><th>CUDA</th><th>here</th></tr></thead>"
    table = f'<table id="rs-table">\n{head}\n<tbody>\n{rows}\n</tbody>\n</table>\n'
    return HEAD + STYLE + bar + table + SCRIPT + TERMINAL + coverage() + EXAMPLES + f"```python\n{PREAMBLE}```\n"


def coverage() -> str:
    """Return the table of coverage."""
    lines = [
        f"| library | functions | {' | '.join(STATUSES.values())} | covered | with types and constants | covered |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for library in (*LIBRARIES, None):
        functions, everything = rosetta.coverage(library, *FUNCTIONS), rosetta.coverage(library)
        name = "all" if library is None else LIBRARIES[library]
        counts = (functions.total, functions.analog, functions.torch, functions.unneeded, functions.missing)
        cells = " | ".join(map(str, counts))
        lines.append(f"| {name} | {cells} | {functions.covered:.1%} | {everything.total} | {everything.covered:.1%} |")
    return "\n".join(lines) + "\n"


def _select(name: str, anything: str, choices: Mapping[str, str]) -> str:
    options = "".join(f'<option value="{key}">{text}</option>' for key, text in choices.items())
    return (
        f'<select id="{name}" aria-label="{anything}" disabled><option value="">{anything}</option>{options}</select>'
    )


def _row(family: Family) -> str:
    patterns = " ".join(family.patterns)
    shown = " ".join(family.patterns[:PATTERNS_SHOWN])
    if len(shown) > WIDE:
        shown = family.symbols[0]
    left = len(family.symbols) - sum(len(rosetta.expand(pattern)) for pattern in shown.split())
    more = f" and {left} more" if left else ""
    names = " ".join(f"<code>{html.escape(pattern)}</code>" for pattern in shown.split())
    mark = " †" if family.removed else ""
    return (
        f'<tr data-l="{family.library}" data-s="{family.status}" data-n="{html.escape(patterns)}">'
        f"<td>{names}{more}{mark}</td><td>{_here(family)}</td></tr>"
    )


def _here(family: Family) -> str:
    parts = []
    if family.status in ("unneeded", "missing"):
        parts.append(f"<em>{STATUSES[family.status]}</em>")
    if family.example:
        parts.append(f"<code>{html.escape(family.example + _comment(family))}</code>")
    if family.note:
        parts.append(f'<span class="rs-why">{html.escape(family.note)}</span>')
    return " ".join(parts)


def _comment(family: Family) -> str:
    """What the example equals, beside it or, where that is long, below it."""
    if not family.result:
        return ""
    text = f"# {family.result}" if " = " in family.result else f"# = {family.result}"
    return ("  " if len(family.example) + len(text) < LINE else "\n") + text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
