"""Brings the rates of a running wave to what an operator wants, step by step."""

from collections.abc import Sequence

from execution.admin import Admin
from execution.observed import Observed, Throttle
from execution.throttles import Setting, describe
from execution.wanted import Wanted, next_rate, path, rates
from execution.wave import Wave


def steer(admin: Admin, wave: Wave, states: Sequence[Wanted], now: Observed) -> list[str]:
    """Give each rate its next value; returns what Kafka refused. Rates that somebody else has set stay.

    Parameters
    ----------
    states : sequence of Wanted
        The wanted states since the wave holds the cluster, the newest last.
    """
    changes: dict[tuple[str, str, str], Setting] = {}
    for key in rates(wave, states[-1]):
        value = next_rate(wave, states, key, now.throttles.get(key))
        if value is not None and is_known(key, now):
            changes[key] = "SET", str(value)
    refused = admin.alter(changes) if changes else {}
    return [f"{describe(key, changes[key][1] or '')}: {reason}" for key, reason in sorted(refused.items())]


def is_there(wave: Wave, states: Sequence[Wanted], now: Observed) -> bool:
    """Whether every rate that can be steered has its wanted value."""
    return all(
        next_rate(wave, states, key, now.throttles.get(key)) is None
        for key in rates(wave, states[-1])
        if is_known(key, now)
    )


def unknown(wave: Wave, now: Observed) -> list[str]:
    """Rates of the wave on brokers that are not alive or do not answer."""
    return [" ".join(key) for key in rates(wave, Wanted()) if not is_known(key, now)]


def is_known(key: Throttle, now: Observed) -> bool:
    """Whether the broker of a rate is alive and has told its rates."""
    return now.exists(*key[:2]) and now.has_configs(*key[:2])


def foreign(wave: Wave, states: Sequence[Wanted], now: Observed) -> list[str]:
    """Rates of the wave's brokers that somebody else has set."""
    return [
        describe(key, now.throttles[key])
        for key in rates(wave, states[-1])
        if key in now.throttles and now.throttles[key] not in map(str, path(wave, states, key))
    ]
