"""Small unusual clusters from a seed: rows as the snapshot writes them for the solver, and settings."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.rows import broker_row, partition_row
from optimizer.domain import NOT_LIVE, OFFSETS, Cause
from optimizer.planning.arrays import to_brokers
from optimizer.settings import ClusterInput, Policy, Schedule, Settings
from optimizer.solve.rules.racks import busiest_share, live_rack_sizes
from optimizer.units import plural

Row = dict[str, Any]
CLUSTER = "odd"
STATES = ("alive", "draining", "dead", "fenced")
KB = 1000  # bytes


@dataclass(frozen=True)
class UnusualCluster:
    """Rows of ``instance`` and ``instance_brokers``, and the settings.

    Partitions that wait for replicas out of sync are not marked: the planner must find out itself.
    """

    partitions: tuple[Row, ...]
    brokers: tuple[Row, ...]
    settings: Settings
    kafka_version: str = ""

    @property
    def run_settings(self) -> Settings:
        """The settings with the cluster."""
        cluster = ClusterInput(id=CLUSTER, input="/unused", kafka_version=self.kafka_version)
        return replace(self.settings, clusters=(cluster,))

    @property
    def hosts(self) -> Mapping[int, Row]:
        """Brokers by id."""
        return {row["broker_id"]: row for row in self.brokers}


def unusual_cluster(seed: int, settings: Settings | None = None) -> UnusualCluster:
    """Three to six brokers, up to six partitions. The settings are drawn, too, unless they are given."""
    draw = random.Random(seed)
    brokers = _brokers(draw)
    partitions = _partitions(draw, brokers)
    _limit_disks(draw, brokers, partitions)
    return _with_requests(
        draw, brokers, partitions, settings=settings, waves=(0, 0, 0, 1, 2, 3), spreads=(0.0, 0.0, 1.0, 1.5)
    )


def full_cluster(seed: int) -> UnusualCluster:
    """Three to eight brokers, six to thirty partitions. Racks are too small, full, or have one broker."""
    draw = random.Random(seed)
    sizes = draw.choice(([3, 3, 1], [2, 2, 1], [3, 2, 1], [4, 1], [2, 2, 2], [1, 1, 1], [1, 1, 1, 1, 1], [2, 1, 1, 1]))
    racks = [f"r{rack}" for rack, size in enumerate(sizes) for _ in range(size)]
    kinds = draw.choices(("alive", "draining", "dead", "excluded"), (90, 5, 2, 3), k=len(racks))
    kinds[draw.randrange(len(racks))] = "alive"
    brokers = [_broker(i, rack, kind) for i, (rack, kind) in enumerate(zip(racks, kinds, strict=True))]
    partitions, factor = list[Row](), draw.randint(2, min(3, len(sizes)))
    for number in range(draw.randint(6, 30)):
        first = draw.randrange(len(racks))
        side_by_side = [(first + i) % len(racks) for i in range(factor)]
        replicas = draw.choice((side_by_side, draw.sample(range(len(racks)), factor)))
        partitions.append(_partition(draw, brokers, "t", number, replicas, draw.choice((5, 5, 1, 20)) * KB))
    _fill_disks(draw, brokers, partitions)
    return _with_requests(draw, brokers, partitions, settings=None, waves=(0, 0, 0, 0, 0, 1), spreads=(0.0,))


def with_directories(cluster: UnusualCluster, seed: int) -> UnusualCluster:
    """The cluster with one to three log directories for each broker: tight, unequal, closed, or of unknown size."""
    draw = random.Random(f"directories {seed}")
    partitions = tuple({**row, "log_dirs": ["any"] * len(row["replicas"])} for row in cluster.partitions)
    brokers = tuple({**row, "log_dirs": _log_dirs(draw, row, partitions)} for row in cluster.brokers)
    policy = replace(cluster.settings.policy, balance_dirs=draw.random() < 0.5, dir_band=draw.choice((0.1, 0.4)))
    settings = replace(cluster.settings, policy=policy)
    return replace(cluster, partitions=partitions, brokers=brokers, settings=settings)


def _log_dirs(draw: random.Random, broker: Row, partitions: Iterable[Row]) -> list[Row]:
    """Draw the directories of a broker, and put its replicas into them; a tenth of the replicas is somewhere."""
    shares = [draw.choice((1, 1, 2)) for _ in range(draw.choice((1, 2, 2, 3)))]
    capacity, dirs = broker["disk_capacity_bytes"], list[Row]()
    for d, share in enumerate(shares):
        size = None if capacity is None else capacity * share // sum(shares) + 1
        is_open = d == 0 or draw.random() > 0.1
        dirs.append({"path": f"/d{d}", "capacity_bytes": size, "used_bytes": 0, "logs": 0, "is_open": is_open})
    for row in partitions:
        if broker["broker_id"] in row["replicas"]:
            log_dir = draw.choice(dirs)
            log_dir["used_bytes"] += row["size_bytes"]
            log_dir["logs"] += 1
            if draw.random() > 0.1:
                row["log_dirs"][row["replicas"].index(broker["broker_id"])] = log_dir["path"]
    return dirs


def jbod_cluster(seed: int) -> UnusualCluster:
    """A cluster of either kind, with directories."""
    return with_directories((full_cluster if seed % 2 else unusual_cluster)(seed), seed)


def tiered_cluster(seed: int) -> UnusualCluster:
    """A cluster of either kind. Two thirds of the partitions are tiered, and some brokers, all or none skip that."""
    cluster, draw = (full_cluster if seed % 2 else unusual_cluster)(seed), random.Random(seed)
    share_of_brokers = draw.choice((0.0, 0.5, 0.5, 1.0))
    for row in cluster.brokers:
        row["skips_tiered"] = draw.random() < share_of_brokers
    for row in cluster.partitions:
        if draw.random() < 2 / 3:
            copied = int(row["size_bytes"] * draw.choice((0.02, 0.5, 1.0)))
            row |= {"copy_source": OFFSETS, "copy_bytes": copied, "tiered_copy_bytes": draw.randint(0, copied)}
    return cluster


def _fill_disks(draw: random.Random, brokers: list[Row], partitions: list[Row]) -> None:
    """Give all brokers a disk of the same size. It is about what the smallest rack, or every rack, needs."""
    stored_bytes = sum(row["size_bytes"] * len(row["replicas"]) for row in partitions)
    racks = {broker["rack"] for broker in brokers}
    smallest = min(sum(broker["rack"] == rack for broker in brokers) for rack in racks)
    mean, rack_share = stored_bytes / len(brokers), stored_bytes / len(racks) / smallest
    size = draw.uniform(mean, max(rack_share, mean)) * draw.uniform(0.9, 1.3)
    for broker in brokers:
        broker["disk_capacity_bytes"] = int(size) + 1


def _with_requests(
    draw: random.Random,
    brokers: list[Row],
    partitions: list[Row],
    *,
    settings: Settings | None,
    waves: tuple[int, ...],
    spreads: tuple[float, ...],
) -> UnusualCluster:
    """Add pins, replication factors and settings."""
    _request(draw, brokers, partitions)
    settings = settings or _settings(draw, waves=waves, spreads=spreads)
    _limit_topics(settings.policy, brokers, partitions)
    return UnusualCluster(tuple(partitions), tuple(brokers), settings, draw.choice(("", "3.9", "4.3", "4.3")))


def _brokers(draw: random.Random) -> list[Row]:
    n, first = draw.randint(3, 6), draw.choice((0, 1, 1001))
    rack_lists: list[list[str | None]] = [[None], ["r0", "r1"], ["r0", "r1", "r2"], draw.choices("abc", k=n)]
    names = draw.choice(rack_lists)
    racks = [names[i % len(names)] for i in range(n)]
    if draw.random() < 0.1:
        racks[draw.randrange(n)] = None
    kinds = draw.choices(("alive", "draining", "dead", "fenced", "excluded", "demoted"), (60, 10, 6, 5, 7, 7), k=n)
    kinds[draw.randrange(n)] = "alive"
    return [_broker(first + i, racks[i], kinds[i]) for i in range(n)]


def _broker(broker_id: int, rack: str | None, kind: str) -> Row:
    state = kind if kind in STATES else "alive"
    live = state == "alive"
    return broker_row(
        broker_id,
        cluster_id=CLUSTER,
        run_id="fuzz",
        rack=rack,
        state=state,
        accepts_replicas=live and kind != "excluded",
        accepts_leadership=live and kind != "demoted",
    )


def _partitions(draw: random.Random, brokers: list[Row]) -> list[Row]:
    """Partitions on any brokers. Those in flight, and those that can't be copied, are fixed."""
    ids = [b["broker_id"] for b in brokers]
    max_kb, rows = draw.choice((5, 60, 60, 5000)), []
    for topic in draw.sample("abt", draw.randint(1, 3)):
        factor = draw.randint(1, min(3, len(ids)))
        for number in range(draw.randint(1, 3)):
            replicas = draw.sample(ids, factor)
            size = draw.choice((0, 1, 1, 1)) * draw.randint(1, max_kb) * KB
            rows.append(_partition(draw, brokers, topic, number, replicas, size))
    return sorted(rows, key=lambda row: (row["topic"], row["partition"]))[:6]


