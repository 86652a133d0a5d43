"""Findings with their words, as the rows of table ``findings`` have them."""

from collections.abc import Iterable
from dataclasses import fields
from types import SimpleNamespace

from optimizer.solve.findings.finding import Finding
from optimizer.wording.in_words import in_words


def in_full(findings: Iterable[Finding]) -> list[SimpleNamespace]:
    """The fields of each finding, and its subject, detail and remedy."""
    return [
        SimpleNamespace(
            **{one.name: getattr(finding, one.name) for one in fields(Finding)}, **in_words(finding)._asdict()
        )
        for finding in findings
    ]
