"""Servers that the tests of one folder share."""

from contextlib import ExitStack

# Servers of the current test folder; ``tests/conftest.py`` stops them after its last test.
RUNNING = ExitStack()
