"""The head of the pages: what was asked, whether it is reached, and what the plan was made from."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from optimizer.configuration import build
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.goals import goals, kept_out, origin, verdict
from optimizer.emit.report import report
from optimizer.emit.requested import Requested, requested_of
from optimizer.emit.rows import FigureRow, FindingRow, SourceRow
from optimizer.emit.runbook import runbook
from optimizer.emit.summary import summary_text
from tests.emit.rows import rows_of
from tests.emit.test_findings import finding
from tests.emit.test_pages import LIMITED, synthetic

BANDS, LED = "balance", "leaders"


def plan_of(figures: Mapping[str, tuple[float, float]], *, stay: int = 0, **asked: Any) -> ClusterPlan:
    """A plan that drains broker 0, with these figures before and after; so many of 100 replicas stay."""
    summary = [
        FigureRow(name, name, before=before, baseline=None, after=after) for name, (before, after) in figures.items()
    ]
    left = {"before": 100, "baseline": 0, "after": stay}
    plan = synthetic(12)
    balance = [replace(r, replicas=left[r.placement]) if r.broker_id == 0 else r for r in plan.balance]
    return replace(plan, summary=summary, balance=balance, asked=Requested(**asked))


def shown(plan: ClusterPlan) -> list[tuple[str, str, str]]:
    """State, name and detail of each goal."""
    return [(goal.state, goal.name, goal.detail) for goal in goals(plan)]


IN_ORDER = {"rack_violations": (16, 0), "brokers_outside_bands": (7, 0)}


def test_what_is_reached_is_said_with_what_it_was() -> None:
    """A plan that mends all says so in one sentence, and of each wish how it was before."""
    plan = plan_of(IN_ORDER, drain=(0,))
    assert verdict(plan) == "All that was asked is reached."
    assert shown(plan) == [
        ("reached", "empty broker 0", "100 replicas leave"),
        ("reached", "racks", "16 partitions are mended"),
        ("reached", BANDS, "no broker outside its bands (replicas, disk, bytes in), 7 before"),
        ("reached", LED, "no broker outside its bands (leaders, bytes out)"),
    ]


def test_a_rack_that_is_emptied_is_counted_next_to_the_rack_rule() -> None:
    """The goal says how many racks are left, reached or not."""
    plan = plan_of(IN_ORDER, drain=(0,))
    racks = sorted({row.rack for row in plan.brokers if row.rack})
    brokers = [replace(row, accepts_replicas=row.rack != racks[0]) for row in plan.brokers]
    found = rows_of(FindingRow, finding("rack_emptied", f"rack {racks[0]}", "after"))
    plan = replace(plan, brokers=brokers, findings=found)
    left = f"{len(racks) - 1} of {len(racks)} racks {'is' if len(racks) == 2 else 'are'} left"
    assert ("reached", "racks", f"16 partitions are mended; {left}") in shown(plan)
    broken = replace(plan, summary=plan_of({"rack_violations": (16, 2)}).summary)
    assert ("NOT reached", "racks", f"2 partitions break the rack rule, 16 before; {left}") in shown(broken)


def test_a_cut_plan_says_first_what_stays() -> None:
    """Where a limit leaves replicas on a drained broker that is told on each page before anything else."""
    figures = {"rack_violations": (16, 2), "brokers_outside_bands": (7, 3), "leaders_outside": (0, 4)}
    plan = replace(plan_of(figures, stay=92, drain=(0,), limits=("2.00 TB",)), findings=[LIMITED])
    told = "NOT reached: empty broker 0; racks; balance; leaders."
    assert verdict(plan) == told
    assert shown(plan) == [
        ("NOT reached", "empty broker 0", "92 of 100 replicas stay"),
        ("NOT reached", "racks", "2 partitions break the rack rule, 16 before"),
        ("NOT reached", BANDS, "3 brokers outside their bands (replicas, disk, bytes in), 7 before"),
        ("NOT reached", LED, "4 leaders lie outside the bands"),
        ("reached", "at most 2.00 TB copied", "the plan is cut"),
    ]
    figures_of = {"summary": "Kafka default     this plan", "report": '<div class="cards">', "runbook": "| wave |"}
    pages = {"summary": summary_text(plan, []), "report": report(plan, []), "runbook": runbook(plan)}
    for name, page in pages.items():
        text = " ".join(page.split())
        figure = text.index(" ".join(figures_of[name].split()))
        assert text.index(told) < text.index("92 of 100 replicas stay") < figure


@pytest.mark.parametrize(
    ("only", "names"),
    [
        ("drain", ["empty broker 0"]),
        ("racks", ["racks"]),
        ("leaders", [LED]),
        ("demote", ["demote brokers 3, 4"]),
        ("", ["empty broker 0", "racks", "demote brokers 3, 4", "pins p on racks a", BANDS, LED]),
    ],
)
def test_only_what_is_asked_now_is_a_goal(only: str, names: list[str]) -> None:
    """Under ``only`` nothing else has to be reached, and the sentence says so."""
    plan = plan_of(IN_ORDER, only=only, demote=(3, 4), pins=("p on racks a",))
    assert [goal.name for goal in goals(plan)] == names
    assert ("(only " in verdict(plan)) == bool(only)


def test_leaders_that_stay_on_a_demoted_broker_are_counted() -> None:
    """A demotion is reached when the broker leads nothing any more."""
    plan = plan_of({}, only="demote", demote=(3,))
    led = {row.placement: row.leaders for row in plan.balance if row.broker_id == 3}
    told = f"{led['after']} of {led['before']} preferred leaders stay"
    assert shown(plan) == [("NOT reached", "demote broker 3", told)]
    rows = [replace(r, leaders=0) if r.placement == "after" else r for r in plan.balance]
    assert shown(replace(plan, balance=rows))[0][2] == f"{led['before']} preferred leaders move to other brokers"


@pytest.mark.parametrize(("count", "more"), [(10, ""), (11, " and 1 more")])
def test_ten_of_many_are_named(count: int, more: str) -> None:
    """A goal names ten brokers, and says how many more there are."""
    plan = plan_of({}, only="demote", demote=tuple(range(count)))
    assert [goal.name for goal in goals(plan)] == [f"demote brokers 0, 1, 2, 3, 4, 5, 6, 7, 8, 9{more}"]


@pytest.mark.parametrize(
    ("asked", "rule", "told"),
    [
        ({"pins": ("p on racks a",)}, "", ("reached", "pins p on racks a", "every replica is inside its pin")),
        (
            {"pins": ("p on racks a",)},
            "not_pinned",
            ("NOT reached", "pins p on racks a", "1 replica stays outside its pin"),
        ),
        ({"factors": ("t: 3",)}, "", ("reached", "replication factors t: 3", "5 partitions get the factor asked for")),
        (
            {"factors": ("t: 3",)},
            "replication_factor",
            (
                "NOT reached",
                "replication factors t: 3",
                "5 partitions get the factor asked for, 1 topic can't have it",
            ),
        ),
    ],
)
def test_pins_and_factors_are_goals(asked: dict[str, Any], rule: str, told: tuple[str, str, str]) -> None:
    """What topics were asked for is reached unless a finding says that some can't have it."""
    plan = plan_of(IN_ORDER | {"factor_changes": (0, 5)}, **asked)
    found = rows_of(FindingRow, finding(rule, "t")) if rule else []
    assert told in shown(replace(plan, findings=found))


