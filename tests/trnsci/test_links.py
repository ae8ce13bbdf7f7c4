import pytest

from trnsci import config
from trnsci.links import LINKS, Link, describe_link, link


def test_a_link_adds_its_start_and_what_it_moves():
    told = Link(name="", dispatch=1.0, graph=5.0, scale=2.0, power=1.0, source="")
    assert (told.transfer(3), told.seconds(3)) == (6.0, 7.0)


# figures of docs/how-to/run-on-trainium.md: XLA as fitted to trn1, the native device as its users report it
@pytest.mark.parametrize(
    ("target", "name", "dispatch", "graph"),
    [
        ("trn1", "XLA", 670e-6, 670e-6),
        ("trn2", "native device", 60e-6, 100e-6),
        ("trn3", "native device", 60e-6, 100e-6),
    ],
)
def test_each_generation_is_reached_as_neuron_reaches_it(target, name, dispatch, graph):
    told = link(target)
    assert (told.name, told.dispatch, told.graph, told.seconds(0)) == (name, dispatch, graph, dispatch)
    assert f"{target} ({name}) is counted with {dispatch * 1e6:.0f} us" in describe_link(target)
    assert told.source in describe_link(target)


def test_transfers_of_later_generations_are_called_assumed():
    assert "assumed" in LINKS["native"].source
    assert all(link(target).transfer(34e6) == LINKS["xla"].transfer(34e6) for target in config.TARGETS)
