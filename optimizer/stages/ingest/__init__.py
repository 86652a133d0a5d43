"""Stage ingest: lists and reads the sources; what they say, as rows with source and line."""
