"""Texts that hold no state of a cluster: those that are known are refused by their name, the others as unknown."""

import re
from dataclasses import dataclass

from sources.assignment_json import PROPOSED


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a file is not read.

    Parameters
    ----------
    reason, remedy : str
        What it is, and what to supply instead.
    severity : str
        ``warning`` where nothing of a cluster's state is lost with it, else ``error``.
    """

    reason: str
    remedy: str
    severity: str = "error"


_KNOWN: tuple[tuple[str, Refusal], ...] = (
    (
        r"^[\s>#]*Status of partition reassignment:|^[\s>#]*Reassignment of (?:partition|replica) \S+ ",
        Refusal(
            "the progress report of kafka-reassign-partitions.sh --verify: it names no replicas",
            "supply kafka-topics.sh --describe, and kafka-reassign-partitions.sh --list for moves in flight",
            "warning",
        ),
    ),
    (
        re.escape(PROPOSED),
        Refusal(
            "a proposed assignment: a plan, not the state of the cluster",
            "supply kafka-topics.sh --describe, or the 'Current partition replica assignment' part too",
            "warning",
        ),
    ),
    (
        r'"topics"\s*:\s*\[\s*\{\s*"topic"\s*:\s*"[^"]*"\s*\}',
        Refusal(
            "a topics-to-move list: it holds names, no placement",
            "supply kafka-topics.sh --describe",
            "warning",
        ),
    ),
    (
        r"\bCurrentVoters:|^NodeId\s+(?:DirectoryId\s+)?LogEndOffset",
        Refusal(
            "the output of kafka-metadata-quorum.sh: it names controllers and observers, neither hosts nor racks",
            "supply kafka-broker-api-versions.sh for the brokers and their racks",
            "warning",
        ),
    ),
    (
        r"^\s*GROUP\s+TOPIC\s+PARTITION\b",
        Refusal(
            "the output of kafka-consumer-groups.sh: it holds offsets, no placement",
            "leave the file out",
            "warning",
        ),
    ),
    (
        r"\A\s*(?:[A-Za-z0-9._-]+:[0-9]+:[0-9]*\s*\n?)+\Z",
        Refusal(
            "the output of kafka-get-offsets.sh: it holds offsets, no placement",
            "leave the file out; sizes come from kafka-log-dirs.sh --describe",
            "warning",
        ),
    ),
    (
        r'"leaders"\s*:\s*\[[^]"{}]{0,2000}\]|^\s*"errorMessage"\s*:',
        Refusal(
            "a cluster in another tool's JSON: it names neither topics nor the order of the replicas",
            "supply kafka-topics.sh --describe",
        ),
    ),
    (
        r'"partitions"\s*:\s*\[\s*\{[^}]{0,300}"topic"',
        Refusal(
            "JSON with partitions but no replicas (such as a leader election list)",
            "supply kafka-topics.sh --describe",
            "warning",
        ),
    ),
    (
        r"\bPOSITION 1\b|\bDISTINCT\b.*\bRACKS\b",
        Refusal(
            "a table of topicctl: it doesn't say which topic it shows",
            "supply kafka-topics.sh --describe",
        ),
    ),
    (
        r"^[\w.$]{1,200}Exception: ",
        Refusal(
            "an error message of a tool instead of its output",
            "run the tool again when what it names is mended",
        ),
    ),
)
_HEAD = 20_000
EMPTY = Refusal("the file is empty", "supply the tool's output again")
UNKNOWN = Refusal(
    "neither an output of Kafka's tools nor another format that is read here",
    "see docs/formats.md for what is read; leave other files out of the input folder",
)


def explain(text: str) -> Refusal:
    """Why a text that holds no input of ours is refused."""
    if not text.strip():
        return EMPTY
    head = text[:_HEAD]
    return next((refusal for pattern, refusal in _KNOWN if re.search(pattern, head, re.MULTILINE)), UNKNOWN)
