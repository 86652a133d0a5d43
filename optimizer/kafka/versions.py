"""What depends on Kafka's version: its placement, the names of options."""

import re

from optimizer.errors import ConfigError

STRIPED = "striped"
ADMIN_UTILS = "admin_utils"


def default_algorithm(kafka_version: str) -> str:
    """The algorithm behind ``kafka-reassign-partitions --generate`` of a version.

    Parameters
    ----------
    kafka_version : str
        "4.3", "3.9.1", "2.8-IV1"; empty where it is not known, which counts as a present one.

    Returns
    -------
    str
        "striped" from 4.1 on, "admin_utils" before (and so in ZooKeeper mode, which ended with 3.9).

    Raises
    ------
    ConfigError
        When the text does not start with a version number.
    """
    release = _release(kafka_version)
    return STRIPED if release is None or release >= (4, 1) else ADMIN_UTILS


def has_old_options(kafka_version: str) -> bool | None:
    """Whether some tools have another name for ``--command-config``; None where the version is not known.

    Raises
    ------
    ConfigError
        When the text does not start with a version number.

    References
    ----------
    KIP-1147, Kafka 4.2: ``kafka-cluster.sh --config`` and ``kafka-leader-election.sh --admin.config`` got that name.
    """
    release = _release(kafka_version)
    return None if release is None else release < (4, 2)


def _release(kafka_version: str) -> tuple[int, int] | None:
    if not kafka_version:
        return None
    found = re.fullmatch(r"(\d++)(?:\.(\d++))?+(?:[.\-+_].*)?", kafka_version)
    if not found:
        raise ConfigError(f"kafka_version = {kafka_version!r} is no version: give for example 4.3 or 3.9.1")
    return int(found[1]), int(found[2] or 0)
