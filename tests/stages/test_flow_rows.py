"""Rows of ``rack_flow`` and ``broker_waves``, and the figures about racks, from rows by hand."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest

from benchmarks.rows import broker_row, partition_row
from optimizer.planning.balance_rows import measure
from optimizer.planning.compared_lists import TIMES
from optimizer.planning.flow_rows import flow_rows
from optimizer.settings import Emit, Policy, Schedule, Settings

KEY = {"cluster_id": "c", "run_id": "r"}
MB = 10**6
SETTINGS = Settings(schedule=Schedule(throttle_mb_per_s=10))


def hosts(racks: str = "abca", **states: str) -> pd.DataFrame:
    """Brokers 11, 12, ... in these racks, with 100 MB each, not in the order of their ids."""
    rows = [
        {
            **broker_row(number, **KEY, rack=rack, state=states.get(f"b{number}", "alive"), pinned_topics=[]),
            "disk_used_bytes": 100 * MB,
        }
        for number, rack in enumerate(racks, start=11)
    ]
    return pd.DataFrame(rows[::-1])


def change(
    number: int, before: Sequence[int], after: Sequence[int], *, wave: int | None = 1, **changes: Any
) -> dict[str, Any]:
    """A changed partition of 60 MB; its first replica leads, and all are in sync."""
    row = {
        "topic": "t", "partition": number, "leader": float(before[0]), "size_bytes": 60 * MB, "in_bytes_per_s": 0,
        "in_sync_followers": len(before) - 1, "reason_codes": ["balance"], "current_replicas": [*before],
        "proposed_replicas": [*after], "wave": wave, **dict.fromkeys(TIMES), "copy_bytes_per_s": 10 * MB,
        "planned_log_dirs": None, "copy_bytes": None, "tiered_copy_bytes": None,
    }  # fmt: skip
    return row | changes


def tables(rows: list[dict[str, Any]], brokers: pd.DataFrame, settings: Settings = SETTINGS) -> dict[str, list[Any]]:
    """The rows of both tables, each as a tuple without cluster and run."""
    both = flow_rows(pd.DataFrame(rows), brokers, settings=settings)
    columns = {
        "rack_flow": ["wave", "from_rack", "to_rack", "copies", "copied_bytes"],
        "broker_waves": ["wave", "broker_id", "out_bytes", "in_bytes", "busy_seconds", "peak_disk_bytes"],
    }
    empty = pd.DataFrame(columns=columns["rack_flow"] + columns["broker_waves"])
    return {
        name: list(both.get(name, empty)[names].astype(object).itertuples(index=False, name=None))
        for name, names in columns.items()
    }


def test_rows_of_two_waves() -> None:
    """Wave 1 copies two replicas from one broker; in wave 2 a disk lacks what wave 1 removed."""
    rows = [
        change(0, [11, 12], [13, 14]),
        change(1, [13], [12], wave=2, size_bytes=10 * MB),
        change(2, [12, 13], [13, 12]),
    ]
    made = tables(rows, hosts())
    assert made["rack_flow"] == [(1, "a", "a", 1, 60 * MB), (1, "a", "c", 1, 60 * MB), (2, "c", "b", 1, 10 * MB)]
    assert made["broker_waves"] == [
        (1, 11, 120 * MB, 0, 12, 100 * MB),
        (1, 13, 0, 60 * MB, 6, 160 * MB),
        (1, 14, 0, 60 * MB, 6, 160 * MB),
        (2, 12, 0, 10 * MB, 1, 50 * MB),
        (2, 13, 10 * MB, 0, 1, 160 * MB),
    ]


@pytest.mark.parametrize(("style", "seconds"), [("careful", [12, 6, 6]), ("kafka", [12, 4, 5])])
def test_a_broker_is_busy_at_its_own_rate(style: str, seconds: list[int]) -> None:
    """10 MB/s for the copies of each broker; Kafka's common rate, 16 MB/s, leaves the followers 15 and 14."""
    settings = Settings(schedule=SETTINGS.schedule, emit=Emit(throttle_style=style))
    rows = [
        change(0, [11, 12], [13, 12], in_bytes_per_s=MB),
        change(1, [11, 12], [11, 14], in_bytes_per_s=2 * MB),
    ]
    made = tables(rows, hosts(), settings)["broker_waves"]
    assert [row[1] for row in made] == [11, 13, 14]
    assert [row[4] for row in made] == seconds


