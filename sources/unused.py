"""Texts that are known but hold no state of a cluster: they are refused with their name, not as something unknown."""

import re

from sources.assignment_json import PROPOSED

_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"^[\s>#]*Status of partition reassignment:|^[\s>#]*Reassignment of (?:partition|replica) \S+ ",
        "the progress report of kafka-reassign-partitions.sh --verify: it names no replicas",
        "supply kafka-topics.sh --describe, and kafka-reassign-partitions.sh --list for moves in flight",
    ),
    (
        re.escape(PROPOSED),
        "a proposed assignment: a plan, not the state of the cluster",
        "supply kafka-topics.sh --describe, or the 'Current partition replica assignment' part too",
    ),
    (
        r'"topics"\s*:\s*\[\s*\{\s*"topic"\s*:\s*"[^"]*"\s*\}',
        "a topics-to-move list: it holds names, no placement",
        "supply kafka-topics.sh --describe",
    ),
    (
        r"\bCurrentVoters:|^NodeId\s+(?:DirectoryId\s+)?LogEndOffset",
        "the output of kafka-metadata-quorum.sh: it names controllers and observers, neither hosts nor racks",
        "supply kafka-broker-api-versions.sh for the brokers and their racks",
    ),
    (
        r"^\s*GROUP\s+TOPIC\s+PARTITION\b",
        "the output of kafka-consumer-groups.sh: it holds offsets, no placement",
        "leave the file out",
    ),
    (
        r"\A\s*(?:[A-Za-z0-9._-]+:[0-9]+:[0-9]*\s*\n?)+\Z",
        "the output of kafka-get-offsets.sh: it holds offsets, no placement",
        "leave the file out; sizes come from kafka-log-dirs.sh --describe",
    ),
    (
        r'"leaders"\s*:\s*\[[^]"{}]{0,2000}\]|^\s*"errorMessage"\s*:',
        "a cluster in another tool's JSON: it names neither topics nor the order of the replicas",
        "supply kafka-topics.sh --describe",
    ),
    (
        r'"partitions"\s*:\s*\[\s*\{[^}]{0,300}"topic"',
        "JSON with partitions but no replicas (such as a leader election list)",
        "supply kafka-topics.sh --describe",
    ),
    (
        r"\bPOSITION 1\b|\bDISTINCT\b.*\bRACKS\b",
        "a table of topicctl: it doesn't say which topic it shows",
        "supply kafka-topics.sh --describe",
    ),
    (
        r"^[\w.$]{1,200}Exception: ",
        "an error message of a tool instead of its output",
        "run the tool again when what it names is mended",
    ),
)
_HEAD = 20_000


def explain(text: str) -> tuple[str, str]:
    """Reason and remedy for a text that holds no input of ours."""
    if not text.strip():
        return "the file is empty", "supply the tool's output again"
    head = text[:_HEAD]
    for pattern, reason, remedy in _KNOWN:
        if re.search(pattern, head, re.MULTILINE):
            return reason, remedy
    reason = "neither an output of Kafka's tools nor another format that is read here"
    return reason, "see docs/formats.md for what is read; leave other files out of the input folder"
