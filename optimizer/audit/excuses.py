"""What a plan leaves though it had to change: excused, or unexplained.

Nothing that findings say is believed. For each partition that is left with what may not stay the audit looks for ways
to mend it by one change more, of this partition alone, after the plan: to brokers that accept replicas, within pin,
racks and spread of its topic. It is excused where there is none, where the limit has not the room for a change of all
its replicas, or where a disk has not the room for one of the ways: which way the plan would have gone, and been held
back from, nobody can tell. A disk excuses no more bytes so than may have been meant for it. Else it is unexplained. A
change that is found is made before the next is looked for, the smallest partitions first, so that all of them together
are one larger plan.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from optimizer.audit.after import After, Replicas
from optimizer.audit.claims import (
    FORCED_ONLY,
    FREE,
    RACKS_ONLY,
    AuditBroker,
    AuditLimits,
    AuditPartition,
    Key,
    Violation,
)
from optimizer.audit.instance import Instance
from optimizer.audit.plan_rules import check_entry
from optimizer.audit.read_documents import Entry, name
from optimizer.audit.spread import Targets, grown, most_leaders, most_replicas
from optimizer.units import clause, plural

DRAIN, PIN, FACTOR, RACKS = "drain", "pin", "replication_factor", "racks"


@dataclass(frozen=True, slots=True)
class MendedAndLeft:
    """What a plan mends, and what it leaves without an excuse; what has one is in neither.

    Parameters
    ----------
    mended : int
        Partitions that had a replica where none may stay, the wrong number of them, or one against the rack rule, and
        have none of that after the plan.
    unexplained : mapping of key to Violation
        Partitions for which a change more would do.
    """

    mended: int
    unexplained: dict[Key, Violation]

    @property
    def mendable(self) -> int:
        """Partitions that the plan mends or could mend."""
        return self.mended + len(self.unexplained)

    @property
    def share(self) -> float:
        """Of what the plan could mend, what it leaves; 0 to 1."""
        return len(self.unexplained) / max(self.mendable, 1)


def unexplained(
    *,
    brokers: Sequence[AuditBroker],
    partitions: Sequence[AuditPartition],
    targets: Targets,
    limits: AuditLimits,
) -> dict[Key, Violation]:
    """Partitions that a plan leaves without an excuse, each with what would do.

    Parameters
    ----------
    brokers, partitions : sequences
        The cluster before the plan.
    targets : mapping
        New lists of the partitions that the plan changes.
    limits : AuditLimits
    """
    return left_by(Instance(brokers=brokers, partitions=partitions, limits=limits), targets).unexplained


def left_by(instance: Instance, targets: Targets) -> MendedAndLeft:
    """What a plan leaves though it had to change, and no excuse is found for."""
    after = After(instance, targets)
    found: dict[Key, Violation] = {}
    for key, violation in (*_undone(after), *_crowds(after, targets), *_led_crowds(after, targets)):
        found.setdefault(key, violation)
    mended = {key for key, replicas in targets.items() if _is_mended(instance, instance.partitions[key], replicas)}
    return MendedAndLeft(len(mended - found.keys()), found)


def _is_mended(instance: Instance, partition: AuditPartition, replicas: Replicas) -> bool:
    return bool(defect(instance, partition, partition.replicas)) and not defect(instance, partition, replicas)


def defect(instance: Instance, partition: AuditPartition, replicas: Replicas) -> str:
    """The first rule that a list breaks and that the partition's mobility lets a plan mend; empty where none is."""
    mobility, pin = partition.mobility, partition.pinned_brokers
    if mobility in (FREE, FORCED_ONLY) and not instance.to_empty.isdisjoint(replicas):
        return DRAIN
    if mobility == FREE and pin is not None and not pin.issuperset(replicas):
        return PIN
    if mobility == FREE and len(replicas) != partition.replication_factor:
        return FACTOR
    if mobility in (FREE, RACKS_ONLY):
        misses = instance.rack_misses(replicas, len(replicas), pin)
        return RACKS if misses and misses > instance.least_misses(partition, len(replicas)) else ""
    return ""


