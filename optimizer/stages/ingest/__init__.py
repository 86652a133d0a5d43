"""Stage ingest."""
