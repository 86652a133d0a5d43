"""Metrics: what the stages use of reading them, of their names and of the loads that they give."""

from optimizer.frames.metric_files import from_records, literal_path, read_metrics
from optimizer.frames.metric_rates import partition_rates
from optimizer.frames.metric_topics import resolve_topics

__all__ = ["from_records", "literal_path", "partition_rates", "read_metrics", "resolve_topics"]
