"""The records that every parser yields, each with its line in the source.

Kinds and their payloads (missing values are null; lists keep the order of the source):

=================  ==========================================================================================
kind               payload
=================  ==========================================================================================
cluster_id         kafka_cluster_id: Kafka's own id of the cluster that printed the text
broker             broker_id, host, port, rack, fenced (bool or null), is_controller (bool or null)
topic              topic, topic_id, partition_count, replication_factor (header: never trusted), configs (opaque
                   text), marked_for_deletion (bool)
partition          topic, partition, leader (null when none), replicas, isr, adding, removing (both null when the tool
                   does not print them), offline (or null), elr, last_known_elr (eligible leaders outside of the
                   ISR; null when not printed), observers (Confluent: replicas that never lead; null when not printed)
assignment         topic, partition, replicas, log_dirs (or null), observers (or null), bare (bool: no heading says
                   that it is current), begun (bool: printed when a reassignment was started)
reassignment       topic, partition, replicas, adding, removing: from ``--list`` or the Admin API; from ZooKeeper
                   replicas is the target, adding and removing are null
log_dir            broker_id, log_dir, error (or null: it is readable), total_bytes, usable_bytes, is_cordoned (the
                   last three null in the tool's output)
log_dir_replica    broker_id, log_dir, topic, partition, size_bytes, offset_lag, is_future (bool)
config             entity_type (topics, brokers, cluster), entity_name, name, value (null when sensitive), sensitive,
                   is_static (bool: the effective value is from a broker's own file); Kafka's defaults are left out
capacity           broker_id (-1: every broker without its own entry), log_dir (or null), disk_bytes,
                   in_bytes_per_s, out_bytes_per_s, as_written (the numbers as the file has them, with their units, or
                   null), doubt (why a number is probably in another unit, or null)
metric             metric, topic, partition, broker_id, observed_at (ISO 8601 UTC or null), value, instance (or null)
partition_load     topic, partition, size_bytes, in_bytes_per_s, out_bytes_per_s (each or null): from a table of loads
offset             topic, partition, time (earliest, earliest_local, earliest_pending_upload or latest: of the leader;
                   replica_latest: of broker_id, else null), offset (null: Kafka does not know it)
consumer_group     group, protocol (classic, consumer, or null), state, assignor, coordinator_id, members (a number),
                   epoch (of the group; null in the classic protocol): each null when the source does not print it;
                   is_complete (bool: false if the source names the group, and can't read its members)
consumer_offset    group, topic, partition, current_offset, end_offset, lag, member_id, host, client_id (the last six
                   null where there is none)
consumer_member    group, member_id, instance_id (null for a dynamic member), host, client_id, partitions (a number),
                   assigned (list of {topic, partitions: [..]}; null when not printed), protocol (as above)
malformed          expected (what the parser looked for), reason, remedy, text (at most 2,000 characters), rule and
                   severity if they differ from ``readable`` and ``error``, is_sample (true: a row of a metrics table)
=================  ==========================================================================================
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Rule of a file that can't be read or used.
UNREADABLE_FILE = "known_format"
# The same, if the settings allow that the file stays unread.
ALLOWED_FILE = "allowed_file"
# Rule of a line in which a tool reports an error.
TOOL_ERROR = "tool_error"
# Rule of replica lists that may be a plan instead of the current state.
NOT_STATE = "state_not_wish"
# Rule of a file that says that nothing is in flight and also lists reassignments.
TWO_ANSWERS = "two_answers"
KINDS = (
    "cluster_id",
    "broker",
    "topic",
    "partition",
    "assignment",
    "reassignment",
    "log_dir",
    "log_dir_replica",
    "config",
    "capacity",
    "metric",
    "partition_load",
    "offset",
    "consumer_group",
    "consumer_offset",
    "consumer_member",
    "malformed",
)
# Records of the state of a cluster, which a plan is made from: brokers, replica lists and directories.
STATE_KINDS = ("broker", "topic", "partition", "assignment", "reassignment", "log_dir", "log_dir_replica")


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a source.

    Parameters
    ----------
    kind : str
        One of ``KINDS``.
    line : int
        First line of the record, from 1; 0 where lines mean nothing.
    payload : mapping
        JSON values only; the keys of each kind are in the module's table.
    """

    kind: str
    line: int
    payload: Mapping[str, Any]


# A secret's name and its value up to a blank: an error message or a log may contain one.
_SECRET = re.compile(r"(?i)((?:password|passwd|pwd|secret|token|credential|api[_-]?key)[\w.-]*[\"']?\s*[=:]\s*)(\S+)")


def without_secrets(text: str) -> str:
    """The text with ``***`` in place of the values of passwords, secrets and tokens."""
    return _SECRET.sub(r"\1***", text)


def malformed(
    *, line: int, expected: str, reason: str, remedy: str, text: str, rule: str | None = None, severity: str = "error"
) -> Record:
    """A record for the quarantine: what can't be read, and why. Without ``rule`` the rule is ``readable``."""
    masked = {"reason": without_secrets(reason), "text": without_secrets(text[:2000])}
    fields = {"expected": expected, "remedy": remedy, **masked}
    rule_fields = {} if rule is None else {"rule": rule, "severity": severity}
    return Record("malformed", line, fields | rule_fields)
