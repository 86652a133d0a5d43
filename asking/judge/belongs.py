"""Checks that another tool's plan was made for the cluster of a run, and for the replica lists that the run has."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asking.judge.their_plan import NamedPartition, TheirPlan
from optimizer.domain import LogDir
from optimizer.errors import ConfigError, KafkaError
from optimizer.kafka.execute import check_execute, log_dir_not_found
from optimizer.kafka.reassignment_json import ANY_DIR, TopicPartition, format_reassignment
from optimizer.units import agree, first_of, human_percent, plural
from stored.verdicts import Refused

if TYPE_CHECKING:
    import pandas as pd

_LISTED = 5  # names in a message; the rest is counted
# Share of the old lists that may differ from the run's: a few partitions change between two readings of a live cluster,
# and a plan for another state of the cluster differs in far more.
MAX_STALE_SHARE = 0.01
NO_DIRS: Mapping[int, Sequence[LogDir]] = {}
_OTHER_CLUSTER = (
    "check that --plan, --run-id and --cluster belong together; after a change of the cluster run the job again"
)


@dataclass(frozen=True)
class Belonging:
    """What a reader must know about a plan that is judged.

    Parameters
    ----------
    stale : tuple of (topic, partition)
        Partitions for which the plan has an old list that is not the run's.
    notes : tuple of str
        One sentence for each difference: stale lists, and what Kafka would refuse.
    """

    stale: tuple[TopicPartition, ...]
    notes: tuple[str, ...]


def check_belongs(
    their_plan: TheirPlan,
    instance: "pd.DataFrame",
    *,
    broker_ids: Collection[int],
    live_broker_ids: Collection[int],
    log_dirs: Mapping[int, Sequence[LogDir]] = NO_DIRS,
    stale_ok: bool = False,
    state: str = "the run",
) -> Belonging:
    """Check a plan against the partitions and brokers of a run.

    Parameters
    ----------
    their_plan : TheirPlan
    instance : DataFrame
        Rows of the table ``instance`` of one cluster: topic, partition, replicas, controller_replicas.
    broker_ids, live_broker_ids : collection of int
        All brokers of the run, and those that ``--execute`` accepts: neither dead nor fenced.
    log_dirs : mapping
        The directories of each broker for which they are known.
    stale_ok : bool
        Report old lists that are not the run's, however many, instead of refusing the plan.
    state : str
        What ``instance`` is, in words.

    Raises
    ------
    ConfigError
        When the plan names unknown partitions or brokers, or directories that their brokers do not have.
    Refused
        When more than 1 % of the old lists are not the run's, unless ``stale_ok``.
    """
    lists = _lists_by_partition(instance)
    unknown = [
        *_unknown_partitions(their_plan, lists),
        *_unknown_brokers(their_plan, set(broker_ids)),
        *_unknown_directories(their_plan, log_dirs),
    ]
    if unknown:
        raise ConfigError(*unknown)
    with_old = [named for named in their_plan.partitions.values() if named.old_replicas is not None]
    stale = [named for named in with_old if named.old_replicas not in lists[named.key]]
    notes = []
    if stale:
        text = _describe_stale(stale, len(with_old), lists, state)
        if len(stale) > MAX_STALE_SHARE * len(with_old) and not stale_ok:
            raise Refused(f"{text}; make their plan and the run from the same state, or add --stale-ok to judge it")
        notes.append(text)
    refusal = _kafka_refusal(their_plan, lists, live_broker_ids)
    if refusal is not None:
        notes.append(f"Kafka refuses this plan at --execute: {refusal}")
    notes += _closed_directories(their_plan, log_dirs)
    return Belonging(tuple(named.key for named in stale), tuple(notes))


Lists = Mapping[TopicPartition, Sequence[tuple[int, ...]]]


def _lists_by_partition(instance: "pd.DataFrame") -> Lists:
    """The current lists of each partition: in flight, the target and the controller's list."""
    columns = (instance[name].tolist() for name in ("topic", "partition", "replicas", "controller_replicas"))
    return {
        (topic, int(partition)): [_as_tuple(each) for each in (target, controller) if _is_list(each)]
        for topic, partition, target, controller in zip(*columns, strict=True)
    }


