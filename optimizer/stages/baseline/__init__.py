"""Stage baseline."""
