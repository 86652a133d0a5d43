"""Every parser yields records with exactly the fields of their kind."""

import json
from pathlib import Path

import pytest

from sources.detect import parse_any
from sources.record import KINDS

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sources"
FIELDS = {
    "cluster_id": "kafka_cluster_id",
    "broker": "broker_id host port rack fenced is_controller",
    "topic": "topic topic_id partition_count replication_factor configs marked_for_deletion",
    "partition": "topic partition leader replicas isr adding removing offline elr last_known_elr observers",
    "assignment": "topic partition replicas log_dirs observers bare begun",
    "reassignment": "topic partition replicas adding removing",
    "log_dir": "broker_id log_dir error total_bytes usable_bytes is_cordoned",
    "log_dir_replica": "broker_id log_dir topic partition size_bytes offset_lag is_future",
    "config": "entity_type entity_name name value sensitive is_static",
    "capacity": "broker_id log_dir disk_bytes in_bytes_per_s out_bytes_per_s as_written doubt",
    "metric": "metric topic partition broker_id observed_at value instance",
    "partition_load": "topic partition size_bytes in_bytes_per_s out_bytes_per_s",
    "offset": "topic partition time broker_id offset",
    "consumer_group": "group protocol state assignor coordinator_id members epoch is_complete",
    "consumer_offset": "group topic partition current_offset end_offset lag member_id host client_id",
    "consumer_member": "group member_id instance_id host client_id partitions assigned protocol",
}
MALFORMED, MORE = {"expected", "reason", "remedy", "text"}, {"rule", "severity"}
TEXTS = {
    **{path.name: path.read_bytes().decode() for path in sorted(FIXTURES.iterdir())},
    "assignment.json": json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}),
    "capacity.json": json.dumps(
        {"brokerCapacities": [{"brokerId": "-1", "capacity": {"DISK": "1000", "NW_IN": "10", "NW_OUT": "10"}}]}
    ),
    "capacity-by-dir.json": json.dumps(
        {"brokerCapacities": [{"brokerId": "1", "capacity": {"DISK": {"/d": "1000"}, "NW_IN": "10", "NW_OUT": "10"}}]}
    ),
    "offsets-latest.txt": "t:0:7\nt:1:\n",
    "brokers.csv": "broker_id,rack,disk_gb\n1,a,5\n",
    "metrics.prom": 'kafka_log_log_size{topic="t",partition="0"} 7\n',
    "kcat.txt": (
        "Metadata for all topics (from broker 1: b:9092/1):\n 1 brokers:\n  broker 1 at b:9092 (controller)\n"
        ' 1 topics:\n  topic "t" with 1 partitions:\n    partition 0, leader 1, replicas: 1,2, isrs: 1\n'
    ),
    "kcat.json": json.dumps(
        {
            "originating_broker": {"id": 1, "name": "b:9092/1"},
            "controllerid": 1,
            "brokers": [{"id": 1, "name": "b:9092"}],
            "topics": [
                {
                    "topic": "t",
                    "partitions": [{"partition": 0, "leader": 1, "replicas": [{"id": 1}], "isrs": [{"id": 1}]}],
                }
            ],
        }
    ),
    "instance.json": json.dumps(
        {
            "brokers": [{"id": 1, "rack": "a", "disk_capacity_mb": 9}],
            "partitions": [{"topic": "t", "partition": 0, "replicas": [1], "leader": 1, "size_mb": 1}],
        }
    ),
    "old-configs.txt": "Configs for topic 'x' are a=1,sasl.password=hunter2\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_records_have_the_fields_of_their_kind(name: str) -> None:
    """Every parser uses the same field names; a misnamed field would be read as missing."""
    records = parse_any(TEXTS[name], name=name)
    assert records
    for record in records:
        fields = set(record.payload)
        if record.kind == "malformed":
            assert MALFORMED <= fields <= MALFORMED | MORE
        else:
            assert fields == set(FIELDS[record.kind].split()), record.kind


def test_all_kinds_are_covered() -> None:
    """The texts give records of every kind."""
    kinds = {record.kind for name, text in TEXTS.items() for record in parse_any(text, name=name)}
    assert kinds == set(KINDS) == {*FIELDS, "malformed"}
