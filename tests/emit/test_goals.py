"""The head of the pages: requests, whether they are reached, and what was read."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from optimizer.configuration import build
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.decision import notes
from optimizer.emit.goals import exclusions, goals, origin, validity, verdict
from optimizer.emit.requested import Requested, requested_of
from optimizer.emit.rows import FigureRow, FindingRow, SourceRow
from tests.emit.rows import rows_of
from tests.emit.test_findings import finding
from tests.emit.test_pages import LIMITED, synthetic
from tests.emit.texts import report_of, runbook_of, summary_of

BANDS, LED = "balance", "leaders"


def plan_of(figures: Mapping[str, tuple[float, float]], *, stay: int = 0, **requests: Any) -> ClusterPlan:
    """A plan that drains broker 0, with these figures before and after; ``stay`` of its 100 replicas stay."""
    summary = [
        FigureRow(name, name, before=before, baseline=None, after=after) for name, (before, after) in figures.items()
    ]
    replicas = {"before": 100, "baseline": 0, "after": stay}
    plan = synthetic(12)
    balance = [replace(r, replicas=replicas[r.placement]) if r.broker_id == 0 else r for r in plan.balance]
    return replace(plan, summary=summary, balance=balance, requested=Requested(**requests))


def shown(plan: ClusterPlan) -> list[tuple[str, str, str]]:
    """State, name and detail of each goal."""
    return [(goal.state, goal.name, goal.detail) for goal in goals(plan)]


IN_ORDER = {"rack_violations": (16, 0), "brokers_outside_bands": (7, 0)}


def test_what_is_reached_is_said_with_what_it_was() -> None:
    """A plan that reaches all goals says what it does, and shows the state before for each goal."""
    plan = plan_of(IN_ORDER, drain=(0,))
    assert verdict(plan) == "Broker 0 will be empty, no partition breaks the rack rule, no broker is outside its bands."
    assert shown(plan) == [
        ("reached", "empty broker 0", "100 replicas leave"),
        ("reached", "racks", "16 partitions are repaired"),
        ("reached", BANDS, "no broker outside its bands (replicas, disk, bytes in), 7 before"),
        ("reached", LED, "no broker outside its bands (leaders, bytes out)"),
    ]


def test_a_rack_that_is_emptied_is_counted_next_to_the_rack_rule() -> None:
    """The goal names the number of remaining racks, reached or not."""
    plan = plan_of(IN_ORDER, drain=(0,))
    racks = sorted({row.rack for row in plan.brokers if row.rack})
    brokers = [replace(row, accepts_replicas=row.rack != racks[0]) for row in plan.brokers]
    findings = rows_of(FindingRow, finding("rack_emptied", f"rack {racks[0]}", "after"))
    plan = replace(plan, brokers=brokers, findings=findings)
    replicas = f"{len(racks) - 1} of {len(racks)} racks {'remains' if len(racks) == 2 else 'remain'}"
    assert ("reached", "racks", f"16 partitions are repaired; {replicas}") in shown(plan)
    broken = replace(plan, summary=plan_of({"rack_violations": (16, 2)}).summary)
    assert ("NOT reached", "racks", f"2 partitions break the rack rule, 16 before; {replicas}") in shown(broken)


def test_a_cluster_that_waits_says_so_and_leaves_no_note() -> None:
    """The balance is reached, by the bands of the night; one more finding would be a note."""
    plan = plan_of(IN_ORDER, drain=(0,))
    wait, other = (finding(code, "broker 1 disk", resource="disk") for code in ("waits_to_start", "band"))
    waiting, with_more = (replace(plan, findings=rows_of(FindingRow, *rows)) for rows in ((wait,), (wait, other)))
    text = "no broker outside its start bands (replicas, disk, bytes in), 7 before; the cluster waits to start"
    assert ("reached", BANDS, text) in shown(waiting)
    assert verdict(waiting) == f"The cluster waits to start: {waiting.findings[0].detail}."
    counted = [[note.subject for note in notes(each) if "finding" in note.subject] for each in (waiting, with_more)]
    assert counted == [[], ["1 finding"]]


def test_a_cut_plan_says_first_what_stays() -> None:
    """If a limit leaves replicas on a drained broker, each page says so before anything else."""
    figures = {"rack_violations": (16, 2), "brokers_outside_bands": (7, 3), "leaders_outside": (0, 4)}
    plan = replace(plan_of(figures, stay=92, drain=(0,), limits=("2.00 TB",)), findings=[LIMITED])
    expected = "NOT reached: empty broker 0; racks; balance; leaders."
    assert verdict(plan) == expected
    assert shown(plan) == [
        ("NOT reached", "empty broker 0", "92 of 100 replicas stay"),
        ("NOT reached", "racks", "2 partitions break the rack rule, 16 before"),
        ("NOT reached", BANDS, "3 brokers outside their bands (replicas, disk, bytes in), 7 before"),
        ("NOT reached", LED, "4 leaders are outside the bands"),
        ("reached", "at most 2.00 TB copied", "the limit reduces the plan"),
    ]
    figures_of = {"summary": "Kafka default     this plan", "report": 'class="cards"', "runbook": "| wave |"}
    pages = {
        "summary": summary_of(plan),
        "report": report_of(plan),
        "runbook": runbook_of(plan),
    }
    for name, page in pages.items():
        text = " ".join(page.split())
        figure = text.index(" ".join(figures_of[name].split()))
        assert text.index(expected) < text.index("92 of 100 replicas stay") < figure


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
    """With ``only`` there is no other goal, and the verdict says so."""
    plan = plan_of(IN_ORDER, only=only, demote=(3, 4), pins=("p on racks a",))
    assert [goal.name for goal in goals(plan)] == names
    assert ("(only " in verdict(plan)) == bool(only)


def test_leaders_that_stay_on_a_demoted_broker_are_counted() -> None:
    """A demotion is reached if the broker leads no partition after the plan."""
    plan = plan_of({}, only="demote", demote=(3,))
    led = {row.placement: row.leaders for row in plan.balance if row.broker_id == 3}
    expected = f"{led['after']} of {led['before']} preferred leaders stay"
    assert shown(plan) == [("NOT reached", "demote broker 3", expected)]
    rows = [replace(r, leaders=0) if r.placement == "after" else r for r in plan.balance]
    assert shown(replace(plan, balance=rows))[0][2] == f"{led['before']} preferred leaders move to other brokers"


@pytest.mark.parametrize(("count", "rest"), [(10, ""), (11, " and 1 more")])
def test_ten_of_many_are_named(count: int, rest: str) -> None:
    """A goal names ten brokers, and says how many more there are."""
    plan = plan_of({}, only="demote", demote=tuple(range(count)))
    assert [goal.name for goal in goals(plan)] == [f"demote brokers 0, 1, 2, 3, 4, 5, 6, 7, 8, 9{rest}"]


@pytest.mark.parametrize(
    ("requests", "rule", "expected"),
    [
        ({"pins": ("p on racks a",)}, "", ("reached", "pins p on racks a", "every replica is inside its pin")),
        (
            {"pins": ("p on racks a",)},
            "not_pinned",
            ("NOT reached", "pins p on racks a", "1 replica stays outside its pin"),
        ),
        ({"factors": ("t: 3",)}, "", ("reached", "replication factors t: 3", "5 partitions get the requested factor")),
        (
            {"factors": ("t: 3",)},
            "replication_factor",
            (
                "NOT reached",
                "replication factors t: 3",
                "5 partitions get the requested factor, 1 topic can't have it",
            ),
        ),
    ],
)
def test_pins_and_factors_are_goals(requests: dict[str, Any], rule: str, expected: tuple[str, str, str]) -> None:
    """Requests for topics are reached unless a finding says that a topic can't have it."""
    plan = plan_of(IN_ORDER | {"factor_changes": (0, 5)}, **requests)
    findings = rows_of(FindingRow, finding(rule, "t")) if rule else []
    assert expected in shown(replace(plan, findings=findings))


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
            "0 partitions get the requested factor",
            "1 partition gets the requested factor, 1 topic can't have it, 1 partition keeps its factor, "
            "1 pattern matches no topic",
            "2 partitions get the requested factor, 2 topics can't have it, 2 partitions keep their factor, "
            "2 patterns match no topic",
        ],
    ),
}


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("requests", COUNTED)
def test_what_is_missed_is_counted_by_what_it_is(requests: str, count: int) -> None:
    """A goal names replicas, topics, partitions and patterns, not findings."""
    codes, expected = COUNTED[requests]
    request: dict[str, Any] = {requests: ("x",)}
    plan = plan_of(IN_ORDER | {"factor_changes": (0, count)}, **request)
    findings = rows_of(FindingRow, *(finding(code, f"t-{n}") for code in codes for n in range(count)))
    name = {"pins": "pins x", "factors": "replication factors x"}[requests]
    state = "NOT reached" if count else "reached"
    assert (state, name, expected[count]) in shown(replace(plan, findings=findings))


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
    """If no broker has a rack, ``only = racks`` is not reached; without ``only`` there is no such goal."""
    plan = plan_of({}, only="racks")
    plan = replace(plan, brokers=[replace(row, rack=None) for row in plan.brokers])
    assert shown(plan) == [("NOT reached", "racks", "no broker has a known rack")]
    assert "racks" not in [goal.name for goal in goals(replace(plan, requested=Requested()))]


