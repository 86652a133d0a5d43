"""Bounds, shards, the shard model and leaders: no Spark, no I/O."""
