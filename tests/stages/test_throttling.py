"""Throttles of waves within Kafka's limits, from rows to the values that are set; no Spark."""

from typing import Any

import pandas as pd
import pytest

from optimizer.domain import WHOLE_PLAN
from optimizer.kafka.size_limits import CONFIG_VALUE_CHARACTERS
from optimizer.kafka.throttle import config_entries, tool_throttles
from optimizer.stages.plan.throttle_rows import throttle_rows
from optimizer.stages.plan.wave_rows import schedule_cluster
from tests.stages import small_plan

BROKERS = range(1000, 1012)


def _row(number: int, *, moves: bool) -> dict[str, Any]:
    before = [1000 + (number + slot) % 12 for slot in range(3)]
    after = [*before[1:], 1000 + (number + 3) % 12] if moves else [before[1], before[0], before[2]]
    return {
        "topic": "t", "partition": number, "leader": float(before[0]), "size_bytes": 10, "in_bytes_per_s": 1,
        "in_sync_followers": 2, "reason_codes": ["balance"] if moves else ["leader"], "current_replicas": before,
        "proposed_replicas": after, "adding_replicas": sorted(set(after) - set(before)),
        "removing_replicas": sorted(set(before) - set(after)),
    }  # fmt: skip


@pytest.mark.parametrize("moves", [True, False])
def test_no_list_of_a_wave_is_longer_than_kafka_takes(moves: bool) -> None:
    """A topic whose list would be too long is cut into waves whose lists fit, in both forms, reorders too."""
    hosts = pd.DataFrame({"broker_id": BROKERS, "disk_capacity_bytes": 1e9, "disk_used_bytes": 10, "state": "alive"})
    hosts = hosts.assign(cluster_id="c", run_id="r")
    changed = pd.DataFrame([_row(number, moves=moves or number < 10) for number in range(1500)])
    scheduled = schedule_cluster(changed, hosts, settings=small_plan.settings(max_moves_per_wave=10**6))
    rows = throttle_rows(scheduled, hosts, settings=small_plan.settings())
    whole = rows["wave"] == WHOLE_PLAN
    lengths = rows["config_value"].str.len()
    assert lengths[whole].max() > CONFIG_VALUE_CHARACTERS
    assert lengths[~whole].max() <= CONFIG_VALUE_CHARACTERS
    assert scheduled["wave"].max() == 2


@pytest.mark.parametrize("after", [[5, 6, 7, 8, 9], [5, 6, 1010]], ids=["more replicas", "longer ids"])
def test_no_list_of_the_way_back_is_longer_than_kafka_takes(after: list[int]) -> None:
    """A wave is rolled back under Kafka's own form, whose leader's list then names the new lists."""
    ids = [5, 6, 7, 8, 9, 1010]
    hosts = pd.DataFrame({"broker_id": ids, "disk_capacity_bytes": 1e9, "disk_used_bytes": 10, "state": "alive"})
    before = [5, 6, 7]
    lists = {
        "current_replicas": before,
        "proposed_replicas": after,
        "adding_replicas": sorted(set(after) - set(before)),
        "removing_replicas": sorted(set(before) - set(after)),
    }
    changed = pd.DataFrame([{**_row(number, moves=True), "leader": 5.0, **lists} for number in range(1700)])
    hosts = hosts.assign(cluster_id="c", run_id="r")
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
    hosts = pd.DataFrame({"broker_id": BROKERS, "disk_capacity_bytes": 1e9, "disk_used_bytes": 10, "state": "alive"})
    hosts = hosts.assign(cluster_id="c", run_id="r")
    scheduled = pd.DataFrame(rows).assign(wave=1)
    careful = throttle_rows(scheduled, hosts, settings=small_plan.settings()).query("style == 'careful' and wave == 1")
    rates = careful[careful["entity_type"] == "brokers"].set_index(["entity_name", "config_name"])["config_value"]
    leader, follower = (f"{side}.replication.throttled.rate" for side in ("leader", "follower"))
    copies = 50_000_000
    assert int(rates["1000", leader]) == copies + 3
    assert {int(rates[str(b), leader]) for b in (1001, 1002, 1007, 1008)} == {copies}
    assert int(rates["1003", follower]) == copies + 1
    assert int(rates["1009", follower]) >= copies
