"""Rounds of a cluster: its shards, its tasks and its progress."""
