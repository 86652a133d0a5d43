"""Partitions that break a rule after the plan: the audit finds an excuse, or they are unexplained.

The audit does not trust the findings. For each partition that still breaks a rule, it searches one more change, of this
partition alone, that would fix it: to brokers that accept replicas, within the pin, the racks and the topic limit.

A partition is excused if there is no such change, if the limit does not allow to copy all its replicas, or if a disk
has no space for one of the changes: the documents do not show what the planner tried. A disk excuses only as many bytes
as may have been planned for it. A disk has no space either if none of its directories has. All other partitions are
unexplained.

A change that is found is applied before the next search, the smallest partitions first. So all changes together are one
larger plan.
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
class Repairs:
    """The partitions that a plan fixes, and those that it leaves without an excuse.

    Parameters
    ----------
    repaired : int
        Partitions that broke a rule before the plan (a replica where none may stay, the wrong number of replicas, or
        the rack rule) and break none after it.
    unexplained : mapping of key to Violation
        Partitions that one more change would fix.
    """

    repaired: int
    unexplained: dict[Key, Violation]

    @property
    def repairable(self) -> int:
        """Partitions that the plan fixes or could fix."""
        return self.repaired + len(self.unexplained)

    @property
    def share(self) -> float:
        """Share of ``unexplained`` in ``repairable``, 0 to 1."""
        return len(self.unexplained) / max(self.repairable, 1)


def unexplained(
    *,
    brokers: Sequence[AuditBroker],
    partitions: Sequence[AuditPartition],
    targets: Targets,
    limits: AuditLimits,
) -> dict[Key, Violation]:
    """Partitions that a plan leaves without an excuse, each with a list that would fix it.

    Parameters
    ----------
    brokers, partitions : sequences
        The cluster before the plan.
    targets : mapping
        New lists of the partitions that the plan changes.
    limits : AuditLimits
    """
    return find_repairs(Instance(brokers=brokers, partitions=partitions, limits=limits), targets).unexplained


def find_repairs(instance: Instance, targets: Targets) -> Repairs:
    """Count the partitions that the plan fixes, and find those that it leaves without an excuse."""
    after = After(instance, targets)
    unexplained: dict[Key, Violation] = {}
    for key, violation in (*_undone(after), *_crowds(after, targets), *_led_crowds(after, targets)):
        unexplained.setdefault(key, violation)
    repaired = {key for key, replicas in targets.items() if _is_repaired(instance, instance.partitions[key], replicas)}
    return Repairs(len(repaired - unexplained.keys()), unexplained)


def _is_repaired(instance: Instance, partition: AuditPartition, replicas: Replicas) -> bool:
    return bool(defect(instance, partition, partition.replicas)) and not defect(instance, partition, replicas)


def defect(instance: Instance, partition: AuditPartition, replicas: Replicas) -> str:
    """The first rule that a list breaks and that a plan may fix under the partition's mobility; else empty."""
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
    """Partitions with a defect and without an excuse."""
    instance = after.instance
    rows = ((p, defect(instance, p, after.replicas(p))) for p in instance.partitions.values())
    for partition, rule in sorted((row for row in rows if row[1]), key=lambda row: (row[0].size_bytes, row[0].key)):
        if after.affords(partition):
            before = after.replicas(partition)
            lists = _even_lists(after, partition) if rule == RACKS else _repaired_lists(after, partition)
            better = _change_to_last(after, partition, lists)
            if better:
                detail = _describe(instance, partition, before, rule)
                yield partition.key, Violation(rule, name(partition.key), f"{detail}; {list(better)} would fix it")


def _describe(instance: Instance, partition: AuditPartition, replicas: Replicas, rule: str) -> str:
    if rule == DRAIN:
        return f"replicas stay on brokers {sorted(instance.to_empty & set(replicas))}, which must be emptied"
    if rule == PIN:
        pin = partition.pinned_brokers or frozenset()
        return f"replicas stay on brokers {sorted(set(replicas) - pin)}, outside {sorted(pin)}"
    if rule == FACTOR:
        return f"{_staying(len(replicas))}, {partition.replication_factor} requested"
    misses = instance.rack_misses(replicas, len(replicas), partition.pinned_brokers)
    return f"{list(replicas)}: {_staying(misses)} against the rack rule"


def _staying(replicas: int) -> str:
    return clause(replicas, "replica", "stays", "stay")


def _change_to_last(after: After, partition: AuditPartition, lists: Iterable[Replicas]) -> Replicas | None:
    """Give the partition the last list that breaks no rule, and return it; None if the disks have no space for any."""
    last = None
    for replicas in lists:
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
    entry = Entry(partition.key, replicas)
    return _breaks_racks_more(instance, partition, replicas) or any(check_entry(instance, entry))


def _breaks_racks_more(instance: Instance, partition: AuditPartition, replicas: Replicas) -> bool:
    """Whether a list of the same length breaks the rack rule more than before, which no drain justifies."""
    length, pin = len(partition.replicas), partition.pinned_brokers
    was, now = (instance.rack_misses(brokers, length, pin) for brokers in (partition.replicas, replicas))
    return len(replicas) == length and now > was


