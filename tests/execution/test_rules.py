"""The rules of approval by themselves: each of them can refuse a plan, and nothing else does."""

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from execution.rules import Facts, describe, figures, frozen, frozen_by, objections, period_of, to_json
from optimizer.approval_setting import REQUESTS, ApprovalRules, NoteCode
from optimizer.units import NEVER_SECONDS
from tests.execution.decisions import GB, STOPPED, decision, figure

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
MOVED = {7: 100.0 * GB, 30: 900.0 * GB}
MAY = ("balance", "racks")
NIGHT = "2026-11-02T22:00:00+00:00"
# Each limit, the value in ``decision()``, and the end of a message about it.
LIMITS = {
    "most_moved_bytes": (298 * GB, "moves 298 GB, the limit is "),
    "most_inside_bytes": (5 * GB, "moves 5.00 GB inside brokers, the limit is "),
    "most_moved_share_percent": (1.5, "moves 1.50 % of all bytes, the limit is "),
    "most_hours": (2, "copies for up to 2 h 00 min, the limit is "),
    "most_leader_changes": (12, "changes 12 preferred leaders, the limit is "),
    "most_cross_rack_bytes": (40 * GB, "moves 40.0 GB between racks, the limit is "),
    "most_gap_percent": (0.5, "moves 0.500 % more than the proven minimum, the limit is "),
    "most_peak_disk_percent": (71, "fills the fullest disk to 71 %, the limit is "),
    "most_groups_noticing": (4, "is noticed by 4 consumer groups, the limit is "),
    "most_bytes_per_week": (398 * GB, "with it the cluster moves 398 GB in 7 days, the limit is "),
    "most_bytes_per_month": (1198 * GB, "with it the cluster moves 1.20 TB in 30 days, the limit is "),
    **{f"most_added_stopped_{name}": (2, "stops 2 more partitions ") for name in STOPPED},
}
UNKNOWN: dict[str, dict[str, Any]] = {
    "most_moved_bytes": {"figures": {"moved_bytes": figure()}},
    "most_moved_share_percent": {"figures": {"moved_share_percent": figure()}},
    "most_leader_changes": {"figures": {"leader_changes": figure()}},
    "most_cross_rack_bytes": {"figures": {"cross_rack_bytes": figure()}},
    "most_gap_percent": {"figures": {"gap_percent": figure()}},
    "most_peak_disk_percent": {"peak_disk_percent": None},
    "most_groups_noticing": {"consumer_groups": None},
    "most_bytes_per_week": {"figures": {"moved_bytes": figure()}},
    "most_added_stopped_by_worst_rack": {"figures": {"stopped_by_worst_rack": figure(0.0, None, 4.0)}},
    "most_added_stopped_by_some_rack": {"figures": {"stopped_by_some_rack": figure(0.0, 1.0, None)}},
}


def facts(**changes: Any) -> Facts:
    """Facts about a plan, with some fields of its decision replaced."""
    return Facts(decision(**changes), MOVED, NOON)


def rules(**given: Any) -> ApprovalRules:
    """Rules that a plan may request balance and racks by, and some more."""
    return ApprovalRules(**{"may": MAY, **given})


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_kept_or_named(name: str) -> None:
    """A value at the limit is approved, one above it is not; the message has both."""
    value, words = LIMITS[name]
    assert objections(rules(**{name: float(value)}), facts()) == []
    (line,) = objections(rules(**{name: value * 0.5}), facts())
    assert line.startswith(words)
    assert "the limit is " in line


def test_every_limit_has_a_case() -> None:
    """A limit without one would refuse nothing that a test notices."""
    assert set(LIMITS) == {name for name in ApprovalRules.__dataclass_fields__ if name.startswith("most_")}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_figure_is_refused(name: str) -> None:
    """Only if it has a limit."""
    (line,) = objections(rules(**{name: 10.0**18}), facts(**UNKNOWN[name]))
    assert line.startswith(f"the figure of {name} is unknown, the limit is ")
    assert objections(rules(), facts(**UNKNOWN[name])) == []


