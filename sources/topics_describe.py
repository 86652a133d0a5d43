"""``kafka-topics.sh --describe``, Kafka 0.8 to 4.3 and Confluent: topic headers and partition lines.

A line is split at its labels, not at tabs or blanks: terminals convert tabs to spaces, and a value may be empty. The
``Configs`` field is opaque: its values may contain commas (throttled replicas, placement JSON), so it is everything
after its label.

References
----------
``kafka.admin.TopicCommand`` (0.8.1 to 3.5), ``org.apache.kafka.tools.TopicCommand`` (3.6 to 4.3):
``TopicDescription.printDescription``, ``PartitionDescription.printDescription``.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import chain

from sources.record import Record, malformed
from sources.text import ELISION, broker_ids, integer, lines_of, topic_fault

EXPECTED = "kafka-topics.sh --describe"
REMEDY = "supply the complete, unchanged output of kafka-topics.sh --describe"

_LABEL = re.compile(
    r"\b(Topic|TopicId|PartitionCount|ReplicationFactor|Partition|Leader|Adding Replicas|Removing Replicas|Replicas|Isr"
    r"|Elr|LastKnownElr|Offline|LiveObservers|Observers|MarkedForDeletion):"
)
_MARKED = re.compile(r"\s+MarkedForDeletion:\s*true\s*$")
_OLDEST = re.compile(r"\b(topic|partition|leader|replicas|isr): ")
_CONFIG_TOKEN = re.compile(r"\s*[^\s$`{|>#]\S*=\S*\s*")
_AFTER_ISR = re.compile(r"\s*(?:Elr|LastKnownElr|Adding Replicas|Removing Replicas|Offline|Observers|LiveObservers):")
_NOTHING = re.compile(r"^N/A$")
# A list that the broker does not know; Confluent garbles the end of such a line.
_NOT_KNOWN = "N/A"
_CUT_LINE = re.compile(r"^\t+Topic: ?[A-Za-z0-9._-]+(\s+P\w*)?\s*$")
# Below a line of the tool: the start of another line, which was cut off.
_CUT_INSIDE = re.compile(r"\t*T(?:o(?:p(?:i(?:c:?)?)?)?)?\s*|Topic: ?[A-Za-z0-9._-]*(?:\s+\w*)?")
_LISTS = ("Replicas", "Isr", "Adding Replicas", "Removing Replicas", "Offline")
_MAYBE_UNKNOWN = ("Elr", "LastKnownElr", "Observers", "LiveObservers")
_REQUIRED = ("Topic", "Partition", "Leader", "Replicas", "Isr")
_NO_LEADER = frozenset({"none", "-1", "", "N/A"})


def recognises(text: str) -> bool:
    """Whether the text may have a header or a partition line."""
    return ("opic:" in text and "artition:" in text) or "PartitionCount:" in text


def parse(text: str) -> Iterator[Record]:
    """Yield topics and partitions in the order of the text; other lines are skipped."""
    lines = lines_of(text)
    index, inside = 0, False
    while index < len(lines):
        line = lines[index]
        used, record = 1, None
        if "artition:" in line or "opic:" in line:
            used, record = _read(lines, index)
        elif inside and ELISION.match(line):
            record = _malformed(index, line, "lines were left out here ('...'), so partitions are missing")
        if record is None and _is_damaged(line, inside=inside or _is_partition(lines, index + 1)):
            record = _malformed(index, line, "this topic or partition line is cut off or damaged")
        if record is not None:
            yield record
        inside = record is not None or (inside and not line.strip())
        index += used


def _read(lines: list[str], index: int) -> tuple[int, Record | None]:
    """Number of lines used, and the record that starts at ``index``; None if it is not a line of the tool."""
    line = lines[index]
    if "topic: " in line and "isr: " in line and "Topic:" not in line:
        line = _OLDEST.sub(lambda match: match[1].capitalize() + ": ", line)
    if "Partition:" in line and ("Leader:" in line or "Replicas:" in line):
        return _read_partition(lines, index, line)
    if "Topic:" not in line or "Partition:" in line:
        return 1, None
    whole, used = _whole_header(lines, index)
    if "PartitionCount:" in whole:
        return used, _header(index, whole)
    return 1, _malformed(index, line, "this partition line is cut off") if _CUT_LINE.match(line) else None


def _is_damaged(line: str, *, inside: bool) -> bool:
    """Whether an unreadable line is a damaged line of the tool: it has two of its labels, or starts like one."""
    if inside and _CUT_INSIDE.fullmatch(line):
        return True
    labels = set(_LABEL.findall(line)) if line.count(":") > 1 else set()
    if labels and "Configs:" in line:
        labels.add("Configs")
    return len(labels) > 1 and (inside or not labels <= {"Topic", "Partition"})


def _is_partition(lines: list[str], index: int) -> bool:
    return index < len(lines) and "Partition:" in lines[index] and "Leader:" in lines[index]


def _read_partition(lines: list[str], index: int, line: str) -> tuple[int, Record]:
    used = 1
    while index + used < len(lines) and _wraps(lines[index + used], is_whole="Isr:" in line):
        line = f"{line} {lines[index + used].strip()}"
        used += 1
    return used, _partition(index, line)


def _wraps(line: str, *, is_whole: bool) -> bool:
    """Whether a line continues a partition; after a whole partition only fields that follow its ISR do."""
    if is_whole:
        return _AFTER_ISR.match(line) is not None
    return "Topic:" not in line and ("Isr:" in line or "Replicas:" in line or "Leader:" in line)


def _whole_header(lines: list[str], index: int) -> tuple[str, int]:
    """A header joined with its wrapped lines, and their number."""
    whole, used = lines[index].rstrip(), 1
    while index + used < len(lines):
        following = lines[index + used]
        if "Topic:" in following or "Partition:" in following:
            break
        if "Configs:" not in whole:
            if not _LABEL.search(following) and "Configs:" not in following:
                break
            whole = f"{whole} {following.strip()}"
        elif _CONFIG_TOKEN.fullmatch(following) and not whole.endswith("Configs:"):
            whole += following.strip()
        else:
            break
        used += 1
    return whole, used


def _header(index: int, line: str) -> Record:
    head, _, configs = line.partition("Configs:")
    fields = _fields(head)
    topic = fields.get("Topic", "")
    count = integer(fields.get("PartitionCount", ""))
    factor = integer(fields.get("ReplicationFactor", ""))
    fault = topic_fault(topic)
    if fault is None and count is None:
        fault = f"PartitionCount {fields.get('PartitionCount')!r} is not an integer"
    if fault is not None:
        return _malformed(index, line, fault)
    opaque = _MARKED.sub("", configs)
    payload = {
        "topic": topic,
        "topic_id": fields.get("TopicId") or None,
        "partition_count": count,
        "replication_factor": factor,
        "configs": opaque.strip(),
        "marked_for_deletion": opaque != configs or fields.get("MarkedForDeletion") == "true",
    }
    return Record("topic", index + 1, payload)


def _partition(index: int, line: str) -> Record:
    fields = _fields(line)
    missing = [label for label in _REQUIRED if label not in fields]
    if missing:
        return _malformed(index, line, f"the line has no {' and no '.join(missing)}")
    if line.count("Topic:") > 1 or line.count("Partition:") > 1:
        return _malformed(index, line, "two output lines are joined into one")
    partition, leader = integer(fields["Partition"]), integer(fields["Leader"])
    lists = {label: broker_ids(_NOTHING.sub("", fields.get(label, ""))) for label in _LISTS}
    for label in _MAYBE_UNKNOWN:
        lists[label] = broker_ids("" if _is_unknown(fields, label) else fields[label])
    faults = [topic_fault(fields["Topic"])]
    if partition is None or partition < 0:
        faults.append(f"Partition {fields['Partition']!r} is not a partition number")
    if leader is None and fields["Leader"] not in _NO_LEADER:
        faults.append(f"Leader {fields['Leader']!r} is not a broker id")
    faults += [f"{label} {fields[label]!r} is not a list of broker ids" for label, ids in lists.items() if ids is None]
    if reasons := [fault for fault in faults if fault is not None]:
        return _malformed(index, line, "; ".join(reasons))
    payload = {
        "topic": fields["Topic"],
        "partition": partition,
        "leader": None if fields["Leader"] in _NO_LEADER else leader,
        "replicas": lists["Replicas"],
        "isr": lists["Isr"],
        "adding": lists["Adding Replicas"],
        "removing": lists["Removing Replicas"],
        "offline": lists["Offline"] if "Offline" in fields else None,
        "elr": _known(fields, lists, "Elr"),
        "last_known_elr": _known(fields, lists, "LastKnownElr"),
        "observers": _observers(fields, lists),
    }
    return Record("partition", index + 1, payload)


def _known(fields: Mapping[str, str], lists: Mapping[str, list[int] | None], label: str) -> list[int] | None:
    """A list of brokers; None if the line has no such field or the broker does not know it."""
    return None if _is_unknown(fields, label) else lists[label]


def _observers(fields: Mapping[str, str], lists: Mapping[str, list[int] | None]) -> list[int] | None:
    """Observers of both fields; ``LiveObservers`` leaves out those that are offline."""
    printed = [ids for label in ("Observers", "LiveObservers") if (ids := _known(fields, lists, label)) is not None]
    return list(dict.fromkeys(chain(*printed))) if printed else None


def _is_unknown(fields: Mapping[str, str], label: str) -> bool:
    return label not in fields or fields[label].startswith(_NOT_KNOWN)


def _fields(line: str) -> dict[str, str]:
    """Values by label."""
    parts = _LABEL.split(line)
    return {label: value.strip() for label, value in zip(parts[1::2], parts[2::2], strict=True)}


def _malformed(index: int, line: str, reason: str) -> Record:
    return malformed(line=index + 1, expected=EXPECTED, reason=reason, remedy=REMEDY, text=line)