def _repaired_lists(after: After, partition: AuditPartition) -> Iterator[Replicas]:
    """Lists of the requested length: the replicas that may stay, and new ones that keep the racks even.

    New brokers are added one after the other, each the best for the racks. There is a list for each broker that may be
    added first.
    """
    instance, length = after.instance, partition.replication_factor
    pin = partition.pinned_brokers if partition.mobility == FREE else None
    removed = [b for b in partition.replicas if b in partition.out_of_sync][: max(0, len(partition.replicas) - length)]
    staying = [
        b
        for b in after.replicas(partition)
        if b not in instance.to_empty and (pin is None or b in pin) and b not in removed
    ]

    def misses(replicas: Sequence[int]) -> int:
        return instance.rack_misses(replicas, length, partition.pinned_brokers)

    while len(staying) > length:
        staying = min(([b for b in staying if b != dropped] for dropped in reversed(staying)), key=misses)
    homes = after.homes(partition)
    next_racks: dict[tuple[str | None, ...], str | None] = {}

    def with_best_rack(replicas: list[int]) -> list[int]:
        """Add the broker that is best for the racks.

        One broker of each rack is tried, once for lists on the same racks.
        """
        racks = tuple(instance.rack(b) for b in replicas)
        if racks not in next_racks:
            broker_of = {instance.rack(b): b for b in reversed(homes) if b not in replicas}
            lists = [[*replicas, broker_of[rack]] for rack in reversed(broker_of)]
            best = next((tried for tried in lists if not misses(tried)), None) or min(lists, key=misses)
            next_racks[racks] = instance.rack(best[-1])
        added = (b for b in homes if instance.rack(b) == next_racks[racks] and b not in replicas)
        return [*replicas, next(added)]

    for longer in [[*staying, added] for added in homes] if len(staying) < length else [staying]:
        while len(longer) < length and len(homes) >= length - len(staying):
            longer = with_best_rack(longer)
        yield _ordered(instance, partition, longer)


def _even_lists(after: After, partition: AuditPartition) -> Iterator[Replicas]:
    """Lists with one replica moved that break the rack rule less."""
    instance, replicas = after.instance, after.replicas(partition)

    def misses(replicas: Sequence[int]) -> int:
        return instance.rack_misses(replicas, len(replicas), partition.pinned_brokers)

    for broker in after.homes(partition):
        for removed in reversed(replicas):
            changed = [b if b != removed else broker for b in replicas]
            if misses(changed) < misses(replicas):
                yield _ordered(instance, partition, changed)


def _ordered(instance: Instance, partition: AuditPartition, replicas: Iterable[int]) -> Replicas:
    """The list with its old first replica in front, or else with one in sync on a broker that accepts leadership."""
    first, stuck = partition.replicas[0], partition.out_of_sync
    return tuple(sorted(replicas, key=lambda b: (b != first, b in stuck, b not in instance.leading)))


def _crowds(after: After, targets: Targets) -> Iterator[tuple[Key, Violation]]:
    """Replicas that the plan puts on a crowded broker although they could be on another one, or stay."""
    instance, most = after.instance, most_replicas(after.instance)
    for topic, broker, now, was in grown(instance, targets, most, first=None):
        detail = f"{plural(now, 'replica')} on broker {broker}, {was} before, {most[topic]} allowed"
        surplus = now - max(most[topic], was)
        for partition in _planned(instance, topic, targets):
            replicas = after.replicas(partition)
            if surplus and broker in set(replicas) - set(partition.replicas):
                moved = ([b if b != broker else home for b in replicas] for home in after.homes(partition))
                lists = (_ordered(instance, partition, brokers) for brokers in moved)
                better = _change_to_last(after, partition, _no_worse(after, partition, lists))
                if better:
                    surplus -= 1
                    yield partition.key, Violation("topic_spread", topic, f"{detail}; {list(better)} would fix it")


def _led_crowds(after: After, targets: Targets) -> Iterator[tuple[Key, Violation]]:
    """Leaders that the plan puts on a crowded broker although another replica could lead."""
    instance, most = after.instance, most_leaders(after.instance)
    for topic, broker, now, was in grown(instance, targets, most, first=1):
        detail = f"broker {broker} leads {plural(now, 'partition')}, {was} before, {most[topic]} allowed"
        surplus = now - max(most[topic], was)
        for partition in _planned(instance, topic, targets):
            replicas = after.replicas(partition)
            if surplus and replicas[0] == broker != partition.replicas[0]:
                lists = ((leader, *(b for b in replicas if b != leader)) for leader in after.may_lead(partition))
                better = _change_to_last(after, partition, lists)
                if better:
                    surplus -= 1
                    yield (
                        partition.key,
                        Violation("topic_leader_spread", topic, f"{detail}; {list(better)} would fix it"),
                    )


def _planned(instance: Instance, topic: str, targets: Targets) -> list[AuditPartition]:
    return [instance.partitions[key] for key in sorted(targets) if key[0] == topic]


def _no_worse(after: After, partition: AuditPartition, lists: Iterable[Replicas]) -> Iterator[Replicas]:
    """Lists that break the rack rule no more than the plan's. If one has the old brokers, the old list is used."""
    pin, planned = partition.pinned_brokers, after.replicas(partition)
    most = after.instance.rack_misses(planned, len(planned), pin)
    for replicas in lists:
        if after.instance.rack_misses(replicas, len(replicas), pin) <= most:
            yield partition.replicas if set(replicas) == set(partition.replicas) else replicas
