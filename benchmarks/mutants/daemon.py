"""Spark forks its Python workers from this process. When a worker imports the mutated module, it gets the mutant."""

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


class MutantFinder(importlib.abc.MetaPathFinder):
    """Finds the mutant instead of its module; a file names the module at the time of the import."""

    def __init__(self, mutant_file: Path) -> None:
        self._mutant_file = mutant_file

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        """The mutant with the path of its module, or None for other modules."""
        mutant = json.loads(self._mutant_file.read_text(encoding="utf-8")) if self._mutant_file.exists() else {}
        if fullname != mutant.get("name"):
            return None
        return importlib.util.spec_from_file_location(fullname, mutant["path"], loader=_Loader(**mutant))


class _Loader(importlib.abc.Loader):
    def __init__(self, name: str, path: str, content: str) -> None:
        self._path, self._content = path, content

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._content, self._path, "exec", dont_inherit=True), module.__dict__)


def write_mutant(mutant_file: Path, root: Path, module: str, content: str) -> None:
    """Write the mutant that replaces its module; no mutant if ``module`` is empty."""
    text = json.dumps({"name": import_name(module), "path": str(root / module), "content": content} if module else {})
    mutant_file.write_text(text, encoding="utf-8")


def import_name(module: str) -> str:
    """The dotted name under which Python imports a file."""
    return module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


if __name__ == "__main__":
    sys.meta_path.insert(0, MutantFinder(Path(os.environ[MUTANT])))
    runpy.run_module("pyspark.daemon", run_name="__main__")
