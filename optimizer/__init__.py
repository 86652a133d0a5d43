"""Ballast: plans Kafka partition reassignments with a proven bound on the bytes that they move."""
