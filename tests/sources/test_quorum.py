"""The voters of the controllers' quorum."""

from pathlib import Path

import pytest

from optimizer.errors import ConfigError
from sources.quorum import Quorum, parse_quorum

HEAD = "ClusterId:              0dU\nLeaderId:               {}\nLeaderEpoch:            1\n"


@pytest.mark.parametrize(
    ("leader", "voters", "quorum"),
    [
        (2, '[{"id": 1, "endpoints": ["CONTROLLER://c-1:9093"]}, {"id": 2, "directoryId": "X"}]', Quorum((1, 2), 2)),
        (3, "[3,1,2]", Quorum((1, 2, 3), 3)),
        (-1, "[1, 2]", Quorum((1, 2), None)),
    ],
)
def test_releases_write_voters_in_two_ways(leader: int, voters: str, quorum: Quorum) -> None:
    """JSON since 3.9, before a list; observers are no voters, and -1 is no leader."""
    text = HEAD.format(leader) + f"CurrentVoters:          {voters}\nCurrentObservers:       [9]\n"
    assert parse_quorum(text.encode(), "f") == quorum


@pytest.mark.parametrize("content", [b"", b"NodeId  LogEndOffset\n1  272\n", b"\x1f\x8b\x00", b"CurrentVoters: []\n"])
def test_other_files_are_refused(content: bytes) -> None:
    """The message names the command, also for the output of describe --replication."""
    with pytest.raises(ConfigError, match=r"^f has no line CurrentVoters .* describe --status"):
        parse_quorum(content, "f")


def test_the_examples_of_the_cases(shared: Path) -> None:
    """Real output of Kafka 4."""
    status = shared / "cases" / "S02_racks_drain_broker" / "metadata_quorum_status.txt"
    assert parse_quorum(status.read_bytes(), "f") == Quorum((1, 2, 3), 1)
