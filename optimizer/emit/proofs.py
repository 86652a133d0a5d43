"""How close a plan is to its lower bounds, in words: in one sentence for the verdict, in two for the pages."""

from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.units import human_bytes, human_percent

LEAVES_NO_MORE = "leaves no more undone"


def proof_in_short(plan: ClusterPlan) -> str:
    """One sentence about copies between brokers, if the plan has any; another about those inside brokers."""
    return " ".join(filter(None, (_between_in_short(plan), _inside_in_short(plan))))


def proof(plan: ClusterPlan) -> str:
    """Two sentences about copies between brokers, if the plan has any; two more about those inside brokers."""
    return " ".join(filter(None, (_between(plan), _inside(plan))))


def _short(gap_percent: float | None, moves_less: str, possible: str) -> str:
    if gap_percent is None:
        return ""
    if gap_percent <= 0:
        return f"No plan {moves_less} {possible} (proven)."
    return f"At most {human_percent(gap_percent)} over the least possible {possible} (proven)."


def _long(minimum: str, gap_percent: float | None, moves: str) -> str:
    if gap_percent is None:
        return minimum
    more = f"at most {human_percent(gap_percent)}" if gap_percent > 0 else "no"
    return f"{minimum} This plan {moves} {more} more."


def _is_between(plan: ClusterPlan) -> bool:
    return bool(plan.changed or not plan.dir_moves)


def _between_in_short(plan: ClusterPlan) -> str:
    if not _is_between(plan):
        return ""
    possible = "for this request" if plan.requested.only else "for this balance"
    if plan.limit_finding:
        possible = "if no more is left undone"
    return _short(plan.figure("gap_percent"), "copies less", possible) or "No lower bound was computed."


def _between(plan: ClusterPlan) -> str:
    if not _is_between(plan):
        return ""
    bound = plan.figure("bound_bytes")
    if bound is None:
        return "No lower bound was computed for this plan."
    kind = next((row.kind for row in plan.bounds if row.is_best), "")
    plans = "Any equally balanced plan" + (f" that {LEAVES_NO_MORE}" if plan.limit_finding else "")
    between = " between brokers" if plan.dir_moves else ""
    minimum = f"{plans} copies at least {human_bytes(bound)}{between} (proven: {kind} bound)."
    return _long(minimum, plan.figure("gap_percent"), "copies")


def _inside_in_short(plan: ClusterPlan) -> str:
    if not plan.dir_moves:
        return ""
    possible = f"inside brokers for {_reached(plan)}"
    return _short(_gap_inside(plan), "moves less", possible) or "No lower bound was computed for copies inside brokers."


def _inside(plan: ClusterPlan) -> str:
    if not plan.dir_moves:
        return ""
    bound = plan.figure("dir_bound_bytes")
    if bound is None:
        return "No lower bound was computed for copies inside brokers."
    minimum = f"For {_reached(plan)}, at least {human_bytes(bound)} must move inside brokers (proven)."
    return _long(minimum, _gap_inside(plan), "moves")


def _reached(plan: ClusterPlan) -> str:
    """What the bound inside brokers assumes."""
    if plan.number("dirs_outside_bands"):
        return "so few bytes outside the bands of log directories"
    return "these bands of log directories"


def _gap_inside(plan: ClusterPlan) -> float | None:
    """Bytes above the bound, in percent of it; None without a bound, or if it is 0 and the plan moves more."""
    bound = plan.figure("dir_bound_bytes")
    if bound is not None and plan.inside_bytes <= bound:
        return 0.0
    return 100 * (plan.inside_bytes / bound - 1) if bound else None
