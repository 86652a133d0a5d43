"""Stage 4, baseline: what Kafka's own tool would assign."""
