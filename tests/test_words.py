"""Words are for people: no code compares, searches, cuts or edits them; what code needs has a typed column."""

import ast
from collections.abc import Iterator

import pytest

from tests.test_imports import files

WORDS = frozenset({"detail", "remedy", "subject", "observed", "threshold", "fixed_reason", "factor_refused", "reasons"})
# What reads a text to decide by it; join, format and the like only put it into another.
READING = frozenset(
    (
        *("compile", "count", "endswith", "find", "findall", "finditer", "fullmatch", "index", "match", "partition"),
        *("removeprefix", "removesuffix", "replace", "rfind", "rindex", "rpartition", "rsplit", "search", "split"),
        *("splitlines", "startswith", "sub", "subn"),
        *("contains", "endsWith", "eqNullSafe", "ilike", "isin", "like", "regexp_extract", "regexp_replace", "rlike"),
        *("str", "substr"),
    )
)
CODE = files("benchmarks", "dags", "docs", "execution", "jobs", "optimizer", "schemas")


def is_words(node: ast.AST) -> bool:
    """Whether an expression is such a text: a name, an attribute, a key or a column; bare, converted, or a default."""
    match node:
        case ast.BoolOp(values=[inner, *_]) | ast.Attribute(value=inner, attr="str"):
            return is_words(inner)
        case ast.Call(func=ast.Name(id="str"), args=[inner]):
            return is_words(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="astype" | "lower" | "strip")):
            return is_words(inner)
        case ast.Call(func=ast.Attribute(attr="col" | "get"), args=[ast.Constant(value=name), *_]):
            return name in WORDS
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=name)):
            return name in WORDS
    return False


def readers(source: str) -> Iterator[int]:
    """Lines that compare such a text, or hand it to what reads texts; None is not text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            is_none = any(isinstance(side, ast.Constant) and side.value is None for side in sides)
            if any(map(is_words, sides)) and not is_none:
                yield node.lineno
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in READING
            and any(map(is_words, [node.func.value, *node.args]))
        ):
            yield node.lineno


@pytest.mark.parametrize(
    ("line", "is_read"),
    [
        ('row["detail"] == "topic excluded"', True),
        ('"in flight" in row["detail"]', True),
        ('FEW in detail', True),
        ('finding.subject.partition(" on ")[0] in names', True),
        ('name.partition(row["subject"])', True),
        ('(row["threshold"] or "").startswith("at least")', True),
        ('ROWS.fullmatch(row["observed"] or "")', True),
        ('row.get("observed", "").split()', True),
        ('F.col("fixed_reason") == "topic excluded"', True),
        ('frame["fixed_reason"].astype(str).str.startswith(LEAVES)', True),
        ('AMOUNT.sub("#", finding.remedy)', True),
        ('row["reasons"].split(",")', True),
        ('f"{finding.detail}; {why}"', False),
        ('replace(finding, detail=detail, remedy=cut.remedy)', False),
        ('row["observed"] or ""', False),
        ('finding.detail is not None', False),
        ('row["cause"] == Cause.IN_FLIGHT', False),
    ],
)  # fmt: skip
def test_a_line_that_reads_words_is_found(line: str, is_read: bool) -> None:
    """Comparing, searching, cutting and editing are reading; showing is not."""
    assert bool([*readers(line)]) == is_read


def test_no_code_reads_words() -> None:
    """Findings and checks are told apart by code, cause and numbers, never by what people read."""
    found = [
        f"{path}:{line}"
        for path in CODE
        for line in readers(path.read_text(encoding="utf-8"))
    ]  # fmt: skip
    assert found == []
