"""Makes warehouses with finished runs for the command report, as the job and the commands write them, without Spark."""

import hashlib
import json
from datetime import datetime, timedelta
from typing import Any

from execution import journal
from stored.tables import Warehouse
from tests.execution.test_runs import NOW, end
from tests.execution.warehouse import add_waves

GB = 10**9
HOUR = 3600
LINES = 8  # quarantined lines of a cluster: more than a page shows
# Documents of a plan, some with bytes that a careless copy would change.
DECISION = {
    "captured_at": "2026-10-05T02:00:00+00:00",
    "valid_until": None,
    "verdict": {"state": "amber", "headline": "Move \u00e9 20 GB"},
    "goals": [{"name": "racks", "is_reached": True}, {"name": "balance", "is_reached": False}],
    "cards": [{"value": "75 → 51 %", "label": "fullest disk", "remark": ""}],
    "copying": {"waves": 2, "nights": None, "words": "2 h"},
    "has_racks": True,
    "figures": {"gap_percent": {"after": 0.5}, "moved_bytes": {"after": 2e10}},
}
CONTENTS = {
    "decision.json": json.dumps(DECISION),
    "manifest.json": '{"a": "\u00e9"}\n',
    "report.css": "p { }\n",
    "report.html": '<p>\U0001f600 plan, <a href="runbook.md">Runbook</a>, <a href="#b">b</a></p>\r\n',
    "runbook.md": "no line end",
    "wave-01/reassignment.json": "{}\n",
    "wave-01/throttle.sh": "#!/bin/sh\n",
}


def key_of(run_id: str, cluster: str) -> dict[str, str]:
    """The key columns of a cluster's rows."""
    return {"cluster_id": cluster, "run_id": run_id}


def add_documents(warehouse: Warehouse, run_id: str, cluster: str, contents: dict[str, str] = CONTENTS) -> None:
    """Store the documents of a plan."""
    rows = [
        {
            **key_of(run_id, cluster),
            "path": f"{cluster}/{name}",
            "kind": name.partition(".")[0],
            "wave": 0,
            "content": content,
            "sha256": hashlib.sha256(content.encode()).hexdigest(),
        }
        for name, content in reversed(contents.items())
    ]
    warehouse.append("documents", rows)


def add_checks(warehouse: Warehouse, run_id: str, cluster: str) -> None:
    """Store a failed check of the input, a passed check, and quarantined lines with the last line first."""
    usual = {
        **key_of(run_id, cluster), "expectation": "e", "severity": "critical", "threshold": "no row", "least": None,
        "most": 0.0, "judged_rows": 10, "remedy": "repair it",
    }  # fmt: skip
    failed = {"table_name": "replicas", "rule": "size_known", "success": False, "unexpected_count": LINES}
    passed = {"table_name": "brokers", "rule": "rack_known", "success": True, "unexpected_count": 0}
    results = [{**usual, **row, "observed": f"{row['unexpected_count']} of 10 rows"} for row in (failed, passed)]
    warehouse.append("quality_results", results)
    line = {
        **key_of(run_id, cluster), "source": "sizes.txt", "kind": "sizes", "rule": "size_known", "severity": "error",
        "remedy": "repair it", "payload": "{}",
    }  # fmt: skip
    numbers = range(LINES, 0, -1)
    warehouse.append("quarantine", [{**line, "line": number, "reason": f"size {number}"} for number in numbers])


def add_figures(warehouse: Warehouse, run_id: str, cluster: str, **figures: tuple[float | None, float | None]) -> None:
    """Store figures of a plan: the values before and after it."""
    rows = [
        {
            **key_of(run_id, cluster),
            "position": position,
            "figure": name,
            "before": before,
            "baseline": None,
            "after": after,
            "label": name,
        }
        for position, (name, (before, after)) in enumerate(figures.items())
    ]
    warehouse.append("plan_summary", rows)


def copy_wave(warehouse: Warehouse, run_id: str, cluster: str, wave: int, hours: float | None) -> None:
    """Store the events of a wave that was executed and released; its copies took these hours, or were not timed."""
    times: dict[str, datetime] = {journal.HELD: NOW, journal.EXECUTED: NOW}
    if hours is not None:
        times[journal.COPIED] = NOW + timedelta(hours=hours)
    times[journal.RELEASED] = NOW + timedelta(hours=hours or 0)
    first = len(warehouse.rows("executions", cluster_id=cluster)) + 1
    row: dict[str, Any] = {**key_of(run_id, cluster), "wave": wave, "holder": "me"}
    numbered = enumerate(times.items(), first)
    warehouse.append(
        "executions", [{**row, "number": n, "event": event, "happened_at": time} for n, (event, time) in numbered]
    )


def add_plan(warehouse: Warehouse, run_id: str, cluster: str, *, waves: int = 2) -> None:
    """Store a plan: documents, checks, figures, and waves of 10 GB and of one to two hours."""
    add_documents(warehouse, run_id, cluster)
    add_checks(warehouse, run_id, cluster)
    figures = {"brokers_outside_bands": (7.0, 0.0), "moved_bytes": (0.0, 1.0)}
    add_figures(warehouse, run_id, cluster, **figures)
    times = {"estimated_seconds": HOUR, "least_seconds": HOUR, "most_seconds": 2 * HOUR}
    add_waves(warehouse, run_id, cluster, waves, moved_bytes=10 * GB, **times)


__all__ = [
    "CONTENTS",
    "GB",
    "HOUR",
    "NOW",
    "add_checks",
    "add_documents",
    "add_figures",
    "add_plan",
    "copy_wave",
    "end",
    "key_of",
]
