"""What a wave changes, as text for the columns ``changes`` and ``result`` of ``executions``, and back."""

import json
from collections.abc import Collection, Iterable

from execution import claims
from execution.health import Baseline
from execution.throttles import Entries, Entry
from execution.wave import Wave


def changes_of(wave: Wave, entries: Entries, baseline: Baseline) -> str:
    """What the wave is about to change and what was wrong before, as JSON.

    It has throttles with their values before and wanted, and replica lists and directories before and after.
    """
    content = {
        "throttles": [[*key, one.before, one.wanted] for key, one in sorted(entries.items())],
        "partitions": [[*partition, wave.before[partition], after] for partition, after in sorted(wave.after.items())],
        "stuck": sorted(wave.stuck),
        "inside": [[*replica, *paths] for replica, paths in sorted(wave.inside.items())],
        "copy_bytes_per_s": wave.copy_bytes_per_s,
        "topic_ids": {topic: wave.topic_ids.get(topic) for topic in sorted({topic for topic, _ in wave.after})},
        "baseline": baseline.to_data(),
    }
    return json.dumps(content, separators=(",", ":"))


def entries_of(changes: str) -> Entries:
    """The throttles of a wave with their values before it."""
    return {
        (kind, name, config): Entry(before, wanted)
        for kind, name, config, before, wanted in json.loads(changes)["throttles"]
    }


def never_set_of(brokers: Collection[int]) -> str | None:
    """The result of a row THROTTLED: brokers whose rates were never set, because they were dead."""
    return json.dumps({"never_set": sorted(brokers)}) if brokers else None


def never_set(rows: Iterable[claims.Row]) -> frozenset[int]:
    """The brokers of ``never_set_of``, from the rows of one hold in order."""
    results = [row["result"] for row in rows if row["event"] == claims.THROTTLED]
    return frozenset(json.loads(results[-1])["never_set"] if results and results[-1] else ())


def stored_baseline(changes: str) -> Baseline:
    """The cluster when the wave began."""
    return Baseline.of_data(json.loads(changes)["baseline"])


def wave_of(number: int, changes: str) -> Wave:
    """A wave without documents: enough to cancel it and to remove its throttles."""
    content = json.loads(changes)
    lists = {(topic, index): lists for topic, index, *lists in content["partitions"]}
    entries = entries_of(changes)
    return Wave(
        number=number,
        style="",
        documents={},
        before={partition: tuple(before) for partition, (before, _) in lists.items()},
        after={partition: tuple(after) for partition, (_, after) in lists.items()},
        stuck=frozenset((topic, index) for topic, index in content["stuck"]),
        throttles={key: one.wanted for key, one in entries.items()},
        previous_throttles={key: one.before for key, one in entries.items() if one.before is not None},
        topic_ids=content["topic_ids"],
        copy_bytes_per_s=content["copy_bytes_per_s"],
        inside={(topic, index, broker): (old, new) for topic, index, broker, old, new in content["inside"]},
    )