def _undone(after: After) -> Iterator[tuple[Key, Violation]]:
    """Partitions that are left with a defect without an excuse."""
    instance = after.instance
    rows = ((p, defect(instance, p, after.replicas(p))) for p in instance.partitions.values())
    for partition, rule in sorted((row for row in rows if row[1]), key=lambda row: (row[0].size_bytes, row[0].key)):
        if after.affords(partition):
            before = after.replicas(partition)
            ways = _even_lists(after, partition) if rule == RACKS else _mended_lists(after, partition)
            better = _changed(after, partition, ways)
            if better:
                told = _words(instance, partition, before, rule)
                yield partition.key, Violation(rule, name(partition.key), f"{told}; {list(better)} would do")


def _words(instance: Instance, partition: AuditPartition, replicas: Replicas, rule: str) -> str:
    if rule == DRAIN:
        return f"replicas stay on brokers {sorted(instance.to_empty & set(replicas))}, which must be emptied"
    if rule == PIN:
        pin = partition.pinned_brokers or frozenset()
        return f"replicas stay on brokers {sorted(set(replicas) - pin)}, outside {sorted(pin)}"
    if rule == FACTOR:
        return f"{_staying(len(replicas))}, {partition.replication_factor} asked for"
    misses = instance.rack_misses(replicas, len(replicas), partition.pinned_brokers)
    return f"{list(replicas)}: {_staying(misses)} against the rack rule"


def _staying(replicas: int) -> str:
    return clause(replicas, "replica", "stays", "stay")


def _changed(after: After, partition: AuditPartition, ways: Iterable[Replicas]) -> Replicas | None:
    """The last of the ways that break no rule, which the partition gets; None where the disks have no room for one."""
    last = None
    for replicas in ways:
        if not _breaks_rules(after.instance, partition, replicas):
            if not after.has_room(partition, replicas):
                after.excuse(partition, replicas)
                return None
            last = replicas
    if last:
        after.change(partition, last)
    return last


def _breaks_rules(instance: Instance, partition: AuditPartition, replicas: Replicas) -> bool:
    if replicas == partition.replicas:
        return bool(defect(instance, partition, replicas))
    entry = Entry(partition.key, replicas, plans_directories=False)
    return _breaks_racks_more(instance, partition, replicas) or any(check_entry(instance, entry))


def _breaks_racks_more(instance: Instance, partition: AuditPartition, replicas: Replicas) -> bool:
    """Whether a list that keeps its length breaks the rack rule more than before: no broker is emptied for that."""
    length, pin = len(partition.replicas), partition.pinned_brokers
    was, now = (instance.rack_misses(one, length, pin) for one in (partition.replicas, replicas))
    return len(replicas) == length and now > was


def _mended_lists(after: After, partition: AuditPartition) -> Iterator[Replicas]:
    """Lists of the length asked for, of replicas that may stay and others, as even over the racks as one after the
    other can be: one for each broker that may be the first of the others."""
    instance, length = after.instance, partition.replication_factor
    pin = partition.pinned_brokers if partition.mobility == FREE else None
    kept = [b for b in after.replicas(partition) if b not in instance.to_empty and (pin is None or b in pin)]

    def misses(replicas: Sequence[int]) -> int:
        return instance.rack_misses(replicas, length, partition.pinned_brokers)

    while len(kept) > length:
        kept = min(([b for b in kept if b != gone] for gone in reversed(kept)), key=misses)
    homes = after.homes(partition)
    next_racks: dict[tuple[str | None, ...], str | None] = {}

    def one_more(replicas: list[int]) -> list[int]:
        """A list with the broker more that is best for its racks: one of a rack is tried, once for lists of the same
        racks."""
        racks = tuple(instance.rack(b) for b in replicas)
        if racks not in next_racks:
            one_of = {instance.rack(b): b for b in reversed(homes) if b not in replicas}
            next_racks[racks] = min(reversed(one_of), key=lambda rack: misses([*replicas, one_of[rack]]))
        added = (b for b in homes if instance.rack(b) == next_racks[racks] and b not in replicas)
        return [*replicas, next(added)]

    for longer in [[*kept, first] for first in homes] if len(kept) < length else [kept]:
        while len(longer) < length and len(homes) >= length - len(kept):
            longer = one_more(longer)
        yield _ordered(instance, partition, longer)


