"""One Delta table: creates it from its contract, adds missing columns, reads its version and a run's rows."""

import json
from collections.abc import Mapping
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from optimizer.contracts import missing_checks, missing_columns
from schemas.spark import columns_of, schema_of
from schemas.table import PROPERTIES, Column, Table

_CHECK = "delta.constraints."


def create_or_grow(spark: SparkSession, warehouse: str, contract: Table) -> None:
    """Create the table with NOT NULL, comments and CHECK constraints, or add what an existing table lacks.

    Constraints are table properties at creation. Delta enforces them like those of ALTER TABLE, which needs one commit
    (about half a second) for each.

    Raises
    ------
    ConfigError
        When the table lacks more than nullable columns and checks, or has others.
    """
    path = f"{warehouse}/{contract.name}"
    builder = DeltaTable.createIfNotExists(spark).location(path)
    builder = builder.addColumns(schema_of(contract)).comment(contract.doc)
    for name, value in PROPERTIES.items():
        builder = builder.property(name, value)
    for name, expression in contract.checks:
        builder = builder.property(_CHECK + name, expression)
    builder.execute()
    columns, checks = missing_parts(spark, warehouse, contract)
    table = f"delta.`{path}`"
    if columns:
        added = ", ".join(f"`{c.name}` {c.type} COMMENT {literal(c.comment)}" for c in columns)
        spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({added})")
    for name, expression in checks.items():
        spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK ({expression})")


def missing_parts(spark: SparkSession, warehouse: str, contract: Table) -> tuple[list[Column], dict[str, str]]:
    """The nullable columns and the checks, SQL by name, that the contract has and an existing table lacks.

    Raises
    ------
    ConfigError
        When the table lacks more than these, or has others.
    """
    # As JSON, in one call: iterating over a map of the JVM costs a call for each entry, and an exception at its end.
    metadata = json.loads(_newest_snapshot(spark, f"{warehouse}/{contract.name}").metadata().json())["metaData"]
    existing = columns_of(T.StructType.fromJson(json.loads(metadata["schemaString"])))
    checks = _checks(metadata.get("configuration", {}))
    return missing_columns(contract, existing, warehouse), missing_checks(contract, checks, warehouse)


def _newest_snapshot(spark: SparkSession, path: str) -> Any:
    """Delta's snapshot of the newest commit."""
    jvm: Any = spark.sparkContext._jvm
    logs = getattr(jvm, "org.apache.spark.sql.delta.DeltaLog")
    none = getattr(jvm, "scala.Option").empty()
    return logs.forTable(spark._jsparkSession, path).update(False, none, none)


def _checks(properties: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(_CHECK): sql for name, sql in properties.items() if name.startswith(_CHECK)}


def newest_version(spark: SparkSession, path: str) -> int:
    """Version of the newest commit."""
    return int(_newest_snapshot(spark, path).version())


def rows(spark: SparkSession, warehouse: str, contract: Table, run_id: str, *, version: int | None = None) -> DataFrame:
    """Rows of a run, as they are now or at a version; columns that the table lacks are null.

    Raises
    ------
    ConfigError
        When the table differs from its contract in more than nullable columns.
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
