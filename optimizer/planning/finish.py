"""The last step of solve for one cluster: order lists, choose leaders, name moves and findings."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict

import numpy as np
import pandas as pd

import schemas
from optimizer.audit import AuditLimits
from optimizer.domain import PLACEMENT_RULE, Brokers, Cause, FindingCode, Ints, Partitions
from optimizer.planning.arrays import placed, replica_lists, with_nulls
from optimizer.planning.left_out import left_by_order
from optimizer.planning.unexplained import audit_limits, unexplained_findings
from optimizer.settings import Policy, Settings
from optimizer.solve.findings import band_findings, cluster_findings, limit_findings, pin_findings
from optimizer.solve.findings.directory_findings import directory_findings
from optimizer.solve.findings.finding import Finding, unused_pattern
from optimizer.solve.findings.leader_findings import leader_findings
from optimizer.solve.findings.net_moves import reasons, settle
from optimizer.solve.findings.only_findings import with_only
from optimizer.solve.findings.order_findings import with_left
from optimizer.solve.findings.spread_findings import spread_findings
from optimizer.solve.leaders.leader_bounds import leader_bounds
from optimizer.solve.leaders.leaders import assign_leaders, lead_with
from optimizer.solve.rounds.solved_cluster import SolvedCluster
from optimizer.units import agree, plural
from schemas.keys import CLUSTER_RUN

_START = "start a broker that holds a replica, and plan again"
_REMEDIES = {
    Cause.IN_FLIGHT: "wait until it is done and plan again",
    Cause.MOVE_CANNOT_END: (
        "start that broker, or end the move by kafka-reassign-partitions.sh --cancel; then plan again"
    ),
    Cause.LEADERLESS: _START,
    Cause.NO_IN_SYNC_REPLICA: _START,
    Cause.ON_FENCED_BROKER: "start that broker, or drain it",
    Cause.OWN_PLACEMENT_RULE: f"take {PLACEMENT_RULE} off the topic, or move it by its own tool",
    Cause.TOPIC_EXCLUDED: "take it out of exclude_topics, or add it to topics",
    Cause.TOO_FEW_BROKERS: "ask for fewer, or let more brokers accept replicas",
    Cause.UNDER_MIN_IN_SYNC: "ask for more, or lower min.insync.replicas first",
}
_REMEDY = "mend the cause and plan again"  # where a release has stored no cause
_TOLD_ELSEWHERE = (Cause.PIN_TOO_SMALL, Cause.ONLY)  # by findings of pins and of ``only``
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
    for move in reasons(brokers, partitions, settled):
        yield {
            "topic": partitions.topic[move.row],
            "partition": partitions.partition[move.row],
            "from_broker": None if move.from_broker < 0 else brokers.ids[move.from_broker],
            "to_broker": None if move.to_broker < 0 else brokers.ids[move.to_broker],
            "size_bytes": 0 if move.to_broker < 0 else partitions.size_bytes[move.row],
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


def _lost_findings(frame: pd.DataFrame, brokers: Brokers) -> Iterable[Finding]:
    """Topics with partitions that nothing can be copied from, because all of their brokers are dead."""
    for topic, rows in frame[_is_lost(frame, brokers)].groupby("topic", sort=True):
        ids = ", ".join(str(broker) for broker in sorted(set().union(*rows["replicas"])))
        count = f"{len(rows):,} of {plural(int((frame['topic'] == topic).sum()), 'partition')}"
        yield Finding(
            FindingCode.NOT_FREE,
            str(topic),
            "both",
            f"{count}: every replica is on a dead broker ({ids})",
            "start one of these brokers again, or delete the topic",
            cause=Cause.ALL_REPLICAS_DEAD,
            topic=str(topic),
            amount=len(rows),
        )


def _is_lost(frame: pd.DataFrame, brokers: Brokers) -> pd.Series:
    dead = {int(b) for b, state in zip(brokers.ids, brokers.state, strict=True) if state == "dead"}
    unread = frame["fixed_cause"].isin((Cause.LEADERLESS, Cause.NO_IN_SYNC_REPLICA))
    return unread & frame["replicas"].map(lambda replicas: dead.issuperset(replicas))


def _fixed_findings(frame: pd.DataFrame, brokers: Brokers) -> Iterable[Finding]:
    """Partitions that are not free; what pins and ``only`` leave has findings of its own, and so has what is lost. Rows
    of a release that stored no causes have the words alone: all of them are told."""
    told = frame["fixed_reason"].notna() & ~frame["fixed_cause"].isin(_TOLD_ELSEWHERE) & ~_is_lost(frame, brokers)
    for row in frame[told].itertuples():
        cause = Cause(row.fixed_cause) if isinstance(row.fixed_cause, str) else None
        yield Finding(
            FindingCode.NOT_FREE,
            f"{row.topic}-{row.partition}",
            "both",
            str(row.fixed_reason),
            _REMEDIES[cause] if cause else _REMEDY,
            cause=cause,
            topic=str(row.topic),
            partition=int(str(row.partition)),
        )


def _factor_findings(frame: pd.DataFrame) -> Iterable[Finding]:
    """Topics that can't have the replication factor asked for; rows of a release that stored no causes have none."""
    for topic, rows in frame[frame["factor_refused"].notna()].groupby("topic", sort=True):
        causes = rows["factor_cause"].fillna("")
        code = causes.max()
        cause = Cause(code) if code else None
        words = rows["factor_refused"][causes == code].iloc[0]
        keep = agree(len(rows), "keeps what it has", "keep what they have")
        detail = f"{words}; {plural(len(rows), 'partition')} {keep}"
        yield Finding(
            FindingCode.REPLICATION_FACTOR,
            str(topic),
            "both",
            detail,
            _REMEDIES[cause] if cause else _REMEDY,
            cause=cause,
            topic=str(topic),
            amount=len(rows),
        )


