"""Reading a small Delta table without Spark: replays its JSON log and reads the files that are left.

Enough for the tables that one run wrote: no deletion vectors, no partition columns, no cleaned-up log.

References
----------
Delta transaction log protocol, section "Actions": https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq


def live_files(table: Path) -> list[Path]:
    """Data files of the newest version, in order of their names; empty when there is no table."""
    live: set[str] = set()
    for log in sorted((table / "_delta_log").glob("*.json")):
        for line in log.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            if "add" in action:
                live.add(action["add"]["path"])
            elif "remove" in action:
                live.discard(action["remove"]["path"])
    return sorted(table / unquote(path) for path in live)


def read_table(warehouse: Path, name: str) -> list[dict[str, Any]]:
    """All rows of a table as dictionaries."""
    return [row for path in live_files(warehouse / name) for row in pq.read_table(path).to_pylist()]
