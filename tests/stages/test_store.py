"""The Delta store: contracts, idempotence by content, pinned versions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import schemas
from optimizer import delta_errors
from optimizer.declared import WRITERS
from optimizer.errors import BallastError, StageError
from optimizer.store import RunRecord, Store
from schemas.runs import BEGIN
from schemas.spark import schema_of

BROKER = {
    "cluster_id": "c",
    "run_id": "r1",
    "broker_id": 1,
    "host": None,
    "port": None,
    "rack": "a",
    "state": "alive",
    "is_controller": False,
    "disk_capacity_bytes": None,
    "in_capacity_bytes_per_s": None,
    "out_capacity_bytes_per_s": None,
}


def brokers(spark: SparkSession, *changes: dict[str, Any], run_id: str = "r1") -> DataFrame:
    """Rows of the table ``brokers`` without NOT NULL, so that the table itself must refuse."""
    ddl = ", ".join(f"{c.name} {c.type}" for c in schemas.ALL["brokers"].columns)
    return spark.createDataFrame([{**BROKER, "run_id": run_id, **change} for change in changes], ddl)


def record(store: Store, version: int, *, run_id: str = "r1") -> RunRecord:
    """What ``validate`` would record."""
    return store.record_run(
        run_id=run_id,
        stage="validate",
        code_version="v",
        config_hash="h",
        config_json="{}",
        reads={"bronze_records": 3},
        writes={"brokers": version},
    )


def begin(store: Store, run_id: str) -> None:
    """What a run's first stage notes before it writes."""
    store.begin(run_id=run_id, code_version="v", config_hash="h", config_json="{}")


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Store:
    """A store in an empty folder with unusual characters in its name."""
    return Store(str(tmp_path / "ware house"), spark)


def test_equal_rows_are_not_written_again(spark: SparkSession, store: Store) -> None:
    """A second write of the same rows, in any order and by a new process, leaves the version as it was."""
    first = store.write("brokers", brokers(spark, {"broker_id": 1}, {"broker_id": 2}), run_id="r1")
    record(store, first)
    again = Store(store.warehouse, spark)
    second = again.write("brokers", brokers(spark, {"broker_id": 2}, {"broker_id": 1}), run_id="r1")
    record(again, second)
    assert (first, second, again.latest_version("brokers"), again.latest_version("runs")) == (1, 1, 1, 1)


def test_rows_counted_in_one_task_are_the_same_rows(spark: SparkSession, store: Store) -> None:
    """Whether they are held to be few does not show in the fingerprint; a key that repeats is found all the same."""
    rows = brokers(spark, {"broker_id": 1}, {"broker_id": 2}, {"broker_id": 3}).repartition(3)
    few = store.write_all({"brokers": rows}, run_id="r1", few_rows=True)
    assert few == store.write_all({"brokers": rows}, run_id="r1")
    with pytest.raises(BallastError, match="1 row repeats the key"):
        store.write_all({"brokers": rows.unionByName(rows.limit(1))}, run_id="r1", few_rows=True)


def test_rows_in_memory_are_those_of_the_table(spark: SparkSession, store: Store) -> None:
    """A store that keeps rows answers with those that it wrote last; released, it reads the table."""
    keeping = Store(store.warehouse, spark, keeps_rows=True)
    for racks in ([{"rack": "a"}, {"broker_id": 2}], [{"rack": "b"}]):
        keeping.write("brokers", brokers(spark, *racks), run_id="r1")
        in_memory, stored = (each.read("brokers", run_id="r1") for each in (keeping, store))
        assert in_memory.inputFiles() == []
        assert stored.inputFiles() != []
        assert sorted(in_memory.collect()) == sorted(stored.collect())
    keeping.release(keep=["topics"])
    assert keeping.read("brokers", run_id="r1").inputFiles() != []


def test_rows_are_counted(spark: SparkSession, store: Store) -> None:
    """The number of rows that a run wrote is known without reading them."""
    assert store.row_count("brokers", "r1") == 0
    store.write("brokers", brokers(spark, {}, {"broker_id": 2}), run_id="r1")
    assert store.row_count("brokers", "r1") == 2


def test_changed_rows_replace_those_of_their_run_only(spark: SparkSession, store: Store) -> None:
    """Another run's rows survive a replacement."""
    store.write("brokers", brokers(spark, {"rack": None, "host": "h"}), run_id="r1")
    store.write("brokers", brokers(spark, {}, run_id="it's"), run_id="it's")
    store.write("brokers", brokers(spark, {"rack": "h", "host": None}), run_id="r1")
    assert [r.rack for r in store.read("brokers", run_id="r1").collect()] == ["h"]
    assert store.read("brokers", run_id="it's").count() == 1


