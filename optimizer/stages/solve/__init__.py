"""Stage solve."""
