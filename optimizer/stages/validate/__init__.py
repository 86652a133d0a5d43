"""Stage validate."""
