"""The process that Spark's Python workers are forked from: their imports of one module give the mutant."""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import runpy
import sys
from pathlib import Path
from types import ModuleType

MUTANT = "BALLAST_MUTANT"


class Mutated(importlib.abc.MetaPathFinder):
    """Imports of one module give the mutant that a file tells when they are made."""

    def __init__(self, told: Path) -> None:
        self._told = told

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        """The mutant's place is that of its module."""
        told = json.loads(self._told.read_text(encoding="utf-8")) if self._told.exists() else {}
        if fullname != told.get("name"):
            return None
        return importlib.util.spec_from_file_location(fullname, told["path"], loader=_Loader(**told))


class _Loader(importlib.abc.Loader):
    def __init__(self, name: str, path: str, content: str) -> None:
        self._path, self._content = path, content

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._content, self._path, "exec", dont_inherit=True), module.__dict__)


def write(told: Path, root: Path, module: str, content: str) -> None:
    """Tell which mutant stands in for its module; none where ``module`` is empty."""
    text = json.dumps({"name": dotted(module), "path": str(root / module), "content": content} if module else {})
    told.write_text(text, encoding="utf-8")


def dotted(module: str) -> str:
    """Name under which a file is imported."""
    return module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


if __name__ == "__main__":
    sys.meta_path.insert(0, Mutated(Path(os.environ[MUTANT])))
    runpy.run_module("pyspark.daemon", run_name="__main__")
