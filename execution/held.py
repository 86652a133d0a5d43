"""What a wave that holds a cluster has changed: the content of the journal's row ``held``, and the wave of it."""

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from execution.health import Baseline
from execution.journal import Hold, Journal, Ledger, WaveId
from execution.observed import Observed, Stored
from execution.planned import Plan, load, with_approvals
from execution.throttles import Entries, Entry, after_removal
from execution.wanted import history, own_rates
from execution.wave import Wave
from stored.runs import StoredRun, StoredRuns
from stored.tables import Warehouse
from stored.verdicts import NoManifest, Refused


def changes_of(wave: Wave, entries: Entries, baseline: Baseline) -> str:
    """What the wave is about to change and what was wrong before, as JSON.

    It has throttles with their values before and wanted, and replica lists and directories before and after.
    """
    content = {
        "throttles": [[*key, one.before, one.wanted] for key, one in sorted(entries.items())],
        "partitions": [[*partition, wave.before[partition], after] for partition, after in sorted(wave.after.items())],
        "stuck": sorted(wave.stuck),
        "inside": [[*replica, *paths] for replica, paths in sorted(wave.inside.items())],
        "copy_bytes_per_s": wave.copy_bytes_per_s,
        "topic_ids": {topic: wave.topic_ids.get(topic) for topic in sorted({topic for topic, _ in wave.after})},
        "baseline": baseline.to_data(),
    }
    return json.dumps(content, separators=(",", ":"))


def entries_of(changes: str) -> Entries:
    """The throttles of a wave with their values before it."""
    return {
        (kind, name, config): Entry(before, wanted)
        for kind, name, config, before, wanted in json.loads(changes)["throttles"]
    }


def stored_baseline(changes: str) -> Baseline:
    """The cluster when the wave began."""
    return Baseline.of_data(json.loads(changes)["baseline"])


def wave_of(wave: WaveId, changes: str) -> Wave:
    """A wave without documents: enough to steer it, to cancel it and to remove its throttles."""
    content: dict[str, Any] = json.loads(changes)
    lists = {(topic, index): lists for topic, index, *lists in content["partitions"]}
    entries = entries_of(changes)
    return Wave(
        number=wave.number,
        is_rollback=wave.is_rollback,
        style="",
        documents={},
        before={partition: tuple(before) for partition, (before, _) in lists.items()},
        after={partition: tuple(after) for partition, (_, after) in lists.items()},
        stuck=frozenset((topic, index) for topic, index in content["stuck"]),
        throttles={key: one.wanted for key, one in entries.items()},
        previous_throttles={key: one.before for key, one in entries.items() if one.before is not None},
        topic_ids=content["topic_ids"],
        copy_bytes_per_s=content["copy_bytes_per_s"],
        inside={(topic, index, broker): (old, new) for topic, index, broker, old, new in content["inside"]},
    )


def holding(journal: Journal, hold: Hold) -> Wave:
    """The wave of a hold, as the journal has it."""
    return with_own_rates(hold, wave_of(hold.wave, journal.changes(hold)))


def with_own_rates(hold: Hold | None, wave: Wave) -> Wave:
    """The wave with the rates that an operator's commands may have set since it holds the cluster."""
    return replace(wave, own_rates=own_rates(wave, history(hold))) if hold else wave


def entries_to_end(journal: Journal, hold: Hold | None, wave: Wave) -> Entries:
    """The throttles of a wave: of its last hold, or from the plan if it never held the cluster."""
    if hold and hold.has_changes:
        own = own_rates(wave, history(hold))
        entries = entries_of(journal.changes(hold))
        return {key: replace(one, own=own.get(key, frozenset())) for key, one in entries.items()}
    previous = wave.previous_throttles
    return {key: Entry(previous.get(key), wanted) for key, wanted in wave.throttles.items()}


def without_held(journal: Journal, plan: Plan, wave: Wave, now: Observed) -> Observed:
    """The cluster without copies and throttles of the plan's wave that holds it, unless it is this wave.

    A wave of the plan only begins when they have ended.
    """
    hold = journal.look().holder
    if hold is None or not hold.is_of(plan) or hold.wave == wave.id or not hold.has_changes:
        return now
    held = holding(journal, hold)
    in_flight = {partition: target for partition, target in now.in_flight.items() if partition not in held.after}
    return replace(
        now, in_flight=in_flight, throttles=after_removal(entries_to_end(journal, hold, held), now.throttles)
    )


