"""Holds a running wave back while the cluster is worse than it was when the wave began."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from execution import claims, preflight
from execution.health import FULL, GONE, PARTITION_KINDS, Baseline, Sign, by_worst_kind, signs
from execution.observed import Observed, Throttle, TopicPartition
from execution.steps import Execution
from execution.throttles import leader_elements
from execution.wanted import SLOW, STOP, Wanted
from optimizer.units import agree, clause

# The wave goes on when nothing was wrong for this time; twice as long each time, so that a broker that flaps does not
# fill the journal.
_QUIET_SECONDS, _MOST_QUIET_SECONDS = 60.0, 3600.0
_DIRECTORY_SECONDS = 60.0  # seconds between two looks at the directories of all brokers


@dataclass
class Guard:
    """Compares every look at the cluster with the baseline, and says how the wave has to react.

    Brokers and partitions count when two looks in a row show the same: metadata and reassignments are two answers, and
    a move may end in between. ``_lifted`` are the partitions that were worse since the wave is held back.

    Parameters
    ----------
    step : Execution
    baseline : Baseline
    min_isr : mapping of topic to int
        ``min.insync.replicas`` of topics that do not have Kafka's default of 1.
    """

    step: Execution
    baseline: Baseline
    min_isr: Mapping[str, int]
    _signs: frozenset[Sign] = frozenset()
    _worse: frozenset[Sign] = frozenset()  # at the last look
    _worse_at: float | None = None
    _full: frozenset[Sign] = frozenset()
    _full_at: float | None = None
    _quiet_seconds: float = _QUIET_SECONDS
    _said: set[str] = field(default_factory=set)  # kinds
    _lifted: set[TopicPartition] = field(default_factory=set)

    def look(self, now: Observed, at_seconds: float) -> None:
        """Compare a look with the baseline; once a minute the directories of all brokers too."""
        step = self.step
        if step.disk_headroom and (self._full_at is None or at_seconds - self._full_at >= _DIRECTORY_SECONDS):
            self._full_at = at_seconds
            self._full = frozenset(step.full_directories(now))
        found = frozenset(signs(now, self.min_isr, brokers=self.baseline.alive))
        self._worse = (found & self._signs | self._full) - self.baseline.signs
        self._signs = found
        self._lifted |= self._of_wave()
        if self._worse or self._worse_at is None:
            self._worse_at = at_seconds
        kinds = {kind for kind, _, _ in self._worse}
        if kinds - self._said:
            self._said |= kinds
            for line in describe_signs(self._worse):
                step.say(f"{step.name}: {line}")

    def reaction(self, wanted: Wanted, at_seconds: float) -> Wanted:
        """What the wave has to do now."""
        if self._worse:
            because = "; ".join(describe_signs(self._worse))
            if self.step.on_pressure == STOP:
                return wanted if wanted.ending else replace(wanted, ending=STOP, because=because)
            return wanted if wanted.pressure else replace(wanted, pressure=self.step.on_pressure, because=because)
        if wanted.pressure and at_seconds - (self._worse_at or 0.0) >= self._quiet_seconds:
            self._quiet_seconds = min(2 * self._quiet_seconds, _MOST_QUIET_SECONDS)
            self._said.clear()
            self._lifted.clear()
            return replace(wanted, pressure="", because="")
        return wanted

    def lifted(self, wanted: Wanted) -> dict[Throttle, set[str]]:
        """What is taken out of the lists of leaders, so that old replicas that fell out of sync catch up."""
        if wanted.pressure != SLOW:
            return {}
        return leader_elements(self._lifted, self.step.wave.throttles, self.step.wave.previous_throttles)

    def _of_wave(self) -> set[TopicPartition]:
        """Partitions of the wave that are worse."""
        some = {(name, number) for kind, name, number in self._worse if kind in PARTITION_KINDS}
        return some & self.step.wave.after.keys()

    def record(self, reaction: Wanted) -> None:
        """Write a reaction to the journal; what operators want meanwhile stays."""

        def text() -> str:
            newest = self.step.wanted_states()[-1]
            ending = newest.ending or reaction.ending
            return replace(newest, pressure=reaction.pressure, because=reaction.because, ending=ending).to_json()

        claims.record_wanted(self.step.warehouse, self.step.plan, self.step.wave.number, text)


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
