"""Throttle configs of waves, from rows to rows; no Spark is started."""

from typing import Any

import pandas as pd
import pytest

from optimizer.settings import Emit, Schedule, Settings
from optimizer.stages.plan.throttle_rows import throttle_rows

SETTINGS = Settings(schedule=Schedule(throttle_mb_per_s=10), emit=Emit())
RATE = 10**7


def change(
    number: int, current: list[int], proposed: list[int], *, wave: int | None = 1, **other: Any
) -> dict[str, Any]:
    """A row of the schedule: partition ``t-number``, led by its first replica."""
    return {
        "topic": "t",
        "partition": number,
        "leader": current[0],
        "current_replicas": current,
        "proposed_replicas": proposed,
        "adding_replicas": [b for b in proposed if b not in current],
        "removing_replicas": [b for b in current if b not in proposed],
        "size_bytes": 1000,
        "in_bytes_per_s": 0,
        "in_sync_followers": 0,
        "reason_codes": ["balance"],
        "wave": wave,
        **other,
    }


def entries(*changes: dict[str, Any], **states: str) -> list[tuple[int, str, str, str, str, str]]:
    """Rows of the throttles; brokers 1 to 4 are alive unless told: b2="dead"."""
    hosts = pd.DataFrame(
        {
            "cluster_id": "c",
            "run_id": "r",
            "broker_id": [1, 2, 3, 4],
            "state": [states.get(f"b{b}", "alive") for b in (1, 2, 3, 4)],
        }
    )
    rows = pd.DataFrame(list(changes)).astype({"wave": "Int32"})
    found = throttle_rows(rows, hosts, settings=SETTINGS)
    columns = ["wave", "style", "entity_type", "entity_name", "config_name", "config_value"]
    return [tuple(row) for row in found[columns].itertuples(index=False)]


def short(rows: list[tuple[int, str, str, str, str, str]], wave: int, style: str) -> list[tuple[str, str, str]]:
    """Entity, first word of the config and value of one wave and style."""
    return [(e[3], e[4].partition(".")[0], e[5]) for e in rows if e[:2] == (wave, style)]


def test_one_wave_in_both_forms() -> None:
    """The lists of the topic, then the rates of the brokers that send and that receive; the tool gives all both."""
    rows = entries(change(0, [1], [2]))
    lists = [("t", "leader", "0:1"), ("t", "follower", "0:2")]
    assert short(rows, 1, "careful") == [*lists, ("1", "leader", str(RATE)), ("2", "follower", str(RATE))]
    tool = [(b, side, str(RATE)) for b in ("1", "2") for side in ("leader", "follower")]
    assert short(rows, 1, "kafka") == [*lists, *tool]


@pytest.mark.parametrize("state", ["dead", "fenced"])
def test_nobody_is_asked_to_set_what_is_unreachable(state: str) -> None:
    """The careful form gives a dead or fenced broker no rate, a topic of the same name keeps its lists."""
    rows = entries(change(0, [1, 4], [1, 2], leader=None), change(7, [1], [3], topic="4"), b4=state)
    careful = [row for row in rows if row[:2] == (1, "careful")]
    assert {row[3] for row in careful if row[2] == "brokers"} == {"1", "2", "3"}
    assert [row[5] for row in careful if row[2:4] == ("topics", "4")] == ["7:1", "7:3"]
    assert "4" in {row[3] for row in rows if row[:3] == (1, "kafka", "brokers")}


def test_wave_0_is_the_whole_plan() -> None:
    """Each wave has its own lists, wave 0 those of all; what has no wave is in none."""
    rows = entries(change(1, [3], [4], wave=2), change(0, [1], [2]), change(5, [1], [4], wave=None))
    assert [short(rows, wave, "careful")[0][2] for wave in (0, 1, 2)] == ["0:1,1:3", "0:1", "1:3"]
    assert {row[0] for row in rows} == {0, 1, 2}


def test_what_copies_nothing_is_not_throttled() -> None:
    """A wave that only reorders has no configs, and no plan has none."""
    order = change(0, [1, 2], [2, 1], reason_codes=["leader"])
    assert entries(order) == []
    assert entries(change(0, [1], [2], wave=None)) == []
    assert {row[0] for row in entries(order, change(1, [3], [4], wave=2))} == {0, 2}


def test_topics_where_nothing_is_copied_have_no_careful_list() -> None:
    """The careful form sets no empty list."""
    rows = entries(change(0, [1], [2]), change(0, [1, 2], [2, 1], topic="u", reason_codes=["leader"]))
    assert {row[3] for row in rows if row[1:3] == ("careful", "topics")} == {"t"}


def test_live_replication_is_added_to_rates() -> None:
    """A leader sends what is produced to its followers too; the tool's one rate is enough for the neediest."""
    rows = entries(change(0, [1, 3], [1, 2], in_bytes_per_s=500, in_sync_followers=1))
    rates = {e[:2]: e[2] for e in short(rows, 1, "careful")}
    assert rates["1", "leader"] == str(RATE + 2 * 500)
    assert rates["2", "follower"] == str(RATE + 500)
    assert {e[2] for e in short(rows, 1, "kafka")[2:]} == {str(RATE + 2 * 500)}
