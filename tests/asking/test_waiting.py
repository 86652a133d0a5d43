"""Questions to runs with ``start_at``: what waits waits in an answer too, and what has started goes on."""

from pathlib import Path
from typing import Any

import pytest

from asking.answer import answer
from asking.ask import alternatives
from asking.run_facts import RunFacts, read_facts
from tests.asking.small_run import CLUSTER, RUN, asked, make_facts, write_run


def moves(facts: RunFacts, *words: str) -> int:
    """Replicas that the answer copies."""
    plan = answer(facts, asked(*words)).plan
    assert plan
    return len(plan.tables["moves"])


@pytest.mark.parametrize(
    ("words", "copies"),
    [
        ((), False),
        (("--set", "policy.disk_band=0.2"), False),
        (("--drain", "5"), True),
        (("--set", "policy.start_at=0.15"), True),
        (("--set", "policy.start_at=0"), True),
        (("--only", "racks"), False),
    ],
)
def test_a_question_to_a_run_that_waits(tmp_path: Path, words: tuple[str, ...], copies: bool) -> None:
    """The fullest broker is less than four times its mean: only what is urgent, or another width, starts."""
    facts = read_facts(write_run(tmp_path, make_facts(policy={"start_at": 3.0})), CLUSTER, RUN)
    assert not facts.has_started
    assert bool(moves(facts, *words)) == copies


@pytest.mark.parametrize(
    ("words", "copies"),
    [((), True), (("--set", "policy.disk_band=0.2"), True), (("--set", "policy.start_at=3"), False)],
)
def test_a_question_to_a_run_that_has_started(tmp_path: Path, words: tuple[str, ...], copies: bool) -> None:
    """It goes on, unless the question is about the width."""
    facts = read_facts(write_run(tmp_path, make_facts(policy={"start_at": 0.15})), CLUSTER, RUN)
    assert facts.has_started
    assert bool(moves(facts, *words)) == copies


@pytest.mark.parametrize(
    ("words", "copies"),
    [(("--only", "none"), False), (("--only", "none", "--set", "policy.start_at=0.15"), True)],
)
def test_a_run_with_only_has_not_started(tmp_path: Path, words: tuple[str, ...], copies: bool) -> None:
    """It did not decide whether to wait, so a question without ``only`` waits as the job does."""
    run = make_facts(policy={"start_at": 3.0}, cluster={"only": "racks"})
    facts = read_facts(write_run(tmp_path, run), CLUSTER, RUN)
    assert not facts.has_started
    assert bool(moves(facts, *words)) == copies


@pytest.mark.parametrize(("policy", "started"), [({}, {}), ({"start_at": 0.15}, {"start_at": 0})])
def test_alternatives_do_not_wait(policy: dict[str, Any], started: dict[str, Any]) -> None:
    """Else wider bands would be refused, or the alternatives would be no plans."""
    for question in alternatives(make_facts(policy=policy), 10**9):
        knobs = question.knobs["policy"]
        assert {name: knobs[name] for name in knobs if name == "start_at"} == started
