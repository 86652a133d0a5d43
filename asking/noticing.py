"""How many consumer groups notice a plan, as figures of an answer."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from asking.run_facts import RunFacts
from optimizer.emit.consumer_counts import consumer_counts
from optimizer.emit.rows import ConsumerImpactRow
from optimizer.planning.consumer_rows import consumer_rows
from optimizer.planning.in_memory import MemoryPlan
from optimizer.planning.plan_figures import Figures


def groups_noticing(facts: RunFacts, plan: MemoryPlan) -> Figures:
    """Figures of a plan: numbers of groups after it; none if no source is about consumers.

    Parameters
    ----------
    facts : RunFacts
        About the cluster that the question describes.
    """
    if not facts.consumer_groups:
        return {}
    racks = {
        int(broker): None if pd.isna(rack) else str(rack)
        for broker, rack in zip(facts.brokers["broker_id"], facts.brokers["rack"], strict=True)
    }
    rows = consumer_rows(plan.tables["compared"], facts.consumer_groups, facts.consumer_members, racks)
    return figures_of_groups(rows["consumer_impact"])


def figures_of_groups(rows: Iterable[Mapping[str, Any]]) -> Figures:
    """The same from rows of ``consumer_impact``."""
    counts = consumer_counts(ConsumerImpactRow.of(rows))
    return {f"groups_{name}": (None, float(value)) for name, value in asdict(counts).items()} if counts else {}
