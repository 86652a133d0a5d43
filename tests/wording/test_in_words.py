"""What findings say."""

from typing import Any

import pytest

from optimizer.domain import Cause, FindingCode
from optimizer.solve.findings.finding import Finding
from optimizer.wording.in_words import BY_CODE, in_words


def test_every_code_has_words() -> None:
    """A new code without words would fail only where it is found."""
    assert set(BY_CODE) == set(FindingCode)


STAYS: list[tuple[dict[str, Any], str, str]] = [
    (
        {"cause": Cause.NOT_FREE, "facts": {"fixed_cause": Cause.IN_FLIGHT}},
        "broker 101 (draining) keeps audit.login-events-3: it is being reassigned",
        "no wave starts before that is done; to include the partition, plan again then",
    ),
    (
        {"cause": Cause.NOT_FREE, "facts": {"fixed_cause": Cause.MOVE_CANNOT_END}},
        "broker 101 (draining) keeps audit.login-events-3: it is being reassigned to a broker that is down",
        "start that broker, or cancel the reassignment (kafka-reassign-partitions.sh --cancel); then plan again",
    ),
    (
        {"cause": Cause.TOO_FEW_BROKERS},
        "broker 101 (draining) keeps audit.login-events-3: 3 replicas, brokers that can hold them: 2",
        "request fewer replicas, drain fewer brokers, or add a broker",
    ),
    (
        {"cause": Cause.MOVE_LIMIT, "facts": {"exceeded": {"max_moves": 1, "disk_headroom": 0.1}}},
        "broker 101 (draining) keeps audit.login-events-3; the limit leaves it for a later run",
        "execute this plan and run again, or raise the limit; add disk, let more brokers accept replicas, or lower "
        "disk_headroom",
    ),
    (
        {"cause": Cause.NO_ORDER_OF_COPIES, "facts": {"disk_headroom": 0.1, "waves": 3}},
        "broker 101 (draining) keeps audit.login-events-3; no order of the copies leaves room on the disks for its old "
        "and new copies at once",
        "execute this plan and run again; or lower [policy] disk_headroom (now 0.1), set [schedule] waves = 0, or add "
        "disk",
    ),
]


@pytest.mark.parametrize(("given", "detail", "remedy"), STAYS)
def test_a_replica_that_stays_says_why_and_what_helps(given: dict[str, Any], detail: str, remedy: str) -> None:
    """By the cause, and by what holds a partition that is not free."""
    facts = {"state": "draining", "replicas": 3, "hosts": 2, **given.get("facts", {})}
    place: dict[str, Any] = {"topic": "audit.login-events", "partition": 3, "broker_id": 101}
    finding = Finding(FindingCode.NOT_EMPTIED, "both", **place, cause=given["cause"], facts=facts)
    assert in_words(finding) == ("audit.login-events-3 on 101", detail, remedy)


THREE, AGAIN = ", about 3 runs with this limit", "execute this plan and run again, or raise the limit"
LIMITS: list[tuple[dict[str, Any], str, str, str]] = [
    ({"max_moved_bytes": 60 * 10**9}, "max_moved_gb = 60", ", about 17 runs with this limit", AGAIN),
    (
        {"max_moves": 599, "max_moved_bytes": 10**12},
        "max_moved_gb = 1000, max_moves = 599",
        ", about 3 runs with this limit",
        AGAIN,
    ),
    (
        {"disk_headroom": 0.1},
        "disk_headroom = 0.1",
        "",
        "add disk, let more brokers accept replicas, or lower disk_headroom",
    ),
]


@pytest.mark.parametrize(("exceeded", "subject", "runs", "remedy"), LIMITS)
def test_a_limit_names_its_setting_and_what_it_leaves(
    exceeded: dict[str, Any], subject: str, runs: str, remedy: str
) -> None:
    """Only what is left is listed; how many runs copy all follows from the limit that is exceeded most."""
    left = {FindingCode.BAND: 2, FindingCode.NOT_EMPTIED: 0, FindingCode.RACK_SPREAD: 1}
    facts = {"exceeded": exceeded, "moved_bytes": 10**12, "moves": 1200, "left": left}
    assert in_words(Finding(FindingCode.LIMITED, "after", amount=40, facts=facts)) == (
        subject,
        f"the whole plan would copy 1.00 TB in 1,200 moves{runs}; the 40 least important changes are left out: 2 loads "
        "outside bands that the whole plan meets, 1 partition that breaks the rack rule",
        remedy,
    )


def test_a_shard_says_what_became_of_its_replicas() -> None:
    """The next round takes them, unless it was the last."""
    facts = {"shard": 7, "round": 2, "brokers": 40, "is_last_round": False, "message": "killed"}
    finding = Finding(FindingCode.SHARD_FAILED, "after", facts=facts)
    assert in_words(finding)[:2] == (
        "shard 7 of round 2",
        "a shard of 40 brokers failed; the next round takes its replicas: killed",
    )
    last = Finding(FindingCode.SHARD_OUT_OF_TIME, "after", facts={**facts, "is_last_round": True})
    assert in_words(last).detail == "a shard of 40 brokers ran out of time; its replicas stay where they are: killed"


GB = 10**9
BANDS: list[tuple[dict[str, Any], str, str]] = [
    (
        {"amount": 90 * GB, "limit": 80 * GB, "cause": Cause.STEPS_TOO_LARGE},
        "/a holds 90.0 GB after the plan, 10.0 GB above its band, which ends at 80.0 GB; each replica that could "
        "move would bring a directory outside its band on the other side",
        "raise [policy] dir_band, or execute the plan and run again",
    ),
    (
        {"amount": 10 * GB, "limit": 15 * GB, "cause": Cause.NO_DIRECTORY_ROOM},
        "/a holds 10.0 GB after the plan, 5.00 GB below its band, which begins at 15.0 GB; no directory of the "
        "broker has room for a replica that could move",
        "free space in the directories of this broker, lower [policy] disk_headroom, or add disk",
    ),
    (
        {"amount": 90 * GB, "limit": 80 * GB},
        "/a holds 90.0 GB after the plan, 10.0 GB above its band, which ends at 80.0 GB",
        "raise [policy] dir_band, or execute the plan and run again",
    ),
]


@pytest.mark.parametrize(("given", "detail", "remedy"), BANDS)
def test_a_directory_outside_its_band_says_by_how_much(given: dict[str, Any], detail: str, remedy: str) -> None:
    """Above or below, with the cause if it is known."""
    finding = Finding(FindingCode.DIR_BAND, "after", broker_id=3, **given, facts={"log_dir": "/a"})
    assert in_words(finding) == ("broker 3 /a", detail, remedy)


def test_a_broker_whose_directories_stay_says_why() -> None:
    """The finding has no facts."""
    finding = Finding(FindingCode.DIRS_NOT_BALANCED, "both", broker_id=3, cause=Cause.FAILED_DIRECTORY)
    assert in_words(finding) == (
        "broker 3 log directories",
        "they are not balanced: one of them has failed or is cordoned",
        "repair the disk, or delete the broker's config cordoned.log.dirs; then plan again",
    )
