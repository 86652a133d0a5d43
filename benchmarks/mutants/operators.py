"""Faults in Python source. Each replaces one range of bytes."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: (r"not\s+in", ("in",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: (r"is\s+not", ("is",)),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "//"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: (r"\|", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
_PAIRS = (
    ("min", "max"),
    ("any", "all"),
    ("minimum", "maximum"),
    ("startswith", "endswith"),
    ("partition", "rpartition"),
    ("floor", "ceil"),
    ("asc", "desc"),
    ("issubset", "issuperset"),
    ("lstrip", "rstrip"),
    ("union", "intersection"),
)
OPPOSITES = {**dict(_PAIRS), **{b: a for a, b in _PAIRS}, "sorted": "list"}
# Functions for which swapped arguments change nothing, or only the type of an exception.
SYMMETRIC = {"min", "max", "minimum", "maximum", "isinstance", "gcd"}
_REMOVED = (ast.AugAssign, ast.Continue, ast.Break, ast.Raise, ast.Delete)


@dataclass(frozen=True)
class Edit:
    """One fault: the bytes from ``start`` to ``end`` become ``text``."""

    kind: str
    start: int
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        """The source with the fault."""
        return source[: self.start] + self.text.encode() + source[self.end :]


class Source:
    """A module's bytes, its syntax tree, and the positions of its nodes."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.tree = ast.parse(content)
        self._starts = [0]
        for line in content.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        """Offset of a position: line from 1, column (in bytes) from 0."""
        return self._starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Offsets of a node: of its first byte, and of the byte after its last."""
        last, column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self.offset(node.lineno, node.col_offset), self.offset(last, column)

    def text(self, node: ast.expr | ast.stmt) -> str:
        """The source text of a node."""
        start, end = self.span(node)
        return self.content[start:end].decode()


def edits(source: Source) -> Iterator[Edit]:
    """Every fault of a module, except in annotations, decorators, docstrings and f-strings."""
    for node in _nodes(source.tree):
        yield from _of_expression(source, node) if isinstance(node, ast.expr) else _of_statement(source, node)


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run, depth first. Not in f-strings: Python 3.11 knows no positions there."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.JoinedStr) or not isinstance(child, ast.AST) or _is_docstring(child):
                continue
            yield child
            yield from _nodes(child)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _of_statement(source: Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.If | ast.While):
        yield from _negated(source, node.test)
        for child in node.body:
            if isinstance(child, ast.Return):
                yield _replaced(source, child, "pass", "return removed")
    elif isinstance(node, ast.comprehension):
        for test in node.ifs:
            yield from _negated(source, test)
            yield _replaced(source, test, "True", "filter removed")
    elif isinstance(node, _REMOVED) or _is_effect(node):
        assert isinstance(node, ast.stmt)
        yield _replaced(source, node, "pass", "statement removed")


def _is_effect(node: ast.AST) -> bool:
    """Whether a statement does more than bind names."""
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    return isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)


def _replaced(source: Source, node: ast.expr | ast.stmt, text: str, kind: str) -> Edit:
    start, end = source.span(node)
    return Edit(kind, start, end, text)


def _negated(source: Source, test: ast.expr) -> Iterator[Edit]:
    """The negation of a condition without an operator of its own."""
    if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp):
        yield _replaced(source, test, f"not ({source.text(test)})", "condition")


def _of_expression(source: Source, node: ast.expr) -> Iterator[Edit]:
    if isinstance(node, ast.Compare):
        left_operands = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, left_operands, node.comparators, strict=False):
            pattern, replacements = COMPARISONS[type(operator)]
            for replacement in replacements:
                yield from _between(source, left, right, pattern, replacement, "comparison")
    elif isinstance(node, ast.BoolOp):
        word, opposite = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from _between(source, left, right, word, opposite, "logic")
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield from _between(source, node.left, node.right, *ARITHMETIC[type(node.op)], "arithmetic")
    elif isinstance(node, ast.UnaryOp):
        yield from _unary(source, node)
    elif isinstance(node, ast.Constant):
        yield from _constant(source, node)
    elif isinstance(node, ast.IfExp):
        yield from _negated(source, node.test)
    elif isinstance(node, ast.Call):
        yield from _call(source, node)
    elif isinstance(node, ast.Slice):
        yield from _slice(source, node)


def _between(source: Source, left: ast.expr, right: ast.expr, pattern: str, new: str, kind: str) -> Iterator[Edit]:
    """Another operator between two operands."""
    first, last = source.span(left)[1], source.span(right)[0]
    match = re.search(pattern, source.content[first:last].decode())
    if match:
        yield Edit(kind, first + match.start(), first + match.end(), new)


def _unary(source: Source, node: ast.UnaryOp) -> Iterator[Edit]:
    start = source.span(node)[0]
    if isinstance(node.op, ast.Not):
        yield Edit("logic", start, start + len("not"), "")
    elif isinstance(node.op, ast.USub | ast.Invert):
        yield Edit("arithmetic", start, start + 1, "+" if isinstance(node.op, ast.USub) else "")


def _constant(source: Source, node: ast.Constant) -> Iterator[Edit]:
    """Another number, truth value or word. Sentences stay: only people read them."""
    value = node.value
    if isinstance(value, bool):
        yield _replaced(source, node, str(not value), "constant")
    elif isinstance(value, int):
        yield _replaced(source, node, str(value + 1), "constant")
        if value > 0:
            yield _replaced(source, node, str(value - 1), "constant")
    elif isinstance(value, float):
        yield _replaced(source, node, repr(value * 2 or 1.0), "constant")
    elif isinstance(value, str) and re.fullmatch(r"[^\s\\(\[]+", value):
        yield _replaced(source, node, repr(value + "_"), "word")


def _call(source: Source, node: ast.Call) -> Iterator[Edit]:
    """The opposite function; the first two arguments swapped."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in OPPOSITES:
        end = source.span(node.func)[1]
        yield Edit("function", end - len(name), end, OPPOSITES[name])
    if len(node.args) >= 2 and name not in SYMMETRIC and not any(isinstance(x, ast.Starred) for x in node.args[:2]):
        (start, middle), (second, end) = source.span(node.args[0]), source.span(node.args[1])
        between = source.content[middle:second].decode()
        yield Edit("arguments", start, end, source.text(node.args[1]) + between + source.text(node.args[0]))


def _slice(source: Source, node: ast.Slice) -> Iterator[Edit]:
    """Bounds off by one. Bounds that are numbers change as constants."""
    for bound, shift in ((node.lower, "+ 1"), (node.upper, "- 1")):
        if bound is not None and not isinstance(bound, ast.Constant | ast.UnaryOp):
            yield _replaced(source, bound, f"({source.text(bound)}) {shift}", "slice")
