"""What a stage is: a function from DataFrames to DataFrames, and what it depends on (``declared``)."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

from pyspark.sql import DataFrame, SparkSession

from optimizer.declared import Declared, sees
from optimizer.errors import BallastError
from optimizer.settings import Settings

Frames = Mapping[str, DataFrame]
# Clusters that may not go on, each with what it is refused for.
Refusals = Mapping[str, BallastError]


def part_of(settings: Settings, declared: Collection[str]) -> Settings:
    """The settings as a stage sees them that declares some sections and knobs: any other is an AttributeError."""
    part = object.__new__(Settings)
    if "clusters" in declared:
        vars(part)["clusters"] = settings.clusters
    for section in vars(settings).keys() - {"clusters"}:
        values = getattr(settings, section)
        seen = {knob: value for knob, value in vars(values).items() if sees(declared, section, knob)}
        if seen:
            # Some knobs alone are no object of the section's class: there the others would show their defaults.
            vars(part)[section] = values if seen == vars(values) else SimpleNamespace(**seen)
    return part


@dataclass(frozen=True)
class Run:
    """What a stage knows besides its inputs."""

    spark: SparkSession
    run_id: str
    settings: Settings
    code_version: str

    def seen_by(self, stage: Declared) -> "Run":
        """The run with the settings that a stage declares, and no other."""
        return replace(self, settings=part_of(self.settings, stage.settings))

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
class Stage(Declared):
    """One stage, with the functions that do it; the settings of their run hold nothing that is not declared.

    Parameters
    ----------
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

    build: Callable[[Frames, Run], Frames]
    gate: Callable[[Frames, Run], Refusals] | None = None
    report: Callable[[Frames, Run], None] | None = None
    publish: Callable[[Frames, Run], None] | None = None
    ahead: Callable[[], object] | None = None
