"""The seven stages by name: what each reads and writes. A stage is a function from DataFrames to DataFrames."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from optimizer.errors import BallastError
from optimizer.settings import Settings

Frames = Mapping[str, DataFrame]
# Clusters that may not go on, each with what it is refused for.
Refusals = Mapping[str, BallastError]


@dataclass(frozen=True)
class Run:
    """What a stage knows besides its inputs."""

    spark: SparkSession
    run_id: str
    settings: Settings
    code_version: str

    @property
    def folder(self) -> Path:
        """Where its files go."""
        return Path(self.settings.storage.output) / self.run_id

    def about(self) -> dict[str, str]:
        """What ``runs`` holds about it."""
        return {
            "code_version": self.code_version,
            "config_hash": self.settings.config_hash(),
            "config_json": self.settings.planning_json(),
        }


@dataclass(frozen=True)
class Stage:
    """One stage.

    Parameters
    ----------
    name : str
    reads, writes : tuple of str
        Table names. Inputs hold only the rows of the run.
    build : callable
        ``build(inputs, run)`` returns one DataFrame per table of ``writes``; lazy, no effects. Raises ``Unreadable``
        where some clusters can't be read: it is called again without them.
    gate : callable, optional
        ``gate(inputs and outputs as stored, run)``, called after the tables are written; returns the clusters that
        may not go on (exit code 3; 2 where the configuration names what is not there).
    report : callable, optional
        ``report(inputs and outputs as stored, run)`` writes files about every cluster, also of those that are refused.
    publish : callable, optional
        ``publish(inputs and outputs as stored, run)`` writes the files of the clusters that passed the gate.
    ahead : callable, optional
        What may be done while earlier stages run: imports that take seconds.
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    build: Callable[[Frames, Run], Frames]
    gate: Callable[[Frames, Run], Refusals] | None = None
    report: Callable[[Frames, Run], None] | None = None
    publish: Callable[[Frames, Run], None] | None = None
    ahead: Callable[[], object] | None = None
