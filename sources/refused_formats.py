"""Texts that hold no state of a cluster: those that are known are refused by their name, the others as unknown."""

import re
from dataclasses import dataclass

from sources import metrics_csv, tool_errors
from sources.assignment_json import PROPOSED
from sources.text import lines_of


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


_EXPORT_BYTES = "give kafka-log-dirs.sh --describe, or export kafka_log_Log_Size with the JMX exporter"
_OFFSETS = (
    r"^(?:kafka_(?:topic_partition_(?:current|oldest)_offset|consumergroup_\w+|exporter_\w+)|kminion_\w+)\b",
    Refusal(
        "a scrape of kafka_exporter or kminion: offsets count messages, not bytes, and give neither sizes nor rates",
        _EXPORT_BYTES,
    ),
)
_NO_BYTES = Refusal("a scrape for Prometheus without bytes of a partition, a topic or a broker", _EXPORT_BYTES)
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
        r"^[\s>#]*Feature: \S+\s+SupportedMinVersion: ",
        Refusal(
            "the output of kafka-features.sh describe: it names versions, no placement",
            "leave the file out; supply kafka-topics.sh --describe",
            "warning",
        ),
    ),
    (
        r"^[\s>#]*(?:Successfully completed leader election \(|Valid replica already elected for partitions\b"
        r"|Error completing leader election \(|\d+ replica\(s\) could not be elected"
        r"|(?:Created|Successfully started) preferred replica election\b)",
        Refusal(
            "the output of kafka-leader-election.sh: it names partitions, no replicas",
            "supply kafka-topics.sh --describe, taken after the election",
            "warning",
        ),
    ),
    (
        r"^[\s>#]*(?:(?:Dynamic|All|Default|Quota) configs|Configs|SCRAM credential configs) for (?:the |default )*"
        r"(?:user|client|ip|group)",
        Refusal(
            "the configs of users, clients or groups: they say nothing of placement",
            "leave the file out; supply kafka-configs.sh --describe of topics and brokers",
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
        # Two names at least, not all of them numbers.
        r"\A(?=[\d\s]*[A-Za-z._-])\s*(?:[A-Za-z0-9._-]{1,249}(?: - marked for deletion)?[ \t]*\n\s*)+"
        r"[A-Za-z0-9._-]{1,249}(?: - marked for deletion)?\s*\Z",
        Refusal(
            "a list of names, as kafka-topics.sh --list prints topics: it holds no placement",
            "supply kafka-topics.sh --describe",
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
        r"^(?:Querying brokers for|Received) log director(?:ies|y) information",
        Refusal("kafka-log-dirs.sh without its JSON: it was cut off or failed", "run the tool again"),
    ),
    (
        r'"(?:proposals|goalSummary|newReplicas|goalReadiness)"\s*:|"topicPartition"\s*:\s*\{',
        Refusal(
            "Cruise Control's proposals: a plan, not the state of the cluster", "supply kafka-topics.sh --describe"
        ),
    ),
    _OFFSETS,
    (r"^# (?:HELP|TYPE) \w+ |^[a-z_:]+\{[^}\n]*\} [-+0-9.eE]+(?: \d+)?$", _NO_BYTES),
    (
        r"-----BEGIN [A-Z ]+-----",
        Refusal("a key or a certificate", "take it out of the input folder: it is no input, and may be a secret"),
    ),
    (
        r"^\s*(?:bootstrap\.servers|security\.protocol|sasl\.[a-z.]+|ssl\.[a-z.]+)\s*[=:]",
        Refusal(
            "client properties",
            "take the file out of the input folder; name it as client_config where a live cluster is read",
        ),
    ),
    (
        r"^\s*(?:broker\.id|node\.id|process\.roles|log\.dirs|listeners|zookeeper\.connect)\s*=",
        Refusal("a broker's own settings (server.properties)", "leave the file out; supply the tools' outputs"),
    ),
    (
        r"^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[^ ]* (?:\[[^\]\n]*\] ?)?(?:TRACE|DEBUG|INFO)\b",
        Refusal("a server log", "leave logs out of the input folder"),
    ),
    (
        r"^[\w.$]{1,200}(?:Exception|Error): |^Error(?: while \w+ \w+ command.*?)?: |^Exception in thread ",
        Refusal(
            "an error message of a tool instead of its output",
            "run the tool again when what it names is mended",
        ),
    ),
    (
        r"^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[^ ]* (?:\[[^\]\n]*\] ?)?(?:WARN|ERROR|FATAL)\b",
        Refusal(
            "a log of warnings and errors, of a server or a tool",
            "leave logs out of the input folder; run a tool again when what it names is mended",
        ),
    ),
    (
        r"\A#!",
        Refusal("a script", "leave it out of the input folder; supply what it printed"),
    ),
    (
        r"\A\s*<(?:\?xml|!DOCTYPE|html)",
        Refusal("a page in XML or HTML", "supply the tool's output as text"),
    ),
    (
        r"^apiVersion: \S+",
        Refusal("a manifest of Kubernetes", "leave it out of the input folder; supply the tools' outputs"),
    ),
)
_HEAD = 20_000  # characters in which a format shows itself
EMPTY = Refusal("an empty file", "supply the tool's output again")
EMPTY_ERRORS = Refusal("an empty file of errors: the tool printed none", "leave the file out", "warning")
_TABLE = Refusal(
    "a table of metrics that is not in UTF-8, or whose name does not end in .csv or .tsv",
    "save it as UTF-8, with a name that ends in .csv",
)
UNKNOWN = Refusal(
    "neither an output of Kafka's tools nor another format that is read here",
    "see docs/formats.md for what is read; leave other files out of the input folder",
)

# A line of a log that says of no failure, and the lines that are set in below it.
_QUIET = re.compile(
    r"^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[^ \n]* (?:\[[^\]\n]*\] ?)?(?:TRACE|DEBUG|INFO|WARN)\b.*"
    r"(?:\n[ \t]+\S.*)*",
    re.MULTILINE,
)
# Names of topics are free: those in headings say nothing.
_FAILED = re.compile(r"(?!.*[Cc]onfigs? for ).*\b(?:ERROR|FATAL|\w+Exception)\b.*")


def explain(text: str, name: str = "") -> Refusal:
    """Why a text that holds no input of ours is refused."""
    if not text.strip():
        return EMPTY_ERRORS if name.endswith(".err") else EMPTY
    head = text[:_HEAD]
    header = next((line for line in head.split("\n") if line.strip() and not line.startswith("#")), "")
    if metrics_csv.recognises(header):
        return _TABLE
    harmless = _known(_without_quiet(text).strip()[:_HEAD])
    return harmless if harmless.severity == "warning" else _known(head)


def why_no_answer(text: str) -> Refusal | None:
    """Why a text is refused though a tool answers in it that there is nothing; None where it is read.

    Lines of a log up to WARN may stand around the answer.
    """
    rest = _without_quiet(text)
    failed = [record.line for record in tool_errors.parse(text)]
    failed += [number for number, line in enumerate(lines_of(rest), 1) if _FAILED.fullmatch(line)]
    if failed:
        reason = f"an answer of a tool with an error in line {min(failed)}: what the tool printed may not be all"
        return Refusal(reason, "run the tool again when what that line names is fixed")
    known = _known(rest[:_HEAD])
    return None if known is UNKNOWN else known


def _known(text: str) -> Refusal:
    """What a text is by its patterns."""
    return next((refusal for pattern, refusal in _KNOWN if re.search(pattern, text, re.MULTILINE)), UNKNOWN)


def _without_quiet(text: str) -> str:
    """The text with empty lines in place of the lines of a log that say of no failure."""
    return _QUIET.sub(lambda lines: "\n" * lines[0].count("\n"), text)


def without_bytes(text: str) -> Refusal:
    """Why a text's metrics of Kafka for Prometheus are of no use, where none of them counts bytes."""
    pattern, refusal = _OFFSETS
    return refusal if re.search(pattern, text, re.MULTILINE) else _NO_BYTES


def not_text(looks_like: str) -> Refusal:
    """Why bytes that are no text are refused."""
    return Refusal(looks_like, "save or export it as text in UTF-8, or leave the file out of the input folder")


def too_large() -> Refusal:
    """Why a text of more than a gigabyte is refused."""
    return Refusal("too large to be an output of Kafka's tools", "leave logs and other files out of the input folder")


def copy_of(first: str) -> Refusal:
    """Why a file with the bytes of another is passed over."""
    return Refusal(f"a copy, byte for byte, of {first}, which is read", "keep one of them", "warning")
