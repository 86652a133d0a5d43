"""What depends on Kafka's version: its placement, the names of options."""

from optimizer.setting_checks import release

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
    known = release(kafka_version)
    return STRIPED if known is None or known >= (4, 1) else ADMIN_UTILS


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
    known = release(kafka_version)
    return None if known is None else known < (4, 2)


def tools_needed(kafka_version: str) -> str:
    """What a release's own tools or brokers can't do of a plan, in words; empty where they can, or it is not known.

    References
    ----------
    KIP-455: brokers from 2.4, and ``kafka-reassign-partitions.sh --bootstrap-server`` with ``--list`` and ``--cancel``
    from 2.6.
    """
    known = release(kafka_version)
    if known is None or known >= (2, 6):
        return ""
    if known >= (2, 4):
        return f"tools of {kafka_version} can't execute this plan: use those of 2.6 to 3.9 with its brokers"
    return f"brokers of {kafka_version} can't execute this plan as it is: they lack what tools from 2.6 on ask of them"
