"""Alternatives to the plan of a run, as questions."""

from asking.question import Question
from asking.run_facts import RunFacts
from optimizer.planning import alternatives as planning


def alternatives(facts: RunFacts, moved_bytes: float | None) -> list[Question]:
    """This plan, and the alternatives that the job stores.

    Parameters
    ----------
    moved_bytes : float, optional
        That the run's plan copies.
    """
    settings = facts.settings
    [requests] = settings.cluster_policies().values()
    chosen = planning.alternatives(settings.policy, requests, moved_bytes)
    return [Question("this plan"), *(Question(name, knobs={"policy": knobs}) for name, knobs in chosen.items())]
