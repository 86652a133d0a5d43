"""Kafka's own rules, bit for bit: placements, documents, throttles, limits of size."""
