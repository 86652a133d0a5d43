"""The start of solve with pins and changed replication factors, in Spark."""

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import schemas
from optimizer.domain import Bands
from optimizer.planning.arrays import to_brokers
from optimizer.stages.solve.spark_placement import sized_and_pinned_lists
from tests.solve.clusters import solved_cluster
from tests.stages.test_solve import frames_of, rows_of


def test_lists_start_inside_their_pins_with_the_requested_length(spark: SparkSession) -> None:
    """Pinned partitions start inside their pins, lists have their requested length; the rest and ``replicas`` stay."""
    rows = rows_of("a", seed=1)
    pin = [101, 102, 106, 107]
    for broker in rows["instance_brokers"]:
        broker["pinned_topics"] = ["t0"] * (broker["broker_id"] in pin)
    for partition in rows["instance"]:
        partition["pinned_brokers"] = pin if partition["topic"] == "t0" else None
        partition["replication_factor"] = {"t0": 2, "t1": 5, "t2": 1}.get(partition["topic"], 3)
    frames = frames_of(spark, rows)
    brokers = to_brokers(frames["instance_brokers"].toPandas())
    free = Bands(("replicas", "disk", "in"), np.zeros((24, 3)), np.full((24, 3), np.inf))
    cluster = solved_cluster(brokers, free, np.zeros((24, 3)), np.zeros((24, 3)))
    placement = frames["instance"].withColumn("current", F.col("replicas"))
    result = sized_and_pinned_lists(placement, {"a": cluster}).collect()
    assert len(result) == len(rows["instance"])
    assert all(set(row.current) <= set(pin) for row in result if row.topic == "t0")
    assert all(len(set(row.current)) == len(row.current) == row.replication_factor for row in result)
    assert all(row.current[:3] == row.replicas for row in result if row.topic == "t1")
    assert all(row.current == row.replicas for row in result if row.topic > "t2")
    before = {(row["topic"], row["partition"]): row["replicas"] for row in rows["instance"]}
    assert all(row.replicas == before[row.topic, row.partition] for row in result)
    assert set(schemas.ALL["instance"].names) <= set(result[0].asDict())
