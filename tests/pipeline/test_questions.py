"""Questions about a fleet of equal clusters, each with other requests: one job has planned them all."""

import io
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from asking.answer import answer
from asking.ask import alternatives, job_options, stored_figures
from asking.question import Question, settings_for
from asking.run_facts import RunFacts, read_facts
from optimizer.configuration import build, merge, read_toml
from optimizer.given_knobs import given_knobs
from optimizer.job_options import parser
from optimizer.meter import Meter
from optimizer.setting_checks import Problems
from optimizer.stages.runner import STAGES, run_stages
from optimizer.stages.stage import Run
from setup.paths import HOME
from stored.tables import Warehouse
from tests.asking.same_tables import differences
from tests.fixtures import sample_consumers

pytestmark = pytest.mark.all_only

RUN_ID = "asked"
PLAIN = "plain"
# What each cluster requests in its own table, and the question that requests the same of a run without requests: each
# request once, alone or with others. Random requests are in tests/planning/test_policy_rules.py, without whole plans.
REQUESTS: dict[str, tuple[dict[str, Any], Question]] = {
    "drain": ({"drain_brokers": [105]}, Question(added_to={"drain_brokers": (105,)})),
    "only_drain": (
        {"only": "drain", "drain_brokers": [105]},
        Question(added_to={"drain_brokers": (105,)}, only="drain"),
    ),
    "bytes": ({"max_moved_gb": 300.0}, Question(knobs={"policy": {"max_moved_gb": 300.0}})),
    "all_lists": (
        {
            **{"drain_brokers": [105], "exclude_brokers": [103], "demote_brokers": [104, 110]},
            "replication_factors": [{"topics": "audit[.].*", "factor": 2}],
            "pins": [{"topics": "orders[.].*", "brokers": [101, 102, 104, 106]}],
        },
        Question(
            added_to={"drain_brokers": (105,), "exclude_brokers": (103,), "demote_brokers": (104, 110)},
            knobs={
                "policy": {
                    "replication_factors": [{"topics": "audit[.].*", "factor": 2}],
                    "pins": [{"topics": "orders[.].*", "brokers": [101, 102, 104, 106]}],
                }
            },
        ),
    ),
    "racks_in_part": (
        {"only": "racks", "max_moves": 3},
        Question(only="racks", knobs={"policy": {"max_moves": 3}}),
    ),
}
WITHOUT_GROUPS = "bytes"  # the only cluster without outputs about consumers
# Clusters whose alternatives are compared: with a limit of their own, so that "no limit" is one, and with a drain.
WITH_ALTERNATIVES = {"bytes": 4, "drain": 3}


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """The bundled sample several times, as clusters of one fleet."""
    folder = tmp_path_factory.mktemp("asked")
    return job(spark, folder, {PLAIN: {}, **{name: requests for name, (requests, _) in REQUESTS.items()}})


def job(spark: SparkSession, folder: Path, clusters: Mapping[str, Mapping[str, Any]], options: str = "") -> Warehouse:
    """The warehouse of a job that plans the sample under these names, each with its own requests."""
    [cluster] = read_toml(HOME / "conf" / "sample.toml")["clusters"]
    with_groups = shutil.copytree(HOME / "conf" / "sample", folder / "sample")
    for name, text in sample_consumers.outputs().items():
        (with_groups / name).write_text(text, encoding="utf-8")
    inputs = {name: cluster["input"] if name == WITHOUT_GROUPS else str(with_groups) for name in clusters}
    content: dict[str, Any] = {
        "storage": {"warehouse": str(folder / "warehouse"), "output": str(folder / "out")},
        "clusters": [{**cluster, "id": name, "input": inputs[name], **clusters[name]} for name in clusters],
    }
    problems = Problems()
    for knob in given_knobs(parser("").parse_args(shlex.split(options)), problems):
        content = merge(content, {knob.section: {knob.knob: knob.value}})
    problems.raise_any()
    settings = build(merge(read_toml(HOME / "conf" / "default.toml"), content))
    run_stages(STAGES, Run(spark, RUN_ID, settings, "test"), Meter(spark, io.StringIO()))
    return Warehouse(str(folder / "warehouse"))


