"""The seven stages by name: what each reads and writes. A stage is a function from DataFrames to DataFrames."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from optimizer.settings import Settings

Frames = Mapping[str, DataFrame]


@dataclass(frozen=True)
class Run:
    """What a stage knows besides its inputs."""

    spark: SparkSession
    run_id: str
    settings: Settings
    code_version: str


@dataclass(frozen=True)
class Stage:
    """One stage.

    Parameters
    ----------
    name : str
    reads, writes : tuple of str
        Table names. Inputs hold only the rows of the run.
    build : callable
        ``build(inputs, run)`` returns one DataFrame per table of ``writes``; lazy, no effects.
    gate : callable, optional
        ``gate(inputs and outputs as stored, run)``, called after the tables are written; raises to stop the run
        (exit code 3; 2 where the configuration names what is not there).
    publish : callable, optional
        ``publish(outputs as stored, run)`` writes files, after the gate.
    ahead : callable, optional
        What may be done while earlier stages run: imports that take seconds.
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    build: Callable[[Frames, Run], Frames]
    gate: Callable[[Frames, Run], None] | None = None
    publish: Callable[[Frames, Run], None] | None = None
    ahead: Callable[[], object] | None = None
