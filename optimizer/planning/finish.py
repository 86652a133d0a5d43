"""The last step of solve for one cluster: order lists, choose leaders, list moves and findings."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pandas as pd

import schemas
from optimizer.audit import AuditLimits
from optimizer.cluster_policy import NO_LIMIT, OFF
from optimizer.domain import OFFSETS, UPPER_BOUND, Bools, Brokers, Cause, FindingCode, Ints, Partitions, only_in
from optimizer.planning.arrays import replica_lists, split_rows, with_nulls
from optimizer.planning.left_out import left_by_order
from optimizer.planning.unexplained import audit_limits, unexplained_findings
from optimizer.settings import Policy, Settings, start_policy
from optimizer.solve.findings import band_findings, cluster_findings, limit_findings, pin_findings
from optimizer.solve.findings.band_findings import start_finding
from optimizer.solve.findings.directory_findings import directory_findings, full_directory_findings
from optimizer.solve.findings.finding import Finding, not_resized, unused_pattern
from optimizer.solve.findings.leader_findings import leader_findings
from optimizer.solve.findings.net_moves import reasons, settle
from optimizer.solve.findings.only_findings import with_only
from optimizer.solve.findings.order_findings import with_left
from optimizer.solve.findings.spread_findings import spread_findings
from optimizer.solve.leaders.failover_order import order_followers
from optimizer.solve.leaders.leader_bounds import leader_bounds
from optimizer.solve.leaders.leaders import ChosenLeaders, assign_leaders, lead_with
from optimizer.solve.rounds.solved_cluster import SolvedCluster
from optimizer.solve.rules.mobility import stays
from optimizer.topic_policy import is_excluded
from optimizer.wording.in_words import in_words
from schemas.keys import CLUSTER_RUN

# By findings of pins, of ``only`` and of brokers.
_REPORTED_ELSEWHERE = (Cause.PIN_TOO_SMALL, Cause.ONLY, Cause.OUT_OF_SYNC)
TABLES = ("proposal", "moves", "leaders", "leader_bounds", "findings")
Finished = Mapping[str, pd.DataFrame]


def _proposals(partitions: Partitions, final: Ints, ids: Ints) -> Iterable[dict[str, object]]:
    changed = np.flatnonzero((final != partitions.replicas).any(axis=1))
    for row, replicas in zip(changed, replica_lists(final[changed], ids), strict=True):
        yield {
            "topic": partitions.topic[row],
            "partition": partitions.partition[row],
            "replicas": replicas,
        }


def _moves(brokers: Brokers, partitions: Partitions, settled: Ints) -> Iterable[dict[str, object]]:
    copy_bytes = partitions.copy_bytes, partitions.tiered_copy_bytes
    for move in reasons(brokers, partitions, settled):
        yield {
            "topic": partitions.topic[move.row],
            "partition": partitions.partition[move.row],
            "from_broker": None if move.from_broker < 0 else brokers.ids[move.from_broker],
            "to_broker": None if move.to_broker < 0 else brokers.ids[move.to_broker],
            "size_bytes": 0 if move.to_broker < 0 else copy_bytes[int(brokers.skips_tiered[move.to_broker])][move.row],
            "reason": move.reason,
        }


def _leaders(brokers: Brokers, partitions: Partitions, final: Ints) -> Iterable[dict[str, object]]:
    for row in np.flatnonzero(final[:, 0] != partitions.replicas[:, 0]):
        yield {
            "topic": partitions.topic[row],
            "partition": partitions.partition[row],
            "from_broker": brokers.ids[partitions.replicas[row, 0]],
            "to_broker": brokers.ids[final[row, 0]],
            "out_bytes_per_s": partitions.out_bytes_per_s[row],
        }


def _lost_findings(frame: pd.DataFrame, is_lost: pd.Series) -> Iterable[Finding]:
    """Topics with lost partitions: all brokers in their lists are dead, so Kafka has nothing to copy from."""
    for topic, rows in frame[is_lost].groupby("topic", sort=True):
        yield Finding(
            FindingCode.NOT_FREE,
            "both",
            cause=Cause.ALL_REPLICAS_DEAD,
            topic=str(topic),
            amount=len(rows),
            facts={
                "brokers": sorted(int(broker) for broker in set().union(*rows["replicas"])),
                "partitions": int((frame["topic"] == topic).sum()),
            },
        )


def _is_lost(frame: pd.DataFrame, brokers: Brokers) -> pd.Series:
    dead = {int(b) for b, state in zip(brokers.ids, brokers.state, strict=True) if state == "dead"}
    cannot_copy = frame["fixed_cause"].isin((Cause.LEADERLESS, Cause.NO_IN_SYNC_REPLICA))
    return cannot_copy & frame["replicas"].map(lambda replicas: dead.issuperset(replicas))


def _fixed_findings(frame: pd.DataFrame, is_lost: pd.Series) -> Iterable[Finding]:
    """Partitions that are not free.

    Lost partitions, and those that pins or ``only`` exclude, have other findings.
    """
    reported_elsewhere = frame["fixed_cause"].isin(_REPORTED_ELSEWHERE) | is_lost
    for row in frame[frame["fixed_reason"].notna() & ~reported_elsewhere].itertuples():
        yield Finding(
            FindingCode.NOT_FREE,
            "both",
            cause=Cause(str(row.fixed_cause)),
            topic=str(row.topic),
            partition=int(str(row.partition)),
            facts={"reason": str(row.fixed_reason)},
        )


def _waiting_findings(frame: pd.DataFrame, kafka_version: str) -> Iterable[Finding]:
    """Brokers whose replicas are out of sync, and keep partitions from being changed."""
    rows = frame[frame["fixed_cause"] == Cause.OUT_OF_SYNC]
    lists = zip(rows["replicas"], rows["isr"], strict=True)
    stuck = Counter(int(b) for replicas, isr in lists for b in set(replicas) - set(isr))
    for broker, count in sorted(stuck.items()):
        facts = {"kafka_version": kafka_version}
        yield Finding(
            FindingCode.NOT_FREE, "both", cause=Cause.OUT_OF_SYNC, broker_id=broker, amount=count, facts=facts
        )


def _keeps_stuck(partitions: Partitions, final: Ints) -> Bools:
    """Partitions that may move, and keep their brokers although one has a replica out of sync, (P,)."""
    stuck = partitions.stuck(partitions.replicas).any(axis=1) & ~stays(partitions.mobility)
    return np.asarray(stuck & ~only_in(partitions.replicas, final).any(axis=1))


def _with_fixed_causes(findings: Iterable[Finding], frame: pd.DataFrame) -> list[Finding]:
    """Add fact ``fixed_cause`` to the findings about partitions that are not free."""
    fixed = frame[frame["fixed_cause"].notna()]
    causes = {(str(row.topic), int(str(row.partition))): Cause(str(row.fixed_cause)) for row in fixed.itertuples()}
    completed = list[Finding]()
    for finding in findings:
        if finding.cause == Cause.NOT_FREE and finding.topic is not None and finding.partition is not None:
            cause = causes.get((finding.topic, finding.partition))
            finding = replace(finding, facts={**finding.facts, "fixed_cause": cause})
        completed.append(finding)
    return completed


def _factor_findings(frame: pd.DataFrame) -> Iterable[Finding]:
    """Topics that cannot have the requested replication factor."""
    for topic, rows in frame[frame["factor_refused"].notna()].groupby("topic", sort=True):
        code = rows["factor_cause"].max()
        yield Finding(
            FindingCode.REPLICATION_FACTOR,
            "both",
            cause=Cause(code),
            topic=str(topic),
            amount=len(rows),
            facts={"reason": rows["factor_refused"][rows["factor_cause"] == code].iloc[0]},
        )


def _spare_findings(frame: pd.DataFrame) -> Iterable[Finding]:
    """Topics that get exactly ``min.insync.replicas`` replicas: if one broker is down, producers fail."""
    resized = frame["replication_factor"] != frame["replicas"].map(len)
    for topic, rows in frame[resized & (frame["replication_factor"] == frame["min_insync_replicas"])].groupby("topic"):
        factor = int(rows["replication_factor"].max())
        yield Finding(FindingCode.NO_SPARE_REPLICA, "after", topic=str(topic), amount=factor, limit=factor + 1)


def _single_findings(frame: pd.DataFrame) -> Iterable[Finding]:
    """Topics whose partitions get one replica, in one finding: no plan makes their broker's failure harmless."""
    topics = frame.loc[frame["replication_factor"] == 1, "topic"]
    if len(topics):
        facts = {"topics": sorted(map(str, topics.unique()))}
        yield Finding(FindingCode.ONE_REPLICA, "both", amount=len(topics), facts=facts)


