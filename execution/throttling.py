"""Sets and removes the throttles of a wave, and looks on every broker whether they are there."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from execution.admin import NO_ANSWER, Admin
from execution.observed import Observed, Throttle
from execution.throttles import Entries, Setting, covers, describe, to_remove, to_set

_ROUNDS = 2  # of a removal: a broker may come back after the first look, with its old rate
# A change of 2,000 lists is known by every broker after 2.4 s (measured, Kafka 4.3.1).
_LOOK_AGAIN_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True)
class Left:
    """What remains of a wave's throttles after their removal.

    Parameters
    ----------
    foreign : tuple of str
        Entries that somebody else has changed.
    owed : tuple of str
        Rates of brokers that do not answer, and that may have them.
    refused : tuple of str
        Entries that Kafka did not change, with the reason.
    """

    foreign: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def settable(entries: Entries, now: Observed) -> Entries:
    """Entries of existing topics and living brokers."""
    return {key: one for key, one in entries.items() if now.exists(*key[:2])}


def set_throttles(admin: Admin, entries: Entries, now: Observed) -> list[str]:
    """Set all entries of living brokers and existing topics; returns what is not set, with the reason."""
    there = settable(entries, now)
    changes = to_set(there, now.throttles)
    refused = admin.alter(changes)
    accepted = {key: there[key].wanted for key in changes if key not in refused}
    unseen = _wait_until(admin, now.alive, accepted, covers)
    reasons = {**refused, **{key: "not visible on every broker" for key in unseen}}
    return [f"{describe(key, there[key].wanted)}: {reason}" for key, reason in sorted(reasons.items())]


def remove_throttles(
    admin: Admin, entries: Entries, observe: Callable[[], Observed], *, never_set: Collection[int] = ()
) -> Left:
    """Restore what was there before the wave, in all entries that are still the wave's own.

    Parameters
    ----------
    never_set : collection of int
        Brokers that the wave never gave a rate: they owe nothing.
    """
    refused: dict[Throttle, str] = {}
    after = observe()
    for _ in range(_ROUNDS):
        now = after
        removal = to_remove(_known(entries, now), now.throttles)
        refused |= admin.alter(removal.changes)
        accepted = {key: setting for key, setting in removal.changes.items() if key not in refused}
        _wait_until_gone(admin, now.alive, entries, accepted)
        after = observe()
        known = _known(entries, after)
        remaining = to_remove(known, after.throttles).changes
        if not remaining.keys() - removal.changes.keys():
            break
    owed = [key for key in entries if key[0] == "brokers" and key not in known and int(key[1]) not in never_set]
    reasons = {key: refused.get(key, "it is still set") for key in remaining}
    return Left(
        foreign=removal.left,
        owed=tuple(f"{' '.join(key)}: {NO_ANSWER}" for key in sorted(owed)),
        refused=tuple(f"{' '.join(key)}: {reason}" for key, reason in sorted(reasons.items())),
    )


def _known(entries: Entries, now: Observed) -> Entries:
    """Entries whose values could be read: not those of silent brokers."""
    return {key: one for key, one in settable(entries, now).items() if now.has_configs(*key[:2])}


def _wait_until_gone(
    admin: Admin, brokers: Collection[int], entries: Entries, changes: Mapping[Throttle, Setting]
) -> None:
    def is_gone(key: Throttle, value: str | None, own: str) -> bool:
        return value == entries[key].before or not covers(key, value, own)

    _wait_until(admin, brokers, {key: entries[key].wanted for key in changes}, is_gone)


def _wait_until(
    admin: Admin,
    brokers: Collection[int],
    expected: Mapping[Throttle, str],
    is_there: Callable[[Throttle, str | None, str], bool],
) -> list[Throttle]:
    """Ask every broker until it knows all entries; returns those that some broker does not know in time.

    A broker that does not answer is not asked again.
    """
    waiting = set(brokers)
    for pause in (*_LOOK_AGAIN_SECONDS, None):
        unseen = {broker: _unseen(admin, broker, expected, is_there) for broker in sorted(waiting)}
        waiting = {broker for broker, keys in unseen.items() if keys}
        if not waiting or pause is None:
            break
        time.sleep(pause)
    return sorted({key for broker in waiting for key in unseen[broker]})


def _unseen(
    admin: Admin,
    broker: int,
    expected: Mapping[Throttle, str],
    is_there: Callable[[Throttle, str | None, str], bool],
) -> list[Throttle]:
    asked = [key for key in expected if key[0] == "topics" or key[1] == str(broker)]
    values = admin.shown(broker, asked) if asked else {}
    if values is None:
        return []
    return [key for key in asked if not is_there(key, values.get(key), expected[key])]
