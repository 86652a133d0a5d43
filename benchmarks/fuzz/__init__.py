"""Seeded fuzz of what a run reads and of what it plans: ``python -m benchmarks.fuzz --help``."""