def test_values_that_look_the_same_are_exact() -> None:
    """Otherwise a reader would see two equal numbers."""
    (line,) = objections(rules(most_moved_bytes=298.0 * GB - 1), facts())
    assert line == "moves 298000000000.0, the limit is 297999999999.0"


RED = {"state": "red", "headline": "Danger: writes stop while it runs."}
NOTE = {"code": "in_flight", "kind": "Do first", "subject": "t-0:", "text": "a reassignment runs."}


@pytest.mark.parametrize(
    ("given", "changes", "line"),
    [
        ({}, {"goals": [{"name": "racks", "is_reached": False}]}, "not reached: racks"),
        ({}, {"verdict": RED}, "its state is red: Danger: writes stop while it runs."),
        ({}, {"requests": ["drain", "balance"]}, "the policy requests drain, the rules may approve balance and racks"),
        ({}, {"notes": [NOTE], "note_codes": ["in_flight"]}, "note in_flight: t-0: a reassignment runs."),
        ({}, {"note_codes": ["no_rates"]}, "note no_rates"),
        (
            {"freeze": ("13:00/14:00",), "time_zone": "UTC"},
            {},
            "it may copy from 2026-11-02 12:00 UTC to 2026-11-02 14:00 UTC, in the freeze 13:00/14:00 (UTC)",
        ),
    ],
)
def test_each_other_rule_refuses(given: dict[str, Any], changes: dict[str, Any], line: str) -> None:
    """With one line."""
    assert objections(rules(**given), facts(**changes)) == [line]


def test_what_is_allowed_refuses_nothing() -> None:
    """Requests and notes that the rules name."""
    allowed = rules(may=("drain",), allow_notes=("in_flight", "no_rates"))
    assert objections(allowed, facts(requests=["drain"], notes=[NOTE], note_codes=["in_flight", "no_rates"])) == []


def test_all_lines_are_given_at_once() -> None:
    """A person sees everything that the rules do not approve."""
    lines = objections(rules(most_hours=1, most_leader_changes=3), facts(requests=["pins"], note_codes=["dead"]))
    assert len(lines) == 4


ZONE = "Europe/Dublin"


@pytest.mark.parametrize(
    ("freeze", "begin", "hours", "is_frozen"),
    [
        ("2026-12-20/2027-01-03", "2026-12-19T23:59", 0.01, False),
        ("2026-12-20/2027-01-03", "2026-12-19T22:00", 2, False),
        ("2026-12-20/2027-01-03", "2026-12-19T22:00", 2.1, True),
        ("2026-12-20/2027-01-03", "2027-01-03T23:59", 0, True),
        ("2026-12-20/2027-01-03", "2026-12-20T00:00", 0, True),
        ("2026-12-20/2027-01-03", "2027-01-04T00:00", 9, False),
        ("2026-12-20/2027-01-03", "2026-12-01T00:00", 24 * 60, True),
        ("2026-06-10/2026-06-10", "2026-06-09T22:30", 1, True),  # Dublin is an hour ahead of UTC in summer
        ("2026-06-10/2026-06-10", "2026-06-10T23:00", 5, False),
        ("2026-10-25/2026-10-25", "2026-10-25T23:30", 1, True),  # the day has 25 hours
        ("08:00/18:00", "2026-11-02T06:00", 2, False),
        ("08:00/18:00", "2026-11-02T06:00", 2.1, True),
        ("08:00/18:00", "2026-11-02T18:00", 14, False),
        ("08:00/18:00", "2026-11-02T18:00", 14.1, True),
        ("08:00/18:00", "2026-07-02T17:00", 1, False),
        ("08:00/18:00", "2026-07-02T16:59", 1, True),
        ("22:00/06:00", "2026-11-02T05:00", 0.1, True),
        ("22:00/06:00", "2026-11-02T06:00", 16, False),
        ("22:00/06:00", "2026-11-02T21:00", 1.1, True),
        ("22:00/06:00", "2026-11-02T10:00", 200, True),
        ("00:30/01:30", "2026-10-25T01:00", 0.4, True),  # the hour that the clock repeats
        ("00:30/01:30", "2026-10-25T01:30", 9, False),
        ("01:30/03:00", "2026-10-25T00:30", 0.1, True),
        ("01:00/02:00", "2026-03-28T12:00", 200, True),  # the clock skips these hours of the first day
        ("00:30/01:30", "2026-03-29T00:30", 0.1, True),
    ],
)
def test_a_freeze_is_in_its_time_zone(freeze: str, begin: str, hours: float, is_frozen: bool) -> None:
    """Days are whole, hours are those of every day; copies may end when a freeze begins, and begin when it ends."""
    frozen_rules = rules(freeze=(freeze,), time_zone=ZONE)
    start = datetime.fromisoformat(begin).replace(tzinfo=UTC)
    assert (frozen(frozen_rules, *period_of(start, hours * 3600)) is not None) is is_frozen


