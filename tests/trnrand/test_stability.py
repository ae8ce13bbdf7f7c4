"""What was drawn once is drawn again: values kept from the first release on."""

from pathlib import Path

import torch

from tests.together import together
from tests.trnrand.distributions import ALL
from trnrand import Generator
from trnsci.testing import known_answers

KNOWN = Path(__file__).parent / "known"


def numbers(text):
    return [float.fromhex(word) for word in text.split()]


def test_uniforms_never_change(loops):
    for row in known_answers(KNOWN / "uniform.csv"):
        g = Generator(int(row["seed"]), engine=row["engine"]).advance(int(row["position"]))
        assert g.uniform(4, dtype=getattr(torch, row["dtype"])).tolist() == numbers(row["values"]), row


@together("row", known_answers(KNOWN / "distributions.csv"))
def test_other_distributions_change_only_on_purpose(row, loops):
    dtype = torch.int64 if row["name"] == "randint" else torch.float64
    made = getattr(Generator(1, engine=row["engine"]).advance(3), row["name"])(4, dtype=dtype, **ALL[row["name"]][0])
    assert [float(v) for v in made.tolist()] == numbers(row["values"])
