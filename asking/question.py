"""What a question changes: requests of the policy, and the cluster itself."""

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from asking.retention import shrunk
from asking.run_facts import SCALED_BY_SIZE, RunFacts, led, resized
from optimizer.cluster_policy import BROKER_LISTS, DRAIN, ClusterPolicy
from optimizer.configuration import build, merge
from optimizer.domain import Cause
from optimizer.errors import ConfigError, KafkaError
from optimizer.given_knobs import knob_of_set
from optimizer.kafka.broker import Broker
from optimizer.kafka.default_assignment import default_placer, place_more, topic_seed
from optimizer.kafka.versions import controller_algorithm
from optimizer.planning.policy.all_rules import instance_of
from optimizer.planning.policy.refusals import known_of
from optimizer.setting_checks import check_pattern
from optimizer.settings import BANDS, Settings
from optimizer.similar import did_you_mean
from optimizer.units import human_bytes, human_time

# Settings that an answer depends on; others belong to jobs.
_SECTIONS = ("policy", "solver", "schedule", "emit")
# Options that change a setting of the policy.
_OWN_OPTIONS = {
    **dict(zip(("drain", "exclude-brokers", "demote"), BROKER_LISTS, strict=True)),
    **{"keep": "drain_brokers", "only": "only"},
}
_RATES = ("in_bytes_per_s", "out_bytes_per_s")
_LOADS = ("size_bytes", *_RATES)
_SIZES = ("size_bytes", *SCALED_BY_SIZE)
_IN_WINDOWS = tuple(f"window_{name}" for name in _RATES)


@dataclass(frozen=True)
class Question:
    """One what-if.

    Parameters
    ----------
    name : str
        Heading of its column.
    added_to : mapping
        Brokers that are added to the lists of the run, by name of ``BROKER_LISTS``.
    keep : tuple of int
        Brokers that are not drained any more.
    only : str or None
        Replaces that of the run; "" for a plan that may change everything.
    knobs : mapping
        Other settings, by section and knob.
    new_brokers, like, racks :
        Ids of new brokers; the broker whose capacities they get; one rack for all of them, or one each.
    disks, racks_of : mapping
        Disk capacity in bytes and rack by broker, other than they are.
    partitions : mapping
        More partitions by topic than it has: Kafka places them, and all get an even share of the topic's loads.
    retention : mapping
        How long topics keep their records, in seconds by pattern of whole names.
    lost_brokers, lost_racks :
        What is dead and does not return.
    size_factor, rate_factor, topics :
        Factors for sizes and rates of the topics that match the pattern; of all topics without one.
    """

    name: str = ""
    added_to: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    keep: tuple[int, ...] = ()
    only: str | None = None
    knobs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    new_brokers: tuple[int, ...] = ()
    like: int | None = None
    racks: tuple[str, ...] = ()
    disks: Mapping[int, int] = field(default_factory=dict)
    racks_of: Mapping[int, str] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    retention: Mapping[str, int] = field(default_factory=dict)
    lost_brokers: tuple[int, ...] = ()
    lost_racks: tuple[str, ...] = ()
    size_factor: float = 1.0  # as they are
    rate_factor: float = 1.0  # as they are
    topics: str = ""

    @property
    def changes_cluster(self) -> bool:
        """Whether the cluster itself differs from that of the run."""
        others = self.new_brokers or self.disks or self.racks_of or self.partitions or self.retention
        return bool(others or self.loses) or self.changes_load

    @property
    def changes_nothing(self) -> bool:
        """Whether the answer is the plan of the run."""
        requests = (any(self.added_to.values()), self.keep, self.only is not None, self.knobs)
        return not (any(requests) or self.changes_cluster)

    @property
    def changes_load(self) -> bool:
        """Whether sizes or rates differ."""
        return (self.size_factor, self.rate_factor) != (1.0, 1.0)

    @property
    def loses(self) -> bool:
        """Whether brokers are lost."""
        return bool(self.lost_brokers or self.lost_racks)

    def words(self) -> str:
        """All that is asked, in words."""
        parts = [f"{VERBS[name]} {_listed(ids)}" for name, ids in self.added_to.items() if ids]
        parts += [f"keep {_listed(self.keep)}"] if self.keep else []
        parts += [f"only {self.only or 'none'}"] if self.only is not None else []
        parts += [f"{s}.{k} = {v}" for s, knobs in self.knobs.items() for k, v in knobs.items()]
        if self.new_brokers:
            parts.append(f"add {self._new_words()}")
        parts += [f"broker {broker} has {human_bytes(size)} of disk" for broker, size in self.disks.items()]
        parts += [f"broker {broker} is in rack {rack}" for broker, rack in self.racks_of.items()]
        parts += [f"{topic} has {count:,} partitions" for topic, count in self.partitions.items()]
        parts += [f"keep {topics} for {human_time(seconds)}" for topics, seconds in self.retention.items()]
        parts += [f"lose broker {_listed(self.lost_brokers)}"] if self.lost_brokers else []
        parts += [f"lose rack {', '.join(self.lost_racks)}"] if self.lost_racks else []
        which = f" of {self.topics}" if self.topics else ""
        if self.size_factor == self.rate_factor != 1:
            return ", ".join([*parts, f"load{which} x {self.size_factor:g}"])
        parts += [f"sizes{which} x {self.size_factor:g}"] if self.size_factor != 1 else []
        parts += [f"rates{which} x {self.rate_factor:g}"] if self.rate_factor != 1 else []
        return ", ".join(parts) or "no change"

    def _new_words(self) -> str:
        """The new brokers, with their racks if these are given."""
        racks = self.racks * len(self.new_brokers) if len(self.racks) == 1 else self.racks
        each = [f"{broker} ({rack})" for broker, rack in zip(self.new_brokers, racks, strict=False)]
        noun = "broker" if len(self.new_brokers) == 1 else "brokers"
        return f"{noun} {', '.join(each) or _listed(self.new_brokers)} like {self.like}"


