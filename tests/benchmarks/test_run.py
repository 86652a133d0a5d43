"""``benchmarks/run.py`` and the report, with a run that others wrote."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import __main__ as bench
from benchmarks.case import read_case
from benchmarks.collect import default_plan
from benchmarks.judge import judge
from benchmarks.report import aligned, document, failed_row, growth, merged, row, rows_of
from benchmarks.run import configuration
from benchmarks.tables import read_table
from optimizer.configuration import build, merge, read_toml
from setup.paths import HOME
from tests.benchmarks.test_judge import plan_of, tiny

pytestmark = pytest.mark.all_only

SHARD = {"round": 0, "shard_id": 0, "status": "OPTIMAL", "cpu_seconds": 1.5, "peak_memory_bytes": 7}
BOUNDS = [
    {"kind": "flow", "bound_bytes": 190 * 2**20, "is_best": True, "detail": "d"},
    {"kind": "forced", "bound_bytes": 0, "is_best": False, "detail": "d"},
]
BASELINE = [
    {
        "topic": "t",
        "partition": 0,
        "replicas": [2, 3],
        "added_replicas": 2,
        "moved_bytes": 200 * 2**20,
        "leader_changed": True,
        "error": None,
    }
]
TIMINGS = {"stages": [{"stage": "solve", "wall_seconds": 2.0, "cpu_seconds": 3.0}], "peak_memory_bytes": 2**30}

# Stands in for spark-submit.sh: checks how it is called and lays down what a real run leaves.
FAKE = """\
#!/bin/sh
echo "$@" > "$FAKE_RUN/called"
echo planning
cp -r "$FAKE_RUN/warehouse" "$FAKE_OUT/warehouse"
mkdir -p "$FAKE_OUT/out"
cp -r "$FAKE_RUN/bench" "$FAKE_OUT/out/bench"
exit $FAKE_EXIT
"""


def write_table(folder: Path, rows: list[dict[str, Any]]) -> None:
    """A Delta table of two commits, the first of which was overwritten."""
    (folder / "_delta_log").mkdir(parents=True)
    stale = [row for row in rows for _ in range(2)]
    for name, content in (("a b.parquet", rows), ("old.parquet", stale)):
        pq.write_table(pa.Table.from_pylist(content), folder / name)
    first: list[dict[str, Any]] = [{"commitInfo": {}}, {"add": {"path": "old.parquet"}}]
    second: list[dict[str, Any]] = [{"remove": {"path": "old.parquet"}}, {"add": {"path": "a%20b.parquet"}}]
    for version, actions in enumerate((first, second)):
        text = "\n".join(json.dumps(action) for action in actions)
        (folder / "_delta_log" / f"{version:020d}.json").write_text(text)


@pytest.fixture
def finished_run(tmp_path: Path) -> Path:
    """What a run leaves: tables, the reassignment and timings."""
    run = tmp_path / "run"
    for name, rows in (("bounds", BOUNDS), ("shard_results", [SHARD]), ("baseline", BASELINE)):
        write_table(run / "warehouse" / name, rows)
    (run / "bench" / "bench").mkdir(parents=True)
    (run / "bench" / "timings.json").write_text(json.dumps(TIMINGS))
    (run / "bench" / "bench" / "reassignment.json").write_text(json.dumps(plan_of(p0=[0, 3], p2=[3, 0])))
    script = tmp_path / "submit"
    script.write_text(FAKE)
    script.chmod(0o755)
    return run


def call(run: Path, out: Path, *, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command on the small instance; the folder it writes into is ``out``."""
    instance = run.parent / "tiny.json"
    instance.write_text(json.dumps(tiny(meta={"bands": {"count": 1, "disk": 0.1}}, decommission=[2])))
    env = {**os.environ, "FAKE_RUN": str(run), "FAKE_OUT": str(out), "FAKE_EXIT": str(code)}
    env["BALLAST_SUBMIT"] = str(run.parent / "submit")
    command = [sys.executable, "-S", str(HOME / "benchmarks/run.py"), str(instance), str(out), "--master", "local[1]"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_plan_and_result(finished_run: Path, tmp_path: Path) -> None:
    """The command leaves the plan and a result with its costs, bounds, gap, seconds and memory, and can be repeated."""
    out = tmp_path / "out"
    for _ in range(2):
        assert call(finished_run, out).returncode == 0
    assert json.loads((out / "plan.json").read_text()) == plan_of(p0=[0, 3], p2=[3, 0])
    result = json.loads((out / "result.json").read_text())
    assert (result["instance"], result["status"], result["moves"]) == ("tiny", "planned", 2)
    assert (result["moved_bytes"], result["bound_bytes"], result["bound_kind"]) == (200 * 2**20, 190 * 2**20, "flow")
    assert result["gap_percent"] == pytest.approx(5.2632)
    assert (result["cpu_seconds"], result["peak_memory_bytes"], result["shards"]["cpu_seconds"]) == (3.0, 2**30, 1.5)
    assert result["kafka_default"]["moves"] == 2
    assert (finished_run / "called").read_text().startswith("--master local[1] pipeline --config ")
    assert "planning" in (out / "log.txt").read_text()


def test_nothing_to_do(finished_run: Path, tmp_path: Path) -> None:
    """A run without a reassignment document leaves an empty plan."""
    (finished_run / "bench" / "bench" / "reassignment.json").unlink()
    out = tmp_path / "out"
    assert call(finished_run, out).returncode == 0
    assert json.loads((out / "plan.json").read_text()) == {"version": 1, "partitions": []}
    assert json.loads((out / "result.json").read_text())["moved_bytes"] == 0


def test_refused(finished_run: Path, tmp_path: Path) -> None:
    """A refused run passes its exit code on, leaves no plan and says so in the result."""
    out = tmp_path / "out"
    assert call(finished_run, out, code=3).returncode == 3
    assert not (out / "plan.json").exists()
    assert json.loads((out / "result.json").read_text())["status"] == "refused"


def test_missing_instance(tmp_path: Path) -> None:
    """A missing instance is a usage error."""
    command = [sys.executable, str(HOME / "benchmarks/run.py"), "nowhere.json", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "nowhere.json is not a file" in done.stderr


def test_configuration(tmp_path: Path) -> None:
    """States, decommission and bands become the policy, in a configuration that the project accepts."""
    instance = tiny(meta={"bands": {"count": 0.2, "disk": 0.1, "in": 1}}, decommission=[2])
    instance["brokers"][0]["state"] = "draining"
    config = tmp_path / "bench.toml"
    config.write_text(configuration(instance, tmp_path))
    settings = build(merge(tomllib.loads((HOME / "conf/default.toml").read_text()), read_toml(config)))
    assert settings.policy.drain_brokers == (0, 2)
    assert (settings.policy.replicas_band, settings.policy.disk_band, settings.policy.in_band) == (0.2, 0.1, 1.0)
    assert settings.clusters[0].input == str(tmp_path / "input")


def test_tables_without_spark(finished_run: Path) -> None:
    """Only the newest version's files are read; a missing table has no rows."""
    assert read_table(finished_run / "warehouse", "shard_results") == [SHARD]
    assert read_table(finished_run / "warehouse", "nothing") == []


def test_report(finished_run: Path, tmp_path: Path) -> None:
    """The report compares the plan with Kafka's default, and shows a failed run as failed."""
    out = tmp_path / "out"
    call(finished_run, out)
    case = read_case(tiny())
    result = json.loads((out / "result.json").read_text())
    verdict = judge(case, json.loads((out / "plan.json").read_text()))
    cells = row(result, verdict, judge(case, default_plan(out / "warehouse")))
    assert (cells["moves"], cells["gap %"], cells["default: moves"]) == ("2", "5.263", "2")
    assert (cells["outside bands"], cells["rule breaks"]) == ("2 → 0", "0 → 0")
    failed = failed_row({"instance": "x", "status": "refused", "exit_code": 3})
    page = document([cells, failed], "Measured here.")
    assert "| tiny | 2 | 0.000 | 0.000 | 5.263 |" in page
    assert "| x | refused, exit code 3 | - |" in page
    assert aligned([cells, failed]).count("\n") == 2


def test_growth_is_shown_of_scenarios_in_several_sizes() -> None:
    """A line for each scenario and seed, a column for each size; nothing where there is one size only."""

    def cells(name: str, seconds: str) -> dict[str, str]:
        return failed_row({"instance": name, "status": "planned", "exit_code": 0}) | dict.fromkeys(
            ("shard CPU-s", "all CPU-s", "wall s"), seconds
        )

    rows = [cells("S-drift-1", "1"), cells("M-drift-1", "7"), cells("M-decom-2", "5"), cells("odd-tiny_topics-1", "2")]
    lines = growth(rows).splitlines()[-4:]
    assert lines[0] == "| scenario | S (30 brokers) | M (100 brokers) |"
    assert lines[2:] == ["| drift-1 | 1 / 1 / 1 | 7 / 7 / 7 |", "| decom-2 | - | 5 / 5 / 5 |"]
    assert growth(rows[:1]) == ""


def test_rows_of_a_page_stay_beside_new_ones() -> None:
    """In the page's order: sizes, then racks of another number, then odd ones; a new row takes its instance's place."""

    def measured(name: str, moves: str) -> dict[str, str]:
        return failed_row({"instance": name, "status": "", "exit_code": 0}) | {"moves": moves}

    names = ["S-decom-1", "S-decom-3", "M-drift-1", "XL-drift-1", "XL-expand_on_3_racks-1", "odd-bare-1"]
    page = document([measured(name, "old") for name in names], "Measured here.")
    new = [measured("S-decom-2", "new"), measured("M-drift-1", "new")]
    rows = merged(rows_of(page), new)
    assert [(r["instance"], r["moves"]) for r in rows] == [
        ("S-decom-1", "old"),
        ("S-decom-2", "new"),
        ("S-decom-3", "old"),
        ("M-drift-1", "new"),
        ("XL-drift-1", "old"),
        ("XL-expand_on_3_racks-1", "old"),
        ("odd-bare-1", "old"),
    ]


def test_a_run_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has a result is not planned again."""

    def refuse(*command: object, **options: object) -> None:
        raise AssertionError(command)

    (tmp_path / "result.json").write_text(json.dumps({"instance": "x", "status": "refused", "exit_code": 3}))
    monkeypatch.setattr("benchmarks.__main__.subprocess.run", refuse)
    cells = bench.plan_and_judge(tmp_path / "x.json", tmp_path, [], steps=0, resume=True)
    assert cells["moves"] == "refused, exit code 3"
    with pytest.raises(AssertionError):
        bench.plan_and_judge(tmp_path / "x.json", tmp_path, [], steps=0)


def test_choice_of_instances() -> None:
    """Sizes, scenarios, seeds and odd names give the instances of a report, in order."""
    names = bench.chosen(["S"], ["drift", "decom"], [1, 2], ["balanced"])
    assert list(names) == ["S-drift-1", "S-drift-2", "S-decom-1", "S-decom-2", "odd-balanced-1", "odd-balanced-2"]
    few = bench.chosen(["S"], ["drift"], [1], [], racks=3)
    assert [(name, len({b["rack"] for b in make()["brokers"]})) for name, make in few.items()] == [
        ("S-drift_on_3_racks-1", 3)
    ]
    asked, options = bench.parse(["--sizes", "S", "--odd", "--master", "local[2]"])
    assert (asked.sizes, asked.odd, options) == (["S"], [], ["--master", "local[2]"])
