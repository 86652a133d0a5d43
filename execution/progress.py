"""How far the copies of a wave are: bytes left, rate, and whether they get on at all.

Kafka reports no lag of a replica that is being copied: ``offset_lag`` is 0 for each. What is left is the leader's size
now minus the replica's size now. Sizes also fall, by retention and compaction. A copy that skips what is in tiered
storage is as large as planned, not as its leader.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from execution import preflight
from execution.observed import RUNNING, Observed, Place, Stored, TopicPartition, size_of
from execution.wave import MoveState, Wave
from optimizer.units import agree, first_of, human_bytes, human_time, plural


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
    unset = wave.unset(now)
    missing = f"; not set: {first_of([' '.join(key) for key in unset])}" if unset else ""
    return f"throttles set: {known - len(unset)} of {len(wave.throttles)}{missing}{rest}"


RATE_SECONDS = 10.0  # Kafka copies in steps of 1 MiB: 4 MB/s read as 2.9 to 6.0 over 2 s, as 3.5 to 4.1 over 10 s
STEP_BYTES = 2**20  # least answer to a fetch: a smaller change of what is left is no progress
# Rates are advised so that the copies end in this time.
_ADVISED_SECONDS = 3600.0

Copy = tuple[str, int, int]  # topic, partition and the broker that gets a replica


@dataclass(frozen=True)
class CopySize:
    """Bytes of one running copy: of the leader's replica, or of the part of it that is copied, and of the new replica.

    If a replica moves inside its broker, it is copied from itself instead of the leader.
    """

    leader_bytes: int
    replica_bytes: int

    @property
    def left_bytes(self) -> int:
        """What is still to be copied."""
        return max(0, self.leader_bytes - self.replica_bytes)


def brokers_of(wave: Wave, now: Observed) -> set[int]:
    """Living brokers that send or receive: leaders and targets of the partitions that move or wait."""
    if wave.inside:
        return {broker for _, _, broker in wave.inside} & now.alive
    by_state = wave.by_state(now)
    partitions = [*by_state[MoveState.IN_FLIGHT], *by_state[MoveState.NOT_STARTED]]
    ends = {broker for partition in partitions for broker in (*wave.added(partition), now.leaders[partition])}
    return {broker for broker in ends if broker is not None and broker in now.alive}


def running_copies(wave: Wave, now: Observed, stored: Stored) -> dict[Copy, CopySize]:
    """The sizes of each running copy; a copy is missing if its leader or its target does not answer.

    A target that answers has 0 bytes until the replica is there.
    """
    if wave.inside:
        return {
            replica: CopySize(stored.size_bytes[replica], stored.moving[replica][1])
            for replica in wave.replicas_at(now, *RUNNING)
            if replica in stored.size_bytes and replica in stored.moving
        }
    result = {}
    for partition in wave.by_state(now)[MoveState.IN_FLIGHT]:
        leader_bytes = size_of(partition, now, stored)
        for broker in stored.answered.intersection(wave.added(partition)) if leader_bytes is not None else ():
            replica_bytes = stored.size_bytes.get((*partition, broker), 0)
            result[*partition, broker] = CopySize(_copy_bytes(wave, partition, broker, leader_bytes), replica_bytes)
    return result


def _copy_bytes(wave: Wave, partition: TopicPartition, broker: int, leader_bytes: int | None) -> int:
    """Bytes of a copy from a leader of this size; 0 if the size is unknown."""
    return min(leader_bytes or 0, wave.copy_bytes.get((*partition, broker), leader_bytes or 0))


def waiting_bytes(wave: Wave, now: Observed, stored: Stored) -> Counter[int]:
    """What the partitions that wait will copy, by target."""
    result: Counter[int] = Counter()
    for replica in wave.replicas_at(now, Place.OLD):
        result[replica[2]] += stored.size_bytes.get(replica, 0)
    for partition in () if wave.inside else wave.by_state(now)[MoveState.NOT_STARTED]:
        for broker in wave.added(partition):
            result[broker] += _copy_bytes(wave, partition, broker, size_of(partition, now, stored))
    return result


def left_seconds(
    copies: Mapping[Copy, CopySize], waiting: Mapping[int, int], rates_bytes_per_s: Mapping[int, float]
) -> float | None:
    """Time left at the present rates: that of the slowest target; None if a running copy gains nothing.

    A target that only waits gets the mean rate of the others.

    Parameters
    ----------
    waiting : mapping of broker to bytes
        What has not begun, by target.
    rates_bytes_per_s : mapping of broker to rate
        What each target gains.
    """
    left, running = Counter(dict(waiting)), set[int]()
    for (_, _, broker), size in copies.items():
        left[broker] += size.left_bytes
        if size.left_bytes:
            running.add(broker)
    known = [rate for rate in rates_bytes_per_s.values() if rate]
    if not known or any(not rates_bytes_per_s.get(broker) for broker in running):
        return None
    mean = sum(known) / len(known)
    return max((size_bytes / (rates_bytes_per_s.get(b) or mean) for b, size_bytes in left.items()), default=0.0)


def unknown_sizes(wave: Wave, now: Observed, stored: Stored, copies: Collection[Copy]) -> int:
    """How many copies run or wait without a known size, because a leader or a target does not answer.

    Parameters
    ----------
    copies : collection of Copy
        Those of ``running_copies``, whose sizes are known.
    """
    if wave.inside:
        return len(wave.replicas_at(now, *RUNNING, Place.UNKNOWN)) - len(copies)
    by_state = wave.by_state(now)
    running = sum(len(wave.added(partition)) for partition in by_state[MoveState.IN_FLIGHT])
    leaderless = [p for p in by_state[MoveState.NOT_STARTED] if size_of(p, now, stored) is None]
    return running - len(copies) + sum(len(wave.added(partition)) for partition in leaderless)


def describe_unknown(copies: int) -> str:
    """What follows the bytes that are left; empty if all sizes are known."""
    return f"; {agree(copies, 'size of 1 copy', f'sizes of {copies} copies')} unknown" if copies else ""


@dataclass(frozen=True)
class Gauge:
    """The sizes of running copies at the last looks; tells their rate and how long nothing has got on.

    ``_since`` is the look since when nothing has got on.
    """

    _looks: tuple[tuple[float, Mapping[Copy, CopySize]], ...] = ()
    _since: tuple[float, Mapping[Copy, CopySize]] | None = None
    _least_bytes: int = 0

    def seen(self, at_seconds: float, copies: Mapping[Copy, CopySize]) -> "Gauge":
        """After one more look at all running copies."""
        look, since, least_bytes = (at_seconds, copies), self._since, self._least_bytes
        left = sum(size.left_bytes for size in copies.values())
        if since is None or set(since[1]) != set(copies) or left <= least_bytes - STEP_BYTES:
            since, least_bytes = look, left
        looks = (*self._looks, look)
        while len(looks) > 2 and at_seconds - looks[1][0] >= RATE_SECONDS:
            looks = looks[1:]
        return Gauge(looks, since, least_bytes)

    @property
    def idle_seconds(self) -> float:
        """How long no copy has begun or ended, and what is left has not become less."""
        return self._looks[-1][0] - self._since[0] if self._since and self._looks else 0.0

    @property
    def rate_bytes_per_s(self) -> float:
        """What all running copies gain in a second; the mean of the last ten seconds."""
        return sum(self.rates_bytes_per_s.values())

    @property
    def rates_bytes_per_s(self) -> dict[int, float]:
        """The same for each target."""
        (first, before), (last, after) = self._looks[0], self._looks[-1]
        gained: Counter[int] = Counter()
        for copy, size in after.items():
            if copy in before:
                gained[copy[2]] += max(0, size.replica_bytes - before[copy].replica_bytes)
        return {broker: gain / (last - first) for broker, gain in gained.items()} if last > first else {}

    def last_gain_bytes(self, copy: Copy) -> int:
        """What a copy has gained since the look before the last."""
        if len(self._looks) < 2:
            return 0
        (_, before), (_, after) = self._looks[-2], self._looks[-1]
        return after[copy].replica_bytes - before[copy].replica_bytes if copy in before else 0

    def stalled(self) -> Iterator[str]:
        """For each copy what is left, its gain and the leader's growth; for each broker the rate that would do."""
        assert self._since is not None
        (begun, before), (last, after) = self._since, self._looks[-1]
        seconds = max(last - begun, 1.0)
        needed: dict[int, float] = {}
        for (topic, number, broker), size in sorted(after.items()):
            earlier = before[topic, number, broker]
            growth = size.leader_bytes - earlier.leader_bytes
            yield (
                f"{topic}-{number} to broker {broker}: {human_bytes(size.left_bytes)} left; in "
                f"{human_time(seconds)} the copy gained {human_bytes(size.replica_bytes - earlier.replica_bytes)}, "
                f"its leader grew by {human_bytes(growth)}"
            )
            rate = max(0, growth) / seconds + size.left_bytes / _ADVISED_SECONDS
            needed[broker] = needed.get(broker, 0.0) + rate
        for broker, rate in sorted(needed.items()):
            if round(rate) == 0:
                continue
            yield (
                f"broker {broker}: {human_bytes(round(rate))}/s for these copies would end them in "
                f"{human_time(_ADVISED_SECONDS)}"
            )
