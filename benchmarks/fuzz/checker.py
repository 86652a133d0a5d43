"""A second check of a plan, from the rows of a cluster and the documents only. It shares no code with the planner.

Each complaint is a sentence. Problems that findings disclose (a replica that stays on a broker to empty, a pin or a
replication factor that can't be met) are excused. Rules that were broken before may not get worse.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks.fuzz.unusual_clusters import Row, UnusualCluster

Key = tuple[str, int]
Lists = dict[Key, list[int]]
Disclosed = tuple[str, tuple[str | None, int | None], int | None]
LIVE = ("alive", "draining", "new")


def read(text: str) -> Lists:
    """Lists of a reassignment document."""
    entries = json.loads(text)["partitions"]
    lists = {(entry["topic"], entry["partition"]): list(entry["replicas"]) for entry in entries}
    if len(lists) < len(entries):
        raise ValueError("a document names a partition twice")
    return lists


def complaints(cluster: UnusualCluster, findings: Iterable[Row], documents: Mapping[str, str]) -> list[str]:
    """The problems of the documents; ``documents`` by path below the cluster's folder."""
    before = {(row["topic"], row["partition"]): row for row in cluster.partitions}
    whole = read(documents["reassignment.json"]) if documents else {}
    waves = [read(text) for path, text in sorted(documents.items()) if path.endswith("/reassignment.json")]
    rollback = read(documents["rollback.json"]) if "rollback.json" in documents else {}
    not_reversible = read(documents["rollback-not-possible.json"]) if "rollback-not-possible.json" in documents else {}
    return [
        *_of_lists(cluster, before, whole, _disclosed(findings)),
        *_of_waves(cluster, before, waves, whole),
        *_of_rollback(cluster, before, whole, rollback, not_reversible),
        *_of_wave_rollbacks(before, documents),
    ]


def _disclosed(findings: Iterable[Row]) -> set[Disclosed]:
    """Code, partition and broker of each finding; also without the broker."""
    rows = [(row["code"], (row["topic"], row["partition"]), row["broker_id"]) for row in findings]
    return {*rows, *((code, key, None) for code, key, _ in rows)}


def _of_lists(
    cluster: UnusualCluster, before: Mapping[Key, Row], whole: Lists, disclosed: set[Disclosed]
) -> Iterator[str]:
    """Every partition after the plan."""
    hosts = cluster.hosts
    for key in whole.keys() - before.keys():
        yield f"{key} is unknown"
    for key, row in before.items():
        old: list[int] = row["replicas"]
        new, name = whole.get(key, old), f"{key[0]}-{key[1]}"
        if key in whole:
            yield from _of_changed(hosts, row, new, name)
        on_leaving = [b for b in new if hosts[b]["must_empty"]]
        yield from (
            f"{name} stays on {b} without a finding" for b in on_leaving if ("not_emptied", key, b) not in disclosed
        )
        if len(new) != row["replication_factor"] and ("not_resized", key, None) not in disclosed:
            yield f"{name} has {len(new)} replicas, {row['replication_factor']} are requested"
        outside = [b for b in new if row["pinned_brokers"] is not None and b not in row["pinned_brokers"]]
        if outside and row["mobility"] == "free" and ("not_pinned", key, None) not in disclosed:
            yield f"{name} is outside its pin on {outside} without a finding"
        worse = _rack_misses(cluster, row, new) > (_rack_misses(cluster, row, old) if key not in whole else 0)
        if worse and ("rack_spread", key, None) not in disclosed:
            yield f"{name} on {new} breaks the rack rule without a finding"


def _of_changed(hosts: Mapping[int, Row], row: Row, new: list[int], name: str) -> Iterator[str]:
    """Check a partition that the plan changes."""
    old = row["replicas"]
    if row["mobility"] == "fixed" or new == old:
        yield f"{name} is {row['mobility']}, {old} -> {new}"
    if len(set(new)) < len(new) or not new:
        yield f"{name}: {new} names a broker twice, or none"
    for broker in new:
        host = hosts[broker]
        if host["state"] not in LIVE:
            yield f"{name}: broker {broker} is {host['state']}"
        elif broker not in old and not host["accepts_replicas"]:
            yield f"{name}: broker {broker} accepts no replica"
        elif broker not in old and row["pinned_brokers"] is not None and broker not in row["pinned_brokers"]:
            yield f"{name}: broker {broker} is outside its pin"
    if row["mobility"] == "forced_only" and any(not hosts[b]["must_empty"] for b in set(old) - set(new)):
        yield f"{name} is excluded and leaves a broker that stays"
    if (
        new[0] != old[0]
        and not hosts[new[0]]["accepts_leadership"]
        and any(hosts[b]["accepts_leadership"] for b in new)
    ):
        yield f"{name}: {new[0]} may not lead"


