"""Kafka's own id of a cluster, from any tool or file that prints it: it shows when outputs of two clusters are mixed.

=====================================================  ========================================
``kafka-metadata-quorum.sh describe --status``         ``ClusterId:   0dU-UGW3SReMOGQzhLCiag``
``kafka-cluster.sh cluster-id``                        ``Cluster ID: 0dU-UGW3SReMOGQzhLCiag``
``kafka-storage.sh info``                              ``Found metadata: {cluster.id=..., node.id=1, version=1}``
``meta.properties``                                    ``cluster.id=...`` with ``node.id`` or ``broker.id``
ZooKeeper ``/cluster/id``                              ``{"version":"1","id":"..."}``
=====================================================  ========================================

References
----------
``org.apache.kafka.tools.ClusterTool``, ``MetadataQuorumCommand`` (4.3); ``kafka.tools.StorageTool.infoCommand``;
``org.apache.kafka.metadata.properties.MetaProperties``; ``kafka.zk.ClusterIdZNode``.
"""

import re
from collections.abc import Iterator

from sources.record import Record
from sources.text import lines_of

_ID = r"(?P<id>[A-Za-z0-9_-]{1,64})"
_LABELS = ("luster", '"id"')
_LINES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"[\s>#]*Cluster ?I[dD]:\s*{_ID}\s*",
        rf"[\s>#]*Found metadata: .*?\bcluster(?:\.id|Id)=\"?{_ID}\b.*",
        rf"[\s>#]*\{{\"version\":\s*\"?1\"?,\s*\"id\":\s*\"{_ID}\"\}}\s*",
    )
)
_PROPERTY = re.compile(rf"cluster\.id\s*=\s*{_ID}\s*")
# meta.properties has only these keys. Other properties files may contain secrets and are not read.
_META = re.compile(r"\s*(?:#.*|(?:version|cluster\.id|node\.id|broker\.id|directory\.id)\s*=\s*\S*\s*)?")


def recognises(text: str) -> bool:
    """Whether the text may contain the id of a cluster."""
    return any(label in text for label in _LABELS)


def parse(text: str) -> Iterator[Record]:
    """Yield one record per line that contains an id."""
    lines = lines_of(text)
    patterns = (*_LINES, _PROPERTY) if all(_META.fullmatch(line) for line in lines) else _LINES
    for number, line in enumerate(lines, 1):
        if any(label in line for label in _LABELS):
            matches = (pattern.fullmatch(line) for pattern in patterns)
            yield from (Record("cluster_id", number, {"kafka_cluster_id": match["id"]}) for match in matches if match)
