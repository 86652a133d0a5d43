"""A plan on a real cluster, executed by one command."""

import pytest

from tests.kafka.lab import MakeLab, written

pytestmark = pytest.mark.kafka

WAVES = [{0: ([1, 2], [1, 3])}, {1: ([2, 1], [4, 2])}, {2: ([1, 2], [2, 1])}]


def test_three_waves_are_executed_by_one_command(make_lab: MakeLab) -> None:
    """In order, under throttles; then the first replicas lead; a second command has nothing to do."""
    lab = make_lab("three", WAVES, megabytes=6)
    with written(lab):
        ended = lab.run()
    assert (ended.code, ended.err) == (0, "")
    assert lab.lists() == [(1, 3), (4, 2), (2, 1)]
    assert [lab.now().leaders[lab.topic, number] for number in range(3)] == [1, 4, 2]
    assert not lab.now().throttles
    one_wave = ["held", "throttled", "starting", "executed", "copied", "removing", "released"]
    assert lab.events() == ["running", *one_wave * 3, "electing", "elected", "ended"]
    again = lab.run()
    assert (again.code, again.out.count("nothing to do")) == (0, 3)
