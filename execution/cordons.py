"""Keeps new replicas off the brokers that a plan empties, by their config ``cordoned.log.dirs`` (KIP-1066, Kafka 4.3).

A cordon belongs to the plan, not to a wave. It stays after the last wave, a kill and a cancel. A rollback ends it
before its first copy, because Kafka puts all that a cordoned broker gets into its first directory; so does
``./ballast uncordon``.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from execution.admin import Admin
from execution.journal import Journal, WaveId
from execution.observed import Observed, Throttle, TopicPartition
from execution.planned import Plan, in_words
from execution.preflight import broker_names, partition_names
from execution.throttles import Entry
from execution.throttling import Left, remove_throttles, set_throttles
from optimizer.kafka.cordon import ALL_DIRS, CORDON, LEAST_METADATA_LEVEL
from optimizer.units import agree, plural
from stored.cordons import CORDONED, CORDONING, UNCORDONED, Cordon

# A broker tells the controller in a heartbeat, every two seconds: three of them, and once 4 s were measured.
_TRIES, _PAUSE_SECONDS = 12, 0.5


@dataclass(frozen=True)
class Cordons:
    """The cordons of one plan.

    Parameters
    ----------
    is_wanted : bool
        Whether the configuration allows cordons.
    accepts_risk : bool
        Whether to cordon although new topics then break racks or cannot be created.
    say_once : callable
        Gets each line; says it once.
    """

    admin: Admin
    journal: Journal
    plan: Plan
    say_once: Callable[[str], None]
    is_wanted: bool = True
    accepts_risk: bool = False

    @property
    def own(self) -> dict[int, Cordon]:
        """Those of this plan that are in force."""
        cordons = self.journal.look().cordons
        return {broker: cordon for broker, cordon in cordons.items() if cordon.run_id == self.plan.run_id}

    def due(self, now: Observed) -> list[int]:
        """Living brokers that the plan empties, and that are not yet cordoned by it, nor by anybody else."""
        if not self.is_wanted:
            return []
        last = self.journal.look().last_cordons
        return [b for b in self.plan.drain_brokers if b in now.alive and self._is_due(last.get(b), now.cordoned.get(b))]

    def _is_due(self, last: Cordon | None, value: str | None) -> bool:
        if last is None or not last.is_in_force:  # if it has the value, somebody else has set it
            is_ended = last is not None and last.run_id == self.plan.run_id and last.is_ended_by_hand
            return value != ALL_DIRS and not is_ended
        # Of an earlier plan: this one takes it over, with the value before.
        return last.run_id != self.plan.run_id or not last.is_set

    def problems(self, now: Observed) -> list[str]:
        """Why the cluster should keep these brokers open, one line each; empty if it is safe, or accepted."""
        due = self.due(now)
        if not due or self.accepts_risk or not self._is_known_to_kafka():
            return []
        left = {broker for broker in now.alive if now.cordoned.get(broker) != ALL_DIRS} - {*due}
        remedy = '; give --cordon-anyway, or set [execution] cordon = "off"'
        closed = {now.racks[b] for b in due if now.racks.get(b)} - {now.racks.get(b) for b in left}
        lines = [
            f"with {broker_names(due)} cordoned, rack {rack} has no broker for replicas of new topics{remedy}"
            for rack in sorted(filter(None, closed))
        ]
        topic, most = max(((p[0], len(r)) for p, r in now.replicas.items()), key=lambda pair: pair[1], default=("", 0))
        if len(left) < most:
            lines.append(
                f"with {broker_names(due)} cordoned, {plural(len(left), 'broker')} would be open, but topic {topic} "
                f"has {plural(most, 'replica')}: Kafka would refuse such topics{remedy}"
            )
        return lines

    def changes(self, now: Observed) -> list[str]:
        """What ``set`` would change, for people; nothing if Kafka is too old."""
        due = self.due(now)
        if due and not self._is_known_to_kafka():
            return [self._too_old(due)]
        return [f"would set brokers {broker} {CORDON}={ALL_DIRS}" for broker in due]

    def set(self, wave: WaveId, now: Observed) -> list[int]:
        """Cordon the brokers that are due, and wait until the controller knows it.

        The journal has the values before first, so that another process can go on after a kill.

        Returns
        -------
        list of int
            The brokers that are cordoned now.
        """
        self._say_changed(now)
        due = self.due(now)
        if not due:
            return []
        if not self._is_known_to_kafka():
            self.say_once(self._too_old(due))
            return []
        cordons, values = self.journal.look().cordons, self._values(due)
        if not values:
            return []
        before = {broker: _before(cordons.get(broker), value) for broker, value in values.items()}
        content = {"before": before, "kafka_cluster_id": now.kafka_cluster_id}
        self.journal.note(self.plan, CORDONING, content, wave)
        entries = {_key(broker): Entry(value, ALL_DIRS) for broker, value in before.items()}
        refused = set_throttles(self.admin, entries, replace(now, throttles=_present(values)))
        for line in refused:
            self.say_once(f"not cordoned: {line}")
        seen = self._values(values)  # a broker that does not answer now may have it
        done = [broker for broker, value in seen.items() if value == ALL_DIRS]
        if missing := [broker for broker in seen if broker not in done]:
            self.journal.note(self.plan, UNCORDONED, {"brokers": missing, "refused": refused}, wave)
        if silent := [broker for broker in values if broker not in seen]:
            answer = agree(len(silent), "does not answer any more", "do not answer any more")
            self.say_once(f"{broker_names(silent)} {answer}, so nobody knows whether new topics come there")
        if done:
            is_known = self._wait_for_controller(now, done)
            self.journal.note(self.plan, CORDONED, {"brokers": done, "is_confirmed": is_known}, wave)
            are = agree(len(done), "is", "are")
            confirmed = "" if is_known else " (the controller has not confirmed it)"
            self.say_once(f"{broker_names(done)} {are} cordoned, so new topics get no replica there{confirmed}")
        return done

    def in_no_wave(
        self, brokers: Collection[int], planned: Mapping[TopicPartition, Sequence[int]], now: Observed
    ) -> Iterator[str]:
        """A line for each broker with the partitions that the plan does not take from it, also new ones."""
        for broker in brokers:
            if stay := [p for p, ids in now.replicas.items() if broker in ids and broker in planned.get(p, ids)]:
                names, them = partition_names(stay), agree(len(stay), "it", "them")
                yield f"broker {broker} keeps {names}: no wave of this plan moves {them}; plan again after it"

    def emptied(self, now: Observed, delete_command: Callable[[int], str]) -> Iterator[str]:
        """After the last wave: a line for each broker of the plan, whether it is empty as the cluster is now."""
        for broker in self.plan.drain_brokers:
            if held := [partition for partition, ids in now.replicas.items() if broker in ids]:
                yield f"broker {broker} is not empty, it has {partition_names(held)}: plan again"
            elif broker in self.own:
                yield (
                    f"broker {broker} is empty and cordoned. When you have removed it, delete its config, or a new "
                    f"broker {broker} receives nothing: {delete_command(broker)}; then "
                    f"{uncordon_command(self.plan.cluster_id, broker)} --accept-owed"
                )

    def remove(
        self, brokers: Collection[int], observe: Callable[[], Observed], *, accept_owed: bool, by: str | None = None
    ) -> Left:
        """Give brokers their values from before, where nobody has changed them since.

        Parameters
        ----------
        accept_owed : bool
            Whether the cordons of brokers that do not answer end too, although these keep the config.
        by : str, optional
            Who wants it, if it was a person.
        """
        cordons = self.journal.look().cordons
        entries = {_key(broker): Entry(cordons[broker].before, ALL_DIRS) for broker in brokers}

        def read() -> Observed:
            now = observe()
            values = self._values({broker for broker in brokers if broker in now.alive})
            silent = {broker for broker in brokers if broker in now.alive and broker not in values}
            return replace(now, throttles=_present(values), silent=now.silent | silent)

        left = remove_throttles(self.admin, entries, read)
        stay = brokers_of_lines([*left.refused, *(() if accept_owed else left.owed)])
        if ended := sorted({*brokers} - stay):
            content = {"brokers": ended, "left": [*left.foreign, *left.owed], "by": by}
            self.journal.note(self.plan, UNCORDONED, content)
        return left

    def _say_changed(self, now: Observed) -> None:
        for broker, cordon in self.own.items():
            value = now.cordoned.get(broker)
            if cordon.is_set and broker in now.alive - now.silent and value != ALL_DIRS:
                is_now = f"is {value}" if value else "was removed"
                self.say_once(f"left: somebody else has changed the cordon of broker {broker}: {CORDON} {is_now}")

    def _is_known_to_kafka(self) -> bool:
        return self.admin.metadata_level() >= LEAST_METADATA_LEVEL

    def _too_old(self, brokers: Collection[int]) -> str:
        names = broker_names(brokers)
        return f"not cordoned: Kafka too old (metadata.version below 4.3), so new topics may come to {names}"

    def _values(self, brokers: Collection[int]) -> dict[int, str | None]:
        """The dynamic value of each broker that answers."""
        shown = {broker: self.admin.shown(broker, [_key(broker)]) for broker in sorted(brokers)}
        return {broker: found.get(_key(broker)) for broker, found in shown.items() if found is not None}

    def _wait_for_controller(self, now: Observed, brokers: Collection[int]) -> bool:
        """Whether the controller refuses a topic that would need one of these brokers; nothing is created."""
        # Kafka counts fenced brokers, too.
        left = {b for b in now.alive | now.fenced if now.cordoned.get(b) != ALL_DIRS} - {*brokers}
        for _ in range(_TRIES):
            if self.admin.lacks_brokers(len(left) + 1):
                return True
            time.sleep(_PAUSE_SECONDS)
        return False


def uncordon_command(cluster_id: str, broker: int) -> str:
    """The command that ends a cordon."""
    return f"./ballast uncordon {broker} --cluster {cluster_id}"


def describe_cordons(cluster_id: str, cordons: Mapping[int, Cordon]) -> list[str]:
    """A line for each cordon in force, with the command that ends it."""
    return [
        f"broker {broker} is cordoned by run {cordon.run_id} since {in_words(cordon.since)}: "
        f"{uncordon_command(cluster_id, broker)} ends it"
        for broker, cordon in cordons.items()
    ]


def brokers_of_lines(lines: Iterable[str]) -> set[int]:
    """The brokers that lines of a ``Left`` begin with."""
    return {int(line.split()[1]) for line in lines}


def _before(cordon: Cordon | None, value: str | None) -> str | None:
    """The value to restore: what the journal has, if the broker has a run's own value."""
    return cordon.before if cordon and value == ALL_DIRS else value


def _key(broker: int) -> Throttle:
    return "brokers", str(broker), CORDON


def _present(values: Mapping[int, str | None]) -> dict[Throttle, str]:
    return {_key(broker): value for broker, value in values.items() if value is not None}
