"""Words are for people: no code compares, searches, cuts or edits them; what code needs has a typed column."""

import ast
import re
from collections.abc import Iterator

import pytest

from setup.paths import HOME
from tests.test_imports import files

WORDS = frozenset(
    (
        *("closed_reason", "detail", "expected", "factor_refused", "fixed_reason", "observed", "reasons", "remedy"),
        *("subject", "threshold"),
    )
)
# What reads a text to decide by it; join, format and the like only put it into another.
READING = frozenset(
    (
        *("compile", "count", "endswith", "find", "findall", "finditer", "fullmatch", "index", "match", "partition"),
        *("removeprefix", "removesuffix", "replace", "rfind", "rindex", "rpartition", "rsplit", "search", "split"),
        *("splitlines", "startswith", "sub", "subn"),
        *("contains", "endsWith", "eqNullSafe", "ilike", "isin", "like", "regexp_extract", "regexp_replace", "rlike"),
        *("isalpha", "isdecimal", "isdigit", "isnumeric", "len", "length", "str", "substr", "substring"),
    )
)
CODE = files(
    "asking", "benchmarks", "dags", "docs", "execution", "jobs", "optimizer", "schemas", "setup", "sources", "stored"
)

SQL = frozenset(("expr", "filter", "query", "selectExpr", "sql", "where"))
# Who loads such a text at all, and the functions that do: to show it, to make a new one of it, to hand it on.
MAY_LOAD = {
    "benchmarks/collect.py": {"bound_figures"},
    "benchmarks/fuzz/unusual_clusters.py": {"_request"},
    "execution/approve.py": {"_describe_approval"},
    "execution/rollback.py": {"_elect"},
    "execution/rules.py": {"_notes"},
    "execution/steps.py": {"_elect"},
    "execution/verify.py": {"_because"},
    "optimizer/audit/claims.py": {"raise_if_failed"},
    "optimizer/audit/other_documents.py": {"_wave_rollbacks"},
    "optimizer/emit/decision.py": {"_to_do", "_to_know"},
    "optimizer/emit/decision_text.py": {"note_lines", "verdict_lines"},
    "optimizer/emit/findings.py": {"text", "text_and_remedy", "_line", "_input_line", "by_remedy"},
    "optimizer/emit/goals.py": {"exclusions", "verdict"},
    "optimizer/emit/quality_page.py": {"_check", "_observed", "_other"},
    "optimizer/emit/runbook.py": {"runbook"},
    "optimizer/emit/shown_figures.py": {"limited", "loss_note"},
    "optimizer/solve/certificate.py": {"_rows"},
    "optimizer/stages/emit/emit.py": {"missed_in_words"},
    "optimizer/stages/emit/gather.py": {""},
    "optimizer/stages/ingest/ingest.py": {"_as_malformed"},
    "asking/answer_text.py": {"remarks"},
    "asking/judge/broken_rules.py": {"broken_rules", "_sentence"},
    "optimizer/planning/unexplained.py": {"unexplained_findings"},
    "optimizer/wording/partition_words.py": {"unexplained"},
    "optimizer/planning/policy/brokers.py": {""},
    "optimizer/planning/policy/partitions.py": {"", "_roles", "_with_only"},
    "optimizer/planning/exposed.py": {"_troubles"},
    "optimizer/planning/finish.py": {"_fixed_findings", "_factor_findings"},
    "optimizer/stages/validate/great_expectations.py": {"_row_result", "_figure_result"},
    "optimizer/stages/validate/input_findings.py": {"input_findings", "_quarantined_by_rule", "_describe_files"},
    "optimizer/stages/validate/judge.py": {"malformed"},
    "optimizer/stages/validate/metric_topics.py": {"_reports"},
    "optimizer/stages/validate/quality_pages.py": {"first_rows"},
    "optimizer/stages/validate/refusal.py": {"_unread", "_describe_cause"},
    "optimizer/stages/validate/rule.py": {"quarantined"},
    "optimizer/stages/validate/validate.py": {"_quarantine"},
    "schemas/bronze.py": {""},
    "schemas/output.py": {""},
    "schemas/planning.py": {""},
    "schemas/silver.py": {""},
    "sources/detect.py": {"refused", "_without_bytes"},
}


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


