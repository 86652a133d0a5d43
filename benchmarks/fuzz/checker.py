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
    whole = read(documents["reassignment.json"]) if "reassignment.json" in documents else {}
    waves = [read(text) for path, text in sorted(documents.items()) if path.endswith("/reassignment.json")]
    rollback = read(documents["rollback.json"]) if "rollback.json" in documents else {}
    not_reversible = read(documents["rollback-not-possible.json"]) if "rollback-not-possible.json" in documents else {}
    used = _in_directories(cluster)
    return [
        *_of_lists(cluster, before, whole, _disclosed(findings)),
        *_of_waves(cluster, before, waves, whole),
        *_of_rollback(cluster, before, whole, rollback, not_reversible),
        *_of_wave_rollbacks(before, documents),
        *_of_directories(cluster, before, documents, used),
        *_of_inside(cluster, before, whole, documents, used),
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
            yield from _of_changed(hosts, row, new, name, cluster.kafka_version)
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


def _of_changed(hosts: Mapping[int, Row], row: Row, new: list[int], name: str, version: str) -> Iterator[str]:
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
    yield from _out_of_sync(row, new, name, needs_all=version != "4.3")
    if row["mobility"] == "forced_only" and any(not hosts[b]["must_empty"] for b in set(old) - set(new)):
        yield f"{name} is excluded and leaves a broker that stays"
    if (
        new[0] != old[0]
        and not hosts[new[0]]["accepts_leadership"]
        and any(hosts[b]["accepts_leadership"] for b in new if b in row["isr"] or b not in old)
    ):
        yield f"{name}: {new[0]} may not lead"


def _out_of_sync(row: Row, new: list[int], name: str, *, needs_all: bool) -> Iterator[str]:
    """Replicas out of sync: too many stay, a new leader is one, or Kafka would wait for one without end."""
    old, isr = set(row["replicas"]), set(row["isr"])
    copied, lost = set(new) - old, old - set(new)
    stuck = set(new) - copied - isr
    if len(new) - len(stuck) < min(len(old & isr), row["replication_factor"]):
        yield f"{name}: {row['replicas']} -> {new} leaves fewer in sync than it could, ISR {row['isr']}"
    if new[0] != row["replicas"][0] and new[0] in stuck:
        yield f"{name}: the new leader {new[0]} is out of sync"
    if (copied or lost) and stuck and (needs_all or len(copied) < len(lost)):
        yield f"{name}: {row['replicas']} -> {new} never ends, ISR {row['isr']}"


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


def _in_directories(cluster: UnusualCluster) -> dict[tuple[int, str], int]:
    """Bytes in each directory before the plan."""
    return {
        (broker, entry["path"]): entry["used_bytes"]
        for broker, row in cluster.hosts.items()
        for entry in row["log_dirs"] or ()
    }


def _limit(cluster: UnusualCluster, broker: int, name: str) -> float:
    (entry,) = (entry for entry in cluster.hosts[broker]["log_dirs"] if entry["path"] == name)
    return float((entry["capacity_bytes"] or 2**62) * (1 - cluster.settings.policy.disk_headroom))


def _of_directories(
    cluster: UnusualCluster, before: Mapping[Key, Row], documents: Mapping[str, str], used: dict[tuple[int, str], int]
) -> Iterator[str]:
    """Each replica that arrives at a broker with several directories has one, with space for it in its wave.

    Changes ``used``.
    """
    for path in sorted(path for path in documents if path.endswith("/reassignment.json")):
        folder = path.removesuffix("reassignment.json")
        named = json.loads(documents.get(f"{folder}log-dirs.json", '{"replicas": []}'))["replicas"]
        places = {(entry["topic"], entry["partition"], entry["broker"]): entry["log_dir"] for entry in named}
        left = []
        for key, new in read(documents[path]).items():
            row = before[key]
            for broker in set(new) - set(row["replicas"]):
                dirs = cluster.hosts[broker]["log_dirs"] or ()
                if len(dirs) > 1 and any(entry["is_open"] for entry in dirs):
                    if (*key, broker) not in places:
                        yield f"{key} has no directory on broker {broker}"
                    else:
                        used[broker, places[*key, broker]] += row["size_bytes"]
            for broker, name in zip(row["replicas"], row["log_dirs"], strict=True):
                if broker not in new and name != "any":
                    left.append((broker, name, row["size_bytes"]))
        for broker, name in {(broker, name) for (_, _, broker), name in places.items()}:
            (entry,) = (entry for entry in cluster.hosts[broker]["log_dirs"] if entry["path"] == name)
            limit = _limit(cluster, broker, name)
            if not entry["is_open"] or used[broker, name] > limit:
                yield f"{folder} {name} of broker {broker} holds {used[broker, name]}, its limit is {limit:.0f}"
        for broker, name, size in left:
            used[broker, name] -= size


def _of_inside(
    cluster: UnusualCluster,
    before: Mapping[Key, Row],
    whole: Lists,
    documents: Mapping[str, str],
    used: dict[tuple[int, str], int],
) -> Iterator[str]:
    """Moves inside brokers: of partitions that nothing else moves, into directories with space for both copies."""
    last = max((path for path in documents if path.endswith("/reassignment.json")), default="")
    seen = set[Key](whole)
    for path in sorted(path for path in documents if path.endswith("/dir-moves.json")):
        if path.removesuffix("dir-moves.json") < last.removesuffix("reassignment.json"):
            yield f"{path} comes before {last}"
        moves = list[tuple[int, str, str, int]]()
        back = json.loads(documents[path.replace("dir-moves", "rollback-dir-moves")])["partitions"]
        for entry, old in zip(json.loads(documents[path])["partitions"], back, strict=True):
            key = (entry["topic"], entry["partition"])
            row = before[key]
            if key in seen or entry["replicas"] != row["replicas"] or row["mobility"] != "free":
                yield f"{path} moves {key} a second time, or to other brokers, or although it is fixed"
            seen.add(key)
            for broker, name, source, was in zip(
                row["replicas"], entry["log_dirs"], old["log_dirs"], row["log_dirs"], strict=True
            ):
                if name == source == "any":
                    continue
                moves.append((broker, source, name, row["size_bytes"]))
                host = cluster.hosts[broker]
                if source != was or name == was or "any" in (name, was):
                    yield f"{path} moves {key} on broker {broker} from {source} to {name}, it is in {was}"
                if host["state"] not in LIVE or host["must_empty"] or not all(d["is_open"] for d in host["log_dirs"]):
                    yield f"{path} moves {key} inside broker {broker}, which it should leave alone"
        for broker, _, name, size in moves:
            used[broker, name] += size
        for broker, name in {(broker, name) for broker, _, name, _ in moves}:
            if used[broker, name] > _limit(cluster, broker, name):
                yield f"{path}: {name} of broker {broker} holds {used[broker, name]}, over its limit"
        for broker, source, _, size in moves:
            used[broker, source] -= size
