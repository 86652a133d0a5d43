"""One Delta table: created from its contract or grown to it, its version, its rows with the contract's columns."""

import json
from collections.abc import Mapping
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from optimizer.contracts import missing_checks, missing_columns
from schemas.spark import columns_of, schema_of
from schemas.table import PROPERTIES, Table

_CHECK = "delta.constraints."


def create_or_grow(spark: SparkSession, warehouse: str, contract: Table) -> None:
    """Create the table, with NOT NULL, comments and CHECK constraints; give one that is there what it lacks.

    Constraints are given as table properties at creation: Delta enforces them like those of ALTER TABLE, which
    would be one commit (about half a second) each.

    Raises
    ------
    ConfigError
        When the table differs from its contract by more than nullable columns and checks.
    """
    path = f"{warehouse}/{contract.name}"
    builder = DeltaTable.createIfNotExists(spark).location(path)
    builder = builder.addColumns(schema_of(contract)).comment(contract.doc)
    for name, value in PROPERTIES.items():
        builder = builder.property(name, value)
    for name, expression in contract.checks:
        builder = builder.property(_CHECK + name, expression)
    builder.execute()
    _grow(spark, warehouse, contract)


def _grow(spark: SparkSession, warehouse: str, contract: Table) -> None:
    path = f"{warehouse}/{contract.name}"
    # One call: to go over one of the JVM's maps here costs a call an entry, and an exception that PySpark takes apart.
    metadata = json.loads(_newest(spark, path).metadata().json())["metaData"]
    found = columns_of(T.StructType.fromJson(json.loads(metadata["schemaString"])))
    columns = missing_columns(contract, found, warehouse)
    checks = missing_checks(contract, _checks(metadata.get("configuration", {})), warehouse)
    table = f"delta.`{path}`"
    if columns:
        added = ", ".join(f"`{c.name}` {c.type} COMMENT {literal(c.comment)}" for c in columns)
        spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({added})")
    for name, expression in checks.items():
        spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK ({expression})")


def _newest(spark: SparkSession, path: str) -> Any:
    """Delta's snapshot of the newest commit."""
    jvm: Any = spark.sparkContext._jvm
    logs = getattr(jvm, "org.apache.spark.sql.delta.DeltaLog")
    none = getattr(jvm, "scala.Option").empty()
    return logs.forTable(spark._jsparkSession, path).update(False, none, none)


def _checks(properties: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(_CHECK): sql for name, sql in properties.items() if name.startswith(_CHECK)}


def newest_version(spark: SparkSession, path: str) -> int:
    """Version of the newest commit."""
    return int(_newest(spark, path).version())


def rows(spark: SparkSession, warehouse: str, contract: Table, run_id: str, *, version: int | None = None) -> DataFrame:
    """Rows of a run, as they are now or at a version; null in columns that the table did not have then.

    Raises
    ------
    ConfigError
        When the table differs from its contract by more than nullable columns.
    """
    reader = spark.read.format("delta")
    reader = reader if version is None else reader.option("versionAsOf", version)
    frame = reader.load(f"{warehouse}/{contract.name}").where(F.col("run_id") == run_id)
    names = contract.names
    missing = missing_columns(contract, columns_of(frame.schema), warehouse)
    if frame.columns == names:
        return frame
    return frame.withColumns({c.name: F.lit(None).cast(c.type) for c in missing}).select(*names)


def literal(text: str) -> str:
    """A SQL string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