class _Renamed(ast.NodeTransformer):
    """Names that a function gives to such a text, put back to what they are."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        given = {
            target.id
            for one in ast.walk(node)
            if isinstance(one, ast.Assign) and is_words(one.value)
            for target in one.targets
            if isinstance(target, ast.Name)
        }
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and one.id in given:
                one.id = "detail"
        return node


def readers(source: str) -> Iterator[int]:
    """Lines that compare, cut or measure such a text, or ask whether there is any; None is not text."""
    for node in ast.walk(_Renamed().visit(ast.parse(source))):
        match node:
            case (
                ast.If(test=asked)
                | ast.IfExp(test=asked)
                | ast.While(test=asked)
                | ast.UnaryOp(op=ast.Not(), operand=asked)
            ):
                if is_words(asked):
                    yield asked.lineno
            case ast.BoolOp(op=ast.And(), values=asked) | ast.comprehension(ifs=asked):
                yield from (one.lineno for one in asked if is_words(one))
            case ast.Subscript(value=cut, slice=ast.Slice() | ast.Constant(value=int())) if is_words(cut):
                yield cut.lineno
            case ast.Call(func=ast.Name(id="len"), args=[first]) if is_words(first):
                yield first.lineno
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
        ('"is still running" in row["detail"]', True),
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
        ('row["detail"][:3]', True),
        ('len(finding.detail)', True),
        ('row["observed"].isdigit()', True),
        ('1 if row["remedy"] else 2', True),
        ('if not finding.detail:\n    pass', True),
        ('[row for row in rows if row.expected]', True),
        ('is_open and row["closed_reason"]', True),
        ('def f(row):\n    text = row.detail\n    return text.startswith("no")', True),
        ('def f(row):\n    text = row.detail\n    return f"{text}!"', False),
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
    """Code distinguishes findings and checks by code, cause and numbers, never by what people read."""
    found = [
        f"{path}:{line}"
        for path in CODE
        for line in readers(path.read_text(encoding="utf-8"))
    ]  # fmt: skip
    assert found == []


def named_in(node: ast.AST) -> frozenset[str]:
    """Such texts that a node loads: an attribute, a name of a column or a key, a class pattern, a piece of SQL."""
    match node:
        case ast.Attribute(attr=name, ctx=ast.Load()) | ast.Constant(value=str(name)):
            return WORDS & {name}
        case ast.MatchClass(kwd_attrs=names):
            return WORDS & set(names)
        case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called)) if called in SQL:
            texts = [
                one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ]
            return WORDS & {name for text in texts for name in re.findall(r"\w+", text)}
    return frozenset()


def loads(source: str) -> Iterator[tuple[str, int]]:
    """Functions and lines that load such a text; a key of a dict that is written down makes one."""

    def within(node: ast.AST, function: str) -> Iterator[tuple[str, int]]:
        made = node.keys if isinstance(node, ast.Dict) else []
        for child in ast.iter_child_nodes(node):
            if child not in made and isinstance(child, ast.expr | ast.pattern) and named_in(child):
                yield function, child.lineno
            yield from within(child, child.name if isinstance(child, ast.FunctionDef) else function)

    return within(ast.parse(source), "")


@pytest.mark.parametrize(
    ("line", "is_loaded"),
    [
        ('(v.rule, v.subject) in told', True),
        ('{row.subject for row in rows}', True),
        ('x = row["detail"]', True),
        ('x = row.get("detail")', True),
        ('x = getattr(row, "detail")', True),
        ('F.expr("detail LIKE \'no %\'")', True),
        ('spark.sql(f"SELECT * FROM findings WHERE subject = {one}")', True),
        ('frame.where("subject IS NOT NULL")', True),
        ('col("detail") == "x"', True),
        ('F.col("detail").eqNullSafe("x")', True),
        ('finding.detail[:3]', True),
        ('len(finding.detail)', True),
        ('frame.groupby("subject")', True),
        ('sorted(rows, key=lambda row: row.subject)', True),
        ('sorted(rows, key=attrgetter("subject"))', True),
        ('frame["detail"].eq("x")', True),
        ('frame.detail.map(NAMES)', True),
        ('match row:\n    case Finding(detail=x):\n        pass', True),
        ('match row:\n    case {"detail": x}:\n        pass', True),
        ('{"detail": f"{count} rows", "code": row["code"]}', False),
        ('Finding(subject=name, detail=detail)', False),
        ('refuse("only", "the detail of a subject")', False),
    ],
)  # fmt: skip
def test_a_line_that_loads_words_is_found(line: str, is_loaded: bool) -> None:
    """In whatever way it goes on to read them; writing them is no loading."""
    assert bool([*loads(line)]) == is_loaded


def test_only_those_who_show_or_make_words_load_them() -> None:
    """No other function has a finding's or a check's words in its hands."""
    found: dict[str, set[str]] = {}
    for path in CODE:
        for by, _ in loads(path.read_text(encoding="utf-8")):
            found.setdefault(path.relative_to(HOME).as_posix(), set()).add(by)
    assert found == MAY_LOAD


def test_pages_ask_nothing_of_words() -> None:
    """A template shows them."""
    asked = [
        statement
        for path in sorted((HOME / "optimizer/emit/templates").iterdir())
        for statement in re.findall(r"{%.*?%}", path.read_text(encoding="utf-8"))
        if WORDS & {*re.findall(r"\.(\w+)", statement)}
    ]
    assert asked == []
