"""Findings about waves that may not end inside their windows."""

from collections.abc import Iterator

import pandas as pd

import schemas
from optimizer.domain import FindingCode
from optimizer.planning.arrays import with_nulls
from optimizer.planning.finish import finding_row
from optimizer.solve.findings.finding import Finding

# Columns of ``waves`` with times: its start, the end of the interval of its end, and the end of its night.
MOMENTS = ("starts_at", "ends_at", "night_ends_at")


def late_rows(waves: pd.DataFrame) -> pd.DataFrame:
    """Rows of ``wave_findings`` of one cluster, from rows of ``waves`` with ``MOMENTS`` in seconds of Unix time."""
    names = schemas.ALL["wave_findings"].names
    rows = pd.DataFrame(map(finding_row, _late(waves)), columns=names, dtype=object)
    return with_nulls(rows.assign(cluster_id=waves["cluster_id"].iloc[0], run_id=waves["run_id"].iloc[0]))


def _late(waves: pd.DataFrame) -> Iterator[Finding]:
    placed = waves[waves["starts_at"].notna()].sort_values("wave")
    for row in placed[placed["ends_at"].isna() | (placed["ends_at"] > placed["night_ends_at"])].to_dict("records"):
        yield Finding(
            FindingCode.WAVE_TOO_LONG,
            "during",
            amount=int(row["most_seconds"]),
            limit=int(row["night_ends_at"] - row["starts_at"]),
            facts={"wave": int(row["wave"])},
        )
