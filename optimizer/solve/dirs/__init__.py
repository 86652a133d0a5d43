"""Moves inside brokers: which replicas go to which log directory."""
