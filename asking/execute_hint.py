"""How a job makes the plan of an answer: its options, or why no job can."""

import shlex
from collections.abc import Iterator, Sequence

from asking.question import Question
from asking.run_facts import RunFacts

_OPTIONS = {"drain_brokers": "--drain", "exclude_brokers": "--exclude-brokers", "demote_brokers": "--demote"}


def execute_hints(facts: RunFacts, questions: Sequence[Question]) -> Iterator[str]:
    """A line for each question that a job can plan, and one line about all others."""
    for question in questions:
        options = None if question.changes_cluster else job_options(facts, question)
        if options is not None:
            own = _own_drains(facts, question)
            remove = f", and remove {', '.join(map(str, own))} from drain_brokers of [[clusters]]" if own else ""
            yield f"{question.name}: to execute it, plan again with {options}{remove}"
    if any(question.changes_cluster for question in questions):
        yield "No job can plan new brokers, losses or other loads yet: an input must have them first."


def job_options(facts: RunFacts, question: Question) -> str | None:
    """The options that a job needs in addition to the configuration of the run; None if the question changes nothing.

    A job's list replaces that of ``[policy]`` and adds to that of the cluster's own table.
    """
    words: list[str] = []
    policy = facts.settings.policy
    for name, option in _OPTIONS.items():
        added = question.added_to.get(name, ())
        kept = question.keep if name == "drain_brokers" else ()
        if added or kept:
            general = {*policy.brokers(name), *added} - {*kept}
            words += [option, ",".join(map(str, sorted(general)))] if general else ["--set", f"policy.{name}=[]"]
    if question.only is not None:
        words += ["--only", question.only] if question.only else ["--set", 'policy.only=""']
    for section, knobs in question.knobs.items():
        words += [word for knob, value in knobs.items() for word in ("--set", f"{section}.{knob}={_toml(value)}")]
    return shlex.join(words) if words else None


def _own_drains(facts: RunFacts, question: Question) -> list[int]:
    """Kept brokers that the cluster's own table drains: no option of a job takes them out."""
    [cluster] = facts.settings.clusters
    return sorted(set(question.keep) & set(cluster.drain_brokers))


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
