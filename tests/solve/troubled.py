"""Clusters in every kind of trouble, as rows of the tables, and the audit of what is planned for them."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from benchmarks.rows import broker_row, partition_rows
from optimizer.audit import AuditClaims, AuditLimits, Violation, audit_plan, brokers_from_rows, partitions_from_rows
from optimizer.audit.claims import Key
from optimizer.audit.excuses import defect
from optimizer.audit.instance import Instance
from optimizer.audit.spread import grown, most_leaders, most_replicas
from optimizer.cluster_policy import NO_LIMIT, MoveLimit
from optimizer.domain import FIXED, FREE, Cluster
from optimizer.kafka.reassignment_json import format_reassignment
from optimizer.planning.finish import Finished
from optimizer.solve.findings.pin_findings import pin_room
from optimizer.solve.rules.pins import group_by_pins
from tests.solve.clusters import (
    STATES,
    make_cluster,
    middling_clusters,
    out_of_sync,
    pinned,
    spread_over,
    with_requested_factors,
    with_states,
)

NO_CUT = MoveLimit()


@st.composite
def troubled_clusters(draw: st.DrawFn) -> Cluster:
    """Clusters with dead, fenced and draining brokers, replicas out of sync, excluded and fixed partitions, and
    sometimes hardly any room."""
    cluster = draw(middling_clusters())
    brokers, n = cluster.brokers, len(cluster.brokers)
    states = list(brokers.state)
    for broker in draw(st.sets(st.integers(0, n - 1), max_size=n - 2)):
        states[broker] = draw(st.sampled_from(STATES[1:]))
    states[0] = draw(st.sampled_from([states[0], "dead", "drained fenced"]))  # the lowest id is the index 0
    if all(state != "alive" for state in states):
        states[1] = "alive"
    brokers = with_states(brokers, states)
    partitions = cluster.partitions
    seed = draw(st.integers(0, 2**32 - 1))
    mobility = np.random.default_rng(seed).choice(3, len(partitions), p=[0.8, 0.1, 0.1])
    fenced = np.array([state == "fenced" for state in states])  # a drained one is to be emptied
    held = partitions.replicas >= 0
    waits = (held & fenced[np.maximum(partitions.replicas, 0)]).any(axis=1)
    stuck = np.random.default_rng(seed + 1).random(partitions.replicas.shape) < draw(st.sampled_from([0, 0, 0.1, 0.4]))
    stuck[:, -1] = False  # the last of the longest lists leads, where it is alive
    partitions = out_of_sync(partitions, stuck)
    troubled = make_cluster(brokers, replace(partitions, mobility=np.where(waits, FIXED, mobility)))
    troubled = _pinned(draw, troubled) if draw(st.booleans()) else troubled
    troubled = _resized(draw, troubled) if draw(st.booleans()) else troubled
    return _spread(draw, troubled) if draw(st.booleans()) else troubled


def _spread(draw: st.DrawFn, cluster: Cluster) -> Cluster:
    """Topics of eight partitions with a limit, except those with a pin."""
    pins = {pin.topics for pin in cluster.brokers.pins}
    topics = [t if t in pins else f"{t}{p // 8}" for p, t in enumerate(cluster.partitions.topic)]
    result = spread_over(cluster, topics, draw(st.sampled_from([1.0, 1.5, 2.0])))
    is_pinned = np.isin(topics, sorted(pins))
    most = np.where(is_pinned, NO_LIMIT, result.partitions.topic_most_replicas)
    led = np.where(is_pinned, NO_LIMIT, draw(st.sampled_from([1, 2, 4, NO_LIMIT])))
    partitions = replace(result.partitions, topic_most_replicas=most, topic_most_leaders=led)
    return make_cluster(result.brokers, partitions)


def _resized(draw: st.DrawFn, cluster: Cluster) -> Cluster:
    """Request another replication factor for a quarter of the partitions, if they can have it, as in the snapshot."""
    brokers, partitions = cluster.brokers, cluster.partitions
    factor, rows = draw(st.integers(1, 5)), np.arange(len(partitions))
    free = partitions.mobility == FREE
    now = (partitions.replicas >= 0).sum(axis=1)
    room = pin_room(brokers, partitions, group_by_pins(brokers, partitions.topic))
    requested = (rows % 4 == 1) & free & (now != factor)
    short = requested & (room < factor) & ((partitions.topic == "a") | (factor > now))
    return with_requested_factors(cluster, np.where(requested & ~short, factor, now).tolist())


def _pinned(draw: st.DrawFn, cluster: Cluster) -> Cluster:
    """A third of the partitions pinned to any brokers; as the snapshot does, those with too few of them are fixed."""
    topics = ["a" if p % 3 == 0 else "t" for p in range(len(cluster.partitions))]
    allowed = draw(st.sets(st.sampled_from(cluster.brokers.ids.tolist()), min_size=1))
    result = pinned(cluster, {"a": sorted(allowed)}, topics)
    brokers, partitions = result.brokers, result.partitions
    room = pin_room(brokers, partitions, group_by_pins(brokers, partitions.topic))
    short = (partitions.topic == "a") & (room < partitions.replication_factor)
    return make_cluster(brokers, replace(partitions, mobility=np.where(short, FIXED, partitions.mobility)))


def broker_rows(cluster: Cluster) -> list[dict[str, object]]:
    """Rows of ``instance_brokers``."""
    b = cluster.brokers
    return [
        broker_row(
            int(b.ids[i]),
            rack=b.rack_names[b.rack[i]],
            state=b.state[i],
            accepts_replicas=bool(b.accepts_replicas[i]),
            accepts_leadership=bool(b.accepts_leadership[i]),
            must_empty=bool(b.must_empty[i]),
            disk_capacity_bytes=int(b.disk_capacity_bytes[i]) if b.disk_capacity_bytes[i] > 0 else None,
        )
        for i in range(len(b))
    ]


TOPIC_SPREADS = ("topic_spread", "topic_leader_spread")


def reported_keys(records: pd.DataFrame, rule: str) -> frozenset[tuple[str, int]]:
    """Partitions that findings of a rule name, or topics and brokers."""
    selected = records[(records["code"] == rule) & records["topic"].notna()]
    about = "broker_id" if rule in TOPIC_SPREADS else "partition"
    return frozenset(
        (str(topic), int(number)) for topic, number in zip(selected["topic"], selected[about], strict=True)
    )


def assert_fields_name_the_subject(findings: pd.DataFrame) -> None:
    """Topic, partition, broker and resource of each finding are those that people read in its subject."""
    for row in findings.to_dict("records"):
        words, broker = str(row["subject"]), row["broker_id"]
        named = row["topic"] if row["partition"] is None else f"{row['topic']}-{row['partition']}"
        assert row["rule"] == row["code"]
        assert named is None or words.split(" on ")[0] == named
        assert broker is None or str(broker) in words.removeprefix(str(named)).split()
        assert broker is None or row["code"] in TOPIC_SPREADS or row["resource"] in (None, words.split()[-1])


def unreported(cluster: Cluster, records: pd.DataFrame, lists: dict[Key, tuple[int, ...]]) -> Iterator[Violation]:
    """What a plan leaves and no finding names: each partition that is not as it should be, each topic that crowds."""
    brokers, partitions = brokers_from_rows(broker_rows(cluster)), partitions_from_rows(partition_rows(cluster))
    instance = Instance(brokers=brokers, partitions=partitions, limits=AuditLimits(disk_headroom=0.1))
    names = {"drain": "not_emptied", "pin": "not_pinned", "replication_factor": "not_resized", "racks": "rack_spread"}
    reported = {rule: reported_keys(records, rule) for rule in names.values()}
    for p in partitions:
        rule = defect(instance, p, lists.get(p.key, p.replicas))
        if rule and p.key not in reported[names[rule]]:
            yield Violation(rule, f"{p.topic}-{p.partition}", "is left, unreported")
    for rule, most, first in (
        ("topic_spread", most_replicas(instance), None),
        ("topic_leader_spread", most_leaders(instance), 1),
    ):
        crowds = reported_keys(records, rule)
        for topic, broker, *_ in grown(instance, lists, most, first=first):
            if (topic, broker) not in crowds:
                yield Violation(rule, topic, f"crowds on broker {broker}, unreported")


def audited(
    cluster: Cluster,
    records: Finished,
    bound_bytes: int,
    allowed: MoveLimit = NO_CUT,
    *,
    max_unexplained: float = 1.0,
) -> list[Violation]:
    """Violations that the audit finds in a finished plan, and partitions that no finding reports.

    Also checks the fields of the findings.
    """
    assert_fields_name_the_subject(records["findings"])
    proposals, moves = records["proposal"], records["moves"]
    lists = zip(proposals["topic"], proposals["partition"], proposals["replicas"], strict=True)
    changed = [(str(topic), int(number), list(replicas), None) for topic, number, replicas in lists]
    text = format_reassignment(changed)
    report = audit_plan(
        brokers=brokers_from_rows(broker_rows(cluster)),
        partitions=partitions_from_rows(partition_rows(cluster)),
        waves=[text] if changed else [],
        whole=text if changed else None,
        rollback=None,
        limits=AuditLimits(
            disk_headroom=0.1,
            max_moved_bytes=allowed.moved_bytes,
            max_moves=allowed.moves,
            max_unexplained=max_unexplained,
        ),
        claims=AuditClaims(
            moved_bytes=int(moves["size_bytes"].sum()),
            replicas_moved=int(moves["to_broker"].notna().sum()),
            leader_changes=len(records["leaders"]),
            partitions_changed=len(proposals),
            bound_bytes=bound_bytes,
        ),
    )
    after = {(topic, number): tuple(replicas) for topic, number, replicas, _ in changed}
    violations = (*report.violations, *unreported(cluster, records["findings"], after))
    return [v for v in violations if v.rule not in ("rollback", "capacity_during")]