# What a question does with the brokers that it adds to a list.
VERBS = dict(zip(BROKER_LISTS, ("drain", "exclude", "demote"), strict=True))


def _listed(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))


def question_of(options: argparse.Namespace, name: str = "") -> Question:
    """The question of a command line.

    Raises
    ------
    ConfigError
        When options do not belong together, or a value is not usable.
    """
    knobs = _knobs_of_set(options)
    if bool(options.add_broker) != (options.like is not None):
        raise ConfigError("--add-broker IDS and --like ID belong together: new brokers get the capacities of --like")
    if options.rack and not options.add_broker:
        raise ConfigError("--rack is the rack of new brokers: also give --add-broker IDS")
    load, sizes, rates = options.load, options.sizes, options.rates
    if load is not None and (sizes is not None or rates is not None):
        raise ConfigError("--load scales sizes and rates: give --load, or --sizes and --rates")
    if options.topics:
        check_pattern("--topics", options.topics)
        if load is sizes is rates is None:
            raise ConfigError("--topics chooses the topics of --load, --sizes or --rates: also give one of them")
    question = Question(
        added_to={
            "drain_brokers": tuple(options.drain),
            "exclude_brokers": tuple(options.exclude_brokers),
            "demote_brokers": tuple(options.demote),
        },
        keep=tuple(options.keep),
        only={None: None, "none": ""}.get(options.only, options.only),
        knobs=knobs,
        new_brokers=tuple(options.add_broker),
        like=options.like,
        racks=tuple(options.rack),
        disks=dict(options.disk),
        racks_of=dict(options.rack_of),
        partitions=dict(options.partitions),
        retention=dict(options.retention),
        lost_brokers=tuple(dict.fromkeys(options.lose_broker)),
        lost_racks=tuple(dict.fromkeys(options.lose_rack)),
        size_factor=sizes if sizes is not None else load if load is not None else 1.0,
        rate_factor=rates if rates is not None else load if load is not None else 1.0,
        topics=options.topics or "",
    )
    return replace(question, name=name or question.words())


