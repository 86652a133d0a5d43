"""Texts without any cluster state, and why each is refused: known formats by name, the rest as unknown."""

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
        What the file is, as the end of "file is ...", and what to supply instead.
    severity : str
        ``warning`` if the file can't contain cluster state, else ``error``.
    """

    reason: str
    remedy: str
    severity: str = "error"


_EXPORT_BYTES = "supply kafka-log-dirs.sh --describe, or export kafka_log_Log_Size with the JMX exporter"
_OFFSETS = (
    r"^(?:kafka_(?:topic_partition_(?:current|oldest)_offset|consumergroup_\w+|exporter_\w+)|kminion_\w+)\b",
    Refusal(
        "a scrape of kafka_exporter or kminion: offsets count messages, not bytes, so they give no sizes and no rates",
        _EXPORT_BYTES,
    ),
)
_NO_BYTES = Refusal("a Prometheus scrape without metrics in bytes of a partition, a topic or a broker", _EXPORT_BYTES)
_KNOWN: tuple[tuple[str, Refusal], ...] = (
    (
        r"^[\s>#]*(?:Status of partition reassignment:|Reassignment of (?:partition|replica) \S+ )",
        Refusal(
            "the output of kafka-reassign-partitions.sh --verify, which does not list replicas",
            "supply kafka-topics.sh --describe, and kafka-reassign-partitions.sh --list for reassignments in flight",
            "warning",
        ),
    ),
    (
        r"^[\s>#]*(?:Successfully cancelled (?:partition reassignment|.* move)s? for:"
        r"|None of the specified partition (?:reassignments|moves) are active\.)",
        Refusal(
            "the output of kafka-reassign-partitions.sh --cancel, which does not list replicas",
            "run kafka-topics.sh --describe after the cancellation and supply its output",
            "warning",
        ),
    ),
    (
        r"^[\s>#]*(?:Error: )?(?:Share|Streams) group '.*' (?:has no |is not |does not |group state )",
        Refusal(
            "the output of kafka-share-groups.sh or kafka-streams-groups.sh, whose groups are not read",
            "remove the file",
            "warning",
        ),
    ),
    (
        re.escape(PROPOSED),
        Refusal(
            "a proposed assignment: a plan, not the state of the cluster",
            "supply kafka-topics.sh --describe, or add the part 'Current partition replica assignment'",
            "warning",
        ),
    ),
    (
        r'"topics"\s*:\s*\[\s*\{\s*"topic"\s*:\s*"[^"]*"\s*\}',
        Refusal(
            "a topics-to-move list: it has topic names, but no replicas",
            "supply kafka-topics.sh --describe",
            "warning",
        ),
    ),
    (
        r"\bCurrentVoters:|^NodeId\s+(?:DirectoryId\s+)?LogEndOffset",
        Refusal(
            "the output of kafka-metadata-quorum.sh: it has no hosts and no racks",
            "supply kafka-broker-api-versions.sh for the brokers and their racks",
            "warning",
        ),
    ),
    (
        r"^[\s>#]*Feature: \S+\s+SupportedMinVersion: ",
        Refusal(
            "the output of kafka-features.sh describe: it has versions, but no replicas",
            "remove the file; supply kafka-topics.sh --describe",
            "warning",
        ),
    ),
    (
        r"^[\s>#]*(?:Successfully completed leader election \(|Valid replica already elected for partitions\b"
        r"|Error completing leader election \(|\d+ replica\(s\) could not be elected"
        r"|(?:Created|Successfully started) preferred replica election\b)",
        Refusal(
            "the output of kafka-leader-election.sh: it has partitions, but no replicas",
            "run kafka-topics.sh --describe after the election and supply its output",
            "warning",
        ),
    ),
    (
        r"^[\s>#]*(?:(?:Dynamic|All|Default|Quota) configs|Configs|SCRAM credential configs) for (?:the |default )*"
        r"(?:user|client|ip|group)",
        Refusal(
            "configs of users, clients or groups, which a plan does not need",
            "remove the file; supply kafka-configs.sh --describe for topics and brokers",
            "warning",
        ),
    ),
    (
        # Two names at least, not all of them numbers.
        r"\A(?=[\d\s]*[A-Za-z._-])\s*(?:[A-Za-z0-9._-]{1,249}(?: - marked for deletion)?[ \t]*\n\s*)+"
        r"[A-Za-z0-9._-]{1,249}(?: - marked for deletion)?\s*\Z",
        Refusal(
            "a list of names, such as topics from kafka-topics.sh --list: it has no replicas",
            "supply kafka-topics.sh --describe",
            "warning",
        ),
    ),
    (
        r"\A\s*(?:[A-Za-z0-9._-]+:[0-9]+:[0-9]*\s*\n?)+\Z",
        Refusal(
            "the output of kafka-get-offsets.sh, and its name does not say which offsets these are",
            "name it offsets-earliest.txt, offsets-earliest-local.txt, offsets-earliest-pending-upload.txt or "
            "offsets-latest.txt; for sizes, supply kafka-log-dirs.sh --describe",
            "warning",
        ),
    ),
    (
        r'"leaders"\s*:\s*\[[^]"{}]{0,2000}\]|^\s*"errorMessage"\s*:',
        Refusal(
            "another tool's JSON of a cluster: it has no topics and no order of replicas",
            "supply kafka-topics.sh --describe",
        ),
    ),
    (
        r'"partitions"\s*:\s*\[\s*\{[^}]{0,300}"topic"',
        Refusal(
            "JSON with partitions, but no replicas (such as a leader election list)",
            "supply kafka-topics.sh --describe",
            "warning",
        ),
    ),
    (
        r"\bPOSITION 1\b|\bDISTINCT\b.*\bRACKS\b",
        Refusal(
            "a table of topicctl, which does not name its topic",
            "supply kafka-topics.sh --describe",
        ),
    ),
    (
        r"^(?:Querying brokers for|Received) log director(?:ies|y) information",
        Refusal(
            "the output of kafka-log-dirs.sh without its JSON: it is cut off, or the tool failed", "run the tool again"
        ),
    ),
    (
        r'"(?:proposals|goalSummary|newReplicas|goalReadiness)"\s*:|"topicPartition"\s*:\s*\{',
        Refusal(
            "Cruise Control's proposals: a plan, not the state of the cluster", "supply kafka-topics.sh --describe"
        ),
    ),
    _OFFSETS,
    (
        r'"metric"\s*:\s*\{|^\{[^}\n]*__name__="|^[\w:]*\{[^}\n]*\} =>(?: |$)',
        Refusal(
            "an export of Prometheus or VictoriaMetrics without values of a Kafka metric in bytes",
            "export kafka_log_Log_Size and the counters of kafka_server_BrokerTopicMetrics with names and values: a "
            "query that computes (sum, rate) removes the names",
        ),
    ),
    (
        r"\A(?:[^,\n]{0,249},){0,9}kafka_\w+,",
        Refusal(
            "values of metrics without a header, such as VictoriaMetrics' CSV export",
            "export with /api/v1/export instead, which names each value",
        ),
    ),
    (r"^# (?:HELP|TYPE) \w+ |^[a-z_:]+\{[^}\n]*\} [-+0-9.eE]+(?: \d+)?$", _NO_BYTES),
    (
        r"-----BEGIN [A-Z ]+-----",
        Refusal("a key or a certificate", "remove it from the input folder: it may be a secret"),
    ),
    (
        r"^\s*(?:bootstrap\.servers|security\.protocol|sasl\.[a-z.]+|ssl\.[a-z.]+)\s*[=:]",
        Refusal(
            "client properties",
            "remove the file from the input folder; to read a live cluster, set client_config to its path",
        ),
    ),
    (
        r"^\s*(?:broker\.id|node\.id|process\.roles|log\.dirs|listeners|zookeeper\.connect)\s*=",
        Refusal("a broker's settings (server.properties)", "remove the file; supply outputs of Kafka's tools"),
    ),
    (
        r"^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[^ ]* (?:\[[^\]\n]*\] ?)?(?:TRACE|DEBUG|INFO)\b",
        Refusal("a server log", "remove logs from the input folder"),
    ),
    (
        r"^[\w.$]{1,200}(?:Exception|Error): |^Error(?: while \w+ \w+ command.*?)?: |^Exception in thread ",
        Refusal(
            "an error message of a tool instead of its output",
            "fix the reported problem, run the tool again and supply its output",
        ),
    ),
    (
        r"^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[^ ]* (?:\[[^\]\n]*\] ?)?(?:WARN|ERROR|FATAL)\b",
        Refusal(
            "a log of warnings and errors, of a server or a tool",
            "remove logs from the input folder; if a tool printed this, fix the problem and run the tool again",
        ),
    ),
    (
        r"\A#!",
        Refusal("a script", "remove it from the input folder; supply its output"),
    ),
    (
        r"\A\s*<(?:\?xml|!DOCTYPE|html)",
        Refusal("an XML or HTML page", "supply the tool's output as text"),
    ),
    (
        r"^apiVersion: \S+",
        Refusal("a Kubernetes manifest", "remove it from the input folder; supply outputs of Kafka's tools"),
    ),
)
_HEAD_CHARS = 20_000  # first characters of a text, enough to recognise its format
EMPTY = Refusal("an empty file", "run the tool again and supply its output")
EMPTY_ERRORS = Refusal("an empty file of errors: the tool printed none", "remove the file", "warning")
_NO_GROUPS = Refusal(
    "an empty file: no consumer group was listed, or the tool failed",
    "remove the file, or run the tool again",
    "warning",
)
# Files that the user names as outputs about consumer groups, which are an optional input.
CONSUMER_FILE = r"^(?:.*[/\\])?consumer-[^/\\]*$"
_UNREADABLE_TABLE = Refusal(
    "a table of metrics that is not UTF-8 or has no name ending in .csv or .tsv",
    "save it as UTF-8, with a name that ends in .csv",
)
UNKNOWN = Refusal(
    "not the output of a Kafka tool, and not in any other supported format",
    "see docs/formats.md for the supported formats; remove other files from the input folder",
)

# A log line below level ERROR, and the indented lines that follow it.
_HARMLESS_LOG = re.compile(
    r"^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[^ \n]* (?:\[[^\]\n]*\] ?)?(?:TRACE|DEBUG|INFO|WARN)\b.*"
    r"(?:\n[ \t]+\S.*)*",
    re.MULTILINE,
)
# A topic's name may contain these words: headings with names do not count.
_ERROR_LINE = re.compile(r"(?!.*[Cc]onfigs? for ).*\b(?:ERROR|FATAL|\w+Exception)\b.*")


def is_consumer_file(name: str) -> bool:
    """Whether a path's base name begins with ``consumer-``: if nothing in the file can be read, it is a warning."""
    return re.match(CONSUMER_FILE, name, re.DOTALL) is not None


