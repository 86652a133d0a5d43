"""A live cluster as a Spark data source: ``spark.read.format("kafka_topology").option("bootstrap.servers", ...)``.

Options: ``bootstrap.servers``; ``client.config``, a file with Kafka client properties that is read where the query is
planned (put secrets there, because Spark may show options); ``kafka.*``, single properties that override the file's;
``brokers.per.task`` (8); ``timeout.seconds`` (15), how long to wait for the first connection; ``acks.one.topics``, a
JSON list of regular expressions: topics whose producers do not wait for followers.

Rows are (kind, line, payload, source): the records of sources/record.py with their payload as JSON. One task reads
brokers, topics, reassignments, offsets and consumer groups; each other task reads the log directories
and configs of a few brokers.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from optimizer.errors import BallastError, ConfigError, InputError
from sources import kafka_admin, live_consumers, live_offsets
from sources.kafka_options import client_options

FORMAT = "kafka_topology"
SCHEMA = "kind string, line int, payload string, source string"
_OWN = ("bootstrap.servers", "client.config", "brokers.per.task", "timeout.seconds", "acks.one.topics", "path")
_RAISED = re.compile(r"\b(InputError|ConfigError): ([^\n]+)")


@dataclass(frozen=True)
class Share(InputPartition):
    """The work of one task: some brokers, or the topology if there are no broker ids."""

    broker_ids: tuple[int, ...]
    defaults: bool = False


class TopologyReader(DataSourceReader):
    """Plans one task for the topology and one for each group of live brokers."""

    def __init__(self, options: Mapping[str, object], brokers_per_task: int, acks_one: Sequence[str] = ()) -> None:
        self._options = dict(options)
        self._brokers_per_task = brokers_per_task
        self._acks_one = tuple(acks_one)

    def partitions(self) -> list[InputPartition]:
        """The tasks; fenced brokers get none."""
        with kafka_admin.connected(self._options) as admin:
            live = [b["broker_id"] for b in kafka_admin.registered_brokers(admin) if not b["fenced"]]
        size = self._brokers_per_task
        groups = [tuple(live[i : i + size]) for i in range(0, len(live), size)]
        return [Share(()), *(Share(group, defaults=i == 0) for i, group in enumerate(groups))]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, int, str, str]]:
        """Rows of one task, in a stable order."""
        assert isinstance(partition, Share)
        source = f"kafka://{self._options['bootstrap_servers']}"
        with kafka_admin.connected(self._options) as admin:
            ids = partition.broker_ids
            if ids:
                records = kafka_admin.describe_brokers(admin, ids, defaults=partition.defaults)
            else:
                topology = list(kafka_admin.topology(admin))
                others = live_offsets.offsets(admin, topology, self._acks_one), live_consumers.consumer_groups(admin)
                records = chain(topology, *others)
            for record in records:
                yield record.kind, record.line, json.dumps(dict(record.payload), sort_keys=True), source


class KafkaTopology(DataSource):
    """The data source; ``register`` adds it to a session."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> str:
        """The columns."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader with the options of the connection.

        Raises
        ------
        ConfigError
            For an unknown option or an invalid value.
        """
        given = {str(name).lower(): str(value) for name, value in self.options.items()}
        unknown = sorted(name for name in given if name not in _OWN and not name.startswith("kafka."))
        if unknown:
            raise ConfigError(f"unknown options {unknown} of {FORMAT}; known options are {_OWN[:5]} and kafka.*")
        single = {name: value for name, value in given.items() if name.startswith("kafka.")}
        options = client_options(kafka_admin.properties_of(given.get("client.config", "")) | single)
        servers = given.get("bootstrap.servers") or options.get("bootstrap_servers")
        if not servers:
            raise ConfigError(f"option bootstrap.servers of {FORMAT} is missing: set it to host:port of some brokers")
        own = {"bootstrap_servers": servers, "bootstrap_timeout_ms": 1000 * _positive(given, "timeout.seconds", 15)}
        acks_one = json.loads(given.get("acks.one.topics", "[]"))
        return TopologyReader(options | own, _positive(given, "brokers.per.task", 8), acks_one)


def register(spark: SparkSession) -> None:
    """Add the format to a session."""
    spark.dataSource.register(KafkaTopology)


def unwrap_error(error: BaseException) -> BallastError | None:
    """The one-line error that a task of this source raised, from Spark's long traceback; None for other errors."""
    matches = _RAISED.findall(str(error))
    if not matches:
        return None
    kind, message = matches[-1]
    return ConfigError(message) if kind == "ConfigError" else InputError(message)


def _positive(given: Mapping[str, str], name: str, default: int) -> int:
    value = given.get(name, str(default))
    if not value.isdecimal() or int(value) == 0:
        raise ConfigError(f"option {name} = {value!r} is not valid: use a whole number of 1 or more")
    return int(value)
