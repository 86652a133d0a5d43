"""A plan and a run: unknown names, old lists that are not the run's, and what Kafka would refuse."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest

from asking.judge.belongs import Belonging, check_belongs
from asking.judge.their_plan import Kind, NamedPartition, TheirPlan
from optimizer.errors import ConfigError
from optimizer.kafka.reassignment_json import TopicPartition
from stored.verdicts import Refused

Old = Mapping[TopicPartition, Sequence[int] | None]


def plan(old: Old, new: Sequence[int] = (3, 2)) -> TheirPlan:
    """A plan with one new list for all partitions."""
    named = [
        NamedPartition(
            *key, tuple(new), None, None if replicas is None else tuple(replicas), f"f line 1, entry {number}"
        )
        for number, (key, replicas) in enumerate(old.items(), 1)
    ]
    return TheirPlan("f", Kind.REASSIGNMENT, {each.key: each for each in named})


def instance(count: int = 3, **of_partition_0: Any) -> pd.DataFrame:
    """Rows of ``instance``: partitions of topic t with replicas 1 and 2."""
    rows = [
        {"topic": "t", "partition": number, "replicas": [1, 2], "controller_replicas": None} for number in range(count)
    ]
    rows[0] |= of_partition_0
    return pd.DataFrame(rows)


def check(
    their_plan: TheirPlan, rows: pd.DataFrame, *, live: Sequence[int] = (1, 2, 3), stale_ok: bool = False
) -> Belonging:
    """Check against brokers 1 to 3."""
    return check_belongs(their_plan, rows, broker_ids=[1, 2, 3], live_broker_ids=live, stale_ok=stale_ok)


@pytest.mark.parametrize("old", [None, [1, 2]])
def test_a_plan_for_the_run_has_no_notes(old: Sequence[int] | None) -> None:
    """With the run's list, and without an old list."""
    assert check(plan({("t", 0): old}), instance()) == Belonging((), ())


@pytest.mark.parametrize("old", [[1, 2], [1, 2, 5]])
def test_in_flight_the_list_of_the_controller_is_current_too(old: Sequence[int]) -> None:
    """A tool finds the target with the brokers to remove; the run has both lists."""
    assert check(plan({("t", 0): old}), instance(controller_replicas=[1, 2, 5])).stale == ()


def test_unknown_names_are_listed() -> None:
    """The first five and the number of the rest, partitions and brokers at once."""
    rows = instance(1)
    with pytest.raises(ConfigError) as caught:
        check(plan({("t", number): None for number in range(8)}, [9, 1, 12]), rows)
    remedy = (
        "check that --plan, --run-id and --cluster belong together; after a change of the cluster run the job again"
    )
    assert caught.value.problems == (
        "the plan names 7 partitions that the run does not have: t-1, t-2, t-3, t-4, t-5 and 2 more "
        f"(f line 1, entry 2); {remedy}",
        f"the plan names 2 brokers that the run does not have: 9, 12 (t-0 in f line 1, entry 1); {remedy}",
    )
    assert caught.value.exit_code == 2


STALE = "1 of {} old replica lists in the plan ({}) are not those of the run: t-0 had [1, 3] and has [1, 2] in the run"


@pytest.mark.parametrize(("count", "share", "accepted"), [(99, "1.01 %", False), (100, "1.00 %", True)])
def test_old_lists_that_are_not_the_runs(count: int, share: str, accepted: bool) -> None:
    """Up to 1 % of those given they are a note; above it the plan is refused."""
    old: Old = {("t", number): [1, 3] if number == 0 else [1, 2] for number in range(count)} | {("t", count): None}
    text = STALE.format(count, share)
    if accepted:
        assert check(plan(old), instance(count + 1)) == Belonging((("t", 0),), (text,))
        return
    with pytest.raises(Refused) as caught:
        check(plan(old), instance(count + 1))
    assert (
        str(caught.value) == f"{text}; make their plan and the run from the same state, or add --stale-ok to judge it"
    )
    assert caught.value.exit_code == 3


def test_a_stale_plan_may_be_judged() -> None:
    """With ``stale_ok`` every old list may differ, also only in its order."""
    checked = check(plan({("t", 0): [2, 1], ("t", 1): [3]}), instance(), stale_ok=True)
    assert checked.stale == (("t", 0), ("t", 1))
    assert checked.notes[0].startswith("2 of 2 old replica lists in the plan (100 %) are not those of the run: ")


def test_what_kafka_refuses_is_reported_in_its_words() -> None:
    """A broker that is dead or fenced is known to the run, but --execute refuses its id."""
    checked = check(plan({("t", 0): [1, 2]}), instance(), live=[1, 2])
    assert checked == Belonging((), ("Kafka refuses this plan at --execute: Unknown broker id 3",))