def plan_to_end(warehouse: Warehouse, ledger: Ledger, *, cluster_id: str, run_id: str) -> Plan:
    """A plan, for commands that steer or end its wave: while one holds the cluster, no manifest is needed.

    Then the journal says what the wave has changed. The approved sha256 is that of the verdict; the numbers and the
    times of the waves are those of table ``waves``.
    """
    try:
        return load(warehouse, cluster_id=cluster_id, run_id=run_id)
    except NoManifest:
        hold = ledger.holder
        if hold is None or hold.run_id != run_id:
            raise
    stored = StoredRun(warehouse, run_id, cluster_id)
    seconds = {int(row["wave"]): row["estimated_seconds"] for row in stored.waves}
    waves = sorted({*seconds, hold.wave.number})
    manifest = {
        "waves": dict.fromkeys(waves, ""),
        "wave_seconds": seconds,
        "captured_at": None,
        "valid_until": None,
        "kafka_cluster_id": hold.kafka_cluster_id,
    }
    return with_approvals(warehouse, Plan(cluster_id, run_id, manifest, stored.verdict["manifest_sha256"], ()))


def held_wave(warehouse: Warehouse, cluster_id: str) -> tuple[Plan, Wave, Journal]:
    """The plan and the wave that hold a cluster, as the journal has it.

    Raises
    ------
    StageError
        When the warehouse or the cluster is unknown.
    Refused
        When no wave holds the cluster.
    """
    journal = Journal(warehouse, cluster_id)
    ledger = journal.look()
    hold = ledger.holder
    if hold is None:
        _ = StoredRuns(warehouse, cluster_id=cluster_id).verdicts  # refuses an unknown cluster
        raise Refused(f"no wave holds cluster {cluster_id!r}: there is nothing to steer; ./ballast show lists the runs")
    plan = plan_to_end(warehouse, ledger, cluster_id=cluster_id, run_id=hold.run_id)
    if not hold.has_changes:
        raise Refused(
            f"{hold.wave.name} of run {hold.run_id!r} was cancelled without holding the cluster, and its end was "
            f"killed. To end it: {hold.ending_command()}"
        )
    return plan, holding(journal, hold), journal


def measured(
    warehouse: Warehouse, plan: Plan, wave: Wave, hold: Hold | None, stored: Callable[[Collection[int]], Stored]
) -> str:
    """Predicted and measured seconds and bytes of a wave whose copies are done, as JSON; null where they are unknown.

    Parameters
    ----------
    stored : callable
        Returns what the directories of some brokers have.
    """
    copies = {(*partition, broker) for partition in wave.after for broker in wave.targets(partition)}
    sizes = stored(sorted({broker for _, _, broker in copies})).size_bytes
    rows = (
        []
        if wave.is_rollback
        else warehouse.rows("waves", cluster_id=plan.cluster_id, run_id=plan.run_id, wave=wave.number)
    )
    begun = hold.started_at if hold else None
    result = {
        "predicted_seconds": predicted_seconds(plan, wave),
        "measured_seconds": round((datetime.now(tz=UTC) - begun).total_seconds(), 1) if begun else None,
        "predicted_bytes": rows[0]["moved_bytes"] if rows else None,
        "copied_bytes": sum(sizes.get(copy, 0) for copy in copies),
    }
    return json.dumps(result)


def wave_ends(warehouse: Warehouse, plan: Plan) -> dict[int, tuple[float, float]]:
    """The least and the most seconds of each wave, as its run stored them."""
    rows = StoredRun(warehouse, plan.run_id, plan.cluster_id).rows("waves", "wave", "least_seconds", "most_seconds")
    return {row["wave"]: (row["least_seconds"], row["most_seconds"]) for row in rows}


def predicted_seconds(plan: Plan, wave: Wave) -> float | None:
    """The approved estimate of a wave; None for a rollback, which has none."""
    return None if wave.is_rollback else plan.wave_seconds.get(wave.number)
