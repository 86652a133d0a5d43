"""The texts of every finding, by its code."""

from optimizer.solve.findings.finding import Finding
from optimizer.wording import band_words, cluster_words, partition_words, request_words
from optimizer.wording.words import Words

BY_CODE = {**cluster_words.BY_CODE, **partition_words.BY_CODE, **band_words.BY_CODE, **request_words.BY_CODE}


def in_words(finding: Finding) -> Words:
    """Subject, detail and remedy of a finding."""
    return BY_CODE[finding.code](finding)
