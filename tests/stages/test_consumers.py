"""Consumer groups through Spark: records to clean tables, doubts with a reason, and what a plan means for them."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import schemas
from optimizer.stages.plan import plan
from optimizer.stages.validate import judge, silver_consumers, validate
from optimizer.stages.validate.rule import quarantined
from sources.record import Record, malformed
from tests.stages import bronze, small_plan
from tests.stages.bronze import healthy
from tests.stages.tables import table

pytestmark = pytest.mark.all_only


def group(name: str, **more: Any) -> Record:
    """What a source states about a group."""
    none = dict.fromkeys(("protocol", "state", "assignor", "coordinator_id", "members", "epoch"))
    return Record("consumer_group", 7, {"group": name, **none, "is_complete": True, **more})


def offset(name: str, number: int, member: str | None = None, lag: int | None = 5, **more: Any) -> Record:
    """The offset of a group in a partition of topic t."""
    place = {"group": name, "topic": "t", "partition": number, "current_offset": 1, "end_offset": 6, "lag": lag}
    return Record("consumer_offset", 8, {**place, "member_id": member, "host": "/h", "client_id": "c", **more})


def member(name: str, member_id: str, *numbers: int, **more: Any) -> Record:
    """A member and what it holds of topic t."""
    assigned = [{"topic": "t", "partitions": list(numbers)}] if numbers else []
    about = {"group": name, "member_id": member_id, "instance_id": None, "host": "/h", "client_id": "c"}
    return Record(
        "consumer_member", 9, {**about, "partitions": len(numbers), "assigned": assigned, "protocol": None, **more}
    )


def read(spark: SparkSession, records: Sequence[Record]) -> silver_consumers.Consumers:
    """The consumers of one cluster."""
    rows = bronze.bronze(spark, {"k": [*healthy(), *records]})
    return silver_consumers.consumers(rows, judge.judge_placements(rows).used)


def rows_of(frame: DataFrame, *key: str) -> list[dict[str, Any]]:
    """Rows, sorted by a key, without the columns that name cluster and run."""
    rows = [row.asDict(recursive=True) for row in frame.orderBy(*key).collect()]
    return [{name: value for name, value in row.items() if name not in ("cluster_id", "run_id")} for row in rows]


def groups_of(found: silver_consumers.Consumers) -> dict[str, Mapping[str, Any]]:
    """Rows of ``consumer_groups`` by group."""
    return {row["group_id"]: row for row in rows_of(found.tables["consumer_groups"], "group_id")}


def members_of(found: silver_consumers.Consumers) -> dict[str, Any]:
    """What each member holds, by member."""
    return {row["member_id"]: row["assigned"] for row in rows_of(found.tables["consumer_members"], "member_id")}


def reasons(found: silver_consumers.Consumers) -> list[str]:
    """Why rows are in quarantine."""
    return sorted(row.reason for frame in found.judged for row in quarantined(frame.rows, frame.rules).collect())


def test_three_outputs_about_one_group(spark: SparkSession) -> None:
    """State, members and offsets of a group become one row, and a row for each member with what it holds."""
    state = group("my app", state="Stable", assignor="range", coordinator_id=2, members=2)
    found = read(
        spark,
        [state, member("my app", "m 1", 2, 0), member("my app", "m 2", protocol="classic"), offset("my app", 0, "m 1")],
    )
    assert groups_of(found)["my app"] == {
        "group_id": "my app", "protocol": "classic", "state": "Stable", "assignor": "range", "coordinator_id": 2,
        "members": 2, "epoch": None, "topics": ["t"], "lag_messages": 5, "is_complete": True,
    }  # fmt: skip
    assert members_of(found) == {"m 1": [{"topic": "t", "partitions": [0, 2]}], "m 2": []}
    assert reasons(found) == []


@pytest.mark.parametrize(
    ("records", "members", "is_complete"),
    [
        ([offset("g", 0, "a"), offset("g", 1, "b")], None, True),
        ([offset("g", 0, "a"), offset("g", 1, "b"), group("g", state="Stable", members=3)], 3, True),
        ([offset("g", 0), offset("g", 1)], None, False),
        ([offset("g", 0), group("g", state="Empty")], 0, True),
        ([offset("g", 0), group("g", state="PreparingRebalance")], None, False),
        ([group("g", state="Stable", members=2)], 2, False),
        ([group("g", state="Empty", members=0)], 0, True),
        ([group("g", is_complete=False)], None, False),
        ([group("g", is_complete=False), member("g", "a", 1)], 1, True),
        ([group("g", members=2), member("g", "a", 1)], 2, False),
    ],
)
def test_who_is_in_a_group(
    spark: SparkSession, records: Sequence[Record], members: int | None, is_complete: bool
) -> None:
    """A list or a state has their number. Offsets name all holders, but no members without partitions."""
    row = groups_of(read(spark, records))["g"]
    assert (row["members"], row["is_complete"]) == (members, is_complete)


def test_offsets_complete_a_list_without_partitions(spark: SparkSession) -> None:
    """Kafka 3.8 and 3.9, and --members alone, do not print what members hold; offsets do, if the numbers agree."""
    found = read(
        spark,
        [
            *(member("g", "a", assigned=None, partitions=2), member("g", "b", assigned=None, partitions=2)),
            *(member("g", "idle"), member("g", "quiet", assigned=None, partitions=0)),
            *(offset("g", 0, "a"), offset("g", 3, "a"), offset("g", 1, "b"), offset("g", 2)),
        ],
    )
    assert members_of(found) == {"a": [{"topic": "t", "partitions": [0, 3]}], "b": None, "idle": [], "quiet": []}


def test_the_newest_output_about_a_group_counts(spark: SparkSession) -> None:
    """Holders of an older output are not those of now."""
    older, newer = (bronze.bronze(spark, {"k": records}) for records in (
        [offset("g", 0, "left"), offset("g", 1, "left"), offset("h", 0, "stays")],
        [*healthy(), offset("g", 0, "came")],
    ))  # fmt: skip
    rows = newer.unionByName(older.withColumn("source", F.lit("a-older.txt")))
    found = silver_consumers.consumers(rows, judge.judge_placements(rows).used)
    assert members_of(found) == {
        "came": [{"topic": "t", "partitions": [0]}],
        "stays": [{"topic": "t", "partitions": [0]}],
    }


def test_lags_that_no_number_holds(spark: SparkSession) -> None:
    """Consumers may commit any offset: a sum out of range is unknown, and stops nothing."""
    found = read(spark, [offset("g", number, "a", lag=-(2**63) + 1) for number in (0, 1)])
    assert groups_of(found)["g"]["lag_messages"] is None


def test_many_rows_about_groups_hide_no_bad_rows(spark: SparkSession) -> None:
    """They do not count in the share of rows in quarantine."""
    bad = malformed(line=1, expected="a line", reason="it is damaged", remedy="repair it", text="x")
    many = [offset("g", 0, f"m{number}") for number in range(400)]
    cases = {"few": [*healthy(), bad], "many": [*healthy(), bad, *many]}
    inputs = {"bronze_records": bronze.bronze(spark, cases), "bronze_metrics": table(spark, "bronze_metrics", [])}
    frames = validate.build(inputs, bronze.run_of(spark, bronze.settings_of([*cases])))
    few, other = frames["quality_results"].where("rule = 'quarantined_share'").collect()
    assert few.observed == other.observed


def test_doubtful_rows_have_a_reason(spark: SparkSession) -> None:
    """Unknown partitions, two holders and unreadable groups go to quarantine, and nothing stops the run."""
    found = read(
        spark,
        [
            *(offset("g", 0), offset("g", 99), member("g", "a", 0, 98), member("g", "b", 0)),
            group("modern", is_complete=False, protocol="consumer"),
            group("secret", is_complete=False),
        ],
    )
    assert reasons(found) == [
        "2 members of group g hold t-0",
        "2 members of group g hold t-0",
        "a member of group g holds t-98, which no description names",
        "group g has an offset for t-99, which no description names",
        "the members of group modern could not be read: a live cluster does not show those of the consumer protocol "
        "(KIP-848)",
        "the members of group secret could not be read",
    ]
    assert members_of(found)["a"] == [{"topic": "t", "partitions": [0]}]
    run = bronze.run_of(spark, bronze.settings_of(["k"]))
    rows = bronze.bronze(spark, {"k": [*healthy(), offset("g", 99), group("modern", is_complete=False)]})
    frames = validate.build({"bronze_records": rows, "bronze_metrics": table(spark, "bronze_metrics", [])}, run)
    assert not validate.gate(frames, run)
    named = {row.rule for row in frames["input_findings"].collect()}
    assert named >= {"offset_is_described", "members_are_read"}


def test_no_source_about_consumers(spark: SparkSession) -> None:
    """Without groups both tables are empty, and no rule is judged."""
    found = read(spark, [])
    assert found.judged == ()
    assert [frame.count() for frame in found.tables.values()] == [0, 0]


def test_what_the_plan_means_for_groups(spark: SparkSession) -> None:
    """Members keep what they hold and may read it from other brokers; a group counts what changes, also by wave."""
    nothing: dict[str, Any] = dict.fromkeys(("protocol", "state", "coordinator_id", "epoch", "lag_messages"))
    groups: small_plan.Rows = [
        {**nothing, "group_id": name, "assignor": "range", "members": members, "topics": [], "is_complete": True}
        for name, members in (("app", 2), ("idle", 0))
    ]
    about = {"group_id": "app", "client_id": "c", "host": "/h", "instance_id": None, "partitions": None}
    members = [
        {**about, "member_id": name, "assigned": [{"topic": topic, "partitions": numbers}]}
        for name, topic, numbers in (("a", "clicks", [0, 1, 2, 10]), ("b", "orders.v1", [0, 1]))
    ]
    inputs = small_plan.inputs(spark, consumer_groups=groups, consumer_members=members)
    tables = plan.build(inputs, small_plan.run(spark))
    app, idle = rows_of(tables["consumer_impact"], "group_id")
    assert {name: app[name] for name in ("partitions", "rack_set_changes", "leader_changes", "copied")} == {
        "partitions": 6, "rack_set_changes": 1, "leader_changes": 2, "copied": 4,
    }  # fmt: skip
    assert [wave["wave"] for wave in app["waves"]] == [1, 2]
    assert sum(wave["copied"] for wave in app["waves"]) == 4
    assert (app["busiest_over_mean"], app["possible_over_mean"], app["least_over_mean"]) == (4 / 3, 1.0, 1.0)
    assert (idle["is_known"], idle["partitions"], idle["waves"]) == (True, 0, [])
    for name in ("consumer_load", "consumer_impact"):
        required = [column.name for column in schemas.ALL[name].columns if not column.nullable]
        assert tables[name].count()
        assert not tables[name].where(" OR ".join(f"{column} IS NULL" for column in required)).count()
    loads = rows_of(tables["consumer_load"], "member_id")
    assert [(row["member_id"], row["brokers"], row["brokers_after"]) for row in loads] == [
        ("a", [1, 2, 3], [1, 6]),
        ("b", [1, 5], [1, 5]),
    ]
    spark.catalog.clearCache()


def test_a_plan_without_groups(spark: SparkSession) -> None:
    """Without groups the tables have no rows, and the other tables do not change."""
    tables = plan.build(small_plan.inputs(spark), small_plan.run(spark))
    assert [tables[name].count() for name in ("consumer_load", "consumer_impact")] == [0, 0]
    spark.catalog.clearCache()
