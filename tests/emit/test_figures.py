"""The figures that lead every page, and what the plan knows of its brokers."""

from dataclasses import fields, replace

import pytest

from optimizer.audit import AuditClaims
from optimizer.emit.broker_lines import fullest_disks
from optimizer.emit.figure_table import BALANCE, BY_NAME, COST, FIGURES, LOSSES
from optimizer.emit.rows import FigureRow, FindingRow, InputFindingRow
from optimizer.emit.shown_figures import Line, compared_with_default, lines, restarts
from optimizer.emit.summary import execution
from optimizer.units import human_percent
from tests.emit.rows import rows_of
from tests.emit.test_findings import finding
from tests.emit.test_pages import page, synthetic


def figure(name: str, before: float | None, baseline: float | None, after: float | None) -> FigureRow:
    """A row of ``summary``."""
    return FigureRow(name, "l", before, baseline, after)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (figure("replicas_moved", None, 5, 3), ("-", "5", "3")),
        (figure("replicas_moved", None, 0, 0), ("-", "0", "0")),
        (figure("replicas_moved", None, None, None), None),
        (figure("gap_percent", 1, 2, 3), None),
        (figure("rack_violations", 4, 0, 0), ("4", "0", "0")),
        (figure("rack_violations", 0, None, 0), None),
        (figure("unexplained", None, None, 2), ("-", "-", "2")),
        (figure("unexplained", None, None, 0), None),
    ],
)
def test_figures_that_say_nothing_are_left_out(row: FigureRow, expected: tuple[str, str, str] | None) -> None:
    """A figure has no line if it is unknown, has no value, or counts problems that never occur."""
    shown = list(lines(replace(synthetic(3), summary=[row])))
    assert shown == ([] if expected is None else [Line(BY_NAME[row.figure].group, "l", *expected)])


@pytest.mark.parametrize(
    ("batches", "least", "blocks", "rule", "expected"),
    [
        ((9, 3), (9, 3), (16, 2), "", "Restart in 9 batches now (proven fewest), in 3 after this plan (proven fewest); "
         "what blocks: 16 partitions of 2 topics."),
        ((5, 4), (5, 3), (1, 1), "", "Restart in 5 batches now (proven fewest), in 4 after this plan (the best found, "
         "3 or more are needed); what blocks: 1 partition of 1 topic."),
        ((1, 1), (1, 1), (0, 0), "size_believable", "Restart in 1 batch now (proven fewest), in 1 after this plan "
         "(proven fewest)."),
        ((1, 1), (1, 1), (0, 0), "placement_readable", "Restart in 1 batch now (proven fewest), in 1 after this plan "
         "(proven fewest). Partitions in input that was left out are not considered."),
        ((0, 0), (0, 0), (0, 0), "", ""),
        (None, None, (0, 0), "", ""),
    ],
)  # fmt: skip
def test_restarts_in_one_sentence(
    batches: tuple[int, int] | None,
    least: tuple[int, int] | None,
    blocks: tuple[int, int],
    rule: str,
    expected: str,
) -> None:
    """In report and summary, unless a run of an earlier release has no such figures; no proof hides missing input."""
    counts = {"restart_batches": batches, "restart_batches_bound": least}
    rows = [figure(name, values[0], None, values[1]) for name, values in counts.items() if values]
    rows += [
        figure("restart_blockers", blocks[0], None, None),
        figure("restart_blocking_topics", blocks[1], None, None),
    ]
    left_out = [InputFindingRow(rule, "left_out", "f.txt:1", "d", "r", 1)] if rule else []
    plan = replace(synthetic(3), summary=rows, input_findings=left_out)
    assert restarts(plan) == expected
    for name in ("summary.txt", "report.html"):
        text = " ".join(page(plan, name).split())
        assert (expected in text) if expected else ("Restart in" not in text)


@pytest.mark.parametrize(
    ("partitions", "ratio", "shown"),
    [(300, 1.0156, " (1.02x the proven minimum for 3 waves) at"), (300, None, " at"), (100, 1.0, " at")],
)
def test_the_waves_are_compared_with_their_bound(partitions: int, ratio: float | None, shown: str) -> None:
    """The sentence about time has the ratio, except for a single wave and if the bound is unknown."""
    rows = [figure("waves_over_bound", None, None, ratio)]
    text = execution(replace(synthetic(3, partitions=partitions), summary=rows))
    assert f" of copying{shown} up to 50.0 MB/s per broker" in text


@pytest.mark.parametrize(
    ("moved", "leaving", "broken", "outside", "said"),
    [
        (1.0, (0, 0), (1, 0), (5, 2), ", 10.0x as much."),
        (1.0, (0, 114), (0, 0), (0, 0), ": this plan leaves 114 more replicas on brokers to empty."),
        (1.0, (0, 0), (0, 1), (5, 7), "leaves 1 more partition on broken racks and 2 more brokers outside bands."),
        (20.0, (0, 9), (0, 0), (0, 0), ", 0.500x as much."),
        (20.0, (0, 0), (3, 0), (0, 0), ": the default leaves 3 more partitions on broken racks."),
    ],
)
def test_no_ratio_favours_a_plan_that_reaches_less(
    moved: float, leaving: tuple[int, int], broken: tuple[int, int], outside: tuple[int, int], said: str
) -> None:
    """The one that copies less must not leave more undone."""
    undone = {
        "replicas_on_leaving_brokers": leaving,
        "rack_violations": broken,
        "brokers_outside_bands": outside,
    }
    rows = [figure(name, 200, *sides) for name, sides in undone.items()]
    rows += [figure("moved_bytes", None, 1e10, moved * 1e9), figure("times_default", None, None, 10 / moved)]
    text = compared_with_default(replace(synthetic(3), summary=rows))
    assert text.startswith("Kafka's default assignment would copy 10.0 GB")
    assert text.endswith(said)
    assert ("as much" in text) == ("as much" in said)


