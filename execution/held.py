"""The wave that holds a cluster, for commands that name only the cluster."""

from dataclasses import replace

from execution import claims
from execution.journal import entries_of, wave_of
from execution.observed import Observed
from execution.planned import Plan, load, with_approvals
from execution.throttles import after_removal
from execution.wanted import history, own_rates
from execution.wave import Wave
from stored.runs import StoredRun, StoredRuns
from stored.tables import Warehouse
from stored.verdicts import NoManifest, Refused


def with_own_rates(warehouse: Warehouse, plan: Plan, wave: Wave) -> Wave:
    """The wave with the rates that an operator's commands may have set, if it holds the cluster."""
    if not claims.is_held_for(claims.last_event(warehouse, plan.cluster_id), plan, wave.number):
        return wave
    states = history(claims.since_hold(warehouse, plan, wave.number), claims.WANTED)
    return replace(wave, own_rates=own_rates(wave, states))


def without_held(warehouse: Warehouse, plan: Plan, number: int, now: Observed) -> Observed:
    """The cluster without copies and throttles of the plan's wave that holds it, unless it is this wave.

    A wave of the plan only begins when they have ended.
    """
    last = claims.last_event(warehouse, plan.cluster_id)
    if last is None or claims.is_held_for(last, plan, number) or not claims.is_held_for(last, plan, last["wave"]):
        return now
    changes = str(claims.of_last_hold(warehouse, plan, int(last["wave"]))[0]["changes"])
    held = with_own_rates(warehouse, plan, wave_of(int(last["wave"]), changes))
    own = {key: replace(one, own=held.own_rates.get(key, frozenset())) for key, one in entries_of(changes).items()}
    in_flight = {partition: target for partition, target in now.in_flight.items() if partition not in held.after}
    return replace(now, in_flight=in_flight, throttles=after_removal(own, now.throttles))


def plan_to_end(warehouse: Warehouse, *, cluster_id: str, run_id: str) -> Plan:
    """A plan, for commands that steer or end its wave: while one holds the cluster, no manifest is needed.

    Then the journal says what the wave has changed. The approved sha256 is that of the verdict; the numbers and the
    times of the waves are those of table ``waves``.
    """
    try:
        return load(warehouse, cluster_id=cluster_id, run_id=run_id)
    except NoManifest:
        last = claims.last_event(warehouse, cluster_id)
        if last is None or last["event"] == claims.RELEASED or last["run_id"] != run_id:
            raise
    stored = StoredRun(warehouse, run_id, cluster_id)
    seconds = {int(row["wave"]): row["estimated_seconds"] for row in stored.waves}
    waves = sorted({*seconds, abs(int(last["wave"]))})
    manifest = {"waves": dict.fromkeys(waves, ""), "wave_seconds": seconds}
    return with_approvals(warehouse, Plan(cluster_id, run_id, manifest, stored.verdict["manifest_sha256"], ()))


def held_wave(warehouse: Warehouse, cluster_id: str) -> tuple[Plan, Wave]:
    """The plan and the wave that hold a cluster, as the journal has it.

    Raises
    ------
    StageError
        When the warehouse or the cluster is unknown.
    Refused
        When no wave holds the cluster.
    """
    last = claims.last_event(warehouse, cluster_id)
    if last is None or last["event"] == claims.RELEASED:
        _ = StoredRuns(warehouse, cluster_id=cluster_id).verdicts  # refuses an unknown cluster
        raise Refused(f"no wave holds cluster {cluster_id!r}: there is nothing to steer; ./ballast show lists the runs")
    plan = plan_to_end(warehouse, cluster_id=cluster_id, run_id=str(last["run_id"]))
    number = int(last["wave"])
    changes = str(claims.of_last_hold(warehouse, plan, number)[0]["changes"])
    return plan, with_own_rates(warehouse, plan, wave_of(number, changes))
