"""Where new partitions go: as the next plan would leave them, and where Kafka itself would put them.

New partitions are planned as if they were on brokers that do not exist and that are emptied, while all other partitions
stay where the run's plan leaves them. So racks, pins, closed brokers, disks and bands are those of any plan.
"""

import argparse
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from asking.ask import asked_facts, written
from asking.progress import say_plan
from asking.question import open_brokers
from asking.run_facts import RunFacts, captured, led
from asking.sections import Document, Grid, Section
from asking.wanted_topics import Wanted, wanted_of
from optimizer.cluster_policy import BROKER_LISTS
from optimizer.configuration import build, merge
from optimizer.domain import Cause
from optimizer.errors import ConfigError, KafkaError
from optimizer.kafka.default_assignment import DefaultPlacer, default_placer, place_more, topic_seed
from optimizer.kafka.versions import ADMIN_UTILS, STRIPED
from optimizer.planning.arrays import to_brokers
from optimizer.planning.memory_placement import in_memory
from optimizer.planning.policy.all_rules import instance_of
from optimizer.settings import Settings
from optimizer.solve import driver
from optimizer.units import agree, human_bytes, plural
from stored.runs import StoredRun
from stored.tables import Warehouse

FORMAT = 1  # version of the document
Lists = Mapping[tuple[str, int], Sequence[int]]  # replicas in order by topic and partition
_SPREADS = (1.0, 1.5, 2.0, 0.0)  # the most replicas of a topic on a broker, over the mean; 0: as the policy says
_ALGORITHMS = {STRIPED: "KRaft", ADMIN_UTILS: "ZooKeeper"}


