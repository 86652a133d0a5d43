"""Lookups in the JVM while a query is built."""

from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import REFLECTION_COMMAND_NAME
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F


@pytest.fixture
def lookups(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lookups that py4j sends from now on."""
    gateway: Any = spark.sparkContext._gateway
    client = gateway._gateway_client
    sent: list[str] = []
    send = client.send_command

    def noted(command: str, *args: Any, **options: Any) -> Any:
        if command.startswith(REFLECTION_COMMAND_NAME):
            sent.append(command)
        return send(command, *args, **options)

    monkeypatch.setattr(client, "send_command", noted)
    return sent


@pytest.mark.parametrize("make", [lambda: F.col("a"), lambda: F.lit(1), lambda: F.when(F.col("a") > 1, F.lit(2))])
def test_a_column_is_made_without_a_lookup(lookups: list[str], make: Callable[[], Column]) -> None:
    make()
    assert lookups == []


def test_columns_are_selected_without_a_lookup(lookups: list[str], spark: SparkSession) -> None:
    frame: DataFrame = spark.range(3)
    lookups.clear()
    frame.select("id", F.col("id").alias("twice"))
    assert lookups == []


def test_a_lookup_is_noticed(lookups: list[str], spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    getattr(jvm, "java.util.UUID")
    assert len(lookups) == 1
