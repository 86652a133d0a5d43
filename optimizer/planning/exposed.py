"""Rows of ``exposure`` and ``wave_findings`` of one cluster: what losses would do at every moment of its plan."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

import schemas
from optimizer.domain import NOT_LIVE, Bools, Brokers, FindingCode, Floats, Ints
from optimizer.planning.arrays import bytes_to, replica_matrix, to_brokers, with_nulls
from optimizer.planning.crossings import near_leaders
from optimizer.planning.finish import finding_row
from optimizer.schedule.exposed_states import Exposed, State, begun, effects_of, ended, moving_lists
from optimizer.schedule.exposure import AFTER, BEFORE, WHILE, Exposure, Losses, Moment, exposure
from optimizer.schedule.wave_changes import bytes_per_broker, same_slots
from optimizer.solve.findings.finding import SHOWN, Finding
from optimizer.topic_policy import matches
from schemas.keys import CLUSTER_RUN


def busiest_near_leaders(exposed: Exposed, near: Ints) -> Floats:
    """The busiest leader's bytes out over the mean while each wave runs, from wave 1.

    It is nan for waves without near leaders.

    Parameters
    ----------
    near : (P,) int64
        The broker that would lead a partition while its wave runs; -1: it keeps the leader that it has then.

    Notes
    -----
    As in ``exposure``, the mean is that of the living brokers that have replicas, and bytes out are those to consumers
    and followers.
    """
    everything, changed = np.arange(len(exposed.wave)), np.flatnonzero(exposed.wave)
    wave, near = exposed.wave[changed], near[changed]
    ratios = np.full(int(wave.max(initial=0)), np.nan)
    if not (near >= 0).any():
        return ratios
    lists = moving_lists(exposed, changed)
    old = begun(exposed, everything, exposed.replicas)
    moving, over = begun(exposed, changed, lists), ended(exposed, changed, lists.shape[1], is_elected=False)
    leading = _leaders(exposed, old)
    leading_while = np.where(near >= 0, near, _leaders(exposed, moving))
    leading_after = _leaders(exposed, over)
    stays = old.hosts[exposed.wave == 0]
    for number in np.unique(wave[near >= 0]).tolist():
        leading[changed] = np.select([wave < number, wave == number], [leading_after, leading_while], leading[changed])
        hosts = (stays, over.hosts[wave < number], moving.hosts[wave == number], old.hosts[changed][wave > number])
        ratios[number - 1] = _busiest_over_mean(exposed, leading, np.concatenate([x.ravel() for x in hosts]))
    return ratios


def _leaders(exposed: Exposed, state: State) -> Ints:
    """The leader of each partition, -1 without one."""
    return effects_of(state, np.arange(len(exposed.rack))).leader


def _busiest_over_mean(exposed: Exposed, leader: Ints, hosts: Ints) -> float:
    load = bytes_per_broker(leader[:, None], exposed.load_bytes_per_s, len(exposed.rack))
    holders = np.unique(hosts[hosts >= 0])
    total = int(load.sum())
    return float(load.max() * exposed.is_living[holders].sum() / total) if total else float("nan")


UNKNOWN_MIN_ISR = 1  # Kafka's default of min.insync.replicas
NONE, BROKER, RACK, SOME_BROKER, SOME_RACK = "none", "broker", "rack", "some_broker", "some_rack"
TWO_BROKERS = "two_brokers"
# A follower that has not caught up for this time is no longer in sync: Kafka's default of replica.lag.time.max.ms, and
# half of it until the leader checks again (kafka.server.ReplicaManager.startup).
_SYNC_SECONDS = 45
# Columns that ``exposure_rows`` reads, besides those that name the cluster and the run.
COLUMNS = (
    *("topic", "partition", "current_replicas", "proposed_replicas", "controller_replicas"),
    *("isr", "elr", "observers", "leader"),
    *("min_insync_replicas", "allows_unclean_election", "size_bytes", "copy_bytes", "tiered_copy_bytes"),
    *("in_bytes_per_s", "out_bytes_per_s", "wave", "log_records", "lag_brokers", "lag_records"),
)


def exposure_rows(
    partitions: pd.DataFrame, hosts: pd.DataFrame, *, needs_whole_min_isr: bool, acks_one: Sequence[str] = ()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of ``exposure`` and of ``wave_findings`` of one cluster, without the columns that name cluster and run.

    Parameters
    ----------
    partitions : DataFrame
        All partitions, with ``COLUMNS``; ``wave`` is null for unchanged ones.
    hosts : DataFrame
        Rows of ``instance_brokers``.
    needs_whole_min_isr : bool
        See ``optimizer.kafka.versions``.
    acks_one : sequence of str
        The setting ``acks_one_topics``.
    """
    brokers = to_brokers(hosts)
    rows = partitions.sort_values(["topic", "partition"], kind="stable").reset_index(drop=True)
    exposed = _exposed(rows, brokers, acks_one, counts_all=needs_whole_min_isr)
    result = exposure(exposed)
    findings = [
        *_stopping(rows, result.stops),
        *_newly_exposed(rows, result, brokers),
        *_under_replicated(rows, exposed, brokers, _troubles(hosts)),
        *_losing(rows, exposed, result),
    ]
    return (
        _frame("exposure", _moment_rows(result.moments, brokers, _busiest_near_leaders(rows, hosts, exposed, brokers))),
        _frame("wave_findings", map(finding_row, findings)),
    )


