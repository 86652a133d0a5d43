"""The state of the wave that holds a cluster, with its bytes: for people, and as JSON."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from execution.cordons import describe_cordons
from execution.held import wave_ends
from execution.in_charge import is_alive, on_other_host
from execution.journal import Ledger, wave_id
from execution.observed import Observed, Place
from execution.planned import in_words
from execution.progress import (
    Copy,
    CopySize,
    Gauge,
    describe_state,
    describe_throttles,
    describe_unknown,
    left_seconds,
    running_copies,
    unknown_sizes,
    waiting_bytes,
)
from execution.steps import Execution
from execution.throttles import describe, follower_elements
from execution.wanted import Wanted, describe_wanted, foreign
from execution.wave import MoveState, Wave
from optimizer.kafka.throttle import FOLLOWER_RATE, LOG_DIR_RATE
from optimizer.units import human_bytes, human_percent, human_predicted, human_rate, human_time, plural
from stored.runs import StoredRuns
from stored.tables import Warehouse
from stored.verdicts import Refused

LOOK_SECONDS = 5.0  # between the two looks that tell the rate
_SLOWEST = 5  # copies that are listed


# Number and state of a wave; its predicted seconds, the least and the most.
_PlanWave = tuple[int, str, float | None, float | None, float | None]


@dataclass(frozen=True)
class Status:
    """The wave that holds a cluster.

    Parameters
    ----------
    partitions : mapping of state to count
    copied_bytes, left_bytes : int
        Of all copies of the wave with a known size: by the sizes of the replicas now.
    unknown_copies : int
        Copies without a known size, because a broker does not answer: they are not in these bytes.
    rate_bytes_per_s : float
        What all running copies gain.
    rates_bytes_per_s : mapping of broker to rate
        What the copies of each target gain.
    throttles_bytes_per_s : mapping of broker to rate
        The rate that each of these brokers has as a follower; live replication of the wave's partitions counts too.
        Of a wave inside brokers: the rate of these moves.
    slowest : list of (topic, partition, broker, bytes left)
        The running copies with most left.
    executed_by : str or None
        The process of ``run``, if it lives.
    state, throttles : str
        In words.
    foreign : list of str
        Throttles of the cluster that are not the wave's.
    held_back : str
        What became worse in the cluster, if nothing is started because of it.
    wanted : Wanted
        What operators want: another rate, a pause, an end.
    plan_waves : list of (int, str, seconds, seconds, seconds)
        Each wave of the plan, its state, and its predicted time, then the least and the most; null if the plan does
        not say.
    left_seconds : float or None
        Time that the slowest target still needs; None if nothing is copied, or if nobody knows how much is left.
    cordoned : list of str
        A line for each broker that a plan has cordoned.
    """

    cluster_id: str
    run_id: str
    wave: int
    waves: int
    since: str
    executed_by: str | None
    partitions: Mapping[str, int]
    copied_bytes: int
    left_bytes: int
    unknown_copies: int
    rate_bytes_per_s: float
    rates_bytes_per_s: Mapping[int, float]
    slowest: list[tuple[str, int, int, int]]
    state: str
    throttles: str
    foreign: list[str]
    held_back: str
    wanted: Wanted
    throttles_bytes_per_s: Mapping[int, int]
    plan_waves: list[_PlanWave]
    left_seconds: float | None
    cordoned: list[str]

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    def lines(self) -> Iterator[str]:
        """For people."""
        key, which = f"--run-id {self.run_id} --cluster {self.cluster_id}", f" --wave {-self.wave}"
        command = f"./ballast run {key}" if self.wave > 0 else f"./ballast rollback {key}{which}"
        who = self.executed_by or f"no process ({command} goes on)"
        name = wave_id(self.wave).name
        yield f"cluster {self.cluster_id}: {name} of {self.waves} of run {self.run_id} since {self.since}"
        yield f"executed by: {who}"
        yield self.state
        if self.wanted != Wanted():
            yield f"wanted: {describe_wanted(self.wanted)}"
        yield self._copied()
        if self.rate_bytes_per_s:
            more = "" if self.left_seconds is None else f", about {human_time(self.left_seconds)} more"
            yield f"rate: {human_rate(self.rate_bytes_per_s)}{more}"
        for broker, rate in sorted(self.rates_bytes_per_s.items()):
            limit = self.throttles_bytes_per_s.get(broker)
            yield f"  broker {broker} receives {human_rate(rate)}" + (f" of {human_rate(limit)}" if limit else "")
        for topic, number, broker, left_bytes in self.slowest:
            yield f"  {topic}-{number} to broker {broker}: {human_bytes(left_bytes)} left"
        if self.held_back:
            yield f"held back: {self.held_back}"
        yield self.throttles
        for line in self.foreign:
            yield f"not of this wave: {line}"
        yield from self.cordoned
        for number, state, _, least, most in self.plan_waves:
            predicted = "" if least is None or most is None else f", {human_predicted(least, most)}"
            yield f"wave {number}: {state}{predicted}"

    def _copied(self) -> str:
        """Bytes copied and left; their sum only if all sizes are known."""
        copied, left = human_bytes(self.copied_bytes), human_bytes(self.left_bytes)
        total = self.copied_bytes + self.left_bytes
        if self.unknown_copies:
            return f"copied: {copied}, {left} left{describe_unknown(self.unknown_copies)}"
        share = f" ({human_percent(100 * self.copied_bytes / total)})" if total else ""
        return f"copied: {copied} of {human_bytes(total)}{share}, {left} left"


def status(step: Execution) -> Status:
    """Look twice, some seconds apart if copies run."""
    gauge, now = Gauge(), step.observe_settled()
    copies = running_copies(step.wave, now, stored := step.ends(now))
    gauge = gauge.seen(time.monotonic(), copies)
    if copies:
        time.sleep(LOOK_SECONDS)
        now = step.observe_settled()
        copies = running_copies(step.wave, now, stored := step.ends(now))
        gauge = gauge.seen(time.monotonic(), copies)
    hold, wanted = step.ledger.holder, step.wanted_states()[-1]
    left = sum(size.left_bytes for size in copies.values())
    waiting, rates = waiting_bytes(step.wave, now, stored), gauge.rates_bytes_per_s
    done = finished_copies(step.wave, now)
    ended = _ended_sizes(step, now, done)
    unknown_copies = unknown_sizes(step.wave, now, stored, copies) + len(done) - len(ended)
    return Status(
        cluster_id=step.plan.cluster_id,
        run_id=step.plan.run_id,
        wave=step.wave.id.column,
        waves=len(step.plan.waves),
        since=in_words(hold.last["happened_at"]) if hold else "",
        executed_by=_executed_by(step),
        partitions={str(state): len(some) for state, some in step.wave.by_state(now).items() if some},
        copied_bytes=sum(ended.values()) + sum(size.replica_bytes for size in copies.values()),
        left_bytes=left + sum(waiting.values()),
        unknown_copies=unknown_copies,
        rate_bytes_per_s=gauge.rate_bytes_per_s,
        rates_bytes_per_s=rates,
        slowest=_slowest(copies),
        state=f"{step.wave.id.name}: {describe_state(step.wave, now)}",
        throttles=describe_throttles(step.wave.without(follower_elements(done)), now),
        foreign=_foreign(step, now),
        held_back=wanted.because,
        wanted=wanted,
        throttles_bytes_per_s=_limits(step, now),
        plan_waves=_plan_waves(step),
        left_seconds=None if unknown_copies else left_seconds(copies, waiting, rates),
        cordoned=describe_cordons(step.plan.cluster_id, step.ledger.cordons),
    )


def _limits(step: Execution, now: Observed) -> dict[int, int]:
    """The rate of each broker that gets copies of the wave, as it is now."""
    receiving = (FOLLOWER_RATE, LOG_DIR_RATE)
    rates = {key: now.throttles.get(key) for key in step.wave.throttles if key[2] in receiving}
    return {int(key[1]): int(value) for key, value in rates.items() if value}


def _plan_waves(step: Execution) -> list[_PlanWave]:
    """All waves of the plan, by the journal."""
    plan, own = step.plan, step.wave
    done, ends = step.ledger.executed, wave_ends(step.warehouse, plan)
    result: list[_PlanWave] = []
    for wave in plan.waves:
        is_done = (plan.run_id, plan.cluster_id, wave) in done
        running = "is taken back" if own.is_rollback else "runs"
        state = running if wave == own.number else "done" if is_done else "waits"
        result.append((wave, state, plan.wave_seconds.get(wave), *ends.get(wave, (None, None))))
    return result


def _executed_by(step: Execution) -> str | None:
    if row := on_other_host(step.journal):
        return f"{row['holder']}, if that still runs"
    process = step.ledger.process
    return str(process["holder"]) if process and is_alive(step.journal) else None


def _foreign(step: Execution, now: Observed) -> list[str]:
    """Throttles of others, and rates of the wave that somebody has changed."""
    others = [describe(key, value) for key, value in sorted(now.throttles.items()) if key not in step.wave.throttles]
    return [*others, *foreign(step.wave, step.wanted_states(), now)]


def finished_copies(wave: Wave, now: Observed) -> list[Copy]:
    """Copies that are done: they need no throttle any more."""
    if wave.inside:
        return wave.replicas_at(now, Place.PLANNED)
    return [
        (*partition, broker) for partition in wave.by_state(now)[MoveState.DONE] for broker in wave.added(partition)
    ]


def _ended_sizes(step: Execution, now: Observed, done: Sequence[Copy]) -> dict[Copy, int]:
    """The bytes of the copies that are done, if their brokers answer."""
    stored = step.admin.stored({broker for _, _, broker in done if broker in now.alive})
    return {copy: stored.size_bytes[copy] for copy in done if copy in stored.size_bytes}


def _slowest(copies: Mapping[Copy, CopySize]) -> list[tuple[str, int, int, int]]:
    by_left = sorted(copies.items(), key=lambda pair: (-pair[1].left_bytes, pair[0]))
    return [(*copy, size.left_bytes) for copy, size in by_left[:_SLOWEST]]


def of_journal(warehouse: Warehouse, cluster_id: str, ledger: Ledger) -> dict[str, Any]:
    """What the journal alone knows: the run of its newest row, its waves that are done, and the next one.

    Raises
    ------
    Refused
        When no wave was ever executed.
    """
    if not ledger.rows:
        _ = StoredRuns(warehouse, cluster_id=cluster_id).verdicts  # refuses an unknown cluster
        raise Refused(f"no wave of cluster {cluster_id!r} was ever executed; ./ballast show lists the runs")
    run_id = str(ledger.rows[-1]["run_id"])
    waves = sorted(int(row["wave"]) for row in warehouse.rows("waves", cluster_id=cluster_id, run_id=run_id))
    done = sorted(number for run, _, number in ledger.executed if run == run_id)
    left = [number for number in waves if number not in done]
    holder = ledger.holder.describe() if ledger.holder else None
    rollback = ledger.rollbacks.get(run_id)
    begun = rollback.describe() if rollback else None
    return {
        **{"cluster_id": cluster_id, "run_id": run_id, "waves": len(waves), "done": done},
        **{"next": left[0] if left else None, "holder": holder, "rollback": begun},
        "cordoned": describe_cordons(cluster_id, ledger.cordons),
    }


def journal_lines(known: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    coming = f", next is {known['next']}" if known["next"] else ""
    done = f"run {known['run_id']}: {len(known['done'])} of {plural(known['waves'], 'wave')} done{coming}"
    return [
        f"cluster {known['cluster_id']}: {done}",
        *filter(None, (known["holder"], known["rollback"])),
        *known["cordoned"],
    ]
