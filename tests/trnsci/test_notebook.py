"""What objects look like in a notebook: short reprs without addresses, HTML that is whole and escaped."""

import re
from html.parser import HTMLParser

import torch

import trnblas
import trnchem
import trnfft
import trnsci
import trnsim
import trnsparse
import trntensor
from tests.together import together
from trnblas.kernels.gemm import gemm as kernel
from trnchem.budget import MP2Plan
from trnsci.fit_report import FitReport
from trnsci.plans import Plan

HOSTILE = "<script>alert('x')</script> & \"quoted\""


def made():
    """One of everything that is shown."""
    a = torch.randn(64, 48)
    with trnsci.ledger() as book:
        trnblas.gemm(1.0, a, a, trans_b=True)
    shapes = torch.empty(1, 256, 128, device="meta"), torch.empty(1, 256, 128, device="meta")
    plan = trnsci.plan(trnblas.gemm, 1.0, a, a, trans_b=True)
    stage = trnchem.budget.Stage(name="pairs", runs=HOSTILE, flops=8, nbytes=64, fits=True)
    sizes = trnchem.budget.Sizes(nao=7, nocc=5, nvir=2, naux=113, widest=1, itemsize=8)
    return {
        "plan": plan,
        "einsum plan": trntensor.plan("ij,jk->ik", (8, 8), (8, 8)),
        "fft plan": trnfft.plan((64,), torch.complex64),
        "step": plan.steps[0],
        "hostile plan": Plan(op=HOSTILE, steps=(), peak_bytes=0, remarks=(HOSTILE,)),
        "report": trnsim.profile(kernel, target="trn2", numerics=False)(*shapes)[1],
        "explanation": trnsci.explain(trnblas.gemm, 1.0, a, a, trans_b=True),
        "ledger": book,
        "empty ledger": trnsci.ledger().__enter__(),
        "entry": book.entries[0],
        "fit": FitReport(script=HOSTILE, main_target="trn2", wall=1.0),
        "csr": trnsparse.CSRMatrix.from_dense(torch.eye(200)),
        "bsr": trnsparse.BSRMatrix.from_dense(torch.eye(256)),
        "empty matrix": trnsparse.CSRMatrix.from_dense(torch.zeros(0, 4)),
        "rule": trnsparse.causal() & trnsparse.window(64) | trnsparse.sink(4),
        "not": ~trnsparse.causal(),
        "documents": trnsparse.documents(torch.arange(4).repeat_interleave(50)) & trnsparse.causal(),
        "bound": trnsparse.causal().bind(512),
        "mp2 plan": MP2Plan(
            method="pairs",
            precision="fp64",
            sizes=sizes,
            place="host memory",
            slab=64,
            rows=5,
            width=1,
            fused=False,
            memory=10**9,
            stages=(stage,),
            why=HOSTILE,
        ),
    }


MADE = made()
PLAIN = {"step", "entry"}


class Whole(HTMLParser):
    """Every tag that opens closes, in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.open.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@together("name", MADE)
def test_a_repr_is_short_and_has_no_address(name):
    text = repr(MADE[name])
    assert len(text) < 200
    assert not re.search(r" at 0x|\n", text)


@together("name", sorted(MADE.keys() - PLAIN))
def test_html_is_whole_escaped_and_without_scripts(name):
    html = MADE[name]._repr_html_()
    parser = Whole()
    parser.feed(html)
    assert parser.open == []
    assert parser.seen <= {
        *("div", "strong", "table", "thead", "tbody", "tr", "th", "td", "pre", "svg", "title", "rect", "text"),
        "iframe",
    }
    assert "<script" not in html
    # both themes: letters have the page's own colour, and nothing else is black or white
    outside = re.sub(r'srcdoc="[^"]*"', "", html)
    assert not re.search(r"color:(?!inherit)|fill=\"(?:black|white|#000|#fff)", outside)
    assert re.search(r'<text[^>]*fill="currentColor"', outside) or "<text" not in outside


def test_what_is_told_is_there():
    html = MADE["plan"]._repr_html_()
    assert "trnblas.gemm on pytorch" in html
    assert "trn2" in html
    report = MADE["report"]._repr_html_()
    assert report.count("<svg") == 1
    assert "predicted" in report
    assert "Tensor" in report
    assert "yes" in MADE["explanation"]._repr_html_()
    assert "float32[64x48]" in MADE["ledger"]._repr_html_()
    assert "&lt;script&gt;" in MADE["hostile plan"]._repr_html_()


def test_a_pattern_is_drawn_where_its_entries_are():
    matrix = trnsparse.CSRMatrix.from_dense(torch.tensor([[0.0, 2.0], [3.0, 0.0]]))
    filled = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="[\d.]+" height="[\d.]+" fill="#', matrix._repr_html_())
    assert filled == [("120.5", "0.5"), ("0.5", "120.5")]
    assert "32x32" not in MADE["documents"]._repr_html_()
    assert "BoundMask(200x200" in MADE["documents"]._repr_html_()


def test_a_large_pattern_and_a_long_timeline_stay_small():
    n = 20_000
    at = torch.randint(0, n, (2, 8 * n), generator=torch.Generator().manual_seed(1))
    scattered = trnsparse.COOMatrix(at[0], at[1], torch.ones(8 * n), (n, n))
    assert len(scattered._repr_html_()) < 500_000
    shapes = torch.empty(1, 1024, 512, device="meta"), torch.empty(1, 1024, 1024, device="meta")
    report = trnsim.profile(kernel, target="trn2", numerics=False)(*shapes)[1]
    assert len(report._repr_html_()) < 300_000