@dataclass(frozen=True)
class Placed:
    """The answer.

    Parameters
    ----------
    facts : RunFacts
    wanted : sequence of Wanted
    lists : mapping
        Replicas of each new partition.
    next_bytes : int
        Bytes of the new partitions that the next plan would copy.
    kafka_bytes : mapping of str to (int, int)
        The same after each of Kafka's algorithms: the least and the most over all seeds.
    seeds : int
    racks : mapping of broker to rack
    kafka_cluster_id : str or None
        Kafka's own id of the cluster.
    """

    facts: RunFacts
    wanted: Sequence[Wanted]
    lists: Lists
    next_bytes: int
    kafka_bytes: Mapping[str, tuple[int, int]]
    seeds: int
    racks: Mapping[int, str | None]
    kafka_cluster_id: str | None

    def words(self) -> str:
        """One sentence."""
        each = " and ".join(f"{plural(new.count, 'partition')} of {new.topic}" for new in self.wanted)
        least = min(low for low, _ in self.kafka_bytes.values())
        most = max(high for _, high in self.kafka_bytes.values())
        after = human_bytes(most) if least == most else f"{human_bytes(least)} to {human_bytes(most)}"
        own = f"the next plan would copy {human_bytes(self.next_bytes)} of {agree(len(self.lists), 'it', 'them')}"
        return f"Place {each} as below: {own}, after Kafka's own placement {after}."

    def document(self, file: str = "") -> Document:
        """The sentence, the new partitions, what Kafka would do, and the commands."""
        run = f"{self.facts.cluster_id}: new partitions, after the plan of run {self.facts.run_id}"
        sized = [
            [new.topic, f"{new.first + new.count:,}", f"{new.factor}", human_bytes(new.size_bytes)]
            + [f"{human_bytes(rate)}/s" for rate in (new.in_bytes_per_s, new.out_bytes_per_s)]
            for new in self.wanted
        ]
        header = ["topic", "partitions then", "replicas", "bytes each", "in each", "out each"]
        kafka = [
            f"{_ALGORITHMS[name]}: {human_bytes(low)} to {human_bytes(high)} to copy"
            for name, (low, high) in self.kafka_bytes.items()
        ]
        parts = [f"{topic}-{number}: {self._in_racks(ids)}" for (topic, number), ids in sorted(self.lists.items())]
        create = f"./ballast create {file or 'FILE'} --sha256 {self.sha256[:8]} --cluster {self.facts.cluster_id}"
        to_do = create if file else f"With --to FILE: {create}"
        commands = Grid(["command"], [[command] for command in self.commands()])
        sections = [
            Section("Expected", [Grid(header, sized)]),
            Section("Replicas, the preferred leader first", parts),
            Section(f"Kafka's own placement, {plural(self.seeds, 'seed')}", kafka),
            Section("To create them", [to_do, "Or with Kafka's tool:", commands]),
        ]
        return Document(self.words(), [f"{run}{captured(self.facts)}"], sections)

    def commands(self) -> Iterator[str]:
        """A command of ``kafka-topics.sh`` for each topic.

        For an old topic the tool wants lists of all partitions, and drops those of the partitions that are there.
        """
        for new in self.wanted:
            own = [self.lists[new.topic, number] for number in range(new.first, new.first + new.count)]
            # The tool drops the lists of old partitions, but wants as many, and all of one length.
            lists = ",".join(":".join(map(str, ids)) for ids in (*([own[0]] * new.first), *own))
            tool = 'kafka-topics.sh --bootstrap-server "$BOOTSTRAP"'
            what, count = ("--alter", f" --partitions {new.first + new.count}") if new.first else ("--create", "")
            yield f"{tool} {what} --topic {new.topic}{count} --replica-assignment {lists}"

    def content(self) -> str:
        """The document for ``./ballast create``: which partitions get which replicas."""
        topics = [
            {
                "topic": new.topic,
                "first": new.first,
                "replicas": [list(self.lists[new.topic, new.first + number]) for number in range(new.count)],
            }
            for new in self.wanted
        ]
        key = {"format": FORMAT, "cluster_id": self.facts.cluster_id, "run_id": self.facts.run_id}
        key |= {"kafka_cluster_id": self.kafka_cluster_id}
        return json.dumps({**key, "topics": topics}, indent=1) + "\n"

    @property
    def sha256(self) -> str:
        """Of the document."""
        return hashlib.sha256(self.content().encode()).hexdigest()

    def as_json(self) -> str:
        """One line with all of it."""
        content = {
            **json.loads(self.content()),
            "headline": self.words(),
            "next_bytes": self.next_bytes,
            "kafka_bytes": {name: list(ends) for name, ends in self.kafka_bytes.items()},
            "seeds": self.seeds,
            "expected": [vars(new) | {"existing": None} for new in self.wanted],
            "commands": [*self.commands()],
            "sha256": self.sha256,
        }
        return json.dumps(content)

    def _in_racks(self, ids: Iterable[int]) -> str:
        return ", ".join(f"{b} ({self.racks[b]})" if self.racks.get(b) else f"{b}" for b in ids)


def place_lines(options: argparse.Namespace, warehouse: Warehouse) -> Iterator[str]:
    """Lines about new partitions.

    Raises
    ------
    BallastError
        When the run cannot be asked, or the partitions cannot be placed.
    """
    facts = asked_facts(options, warehouse)
    stored = StoredRun(warehouse, facts.run_id, facts.cluster_id)
    plan = stored.required_frame("plan", "topic", "partition", "proposed_replicas")
    ids = [row["kafka_cluster_id"] for row in stored.rows("sources", "kafka_cluster_id") if row["kafka_cluster_id"]]
    found = place(facts, plan, wanted_of(options, facts), options.seeds, next(iter(ids), None))
    if options.to:
        Path(options.to).write_text(found.content(), encoding="utf-8")
    yield from written(options, found.document(options.to or ""), found.as_json)


