"""How many consumer groups notice a plan, as figures of an answer."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from asking.question import Question, facts_for
from asking.run_facts import RunFacts
from optimizer.emit.consumer_counts import consumer_counts
from optimizer.emit.rows import ConsumerImpactRow
from optimizer.planning.consumer_rows import consumer_rows
from optimizer.planning.in_memory import MemoryPlan
from optimizer.planning.plan_figures import Figures


def consumer_tables(facts: RunFacts, plan: MemoryPlan) -> dict[str, list[dict[str, Any]]]:
    """Rows of ``consumer_load`` and ``consumer_impact`` of a plan.

    Parameters
    ----------
    facts : RunFacts
        About the cluster that the question describes.
    """
    racks = {
        int(broker): None if pd.isna(rack) else str(rack)
        for broker, rack in zip(facts.brokers["broker_id"], facts.brokers["rack"], strict=True)
    }
    return consumer_rows(plan.tables["compared"], facts.consumer_groups, facts.consumer_members, racks)


def groups_noticing(facts: RunFacts, question: Question, plan: MemoryPlan) -> Figures:
    """Figures of the plan that answers a question: numbers of groups; none if no source is about consumers."""
    if not facts.consumer_groups:
        return {}
    return figures_of_groups(consumer_tables(facts_for(facts, question), plan)["consumer_impact"])


def figures_of_groups(rows: Iterable[Mapping[str, Any]]) -> Figures:
    """The same from rows of ``consumer_impact``."""
    counts = consumer_counts(ConsumerImpactRow.of(rows))
    return {f"groups_{name}": (None, float(value)) for name, value in asdict(counts).items()} if counts else {}
