"""The stages of a run: a folder for each, their common type, and the runner."""