ASKED = " 50.0 MB/s were requested, but the network of broker 7 "
FULL = "is full: copies take 5.00 MB/s all the same, so that they end."


@pytest.mark.parametrize(
    ("left", "rate", "has_rates", "said"),
    [
        (80_000_000, 50, True, "included)."),
        (20_000_000, 20, True, f"{ASKED}has 20.0 MB/s left."),
        (20_000_000, 20, False, f"{ASKED}has 20.0 MB/s left."),
        (3_000_000, 5, True, f"{ASKED}has 3.00 MB/s left: copies take 5.00 MB/s all the same, so that they end."),
        (-1, 5, True, f"{ASKED}{FULL}"),
        (None, 50, True, " is not known: the capacities of the brokers' networks are not all known."),
        (80_000_000, 50, False, " is not known: the use of the network is not known."),
    ],
)
def test_the_rate_is_compared_with_the_network(left: int | None, rate: int, has_rates: bool, said: str) -> None:
    """The sentence ends with the network if that sets the rate, or if nobody knows whether it has room."""
    plan = synthetic(3, partitions=100)
    waves = [
        replace(
            wave,
            copy_bytes_per_s=rate * 10**6,
            requested_bytes_per_s=50 * 10**6,
            network_broker=7,
            network_left_bytes_per_s=left,
        )
        for wave in plan.waves
    ]
    findings = [] if has_rates else rows_of(FindingRow, finding("no_rates", "rates"))
    assert execution(replace(plan, waves=waves, findings=findings)).endswith(said)


def test_each_wave_is_compared_with_its_own_request() -> None:
    """A slow window is no sign of a full network; a fast one that the network slows down is."""
    plan = synthetic(3, partitions=200)
    for rates, said in (((20, 20), ""), ((20, 80), f" 100 MB/s{ASKED[10:]}has 80.0 MB/s left.")):
        requests = (20, 100 if said else 20)
        waves = [
            replace(
                wave,
                copy_bytes_per_s=rate * 10**6,
                requested_bytes_per_s=asked * 10**6,
                network_broker=7,
                network_left_bytes_per_s=80 * 10**6,
            )
            for wave, rate, asked in zip(plan.waves, rates, requests, strict=True)
        ]
        assert execution(replace(plan, waves=waves)).endswith(f"included).{said}")


@pytest.mark.parametrize(
    ("batch_kb", "shown"),
    [
        (16, "The interval assumes producer batches of 16 kB: batches over 256 kB take up to twice as long."),
        (256, "The interval assumes producer batches of 256 kB: batches over 256 kB take up to twice as long."),
        (600.5, "The interval assumes producer batches of 600.5 kB."),
    ],
)
def test_an_interval_names_its_batches_once_on_each_page(batch_kb: float, shown: str) -> None:
    """Summary, report and runbook have the sentence; without an interval of the time there is none."""
    plan = replace(synthetic(3), batch_kb=batch_kb)
    timed = replace(plan, waves=[replace(row, least_seconds=5000, most_seconds=9000) for row in plan.waves])
    assert execution(timed).endswith(f"{shown}")
    assert "interval" not in execution(plan)
    for name in ("summary.txt", "report.html", "runbook.md"):
        text = " ".join(page(timed, name).split())
        assert (text.count(shown), text.count(" batches of "), text.count("twice as long")) == (1, 1, batch_kb < 600)


def test_every_list_of_figures_is_this_one() -> None:
    """Names are unique, the audit's claims are figures, and every hidden figure is in a group."""
    assert len(BY_NAME) == len(FIGURES) + 1
    assert {field.name for field in fields(AuditClaims)} <= BY_NAME.keys()
    assert {figure_row.group for figure_row in FIGURES} == {"", COST, BALANCE, LOSSES}
    assert not any(figure_row.hidden_at_zero for figure_row in FIGURES if not figure_row.group)


def test_a_name_of_no_figure_is_an_error() -> None:
    """A misspelt name raises an error: 0 would look like a reached goal. A figure that old rows lack is None."""
    plan = synthetic(3)
    for lookup in (plan.figure, plan.number):
        with pytest.raises(KeyError, match="no figure is named 'rack_violation'"):
            lookup("rack_violation")
    assert (plan.figure("unexplained"), plan.number("unexplained")) == (None, 0)


def test_replicas_held_by_brokers_that_leave() -> None:
    """Only live brokers to empty count, because a dead broker serves no replica."""
    assert synthetic(3).replicas_on_leaving == {0: 100}
    assert synthetic(3, dead=True).replicas_on_leaving == {}
    assert synthetic(3, dead=True).down_brokers == (0,)


def test_the_fullest_disk_has_one_unit() -> None:
    """The table has it in percent as the first screen does; over the mean only where a capacity is unknown."""
    row = figure("disk_max_over_mean", 1.5, 1.1, 1.02)
    plan = replace(synthetic(3), summary=[row])
    assert [line.label for line in lines(plan)] == ["l"]
    brokers = [replace(broker, disk_capacity_bytes=10 * 10**12) for broker in plan.brokers]
    known = replace(plan, brokers=brokers)
    [line] = lines(known)
    fullest = fullest_disks(known)
    assert line.label == "Fullest broker's disk"
    assert (line.before, line.after) == tuple(human_percent(fullest[side]) for side in ("before", "after"))
    assert fullest["before"] == max(b.disk_bytes for b in plan.balance if b.placement == "before") / 10**11
