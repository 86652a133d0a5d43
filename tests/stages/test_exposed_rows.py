"""Rows of ``exposure`` and ``wave_findings`` from rows of the instance and the plan."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest

from optimizer.domain import FindingCode
from optimizer.planning.exposed import exposure_rows


def living_hosts(racks: Mapping[int, str]) -> pd.DataFrame:
    """Rows of living brokers, each on its rack."""
    same = {
        "state": "alive", "accepts_replicas": True, "accepts_leadership": True, "must_empty": False,
        "disk_capacity_bytes": None, "in_capacity_bytes_per_s": None, "out_capacity_bytes_per_s": None,
        "pinned_topics": [], "log_dirs": None, "closed_reason": None, "skips_tiered": None,
    }  # fmt: skip
    return pd.DataFrame([{"broker_id": broker, "rack": rack, **same} for broker, rack in racks.items()])


HOSTS = living_hosts({11: "a", 12: "b", 13: "c", 14: "a"})


def partition(number: int, current: Sequence[int], proposed: Sequence[int] = (), **changes: Any) -> dict[str, Any]:
    """A row with all replicas in sync and the first as leader; it changes in wave 1 if it has a proposed list."""
    row = {
        "topic": "t", "partition": number, "current_replicas": [*current],
        "proposed_replicas": [*(proposed or current)],
        "controller_replicas": None, "adding_replicas": None, "isr": sorted(current), "elr": None,
        "observers": None, "leader": current[0],
        "min_insync_replicas": None, "allows_unclean_election": None, "in_bytes_per_s": 1, "out_bytes_per_s": 10,
        "size_bytes": 5, "copy_bytes": None, "tiered_copy_bytes": None, "log_records": None,
        "lag_brokers": None, "lag_records": None, "wave": 1 if proposed else None,
    }  # fmt: skip
    return row | changes


def planned(*rows: dict[str, Any], is_old: bool = False) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables for a cluster of four brokers in three racks."""
    return exposure_rows(pd.DataFrame([*rows]), HOSTS, needs_whole_min_isr=is_old)


def losses(exposure: pd.DataFrame, moment: str, loss: str) -> dict[str, int]:
    """Stopped partitions by what is lost."""
    rows = exposure[(exposure["moment"] == moment) & (exposure["loss"] == loss)]
    return dict(zip(rows["lost"], rows["writes_stopped"], strict=True))


def test_each_loss_before_and_after_and_the_worst_between() -> None:
    """Before and after the plan every broker and rack has a row; a wave has its worst broker and its worst rack."""
    exposure, _ = planned(partition(0, [11, 12], [11, 14], min_insync_replicas=1), partition(1, [12]))
    assert losses(exposure, "before", "broker") == {"11": 0, "12": 1, "13": 0, "14": 0}
    assert losses(exposure, "before", "rack") == {"a": 0, "b": 1, "c": 0}
    assert losses(exposure, "after", "rack") == {"a": 1, "b": 1, "c": 0}
    assert losses(exposure, "while_moving", "rack") == {"b": 1}
    assert [losses(exposure, moment, "some_rack")[""] for moment in ("before", "while_moving", "after")] == [1, 2, 2]
    assert exposure.groupby("position")["moment"].first().tolist() == ["before", "while_moving", "after"]


def test_writes_that_a_wave_stops_are_a_finding_of_their_topic() -> None:
    """A topic of one replica takes writes with min.insync.replicas 2; while a copy is added it takes none."""
    rows = [partition(number, [11], [12], min_insync_replicas=2, wave=number) for number in (1, 2)]
    _, findings = planned(*rows, partition(3, [11], [12]))
    (row,) = (row for _, row in findings.iterrows() if row["code"] == FindingCode.STOPS_WRITES)
    assert (row["topic"], row["when"], row["amount"], row["limit"]) == ("t", "during", 2, 2)
    assert "2 partitions take no writes with acks=all while waves 1, 2 run: min.insync.replicas is 2" in row["detail"]
    assert FindingCode.STOPS_WRITES not in set(planned(*rows, is_old=True)[1]["code"])


