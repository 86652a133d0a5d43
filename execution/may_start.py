"""Whether a wave may begin: the plan has not expired, and no other plan was executed since its snapshot."""

from execution import claims
from execution.planned import Plan
from stored.tables import Warehouse


def check_may_start(warehouse: Warehouse, plan: Plan, wave: int, max_hours: float | None) -> None:
    """Raise ``Refused`` if the plan has expired or is out of date; a wave that holds the cluster may continue.

    Waves of a plan that has begun expire only if a limit is given: half a plan is worse than an old one.
    """
    if not claims.is_held_for(claims.last_event(warehouse, plan.cluster_id), plan, wave):
        if max_hours is not None or not claims.has_begun(warehouse, plan):
            plan.check_age(max_hours)
        claims.check_not_overtaken(warehouse, plan)
