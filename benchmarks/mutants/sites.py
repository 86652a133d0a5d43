"""All mutants of the code, and the random draw among them. Equal sources and seeds give equal mutants."""

import ast
import hashlib
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path

from benchmarks.mutants.operators import Edit, Source, edits

# A literal that matches is an SQL condition, not a message.
_CONDITION = re.compile(r"\bIS (NOT )?NULL\b|\bNOT \w|\bBETWEEN\b|\bAND\b|\bOR\b|[a-z0-9)] (=|<>|<=|>=|<|>) [a-z0-9'(]")
_SKIPPED = re.compile(r"\{[^}]*\}|BETWEEN \S+ AND|RLIKE '[^']*'|->")
_QUOTED = re.compile(r"'[^']*'")
_OPPOSITES = {
    **{"<=": "<", ">=": ">", "<": "<=", ">": ">=", "=": "<>", "<>": "="},
    **{"AND": "OR", "OR": "AND", "IS NOT NULL": "IS NULL", "IS NULL": "IS NOT NULL"},
}
_FAULTS = (
    ("comparison", re.compile(r" (<=|>=|<>|=|<|>) ")),
    ("logic", re.compile(r"\b(AND|OR|IS NOT NULL|IS NULL|NOT(?! NULL))\b")),
    ("constant", re.compile(r"(?<![\w.'])(\d+)(?![\w.'])")),
    ("constant", re.compile(r"('[^'\s]+')")),
)


def sql_edits(source: Source) -> Iterator[Edit]:
    """Every fault of the SQL conditions of a module."""
    for token in tokenize.tokenize(BytesIO(source.content).readline):
        if token.type != tokenize.STRING or token.string.startswith(('"""', "'''")) or not token.string.isascii():
            continue
        if _CONDITION.search(token.string):
            start = source.offset(token.start[0], len(token.line[: token.start[1]].encode()))
            yield from (Edit(f"SQL {kind}", start + a, start + b, text) for kind, a, b, text in _faults(token.string))


def _faults(text: str) -> Iterator[tuple[str, int, int, str]]:
    sentences = [match for match in _QUOTED.finditer(text) if re.search(r"\s", match[0])]
    skipped = [match.span() for match in (*_SKIPPED.finditer(text), *sentences)]
    for kind, pattern in _FAULTS:
        for match in pattern.finditer(text, 1, len(text) - 1):
            start, end = match.span(1)
            if not any(first < end and start < last for first, last in skipped):
                yield kind, start, end, _OPPOSITES.get(match[1]) or _constant(match[1])


def _constant(text: str) -> str:
    if text == "NOT":
        return ""
    return f"{text[:-1]}_'" if text.startswith("'") else str(int(text) + 1)


# Number of mutants and modules of each group, in the order of the run. Every module of optimizer, sources, execution,
# asking and stored is in exactly one group.
GROUPS: dict[str, tuple[int, str]] = {
    "stages": (35, "optimizer/stages/**/*.py"),
    "planning": (10, "optimizer/planning/**/*.py"),
    "wording": (15, "optimizer/wording/*.py"),
    "sources": (60, "sources/*.py"),
    "audit": (35, "optimizer/audit/*.py"),
    "schedule": (30, "optimizer/schedule/*.py"),
    "kafka": (40, "optimizer/kafka/*.py"),
    "emit": (35, "optimizer/emit/**/*.py"),
    "solve": (45, "optimizer/solve/**/*.py"),
    "run": (15, "optimizer/*.py"),
    "execution": (30, "execution/*.py"),
    "asking": (30, "asking/**/*.py"),
    "stored": (10, "stored/*.py"),
}
# Only every fourth or second fault of these kinds can be drawn: there are many, and the tests find nearly all.
_RARE = {"word": 4, "arguments": 2}