def _exposed(rows: pd.DataFrame, brokers: Brokers, acks_one: Sequence[str], *, counts_all: bool) -> Exposed:
    in_flight = rows["controller_replicas"].notna()
    replicas = replica_matrix(rows["controller_replicas"].where(in_flight, rows["current_replicas"]), brokers.ids)
    target = replica_matrix(rows["controller_replicas"].where(in_flight, rows["proposed_replicas"]), brokers.ids)
    leader = rows["leader"].to_numpy(dtype="float64", na_value=-1.0).astype(np.int64)
    followers = rows["current_replicas"].map(len).to_numpy(dtype=np.int64) - 1
    incoming, outgoing = (rows[f"{way}_bytes_per_s"].to_numpy(dtype=np.int64) for way in ("in", "out"))
    is_named = np.array([bool(name) for name in brokers.rack_names])
    named_racks = np.where(is_named, np.cumsum(is_named) - 1, -1)
    min_isr = rows["min_insync_replicas"].to_numpy(dtype="float64", na_value=float(UNKNOWN_MIN_ISR))
    in_sync, eligible = (members(replicas, rows[name], brokers.ids) for name in ("isr", "elr"))
    leader = np.where(leader >= 0, np.searchsorted(brokers.ids, leader), -1)
    return Exposed(
        replicas=replicas,
        in_sync=in_sync,
        eligible=eligible,
        leader=leader,
        min_isr=min_isr.astype(np.int64),
        allows_unclean=rows["allows_unclean_election"].eq(True).to_numpy(dtype=bool),
        load_bytes_per_s=outgoing + incoming * np.maximum(followers, 0),
        **_logs(rows, replicas, in_sync, eligible, leader, brokers.ids, acks_one),
        target=target,
        wave=rows["wave"].to_numpy(dtype="float64", na_value=0.0).astype(np.int64),
        rack=named_racks[brokers.rack] if brokers.racks_matter else np.full(len(brokers), -1),
        is_living=brokers.is_live,
        counts_all=counts_all,
    )


def _logs(
    rows: pd.DataFrame,
    replicas: Ints,
    in_sync: Bools,
    eligible: Bools,
    leader: Ints,
    ids: Ints,
    acks_one: Sequence[str],
) -> dict[str, Ints]:
    """The fields of ``Exposed`` about what replicas have of their leader's log.

    Where nobody measured it, a replica out of sync counts as empty, and one in sync lacks what is produced in
    ``_SYNC_SECONDS``.
    """
    log = rows["copy_bytes"].astype("Int64").fillna(rows["size_bytes"].astype("Int64")).to_numpy(dtype=np.int64)
    records = rows["log_records"].to_numpy(dtype="float64", na_value=-1.0).astype(np.int64)
    topics = {topic: matches(topic, acks_one) for topic in rows["topic"].unique()}
    waits = ~rows["topic"].map(topics).to_numpy(dtype=bool)
    in_sync_bytes = np.minimum(rows["in_bytes_per_s"].to_numpy(dtype=np.int64) * _SYNC_SECONDS, log)
    lags = np.where(in_sync, in_sync_bytes[:, None], log[:, None])
    measured = rows[rows["lag_brokers"].notna() & (records >= 0)]
    if len(measured):
        row = np.repeat(measured.index.to_numpy(), measured["lag_brokers"].map(len))
        asked, lacked = (np.concatenate([*measured[name]]).astype(np.int64) for name in ("lag_brokers", "lag_records"))
        lag_bytes = np.minimum(np.ceil(lacked * (log[row] / np.maximum(records[row], 1))), log[row]).astype(np.int64)
        at, slot = np.nonzero((replicas[row] >= 0) & (np.append(ids, -1)[replicas[row]] == asked[:, None]))
        lags[row[at], slot] = lag_bytes[at]
    follows = in_sync & (replicas != leader[:, None])
    has_all = in_sync | (eligible & waits[:, None])
    unacked = np.where(waits, 0, np.where(follows, lags, 0).max(axis=1))
    lacking = np.where(has_all, 0, lags)
    return {"log_bytes": log, "log_records": records, "lacking_bytes": lacking, "unacked_bytes": unacked}


