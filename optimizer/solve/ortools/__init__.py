"""OR-Tools behind two functions."""
