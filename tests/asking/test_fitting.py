"""Whether the bytes fit: sums of disks, without a solver."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from asking.answer import answer
from asking.ask import alternatives
from asking.fitting import Shortage, shortage
from asking.question import Question, facts_for, instance_for, settings_for
from asking.run_facts import RunFacts
from benchmarks.rows import broker_row, partition_row
from optimizer.planning.alternatives import alternative_rows
from optimizer.planning.arrays import to_brokers, to_partitions
from optimizer.planning.policy.all_rules import instance_of
from optimizer.solve.rules.pins import disorder
from tests.asking.small_run import GB, Row, asked, broker, make_facts, partition
from tests.examples import examples

# 100 GB with 10 % headroom: a broker may hold 90 GB.
DISKS = tuple(broker(number, "aabbcc"[number - 1], disk_capacity_bytes=100 * GB) for number in range(1, 7))


def _shortage(facts: RunFacts, *words: str) -> Shortage | None:
    question = asked(*words)
    policy, changed = settings_for(facts, question), facts_for(facts, question)
    instance, hosts = instance_of(changed.partitions, changed.brokers, policy, changed.cluster_id)
    return shortage(instance, hosts, headroom=policy.policy.disk_headroom)


def _change(rows: Sequence[Row], **by_broker: Mapping[str, Any]) -> list[Row]:
    return [{**row, **by_broker.get(f"b{row['broker_id']}", {})} for row in rows]


@pytest.mark.parametrize(
    ("size_gb", "words", "expected"),
    [
        # Six disks of 90 GB hold three replicas of 180 GB at most.
        (180, "", None),
        (181, "", Shortage("", 543 * GB, 540 * GB)),
        (60, "--load 3", None),
        (60, "--load 3.1", Shortage("", 558 * GB, 540 * GB)),
        (90, "--load 3.1 --topics other", None),
        (100, "--drain 1", Shortage("a", 100 * GB, 90 * GB)),
        (90, "--drain 1", None),
        (100, "--lose-broker 1", Shortage("a", 100 * GB, 90 * GB)),
        (100, "--exclude-brokers 1", Shortage("a", 100 * GB, 90 * GB)),
        (100, "--lose-broker 1 --add-broker 7 --like 2 --rack a", None),
        # Two racks for three replicas: each holds one at least, together three.
        (120, "--lose-rack a", None),
        (121, "--lose-rack a", Shortage("", 363 * GB, 360 * GB)),
        (300, "--set policy.disk_headroom=0", Shortage("", 900 * GB, 600 * GB)),
        (200, "--set policy.disk_headroom=0", None),
        (100, "--drain 1 --set policy.rack_policy=none", None),
        (60, "--set policy.replication_factors=[{topics='t',factor=6}]", None),
        # Two replicas of 60 GB on each rack; the first shortage in the order of racks counts.
        (91, "--set policy.replication_factors=[{topics='t',factor=6}]", Shortage("", 546 * GB, 540 * GB)),
        # One broker of rack a is left: it holds one of the six replicas that are requested, at most.
        (50, "--drain 1 --set policy.replication_factors=[{topics='t',factor=5}]", None),
    ],
)
def test_sums(size_gb: int, words: str, expected: Shortage | None) -> None:
    """The bytes of all replicas are compared with all disks, and what each rack must hold with its disks."""
    rows = [
        partition("t", 0, [2, 4, 6], size_bytes=size_gb * GB // 2),
        partition("t", 1, [2, 4, 6], size_bytes=size_gb * GB - size_gb * GB // 2),
        partition("other", 0, [1], size_bytes=0),
    ]
    assert _shortage(make_facts(DISKS, rows), *words.split()) == expected


@pytest.mark.parametrize(
    ("what", "brokers", "rows", "words"),
    [
        (
            "a capacity is unknown",
            _change(DISKS, b3={"disk_capacity_bytes": None}),
            [partition("t", 0, [2, 4, 6], size_bytes=500 * GB)],
            "",
        ),
        (
            "replicas on a fenced broker stay there",
            _change(DISKS, b5={"state": "fenced"}, b6={"state": "fenced"}),
            [partition("t", 0, [2, 4, 6], size_bytes=175 * GB)],
            "",
        ),
        (
            "replicas on an excluded broker may stay",
            DISKS,
            [partition("t", 0, [1, 3, 5], size_bytes=85 * GB), partition("t", 1, [2, 4, 6], size_bytes=85 * GB)],
            "--exclude-brokers 1",
        ),
        (
            "what has no living replica is lost, and needs no disk",
            DISKS,
            [partition("t", n, [1, 2], size_bytes=200 * GB) for n in range(5)],
            "--lose-rack a",
        ),
        (
            "excluded topics stay in one rack",
            DISKS,
            [partition("t", n, [1, 2], size_bytes=45 * GB) for n in range(2)],
            "--set policy.exclude_topics=['t'] --drain 5",
        ),
        (
            "a pin to one rack",
            _change(DISKS, b1={"disk_capacity_bytes": GB}, b2={"disk_capacity_bytes": GB}),
            [partition("t", n, [3, 4, 5], size_bytes=50 * GB) for n in range(2)],
            "--set policy.pins=[{topics='t',racks=['b','c']}]",
        ),
        (
            "a rack with one broker holds one replica of a partition",
            [*DISKS[1:], broker(7, "b", disk_capacity_bytes=100 * GB), broker(8, "b", disk_capacity_bytes=100 * GB)],
            [partition("t", 0, [2, 3, 4, 5, 6, 7], size_bytes=80 * GB)],
            "",
        ),
        (
            "replicas in the rack of an excluded broker may stay there",
            [*DISKS, broker(7, "d", disk_capacity_bytes=100 * GB)],
            [partition("t", n, [1, 3, 7], size_bytes=20 * GB) for n in range(4)],
            "--exclude-brokers 7,6",
        ),
        (
            "partitions in flight stay",
            _change(DISKS, b1={"disk_capacity_bytes": GB}, b2={"disk_capacity_bytes": GB}),
            [partition("t", 0, [3, 4, 5], controller_replicas=[3, 4, 6], adding_replicas=[5], size_bytes=80 * GB)],
            "",
        ),
    ],
)  # fmt: skip
def test_no_shortage(what: str, brokers: Sequence[Row], rows: Sequence[Row], words: str) -> None:
    """What may stay where it is, needs no other disk; and nothing is said about unknown disks."""
    assert _shortage(make_facts(brokers, rows), *words.split()) is None, what


@pytest.mark.parametrize(
    ("mobility", "words"),
    [
        ("fixed", ""),
        ("forced_only", "--set policy.exclude_topics=['t']"),
    ],
)
def test_what_stays_fills_its_disk(mobility: str, words: str) -> None:
    """A partition that may not move counts in the rack where it is."""
    values: dict[str, Any] = {"controller_replicas": [1, 3], "adding_replicas": [2]} if mobility == "fixed" else {}
    rows = [partition("t", n, [1, 2], size_bytes=100 * GB, **values) for n in range(2)]
    assert _shortage(make_facts(DISKS, rows), *words.split()) == Shortage("a", 400 * GB, 180 * GB)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (
            Shortage("", 543 * GB, 540 * GB),
            "does not fit: the brokers that accept replicas may hold 540 GB, but must hold 543 GB: 3.00 GB more",
        ),
        (
            Shortage("eu-1b", 2000 * GB, 500 * GB),
            "does not fit: rack eu-1b may hold 500 GB, but must hold 2.00 TB: 1.50 TB more",
        ),
    ],
)
def test_words(item: Shortage, words: str) -> None:
    """One sentence says which disks are too small, and by how much."""
    assert item.words() == words


STATES = ("alive", "alive", "alive", "excluded", "draining", "fenced", "dead")
MOBILITY = ("free", "free", "free", "forced_only", "fixed", "order_only", "racks_only")


@st.composite
def planned(draw: st.DrawFn) -> tuple[list[Row], list[Row]]:
    """Rows of ``instance`` and ``instance_brokers`` of a cluster with a plan that fills every disk exactly."""
    states = draw(st.lists(st.sampled_from(STATES), min_size=2, max_size=6))
    hosts = [_host(number, draw(st.sampled_from("abc")), state) for number, state in enumerate(states)]
    assume(any(row["accepts_replicas"] for row in hosts))
    load = dict.fromkeys(range(len(hosts)), 0)
    rows = []
    for number in range(draw(st.integers(1, 5))):
        before = draw(st.lists(st.sampled_from(range(len(hosts))), min_size=1, max_size=4, unique=True))
        mobility, factor = draw(st.sampled_from(MOBILITY)), len(before)
        if mobility == "free":
            factor = draw(st.integers(1, 5))
        row = partition_row(
            before, topic="t", partition=number, mobility=mobility, replication_factor=factor, size_bytes=10
        )
        legal = [after for after in combinations(range(len(hosts)), factor) if _is_legal(row, after, hosts)]
        assume(legal)
        for host in draw(st.sampled_from(legal)):
            load[host] += row["size_bytes"]
        rows.append(row)
    return rows, [{**row, "disk_capacity_bytes": max(load[row["broker_id"]], 1)} for row in hosts]


def _host(number: int, rack: str, state: str) -> Row:
    if state == "excluded":
        return broker_row(number, rack=rack, accepts_replicas=False)
    return broker_row(number, rack=rack, state=state)


def _is_legal(row: Row, after: Sequence[int], hosts: Sequence[Row]) -> bool:
    """Whether a plan may give a partition these replicas."""
    before, mobility = row["replicas"], row["mobility"]
    if mobility in ("fixed", "order_only"):
        return sorted(before) == sorted(after)
    new, gone = set(after) - set(before), set(before) - set(after)
    is_emptied = any(hosts[b]["must_empty"] for b in after)
    if is_emptied or not all(hosts[b]["accepts_replicas"] for b in new):
        return False
    if mobility == "forced_only":
        return all(hosts[b]["must_empty"] for b in gone)
    brokers = to_brokers(pd.DataFrame(hosts))
    partitions = to_partitions(pd.DataFrame([row]), brokers.ids)
    return not disorder(brokers, partitions, np.array([after])).any()


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(planned())
def test_a_plan_that_exists_is_no_shortage(cluster: tuple[list[Row], list[Row]]) -> None:
    """If some legal plan puts all bytes within the limits, the sums report no shortage."""
    rows, hosts = cluster
    assert shortage(pd.DataFrame(rows), pd.DataFrame(hosts), headroom=0.0) is None


# Six disks that may hold 90 GB each, and three replicas of 190 GB: 30 GB too much. Brokers 1, 3 and 5 have 140 GB.
OVERFULL = make_facts(
    DISKS,
    [
        *(partition("t", number, [1, 3, 5], size_bytes=(40 if number < 3 else 10) * GB) for number in range(5)),
        *(partition("t", number, [2, 4, 6], size_bytes=10 * GB) for number in range(5, 10)),
    ],
)


def test_alternatives_of_an_overfull_cluster_are_those_of_the_job() -> None:
    """The job plans it, so the command does not refuse other bands and limits."""
    run_settings, instance, hosts = instance_for(OVERFULL, Question())
    assert shortage(instance, hosts, headroom=run_settings.policy.disk_headroom) == Shortage("", 570 * GB, 540 * GB)
    moved_bytes = answer(OVERFULL, Question()).figures["moved_bytes"][1] or 0.0
    rows = alternative_rows(instance, hosts, run_settings, moved_bytes=moved_bytes, captured_at=OVERFULL.captured_at)
    questions = alternatives(OVERFULL, moved_bytes)
    assert [question.name for question in questions] == ["bands x 2", "only urgent", "half the bytes"]
    of_command = {
        (question.name, figure): after
        for question in questions
        for figure, (_, after) in answer(OVERFULL, question).figures.items()
    }
    of_job = {(row["alternative"], row["figure"]): row["value"] for row in rows}
    assert of_job.keys() == of_command.keys()
    assert {key for key, value in of_job.items() if of_command[key] != value} == {
        ("bands x 2", "brokers_outside_bands"),
        ("only urgent", "brokers_outside_bands"),
    }  # by the bands of the run


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ("--set policy.disk_band=0.2", False),
        ("--only racks", False),
        ("--demote 1", False),
        ("--set schedule.waves=2", False),
        ("--drain 1", True),
        ("--exclude-brokers 1", True),
        ("--load 1.1", True),
        ("--lose-broker 1", True),
        ("--add-broker 7 --like 1", True),
        ("--set policy.drain_brokers=[1]", True),
        ("--set policy.disk_headroom=0.2", True),
        ("--set policy.disk_headroom=0", False),
    ],
)
def test_an_overfull_cluster_is_refused_only_if_the_question_changes_what_must_fit(words: str, refused: bool) -> None:
    """Other bands change no bytes, disks or brokers."""
    found = answer(OVERFULL, asked(*words.split()))
    assert (found.plan is None, found.shortage is not None) == (refused, refused)