COUNTED = {
    "pins": (
        ("not_pinned", "pin", "pin_unused"),
        [
            "every replica is inside its pin",
            "1 replica stays outside its pin, 1 topic has too few brokers in its pin, 1 pin matches no topic",
            "2 replicas stay outside their pins, 2 topics have too few brokers in their pins, 2 pins match no topic",
        ],
    ),
    "factors": (
        ("replication_factor", "not_resized", "factor_unused"),
        [
            "0 partitions get the factor asked for",
            "1 partition gets the factor asked for, 1 topic can't have it, 1 partition keeps what it has, "
            "1 pattern matches no topic",
            "2 partitions get the factor asked for, 2 topics can't have it, 2 partitions keep what they have, "
            "2 patterns match no topic",
        ],
    ),
}


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("asked", COUNTED)
def test_what_is_missed_is_counted_by_what_it_is(asked: str, count: int) -> None:
    """A goal names replicas, topics, partitions and patterns, not findings."""
    codes, told = COUNTED[asked]
    wish: dict[str, Any] = {asked: ("x",)}
    plan = plan_of(IN_ORDER | {"factor_changes": (0, count)}, **wish)
    found = rows_of(FindingRow, *(finding(code, f"t-{n}") for code in codes for n in range(count)))
    name = {"pins": "pins x", "factors": "replication factors x"}[asked]
    state = "NOT reached" if count else "reached"
    assert (state, name, told[count]) in shown(replace(plan, findings=found))


