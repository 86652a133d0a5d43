"""What an operator wants of a running wave: another rate, a pause, an end. Kept in the journal as event ``wanted``.

A rate is raised in ten steps. Kafka's meter remembers eleven seconds: one step would release eleven times the
difference at full speed. (1.5 to 4 MB/s: 60 MB in two seconds, and again later; in ten steps at most 1.5 times the
rate.)
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from execution.journal import Hold
from execution.observed import Observed, Throttle
from execution.throttles import describe
from execution.wave import Wave
from optimizer.kafka.throttle import FOLLOWER_RATE, LEADER_RATE, LOG_DIR_RATE
from optimizer.units import human_rate

STEPS = 10  # steps up to a higher rate: each adds at most a tenth of it
STEP_SECONDS = 3.0  # seconds between two steps: so the meter forgets most of a step before the last one comes
_RECEIVING = (FOLLOWER_RATE, LOG_DIR_RATE)  # rates that a pause or pressure on the cluster lowers
PAUSED_BYTES_PER_S = 1  # of followers; with a leader's rate of 1 an old replica that falls out of sync would stay out
STOP, CANCEL = "stop", "cancel"
SLOW, HOLD = "slow", "hold"  # reactions to pressure on the cluster; the third is STOP


@dataclass(frozen=True)
class Wanted:
    """The wanted state of a wave.

    Parameters
    ----------
    copy_bytes_per_s : int or None
        Rate of the copies of each broker, without live replication; None: the plan's.
    is_paused : bool
        Whether nothing starts and followers have the rate of a pause, 1 byte per second.
    ending : str
        Empty, ``stop`` (ends after the running copies) or ``cancel``.
    pressure : str
        Empty; ``slow`` (nothing starts, followers copy at half the rate) or ``hold`` (nothing starts), because the
        cluster became worse.
    because : str
        What became worse.
    """

    copy_bytes_per_s: int | None = None
    is_paused: bool = False
    ending: str = ""
    pressure: str = ""
    because: str = ""

    @property
    def holds_back(self) -> bool:
        """Whether nothing is started."""
        return self.is_paused or bool(self.ending or self.pressure)

    @property
    def is_steered(self) -> bool:
        """Whether an operator wants that nothing is started."""
        return self.is_paused or bool(self.ending)

    def to_json(self) -> str:
        """As text for the journal."""
        return json.dumps(asdict(self))


def describe_wanted(wanted: Wanted) -> str:
    """In words what is wanted of a wave."""
    copy_bytes_per_s = wanted.copy_bytes_per_s
    rate = (
        "the plan's rate of copies"
        if copy_bytes_per_s is None
        else f"{human_rate(copy_bytes_per_s)} of copies for each broker"
    )
    holds = {
        "paused (nothing is started, followers get 1 byte/s)": wanted.is_paused,
        "stopped (nothing more is started, the wave ends after its running copies)": wanted.ending == STOP,
        "cancelled": wanted.ending == CANCEL,
        "held back (nothing is started, followers copy at half the rate)": wanted.pressure == SLOW,
        "held back (nothing is started)": wanted.pressure == HOLD,
    }
    held = [text for text, is_true in holds.items() if is_true] or ["not held back"]
    return "; ".join([*held, f"later {rate}" if wanted.is_paused else rate])


def history(hold: Hold | None) -> list[Wanted]:
    """The wanted states of one hold in order; the first is the plan's."""
    return [Wanted(), *(Wanted(**json.loads(text)) for text in (hold.wanted if hold else ()))]


def rates(wave: Wave, wanted: Wanted) -> dict[Throttle, int]:
    """The wanted rate of each broker: live replication as in the plan, and the wanted rate of copies.

    Rates of moves inside brokers have no live replication.
    """
    result = {}
    for key, value in wave.throttles.items():
        if key[2] in (LEADER_RATE, *_RECEIVING):
            planned = wave.copy_bytes_per_s or 0
            copy = planned if wanted.copy_bytes_per_s is None else wanted.copy_bytes_per_s
            is_slow = wanted.pressure == SLOW and key[2] in _RECEIVING
            rate = int(value) - planned + (copy // 2 if is_slow else copy)
            result[key] = PAUSED_BYTES_PER_S if wanted.is_paused and key[2] in _RECEIVING else rate
    return result


def path(wave: Wave, states: Sequence[Wanted], key: Throttle) -> list[int]:
    """Every value that the commands may give a rate, from the plan's to the wanted one, in this order."""
    targets = [rates(wave, state)[key] for state in states]
    values = targets[:1]
    for position, after in enumerate(targets[1:], start=1):
        values += _ramp(min(targets[:position]), after)
    return values


def own_rates(wave: Wave, states: Sequence[Wanted]) -> dict[Throttle, frozenset[str]]:
    """The values of ``path`` for every rate, as the cluster shows them."""
    return {key: frozenset(map(str, path(wave, states, key))) for key in rates(wave, states[-1])}


def next_rate(wave: Wave, states: Sequence[Wanted], key: Throttle, value: str | None) -> int | None:
    """The next value of a rate on its way to the wanted one; None if it is there, or if somebody else has set it.

    A rate that somebody has removed begins with the lowest value so far.

    The ten steps begin at the lowest rate so far, so no step is larger if a command comes while a rate still rises.
    """
    values = path(wave, states, key)
    target = values[-1]
    if value is None:  # somebody has removed it: the copies run without a limit
        return min(rates(wave, state)[key] for state in states)
    if value == str(target) or value not in map(str, values):
        return None
    if target < int(value):
        return target
    lowest = min(rates(wave, state)[key] for state in states[:-1])
    return next(step for step in _ramp(lowest, target) if step > int(value))


def _ramp(before: int, after: int) -> list[int]:
    """Ten values up to a higher one; a lower one comes at once."""
    if after <= before:
        return [after]
    return [before + (after - before) * step // STEPS for step in range(1, STEPS + 1)]


def next_rates(wave: Wave, states: Sequence[Wanted], now: Observed) -> dict[Throttle, int]:
    """The next value of each rate that has not its wanted one; rates that somebody else has set stay.

    Parameters
    ----------
    states : sequence of Wanted
        The wanted states since the wave holds the cluster, the newest last.
    """
    values = {
        key: next_rate(wave, states, key, now.throttles.get(key))
        for key in rates(wave, states[-1])
        if is_known(key, now)
    }
    return {key: value for key, value in values.items() if value is not None}


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
