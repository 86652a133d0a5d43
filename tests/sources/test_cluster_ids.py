"""Kafka's id of the cluster, from every tool that prints it."""

from pathlib import Path

import pytest

from sources.detect import parse_any

QUORUM = Path(__file__).parents[1] / "fixtures" / "sources" / "quorum.txt"
ID = "Zm9yLXRlc3RzLW9ubHktMQ"
TEXTS = {
    "kafka-metadata-quorum.sh": (QUORUM.read_text(), 2),
    "kafka-cluster.sh": (f"Cluster ID: {ID}\n", 1),
    "kafka-storage.sh": (
        f"Found log directory:\n  /d\n\nFound metadata: {{cluster.id={ID}, node.id=1, version=1}}\n",
        4,
    ),
    "kafka-storage.sh before 3.7": (f"Found metadata: MetaProperties(clusterId={ID}, nodeId=1)\n", 1),
    "meta.properties": (f"#\n#Mon Nov 23 08:00:00 UTC 2026\nnode.id=1\nversion=1\ncluster.id={ID}\n", 5),
    "meta.properties of ZooKeeper's time": (f"version=0\nbroker.id=1\ncluster.id={ID}\n", 3),
    "ZooKeeper /cluster/id": (f'{{"version":"1","id":"{ID}"}}\n', 1),
}


@pytest.mark.parametrize(("text", "line"), TEXTS.values(), ids=TEXTS)
def test_the_id_of_the_cluster_is_read(text: str, line: int) -> None:
    """Each tool's spelling gives one record with its line, and its file is a known format."""
    (record,) = parse_any(text, name="x")
    assert (record.kind, record.line, dict(record.payload)) == ("cluster_id", line, {"kafka_cluster_id": ID})


def test_other_properties_files_are_refused() -> None:
    """A file with other keys next to cluster.id may contain secrets: it is not read."""
    (record,) = parse_any(f"cluster.id={ID}\nsasl.password=hunter2\n", name="client.properties")
    assert record.kind == "malformed"
    assert "hunter2" not in repr(record)
