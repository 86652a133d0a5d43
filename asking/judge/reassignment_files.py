"""Reads reassignment JSON, alone or in the output of ``kafka-reassign-partitions.sh --generate``.

A bare document is a plan. The output of ``--generate`` has two documents: the current lists, and the proposal; so has
that of tools with the headings CURRENT ASSIGNMENT and NEW ASSIGNMENT. Several plans in one file are phases. The output
of ``--execute`` has only the current lists, for a rollback, so it is refused.

References
----------
``org.apache.kafka.tools.reassign.ReassignPartitionsCommand`` (4.3): ``generateAssignment``, ``executeAssignment``,
``parsePartitionReassignmentData``.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

from asking.judge.their_plan import Kind, NamedPartition, PlanFile, place_of
from sources.assignment_json import HEADING, document_fault, entry_records, has_replicas, last_heading
from sources.json_text import JsonDocument, decode, documents
from sources.record import Record

LOOK = 'an entry looks like {"topic":"t","partition":0,"replicas":[1,2]}'
_EXECUTE = (
    "these are the current replica lists, which --execute prints for a rollback, not a plan: give the file that "
    "--execute read with --reassignment-json-file, or the complete output of --generate"
)
_UNKNOWN = (
    "has no plan: give reassignment JSON, the output of kafka-reassign-partitions.sh --generate, or the JSON of Cruise "
    "Control with proposals"
)
_NOT_REASSIGNMENT = f"this JSON is not a reassignment: it has no list 'partitions' with replicas; {LOOK}"
_NO_PARTITION = "the list 'partitions' is empty, and Kafka refuses it: Partition reassignment list cannot be empty"


class _Role(StrEnum):
    """What the heading above a document says."""

    CURRENT = "current"
    PROPOSED = "proposed"
    BARE = ""


def read(text: str, file: str) -> list[PlanFile]:
    """Read the text of a file: its plans, in their order.

    Parameters
    ----------
    text : str
        The content of the file, with LF line ends.
    file : str
        Name of the file, for messages.
    """
    pieces = [(_Role(last_heading(document) or ""), document) for document in documents(text)]
    problems = [*_broken(pieces, file), *_headings_without_document(text, pieces, file)]
    if problems:
        return [PlanFile(None, problems=tuple(problems))]
    by_role = {role: [document for of, document in pieces if of is role] for role in _Role}
    bare, proposed, current = (by_role[role] for role in (_Role.BARE, _Role.PROPOSED, _Role.CURRENT))
    if not pieces:
        return [PlanFile(None, problems=(f"{file} {_why_nothing(text)}",))]
    if not bare and not proposed:
        return [PlanFile(None, problems=(f"{file} line {pieces[0][1].line}: {_EXECUTE}",))]
    if not current and not proposed and (len(bare) == 1 or not any(_document_fault(each.value) for each in bare)):
        return [_entries(document, file, Kind.REASSIGNMENT) for document in bare]
    if not bare and not current:
        return [_entries(document, file, Kind.GENERATE) for document in proposed]
    if not bare and len(current) == len(proposed):
        pairs = zip(proposed, current, strict=True)
        return [_with_old_lists(*(_entries(document, file, Kind.GENERATE) for document in pair)) for pair in pairs]
    where = f"the second is in line {pieces[1][1].line}"
    problem = f"{file} has {len(pieces)} JSON documents, {where}, and not all are plans: give the plans alone"
    return [PlanFile(None, problems=(problem,))]


def _broken(pieces: Sequence[tuple[_Role, JsonDocument]], file: str) -> Iterator[str]:
    for _, document in pieces:
        if document.error is not None:
            yield f"{file}: {document.error}; the file may be cut off or edited: write it again"


def _headings_without_document(text: str, pieces: Sequence[tuple[_Role, JsonDocument]], file: str) -> Iterator[str]:
    """A damaged document that does not look like JSON any more is missing: only its heading shows it."""
    for role in (_Role.CURRENT, _Role.PROPOSED):
        headings = [match for match in HEADING.finditer(text) if match.lastgroup == role]
        if len(headings) > sum(of is role for of, _ in pieces):
            line, words = text.count("\n", 0, headings[-1].start()) + 1, headings[-1][0].strip(" \t>#:")
            yield f"{file} line {line}: no readable JSON follows {words!r}: give the complete output of the tool"


def _why_nothing(text: str) -> str:
    if not text.strip():
        return "is empty: write the plan again"
    start = len(text) - len(text.lstrip())
    if re.compile(r"\{|\[\s*\{").match(text, start):
        error = decode(text, start)[2]
        if error is not None:
            return f"is not a plan: {error}; {LOOK}"
    return _UNKNOWN


def _entries(document: JsonDocument, file: str, kind: Kind) -> PlanFile:
    """The entries of one document, as they are written."""
    value: Any = document.value
    fault = _document_fault(value)
    if fault is not None:
        return PlanFile(kind, problems=(f"{file} line {document.line}: {fault}",))
    partitions, problems = [], []
    for number, record in enumerate(entry_records(document, value["partitions"]), 1):
        place = place_of(file, record.line, number)
        if record.kind == "malformed":
            problems.append(f"{place}: {record.payload['reason']}; {LOOK}")
        else:
            partitions.append(_named(record, place))
    return PlanFile(kind, tuple(partitions), tuple(problems), line=document.line)


def _document_fault(value: Any) -> str | None:
    """Why a document is no list of entries, with the remedy, or None if it is one."""
    if not isinstance(value, dict) or "partitions" not in value or "brokers" in value:
        return _NOT_REASSIGNMENT
    if (fault := document_fault(value)) is not None:
        return f"{fault}; {LOOK}"
    if not value["partitions"]:
        return _NO_PARTITION
    return None if has_replicas(value["partitions"]) else _NOT_REASSIGNMENT


def _named(record: Record, place: str) -> NamedPartition:
    entry = record.payload
    log_dirs = None if entry["log_dirs"] is None else tuple(entry["log_dirs"])
    return NamedPartition(entry["topic"], entry["partition"], tuple(entry["replicas"]), log_dirs, None, place)


def _with_old_lists(proposal: PlanFile, current: PlanFile) -> PlanFile:
    """The proposal, with the list of each partition in the current assignment. The tool prints both or neither."""
    old = {named.key: named.replicas for named in current.partitions}
    missing = (
        f"{named.place}: {named.name} is not in the current assignment of this output: give the complete output of "
        "--generate, or the proposal alone"
        for named in proposal.partitions
        if named.key not in old
    )
    problems = current.problems + proposal.problems
    return PlanFile(
        proposal.kind,
        tuple(replace(named, old_replicas=old.get(named.key)) for named in proposal.partitions),
        problems or tuple(missing),
        line=proposal.line,
    )
