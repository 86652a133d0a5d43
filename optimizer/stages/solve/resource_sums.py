"""The placement resources as columns of ``instance`` and as sums in SQL."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from optimizer.solve.rules import resources


def resource_names() -> list[str]:
    """Names of the resources, which are those of their sums."""
    return [resource.name for resource in resources.PLACEMENT]


def resource_columns() -> list[str]:
    """Columns of ``instance`` that the sums need."""
    return [resource.column for resource in resources.PLACEMENT if resource.column is not None]


def resource_sums() -> list[Column]:
    """Sums of integers, so order can't matter."""
    sums = [(one.name, F.count("*") if one.column is None else F.sum(one.column)) for one in resources.PLACEMENT]
    return [total.alias(name) for name, total in sums]
