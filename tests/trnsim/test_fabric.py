"""Collectives of many chips: published times left out row by row, machines, groups that hardware refuses."""

import json

import pytest

from benchmarks.calibration import collectives
from trnsim.cli import main
from trnsim.errors import HardwareLimit, WrongArgument
from trnsim.fabric import MACHINES, Group, check_group, machine_named, predict, refusal

# The lines of the guide of nccom-test, and rows with its columns.
NCCOM = """
$ nccom-test -r 32 -b 1KB -e 64MB allr
     size(B)    count(elems)     type    time(us)    algbw(GB/s)    busbw(GB/s)
        1024            1024    uint8        18.2           0.06           0.11
    67108864        67108864    uint8      2108.0          31.83          61.68
Avg bus bandwidth:      30.9GB/s
"""


def test_published_rows_are_predicted_by_constants_fitted_without_them():
    every = [row for row in collectives.rows() if row.counts]
    median, p90 = collectives.summary(collectives.left_out(every))
    assert len(every) == 32
    assert median <= 0.10
    assert p90 <= 0.30


def test_the_constants_are_those_of_the_fit():
    constants, _ = collectives.fit([row for row in collectives.rows() if row.counts])
    for name, value in constants.items():
        assert value == pytest.approx(getattr(collectives.TARGETS["trn2"].timing, name), rel=5e-3), name


@pytest.mark.parametrize("name", list(MACHINES))
def test_time_grows_with_bytes_and_every_kind_is_known(name):
    machine = MACHINES[name]
    for kind in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "permute"):
        for group in (Group(2), Group(machine.ranks), Group(4 * machine.ranks), Group(4, machine.cores)):
            times = [predict(machine, kind, group, nbytes).seconds for nbytes in (8, 1 << 10, 1 << 26, 1 << 30)]
            assert 0 < times[0] <= times[1] <= times[2] <= times[3], (kind, group)


def test_the_machine_of_many_ranks_is_the_smallest_that_holds_them():
    assert [machine_named(target="trn2", ranks=n).name for n in (64, 128, 129, 512, 4096)] == [
        "trn2",
        "trn2",
        *["trn2-ultraserver"] * 3,
    ]
    assert machine_named("trn1n").efa == 12.5
    with pytest.raises(WrongArgument, match="trn9"):
        machine_named("trn9")


def test_what_limits_is_said():
    trn2 = MACHINES["trn2"]
    assert predict(trn2, "all_reduce", Group(8), 1 << 30).limit == "chip"
    assert predict(trn2, "all_reduce", Group(128), 1 << 30).limit == "links"
    assert predict(trn2, "all_reduce", Group(128), 8).limit == "latency"
    assert predict(trn2, "all_reduce", Group(256, 128), 1 << 30).limit == "EFA"


def test_links_are_shared_by_the_cores_of_a_chip():
    trn2 = MACHINES["trn2"]
    one, all_of_them = (predict(trn2, "all_gather", Group(16, 8, alone), 1 << 30).seconds for alone in (True, False))
    assert 7.9 < all_of_them / one <= 8


@pytest.mark.parametrize(
    ("kind", "ranks", "nbytes", "says"),
    [
        ("all_to_all", (0, 8, 16, 24), 0, "not contiguous"),
        ("all_to_all", tuple(range(12)), 0, "12 ranks"),
        ("all_gather", (0, 1, 32), 0, "same local ranks"),
        ("all_reduce", (0, 1), 3 << 30, "bytes"),
    ],
)
def test_groups_and_buffers_that_hardware_refuses(kind, ranks, nbytes, says):
    with pytest.raises(HardwareLimit, match=says):
        check_group(MACHINES["trn1"], kind, ranks, nbytes)


def test_groups_that_hardware_takes():
    trn1 = MACHINES["trn1"]
    for kind, ranks in (("all_to_all", range(32)), ("all_to_all", range(4)), ("all_gather", (0, 1, 32, 33))):
        assert refusal(trn1, kind, tuple(ranks)) == ""


def test_calibrate_takes_the_output_of_nccom_test(tmp_path, capsys):
    source, target = tmp_path / "runs.txt", tmp_path / "target.json"
    source.write_text(NCCOM)
    assert main(["calibrate", "--nccom", "trn1", str(source), "--output", str(target)]) == 0
    constants = json.loads(target.read_text())["constants"]
    assert constants["ring_share"]["value"] < constants["ring_share"]["was"]
    assert "of 2 rows" in capsys.readouterr().out
    source.write_text(NCCOM.replace("nccom-test", "another"))
    assert main(["calibrate", "--nccom", "trn1", str(source), "--output", str(target)]) == 1
    assert "Keep the command line" in capsys.readouterr().err
