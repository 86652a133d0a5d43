"""Rounds of a cluster: how it is cut, and how far it is."""
