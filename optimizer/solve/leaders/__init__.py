"""Preferred leaders over chosen replicas."""
