"""In which batches brokers may restart."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from asking.cli import main
from asking.restart import restart
from asking.sections import Grid
from optimizer.errors import ConfigError
from optimizer.kafka.throttle import FOLLOWER_RATE
from optimizer.planning.restart_placement import ALL_REQUIRED, NO_SPARE, ONE_REPLICA, SHORT
from sources.quorum import Quorum
from tests.asking.small_run import BROKERS, CLUSTER, PARTITIONS, Row, asked, broker, make_facts, partition, write_run

# Both replicas of "pair" are in rack a: brokers 1, 2, 3 and 5 restart apart until the plan repairs the rack.
PAIRS = tuple(partition("pair", number, [1, 2], min_insync_replicas=1) for number in range(2))
OTHERS = (*PARTITIONS, partition("clicks", 7, [2, 3, 5]))
STRICT = tuple({**row, "min_insync_replicas": 2} for row in OTHERS)


MB = 10**6


def run_main(folder: Path, *words: str) -> int:
    """The exit code of a question about the small cluster."""
    written = write_run(folder, make_facts(partitions=(*STRICT, *PAIRS)))
    return main(["ask", "--warehouse", written.path, "--cluster", CLUSTER, *words])


def test_the_plan_saves_a_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence names what blocks; the tables have both placements."""
    assert run_main(tmp_path, "--restart") == 0
    out = capsys.readouterr().out
    sentence = "Restart in 4 batches now (proven fewest), in 3 after this plan (proven fewest); what blocks: 2 "
    assert " ".join(out.split()).startswith(f"{sentence}partitions of topic pair.")
    lines = out.splitlines()
    after = lines[lines.index("Batches after this plan") :]
    assert [re.split(r" {2,}", line.strip())[:3] for line in after[2:5]] == [
        ["1", "1, 2", "a"],
        ["2", "3, 4", "b"],
        ["3", "5, 6", "c"],
    ]


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line has all of it."""
    page = tmp_path / "page.html"
    assert run_main(tmp_path, "--restart", "--batches-of", "1", "--spare", "2", "--json", "--html", str(page)) == 0
    [line] = capsys.readouterr().out.splitlines()
    content = json.loads(line)
    now = content["placements"]["before"]
    assert content["asked"] == "no change, 2 spare replicas, batches of 1"
    assert (now["proven_minimum"], now["is_proven"], len(now["batches"])) == (6, True, 6)
    assert [batch["brokers"] for batch in now["batches"]] == [[number] for number in range(1, 7)]
    figures = {"partitions_at_min_isr": 8, "partitions_stopped": 0, "leaders_to_move": 6}
    load = {"others_load_ratio": 2.0, "missed_bytes": 2_400_000_000, "in_sync_seconds": None}
    assert now["batches"][0] == {"brokers": [1], "racks": ["a"], **figures, **load}
    assert (content["blockers"], now["not_saved"]) == ({}, {NO_SPARE: {"clicks": 8, "audit": 2, "pair": 2}})
    assert "Batches after this plan" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        (partition("t", 0, [1]), ONE_REPLICA),
        (partition("t", 0, [1, 3], min_insync_replicas=2), ALL_REQUIRED),
        (partition("t", 0, [1, 3, 5], isr=[3, 1], min_insync_replicas=2), SHORT),
        (partition("t", 0, [1, 3, 5], min_insync_replicas=2), NO_SPARE),
        (partition("t", 0, [1, 3, 5], min_insync_replicas=1), ""),
        (partition("t", 0, [1, 3], isr=[1], observers=[3], min_insync_replicas=1), ONE_REPLICA),
    ],
)
def test_why_no_order_saves_a_partition(row: Row, cause: str) -> None:
    """With one replica to spare."""
    found = restart(make_facts(partitions=[row]), asked("--set", "policy.max_moves=1"), spare=1)
    assert found.restarts.placements["before"].causes() == [cause]


def test_a_spare_replica_costs_batches_but_never_safety() -> None:
    """A partition of three replicas that needs one: two may be down, one with a spare. What has no spare is kept up."""
    rows = [partition("t", 0, [1, 3, 5], min_insync_replicas=1)]
    free, spared = (restart(make_facts(partitions=rows), asked(), spare=spare).restarts for spare in (0, 1))
    assert [len(found.found["before"].batches) for found in (free, spared)] == [2, 3]
    found = restart(make_facts(partitions=STRICT), asked(), spare=1).restarts
    assert not any(batch["partitions_stopped"] for batch in found.rows() if batch["placement"] == "before")


def test_a_cap_of_the_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The leaders of a batch have at most this share of the clients' bytes, and the table says what the others get."""
    page = tmp_path / "page.html"
    assert run_main(tmp_path, "--restart", "--batch-load", "0.2", "--json", "--html", str(page)) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["asked"] == "no change, batches with 20 % of the load"
    assert "load of the others" in page.read_text(encoding="utf-8")
    batches = content["placements"]["after"]["batches"]
    assert content["batch_load"] == 0.2
    assert all(batch["others_load_ratio"] <= 1 / 0.8 for batch in batches if len(batch["brokers"]) > 1)