def place(
    facts: RunFacts, plan: pd.DataFrame, wanted: Sequence[Wanted], seeds: int, kafka_cluster_id: str | None = None
) -> Placed:
    """Place new partitions.

    Parameters
    ----------
    plan : DataFrame
        Rows of ``plan`` of the run: new partitions are placed beside its proposed lists.
    seeds : int
        How often each of Kafka's algorithms is tried.

    Raises
    ------
    ConfigError
        When a topic cannot be placed.
    """
    after = _after_the_plan(facts, plan)
    base = _Base(facts, after, wanted)
    lists, next_bytes = base.placed()
    brokers = open_brokers(facts.brokers)
    ends: dict[str, tuple[int, int]] = {}
    for algorithm in _ALGORITHMS:
        placer = default_placer(algorithm, brokers)
        say_plan(f"{plural(seeds, 'placement')} by Kafka ({_ALGORITHMS[algorithm]})")
        try:
            drawn = {_key(each): each for each in (_by_kafka(placer, facts, wanted, seed) for seed in range(seeds))}
        except KafkaError:  # such as racks on only some brokers, which the older algorithm refuses
            continue
        found = [base.next_bytes(each) for each in drawn.values()]
        ends[algorithm] = min(found), max(found)
    racks = {int(b): rack for b, rack in zip(facts.brokers["broker_id"], facts.brokers["rack"], strict=True)}
    return Placed(facts, wanted, lists, next_bytes, ends, seeds, racks, kafka_cluster_id)


def _key(lists: Lists) -> str:
    return json.dumps(sorted((*key, *ids) for key, ids in lists.items()))


def _by_kafka(placer: DefaultPlacer, facts: RunFacts, wanted: Sequence[Wanted], seed: int) -> Lists:
    """Kafka's placement of all new partitions with one seed."""
    drawn = {
        new: place_more(
            placer, new.topic, new.existing, new.count, new.factor, topic_seed(seed, facts.cluster_id, new.topic)
        )
        for new in wanted
    }
    return {(new.topic, new.first + at): ids for new, lists in drawn.items() for at, ids in enumerate(lists)}


def _after_the_plan(facts: RunFacts, plan: pd.DataFrame) -> pd.DataFrame:
    """The partitions where the run's plan leaves them; all replicas are in sync, and the first one leads."""
    rows = facts.partitions.merge(plan, on=["topic", "partition"], how="left", validate="1:1")
    lists = rows["proposed_replicas"].where(rows["proposed_replicas"].notna(), rows["replicas"])
    return led(rows.drop(columns="proposed_replicas"), [[int(b) for b in ids] for ids in lists])


