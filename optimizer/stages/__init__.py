"""Stages of a run: what each is, the runner, and a room for each."""
