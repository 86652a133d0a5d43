"""Checks that the inputs of a stage belong together: made from the current versions, with the same settings."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from optimizer.declared import DECLARED, NAMES, WRITERS, can_read
from optimizer.errors import StageError
from optimizer.stages.stage import Run, Stage
from optimizer.store import RunRecord, Store


def check_lineage(stage: Stage, run: Run, store: Store) -> None:
    """Check every earlier stage that the inputs of a stage come from, directly or not.

    Raises
    ------
    StageError
        When such a stage read a version that has been replaced since, or ran with other settings. The message names the
        stage and what to run.
    """
    settings = json.loads(run.settings.planning_json())
    for record in _records(stage.reads, run.run_id, store):
        for table, version in record.reads.items():
            now = store.recorded_version(table, run.run_id)
            if now != version:
                raise StageError(
                    f"run {run.run_id!r}: {record.stage!r} read version {version} of the table {table}, and "
                    f"{WRITERS[table]!r} has written version {now} since: run {record.stage!r} again, then all later "
                    "stages"
                )
        changed = ", ".join(_changed_settings(record, settings))
        if changed:
            raise StageError(
                f"run {run.run_id!r}: {record.stage!r} was run with another value of {changed}: give {stage.name!r} "
                f"the same file and options, or run {record.stage!r} again with the new ones, then all later stages"
            )


def _records(tables: Iterable[str], run_id: str, store: Store) -> Iterator[RunRecord]:
    """Records of all stages that the tables come from, directly or not, in the pipeline's order."""
    records: dict[str, RunRecord] = {}
    pending = list(tables)
    while pending:
        stage = WRITERS[pending.pop()]
        record = store.run_record(run_id, stage)
        if stage not in records and record:
            records[stage] = record
            pending += record.reads
    return (records[stage] for stage in sorted(records, key=NAMES.index))


def _changed_settings(record: RunRecord, settings: dict[str, Any]) -> Iterator[str]:
    """Names of settings that the stage read and that have changed since."""
    declared, recorded = DECLARED[record.stage].settings, json.loads(record.config_json)
    if "clusters" in declared and recorded["clusters"] != settings["clusters"]:
        yield "clusters"
    for section in sorted(settings.keys() - {"clusters"}):
        before = recorded.get(section, {})
        for knob in sorted({*before, *settings[section]}):
            if before.get(knob) != settings[section].get(knob) and can_read(declared, section, knob):
                yield f"{section}.{knob}"
