"""The fuzz of inputs and of plans, in its short form; ``python -m benchmarks.fuzz`` is the long one."""

from collections import Counter

import pytest
from pyspark.sql import SparkSession

from benchmarks.fuzz import clusters, fleet, inputs
from benchmarks.fuzz.folders import folder
from benchmarks.fuzz.mutate import WAYS
from benchmarks.fuzz.odd_clusters import full_cluster, odd_cluster
from sources.record import Record

pytestmark = pytest.mark.all_only


def test_a_whole_folder_is_read_as_it_was_written() -> None:
    """Every source in each of its forms gives what the cluster has, and nothing that contradicts another."""
    for number in range(inputs.CLUSTERS):
        whole = folder(number)
        records = [record for name, text in whole.files.items() for record in inputs.read(name, text.encode())]
        found = inputs.structure(records)
        assert {kind: found[kind].keys() for kind in whole.written} == whole.written
        assert not [record for record in records if record.kind == "malformed"]
        assert not inputs.contradictions(records)


def test_no_damage_to_a_file_is_silent() -> None:
    """What a mutated folder lost is refused by its line, or shows in another source; nothing raises or hangs."""
    found = list(inputs.cases(60 * len(WAYS), seed=1))
    bad = [(case.verdict, case.way, case.file, case.lost) for case in found if case.verdict in inputs.BAD]
    assert not bad, bad
    assert Counter(case.verdict for case in found)[inputs.SAID] > len(found) / 3


def test_losses_that_are_silent_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that passes over what it can't read, that raises or that takes long is told from one that says so."""
    read = inputs.read

    def quiet(name: str, content: bytes) -> list[Record]:
        return [record for record in read(name, content) if record.kind != "malformed"]

    def fails(name: str, content: bytes) -> list[Record]:
        raise ValueError(name)

    whole, name = folder(0), "in_flight-0"
    damaged = whole.files[name].replace("adding", "ading").encode()
    assert inputs.judge(name, damaged, [], whole)[0] == inputs.SAID
    monkeypatch.setattr(inputs, "read", quiet)
    assert inputs.judge(name, damaged, [], whole)[0] == inputs.SILENT
    monkeypatch.setattr(inputs, "MOST_SECONDS", -1.0)
    assert inputs.judge(name, damaged, [], whole)[0] == inputs.SLOW
    monkeypatch.setattr(inputs, "read", fails)
    assert inputs.judge(name, damaged, [], whole)[0] == inputs.RAISED


def test_plans_of_odd_clusters_hold() -> None:
    """Bounds lie below all placements, plans among them; waves, disks and rollbacks pass the separate checker."""
    found = list(clusters.cases(30, seed=7))
    assert not [case for case in found if case.verdict != clusters.FINE]
    assert sum(case.searched for case in found) > 25


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1001025, id="every replica is decided: the rest has no option"),
        pytest.param(1000376, id="no order of copies for three partitions"),
        pytest.param(1002536, id="a reorder in the wave of one partition with too many copies"),
        pytest.param(1004461, id="shorter lists that would name a dead broker"),
    ],
)
def test_clusters_that_once_failed_are_fine(seed: int) -> None:
    """Failures that the long form found stay fixed."""
    assert clusters.check(odd_cluster(seed), seed).verdict == clusters.FINE


def test_plans_of_full_racks_hold() -> None:
    """The audit refuses no plan of a cluster whose racks are too small or full, or have a broker each."""
    assert not [case for case in clusters.cases(40, 7, full_cluster) if case.verdict != clusters.FINE]


def test_sources_that_contradict_each_other_break_a_rule(spark: SparkSession) -> None:
    """A folder that lost something which another source still names breaks a rule that it did not break before."""
    found = list(fleet.contradictions(24, seed=1))
    silent = [(one.case.way, one.case.file, one.case.lost) for one in fleet.unreported(spark, found)]
    assert not silent, silent
