"""Prepares the environment once and submits jobs; needs only the standard library, as nothing else is there yet."""