def _partition(draw: random.Random, brokers: list[Row], topic: str, number: int, replicas: list[int], size: int) -> Row:
    state = {b["broker_id"]: b["state"] for b in brokers}
    live = [b for b in replicas if state[b] in ("alive", "draining")]
    leader = draw.choice([live[0], draw.choice(live)]) if live and draw.random() > 0.03 else None
    fenced = [b for b in replicas if state[b] == "fenced"]
    cause, reason = None, None
    if draw.random() < 0.05:
        cause, reason = Cause.IN_FLIGHT, "its reassignment is still running"
    elif leader is None:
        cause, reason = Cause.LEADERLESS, "leaderless"
    elif fenced:
        cause, reason = Cause.ON_FENCED_BROKER, f"a replica on fenced broker {min(fenced)}"
    elif draw.random() < 0.06:
        cause, reason = Cause.TOPIC_EXCLUDED, "topic excluded"
    return partition_row(
        replicas,
        cluster_id=CLUSTER,
        topic=topic,
        partition=number,
        leader=leader,
        isr=sorted(b for b in live if b == leader or draw.random() < 0.9),
        size_bytes=size,
        in_bytes_per_s=draw.choice((0, draw.randint(0, 9), draw.randint(0, 900))),
        out_bytes_per_s=draw.randint(0, 30),
        mobility={None: "free", Cause.TOPIC_EXCLUDED: "forced_only"}.get(cause, "fixed"),
        fixed_cause=cause,
        fixed_reason=reason,
        min_insync_replicas=1,
    )


