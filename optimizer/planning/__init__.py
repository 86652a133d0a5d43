"""The plan of one cluster, from rows of its instance to rows of its tables: pure, so that it needs no Spark."""
