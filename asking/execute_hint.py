"""How a job makes the plan of an answer: its options, or why no job can."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

from asking.question import Question
from asking.run_facts import RunFacts
from optimizer.cluster_policy import ClusterPolicy

_OPTIONS = {"drain_brokers": "--drain", "exclude_brokers": "--exclude-brokers", "demote_brokers": "--demote"}


def execute_hints(facts: RunFacts, questions: Sequence[Question]) -> Iterator[str]:
    """A line for each question that a job can plan, and one line about all others."""
    for question in questions:
        options = None if question.changes_cluster else job_options(facts, question)
        if options is not None:
            removed = [*_own_drains(facts, question), *_own_settings(facts, question)]
            remove = f", and remove {' and '.join(removed)} of its [[clusters]] table" if removed else ""
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


def _own_drains(facts: RunFacts, question: Question) -> list[str]:
    """Kept brokers that the cluster's own table drains: no option of a job removes them."""
    [cluster] = facts.settings.clusters
    own = sorted(set(question.keep) & set(cluster.drain_brokers))
    return [f"{', '.join(map(str, own))} from drain_brokers"] if own else []


def _own_settings(facts: RunFacts, question: Question) -> list[str]:
    """Settings that the question replaces but the cluster's own table has too: a job prefers or adds those."""
    [cluster] = facts.settings.clusters
    replaced = {**question.knobs.get("policy", {}), **({} if question.only is None else {"only": question.only})}
    names = [field.name for field in fields(ClusterPolicy) if field.name in replaced]
    return [name for name in names if getattr(cluster, name)]


def _toml(value: object) -> str:
    """A value as TOML; JSON has the same texts and true and false."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name} = {_toml(each)}' for name, each in value.items())}}}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | str) else str(value)
