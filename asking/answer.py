"""Answers to questions: the figures of the plan that the job would make."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from asking.fitting import Shortage, may_change_fit, shortage
from asking.noticing import groups_noticing
from asking.question import Question, as_the_run, instance_for
from asking.run_facts import RunFacts
from optimizer.cluster_policy import DEMOTE, DIRS, LEADERS
from optimizer.planning.balance_rows import measure_plan
from optimizer.planning.in_memory import MemoryPlan, plan_in_memory, records
from optimizer.planning.plan_figures import AFTER, BEFORE, Figures, disk_percents, figures_of
from optimizer.planning.summary_rows import balance_figures
from optimizer.settings import Settings, start_policy

OUTSIDE, LEAVING = "brokers_outside_bands", "replicas_on_leaving_brokers"


@dataclass(frozen=True)
class Answer:
    """The answer to one question.

    Parameters
    ----------
    question : Question
    figures : mapping
        Values before and after the plan, by name, judged by its own bands and requests; empty if nothing was solved.
    plan : MemoryPlan or None
        None if the bytes do not fit.
    shortage : Shortage or None
        Why the bytes do not fit.
    settings : Settings
        That the plan was made with.
    disks_before, disks_after : sequence of float
        Used share of each broker's disk in percent; empty without a plan, or if a capacity is unknown.
    by_the_run : mapping
        Figures that differ if the bands and ``only`` of the run judge the plan.
    """

    question: Question
    figures: Figures
    plan: MemoryPlan | None
    shortage: Shortage | None
    settings: Settings
    disks_before: Sequence[float] = ()
    disks_after: Sequence[float] = ()
    by_the_run: Figures = field(default_factory=dict)

    @property
    def compared(self) -> Figures:
        """The figures that can be compared with those of the run."""
        return {**self.figures, **self.by_the_run}


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
    # What has started goes on, unless the question is about that.
    started = facts.has_started and "start_at" not in question.knobs.get("policy", {})
    plan = plan_in_memory(instance, hosts, settings, captured_at=facts.captured_at, started=started)
    figures = {**figures_of(plan.tables, hosts), **groups_noticing(facts, question, plan)}
    before, after = (disk_percents(plan.tables["measured"], hosts, side) for side in (BEFORE, AFTER))
    return Answer(question, figures, plan, missing, settings, before, after, _by_the_run(facts, question, plan))


def _by_the_run(facts: RunFacts, question: Question, plan: MemoryPlan) -> Figures:
    """Brokers outside the bands of the run, and replicas on the brokers that it empties, with the plan of a question.

    Empty if the question judges as the run does.
    """
    [requests] = facts.settings.cluster_policies().values()
    waits = not facts.has_started and not requests.only
    judging = as_the_run(question, requests.only)
    if judging == question and not waits:
        return {}
    settings, instance, hosts = instance_for(facts, judging)
    policy = start_policy(settings.policy) if waits else settings.policy
    measured = measure_plan(plan.tables["compared"], instance, hosts, policy, (BEFORE, AFTER))
    values = {(name, side): value for name, side, value in balance_figures(records(measured))}
    return {name: (values[name, BEFORE], values[name, AFTER]) for name in (OUTSIDE, LEAVING)}
