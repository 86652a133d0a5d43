"""Small clusters of every oddity, as the snapshot would hand them to the solver: rows and settings from a seed."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.rows import broker_row, partition_row
from optimizer.domain import NOT_LIVE, Cause
from optimizer.planning.arrays import to_brokers
from optimizer.settings import Policy, Schedule, Settings
from optimizer.solve.rules.racks import busiest_share, live_rack_sizes
from optimizer.units import plural

Row = dict[str, Any]
CLUSTER = "odd"
STATES = ("alive", "draining", "dead", "fenced")
KB = 1000  # bytes


@dataclass(frozen=True)
class OddCluster:
    """Rows of ``instance`` and ``instance_brokers``, and what is asked for."""

    partitions: tuple[Row, ...]
    brokers: tuple[Row, ...]
    settings: Settings

    @property
    def hosts(self) -> Mapping[int, Row]:
        """Brokers by id."""
        return {row["broker_id"]: row for row in self.brokers}


def odd_cluster(seed: int, asked: Settings | None = None) -> OddCluster:
    """Three to six brokers, two to six partitions; what is asked for is given, or drawn like the rest."""
    draw = random.Random(seed)
    brokers = _brokers(draw)
    partitions = _placed(draw, brokers)
    _limit_disks(draw, brokers, partitions)
    return _asking(draw, brokers, partitions, asked=asked, waves=(0, 0, 0, 1, 2, 3), spreads=(0.0, 0.0, 1.0, 1.5))


def full_cluster(seed: int) -> OddCluster:
    """Three to eight brokers, six to thirty partitions, racks of any size: too small, all full, of one broker."""
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
    return _asking(draw, brokers, partitions, asked=None, waves=(0, 0, 0, 0, 0, 1), spreads=(0.0,))


def _fill_disks(draw: random.Random, brokers: list[Row], partitions: list[Row]) -> None:
    """Disks of one size, which one rack, or every one, needs for what the rack rule asks of it."""
    asked_bytes = sum(row["size_bytes"] * len(row["replicas"]) for row in partitions)
    racks = {broker["rack"] for broker in brokers}
    smallest = min(sum(broker["rack"] == rack for broker in brokers) for rack in racks)
    mean, rack_share = asked_bytes / len(brokers), asked_bytes / len(racks) / smallest
    size = draw.uniform(mean, max(rack_share, mean)) * draw.uniform(0.9, 1.3)
    for broker in brokers:
        broker["disk_capacity_bytes"] = int(size) + 1


def _asking(
    draw: random.Random,
    brokers: list[Row],
    partitions: list[Row],
    *,
    asked: Settings | None,
    waves: tuple[int, ...],
    spreads: tuple[float, ...],
) -> OddCluster:
    """With pins, another replication factor, and settings."""
    _ask(draw, brokers, partitions)
    settings = asked or _settings(draw, waves=waves, spreads=spreads)
    _spread(settings.policy, brokers, partitions)
    return OddCluster(tuple(partitions), tuple(brokers), settings)


def _brokers(draw: random.Random) -> list[Row]:
    n, first = draw.randint(3, 6), draw.choice((0, 1, 1001))
    ways: list[list[str | None]] = [[None], ["r0", "r1"], ["r0", "r1", "r2"], draw.choices("abc", k=n)]
    names = draw.choice(ways)
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


def _placed(draw: random.Random, brokers: list[Row]) -> list[Row]:
    """Partitions on any brokers; those that nothing can be copied from, or that are moving, are fixed."""
    ids = [b["broker_id"] for b in brokers]
    most, rows = draw.choice((5, 60, 60, 5000)), []
    for topic in draw.sample("abt", draw.randint(1, 3)):
        factor = draw.randint(1, min(3, len(ids)))
        for number in range(draw.randint(1, 3)):
            replicas = draw.sample(ids, factor)
            size = draw.choice((0, 1, 1, 1)) * draw.randint(1, most) * KB
            rows.append(_partition(draw, brokers, topic, number, replicas, size))
    return sorted(rows, key=lambda row: (row["topic"], row["partition"]))[:6]


def _partition(draw: random.Random, brokers: list[Row], topic: str, number: int, replicas: list[int], size: int) -> Row:
    state = {b["broker_id"]: b["state"] for b in brokers}
    live = [b for b in replicas if state[b] in ("alive", "draining")]
    leader = draw.choice([live[0], draw.choice(live)]) if live and draw.random() > 0.03 else None
    waits = [b for b in replicas if state[b] == "fenced"]
    fixed, words = None, None
    if draw.random() < 0.05:
        fixed, words = Cause.IN_FLIGHT, "in flight"
    elif leader is None:
        fixed, words = Cause.LEADERLESS, "leaderless"
    elif waits:
        fixed, words = Cause.ON_FENCED_BROKER, f"a replica on fenced broker {min(waits)}"
    elif draw.random() < 0.06:
        fixed, words = Cause.TOPIC_EXCLUDED, "topic excluded"
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
        mobility={None: "free", Cause.TOPIC_EXCLUDED: "forced_only"}.get(fixed, "fixed"),
        fixed_cause=fixed,
        fixed_reason=words,
        min_insync_replicas=1,
    )


def _limit_disks(draw: random.Random, brokers: list[Row], partitions: list[Row]) -> None:
    """Disks that nobody knows, roomy ones, and ones that are nearly full; sometimes not of every broker."""
    room = draw.choice((None, 10.0, 1.6, 1.3, 1.1))
    if room is None:
        return
    used = {b["broker_id"]: 0 for b in brokers}
    for row in partitions:
        for broker in row["replicas"]:
            used[broker] += row["size_bytes"]
    mean = sum(used.values()) / len(used)
    largest = max(row["size_bytes"] for row in partitions)
    forget = draw.random() < 0.2
    for broker in brokers:
        if not (forget and draw.random() < 0.5):
            here = draw.choice((mean, max(mean, used[broker["broker_id"]]), mean + largest))
            broker["disk_capacity_bytes"] = int(here * room * draw.uniform(0.9, 1.2)) + 1


def _ask(draw: random.Random, brokers: list[Row], partitions: list[Row]) -> None:
    """A pin and another replication factor for a topic each, where brokers are enough; else as the snapshot does."""
    pinned = (
        draw.sample([b["broker_id"] for b in brokers], draw.randint(1, len(brokers))) if draw.random() < 0.25 else []
    )
    for broker in brokers:
        broker["pinned_topics"] = ["a"] if broker["broker_id"] in pinned else []
    asked_topic, asked = (draw.choice("ab"), draw.randint(1, 4)) if draw.random() < 0.25 else ("", 0)
    for row in partitions:
        is_pinned = bool(pinned) and row["topic"] == "a"
        row["pinned_brokers"] = sorted(pinned) if is_pinned else None
        room = _room(brokers, row, asked)
        now = len(row["replicas"])
        if row["mobility"] == "free" and row["topic"] == asked_topic and asked != now:
            if room < asked:
                row["factor_cause"] = Cause.TOO_FEW_BROKERS
                row["factor_refused"] = f"{plural(asked, 'replica')} requested, but only {room} can hold them"
            else:
                row["replication_factor"] = asked
        if is_pinned and room < row["replication_factor"] and row["fixed_cause"] in (None, Cause.TOPIC_EXCLUDED):
            fixed = f"its pin allows only {plural(room, 'broker')} for {plural(row['replication_factor'], 'replica')}"
            row.update(mobility="fixed", fixed_cause=Cause.PIN_TOO_SMALL, fixed_reason=fixed, replication_factor=now)


def _room(brokers: list[Row], row: Row, asked: int) -> int:
    """Brokers that may hold a replica after the plan; a shorter list without a pin may keep all that live."""
    shrinks = row["pinned_brokers"] is None and asked < len(row["replicas"])
    allowed = row["pinned_brokers"] or [b["broker_id"] for b in brokers]
    may = {b["broker_id"] for b in brokers if b["accepts_replicas"]}
    keeps = {b["broker_id"] for b in brokers if (b["state"] not in NOT_LIVE if shrinks else not b["must_empty"])}
    stay = keeps & set(row["replicas"])
    return len((may | stay) & set(allowed))


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


def _spread(policy: Policy, brokers: list[Row], partitions: list[Row]) -> None:
    """The most of a topic on one broker, as ``stages.snapshot.topic_mosts`` has it; none for topics with a pin."""
    sizes = live_rack_sizes(to_brokers(pd.DataFrame(brokers)))
    leading = sum(b["accepts_leadership"] for b in brokers)
    for topic in {row["topic"] for row in partitions if row["pinned_brokers"] is None}:
        mine = [row for row in partitions if row["topic"] == topic]
        share = sum(busiest_share(row["replication_factor"], sizes) for row in mine)
        most = int(np.ceil(round(policy.topic_spread * share, 6))) or None
        led = int(np.ceil(round(policy.topic_leader_spread * len(mine) / leading, 6))) or None if leading else None
        for row in mine:
            row.update(topic_most_replicas=most, topic_most_leaders=led)
