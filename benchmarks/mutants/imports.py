"""Which files of the checkout a file imports, directly or through others. Reads the sources and runs nothing."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from benchmarks.mutants.daemon import import_name


def files_imported(root: Path, file: str) -> set[str]:
    """The file itself and all files of the checkout that it imports."""
    files: set[str] = set()
    waiting = [file]
    while waiting:
        current = waiting.pop()
        if current not in files:
            files.add(current)
            waiting += _imported_by(root, current)
    return files


@cache
def _imported_by(root: Path, file: str) -> list[str]:
    return sorted({path for name in _names(root, file) for path in _files_of(root, name)})


def _names(root: Path, file: str) -> Iterator[str]:
    for node in ast.walk(ast.parse((root / file).read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = import_name(file).split(".")[: -node.level] if node.level else []
            base = ".".join([*package, *([node.module] if node.module else [])])
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


def _files_of(root: Path, name: str) -> Iterator[str]:
    """The module and its parent packages."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        path = "/".join(parts[:count])
        yield from (file for file in (f"{path}.py", f"{path}/__init__.py") if (root / file).is_file())
