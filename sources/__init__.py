"""One file an input format: text to records."""