def _tiered_findings(frame: pd.DataFrame, brokers: Brokers) -> Iterable[Finding]:
    """A finding if the copies of tiered partitions may have fewer bytes than the plan counts."""
    is_unknown = frame["copy_source"] == UPPER_BOUND
    if brokers.skips_tiered.any():
        is_unknown |= (frame["copy_source"] == OFFSETS) & frame["tiered_copy_bytes"].isna()
    if is_unknown.any():
        facts = {"topics": sorted(map(str, frame.loc[is_unknown, "topic"].unique()))}
        yield Finding(FindingCode.TIERED_UPPER_BOUND, "both", amount=int(is_unknown.sum()), facts=facts)


def _unused_patterns(frame: pd.DataFrame, patterns: Iterable[str], code: FindingCode) -> Iterable[Finding]:
    """Patterns that match no topic. Patterns of pins are reported elsewhere."""
    names = set(frame["topic"])
    for pattern in sorted(patterns):
        if not any(re.fullmatch(pattern, topic) for topic in names):
            yield unused_pattern(code, pattern)


def _choose_leaders(
    brokers: Brokers, partitions: Partitions, settled: Ints, policy: Policy, *, waits: bool
) -> ChosenLeaders:
    """The preferred leaders. If the cluster waits, those of ``start_policy`` as long as they change nothing."""
    if waits:
        wide, without_limits = start_policy(policy), np.full(len(partitions), NO_LIMIT)
        leaders = assign_leaders(
            brokers,
            replace(partitions, topic_most_leaders=without_limits),
            settled,
            leaders_band=wide.leaders_band,
            out_band=wide.out_band,
        )
        if (lead_with(settled, leaders.chosen) == settled).all():
            return leaders
    return assign_leaders(brokers, partitions, settled, leaders_band=policy.leaders_band, out_band=policy.out_band)


