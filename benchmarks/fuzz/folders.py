"""A small cluster as output of Kafka's tools, and the keys of all written data, to compare with what is read.

Sources repeat each other, as real ones do: partitions are in the description and in the log directories, brokers in
lists of replicas. So data that is missing in one source is often in another.
"""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Structure = Mapping[str, frozenset[tuple[object, ...]]]


@dataclass(frozen=True)
class Partition:
    """One partition: the first replica leads, all are in sync."""

    topic: str
    number: int
    replicas: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True)
class Folder:
    """The files of one cluster by name, and the keys that they contain by kind of record."""

    files: Mapping[str, str]
    written: Structure


@dataclass(frozen=True)
class Model:
    """The cluster: brokers with racks, their directories, partitions, configs of topics, one partition in flight."""

    racks: Mapping[int, str]
    dirs: tuple[str, ...]
    partitions: tuple[Partition, ...]
    configs: Mapping[str, Mapping[str, str]]
    moving: Partition

    @property
    def topics(self) -> dict[str, list[Partition]]:
        """Partitions by topic."""
        by_topic: dict[str, list[Partition]] = {}
        for partition in self.partitions:
            by_topic.setdefault(partition.topic, []).append(partition)
        return by_topic

    def stored(self, broker: int, log_dir: str) -> list[Partition]:
        """Partitions in a directory of a broker."""
        index = self.dirs.index(log_dir)
        return [p for p in self.partitions if broker in p.replicas and (p.number + broker) % len(self.dirs) == index]


NAMES = ("orders", "pay.ments", "_schemas", "web-clicks-2", "audit_log", "a")


def model(seed: int) -> Model:
    """A cluster of four to six brokers with two to five topics."""
    draw = random.Random(seed)
    first = draw.choice((0, 1, 101))
    brokers = range(first, first + draw.randint(4, 6))
    partitions = []
    for topic in draw.sample(NAMES, draw.randint(2, 5)):
        width = draw.randint(1, 3)
        for number in range(draw.randint(1, 6)):
            replicas = tuple(draw.sample(brokers, width))
            partitions.append(Partition(topic, number, replicas, draw.randint(10**6, 10**10)))
    configs = {p.topic: {"min.insync.replicas": "1", "retention.ms": str(draw.randint(10, 10**9))} for p in partitions}
    dirs = ("/data/kafka-1", "/data/kafka-2")[: draw.randint(1, 2)]
    return Model({b: f"r{b % 3}" for b in brokers}, dirs, tuple(partitions), configs, draw.choice(partitions))


def ids(brokers: tuple[int, ...]) -> str:
    """A list of brokers as the tools print it."""
    return ",".join(map(str, brokers))


def describe(m: Model) -> str:
    """``kafka-topics.sh --describe``, 4.3."""
    lines = []
    for topic, partitions in m.topics.items():
        configs = ",".join(f"{name}={value}" for name, value in m.configs[topic].items())
        count, factor = len(partitions), len(partitions[0].replicas)
        lines.append(f"Topic: {topic}\tPartitionCount: {count}\tReplicationFactor: {factor}\tConfigs: {configs}")
        for p in partitions:
            line = f"\tTopic: {topic}\tPartition: {p.number}\tLeader: {p.replicas[0]}\tReplicas: {ids(p.replicas)}"
            lines.append(f"{line}\tIsr: {ids(p.replicas)}\tElr: \tLastKnownElr: ")
    return "\n".join(lines) + "\n"


def describe_old(m: Model) -> str:
    """The same as 0.8 to 2.1 print it."""
    text = describe(m).replace("\tElr: \tLastKnownElr: ", "")
    return text.replace("Topic: ", "Topic:").replace("Count: ", "Count:").replace("Factor: ", "Factor:")


def log_dirs(m: Model, *, indent: int | None = None) -> str:
    """``kafka-log-dirs.sh --describe``."""
    brokers = [{"broker": b, "logDirs": [_directory(m, b, log_dir) for log_dir in m.dirs]} for b in m.racks]
    text = json.dumps({"version": 1, "brokers": brokers}, indent=indent)
    banner = f"Received log directory information from brokers {ids(tuple(m.racks))}"
    return f"Querying brokers for log directories information\n{banner}\n{text}\n"


def _directory(m: Model, broker: int, log_dir: str) -> dict[str, object]:
    replicas = [
        {"partition": f"{p.topic}-{p.number}", "size": p.size_bytes, "offsetLag": 0, "isFuture": False}
        for p in m.stored(broker, log_dir)
    ]
    return {"logDir": log_dir, "error": None, "partitions": replicas}