def _is_list(value: object) -> bool:
    """Whether a cell has a list: a missing one is None or NaN."""
    return hasattr(value, "__len__")


def _as_tuple(brokers: Iterable[int]) -> tuple[int, ...]:
    return tuple(int(broker) for broker in brokers)


def _unknown_partitions(their_plan: TheirPlan, lists: Lists) -> Iterator[str]:
    unknown = [named for key, named in their_plan.partitions.items() if key not in lists]
    if unknown:
        names = first_of((named.name for named in unknown), _LISTED)
        count = plural(len(unknown), "partition")
        yield f"the plan names {count} that the run does not have: {names} ({unknown[0].place}); {_OTHER_CLUSTER}"


def _unknown_brokers(their_plan: TheirPlan, known: Collection[int]) -> Iterator[str]:
    first: dict[int, NamedPartition] = {}
    for named in their_plan.partitions.values():
        for broker in named.replicas:
            if broker not in known:
                first.setdefault(broker, named)
    if first:
        ids = sorted(first)
        named = first[ids[0]]
        brokers = f"{plural(len(ids), 'broker')} that the run does not have: {first_of(ids, _LISTED)}"
        yield f"the plan names {brokers} ({named.name} in {named.place}); {_OTHER_CLUSTER}"


def _unknown_directories(their_plan: TheirPlan, log_dirs: Mapping[int, Sequence[LogDir]]) -> Iterator[str]:
    paths = {broker: {each.path for each in dirs} for broker, dirs in log_dirs.items()}
    unknown = [each for each in directories_of(their_plan) if each[1] in paths and each[2] not in paths[each[1]]]
    if unknown:
        named, broker, _ = unknown[0]
        pairs = dict.fromkeys(f"{path} on broker {broker}" for _, broker, path in unknown)
        refusal = log_dir_not_found((*named.key, broker))
        known = f"broker {broker} has {', '.join(sorted(paths[broker]))}"
        count = f"{len(pairs):,} {agree(len(pairs), 'log directory', 'log directories')}"
        yield (
            f"the plan names {count} that the broker does not have: {first_of(pairs, _LISTED)} "
            f"({named.name} in {named.place}); Kafka starts the reassignment and then ends with {refusal}; {known}"
        )


def directories_of(their_plan: TheirPlan) -> Iterator[tuple[NamedPartition, int, str]]:
    """Each broker and directory that a partition of the plan names."""
    for named in their_plan.partitions.values():
        for broker, path in zip(named.replicas, named.log_dirs or (), strict=False):
            if path != ANY_DIR:
                yield named, broker, path


def _closed_directories(their_plan: TheirPlan, log_dirs: Mapping[int, Sequence[LogDir]]) -> Iterator[str]:
    """A sentence about directories that are named, and in which their brokers create no logs."""
    closed = {(broker, each.path) for broker, dirs in log_dirs.items() for each in dirs if not each.is_open}
    into = [each for each in directories_of(their_plan) if (each[1], each[2]) in closed]
    if into:
        (first, broker, _), names = into[0], dict.fromkeys(f"{path} on broker {broker}" for _, broker, path in into)
        yield (
            f"Kafka refuses moves into directories that have failed or are cordoned: {first_of(names, _LISTED)} "
            f"(Failed to alter dir for {first.name}-{broker})."
        )


def _describe_stale(stale: Sequence[NamedPartition], given: int, lists: Lists, state: str) -> str:
    first = stale[0]
    share = human_percent(100 * len(stale) / given)
    example = f"{first.name} had {list(first.old_replicas or ())} and has {list(lists[first.key][0])} in {state}"
    return f"{len(stale):,} of {given:,} old replica lists in the plan ({share}) are not those of {state}: {example}"


def _kafka_refusal(their_plan: TheirPlan, lists: Lists, live_broker_ids: Collection[int]) -> str | None:
    partitions_per_topic: dict[str, set[int]] = {}
    for topic, partition in lists:
        partitions_per_topic.setdefault(topic, set()).add(partition)
    rows = [(named.topic, named.partition, named.replicas, named.log_dirs) for named in their_plan.partitions.values()]
    try:
        check_execute(
            format_reassignment(rows), live_broker_ids=live_broker_ids, partitions_per_topic=partitions_per_topic
        )
    except KafkaError as error:
        return str(error)
    return None
