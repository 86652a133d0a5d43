"""Contracts against tables of other releases, without a table."""

import re

import pytest

import schemas
from optimizer.contracts import missing_checks, missing_columns
from optimizer.domain import MOBILITY, URGENCY
from optimizer.errors import ConfigError
from optimizer.solve.shard.shard_solver import FAILED, FEASIBLE, OPTIMAL, OUT_OF_TIME, UNCHANGED

BROKERS = schemas.ALL["brokers"]


@pytest.mark.parametrize(
    ("table", "column", "values"),
    [
        ("instance", "mobility", MOBILITY),
        ("moves", "reason", URGENCY),
        ("shard_results", "status", (OPTIMAL, FEASIBLE, UNCHANGED, FAILED, OUT_OF_TIME)),
    ],
)
def test_a_column_of_codes_takes_just_those_that_there_are(table: str, column: str, values: tuple[str, ...]) -> None:
    """What a table checks is the list that the code goes by."""
    (sql,) = (sql for _, sql in schemas.ALL[table].checks if sql.startswith(f"{column} IN "))
    assert sorted(re.findall(r"'(\w+)'", sql)) == sorted(values)


@pytest.mark.parametrize(
    ("kind", "nullable", "message"),
    [
        ("int", True, "column rack is int in the table, string in this release"),
        ("string", False, "column rack is string NOT NULL in the table, string in this release"),
    ],
)
def test_a_column_of_another_type_is_refused(kind: str, nullable: bool, message: str) -> None:
    """It can't be added to the table: the error names both types."""
    other = [schemas.Column("rack", kind, "", nullable) if c.name == "rack" else c for c in BROKERS.columns]
    with pytest.raises(ConfigError, match=re.escape(message)):
        missing_columns(BROKERS, other, "w")


def test_one_sentence_is_about_all_differences_of_a_table() -> None:
    """The first one with both forms, and how many more there are; required columns that are missing come first."""
    other = [schemas.Column("host", "bigint"), *(c for c in BROKERS.columns if c.name not in ("host", "state"))]
    with pytest.raises(ConfigError) as caught:
        missing_columns(BROKERS, [*other, schemas.Column("cause", "string")], "w")
    assert str(caught.value) == (
        "table brokers of w was made by another release: column state is missing in the table, string NOT NULL in this "
        "release (2 more differences); name another warehouse ([storage] warehouse, --warehouse), or run the release "
        "that made it"
    )


@pytest.mark.parametrize("sql", ["length(rack) < 9", "rack IS NULL OR length(rack) < 9", "places_left > 0"])
def test_a_check_that_only_the_table_has_is_refused(sql: str) -> None:
    """A row could break it after hours of work: it is named at once, with the remedy."""
    message = f"check rack_short is {sql} in the table, missing in this release; name another warehouse"
    with pytest.raises(ConfigError, match=re.escape(message)):
        missing_checks(BROKERS, {**dict(BROKERS.checks), "rack_short": sql}, "w")


@pytest.mark.parametrize("sql", ["places IS NULL OR size(places) < 3", "places  is null\nor size(places) < 3"])
def test_a_check_of_a_column_that_only_the_table_has_stays(sql: str) -> None:
    """Where the column is null the check holds, and an earlier release writes nothing else."""
    assert missing_checks(BROKERS, {**dict(BROKERS.checks), "places_few": sql}, "w") == {}
