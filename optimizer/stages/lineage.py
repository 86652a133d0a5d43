"""Whether what a stage reads belongs together: made from the same versions, and under the same configuration."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from optimizer.declared import DECLARED, NAMES, WRITERS, sees
from optimizer.errors import StageError
from optimizer.settings import ClusterInput, Settings
from optimizer.stages.stage import Run, Stage
from optimizer.store import RunRecord, Store

# What a release meant that did not know a knob yet, so that its records lack it.
_DEFAULTS = json.loads(Settings(clusters=(ClusterInput(id="any", input="any"),)).planning_json())


def check_lineage(stage: Stage, run: Run, store: Store) -> None:
    """Look at all stages that what a stage reads comes from.

    Raises
    ------
    StageError
        One of them was run on versions that another run of a stage has replaced since, or with other settings: says
        which, and what to run.
    """
    asked = json.loads(run.settings.planning_json())
    for record in _records(stage.reads, run.run_id, store):
        for table, version in record.reads.items():
            now = store.pinned(table, run.run_id)
            if now != version:
                raise StageError(
                    f"run {run.run_id!r}: {record.stage!r} was run on version {version} of the table {table}, which "
                    f"{WRITERS[table]!r} has replaced by {now} since: run {record.stage!r} again, and what follows it"
                )
        others = ", ".join(_differing(record, asked))
        if others:
            raise StageError(
                f"run {run.run_id!r}: {record.stage!r} was run with another value of {others}: give {stage.name!r} the "
                f"same file and options, or run {record.stage!r} again with these, and what follows it"
            )


def _records(tables: Iterable[str], run_id: str, store: Store) -> Iterator[RunRecord]:
    """Of the stages that tables come from, directly or not, each once, those before others first."""
    seen: dict[str, RunRecord] = {}
    open_ = list(tables)
    while open_:
        stage = WRITERS[open_.pop()]
        record = store.run_record(run_id, stage)
        if stage not in seen and record:
            seen[stage] = record
            open_ += record.reads
    return (seen[stage] for stage in sorted(seen, key=NAMES.index))


def _differing(record: RunRecord, asked: dict[str, Any]) -> Iterator[str]:
    """Names of settings that a stage has read and that are others now."""
    declared, told = DECLARED[record.stage].settings, json.loads(record.config_json)
    if (
        "clusters" in declared
        and [{**_DEFAULTS["clusters"][0], **one} for one in told["clusters"]] != asked["clusters"]
    ):
        yield "clusters"
    for section in sorted(asked.keys() - {"clusters"}):
        before = {**_DEFAULTS[section], **told.get(section, {})}
        for knob, value in asked[section].items():
            if before[knob] != value and sees(declared, section, knob):
                yield f"{section}.{knob}"