def test_a_store_reads_what_it_wrote_itself(spark: SparkSession, store: Store) -> None:
    """Another process that replaces the rows of the same run changes nothing for it; a third one reads the new rows."""
    store.write("brokers", brokers(spark, {"rack": "mine"}), run_id="r1")
    Store(store.warehouse, spark).write("brokers", brokers(spark, {"rack": "theirs"}), run_id="r1")
    racks = [each.read("brokers", run_id="r1").collect()[0].rack for each in (store, Store(store.warehouse, spark))]
    assert racks == ["mine", "theirs"]


def test_a_run_that_broke_off_before_its_record_is_replaced(spark: SparkSession, store: Store) -> None:
    """The next process, or the same one, finds the rows of a run that had only begun; no row is there twice."""
    begin(store, "r1")
    store.write("brokers", brokers(spark, {}, {"broker_id": 2}), run_id="r1")
    store.write("brokers", brokers(spark, {}, {"broker_id": 3}), run_id="r1")
    rows = [store.read("brokers", run_id="r1").collect()]
    again = Store(store.warehouse, spark)
    begin(again, "r1")
    again.write("brokers", brokers(spark, {}, {"broker_id": 4}), run_id="r1")
    rows.append(again.read("brokers", run_id="r1").collect())
    assert [sorted(row.broker_id for row in group) for group in rows] == [[1, 3], [1, 4]]


def test_rows_that_broke_off_are_not_taken_for_those_before(spark: SparkSession, store: Store) -> None:
    """A run ends between its rows and its record: rows that were recorded before are written again."""
    record(store, store.write("brokers", brokers(spark, {"rack": "a"}), run_id="r1"))
    broken = Store(store.warehouse, spark)
    broken.write("brokers", brokers(spark, {"rack": "b"}), run_id="r1")
    assert Store(store.warehouse, spark).run_record("r1", "validate") is None
    again = Store(store.warehouse, spark)
    record(again, again.write("brokers", brokers(spark, {"rack": "a"}), run_id="r1"))
    assert [row.rack for row in again.current_rows("brokers", "r1")] == ["a"]
    assert again.run_record("r1", "validate") == Store(store.warehouse, spark).run_record("r1", "validate")


def test_what_stages_wrote_is_removed(spark: SparkSession, store: Store) -> None:
    """Their rows and records of one run go; those of other runs and stages stay, and the run can be written again."""
    for run_id in ("r1", "r2"):
        record(store, store.write("brokers", brokers(spark, {}, run_id=run_id), run_id=run_id), run_id=run_id)
    again = Store(store.warehouse, spark)
    again.remove(["validate", "solve"], "r1")
    assert [len(again.current_rows("brokers", run_id)) for run_id in ("r1", "r2")] == [0, 1]
    assert again.run_record("r2", "validate") is not None
    for reader in (again, Store(store.warehouse, spark)):
        assert reader.run_record("r1", "validate") is None
    record(again, again.write("brokers", brokers(spark, {}), run_id="r1"))
    assert len(Store(store.warehouse, spark).current_rows("brokers", "r1")) == 1
    assert Store(store.warehouse, spark).run_record("r1", "validate") is not None


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        ("[DELTA_PROTOCOL_CHANGED] ProtocolChangedException: The protocol version", 3),
        ("[DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION] Cannot create table", 3),
        ("[DELTA_CONCURRENT_APPEND] ConcurrentAppendException: Files were added by a concurrent update", 3),
        ("[DELTA_CONCURRENT_DELETE_READ] This transaction attempted to read files that were deleted", 3),
        ("[DELTA_TABLE_NOT_FOUND] Delta table doesn't exist", 1),
    ],
)
def test_a_table_that_two_processes_change_at_once_is_tried_again(error: str, tries: int) -> None:
    """What Delta answers then passes; after some tries, or for anything else, it is the error."""
    tried: list[str] = []

    def refused() -> None:
        tried.append(error)
        raise AnalysisException(error)

    with pytest.raises(AnalysisException):
        delta_errors.retry_conflicts(refused, (0.0, 0.0))
    assert len(tried) == tries


def test_a_run_begins_once(spark: SparkSession, store: Store) -> None:
    """Its mark says which code and configuration began it, and stays whatever continues it."""
    begin(store, "r1")
    mark = store.run_record("r1", BEGIN)
    assert mark is not None
    assert (mark.code_version, mark.reads, mark.writes) == ("v", {}, {})
    again = Store(store.warehouse, spark)
    again.begin(run_id="r1", code_version="other", config_hash="h", config_json="{}")
    assert again.run_record("r1", BEGIN) == mark
    assert again.latest_version("runs") == store.latest_version("runs") == 1


def jobs_of(spark: SparkSession, name: str, work: Callable[[], object]) -> int:
    """How many Spark jobs a piece of work takes."""
    context = spark.sparkContext
    context.setJobGroup(name, name)
    try:
        work()
    finally:
        context.setJobGroup("tests", "what is not counted")
    return len(context.statusTracker().getJobIdsForGroup(name))