@pytest.mark.parametrize("hours", ["00:30/01:30", "01:00/02:00", "01:30/03:00", "02:00/01:00", "01:30/01:00"])
@pytest.mark.parametrize("day", ["2026-03-28", "2026-10-24"])
def test_no_minute_of_a_freeze_is_missed_when_the_clock_changes(day: str, hours: str) -> None:
    """What the clock on the wall shows in a freeze is frozen, also in the hour that it repeats."""
    begin, given = datetime.fromisoformat(day).replace(tzinfo=UTC), {"freeze": (hours,), "time_zone": ZONE}
    for minute in range(0, 3 * 24 * 60, 10):
        now = begin + timedelta(minutes=minute)
        first, _, last = hours.partition("/")
        wall = f"{now.astimezone(ZoneInfo(ZONE)):%H:%M}"
        if first <= wall < last or (last < first and not last <= wall < first):
            assert frozen(rules(**given), now, now), now


def test_copies_without_an_end_are_refused_by_a_freeze() -> None:
    """Nobody can say that they are over before it."""
    found = frozen(rules(freeze=("2030-01-01/2030-01-02",), time_zone="UTC"), *period_of(NOON, NEVER_SECONDS))
    assert found == "its copies have no predicted end, and the freeze 2030-01-01/2030-01-02 needs one"
    assert frozen(rules(), *period_of(NOON, NEVER_SECONDS)) is None


def test_a_plan_with_windows_copies_in_its_nights() -> None:
    """The time between two nights may be frozen. A night that has begun or is past counts from now on."""
    nights = [[NIGHT, "2026-11-03T02:00:00+00:00"], ["2026-11-03T22:00:00+00:00", "2026-11-04T02:00:00+00:00"]]
    by_day = {"freeze": ("06:00/21:00",), "time_zone": "UTC"}
    assert objections(rules(**by_day), facts(calendar=nights)) == []
    assert len(objections(rules(**by_day), facts())) == 1
    assert len(objections(rules(freeze=("2026-11-04/2026-11-04",), time_zone="UTC"), facts(calendar=nights))) == 1
    assert len(objections(rules(**by_day), facts(calendar=[[NIGHT, None]]))) == 1
    begun = [["2026-11-02T09:00:00+00:00", "2026-11-02T13:00:00+00:00"]]
    past = [["2026-11-02T08:00:00+00:00", "2026-11-02T10:00:00+00:00"]]
    for calendar in (begun, [*past, *past]):  # from 12:00 to 16:00
        for hours, is_frozen in {"09:00/12:00": False, "15:30/17:00": True, "16:00/18:00": False}.items():
            lines = objections(rules(freeze=(hours,), time_zone="UTC"), facts(calendar=calendar))
            assert len(lines) == is_frozen, (calendar, hours)
    assert len(objections(rules(**by_day), facts(calendar=[[past[0][0], None]]))) == 1