def _limit_disks(draw: random.Random, brokers: list[Row], partitions: list[Row]) -> None:
    """Set the sizes of the disks: unknown, large or nearly full; sometimes unknown on some brokers."""
    factor = draw.choice((None, 10.0, 1.6, 1.3, 1.1))
    if factor is None:
        return
    used = {b["broker_id"]: 0 for b in brokers}
    for row in partitions:
        for broker in row["replicas"]:
            used[broker] += row["size_bytes"]
    mean = sum(used.values()) / len(used)
    largest = max(row["size_bytes"] for row in partitions)
    some_unknown = draw.random() < 0.2
    for broker in brokers:
        if not (some_unknown and draw.random() < 0.5):
            usual_bytes = draw.choice((mean, max(mean, used[broker["broker_id"]]), mean + largest))
            broker["disk_capacity_bytes"] = int(usual_bytes * factor * draw.uniform(0.9, 1.2)) + 1


def _request(draw: random.Random, brokers: list[Row], partitions: list[Row]) -> None:
    """Request a pin and a replication factor, each for one topic. Requests without enough brokers: as the snapshot."""
    pinned = (
        draw.sample([b["broker_id"] for b in brokers], draw.randint(1, len(brokers))) if draw.random() < 0.25 else []
    )
    for broker in brokers:
        broker["pinned_topics"] = ["a"] if broker["broker_id"] in pinned else []
    resized_topic, requested = (draw.choice("ab"), draw.randint(1, 4)) if draw.random() < 0.25 else ("", 0)
    for row in partitions:
        is_pinned = bool(pinned) and row["topic"] == "a"
        row["pinned_brokers"] = sorted(pinned) if is_pinned else None
        possible = _possible_brokers(brokers, row, requested)
        now = len(row["replicas"])
        if row["mobility"] == "free" and row["topic"] == resized_topic and requested != now:
            if possible < requested:
                row["factor_cause"] = Cause.TOO_FEW_BROKERS
                row["factor_refused"] = f"{plural(requested, 'replica')} requested, but only {possible} can hold them"
            else:
                row["replication_factor"] = requested
        if is_pinned and possible < row["replication_factor"] and row["fixed_cause"] in (None, Cause.TOPIC_EXCLUDED):
            reason = (
                f"its pin allows only {plural(possible, 'broker')} for {plural(row['replication_factor'], 'replica')}"
            )
            row.update(mobility="fixed", fixed_cause=Cause.PIN_TOO_SMALL, fixed_reason=reason, replication_factor=now)