def test_partitions_that_become_exposed_are_one_finding() -> None:
    """Two of three replicas in one rack: its loss stops writes that no single loss stopped before."""
    row = partition(0, [11, 12, 13], [11, 12, 14], min_insync_replicas=2)
    _, findings = planned(row, partition(1, [11, 12], min_insync_replicas=2))
    assert findings["code"].tolist() == [FindingCode.NEWLY_EXPOSED]
    assert findings["amount"].tolist() == [1]
    assert findings["detail"][0] == (
        "before the plan no loss of one broker or one rack stops writes to it; after the plan one would: t-0. "
        "The worst losses after the plan, of all partitions: rack a stops 2 partitions, broker 11 stops 1 partition"
    )
    assert len(planned(partition(0, [11, 12, 13], [11, 12, 13]))[1]) == 0


def test_a_partition_in_flight_counts_with_the_controllers_list() -> None:
    """Its old replica is in sync until the new one is; the target alone would look lost."""
    moving = partition(0, [13], controller_replicas=[13, 11], isr=[11], leader=11, min_insync_replicas=2)
    exposure, _ = planned(moving, partition(1, [12, 13], [12, 14], min_insync_replicas=1))
    assert [losses(exposure, moment, "none")[""] for moment in ("before", "while_moving", "after")] == [1, 1, 1]
    exposure, _ = planned({**moving, "min_insync_replicas": 1})
    assert losses(exposure, "after", "rack") == {"a": 1, "b": 0, "c": 0}


def test_eligible_leaders_and_unclean_elections_keep_a_leader() -> None:
    """Without its only in-sync replica, a partition goes offline unless another one may lead."""
    row = partition(0, [11, 12], isr=[11])
    offline = []
    for changes in ({}, {"elr": [12]}, {"allows_unclean_election": True}):
        exposure, _ = planned({**row, **changes})
        lost = exposure[(exposure["loss"] == "broker") & (exposure["lost"] == "11") & (exposure["moment"] == "before")]
        offline.append(lost["offline"].item())
    assert offline == [1, 0, 0]


def test_without_racks_only_brokers_are_lost() -> None:
    """Rows of racks need racks."""
    exposure, _ = exposure_rows(pd.DataFrame([partition(0, [11])]), HOSTS.assign(rack=None), needs_whole_min_isr=False)
    assert set(exposure["loss"]) == {"none", "broker", "some_broker", "some_rack", "two_brokers"}


def near_leaders(exposure: pd.DataFrame) -> dict[int, float]:
    """The busiest leader over the mean by wave, if leaving replicas in the targets' racks led; only known values."""
    known = exposure[exposure["near_leader_busiest_over_mean"].notna()]
    assert set(zip(known["moment"], known["loss"], strict=True)) <= {("while_moving", "none")}
    return dict(zip(known["wave"], known["near_leader_busiest_over_mean"], strict=True))


def test_near_leaders_lead_while_their_wave_runs() -> None:
    """In rack a, 11 leads one partition of each wave for 14; all others keep the leader that they have then.

    In wave 1, broker 11 also leads partition 2. In wave 2 its target 14 leads it, 12 leads partition 0 again, and
    broker 13 has no replica left.
    """
    exposure, _ = planned(
        partition(0, [12, 11], [12, 14], out_bytes_per_s=50),
        partition(1, [12, 11], [12, 14], out_bytes_per_s=55, wave=2),
        partition(2, [11], [14]),
        partition(3, [13], [14]),
        partition(4, [12, 14], [14, 12], out_bytes_per_s=0, in_bytes_per_s=0, wave=3),
    )
    total = 51 + 56 + 10 + 10
    assert near_leaders(exposure) == {1: pytest.approx(61 * 4 / total), 2: pytest.approx(56 * 3 / total)}


@pytest.mark.parametrize("changes", [{"isr": [12]}, {"size_bytes": 0}, {"proposed_replicas": [12, 13]}])
def test_near_leaders_that_save_nothing_have_no_load(changes: dict[str, Any]) -> None:
    """The leaving replica is out of sync, or there is nothing to copy, or the target is in another rack."""
    assert near_leaders(planned(partition(0, [12, 11], [12, 14]))[0]) == {1: 3.0}
    assert near_leaders(planned(partition(0, [12, 11], [12, 14], **changes))[0]) == {}


