"""Parsers that turn text into records: one module per input format."""
