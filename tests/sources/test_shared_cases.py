"""Real files of other people: the records of each file, or why it is refused."""

from collections import Counter
from pathlib import Path

import pytest

from sources.detect import parse_any
from sources.record import Record

FLIPKART = "S12_flipkart_add_broker"

# By file: its kinds and their counts, and part of the reason of a malformed record, if it has any.
CASES: dict[str, tuple[dict[str, int], str]] = {
    "S01_reassign_flow_3_brokers/README.md": ({"topic": 4, "partition": 32, "assignment": 8}, ""),
    "S01_reassign_flow_3_brokers/reassignment.json": ({"assignment": 8}, ""),
    "S02_racks_drain_broker/SRC": ({"malformed": 1}, "not the output of a Kafka tool"),
    "S02_racks_drain_broker/broker-api-versions.txt": ({"broker": 4}, ""),
    "S02_racks_drain_broker/configs_broker11_all_excerpt.txt": ({"malformed": 1}, "no heading above this line names"),
    "S02_racks_drain_broker/describe_after_move_throttle_left_and_broker_config.txt": (
        {"topic": 1, "partition": 6, "config": 2},
        "",
    ),
    "S02_racks_drain_broker/describe_before.txt": ({"topic": 1, "partition": 6}, ""),
    "S02_racks_drain_broker/describe_final.txt": ({"topic": 1, "partition": 6}, ""),
    "S02_racks_drain_broker/generate_first_entries.txt": ({"malformed": 1}, "line 2, column 169"),
    "S02_racks_drain_broker/generate_rollback_then_proposal_jq.txt": ({"malformed": 12}, "no 'topic'"),
    "S02_racks_drain_broker/generate_two_brokers_error.txt": ({"malformed": 1}, "error message"),
    "S02_racks_drain_broker/generate_two_racks_BAD_plan_jq.txt": ({"malformed": 6}, "no 'topic'"),
    "S02_racks_drain_broker/log_dirs_jq_summary.txt": ({"malformed": 1}, "not the output of a Kafka tool"),
    "S02_racks_drain_broker/metadata_quorum_status.txt": ({"cluster_id": 1}, ""),
    "S02_racks_drain_broker/verify_done_preserve.txt": ({"malformed": 1}, "--verify"),
    "S03_old_formats/README.md": ({"topic": 2, "partition": 40, "assignment": 20}, ""),
    "S03_old_formats/akhq_124_describe.txt": ({"topic": 1, "partition": 9}, ""),
    "S03_old_formats/chelope_INVALID_increase-replication-factor.json": ({"malformed": 1}, "line 1, column 2"),
    "S03_old_formats/crlf_heredoc.sh": ({"malformed": 3}, "'${topic_name}' is not a valid topic name"),
    "S03_old_formats/increase-replication-factor.json": ({"assignment": 20}, ""),
    "S03_old_formats/kafka_configs_old_throttle.txt": ({"config": 2}, ""),
    "S03_old_formats/reassign-partitions.json": ({"assignment": 3}, ""),
    "S04_describe_250/consumer_groups_describe_2.5.0.txt": ({"consumer_offset": 2}, ""),
    "S04_describe_250/describe_2.5.0_three_brokers_52p.txt": ({"topic": 2, "partition": 52}, ""),
    "S04_describe_250/get_offsets_2.5.0.txt": ({"malformed": 1}, "kafka-get-offsets.sh"),
    "S04_describe_250/kcat_L_J.txt": ({"broker": 2}, ""),
    "S04_describe_250/zk_broker_ids.txt": ({"malformed": 3}, "the id of this broker is unknown"),
    "S05_log_dirs_jbod/2022-09-16-reassign-partitions.md": (
        {"topic": 1, "partition": 6, "assignment": 12, "malformed": 4},
        "not inside its list 'brokers'",
    ),
    "S05_log_dirs_jbod/2025-02-13-moving-data-between-JBOD-disks-using-cruise-control.md": (
        {"log_dir": 18, "log_dir_replica": 18},
        "",
    ),
    "S06_prometheus/README.md": ({"malformed": 1}, "offsets count messages"),
    "S06_prometheus/jmx_exporter_0.16_old_style.txt": ({"metric": 3}, ""),
    "S07_capacity/capacity.json": ({"capacity": 2}, ""),
    "S07_capacity/capacityCores.json": ({"capacity": 2}, ""),
    "S07_capacity/capacityJBOD.json": ({"capacity": 12}, ""),
    "S07_capacity/cc_1953_capacity_jbod_default_only.json": ({"capacity": 5}, ""),
    "S08_kafka_kit_256p_23b/optimize_input.json": ({"assignment": 256}, ""),
    "S08_kafka_kit_256p_23b/optimize_output.json": ({"assignment": 256}, ""),
    "S10_malformed_log_dirs/finndore_log_dirs_no_partition_number.json": (
        {"log_dir": 3, "malformed": 2020},
        "no number after the last dash",
    ),
    "S11_single_rack_by_design/topicctl_109_single_rack_by_design.txt": ({"malformed": 1}, "topicctl"),
    "S11_single_rack_by_design/topicctl_75_balance_39_brokers_excerpt.txt": ({"malformed": 1}, "topicctl"),
}