@dataclass(frozen=True)
class Mutant:
    """One fault in one module.

    Parameters
    ----------
    name : str
        Ten hexadecimal digits; the same as long as the faulty line and its function keep their text and name.
    module : str
        The file, from the root of the checkout.
    function : str
        The function of the fault, after the classes and functions that contain it; empty at the top level.
    first, last : int
        Lines of the faulty statement, in the source without the fault.
    was, becomes : str
        The changed lines before and after, without indentation.
    at_import : bool
        Whether the line runs when the module is imported.
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
    """Every mutant of a module, by position; not all of them are valid (``is_another_program``)."""
    source = Source((root / module).read_bytes())
    all_edits = [*edits(source), *(sql_edits(source) if group == "stages" else ())]
    repeats: Counter[tuple[str, ...]] = Counter()
    statements = list(_statements(source.tree))
    return [_mutant(module, group, source, edit, statements, repeats) for edit in sorted(all_edits, key=_position)]


def _position(edit: Edit) -> tuple[int, int, str]:
    return edit.start, edit.end, edit.text


def is_another_program(root: Path, mutant: Mutant) -> bool:
    """Whether a mutant is valid Python and differs from its module in more than layout."""
    content = (root / mutant.module).read_bytes()
    try:
        return ast.dump(ast.parse(mutant.edit.applied(content))) != ast.dump(ast.parse(content))
    except (SyntaxError, ValueError):
        return False


def _statements(
    node: ast.AST, outer: tuple[str, ...] = (), in_function: bool = False
) -> Iterator[tuple[int, int, str, bool]]:
    """First line, last line, name, and whether it is in a function's body, of each statement, outermost first."""
    for child in ast.iter_child_nodes(node):
        name, is_inside = outer, in_function
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = (*outer, child.name)
            is_inside = isinstance(child, ast.FunctionDef) or in_function
            yield child.lineno, child.end_lineno or child.lineno, ".".join(name), in_function
            body = child.body[0]
            if is_inside:
                yield body.lineno, child.end_lineno or child.lineno, ".".join(name), True
        elif isinstance(child, ast.stmt):
            yield child.lineno, child.end_lineno or child.lineno, ".".join(name), in_function
        yield from _statements(child, name, is_inside)


def _mutant(
    module: str,
    group: str,
    source: Source,
    edit: Edit,
    statements: list[tuple[int, int, str, bool]],
    repeats: Counter[tuple[str, ...]],
) -> Mutant:
    line, end = (source.content.count(b"\n", 0, at) + 1 for at in (edit.start, max(edit.end - 1, edit.start)))
    around = [statement for statement in statements if statement[0] <= line and end <= statement[1]]
    function = max((s for s in around), key=lambda s: s[2].count(".") + bool(s[2]), default=(0, 0, "", False))[2]
    first, last, _, in_function = min(around, key=lambda s: s[1] - s[0], default=(line, end, "", False))
    lines = source.content.splitlines()[line - 1 : end]
    was = " ".join(text.decode().strip() for text in lines)
    before = source.content.rfind(b"\n", 0, edit.start) + 1
    after = source.content.find(b"\n", edit.end)
    changed = source.content[before : edit.start] + edit.text.encode() + source.content[edit.end : after]
    becomes = " ".join(text.strip() for text in changed.decode().splitlines())
    key = (module, function, edit.kind, was, becomes)
    repeats[key] += 1
    name = hashlib.sha256("\0".join((*key, str(repeats[key]))).encode()).hexdigest()[:10]
    return Mutant(name, module, group, function, edit.kind, first, last, was, becomes, not in_function, edit)


def draw(root: Path, mutants: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """``count`` mutants, by module and position. A change of other code changes few of them."""
    numbered = ((_random_number(mutant.name, seed), mutant) for mutant in mutants)
    ordered = sorted((number, m.name, m) for number, m in numbered if number % _RARE.get(m.kind, 1) == 0)
    valid = (mutant for _, _, mutant in ordered if is_another_program(root, mutant))
    return sorted(islice(valid, count), key=lambda m: (m.module, *_position(m.edit)))


def _random_number(name: str, seed: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "big")
