"""Stage 1, ingest: lists and reads the sources, and turns them into rows with source and line."""