def _busiest_near_leaders(rows: pd.DataFrame, hosts: pd.DataFrame, exposed: Exposed, brokers: Brokers) -> Floats:
    """The busiest leader of each wave over the mean, if leaving replicas in the targets' racks led meanwhile."""
    in_sync, copied = np.where(exposed.in_sync, exposed.replicas, -1), bytes_to(rows, hosts, exposed.target)
    near = near_leaders(brokers, exposed.replicas, exposed.target, in_sync, exposed.leader, copied)
    return busiest_near_leaders(exposed, near.leader)


def members(replicas: Ints, lists: pd.Series, ids: Ints) -> Bools:
    """Which replicas are in the lists of broker ids, (P, W); a missing list is empty."""
    marked = replica_matrix(lists.map(lambda x: x if x is not None else []), ids)
    return np.asarray(same_slots(replicas, marked).any(axis=2))


def _moment_rows(moments: Iterable[Moment], brokers: Brokers, near: Floats) -> Iterator[dict[str, Any]]:
    names = _names(brokers)
    for position, moment in enumerate(moments):
        common = {"position": position, "moment": moment.name, "wave": moment.wave}
        now = {
            "writes_stopped": moment.stopped,
            "offline": moment.offline,
            "busiest_over_mean": moment.busiest_over_mean,
            "near_leader_busiest_over_mean": near[moment.wave - 1] if moment.name == WHILE else None,
        }
        yield {**common, "loss": NONE, "lost": "", **now}
        if pair := moment.in_turn:
            lost = {"offline": pair.offline, "writes_stopped": pair.stopped, "lost_bytes": pair.lost_bytes}
            yield {**common, "loss": TWO_BROKERS, "lost": ",".join(names[BROKER][b] for b in pair.brokers), **lost}
        for loss, some, losses in ((BROKER, SOME_BROKER, moment.brokers), (RACK, SOME_RACK, moment.racks)):
            amounts = {"lost_bytes": losses.lost_bytes, "sole_bytes": losses.sole_bytes}
            most = {name: int(values.max()) for name, values in amounts.items() if len(values)}
            yield {**common, "loss": some, "lost": "", "writes_stopped": losses.stopped_by_some, **most}
            for number in _reported(losses, moment.name):
                yield {**common, "loss": loss, "lost": names[loss][number], **_loss(losses, number)}


def _names(brokers: Brokers) -> dict[str, list[str]]:
    """What may be lost, by kind, in the order of ``Losses``. Brokers without a rack are in none."""
    racks = [name for name in brokers.rack_names if name] if brokers.racks_matter else []
    return {BROKER: [str(broker) for broker in brokers.ids.tolist()], RACK: racks}


def _reported(losses: Losses, moment: str) -> Iterable[int]:
    if moment in (BEFORE, AFTER):
        return range(len(losses.stopped))
    return [losses.worst] if len(losses.stopped) else []


def _loss(losses: Losses, number: int) -> dict[str, Any]:
    counts = {
        "writes_stopped": losses.stopped,
        "offline": losses.offline,
        "under_replicated": losses.under_replicated,
        "leaders_moved": losses.leaders_moved,
        "lost_bytes": losses.lost_bytes,
        "sole_bytes": losses.sole_bytes,
    }
    records = int(losses.lost_records[number])
    return {
        **{name: int(values[number]) for name, values in counts.items()},
        "lost_records": records if records >= 0 else None,
        "busiest_over_mean": float(losses.busiest_over_mean[number]),
    }


