"""The algorithm (``driver``), a room for each of its parts, and what they share: no Spark, no I/O."""
