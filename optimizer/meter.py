"""Progress on stderr, and what each stage cost: wall and CPU seconds of the process tree, its largest resident size."""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from pyspark.sql import SparkSession

SAMPLE_SECONDS = 1.0  # between looks at the memory
REPORT_SECONDS = 10.0  # between lines: a run of minutes tells that it lives
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def _stat(pid: str) -> tuple[int, float, int] | None:
    """Parent, CPU seconds with reaped children, resident bytes of a process; None when it has gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return int(fields[1]), sum(map(int, fields[11:15])) / _TICKS, int(fields[21]) * _PAGE


def tree_usage(root: int) -> tuple[float, int]:
    """CPU seconds and resident bytes of a process and its living descendants (shared pages count once each)."""
    stats = {int(pid): stat for pid in os.listdir("/proc") if pid.isdigit() and (stat := _stat(pid))}
    inside = {root}
    for _ in range(16):
        grown = inside | {pid for pid, stat in stats.items() if stat[0] in inside}
        if grown == inside:
            break
        inside = grown
    chosen = [stats[pid] for pid in inside if pid in stats]
    return sum(s[1] for s in chosen), sum(s[2] for s in chosen)


class Meter:
    """Measures stages and says how far the work is.

    Parameters
    ----------
    spark : SparkSession
    stream : TextIO
        Where progress goes.

    Notes
    -----
    Under spark-submit in client mode the driver is a child of the JVM, so the tree is rooted there. Executors on other
    machines are not seen.
    """

    def __init__(self, spark: SparkSession, stream: TextIO) -> None:
        self.spark, self.stream = spark, stream
        own = _stat(str(os.getpid()))
        launcher = Path(f"/proc/{own[0]}/cmdline") if own else None
        under_java = launcher is not None and launcher.exists() and b"SparkSubmit" in launcher.read_bytes()
        self.root = own[0] if own and under_java else os.getpid()
        self.stages: list[dict[str, object]] = []
        self.peak_bytes = 0

    def _watch(self, name: str, stop: threading.Event) -> None:
        started, said = time.monotonic(), 0.0
        while not stop.wait(SAMPLE_SECONDS):
            self.peak_bytes = max(self.peak_bytes, tree_usage(self.root)[1])
            elapsed = time.monotonic() - started
            if elapsed - said >= REPORT_SECONDS:
                said = elapsed
                self.stream.write(f"      {name}: {elapsed:.0f} s, {self._tasks()}\n")
                self.stream.flush()

    def _tasks(self) -> str:
        tracker = self.spark.sparkContext.statusTracker()
        infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        total = sum(i.numTasks for i in infos if i)
        return (
            f"{sum(i.numCompletedTasks for i in infos if i)} of {total} tasks of the current step"
            if total
            else "between steps"
        )

    @contextmanager
    def stage(self, name: str, label: str) -> Iterator[None]:
        """Measure one stage; says when it begins to take long, and when it ends."""
        stop = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(name, stop), daemon=True)
        wall, cpu = time.monotonic(), tree_usage(self.root)[0]
        watcher.start()
        outcome = "failed"
        try:
            yield
            outcome = "done"
        finally:
            stop.set()
            watcher.join()
            seconds = time.monotonic() - wall
            spent, resident = tree_usage(self.root)
            self.peak_bytes = max(self.peak_bytes, resident)
            self.stages.append({"stage": name, "wall_seconds": round(seconds, 3), "cpu_seconds": round(spent - cpu, 3)})
            self.stream.write(f"{label} {name:9} {outcome} {seconds:6.1f} s\n")
            self.stream.flush()

    def forget(self) -> None:
        """Drop the figures: those of the attempt before stay."""
        self.stages.clear()

    def write(self, path: Path) -> None:
        """Write the figures as JSON; where no stage has run, those of the attempt before stay."""
        if not self.stages:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"stages": self.stages, "peak_memory_bytes": self.peak_bytes}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
