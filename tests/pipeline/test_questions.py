"""Questions about a fleet of equal clusters, each with other requests: one job has planned them all."""

import io
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from asking.question import Question, settings_for
from asking.run_facts import RunFacts, read_facts
from execution.tables import Warehouse
from optimizer.configuration import build, merge, read_toml
from optimizer.meter import Meter
from optimizer.stages.runner import STAGES, run_stages
from optimizer.stages.stage import Run
from setup.paths import HOME
from tests.asking.same_tables import differences

pytestmark = pytest.mark.all_only

RUN_ID = "asked"
PLAIN = "plain"
# What each cluster requests in its own table, and the question that requests the same of a run without requests.
REQUESTS: dict[str, tuple[dict[str, Any], Question]] = {
    "drain": ({"drain_brokers": [105]}, Question(added_to={"drain_brokers": (105,)})),
    "two": ({"drain_brokers": [105, 107]}, Question(added_to={"drain_brokers": (105, 107)})),
    "exclude": ({"exclude_brokers": [112]}, Question(added_to={"exclude_brokers": (112,)})),
    "demote": ({"demote_brokers": [101]}, Question(added_to={"demote_brokers": (101,)})),
    "racks": ({"only": "racks"}, Question(only="racks")),
    "leaders": ({"only": "leaders"}, Question(only="leaders")),
    "only_drain": (
        {"only": "drain", "drain_brokers": [105]},
        Question(added_to={"drain_brokers": (105,)}, only="drain"),
    ),
    "bytes": ({"max_moved_gb": 300.0}, Question(knobs={"policy": {"max_moved_gb": 300.0}})),
    "moves": ({"max_moves": 40}, Question(knobs={"policy": {"max_moves": 40}})),
    "pin": (
        {"pins": [{"topics": "audit[.].*", "racks": ["eu-west-1a", "eu-west-1b"]}]},
        Question(knobs={"policy": {"pins": [{"topics": "audit[.].*", "racks": ["eu-west-1a", "eu-west-1b"]}]}}),
    ),
    "factor": (
        {"replication_factors": [{"topics": "clicks.*", "factor": 2}]},
        Question(knobs={"policy": {"replication_factors": [{"topics": "clicks.*", "factor": 2}]}}),
    ),
}


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """The bundled sample several times, as clusters of one fleet."""
    folder = tmp_path_factory.mktemp("asked")
    [cluster] = read_toml(HOME / "conf" / "sample.toml")["clusters"]
    own = {PLAIN: {}, **{name: requests for name, (requests, _) in REQUESTS.items()}}
    content = {
        "storage": {"warehouse": str(folder / "warehouse"), "output": str(folder / "out")},
        "clusters": [{**cluster, "id": name, **requests} for name, requests in own.items()],
    }
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


def test_what_a_run_requested_can_be_taken_back(warehouse: Warehouse) -> None:
    """The drain is not in the facts: without it the answer is that of the cluster without requests."""
    facts, plain = (read_facts(warehouse, cluster, RUN_ID) for cluster in ("only_drain", PLAIN))
    assert requests_of(facts, Question(keep=(105,), only="")) == requests_of(plain, Question())