def test_the_head_names_time_release_and_sources() -> None:
    """One sentence has the capture times, the release if known, and the sources with their records."""
    sources = [
        SourceRow("a.txt", captured_at=1791165600, records=1200),
        SourceRow("m.csv", captured_at=None, records=3),
        SourceRow("kafka://h:1", captured_at=1791166031, records=4),
    ]
    plan = replace(plan_of({}, source="orders and h:1", kafka_version="3.9"), sources=sources)
    assert origin(plan) == (
        "Snapshot of 2026-10-05 02:00 to 2026-10-05 02:07 UTC, valid until 2026-10-06 02:00 UTC; "
        "Kafka 3.9; 3 sources read from orders and h:1 (records "
        "of each): a.txt 1,200, m.csv 3, kafka://h:1 4."
    )
    assert origin(replace(plan, requested=Requested(), sources=sources[:1])) == (
        "Snapshot of 2026-10-05 02:00 UTC, valid until 2026-10-06 02:00 UTC; "
        "Kafka version unknown; 1 source read (records of each): a.txt 1,200."
    )
    ahead = replace(plan, requested=replace(plan.requested, kafka_version="5.7"))
    assert "; Kafka 5.7 is not a known release (0.8 to 4.3 are): the rules of 4.3 are used; 3 s" in origin(ahead)
    text = origin(replace(plan, sources=[replace(sources[0], source=f"f{n}") for n in range(40)]))
    assert text.endswith("f11 1,200 and 28 more.")
    assert origin(plan_of({})) == "Snapshot of unknown time, never expires; Kafka version unknown; sources unknown."