def test_a_new_run_does_not_look_for_its_rows(spark: SparkSession, store: Store) -> None:
    """In a table that holds other runs its rows are appended at once: fewer Spark jobs than where it has to ask."""
    store.write("brokers", brokers(spark, {}), run_id="r1")
    fresh, asking = Store(store.warehouse, spark), Store(store.warehouse, spark)
    begin(fresh, "r2")
    at_once = jobs_of(spark, "at once", lambda: fresh.write("brokers", brokers(spark, {}, run_id="r2"), run_id="r2"))
    jobs_asking = jobs_of(spark, "asked", lambda: asking.write("brokers", brokers(spark, {}, run_id="r3"), run_id="r3"))
    assert at_once < jobs_asking
    modes = spark.sql(f"DESCRIBE HISTORY delta.`{store.path('brokers')}`").select("operationParameters.mode").collect()
    assert [row.mode for row in modes] == ["Append", "Append", "Append", None]


def test_tables_carry_their_contract(spark: SparkSession, store: Store) -> None:
    """Columns have comments, tables their doc and constraints, and no feature that other readers lack."""
    store.ensure("brokers")
    detail: Any = spark.sql(f"DESCRIBE DETAIL delta.`{store.path('brokers')}`").first()
    fields = spark.read.format("delta").load(store.path("brokers")).schema.fields
    assert detail.description == schemas.ALL["brokers"].doc
    assert {f.metadata.get("comment") for f in fields} == {c.comment for c in schemas.ALL["brokers"].columns}
    assert detail.properties["delta.constraints.state_known"] == "state IN ('alive', 'fenced', 'dead')"
    assert detail.properties["delta.enableDeletionVectors"] == "false"
    assert "delta.columnMapping.mode" not in detail.properties


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([{"broker_id": -1}], "broker_id_not_negative"),
        ([{"state": "asleep"}], "state_known"),
        ([{"is_controller": None}], "is_controller"),
        ([{}, {"rack": None}], "1 row repeats the key (cluster_id, run_id, broker_id)"),
        ([{"run_id": "r2"}], "1 row has another run id than 'r1'"),
    ],
)
def test_rows_against_the_contract_are_refused(
    spark: SparkSession, store: Store, changes: list[dict[str, Any]], message: str
) -> None:
    """A broken NOT NULL, CHECK, key or run id is refused in one line that names it."""
    with pytest.raises(BallastError) as caught:
        store.write("brokers", brokers(spark, *changes), run_id="r1")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_table_names_the_stage_to_run(store: Store) -> None:
    """Reading before writing says which stage to run first, and is a usage error (exit code 2)."""
    for ask in (lambda: store.latest_version("replicas"), lambda: store.read("replicas", run_id="r1")):
        with pytest.raises(StageError, match="run the stage 'validate' first"):
            ask()
    with pytest.raises(StageError, match=r"run 'r1' has no table instance .* run the stage 'snapshot' first"):
        store.recorded_version("instance", "r1")
    assert StageError.exit_code == 2


def test_runs_record_versions_and_fingerprints(spark: SparkSession, store: Store) -> None:
    """A new process finds what was recorded, and the version that a later stage must read."""
    version = store.write("brokers", brokers(spark, {}), run_id="r1")
    written = record(store, version)
    again = Store(store.warehouse, spark)
    assert again.run_record("r1", "validate") == written
    assert again.recorded_version("brokers", "r1") == version
    assert written.fingerprints["brokers"].startswith("1:")
    assert again.run_record("r1", "solve") is None


def test_recording_what_was_not_written_is_refused(store: Store) -> None:
    """The audit trail can't name a table that the run never wrote."""
    with pytest.raises(StageError, match=r"did not write \['brokers'\]; write them first"):
        record(store, 7)


def test_several_tables_are_written_at_once(spark: SparkSession, store: Store) -> None:
    """Writing several tables gives the version of each, and the first error if one is refused."""
    log_dirs = spark.createDataFrame(
        [("c", "r1", 1, "/d", 5, None, None, 1, False)], schema_of(schemas.ALL["log_dirs"])
    )
    assert store.write_all({"brokers": brokers(spark, {}), "log_dirs": log_dirs}, run_id="r1") == {
        "brokers": 1,
        "log_dirs": 1,
    }
    with pytest.raises(BallastError, match="state_known"):
        store.write_all({"brokers": brokers(spark, {"state": "?"}), "log_dirs": log_dirs}, run_id="r1")


def test_every_table_has_a_writer() -> None:
    """Each table but the audit trail, the verdicts and those of people names the stage that writes it."""
    assert set(WRITERS) == set(schemas.ALL) - {"runs", "verdicts", "approvals", "executions"}
