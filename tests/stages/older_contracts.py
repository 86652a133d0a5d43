"""Contracts as a file, and those of an earlier state of the code, by which a warehouse of then can be made.

They were written from a checkout of that state: ``git archive STATE schemas | tar -x -C FOLDER``, then
``PYTHONPATH=FOLDER python tests/stages/older_contracts.py > tests/fixtures/contracts-before.json``.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import types as T

import schemas
from schemas.spark import columns_of, schema_of

FILE = Path(__file__).resolve().parent.parent / "fixtures" / "contracts-before.json"


def before() -> dict[str, schemas.Table]:
    """The contracts of the file, by table; columns have no comments, tables no key."""
    tables = json.loads(FILE.read_text(encoding="utf-8"))
    return {
        name: schemas.Table(name, "", tuple(map(_column, table["columns"])), (), tuple(table["checks"].items()))
        for name, table in tables.items()
    }


def _column(field: dict[str, object]) -> schemas.Column:
    (column,) = columns_of(T.StructType([T.StructField.fromJson({**field, "metadata": {"comment": ""}})]))
    return column


def _lines() -> Iterator[str]:
    """The contracts of the code on the path, a column a line."""
    for name, table in schemas.ALL.items():
        values = (c.jsonValue() for c in schema_of(table).fields)
        fields = [json.dumps({k: v for k, v in value.items() if k != "metadata"}) for value in values]
        columns = ",\n".join(f"  {line}" for line in fields)
        yield f'"{name}": {{"checks": {json.dumps(dict(table.checks))}, "columns": [\n{columns}]}}'


if __name__ == "__main__":
    sys.stdout.write("{" + ",\n".join(_lines()) + "}\n")
