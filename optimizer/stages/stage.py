"""The type of a stage: functions from DataFrames to DataFrames; ``declared`` has its inputs, outputs and settings."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from optimizer.declared import Declared, can_read
from optimizer.errors import BallastError
from optimizer.settings import Settings
from stored.cordons import Cordon

Frames = Mapping[str, DataFrame]
# Clusters that a stage stops, each with the reason.
Refusals = Mapping[str, BallastError]


def declared_part(settings: Settings, declared: Collection[str]) -> Settings:
    """The declared sections and knobs of the settings; reading any other raises AttributeError."""
    part = object.__new__(Settings)
    if "clusters" in declared:
        vars(part)["clusters"] = settings.clusters
    for section in vars(settings).keys() - {"clusters", "approval"}:  # no plan depends on approval
        values = getattr(settings, section)
        visible = {knob: value for knob, value in vars(values).items() if can_read(declared, section, knob)}
        if visible:
            # A namespace: a knob that the stage did not declare raises an error instead of returning its default.
            vars(part)[section] = values if visible == vars(values) else SimpleNamespace(**visible)
    return part


class CordonLeft(NamedTuple):
    """A cordon in force, and its cluster."""

    cluster_id: str
    cordon: Cordon


@dataclass(frozen=True)
class Run:
    """The arguments of a stage in addition to its input tables.

    Parameters
    ----------
    started : collection of str
        Clusters that go on, whatever ``start_at`` says.
    cordons_left : sequence of CordonLeft
        Brokers that an earlier plan cordoned, and that the policy does not empty now.
    """

    spark: SparkSession
    run_id: str
    settings: Settings
    code_version: str
    started: Collection[str] = ()
    cordons_left: Sequence[CordonLeft] = ()

    def for_stage(self, stage: Declared) -> "Run":
        """The run with only the settings that a stage declares."""
        return replace(self, settings=declared_part(self.settings, stage.settings))

    @property
    def folder(self) -> Path:
        """Folder of the run's files."""
        return Path(self.settings.storage.output) / self.run_id

    def about(self) -> dict[str, str]:
        """Columns of the run's rows in ``runs``: code version and configuration."""
        return {
            "code_version": self.code_version,
            "config_hash": self.settings.config_hash(),
            "config_json": self.settings.planning_json(),
        }


@dataclass(frozen=True)
class Stage(Declared):
    """One stage and its functions. Their ``run`` has only the declared settings.

    Parameters
    ----------
    build : callable
        ``build(inputs, run)`` returns one DataFrame per table of ``writes``; lazy, no effects. Raises ``Unreadable``
        if some clusters can't be read; the runner then calls it again without them.
    gate : callable, optional
        ``gate(stored inputs and outputs, run)``, called after the tables are written; returns the clusters that it
        stops (exit code 3; 2 if the configuration names something that does not exist).
    report : callable, optional
        ``report(stored inputs and outputs, run)`` writes files about every cluster, refused clusters included.
    publish : callable, optional
        ``publish(stored inputs and outputs, run)`` writes the files of the clusters that passed the gate.
    preload : callable, optional
        Work that can run during earlier stages: imports that take seconds.
    """

    build: Callable[[Frames, Run], Frames]
    gate: Callable[[Frames, Run], Refusals] | None = None
    report: Callable[[Frames, Run], None] | None = None
    publish: Callable[[Frames, Run], None] | None = None
    preload: Callable[[], object] | None = None
