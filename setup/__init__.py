"""Prepares the environment once, and submits jobs; standard library only, because it runs before anything is installed."""
