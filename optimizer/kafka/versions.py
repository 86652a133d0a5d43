"""What depends on Kafka's version: its placement, the names of options."""

from optimizer.setting_checks import release

STRIPED = "striped"
ADMIN_UTILS = "admin_utils"
# By the first number of a release, the last second number that is known; 0.8 is the first one.
_LAST = {0: 11, 1: 1, 2: 8, 3: 9, 4: 3}
# Every release, as two numbers.
_KNOWN = [(first, second) for first, last in _LAST.items() for second in range(0 if first else 8, last + 1)]


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


def unknown_release(kafka_version: str) -> str:
    """What is said of a release that is not known, and whose rules count; empty where it is known, or none is given.

    >>> unknown_release("5.7")
    'is not a known release (0.8 to 4.3 are): the rules of 4.3 are used'

    Raises
    ------
    ConfigError
        When the text does not start with a version number.
    """
    given = release(kafka_version)
    if given is None or given in _KNOWN:
        return ""
    oldest, used, newest = (
        f"{first}.{second}" for first, second in (_KNOWN[0], max(one for one in _KNOWN if one < given), _KNOWN[-1])
    )
    return f"is not a known release ({oldest} to {newest} are): the rules of {used} are used"


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
