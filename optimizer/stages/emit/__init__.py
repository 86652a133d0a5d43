"""Stage emit."""