def test_an_approval_keeps_its_own_freeze() -> None:
    """A wave waits only if each approval in force is by rules with a freeze at this time."""
    noon = period_of(NOON, 60)

    def row(**given: Any) -> dict[str, Any]:
        return {"rules": to_json(rules(**given), facts())}

    by_day, by_night = ({"freeze": (hours,), "time_zone": "UTC"} for hours in ("08:00/18:00", "18:00/08:00"))
    assert frozen_by([row(**by_day)], noon)
    assert frozen_by([row(**by_day), row(**by_day)], noon)
    for other in (row(**by_night), row()):
        for rows in ([other], [other, row(**by_day)], [row(**by_day), other]):
            assert frozen_by(rows, noon) is None
    assert frozen_by([], noon) is None


def test_an_approval_is_described_from_what_it_stored() -> None:
    """Rules, figures and limits, also a limit that this release does not know."""
    given = rules(most_moved_bytes=500.0 * GB, most_gap_percent=2.0, freeze=("08:00/18:00",), time_zone=ZONE)
    stored = json.loads(to_json(given, facts()))
    assert stored["figures"] == figures(given, facts()) == {"most_moved_bytes": 298.0 * GB, "most_gap_percent": 0.5}
    at_limit = to_json(rules(most_moved_bytes=298.0 * GB), facts())
    assert next(describe(at_limit)) == "moves 298 GB, the limit is 298 GB"
    stored["rules"]["most_colour"], stored["figures"]["most_colour"] = 7, 3
    assert [*describe(json.dumps(stored))] == [
        "moves 298 GB, the limit is 500 GB",
        "moves 0.500 % more than the proven minimum, the limit is 2.00 %",
        "may = balance, racks",
        "freeze = 08:00/18:00",
        "time_zone = Europe/Dublin",
        "most_colour = 3, the limit is 7",
    ]


def random_decision(rng: random.Random) -> dict[str, Any]:
    """A decision whose values are often near the limits of ``random_rules``."""

    def maybe(value: float) -> float | None:
        return None if rng.random() < 0.03 else value

    notes = [code for code in map(str, NoteCode) if rng.random() < 0.03]
    state = rng.choice(["green"] * 8 + ["amber", "red"])
    return decision(
        verdict={"state": state, "headline": "h"},
        goals=[{"name": n, "is_reached": rng.random() > 0.05} for n in ("balance", "racks")],
        requests=rng.sample(REQUESTS[:2], 2) + [r for r in REQUESTS[2:] if rng.random() < 0.05],
        note_codes=notes,
        copying={"seconds": [0, rng.choice([600, 7200, 86_400, 10**6, NEVER_SECONDS])]},
        inside_bytes=rng.randrange(10) * GB,
        peak_disk_percent=maybe(rng.uniform(50, 100)),
        consumer_groups=None if rng.random() < 0.03 else {"noticing": rng.randrange(20)},
        figures={
            "moved_bytes": figure(maybe(rng.uniform(0, 600) * GB)),
            "moved_share_percent": figure(maybe(rng.uniform(0, 10))),
            "cross_rack_bytes": figure(maybe(rng.uniform(0, 300) * GB)),
            "leader_changes": figure(maybe(rng.randrange(100))),
            "gap_percent": figure(maybe(rng.uniform(0, 5))),
            **{f"stopped_{n}": figure(0, maybe(rng.randrange(3)), maybe(rng.randrange(5))) for n in STOPPED},
        },
    )


