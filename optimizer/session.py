"""The Spark session of a run."""

from typing import Any

from pyspark.sql import SparkSession

# Names in the JVM that a run uses again and again, as paths from py4j's view of it.
_NAMES = (
    ("functions", "col"),
    ("functions", "lit"),
    *(
        ("org.apache.spark.sql.functions", name)
        for name in ("col", "lit", "when", "coalesce", "struct", "expr", "sum", "xxhash64", "count", "max")
    ),
    ("PythonUtils", "toSeq"),
    ("PythonSQLUtils",),
    ("org.apache.spark.sql.classic.SparkSession", "getActiveSession"),
    ("org.apache.spark.sql.classic.SparkSession$", "MODULE$"),
    ("io", "delta", "tables", "DeltaTable", "isDeltaTable"),
    ("org.apache.spark.sql.delta.DeltaLog", "forTable"),
    ("scala.Option", "empty"),
)


def session(builder: SparkSession.Builder) -> SparkSession:
    """The session that a builder makes; Python remembers what py4j would ask its JVM for at every use.

    PySpark asks twice for each column that it makes, and the JVM seeks a name in all of its JARs: 12,000 times and
    6.8 s of a run over 9,000 replicas.
    """
    spark = builder.getOrCreate()
    for path in _NAMES:
        holder: Any = spark.sparkContext._jvm
        for name in path:
            found = getattr(holder, name)
            setattr(holder, name, found)
            holder = found
    return spark
