"""Instances, an independent judge, and the report that compares plans."""