@dataclass(frozen=True)
class _Base:
    """The cluster after the run's plan, and the partitions that are added to it."""

    facts: RunFacts
    partitions: pd.DataFrame
    wanted: Sequence[Wanted]

    def placed(self) -> tuple[Lists, int]:
        """The new partitions, and the bytes of them that the next plan would copy.

        The most even placement of which it would copy nothing; if there is none, the one of which it would copy least.
        """
        tried: list[tuple[int, Lists]] = []
        for spread in _SPREADS:
            lists = self._spread(spread)
            tried += [(self.next_bytes(lists), lists)] if lists else []
            if tried and not tried[-1][0]:
                break
        if not tried:
            count = sum(new.count for new in self.wanted)
            raise ConfigError(
                f"no broker has room for some of {plural(count, 'new partition')}: free disk space, or give fewer "
                "partitions, replicas or bytes"
            )
        copied_bytes, lists = min(tried, key=lambda pair: pair[0])
        return lists, copied_bytes

    def _spread(self, spread: float) -> Lists | None:
        """A plan that empties brokers which do not exist; None if it cannot.

        Parameters
        ----------
        spread : float
            The most replicas, and the most leaders, of a topic on a broker, over the mean; 0: as the policy says.
        """
        brokers, most = self.facts.brokers, max(new.factor for new in self.wanted)
        first = int(brokers["broker_id"].max()) + 1
        ids = [*range(first, first + most)]
        keys = [(new, number) for new in self.wanted for number in range(new.first, new.first + new.count)]
        lists = {(n.topic, number): [ids[(number + at) % most] for at in range(n.factor)] for n, number in keys}
        nowhere = brokers.iloc[[0] * most].assign(
            broker_id=ids, state="alive", holds=True, closed_cause=None, closed_reason=None
        )
        spreads = {name: spread for name in ("topic_spread", "topic_leader_spread") if spread}
        settings = self._settings(ids, **spreads)
        found = self._solve(lists, pd.concat([brokers, nowhere], ignore_index=True), settings)
        return None if any({*replicas} & {*ids} for replicas in found.values()) else found

    def next_bytes(self, lists: Lists) -> int:
        """Bytes that the next plan would copy of the new partitions, if they were here and all others stayed."""
        found = self._solve(lists, self.facts.brokers, self._settings([]))
        size = {new.topic: new.size_bytes for new in self.wanted}
        return sum(size[key[0]] * len({*replicas} - {*lists[key]}) for key, replicas in found.items())

    def _settings(self, nowhere: Sequence[int], **policy: Any) -> Settings:
        """The run's settings without limits; with brokers that do not exist only these are emptied, of all topics."""
        content, [requests] = self.facts.content, self.facts.settings.cluster_policies().values()
        unlimited = {"max_moved_gb": 0.0, "max_moves": 0, "only": ""}
        of_all = {**{name: [] for name in BROKER_LISTS}, **unlimited, **policy}
        lists = {name: [*requests.brokers(name)] for name in BROKER_LISTS}
        if nowhere:
            excluded = sorted({*requests.exclude_brokers, *requests.drain_brokers})
            lists |= {"drain_brokers": [*nowhere], "exclude_brokers": excluded}
            of_all |= {"start_at": 0.0, "topics": [], "exclude_topics": []}
        merged = merge(content, {"policy": of_all})
        [table] = merged["clusters"]
        return build({**merged, "clusters": [{**table, **unlimited, **lists}]})

    def _solve(self, lists: Lists, brokers: pd.DataFrame, settings: Settings) -> Lists:
        """The lists of the new partitions in the plan that may change nothing else."""
        holding = {b for ids in (*self.partitions["replicas"], *lists.values()) for b in ids}
        brokers = brokers.assign(holds=brokers["broker_id"].isin(holding))
        rows = pd.concat([self.partitions, self._rows(lists)], ignore_index=True)
        instance, hosts = instance_of(rows, brokers, settings, self.facts.cluster_id)
        is_new = pd.MultiIndex.from_frame(instance[["topic", "partition"]]).isin([*lists])
        stays = instance["fixed_cause"].fillna(Cause.TOPIC_EXCLUDED.value)
        fixed = {"mobility": instance["mobility"].where(is_new, "fixed")}
        instance = instance.assign(**fixed, fixed_cause=instance["fixed_cause"].where(is_new, stays))
        cluster_id = self.facts.cluster_id
        placement = in_memory(instance, {cluster_id: to_brokers(hosts)})
        started = [cluster_id] if self.facts.has_started else []
        proposal = driver.solve(placement, settings, started=started).tables["proposal"]
        changed = zip(proposal["topic"], proposal["partition"], proposal["replicas"], strict=True)
        return {**lists, **{(topic, int(number)): [*map(int, ids)] for topic, number, ids in changed}}

    def _rows(self, lists: Lists) -> pd.DataFrame:
        """Rows of ``partitions`` for the new ones; what they do not say is as for the topic's own, or the first row."""
        by_topic = {new.topic: new for new in self.wanted}
        templates = self.partitions.drop_duplicates("topic").set_index("topic", drop=False)
        each = [by_topic[topic] for topic, _ in lists]
        like = [new.like or self.partitions["topic"].iloc[0] for new in each]
        rows = (
            templates.loc[like]
            .reset_index(drop=True)
            .assign(
                topic=[topic for topic, _ in lists],
                partition=[number for _, number in lists],
                **{
                    name: [getattr(new, name) for new in each]
                    for name in ("size_bytes", "in_bytes_per_s", "out_bytes_per_s")
                },
                window_in_bytes_per_s=None,
                window_out_bytes_per_s=None,
            )
        )
        return led(rows, [*lists.values()])
