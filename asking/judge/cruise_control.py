"""Reads the JSON of Cruise Control: proposals of ``rebalance``, ``add_broker``, ``remove_broker`` and so on.

::

    {"proposals": [{"topicPartition": {"hash": 0, "partition": 0, "topic": "t"}, "oldLeader": 1,
                    "oldReplicas": [1, 2], "newReplicas": [3, 2]}],
     "summary": {...}, "goalSummary": [...], "loadAfterOptimization": {...}, "version": 1}

Only an answer to ``json=true&verbose=true`` has proposals. Their order is random. They never name directories: a move
inside a broker (``rebalance_disk``) has two equal lists, and only the summary counts these moves. A proposal has no
moves of both kinds. The summary may have ``NaN``, which is not JSON, and ``dataToMoveMB`` may be 0 although replicas
move.

References
----------
``com.linkedin.kafka.cruisecontrol``: ``executor.ExecutionProposal.getJsonStructure`` (broker ids are integers from 2018
until today), ``servlet.response.OptimizationResult.getJSONString`` (Gson with ``serializeSpecialFloatingPointValues``).
"""

import re
from collections.abc import Mapping
from typing import Any

from asking.judge.their_plan import Inside, Kind, NamedPartition, PlanFile, place_of
from sources.capacity_json import MB_BYTES
from sources.json_text import JsonDocument, decode
from sources.text import is_integer, topic_fault

_ASK = "ask Cruise Control again with json=true&verbose=true"
_KEYS = re.compile(
    r'"(?:proposals|topicPartition|oldReplicas|newReplicas|goalSummary|loadAfterOptimization|summary'
    r'|optimizationResult|progress|stackTrace)"\s*:'
)
_PLAIN_TEXT = re.compile(r"\{[a-zA-Z0-9._-]{1,249}-[0-9]+, oldLeader: -?[0-9]+, \[")
_LOOK = (
    'a proposal looks like {"topicPartition":{"partition":0,"topic":"t"},"oldLeader":1,"oldReplicas":[1],'
    '"newReplicas":[2]}'
)
_REQUIRED = ("topicPartition", "oldReplicas", "newReplicas")
_VALUE_CHARS = 80  # characters of a value in a message: a wrong value may be a whole document


def recognises(text: str) -> bool:
    """Whether the text is an answer of Cruise Control, as JSON or as plain text."""
    return _KEYS.search(text) is not None or _PLAIN_TEXT.search(text) is not None


def read(text: str, file: str) -> PlanFile:
    """Read the text of a file.

    Parameters
    ----------
    text : str
        The content of the file, with LF line ends. Lines before the JSON, such as HTTP headers, are ignored.
    file : str
        Name of the file, for messages.
    """
    match = re.search(r"^[ \t]*(?=\{\s*[\"}])", text, re.MULTILINE)
    if match is None:
        return _refused(f"{file} is an answer of Cruise Control, but not JSON: {_ASK}")
    start = match.end()
    value, end, error = decode(text, start, allows_nan=True)
    if error is not None:
        return _refused(f"{file}: {error}; the file may be cut off: {_ASK}")
    if text[end:].strip():
        line = text.count("\n", 0, end + len(text[end:]) - len(text[end:].lstrip())) + 1
        return _refused(f"{file} line {line}: text follows the JSON: keep one answer of Cruise Control per file")
    document = JsonDocument(text.count("\n", 0, start) + 1, value, None, text[start:end], "", "")
    problem = _answer_fault(value)
    return _refused(f"{file} {problem}") if problem else _proposals(document, file)


def _refused(problem: str) -> PlanFile:
    return PlanFile(None, problems=(problem,))


def _answer_fault(answer: Any) -> str | None:
    """Why an answer has no list of proposals, or None if it has one."""
    if "errorMessage" in answer:
        return f"is an error of Cruise Control: {_short(answer['errorMessage'])}"
    if "progress" in answer and "proposals" not in answer:
        return "is from a request that still ran: ask Cruise Control again with the same User-Task-ID"
    if "proposals" not in answer:
        return f"has no proposals, only a summary: {_ASK}"
    if not isinstance(answer["proposals"], list):
        return f"has proposals that are not a list, but {_short(answer['proposals'])}: {_ASK}"
    if not answer["proposals"]:
        return "has an empty list of proposals: Cruise Control changes nothing, so there is no plan to judge"
    return None


def _proposals(document: JsonDocument, file: str) -> PlanFile:
    lines = document.lines_of("topicPartition")
    partitions, problems = [], []
    content: Any = document.value
    for number, proposal in enumerate(content["proposals"], 1):
        line = next(lines) if isinstance(proposal, dict) and "topicPartition" in proposal else document.line
        place = place_of(file, line, number)
        fault = _fault(proposal)
        if fault is not None:
            problems.append(f"{place}: {fault}; {_LOOK}")
        else:
            partitions.append(_named(proposal, place))
    return PlanFile(Kind.CRUISE_CONTROL, tuple(partitions), tuple(problems), _inside(content.get("summary")))


def _inside(summary: Any) -> Inside | None:
    """What the summary says about moves inside brokers; None if it says nothing."""
    fields = summary if isinstance(summary, dict) else {}
    count, megabytes = fields.get("numIntraBrokerReplicaMovements"), fields.get("intraBrokerDataToMoveMB", 0)
    if not is_integer(count) or count < 0:
        return None
    return Inside(count, megabytes * MB_BYTES if is_integer(megabytes) and megabytes > 0 else 0)


def _fault(proposal: Any) -> str | None:
    """Why a proposal can't be read, or None if it can be."""
    if not isinstance(proposal, dict):
        return f"a proposal is {_short(proposal)}, not a JSON object"
    missing = [key for key in _REQUIRED if key not in proposal]
    if missing:
        return f"a proposal has no {' and no '.join(map(repr, missing))}"
    named = proposal["topicPartition"]
    if not isinstance(named, dict) or "topic" not in named or "partition" not in named:
        return f"topicPartition {_short(named)} has no 'topic' or no 'partition'"
    topic, partition = named["topic"], named["partition"]
    if (fault := topic_fault(topic)) is not None:
        return fault
    if not is_integer(partition) or partition < 0:
        return f"partition {_short(partition)} of {topic} is not a partition number"
    for key in ("oldReplicas", "newReplicas"):
        brokers = proposal[key]
        if not isinstance(brokers, list) or not all(is_integer(broker) for broker in brokers):
            return f"{key} {_short(brokers)} of {topic}-{partition} is not a list of broker ids"
    return None


def _named(proposal: Mapping[str, Any], place: str) -> NamedPartition:
    named = proposal["topicPartition"]
    # Cruise Control gives no old list for a partition that it adds.
    old = tuple(proposal["oldReplicas"]) or None
    leader = proposal.get("oldLeader")
    return NamedPartition(named["topic"], named["partition"], tuple(proposal["newReplicas"]), None, old, place, leader)


def _short(value: object) -> str:
    return repr(str(value)[:_VALUE_CHARS])
