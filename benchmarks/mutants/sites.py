"""Which mutants there are, and which are chosen: equal sources and seeds give equal mutants."""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from benchmarks.mutants.operators import Edit, Source, edits
from benchmarks.mutants.sql import sql_edits

# Groups of modules and their shares of the mutants, in the order in which they are run; no module of optimizer, sources
# and execution is left out, and none is in two.
GROUPS: dict[str, tuple[int, str]] = {
    "stages": (35, "optimizer/stages/**/*.py"),
    "planning": (10, "optimizer/planning/*.py"),
    "wording": (15, "optimizer/wording/*.py"),
    "sources": (60, "sources/*.py"),
    "audit": (35, "optimizer/audit/*.py"),
    "schedule": (30, "optimizer/schedule/*.py"),
    "kafka": (40, "optimizer/kafka/*.py"),
    "emit": (30, "optimizer/emit/*.py"),
    "solve": (45, "optimizer/solve/**/*.py"),
    "run": (15, "optimizer/*.py"),
    "execution": (40, "execution/*.py"),
}
# One in so many of these kinds is drawn: there are many, and the tests see nearly all.
_RARE = {"word": 4, "arguments": 2}


@dataclass(frozen=True)
class Mutant:
    """One fault in one module.

    Parameters
    ----------
    name : str
        Of ten hexadecimal digits, the same while the function's faults are.
    module : str
        The file, from the root of the checkout.
    function : str
        Where it is, with the classes and functions around it; empty at the top.
    first, last : int
        Lines of the statement that has the fault, as they are without it.
    was, becomes : str
        The changed stretch with the rest of its lines, without indentation.
    at_import : bool
        Whether the line is run when the module is imported.
    """

    name: str
    module: str
    group: str
    function: str
    kind: str
    first: int
    last: int
    was: str
    becomes: str
    at_import: bool
    edit: Edit


def modules_of(root: Path, group: str) -> list[str]:
    """Files of a group, sorted."""
    return sorted(str(path.relative_to(root)) for path in root.glob(GROUPS[group][1]))


def mutants_of(root: Path, module: str, group: str) -> list[Mutant]:
    """Every mutant of a module, by place; some may be no program, or the same one (``is_another_program``)."""
    source = Source((root / module).read_bytes())
    found = [*edits(source), *(sql_edits(source) if group == "stages" else ())]
    seen: Counter[tuple[str, ...]] = Counter()
    places = list(_places(source.tree))
    return [_mutant(module, group, source, edit, places, seen) for edit in sorted(found, key=_by_place)]


def _by_place(edit: Edit) -> tuple[int, int, str]:
    return edit.start, edit.end, edit.text


def is_another_program(root: Path, mutant: Mutant) -> bool:
    """Whether Python accepts a mutant, and it is not what it was made from."""
    content = (root / mutant.module).read_bytes()
    try:
        return ast.dump(ast.parse(mutant.edit.applied(content))) != ast.dump(ast.parse(content))
    except (SyntaxError, ValueError):
        return False


def _places(node: ast.AST, around: tuple[str, ...] = (), runs: bool = False) -> Iterator[tuple[int, int, str, bool]]:
    """First and last line, name and whether it is run when called, of each statement, outermost first."""
    for child in ast.iter_child_nodes(node):
        name, called = around, runs
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = (*around, child.name)
            called = isinstance(child, ast.FunctionDef) or runs
            yield child.lineno, child.end_lineno or child.lineno, ".".join(name), runs
            body = child.body[0]
            if called:
                yield body.lineno, child.end_lineno or child.lineno, ".".join(name), True
        elif isinstance(child, ast.stmt):
            yield child.lineno, child.end_lineno or child.lineno, ".".join(name), runs
        yield from _places(child, name, called)


def _mutant(
    module: str,
    group: str,
    source: Source,
    edit: Edit,
    places: list[tuple[int, int, str, bool]],
    seen: Counter[tuple[str, ...]],
) -> Mutant:
    line, end = (source.content.count(b"\n", 0, at) + 1 for at in (edit.start, max(edit.end - 1, edit.start)))
    holding = [place for place in places if place[0] <= line and end <= place[1]]
    function = max((p for p in holding), key=lambda p: p[2].count(".") + bool(p[2]), default=(0, 0, "", False))[2]
    first, last, _, runs = min(holding, key=lambda p: p[1] - p[0], default=(line, end, "", False))
    lines = source.content.splitlines()[line - 1 : end]
    was = " ".join(text.decode().strip() for text in lines)
    before = source.content.rfind(b"\n", 0, edit.start) + 1
    after = source.content.find(b"\n", edit.end)
    changed = source.content[before : edit.start] + edit.text.encode() + source.content[edit.end : after]
    becomes = " ".join(text.strip() for text in changed.decode().splitlines())
    key = (module, function, edit.kind, was, becomes)
    seen[key] += 1
    name = hashlib.sha256("\0".join((*key, str(seen[key]))).encode()).hexdigest()[:10]
    return Mutant(name, module, group, function, edit.kind, first, last, was, becomes, not runs, edit)


def chosen(root: Path, mutants: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """So many mutants, by module and place; a change elsewhere in the code changes few of them."""
    drawn = ((_draw(mutant.name, seed), mutant) for mutant in mutants)
    ordered = sorted((number, m.name, m) for number, m in drawn if number % _RARE.get(m.kind, 1) == 0)
    valid = (mutant for _, _, mutant in ordered if is_another_program(root, mutant))
    return sorted(islice(valid, count), key=lambda m: (m.module, *_by_place(m.edit)))


def _draw(name: str, seed: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "big")
