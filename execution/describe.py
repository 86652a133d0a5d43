"""The state of a wave in words: progress, brokers that it waits for, throttles."""

from collections.abc import Collection

from execution import preflight
from execution.observed import Observed
from execution.wave import MoveState, Wave
from optimizer.units import agree, plural


def describe_state(wave: Wave, now: Observed) -> str:
    """Progress; while copies run, also dead brokers of these copies, and brokers with unknown throttles."""
    by_state = wave.by_state(now)
    counts = [f"{len(partitions)} {state}" for state, partitions in by_state.items() if partitions]
    in_flight = by_state[MoveState.IN_FLIGHT]
    targets = {broker for partition in in_flight for broker in wave.targets(partition)}
    stay = {broker for partition in in_flight for broker in wave.after[partition]} - targets
    notes = [
        _dead(targets - now.alive, "copies wait for it", "copies wait for them"),
        _dead(stay - now.alive, "keeps its replicas; no copy waits for it", "keep theirs; no copy waits for them"),
    ]
    if in_flight and (silent := wave.silent_brokers(now)):
        notes.append(preflight.describe_silent(silent))
    if unknown := preflight.unknown_brokers(wave, now) & now.alive:
        notes.append(preflight.describe_unknown(unknown))
    line = f"{plural(len(wave.after), 'partition')}, {', '.join(counts)}"
    return "; ".join((line, *filter(None, notes)))


def _dead(brokers: Collection[int], one: str, several: str) -> str:
    if not brokers:
        return ""
    joint = ", " if one.startswith("copies") else " and "
    are = agree(len(brokers), "is", "are")
    return f"{preflight.broker_names(brokers)} {are} not alive{joint}{agree(len(brokers), one, several)}"


def describe_throttles(wave: Wave, now: Observed) -> str:
    """How many throttles are set; those of dead and silent brokers and of deleted topics are unknown."""
    unknown = [key for key in sorted(wave.throttles) if not (now.exists(*key[:2]) and now.has_configs(*key[:2]))]
    known = len(wave.throttles) - len(unknown)
    rest = f"; unknown, or gone: {', '.join(' '.join(key) for key in unknown)}" if unknown else ""
    return f"throttles set: {known - len(wave.unset(now))} of {len(wave.throttles)}{rest}"
