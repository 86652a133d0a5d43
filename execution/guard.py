"""Whether the cluster is worse than it was when a wave began, and how the wave has to react. Pure: it only compares."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from execution import preflight
from execution.health import FULL, GONE, PARTITION_KINDS, Baseline, Sign, by_worst_kind, signs
from execution.observed import Observed, TopicPartition
from execution.wanted import STOP, Wanted
from execution.wave import Wave
from optimizer.units import agree, clause

# The wave goes on when nothing was wrong for this time; twice as long each time, so that a broker that flaps does not
# fill the journal.
_QUIET_SECONDS, _MOST_QUIET_SECONDS = 60.0, 3600.0


@dataclass(frozen=True)
class Guard:
    """What the looks at the cluster so far have shown, compared with the baseline.

    Brokers and partitions count when two looks in a row show the same: metadata and reassignments are two answers, and
    a move may end in between.

    Parameters
    ----------
    baseline : Baseline
    min_isr : mapping of topic to int
        ``min.insync.replicas`` of topics that do not have Kafka's default of 1.
    on_pressure : str
        What the wave does while the cluster is worse: slow, hold or stop.
    worse : frozenset of Sign
        What was worse at the last look.
    kinds : frozenset of str
        The kinds of signs that were worse since the wave went on.
    lifted : frozenset of TopicPartition
        The wave's partitions that were worse since the wave went on.
    """

    baseline: Baseline
    min_isr: Mapping[str, int]
    on_pressure: str
    worse: frozenset[Sign] = frozenset()
    kinds: frozenset[str] = frozenset()
    lifted: frozenset[TopicPartition] = frozenset()
    _signs: frozenset[Sign] = frozenset()
    _worse_at: float | None = None
    _quiet_seconds: float = _QUIET_SECONDS

    def seen(self, wave: Wave, now: Observed, full: frozenset[Sign], at_seconds: float) -> "Guard":
        """After one more look; ``full`` are the directories that are over their limit."""
        found = frozenset(signs(now, self.min_isr, brokers=self.baseline.alive))
        worse = (found & self._signs | full) - self.baseline.signs
        partitions = {(name, number) for kind, name, number in worse if kind in PARTITION_KINDS}
        return replace(
            self,
            worse=worse,
            kinds=self.kinds | {kind for kind, _, _ in worse},
            lifted=self.lifted | (partitions & wave.after.keys()),
            _signs=found,
            _worse_at=at_seconds if worse or self._worse_at is None else self._worse_at,
        )

    def reaction(self, wanted: Wanted, at_seconds: float) -> tuple[Wanted, "Guard"]:
        """What the wave has to do now, and the guard after it."""
        if self.worse:
            because = "; ".join(describe_signs(self.worse))
            if self.on_pressure == STOP:
                return (wanted if wanted.ending else replace(wanted, ending=STOP, because=because)), self
            return (wanted if wanted.pressure else replace(wanted, pressure=self.on_pressure, because=because)), self
        if wanted.pressure and at_seconds - (self._worse_at or 0.0) >= self._quiet_seconds:
            quiet_seconds = min(2 * self._quiet_seconds, _MOST_QUIET_SECONDS)
            calm = replace(self, kinds=frozenset(), lifted=frozenset(), _quiet_seconds=quiet_seconds)
            return replace(wanted, pressure="", because=""), calm
        return wanted, self


def describe_signs(worse: frozenset[Sign]) -> list[str]:
    """What became worse, one line of each kind."""
    lines = []
    if gone := sorted(number for kind, _, number in worse if kind == GONE):
        lines.append(f"{preflight.broker_names(gone)} {agree(len(gone), 'is', 'are')} not alive any more")
    for kind, partitions in by_worst_kind(worse).items():
        became = clause(len(partitions), "partition", "is", "are")
        lines.append(f"{became} {kind} since the wave began: {preflight.partition_names(partitions)}")
    lines += [f"{path} of broker {broker} is over its limit" for kind, path, broker in sorted(worse) if kind == FULL]
    return lines