def _knobs_of_set(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The knobs of ``--set``, by section; each knob is set once, by ``--set`` or by its own option."""
    own = {option: name for option, name in _OWN_OPTIONS.items() if getattr(options, option.replace("-", "_"))}
    texts = {("policy", name): f"--{option}" for option, name in own.items()}
    knobs: dict[str, dict[str, Any]] = {}
    for text in options.set:
        knob = knob_of_set(text)
        if knob.section not in _SECTIONS:
            raise ConfigError(f"{knob.option_text}: an answer does not depend on it; use {', '.join(_SECTIONS)}")
        first = texts.setdefault((knob.section, knob.knob), knob.option_text)
        if first is not knob.option_text:
            raise ConfigError(f"{first} and {knob.option_text} set the same knob: give one of them")
        knobs.setdefault(knob.section, {})[knob.knob] = knob.value
    return knobs


def settings_for(facts: RunFacts, question: Question) -> Settings:
    """The run's settings for the cluster, with the requests of the question.

    The cluster's own requests and those of ``[policy]`` become one policy.

    Raises
    ------
    ConfigError
        When a value is not usable.
    """
    [requests] = facts.settings.cluster_policies().values()
    [cluster] = facts.content["clusters"]
    lists = {name: [*requests.brokers(name), *question.added_to.get(name, ())] for name in BROKER_LISTS}
    not_drained = set(question.keep) - set(lists["drain_brokers"])
    if not_drained:
        raise ConfigError(
            f"--keep {_listed(sorted(not_drained))}: the run does not drain it; it drains {lists['drain_brokers']}"
        )
    lists["drain_brokers"] = [b for b in lists["drain_brokers"] if b not in question.keep]
    own = {**asdict(requests), **{name: sorted(set(ids)) for name, ids in lists.items()}}
    if question.only is not None:
        own["only"] = question.only
    location = {name: value for name, value in cluster.items() if name not in asdict(ClusterPolicy())}
    policy = {**facts.content["policy"], **_plain(own)}
    return build(merge({**facts.content, "clusters": [location], "policy": policy}, question.knobs))


def sets_bands(question: Question) -> bool:
    """Whether the question has bands of its own."""
    return not {*BANDS, "start_at"}.isdisjoint(question.knobs.get("policy", {}))


def as_the_run(question: Question, only: str) -> Question:
    """The question with the bands and ``only`` of the run: its cluster and its brokers to empty stay.

    Parameters
    ----------
    only : str
        Of the run. With ``drain`` the same brokers are emptied as without ``only``, but it is refused if none is.
    """
    policy = question.knobs.get("policy", {})
    kept = {name: value for name, value in policy.items() if name not in (*BANDS, "start_at")}
    knobs = {**question.knobs, "policy": kept} if sets_bands(question) else question.knobs
    return replace(question, knobs=knobs, only="" if question.only is not None and only == DRAIN else None)


def _plain(value: Any) -> Any:
    """The value as a TOML file would give it."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return {name: _plain(item) for name, item in value.items()} if isinstance(value, Mapping) else value


def instance_for(facts: RunFacts, question: Question) -> tuple[Settings, pd.DataFrame, pd.DataFrame]:
    """The settings of a question, and rows of ``instance`` and ``instance_brokers`` of its cluster.

    Raises
    ------
    ConfigError
        When no plan can meet the policy, or the question names what the cluster does not have.
    """
    settings, asked = settings_for(facts, question), facts_for(facts, question)
    instance, hosts = instance_of(asked.partitions, asked.brokers, settings, facts.cluster_id)
    return settings, instance, hosts.assign(run_id=facts.run_id)


def facts_for(facts: RunFacts, question: Question) -> RunFacts:
    """The facts about the cluster that the question describes. New brokers come last: they are alive, and get the
    capacities that the question gives the broker that they are like.

    Raises
    ------
    ConfigError
        When a broker or rack is unknown, or the id of a new broker is used.
    """
    partitions, brokers = facts.partitions, _rebuilt(facts.brokers, question, facts.cluster_id)
    for topic, count in question.partitions.items():
        partitions = _with_more(replace(facts, partitions=partitions), topic, count)
    if question.retention:
        partitions = shrunk(partitions, question.retention)
    if question.loses:
        lost = _lost_ids(brokers, question, facts.cluster_id)
        brokers = brokers.assign(state=brokers["state"].mask(brokers["broker_id"].isin(lost), "dead"))
        partitions = _without(partitions, brokers)
    if question.new_brokers:
        brokers = _with_new(brokers, question, facts.cluster_id)
    if question.changes_load:
        partitions = _scaled(partitions, question)
    return replace(facts, partitions=partitions, brokers=brokers)


def _with_more(facts: RunFacts, topic: str, count: int) -> pd.DataFrame:
    """Partitions of which a topic has more. Sizes too are shared evenly, as when the old records have expired."""
    rows = facts.partitions
    is_own = rows["topic"] == topic
    own = rows[is_own].sort_values("partition")
    if own.empty:
        raise ConfigError(f"--partitions {topic}={count}: no such topic{did_you_mean(topic, set(rows['topic']))}")
    if count <= len(own):
        raise ConfigError(f"--partitions {topic}={count}: it has {len(own)} partitions; Kafka can only add some")
    first = int(own["partition"].max()) + 1
    if first != len(own):
        raise ConfigError(f"--partitions {topic}={count}: the run does not know all of its partitions")
    existing = [[int(b) for b in ids] for ids in own["replicas"]]
    settings, cluster_id = facts.settings, facts.cluster_id
    algorithm = controller_algorithm(settings.kafka_versions()[cluster_id])
    placer = default_placer(algorithm, open_brokers(facts.brokers))
    seed = topic_seed(settings.baseline.seed, cluster_id, topic)
    try:
        lists = place_more(placer, topic, existing, count - len(own), len(existing[0]), seed)
    except KafkaError as error:
        raise ConfigError(f"--partitions {topic}={count}: Kafka refuses it: {error}") from error
    added = own.iloc[[0] * len(lists)].assign(partition=range(len(own), count))
    result = pd.concat([rows, led(added.reset_index(drop=True), lists)], ignore_index=True)
    shared = {name: own[name].astype("Float64").sum(min_count=1) / count for name in (*_LOADS, *_IN_WINDOWS)}
    is_own = result["topic"] == topic
    columns = {
        name: result[name].astype("Float64").mask(is_own, share).round().astype("Int64")
        for name, share in shared.items()
    }
    result = resized(result, columns.pop("size_bytes"))
    return result.assign(**columns).astype(dict.fromkeys(_LOADS, "int64"))


def open_brokers(brokers: pd.DataFrame) -> list[Broker]:
    """The brokers on which Kafka itself places replicas: it knows of no plan."""
    is_open = (brokers["state"] == "alive") & (brokers["closed_cause"] != Cause.CORDONED)
    each = zip(brokers["broker_id"], brokers["rack"], is_open, strict=True)
    return [Broker(int(broker), rack) for broker, rack, may_hold in each if may_hold]


def _rebuilt(brokers: pd.DataFrame, question: Question, cluster_id: str) -> pd.DataFrame:
    """Brokers with other disks and in other racks. Log directories keep their shares of the disk."""
    for option, named in (("--disk", question.disks), ("--rack-of", question.racks_of)):
        if unknown := sorted(set(named) - set(brokers["broker_id"])):
            raise ConfigError(
                f"{option} {_listed(unknown)}: cluster {cluster_id} has no such broker; {_known(brokers)}"
            )
    ids = brokers["broker_id"]
    if question.disks:
        before = brokers["disk_capacity_bytes"]
        disks = ids.map(question.disks).astype("Int64").fillna(before)
        factors = (disks / before).fillna(1.0)  # unknown before: so are the directories
        dirs = [_grown(each, factor) for each, factor in zip(brokers["log_dirs"], factors, strict=True)]
        brokers = brokers.assign(disk_capacity_bytes=disks, log_dirs=pd.Series(dirs, brokers.index, dtype=object))
    racks = ids.map(question.racks_of)
    return brokers.assign(rack=racks.where(racks.notna(), brokers["rack"])) if question.racks_of else brokers


def _grown(dirs: Any, factor: float) -> Any:
    """Log directories with so many times their capacities; unknown ones stay unknown."""
    if factor == 1.0 or not np.ndim(dirs):
        return dirs
    return [{**d, "capacity_bytes": d["capacity_bytes"] and int(d["capacity_bytes"] * factor)} for d in dirs]


def with_racks(facts: RunFacts, question: Question) -> Question:
    """The question with the rack of each new broker, also of those that are chosen; as it is without racks.

    Raises
    ------
    ConfigError
        As ``facts_for``.
    """
    if not question.new_brokers or not known_of(facts.brokers).racks:
        return question
    brokers = facts_for(facts, question).brokers
    racks = dict(zip(brokers["broker_id"], brokers["rack"], strict=True))
    return replace(question, racks=tuple(racks[broker] for broker in question.new_brokers))


def _with_new(brokers: pd.DataFrame, question: Question, cluster_id: str) -> pd.DataFrame:
    used = sorted(set(question.new_brokers) & set(brokers["broker_id"]))
    if used:
        raise ConfigError(f"--add-broker {_listed(used)}: cluster {cluster_id} has it already; give an unused id")
    repeated = sorted({b for b in question.new_brokers if question.new_brokers.count(b) > 1})
    if repeated:
        raise ConfigError(f"--add-broker {_listed(repeated)}: the id is given twice; give each new broker its own id")
    template = brokers[brokers["broker_id"] == question.like]
    if template.empty:
        raise ConfigError(f"--like {question.like}: cluster {cluster_id} has no such broker; {_known(brokers)}")
    racks = _racks_of_new(brokers, question, cluster_id)
    empty = {"state": "alive", "closed_cause": None, "closed_reason": None, "holds": False}
    dirs = _empty_dirs(template["log_dirs"].iloc[0])
    rows = [
        template.assign(broker_id=broker, rack=rack, log_dirs=[dirs], **empty)
        for broker, rack in zip(question.new_brokers, racks, strict=True)
    ]
    return pd.concat([brokers, *rows], ignore_index=True).sort_values("broker_id").reset_index(drop=True)


def _empty_dirs(dirs: Any) -> Any:
    return [{**entry, "used_bytes": 0, "logs": 0, "is_open": True} for entry in dirs] if np.ndim(dirs) else None


def _racks_of_new(brokers: pd.DataFrame, question: Question, cluster_id: str) -> list[str | None]:
    """The racks that are given; else, one after the other, the rack of living brokers with the least capacity."""
    known, count = known_of(brokers).racks, len(question.new_brokers)
    unknown = sorted(set(question.racks) - set(known))
    if unknown:
        raise ConfigError(
            f"--rack {', '.join(unknown)}: cluster {cluster_id} has no such rack; known are {list(known)}"
        )
    if question.racks and len(question.racks) not in (1, count):
        raise ConfigError(f"--rack: give one rack for all new brokers, or {count}, one each")
    if question.racks or not known:
        return [*question.racks] * (count if len(question.racks) == 1 else 1) or [None] * count
    live = brokers["state"] != "dead"
    size = brokers["disk_capacity_bytes"].astype("Float64").fillna(1)
    sums = size[live].groupby(brokers.loc[live, "rack"]).sum()
    capacity = {str(rack): float(total) for rack, total in sums.items()} or dict.fromkeys(known, 0.0)
    own = float(size[brokers["broker_id"] == question.like].sum())
    racks: list[str | None] = []
    for _ in range(count):
        smallest = min(capacity, key=lambda rack: (capacity[rack], rack))
        capacity[smallest] += own
        racks.append(smallest)
    return racks


def _lost_ids(brokers: pd.DataFrame, question: Question, cluster_id: str) -> list[int]:
    known = known_of(brokers)
    unknown = sorted(set(question.lost_brokers) - set(known.brokers))
    if unknown:
        raise ConfigError(
            f"--lose-broker {_listed(unknown)}: cluster {cluster_id} has no such broker; {_known(brokers)}"
        )
    unknown_racks = sorted(set(question.lost_racks) - set(known.racks))
    if unknown_racks:
        text = f"--lose-rack {', '.join(unknown_racks)}: cluster {cluster_id} has no such rack"
        raise ConfigError(f"{text}; known are {list(known.racks)}")
    is_lost = brokers["broker_id"].isin(question.lost_brokers) | brokers["rack"].isin(question.lost_racks)
    return [int(b) for b in brokers.loc[is_lost, "broker_id"]]


def _known(brokers: pd.DataFrame) -> str:
    return f"known are {list(known_of(brokers).brokers)}"


def _without(partitions: pd.DataFrame, brokers: pd.DataFrame) -> pd.DataFrame:
    """Partitions after the loss: dead brokers leave the ISR, and the first living in-sync replica of the list leads."""
    dead = {int(b) for b in brokers.loc[brokers["state"] == "dead", "broker_id"]}
    isr = [[int(b) for b in ids if b not in dead] for ids in partitions["isr"]]
    elr = [[int(b) for b in ids if b not in dead] if np.ndim(ids) else None for ids in partitions["elr"]]
    lists = partitions["controller_replicas"].where(partitions["controller_replicas"].notna(), partitions["replicas"])
    leaders = [
        leader if pd.isna(leader) or leader not in dead else next((int(b) for b in listed if b in in_sync), None)
        for leader, listed, in_sync in zip(partitions["leader"], lists, isr, strict=True)
    ]
    columns = {"isr": isr, "elr": elr, "leader": leaders}
    return partitions.assign(**{name: pd.Series(x, partitions.index, dtype=object) for name, x in columns.items()})


def _scaled(partitions: pd.DataFrame, question: Question) -> pd.DataFrame:
    """Loads in whole bytes.

    Raises
    ------
    ConfigError
        When the pattern matches no topic.
    """
    matches = {t: not question.topics or bool(re.fullmatch(question.topics, t)) for t in partitions["topic"].unique()}
    if not any(matches.values()):
        raise ConfigError(f"--topics {question.topics}: it matches no topic of the cluster")
    chosen = partitions["topic"].map(matches).to_numpy(dtype=bool)
    factors = {
        **dict.fromkeys(_SIZES, question.size_factor),
        **dict.fromkeys((*_RATES, *_IN_WINDOWS), question.rate_factor),
    }
    scaled = partitions.copy()
    for name, factor in factors.items():
        numbers = partitions[name].astype("Float64")
        scaled[name] = numbers.mask(chosen, (numbers * factor).round()).astype("Int64")
    return scaled.astype(dict.fromkeys(_LOADS, "int64"))
