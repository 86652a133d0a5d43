"""Reads the files of another tool's plan, and reports all that is wrong with them at once."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from asking.judge import cruise_control, reassignment_files
from asking.judge.their_plan import Kind, NamedPartition, PlanFile, TheirPlan
from optimizer.errors import ConfigError, KafkaError
from optimizer.kafka.reassignment_json import Row, TopicPartition, format_reassignment, parse_reassignment
from sources.decode import NotText, decoded

_MAX_PROBLEMS = 20  # problems in one message: a screen of text; the rest is counted
_INT_MAX = 2**31 - 1  # largest broker id and partition number: Kafka stores them as 32-bit integers


def read_plans(paths: Iterable[str | Path]) -> TheirPlan:
    """Read a plan from its files; some tools write one file for each topic.

    Parameters
    ----------
    paths : iterable of str or Path
        Files with reassignment JSON, output of ``kafka-reassign-partitions.sh --generate``, or JSON of Cruise Control.

    Raises
    ------
    ConfigError
        One problem for each file or entry that can't be read, or that Kafka would refuse, with file, line and entry.
    """
    partitions: dict[TopicPartition, NamedPartition] = {}
    kinds: dict[str, Kind] = {}
    problems: list[str] = []
    for path in paths:
        content = _read(path)
        problems += content.problems
        if content.kind is not None:
            kinds[str(path)] = content.kind
        in_this_file: set[TopicPartition] = set()
        for named in content.partitions:
            problems += _faults(named)
            if named.key in partitions:
                problems.append(_twice(named, partitions[named.key], in_one_file=named.key in in_this_file))
            in_this_file.add(named.key)
            partitions.setdefault(named.key, named)
    if problems:
        raise ConfigError(*_limited(problems))
    return TheirPlan(partitions, kinds)


def _read(path: str | Path) -> PlanFile:
    try:
        text = decoded(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return PlanFile(None, problems=(f"{path} can't be read: {reason}; give the files of the plan with --plan",))
    if isinstance(text, NotText):
        return PlanFile(None, problems=(f"{path} is {text.looks_like}: give the plan as UTF-8 text",))
    reader = cruise_control if cruise_control.recognises(text) else reassignment_files
    return reader.read(text, str(path))


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


def _twice(named: NamedPartition, first: NamedPartition, *, in_one_file: bool) -> str:
    """Kafka refuses a partition twice in a file, also with equal lists. Between files the same rule applies."""
    where = f"{named.place}: {named.name} is already in {first.place}"
    if not in_one_file:
        return f"{where}: name each partition in one file only"
    row: Row = (named.topic, named.partition, [0], None)
    return f"{where}, and Kafka refuses it: {_kafka_refusal(row, row)}; keep one of the two entries"


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
