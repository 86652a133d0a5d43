"""One shard: its problem, its search, its solution."""
