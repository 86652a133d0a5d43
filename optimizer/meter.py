"""Progress on stderr, and the cost of each stage: wall and CPU seconds and peak memory of the process tree."""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from pyspark.sql import SparkSession

SAMPLE_SECONDS = 1.0  # between samples of the memory
REPORT_SECONDS = 10.0  # between progress lines: they show that a long stage still works
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def _stat(pid: str) -> tuple[int, float, int] | None:
    """Parent, CPU seconds with reaped children, and resident bytes of a process; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return int(fields[1]), sum(map(int, fields[11:15])) / _TICKS, int(fields[21]) * _PAGE


def tree_usage(root: int) -> tuple[float, int]:
    """CPU seconds and resident bytes of a process and its living descendants (shared pages count once each)."""
    stats = {int(pid): stat for pid in os.listdir("/proc") if pid.isdigit() and (stat := _stat(pid))}
    tree = {root}
    for _ in range(16):
        larger = tree | {pid for pid, stat in stats.items() if stat[0] in tree}
        if larger == tree:
            break
        tree = larger
    found = [stats[pid] for pid in tree if pid in stats]
    return sum(s[1] for s in found), sum(s[2] for s in found)


class Meter:
    """Measures stages and prints progress.

    Parameters
    ----------
    spark : SparkSession
    stream : TextIO
        Receives the progress lines.

    Notes
    -----
    Under spark-submit in client mode the JVM is the driver's parent, so it is the root of the measured process tree.
    Executors on other machines are not measured.
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
        started, reported = time.monotonic(), 0.0
        while not stop.wait(SAMPLE_SECONDS):
            self.peak_bytes = max(self.peak_bytes, tree_usage(self.root)[1])
            elapsed = time.monotonic() - started
            if elapsed - reported >= REPORT_SECONDS:
                reported = elapsed
                self.stream.write(f"      {name}: {elapsed:.0f} s, {self._describe_tasks()}\n")
                self.stream.flush()

    def _describe_tasks(self) -> str:
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
        """Measure one stage; print its progress every ``REPORT_SECONDS`` and its end."""
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
            cpu_now, resident = tree_usage(self.root)
            self.peak_bytes = max(self.peak_bytes, resident)
            self.stages.append(
                {"stage": name, "wall_seconds": round(seconds, 3), "cpu_seconds": round(cpu_now - cpu, 3)}
            )
            self.stream.write(f"{label} {name:9} {outcome} {seconds:6.1f} s\n")
            self.stream.flush()

    def forget(self) -> None:
        """Drop the figures, so that ``write`` keeps those of the previous attempt."""
        self.stages.clear()

    def write(self, path: Path) -> None:
        """Write the figures as JSON; if no stage has run, keep the file of the previous attempt."""
        if not self.stages:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"stages": self.stages, "peak_memory_bytes": self.peak_bytes}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
