"""When the disks are too small if everything grows."""

import re
from pathlib import Path

import pytest

from asking.ask import ask
from asking.grow import grow, month_after
from asking.options import add_commands
from execution.options import parser_of
from optimizer.errors import ConfigError
from tests.asking.small_run import BROKERS, CAPTURED_AT, DISK, GB, asked, broker, make_facts, write_run


@pytest.mark.parametrize(("months", "month"), [(0, "2026-11"), (1, "2026-12"), (2, "2027-01"), (25, "2028-12")])
def test_months_are_counted_from_the_snapshot(months: int, month: str) -> None:
    """Also over the end of a year."""
    assert month_after(CAPTURED_AT, months) == month


def test_the_first_full_broker_and_the_last_month_that_fits() -> None:
    """Sizes double each month. All replicas take 960 GB; brokers of 200 GB may hold 1,080 GB together."""
    small = [{**row, "disk_capacity_bytes": 200 * GB} for row in BROKERS]
    found = grow(make_facts(small), asked(), percent=100)
    assert found.first is not None
    assert found.short is not None
    month, name = found.first
    held = max(found.answers[0].disks_after) * 2 * GB  # bytes of the fullest broker
    assert (month, held * 2 ** (month - 1) <= 180 * GB < held * 2**month) == (month, month > 0)
    assert re.fullmatch(r"broker [1-6]", name)
    month, missing = found.short
    assert missing.needed_bytes == 960 * GB * 2**month > missing.limit_bytes == 1080 * GB
    assert [item.question.name for item in found.answers] == ["no change"]
    words = found.words()
    assert words.startswith(f"At 100 % a month {name} passes its limit in 2026-1")
    assert words.endswith("suffice until 2026-11, then the brokers that accept replicas may hold 1.08 TB, but must "
                          "hold 1.92 TB: 840 GB more.")  # fmt: skip


def test_disks_that_last() -> None:
    """Until the last month that was asked."""
    found = grow(make_facts(), asked(), percent=1, until="2027-02")
    assert (found.first, found.short, len(found.answers)) == (None, None, 2)
    assert found.answers[1].question.size_factor == pytest.approx(1.01**3)
    no_end = "At 1 % a month no disk is full with this plan alone until 2027-02; with more plans the disks suffice"
    assert found.words() == f"{no_end} until 2027-02."


def test_what_does_not_fit_now_has_no_months() -> None:
    """Nothing is said about a time until which disks suffice."""
    words = grow(make_facts(), asked("--load", "9"), percent=1).words()
    assert words.startswith("Before any growth it does not fit: the brokers that accept replicas may hold ")
    assert "until" not in words


def test_a_directory_may_be_the_first() -> None:
    """It keeps its share of the broker's bytes."""
    path = {"logs": 1, "is_open": True, "capacity_bytes": DISK // 2}
    dirs = [{"path": "/a", "used_bytes": 9 * GB, **path}, {"path": "/b", "used_bytes": GB, **path}]
    found = grow(make_facts([broker(1, log_dirs=dirs), *BROKERS[1:]]), asked(), percent=10)
    assert found.first is not None
    assert found.first[1] == "directory /a of broker 1"


@pytest.mark.parametrize("until", ["2026-11", "2020-01", "2036-12"])
def test_a_month_that_is_past_or_far_is_refused(until: str) -> None:
    """The message has the first and the last month."""
    with pytest.raises(ConfigError, match="the snapshot is of 2026-11; give a month from 2026-12 to 2036-11"):
        grow(make_facts(), asked(), percent=4, until=until)


def test_unknown_disks_are_refused() -> None:
    """Nobody knows when they are full."""
    with pytest.raises(ConfigError, match="--grow needs the disk capacity of every broker"):
        grow(make_facts([broker(1, disk_capacity_bytes=None), *BROKERS[1:]]), asked(), percent=4)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--until 2027-01", "--until is the last month of --grow: also give it"),
        (
            "--grow 4% --retire 1",
            "--grow, --restart, --consumer-leaves, --consumers and several variants are different questions",
        ),
    ],
)
def test_options_that_do_not_belong_together(tmp_path: Path, words: str, message: str) -> None:
    """The message has the remedy."""
    written = write_run(tmp_path, make_facts())
    options = parser_of([add_commands]).parse_args(["ask", "--cluster", "orders", *words.split()])
    with pytest.raises(ConfigError, match=re.escape(message)):
        [*ask(options, written)]


@pytest.mark.parametrize("words", ["--grow 4", "--grow 0%", "--grow x%", "--grow 4% --until 2027-13", "--until 27-1"])
def test_values_that_cannot_be_read(capsys: pytest.CaptureFixture[str], words: str) -> None:
    """They end with exit code 2 and an example."""
    with pytest.raises(SystemExit) as ended:
        parser_of([add_commands]).parse_args(["ask", "--cluster", "orders", *words.split()])
    assert (ended.value.code, "write " in capsys.readouterr().err) == (2, True)
