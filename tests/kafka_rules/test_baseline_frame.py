"""The baseline stage."""

from pyspark.sql import DataFrame, Row, SparkSession

from benchmarks.rows import broker_row, partition_row
from optimizer.kafka.broker import Broker
from optimizer.kafka.default_assignment import default_placer, place_topic, topic_seed
from optimizer.settings import Baseline, ClusterInput, Settings
from optimizer.stages.baseline.baseline import build
from optimizer.stages.stage import Frames, Run
from schemas.planning import BASELINE
from tests.stages.tables import table

Key = tuple[str, str, int]


def _instance(spark: SparkSession, keys: list[Key], replicas: list[int], *, factor: int | None = None) -> DataFrame:
    factors = {"replication_factor": factor} if factor else {}
    rows = [
        partition_row(replicas, cluster_id=c, run_id="r", topic=t, partition=p, leader=0, size_bytes=10**12, **factors)
        for c, t, p in keys
    ]
    return table(spark, "instance", rows)


def _brokers(spark: SparkSession, cluster: str, racks: dict[int, str | None], **states: str) -> DataFrame:
    rows = [
        broker_row(broker, cluster_id=cluster, run_id="r", rack=rack, state=states.get(f"b{broker}", "alive"))
        for broker, rack in racks.items()
    ]
    return table(spark, "instance_brokers", rows)


def _run(spark: SparkSession, versions: dict[str, str], *, algorithm: str = "auto", seed: int = 0) -> Run:
    clusters = tuple(ClusterInput(id=name, input="/x", kafka_version=version) for name, version in versions.items())
    settings = Settings(clusters=clusters, baseline=Baseline(algorithm=algorithm, seed=seed))
    return Run(spark=spark, run_id="r", settings=settings, code_version="0")


def _rows(inputs: Frames, run: Run) -> dict[Key, Row]:
    frame = build(inputs, run)["baseline"]
    assert frame.columns == BASELINE.names
    return {(row.cluster_id, row.topic, row.partition): row for row in frame.collect()}


def test_two_clusters_of_two_versions(spark: SparkSession) -> None:
    """Each cluster has the algorithm of its version and its own brokers, without draining ones; figures add up."""
    keys = [(c, t, p) for c in ("new", "old") for t in ("a", "b") for p in range(4)]
    racks: dict[int, str | None] = {i: f"rack{i % 2}" for i in range(5)}
    brokers = _brokers(spark, "new", racks, b4="draining").union(_brokers(spark, "old", racks, b3="dead"))
    inputs = {"instance": _instance(spark, keys, [0, 1]), "instance_brokers": brokers}
    rows = _rows(inputs, _run(spark, {"new": "4.3", "old": "3.9"}))
    assert sorted(rows) == sorted(keys)
    for cluster, algorithm, alive in (("new", "striped", [0, 1, 2, 3]), ("old", "admin_utils", [0, 1, 2, 4])):
        placer = default_placer(algorithm, [Broker(i, racks[i]) for i in alive])
        for topic in ("a", "b"):
            expected = place_topic(placer, topic, dict.fromkeys(range(4), 2), topic_seed(0, cluster, topic))
            for partition, replicas in expected.items():
                row = rows[cluster, topic, partition]
                added = len(set(replicas) - {0, 1})
                assert (row.replicas, row.algorithm, row.error) == (replicas, algorithm, None)
                assert (row.added_replicas, row.moved_bytes) == (added, added * 10**12)
                assert row.leader_changed == (replicas[0] != 0)


def test_a_refused_topic_is_a_row(spark: SparkSession) -> None:
    """A topic that Kafka refuses has an empty list, moves nothing and has the reason; other topics are placed."""
    small = _instance(spark, [("c", "ok", 0)], [1])
    large = _instance(spark, [("c", "large", 0)], [0, 1], factor=3)
    inputs = {"instance": small.union(large), "instance_brokers": _brokers(spark, "c", {0: None, 1: None})}
    rows = _rows(inputs, _run(spark, {"c": ""}))
    refused = rows["c", "large", 0]
    assert (refused.replicas, refused.added_replicas, refused.moved_bytes, refused.leader_changed) == ([], 0, 0, False)
    assert "only 2 broker(s) are registered" in refused.error
    assert (len(rows["c", "ok", 0].replicas), rows["c", "ok", 0].error) == (1, None)


def test_the_result_depends_on_the_seed_only(spark: SparkSession) -> None:
    """The number of tasks changes nothing, another seed does; the settings' algorithm wins over the version."""
    inputs = {
        "instance": _instance(spark, [("c", f"t{t}", p) for t in range(6) for p in range(3)], [0, 1]),
        "instance_brokers": _brokers(spark, "c", dict.fromkeys(range(8))),
    }
    run = _run(spark, {"c": "4.3"}, algorithm="admin_utils")
    first = _rows(inputs, run)
    assert {row.algorithm for row in first.values()} == {"admin_utils"}
    before = spark.conf.get("spark.sql.shuffle.partitions") or "2"
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    try:
        assert _rows(inputs, run) == first
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert _rows(inputs, _run(spark, {"c": "4.3"}, algorithm="admin_utils", seed=1)) != first
