"""Prepares the environment once and submits jobs. Uses only the standard library, because it runs before any package is
installed.
"""
