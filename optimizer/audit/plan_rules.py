"""The rules, one function each. They compare the documents with the instance and yield violations."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from optimizer.audit.claims import (
    FIXED,
    FORCED_ONLY,
    ORDER_ONLY,
    RACKS_ONLY,
    AuditPartition,
    Excess,
    Key,
    Violation,
)
from optimizer.audit.instance import Instance
from optimizer.audit.read_documents import Entry, PlanDocument, name
from optimizer.kafka.partition_state import complete, start
from optimizer.units import plural

Targets = Mapping[Key, tuple[int, ...]]


def check_entry(instance: Instance, entry: Entry) -> Iterator[Violation]:
    """The rules about one partition that need only its old and new replica list."""
    before = instance.partitions.get(entry.key)
    if before is None:
        yield Violation("known_partition", name(entry.key), "the cluster has no such partition")
        return
    yield from _brokers(instance, before, entry.replicas)
    yield from _mobility(instance, before, entry.replicas)
    yield from _factor(before, entry.replicas)
    yield from _racks(instance, before, entry.replicas)
    yield from _leader(instance, before, entry.replicas)
    yield from _in_sync(instance, before, entry.replicas)


def _brokers(instance: Instance, before: AuditPartition, replicas: tuple[int, ...]) -> Iterator[Violation]:
    """Brokers are distinct, known and live. Added brokers accept replicas."""
    subject = name(before.key)
    if len(set(replicas)) < len(replicas):
        yield Violation("distinct", subject, f"{list(replicas)} names a broker twice")
    for broker in dict.fromkeys(replicas):
        added = broker not in before.replicas
        if broker not in instance.brokers:
            yield Violation("known_broker", subject, f"broker {broker} is not in the cluster")
        elif broker not in instance.living:
            state = instance.brokers[broker].state
            yield Violation("living_broker", subject, f"broker {broker} is {state}: Kafka refuses it")
        elif added and (broker not in instance.accepting or broker in instance.to_empty):
            yield Violation("accepts_replicas", subject, f"broker {broker} may not receive a replica")
        elif added and before.pinned_brokers is not None and broker not in before.pinned_brokers:
            yield Violation("pin", subject, f"broker {broker} is not one of {sorted(before.pinned_brokers)}")


def _mobility(instance: Instance, before: AuditPartition, replicas: tuple[int, ...]) -> Iterator[Violation]:
    """Fixed partitions stay, excluded ones only leave brokers to empty, and each named partition changes."""
    subject = name(before.key)
    if before.mobility == FIXED:
        yield Violation("fixed", subject, "the plan names a partition that must not move")
    elif replicas == before.replicas:
        yield Violation("needless", subject, "the plan names it but does not change it")
    elif before.mobility == FORCED_ONLY:
        yield from _forced_only(instance, before, replicas)
    elif before.mobility == ORDER_ONLY and set(replicas) != set(before.replicas):
        yield Violation(
            "order_only", subject, f"only the order of its replicas may change, not the brokers: {list(replicas)}"
        )
    elif before.mobility == RACKS_ONLY:
        yield from _racks_only(instance, before, replicas)


def _forced_only(instance: Instance, before: AuditPartition, replicas: tuple[int, ...]) -> Iterator[Violation]:
    subject = name(before.key)
    needless = [b for b in before.replicas if b not in replicas and b not in instance.to_empty]
    if needless:
        yield Violation("excluded", subject, f"it is excluded, yet leaves brokers {needless}, which stay")
    unforced = not instance.to_empty & set(before.replicas)
    if unforced and not needless:
        yield Violation("excluded", subject, "it is excluded and nothing forces a change")
    first = before.replicas[0]
    if not unforced and first in replicas and first != replicas[0] and first in instance.leading:
        yield Violation("excluded", subject, f"it is excluded, yet its preferred leader {first} changes")


def _racks_only(instance: Instance, before: AuditPartition, replicas: tuple[int, ...]) -> Iterator[Violation]:
    """The list comes closer to the rack rule without needless copies, and a preferred leader that stays leads."""
    subject, first = name(before.key), before.replicas[0]
    was = instance.rack_misses(before.replicas, len(before.replicas), before.pinned_brokers)
    gain = was - instance.rack_misses(replicas, len(replicas), before.pinned_brokers)
    removed = set(before.replicas) - set(replicas)
    if gain <= 0 and not removed & instance.to_empty:
        yield Violation("racks_only", subject, f"only its racks may be repaired, but {list(replicas)} repairs none")
    if len(removed - instance.to_empty) > gain:
        yield Violation("racks_only", subject, f"{sorted(removed)} lose their replicas to repair {gain} in their racks")
    if first in replicas and first != replicas[0] and first in instance.leading:
        yield Violation("racks_only", subject, f"its preferred leader {first} stays but no longer leads")


def _factor(before: AuditPartition, replicas: tuple[int, ...]) -> Iterator[Violation]:
    if len(replicas) != before.replication_factor:
        expected = f"{plural(len(before.replicas), 'replica')} now, {before.replication_factor} requested"
        yield Violation(
            "replication_factor", name(before.key), f"{plural(len(replicas), 'replica')} planned; {expected}"
        )


def _racks(instance: Instance, before: AuditPartition, replicas: tuple[int, ...]) -> Iterator[Violation]:
    """The rack rule is met, or was broken before and is no worse. Each list is judged by its own length.

    A list that gets longer may break the rule if every list of that length breaks it.
    """
    misses = instance.rack_misses(replicas, len(replicas), before.pinned_brokers)
    was = instance.rack_misses(before.replicas, len(before.replicas), before.pinned_brokers)
    if misses > was and misses > instance.least_misses(before, len(replicas)):
        detail = f"{list(replicas)}: {plural(misses, 'replica')} against the rack rule, {was} before"
        yield Violation("racks", name(before.key), detail)


def _leader(instance: Instance, before: AuditPartition, replicas: tuple[int, ...]) -> Iterator[Violation]:
    """A new preferred leader accepts leadership, if any of the replicas does that may lead."""
    first, others = replicas[0], set(replicas) - (before.out_of_sync - before.elr)
    if first != before.replicas[0] and first not in instance.leading and instance.leading & others:
        yield Violation("leadership", name(before.key), f"broker {first} may not become preferred leader")


def _in_sync(instance: Instance, before: AuditPartition, replicas: tuple[int, ...]) -> Iterator[Violation]:
    """The list keeps as many in-sync replicas as it can, a new preferred leader has all committed records, and Kafka
    ends the reassignment. Added replicas get in sync before others leave."""
    if before.isr is None:
        return
    subject, stuck, in_sync = name(before.key), before.out_of_sync & set(replicas), before.isr & set(before.replicas)
    kept, needed = len(replicas) - len(stuck), min(len(in_sync), before.replication_factor)
    if kept < needed:
        detail = f"{list(replicas)} has {plural(kept, 'replica')} in sync, {needed} could be: {sorted(stuck)} are not"
        yield Violation("in_sync", subject, detail)
    if replicas[0] in stuck - before.elr - {before.replicas[0]}:
        yield Violation("leader_in_sync", subject, f"broker {replicas[0]} would lead, but its replica is out of sync")
    state = start(before.replicas, replicas)
    ends = complete(state, [*state.adding, *in_sync], instance.limits.completion)
    if (state.adding or state.removing) and ends is None:
        yield Violation("ends", subject, f"Kafka does not end a reassignment to {list(replicas)}: {sorted(stuck)}")


def outside_pins(instance: Instance, targets: Targets) -> list[AuditPartition]:
    """Partitions with a replica outside their pin, under a plan."""
    pinned = ((p, p.pinned_brokers) for p in instance.partitions.values() if p.pinned_brokers is not None)
    return [p for p, pin in pinned if not pin.issuperset(targets.get(p.key, p.replicas))]


def on_brokers_to_empty(instance: Instance, targets: Targets) -> list[AuditPartition]:
    """Partitions with a replica on a broker to empty, under a plan."""
    if not instance.to_empty:
        return []
    to_empty = instance.to_empty
    return [p for key, p in instance.partitions.items() if not to_empty.isdisjoint(targets.get(key, p.replicas))]


def check_waves(whole: PlanDocument | None, waves: Sequence[PlanDocument]) -> Iterator[Violation]:
    """The waves name every partition of the whole plan once, with the same replicas, and nothing else."""
    planned = {e.key: e.replicas for e in whole.entries} if whole else {}
    label_of: dict[Key, str] = {}
    for wave in waves:
        for entry in wave.entries:
            if entry.key in label_of:
                yield Violation("waves", name(entry.key), f"{wave.label} and {label_of[entry.key]} name it")
            label_of[entry.key] = wave.label
            if planned.get(entry.key) != entry.replicas:
                expected = planned.get(entry.key, "nothing")
                yield Violation(
                    "waves", name(entry.key), f"{wave.label} says {entry.replicas}, the whole plan {expected}"
                )
    for key in planned.keys() - label_of.keys():
        yield Violation("waves", name(key), "no wave names it")


def check_rollback(
    instance: Instance, whole: PlanDocument | None, rollback: PlanDocument | None
) -> Iterator[Violation]:
    """The rollback names the plan's partitions, each with its old replica list.

    It leaves out exactly the partitions that were on a broker that is down: Kafka refuses a document that names one.
    """
    planned = {e.key for e in whole.entries} if whole else set()
    restored = {e.key: e.replicas for e in rollback.entries} if rollback else {}
    for key in sorted(planned - restored.keys()):
        partition = instance.partitions.get(key)
        if partition is None or instance.living.issuperset(partition.replicas):
            yield Violation("rollback", name(key), "the rollback does not name it")
    for key, replicas in restored.items():
        before = instance.partitions.get(key)
        if key not in planned or before is None:
            yield Violation("rollback", name(key), "the plan does not name it")
        elif replicas != before.replicas:
            yield Violation("rollback", name(key), f"restores {replicas}, the cluster has {before.replicas}")
        elif not instance.living.issuperset(replicas):
            down = sorted(set(replicas) - instance.living)
            yield Violation("rollback", name(key), f"restores {replicas}: Kafka refuses it while {down} are down")


def check_capacity(instance: Instance, waves: Sequence[PlanDocument]) -> Iterator[Violation]:
    """During and after every wave no disk is above its limit, or above its bytes before the plan if they are more."""
    used = Counter(instance.disk_bytes)
    for number, wave in enumerate(waves, start=1):
        added, removed = _transfers(instance, wave)
        for broker, bytes_in in sorted(added.items()):
            limit = instance.disk_limit(broker)
            if limit is None:
                continue
            allowed = max(limit, instance.disk_bytes.get(broker, 0))
            for rule, load in (
                ("capacity_during", used[broker] + bytes_in),
                ("capacity_after", used[broker] + bytes_in - removed[broker]),
            ):
                if load > allowed:
                    detail = f"{plural(load, 'byte')} in {wave.label}, {allowed:,} allowed"
                    excess = Excess(load, allowed, number)
                    yield Violation(rule, f"broker {broker}", detail, excess=excess)
        used.update(added)
        used.subtract(removed)


def _transfers(instance: Instance, wave: PlanDocument) -> tuple[Counter[int], Counter[int]]:
    """Bytes that each broker gets and loses in one wave."""
    added: Counter[int] = Counter()
    removed: Counter[int] = Counter()
    for entry in wave.entries:
        before = instance.partitions.get(entry.key)
        if before is None:
            continue
        for broker in set(entry.replicas) - set(before.replicas):
            added[broker] += before.size_bytes
        for broker in set(before.replicas) - set(entry.replicas):
            removed[broker] += before.size_bytes
    return added, removed


def check_wave_sizes(instance: Instance, waves: Sequence[PlanDocument]) -> Iterator[Violation]:
    """No wave starts more copies than allowed, unless all copies are of one partition."""
    most = instance.limits.max_moves_per_wave
    for wave in waves:
        known = [e for e in wave.entries if e.key in instance.partitions]
        added = [len(set(e.replicas) - set(instance.partitions[e.key].replicas)) for e in known]
        if most is not None and sum(added) > most and sum(n > 0 for n in added) > 1:
            yield Violation("wave_size", wave.label, f"{sum(added)} copies, {most} allowed")
