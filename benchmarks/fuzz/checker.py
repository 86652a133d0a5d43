"""The rules of a plan once more, from the rows of a cluster and the documents alone: shares no code with the planner.

Each complaint is a sentence. What findings disclose (a replica that stays on a broker to be emptied, a pin or a
replication factor that could not be had) is excused; what was broken before may not get worse.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks.fuzz.odd_clusters import OddCluster, Row

Key = tuple[str, int]
Lists = dict[Key, list[int]]
Told = tuple[str, tuple[str | None, int | None], int | None]
LIVE = ("alive", "draining", "new")


def read(text: str) -> Lists:
    """Lists of a reassignment document."""
    entries = json.loads(text)["partitions"]
    lists = {(entry["topic"], entry["partition"]): list(entry["replicas"]) for entry in entries}
    if len(lists) < len(entries):
        raise ValueError("a partition stands twice in a document")
    return lists


def complaints(odd: OddCluster, findings: Iterable[Row], documents: Mapping[str, str]) -> list[str]:
    """What is wrong with documents: ``documents`` by path below the cluster's folder."""
    before = {(row["topic"], row["partition"]): row for row in odd.partitions}
    whole = read(documents["reassignment.json"]) if documents else {}
    waves = [read(text) for path, text in sorted(documents.items()) if path.endswith("/reassignment.json")]
    back = read(documents["rollback.json"]) if "rollback.json" in documents else {}
    stuck = read(documents["rollback-not-possible.json"]) if "rollback-not-possible.json" in documents else {}
    return [
        *_of_lists(odd, before, whole, _told(findings)),
        *_of_waves(odd, before, waves, whole),
        *_of_rollback(odd, before, whole, back, stuck),
        *_of_wave_rollbacks(before, documents),
    ]


def _told(findings: Iterable[Row]) -> set[Told]:
    """What findings say of partitions: of a broker, and of any."""
    rows = [(row["code"], (row["topic"], row["partition"]), row["broker_id"]) for row in findings]
    return {*rows, *((code, key, None) for code, key, _ in rows)}


def _of_lists(odd: OddCluster, before: Mapping[Key, Row], whole: Lists, told: set[Told]) -> Iterator[str]:
    """Every partition after the plan."""
    hosts = odd.hosts
    for key in whole.keys() - before.keys():
        yield f"{key} is unknown"
    for key, row in before.items():
        old: list[int] = row["replicas"]
        new, name = whole.get(key, old), f"{key[0]}-{key[1]}"
        if key in whole:
            yield from _of_changed(hosts, row, new, name)
        on_leaving = [b for b in new if hosts[b]["must_empty"]]
        yield from (f"{name} stays on {b}, untold" for b in on_leaving if ("not_emptied", key, b) not in told)
        if len(new) != row["replication_factor"] and ("not_resized", key, None) not in told:
            yield f"{name} has {len(new)} replicas, {row['replication_factor']} are asked"
        outside = [b for b in new if row["pinned_brokers"] is not None and b not in row["pinned_brokers"]]
        if outside and row["mobility"] == "free" and ("not_pinned", key, None) not in told:
            yield f"{name} is outside its pin on {outside}, untold"
        worse = _rack_misses(odd, row, new) > (_rack_misses(odd, row, old) if key not in whole else 0)
        if worse and ("rack_spread", key, None) not in told:
            yield f"{name} on {new} breaks the rack rule, untold"


def _of_changed(hosts: Mapping[int, Row], row: Row, new: list[int], name: str) -> Iterator[str]:
    """A partition that the plan names."""
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
            yield f"{name}: broker {broker} takes nothing"
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


