"""Real files of other people: which of them are plans."""

from pathlib import Path

import pytest

from asking.judge.read_plan import read_plans
from optimizer.errors import ConfigError

pytestmark = pytest.mark.shared

# The number of partitions in each plan.
PLANS = {
    "S01_reassign_flow_3_brokers/reassignment.json": 8,
    "S03_old_formats/README.md": 20,  # the document in it is the same as in the file below
    "S03_old_formats/increase-replication-factor.json": 20,
    "S03_old_formats/reassign-partitions.json": 3,
    "S08_kafka_kit_256p_23b/optimize_input.json": 256,
    "S08_kafka_kit_256p_23b/optimize_output.json": 256,
    "S37_hdinsight-old-in-flight/in/zk-reassign.txt": 1,
    "S39_judge-moves-inside/in/cc-intra.json": 2,
    "S39_judge-moves-inside/in/logdirs-plan.json": 1,
    "S39_judge-moves-inside/in/orders-phase0.json": 2,
    "S39_judge-moves-inside/in/orders-phase1.json": 2,
    "S39_judge-moves-inside/in/sift-new.txt": 2,
}
# Part of the message about files that look like plans.
REFUSED = {
    "S01_reassign_flow_3_brokers/README.md": "which --execute prints for a rollback",
    "S02_racks_drain_broker/generate_first_entries.txt": "invalid JSON: Expecting value at line 5, column 121",
    "S02_racks_drain_broker/generate_rollback_then_proposal_jq.txt": "has 12 JSON documents",
    "S02_racks_drain_broker/generate_two_racks_BAD_plan_jq.txt": "has 6 JSON documents",
    "S02_racks_drain_broker/generate_two_brokers_error.txt": "has no plan",
    "S03_old_formats/chelope_INVALID_increase-replication-factor.json": "at line 1, column 2",
    "S03_old_formats/crlf_heredoc.sh": "line 8, entry 1: '${topic_name}' is not a valid topic name",
    "S05_log_dirs_jbod/2022-09-16-reassign-partitions.md": "invalid JSON",
}


def test_real_plans_are_read(shared: Path) -> None:
    """No other file of the examples is a plan, and each is refused with an error for the user."""
    folder, sizes = shared / "cases", {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            [plan] = read_plans([path])
        except ConfigError:
            continue
        sizes[str(path.relative_to(folder))] = len(plan.partitions)
    assert sizes == PLANS


@pytest.mark.parametrize("name", REFUSED)
def test_what_looks_like_a_plan_is_refused_with_its_reason(shared: Path, name: str) -> None:
    """Cut off, edited, or the lists before a reassignment."""
    with pytest.raises(ConfigError) as caught:
        read_plans([shared / "cases" / name])
    assert REFUSED[name] in str(caught.value)
