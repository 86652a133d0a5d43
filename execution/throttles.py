"""Which throttle entries of a wave have to be set, and which may be removed: only what is the wave's own.

An entry is a rate of a broker or a list of a topic, ``partition:broker`` joined by commas; the list ``*`` has every
replica. Other people may throttle the same broker or topic, so a list is extended and shortened, not replaced.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from execution.observed import Throttle, TopicPartition
from optimizer.kafka.throttle import FOLLOWER_REPLICAS, LEADER_REPLICAS

# Operation and value: SET, APPEND or SUBTRACT with a value, or DELETE with None.
Setting = tuple[str, str | None]
ALL = "*"
_MAX_VALUE_CHARS = 40  # of a value in a message: a list of throttled replicas has thousands of characters


@dataclass(frozen=True)
class Entry:
    """One throttle of a wave.

    Parameters
    ----------
    before : str or None
        Value before the wave; None if there was none.
    wanted : str
        Value of the plan.
    own : frozenset of str
        Other values that the wave may have given a rate meanwhile.
    """

    before: str | None
    wanted: str
    own: frozenset[str] = frozenset()


Entries = Mapping[Throttle, Entry]


@dataclass(frozen=True)
class Removal:
    """What has to be changed to end the throttles of a wave, and what stays because it is not the wave's.

    Parameters
    ----------
    changes : mapping of entry to setting
    left : tuple of str
        A line for each entry that somebody else has changed.
    """

    changes: Mapping[Throttle, Setting]
    left: tuple[str, ...]


def is_list(key: Throttle) -> bool:
    """Whether an entry is a list of a topic, not a rate."""
    return key[0] == "topics"


def covers(key: Throttle, value: str | None, wanted: str) -> bool:
    """Whether a value throttles all that is wanted: the same rate, or a list with all its replicas."""
    if value is None or not is_list(key):
        return value == wanted
    return value == ALL or set(elements_of(wanted)) <= set(elements_of(value))


def describe(key: Throttle, value: str) -> str:
    """An entry and its value for a message; a long value is cut."""
    shown = value if len(value) <= _MAX_VALUE_CHARS else f"{value[: _MAX_VALUE_CHARS - 3]}..."
    return f"{' '.join(key)}={shown}"


def is_foreign(key: Throttle, value: str, *, wanted: str | None, before: str | None) -> bool:
    """Whether a value contains more than what the wave wants and what was there before it."""
    if not is_list(key):
        return value not in (wanted, before)
    return not set(elements_of(value)) <= {*elements_of(wanted), *elements_of(before)}


def entry(key: Throttle, value: str | None, wanted: str, previous: str | None) -> Entry:
    """The entry of a wave that begins.

    Parameters
    ----------
    value : str or None
        What the cluster has now. If this is the wave's own value already, somebody has run its script by hand.
    previous : str or None
        What the plan found.
    """
    return Entry(previous if covers(key, value, wanted) else value, wanted)


def to_set(entries: Entries, now: Mapping[Throttle, str]) -> dict[Throttle, Setting]:
    """The changes that set every entry that is not set yet."""
    changes: dict[Throttle, Setting] = {}
    for key, one in entries.items():
        value = now.get(key)
        if covers(key, value, one.wanted) or value in one.own:
            continue
        if value and is_list(key):
            missing = [each for each in elements_of(one.wanted) if each not in set(elements_of(value))]
            changes[key] = "APPEND", ",".join(missing)
        else:
            changes[key] = "SET", one.wanted
    return changes


def to_remove(entries: Entries, now: Mapping[Throttle, str]) -> Removal:
    """The changes that restore every entry that is still the wave's own."""
    changes: dict[Throttle, Setting] = {}
    left = []
    for key, one in sorted(entries.items()):
        value = now.get(key)
        setting = (_list_without if is_list(key) else _rate_without)(one, value)
        if setting:
            changes[key] = setting
        elif _differs(key, value, one.before) and (value in (None, ALL) or not is_list(key)):
            left.append(_describe_left(key, one, value))
    return Removal(changes, tuple(left))


def _differs(key: Throttle, value: str | None, before: str | None) -> bool:
    """Whether a value is not that from before; an empty list is none."""
    return (value or None) != (before or None) if is_list(key) else value != before


def after_removal(entries: Entries, now: Mapping[Throttle, str]) -> dict[Throttle, str]:
    """The throttles of the cluster when ``to_remove`` has restored these entries."""
    result = dict(now)
    for key, (operation, value) in to_remove(entries, now).changes.items():
        there = result.pop(key)
        if operation == "SUBTRACT":
            result[key] = ",".join(each for each in elements_of(there) if each not in elements_of(value))
        elif value is not None:
            result[key] = value
    return result


def follower_elements(copies: Iterable[tuple[str, int, int]]) -> dict[Throttle, set[str]]:
    """The elements of copies (topic, partition, broker) in the lists of followers."""
    result: dict[Throttle, set[str]] = {}
    for topic, number, broker in copies:
        result.setdefault(("topics", topic, FOLLOWER_REPLICAS), set()).add(f"{number}:{broker}")
    return result


def leader_elements(
    partitions: Iterable[TopicPartition], wanted: Mapping[Throttle, str], before: Mapping[Throttle, str]
) -> dict[Throttle, set[str]]:
    """The elements of partitions in a wave's own lists of leaders.

    Parameters
    ----------
    wanted : mapping of throttle to value
        The wave's throttles.
    before : mapping of throttle to value
        The throttles before the wave: their elements are somebody else's.
    """
    result: dict[Throttle, set[str]] = {}
    for topic, number in partitions:
        key = "topics", topic, LEADER_REPLICAS
        own = {each for each in elements_of(wanted.get(key)) if each.startswith(f"{number}:")}
        if own := own - set(elements_of(before.get(key))):
            result.setdefault(key, set()).update(own)
    return result


def shortened(
    throttles: Mapping[Throttle, str], elements: Mapping[Throttle, Collection[str]]
) -> dict[Throttle, Setting]:
    """The changes that take elements out of lists.

    A list of which nothing would remain is deleted, because SUBTRACT leaves an empty value.
    """
    changes: dict[Throttle, Setting] = {}
    for key, own in sorted(elements.items()):
        there = elements_of(throttles.get(key))
        gone = [each for each in there if each in own]
        if gone:
            changes[key] = ("DELETE", None) if len(gone) == len(there) else ("SUBTRACT", ",".join(gone))
    return changes


def _rate_without(one: Entry, value: str | None) -> Setting | None:
    if value not in {one.wanted, *one.own} or value == one.before:
        return None
    return ("DELETE", None) if one.before is None else ("SET", one.before)


def _list_without(one: Entry, value: str | None) -> Setting | None:
    """Remove the wave's replicas. If none remains the list is deleted, because SUBTRACT leaves an empty value."""
    there, own = elements_of(value), set(elements_of(one.wanted)) - set(elements_of(one.before))
    if one.before == ALL:  # the plan's script replaces this list, the commands do not
        return ("SET", ALL) if set(there) == own else None
    if value == "" and one.before is None:
        return "DELETE", None
    if value == ALL or not own & set(there):
        return None
    if set(there) <= own:
        return "DELETE", None
    return "SUBTRACT", ",".join(each for each in there if each in own)


def _describe_left(key: Throttle, one: Entry, value: str | None) -> str:
    if value is None:
        return f"{describe(key, one.before or '')} was removed by somebody else and is not set again"
    return f"{describe(key, value)} was set by somebody else and stays"


def elements_of(value: str | None) -> list[str]:
    """The elements of a list; none if there is no list."""
    return value.split(",") if value else []