def test_partitions_that_the_run_does_not_know() -> None:
    """The proof is about the others, and the answer says so."""
    known, lacking = (restart(make_facts(), asked(), lacks_partitions=lacks).words() for lacks in (False, True))
    assert lacking == f"{known} Partitions in input that was left out are not considered."


def test_brokers_that_leave_or_are_dead_are_left_out() -> None:
    """A drained broker and a dead one are in no batch; replicas on the dead one are not in sync."""
    brokers = [*BROKERS[:5], broker(6, "c", state="dead"), broker(7, "c")]
    found = restart(make_facts(brokers, STRICT), asked("--drain", "5"))
    content = json.loads(found.as_json())
    for placement in content["placements"].values():
        assert sorted(b for batch in placement["batches"] for b in batch["brokers"]) == [1, 2, 3, 4, 7]
    assert content["placements"]["before"]["not_saved"] == {SHORT: {"audit": 2}}
    assert content["notes"][:2] == ["Left out, to be emptied: 5.", "Left out, not alive: 6."]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--restart", "--retire", "1"], "several variants are different questions: ask them one by one"),
        (["--restart", "--grow", "4%"], "several variants are different questions: ask them one by one"),
        (["--restart", "--variant", "x: --drain 1"], "several variants are different questions"),
        (["--spare", "1"], "--restart-minutes and --quorum are about the batches of --restart: also give it"),
        (["--quorum", "file"], "--restart-minutes and --quorum are about the batches of --restart: also give it"),
        (
            ["--restart", "--quorum", "/nowhere"],
            "/nowhere can't be read: No such file or directory; give the output of",
        ),
    ],
)
def test_options_that_do_not_belong_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: Sequence[str], message: str
) -> None:
    """The message has the remedy."""
    assert run_main(tmp_path, *words) == 2
    assert message in capsys.readouterr().err


def test_a_question_that_does_not_fit_is_refused() -> None:
    """There is no plan to restart after."""
    with pytest.raises(ConfigError, match="--restart: load x 9 does not fit, so there is no plan: add --anyway"):
        restart(make_facts(), asked("--load", "9"))


def paced(*, network: int | None, throttle: str | None = None) -> dict[str, Any]:
    """The first batch of a cluster whose brokers 1, 3 and 5 receive 1 MB/s each, down for ten minutes."""
    brokers = [{**each, "in_capacity_bytes_per_s": network} for each in BROKERS]
    rows = [partition("t", 0, [1, 3, 5], min_insync_replicas=2, in_bytes_per_s=MB)]
    found = [{"entity_name": "1", "config_name": FOLLOWER_RATE, "config_value": throttle}] if throttle else []
    asked_restart = restart(make_facts(brokers, rows), asked(), minutes=10, throttles=found)
    batches = json.loads(asked_restart.as_json())["placements"]["before"]["batches"]
    [batch] = [batch for batch in batches if 1 in batch["brokers"]]
    return {**batch, "notes": asked_restart.notes}


