"""Alternatives to a plan: the same cluster with other bands or another limit."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pandas as pd

from optimizer.cluster_policy import BYTES_PER_GB, ClusterPolicy
from optimizer.planning.balance_rows import measure_plan
from optimizer.planning.in_memory import plan_in_memory
from optimizer.planning.plan_figures import figures_of
from optimizer.settings import BANDS, Policy, Settings, with_knobs, with_policy

Knobs = Mapping[str, float]
NO_LIMITS: Knobs = {"max_moved_gb": 0, "max_moves": 0}  # GB, replicas; 0 means no limit
_ANY_LOAD = 100.0  # a band this wide is never left: the largest that a policy accepts
_DIGITS = 3  # after the decimal point of a limit in GB: whole MB


def alternatives(policy: Policy, requests: ClusterPolicy, moved_bytes: float | None) -> dict[str, Knobs]:
    """Knobs of ``[policy]`` by alternative: wider bands; only what is urgent; half the bytes; no limit.

    No alternative waits to start.

    Parameters
    ----------
    policy : Policy
    requests : ClusterPolicy
        Of the cluster.
    moved_bytes : float, optional
        That the plan copies; without it, or if half of it is no megabyte, half of it is no alternative.
    """
    chosen: dict[str, Knobs] = {
        "bands x 2": {name: min(2 * getattr(policy, name), _ANY_LOAD) for name in BANDS},
        "only urgent": dict.fromkeys(BANDS, _ANY_LOAD),
    }
    half = round((moved_bytes or 0) / 2 / BYTES_PER_GB, _DIGITS)
    if half:
        chosen["half the bytes"] = {"max_moved_gb": half}
    if any(getattr(requests, name) for name in NO_LIMITS):
        chosen["no limit"] = NO_LIMITS
    started: Knobs = {"start_at": 0} if policy.start_at else {}
    return {name: {**knobs, **started} for name, knobs in chosen.items()}


def alternative_rows(
    instance: pd.DataFrame,
    hosts: pd.DataFrame,
    settings: Settings,
    *,
    moved_bytes: float,
    captured_at: datetime | None = None,
) -> Iterator[dict[str, Any]]:
    """Rows of table ``alternatives`` of one cluster, without columns that name cluster and run.

    Parameters
    ----------
    instance, hosts, settings, captured_at :
        As for ``plan_in_memory``.
    moved_bytes : float
        That the plan copies.
    """
    requests = settings.cluster_policies().get(str(hosts["cluster_id"].iloc[0]), ClusterPolicy())
    for position, (name, knobs) in enumerate(alternatives(settings.policy, requests, moved_bytes).items(), start=1):
        plan = plan_in_memory(instance, hosts, _with_policy(settings, knobs), captured_at=captured_at)
        text = ", ".join(f"{knob} = {value:g}" for knob, value in knobs.items())
        figures = {figure: after for figure, (_, after) in figures_of(plan.tables, hosts).items()}
        # By the bands of the run, not by its own.
        measured = measure_plan(plan.tables["compared"], instance, hosts, settings.policy, ("after",))
        figures["brokers_outside_bands"] = float((~measured["in_band"]).sum())
        for figure, value in figures.items():
            yield {"position": position, "alternative": name, "knobs": text, "figure": figure, "value": value}


def _with_policy(settings: Settings, knobs: Knobs) -> Settings:
    """The settings with other knobs of ``[policy]``, which then apply to every cluster."""
    limits: dict[str, Any] = {name: 0 for name in NO_LIMITS if name in knobs}
    changed = with_policy(settings, with_knobs(settings.policy, knobs))
    vars(changed)["clusters"] = tuple(replace(c, **limits) for c in settings.clusters)
    return changed
