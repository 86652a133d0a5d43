"""A live cluster as a Spark data source: ``spark.read.format("kafka_topology").option("bootstrap.servers", ...)``.

Options: ``bootstrap.servers``; ``client.config``, a file of Kafka's client properties that is read where the query is
planned (secrets belong there, because options may be shown by Spark); ``kafka.*``, single properties that go before the
file's; ``brokers.per.task`` (8); ``timeout.seconds`` (15), how long to try for a first answer.

Rows are (kind, line, payload, source): the records of sources/record.py with their payload as JSON. One task reads
brokers, topics and reassignments; others read the log directories and configs of a few brokers each.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from optimizer.errors import BallastError, ConfigError, InputError
from sources import kafka_admin
from sources.kafka_options import client_options

FORMAT = "kafka_topology"
SCHEMA = "kind string, line int, payload string, source string"
_OWN = ("bootstrap.servers", "client.config", "brokers.per.task", "timeout.seconds", "path")
_RAISED = re.compile(r"\b(InputError|ConfigError): ([^\n]+)")


@dataclass(frozen=True)
class Share(InputPartition):
    """What one task reads: some brokers, or the topology where there are none."""

    broker_ids: tuple[int, ...]
    defaults: bool = False


class TopologyReader(DataSourceReader):
    """Plans one task for the topology and one for each group of living brokers."""

    def __init__(self, options: Mapping[str, object], brokers_per_task: int) -> None:
        self._options = dict(options)
        self._brokers_per_task = brokers_per_task

    def partitions(self) -> list[InputPartition]:
        """The tasks; a fenced broker is not asked."""
        with kafka_admin.connected(self._options) as admin:
            living = [b["broker_id"] for b in kafka_admin.live_and_fenced(admin) if not b["fenced"]]
        size = self._brokers_per_task
        groups = [tuple(living[i : i + size]) for i in range(0, len(living), size)]
        return [Share(()), *(Share(group, defaults=i == 0) for i, group in enumerate(groups))]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, int, str, str]]:
        """Rows of one task, in an order that does not change."""
        assert isinstance(partition, Share)
        source = f"kafka://{self._options['bootstrap_servers']}"
        with kafka_admin.connected(self._options) as admin:
            ids = partition.broker_ids
            records = (
                kafka_admin.of_brokers(admin, ids, defaults=partition.defaults) if ids else kafka_admin.topology(admin)
            )
            for record in records:
                yield record.kind, record.line, json.dumps(dict(record.payload), sort_keys=True), source


class KafkaTopology(DataSource):
    """The data source; ``register`` makes it known to a session."""

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
            For options that are not known or can't be used.
        """
        given = {str(name).lower(): str(value) for name, value in self.options.items()}
        unknown = sorted(name for name in given if name not in _OWN and not name.startswith("kafka."))
        if unknown:
            raise ConfigError(f"options {unknown} of {FORMAT} are not known; known are {_OWN[:4]} and kafka.*")
        single = {name: value for name, value in given.items() if name.startswith("kafka.")}
        options = client_options(kafka_admin.properties_of(given.get("client.config", "")) | single)
        servers = given.get("bootstrap.servers") or options.get("bootstrap_servers")
        if not servers:
            raise ConfigError(f"option bootstrap.servers of {FORMAT} is missing: give host:port of some brokers")
        own = {"bootstrap_servers": servers, "bootstrap_timeout_ms": 1000 * _positive(given, "timeout.seconds", 15)}
        return TopologyReader(options | own, _positive(given, "brokers.per.task", 8))


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(KafkaTopology)


def unwrapped(error: BaseException) -> BallastError | None:
    """The one line that a task of this source raised, out of Spark's long traceback; None for another error."""
    found = _RAISED.findall(str(error))
    if not found:
        return None
    kind, message = found[-1]
    return ConfigError(message) if kind == "ConfigError" else InputError(message)


def _positive(given: Mapping[str, str], name: str, default: int) -> int:
    value = given.get(name, str(default))
    if not value.isdecimal() or int(value) == 0:
        raise ConfigError(f"option {name} = {value!r} is not usable: give a whole number from 1")
    return int(value)
