"""Numbers that decide something say what they are measured in and why they are what they are."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from setup.paths import HOME

FOLDERS = ("asking", "benchmarks", "execution", "optimizer", "schemas", "setup", "sources", "stored")
# The knobs: unit, range and reason of each stand in conf/default.toml, and a test looks there.
KNOBS = HOME / "optimizer/settings.py"
MODULES = sorted({path for folder in FOLDERS for path in (HOME / folder).rglob("*.py")} - {KNOBS})
ALGORITHM = sorted((HOME / "optimizer/solve").rglob("*.py"))
# Inside a function of the algorithm: smaller is a tolerance, larger a limit, and both need a name. Powers of ten and of
# two that only turn one unit into another do not.
TINY, LARGE = 1e-5, 10
UNITS = (100, 1000, 1024)


def is_number(value: object) -> bool:
    """Whether what is written down is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def decides(value: ast.AST) -> bool:
    """Whether a value holds a number anywhere: in a sum, a call, a table; not where one picks a part of another value,
    or a function is written."""
    if isinstance(value, ast.Constant):
        return is_number(value.value)
    if isinstance(value, ast.Subscript):
        return decides(value.value)
    return not isinstance(value, ast.Lambda) and any(decides(child) for child in ast.iter_child_nodes(value))


def commented(source: str) -> set[int]:
    """Lines of code with a comment, and lines right below a comment line."""
    found = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            own_line = not token.line[: token.start[1]].strip()
            found.add(token.start[0] + own_line)
    return found


def constants(tree: ast.Module) -> Iterator[tuple[ast.stmt, str, ast.expr]]:
    """Statement, name and value of each constant of a module."""
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
        if names and names[0].lstrip("_").isupper():
            yield node, ", ".join(names), node.value


def explains(docstring: str, name: str) -> bool:
    """Whether a docstring names a field, whole, in double backticks, or lists it with words of its own."""
    listed = rf"^(?:\w+, )*{re.escape(name)}(?:, \w+)* : .*\n +\S"
    return f"``{name}``" in docstring or re.search(listed, docstring, re.MULTILINE) is not None


def fields(tree: ast.Module) -> Iterator[tuple[ast.stmt, str, ast.expr]]:
    """Statement, name and value of each field of a class that its docstring does not explain."""
    for of in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        docstring = ast.get_docstring(of) or ""
        for node in (node for node in of.body if isinstance(node, ast.AnnAssign)):
            name = ast.unparse(node.target)
            if node.value is not None and not explains(docstring, name):
                yield node, f"{of.name}.{name}", node.value


def bare(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each constant and field with a number that has no comment on its line or right above it."""
    tree, explained = ast.parse(source), commented(source)
    for node, name, value in [*constants(tree), *fields(tree)]:
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if decides(value) and not explained.intersection(lines):
            yield node.lineno, name


def unnamed(source: str) -> Iterator[tuple[int, float]]:
    """Line and value of each number inside a function that should have a name."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    for node in (node for of in functions for node in ast.walk(of) if isinstance(node, ast.Constant)):
        value = node.value if isinstance(node.value, int | float) else 0
        if 0 < value < TINY or (value > LARGE and value not in UNITS):
            yield node.lineno, value


@pytest.mark.parametrize(
    "source",
    [
        "A = 3",
        "A, B = 1, 2",
        "A: float = -1e-9",
        "A = 10 * 2**20",
        "x = 1\n\n_A = (0.5, 2)",
        "A = '#', 3",
        "A = range(5)",
        "A = {'x': 0.5}",
        "A = Shape(30)",
        "class A:\n    b: int = 3",
        "class A:\n    '''Of what ``c`` is.'''\n    b: int = 3",
        "class A:\n    '''Of what ``wide_b`` is.'''\n    b: int = 3",
        "class A:\n    '''A word that is b by chance.'''\n    b: int = 3",
        "class A:\n    '''Of what is.\n\n    wide_b, b_c : int\n        Why.\n    '''\n    b: int = 3",
        "class A:\n    '''Of what is.\n\n    b : int\n    c : int\n        Why.\n    '''\n    b: int = 3",
    ],
)
def test_a_bare_number_is_found(source: str) -> None:
    """Of any form, in any constant and any field of a class: this test can fail."""
    assert [line for line, _ in bare(source)]


@pytest.mark.parametrize(
    "source",
    [
        "A = 3  # of a load",
        "# Bytes: why.\nA = 3",
        'A = "x"',
        "a = 3",
        "A = True",
        "A = B[0]",
        "A = {\n    'x': 0.5,  # of a load\n}",
        "class A:\n    '''Of what ``b`` is.'''\n    b: int = 3",
        "class A:\n    '''Of what is.\n\n    a, b, c : int\n        Why.\n    '''\n    b: int = 3",
    ],
)
def test_a_number_with_its_reason_is_not(source: str) -> None:
    """Beside it, right above it, or by its whole name in the docstring; what is no number, or no constant, needs
    none."""
    assert not list(bare(source))


@pytest.mark.parametrize("inside", ["a < 1e-9", "a * 7919", "a[:, 12]"])
def test_a_number_inside_a_function_is_found(inside: str) -> None:
    """A tolerance or a limit without a name: this test can fail."""
    assert list(unnamed(f"def f(a):\n    return {inside}"))


@pytest.mark.parametrize("inside", ["a[:, 0] + 0.5", "100 * a", "a / 1024", "max(a, 1.0)"])
def test_a_number_that_turns_units_needs_no_name(inside: str) -> None:
    """Nor does one that counts columns, or halves."""
    assert not list(unnamed(f"def f(a):\n    return {inside}"))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(Path(path).relative_to(HOME)))
def test_numbers_have_a_unit_and_a_reason(module: Path) -> None:
    """Who reads a constant need not search for what it means."""
    assert not list(bare(module.read_text(encoding="utf-8")))


@pytest.mark.parametrize("module", ALGORITHM, ids=lambda path: str(Path(path).relative_to(HOME)))
def test_numbers_of_the_algorithm_have_names(module: Path) -> None:
    """A tolerance or a limit stands among the constants of its module, not inside a function."""
    assert not list(unnamed(module.read_text(encoding="utf-8")))
