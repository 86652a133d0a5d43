"""How a job makes the plan of an answer."""

import random
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from asking.ask import execute_hints, job_options
from asking.question import Question, settings_for
from asking.run_facts import RunFacts
from optimizer.configuration import build, merge
from optimizer.given_knobs import given_knobs
from optimizer.job_options import parser
from optimizer.setting_checks import Problems
from tests.asking.small_run import CLUSTER, asked, make_facts


def execute_hint(facts: RunFacts, question: Question) -> str:
    """The line about one question; empty if there is none."""
    return "".join(execute_hints(facts, [question]))


PIN = "[{topics = 'a[.]b', racks = ['a', 'b']}]"


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--drain", "6"], "--drain 1,6"),
        (["--drain", "6,1"], "--drain 1,6"),
        (["--drain", "6", "--keep", "1"], "--drain 6"),
        (["--keep", "1"], "--set 'policy.drain_brokers=[]'"),
        (["--keep", "5"], "--drain 1"),
        (["--exclude-brokers", "4", "--demote", "2"], "--exclude-brokers 4 --demote 2,3"),
        (["--only", "racks"], "--only racks"),
        (["--only", "none"], """--set 'policy.only=""'"""),
        (["--set", "policy.disk_band=0.1", "--set", "emit.x=2"], "--set policy.disk_band=0.1 --set emit.x=2"),
        (["--set", "policy.failover_spread=off"], """--set 'policy.failover_spread="off"'"""),
        (["--set", r"policy.topics=['a\.b', 'c']"], r"""--set 'policy.topics=["a\\.b", "c"]'"""),
        (["--set", "policy.pins=[]"], "--set 'policy.pins=[]'"),
        (["--set", f"policy.pins={PIN}"], """--set 'policy.pins=[{topics = "a[.]b", racks = ["a", "b"]}]'"""),
    ],
)  # fmt: skip
def test_options_of_a_job(words: Sequence[str], options: str) -> None:
    """A job's list replaces that of the run's [policy], so it has both; other settings are those of the question."""
    facts = make_facts(policy={"drain_brokers": [1], "demote_brokers": [3]}, cluster={"drain_brokers": [5]})
    question = asked(*words, name="x")
    assert job_options(facts, question) == options
    assert execute_hint(facts, question).startswith(f"x: to execute it, plan again with {options}")


@pytest.mark.parametrize(
    ("words", "removed"),
    [
        ("--drain 6", ""),
        ("--keep 1", ""),
        ("--keep 5,1", ", and remove 5 from drain_brokers of its [[clusters]] table"),
        ("--keep 5,6", ", and remove 5, 6 from drain_brokers of its [[clusters]] table"),
        ("--only none", ", and remove only of its [[clusters]] table"),
        ("--set policy.max_moves=9", ""),
        ("--set policy.max_moved_gb=9", ", and remove max_moved_gb of its [[clusters]] table"),
        ("--keep 5 --only racks", ", and remove 5 from drain_brokers and only of its [[clusters]] table"),
        ("--set policy.drain_brokers=[]", ", and remove drain_brokers of its [[clusters]] table"),
    ],
)
def test_own_settings(words: str, removed: str) -> None:
    """No option of a job replaces what the cluster's own table has: the reader must remove it."""
    own = {"drain_brokers": [5, 6], "only": "drain", "max_moved_gb": 5.0}
    facts = make_facts(policy={"drain_brokers": [1]}, cluster=own)
    hint = execute_hint(facts, asked(*words.split(), name="x"))
    assert (
        hint.removeprefix(f"x: to execute it, plan again with {job_options(facts, asked(*words.split()))}") == removed
    )


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("", ""),
        ("--load 1", ""),
        *(
            (words, "No job can plan new brokers, losses or other loads yet: an input must have them first.")
            for words in ("--lose-broker 1", "--lose-rack a --drain 2", "--add-broker 7 --like 1", "--load 2")
        ),
    ],
)
def test_no_options(words: str, hint: str) -> None:
    """Without a request there is nothing to execute, and no job plans another cluster."""
    assert execute_hint(make_facts(), asked(*words.split(), name="x")) == hint


CHOICES: Sequence[Sequence[Sequence[str]]] = (
    [[], ["--drain", "2"], ["--drain", "2,5"]],
    [[], ["--keep", "1"], ["--keep", "5"], ["--keep", "1,5,6"]],
    [[], ["--exclude-brokers", "4"], ["--exclude-brokers", "2,3"]],
    [[], ["--demote", "1"]],
    [[], ["--only", "none"], ["--only", "racks"], ["--only", "drain"]],
    [[], ["--set", "policy.disk_band=0.3"], ["--set", "policy.max_moves=4"], ["--set", "policy.max_moved_gb=4"]],
    [[], ["--set", r"policy.exclude_topics=['x\.y', '\"z\"']"], ["--set", f"policy.pins={PIN}"]],
    [[], ["--set", "schedule.windows=[]"], ["--set", "policy.failover_spread=off"], ["--set", "solver.rounds=1"]],
)
OWN: Sequence[Mapping[str, Any]] = (
    {},
    {"drain_brokers": [5, 6], "only": "racks"},
    {"drain_brokers": [5, 6, 1], "exclude_brokers": [3], "max_moves": 3, "pins": [{"topics": "p", "brokers": [1, 2]}]},
)


@pytest.mark.parametrize("seed", range(100))
def test_the_job_gets_the_settings_of_the_answer(seed: int) -> None:
    """The options that a hint prints, and what it removes, give a job the settings that the answer was made with."""
    draw = random.Random(seed)
    facts = make_facts(
        policy={"drain_brokers": [1, 5, 6], "exclude_brokers": [4], "only": draw.choice(["", "drain"])},
        cluster=draw.choice(OWN),
    )
    question = asked(*(word for options in CHOICES for word in draw.choice(options)), name="x")
    wanted = settings_for(facts, question)
    job = _job(facts, job_options(facts, question) or "", execute_hint(facts, question))
    assert job.cluster_policies() == wanted.cluster_policies()
    general = ("disk_band", "exclude_topics", "failover_spread", "topics")
    assert [getattr(job.policy, name) for name in general] == [getattr(wanted.policy, name) for name in general]
    assert (job.solver, job.schedule) == (wanted.solver, wanted.schedule)


def _job(facts: RunFacts, words: str, hint: str) -> Any:
    """Settings of a job with the configuration of the run and these options."""
    problems = Problems()
    content = dict(facts.content)
    for knob in given_knobs(parser("").parse_args(shlex.split(words)), problems):
        content = merge(content, {knob.section: {knob.knob: knob.value}})
    problems.raise_any()
    [cluster] = content["clusters"]
    _, _, removed = hint.partition(", and remove ")
    own = dict(cluster)
    for part in removed.removesuffix(" of its [[clusters]] table").split(" and ") if removed else ():
        ids, has_ids, name = part.rpartition(" from ")
        kept = [b for b in own[name] if b not in map(int, ids.split(", "))] if has_ids else None
        own = {**own, name: kept} if kept else {key: value for key, value in own.items() if key != name}
    assert own["id"] == CLUSTER
    return build({**content, "clusters": [own]})
