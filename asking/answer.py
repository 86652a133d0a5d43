"""Answers to questions: the figures of the plan that the job would make."""

from collections.abc import Sequence
from dataclasses import dataclass

from asking.fitting import Shortage, may_change_fit, shortage
from asking.noticing import groups_noticing
from asking.question import Question, instance_for
from asking.run_facts import RunFacts
from optimizer.cluster_policy import DEMOTE, DIRS, LEADERS
from optimizer.planning.in_memory import MemoryPlan, plan_in_memory
from optimizer.planning.plan_figures import AFTER, BEFORE, Figures, disk_percents, figures_of
from optimizer.settings import Settings


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
    disks_before, disks_after : sequence of float
        Used share of each broker's disk in percent; empty without a plan, or if a capacity is unknown.
    """

    question: Question
    figures: Figures
    plan: MemoryPlan | None
    shortage: Shortage | None
    settings: Settings
    disks_before: Sequence[float] = ()
    disks_after: Sequence[float] = ()


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
    # What does not fit in the run itself stays where it is: the job plans such a cluster too. Leaders copy nothing.
    [requests] = settings.cluster_policies().values()
    checked = may_change_fit(question) and requests.only not in (LEADERS, DEMOTE, DIRS)
    missing = shortage(instance, hosts, headroom=settings.policy.disk_headroom) if checked else None
    if missing and not anyway:
        return Answer(question, {}, None, missing, settings)
    plan = plan_in_memory(instance, hosts, settings, captured_at=facts.captured_at)
    figures = {**figures_of(plan.tables, hosts), **groups_noticing(facts, question, plan)}
    before, after = (disk_percents(plan.tables["measured"], hosts, side) for side in (BEFORE, AFTER))
    return Answer(question, figures, plan, missing, settings, before, after)
