"""Folders with contradicting sources, as a fleet through validate: each must break a rule that the original keeps.

``inputs`` finds folders with a contradiction. Here the rules across sources must find it. One Spark run validates all
clusters.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from benchmarks.fuzz.folders import folder
from benchmarks.fuzz.inputs import CONTRADICT, Case, cases, read
from optimizer.session import session
from optimizer.settings import ClusterInput, Settings
from optimizer.stages.stage import Run
from optimizer.stages.validate import validate
from schemas.bronze import BRONZE_METRICS, BRONZE_RECORDS
from schemas.spark import schema_of, small_frame
from setup.jars import DELTA
from setup.java import spark_java
from setup.paths import HOME
from sources.record import Record

CAPTURED_AT = datetime(2026, 1, 31, 2, tzinfo=UTC)  # any time; results do not depend on it
RUN_ID = "fuzz"
Broken = Mapping[str, Counter[str]]


@dataclass(frozen=True)
class Contradiction:
    """One mutated folder: the mutation, its records, and the records of the original."""

    case: Case
    records: Sequence[Record]
    whole: Sequence[Record]


@contextmanager
def local_session() -> Iterator[SparkSession]:
    """A Spark of two threads, with the environment that ``spark-submit.sh`` prepares."""
    os.environ |= spark_java() | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(HOME),
        "SPARK_CONF_DIR": str(HOME / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[2]").appName("fuzz").config("spark.ui.enabled", "false")
    builder = builder.config("spark.jars", ",".join(str(jar) for jar in sorted(DELTA.folder.glob("*.jar"))))
    spark = session(builder.config("spark.sql.shuffle.partitions", "2").config("spark.driver.memory", "2g"))
    try:
        yield spark
    finally:
        spark.stop()


def contradictions(count: int, seed: int) -> Iterator[Contradiction]:
    """``count`` folders that lost data without a message of the parsers, evenly over the mutations."""
    counts: dict[tuple[str, str], int] = {}
    remaining = count
    for case in cases(1000 * count, seed):
        key = (case.mutation, case.file.partition("-")[0])
        # Stage solve reports brokers without a capacity: finding no_disk_capacity.
        if (
            case.verdict == CONTRADICT
            and case.lost != ("capacity",)
            and counts.get(key, 0) <= min((counts.get(k, 0) for k in counts), default=0)
        ):
            counts[key] = counts.get(key, 0) + 1
            yield _contradiction(case)
            remaining -= 1
        if not remaining:
            return


def _contradiction(case: Case) -> Contradiction:
    files = {name: text.encode() for name, text in folder(case.cluster).files.items()}
    before = [record for name, content in files.items() for record in read(name, content)]
    after = [record for name, content in {**files, case.file: case.after}.items() for record in read(name, content)]
    return Contradiction(case, after, before)


def broken_rules(spark: SparkSession, clusters: Mapping[str, Sequence[Record]]) -> Broken:
    """Rules that each cluster breaks, with the number of rows."""
    settings = Settings(clusters=tuple(ClusterInput(id=name, input="/unused") for name in clusters))
    rows = [
        {
            **{"cluster_id": name, "run_id": RUN_ID, "ordinal": ordinal, "kind": record.kind, "source": f"{name}.txt"},
            **{"line": record.line, "captured_at": CAPTURED_AT, "payload": json.dumps(dict(record.payload))},
            "written_at": None,
        }
        for name, records in clusters.items()
        for ordinal, record in enumerate(records)
    ]
    ordered = [{column: row[column] for column in BRONZE_RECORDS.names} for row in rows]
    bronze = small_frame(spark, ordered, schema_of(BRONZE_RECORDS))
    inputs = {"bronze_records": bronze, "bronze_metrics": small_frame(spark, [], schema_of(BRONZE_METRICS))}
    outputs = validate.build(inputs, Run(spark, RUN_ID, settings, "fuzz"))
    broken: dict[str, Counter[str]] = {name: Counter() for name in clusters}
    for row in outputs["quality_results"].where("NOT success").collect():
        broken[row.cluster_id][row.rule] += max(int(row.unexpected_count), 1)
    for row in outputs["quarantine"].groupBy("cluster_id", "rule").count().collect():
        broken[row.cluster_id][row.rule] += row["count"]
    return broken


def unreported(spark: SparkSession, folders: Sequence[Contradiction]) -> list[Contradiction]:
    """The folders that break no rule more often than their original."""
    names = [f"{number:04d}" for number in range(len(folders))]
    after = {f"after-{name}": case.records for name, case in zip(names, folders, strict=True)}
    before = {f"before-{name}": case.whole for name, case in zip(names, folders, strict=True)}
    broken = broken_rules(spark, {**after, **before})
    return [
        case
        for name, case in zip(names, folders, strict=True)
        if all(n <= broken[f"before-{name}"][rule] for rule, n in broken[f"after-{name}"].items())
    ]
