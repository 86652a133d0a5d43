"""Differences between Kafka releases: placement algorithm, option names, tools."""

from optimizer.kafka.partition_state import CompletionRule
from optimizer.setting_checks import release

STRIPED = "striped"
ADMIN_UTILS = "admin_utils"
# The last known minor number by major number; 0.8 is the first release.
_LAST = {0: 11, 1: 1, 2: 8, 3: 9, 4: 3}
# All known releases as (major, minor).
_KNOWN = [(major, minor) for major, last in _LAST.items() for minor in range(0 if major else 8, last + 1)]


def default_algorithm(kafka_version: str) -> str:
    """The algorithm behind ``kafka-reassign-partitions --generate`` of a version.

    Parameters
    ----------
    kafka_version : str
        "4.3", "3.9.1", "2.8-IV1"; empty if unknown, which means a current release.

    Returns
    -------
    str
        "striped" from 4.1 on, "admin_utils" before (and so in ZooKeeper mode, which ended with 3.9).

    Raises
    ------
    ConfigError
        If the text does not start with a version number.
    """
    version = release(kafka_version)
    return STRIPED if version is None or version >= (4, 1) else ADMIN_UTILS


def controller_algorithm(kafka_version: str) -> str:
    """Name of the algorithm by which a controller places new partitions: "striped" from 4.0 on, where all are of KRaft.

    Before, clusters with KRaft use it too, and clusters with ZooKeeper "admin_utils": nobody knows which it is.
    """
    version = release(kafka_version)
    return STRIPED if version is None or version >= (4, 0) else ADMIN_UTILS


def unknown_release(kafka_version: str) -> str:
    """The message for an unknown release, with the rules that are used; empty if it is known or not given.

    >>> unknown_release("5.7")
    'is not a known release (0.8 to 4.3 are): the rules of 4.3 are used'

    Raises
    ------
    ConfigError
        If the text does not start with a version number.
    """
    version = release(kafka_version)
    if version is None or version in _KNOWN:
        return ""
    oldest, used, newest = (
        f"{major}.{minor}" for major, minor in (_KNOWN[0], max(r for r in _KNOWN if r < version), _KNOWN[-1])
    )
    return f"is not a known release ({oldest} to {newest} are): the rules of {used} are used"


def needs_whole_min_isr(kafka_version: str) -> bool:
    """Whether writes with ``acks=all`` need min.insync.replicas in-sync replicas even if the partition has fewer
    replicas: before 3.7 (KAFKA-15583). If the version is unknown, no.

    Raises
    ------
    ConfigError
        If the text does not start with a version number.
    """
    version = release(kafka_version)
    return version is not None and version < (3, 7)


def completion_rule(kafka_version: str, *, is_kraft: bool = False) -> CompletionRule:
    """Which replicas must be in sync before a reassignment ends.

    Parameters
    ----------
    kafka_version : str
        If it is empty, the rule that ends least often: the whole target must be in sync.
    is_kraft : bool
        Whether the cluster is known to run without ZooKeeper. If not, releases before 3.8 get ZooKeeper's rule, which
        ends less often than theirs in KRaft mode.

    Raises
    ------
    ConfigError
        If the text does not start with a version number.

    References
    ----------
    All patch releases from 3.3.1 to 4.3.1: those of a line do not differ. In ZooKeeper mode:
    kafka.controller.KafkaController.isReassignmentComplete, 2.4 to 3.9; areReplicasInIsr before.
    """
    version = release(kafka_version)
    if version is not None and version >= (4, 3):
        return CompletionRule.TARGET_IF_FEWER
    return CompletionRule.ADDED if is_kraft and version is not None and version < (3, 8) else CompletionRule.TARGET


def has_old_options(kafka_version: str) -> bool | None:
    """Whether some tools have another name for ``--command-config``; None if the version is unknown.

    Raises
    ------
    ConfigError
        If the text does not start with a version number.

    References
    ----------
    KIP-1147, Kafka 4.2: ``kafka-cluster.sh --config`` and ``kafka-leader-election.sh --admin.config`` got the new name.
    """
    version = release(kafka_version)
    return None if version is None else version < (4, 2)


def tools_needed(kafka_version: str) -> str:
    """Why the tools or brokers of a release can't execute the plan; empty if they can, or if the release is unknown.

    References
    ----------
    KIP-455: brokers from 2.4, and ``kafka-reassign-partitions.sh --bootstrap-server`` with ``--list`` and ``--cancel``
    from 2.6.
    """
    version = release(kafka_version)
    if version is None or version >= (2, 6):
        return ""
    if version >= (2, 4):
        return f"the tools of {kafka_version} can't execute this plan: use the tools of 2.6 to 3.9"
    return (
        f"brokers of {kafka_version} can't execute this plan: they do not support the requests of the tools from 2.6 on"
    )