FAILED = "failed directory /d/2"
FLIGHT = {"controller_replicas": [11, 14, 12], "adding_replicas": [14]}
OUT = {"isr": [11]}


@pytest.mark.parametrize(
    ("row", "hosts", "expected"),
    [
        # rows that the plan changes; what is wrong with broker 12; when, and the detail
        (partition(1, [11, 12]), {}, None),
        (partition(1, [11, 12], **OUT), {}, ("both", "broker 12")),
        (partition(1, [11, 12, 13], **OUT), {}, ("both", "brokers 12, 13")),
        (partition(1, [11, 12], [12, 11], **OUT), {}, ("both", "broker 12")),
        (partition(1, [11, 12], [13, 12], **OUT), {}, ("both", "broker 12")),
        (partition(1, [11, 12], [11, 13], **OUT), {}, ("before", "broker 12")),
        (partition(1, [11, 12, 13], [11, 13, 14], **OUT), {}, ("both", "broker 13")),
        (partition(1, [11, 12], [11], **OUT), {}, ("before", "broker 12")),
        (partition(1, [11, 14], isr=[11, 12], **FLIGHT), {}, None),
        (partition(1, [11, 14], isr=[11], **FLIGHT), {}, None),
        (
            partition(1, [11, 12], **OUT),
            {"closed_reason": FAILED},
            ("both", f"broker 12: 1 replica, {FAILED}"),
        ),
        (
            partition(1, [11, 12, 13], **OUT),
            {"closed_reason": FAILED},
            ("both", f"broker 13; broker 12: 1 replica, {FAILED}"),
        ),
        (partition(1, [11, 12], **OUT), {"state": "fenced"}, ("both", "broker 12: 1 replica, fenced")),
        (
            partition(1, [11, 12], [11, 13], **OUT),
            {"state": "dead", "closed_reason": FAILED},
            ("before", "broker 12: 1 replica, dead"),
        ),
        (
            partition(1, [12], leader=None),
            {"closed_reason": FAILED},
            ("both", f"broker 12: 1 replica, {FAILED}; 1 partition without a leader"),
        ),
    ],
)
def test_under_replicated_partitions_are_counted_as_before_a_wave(
    row: dict[str, Any], hosts: dict[str, Any], expected: tuple[str, str] | None
) -> None:
    """Those whose replica out of sync stays, with its broker, are apart from those that the plan repairs."""
    changed = HOSTS.assign(**{name: HOSTS[name].mask(HOSTS["broker_id"] == 12, text) for name, text in hosts.items()})
    rows = pd.DataFrame([partition(0, [13, 14]), row])
    _, findings = exposure_rows(rows, changed, needs_whole_min_isr=False)
    found = findings[findings["code"] == FindingCode.UNDER_REPLICATED]
    repaired = ": the plan removes these replicas"
    assert found[["when", "subject", "detail", "amount"]].values.tolist() == (
        []
        if expected is None
        else [
            [
                expected[0],
                "1 of 2 partitions",
                f"under-replicated ({expected[1]}){repaired if expected[0] == 'before' else ''}",
                1,
            ]
        ]
    )


def test_what_stays_and_what_leaves_are_two_findings() -> None:
    """Of many brokers the first ten are named."""
    hosts = living_hosts(dict.fromkeys(range(1, 16), "a"))
    lists = [[broker, 15] for broker in range(1, 15)]
    rows = [partition(number, brokers, isr=[15], leader=15) for number, brokers in enumerate(lists)]
    rows[0]["proposed_replicas"], rows[0]["wave"] = [15, 2], 1
    _, findings = exposure_rows(pd.DataFrame(rows), hosts, needs_whole_min_isr=False)
    found = findings[findings["code"] == FindingCode.UNDER_REPLICATED]
    assert found["detail"].tolist() == [
        "under-replicated (brokers 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 3 more)",
        "under-replicated (broker 1): the plan removes these replicas",
    ]
    assert found[["when", "amount", "limit"]].values.tolist() == [["both", 13, 14], ["before", 1, 14]]


def lost(exposure: pd.DataFrame, moment: str, lost: str) -> tuple[Any, ...]:
    """Bytes and records that a loss loses, and bytes that nobody else has; None if unknown."""
    (row,) = exposure[(exposure["moment"] == moment) & (exposure["lost"] == lost)].to_dict("records")
    return row["lost_bytes"], row["lost_records"], row["sole_bytes"]


