"""Ballast: plans Kafka partition reassignments with a proven bound on the bytes that they move."""

VERSION = "1.0.0"  # of the release; CHANGELOG.md has what is new in it
