"""Names in the JVM that a run uses thousands of times, looked up once."""

from typing import Any

from pyspark.sql import SparkSession

_FUNCTIONS = ("col", "lit", "when", "coalesce", "struct", "expr", "sum")
_NAMES = (
    *((holder, name) for holder in ("functions", "org.apache.spark.sql.functions") for name in _FUNCTIONS),
    ("PythonUtils", "toSeq"),
    ("PythonSQLUtils",),
    ("org.apache.spark.sql.classic.SparkSession", "getActiveSession"),
    ("org.apache.spark.sql.classic.SparkSession$", "MODULE$"),
    ("io", "delta", "tables", "DeltaTable", "isDeltaTable"),
    ("org.apache.spark.sql.delta.DeltaLog",),
)


def keep_names(spark: SparkSession) -> None:
    """Let Python remember what py4j would ask the JVM for at every use.

    PySpark asks twice for each column that it makes, and the JVM seeks a name in all of its JARs: 12,000 times and
    6.8 s of a run over 9,000 replicas.
    """
    for path in _NAMES:
        holder: Any = spark.sparkContext._jvm
        for name in path:
            found = getattr(holder, name)
            setattr(holder, name, found)
            holder = found
