"""Kafka's own rules, bit for bit."""
