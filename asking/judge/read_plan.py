"""Reads the files of another tool's plan, and reports all that is wrong with them at once."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from asking.judge import cruise_control, reassignment_files
from asking.judge.their_plan import NamedPartition, PlanFile, TheirPlan
from optimizer.errors import ConfigError, KafkaError
from optimizer.kafka.reassignment_json import Row, TopicPartition, format_reassignment, parse_reassignment
from sources.decode import NotText, decoded

_MAX_PROBLEMS = 20  # problems in one message: a screen of text; the rest is counted
_INT_MAX = 2**31 - 1  # largest broker id and partition number: Kafka stores them as 32-bit integers


def read_plans(paths: Iterable[str | Path]) -> list[TheirPlan]:
    """Read a plan from its files. Each document is a phase, in the order of the files; names in a folder are sorted.

    Parameters
    ----------
    paths : iterable of str or Path
        Files, or folders of files, with reassignment JSON, output of ``kafka-reassign-partitions.sh --generate``, or
        JSON of Cruise Control.

    Raises
    ------
    ConfigError
        One problem for each file or entry that can't be read, or that Kafka would refuse, with file, line and entry.
    """
    phases: list[TheirPlan] = []
    problems: list[str] = []
    for path in (file for given in paths for file in _files(Path(given))):
        contents = _read(path)
        for content in contents:
            partitions: dict[TopicPartition, NamedPartition] = {}
            problems += content.problems
            for named in content.partitions:
                problems += _faults(named)
                if named.key in partitions:
                    problems.append(_twice(named, partitions[named.key]))
                partitions.setdefault(named.key, named)
            if content.kind is not None:
                name = str(path) if len(contents) == 1 else f"{path} line {content.line}"
                phases.append(TheirPlan(name, content.kind, partitions, content.inside))
    if problems:
        raise ConfigError(*_limited(problems))
    return phases


def _files(path: Path) -> list[Path]:
    """The files of a folder, with numbers in their names in the order of numbers; a file itself."""
    try:
        files = [each for each in path.iterdir() if each.is_file() and not each.name.startswith(".")]
    except (OSError, ValueError):  # not a folder; reading it says why it is no file either
        return [path]
    return sorted(files, key=lambda each: [int(x) if x.isdigit() else x for x in re.split(r"([0-9]+)", each.name)]) or [
        path
    ]


def _read(path: Path) -> Sequence[PlanFile]:
    try:
        text = decoded(path.read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return [PlanFile(None, problems=(f"{path} can't be read: {reason}; give the files of the plan with --plan",))]
    if isinstance(text, NotText):
        return [PlanFile(None, problems=(f"{path} is {text.looks_like}: give the plan as UTF-8 text",))]
    if cruise_control.recognises(text):
        return [cruise_control.read(text, str(path))]
    return reassignment_files.read(text, str(path))


def _faults(named: NamedPartition) -> Iterator[str]:
    """What Kafka would refuse in an entry."""
    brokers = list(named.replicas)
    wrong = next((broker for broker in brokers if not 0 <= broker <= _INT_MAX), None)
    if named.partition > _INT_MAX:
        yield f"{named.place}: partition {named.partition} of {named.topic} is above Kafka's limit, {_INT_MAX}"
    elif wrong is not None:
        yield f"{named.place}: {wrong} in the list {brokers} of {named.name} is not a broker id: give 0 to {_INT_MAX}"
    elif not brokers:
        refusal = _kafka_refusal((named.topic, named.partition, [], None))
        yield f"{named.place}: {named.name} has no replicas, and Kafka refuses it: {refusal}; list its brokers"
    elif len(set(brokers)) < len(brokers):
        refusal = _kafka_refusal((named.topic, named.partition, brokers, None))
        yield f"{named.place}: Kafka refuses the list {brokers}: {refusal}; list each broker once"


def _twice(named: NamedPartition, first: NamedPartition) -> str:
    """Kafka refuses a partition twice in a document, also with equal lists."""
    row: Row = (named.topic, named.partition, [0], None)
    refusal = _kafka_refusal(row, row)
    where = f"{named.place}: {named.name} is already in {first.place}"
    return f"{where}, and Kafka refuses it: {refusal}; keep one of the two entries"


def _kafka_refusal(*rows: Row) -> str:
    """Kafka's message about a document with these entries."""
    try:
        parse_reassignment(format_reassignment(rows))
    except KafkaError as error:
        return str(error)
    raise AssertionError(f"Kafka accepts {rows}")


def _limited(problems: Sequence[str]) -> list[str]:
    rest = len(problems) - _MAX_PROBLEMS
    more = [f"{rest:,} more: fix these first"] if rest > 0 else []
    return [*problems[:_MAX_PROBLEMS], *more]