LAG = {"log_records": 100, "lag_brokers": [11, 12], "lag_records": [0, 25]}
UNCLEAN: dict[str, Any] = {"isr": [11], "allows_unclean_election": True, "size_bytes": 1000}


@pytest.mark.parametrize(
    ("changes", "acks_one", "expected"),
    [
        ({**UNCLEAN, **LAG}, [], (250, 25, 250)),
        (UNCLEAN, [], (1000, None, 1000)),
        ({**UNCLEAN, **LAG, "allows_unclean_election": False}, [], (0, 0, 250)),
        ({**LAG, "size_bytes": 1000}, [], (0, 0, 0)),
        ({**LAG, "size_bytes": 1000}, ["u", "t+"], (250, 25, 250)),
        ({"size_bytes": 1000}, ["t"], (45, None, 45)),
        ({**LAG, "size_bytes": 1000, "copy_bytes": 500}, ["t"], (125, 25, 125)),
        ({**LAG, "size_bytes": 1000, "lag_records": [0, 300]}, ["t"], (1000, 100, 1000)),
        ({**LAG, "size_bytes": 1000, "lag_records": [0, 10**12]}, ["t"], (1000, 100, 1000)),
        ({**UNCLEAN, **LAG, "elr": [12], "allows_unclean_election": False}, [], (0, 0, 0)),
        ({**UNCLEAN, **LAG, "elr": [12], "allows_unclean_election": False}, ["t"], (250, 25, 250)),
        ({**UNCLEAN, "log_records": 0, "lag_brokers": [11, 12], "lag_records": [0, 0]}, [], (0, 0, 0)),
    ],
)
def test_what_the_leaders_broker_loses(
    changes: dict[str, Any], acks_one: Sequence[str], expected: tuple[Any, ...]
) -> None:
    """By the end of the replica that follows; an unknown end is an empty replica, or 45 seconds of one in sync."""
    rows = pd.DataFrame([partition(0, [11, 12], **changes), partition(1, [13])])
    exposure, _ = exposure_rows(rows, HOSTS, needs_whole_min_isr=False, acks_one=acks_one)
    assert lost(exposure, "before", "11") == expected
    assert lost(exposure, "before", "12") == (0, 0, 0)


def test_a_copy_that_is_not_in_sync_yet_is_no_copy() -> None:
    """While the wave runs, the new replica would lead with nothing, so this loses more than before the plan."""
    row = partition(0, [11, 12], [14, 11], **UNCLEAN, **LAG)
    exposure, findings = planned(row)
    assert losses_of(exposure, "lost_bytes") == {"before": 250, "while_moving": 1000, "after": 0}
    assert losses_of(exposure, "sole_bytes") == {"before": 250, "while_moving": 1000, "after": 0}
    (found,) = (row for _, row in findings.iterrows() if row["code"] == FindingCode.LOSES_RECORDS)
    assert (found["when"], found["amount"], found["limit"], found["subject"]) == ("during", 1000, 1, "topic t")
    assert found["detail"] == (
        "1 partition loses acknowledged records if the leader's broker or rack fails, about 1.00 kB in all: "
        "a leader may be elected that is not in sync"
    )
    assert found["remedy"].startswith("set unclean.leader.election.enable=false on t, or wait")


def losses_of(exposure: pd.DataFrame, name: str) -> dict[str, int]:
    """The most that one broker's loss loses, by moment."""
    rows = exposure[exposure["loss"] == "some_broker"]
    return dict(zip(rows["moment"], rows[name], strict=True))


def test_the_worst_two_brokers_are_one_row() -> None:
    """Before and after the plan; the first of pairs that are equally bad, in the order of the losses."""
    exposure, _ = planned(partition(0, [11, 12], [11, 13]), partition(1, [12, 13], min_insync_replicas=2))
    rows = exposure[exposure["loss"] == "two_brokers"]
    assert rows[["moment", "lost", "writes_stopped", "offline"]].values.tolist() == [
        ["before", "11,12", 2, 1],
        ["after", "11,13", 2, 1],
    ]