def test_what_a_batch_misses_is_copied_at_the_rate_that_is_left() -> None:
    """600 MB at 3 - 1 MB/s: 300 s. A throttle that was left counts; at the rate of the writes it never ends."""
    assert [paced(network=3 * MB)[key] for key in ("missed_bytes", "in_sync_seconds")] == [600 * MB, 300]
    throttled = paced(network=3 * MB, throttle=str(2 * MB))
    assert (throttled["in_sync_seconds"], any("Remove them first" in note for note in throttled["notes"])) == (
        600,
        True,
    )
    assert paced(network=3 * MB, throttle=str(MB))["in_sync_seconds"] == "never"
    assert [paced(network=3 * MB, throttle=text)["in_sync_seconds"] for text in ("10MB", "-1")] == [300, 300]
    unknown = paced(network=None)
    assert (unknown["missed_bytes"], unknown["in_sync_seconds"]) == (600 * MB, None)


def test_voters_are_apart_and_the_active_controller_is_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Brokers 1 and 2 share a rack and could restart together."""
    status = tmp_path / "status.txt"
    status.write_text('ClusterId: a\nLeaderId: 1\nCurrentVoters: [{"id": 1, "endpoints": []}, {"id": 2}, {"id": 90}]\n')
    assert run_main(tmp_path, "--restart", "--quorum", str(status), "--json") == 0
    content = json.loads(capsys.readouterr().out)
    for placement in content["placements"].values():
        assert [batch["voters"] for batch in placement["batches"] if batch["voters"]] == [[2], [1]]
        assert 1 in placement["batches"][-1]["brokers"]
    assert "At most one voter of the controllers in a batch, the active one in the last." in content["notes"]


@pytest.mark.parametrize(
    ("leader", "voters", "dead", "notes"),
    [
        (1, [1, 2, 4], [], ["At most one voter of the controllers in a batch, the active one in the last."]),
        (
            6,
            [1, 2, 6],
            [6],
            [
                "2 of 3 voters of the controllers are up: without one more they elect no leaders.",
                "At most one voter of the controllers in a batch.",
            ],
        ),
        (
            90,
            [1, 90, 91],
            [],
            [
                "At most one voter of the controllers in a batch.",
                "Voters in no batch: 90, 91. Restart them one at a time, the active one last.",
            ],
        ),
        (90, [90, 91, 92], [], ["Voters in no batch: 90, 91, 92. Restart them one at a time, the active one last."]),
    ],
)
def test_what_is_said_about_controllers(leader: int, voters: list[int], dead: list[int], notes: list[str]) -> None:
    """A dead voter counts; controllers that are no brokers are in no batch."""
    brokers = [broker(each["broker_id"], each["rack"], state="dead") if each["broker_id"] in dead else each
               for each in BROKERS]  # fmt: skip
    found = restart(make_facts(brokers, STRICT), asked(), quorum=Quorum(tuple(voters), leader))
    assert [note for note in found.notes if "oter" in note] == notes


def test_where_writes_stop_in_any_order_a_replica_stays_for_reads() -> None:
    """All replicas are required: they restart in two batches, and the table says in which writes stop."""
    found = restart(make_facts(partitions=[partition("t", 0, [1, 3, 5], min_insync_replicas=3)]), asked())
    batches = found.restarts.found["before"].batches
    assert len(batches) == 2
    assert all(not {0, 2, 4} <= set(batch) for batch in batches)
    table = found.document().sections[0].parts[0]
    assert isinstance(table, Grid)
    assert table.header[5] == "take no writes"
    assert [row[5] for row in table.rows] == ["1", "1"]