def _spare_findings(frame: pd.DataFrame) -> Iterable[Finding]:
    """Topics that get as many replicas as must be in sync: the first broker that is down stops their writers."""
    changes = frame["replication_factor"] != frame["replicas"].map(len)
    for topic, rows in frame[changes & (frame["replication_factor"] == frame["min_insync_replicas"])].groupby("topic"):
        factor = int(rows["replication_factor"].max())
        detail = (
            f"{plural(factor, 'replica')} asked for, min.insync.replicas: {factor}; one broker down stops its writers"
        )
        remedy = "ask for one more, or lower min.insync.replicas"
        yield Finding(
            FindingCode.NO_SPARE_REPLICA,
            str(topic),
            "after",
            detail,
            remedy,
            topic=str(topic),
            amount=factor,
            limit=factor + 1,
        )


def _unused_patterns(frame: pd.DataFrame, patterns: Iterable[str], code: FindingCode) -> Iterable[Finding]:
    """Patterns that match no topic; those of pins have findings of their own."""
    names = set(frame["topic"])
    for pattern in sorted(patterns):
        if not any(re.fullmatch(pattern, topic) for topic in names):
            yield unused_pattern(code, pattern)


def finish_cluster(
    frame: pd.DataFrame, cluster: SolvedCluster, policy: Policy, audit: AuditLimits | None = None
) -> Finished:
    """Rows of every output table of one cluster, less its name and the run's; with what the audit will ask, also what
    is left unexplained."""
    brokers, wishes = cluster.brokers, cluster.wishes
    rows, partitions, chosen = placed(frame, brokers.ids)
    settled = settle(partitions.replicas, chosen)
    leaders = assign_leaders(brokers, partitions, settled, leaders_band=policy.leaders_band, out_band=policy.out_band)
    final = lead_with(settled, leaders.chosen)
    findings = [
        *cluster_findings.emptied_racks(brokers, partitions.replicas, final),
        *cluster_findings.broker_findings(brokers, final),
        *(cluster_findings.no_rack_findings(brokers) if policy.rack_policy == "spread" else ()),
        *cluster_findings.rate_findings(partitions),
        *cluster_findings.disk_findings(brokers),
        *cluster_findings.network_findings(brokers),
        *directory_findings(brokers, partitions, final, rows["log_dirs"].to_list(), headroom=policy.disk_headroom),
        *cluster_findings.rack_findings(brokers, partitions, final),
        *cluster_findings.stranded_findings(brokers, partitions, final),
        *pin_findings.pin_findings(brokers, partitions, final),
        *spread_findings(brokers, partitions, final),
        *band_findings.band_findings(
            brokers,
            cluster.bands,
            cluster.loads_before,
            cluster.loads,
            partitions=partitions,
            placed=final,
            policy=policy,
            only=wishes.only,
        ),
        *leader_findings(brokers, partitions, leaders),
        *_lost_findings(rows, brokers),
        *_fixed_findings(rows, brokers),
        *_factor_findings(rows),
        *_spare_findings(rows),
        *_unused_patterns(rows, (one.topics for one in wishes.replication_factors), FindingCode.FACTOR_UNUSED),
        *_unused_patterns(rows, set(policy.topics), FindingCode.TOPICS_UNUSED),
        *_unused_patterns(rows, set(policy.exclude_topics), FindingCode.EXCLUDE_UNUSED),
        *cluster.failures,
    ]
    findings = with_only(findings, wishes, brokers, partitions, final, is_excluded=policy.excludes)
    if cluster.cut:
        held_back = rows["held_back"].to_numpy(dtype=bool)
        findings = limit_findings.with_limit(
            findings, cluster.cut, brokers, cluster.bands, cluster.loads, partitions=partitions, held_back=held_back
        )
    if cluster.left:
        findings = with_left(findings, cluster.left, partitions)
    if audit:
        findings += unexplained_findings(rows, brokers, partitions, final, audit)
    return {
        "proposal": _rows("proposal", _proposals(partitions, final, brokers.ids)),
        "moves": _rows("moves", _moves(brokers, partitions, settled)),
        "leaders": _rows("leaders", _leaders(brokers, partitions, final)),
        "leader_bounds": _rows("leader_bounds", (asdict(bound) for bound in leader_bounds(leaders))),
        "findings": _rows("findings", ({"rule": one.code, **asdict(one)} for one in findings)),
    }


def finish_or_leave(
    frame: pd.DataFrame, cluster: SolvedCluster, settings: Settings, cluster_id: str
) -> tuple[Finished, pd.DataFrame]:
    """Rows of every output table of one cluster; or nothing, and the partitions that no order of copies has room for,
    as ``left_by_order`` has them."""
    left = left_by_order(frame, cluster, settings)
    if len(left):
        return {}, left
    return finish_cluster(frame, cluster, settings.policy, audit_limits(settings, cluster_id)), left


def _names(table: str) -> list[str]:
    """Columns of a table without those that name the cluster and the run."""
    return [name for name in schemas.ALL[table].names if name not in CLUSTER_RUN]


def _rows(table: str, records: Iterable[Mapping[str, object]]) -> pd.DataFrame:
    return with_nulls(pd.DataFrame([*records], columns=_names(table), dtype=object))