def random_rules(rng: random.Random) -> dict[str, Any]:
    """Rules as a configuration gives them: most of them are missing."""
    most = {
        **{"most_moved_bytes": 500 * GB, "most_inside_bytes": 7 * GB, "most_moved_share_percent": 8, "most_hours": 24},
        **{"most_leader_changes": 80, "most_cross_rack_bytes": 250 * GB, "most_gap_percent": 4},
        **{"most_peak_disk_percent": 90, "most_groups_noticing": 15, "most_bytes_per_week": 600 * GB},
        **{"most_bytes_per_month": 1300 * GB},
        **{f"most_added_stopped_{name}": 2 for name in STOPPED},
    }
    given: dict[str, Any] = {name: float(value) for name, value in most.items() if rng.random() < 0.25}
    given["may"] = tuple(r for r in REQUESTS if r in MAY or rng.random() < 0.5)
    if notes := tuple(str(code) for code in NoteCode if rng.random() < 0.6):
        given["allow_notes"] = notes
    if rng.random() < 0.4:
        texts = ("2026-11-03/2026-11-05", "2026-11-20/2026-11-20", "14:00/16:00", "23:00/02:00")
        given |= {
            "freeze": tuple(rng.sample(texts, rng.randrange(1, 3))),
            "time_zone": rng.choice(["UTC", "Asia/Tokyo"]),
        }
    return given


def is_approved(given: dict[str, Any], made: dict[str, Any]) -> bool:
    """A second reader of the rules, which shares no code with the first: one long condition."""
    f = made["figures"]
    values: dict[str, Any] = {
        "most_moved_bytes": f["moved_bytes"]["after"],
        "most_inside_bytes": made["inside_bytes"],
        "most_moved_share_percent": f["moved_share_percent"]["after"],
        "most_hours": made["copying"]["seconds"][1] / 3600,
        "most_leader_changes": f["leader_changes"]["after"],
        "most_cross_rack_bytes": f["cross_rack_bytes"]["after"],
        "most_gap_percent": f["gap_percent"]["after"],
        "most_peak_disk_percent": made["peak_disk_percent"],
        "most_groups_noticing": made["consumer_groups"] and made["consumer_groups"]["noticing"],
    }
    moved = f["moved_bytes"]["after"]
    for name, days in (("most_bytes_per_week", 7), ("most_bytes_per_month", 30)):
        values[name] = None if moved is None else moved + MOVED[days]
    for name in STOPPED:
        side = f[f"stopped_{name}"]
        is_known = side["before"] is not None and side["worst_moment"] is not None
        values[f"most_added_stopped_{name}"] = side["worst_moment"] - side["before"] if is_known else None
    limits = [name for name in given if name.startswith("most_")]
    return (
        made["verdict"]["state"] != "red"
        and all(goal["is_reached"] for goal in made["goals"])
        and set(made["requests"]) <= set(given["may"])
        and set(made["note_codes"]) <= set(given.get("allow_notes", ()))
        and all(values[name] is not None and values[name] <= given[name] for name in limits)
        and not is_frozen_minute_by_minute(given, made["copying"]["seconds"][1])
    )


def is_frozen_minute_by_minute(given: dict[str, Any], seconds: float) -> bool:
    """Whether any minute of the copies is frozen, by the clock on the wall."""
    if "freeze" not in given:
        return False
    if seconds > 10**9:
        return True
    for minute in range(0, int(seconds // 60), 30):  # all times of these tests are half or whole hours
        wall = (NOON + timedelta(minutes=minute)).astimezone(ZoneInfo(given["time_zone"]))
        for text in given["freeze"]:
            first, _, last = text.partition("/")
            now = f"{wall:%Y-%m-%d}" if "-" in text else f"{wall:%H:%M}"
            is_day = "-" in text
            if (
                first <= now <= last
                if is_day
                else (first <= now < last if first < last else now >= first or now < last)
            ):
                return True
    return False


def test_a_second_reader_of_the_rules_agrees() -> None:
    """About a thousand random decisions; both answers are frequent, and each kind of rule decides alone somewhere."""
    rng = random.Random(20)
    answers, lone = [], set[str]()
    for _ in range(1000):
        given, made = random_rules(rng), random_decision(rng)
        lines = objections(ApprovalRules(**given), Facts(made, MOVED, NOON))
        assert (lines == []) is is_approved(given, made), (given, made, lines)
        answers.append(not lines)
        lone |= {" ".join(lines[0].split()[:2])} if len(lines) == 1 else set()
    assert 100 < sum(answers) < 900
    assert len(lone) > 12
