"""The bundled sample with a changed file, as it happens to operators: refused, or reported above the figures."""

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from optimizer.settings import ClusterInput, Settings
from optimizer.stages.ingest import ingest
from optimizer.stages.validate import validate
from setup.paths import HOME
from tests.stages.bronze import run_of

SAMPLE = HOME / "conf" / "sample"
DESCRIBE, BROKERS, LOGS = "topics-describe.txt", "broker-api-versions.txt", "log-dirs.json.txt"
CONFIGS, METRICS, CAPACITY = "configs-topics.txt", "metrics.csv", "capacity.json"
Change = Callable[[Path], None]


@dataclass(frozen=True)
class Case:
    """A change of the sample's folder.

    Parameters
    ----------
    stops : tuple of str
        Rules that refuse the run; empty where it goes on.
    details : mapping of str to str
        Findings above the figures: rule, and a part of the detail.
    """

    change: Change
    stops: tuple[str, ...] = ()
    details: Mapping[str, str] | None = None


def edited(name: str, edit: Callable[[str], str], *, without_metrics: bool = True) -> Change:
    """A change of one file's text; without metrics, only the log directories and the description remain."""

    def change(folder: Path) -> None:
        path = folder / name
        path.write_text(edit(path.read_text(encoding="utf-8")), encoding="utf-8")
        if without_metrics:
            (folder / METRICS).unlink()

    return change


def _without_broker_104(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if "(id: 104 " not in line)


def _timed_out(text: str) -> str:
    lines = text.splitlines(keepends=True)
    headers = [n for n, line in enumerate(lines) if line.startswith("Topic:")]
    rest = "Error while executing topic command : Call(callName=describeTopics) timed out at 1764000000000\n"
    return "".join(lines[: headers[-14]]) + rest


def _rotated(text: str) -> str:
    """The log directories of a twin cluster: each broker reports the logs of the next one."""
    banner, _, document = text.partition("{")
    content = json.loads("{" + document)
    ids = [entry["broker"] for entry in content["brokers"]]
    for entry, broker_id in zip(content["brokers"], ids[1:] + ids[:1], strict=True):
        entry["broker"] = broker_id
    return banner + json.dumps(content) + "\n"


def _failed_directory(text: str) -> str:
    banner, _, document = text.partition("{")
    content = json.loads("{" + document)
    entry = next(entry for entry in content["brokers"] if entry["broker"] == 103)
    first, rest = entry["logDirs"][0], entry["logDirs"][0]["partitions"]
    first["partitions"] = rest[: len(rest) // 2]
    entry["logDirs"].append({"logDir": "/failed", "error": "KafkaStorageException", "partitions": []})
    return banner + json.dumps(content) + "\n"


def _kilobytes(text: str) -> str:
    return re.sub(r'"size":(\d+)', lambda match: f'"size":{1000 * int(match[1])}', text)


def _few_rates(text: str) -> str:
    """Rates of 647 of the 960 partitions."""
    header, *lines = text.splitlines(keepends=True)
    names = sorted({tuple(line.split(",")[1:3]) for line in lines})
    rated = set(names[:647])
    return header + "".join(line for line in lines if tuple(line.split(",")[1:3]) in rated)


def _in_two_parts(folder: Path) -> None:
    """The second half of the description as PowerShell's > writes it."""
    path = folder / DESCRIBE
    text = path.read_text(encoding="utf-8")
    half = text.index("\nTopic:", len(text) // 2) + 1
    path.write_text(text[:half], encoding="utf-8")
    (folder / "topics-describe-2.txt").write_bytes(b"\xff\xfe" + text[half:].encode("utf-16-le"))
    (folder / METRICS).unlink()


def _visible_to_shop_alone(folder: Path) -> None:
    """Topics and configs as a user sees them with ACLs for shop* only; log directories show all topics."""
    path = folder / DESCRIBE
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if re.match(r"\t?Topic: (shop|orders|warehouse)", line)))
    (folder / CONFIGS).unlink()
    (folder / METRICS).unlink()
    (folder / "reassignments-list.txt").unlink()


CASES = {
    "as-it-is": Case(edited(BROKERS, str), (), {}),
    "list-lacks-104": Case(edited(BROKERS, _without_broker_104), ("unlisted_is_silent",)),
    "describe-timed-out": Case(edited(DESCRIBE, _timed_out), ("tool_errors", "undescribed_partitions")),
    "logs-of-a-twin": Case(edited(LOGS, _rotated), ("misplaced_partitions",)),
    "failed-directory": Case(
        edited(LOGS, _failed_directory),
        (),
        {"log_dir_healthy": "directory /failed of broker 103 has failed: KafkaStorageException"},
    ),
    "sizes-in-kilobytes": Case(edited(LOGS, _kilobytes), ("disk_in_one_unit",)),
    "rates-of-some": Case(
        edited(METRICS, _few_rates, without_metrics=False),
        (),
        {"rates_known": "313 of 960 partitions, with "},
    ),
    "one-part-in-utf-16": Case(_in_two_parts, (), {}),
    "acls-show-a-part": Case(_visible_to_shop_alone, ("undescribed_partitions",)),
    "list-says-none-and-some": Case(
        edited("reassignments-list.txt", lambda text: f"No partition reassignments found.\n{text}"),
        ("contradicting_answers",),
    ),
    "capacity-cut-off": Case(edited(CAPACITY, lambda text: text[: len(text) // 2]), ("unreadable_files",)),
}
Rows = Sequence[Mapping[str, Any]]


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    """Rows that ingest and validate make of all cases, each a cluster of one run."""
    folder = tmp_path_factory.mktemp("samples")
    for name, case in CASES.items():
        shutil.copytree(SAMPLE, folder / name)
        case.change(folder / name)
    clusters = tuple(
        ClusterInput(id=name, input=str(folder / name), captured_at="2026-10-05T02:00:00Z") for name in CASES
    )
    run = replace(run_of(spark, Settings(clusters=clusters)))
    bronze = {name: frame.localCheckpoint() for name, frame in ingest.build({}, run).items()}
    made = validate.build(bronze, run)
    return {name: [row.asDict() for row in made[name].collect()] for name in ("quality_results", "input_findings")}


@pytest.mark.all_only
@pytest.mark.parametrize("name", CASES)
def test_what_contradicts_is_refused(written: dict[str, Rows], name: str) -> None:
    """The run is refused for just the cause, by the rules that name it."""
    failed = {
        row["rule"]
        for row in written["quality_results"]
        if row["cluster_id"] == name and not row["success"] and row["severity"] == "critical"
    }
    expected = set(CASES[name].stops)
    assert expected <= failed
    assert bool(expected) == bool(failed)


@pytest.mark.all_only
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.stops])
def test_what_is_left_out_is_reported_first(written: dict[str, Rows], name: str) -> None:
    """A run that continues reports what was left out, contradicts or is broken, and nothing else."""
    rows = [row for row in written["input_findings"] if row["cluster_id"] == name and row["standing"] != "noted"]
    details = CASES[name].details or {}
    assert {row["rule"] for row in rows} == set(details)
    assert all(details[row["rule"]] in row["detail"] for row in rows)
