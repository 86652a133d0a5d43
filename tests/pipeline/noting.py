"""Makes stages record which tables they open and which settings they read, in the driver and in its workers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from optimizer.settings import Settings
from optimizer.stages.stage import Frames, Run, Stage

_FOLDER = "_noted_in"


class Noting:
    """An object that writes an empty file for each attribute that is read, because workers are other processes."""

    def __getattribute__(self, name: str) -> Any:
        values = object.__getattribute__(self, "__dict__")
        if name in values and _FOLDER in values:
            Path(values[_FOLDER] + name).touch()
        return super().__getattribute__(name)


class Opened(dict[str, DataFrame]):
    """Tables of a stage; records the names of those that are opened."""

    def __init__(self, frames: Frames, opened: set[str]) -> None:
        super().__init__(frames)
        self.opened = opened

    def __getitem__(self, name: str) -> DataFrame:
        self.opened.add(name)
        return super().__getitem__(name)


def _noting(values: object, folder: str) -> Any:
    """A copy of the object that records reads of its attributes."""
    kind: Any = type("Noting", (Noting, type(values)), {})
    result = kind.__new__(kind)
    vars(result).update({**vars(values), _FOLDER: folder})
    return result


def _settings(settings: Settings, folder: Path) -> Settings:
    """The settings; a file ``section.knob`` is written for each knob that is read, and ``clusters``."""
    result: Settings = _noting(settings, f"{folder}/")
    sections = vars(settings).keys() - {"clusters"}
    vars(result).update({name: _noting(vars(settings)[name], f"{folder}/{name}.") for name in sections})
    return result


class Used:
    """Tables and settings that stages have used.

    Parameters
    ----------
    folder : Path
        Folder for the files that record which settings were read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.tables: dict[str, set[str]] = {}

    def settings(self, stage: str) -> set[str]:
        """Names of the settings that a stage has read: ``clusters``, and ``section.knob``."""
        names = {path.name for path in (self._folder / stage).iterdir()}
        return {name for name in names if name == "clusters" or "." in name}

    def noting(self, stages: Sequence[Stage]) -> list[Stage]:
        """The stages, changed so that this object records what they use."""
        return [self._stage(stage) for stage in stages]

    def _stage(self, stage: Stage) -> Stage:
        folder, opened = self._folder / stage.name, self.tables.setdefault(stage.name, set())
        folder.mkdir(parents=True)

        def recording(work: Callable[[Frames, Run], Any]) -> Callable[[Frames, Run], Any]:
            def working(frames: Frames, run: Run) -> Any:
                return work(Opened(frames, opened), replace(run, settings=_settings(run.settings, folder)))

            return working

        return replace(
            stage,
            build=recording(stage.build),
            gate=stage.gate and recording(stage.gate),
            report=stage.report and recording(stage.report),
            publish=stage.publish and recording(stage.publish),
        )