def finish_cluster(
    frame: pd.DataFrame, cluster: SolvedCluster, policy: Policy, audit: AuditLimits | None = None
) -> Finished:
    """Rows of every output table of one cluster, without the columns that name the cluster and the run.

    If ``audit`` gives its limits, the findings also list the partitions that the audit will count as unexplained.
    """
    brokers, cluster_policy = cluster.brokers, cluster.cluster_policy
    rows, partitions, chosen = split_rows(frame, brokers.ids)
    settled = settle(partitions.replicas, chosen)
    leaders = _choose_leaders(brokers, partitions, settled, policy, waits=cluster.waits)
    led = lead_with(settled, leaders.chosen)
    spread = OFF if cluster.waits else policy.failover_spread
    final = order_followers(brokers, partitions, led, spread=spread)
    is_lost = _is_lost(rows, brokers)
    findings = [
        *cluster_findings.emptied_racks(brokers, partitions.replicas, final),
        *cluster_findings.broker_findings(brokers, final),
        *(cluster_findings.no_rack_findings(brokers) if policy.rack_policy == "spread" else ()),
        *cluster_findings.nested_rack_findings(brokers),
        *cluster_findings.rate_findings(partitions),
        *cluster_findings.disk_findings(brokers),
        *cluster_findings.network_findings(brokers),
        *full_directory_findings(brokers, headroom=policy.disk_headroom),
        *directory_findings(brokers, partitions, final, rows["log_dirs"].to_list(), headroom=policy.disk_headroom),
        *cluster_findings.rack_findings(brokers, partitions, final),
        *cluster_findings.stranded_findings(brokers, partitions, final),
        *pin_findings.pin_findings(brokers, partitions, final),
        *spread_findings(brokers, partitions, final, waits=cluster.waits),
        *band_findings.band_findings(
            brokers,
            cluster.bands,
            cluster.loads_before,
            cluster.loads,
            partitions=partitions,
            placed=final,
            policy=policy,
            only=cluster_policy.only,
        ),
        *leader_findings(brokers, partitions, leaders),
        *_lost_findings(rows, is_lost),
        *_fixed_findings(rows, is_lost),
        *_waiting_findings(rows, cluster.kafka_version),
        *cluster_findings.sync_findings(brokers, partitions, final),
        *not_resized(partitions, _keeps_stuck(partitions, final), cause=Cause.OUT_OF_SYNC, facts={}),
        *_factor_findings(rows),
        *_spare_findings(rows),
        *_single_findings(rows),
        *_tiered_findings(rows, brokers),
        *_unused_patterns(
            rows,
            (topic_factor.topics for topic_factor in cluster_policy.replication_factors),
            FindingCode.FACTOR_UNUSED,
        ),
        *_unused_patterns(rows, set(policy.topics), FindingCode.TOPICS_UNUSED),
        *_unused_patterns(rows, set(policy.exclude_topics), FindingCode.EXCLUDE_UNUSED),
        *_unused_patterns(rows, set(policy.acks_one_topics), FindingCode.ACKS_UNUSED),
        *cluster.failures,
        *([start_finding(brokers, cluster.bands, cluster.demand, cluster.loads)] if cluster.waits else []),
    ]
    # In a stage, ``policy`` has only the settings that the stage declared, without the methods of ``Policy``.
    excluded = partial(is_excluded, topics=policy.topics, exclude_topics=policy.exclude_topics)
    findings = with_only(
        findings, cluster_policy, brokers, partitions, final, is_excluded=excluded, start_at=policy.start_at
    )
    if cluster.over_limits:
        held_back = rows["held_back"].to_numpy(dtype=bool)
        findings = limit_findings.with_limit(
            findings,
            cluster.over_limits,
            brokers,
            cluster.bands,
            cluster.loads,
            partitions=partitions,
            held_back=held_back,
        )
    if cluster.left_for_disk:
        findings = with_left(findings, cluster.left_for_disk, brokers, partitions)
    if audit:
        findings += unexplained_findings(rows, brokers, partitions, final, audit)
    findings = _with_fixed_causes(findings, rows)
    return {
        "proposal": _rows("proposal", _proposals(partitions, final, brokers.ids)),
        "moves": _rows("moves", _moves(brokers, partitions, settled)),
        "leaders": _rows("leaders", _leaders(brokers, partitions, final)),
        "leader_bounds": _rows("leader_bounds", (asdict(bound) for bound in leader_bounds(leaders))),
        "findings": _rows("findings", map(finding_row, findings)),
    }


def finding_row(finding: Finding) -> dict[str, object]:
    """A row of table ``findings`` or ``wave_findings``."""
    return {"rule": finding.code, **asdict(finding), **in_words(finding)._asdict()}


def finish_or_leave(
    frame: pd.DataFrame, cluster: SolvedCluster, settings: Settings, cluster_id: str
) -> tuple[Finished, pd.DataFrame]:
    """Rows of every output table of one cluster; or no tables, and the rows of ``left_by_order``.

    There are no tables if no order of the copies has disk space for some partitions.
    """
    left = left_by_order(frame, cluster, settings)
    if len(left):
        return {}, left
    return finish_cluster(frame, cluster, settings.policy, audit_limits(settings, cluster_id)), left


def _names(table: str) -> list[str]:
    """Columns of a table without those that name the cluster and the run."""
    return [name for name in schemas.ALL[table].names if name not in CLUSTER_RUN]


def _rows(table: str, records: Iterable[Mapping[str, object]]) -> pd.DataFrame:
    return with_nulls(pd.DataFrame([*records], columns=_names(table), dtype=object))