def test_what_is_asked_comes_from_the_settings() -> None:
    """Requests come from the cluster and the policy. The source is the folder's name, without the client file."""
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
        exclusions=("brokers 7, 8 (no new replica)", "topics __.*"),
        exclude_topics=("__.*",),
        kafka_version="3.9",
        source="orders and h:1",
    )
    expected = exclusions(replace(plan_of({}), requested=requested_of(settings, "a")))
    assert expected == "Excluded as requested: brokers 7, 8 (no new replica); topics __.*."
    assert requested_of(settings, "b") == Requested()


def test_topics_that_take_no_part_are_left_alone() -> None:
    """With ``topics``, every other topic is excluded, and its partitions that still move are counted."""
    plan = plan_of({}, drain=(0,))
    names = [row.topic for row in plan.changed if {*row.proposed_replicas} != {*row.current_replicas}]
    settings = build({"clusters": [{"id": "a", "input": "/in"}], "policy": {"topics": ["x"]}})
    findings = rows_of(FindingRow, finding("topics_unused", "x"))
    assert exclusions(replace(plan, requested=requested_of(settings, "a"), findings=findings)) == (
        f"Excluded as requested: every topic except x. {len(names)} partitions of these topics still move, "
        "because replicas must leave their brokers. This pattern matches no topic: x."
    )


@pytest.mark.parametrize(
    ("patterns", "unused", "expected"),
    [
        (("none.*",), (), "Excluded as requested: topics none.*."),
        (
            ("none.*",),
            ("none.*",),
            "Excluded as requested: topics none.*. This pattern matches no topic: none.*.",
        ),
        (
            ("{topic}", "a", "b"),
            ("a", "b"),
            "Excluded as requested: topics {topic}, a, b. {moved} of these topics still move, because replicas "
            "must leave their brokers. These patterns match no topic: a, b.",
        ),
    ],
)
def test_what_excluded_topics_move_all_the_same_is_counted(
    patterns: tuple[str, ...], unused: tuple[str, ...], expected: str
) -> None:
    """Next to a drain, replicas of excluded topics leave the broker; a pattern that matches nothing is named."""
    plan = plan_of({}, drain=(0,))
    names = [row.topic for row in plan.changed if {*row.proposed_replicas} != {*row.current_replicas}]
    topic, count = names[0], names.count(names[0])
    patterns = tuple(pattern.format(topic=topic) for pattern in patterns)
    findings = rows_of(FindingRow, *(finding("exclude_unused", pattern) for pattern in unused))
    requests = Requested(exclusions=(f"topics {', '.join(patterns)}",), exclude_topics=patterns)
    plan = replace(plan, requested=requests, findings=findings)
    assert exclusions(plan) == expected.format(topic=topic, moved=f"{count} partitions")


def test_a_plan_may_never_expire() -> None:
    """With 0 valid hours, and without a capture time; other plans say when they expire."""
    sources = [SourceRow("a.txt", 1_759_629_600, 1)]
    assert validity(replace(plan_of({}), sources=sources, valid_hours=24.0)) == "valid until 2025-10-06 02:00 UTC"
    assert validity(replace(plan_of({}), sources=sources, valid_hours=0.0)) == "never expires"
    assert validity(plan_of({})) == "never expires"


def test_the_headline_says_what_the_plan_does() -> None:
    """New brokers, too; beside a missed goal they only get replicas. A plan without an effect reaches its goals."""
    plan = plan_of(IN_ORDER)
    balance = [
        replace(row, replicas=0) if (row.broker_id, row.placement) == (5, "before") else row for row in plan.balance
    ]
    filled = replace(plan, balance=balance)
    assert verdict(filled) == (
        "Broker 0 will be empty, broker 5 takes its share, no partition breaks the rack rule, "
        "no broker is outside its bands."
    )
    missed = replace(filled, summary=plan_of({"brokers_outside_bands": (7, 2)}).summary)
    assert verdict(missed) == "Broker 0 will be empty, broker 5 gets replicas. NOT reached: balance."
    assert verdict(replace(plan_of({}), balance=[])) == "The plan reaches all goals."