def _possible_brokers(brokers: list[Row], row: Row, requested: int) -> int:
    """Number of brokers that may hold a replica after the plan. A list that only shrinks may keep any live broker."""
    shrinks = row["pinned_brokers"] is None and requested < len(row["replicas"])
    allowed = row["pinned_brokers"] or [b["broker_id"] for b in brokers]
    accepting = {b["broker_id"] for b in brokers if b["accepts_replicas"]}
    keeping = {b["broker_id"] for b in brokers if (b["state"] not in NOT_LIVE if shrinks else not b["must_empty"])}
    kept = keeping & set(row["replicas"])
    return len((accepting | kept) & set(allowed))


def _settings(draw: random.Random, *, waves: tuple[int, ...], spreads: tuple[float, ...]) -> Settings:
    width = draw.choice((0.05, 0.1, 0.3, 0.6, 1.0))
    policy = Policy(
        disk_band=width,
        replicas_band=draw.choice((0.1, 0.5, 1.0, 2.0)),
        in_band=draw.choice((0.1, 1.0, 10.0)),
        disk_headroom=draw.choice((0.0, 0.1, 0.3)),
        max_moves=draw.choice((0, 0, 0, 1, 2, 4)),
        move_price=draw.choice((0.0, 0.003, 0.003, 0.5)),
        topic_spread=draw.choice(spreads),
        topic_leader_spread=draw.choice((0.0, 0.0, 1.0)),
        exclude_topics=(),
    )
    schedule = Schedule(
        waves=draw.choice(waves),
        window_hours=draw.choice((8, 0.01)),
        throttle_mb_per_s=draw.choice((50, 0.001)),
        max_moves_per_wave=draw.choice((1000, 3, 2, 1)),
    )
    return Settings(policy=policy, schedule=schedule)


def _limit_topics(policy: Policy, brokers: list[Row], partitions: list[Row]) -> None:
    """Set the topic limits, as ``planning.policy.topic_mosts`` does; topics with a pin have none."""
    sizes = live_rack_sizes(to_brokers(pd.DataFrame(brokers)))
    leading = sum(b["accepts_leadership"] for b in brokers)
    for topic in {row["topic"] for row in partitions if row["pinned_brokers"] is None}:
        rows = [row for row in partitions if row["topic"] == topic]
        share = sum(busiest_share(row["replication_factor"], sizes) for row in rows)
        most = int(np.ceil(round(policy.topic_spread * share, 6))) or None
        most_leaders = (
            int(np.ceil(round(policy.topic_leader_spread * len(rows) / leading, 6))) or None if leading else None
        )
        for row in rows:
            row.update(topic_most_replicas=most, topic_most_leaders=most_leaders)