def _rack_misses(cluster: UnusualCluster, row: Row, replicas: list[int]) -> int:
    """Replicas above the maximum of a rack and below its minimum, for the most even spread."""
    hosts = cluster.hosts
    open_ = [b for b in cluster.brokers if b["accepts_replicas"]]
    has_racks = all(b["rack"] is not None for b in open_)
    rack = {b: (host["rack"] or b) if has_racks else b for b, host in hosts.items()}
    allowed = row["pinned_brokers"]
    taking = [b["broker_id"] for b in open_ if allowed is None or b["broker_id"] in allowed]
    staying = [b for b, h in hosts.items() if not h["must_empty"] and (allowed is None or b in allowed)]
    factor = len(replicas)
    sizes = Counter(rack[b] for b in (taking if factor <= len(taking) else staying))
    rack_limit = next((k for k in range(1, factor + 1) if sum(min(k, n) for n in sizes.values()) >= factor), factor)
    counts = Counter(rack[b] for b in replicas)
    racks = Counter(rack[b] for b in taking)
    floor = factor // len(racks) if racks and factor > len(racks) else 0
    over = sum(max(n - rack_limit, 0) for n in counts.values())
    return over + sum(max(min(floor, n) - counts[name], 0) for name, n in racks.items())


def _of_waves(cluster: UnusualCluster, before: Mapping[Key, Row], waves: list[Lists], whole: Lists) -> Iterator[str]:
    """Check the waves in order: partitions, disks while old and new copies exist, copies, and the final lists."""
    most = None if cluster.settings.schedule.waves else cluster.settings.schedule.max_moves_per_wave
    if cluster.settings.schedule.waves and len(waves) > cluster.settings.schedule.waves:
        yield f"{len(waves)} waves, {cluster.settings.schedule.waves} are requested"
    now = {key: row["replicas"] for key, row in before.items()}
    start, done = _used(before, now), set[Key]()
    for number, wave in enumerate(waves, 1):
        yield from (f"{key} is in two waves" for key in done & wave.keys())
        done |= wave.keys()
        during = now | {key: sorted({*now[key], *new}) for key, new in wave.items()}
        copies = sum(len(set(new) - set(now[key])) for key, new in wave.items())
        if most is not None and copies > most and len([k for k, new in wave.items() if set(new) - set(now[k])]) > 1:
            yield f"wave {number} starts {copies} copies, {most} are allowed"
        yield from _of_disks(cluster, number, start, _used(before, now), _used(before, during))
        now |= wave
    if {key: now[key] for key in whole} != whole or done != whole.keys():
        yield "the waves don't end at the plan"


def _used(before: Mapping[Key, Row], lists: Mapping[Key, list[int]]) -> Counter[int]:
    used: Counter[int] = Counter()
    for key, replicas in lists.items():
        for broker in replicas:
            used[broker] += before[key]["size_bytes"]
    return used


def _of_disks(
    cluster: UnusualCluster, number: int, start: Counter[int], now: Counter[int], during: Counter[int]
) -> Iterator[str]:
    for broker, host in cluster.hosts.items():
        capacity = host["disk_capacity_bytes"]
        if capacity is not None and during[broker] > now[broker]:
            limit = max(int(capacity * (1 - cluster.settings.policy.disk_headroom)), start[broker])
            if during[broker] > limit:
                yield f"wave {number} fills broker {broker}: {during[broker]} of {limit}"


def _of_rollback(
    cluster: UnusualCluster, before: Mapping[Key, Row], whole: Lists, rollback: Lists, not_reversible: Lists
) -> Iterator[str]:
    """The rollback restores the old lists, except for lists that name a broker that is down."""
    if rollback.keys() & not_reversible.keys() or {*rollback, *not_reversible} != whole.keys():
        yield "rollback and rollback-not-possible are not together the plan"
    for key, replicas in [*rollback.items(), *not_reversible.items()]:
        if key in before and replicas != before[key]["replicas"]:
            yield f"the rollback of {key} goes to {replicas}"
    live = {b for b, host in cluster.hosts.items() if host["state"] in LIVE}
    yield from (f"the rollback of {key} names a broker that is down" for key in rollback if set(rollback[key]) - live)
    yield from (f"the rollback of {key} is possible" for key in not_reversible if not set(not_reversible[key]) - live)


def _of_wave_rollbacks(before: Mapping[Key, Row], documents: Mapping[str, str]) -> Iterator[str]:
    """The rollback of a wave names only its partitions, with their old lists."""
    for path, text in documents.items():
        if path.endswith("/rollback.json"):
            wave, rollback = read(documents[path.replace("rollback", "reassignment")]), read(text)
            wrong: list[Any] = [
                key for key, old in rollback.items() if key not in wave or old != before[key]["replicas"]
            ]
            yield from (f"{path} takes {key} elsewhere" for key in wrong)