@pytest.mark.parametrize("name", REQUESTS)
def test_a_question_has_the_tables_of_the_job_that_requests_the_same(warehouse: Warehouse, name: str) -> None:
    """The facts are those of the cluster without requests, the policy is the same, and so are all tables."""
    facts, plain = (read_facts(warehouse, cluster, RUN_ID) for cluster in (name, PLAIN))
    partitions, of_plain = (each.partitions.drop(columns="cluster_id") for each in (facts, plain))
    pd.testing.assert_frame_equal(partitions, of_plain)
    pd.testing.assert_frame_equal(facts.brokers, plain.brokers)
    question = REQUESTS[name][1]
    assert requests_of(plain, question) == requests_of(facts, Question())
    assert differences(warehouse, name, RUN_ID) == []


def requests_of(facts: RunFacts, question: Question) -> Any:
    """What a question requests for its cluster."""
    [policy] = settings_for(facts, question).cluster_policies().values()
    return policy


def test_groups_that_notice_a_plan(warehouse: Warehouse) -> None:
    """A run and a question count the groups of their cluster; a cluster without such outputs has none."""
    for name in (PLAIN, "racks_in_part", WITHOUT_GROUPS):
        facts = read_facts(warehouse, name, RUN_ID)
        stored, asked = stored_figures(warehouse, facts), answer(facts, Question()).figures
        counts = {figure: value for figure, value in stored.items() if figure.startswith("groups_")}
        assert counts == {figure: value for figure, value in asked.items() if figure.startswith("groups_")}
        assert counts.get("groups_reading") == (None if name == WITHOUT_GROUPS else (None, 2.0))
    assert {row["cluster_id"] for row in warehouse.rows("consumer_impact")} == {PLAIN, *REQUESTS} - {WITHOUT_GROUPS}


def test_what_a_run_requested_can_be_taken_back(warehouse: Warehouse) -> None:
    """The drain is not in the facts: without it the answer is that of the cluster without requests."""
    facts, plain = (read_facts(warehouse, cluster, RUN_ID) for cluster in ("only_drain", PLAIN))
    assert requests_of(facts, Question(keep=(105,), only="")) == requests_of(plain, Question())


def test_the_options_that_an_answer_prints_make_its_plan(
    spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    """A job with these options has every row of the answer to the question."""
    pins = [{"topics": "audit[.].*", "racks": ["eu-west-1a", "eu-west-1b"]}]
    question = Question(
        added_to={"drain_brokers": (107,), "exclude_brokers": (103,), "demote_brokers": (104,)},
        knobs={"policy": {"disk_band": 0.1, "failover_spread": "off", "pins": pins}, "schedule": {"waves": 3}},
    )
    options = job_options(read_facts(warehouse, PLAIN, RUN_ID), question)
    assert options
    planned = job(spark, tmp_path, {PLAIN: {}}, options)
    assert differences(warehouse, PLAIN, RUN_ID, question, planned=planned) == []


@pytest.mark.parametrize("name", WITH_ALTERNATIVES)
def test_alternatives_of_the_job_are_those_of_the_command(warehouse: Warehouse, name: str) -> None:
    """Every figure that the job has stored is that of the question of the same name, judged by the bands of the run."""
    facts = read_facts(warehouse, name, RUN_ID)
    moved_bytes = stored_figures(warehouse, facts)["moved_bytes"][1]
    questions = alternatives(facts, moved_bytes)
    asked = {
        (question.name, figure): value
        for question in questions
        for figure, (_, value) in answer(facts, question).compared.items()
        if not figure.startswith("groups_")  # about consumers, which the job's alternatives do not count
    }
    rows = warehouse.rows("alternatives", run_id=RUN_ID, cluster_id=name)
    assert len(questions) == WITH_ALTERNATIVES[name]
    assert {(row["alternative"], row["figure"]): row["value"] for row in rows} == asked
