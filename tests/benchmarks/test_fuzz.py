"""Random tests of inputs and plans, in the short form; ``python -m benchmarks.fuzz`` is the long form."""

from collections import Counter

import pytest
from pyspark.sql import SparkSession

from benchmarks.fuzz import clusters, fleet, inputs
from benchmarks.fuzz.folders import folder
from benchmarks.fuzz.mutate import MUTATIONS
from benchmarks.fuzz.unusual_clusters import full_cluster, jbod_cluster, tiered_cluster, unusual_cluster
from sources.record import Record

pytestmark = pytest.mark.all_only


def test_a_whole_folder_is_read_as_it_was_written() -> None:
    """Every source, in each of its forms, gives the data of the cluster, and no source contradicts another."""
    for number in range(inputs.CLUSTERS):
        whole = folder(number)
        records = [record for name, text in whole.files.items() for record in inputs.read(name, text.encode())]
        entries = inputs.structure(records)
        assert {kind: entries[kind].keys() for kind in whole.written} == whole.written
        assert not [record for record in records if record.kind == "malformed"]
        assert not inputs.contradictions(records)


def test_no_damage_to_a_file_is_silent() -> None:
    """Missing data is reported by a line, or contradicts another source. Nothing raises or hangs."""
    read_cases = list(inputs.cases(60 * len(MUTATIONS), seed=1))
    bad = [(case.verdict, case.mutation, case.file, case.lost) for case in read_cases if case.verdict in inputs.BAD]
    assert not bad, bad
    assert Counter(case.verdict for case in read_cases)[inputs.REPORTED] > len(read_cases) / 3


def test_silent_losses_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader fails if it skips unreadable lines silently, raises or takes long. Reporting them is no failure."""
    read = inputs.read

    def quiet(name: str, content: bytes) -> list[Record]:
        return [record for record in read(name, content) if record.kind != "malformed"]

    def fails(name: str, content: bytes) -> list[Record]:
        raise ValueError(name)

    whole, name = folder(0), "in_flight-0"
    damaged = whole.files[name].replace("adding", "ading").encode()
    assert inputs.judge(name, damaged, [], whole)[0] == inputs.REPORTED
    monkeypatch.setattr(inputs, "read", quiet)
    assert inputs.judge(name, damaged, [], whole)[0] == inputs.SILENT
    monkeypatch.setattr(inputs, "MAX_SECONDS", -1.0)
    assert inputs.judge(name, damaged, [], whole)[0] == inputs.SLOW
    monkeypatch.setattr(inputs, "read", fails)
    assert inputs.judge(name, damaged, [], whole)[0] == inputs.RAISED


def test_plans_of_unusual_clusters_are_correct() -> None:
    """No placement copies less than the bound. Waves, disks and rollbacks pass the separate checker."""
    checked = list(clusters.cases(30, seed=7))
    assert not [case for case in checked if case.verdict != clusters.FINE]
    assert sum(case.searched for case in checked) > 25


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1001025, id="every replica is decided: the rest has no option"),
        pytest.param(1000376, id="no order of copies for three partitions"),
        pytest.param(1002536, id="a reorder in the wave of a single partition with too many copies"),
        pytest.param(1004461, id="shorter lists that would name a dead broker"),
    ],
)
def test_clusters_that_once_failed_are_fine(seed: int) -> None:
    """Failures that the long form found stay fixed."""
    assert clusters.check(unusual_cluster(seed), seed).verdict == clusters.FINE


def test_plans_with_directories_keep_their_limits() -> None:
    """Each replica that arrives at a broker with several directories has one, with space for it in its wave."""
    assert not [case for case in clusters.cases(40, 5, jbod_cluster) if case.verdict != clusters.FINE]


def test_plans_with_tiered_topics_copy_the_least_bytes_of_copies() -> None:
    """Copies to brokers that skip what is tiered have fewer bytes: no placement copies less than the bound says."""
    checked = list(clusters.cases(40, 3, tiered_cluster))
    assert not [case for case in checked if case.verdict != clusters.FINE]
    assert sum(case.searched for case in checked) > 15


def test_plans_of_full_racks_pass_the_audit() -> None:
    """Also if racks are too small or full, or have one broker each, the audit refuses no plan."""
    assert not [case for case in clusters.cases(40, 7, full_cluster) if case.verdict != clusters.FINE]


def test_sources_that_contradict_each_other_break_a_rule(spark: SparkSession) -> None:
    """If another source still names the missing data, the folder breaks a rule that the original keeps."""
    folders = list(fleet.contradictions(24, seed=1))
    cases = [folder.case for folder in fleet.unreported(spark, folders)]
    unreported = [(case.mutation, case.file, case.lost) for case in cases]
    assert not unreported, unreported
