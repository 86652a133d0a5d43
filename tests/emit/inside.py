"""Plans with waves that move replicas inside brokers: after other waves, and without any."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.requested import Requested
from optimizer.emit.rows import DirectoryRow, DirMoveRow, FigureRow, ThrottleRow, WaveRow
from optimizer.kafka.throttle import LOG_DIR_RATE
from tests.emit.rows import rows_of
from tests.emit.test_pages import synthetic
from tests.emit.throttled import throttled_plan

GB = 10**9
RATE = 4_000_000  # bytes per second and broker
DIRS = [{"path": path, "is_open": True} for path in ("/a", "/b")]
# figure: before, after
FIGURES: Mapping[str, tuple[float | None, float | None]] = {
    "dir_moves": (None, 3),
    "dir_moved_bytes": (None, 60 * GB),
    "dir_bound_bytes": (None, 50 * GB),
    "dirs_outside_bands": (2, 0),
    "fullest_directory_percent": (90, 60),
    "moved_bytes": (0, 0),
}


def move(topic: str, partition: int, broker: int, gigabytes: int, wave: int) -> DirMoveRow:
    """A replica of brokers 1, 2 and 3 that moves from ``/a`` to ``/b``."""
    return DirMoveRow(topic, partition, broker, [1, 2, 3], "/a", "/b", gigabytes * GB, wave, f"id-{topic}")


def with_inside(plan: ClusterPlan, figures: Mapping[str, tuple[float | None, float | None]] = FIGURES) -> ClusterPlan:
    """The plan with two waves inside brokers after its own: three replicas of 30, 20 and 10 GB."""
    first = len(plan.waves) + 1
    moves = [
        move("in", 0, 3, 30, first),
        move("in", 0, 1, 20, first),
        move("out", 5, 2, 10, first + 1),
    ]
    waves = [_wave(first, moves[:2]), _wave(first + 1, moves[2:])]
    throttles = [
        ThrottleRow("brokers", str(row.broker_id), LOG_DIR_RATE, str(RATE), None, row.wave, style)
        for row in moves
        for style in ("careful", "kafka")
    ]
    rows = [FigureRow(name, name, before, None, after) for name, (before, after) in figures.items()]
    own = [row for row in plan.summary if row.figure not in figures]
    return replace(
        plan,
        waves=[*plan.waves, *rows_of(WaveRow, *waves)],
        throttles=[*plan.throttles, *throttles],
        dir_moves=moves,
        summary=[*own, *rows],
        directories=[_directory("/a", 90, 60), _directory("/b", 10, 40)],
        brokers=[replace(row, log_dirs=DIRS) for row in plan.brokers],
    )


def _wave(number: int, moves: list[DirMoveRow]) -> dict[str, Any]:
    size = sum(row.size_bytes for row in moves)
    return {
        "wave": number, "partitions": len({(row.topic, row.partition) for row in moves}), "replicas_moved": len(moves),
        "moved_bytes": size, "busiest_broker": moves[0].broker_id, "busiest_bytes": moves[0].size_bytes,
        "throttle_bytes_per_s": RATE, "copy_bytes_per_s": RATE, "requested_bytes_per_s": RATE, "below_floor": False,
        "estimated_seconds": 7500, "least_seconds": 7000, "most_seconds": 9000, "peak_disk_bytes": 2 * GB,
        "inside_brokers": True,
    }  # fmt: skip


def _directory(path: str, before: int, after: int) -> DirectoryRow:
    """A directory of 100 GB of broker 3 with a band of 40 to 60 GB."""
    return DirectoryRow(
        3, path, True, 100 * GB, 90 * GB, before * GB, before * GB, before * GB, after * GB, max(before, after) * GB,
        1, 40 * GB, 60 * GB,
    )  # fmt: skip


def mixed() -> ClusterPlan:
    """Three waves between brokers, then two inside."""
    figures = {**FIGURES, "moved_bytes": (0.0, 300.0 * GB), "moved_share_percent": (0.0, 10.0)}
    return with_inside(synthetic(12, style="careful"), figures)


def only_inside(*, style: str = "careful") -> ClusterPlan:
    """Two waves inside brokers: no replica changes its broker. The brokers have throttles from before."""
    empty: dict[str, Any] = {"changed": [], "moves": [], "waves": [], "throttles": []}
    plan = replace(throttled_plan(), **empty, throttle_style=style, requested=Requested(only="dirs"))
    return with_inside(plan)
