"""Numbers that decide something say what they are measured in and why they are what they are."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from setup.paths import HOME

MODULES = sorted((HOME / "optimizer").rglob("*.py"))


def is_number(value: ast.expr) -> bool:
    """A number, a sum or product of numbers, or a list of them."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int | float) and not isinstance(value.value, bool)
    if isinstance(value, ast.UnaryOp):
        return is_number(value.operand)
    if isinstance(value, ast.BinOp):
        return is_number(value.left) or is_number(value.right)
    return isinstance(value, ast.Tuple) and any(is_number(one) for one in value.elts)


def bare(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each numeric constant of a module without a comment beside it or right above it."""
    lines = source.splitlines()
    for node in ast.parse(source).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if not names or not names[0].lstrip("_").isupper() or value is None or not is_number(value):
            continue
        beside = "#" in lines[(node.end_lineno or node.lineno) - 1]
        above = node.lineno > 1 and lines[node.lineno - 2].startswith("#")
        if not (beside or above):
            yield node.lineno, ", ".join(names)


@pytest.mark.parametrize(
    "source", ["A = 3", "A, B = 1, 2", "A: float = -1e-9", "A = 10 * 2**20", "x = 1\n\n_A = (0.5, 2)"]
)
def test_a_bare_number_is_found(source: str) -> None:
    """Of any form: this test can fail."""
    assert [line for line, _ in bare(source)]


@pytest.mark.parametrize("source", ["A = 3  # of a load", "# Bytes: why.\nA = 3", 'A = "x"', "a = 3", "A = True"])
def test_a_number_with_its_reason_is_not(source: str) -> None:
    """Beside it or right above it; what is no number, or no constant, needs none."""
    assert not list(bare(source))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(Path(path).relative_to(HOME / "optimizer")))
def test_numbers_have_a_unit_and_a_reason(module: Path) -> None:
    """Who reads a constant need not search for what it means."""
    assert not list(bare(module.read_text(encoding="utf-8")))