def _rack_misses(odd: OddCluster, row: Row, replicas: list[int]) -> int:
    """Replicas over the most that a rack may hold, and under the least, as the most even spread has it."""
    hosts = odd.hosts
    open_ = [b for b in odd.brokers if b["accepts_replicas"]]
    has_racks = all(b["rack"] is not None for b in open_)
    rack = {b: (host["rack"] or b) if has_racks else b for b, host in hosts.items()}
    allowed = row["pinned_brokers"]
    taking = [b["broker_id"] for b in open_ if allowed is None or b["broker_id"] in allowed]
    staying = [b for b, h in hosts.items() if not h["must_empty"] and (allowed is None or b in allowed)]
    wanted = len(replicas)
    sizes = Counter(rack[b] for b in (taking if wanted <= len(taking) else staying))
    least_cap = next((k for k in range(1, wanted + 1) if sum(min(k, n) for n in sizes.values()) >= wanted), wanted)
    counts = Counter(rack[b] for b in replicas)
    racks = Counter(rack[b] for b in taking)
    floor = wanted // len(racks) if racks and wanted > len(racks) else 0
    over = sum(max(n - least_cap, 0) for n in counts.values())
    return over + sum(max(min(floor, n) - counts[name], 0) for name, n in racks.items())


def _of_waves(odd: OddCluster, before: Mapping[Key, Row], waves: list[Lists], whole: Lists) -> Iterator[str]:
    """Waves in order: each partition once, disks while both copies exist, copies, and where they end."""
    most = None if odd.settings.schedule.waves else odd.settings.schedule.max_moves_per_wave
    if odd.settings.schedule.waves and len(waves) > odd.settings.schedule.waves:
        yield f"{len(waves)} waves, {odd.settings.schedule.waves} are asked"
    now = {key: row["replicas"] for key, row in before.items()}
    start, done = _used(before, now), set[Key]()
    for number, wave in enumerate(waves, 1):
        yield from (f"{key} is in two waves" for key in done & wave.keys())
        done |= wave.keys()
        both = now | {key: sorted({*now[key], *new}) for key, new in wave.items()}
        copies = sum(len(set(new) - set(now[key])) for key, new in wave.items())
        if most is not None and copies > most and len([k for k, new in wave.items() if set(new) - set(now[k])]) > 1:
            yield f"wave {number} starts {copies} copies, {most} are allowed"
        yield from _of_disks(odd, number, start, _used(before, now), _used(before, both))
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
    odd: OddCluster, number: int, start: Counter[int], now: Counter[int], both: Counter[int]
) -> Iterator[str]:
    for broker, host in odd.hosts.items():
        capacity = host["disk_capacity_bytes"]
        if capacity is not None and both[broker] > now[broker]:
            limit = max(int(capacity * (1 - odd.settings.policy.disk_headroom)), start[broker])
            if both[broker] > limit:
                yield f"wave {number} fills broker {broker}: {both[broker]} of {limit}"


def _of_rollback(odd: OddCluster, before: Mapping[Key, Row], whole: Lists, back: Lists, stuck: Lists) -> Iterator[str]:
    """The way back ends at the start, but for what names a broker that does not live."""
    if back.keys() & stuck.keys() or {*back, *stuck} != whole.keys():
        yield "rollback and rollback-not-possible are not together the plan"
    for key, replicas in [*back.items(), *stuck.items()]:
        if key in before and replicas != before[key]["replicas"]:
            yield f"the rollback of {key} goes to {replicas}"
    live = {b for b, host in odd.hosts.items() if host["state"] in LIVE}
    yield from (f"the rollback of {key} names a broker that does not live" for key in back if set(back[key]) - live)
    yield from (f"the rollback of {key} is possible" for key in stuck if not set(stuck[key]) - live)


def _of_wave_rollbacks(before: Mapping[Key, Row], documents: Mapping[str, str]) -> Iterator[str]:
    """The rollback of a wave names its partitions alone, with their old lists."""
    for path, text in documents.items():
        if path.endswith("/rollback.json"):
            wave, back = read(documents[path.replace("rollback", "reassignment")]), read(text)
            wrong: list[Any] = [key for key, old in back.items() if key not in wave or old != before[key]["replicas"]]
            yield from (f"{path} takes {key} elsewhere" for key in wrong)
