"""Stage baseline: what Kafka's own tool would assign."""
