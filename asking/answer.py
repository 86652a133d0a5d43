"""Answers to questions: the figures of the plan that the job would make."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from asking.fitting import Shortage, shortage
from asking.question import Question, instance_for
from asking.run_facts import RunFacts
from optimizer.planning.exposed import NONE
from optimizer.planning.in_memory import MemoryPlan, plan_in_memory
from optimizer.settings import Settings

BEFORE, AFTER = "before", "after"
_SECONDS_PER_HOUR = 3600  # of waves; hours are shown
Figures = Mapping[str, tuple[float | None, float | None]]


@dataclass(frozen=True)
class Answer:
    """The answer to one question.

    Parameters
    ----------
    question : Question
    figures : mapping
        Values before and after the plan, by name; empty if nothing was solved.
    plan : MemoryPlan or None
        None if the bytes do not fit.
    shortage : Shortage or None
        Why the bytes do not fit.
    settings : Settings
        That the plan was made with.
    """

    question: Question
    figures: Figures
    plan: MemoryPlan | None
    shortage: Shortage | None
    settings: Settings


def answer(facts: RunFacts, question: Question, *, anyway: bool = False) -> Answer:
    """Plan the cluster of a question.

    Parameters
    ----------
    anyway : bool
        Solve also if the bytes cannot fit.

    Raises
    ------
    ConfigError
        When no plan can meet the policy, or the question names what the cluster does not have.
    """
    settings, instance, hosts = instance_for(facts, question)
    # The job has planned the run itself, so its bytes fit, or they stay where they are.
    checked = not question.changes_nothing
    missing = shortage(instance, hosts, headroom=settings.policy.disk_headroom) if checked else None
    if missing and not anyway:
        return Answer(question, {}, None, missing, settings)
    plan = plan_in_memory(instance, hosts, settings, captured_at=facts.captured_at)
    figures = figures_of(plan.tables, hosts)
    return Answer(question, figures, plan, missing, settings)


def figures_of(tables: Mapping[str, pd.DataFrame], hosts: pd.DataFrame) -> Figures:
    """Figures of a plan, by name: those of ``plan_summary``, hours, disks, and partitions that are offline.

    Parameters
    ----------
    tables : mapping
        ``plan_summary``, ``waves``, ``measured`` and ``exposure``.
    hosts : DataFrame
        With ``disk_capacity_bytes``.
    """
    figures: dict[str, tuple[float | None, float | None]] = {
        str(row["figure"]): (_value(row[BEFORE]), _value(row[AFTER]))
        for row in tables["plan_summary"][["figure", BEFORE, AFTER]].to_dict("records")
    }
    for name in ("least_seconds", "most_seconds"):
        seconds = tables["waves"][name] if len(tables["waves"]) else pd.Series([0])
        known = None if seconds.isna().any() else float(seconds.sum()) / _SECONDS_PER_HOUR
        figures[name.replace("seconds", "hours")] = (None, known)
    figures["fullest_disk_percent"] = (
        _fullest(tables["measured"], hosts, BEFORE),
        _fullest(tables["measured"], hosts, AFTER),
    )
    without_loss = tables["exposure"][tables["exposure"]["loss"] == NONE].set_index("moment")["offline"]
    figures["offline"] = (_value(without_loss.get(BEFORE)), _value(without_loss.get(AFTER)))
    return figures


def _value(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)


def _fullest(measured: pd.DataFrame, hosts: pd.DataFrame, placement: str) -> float | None:
    """The largest share of a disk that is used, in percent; None if a capacity is unknown."""
    rows = measured[measured["placement"] == placement].merge(
        hosts[["broker_id", "disk_capacity_bytes"]], on="broker_id"
    )
    rows = rows[rows["disk_bytes"] > 0]
    if rows.empty or rows["disk_capacity_bytes"].isna().any():
        return None
    return float((100 * rows["disk_bytes"].astype(float) / rows["disk_capacity_bytes"].astype(float)).max())