def explain(text: str, name: str = "") -> Refusal:
    """Why a text without any supported format is refused."""
    if not text.strip():
        if name.endswith(".err"):
            return EMPTY_ERRORS
        return _NO_GROUPS if is_consumer_file(name) else EMPTY
    head = text[:_HEAD_CHARS]
    header = next((line for line in head.split("\n") if line.strip() and not line.startswith("#")), "")
    if metrics_csv.recognises(header):
        return _UNREADABLE_TABLE
    harmless = _known_refusal(_without_harmless_log(text).strip()[:_HEAD_CHARS])
    return harmless if harmless.severity == "warning" else _known_refusal(head)


def explain_empty_output(text: str) -> Refusal | None:
    """Why an empty output (a tool reports that there is nothing to list) is refused; None if it is accepted.

    Log lines up to level WARN are allowed around it.
    """
    rest = _without_harmless_log(text)
    failed = [record.line for record in tool_errors.parse(text)]
    failed += [number for number, line in enumerate(lines_of(rest), 1) if _ERROR_LINE.fullmatch(line)]
    if failed:
        reason = f"the output of a tool with an error in line {min(failed)}: it may be incomplete"
        return Refusal(reason, "fix the problem named in that line and run the tool again")
    refusal = _known_refusal(rest[:_HEAD_CHARS])
    return None if refusal is UNKNOWN else refusal


def _known_refusal(text: str) -> Refusal:
    """The refusal of the first known format that matches."""
    return next((refusal for pattern, refusal in _KNOWN if re.search(pattern, text, re.MULTILINE)), UNKNOWN)


def _without_harmless_log(text: str) -> str:
    """The text with log lines below level ERROR replaced by empty lines."""
    return _HARMLESS_LOG.sub(lambda lines: "\n" * lines[0].count("\n"), text)


def explain_without_bytes(text: str) -> Refusal:
    """Why a Prometheus scrape without any metric in bytes can't be used."""
    pattern, refusal = _OFFSETS
    return refusal if re.search(pattern, text, re.MULTILINE) else _NO_BYTES


def not_text(looks_like: str) -> Refusal:
    """Why bytes that are not text are refused."""
    return Refusal(looks_like, "save or export it as UTF-8 text, or remove the file from the input folder")


def too_large() -> Refusal:
    """Why a text of more than a gigabyte is refused."""
    return Refusal("too large to be the output of a Kafka tool", "remove logs and other files from the input folder")


def copy_of(first: str) -> Refusal:
    """Why a file with the same bytes as another file is skipped."""
    return Refusal(f"an exact copy of {first}, which is read", "keep one of the two files", "warning")
