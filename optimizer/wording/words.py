"""The texts of a finding, and functions for parts that several kinds share."""

from collections.abc import Sequence
from typing import NamedTuple

from optimizer.solve.findings.finding import Finding
from optimizer.units import human_bytes, human_count, human_rate


class Words(NamedTuple):
    """The three texts of a finding."""

    subject: str
    detail: str
    remedy: str


_HUMAN = {"disk": human_bytes, "in": human_rate, "out": human_rate}


def human_load(finding: Finding, load: float | None) -> str:
    """A load in the unit of the finding's resource; replicas and leaders are numbers.

    >>> from optimizer.domain import FindingCode
    >>> human_load(Finding(FindingCode.BAND, "after", resource="disk"), 1_000)
    '1.00 kB'
    """
    return _HUMAN.get(finding.resource or "", human_count)(load or 0)


def partition_of(finding: Finding) -> str:
    """The name of a finding's partition, as Kafka writes it."""
    return f"{finding.topic}-{finding.partition}"


def ids(brokers: Sequence[int]) -> str:
    """Broker ids, with commas between them."""
    return ", ".join(map(str, brokers))
