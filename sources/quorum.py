"""The voters of the controllers' quorum: ``kafka-metadata-quorum.sh describe --status``.

References
----------
``org.apache.kafka.tools.MetadataQuorumCommand`` (4.3): since 3.9 ``CurrentVoters`` is JSON, before it was ``[1,2,3]``.
"""

import re
from dataclasses import dataclass

from optimizer.errors import ConfigError
from sources.decode import NotText, decoded

_LEADER = re.compile(r"^LeaderId:\s*(-?\d+)\s*$", re.M)
_VOTERS = re.compile(r"^CurrentVoters:\s*(\[.*\])\s*$", re.M)
REMEDY = "give the output of kafka-metadata-quorum.sh --bootstrap-server HOST:9092 describe --status"


@dataclass(frozen=True)
class Quorum:
    """The ids of the voters, and that of the active controller; None if there is none now."""

    voters: tuple[int, ...]
    active: int | None


def parse_quorum(data: bytes, name: str) -> Quorum:
    """Read the output of the tool.

    Parameters
    ----------
    name : str
        The file, for errors.

    Raises
    ------
    ConfigError
        When there is no list of voters.
    """
    text = decoded(data)
    leader, listed = (None, None) if isinstance(text, NotText) else (_LEADER.search(text), _VOTERS.search(text))
    voters = (re.findall(r'"id":\s*(\d+)', listed[1]) or re.findall(r"\d+", listed[1])) if listed else []
    if not voters:
        raise ConfigError(f"{name} has no line CurrentVoters with the ids of the voters; {REMEDY}")
    active = int(leader[1]) if leader else -1
    return Quorum(tuple(sorted(map(int, voters))), active if active >= 0 else None)