def api_versions(m: Model) -> str:
    """``kafka-broker-api-versions.sh``, with a few of its lines of versions."""
    lines = []
    for broker, rack in m.racks.items():
        lines.append(f"kafka-{broker}:9092 (id: {broker} rack: {rack} isFenced: false) -> (")
        lines += ["\tProduce(0): 0 to 12 [usable: 12],", "\tFetch(1): 4 to 17 [usable: 17]", ")"]
    return "\n".join(lines) + "\n"


def brokers_csv(m: Model) -> str:
    """A table of brokers."""
    return "broker_id,rack,host\n" + "".join(f"{b},{rack},kafka-{b}\n" for b, rack in m.racks.items())


def configs_new(m: Model) -> str:
    """``kafka-configs.sh --describe``, 2.5 to 4.3."""
    lines = []
    for topic, configs in m.configs.items():
        lines.append(f"Dynamic configs for topic {topic} are:")
        for name, value in configs.items():
            lines.append(f"  {name}={value} sensitive=false synonyms={{DYNAMIC_TOPIC_CONFIG:{name}={value}}}")
    return "\n".join(lines) + "\n"


def configs_old(m: Model) -> str:
    """The same as 0.9 to 2.4 print it."""
    entries = {topic: ",".join(f"{name}={value}" for name, value in c.items()) for topic, c in m.configs.items()}
    return "".join(f"Configs for topic '{topic}' are {text}\n" for topic, text in entries.items())


def in_flight(m: Model) -> str:
    """``kafka-reassign-partitions.sh --list``."""
    p = m.moving
    moves = f"replicas: {ids(p.replicas)}. adding: {p.replicas[-1]}."
    return f"Current partition reassignments:\n{p.topic}-{p.number}: {moves}\n"


def capacity(m: Model) -> str:
    """Cruise Control's capacity file, with an entry for each broker."""
    limits = {"DISK": "2000000", "CPU": "100", "NW_IN": "100000", "NW_OUT": "100000"}
    entries = [{"brokerId": str(b), "capacity": limits} for b in m.racks]
    return json.dumps({"brokerCapacities": entries}, indent=2) + "\n"


def capacity_csv(m: Model) -> str:
    """The same as a table."""
    return "broker_id;disk_gb;in_mb_per_s\n" + "".join(f"{b};2000;100\n" for b in m.racks)


FORMS: Mapping[str, tuple[Callable[[Model], str], ...]] = {
    "describe": (describe, describe_old),
    "log_dirs": (log_dirs, lambda m: log_dirs(m, indent=1)),
    "brokers": (api_versions, brokers_csv),
    "configs": (configs_new, configs_old),
    "in_flight": (in_flight,),
    "capacity": (capacity, capacity_csv),
}
PROMPTS = {
    "describe": "$ kafka-topics.sh --bootstrap-server b:9092 --describe\n",
    "log_dirs": "$ kafka-log-dirs.sh --bootstrap-server b:9092 --describe\n",
    "brokers": "$ kafka-broker-api-versions.sh --bootstrap-server b:9092\n",
    "configs": "$ kafka-configs.sh --bootstrap-server b:9092 --entity-type topics --describe\n",
    "in_flight": "$ kafka-reassign-partitions.sh --bootstrap-server b:9092 --list\n",
}


def folder(seed: int) -> Folder:
    """One cluster, each source in one of its forms. Every fifth cluster is one transcript, with the tables as files."""
    m, draw = model(seed), random.Random(-seed)
    forms = {name: draw.randrange(len(choices)) for name, choices in FORMS.items()}
    joined = PROMPTS if seed % 5 == 4 else {}
    if joined:
        forms["brokers"] = 0
    texts = {name: FORMS[name][form](m) for name, form in forms.items()}
    files = {f"{name}-{forms[name]}": text for name, text in texts.items() if name not in joined}
    if joined:
        files["transcript"] = "".join(f"{prompt}{texts[name]}\n" for name, prompt in joined.items())
    return Folder(files, written(m))


def written(m: Model) -> Structure:
    """All keys in the files of a cluster, by kind of record."""
    directories = [(b, log_dir) for b in m.racks for log_dir in m.dirs]
    return {
        "topic": frozenset((topic,) for topic in m.topics),
        "partition": frozenset((p.topic, p.number) for p in m.partitions),
        "broker": frozenset((b,) for b in m.racks),
        "log_dir": frozenset(directories),
        "log_dir_replica": frozenset((b, d, p.topic, p.number) for b, d in directories for p in m.stored(b, d)),
        "config": frozenset((topic, name) for topic, configs in m.configs.items() for name in configs),
        "reassignment": frozenset([(m.moving.topic, m.moving.number)]),
        "capacity": frozenset((b,) for b in m.racks),
    }
