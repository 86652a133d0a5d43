"""Servers that the tests of one folder share."""

from contextlib import ExitStack

# What runs for the tests of the folder at hand; ``tests/conftest.py`` ends it behind the last of them.
RUNNING = ExitStack()