def _even_lists(after: After, partition: AuditPartition) -> Iterator[Replicas]:
    """Lists with one replica elsewhere that break the rack rule less."""
    instance, replicas = after.instance, after.replicas(partition)

    def misses(replicas: Sequence[int]) -> int:
        return instance.rack_misses(replicas, len(replicas), partition.pinned_brokers)

    for broker in after.homes(partition):
        for gone in reversed(replicas):
            others = [b if b != gone else broker for b in replicas]
            if misses(others) < misses(replicas):
                yield _ordered(instance, partition, others)


def _ordered(instance: Instance, partition: AuditPartition, replicas: Iterable[int]) -> Replicas:
    """A list with the first replica that it had, or else one that may lead, in front."""
    first = partition.replicas[0]
    return tuple(sorted(replicas, key=lambda b: (b != first, b not in instance.leading)))


def _crowds(after: After, targets: Targets) -> Iterator[tuple[Key, Violation]]:
    """Replicas that the plan puts where their topic has its most, and that could be elsewhere, or stay."""
    instance, most = after.instance, most_replicas(after.instance)
    for topic, broker, now, was in grown(instance, targets, most, first=None):
        detail = f"{plural(now, 'replica')} on broker {broker}, {was} before, {most[topic]} allowed"
        surplus = now - max(most[topic], was)
        for partition in _planned(instance, topic, targets):
            replicas = after.replicas(partition)
            if surplus and broker in set(replicas) - set(partition.replicas):
                others = ([b if b != broker else other for b in replicas] for other in after.homes(partition))
                ways = (_ordered(instance, partition, one) for one in others)
                better = _changed(after, partition, _no_worse(after, partition, ways))
                if better:
                    surplus -= 1
                    yield partition.key, Violation("topic_spread", topic, f"{detail}; {list(better)} would do")


def _led_crowds(after: After, targets: Targets) -> Iterator[tuple[Key, Violation]]:
    """Leaders that the plan puts where their topic has its most, and that could be elsewhere, or stay."""
    instance, most = after.instance, most_leaders(after.instance)
    for topic, broker, now, was in grown(instance, targets, most, first=1):
        detail = f"broker {broker} leads {plural(now, 'partition')}, {was} before, {most[topic]} allowed"
        surplus = now - max(most[topic], was)
        for partition in _planned(instance, topic, targets):
            replicas = after.replicas(partition)
            if surplus and replicas[0] == broker != partition.replicas[0]:
                ways = ((other, *(b for b in replicas if b != other)) for other in after.may_lead(partition))
                better = _changed(after, partition, ways)
                if better:
                    surplus -= 1
                    yield partition.key, Violation("topic_leader_spread", topic, f"{detail}; {list(better)} would do")


def _planned(instance: Instance, topic: str, targets: Targets) -> list[AuditPartition]:
    return [instance.partitions[key] for key in sorted(targets) if key[0] == topic]


def _no_worse(after: After, partition: AuditPartition, lists: Iterable[Replicas]) -> Iterator[Replicas]:
    """Lists that keep the rack rule as well as the plan's, and are its own where they name the same brokers."""
    pin, planned = partition.pinned_brokers, after.replicas(partition)
    most = after.instance.rack_misses(planned, len(planned), pin)
    for replicas in lists:
        if after.instance.rack_misses(replicas, len(replicas), pin) <= most:
            yield partition.replicas if set(replicas) == set(partition.replicas) else replicas