BEFORE = "(replicas, disk, bytes in), 7 before"


@pytest.mark.parametrize(
    ("count", "stays", "racks", "bands"),
    [
        (0, "100 replicas leave", "no partition broke the rack rule", f"no broker outside its bands {BEFORE}"),
        (
            *(1, "1 of 100 replicas stays", "1 partition breaks the rack rule, 0 before"),
            f"1 broker outside its bands {BEFORE}",
        ),
        (
            *(2, "2 of 100 replicas stay", "2 partitions break the rack rule, 0 before"),
            f"2 brokers outside their bands {BEFORE}",
        ),
    ],
)
def test_goals_agree_with_their_counts(count: int, stays: str, racks: str, bands: str) -> None:
    """One is, two are."""
    plan = plan_of(IN_ORDER | {"rack_violations": (0, count), "brokers_outside_bands": (7, count)}, stay=count)
    assert [detail for _, _, detail in shown(plan)][:3] == [stays, racks, bands]


def test_racks_that_nobody_knows_are_mended_nowhere() -> None:
    """Requested for alone, racks that no broker names are not reached; else there is no such goal."""
    plan = plan_of({}, only="racks")
    plan = replace(plan, brokers=[replace(row, rack=None) for row in plan.brokers])
    assert shown(plan) == [("NOT reached", "racks", "no broker has a known rack")]
    assert "racks" not in [goal.name for goal in goals(replace(plan, asked=Requested()))]


def test_the_head_names_time_release_and_sources() -> None:
    """One sentence says when the cluster was read, its release where told, and from what with the records of each."""
    sources = [
        SourceRow("a.txt", captured_at=1791165600, records=1200),
        SourceRow("m.csv", captured_at=None, records=3),
        SourceRow("kafka://h:1", captured_at=1791166031, records=4),
    ]
    plan = replace(plan_of({}, place="orders and h:1", kafka_version="3.9"), sources=sources)
    assert origin(plan) == (
        "Snapshot of 2026-10-05 02:00 to 2026-10-05 02:07 UTC; Kafka 3.9; 3 sources read from orders and h:1 (records "
        "of each): a.txt 1,200, m.csv 3, kafka://h:1 4."
    )
    assert origin(replace(plan, asked=Requested(), sources=sources[:1])) == (
        "Snapshot of 2026-10-05 02:00 UTC; Kafka version unknown; 1 source read (records of each): a.txt 1,200."
    )
    ahead = replace(plan, asked=replace(plan.asked, kafka_version="5.7"))
    assert "; Kafka 5.7 is not a known release (0.8 to 4.3 are): the rules of 4.3 are used; 3 s" in origin(ahead)
    many = origin(replace(plan, sources=[replace(sources[0], source=f"f{n}") for n in range(40)]))
    assert many.endswith("f11 1,200 and 28 more.")
    assert origin(plan_of({})) == "Snapshot of unknown time; Kafka version unknown; sources unknown."


