"""The wave that holds a cluster, for commands that name only the cluster."""

from dataclasses import replace

from execution import claims
from execution.journal import wave_of
from execution.planned import Plan, Refused, load
from execution.tables import Warehouse
from execution.wanted import history, own_rates
from execution.wave import Wave


def with_own_rates(warehouse: Warehouse, plan: Plan, wave: Wave) -> Wave:
    """The wave with the rates that an operator's commands may have set, if it holds the cluster."""
    if not claims.is_held_for(claims.last_event(warehouse, plan.cluster_id), plan, wave.number):
        return wave
    states = history(claims.since_hold(warehouse, plan, wave.number), claims.WANTED)
    return replace(wave, own_rates=own_rates(wave, states))


def held_wave(warehouse: Warehouse, cluster_id: str) -> tuple[Plan, Wave]:
    """The plan and the wave that hold a cluster, as the journal has it.

    Raises
    ------
    Refused
        When no wave holds the cluster, or an earlier release holds it.
    """
    last = claims.last_event(warehouse, cluster_id)
    if last is None or last["event"] == claims.RELEASED:
        raise Refused(f"no wave holds cluster {cluster_id!r}: there is nothing to steer; ./ballast show lists the runs")
    plan, number = load(warehouse, cluster_id=cluster_id, run_id=str(last["run_id"])), int(last["wave"])
    journal = claims.of_last_hold(warehouse, plan, number)
    if not journal or not journal[0]["changes"]:
        name = f"{claims.wave_name(number)} of run {plan.run_id!r}"
        raise Refused(f"{name} was begun by an earlier release: use ./ballast wave")
    return plan, with_own_rates(warehouse, plan, wave_of(number, str(journal[0]["changes"])))