def _stopping(rows: pd.DataFrame, stops: Bools) -> Iterator[Finding]:
    """A finding for each topic with partitions whose wave stops their writes."""
    for topic, stopped in rows[stops].groupby("topic", sort=True):
        waves = sorted({int(wave) for wave in stopped["wave"]})
        yield Finding(
            FindingCode.STOPS_WRITES,
            "during",
            topic=str(topic),
            amount=len(stopped),
            limit=int(stopped["min_insync_replicas"].max()),
            facts={"waves": waves},
        )


def _newly_exposed(rows: pd.DataFrame, result: Exposure, brokers: Brokers) -> Iterator[Finding]:
    exposed = rows[result.newly_exposed]
    if exposed.empty:
        return
    after, lost = result.moments[-1], _names(brokers)
    worst = {
        kind: (lost[kind][losses.worst], int(losses.stopped[losses.worst]))
        for kind, losses in ((RACK, after.racks), (BROKER, after.brokers))
        if lost[kind]
    }
    names = [f"{topic}-{partition}" for topic, partition in zip(exposed["topic"], exposed["partition"], strict=True)]
    yield Finding(
        FindingCode.NEWLY_EXPOSED,
        "after",
        amount=len(exposed),
        limit=len(rows),
        facts={"worst": worst, "names": names[:SHOWN]},
    )


def _losing(rows: pd.DataFrame, exposed: Exposed, result: Exposure) -> Iterator[Finding]:
    """A finding for each topic of which the loss of a broker or a rack loses acknowledged records."""
    before, worst, after = result.lost_bytes
    facts_of = {
        "bytes": worst,
        "before": before > 0,
        "during": worst > np.maximum(before, after),
        "after": after > 0,
        "unclean": (worst > exposed.unacked_bytes) | (exposed.allows_unclean & (exposed.lacking_bytes > 0).any(axis=1)),
        "acks_one": exposed.unacked_bytes > 0,
    }
    losing = rows.assign(**facts_of)[worst > 0]
    for topic, some in losing.groupby("topic", sort=True):
        sides = [side for side in ("before", "after") if some[side].any()]
        when = "during" if some["during"].any() else "both" if len(sides) > 1 else sides[0]
        facts = {name: bool(some[name].any()) for name in ("unclean", "acks_one")}
        amount = int(some["bytes"].sum())
        yield Finding(FindingCode.LOSES_RECORDS, when, topic=str(topic), amount=amount, limit=len(some), facts=facts)


def _under_replicated(
    rows: pd.DataFrame, exposed: Exposed, brokers: Brokers, troubles: Mapping[int, str]
) -> Iterator[Finding]:
    """Partitions that lack in-sync replicas: those whose replica out of sync stays, then those from which it leaves.

    Observers may be out of sync, and partitions in flight have a finding of their own.
    """
    lists, leaderless = exposed.replicas, exposed.leader < 0
    counts = (lists >= 0) & ~members(lists, rows["observers"], brokers.ids)
    counts &= rows["controller_replicas"].isna().to_numpy(dtype=bool)[:, None]
    out = counts & (leaderless[:, None] | ~exposed.in_sync)
    stays = out & same_slots(lists, exposed.target).any(axis=2)
    is_left = np.asarray(stays.any(axis=1))
    for when, of, is_counted in (("both", stays, is_left), ("before", out, out.any(axis=1) & ~is_left)):
        held = np.bincount(lists[of & np.asarray(is_counted)[:, None]], minlength=len(brokers))
        by_broker = {int(brokers.ids[b]): int(held[b]) for b in np.flatnonzero(held)}
        if by_broker:
            facts = {
                "brokers": [broker for broker in by_broker if broker not in troubles],
                "troubles": [
                    (broker, by_broker[broker], text) for broker, text in troubles.items() if broker in by_broker
                ],
                "leaderless": int((is_counted & leaderless).sum()),
            }
            amount = int(is_counted.sum())
            yield Finding(FindingCode.UNDER_REPLICATED, when, amount=amount, limit=len(rows), facts=facts)


def _troubles(hosts: pd.DataFrame) -> dict[int, str]:
    """What is wrong with brokers, in words, by id, ascending."""
    down = hosts["state"].where(hosts["state"].isin(NOT_LIVE))
    texts = down.fillna(hosts["closed_reason"])
    return {int(b): str(text) for b, text in sorted(zip(hosts["broker_id"], texts, strict=True)) if pd.notna(text)}


def _frame(table: str, records: Iterable[dict[str, Any]]) -> pd.DataFrame:
    columns = [name for name in schemas.ALL[table].names if name not in CLUSTER_RUN]
    return with_nulls(pd.DataFrame([*records], columns=columns, dtype=object))
