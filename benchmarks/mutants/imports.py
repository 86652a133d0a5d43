"""Which of our files a file imports, directly or by others; found in the sources, nothing is run."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from benchmarks.mutants.daemon import dotted


def files_imported(root: Path, file: str) -> set[str]:
    """Files of the checkout that are imported with a file, itself among them."""
    found: set[str] = set()
    waiting = [file]
    while waiting:
        now = waiting.pop()
        if now not in found:
            found.add(now)
            waiting += _imported_by(root, now)
    return found


@cache
def _imported_by(root: Path, file: str) -> list[str]:
    return sorted({path for name in _names(root, file) for path in _files_of(root, name)})


def _names(root: Path, file: str) -> Iterator[str]:
    for node in ast.walk(ast.parse((root / file).read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = dotted(file).split(".")[: -node.level] if node.level else []
            base = ".".join([*package, *([node.module] if node.module else [])])
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


def _files_of(root: Path, name: str) -> Iterator[str]:
    """The module and the packages around it."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        path = "/".join(parts[:count])
        yield from (found for found in (f"{path}.py", f"{path}/__init__.py") if (root / found).is_file())
