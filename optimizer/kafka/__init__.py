"""Exact copies of Kafka's rules: placements, documents, throttles, size limits."""
