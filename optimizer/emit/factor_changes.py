"""What the plan does to replication factors, as people read it."""

from collections import Counter

from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.units import plural

_NAMED = 5  # topics: more do not fit a line that is read


def factor_changes(plan: ClusterPlan) -> dict[tuple[str, int, int], int]:
    """Partitions by topic, replicas before and after, of lists that change their length; in this order."""
    lengths = ((row.topic, len(row.current_replicas), len(row.proposed_replicas)) for row in plan.changed)
    return dict(sorted(Counter(key for key in lengths if key[1] != key[2]).items()))


def factors_text(plan: ClusterPlan) -> str:
    """Topics with their replication factors in one sentence; empty where all stay."""
    changes = factor_changes(plan)
    if not changes:
        return ""
    named = [f"{topic} {a} -> {b} ({plural(n, 'partition')})" for (topic, a, b), n in list(changes.items())[:_NAMED]]
    more = len(changes) - len(named)
    return f"Replication factor: {', '.join(named)}" + (f" and {more} more in the table plan." if more else ".")


def gives_up_replicas(plan: ClusterPlan) -> bool:
    """Whether a list gets shorter: the way back then copies what was deleted."""
    return any(after < before for _, before, after in factor_changes(plan))