# Files of complete inputs (folders ``in``) that are not read completely.
NOT_READ = {
    "S20_list-with-times/in/list.txt",  # a poll log: nothing in flight, then a reassignment
    "S35_prom-is-future/in/metrics.prom",  # sizes of future replicas
    "S36_groups-of-all-kinds/in/consumer-offsets.txt",  # one group's description failed
    "S36_groups-of-all-kinds/in/share-groups.txt",  # groups that are not read
    "S39_judge-moves-inside/in/cc-intra.json",  # plans for judge, not inputs
    "S39_judge-moves-inside/in/sift-new.txt",
}

pytestmark = pytest.mark.shared


def read(path: Path, name: str) -> list[Record]:
    """All records of a file."""
    return parse_any(path.read_bytes().decode(), name=name)


@pytest.mark.parametrize("name", CASES)
def test_a_real_file_is_read_or_refused(shared: Path, name: str) -> None:
    """Each file gives the expected records, or the expected reason."""
    counts, reason = CASES[name]
    records = read(shared / "cases" / name, name)
    assert Counter(record.kind for record in records) == counts
    reasons = [record.payload["reason"] for record in records if record.kind == "malformed"]
    assert any(reason in given for given in reasons) if reason else not reasons


def test_clusters_of_another_tool_are_refused(shared: Path) -> None:
    """The test JSON of another tool has no topics and no replica order: it is refused with that reason."""
    for path in sorted((shared / "cases" / FLIPKART).iterdir()):
        (record,) = read(path, path.name)
        assert (record.kind, record.payload["expected"]) == ("malformed", "a known format")
        assert "another tool's JSON" in record.payload["reason"], path.name


def test_every_real_file_is_in_the_table(shared: Path) -> None:
    """No file is forgotten. Files of complete inputs have a separate test."""
    folder = shared / "cases"
    input_folders = [path.parent for path in folder.glob("*/in")]
    names = {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not any(path.is_relative_to(input_folder) for input_folder in input_folders)
    }
    assert {name for name in names if not name.startswith(FLIPKART)} == set(CASES)


def test_complete_inputs_are_read(shared: Path) -> None:
    """Each file of a cluster is read completely, except the listed files."""
    folder = shared / "cases"
    files = [str(path.relative_to(folder)) for path in sorted(folder.glob("*/in/*"))]
    assert {
        name for name in files if any(record.kind == "malformed" for record in read(folder / name, name))
    } == NOT_READ


def test_facts_of_a_drained_broker(shared: Path) -> None:
    """The racks, the remaining throttle, and the placement after the move match the lab."""
    folder = shared / "cases/S02_racks_drain_broker"
    brokers = {
        record.payload["broker_id"]: record.payload["rack"] for record in read(folder / "broker-api-versions.txt", "x")
    }
    assert brokers == {13: "ap-south-1c", 11: "ap-south-1a", 12: "ap-south-1b", 14: "ap-south-1a"}
    after = read(folder / "describe_after_move_throttle_left_and_broker_config.txt", "x")
    configs = {record.payload["name"]: record.payload["value"] for record in after if record.kind == "config"}
    assert configs["leader.replication.throttled.rate"] == "10000"
    assert all(11 not in record.payload["replicas"] for record in after if record.kind == "partition")