def test_kafkas_floor_is_the_least_rate() -> None:
    """At 1 kB/s a copy takes the 1 MiB per 10 s that Kafka's throttle cannot prevent."""
    made = tables([change(0, [11], [12], copy_bytes_per_s=1000)], hosts())["broker_waves"]
    assert [row[4] for row in made] == [573, 573]


@pytest.mark.parametrize("racks", [[None] * 4, ["a", None, "b", "a"]])
def test_without_known_racks_only_brokers_have_rows(racks: list[str | None]) -> None:
    """Racks are null if the policy ignores them; a living broker may lack one."""
    made = tables([change(0, [11], [12])], hosts().assign(rack=pd.Series(racks, dtype=object)))
    assert made["rack_flow"] == []
    assert len(made["broker_waves"]) == 2


@pytest.mark.parametrize("rows", [[change(0, [11, 12], [12, 11])], [change(0, [11], [12], wave=None)]])
def test_without_a_copy_there_are_no_rows(rows: list[dict[str, Any]]) -> None:
    """A wave of reorders moves nothing, and a change without a wave is never made."""
    assert tables(rows, hosts()) == {"rack_flow": [], "broker_waves": []}


def test_a_leaderless_partition_has_no_flow_between_racks() -> None:
    """Nobody sends its copy, so nobody is busy with it; its target still needs the disk."""
    made = tables([change(0, [11], [12], leader=None)], hosts())
    assert made["rack_flow"] == []
    assert made["broker_waves"] == [(1, 12, 0, 60 * MB, 0, 160 * MB)]


def figures(brokers: pd.DataFrame, *lists: tuple[Sequence[int], ...], **changes: Any) -> dict[str, dict[str, Any]]:
    """Sums of the columns about racks by placement: of partitions of 1 MB with these lists before and after."""
    rows = [
        {
            **partition_row(before, **KEY, topic=f"t{number}", size_bytes=MB),
            "current_replicas": [*before], "baseline_replicas": [*baseline], "proposed_replicas": [*after], **changes,
        }
        for number, (before, baseline, after) in enumerate(lists)
    ]  # fmt: skip
    measured = measure(pd.DataFrame(rows), brokers, policy=Policy())
    names = ["copied_bytes", "cross_rack_bytes", "near_leader_bytes", "near_leader_partitions"]
    sums = measured.groupby("placement")[names].sum(min_count=1)
    return {placement: dict(zip(names, sums.loc[placement], strict=True)) for placement in sums.index}


def test_bytes_between_racks_of_the_plan_and_of_the_default() -> None:
    """Racks of 11 to 14 are a, b, c, a. The second copy of the plan stays inside rack a; before the plan is null."""
    sums = figures(hosts(), ([11, 12], [13, 12], [11, 13]), ([11], [11], [14]), ([12], [], [13]))
    assert sums["after"]["copied_bytes"] == 3 * MB
    assert sums["after"]["cross_rack_bytes"] == 2 * MB
    assert (sums["baseline"]["copied_bytes"], sums["baseline"]["cross_rack_bytes"]) == (MB, MB)
    assert all(pd.isna(value) for value in sums["before"].values())


def test_without_racks_nothing_is_known_to_cross() -> None:
    """All four measures are null."""
    sums = figures(hosts().assign(rack=None), ([11], [12], [12]))
    assert all(pd.isna(value) for value in sums["after"].values())


NEAR: tuple[list[int], ...] = ([12, 11], [], [12, 14])  # 11 and 14 are in rack a, the leader 12 is in b


@pytest.mark.parametrize(
    ("lists", "brokers", "changes", "saved"),
    [
        (NEAR, hosts(), {}, 1),
        (NEAR, hosts(), {"isr": [12]}, 0),
        (NEAR, hosts(b11="draining"), {}, 1),
        (NEAR, hosts(b11="dead"), {}, 0),
        (NEAR, hosts(b11="fenced"), {}, 0),
        (NEAR, hosts().assign(accepts_leadership=[True, True, True, False]), {}, 0),
        (NEAR, hosts(), {"leader": None}, 0),
        (([12, 13], [], [12, 14]), hosts(), {}, 0),
        (([11, 12], [], [14, 12]), hosts(), {}, 0),
    ],
)
def test_a_leaving_replica_in_the_targets_rack_would_save_its_copy(
    lists: tuple[list[int], ...], brokers: pd.DataFrame, changes: dict[str, Any], saved: int
) -> None:
    """It must be in sync, alive and not demoted, and the leader must be elsewhere; a draining broker may lead."""
    after = figures(brokers, lists, **changes)["after"]
    assert (after["near_leader_bytes"], after["near_leader_partitions"]) == (saved * MB, saved)