def test_what_is_asked_comes_from_the_settings() -> None:
    """A cluster's own lists and the policy's, in words; of the input its folder's name, and no client file."""
    cluster = {
        "id": "a",
        "input": "/data/in/orders",
        "bootstrap_servers": "h:1",
        "client_config": "/secret/c.properties",
    }
    own: dict[str, Any] = {"kafka_version": "3.9", "drain_brokers": [3], "only": "drain", "max_moves": 5}
    topics = {"pins": [{"topics": "p", "racks": ["a", "b"]}], "replication_factors": [{"topics": "t", "factor": 3}]}
    policy = {**topics, "demote_brokers": [4], "exclude_brokers": [7, 8], "exclude_topics": ["__.*"], "max_moved_gb": 2}
    settings = build({"clusters": [{**cluster, **own}], "policy": policy})
    assert requested_of(settings, "a") == Requested(
        only="drain",
        drain=(3,),
        demote=(4,),
        limits=("2.00 GB", "5 replicas"),
        pins=("p on racks a, b",),
        factors=("t: 3",),
        kept_out=("no new replica on 7, 8", "topics __.*"),
        exclude_topics=("__.*",),
        kafka_version="3.9",
        place="orders and h:1",
    )
    told = kept_out(replace(plan_of({}), asked=requested_of(settings, "a")))
    assert told == "Left alone as asked: no new replica on 7, 8; topics __.*."
    assert requested_of(settings, "b") == Requested()


def test_topics_that_take_no_part_are_left_alone() -> None:
    """With ``topics``, every other topic is named as left alone, and what of it moves is counted."""
    plan = plan_of({}, drain=(0,))
    names = [row.topic for row in plan.changed if {*row.proposed_replicas} != {*row.current_replicas}]
    settings = build({"clusters": [{"id": "a", "input": "/in"}], "policy": {"topics": ["x"]}})
    found = rows_of(FindingRow, finding("topics_unused", "x"))
    assert kept_out(replace(plan, asked=requested_of(settings, "a"), findings=found)) == (
        f"Left alone as asked: every topic except x. {len(names)} partitions of these topics move "
        "all the same, because replicas must leave their brokers. This pattern matches no topic: x."
    )


@pytest.mark.parametrize(
    ("patterns", "unused", "told"),
    [
        (("none.*",), (), "Left alone as asked: topics none.*."),
        (
            ("none.*",),
            ("none.*",),
            "Left alone as asked: topics none.*. This pattern matches no topic: none.*.",
        ),
        (
            ("{topic}", "a", "b"),
            ("a", "b"),
            "Left alone as asked: topics {topic}, a, b. {moved} of these topics move all the same, because replicas "
            "must leave their brokers. These patterns match no topic: a, b.",
        ),
    ],
)
def test_what_excluded_topics_move_all_the_same_is_counted(
    patterns: tuple[str, ...], unused: tuple[str, ...], told: str
) -> None:
    """Next to a drain, replicas of excluded topics leave the broker; a pattern that matches nothing is named."""
    plan = plan_of({}, drain=(0,))
    names = [row.topic for row in plan.changed if {*row.proposed_replicas} != {*row.current_replicas}]
    topic, count = names[0], names.count(names[0])
    patterns = tuple(pattern.format(topic=topic) for pattern in patterns)
    found = rows_of(FindingRow, *(finding("exclude_unused", pattern) for pattern in unused))
    asked = Requested(kept_out=(f"topics {', '.join(patterns)}",), exclude_topics=patterns)
    plan = replace(plan, asked=asked, findings=found)
    assert kept_out(plan) == told.format(topic=topic, moved=f"{count} partitions")
