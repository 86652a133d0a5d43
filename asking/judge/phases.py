"""Phases of another tool's plan: the cluster that each leaves, their sum, and their peak."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pandas as pd

from asking.judge.their_plan import TheirPlan
from asking.run_facts import RunFacts
from optimizer.kafka.reassignment_json import ANY_DIR
from optimizer.planning.in_memory import Tables, records
from optimizer.planning.plan_figures import Figures
from optimizer.units import first_of

SHOWN_PHASES = 6  # phases with a column of their own
# Figures that are added over phases; the others describe the cluster.
_COSTS = (
    *("moved_bytes", "moved_share_percent", "cross_rack_bytes", "replicas_moved", "partitions_changed"),
    *("leader_changes", "followers_reordered", "factor_changes", "waves", "dir_moves", "dir_moved_bytes"),
    *("estimated_hours", "least_hours", "most_hours"),
)
_STATE = ("replicas", "log_dirs", "isr", "leader", "controller_replicas", "adding_replicas")


def after(facts: RunFacts, phase: TheirPlan, tables: Tables) -> RunFacts:
    """The facts when a phase has ended: all replicas are in sync, and a leader that leaves is replaced by the first."""
    rows = facts.partitions
    keys = pd.MultiIndex.from_tuples([*phase.partitions])
    places = pd.MultiIndex.from_frame(rows[["topic", "partition"]]).get_indexer(keys)
    values = {name: rows[name].to_list() for name in _STATE}
    for place, named in zip(places.tolist(), phase.partitions.values(), strict=True):
        now = dict(zip(values["replicas"][place], values["log_dirs"][place], strict=True))
        given = named.log_dirs or [ANY_DIR] * len(named.replicas)
        dirs = [now.get(b, ANY_DIR) if d == ANY_DIR else d for b, d in zip(named.replicas, given, strict=True)]
        values["log_dirs"][place] = dirs
        if list(named.replicas) == [*now]:
            continue
        leader = values["leader"][place]
        values["leader"][place] = leader if leader in named.replicas else named.replicas[0]
        values["replicas"][place], values["isr"][place] = [*named.replicas], sorted(named.replicas)
        values["controller_replicas"][place] = values["adding_replicas"][place] = None
    changed = {name: pd.Series(values[name], rows.index, dtype=object) for name in _STATE}
    return replace(facts, partitions=rows.assign(**changed), brokers=_dirs_after(facts.brokers, tables))


def _dirs_after(brokers: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """The brokers with the bytes that a phase leaves in their directories."""
    balance = records(tables["dir_balance"]) if "dir_balance" in tables else []
    used = {(row["broker_id"], row["log_dir"]): row["after_bytes"] for row in balance}
    dirs = [
        [{**entry, "used_bytes": used.get((broker, entry["path"]), entry["used_bytes"])} for entry in structs]
        if isinstance(structs, Iterable)
        else structs
        for broker, structs in zip(brokers["broker_id"], brokers["log_dirs"], strict=True)
    ]
    return brokers.assign(log_dirs=pd.Series(dirs, brokers.index, dtype=object))


def summed(phases: Sequence[Figures]) -> Figures:
    """The figures of all phases: costs are added, states are those before the first and after the last."""
    if len(phases) == 1:
        return phases[0]
    names = {name: None for figures in phases for name in figures}
    totals: dict[str, tuple[float | None, float | None]] = {}
    for name in names:
        values = [figures.get(name, (None, 0.0))[1] for figures in phases]
        known = [value for value in values if value is not None]
        total = (sum(known) if len(known) == len(values) else None) if name in _COSTS else values[-1]
        totals[name] = (phases[0].get(name, (None, None))[0], total)
    return totals


def peak(phases: Sequence[Figures]) -> Figures:
    """The largest value of each figure, of all phases."""
    values = {name: [each.get(name, (None, None))[1] for each in phases] for figures in phases for name in figures}
    return {name: (None, max((v for v in each if v is not None), default=None)) for name, each in values.items()}


def about_phases(phases: Sequence[tuple[str, Figures]]) -> Iterator[str]:
    """A sentence about the order of the phases."""
    if phases:
        listed = first_of((f"{number}. {name}" for number, (name, _) in enumerate(phases, start=1)), SHOWN_PHASES)
        yield (
            f"Their plan has {len(phases):,} phases, judged in this order, each against the state that the phase "
            f"before leaves: {listed}. Costs are added."
        )
