"""Throttle configs of waves, from rows to the values that are set, within Kafka's limits; no Spark is started."""

from collections.abc import Iterable
from typing import Any

import pandas as pd
import pytest

from optimizer.domain import WHOLE_PLAN
from optimizer.kafka.size_limits import CONFIG_VALUE_CHARACTERS
from optimizer.kafka.throttle import config_entries, tool_throttles
from optimizer.planning.compared_lists import TIMES
from optimizer.planning.in_memory import throttle_rows
from optimizer.planning.wave_rows import schedule_cluster
from optimizer.settings import Emit, Schedule, Settings
from tests.stages import small_plan

SETTINGS = Settings(schedule=Schedule(throttle_mb_per_s=10), emit=Emit())
RATE = 10**7
BROKERS = range(1000, 1012)


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
        "copy_bytes": None,
        "tiered_copy_bytes": None,
        "in_bytes_per_s": 0,
        "in_sync_followers": 0,
        "reason_codes": ["balance"],
        "wave": wave,
        **dict.fromkeys(TIMES),
        "copy_bytes_per_s": RATE,
        **other,
    }


def entries(*changes: dict[str, Any], **states: str) -> list[tuple[int, str, str, str, str, str]]:
    """Rows of the throttles; brokers 1 to 4 are alive unless given: b2="dead"."""
    hosts = pd.DataFrame(
        {
            "cluster_id": "c",
            "run_id": "r",
            "broker_id": [1, 2, 3, 4],
            "state": [states.get(f"b{b}", "alive") for b in (1, 2, 3, 4)],
            "skips_tiered": None,
        }
    )
    rows = pd.DataFrame(list(changes)).astype({"wave": "Int32"})
    throttles = throttle_rows(rows, hosts)
    columns = ["wave", "style", "entity_type", "entity_name", "config_name", "config_value"]
    return [tuple(row) for row in throttles[columns].itertuples(index=False)]


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


def large_disks(ids: Iterable[int]) -> pd.DataFrame:
    """Brokers with disks that are large enough for any wave."""
    same = {"cluster_id": "c", "run_id": "r", "disk_capacity_bytes": 1e9, "disk_used_bytes": 10, "state": "alive"}
    return small_plan.without_network(pd.DataFrame({"broker_id": list(ids), **same}))


def _row(number: int, *, moves: bool) -> dict[str, Any]:
    before = [1000 + (number + slot) % 12 for slot in range(3)]
    after = [*before[1:], 1000 + (number + 3) % 12] if moves else [before[1], before[0], before[2]]
    return {
        "topic": "t", "partition": number, "leader": float(before[0]), "size_bytes": 10, "in_bytes_per_s": 1,
        "in_sync_followers": 2, "reason_codes": ["balance"] if moves else ["leader"], "current_replicas": before,
        "proposed_replicas": after, "adding_replicas": sorted(set(after) - set(before)),
        "removing_replicas": sorted(set(before) - set(after)), "copy_bytes": None, "tiered_copy_bytes": None,
    }  # fmt: skip


@pytest.mark.parametrize("moves", [True, False])
def test_no_list_of_a_wave_is_longer_than_kafka_takes(moves: bool) -> None:
    """A topic whose list would be too long is divided into waves with lists that fit, in both forms, reorders too."""
    hosts = large_disks(BROKERS)
    changed = pd.DataFrame([_row(number, moves=moves or number < 10) for number in range(1500)])
    scheduled = schedule_cluster(changed, hosts, settings=small_plan.settings(max_moves_per_wave=10**6))
    rows = throttle_rows(scheduled, hosts)
    whole = rows["wave"] == WHOLE_PLAN
    lengths = rows["config_value"].str.len()
    assert lengths[whole].max() > CONFIG_VALUE_CHARACTERS
    assert lengths[~whole].max() <= CONFIG_VALUE_CHARACTERS
    assert scheduled["wave"].max() == 2


@pytest.mark.parametrize("after", [[5, 6, 7, 8, 9], [5, 6, 1010]], ids=["more replicas", "longer ids"])
def test_no_list_of_the_way_back_is_longer_than_kafka_takes(after: list[int]) -> None:
    """A wave is rolled back under Kafka's own form, whose leader's list then names the new lists."""
    hosts = large_disks([5, 6, 7, 8, 9, 1010])
    before = [5, 6, 7]
    lists = {
        "current_replicas": before,
        "proposed_replicas": after,
        "adding_replicas": sorted(set(after) - set(before)),
        "removing_replicas": sorted(set(before) - set(after)),
    }
    changed = pd.DataFrame([{**_row(number, moves=True), "leader": 5.0, **lists} for number in range(1700)])
    scheduled = schedule_cluster(changed, hosts, settings=small_plan.settings(max_moves_per_wave=10**6))
    for _, rows in scheduled.groupby("wave"):
        places = list(zip(rows["topic"], rows["partition"], strict=True))
        back = dict(zip(places, rows["current_replicas"], strict=True))
        now = dict(zip(places, rows["proposed_replicas"], strict=True))
        longest = max(len(entry[3]) for entry in config_entries(tool_throttles(back, now), 1, 1))
        assert longest <= CONFIG_VALUE_CHARACTERS


def test_every_listed_broker_has_a_rate() -> None:
    """A replica that may come to lead, and one that receives an empty partition, have the rate of copies at least."""
    rows = [_row(0, moves=True), {**_row(6, moves=True), "size_bytes": 0}]
    hosts = large_disks(BROKERS)
    scheduled = pd.DataFrame(rows).assign(wave=1, copy_bytes_per_s=50 * 10**6)
    careful = throttle_rows(scheduled, hosts).query("style == 'careful' and wave == 1")
    rates = careful[careful["entity_type"] == "brokers"].set_index(["entity_name", "config_name"])["config_value"]
    leader, follower = (f"{side}.replication.throttled.rate" for side in ("leader", "follower"))
    copies = 50_000_000
    assert int(rates["1000", leader]) == copies + 3
    assert {int(rates[str(b), leader]) for b in (1001, 1002, 1007, 1008)} == {copies}
    assert int(rates["1003", follower]) == copies + 1
    assert int(rates["1009", follower]) >= copies
