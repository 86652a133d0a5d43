"""Random tests of inputs and plans, from a seed: ``python -m benchmarks.fuzz --help``."""
